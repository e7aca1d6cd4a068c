"""A private search for a second-order stationary point among a run's iterates, with AboveThreshold.

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

    The steps do not depend on the data, so a run may draw them first and store only these iterates. If half of the
    iterates qualify, none of k candidates does with probability `2^-k`.

    Args:
      streams: one key per run.
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
    """The parameters of a search: the accepted points, the accuracy of the answers, and their cost.

    The answer for a point is yes if `|grad f| <= alpha + slack` and `lambda_min >= -sqrt(rho alpha) - slack` up to
    noise, with separate slacks. A single question tests both conditions: the smaller of the two margins, each divided
    by its sensitivity. This minimum has sensitivity 1, so that no budget is split.

    Args:
      epsilon: the epsilon of the search, above 0, in addition to the cost of the iterates.
      alpha: accuracy, above 0, in the units of a gradient.
      hessian_lipschitz: rho, above 0.
      norm_bound: C, the largest norm of an example's gradient at a candidate, above 0.
      smoothness: L of every example's loss, above 0; the paper assumes it of the objective only.
      num_examples: n.
      num_candidates: k, at least 1.
      failure: the probability that some answer's error exceeds the slack, in (0, 1).
      eigenvalue_error: the largest error of a computed eigenvalue, at least 0, whatever the data; it increases the
        sensitivity of the computed value by twice as much.
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
        """The sensitivity of the norm of the mean gradient: `2 C / n` when an example is replaced."""
        return clipped_sensitivity(self.norm_bound, self.num_examples, self.relation)

    @property
    def eigenvalue_sensitivity(self) -> float:
        """The sensitivity of the computed smallest eigenvalue of the mean Hessian (Weyl), errors included."""
        return clipped_sensitivity(self.smoothness, self.num_examples, self.relation) + 2 * self.eigenvalue_error

    @property
    def mechanism(self) -> AboveThreshold:
        """The mechanism that answers the questions."""
        return AboveThreshold(self.epsilon, 0.0, 1.0, self.relation, purpose=_PURPOSE)

    @property
    def _slack(self) -> float:
        return self.mechanism.accuracy(self.num_candidates, self.failure)

    @property
    def gradient_slack(self) -> float:
        """The largest error of a norm, `8 (ln k + ln(2 / failure)) / epsilon` times its sensitivity."""
        return self._slack * self.gradient_sensitivity

    @property
    def eigenvalue_slack(self) -> float:
        """The largest error of an eigenvalue, with the same factor, plus the error of its computation."""
        return self._slack * self.eigenvalue_sensitivity + self.eigenvalue_error

    @property
    def gradient_norm(self) -> float:
        """The largest gradient norm of a point with the answer yes, with probability `1 - failure`."""
        return self.alpha + 2 * self.gradient_slack

    @property
    def smallest_eigenvalue(self) -> float:
        """The lower bound on the smallest eigenvalue at such a point, with the same probability."""
        return -math.sqrt(self.hessian_lipschitz * self.alpha) - 2 * self.eigenvalue_slack

    @property
    def event(self) -> Event:
        """The event for the accountant that covers all answers of the search."""
        return Event(1 / self.epsilon, self.relation, WHOLE, noise="pure")

    def guarantee(self, released: Iterable[Event], claim: Guarantee, streams: Streams, searches: int = 1) -> Guarantee:
        """The joint guarantee of the iterates and the searches among them, at the delta of the iterates' guarantee.

        Args:
          released: the events that released the iterates, such as `MinibatchGradient.events(run)`, for one relation.
          claim: the guarantee of the run that released them; its assumptions and exclusions apply to the result, too.
          streams: the searches' randomness.
          searches: the number of searches, at least 1.

        Raises:
          ValueError: if the claim exceeds the accountant's epsilon of `released`, because part of its delta is spent on
            failures (`papers.noisy_sgd.readings`) or the run had no noise: then no delta is left for a search.

        Example:
          >>> sizes = {"hessian_lipschitz": 1.0, "norm_bound": 1.0, "smoothness": 1.0, "num_examples": 10**6}
          >>> search = Search(epsilon=0.5, alpha=0.01, **sizes, num_candidates=10, failure=0.05)
          >>> events = [Event(10.0, Relation.REPLACE_ONE, count=25)]
          >>> round(search.guarantee(events, account(events, 1e-5), Streams.of(0, ["a"])).epsilon, 2)
          2.44
        """
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
                f"Expected claim={claim.nominal_epsilon:.6g}, at delta={claim.delta:g}, to be at most {alone:.6g}, "
                "the epsilon of released: a part of its delta is spent on failures, or there was no noise."
            )
        events += [self.event] * searches
        return account(events, claim.delta, assumptions=rests, not_covered=claim.not_covered)


@dataclass(frozen=True)
class Selection:
    """The result of a search, `(runs,)` each.

    Args:
      index: the first candidate with the answer yes, -1 if there was none.
      found: whether there is one.
      asked: the number of questions asked.
      price: the price of the whole search, whatever it found.
      state: for another search with these streams. It holds the noisy threshold, which must stay secret.
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
    """Select privately the first of some iterates that is, up to the slack, a second-order stationary point.

    Section 3.4 of Avdiukhin et al. (2024), arXiv:2410.06878, with the scales that it needs:
      1. sample random iterates                                                    (`random_steps`)
      2. for each: is |grad f| + noise small and lambda_min + noise large enough?  (`AboveThreshold.ask`)
      3. publish the first for which both are so, and stop                         (`Selection.index`)

    Differences from the paper: its noises `Lap(C / (n epsilon))` and `Lap(L / (n epsilon))` suffice for a single
    number that is published once; here the noise is AboveThreshold's, also on the threshold, for sensitivities of
    `2 C / n` and `2 L / n`. One question tests both conditions (`Search`). Every example's loss must be smooth.

    Formal guarantees:
      The answers are (epsilon, 0)-DP in addition to the iterates' cost, for any iterates (`Search.guarantee`). With
      probability `1 - failure`, the point found has a gradient of at most `search.gradient_norm` and a smallest
      eigenvalue of at least `search.smallest_eigenvalue`; and if a candidate is an alpha-SOSP, a point is found.

    Args:
      search: the parameters of the search.
      candidates: at most `search.num_candidates` released iterates, `(runs, dim)` each; an iterator may load them.
      gradient_norm: maps points `(runs, dim)` to the norm of the full-data mean gradient, `(runs,)`.
      smallest_eigenvalue: maps points to that of the full-data Hessian, `(runs,)`, within `search.eigenvalue_error`.
      streams: one key per run.
      state: `Selection.state` of the last search with these streams, None for the first one. A second search without it
        repeats the first one's noise on seeded streams, and the costs of the two searches then do not add up.

    Returns:
      The selection; `found` is False for a run without such a point.

    Raises:
      ValueError: for more candidates than `search.num_candidates`.

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
            raise ValueError(f"Expected at most num_candidates={search.num_candidates}: the slack holds for no more.")
        if bool(state.halted.all()):
            break
        gradient = (most_norm - gradient_norm(x).double()) / search.gradient_sensitivity
        eigenvalue = (smallest_eigenvalue(x).double() - least_eigenvalue) / search.eigenvalue_sensitivity
        margin = torch.minimum(gradient, eigenvalue)[:, None]
        question = Sensitive(margin, sensitivity, search.relation, "assumed")
        state, yes = mechanism.ask(state, question, streams, everyone)
        index = torch.where(yes, place, index)
    return Selection(index, index >= 0, state.asked - before, price, state)
