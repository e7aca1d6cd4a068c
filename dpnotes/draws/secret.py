"""What secret streams draw: numbers of the operating system's generator, which nobody can draw again.

There is no key and no counter: every call draws afresh, in a fork too, and on a copy of the machine where the kernel
notices one. A uniform number is as fine as floating point is near both of its ends, so that a normal number (Box and
Muller's) is a real one but for rounding: no radius is so small or so large that few numbers have it.
"""

import os

import numpy as np
import torch
from torch import Tensor

_TOP = np.uint64(11)  # what is left of a word above these bits is exact in float64


def _bits(*shape: int) -> np.ndarray:
    return np.frombuffer(bytearray(os.urandom(8 * int(np.prod(shape)))), np.uint64).reshape(shape)


def _halves(*shape: int) -> np.ndarray:
    """Uniform numbers of (0, 1/2), float64, all 53 bits of each random however small it is.

    The number of zeros before the first one of a sequence of random bits is the exponent, the 52 bits after it are the
    fraction.
    """
    bits = _bits(int(np.prod(shape)))
    zeros = 53 - np.frexp((bits >> _TOP).astype(np.float64))[1].astype(np.int64)
    fraction = (bits << (zeros + 1).clip(0, 63).astype(np.uint64)) >> np.uint64(12)
    if len(few := np.flatnonzero(zeros > 11)):  # one in 4,096: the word has too few bits left for the fraction
        fraction[few] = _bits(len(few)) >> np.uint64(12)
    going_on = np.flatnonzero(bits >> _TOP == 0)
    while len(going_on):
        more = _bits(len(going_on)) >> _TOP
        zeros[going_on] += 53 - np.frexp(more.astype(np.float64))[1]
        going_on = going_on[more == 0]
    return np.ldexp(1 + fraction.astype(np.float64) * 2.0**-52, -(zeros + 2)).reshape(shape)


def words(num_runs: int, num_blocks: int, device: torch.device) -> Tensor:
    """32-bit words, `(runs, blocks, 4)` int64."""
    return torch.from_numpy(_bits(num_runs, num_blocks, 2).view(np.uint32).astype(np.int64)).to(device)


def uniforms(num_runs: int, num_blocks: int, device: torch.device) -> Tensor:
    """Uniform numbers of (0, 1), `(runs, blocks, 2)` float64."""
    half = _halves(num_runs, num_blocks, 2)
    upper = np.minimum(1 - half, 1 - 2.0**-53)
    return torch.from_numpy(np.where(_bits(num_runs, num_blocks, 2) & np.uint64(1), upper, half)).to(device)


def normals(num_runs: int, num_blocks: int, device: torch.device) -> Tensor:
    """Standard normal numbers, `(runs, blocks, 2)` float64.

    Example:
      >>> normals(1, 50_000, torch.device("cpu")).std().round(decimals=1)
      tensor(1., dtype=torch.float64)
    """
    half, turn = _halves(num_runs, num_blocks), _bits(num_runs, num_blocks)
    # The radius is that of a uniform number u, which is `half`, or 1 less it.
    radius = np.sqrt(-2 * np.where(turn & np.uint64(1), np.log(half), np.log1p(-half)))
    angle = (turn >> _TOP).astype(np.float64) * (2 * np.pi * 2.0**-53)
    return torch.from_numpy(np.stack([radius * np.cos(angle), radius * np.sin(angle)], -1)).to(device)
