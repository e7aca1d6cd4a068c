"""The reference implementation of the draws, in torch on any device; faster kernels must equal it to the bit.

Each operation is correctly rounded under IEEE 754 (additions, multiplications, divisions, square roots) or exact
(integers, powers of two, changes of sign), and each is a kernel of its own, so that no two of them are fused.
`torch.sqrt` on a CPU is not correctly rounded (with MKL, 1 of 70 results is off); numpy's is.
"""

import math
import sys
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

WORD = 0xFFFFFFFF
MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
WEYL = (0x9E3779B9, 0xBB67AE85)
ROUNDS = 10
BITS = 52  # of a uniform number

# Both series leave out less than 3e-17 on their reduced ranges; lowest order first.
LOG_SERIES = tuple(-4 / (2 * k + 1) for k in range(10))  # -2 ln((1 + s) / (1 - s)) / s in powers of s^2
SINE_SERIES = tuple((-1) ** k / math.factorial(2 * k + 1) for k in range(9))  # sin(a) / a in powers of a^2
CENTRE = math.sqrt(0.5)
MINUS_TWO_LOG_TWO = -2 * math.log(2)
ANGLE_STEP = 2.0 ** (1 - BITS) * math.pi  # with 2^50 steps to a right angle
EIGHTH_TURN = math.pi / 4


def philox(key: tuple[Tensor, Tensor], counter: tuple[Tensor, Tensor, Tensor, Tensor]) -> tuple[Tensor, ...]:
    """Philox4x32-10: four 32-bit words for each counter.

    Every word is an int64 tensor holding 32 bits; shapes broadcast.

    Args:
      key: two words.
      counter: four words.

    Returns:
      Four words of the broadcast shape, equal to Random123's for the same key and counter.

    Example:
      >>> zero = torch.tensor([0])
      >>> [hex(int(word)) for word in philox((zero, zero), (zero, zero, zero, zero))]
      ['0x6627e8d5', '0xe169c58d', '0xbc57ac4c', '0x9b00dbd8']
    """
    even, odd = _rounds(torch.stack(key), counter)
    return even[0], odd[0], even[1], odd[1]


def _rounds(key: Tensor, counter: tuple[Tensor, Tensor, Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """The first and third words, and the second and fourth, as rows: in pairs they need half as many launches."""
    c0, c1, c2, c3 = torch.broadcast_tensors(*counter, *key)[:4]  # `broadcast_shapes` takes 30 times as long
    even, odd = torch.stack([c0, c2]), _halves(torch.stack([c1, c3]))[0]
    weyl = _on(tuple(number * word for number in range(ROUNDS) for word in WEYL), key.device)
    keys = _halves((key + weyl.view(ROUNDS, 2, *[1] * (key.dim() - 1))).contiguous())[0]
    product = even
    for round_keys in keys.unbind(0):
        product = torch.empty_like(even)
        torch.mul(even[1], MULTIPLIERS[1], out=product[0])
        torch.mul(even[0], MULTIPLIERS[0], out=product[1])  # a product of two words may wrap; its bits stay right
        low, high = _halves(product)
        # The result overwrites the low half of the product's input; the high half stays 0.
        torch.bitwise_xor(high, odd, out=_halves(even)[0]).bitwise_xor_(round_keys)
        odd = low
    return even, product & WORD


def high_word(numbers: Tensor) -> Tensor:
    """The high 32 bits of contiguous int64, as a view.

    Example:
      >>> high_word(torch.tensor([5, 2**32, -1]))
      tensor([ 0,  1, -1], dtype=torch.int32)
    """
    return _halves(numbers)[1]


def _halves(words: Tensor) -> tuple[Tensor, Tensor]:
    """The low and the high 32 bits of int64, as views."""
    low, high = words.view(torch.int32).unflatten(-1, (-1, 2)).unbind(-1)
    return (low, high) if sys.byteorder == "little" else (high, low)


@lru_cache(maxsize=16)
def _on(values: tuple[float, ...], device: torch.device) -> Tensor:
    """A tensor of constants on a device, cached because each copy makes the host wait."""
    return torch.tensor(values, device=device, dtype=torch.int64 if isinstance(values[0], int) else torch.float64)


def words(keys: Tensor, calls: Tensor, purpose: tuple[int, int], start: int, count: int) -> Tensor:
    """The words of `count` blocks from block `start` on, `(runs, count, 4)` int64.

    Args:
      keys: `(runs, 2)` int64.
      calls: `(runs,)` or `(1,)` int64.
      purpose: two words.
      start: the number of the first block.
      count: the number of blocks.
    """
    (c0, c2), (c1, c3) = _rounds(*_blocks(keys, calls, purpose, start, count))
    return torch.stack([c0, c1, c2, c3], dim=-1)


def uniforms(keys: Tensor, calls: Tensor, purpose: tuple[int, int], start: int, count: int) -> Tensor:
    """Uniform numbers in (0, 1), two per block, `(runs, count, 2)` float64."""
    bits = _joined(*_rounds(*_blocks(keys, calls, purpose, start, count)))
    numbers = bits.movedim(0, -1).to(torch.float64, memory_format=torch.contiguous_format)
    return numbers.add_(0.5).mul_(2.0**-BITS)


def normals(keys: Tensor, calls: Tensor, purpose: tuple[int, int], start: int, count: int) -> Tensor:
    """Standard normal numbers, two per block, `(runs, count, 2)` float64."""
    return box_muller(_joined(*_rounds(*_blocks(keys, calls, purpose, start, count))))


def _blocks(keys: Tensor, calls: Tensor, purpose: tuple[int, int], start: int, count: int) -> tuple[Any, Any]:
    """The keys and counters of the blocks."""
    element = torch.arange(start, start + count, device=keys.device)[None]
    return keys.T[..., None], (element, calls[:, None], *_on(purpose, keys.device).view(2, 1, 1).unbind(0))


def _joined(high: Tensor, low: Tensor) -> Tensor:
    """The 52 uniform bits of a number: with 1/2 added later it is exact in float64 and reaches neither 0 nor 1."""
    return (high << 20).bitwise_or_(low >> 12)


def sqrt(x: Tensor) -> Tensor:
    """The correctly rounded square root of float64, in place.

    Example:
      >>> float(sqrt(torch.tensor(2.0, dtype=torch.float64))) == math.sqrt(2.0)
      True
    """
    if x.device.type != "cpu":
        return x.sqrt_()
    np.sqrt(x.numpy(), out=x.numpy())
    return x


def box_muller(bits: Tensor) -> Tensor:
    """Two independent standard normals, stacked last, from two int64 tensors of 52 uniform bits, stacked first."""
    mask = _on((2**BITS - 1, 2 ** (BITS - 2) - 1), bits.device).view(2, *[1] * (bits.dim() - 1))
    value, angle = (bits & mask).to(torch.float64).add_(0.5).unbind(0)
    # ln u for u = (bits + 1/2) 2^-52: ln(mantissa) = ln(c) + 2 artanh(s), |s| <= 0.172 with c = sqrt(1/2).
    mantissa, exponent = torch.frexp(value)
    s = (mantissa - CENTRE).div_(mantissa.add_(CENTRE))
    # A point on one quarter of the circle; two further bits choose the quarter by a swap and a sign.
    log, sine = _series(torch.stack([s, angle.mul_(ANGLE_STEP).sub_(EIGHTH_TURN)])).unbind(0)
    radius = log.add_((exponent.to(torch.float64) - (BITS + 0.5)).mul_(MINUS_TWO_LOG_TWO))
    radius = sqrt(radius.clamp_min_(0))
    cosine = sqrt(1 - sine * sine)
    quarter = bits[1] >> (BITS - 2)
    radius.mul_(_on((-1.0, 1.0, -1.0, 1.0), bits.device)[quarter])
    swap = quarter > 1
    pair = torch.stack([torch.where(swap, sine, cosine), torch.where(swap, cosine, sine)], dim=-1)
    return pair.mul_(radius[..., None])


def _series(arguments: Tensor) -> Tensor:
    """The values -2 ln((1 + s) / (1 - s)) of the first row and the sine of the second, by one Horner scheme.

    The sine's series is one term shorter and starts with a coefficient 0, which does not change its bits.
    """
    squares = arguments * arguments
    columns = _on(LOG_SERIES[::-1] + (0.0, *SINE_SERIES[::-1]), arguments.device)
    first, second, *rest = columns.view(2, -1, *[1] * (arguments.dim() - 1)).unbind(1)
    total = (squares * first).add_(second)
    for pair in rest:
        total.mul_(squares).add_(pair)
    return total.mul_(arguments)
