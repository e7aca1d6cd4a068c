"""The draws of secret streams: numbers from the operating system's generator, which nobody can draw again.

There is no key and no counter: every call draws afresh, also in a forked process, and on a copy of the machine if the
kernel notices the copy. A uniform number has all 53 bits however near it is to 0 or 1, so normal and Laplace numbers
are exact samples up to rounding. `rounded` has no such rounding: it returns the nearest whole number to
`offset + scale * noise` for real-valued noise, as with infinitely many digits (docs/derivations/rounded_noise.md).
"""

import os
from typing import Literal

import numpy as np
import torch
from torch import Tensor

Noise = Literal["normal", "laplace"]

_TOP = np.uint64(11)  # a word shifted right by these bits is exact in float64
# The largest error of a noise number, in standard deviations or scales: docs/derivations/rounded_noise.md.
ERROR = 2.0**-40
_MORE = 256  # further random bits of a number whose rounding float64 leaves open


def _bits(*shape: int) -> np.ndarray:
    return np.frombuffer(bytearray(os.urandom(8 * int(np.prod(shape)))), np.uint64).reshape(shape)


def _halves(count: int) -> np.ndarray:
    """Uniform numbers in (0, 1/2), float64, truncated to 53 significant bits however small they are.

    The number of zeros before the first one of a sequence of random bits is the exponent, the 52 bits after it are the
    fraction.
    """
    bits = _bits(count)
    zeros = 53 - np.frexp((bits >> _TOP).astype(np.float64))[1].astype(np.int64)
    fraction = (bits << (zeros + 1).clip(0, 63).astype(np.uint64)) >> np.uint64(12)
    if len(few := np.flatnonzero(zeros > 11)):  # one in 4,096: the word has too few bits left for the fraction
        fraction[few] = _bits(len(few)) >> np.uint64(12)
    going_on = np.flatnonzero(bits >> _TOP == 0)
    while len(going_on):
        more = _bits(len(going_on)) >> _TOP
        zeros[going_on] += 53 - np.frexp(more.astype(np.float64))[1]
        going_on = going_on[more == 0]
    return np.ldexp(1 + fraction.astype(np.float64) * 2.0**-52, -(zeros + 2))


class _Drawn:
    """Noise numbers in float64, together with the random bits that they were computed from.

    A number is computed from a uniform number u, which is `half` or `1 - half`, and from a word that holds a sign and,
    for normal numbers, the angle. A pair of normal numbers shares both (Box and Muller).
    """

    def __init__(self, noise: Noise, count: int) -> None:
        self.noise, pairs = noise, -(-count // 2) if noise == "normal" else count
        self.half, self.word = _halves(pairs), _bits(pairs)
        self.upper = self.word & np.uint64(1) == 0
        length = -np.where(self.upper, np.log1p(-self.half), np.log(self.half))
        if noise == "laplace":
            self.numbers = np.where(self.word & np.uint64(2), length, -length)
            return
        angle = (self.word >> _TOP).astype(np.float64) * (2 * np.pi * 2.0**-53)
        radius, both = np.sqrt(2 * length), np.empty((pairs, 2))
        np.multiply(radius, np.cos(angle), out=both[:, 0])
        np.multiply(radius, np.sin(angle), out=both[:, 1])
        self.numbers = both.reshape(-1)[:count]

    def nearest(self, places: np.ndarray, offsets: np.ndarray, scales: np.ndarray) -> list[int]:
        """The whole numbers nearest to `offset + scale * noise` at these places, computed with further random bits."""
        from mpmath import mp

        continued: dict[int, tuple[int, int]] = {}
        found, own = [], 2 if self.noise == "normal" else 1
        with mp.workprec(4 * _MORE):
            for place, offset, scale in zip(places.tolist(), offsets.tolist(), scales.tolist(), strict=True):
                pair = place // own
                if pair not in continued:
                    continued[pair] = tuple(int.from_bytes(os.urandom(_MORE // 8)) for _ in range(2))  # type: ignore[assignment]
                first, second = (mp.mpf(more) / 2**_MORE for more in continued[pair])
                half = mp.mpf(float(self.half[pair]))
                half += first * mp.mpf(2) ** (mp.frexp(half)[1] - 53)
                length = -mp.log(1 - half if self.upper[pair] else half)
                if self.noise == "laplace":
                    number = length if self.word[pair] & np.uint64(2) else -length
                else:
                    angle = 2 * mp.pi * (int(self.word[pair] >> _TOP) + second) / 2**53
                    number = mp.sqrt(2 * length) * (mp.sin(angle) if place % 2 else mp.cos(angle))
                found.append(int(mp.floor(mp.mpf(offset) + mp.mpf(scale) * number + 0.5)))
        return found


def rounded(noise: Noise, offset: Tensor, scale: Tensor) -> Tensor:
    """The nearest whole numbers to `offset + scale * noise`, `(runs, size)` float64, for real-valued noise.

    Where float64 leaves two whole numbers possible, once in some 10^8 numbers at 2^11 steps per standard deviation, the
    number is computed with more random bits and digits: the chance that they do not decide either is below 2^-200.

    Args:
      noise: standard normal, or Laplace of scale 1.
      offset: `(runs, size)` float64, in [-1/2, 1/2].
      scale: `(runs,)` float64, at most 2^32.

    Example:
      >>> noisy = rounded("normal", torch.zeros(1, 50_000, dtype=torch.float64), torch.tensor([4096.0]).double())
      >>> bool((noisy == noisy.round()).all()), bool(noisy.std() / 4096 > 0.9)
      (True, True)
    """
    drawn = _Drawn(noise, offset.numel())
    above = (
        torch.from_numpy(drawn.numbers).to(offset.device).view(offset.shape).mul_(scale[:, None]).add_(offset).add_(0.5)
    )
    nearest = above.floor()
    unclear = above.sub_(nearest).sub_(0.5).abs_() >= 0.5 - ERROR * scale[:, None]  # near a whole number and a half
    if bool(unclear.any()):
        row = unclear.nonzero()[:, 0]
        places = unclear.flatten().nonzero()[:, 0].cpu().numpy()
        exact = drawn.nearest(places, offset[unclear].cpu().numpy(), scale[row].cpu().numpy())
        nearest[unclear] = torch.tensor(exact, dtype=torch.float64, device=nearest.device)
    return nearest


def words(num_runs: int, num_blocks: int, device: torch.device) -> Tensor:
    """Random 32-bit words, `(runs, blocks, 4)` int64."""
    return torch.from_numpy(_bits(num_runs, num_blocks, 2).view(np.uint32).astype(np.int64)).to(device)


def uniforms(num_runs: int, num_blocks: int, device: torch.device) -> Tensor:
    """Uniform numbers in (0, 1), `(runs, blocks, 2)` float64."""
    half = _halves(num_runs * num_blocks * 2)
    upper = np.minimum(1 - half, 1 - 2.0**-53)
    drawn = np.where(_bits(len(half)) & np.uint64(1), upper, half)
    return torch.from_numpy(drawn.reshape(num_runs, num_blocks, 2)).to(device)


def normals(num_runs: int, num_blocks: int, device: torch.device) -> Tensor:
    """Standard normal numbers, `(runs, blocks, 2)` float64.

    Example:
      >>> normals(1, 50_000, torch.device("cpu")).std().round(decimals=1)
      tensor(1., dtype=torch.float64)
    """
    drawn = _Drawn("normal", num_runs * num_blocks * 2).numbers
    return torch.from_numpy(drawn.reshape(num_runs, num_blocks, 2)).to(device)
