"""Attacks on floating-point noise: find out from one release of 1,000 numbers which of two answers was noised."""

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
Attack = Callable[[Tensor, float], int | None]  # from a release to the guess: 0, or this answer


def by_rings(bits: int) -> Attack:
    """Return an attack on Box-Muller noise from a uniform number of `bits` bits: its large radii are far apart."""

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
    """Guess the answer from the low bits: noise added to 0 keeps bits that are lost in a sum with a larger answer."""
    small = noisy[noisy.abs() < 2.0**-6].double()
    lowest = 2.0**53 if noisy.dtype == torch.float64 else 2.0**24
    return int(not bool(((small * lowest).frac() != 0).any()))


def told(attack: Attack, draw: Draw, dtype: torch.dtype, away: float) -> int:
    """Return the number of runs in which the attack guesses the answer; a run without a guess counts as one half."""
    right = silent = 0
    for truth in torch.randint(2, (RUNS,)).tolist():
        guess = attack(draw(torch.full((1, 1000), away * truth, dtype=dtype)), away)
        right, silent = right + (guess == truth), silent + (guess is None)
    return right + silent // 2


def coarse(value: Tensor) -> Tensor:
    """Add Box-Muller noise from uniform numbers of 24 bits."""
    generator, pairs = np.random.default_rng(), value.numel() // 2
    radius = np.sqrt(-2 * np.log(generator.integers(1, 2**24, pairs) / 2.0**24))
    angle = 2 * np.pi * generator.random(pairs)
    noise = np.stack([radius * np.cos(angle), radius * np.sin(angle)], 1).reshape(1, -1)
    return (value.double() + torch.from_numpy(noise)).to(value.dtype)


def seeded(value: Tensor) -> Tensor:
    """Add noise from seeded streams."""
    keys = torch.randint(2**32, (1, 2))
    return value + Streams(keys).normal("noise", 0, value.shape[1]).to(value.dtype)


def without_grid(value: Tensor) -> Tensor:
    """Add noise of full precision that is not rounded to a grid."""
    return value + secret.normals(1, value.numel() // 2, torch.device("cpu")).view(1, -1).to(value.dtype)


def released(value: Tensor) -> Tensor:
    """Release a value by the Gaussian mechanism on secret streams, with noise of standard deviation 1."""
    one = torch.ones(1, dtype=torch.float64)
    request = Request(Sensitive(value, one, Relation.ZERO_OUT, "proved"), one, torch.zeros(1).long(), one > 0)
    return Gaussian().release(value.new_zeros(1, 0), request, Streams.secure(1))[1]


# For each attack: the noise it was made for, the type of the answers, and the value of the nonzero answer in every
# coordinate. The radii attacks use a value so small that ideal noise would hide it. The attack on low bits learns
# nothing from ideal noise, whatever the value.
ATTACKS: dict[str, tuple[Attack, Draw, torch.dtype, float]] = {
    "radii of 52 bits": (by_rings(52), seeded, torch.float64, 0.00073),
    "radii of 24 bits, float32": (by_rings(24), coarse, torch.float32, 0.00073),
    "low bits": (by_low_bits, without_grid, torch.float64, 0.73),
    "low bits, seeded": (by_low_bits, seeded, torch.float64, 0.73),
}


def attack(name: str) -> tuple[int, int]:
    """Return the number of `RUNS` in which an attack guesses the answer, for our secret streams and for the control."""
    attacker, control, dtype, away = ATTACKS[name]
    return told(attacker, released, dtype, away), told(attacker, control, dtype, away)


def chance() -> tuple[float, float]:
    """Return the range of the number of correct guesses by coin tosses, exceeded with probability 1/50,000."""
    low, high = stats.binom.ppf([1e-5, 1 - 1e-5], RUNS, 0.5)
    return float(low), float(high)


def verdict(name: str, ours: int, control: int) -> list[str]:
    """Return the faults: an answer that is guessed, or a control attack that does not work."""
    low, high = chance()
    wrong = [f"{name}: {ours} of {RUNS} answers are told"] * (not low <= ours <= high)
    return wrong + [f"{name}: a control of which {control} of {RUNS} are told"] * (control <= high)
