"""Attacks on floating-point noise: from one release of 1,000 numbers, tell which of two answers was noised."""

from collections.abc import Callable

import numpy as np
import torch
from scipy import stats
from torch import Tensor

from dpnotes.core import Relation, Request, Sensitive
from dpnotes.privacy.mechanisms import Gaussian
from dpnotes.random import secret
from dpnotes.random.streams import Streams

RUNS = 300
Draw = Callable[[Tensor], Tensor]
Attack = Callable[[Tensor, float], int | None]  # from what was released, which of 0 and this was the answer


def by_rings(bits: int) -> Attack:
    """Which answer leaves radii of pairs that a uniform number of so many bits has: long ones, which are far apart."""

    def attack(noisy: Tensor, away: float) -> int | None:
        fits = []
        for answer in (0.0, away):
            squares = (noisy.double() - torch.tensor(answer, dtype=noisy.dtype)).view(-1, 2).square().sum(1)
            uniform = (-squares / 2).exp() * 2.0**bits
            far = uniform[uniform < 2.0 ** (bits - 7)]
            off = (far - far.round()).abs()
            fits.append(bool((torch.minimum(off, (off - 0.5).abs()) < 0.12).all()))
        return None if fits[0] == fits[1] else int(fits[1])

    return attack


def by_low_bits(noisy: Tensor, away: float) -> int:
    """Noise that is added to 0 keeps bits that are lost in a sum with a larger answer."""
    small = noisy[noisy.abs() < 2.0**-6].double()
    lowest = 2.0**53 if noisy.dtype == torch.float64 else 2.0**24
    return int(not bool(((small * lowest).frac() != 0).any()))


def told(attack: Attack, draw: Draw, dtype: torch.dtype, away: float) -> int:
    """In how many runs the attack names the answer; of those where it cannot, half count."""
    right = silent = 0
    for truth in torch.randint(2, (RUNS,)).tolist():
        guess = attack(draw(torch.full((1, 1000), away * truth, dtype=dtype)), away)
        right, silent = right + (guess == truth), silent + (guess is None)
    return right + silent // 2


def coarse(value: Tensor) -> Tensor:
    """Box and Muller's numbers of a uniform number of 24 bits."""
    generator, pairs = np.random.default_rng(), value.numel() // 2
    radius = np.sqrt(-2 * np.log(generator.integers(1, 2**24, pairs) / 2.0**24))
    angle = 2 * np.pi * generator.random(pairs)
    noise = np.stack([radius * np.cos(angle), radius * np.sin(angle)], 1).reshape(1, -1)
    return (value.double() + torch.from_numpy(noise)).to(value.dtype)


def seeded(value: Tensor) -> Tensor:
    """What streams with a seed give."""
    keys = torch.randint(2**32, (1, 2))
    return value + Streams(keys).normal("noise", 0, value.shape[1]).to(value.dtype)


def without_grid(value: Tensor) -> Tensor:
    """Full precision, and no grid."""
    return value + secret.normals(1, value.numel() // 2, torch.device("cpu")).view(1, -1).to(value.dtype)


def released(value: Tensor) -> Tensor:
    """What the Gaussian mechanism gives on secret streams, with noise of 1."""
    one = torch.ones(1, dtype=torch.float64)
    request = Request(Sensitive(value, one, Relation.ZERO_OUT, "proved"), one, torch.zeros(1).long(), one > 0)
    return Gaussian().release(value.new_zeros(1, 0), request, Streams.secure(1))[1]


# The attack, the noise that it was made for, the type of the answers, and the answer that is not 0, in all coordinates:
# for radii so near that real noise hides it. Low bits say nothing that real noise would.
ATTACKS: dict[str, tuple[Attack, Draw, torch.dtype, float]] = {
    "radii of 52 bits": (by_rings(52), seeded, torch.float64, 0.00073),
    "radii of 24 bits, float32": (by_rings(24), coarse, torch.float32, 0.00073),
    "low bits": (by_low_bits, without_grid, torch.float64, 0.73),
    "low bits, seeded": (by_low_bits, seeded, torch.float64, 0.73),
}


def attack(name: str) -> tuple[int, int]:
    """In how many of `RUNS` an attack names the answer: of what secret streams give, and of the control."""
    attacker, control, dtype, away = ATTACKS[name]
    return told(attacker, released, dtype, away), told(attacker, control, dtype, away)


def chance() -> tuple[float, float]:
    """What tossing a coin gives, but for one time in 50,000."""
    low, high = stats.binom.ppf([1e-5, 1 - 1e-5], RUNS, 0.5)
    return float(low), float(high)


def verdict(name: str, ours: int, control: int) -> list[str]:
    """What is wrong: an answer that is told, or an attack that does not work."""
    low, high = chance()
    wrong = [f"{name}: {ours} of {RUNS} answers are told"] * (not low <= ours <= high)
    return wrong + [f"{name}: a control of which {control} of {RUNS} are told"] * (control <= high)
