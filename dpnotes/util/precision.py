"""Control of floating-point arithmetic: full float32 products, a fixed order of sums, and accurate norms."""

import math
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

_MANY = 1024  # up to this length, float32 sums of squares are accurate enough
_KERNELS, _REDUCED = ("deterministic", "benchmark"), ("tf32", "bf16")


@contextmanager
def full_precision() -> Iterator[None]:
    """A context in which float32 products are computed in full float32, whatever the user's settings.

    TensorFloat-32, which torch uses in convolutions by default, rounds factors to 11 bits: a clipped sum could then be
    longer than its bound, which comes from norms computed separately. `torch.set_float32_matmul_precision` may allow
    TensorFloat-32 or bfloat16 in matrix products. As a decorator, the context covers each call.

    Example:
      >>> with full_precision():
      ...     torch.backends.cudnn.conv.fp32_precision
      'ieee'
    """
    products = torch.backends.cuda.matmul, torch.backends.mkldnn.matmul  # type: ignore[attr-defined]
    convolutions = torch.backends.cudnn.conv  # type: ignore[attr-defined]
    touched = [*products] if any(backend.fp32_precision in _REDUCED for backend in products) else []
    touched += [convolutions] if convolutions.fp32_precision in _REDUCED else []
    before, older = [backend.fp32_precision for backend in touched], None
    if products[0] in touched:
        # Torch's old and new settings of matrix products are changed together: it refuses products if they differ.
        try:
            older = torch.get_float32_matmul_precision()
        except RuntimeError:  # only `fp32_precision` was set, which the old setting cannot express
            older = "highest"
        torch.set_float32_matmul_precision("highest")
    for backend in touched:
        backend.fp32_precision = "ieee"
    try:
        yield
    finally:
        if older is not None:
            torch.set_float32_matmul_precision(older)
        for backend, precision in zip(touched, before, strict=True):
            backend.fp32_precision = precision


@contextmanager
def deterministic_convolutions() -> Iterator[None]:
    """A context in which cuDNN uses deterministic kernels, so that equal passes give equal bits.

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


def flushed(weights: Tensor) -> Tensor:
    """Clipping weights with subnormal numbers set to 0.

    A subnormal number may be up to twice the number that it was rounded from, and a gradient of norm 1e38 that is
    clipped with such a weight may be up to twice as long as its bound.

    Args:
      weights: at least 0, of any shape.

    Example:
      >>> flushed(torch.tensor([1.0, 1e-38, 1e-44]))  # float32's least number with all bits is 1.2e-38
      tensor([1., 0., 0.])
    """
    return nn.functional.threshold(weights, torch.finfo(weights.dtype).tiny, 0.0)  # a single kernel


def row_norms(rows: Tensor) -> Tensor:
    """The Euclidean norms along the last axis, in float32 or wider, with a relative error of a few millionths.

    Torch adds squares of float32 numbers in a few partial sums, in which many small squares are lost beside a large
    one: for rows of 2^20 numbers up to 0.4% of the norm, so that clipping would leave them too long. Rows of more than
    1,024 numbers, and all rows on a GPU, are summed in float64. Squares of float32 numbers below 1e-19 lose digits and
    those above 1e19 overflow: rows with such norms are scaled by a power of two, and their norm is computed again.

    Args:
      rows: `(..., numbers)`.

    Returns:
      `(...)`.

    Example:
      >>> row = torch.full((2**20,), 2.0**-12)
      >>> row[::2**17] = 1.0
      >>> round(float(row_norms(row) / row.double().norm()), 6)
      1.0
      >>> row_norms(torch.tensor([[3e-30, 4e-30], [3e30, 4e30]]))
      tensor([5.0000e-30, 5.0000e+30])
    """
    wide = torch.promote_types(rows.dtype, torch.float32)
    added = torch.float64 if rows.shape[-1] > _MANY or not rows.is_cpu else wide

    def norm(of: Tensor) -> Tensor:
        return torch.linalg.vector_norm(of, dim=-1, dtype=added).to(wide)

    norms, limits = norm(rows), torch.finfo(wide)
    if added != wide:
        return norms
    low, high = norms < limits.tiny**0.375, norms > limits.tiny**-0.375
    lost = low | high if rows.is_cpu else ...  # asking for a number would make the host wait for the GPU
    if isinstance(lost, Tensor) and not bool(lost.any()):
        return norms
    # Powers of two that scale all such small or large numbers into the range where squares are accurate.
    bits, factor = -math.log2(limits.tiny), torch.ones_like(norms)
    factor.masked_fill_(low, 2.0 ** round(0.8 * bits)).masked_fill_(high, 2.0 ** round(-0.56 * bits))
    norms[lost] = norm(rows[lost] * factor[lost][..., None]) / factor[lost]
    return norms
