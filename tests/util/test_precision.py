"""The settings under which a bound is enforced, whatever was set before, and their restoration."""

from collections.abc import Callable, Iterator

import pytest
import torch

from dpnotes.util.precision import deterministic_convolutions, full_precision, row_norms

CUDA, CPU, CONV = torch.backends.cuda.matmul, torch.backends.mkldnn.matmul, torch.backends.cudnn.conv  # type: ignore[attr-defined]


def allow(backend: object) -> Callable[[], None]:
    return lambda: setattr(backend, "fp32_precision", "tf32")


ALLOWED: dict[str, Callable[[], None]] = {
    "nothing": lambda: setattr(CONV, "fp32_precision", "ieee"),
    "convolutions": allow(CONV),
    "high": lambda: torch.set_float32_matmul_precision("high"),
    "medium": lambda: torch.set_float32_matmul_precision("medium"),
    "products, by the older setting": lambda: setattr(CUDA, "allow_tf32", True),
    "products": allow(CUDA),
}


def settings() -> tuple[str | bool, ...]:
    try:
        both = torch.get_float32_matmul_precision()
    except RuntimeError:
        both = "mixed"
    return both, CUDA.fp32_precision, CPU.fp32_precision, CONV.fp32_precision


@pytest.fixture(autouse=True)
def _as_it_was() -> Iterator[None]:
    usual = CONV.fp32_precision
    yield
    torch.set_float32_matmul_precision("highest")
    CUDA.fp32_precision = CPU.fp32_precision = "none"
    CONV.fp32_precision = usual


@pytest.mark.parametrize("what", ALLOWED)
def test_float32_is_float32_inside_and_the_users_choice_again_after_it(what: str) -> None:
    ALLOWED[what]()
    before = settings()
    assert ("tf32" in before) is (what != "nothing")
    with pytest.raises(ZeroDivisionError), full_precision():
        both, *each = settings()
        assert both == "highest" and set(each) <= {"ieee", "none"}
        assert not CUDA.allow_tf32, "torch asks this before a product, and refuses settings that differ"
        raise ZeroDivisionError
    assert settings() == before


def test_convolutions_are_as_they_were_after_an_error() -> None:
    with pytest.raises(ZeroDivisionError), deterministic_convolutions():
        assert torch.backends.cudnn.deterministic and not torch.backends.cudnn.benchmark
        raise ZeroDivisionError
    assert not torch.backends.cudnn.deterministic


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_small_numbers_beside_large_ones_are_not_lost(dtype: torch.dtype) -> None:
    """In float32 a square of 2^-24 vanishes beside 1, although a million of them are 1/256 of sixteen ones."""
    rows = torch.full((2, 2**20), 2.0**-12, dtype=dtype)
    rows[0, :: 2**16] = 1.0
    exact = rows.double().square().sum(1).sqrt()
    found = row_norms(rows)
    assert found.dtype == torch.promote_types(dtype, torch.float32)
    assert float((found / exact - 1).abs().max()) < 1e-6
    if dtype == torch.float32:
        assert float(rows.norm(dim=1)[0] / exact[0]) < 1 - 1e-4, "control"
