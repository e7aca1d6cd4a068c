"""The pretend device refuses, counts and rounds as CUDA does; faults planted in small programs are detected."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from pretend_device import PretendCuda
from torch import Tensor

Program = Callable[[Tensor], Any]


def run(program: Program, x: Tensor) -> tuple[Any, PretendCuda]:
    """Run a program on the device; return its result on the host, and the device with its counts."""
    with PretendCuda(__file__) as device:
        argument = x.to("cuda")
        device.reset()
        result = program(argument)
        counted = device.launches, device.waits, device.bytes
        result = result.cpu() if isinstance(result, Tensor) else result
    device.launches, device.waits, device.bytes = counted
    return result, device


REFUSED: dict[str, tuple[Program, type[Exception], str]] = {
    "a sum over two devices": (lambda x: x + torch.ones(3), RuntimeError, "same device"),
    "a mask of the host": (lambda x: torch.where(torch.ones(3).bool(), x, 0.0), RuntimeError, "same device"),
    "rows of the host by an index of the device": (lambda x: torch.ones(3)[x.long()], RuntimeError, "indices"),
    "an answer into the host's memory": (lambda x: torch.add(x, 1, out=torch.ones(3)), RuntimeError, "same device"),
    "numpy()": (lambda x: x.numpy(), TypeError, "to numpy"),
    "a generator of the host": (
        lambda x: torch.randn(3, device=x.device, generator=torch.Generator()),
        RuntimeError,
        "generator",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cuda_refuses_is_refused(what: str) -> None:
    program, error, message = REFUSED[what]
    with pytest.raises(error, match=message):
        run(program, torch.ones(3))


def newton(x: Tensor) -> Tensor:
    """Take two steps of Newton's method for a square root, selected by a mask."""
    y = torch.ones_like(x)  # 1 launch
    for _ in range(2):
        y = (y + x / y) * 0.5  # 3 launches each
    return y.view(1, -1)[:, :2]  # none


def test_launches_waits_and_bytes_of_a_known_program_are_counted_exactly() -> None:
    x = torch.rand(10, dtype=torch.float64)
    result, device = run(newton, x)
    assert torch.equal(result, newton(x))
    # 8 bytes per number: the argument of ones_like and its result; for each step 3 + 3 + 2 tensors.
    assert (device.launches, device.waits, device.bytes) == (7, 0, 8 * 10 * (2 + 2 * 8))

    def reads(x: Tensor) -> float:
        if bool((x > 2).any()):  # compare, reduce, copy; 1 wait
            return 0.0
        return x.sum().item()  # reduce, copy; 1 wait

    result, device = run(reads, x)
    assert result == x.sum().item() and (device.launches, device.waits) == (5, 2)
    assert sum(device.places["wait"].values()) == 2
    lines = [place.split()[0] for place in device.places["wait"]]
    first = reads.__code__.co_firstlineno
    assert sorted(lines) == [f":{first + 1}", f":{first + 3}"]  # the lines that caused them


WAITS: dict[str, tuple[Program, int]] = {
    "nothing": (lambda x: x * 2, 0),
    "an assertion on the device": (lambda x: torch.ops.aten._assert_async((x >= 0).all()), 0),
    "an index of the host": (lambda x: x[torch.tensor([0, 1])], 1),
    "rows by a mask": (lambda x: x[x > 0.5], 1),
    "a tensor from a list": (lambda x: torch.tensor([1.0], device=x.device), 1),
    "a copy that is not waited for": (lambda x: torch.ones(3).to(x.device, non_blocking=True), 0),
}


@pytest.mark.parametrize("what", WAITS)
def test_waits_of_the_host(what: str) -> None:
    program, waits = WAITS[what]
    assert run(program, torch.rand(3))[1].waits == waits


def test_division_by_a_number_is_a_product() -> None:
    x = torch.arange(1, 200, dtype=torch.float32)
    product = x * torch.tensor(7.0).reciprocal()
    assert not torch.equal(product, x / 7)
    for program in (lambda x: x / 7, lambda x: x.clone().div_(7), lambda x: x / torch.tensor(7.0)):
        assert torch.equal(run(program, x)[0], product)
    assert torch.equal(run(lambda x: x / torch.full_like(x, 7), x)[0], x / 7)
    assert torch.equal(run(lambda x: torch.div(x, 7, rounding_mode="floor"), x)[0], x // 7)
