"""Which iterate to publish: a private search for a second-order stationary point, with AboveThreshold.

Section 3.4 of Avdiukhin, Dinitz, Fan and Yaroslavtsev (2024), "Noise is All You Need: Private Second-Order Convergence
of Noisy SGD", arXiv:2410.06878.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from dpnotes.core import WHOLE, Guarantee, Price, Relation, Sensitive
from dpnotes.guarantees import Assumption, rest_of
from dpnotes.privacy.accounting import account, assumptions_of
from dpnotes.privacy.events import Event, clipped_sensitivity
from dpnotes.privacy.selection import AboveThreshold, SelectionState
from dpnotes.random.streams import Streams
from dpnotes.util import validate
from dpnotes.util.validate import AtLeastOne, NonNegative, Positive, Probability, checked

_PURPOSE = "search: stationary point"


def random_steps(streams: Streams, num_iterates: int, num_candidates: int) -> Tensor:
    """The steps whose iterates are candidates, `(num_candidates, runs)` int64 in `0 ... num_iterates - 1`, independent.

    They do not depend on the data, so a run may draw them first and keep only these iterates. If half of the iterates
    are what is looked for, k candidates have none among them with probability `2^-k`.

    Args:
      streams: one key a run.
      num_iterates: at least 1.
      num_candidates: k, at least 1.

    Example:
      >>> random_steps(Streams.of(0, ["a", "b"]), num_iterates=1000, num_candidates=5).shape
      torch.Size([5, 2])
    """
    validate.at_least(1, num_iterates=num_iterates, num_candidates=num_candidates)
    return (streams.uniform(f"{_PURPOSE}: steps", 0, num_candidates) * num_iterates).long().T


@checked
@dataclass(frozen=True)
class Search:
    """Which points count as found, how precisely that can be asked, and what the answers cost.

    A point is answered yes if `|grad f| <= alpha + slack` and `lambda_min >= -sqrt(rho alpha) - slack` up to noise,
    with a slack of its own for each. Both are asked by one question, the smaller of the two margins, each divided by
    how far a neighbour may move it: that moves by 1 at most, so that no budget is split.

    Args:
      epsilon: of the search, above 0, on top of what the iterates cost.
      alpha: accuracy, above 0, in the units of a gradient.
      hessian_lipschitz: rho, above 0.
      norm_bound: C, the longest gradient of an example at a candidate, above 0.
      smoothness: L of every example, above 0: the paper assumes it of the objective alone.
      num_examples: n.
      num_candidates: k, at least 1.
      failure: the probability that some answer is further off than the slack, in (0, 1).
      eigenvalue_error: how far an eigenvalue that is computed may be off, at least 0, whatever the data: computed
        numbers of two neighbours may differ by twice as much more.
      relation: which data sets are neighbours, replace-one or zero-out.

    Raises:
      ValueError: outside these domains.

    Example:
      >>> sizes = {"hessian_lipschitz": 1.0, "norm_bound": 1.0, "smoothness": 1.0, "num_examples": 10**6}
      >>> search = Search(epsilon=1.0, alpha=0.01, **sizes, num_candidates=10, failure=0.05)
      >>> round(search.gradient_slack, 6), round(search.gradient_norm, 4), round(search.smallest_eigenvalue, 4)
      (9.6e-05, 0.0102, -0.1002)
    """

    epsilon: Positive
    alpha: Positive
    hessian_lipschitz: Positive
    norm_bound: Positive
    smoothness: Positive
    num_examples: AtLeastOne
    num_candidates: AtLeastOne
    failure: Probability
    eigenvalue_error: NonNegative = 0.0
    relation: Relation = Relation.REPLACE_ONE

    def __post_init__(self) -> None:
        validate.one_of((Relation.REPLACE_ONE, Relation.ZERO_OUT), relation=self.relation)
        _ = self.gradient_slack, self.mechanism

    @property
    def gradient_sensitivity(self) -> float:
        """How far a neighbour moves the norm of the mean gradient: `2 C / n` when an example is replaced."""
        return clipped_sensitivity(self.norm_bound, self.num_examples, self.relation)

    @property
    def eigenvalue_sensitivity(self) -> float:
        """How far it moves the smallest eigenvalue of the mean Hessian (Weyl), and the number computed for it."""
        return clipped_sensitivity(self.smoothness, self.num_examples, self.relation) + 2 * self.eigenvalue_error

    @property
    def mechanism(self) -> AboveThreshold:
        """The mechanism that answers."""
        return AboveThreshold(self.epsilon, 0.0, 1.0, self.relation, purpose=_PURPOSE)

    @property
    def _slack(self) -> float:
        return self.mechanism.accuracy(self.num_candidates, self.failure)

    @property
    def gradient_slack(self) -> float:
        """How far a norm may be off, `8 (ln k + ln(2 / failure)) / epsilon` times its sensitivity."""
        return self._slack * self.gradient_sensitivity

    @property
    def eigenvalue_slack(self) -> float:
        """How far an eigenvalue may be off."""
        return self._slack * self.eigenvalue_sensitivity + self.eigenvalue_error

    @property
    def gradient_norm(self) -> float:
        """The largest norm that a point answered yes has, with probability `1 - failure`."""
        return self.alpha + 2 * self.gradient_slack

    @property
    def smallest_eigenvalue(self) -> float:
        """The smallest eigenvalue that such a point has at least."""
        return -math.sqrt(self.hessian_lipschitz * self.alpha) - 2 * self.eigenvalue_slack

    @property
    def event(self) -> Event:
        """All answers of the search, for the accountant."""
        return Event(1 / self.epsilon, self.relation, WHOLE, noise="pure")

    def guarantee(self, released: Iterable[Event], claim: Guarantee, streams: Streams, searches: int = 1) -> Guarantee:
        """What the iterates and the searches among them may claim together, at the delta of the iterates' claim.

        Args:
          released: what gave the iterates, such as `MinibatchGradient.events(run)`, under the same relation.
          claim: of the run that released them: what that rests on, and does not cover, holds for both.
          streams: the searches' randomness.
          searches: at least 1, how many there were.

        Raises:
          ValueError: the claim is more than the accountant says of `released`: of its delta a part is spent on
            failures (`papers.noisy_sgd.readings`), or a run without noise claims nothing. None is left for a search.

        Example:
          >>> sizes = {"hessian_lipschitz": 1.0, "norm_bound": 1.0, "smoothness": 1.0, "num_examples": 10**6}
          >>> search = Search(epsilon=0.5, alpha=0.01, **sizes, num_candidates=10, failure=0.05)
          >>> events = [Event(10.0, Relation.REPLACE_ONE, count=25)]
          >>> round(search.guarantee(events, account(events, 1e-5), Streams.of(0, ["a"])).epsilon, 2)
          2.44
        """
        validate.instance(Guarantee, claim=claim)
        validate.at_least(1, searches=searches)
        bounds = (
            Assumption(f"no example's gradient is longer than {self.norm_bound:g} at a candidate", "assumed"),
            Assumption(f"every example's loss is {self.smoothness:g}-smooth at a candidate", "assumed"),
        )
        if self.eigenvalue_error:
            statement = f"no eigenvalue that is computed is off by more than {self.eigenvalue_error:g}"
            bounds = (*bounds, Assumption(statement, "assumed"))
        rests = rest_of(assumptions_of(streams, rounded_once=True), claim.assumptions, bounds)
        events = list(released)
        alone = account(events, claim.delta).epsilon if events else 0.0
        if claim.nominal_epsilon > alone * (1 + 1e-9):
            raise ValueError(
                f"Expected claim={claim.nominal_epsilon:.6g}, at delta={claim.delta:g}, to be at most {alone:.6g}, as "
                "the accountant says of released: a part of its delta is spent on failures, or there was no noise."
            )
        events += [self.event] * searches
        return account(events, claim.delta, assumptions=rests, not_covered=claim.not_covered)


@dataclass(frozen=True)
class Selection:
    """What a search found, `(runs,)` each.

    Args:
      index: the first candidate that was answered yes, -1 where none was.
      found: whether there is one.
      asked: questions that were asked.
      price: of the whole search, whatever it found.
      state: for another search with these streams. It holds the noisy threshold, which is a secret.
    """

    index: Tensor
    found: Tensor
    asked: Tensor
    price: Price
    state: SelectionState


def select_stationary_point(
    search: Search,
    candidates: Iterable[Tensor],
    gradient_norm: Callable[[Tensor], Tensor],
    smallest_eigenvalue: Callable[[Tensor], Tensor],
    streams: Streams,
    state: SelectionState | None = None,
) -> Selection:
    """The first of some random iterates that is, up to the search's slack, a second-order stationary point; private.

    Section 3.4 of Avdiukhin et al. (2024), arXiv:2410.06878, with the scales that it needs:
      1. sample random iterates                                                    (`random_steps`)
      2. for each: is |grad f| + noise small and lambda_min + noise large enough?  (`AboveThreshold.ask`)
      3. publish the first for which both are so, and stop                         (`Selection.index`)

    Differences from the paper: its noises `Lap(C / (n epsilon))` and `Lap(L / (n epsilon))` are those of one number
    that is published once; here the noise is AboveThreshold's, on the threshold too, for sensitivities of `2 C / n`
    and `2 L / n`. The two questions are one (`Search`). The smoothness of every example is a premise.

    Formal guarantees:
      The answers are (epsilon, 0)-DP on top of the iterates, whatever they are (`Search.guarantee`). With probability
      `1 - failure`, the point found has a gradient of at most `search.gradient_norm` and a smallest eigenvalue of at
      least `search.smallest_eigenvalue`; and if a candidate is an alpha-SOSP, one is found.

    Args:
      search: what is looked for, and its price.
      candidates: `(runs, dim)` each, at most `search.num_candidates`, of released iterates; an iterator may load them.
      gradient_norm: of the full-data mean gradient at `(runs, dim)`, `(runs,)`.
      smallest_eigenvalue: of the full-data Hessian, `(runs,)`, within `search.eigenvalue_error`.
      streams: one key a run.
      state: `Selection.state` of the last search with these streams, None for the first one. A second search without it
        draws the noise of the first from seeded streams, and what both may claim does not add up.

    Returns:
      The selection; a run that found none says so.

    Raises:
      ValueError: for more candidates than were declared.

    Example:
      >>> sizes = {"hessian_lipschitz": 1.0, "norm_bound": 1.0, "smoothness": 1.0, "num_examples": 10**6}
      >>> search = Search(epsilon=1.0, alpha=0.01, **sizes, num_candidates=3, failure=0.05)
      >>> points = [torch.full((1, 1), value) for value in (0.5, 0.0, 0.3)]  # of the loss x^2 / 2
      >>> norm, eigenvalue = lambda x: x.abs()[:, 0], lambda x: torch.ones(len(x))
      >>> select_stationary_point(search, points, norm, eigenvalue, Streams.of(0, ["run"])).index
      tensor([1])
    """
    mechanism, device = search.mechanism, streams.keys.device
    everyone = torch.ones(len(streams), dtype=torch.bool, device=device)
    state = mechanism.init(streams) if state is None else state
    before = state.asked
    state, price = mechanism.begin(state, streams, everyone)
    index = torch.full((len(streams),), -1, device=device)
    sensitivity = torch.ones(len(streams), dtype=torch.float64, device=device)
    most_norm = search.alpha + search.gradient_slack
    least_eigenvalue = -math.sqrt(search.hessian_lipschitz * search.alpha) - search.eigenvalue_slack
    for place, x in enumerate(candidates):
        if place >= search.num_candidates:
            raise ValueError(f"Expected at most num_candidates={search.num_candidates}, which the slack is for.")
        if bool(state.halted.all()):
            break
        gradient = (most_norm - gradient_norm(x).double()) / search.gradient_sensitivity
        eigenvalue = (smallest_eigenvalue(x).double() - least_eigenvalue) / search.eigenvalue_sensitivity
        margin = torch.minimum(gradient, eigenvalue)[:, None]
        question = Sensitive(margin, sensitivity, search.relation, "assumed")
        state, yes = mechanism.ask(state, question, streams, everyone)
        index = torch.where(yes, place, index)
    return Selection(index, index >= 0, state.asked - before, price, state)
