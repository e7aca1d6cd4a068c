"""The desk: the one part that meters, filters, releases and claims. Every oracle stands on it.

An oracle says what it asks for (`Ask`: public numbers), answers it with exact means (`Answer`), and says what its
bounds rest on and what it believes afterwards. `OnDesk` makes two acts of that:

* *plan*: what a release would cost, who is refused it and why. Nothing is drawn, paid or looked at, and a refusal
  follows from public numbers, never from the size that a random batch turned out to have.
* *release*: examples are drawn and averaged, the meter moves, and what the mechanism lets out is handed over.

A plan belongs to one desk and one state, may be void for some of the runs (`Plan.only`), and is released once. So is a
state: asked a second time, seeded streams would draw the noise of the first again, and the difference of the two
answers would be exact. Its meter counts the releases, and shares the count with every copy, part and later state
(`lineage`), whatever belief stands beside it. A state that is restored (`states.restore`) begins a lineage of its own,
so a run on seeded streams can be replayed from a checkpoint; that one copy alone goes on is then up to whoever copied
it.
"""

import hashlib
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import cached_property
from typing import Any, Protocol, Self, TypeVar

import torch
from torch import Tensor

from dpnotes import checks, validate
from dpnotes.core import Estimate, Mechanism, Price, Release, Sensitive, Status
from dpnotes.guarantees import OVERSPENT, STATISTICS_WITHOUT_NOISE, Assumption, Basis, Guarantee, bound_was_checked
from dpnotes.lineage import Lineage
from dpnotes.per_run import Number, norms
from dpnotes.privacy.accounting import Accountant, account, assumptions_of
from dpnotes.privacy.events import LEAST_NOISE, Event, clipped_sensitivity
from dpnotes.privacy.filter import Filter, Spent
from dpnotes.privacy.mechanisms import is_exact, says_gaussian
from dpnotes.privacy.noise import TOLERANCE
from dpnotes.sampling import FRESH, Relation, Sampling
from dpnotes.states import select
from dpnotes.streams import Streams

Rules = TypeVar("Rules")

# Relative: how much longer than its bound a mean may be by its own rounding, in float32.
_ROUNDING = 1e-5


# ---------------------------------------------------------------- what is asked for, and what is answered
@dataclass(frozen=True, eq=False)
class Bound:
    """How far one example can move a sum that is divided by a public number.

    Args:
      longest: at least 0: how long an example's term may be (a radius: replaced, it moves the sum by twice that); or,
        as a `span`, how far a neighbour moves it, as of a loss in `[0, longest]`.
      divisor: above 0 and public.
      sensitivity: `(runs,)`, how far a neighbour moves the mean.
      span: which of the two `longest` is.
      slack: how much longer than `longest` a mean may be by the rounding of its terms.
    """

    longest: Number
    divisor: Number
    sensitivity: Tensor
    span: bool = False
    slack: Number = 0.0

    @staticmethod
    def of(
        longest: Number, divisor: Number, like: Tensor, relation: Relation, sampling: Sampling, *,
        span: bool = False, slack: Number = 0.0,
    ) -> "Bound":  # fmt: skip
        """With the sensitivity that follows, one a row of `like` `(runs,)`.

        Raises:
          CombinationError: if no accountant knows this sampling under this relation.

        Example:
          >>> like = torch.zeros(1, dtype=torch.float64)
          >>> Bound.of(1.0, 50, like, Relation.REPLACE_ONE, FRESH).sensitivity
          tensor([0.0400], dtype=torch.float64)
          >>> Bound.of(1.0, 50, like, Relation.REPLACE_ONE, FRESH, span=True).sensitivity
          tensor([0.0200], dtype=torch.float64)
        """
        turned = clipped_sensitivity(1.0, 1.0, relation, sampling)
        moved = (1.0 if span else turned) * longest / divisor
        return Bound(
            longest, divisor, moved if isinstance(moved, Tensor) else torch.full_like(like, moved), span, slack
        )

    def covers(self, mean: Tensor, size: Number | None) -> Tensor:
        """Whether no term is shown to be too long by the mean `(runs, dim)` of `size` of them (None: `divisor`)."""
        length = norms(mean)
        most = self.longest * (1 + _ROUNDING) if size is None else self.longest / self.divisor * (1 + _ROUNDING) * size
        if isinstance(self.slack, Tensor) or self.slack:
            most = most + self.slack
        return length <= most


@dataclass(frozen=True, eq=False)
class Ask:
    """A mean that an oracle asks to be released, in public numbers, `(runs,)` each or one for all runs.

    Args:
      bound: how far an example can move it.
      noise_std: `(runs,)`, of each coordinate of the noise.
      noise_multiplier: `(runs,)`, noise over sensitivity. `with_std` and `with_multiplier` make one of the other.
      gradients: of single examples, that the answers of a step take; said by the first ask of it, as is all below.
      evaluations: of losses of single examples beside them; None: none.
      exists: `(runs,)` bool, whether the oracle's schedule has this step; None: it has.
      examples: `(runs,)` int64, how many it uses up; None: none.
      restart: `(runs,)` bool, whether the answer begins a new sum; None: of no run.
      mechanism: of an ask beside the first, one without memory and with a purpose of its own; None: the desk's.
      note: what the oracle hands to itself.
    """

    bound: Bound
    noise_std: Tensor
    noise_multiplier: Tensor
    gradients: Number = 0
    evaluations: Number | None = None
    exists: Tensor | None = None
    examples: Tensor | None = None
    restart: Tensor | None = None
    mechanism: Mechanism | None = None
    note: Any = None

    @staticmethod
    def with_std(bound: Bound, noise_std: Tensor, **more: Any) -> "Ask":
        """With this noise."""
        return Ask(bound, noise_std, noise_std / bound.sensitivity, **more)

    @staticmethod
    def with_multiplier(bound: Bound, noise_multiplier: Tensor, **more: Any) -> "Ask":
        """With so many times the sensitivity for noise."""
        return Ask(bound, noise_multiplier * bound.sensitivity, noise_multiplier, **more)


@dataclass(frozen=True, eq=False)
class Answer:
    """An exact mean, and what was seen of the lengths of its terms; none of it leaves but through a mechanism.

    Args:
      mean: `(runs, dim)`, the sum divided by the public number.
      size: how many terms it is the sum of, which may be secret; None: `divisor`.
      seen: in which of the granted runs every term was compared with the bound, `(runs,)` bool; how many were longer,
        and of how many, `(runs,)` int64; None: in none.
    """

    mean: Tensor
    size: Number | None = None
    seen: tuple[Tensor, Tensor, Tensor] | None = None


# ---------------------------------------------------------------- states
@dataclass(frozen=True, eq=False)
class Meter:
    """What never goes back, `(runs,)` each: releases, examples used up, sums begun, and what the filter let through.

    `exceeded` of the `checked` terms were longer than the bound. Both are exact counts over the data: they belong to
    whoever may see the data, and are covered by no guarantee. By `terms` `(runs, 4)` a desk knows the meter as
    its own.
    """

    calls: Tensor
    used: Tensor
    refreshes: Tensor
    filter: Spent
    exceeded: Tensor
    checked: Tensor
    terms: Tensor
    lineage: Lineage

    @property
    def spent(self) -> Tensor:
        """zCDP spent, without amplification, `(runs,)`."""
        return self.filter.total


@dataclass(frozen=True)
class Belief:
    """What may be restored: `noise`, the memory of the mechanism. An oracle that remembers more has one of its own."""

    noise: Any


@dataclass(frozen=True)
class State:
    """`belief` may be restored, `meter` may not."""

    belief: Any
    meter: Meter


def _on_time(late: Tensor | None, asked: Tensor) -> Tensor:
    """Those who go on from the newest state of their run; others are an error (on a device see `dpnotes.checks`)."""
    if late is None:
        return asked
    error = ValueError("Expected state to have released nothing yet: go on from the one that its release returned.")
    checks.require(~late, lambda: error)
    return asked & ~late


@dataclass(frozen=True, eq=False)
class Plan:
    """What a release would cost and whom it refuses, `(runs,)` each; made by a desk, and released or voided once.

    Args:
      state: what it was made for.
      x: `(runs, dim)`.
      asks: what is asked for.
      granted: bool, the runs that get it.
      status: a `Status`, of those that asked and do not, why.
      spent: what the filter will have let through.
      cost: zCDP of the answers, before any is granted.
    """

    state: State
    x: Tensor
    asks: tuple[Ask, ...]
    granted: Tensor
    status: Tensor
    spent: Spent
    cost: Tensor
    desk: "Desk | None" = field(default=None, init=False)

    @cached_property
    def uses(self) -> Tensor:
        """Examples that the granted runs use up, `(runs,)`; needs an ask that says them."""
        return self.granted * self.asks[0].examples  # type: ignore[operator]

    @cached_property
    def begins(self) -> Tensor:
        """The granted runs that begin a new sum, `(runs,)` bool; needs an ask that says them."""
        return self.granted & self.asks[0].restart  # type: ignore[operator]

    def of(self, desk: "Desk | None") -> "Plan":
        """This plan, as `desk` has made it."""
        vars(self).update(desk=desk)
        return self

    def check(self, desk: "Desk | None") -> None:
        """Refuse a plan of another desk or of none, and one that was released or voided, with a ValueError."""
        if self.desk is None or desk is not self.desk or "closed" in vars(self):
            raise ValueError("Expected plan to be this oracle's, neither released nor voided: plan again.")

    def close(self, desk: "Desk | None") -> None:
        """Void it: it costs nothing, and is not released any more."""
        self.check(desk)
        vars(self)["closed"] = True

    def only(self, runs: Tensor, why: Tensor) -> "Plan":
        """The plan of those of the granted runs that are in `runs`, `(runs,)` bool; this one is void.

        Args:
          runs: who keeps what they were granted.
          why: `(runs,)`, the `Status` of the others.
        """
        desk = self.desk
        self.close(desk)
        kept = self.granted & runs
        status = torch.where(self.granted ^ kept, why, self.status)
        spent = select(kept, self.spent, self.state.meter.filter)
        return replace(self, granted=kept, status=status, spent=spent).of(desk)


def _described(mechanism: Mechanism) -> tuple[Any, ...]:
    """By class, purpose, whether its noise is claimed as Gaussian, and the plain ones of its parameters."""
    names = [each.name for each in fields(mechanism)] if is_dataclass(mechanism) else []
    plain = [(name, value) for name in names if isinstance(value := getattr(mechanism, name), bool | int | float | str)]
    return type(mechanism).__name__, getattr(mechanism, "purpose", None), says_gaussian(mechanism), plain


def _together(prices: list[Price]) -> Price:
    """What answers to the same runs cost as one."""
    price = prices[0]
    for other in prices[1:]:
        both = (price.noise_multiplier**-2 + other.noise_multiplier**-2) ** -0.5
        price = replace(price, noise_multiplier=both, noise="gaussian" if price.noise == "gaussian" else "zcdp")
    return price


# ---------------------------------------------------------------- the desk
@dataclass(frozen=True, eq=False)
class Desk:
    """On which terms a batch of runs is answered, and what they may claim for it.

    What is claimed is the budget, whatever noise a run chose under the filter: Gaussian releases, chosen by what was
    released before, whose costs never add up to more are together no worse than one Gaussian release of that cost
    (Smith and Thakurta 2022, arXiv:2210.17520). An example that is used up pays for its own batch alone. Or, with
    `claimed`, `steps` releases of this ask, which an accountant may amplify: then the desk counts the steps, and
    refuses an ask with less noise.

    Args:
      budget: `(runs,)` float64, in zCDP.
      relation: which data sets are neighbours.
      sampling: which examples an answer touches.
      basis: what the bounds rest on: enforced (clipped), proved, measured (on the data themselves) or assumed.
      mechanism: what releases the first answer of a step.
      tolerance: of the filter, for schedules that are known to fit.
      claimed: what a step asks for, that is released `steps` times; (): the budget is claimed.
      steps: at least 1 with `claimed`.
      total: examples there are to be used up, `()` or `(runs,)`.
      apart: what it rests on that an example's term is its own (`examples_apart`).
      not_covered: what depends on the data and is in no release.
      draws: purposes that examples are drawn from, which no mechanism may have.

    Raises:
      ValueError: for a mechanism with one of those purposes, or whose noise is not Gaussian with `claimed`.
    """

    budget: Tensor
    relation: Relation
    sampling: Sampling
    basis: Basis
    mechanism: Mechanism
    tolerance: float = 0.0
    claimed: tuple[Ask, ...] = ()
    steps: int = 0
    total: Tensor | None = None
    apart: tuple[Assumption, ...] = ()
    not_covered: tuple[str, ...] = ()
    draws: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        vars(self)["budget"] = self.budget.clone()  # what the caller does to theirs changes no claim
        validate.instance(Relation, relation=self.relation)
        validate.one_of(("enforced", "proved", "measured", "assumed"), basis=self.basis)
        validate.provides("release", "cost", mechanism=self.mechanism)
        if getattr(self.mechanism, "purpose", None) in self.draws:
            raise ValueError(f"Expected mechanism={self.mechanism!r} to have another purpose: oracles draw from it.")
        if self.claimed and not self.is_gaussian:
            raise ValueError(f"Expected mechanism={self.mechanism!r} to add Gaussian noise, which is what is claimed.")

    @staticmethod
    def fixed(
        norm_bound: float, divisor: float, noise_std: Tensor, num_steps: int, relation: Relation, sampling: Sampling,
        basis: Basis, mechanism: Mechanism, *, gradients: float, **more: Any,
    ) -> "Desk":  # fmt: skip
        """The desk of `num_steps` means of gradients, all with the same noise.

        Args:
          norm_bound: the longest a gradient can be, above 0.
          divisor: the public number, above 0.
          noise_std: `(runs,)` float64, at least 0, of each coordinate of the noise on the mean.
          num_steps: at least 1.
          relation: which data sets are neighbours.
          sampling: how a batch is drawn.
          basis: what `norm_bound` rests on.
          mechanism: what adds the noise, which is Gaussian.
          gradients: of single examples in a step, a public number.
          **more: of `Desk`.

        Raises:
          CombinationError: if no accountant knows this sampling under this relation.
          ValueError: outside these domains.
        """
        validate.at_least(1, num_steps=num_steps)
        validate.instance(Tensor, noise_std=noise_std)
        validate.positive(norm_bound=norm_bound, divisor=divisor)
        valid = (noise_std >= 0) & noise_std.isfinite()
        if noise_std.dim() != 1 or noise_std.dtype != torch.float64 or not bool(valid.all()):
            raise ValueError(
                f"Expected noise_std={noise_std} to be finite numbers >= 0, (runs,) and float64: one a run."
            )
        bound = Bound.of(norm_bound, divisor, noise_std, relation, sampling)
        ask = Ask.with_std(bound, noise_std.clone(), gradients=gradients)
        one = 0.5 / ask.noise_multiplier**2
        budget = one if sampling == FRESH else one * num_steps
        return Desk(budget, relation, sampling, basis, mechanism, TOLERANCE, (ask,), num_steps, **more)

    @cached_property
    def is_gaussian(self) -> bool:
        """Whether its mechanism says that its noise is Gaussian; of one that does not, zCDP is claimed."""
        return says_gaussian(self.mechanism)

    @cached_property
    def filter(self) -> Filter:
        """What refuses a release that would overspend."""
        return Filter(self.budget, self.tolerance)

    @cached_property
    def _basis(self) -> Basis:
        return self.basis if self.basis in ("enforced", "proved") and not self.apart else "assumed"

    def rests_on(self, streams: Streams) -> tuple[Assumption, ...]:
        """What claims of releases on these streams rest on, whatever the data."""
        return assumptions_of(streams, rounded_once=is_exact(self.mechanism))

    def bound(self, longest: Number, divisor: Number, *, span: bool = False, slack: Number = 0.0) -> Bound:
        """A `Bound` under this relation and sampling."""
        return Bound.of(longest, divisor, self.budget, self.relation, self.sampling, span=span, slack=slack)

    @cached_property
    def terms(self) -> Tensor:
        """What the claims of each run follow from, `(runs, 4)` float64.

        A hash, the budget, the noise multiplier, and how many examples there are: of more, others would be used again.
        """
        terms = (
            str(self.relation), self.sampling, self.basis, _described(self.mechanism), self.tolerance, self.steps,
            self.apart, self.not_covered,
        )  # fmt: skip
        number = int.from_bytes(hashlib.blake2b(repr(terms).encode(), digest_size=6).digest())
        multiplier = self.claimed[0].noise_multiplier if self.claimed else torch.zeros_like(self.budget)
        total = torch.full_like(self.budget, -1) if self.total is None else self.total.to(self.budget)
        parts = torch.full_like(self.budget, number), self.budget, multiplier, total.expand(self.budget.shape)
        return torch.stack(parts, dim=1)

    def check_terms(self, meter: Meter) -> None:
        """Refuse the meter of a desk that claims something else, with a ValueError (on a device see `checks`)."""
        if meter.terms is self.terms:
            return
        error = ValueError("Expected state to be this oracle's: its releases were made on other terms.")
        if meter.terms.shape != self.terms.shape:
            raise error
        own = self.terms.to(meter.terms.device)  # what claims may lie elsewhere than what ran, on the same terms
        checks.require(meter.terms == own, lambda: error)

    def init(self, x: Tensor) -> Meter:
        """Nothing released yet, at points `x` `(runs, dim)`."""
        validate.same_length(x=x, runs=self.budget)
        zeros = [torch.zeros(len(x), dtype=torch.int64, device=x.device) for _ in range(5)]
        lineage = Lineage.of(len(x), x.device)
        return Meter(zeros[0], zeros[1], zeros[2], self.filter.init(), zeros[3], zeros[4], self.terms, lineage)

    def plan(self, state: State, x: Tensor, asks: tuple[Ask, ...], active: Tensor) -> Plan:
        """Who gets all answers of a step, and who none; nothing is drawn, paid or looked at.

        Args:
          state: with a belief that has the mechanism's memory, `noise`.
          x: `(runs, dim)`.
          asks: what the step asks for; the first is released by the desk's mechanism.
          active: `(runs,)` bool, who asks.

        Raises:
          ValueError: if the state is another desk's or its run has released since, two asks would draw from one stream,
            or an ask has less noise than is claimed (on a device see `dpnotes.checks`).
        """
        meter, main = state.meter, asks[0]
        self.check_terms(meter)
        asked = _on_time(meter.lineage.late(meter.calls, active), active)
        cost = self.mechanism.cost(state.belief.noise, main.noise_multiplier, self.sampling, main.restart)
        for ask, mechanism in zip(asks[1:], self._beside(asks), strict=True):
            cost = cost + mechanism.cost(mechanism.init(x), ask.noise_multiplier, self.sampling, ask.restart)
        exists = main.exists
        if self.claimed:
            exists, asked = meter.calls < self.steps, self._as_claimed(asks, asked)
        reason: Any = Status.BUDGET_EXHAUSTED
        if main.examples is not None and self.total is not None:
            enough = main.examples <= self.total - meter.used
            asked, reason = asked & enough, Status.DATA_EXHAUSTED - 2 * enough
        if exists is not None:
            asked = asked & exists
            # In one kernel where no data can run out: BUDGET_EXHAUSTED is one more than FINISHED.
            reason = exists + 1 if main.examples is None else torch.where(exists, reason, int(Status.FINISHED))
        granted, spent = self.filter.grant(meter.filter, cost, asked, self.sampling)
        return Plan(state, x, asks, granted, (active ^ granted) * reason, spent, cost).of(self)

    def _beside(self, asks: tuple[Ask, ...]) -> list[Mechanism]:
        """The mechanisms of the asks after the first."""
        found = [self.mechanism, *(ask.mechanism for ask in asks[1:] if ask.mechanism is not None)]
        if len({getattr(mechanism, "purpose", None) for mechanism in found}) < len(asks):
            raise ValueError("Expected each of asks after the first to have a mechanism with a purpose of its own.")
        if self.is_gaussian and not all(map(says_gaussian, found)):
            raise ValueError(f"Expected mechanisms={found!r} all to add Gaussian noise, which is what is claimed.")
        return found[1:]

    def _as_claimed(self, asks: tuple[Ask, ...], active: Tensor) -> Tensor:
        """Those of the active runs that ask for one answer, with at least the noise that is claimed."""
        level, given = self.claimed[0].noise_multiplier, asks[0].noise_multiplier
        if len(asks) > 1:
            raise ValueError(f"Expected num_asks={len(asks)} to be 1, as is claimed.")
        if given is level:
            return active
        as_claimed = given >= level * (1 - TOLERANCE)
        error = ValueError("Expected noise_multiplier to be at least the one that is claimed.")
        checks.require(as_claimed | ~active, lambda: error)
        return active & as_claimed

    def release(
        self, plan: Plan, answers: tuple[Answer, ...], streams: Streams
    ) -> tuple[Any, Meter, list[Tensor], Price]:
        """Release the answers of the granted runs; plan and state are used up.

        Returns:
          The mechanism's memory, the meter, the released values, and their prices as one: Gaussian only if that is
          claimed; of any pair of others the sum of their costs in zCDP is what is known.

        Raises:
          ValueError: as `Plan.check`, if the state's run has released since or a price is above the cost that was
            planned (on a device see `dpnotes.checks`), and as the mechanisms.
        """
        plan.close(self)
        meter, noise, values, prices = plan.state.meter, plan.state.belief.noise, [], []
        calls, late = meter.lineage.advance(meter.calls, plan.granted)
        granted = _on_time(late, plan.granted)
        try:
            for ask, answer in zip(plan.asks, answers, strict=True):
                exact = Sensitive(answer.mean, ask.bound.sensitivity, self.relation, self._basis, self.sampling)
                request = Release(exact, ask.noise_std, meter.calls, granted, ask.restart)
                if ask.mechanism is None:
                    noise, value, price = self.mechanism.release(noise, request, streams)
                else:
                    _, value, price = ask.mechanism.release(ask.mechanism.init(answer.mean), request, streams)
                values, prices = [*values, value], [*prices, price]
                if self.is_gaussian and price.noise != "gaussian":
                    raise ValueError(f"Expected a price of {price.noise} noise to be Gaussian, which is claimed.")
            price = _together(prices)
            if not self.is_gaussian and price.noise == "gaussian":
                price = replace(price, noise="zcdp")
            error = ValueError("Expected the price of a release to be at most the cost that its mechanism said before.")
            as_planned = price.rho() <= plan.cost * (1 + TOLERANCE)
            as_planned = as_planned >= granted  # that is, where granted: in one kernel
            checks.require(as_planned, lambda: error)
            if not as_planned.is_cpu:  # where the error comes later, and nothing may leave until then
                values = [torch.where(as_planned[:, None], value, 0) for value in values]
        except BaseException:
            meter.lineage.withdraw(calls, meter.calls)
            raise
        return noise, self._counted(plan, answers[0], calls), values, price

    def _counted(self, plan: Plan, answer: Answer, calls: Tensor) -> Meter:
        meter, ask, granted = plan.state.meter, plan.asks[0], plan.granted
        used = meter.used if ask.examples is None else meter.used + plan.uses
        begun = meter.refreshes if ask.restart is None else meter.refreshes + plan.begins
        exceeded, checked = meter.exceeded, meter.checked
        if self.basis != "enforced" and not ask.bound.span:
            shown = granted > ask.bound.covers(answer.mean, answer.size)  # that is, and not: in one kernel
            if answer.seen is not None:
                looked, longer, among = answer.seen
                shown, exceeded, checked = shown > looked, exceeded + looked * longer, checked + looked * among
            exceeded, checked = exceeded + shown, checked + shown
        return Meter(calls, used, begun, plan.spent, exceeded, checked, self.terms, meter.lineage)

    # ------------------------------------------------------------ what may be claimed
    def accountable(self, run: int) -> bool:
        """Whether a run has the least noise that any accountant knows; without it nothing is claimed."""
        return self._multiplier(run) >= LEAST_NOISE

    def _multiplier(self, run: int) -> float:
        if self.claimed:
            return float(self.claimed[0].noise_multiplier[run])
        return (0.5 / float(self.budget[run])) ** 0.5  # of one release that costs all of it

    def events(self, run: int) -> list[Event]:
        """All releases of a run, as the accountant reads them.

        Raises:
          ValueError: if they have no noise, or too little to be `accountable`, or there is no such run.
        """
        validate.index(len(self.budget), run=run)
        if not self.claimed:
            noise = "gaussian" if self.is_gaussian else "zcdp"
            return [Event(self._multiplier(run), self.relation, self.sampling, 1, noise)]
        count = 1 if self.sampling == FRESH else self.steps
        return [Event(self._multiplier(run), self.relation, self.sampling, count)]


class OnDesk(Protocol):
    """An oracle that says `ask`, `answer`, `bounds`, and what else it remembers: the rest follows here."""

    @property
    def desk(self) -> Desk:
        """Its terms, one object for the life of the oracle."""
        ...

    def ask(self, state: State, x: Tensor) -> tuple[Ask, ...]:
        """What it asks for at `x` `(runs, dim)`, from public numbers."""
        ...

    def answer(self, plan: Plan, streams: Streams) -> tuple[Answer, ...]:
        """The exact means that a plan asks for, of the granted runs."""
        ...

    def bounds(self, meter: Meter, run: int) -> tuple[Assumption, ...]:
        """What the sensitivity of a run rests on, with what the run saw of it."""
        ...

    def begin(self, x: Tensor) -> Any:
        """What it believes before the first release."""
        return Belief(self.desk.mechanism.init(x))

    def believe(self, plan: Plan, noise: Any, values: list[Tensor]) -> tuple[Any, Tensor]:
        """What it believes after a release of these values, and its gradient estimate; zeros in runs without one."""
        return Belief(noise), values[0]

    def init(self, x: Tensor) -> State:
        """The state before the first release, for points `x` `(runs, dim)`."""
        return State(self.begin(x), self.desk.init(x))

    def plan(self, state: State, x: Tensor, active: Tensor) -> Plan:
        """What an estimate at `x` would cost, and who is refused it; arguments and errors as `estimate`."""
        runs = len(self.desk.budget)
        if x.dim() != 2 or len(x) != runs:
            raise ValueError(f"Expected x of shape {tuple(x.shape)} to be ({runs}, dim), a row a run.")
        if x.dtype not in (torch.float32, torch.float64):
            raise ValueError(f"Expected x of {x.dtype} to be float32 or float64, in which sensitivities hold.")
        validate.instance(Tensor, active=active)
        if active.dtype != torch.bool or active.shape != (runs,):
            raise ValueError(f"Expected active of shape {tuple(active.shape)}, {active.dtype} to be ({runs},) bool.")
        return self.desk.plan(state, x, self.ask(state, x), active)

    def release(self, plan: Plan, streams: Streams) -> tuple[State, Estimate]:
        """The estimate of a plan of this oracle; as `estimate`."""
        plan.check(self.desk)
        granted, main, desk = plan.granted, plan.asks[0], self.desk
        if checks.known_empty(granted):
            plan.close(desk)
            price = Price(main.noise_multiplier, granted, desk.relation, desk.sampling)
            return plan.state, Estimate(torch.zeros_like(plan.x), price, torch.zeros_like(plan.status), plan.status)
        answers = self.answer(plan, streams)
        noise, meter, values, price = desk.release(plan, answers, streams)
        belief, gradient = self.believe(plan, noise, values)
        evaluations = None if main.evaluations is None else granted * main.evaluations
        return State(belief, meter), Estimate(gradient, price, granted * main.gradients, plan.status, evaluations)

    def estimate(self, state: State, x: Tensor, streams: Streams, active: Tensor) -> tuple[State, Estimate]:
        """One private gradient estimate at `x` for the runs in `active` that are granted one.

        Args:
          state: from `init` or the last call; one that was released from already is refused.
          x: `(runs, dim)`.
          streams: the runs' randomness.
          active: `(runs,)` bool.

        Returns:
          The next state, and the estimate; rows that were refused are zeros and carry their status.

        Raises:
          TypeError: if `active` is no tensor.
          ValueError: if the state has released before, `x` or `active` has another shape, and as the mechanism.
        """
        return self.release(self.plan(state, x, active), streams)

    def declared(self) -> Tensor:
        """The zCDP that no run exceeds, `(runs,)`, without what sampling gains."""
        return self.desk.budget.clone()

    def events(self, run: int) -> list[Event]:
        """All releases of a run, for `privacy.accounting.account`; as `Desk.events`."""
        return self.desk.events(run)

    def guarantee(
        self,
        state: State,
        delta: float,
        streams: Streams,
        *,
        not_covered: tuple[str, ...] = (),
        accountant: Accountant | None = None,
    ) -> tuple[Guarantee, ...]:
        """What each run may claim for all its releases, whenever it stopped.

        Args:
          state: after the run.
          delta: in (0, 1).
          streams: the runs' randomness; whether it is a secret, and whether runs share it, is part of the claim.
          not_covered: what else depends on the data, such as `guarantees.TUNED_ON_PRIVATE_DATA`.
          accountant: as `privacy.accounting.account`.

        Returns:
          One a run. A run that saw a bound exceeded, or spent more than the terms of this oracle allow, claims nothing
          (`Guarantee.holds`): its epsilon is infinite, as it is without noise.

        Raises:
          ValueError: if the runs have released since, or the state is another oracle's.
        """
        validate.between(0, 1, delta=delta)
        claims, desk, meter, about_runs = [], self.desk, state.meter, self.desk.rests_on(streams)
        desk.check_terms(meter)
        _on_time(meter.lineage.late(meter.calls, meter.calls >= 0), meter.calls)
        checks.settle()
        for run, budget in enumerate(desk.budget.tolist()):
            rests, left = (*about_runs, *self.bounds(meter, run), *desk.apart), (*not_covered, *desk.not_covered)
            if (desk.basis == "measured" or int(meter.checked[run])) and STATISTICS_WITHOUT_NOISE not in left:
                left = (*left, STATISTICS_WITHOUT_NOISE)
            if bool(meter.spent[run] > desk.budget[run] * (1 + desk.tolerance)):
                rests = (*rests, OVERSPENT)
            if desk.accountable(run):
                claims.append(account(desk.events(run), delta, accountant, assumptions=rests, not_covered=left))
            else:
                how = "no noise" if budget == float("inf") else "less noise than an accountant knows"
                claims.append(Guarantee(float("inf"), delta, desk.relation, how, rests, left))
        return tuple(claims)

    def take(self, index: Tensor) -> Self:
        """The oracle of some of the runs; data that are the same for all stay so."""
        return part_of(self, index)


def part_of(rules: Rules, index: Tensor) -> Rules:
    """A dataclass of what each run is given, for some of the runs: its tensors' rows, and the parts of its parts."""
    parts: Any = {f.name: getattr(rules, f.name) for f in fields(rules)}  # type: ignore[arg-type]
    for name, value in parts.items():
        if isinstance(value, Tensor):
            parts[name] = value[index] if value.dim() else value
        elif hasattr(value, "take"):
            parts[name] = value.take(index)
    return replace(rules, **parts)  # type: ignore[type-var]


# ---------------------------------------------------------------- what bounds rest on
def norms_within(norm_bound: float, basis: Basis, meter: Meter, run: int) -> tuple[Assumption, ...]:
    """What it rests on that no gradient is longer than `norm_bound`, with what a run saw of it.

    Example:
      >>> norms_within(2.0, "enforced", None, 0)
      (Assumption(statement='gradients are clipped to 2', basis='enforced', holds=True),)
    """
    if basis == "enforced":
        return (Assumption(f"gradients are clipped to {norm_bound:g}", "enforced", True),)
    exceeded, checked = int(meter.exceeded[run]), int(meter.checked[run])
    bound = Assumption(f"every gradient norm is at most {norm_bound:g}", basis)
    if exceeded or (checked and basis != "proved"):
        bound = bound_was_checked(norm_bound, exceeded, checked)
    if basis == "proved":
        return (bound,)
    return bound, Assumption(f"a neighbour's own example has no gradient above {norm_bound:g} either", "assumed")
