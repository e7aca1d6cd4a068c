"""AboveThreshold: find the first of many questions whose value is large, for the price of one answer.

A private search for a stationary point uses it: "is this point good enough?" is asked at every iterate, and only the
answer yes costs privacy.
"""

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from dpnotes.core import Price, Sensitive
from dpnotes.guarantees import FRESH, WHOLE, CombinationError, Relation, Sampling, check_combination
from dpnotes.privacy.mechanisms import grid_of, laplace, noisy_on_grid
from dpnotes.random.streams import Streams
from dpnotes.util import checks, validate
from dpnotes.util.lineage import Lineage
from dpnotes.util.validate import AtLeastOne, Finite, Positive, Probability, checked

_SLACK = 1e-12  # relative: rounding may raise a question's sensitivity above the declared one by this
_FARTHEST = 2.0**51  # the largest value in grid steps: beyond, the sum with noise is not exact


@dataclass(frozen=True)
class SelectionState:
    """The search state of each run, `(runs,)`: searches begun, questions asked in all of them, current search.

    `halted` is true if no search is active, because none was begun or the last one ended with a yes. The noisy
    threshold is drawn once per search and kept. It must stay secret: together with the answers it reveals more than was
    paid for, so a checkpoint with this state is sensitive. A run draws once from each state (`dpnotes.util.lineage`).
    """

    searches: Tensor
    asked: Tensor
    halted: Tensor
    threshold: Tensor
    lineage: Lineage


@checked
@dataclass(frozen=True)
class AboveThreshold:
    """Algorithm 1 "AboveThreshold" of Dwork and Roth (2014), doi:10.1561/0400000042, Section 3.6, over a batch of runs.

    The algorithm, by its lines, for questions of sensitivity D (printed for D = 1):
      1. let T' = T + Lap(2 D / epsilon)                              (`begin`)
      2. for each question i:
      3.   let nu_i = Lap(4 D / epsilon)                              (`ask`)
      4.   if f_i + nu_i >= T': answer yes and halt                   (`ask`: what comes after a yes is not asked)
      5.   else answer no

    Formal guarantees:
      All answers of a search, however many, are `(epsilon, 0)`-DP together (Theorem 3.23), and so `epsilon^2 / 2`-zCDP;
      only answers are released, never a noisy value. Questions may depend on earlier answers. With probability at least
      `1 - beta` the answers to `k` questions, all but perhaps the last one no, are right up to `accuracy(k, beta)`.
      A run may search again: every search has independent noise and is paid for when it begins.

    Args:
      epsilon: above 0, of each search of a run.
      threshold: T, public.
      sensitivity: D, above 0: the largest sensitivity of a question.
      relation: which data sets are neighbours.
      sampling: the examples that the questions use: all, or FRESH ones that no other release touches. If each question
        has a fresh batch of its own, the price is higher than necessary, but valid.
      purpose: names the noise stream; two mechanisms of one run need two purposes.

    Raises:
      ValueError: outside these domains.
      CombinationError: if the sampling is a random batch, or does not go with the relation.

    Example:
      >>> search = AboveThreshold(epsilon=50.0, threshold=3.0, sensitivity=1.0, relation=Relation.REPLACE_ONE)
      >>> streams, active, answers = Streams.of(0, ["run"]), torch.tensor([True]), []
      >>> state, price = search.begin(search.init(streams), streams, active)
      >>> for value in (0.0, 1.0, 9.0, 9.0):
      ...     question = Sensitive(torch.tensor([[value]]), torch.ones(1), Relation.REPLACE_ONE, "proved")
      ...     state, yes = search.ask(state, question, streams, active)
      ...     answers.append(bool(yes))
      >>> answers, state.asked.tolist(), float(price.rho())
      ([False, False, True, False], [3], 1250.0)
    """

    epsilon: Positive
    threshold: Finite
    sensitivity: Positive
    relation: Relation
    sampling: Sampling = WHOLE
    purpose: str = "above threshold"

    def __post_init__(self) -> None:
        if self.sampling not in (WHOLE, FRESH):
            raise CombinationError(
                f"Expected sampling=whole or fresh for AboveThreshold, got {self.sampling.scheme}: its questions share "
                "the noise of the threshold."
            )
        check_combination(self.sampling, self.relation)

    def init(self, streams: Streams) -> SelectionState:
        """The state before a run's first search: no question was asked, and none can be asked before `begin`."""
        none = torch.zeros(len(streams), dtype=torch.int64, device=streams.keys.device)
        threshold = torch.full_like(none, torch.inf, dtype=torch.float64)
        return SelectionState(none, none.clone(), none == 0, threshold, Lineage.of(len(none), none.device))

    def begin(self, state: SelectionState, streams: Streams, active: Tensor) -> tuple[SelectionState, Price]:
        """Begin a search in the active runs: draw the threshold's noise, and pay for all answers to come.

        Args:
          state: from `init`, or from an earlier search of these runs, which ends here.
          streams: the runs' randomness.
          active: `(runs,)` bool: the other runs are unchanged and pay nothing.

        Returns:
          The next state, and the price of the search, to be added to the ledger before the first question.

        Raises:
          ValueError: if the mask is not one truth value per run, the streams are of other runs, or an active run has
            drawn from this state before (on a device see `dpnotes.util.checks`).
        """
        _check_runs(state, streams, active)
        active = _draws_afresh(state, active)
        threshold = torch.full_like(state.threshold, self.threshold)
        noisy = self._noisy(threshold, 2, streams, f"{self.purpose}: threshold", state.searches)
        level = torch.full_like(noisy, 1 / self.epsilon)
        begun = SelectionState(
            state.searches + active.long(),
            state.asked,
            state.halted & ~active,
            torch.where(active, noisy, state.threshold),
            state.lineage,
        )
        return begun, Price(level, active, self.relation, self.sampling, "pure")

    def ask(
        self, state: SelectionState, question: Sensitive, streams: Streams, active: Tensor
    ) -> tuple[SelectionState, Tensor]:
        """Ask the active runs whose search goes on whether their value, `(runs, 1)`, is above the threshold.

        Returns:
          The next state, and the answers `(runs,)` bool: no for runs that were not asked.

        Raises:
          ValueError: if the value or the mask is not one per run, the sensitivity negative, NaN or above the declared
            one, or a run has drawn from this state before.
          CombinationError: if the question has another relation or sampling.
        """
        value = question.value
        if value.shape != (len(state.asked), 1):
            raise ValueError(f"Expected a question of shape (runs, 1), got {tuple(value.shape)}.")
        _check_runs(state, streams, active)
        if question.relation != self.relation or question.sampling != self.sampling:
            raise CombinationError(
                f"Expected a question under {self.relation} on {self.sampling.scheme} examples, "
                f"got {question.relation} on {question.sampling.scheme}."
            )
        asked = active & ~state.halted
        allowed = (question.l2_sensitivity >= 0) & (question.l2_sensitivity <= self.sensitivity * (1 + _SLACK))
        if bool((asked & ~allowed).any()):
            run = int((asked & ~allowed).nonzero()[0])
            moved = question.l2_sensitivity[run].item()
            raise ValueError(f"Expected 0 <= l2_sensitivity={moved} <= {self.sensitivity} in run {run}.")
        asked = _draws_afresh(state, asked)
        # Counted over all searches of the run, so that no two questions share their noise.
        noisy = self._noisy(value[:, 0].double(), 4, streams, f"{self.purpose}: question", state.asked)
        # NaN is not an error, since an error would depend on the data: its comparison is false, that is a no, and on
        # secret streams it counts as 0.
        yes = asked & (noisy >= state.threshold)
        return replace(state, asked=state.asked + asked.long(), halted=state.halted | yes), yes

    def _noisy(self, value: Tensor, times: float, streams: Streams, purpose: str, call: Tensor) -> Tensor:
        """The value `(runs,)` with added noise `Lap(times D / epsilon)`.

        On secret streams value and threshold are rounded to one grid. The privacy proof shifts noise by D and by 2 D;
        a rounded number follows such a shift exactly if it is a whole number of grid steps, so D is rounded up to one.
        """
        if not streams.secret:
            return value + laplace(streams, purpose, call) * (times * self.sensitivity / self.epsilon)
        scale = 2 / self.epsilon  # of the threshold's noise, in sensitivities
        # The grid is finer than noise and sensitivity, except where noise is 2^20 sensitivities long or more.
        step = grid_of(torch.full_like(value, self.sensitivity * max(min(1.0, scale), 2.0**-20 * scale)))
        sensitivity = ((self.sensitivity * (1 + _SLACK) / step).floor() + 1) * step
        steps = value.nan_to_num(0.0).clamp(-_FARTHEST * step, _FARTHEST * step)
        longer = times * sensitivity / self.epsilon
        return noisy_on_grid("laplace", steps[:, None], longer, longer > 0, step)[:, 0]

    @checked
    def accuracy(self, num_questions: AtLeastOne, beta: Probability) -> float:
        """The accuracy of the answers: `8 D (ln k + ln(2 / beta)) / epsilon` (Theorem 3.24).

        With probability at least `1 - beta` every value answered yes is at least `threshold - accuracy`, and every
        value answered no at most `threshold + accuracy`, provided that only the last of the k may lie above
        `threshold - accuracy`. On secret streams the noise is larger by 0.2% at most for epsilon above 1e-6, and
        values are clamped at 10^12 sensitivities from 0.

        Args:
          num_questions: k, at least 1.
          beta: in (0, 1).

        Example:
          >>> round(AboveThreshold(1.0, 0.0, 1.0, Relation.REPLACE_ONE).accuracy(100, 0.05), 2)
          66.35
        """
        return 8 * self.sensitivity * (math.log(num_questions) + math.log(2 / beta)) / self.epsilon


def _check_runs(state: SelectionState, streams: Streams, active: Tensor) -> None:
    validate.same_length(streams=streams, state=state.asked)
    if active.shape != state.asked.shape or active.dtype != torch.bool:
        raise ValueError(
            f"Expected active of shape {tuple(state.asked.shape)} and torch.bool, got {tuple(active.shape)} and "
            f"{active.dtype}."
        )


def _draws_afresh(state: SelectionState, drawing: Tensor) -> Tensor:
    """The runs, `(runs,)` bool, that draw and have not drawn from this state before; counted before they draw."""
    _, late = state.lineage.advance(state.searches + state.asked, drawing)
    if late is None:
        return drawing
    error = ValueError("Expected state to have drawn nothing yet: go on from the one that begin, or ask, returned.")
    checks.require(~late, lambda: error)
    return drawing & ~late
