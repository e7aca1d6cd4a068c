"""Counter-based randomness: a draw is a function of (key of the run, purpose, call, element) and of nothing else.

The generator is Philox4x32-10 (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3",
SC 2011). The run's key is Philox's key; call, purpose and element are its counter, so no two draws share a stream,
whatever the batch, the mask or the chunk. Normals are Box and Muller's, evaluated with additions, multiplications
and square roots alone, each of which IEEE 754 rounds in one way: CPU and GPU give the same bits.

Two limits that matter for privacy. Philox is not cryptographic, and whoever holds the seed can subtract the
noise. The noise is a floating-point number, so the attacks of Mironov ("On significance of the least significant
bits for differential privacy", CCS 2012) apply to its last bits.
"""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from dpnotes import validate

_WORD = 0xFFFFFFFF
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)
_ROUNDS = 10

# Terms kept of the series of (logarithm, sine) on the reduced ranges of `_box_muller`: what they leave out is under
# 3e-9 for float32 and 3e-17 for float64.
_NUM_TERMS = {torch.float32: (5, 5), torch.float64: (10, 9)}


def philox(key: tuple[Tensor, Tensor], counter: tuple[Tensor, Tensor, Tensor, Tensor]) -> tuple[Tensor, ...]:
    """Philox4x32-10: four 32-bit words for each counter.

    Every word is an int64 tensor holding 32 bits; shapes broadcast.

    Args:
      key: two words.
      counter: four words.

    Returns:
      Four words of the broadcast shape, equal to Random123's for the same key and counter.
    """
    shape = torch.broadcast_shapes(*(word.shape for word in (*key, *counter)))
    (k0, k1), (c0, c1, c2, c3) = key, counter
    product0 = torch.empty(shape, dtype=torch.int64, device=c0.device)
    product1 = torch.empty_like(product0)
    for _ in range(_ROUNDS):
        torch.mul(c0.expand(shape), _MULTIPLIERS[0], out=product0)
        torch.mul(c2.expand(shape), _MULTIPLIERS[1], out=product1)
        # A 32 by 32 bit product wraps to a negative int64: masking after the shift gives its true high word.
        c0 = (product1 >> 32).bitwise_and_(_WORD).bitwise_xor_(c1).bitwise_xor_(k0)
        c2 = (product0 >> 32).bitwise_and_(_WORD).bitwise_xor_(c3).bitwise_xor_(k1)
        c1, c3 = product1 & _WORD, product0 & _WORD
        k0, k1 = (k0 + _WEYL[0]) & _WORD, (k1 + _WEYL[1]) & _WORD
    return c0, c1, c2, c3


def _words_of(text: str) -> tuple[int, int]:
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    return int.from_bytes(digest[:4], "little"), int.from_bytes(digest[4:], "little")


@dataclass(frozen=True)
class Streams:
    """Stateless randomness for a batch of runs.

    Args:
      keys: `(runs, 2)` int64, two 32-bit words a run. The key comes from what the run is (its spec), never from
        its place in the batch; `Streams.of` makes it.

    Example:
      >>> both = Streams.of("figure1", ["repeat 0", "repeat 1"])
      >>> alone = Streams.of("figure1", ["repeat 1"])
      >>> torch.equal(both.normal("noise", 7, 3)[1:], alone.normal("noise", 7, 3))
      True
    """

    keys: Tensor

    @staticmethod
    def of(seed: str | int, runs: Sequence[str | int], device: torch.device | str = "cpu") -> "Streams":
        """Keys from a seed and one name a run; equal names share every draw."""
        return Streams(torch.tensor([_words_of(f"{seed}/{name}") for name in runs], dtype=torch.int64, device=device))

    def __len__(self) -> int:
        return len(self.keys)

    def take(self, index: Tensor | slice) -> "Streams":
        """The streams of some of the runs."""
        return Streams(self.keys[index])

    def words(self, purpose: str, call: int | Tensor, num_blocks: int) -> Tensor:
        """Raw 32-bit words: `(4, runs, num_blocks)` int64, equal to the bit on every device.

        Args:
          purpose: what the draw is for; draws for different purposes are independent.
          call: which draw it is, one for all runs or `(runs,)`, at least 0.
          num_blocks: Philox blocks of four words.
        """
        device = self.keys.device
        calls = call if isinstance(call, Tensor) else torch.tensor(call)
        calls = calls.to(device, torch.int64).reshape(-1, 1)
        low, high = (torch.tensor(word, device=device) for word in _words_of(purpose))
        element = torch.arange(num_blocks, device=device)[None]
        return torch.stack(
            torch.broadcast_tensors(*philox((self.keys[:, :1], self.keys[:, 1:]), (element, calls, low, high)))
        )

    def uniform(self, purpose: str, call: int | Tensor, size: int, dtype: torch.dtype = torch.float64) -> Tensor:
        """Uniform numbers in the open interval (0, 1), shape `(runs, size)`; arguments as in `words`."""
        validate.at_least(1, size=size)
        if dtype == torch.float64:
            words = self.words(purpose, call, -(-size // 2))
            bits = _join(words[:2], words[2:])
            return ((bits.to(dtype) + 0.5) * 2.0**-52).permute(1, 2, 0).flatten(1)[:, :size]
        words = self.words(purpose, call, -(-size // 4))
        return (((words >> 9).to(dtype) + 0.5) * 2.0**-23).permute(1, 2, 0).flatten(1)[:, :size]

    def normal(self, purpose: str, call: int | Tensor, size: int, dtype: torch.dtype = torch.float64) -> Tensor:
        """Standard normal numbers, shape `(runs, size)`; arguments as in `words`.

        The radius of a float32 pair uses 32 bits (no number beyond 6.7), of a float64 pair 52 bits (8.5).
        """
        validate.at_least(1, size=size)
        if dtype == torch.float64:
            words = self.words(purpose, call, -(-size // 2))
            return _box_muller(_join(words[0], words[1]), _join(words[2], words[3]), 52, dtype).flatten(1)[:, :size]
        words = self.words(purpose, call, -(-size // 4))
        return _box_muller(words[:2], words[2:], 32, dtype).permute(1, 2, 0, 3).flatten(1)[:, :size]


def _join(high: Tensor, low: Tensor) -> Tensor:
    """52 uniform bits: with the half added later they stay exact in float64 and reach neither 0 nor 1."""
    return (high << 20) + (low >> 12)


def _series(x: Tensor, coefficients: Sequence[float]) -> Tensor:
    """Horner's rule, lowest order first; one rounding an operation, so the bits do not depend on the device."""
    total = torch.full_like(x, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        total = total.mul_(x).add_(coefficient)
    return total


def _box_muller(radius_bits: Tensor, angle_bits: Tensor, num_bits: int, dtype: torch.dtype) -> Tensor:
    """Two independent standard normals, stacked last, from two integers of `num_bits` uniform bits."""
    log_terms, sine_terms = _NUM_TERMS[dtype]
    # ln u for u = (bits + 1/2) 2^-num_bits: ln(mantissa) = ln(c) + 2 artanh(s), |s| <= 0.172 with c = sqrt(1/2).
    mantissa, exponent = torch.frexp(radius_bits.to(dtype).add_(0.5))
    centre = math.sqrt(0.5)
    s = (mantissa - centre).div_(mantissa.add_(centre))
    minus_two_log = _series(s * s, [-4 / (2 * k + 1) for k in range(log_terms)]).mul_(s)
    minus_two_log.add_((exponent.to(dtype) - (num_bits + 0.5)).mul_(-2 * math.log(2)))
    radius = minus_two_log.clamp_min_(0).sqrt_()
    # A point on the right quarter of the circle; two further bits choose among the four by swap and sign.
    angle = (angle_bits & (2 ** (num_bits - 2) - 1)).to(dtype).add_(0.5).mul_(2.0 ** (1 - num_bits) * math.pi)
    angle.sub_(math.pi / 4)
    sine = _series(angle * angle, [(-1) ** k / math.factorial(2 * k + 1) for k in range(sine_terms)]).mul_(angle)
    cosine = (1 - sine * sine).sqrt_()
    swap = (angle_bits & 2 ** (num_bits - 1)).bool()
    sign = (angle_bits & 2 ** (num_bits - 2)).to(dtype).mul_(2.0 ** (3 - num_bits)).sub_(1)
    radius.mul_(sign)
    first, second = torch.where(swap, sine, cosine), torch.where(swap, cosine, sine)
    return torch.stack([first.mul_(radius), second.mul_(radius)], dim=-1)
