"""Counter-based randomness: a draw is a function of (key of the run, purpose, call, element) and of nothing else.

The generator is Philox4x32-10 (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3",
SC 2011). The run's key is Philox's key; call, purpose and element are its counter, so no two draws share a stream,
whatever the batch, the mask or the chunk. Normals are Box and Muller's, evaluated with additions, multiplications,
divisions and square roots alone, each of which IEEE 754 rounds in one way, so that CPU and GPU agree to the bit.

Whoever holds the seed can draw the noise again and subtract it. A run that anyone can repeat is a demonstration, and
its epsilon is the mechanism's, not the file's. `Streams.secure` takes keys from the operating system, which are in no
file afterwards, so such a run cannot be repeated.

Two limits remain. Philox is not cryptographic, and its keys have 64 bits. The noise is a floating-point number: not
every real number can come out, and which ones can depends on the exact answer, which is what the attack of Mironov ("On
significance of the least significant bits for differential privacy", CCS 2012) reads. Guarantees are for real numbers.
More of this stands in docs/privacy.md.
"""

import hashlib
import json
import math
import secrets
from collections.abc import Sequence
from numbers import Integral
from typing import Any, final

import torch
from torch import Tensor

from dpnotes import validate

_WORD = 0xFFFFFFFF
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)
_ROUNDS = 10
_BITS = 52  # of a uniform number


def philox(key: tuple[Tensor, Tensor], counter: tuple[Tensor, Tensor, Tensor, Tensor]) -> tuple[Tensor, ...]:
    """Philox4x32-10: four 32-bit words for each counter.

    Every word is an int64 tensor holding 32 bits; shapes broadcast.

    Args:
      key: two words.
      counter: four words.

    Returns:
      Four words of the broadcast shape, equal to Random123's for the same key and counter.
    """
    k0, k1 = key
    c0, c1, c2, c3 = torch.broadcast_tensors(*counter, *key)[:4]  # `broadcast_shapes` takes 30 times as long
    for _ in range(_ROUNDS):
        product0, product1 = c0 * _MULTIPLIERS[0], c2 * _MULTIPLIERS[1]
        # A product of two words may wrap to a negative int64: the mask gives its true high word. The low words are
        # the products themselves; what stands above 32 bits in them is masked where they are next used.
        c0 = (product1 >> 32).bitwise_xor_(c1).bitwise_xor_(k0).bitwise_and_(_WORD)
        c2 = (product0 >> 32).bitwise_xor_(c3).bitwise_xor_(k1).bitwise_and_(_WORD)
        c1, c3 = product1, product0
        k0, k1 = (k0 + _WEYL[0]) & _WORD, (k1 + _WEYL[1]) & _WORD
    return c0, c1 & _WORD, c2, c3 & _WORD


def _words_of(text: str) -> tuple[int, int]:
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    return int.from_bytes(digest[:4], "little"), int.from_bytes(digest[4:], "little")


def _json(name: str, value: str | int) -> str:
    """A text or a whole number as JSON; what only looks like one of them (True, 1.0) is refused."""
    if isinstance(value, bool) or not isinstance(value, str | Integral):
        raise TypeError(f"Expected {name}={value!r} to be a text or a whole number.")
    return json.dumps(value if isinstance(value, str) else int(value))


@final
class Streams:
    """Stateless randomness for a batch of runs.

    It is no dataclass: `dataclasses.asdict` would copy secret keys, and `dataclasses.replace` call them public.

    Args:
      keys: `(runs, 2)` int64, two 32-bit words a run. The key comes from what the run is (its spec), never from
        its place in the batch; `Streams.of` makes it.
      secret: the keys came from the operating system. Such streams hide them, and cannot be stored or sent to another
        process; a guarantee may assume that the seed is secret (`guarantees.SEED_IS_SECRET`), which it may not of
        others (`guarantees.SEED_IS_PUBLIC`).

    Raises:
      ValueError: for keys of another type or shape.

    Example:
      >>> both = Streams.of("figure1", ["repeat 0", "repeat 1"])
      >>> alone = Streams.of("figure1", ["repeat 1"])
      >>> torch.equal(both.normal("noise", 7, 3)[1:], alone.normal("noise", 7, 3))
      True
    """

    __slots__ = ("_keys", "_secret")

    def __init__(self, keys: Tensor, secret: bool = False) -> None:
        if keys.dtype != torch.int64 or keys.dim() != 2 or keys.shape[1] != 2:
            raise ValueError(f"Expected keys, {keys.dtype} of shape {tuple(keys.shape)}, to be int64 of (runs, 2).")
        self._keys, self._secret = keys & _WORD, secret  # Philox sees 32 bits a word: what is compared is what is used

    @property
    def keys(self) -> Tensor:
        """`(runs, 2)` int64; who has them draws the noise again."""
        return self._keys

    @property
    def secret(self) -> bool:
        """Whether the keys came from the operating system."""
        return self._secret

    @staticmethod
    def of(seed: str | int, runs: Sequence[str | int], device: torch.device | str = "cpu") -> "Streams":
        """Keys from a seed and one name a run; equal names share every draw.

        The key is the hash of the pair as JSON, so no two pairs of seed and name are written alike: the number 1 is not
        the text "1", and a seed "a/b" with the name "c" is not "a" with "b/c".

        Args:
          seed: a text or a whole number.
          runs: names, texts or whole numbers.
          device: where the keys are, and what is drawn from them.

        Raises:
          TypeError: for a seed or a name of another type, truth values and floats included.

        Example:
          >>> torch.equal(Streams.of(0, [1]).keys, Streams.of(0, ["1"]).keys)
          False
          >>> Streams.of(0, [1.0])
          Traceback (most recent call last):
          TypeError: Expected run=1.0 to be a text or a whole number.
        """
        start = _json("seed", seed)
        words = [_words_of(f"[{start}, {_json('run', name)}]") for name in runs]
        return Streams(torch.tensor(words, dtype=torch.int64, device=device).reshape(-1, 2))

    @staticmethod
    def secure(num_runs: int, device: torch.device | str = "cpu") -> "Streams":
        """Keys from the operating system's generator, different at every call.

        Args:
          num_runs: at least 1.
          device: where the keys are, and what is drawn from them.

        Example:
          >>> Streams.secure(2)
          Streams(<secret>, runs=2)
        """
        validate.at_least(1, num_runs=num_runs)
        words = [[secrets.randbits(32), secrets.randbits(32)] for _ in range(num_runs)]
        return Streams(torch.tensor(words, dtype=torch.int64, device=device), secret=True)

    def __repr__(self) -> str:
        return f"Streams({'<secret>' if self.secret else self.keys.tolist()}, runs={len(self)})"

    def __reduce__(self) -> Any:
        if self.secret:
            raise TypeError("Expected streams with a seed: secret keys are not stored; a resumed run gets fresh ones.")
        return Streams, (self.keys,)

    def __len__(self) -> int:
        return len(self.keys)

    def take(self, index: Tensor | slice) -> "Streams":
        """The streams of some of the runs."""
        return Streams(self.keys[index], self.secret)

    def words(self, purpose: str, call: int | Tensor, num_blocks: int) -> tuple[Tensor, ...]:
        """Raw 32-bit words: four `(runs, num_blocks)` int64 tensors, equal to the bit on every device.

        Args:
          purpose: what the draw is for; draws for different purposes are independent.
          call: which draw it is, one for all runs or `(runs,)`, from 0 to 2^32 - 1.
          num_blocks: Philox blocks of four words.

        Raises:
          TypeError: for a call that is no whole number, truth values included.
          ValueError: for a call outside this range, which would share its stream with another, or calls that are not
            one a run.
        """
        device = self.keys.device
        if isinstance(call, bool) or not isinstance(call, Integral | Tensor):
            raise TypeError(f"Expected call={call!r} to be a whole number or a tensor of them.")
        calls = call if isinstance(call, Tensor) else torch.tensor(int(call))
        if calls.is_floating_point() or calls.is_complex() or calls.dtype == torch.bool:
            raise TypeError(f"Expected call to be a tensor of whole numbers, got {calls.dtype}.")
        calls = calls.to(device, torch.int64).reshape(-1, 1)
        if len(calls) not in (1, len(self)):
            raise ValueError(f"Expected one call, or one for each of {len(self)} runs, got {len(calls)}.")
        if bool((calls >> 32).any()):
            wrong = calls[(calls >> 32) != 0][0].item()
            raise ValueError(f"Expected 0 <= call={wrong} < 2^32.")
        low, high = (torch.tensor(word, device=device) for word in _words_of(purpose))
        element = torch.arange(num_blocks, device=device)[None]
        return philox((self.keys[:, :1], self.keys[:, 1:]), (element, calls, low, high))

    def uniform(self, purpose: str, call: int | Tensor, size: int) -> Tensor:
        """Uniform numbers in the open interval (0, 1), `(runs, size)` float64; arguments as in `words`."""
        validate.at_least(1, size=size)
        w0, w1, w2, w3 = self.words(purpose, call, -(-size // 2))
        bits = torch.stack([_join(w0, w1), _join(w2, w3)], dim=-1).flatten(1)[:, :size]
        return (bits.to(torch.float64) + 0.5) * 2.0**-_BITS

    def normal(self, purpose: str, call: int | Tensor, size: int) -> Tensor:
        """Standard normal numbers, `(runs, size)` float64; arguments as in `words`.

        Always float64, whatever it is added to: add first, then round. With fewer bits the squares of a pair lie on
        so few rings that a reader of the noisy answer can tell which answers are possible.
        """
        validate.at_least(1, size=size)
        w0, w1, w2, w3 = self.words(purpose, call, -(-size // 2))
        return _box_muller(_join(w0, w1), _join(w2, w3)).flatten(1)[:, :size]


def _join(high: Tensor, low: Tensor) -> Tensor:
    """52 uniform bits: with the half added later they stay exact in float64 and reach neither 0 nor 1."""
    return (high << 20) + (low >> 12)


def _series(x: Tensor, coefficients: Sequence[float]) -> Tensor:
    """Horner's rule, lowest order first; one rounding an operation, so the bits do not depend on the device."""
    total = torch.full_like(x, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        total = total.mul_(x).add_(coefficient)
    return total


def _box_muller(radius_bits: Tensor, angle_bits: Tensor) -> Tensor:
    """Two independent standard normals, stacked last, from two integers of 52 uniform bits.

    The series leave out less than 3e-17 on their reduced ranges.
    """
    # ln u for u = (bits + 1/2) 2^-52: ln(mantissa) = ln(c) + 2 artanh(s), |s| <= 0.172 with c = sqrt(1/2).
    mantissa, exponent = torch.frexp(radius_bits.to(torch.float64).add_(0.5))
    centre = math.sqrt(0.5)
    s = (mantissa - centre).div_(mantissa.add_(centre))
    minus_two_log = _series(s * s, [-4 / (2 * k + 1) for k in range(10)]).mul_(s)
    minus_two_log.add_((exponent.to(torch.float64) - (_BITS + 0.5)).mul_(-2 * math.log(2)))
    radius = minus_two_log.clamp_min_(0).sqrt_()
    # A point on the right quarter of the circle; two further bits choose among the four by swap and sign.
    angle = (angle_bits & (2 ** (_BITS - 2) - 1)).to(torch.float64).add_(0.5).mul_(2.0 ** (1 - _BITS) * math.pi)
    angle.sub_(math.pi / 4)
    sine = _series(angle * angle, [(-1) ** k / math.factorial(2 * k + 1) for k in range(9)]).mul_(angle)
    cosine = (1 - sine * sine).sqrt_()
    swap = (angle_bits & 2 ** (_BITS - 1)).bool()
    sign = (angle_bits & 2 ** (_BITS - 2)).to(torch.float64).mul_(2.0 ** (3 - _BITS)).sub_(1)
    radius.mul_(sign)
    pair = radius.new_empty(*radius.shape, 2)
    torch.mul(torch.where(swap, sine, cosine), radius, out=pair[..., 0])
    torch.mul(torch.where(swap, cosine, sine), radius, out=pair[..., 1])
    return pair
