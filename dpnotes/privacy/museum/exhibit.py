"""The class of exhibits: a correct release, a wrong line, two neighbours, and two proofs that the line matters."""

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from dpnotes.core import Guarantee
from dpnotes.privacy.audit import (
    GaussianPair,
    LowerBound,
    MixturePair,
    Pair,
    ScaledPair,
    from_scores,
    power,
    runs_for_power,
)
from dpnotes.random.streams import Streams
from dpnotes.util.validate import AtLeastOne, checked

LEVEL = 0.01  # the error probability of the audits
POWER = 0.99  # the least power, for which the number of runs is chosen
_CHUNK = 2**22  # numbers drawn at once
_FRUITLESS = 10_000  # runs if no number of runs refutes the claim

Release = Callable[..., Tensor]


@checked
@dataclass(frozen=True, eq=False)
class Setting:
    """Two neighbouring data sets, and the other arguments of the release.

    Args:
      without: a data set, `(values,)` float64.
      included: its neighbour.
      num_draws: the number of standard normals per run.
      options: further arguments of the release.
      outcomes: for a release on a sample: its coins' outcomes, `(outcomes, ...)`, one of each kind, and their
        probabilities `(outcomes,)`. Simulated runs draw one of them.
      scaled: whether the scale of the noise may depend on the data.
    """

    without: Tensor
    included: Tensor
    num_draws: AtLeastOne
    options: dict[str, Any]
    outcomes: tuple[Tensor, Tensor] | None = None
    scaled: bool = False

    def pair(self, release: Release) -> Pair:
        """The output distributions on both data sets, in closed form."""
        if self.outcomes is None:
            pair = ScaledPair if self.scaled else GaussianPair
            return pair.of(
                lambda data, noise: release(data, noise, **self.options), self.without, self.included, self.num_draws
            )
        coins, weights = self.outcomes
        return MixturePair.of(
            lambda data, coins, noise: release(data, coins, noise, **self.options),
            self.without,
            self.included,
            coins,
            weights,
            self.num_draws,
        )

    @checked
    def scores(self, release: Release, pair: Pair, included: bool, runs: AtLeastOne, streams: Streams) -> Tensor:
        """The attack's scores of `runs` independent runs on one of the data sets, `(runs,)`; drawn in chunks."""
        data = self.included if included else self.without
        chunk = max(1, _CHUNK // (self.num_draws + data.numel()))
        parts = []
        for call, first in enumerate(range(0, runs, chunk)):
            count = min(chunk, runs - first)
            noise = streams.normal(f"museum: noise, {included}", call, count * self.num_draws).view(count, -1)
            values = data.expand(count, *data.shape)
            if self.outcomes is None:
                outputs = release(values, noise, **self.options)
            else:
                coins, weights = self.outcomes
                place = streams.uniform(f"museum: coins, {included}", call, count)[0]
                which = torch.searchsorted(weights.cumsum(0), place).clamp_max(len(weights) - 1)
                outputs = release(values, coins[which], noise, **self.options)
            parts.append(pair.score(outputs))
        return torch.cat(parts)


@dataclass(frozen=True)
class Source:
    """The public source of a mistake, described from its discussion.

    Args:
      repository: on GitHub, as "owner/name".
      numbers: the numbers of the issues and pull requests about it, the first one first.
      opened: the date of the first one, as year-month-day.
      mended: the date and the means of the correction; "" if the version of the discussion that we read has it open.
      claimed: the guarantee that the code was meant to have.
      told: the content of the discussion, in our words.
      kept: the parts of the bug that the exhibit reproduces, and those that it omits.

    Example:
      >>> Source("owner/name", (7,), "2024-01-31", "", "epsilon = 1", "What happened.", "What is left of it.").urls
      ('https://github.com/owner/name/issues/7',)
    """

    repository: str
    numbers: tuple[int, ...]
    opened: str
    mended: str
    claimed: str
    told: str
    kept: str

    @property
    def urls(self) -> tuple[str, ...]:
        """The URLs of the discussions; for the number of a pull request, GitHub redirects to its page."""
        return tuple(f"https://github.com/{self.repository}/issues/{number}" for number in self.numbers)


@dataclass(frozen=True, eq=False)
class Exhibit:
    """A mistake: the correct release, the wrong version of one line, and the claimed guarantee.

    Args:
      name: the name of the mistake.
      mistake: a description in a sentence or two.
      seen: the paper or code with the mistake.
      correct: the correct release.
      line: the correct line, without its indentation.
      instead: the wrong line.
      claim: the claimed guarantee, which holds for the correct release.
      setting: two neighbours on which the broken release violates the claim.
      source: the public discussion of it, if there is one.
      called: the function that contains the line, if `correct` calls it; by default `correct` itself contains it.

    Raises:
      ValueError: if that function does not contain `line` exactly once.
    """

    name: str
    mistake: str
    seen: str
    correct: Release
    line: str
    instead: str
    claim: Guarantee
    setting: Setting
    source: Source | None = None
    called: Callable[..., Any] | None = None

    def __post_init__(self) -> None:
        _ = self.broken

    @property
    def part(self) -> Callable[..., Any]:
        """The function that contains the line."""
        return self.called or self.correct

    @cached_property
    def broken(self) -> Release:
        """The broken release, made from the correct one's source with the one line replaced."""
        source = with_line_replaced(inspect.getsource(self.part), self.line, self.instead)
        names = dict(self.correct.__globals__)
        exec(source, names)
        if self.part is not self.correct:
            exec(inspect.getsource(self.correct), names)  # so that it calls the broken part
        return names[self.correct.__name__]

    @checked
    def pair(self, broken: bool) -> Pair:
        """The output distributions on the two neighbours, in closed form."""
        return self.setting.pair(self.broken if broken else self.correct)

    def exact(self, broken: bool) -> float:
        """The epsilon from the densities at the claim's delta, without sampling (exhibit A)."""
        return self.pair(broken).epsilon(self.claim.delta)

    @cached_property
    def design(self) -> tuple[float, int, float]:
        """The attack on the broken release: threshold, runs on each data set, and the power that they have.

        There are 25% more runs than the power needs, rounded up to two digits, so that the bound is clearly above the
        claim. A mistake that costs no privacy is attacked with 10,000 runs, and the power shows that they find nothing.
        """
        pair, claim = self.pair(broken=True), self.claim
        if pair.epsilon(claim.delta) <= claim.epsilon:
            threshold = pair.strongest_threshold(_FRUITLESS, claim.delta, LEVEL)
            rates = pair.rates(threshold)
            chance = power(*rates, _FRUITLESS, epsilon=claim.epsilon, delta=claim.delta, level=LEVEL)
            return threshold, _FRUITLESS, chance
        threshold = pair.threshold(claim.epsilon, claim.delta)
        rates = pair.rates(threshold)
        epsilon, delta = claim.epsilon, claim.delta
        needed = 1.25 * runs_for_power(*rates, epsilon=epsilon, delta=delta, level=LEVEL, at_least=POWER)
        digits = 10 ** max(0, math.floor(math.log10(needed)) - 1)
        runs = digits * math.ceil(needed / digits)
        return threshold, runs, power(*rates, runs, epsilon=epsilon, delta=delta, level=LEVEL)

    def audit(self, broken: bool, seed: str | int = 0) -> LowerBound:
        """The lower bound from samples, with the attack and the number of runs of `design` (exhibit B).

        The correct release is attacked with the threshold that is best against itself, so that the test is fair.
        """
        threshold, runs, _ = self.design
        pair = self.pair(broken)
        if not broken:
            threshold = pair.strongest_threshold(runs, self.claim.delta, LEVEL)
        release = self.broken if broken else self.correct
        streams = Streams.of(seed, [f"{self.name}, {'broken' if broken else 'correct'}"])
        sides = [self.setting.scores(release, pair, included, runs, streams) for included in (True, False)]
        return from_scores(
            *sides, delta=self.claim.delta, relation=self.claim.relation, level=LEVEL, threshold=threshold
        )


def with_line_replaced(source: str, line: str, instead: str) -> str:
    r"""The source code with one line replaced and its indentation kept.

    Args:
      source: of a function or a module.
      line: the whole line without its indentation.
      instead: the new line.

    Raises:
      ValueError: unless the source contains the line exactly once, or if nothing would change.

    Example:
      >>> with_line_replaced("if x:\n    y = 1\n", "y = 1", "y = 2")
      'if x:\n    y = 2\n'
    """
    lines = source.splitlines(keepends=True)
    places = [place for place, text in enumerate(lines) if text.strip() == line]
    if len(places) != 1 or line == instead:
        raise ValueError(f"Expected exactly one line {line!r}, to become another, found {len(places)}.")
    lines[places[0]] = lines[places[0]].replace(line, instead)
    return "".join(lines)


def module_with_line_replaced(module: ModuleType, line: str, instead: str) -> ModuleType:
    """A copy of a module with one line of its source replaced; the module itself stays as it is.

    Args:
      module: any module with a source file.
      line: the whole line without its indentation.
      instead: the new line.

    Raises:
      ValueError: unless the source contains the line exactly once, or if nothing would change.

    Example:
      >>> from dpnotes.privacy.museum import releases
      >>> broken = module_with_line_replaced(releases, "root = start", "root = 0")
      >>> broken.prefix_sums is releases.prefix_sums
      False
    """
    copy = ModuleType(module.__name__)
    copy.__file__ = module.__file__
    exec(with_line_replaced(inspect.getsource(module), line, instead), copy.__dict__)
    return copy
