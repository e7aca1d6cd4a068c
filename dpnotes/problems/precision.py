"""The arithmetic of a GPU inside a computation: float32 that is float32, and sums in one order."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

_KERNELS = "deterministic", "benchmark"


@contextmanager
def full_precision() -> Iterator[None]:
    """Products of float32 numbers are rounded as float32 inside, whatever the user allows outside.

    TensorFloat-32, which torch allows in convolutions unless told otherwise, rounds factors to 11 bits: a clipped sum
    would be longer than the norms that it was clipped by. `torch.set_float32_matmul_precision` may allow it, or
    bfloat16, in matrix products. As a decorator it holds for a call.

    Example:
      >>> with full_precision():
      ...     torch.backends.cudnn.conv.fp32_precision
      'ieee'
    """
    products = torch.backends.cuda.matmul, torch.backends.mkldnn.matmul
    reduced = [b for b in (*products, torch.backends.cudnn.conv) if b.fp32_precision in ("tf32", "bf16")]  # type: ignore[attr-defined]
    before, legacy = [backend.fp32_precision for backend in reduced], None
    if any(backend in products for backend in reduced):
        # Both interfaces to products are set together: torch refuses a product where they differ.
        try:
            legacy = torch.get_float32_matmul_precision()
        except RuntimeError:  # only `fp32_precision` was set, which this older setting does not know
            legacy = "highest"
        torch.set_float32_matmul_precision("highest")
    for backend in reduced:
        backend.fp32_precision = "ieee"
    try:
        yield
    finally:
        if legacy is not None:
            torch.set_float32_matmul_precision(legacy)
        for backend, precision in zip(reduced, before, strict=True):
            backend.fp32_precision = precision


@contextmanager
def deterministic_convolutions() -> Iterator[None]:
    """Inside, cuDNN adds in an order that does not change from run to run, so that equal passes give equal bits.

    Example:
      >>> with deterministic_convolutions():
      ...     torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark
      (True, False)
    """
    before = {name: getattr(torch.backends.cudnn, name) for name in _KERNELS}
    torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark = True, False
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(torch.backends.cudnn, name, value)
