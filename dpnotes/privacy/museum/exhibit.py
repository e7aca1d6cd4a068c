"""What an exhibit is: a correct release, a line, two neighbours, and the two ways to show that the line matters."""

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

LEVEL = 0.01  # of the audits
POWER = 0.99  # that their number of runs is chosen for, at least
_CHUNK = 2**22  # numbers drawn at once
_FRUITLESS = 10_000  # runs where no number of them refutes the claim

Release = Callable[..., Tensor]


@checked
@dataclass(frozen=True, eq=False)
class Setting:
    """Two neighbouring data sets, and what a release is asked to do with them.

    Args:
      without: a data set, `(values,)` float64.
      included: its neighbour.
      num_draws: standard normals a run.
      options: further arguments of the release.
      outcomes: for a release that samples: its coins' outcomes, `(outcomes, ...)`, one of each kind, and their
        probabilities `(outcomes,)`. Sampled runs draw one of them.
      scaled: whether the scale of the noise may depend on the data.
    """

    without: Tensor
    included: Tensor
    num_draws: AtLeastOne
    options: dict[str, Any]
    outcomes: tuple[Tensor, Tensor] | None = None
    scaled: bool = False

    def pair(self, release: Release) -> Pair:
        """The outputs on both data sets, in closed form."""
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
        """The attack's score of `runs` independent runs on one of the data sets, `(runs,)`; drawn in chunks."""
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
    """Where a mistake was found in public, told from its thread.

    Args:
      repository: on GitHub, as "owner/name".
      numbers: of the issues and pull requests that tell it, the first one first.
      opened: when the first was, as year-month-day.
      mended: when, and by what; "" where the stored version of the thread that we read has it open.
      claimed: what the code was meant to give.
      told: what the thread says, in our words.
      kept: what the exhibit's few lines keep of it, and what they leave out.

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
        """The threads; of a pull request's number GitHub makes the right page."""
        return tuple(f"https://github.com/{self.repository}/issues/{number}" for number in self.numbers)


@dataclass(frozen=True, eq=False)
class Exhibit:
    """One mistake: the correct release, the line that was got wrong, and what is claimed of either.

    Args:
      name: what the mistake is called.
      mistake: what goes wrong, in a sentence or two.
      seen: where it was seen.
      correct: the release as it should be.
      part: the function that holds the line: `correct` itself, or one that it calls.
      line: the correct line, without its indentation.
      instead: the broken one.
      claim: what is claimed; it holds for the correct release.
      setting: two neighbours on which the broken one fails it.
      source: the public thread that tells of it, where there is one.

    Raises:
      ValueError: if `part` does not have `line` exactly once.
    """

    name: str
    mistake: str
    seen: str
    correct: Release
    part: Callable[..., Any]
    line: str
    instead: str
    claim: Guarantee
    setting: Setting
    source: Source | None = None

    def __post_init__(self) -> None:
        _ = self.broken

    @cached_property
    def broken(self) -> Release:
        """The release made from the correct one's source with the one line replaced."""
        source = with_line_replaced(inspect.getsource(self.part), self.line, self.instead)
        names = dict(self.correct.__globals__)
        exec(source, names)
        if self.part is not self.correct:
            exec(inspect.getsource(self.correct), names)  # so that it calls the broken part
        return names[self.correct.__name__]

    @checked
    def pair(self, broken: bool) -> Pair:
        """What the two neighbours give, in closed form."""
        return self.setting.pair(self.broken if broken else self.correct)

    def exact(self, broken: bool) -> float:
        """Exhibit A: the epsilon that the densities force at the claim's delta. No sampling."""
        return self.pair(broken).epsilon(self.claim.delta)

    @cached_property
    def design(self) -> tuple[float, int, float]:
        """The attack on the broken release: threshold, runs on each data set, and the power that they have.

        A quarter more runs than the power asks for, in two digits, so that the bound stands visibly above the claim. A
        mistake that costs no privacy is attacked with 10,000 runs, and its power says that they find nothing.
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
        """Exhibit B: the lower bound from samples, with the attack and the runs of `design` in either case.

        The correct release is attacked with the threshold that is best against itself: it is not let off easily.
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
    r"""Source code with one line replaced, its indentation kept.

    Args:
      source: of a function or a module.
      line: the whole line without its indentation.
      instead: what to put there.

    Raises:
      ValueError: unless the source has the line exactly once, or if nothing would change.

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
      module: any that has a source file.
      line: the whole line without its indentation.
      instead: what to put there.

    Raises:
      ValueError: unless the source has the line exactly once, or if nothing would change.

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
