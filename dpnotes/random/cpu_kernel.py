"""The draws as fused kernels for the CPU, compiled by numba: the bits of `reference.py`, a tenth of its time.

A kernel fills the blocks of all runs, row by row, on one thread. Its inner loop has no branch and no call, so LLVM
vectorises it; without `fastmath`, LLVM fuses no multiplication with an addition.

Importing this module compiles the kernels, or loads those that an earlier process compiled and cached on disk.
"""
# ruff: noqa: D103 (kernels; a comment above each group describes it)

import math
from typing import Any

import numba
import numpy as np
import torch
from torch import Tensor

from dpnotes.random.reference import (
    ANGLE_STEP,
    BITS,
    CENTRE,
    EIGHTH_TURN,
    LOG_SERIES,
    MINUS_TWO_LOG_TWO,
    MULTIPLIERS,
    ROUNDS,
    SINE_SERIES,
    WEYL,
    WORD,
)

# One name per constant, so that the compiler sees numbers.
_M0, _M1 = (np.uint64(word) for word in MULTIPLIERS)
_W0, _W1 = (np.uint64(word) for word in WEYL)
_WORD, _12, _20, _32 = np.uint64(WORD), np.uint64(12), np.uint64(20), np.uint64(32)
_SIGN, _SWAP, _ANGLE = np.uint64(2 ** (BITS - 2)), np.uint64(2 ** (BITS - 1)), np.uint64(2 ** (BITS - 2) - 1)
_FRACTION, _HALF = np.int64(2**52 - 1), np.int64(1022 << 52)  # of a float64: fraction bits, and the exponent of 1/2
_UNIT = 2.0**-BITS


def _compiled(signature: str, **options: Any) -> Any:
    """A decorator like `numba.njit` that caches compiled code on the disk where this is possible."""

    def decorate(function: Any) -> Any:
        try:
            return numba.njit(signature, cache=True, **options)(function)
        except (RuntimeError, OSError):  # no folder to write to, or a full one
            return numba.njit(signature, **options)(function)

    return decorate


# ---------------------------------------------------------------- one block
@numba.njit(inline="always")
def _philox(k0, k1, element, call, low, high):
    c0, c1, c2, c3 = element, call, low, high
    for _ in range(ROUNDS):
        product0, product1 = c0 * _M0, c2 * _M1
        c0 = (product1 >> _32) ^ c1 ^ k0
        c2 = (product0 >> _32) ^ c3 ^ k1
        c1, c3 = product1 & _WORD, product0 & _WORD
        k0, k1 = (k0 + _W0) & _WORD, (k1 + _W1) & _WORD
    return c0, c1, c2, c3


@numba.njit(inline="always")
def _float(bits):
    return np.float64(np.int64(bits)) + 0.5


@numba.njit(inline="always")
def _series(coefficients, x):
    total = coefficients[-1]
    for place in range(len(coefficients) - 2, -1, -1):
        total = total * x + coefficients[place]
    return total


@numba.njit(inline="always")
def _box_muller(radius_bits, angle_bits):
    # frexp by bit operations, valid since the argument is at least 0.5.
    bits = np.float64(_float(radius_bits)).view(np.int64)
    exponent = (bits >> np.int64(52)) - np.int64(1022)
    half = (bits & _FRACTION) | _HALF
    mantissa = np.int64(half).view(np.float64)
    s = (mantissa - CENTRE) / (mantissa + CENTRE)
    square = _series(LOG_SERIES, s * s) * s + (np.float64(exponent) - (BITS + 0.5)) * MINUS_TWO_LOG_TWO
    radius = math.sqrt(square if square > 0.0 else 0.0)
    angle = _float(angle_bits & _ANGLE) * ANGLE_STEP - EIGHTH_TURN
    sine = _series(SINE_SERIES, angle * angle) * angle
    cosine = math.sqrt(1.0 - sine * sine)
    radius = radius if (angle_bits & _SIGN) != 0 else -radius
    swap = (angle_bits & _SWAP) != 0
    return (sine if swap else cosine) * radius, (cosine if swap else sine) * radius


# ---------------------------------------------------------------- kernels
# keys (runs, 2), calls (runs,) or (1,), both words of the purpose, first block, out (runs, numbers)
_SIGNATURE = "void(int64[:,:], int64[:], int64, int64, int64, {}[:,::1])"


@_compiled(_SIGNATURE.format("float64"), error_model="numpy")
def _normals(keys, calls, low, high, start, out):
    for run in range(len(out)):
        k0, k1, call = np.uint64(keys[run, 0]), np.uint64(keys[run, 1]), np.uint64(calls[run % len(calls)])
        row = out[run]
        for block in range(len(row) // 2):
            c0, c1, c2, c3 = _philox(k0, k1, np.uint64(start + block), call, np.uint64(low), np.uint64(high))
            row[2 * block], row[2 * block + 1] = _box_muller((c0 << _20) | (c1 >> _12), (c2 << _20) | (c3 >> _12))


@_compiled(_SIGNATURE.format("float64"), error_model="numpy")
def _uniforms(keys, calls, low, high, start, out):
    for run in range(len(out)):
        k0, k1, call = np.uint64(keys[run, 0]), np.uint64(keys[run, 1]), np.uint64(calls[run % len(calls)])
        row = out[run]
        for block in range(len(row) // 2):
            c0, c1, c2, c3 = _philox(k0, k1, np.uint64(start + block), call, np.uint64(low), np.uint64(high))
            row[2 * block] = _float((c0 << _20) | (c1 >> _12)) * _UNIT
            row[2 * block + 1] = _float((c2 << _20) | (c3 >> _12)) * _UNIT


@_compiled(_SIGNATURE.format("int64"), error_model="numpy")
def _words(keys, calls, low, high, start, out):
    for run in range(len(out)):
        k0, k1, call = np.uint64(keys[run, 0]), np.uint64(keys[run, 1]), np.uint64(calls[run % len(calls)])
        row = out[run]
        for block in range(len(row) // 4):
            c0, c1, c2, c3 = _philox(k0, k1, np.uint64(start + block), call, np.uint64(low), np.uint64(high))
            row[4 * block], row[4 * block + 1], row[4 * block + 2], row[4 * block + 3] = c0, c1, c2, c3


# ---------------------------------------------------------------- functions that `dpnotes.random.draws` calls
def words(keys: Tensor, calls: Tensor, purpose: tuple[int, int], start: int, count: int) -> Tensor:
    """The words of `reference.words`, to the bit."""
    return _filled(_words, torch.empty(len(keys), 4 * count, dtype=torch.int64), keys, calls, purpose, start, 4)


def uniforms(keys: Tensor, calls: Tensor, purpose: tuple[int, int], start: int, count: int) -> Tensor:
    """The uniform numbers of `reference.uniforms`, to the bit."""
    return _filled(_uniforms, torch.empty(len(keys), 2 * count, dtype=torch.float64), keys, calls, purpose, start, 2)


def normals(keys: Tensor, calls: Tensor, purpose: tuple[int, int], start: int, count: int) -> Tensor:
    """The normal numbers of `reference.normals`, to the bit."""
    return _filled(_normals, torch.empty(len(keys), 2 * count, dtype=torch.float64), keys, calls, purpose, start, 2)


def _filled(
    kernel: Any, out: Tensor, keys: Tensor, calls: Tensor, purpose: tuple[int, int], start: int, width: int
) -> Tensor:
    kernel(keys.numpy(), calls.numpy(), *purpose, start, out.numpy())
    return out.unflatten(1, (-1, width))
