"""The draws as one Triton kernel for GPUs: the bits of `reference.py` in one launch instead of a hundred.

The kernel is compiled without fused multiply-add (`enable_fp_fusion=False`). Float64 additions, multiplications,
divisions and square roots are correctly rounded on every GPU; constants other than powers of two come from a table,
because Triton may read a float literal in a kernel as float32.
"""
# ruff: noqa: D103 (kernels)
# pyright: reportMissingImports=false, reportIndexIssue=false

from functools import lru_cache

import torch
import triton
import triton.language as tl
from torch import Tensor

from dpnotes.random.reference import (
    ANGLE_STEP,
    BITS,
    CENTRE,
    EIGHTH_TURN,
    LOG_SERIES,
    MINUS_TWO_LOG_TWO,
    MULTIPLIERS,
    SINE_SERIES,
    WEYL,
)

_CONSTANTS = (*LOG_SERIES[::-1], *SINE_SERIES[::-1], CENTRE, MINUS_TWO_LOG_TWO, ANGLE_STEP, EIGHTH_TURN, 2.0**-BITS)
_BLOCK = 256
_M0, _M1 = (tl.constexpr(word) for word in MULTIPLIERS)
_W0, _W1 = (tl.constexpr(word) for word in WEYL)


@triton.jit
def _join(high, low):
    return ((high << 20) | (low >> 12)).to(tl.int64)


@triton.jit
def _series(x, table, first: tl.constexpr, terms: tl.constexpr):
    total = tl.zeros_like(x) + tl.load(table + first)
    for term in tl.static_range(1, terms):
        total = total * x + tl.load(table + first + term)
    return total


@triton.jit
def _box_muller(radius_bits, angle_bits, table):
    value = radius_bits.to(tl.float64) + 0.5
    bits = value.to(tl.int64, bitcast=True)
    exponent = ((bits >> 52) - 1022).to(tl.float64)
    mantissa = ((bits & ((1 << 52) - 1)) | (1022 << 52)).to(tl.float64, bitcast=True)
    centre = tl.load(table + 19)
    s = (mantissa - centre) / (mantissa + centre)
    square = _series(s * s, table, 0, 10) * s + (exponent - 52.5) * tl.load(table + 20)
    radius = tl.sqrt(tl.where(square > 0.0, square, 0.0))
    angle = ((angle_bits & ((1 << 50) - 1)).to(tl.float64) + 0.5) * tl.load(table + 21) - tl.load(table + 22)
    sine = _series(angle * angle, table, 10, 9) * angle
    cosine = tl.sqrt(1.0 - sine * sine)
    radius = tl.where((angle_bits >> 50) & 1 != 0, radius, -radius)
    swap = (angle_bits >> 51) & 1 != 0
    return tl.where(swap, sine, cosine) * radius, tl.where(swap, cosine, sine) * radius


@triton.jit(do_not_specialize=["num_calls", "low", "high", "start", "count"])
def _kernel(keys, calls, num_calls, low, high, start, count, table, out, KIND: tl.constexpr, BLOCK: tl.constexpr):
    run = tl.program_id(1).to(tl.int64)
    block = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    c0 = (start + block).to(tl.uint64)
    c1 = tl.zeros_like(c0) + tl.load(calls + run % num_calls).to(tl.uint64)
    c2, c3 = tl.zeros_like(c0) + low.to(tl.uint64), tl.zeros_like(c0) + high.to(tl.uint64)
    k0, k1 = tl.load(keys + 2 * run).to(tl.uint64), tl.load(keys + 2 * run + 1).to(tl.uint64)
    word = tl.full((), 0xFFFFFFFF, tl.uint64)
    for _ in tl.static_range(10):
        product0, product1 = c0 * tl.full((), _M0, tl.uint64), c2 * tl.full((), _M1, tl.uint64)
        c0, c2 = (product1 >> 32) ^ c1 ^ k0, (product0 >> 32) ^ c3 ^ k1
        c1, c3 = product1 & word, product0 & word
        k0, k1 = (k0 + tl.full((), _W0, tl.uint64)) & word, (k1 + tl.full((), _W1, tl.uint64)) & word
    inside, place = block < count, run * count + block
    if KIND == "words":
        tl.store(out + 4 * place, c0.to(tl.int64), inside)
        tl.store(out + 4 * place + 1, c1.to(tl.int64), inside)
        tl.store(out + 4 * place + 2, c2.to(tl.int64), inside)
        tl.store(out + 4 * place + 3, c3.to(tl.int64), inside)
    else:
        first, second = _join(c0, c1), _join(c2, c3)
        if KIND == "normals":
            a, b = _box_muller(first, second, table)
        else:
            unit = tl.load(table + 23)
            a, b = (first.to(tl.float64) + 0.5) * unit, (second.to(tl.float64) + 0.5) * unit
        tl.store(out + 2 * place, a, inside)
        tl.store(out + 2 * place + 1, b, inside)


def words(keys: Tensor, calls: Tensor, purpose: tuple[int, int], start: int, count: int) -> Tensor:
    """The words of `reference.words`, to the bit."""
    return _filled("words", keys.new_empty(len(keys), count, 4), keys, calls, purpose, start)


def uniforms(keys: Tensor, calls: Tensor, purpose: tuple[int, int], start: int, count: int) -> Tensor:
    """The uniform numbers of `reference.uniforms`, to the bit."""
    out = keys.new_empty(len(keys), count, 2, dtype=torch.float64)
    return _filled("uniforms", out, keys, calls, purpose, start)


def normals(keys: Tensor, calls: Tensor, purpose: tuple[int, int], start: int, count: int) -> Tensor:
    """The normal numbers of `reference.normals`, to the bit."""
    out = keys.new_empty(len(keys), count, 2, dtype=torch.float64)
    return _filled("normals", out, keys, calls, purpose, start)


def _filled(kind: str, out: Tensor, keys: Tensor, calls: Tensor, purpose: tuple[int, int], start: int) -> Tensor:
    runs, count = out.shape[:2]
    # A dimension of the grid has at most 65,535 programs.
    for some in range(0, runs, 2**15):
        part = slice(some, some + 2**15)
        grid = triton.cdiv(count, _BLOCK), len(keys[part])
        calls_of = calls[part] if len(calls) > 1 else calls
        _kernel[grid](
            keys[part].contiguous(), calls_of.contiguous(), len(calls_of), *purpose, start, count, _table(keys.device),
            out[part], KIND=kind, BLOCK=_BLOCK, enable_fp_fusion=False,
        )  # fmt: skip
    return out


@lru_cache(maxsize=16)
def _table(device: torch.device) -> Tensor:
    return torch.tensor(_CONSTANTS, dtype=torch.float64, device=device)
