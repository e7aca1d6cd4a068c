"""SPIDER with private releases: occasional fresh gradients, and differences of gradients in between."""

from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Annotated, Any

import torch
from torch import Tensor

from dpnotes.core import FRESH, WHOLE, Mechanism, Relation, Sampling
from dpnotes.guarantees import Assumption
from dpnotes.oracles.release import Answer, Ask, Meter, ReleasePlan, Releases, ReleasingOracle, State
from dpnotes.oracles.samples import PURPOSES, Samples
from dpnotes.privacy.events import clipped_sensitivity
from dpnotes.random.streams import Streams
from dpnotes.util import validate
from dpnotes.util.per_run import Number, norms, part_of, rows
from dpnotes.util.states import select
from dpnotes.util.validate import AtLeastOne, AtLeastZero, EachNonNegative, EachPositive, checked

# Relative. The noise exceeds the multiplier's by this margin, so that rounding never makes a release cost more.
_MARGIN = 2.0**-40
_LEAST_SENSITIVITY = 1e-150  # for the noise: for a move of 0 the answer is 0 whatever the data
_LARGEST_BATCH = 2e18  # larger than any source


@checked
@dataclass(frozen=True)
class Refresh:
    """The rule for fresh gradients: one is requested when the drift of the query points reaches a threshold.

    A move adds `scale |move|^power` to the drift, which a fresh gradient sets to 0. All moves between query points
    count, including a jump back to an earlier point.

    Args:
      threshold: kappa, above 0, in the units of the drift.
      scale: at least 0.
      power: 0, 1 or 2.
      longest: the number of terms, at least 1, after which a new sum begins whatever the drift; None: no limit. With a
        `Tree` at most its `max_leaves`, or the filter refuses the term after the last leaf.

    Raises:
      ValueError: outside these domains.

    Example:
      >>> Refresh.squared_moves(0.01)
      Refresh(threshold=0.01, scale=1.0, power=2, longest=None)
    """

    threshold: Number
    scale: EachNonNegative[Number] = 1.0
    power: AtLeastZero = 2
    longest: AtLeastOne | None = None

    def __post_init__(self) -> None:
        if self.longest is None or isinstance(self.threshold, Tensor) or self.threshold != float("inf"):
            validate.every(validate.positive, threshold=self.threshold)
        if self.power > 2:
            raise ValueError(f"Expected power={self.power} to be 0, 1 or 2.")

    @staticmethod
    def path_length(threshold: Number, smoothness: Number, longest: int | None = None) -> "Refresh":
        """The rule of Liu and Talwar (2024): the drift is the sum of `M |move|`, in the units of a gradient."""
        validate.every(validate.non_negative, smoothness=smoothness)
        return Refresh(threshold, smoothness, 1, longest)

    @staticmethod
    def squared_moves(threshold: Number, longest: int | None = None) -> "Refresh":
        """The rule of drift escape: the drift is the sum of `|move|^2`, in the units of a length squared."""
        return Refresh(threshold, 1.0, 2, longest)

    @staticmethod
    def every(num_steps: int) -> "Refresh":
        """The rule of plain SPIDER: a fresh gradient every `num_steps` estimates, whatever the points."""
        validate.at_least(1, num_steps=num_steps)
        return Refresh(float("inf"), 0.0, 0, num_steps)

    def drift(self, drift: Tensor, move: Tensor) -> Tensor:
        """The drift after a move of this length, `(runs,)` float64."""
        return drift + self.scale * move**self.power

    def due(self, drift: Tensor, terms: Tensor) -> Tensor:
        """Return whether a new sum is due after this drift and this number of terms (0: no sum yet), `(runs,)` bool."""
        due = (terms == 0) | (drift >= self.threshold)
        return due if self.longest is None else due | (terms >= self.longest)

    def take(self, index: Tensor) -> "Refresh":
        """The rule of some of the runs."""
        return part_of(self, index)


@checked
@dataclass(frozen=True)
class BatchSizes:
    """The rule for batch sizes, which are public numbers, like the moves that they depend on.

    Args:
      first: b (b1), the batch size of a fresh gradient, at least 1.
      least: b2, the smallest batch size of a difference, at least 1.
      per_gradient: a difference over a move gets `per_gradient M |move|` examples if that is more; 0: always b2.
        `M |move|` is the norm of the last gradient estimate at the step size 1/M.

    All sizes are rounded up to whole numbers.

    Raises:
      ValueError: outside these domains.

    Example:
      >>> BatchSizes(first=1000, per_gradient=50.0)
      BatchSizes(first=1000, least=1.0, per_gradient=50.0)
    """

    first: EachPositive[Number]
    least: EachPositive[Number] = 1.0
    per_gradient: EachNonNegative[Number] = 0.0

    def wanted(self, bound: Tensor, new: Tensor) -> Tensor:
        """The sizes before rounding up, `(runs,)`: for a new sum, or for a difference with terms of at most `bound`."""
        later = (self.per_gradient * bound).clamp_min(self.least)
        return torch.where(new, self.first, later)

    def take(self, index: Tensor) -> "BatchSizes":
        """The rule of some of the runs."""
        return part_of(self, index)


@dataclass(frozen=True)
class Memory:
    """The restorable state: the last query point, the gradient released there, `(runs, dim)`, and the sum's progress.

    `drift` `(runs,)` since the last fresh gradient, `terms` `(runs,)` of the sum (0: the next estimate begins a sum),
    `noise`, the mechanism's state.
    """

    point: Tensor
    gradient: Tensor
    drift: Tensor
    terms: Tensor
    noise: Any


@checked
@dataclass(frozen=True)
class Spider(ReleasingOracle):
    """The oracle of Algorithms 2 and 3 of Liu and Talwar (2024), and the adaptive DP-SPIDER of drift escape.

    Liu and Talwar, "Adaptive Batch Size for Privately Finding Second-Order Stationary Points", arXiv:2410.07502v1, with
    `Refresh.path_length`, `BatchSizes(b, 1, per_gradient)` and a `Tree`, by the oracle's lines of Algorithm 2:
      2: drift_0 = kappa                                   (`Memory.terms` = 0: the first estimate is a fresh gradient)
      3: while #unused functions > b                       (DATA_EXHAUSTED where the batch needed is not there)
      4: if drift_t >= kappa                               (`Refresh.due`)
      5:   grad_t = O1(x_t), drift_t = 0                   (`Batch.term`; the tree starts anew)
      7: else grad_t = grad_{t-1} + O2(x_t, x_{t-1})       (`Batch.term`)
     13: gradient estimate grad_t + TREE(t)                (`Releases.release`, `remember`)
     15: drift_{t+1} = drift_t + |gradient estimate|       (`Refresh.drift`)
    The method has the perturbation at saddles and the step (`methods.spider_descent`).

    "Private Stochastic Optimization for Achieving Second-Order Stationary Points" (drift escape; anonymous, submitted
    to ICLR), Algorithm 2, with `Refresh.squared_moves`, `BatchSizes(b1, b2)` and `Gaussian`: the same, but the drift
    adds `eta^2 |g_t|^2` and noise of variance proportional to `G^2 / b1^2`, or to `M^2 |move|^2 / b2^2`, is drawn for
    every release. Plain DP-SPIDER (Arora, Bassily, González, Guzmán, Menart and Ullah, ICML 2023, arXiv:2206.00846) is
    `Refresh.every` with `Gaussian`.

    All use the same recursion: the increments that a mechanism releases are added up. With `Gaussian` their noise adds
    up too, as in drift escape. With `Tree` the noise of the sum is the tree's, as in Liu and Talwar, who add it to the
    exact sum; here the exact sum is never stored.

    Differences from the papers: the tree starts anew with every fresh gradient (a single tree has up to twice the
    squared sensitivity, since the terms of the sum are then not on disjoint examples), and its first leaf has noise.
    The sensitivity is for replacing an example, twice the printed one. The batch size depends on the *last* move (the
    printed size depends on the gradient for which the batch is drawn), is a whole number, and is compared with the
    remaining examples before anything is drawn. The drift includes all moves, also a jump back to a saved point.

    Formal guarantees:
      Under `relation` all releases of a run cost at most `budget` in zCDP: an example is in one batch, so batches
      compose in parallel, and the filter refuses a release that would cost more (BUDGET_EXHAUSTED). Points and batch
      sizes may depend on earlier releases. With samples that clip, the sensitivity is enforced, at the cost of a bias;
      otherwise it assumes G and M, which the run can refute but not prove.

    Memory: four numbers per coordinate, besides the mechanism's; batches need the memory of their source.

    Args:
      samples: examples that are used once.
      mechanism: `Gaussian`, `Tree`, or `Exact` for a run without a guarantee (with an infinite budget).
      noise_multiplier: at least 0, `()` or `(runs,)`: the noise of a release (with a `Tree`, of a node) divided by the
        sensitivity of the release or, if given, by `term_sensitivity`.
      budget: `(runs,)` float64, in zCDP, at least the cost of the first release.
      refresh: the rule for fresh gradients.
      batches: the rule for batch sizes.
      gradient_bound: G, above 0: the largest norm of an example's gradient, in units of loss over length.
      smoothness: M, above 0: the Lipschitz constant of an example's gradient.
      term_sensitivity: s, above 0: all terms have the noise `noise_multiplier * s`, and batches are so large that no
        term's sensitivity exceeds s. A `Tree` needs it. None: noise in proportion to each term's sensitivity, that is,
        to each move.
      relation: which data sets are neighbours, replace-one or zero-out.
      sampling: `FRESH`: an example is in one batch. `WHOLE`: every batch is all of `samples`, whatever `batches` says;
        no example is used up, and the costs of releases add up.
      difference_multiplier: at least 0, the noise multiplier of a difference if it differs from a fresh gradient's; not
        with a `Tree`, which has one noise for a whole sum. None: `noise_multiplier`.
      least_move: above 0: differences over shorter moves use the bound of a move of this length. None: of the move.

    Each number is the same for all runs, or `(runs,)`.

    Raises:
      ValueError: outside these domains; for noise that is not Gaussian, or drawn from the stream of the batches; if
        there are too few examples for one fresh gradient, or the budget does not cover its release (with the gap).

    Example:
      >>> from dpnotes.oracles.samples import VirtualSamples
      >>> from dpnotes.privacy.tree import Tree
      >>> from dpnotes.problems.separable import Cosine, Separable, Sine
      >>> from dpnotes.problems.virtual import VirtualData
      >>> data = VirtualData(Separable([(Cosine(1.0), 2)]), Separable([(Sine(0.5), 2)]))
      >>> oracle = Spider(
      ...     VirtualSamples(data, 10**6), Tree(64), 10.0, torch.tensor([0.04], dtype=torch.float64),
      ...     Refresh.path_length(0.5, 2.0), BatchSizes(first=10_000, per_gradient=1000.0), gradient_bound=2.0,
      ...     smoothness=2.0, term_sensitivity=0.002,
      ... )
      >>> x, streams, active = torch.ones(1, 2, dtype=torch.float64), Streams.of(0, ["run"]), torch.tensor([True])
      >>> state = oracle.init(x)
      >>> for _ in range(5):
      ...     state, estimate = oracle.estimate(state, x, streams, active)
      ...     x = x - 0.05 * estimate.gradient
      >>> state.meter.calls.item(), state.meter.refreshes.item(), state.meter.used.item()
      (5, 1, 10494)
    """

    samples: Samples
    mechanism: Mechanism
    noise_multiplier: EachNonNegative[Number]
    budget: Tensor
    refresh: Annotated[Refresh, partial(validate.provides, "drift", "due")]
    batches: Annotated[BatchSizes, partial(validate.provides, "wanted")]
    gradient_bound: EachPositive[Number]
    smoothness: EachPositive[Number]
    term_sensitivity: EachPositive[Number] | None = None
    relation: Relation = Relation.REPLACE_ONE
    sampling: Sampling = FRESH
    difference_multiplier: EachNonNegative[Number] | None = None
    least_move: EachPositive[Number] | None = None

    def __post_init__(self) -> None:
        validate.one_of((Relation.REPLACE_ONE, Relation.ZERO_OUT), relation=self.relation)
        validate.one_of(("fresh", "whole"), sampling=self.sampling.scheme)
        if self.budget.dim() != 1 or self.budget.dtype != torch.float64:
            raise ValueError(f"Expected budget={self.budget} to be (runs,) and float64: one a run.")
        _ = self.releases.filter
        self._check_shapes()
        self._check_mechanism()
        self._check_first()

    def _check_shapes(self) -> None:
        rules = {**vars(self.refresh), **vars(self.batches), "total": self.samples.total}
        for name, value in {**vars(self), **rules}.items():
            if isinstance(value, Tensor) and value.shape not in ((), self.budget.shape):
                raise ValueError(f"Expected {name} of shape {tuple(value.shape)} to be () or {(len(self.budget),)}.")

    def _check_mechanism(self) -> None:
        wrong = f"Expected mechanism={self.mechanism!r} to"
        if not self.releases.is_gaussian:
            raise ValueError(f"{wrong} add Gaussian noise, which is what is claimed.")
        if self.term_sensitivity is None and hasattr(self.mechanism, "max_leaves"):
            raise ValueError(f"{wrong} have independent noise, or a term_sensitivity: the noise of a sum is constant.")
        if self.difference_multiplier is not None and hasattr(self.mechanism, "max_leaves"):
            raise ValueError(f"{wrong} have independent noise, or no difference_multiplier: a sum has one noise.")

    def _check_first(self) -> None:
        """Refuse settings for which a run could not make its first estimate."""
        new = torch.ones_like(self.budget, dtype=torch.bool)
        first = self._asked(new, rows(self.gradient_bound, self.budget))
        need: Any = first.bound.divisor
        for run in (need > self.samples.total).nonzero()[:1, 0].tolist():
            total = int(self.samples.total.expand(need.shape)[run])
            raise ValueError(
                f"Expected total={total} >= {int(need[run])}, the batch of one fresh gradient: too few examples in "
                f"run {run} by {int(need[run]) - total}."
            )
        start = self.mechanism.init(self.budget[:, None])
        cost = self.mechanism.cost(start, first.noise_multiplier, self.sampling, new)
        for run in (cost > self.budget).nonzero()[:1, 0].tolist():
            raise ValueError(
                f"Expected budget={float(self.budget[run]):.6g} >= {float(cost[run]):.6g}, the zCDP of one fresh "
                f"gradient in run {run}; noise_multiplier is too small by a factor of "
                f"{float((cost / self.budget)[run]) ** 0.5:.6g}."
            )

    @cached_property
    def releases(self) -> Releases:
        """The planning, making and accounting of this oracle's releases."""
        return Releases(
            self.budget, self.relation, self.sampling, self.samples.basis, self.mechanism, total=self.samples.total,
            draws=PURPOSES,
        )  # fmt: skip

    def begin(self, x: Tensor) -> Memory:
        """The memory before the first release: a sum without terms."""
        none = torch.zeros(len(x), dtype=torch.int64, device=x.device)
        return Memory(x, torch.zeros_like(x), none.double(), none, self.mechanism.init(x))

    @cached_property
    def _scale(self) -> Tensor | None:
        """The term sensitivity s per run, as a tensor: division by a host number rounds differently on some devices."""
        return None if self.term_sensitivity is None else rows(self.term_sensitivity, self.budget)

    @cached_property
    def _everything(self) -> Tensor:
        return self.samples.total.to(self.budget.device).expand(self.budget.shape)

    def _need(self, new: Tensor, longest: Tensor) -> Tensor:
        """The number of examples in the next batch, `(runs,)` int64, if terms have norm at most `longest`."""
        if self.sampling == WHOLE:
            return self._everything
        wanted = self.batches.wanted(longest, new)
        if self._scale is not None:
            turned = clipped_sensitivity(1.0, 1.0, self.relation, self.sampling)
            wanted = torch.maximum(wanted, turned * longest / self._scale)
        return wanted.ceil().nan_to_num(nan=_LARGEST_BATCH).clamp(1, _LARGEST_BATCH).long()

    def _asked(self, new: Tensor, longest: Tensor, eps: float = 0.0, drift: Tensor | None = None) -> Ask:
        need, multiplier = self._need(new, longest), self.noise_multiplier
        # The rounding error of a difference over a short move is that of its gradients.
        bound = self.releases.bound(longest, need, slack=8 * eps * self.gradient_bound)
        if self.difference_multiplier is not None:
            multiplier = torch.where(new, multiplier, rows(self.difference_multiplier, longest))
        scale = bound.sensitivity if self._scale is None else self._scale
        noise_std = multiplier * scale.clamp_min(_LEAST_SENSITIVITY) * (1 + _MARGIN)
        queries = getattr(self.samples, "queries", None)
        gradients, evaluations = queries(need, new) if queries else (torch.where(new, need, 2 * need), None)
        return Ask.with_std(
            bound, noise_std, gradients=gradients, evaluations=evaluations, restart=new, note=drift,
            examples=need if self.sampling == FRESH else None,
        )  # fmt: skip

    def ask(self, state: State, x: Tensor) -> tuple[Ask, ...]:
        """The request for a fresh gradient where one is due, else for the difference to the last point."""
        memory = state.memory
        move = norms(x - memory.point)
        drift = self.refresh.drift(memory.drift, move)
        new = self.refresh.due(drift, memory.terms)
        far = move if self.least_move is None else torch.maximum(move, rows(self.least_move, move))
        longest = torch.where(new, self.gradient_bound, self.smoothness * far)
        return (self._asked(new, longest, torch.finfo(x.dtype).eps, drift),)

    def answer(self, plan: ReleasePlan, streams: Streams) -> tuple[Answer, ...]:
        """The mean term of the next batch, with the number of examples in the plan."""
        ask: Any = plan.asks[0]
        meter = plan.state.meter
        count = plan.granted * self._everything if ask.examples is None else plan.uses
        batch = self.samples.batch(meter.used, count, streams, meter.calls)
        return (Answer(batch.term(plan.x, plan.state.memory.point, ask.restart, ask.bound.longest)),)

    def remember(self, plan: ReleasePlan, noise: Any, values: list[Tensor]) -> tuple[Memory, Tensor]:
        """The memory after adding the released value to the sum, or beginning a new sum with it; and the estimate."""
        old, ask, granted = plan.state.memory, plan.asks[0], plan.granted
        # Refused rows of the value are zeros, and begin no new sum.
        gradient = torch.where(plan.begins[:, None], values[0], old.gradient + values[0])
        memory = Memory(
            torch.where(granted[:, None], plan.x, old.point),
            gradient,
            torch.where(granted, ask.note, old.drift).masked_fill(plan.begins, 0.0),
            (old.terms + granted).masked_fill(plan.begins, 1),
            noise,
        )
        return memory, gradient.masked_fill(~granted[:, None], 0)

    # ------------------------------------------------------------ changes of the memory that a method may make
    def rollback(self, now: State, saved: State, mask: Tensor, *, refresh: bool) -> State:
        """Restore the saved memory where `mask` `(runs,)` is true; the meter does not change.

        Args:
          now: the current state.
          saved: an earlier state of the same runs.
          mask: the runs to restore.
          refresh: whether the next estimate there is a fresh gradient. Correlated noise needs it: a `Tree` refuses to
            continue a sum whose blocks were paid for once (`CombinationError`). Independent noise allows both.
        """
        memory = select(mask, saved.memory, now.memory)
        if refresh:
            memory = replace(memory, terms=torch.where(mask, 0, memory.terms))
        return State(memory, now.meter)

    def forget_drift(self, state: State, mask: Tensor) -> State:
        """Set the drift to 0 without a fresh gradient: line 10 of Liu and Talwar's Algorithm 2 as it is printed.

        The error of the estimate then has no bound, since batch sizes and fresh gradients depend on the drift.
        """
        return replace(state, memory=replace(state.memory, drift=torch.where(mask, 0.0, state.memory.drift)))

    # ------------------------------------------------------------ assumptions of the guarantee
    def bounds(self, meter: Meter, run: int) -> tuple[Assumption, ...]:
        """The assumptions on the norms of gradients and of differences."""
        longest, change = (float(rows(v, self.budget)[run]) for v in (self.gradient_bound, self.smoothness))
        what = f"gradients are at most {longest:g} long and differ by at most {change:g} times the move"
        if self.samples.basis == "enforced":
            return (Assumption(f"{what} (clipped)", "enforced", True),)
        if exceeded := int(meter.exceeded[run]):
            seen = f"every example's {what} (the means of {exceeded} of {int(meter.calls[run])} batches were longer)"
            return (Assumption(seen, "checked", False),)
        return (Assumption(f"every example's {what}", self.samples.basis),)
