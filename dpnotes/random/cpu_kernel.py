"""The draws as fused kernels for the CPU, compiled by numba: the bits of `reference.py`, a tenth of its time.

A kernel fills blocks `begin ... end - 1` of all runs, counted row by row, so that threads share the work whatever its
shape. Its inner loop has no branch and no call, so LLVM vectorises it; without `fastmath`, LLVM fuses no multiplication
with an addition. The threads are Python's, since kernels release the interpreter lock: numba's own threads abort in a
forked child or with two concurrent callers.

Importing this module compiles the kernels, or loads those that an earlier process compiled and cached on disk.
"""
# ruff: noqa: D103 (kernels; a comment above each group describes it)

import math
import os
from concurrent.futures import ThreadPoolExecutor
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

_BLOCKS_A_THREAD = 2**13  # below this, handing work to a thread costs more than it saves

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


@numba.njit(inline="always")
def _part(keys, calls, run, count, begin, end):
    one, last = max(begin - run * count, 0), min(end - run * count, count)
    return np.uint64(keys[run, 0]), np.uint64(keys[run, 1]), np.uint64(calls[run % len(calls)]), one, last


# ---------------------------------------------------------------- kernels
# keys (runs, 2), calls (runs,) or (1,), both words of the purpose, first block, out (flat), blocks a run, begin, end
_SIGNATURE = "void(int64[:,:], int64[:], int64, int64, int64, {}[::1], int64, int64, int64)"


@_compiled(_SIGNATURE.format("float64"), nogil=True, error_model="numpy")
def _normals(keys, calls, low, high, start, out, count, begin, end):
    for run in range(begin // count, (end + count - 1) // count):
        k0, k1, call, one, last = _part(keys, calls, run, count, begin, end)
        row = out[2 * (run * count + one) : 2 * (run * count + last)]
        for block in range(last - one):
            c0, c1, c2, c3 = _philox(k0, k1, np.uint64(start + one + block), call, np.uint64(low), np.uint64(high))
            row[2 * block], row[2 * block + 1] = _box_muller((c0 << _20) | (c1 >> _12), (c2 << _20) | (c3 >> _12))


@_compiled(_SIGNATURE.format("float64"), nogil=True, error_model="numpy")
def _uniforms(keys, calls, low, high, start, out, count, begin, end):
    for run in range(begin // count, (end + count - 1) // count):
        k0, k1, call, one, last = _part(keys, calls, run, count, begin, end)
        row = out[2 * (run * count + one) : 2 * (run * count + last)]
        for block in range(last - one):
            c0, c1, c2, c3 = _philox(k0, k1, np.uint64(start + one + block), call, np.uint64(low), np.uint64(high))
            row[2 * block] = _float((c0 << _20) | (c1 >> _12)) * _UNIT
            row[2 * block + 1] = _float((c2 << _20) | (c3 >> _12)) * _UNIT


@_compiled(_SIGNATURE.format("int64"), nogil=True, error_model="numpy")
def _words(keys, calls, low, high, start, out, count, begin, end):
    for run in range(begin // count, (end + count - 1) // count):
        k0, k1, call, one, last = _part(keys, calls, run, count, begin, end)
        row = out[4 * (run * count + one) : 4 * (run * count + last)]
        for block in range(last - one):
            c0, c1, c2, c3 = _philox(k0, k1, np.uint64(start + one + block), call, np.uint64(low), np.uint64(high))
            row[4 * block], row[4 * block + 1], row[4 * block + 2], row[4 * block + 3] = c0, c1, c2, c3


# ---------------------------------------------------------------- functions that `dpnotes.random.draws` calls
def words(keys: Tensor, calls: Tensor, purpose: tuple[int, int], start: int, count: int) -> Tensor:
    """The words of `reference.words`, to the bit."""
    return _filled(_words, np.empty((len(keys), count, 4), np.int64), keys, calls, purpose, start)


def uniforms(keys: Tensor, calls: Tensor, purpose: tuple[int, int], start: int, count: int) -> Tensor:
    """The uniform numbers of `reference.uniforms`, to the bit."""
    return _filled(_uniforms, np.empty((len(keys), count, 2)), keys, calls, purpose, start)


def normals(keys: Tensor, calls: Tensor, purpose: tuple[int, int], start: int, count: int) -> Tensor:
    """The normal numbers of `reference.normals`, to the bit."""
    return _filled(_normals, np.empty((len(keys), count, 2)), keys, calls, purpose, start)


def _filled(kernel: Any, out: np.ndarray, keys: Tensor, calls: Tensor, purpose: tuple[int, int], start: int) -> Tensor:
    total = out.shape[0] * out.shape[1]
    parts = min(torch.get_num_threads(), total // _BLOCKS_A_THREAD)
    arguments = keys.numpy(), calls.numpy(), *purpose, start, out.reshape(-1), out.shape[1]
    if parts <= 1:
        kernel(*arguments, 0, total)
    else:
        ends = [total * part // parts for part in range(parts + 1)]
        try:
            others = [_pool().submit(kernel, *arguments, *ends[i : i + 2]) for i in range(1, parts)]
        except RuntimeError:  # at the interpreter's exit no thread is started any more
            others, ends = [], [0, total]
        kernel(*arguments, *ends[:2])
        for other in others:
            other.result()
    return torch.from_numpy(out)


_pools: dict[int, ThreadPoolExecutor] = {}


def _pool() -> ThreadPoolExecutor:
    """The thread pool of this process: a forked child does not inherit its parent's threads."""
    process = os.getpid()
    if process not in _pools:
        _pools.setdefault(process, ThreadPoolExecutor(os.cpu_count(), "dpnotes draws"))
    return _pools[process]
