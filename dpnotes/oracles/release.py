"""Releases: the one part that meters, filters, releases and claims. Every oracle stands on it.

An oracle asks in public numbers (`Ask`), answers with exact means (`Answer`), and says which assumptions its bounds
rest on. `ReleasingOracle` does this in two acts:

* *plan*: the cost of a release, and which runs are refused and why. Nothing is drawn, paid or looked at, and a refusal
  follows from public numbers, never from the size of a random batch.
* *release*: examples are drawn and averaged, the meter moves, and the output of the mechanism is handed over.

A plan belongs to one oracle and one state, may be void for some of the runs (`ReleasePlan.only`), and is released once.
So is a state: asked twice, seeded streams would draw the same noise twice, and the difference of the two answers would
be exact. Its meter counts the releases, and shares the count with every copy, part and later state
(`lineage`). A restored state (`states.restore`) begins a lineage of its own, so that a run on seeded streams can be
replayed from a checkpoint; whoever copied it then sees to it that one copy alone goes on.
"""

import hashlib
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import cached_property
from typing import Any, Protocol, Self

import torch
from torch import Tensor

from dpnotes.core import FRESH, Assumption, Estimate, Guarantee, Mechanism, Price, Request, Sensitive, Status
from dpnotes.guarantees import OVERSPENT, STATISTICS_WITHOUT_NOISE, Basis, Relation, Sampling, bound_was_checked
from dpnotes.oracles.asks import Answer, Ask, Bound
from dpnotes.privacy.accounting import account, assumptions_of
from dpnotes.privacy.events import LEAST_NOISE, Event
from dpnotes.privacy.filter import Filter, Spent
from dpnotes.privacy.mechanisms import is_exact, says_gaussian
from dpnotes.privacy.noise import TOLERANCE
from dpnotes.random.streams import Streams
from dpnotes.util import checks, validate
from dpnotes.util.lineage import Lineage
from dpnotes.util.per_run import Number, part_of
from dpnotes.util.states import select
from dpnotes.util.validate import AtLeastOne, Positive, checked


# ---------------------------------------------------------------- states
@dataclass(frozen=True, eq=False)
class Meter:
    """The counts that never go back, `(runs,)` each: releases, examples used up, sums begun, and cost in the filter.

    `exceeded` of the `checked` terms were longer than the bound. Both are exact counts over the data: they belong to
    whoever may see the data, and are covered by no guarantee. By `terms` `(runs, 4)` `Releases` knows the meter as
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
class Memory:
    """The restorable part of a state: `noise`, the memory of the mechanism. An oracle may have a larger one."""

    noise: Any


@dataclass(frozen=True)
class State:
    """`memory` may be restored, `meter` may not."""

    memory: Any
    meter: Meter


def on_time(late: Tensor | None, asked: Tensor) -> Tensor:
    """The runs that go on from their newest state; others are an error (on a device: `dpnotes.util.checks`)."""
    if late is None:
        return asked
    error = ValueError("Expected state to have released nothing yet: go on from the one that its release returned.")
    checks.require(~late, lambda: error)
    return asked & ~late


def check_asked(x: Tensor, active: Tensor, runs: int) -> None:
    """Refuse points that are not `(runs, dim)`, or an `active` that is not `(runs,)` bool."""
    if x.dim() != 2 or len(x) != runs:
        raise ValueError(f"Expected x of shape {tuple(x.shape)} to be ({runs}, dim), a row a run.")
    if x.dtype not in (torch.float32, torch.float64):
        raise ValueError(f"Expected x of {x.dtype} to be float32 or float64, in which sensitivities hold.")
    validate.instance(Tensor, active=active)
    if active.dtype != torch.bool or active.shape != (runs,):
        raise ValueError(f"Expected active of shape {tuple(active.shape)}, {active.dtype} to be ({runs},) bool.")


@dataclass(frozen=True, eq=False)
class ReleasePlan:
    """The cost of a release and the runs that it refuses, `(runs,)` each; released or voided once.

    Args:
      state: that it was made for.
      x: `(runs, dim)`.
      asks: the means asked for.
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
    releases: "Releases | None" = field(default=None, init=False)

    @cached_property
    def uses(self) -> Tensor:
        """Examples that the granted runs use up, `(runs,)`; needs an ask that says them."""
        return self.granted * self.asks[0].examples  # type: ignore[operator]

    @cached_property
    def begins(self) -> Tensor:
        """The granted runs that begin a new sum, `(runs,)` bool; needs an ask that says them."""
        return self.granted & self.asks[0].restart  # type: ignore[operator]

    def of(self, releases: "Releases | None") -> "ReleasePlan":
        """This plan, as `releases` has made it."""
        vars(self).update(releases=releases)
        return self

    def check(self, releases: "Releases | None") -> None:
        """Refuse a plan of another oracle or of none, and one that was released or voided, with a ValueError."""
        if self.releases is None or releases is not self.releases or "closed" in vars(self):
            raise ValueError("Expected plan to be this oracle's, neither released nor voided: plan again.")

    def close(self, releases: "Releases | None") -> None:
        """Void it: it costs nothing, and is not released any more."""
        self.check(releases)
        vars(self)["closed"] = True

    def only(self, runs: Tensor, why: Tensor) -> "ReleasePlan":
        """The plan of those of the granted runs that are in `runs`, `(runs,)` bool; this one is void.

        Args:
          runs: who keeps what they were granted.
          why: `(runs,)`, the `Status` of the others.
        """
        releases = self.releases
        self.close(releases)
        kept = self.granted & runs
        status = torch.where(self.granted ^ kept, why, self.status)
        spent = select(kept, self.spent, self.state.meter.filter)
        return replace(self, granted=kept, status=status, spent=spent).of(releases)


def _described(mechanism: Mechanism) -> tuple[Any, ...]:
    """Class, purpose, whether the noise is claimed as Gaussian, and the plain parameters of a mechanism."""
    names = [each.name for each in fields(mechanism)] if is_dataclass(mechanism) else []
    plain = [(name, value) for name in names if isinstance(value := getattr(mechanism, name), bool | int | float | str)]
    return type(mechanism).__name__, getattr(mechanism, "purpose", None), says_gaussian(mechanism), plain


def _together(prices: list[Price]) -> Price:
    """The price of several answers to the same runs as one."""
    price = prices[0]
    for other in prices[1:]:
        both = (price.noise_multiplier**-2 + other.noise_multiplier**-2) ** -0.5
        price = replace(price, noise_multiplier=both, noise="gaussian" if price.noise == "gaussian" else "zcdp")
    return price


# ---------------------------------------------------------------- releases
@checked
@dataclass(frozen=True, eq=False)
class Releases:
    """The terms on which a batch of runs is answered, and the claims that follow.

    What is claimed is the budget, whatever noise a run chose under the filter: Gaussian releases, chosen by what was
    released before, whose costs never add up to more are together no worse than one Gaussian release of that cost
    (Smith and Thakurta 2022, arXiv:2210.17520). An example that is used up pays for its own batch alone. Or, with
    `claimed`, `steps` releases of this ask, which an accountant may amplify: then this object counts the steps, and
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
        validate.one_of(("enforced", "proved", "measured", "assumed"), basis=self.basis)
        if getattr(self.mechanism, "purpose", None) in self.draws:
            raise ValueError(f"Expected mechanism={self.mechanism!r} to have another purpose: oracles draw from it.")
        if self.claimed and not self.is_gaussian:
            raise ValueError(f"Expected mechanism={self.mechanism!r} to add Gaussian noise, which is what is claimed.")

    @staticmethod
    @checked
    def fixed(
        norm_bound: Positive, divisor: Positive, noise_std: Tensor, num_steps: AtLeastOne, relation: Relation,
        sampling: Sampling, basis: Basis, mechanism: Mechanism, *, gradients: float, **more: Any,
    ) -> "Releases":  # fmt: skip
        """The releases of `num_steps` means of gradients, all with the same noise.

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
          **more: of `Releases`.

        Raises:
          CombinationError: if no accountant knows this sampling under this relation.
          ValueError: outside these domains.
        """
        valid = (noise_std >= 0) & noise_std.isfinite()
        if noise_std.dim() != 1 or noise_std.dtype != torch.float64 or not bool(valid.all()):
            raise ValueError(f"Expected noise_std={noise_std} to be finite numbers >= 0, (runs,) float64: one a run.")
        bound = Bound.of(norm_bound, divisor, noise_std, relation, sampling)
        ask = Ask.with_std(bound, noise_std.clone(), gradients=gradients)
        one = 0.5 / ask.noise_multiplier**2
        budget = one if sampling == FRESH else one * num_steps
        return Releases(budget, relation, sampling, basis, mechanism, TOLERANCE, (ask,), num_steps, **more)

    @cached_property
    def is_gaussian(self) -> bool:
        """Return whether its mechanism says that its noise is Gaussian; if not, zCDP is claimed."""
        return says_gaussian(self.mechanism)

    @cached_property
    def filter(self) -> Filter:
        """The filter that refuses a release that would overspend."""
        return Filter(self.budget, self.tolerance)

    @cached_property
    def _basis(self) -> Basis:
        return self.basis if self.basis in ("enforced", "proved") and not self.apart else "assumed"

    def rests_on(self, streams: Streams) -> tuple[Assumption, ...]:
        """The assumptions of any claim for releases on these streams, whatever the data."""
        return assumptions_of(streams, rounded_once=is_exact(self.mechanism))

    def bound(self, longest: Number, divisor: Number, *, span: bool = False, slack: Number = 0.0) -> Bound:
        """A `Bound` under this relation and sampling."""
        return Bound.of(longest, divisor, self.budget, self.relation, self.sampling, span=span, slack=slack)

    @cached_property
    def terms(self) -> Tensor:
        """Fingerprint of the settings that each run's guarantee depends on, `(runs, 4)` float64.

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
        """Refuse the meter of an oracle that claims something else, with a ValueError (on a device see `checks`)."""
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

    def plan(self, state: State, x: Tensor, asks: tuple[Ask, ...], active: Tensor) -> ReleasePlan:
        """Grant each run all answers of a step, or none; nothing is drawn, paid or looked at.

        Args:
          state: with a memory that has the mechanism's memory, `noise`.
          x: `(runs, dim)`.
          asks: what the step asks for; the first is released by the oracle's mechanism.
          active: `(runs,)` bool, who asks.

        Raises:
          ValueError: if the state is another oracle's, its run has released since, two asks would draw from one stream,
            or an ask has less noise than is claimed (on a device see `dpnotes.util.checks`).
        """
        meter, main = state.meter, asks[0]
        self.check_terms(meter)
        asked = on_time(meter.lineage.late(meter.calls, active), active)
        cost = self.mechanism.cost(state.memory.noise, main.noise_multiplier, self.sampling, main.restart)
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
        return ReleasePlan(state, x, asks, granted, (active ^ granted) * reason, spent, cost).of(self)

    def _beside(self, asks: tuple[Ask, ...]) -> list[Mechanism]:
        """The mechanisms of the asks after the first."""
        found = [self.mechanism, *(ask.mechanism for ask in asks[1:] if ask.mechanism is not None)]
        if len({getattr(mechanism, "purpose", None) for mechanism in found}) < len(asks):
            raise ValueError("Expected each of asks after the first to have a mechanism with a purpose of its own.")
        if self.is_gaussian and not all(map(says_gaussian, found)):
            raise ValueError(f"Expected mechanisms={found!r} all to add Gaussian noise, which is what is claimed.")
        return found[1:]

    def _as_claimed(self, asks: tuple[Ask, ...], active: Tensor) -> Tensor:
        """The active runs that ask for one answer, with at least the noise that is claimed."""
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
        self, plan: ReleasePlan, answers: tuple[Answer, ...], streams: Streams
    ) -> tuple[Any, Meter, list[Tensor], Price]:
        """Release the answers of the granted runs; plan and state are used up.

        Returns:
          The mechanism's memory, the meter, the released values, and their prices as one: Gaussian only if that is
          claimed; of any pair of others the sum of their costs in zCDP is what is known.

        Raises:
          ValueError: as `ReleasePlan.check`, if there is not one answer to each ask, the state's run has released since
            or a price is above the planned cost (on a device see `dpnotes.util.checks`), and as the mechanisms.
        """
        if len(answers) != len(plan.asks):
            raise ValueError(f"Expected num_answers={len(answers)} to be {len(plan.asks)}, one to each ask.")
        plan.close(self)
        meter, noise, values, prices = plan.state.meter, plan.state.memory.noise, [], []
        calls, late = meter.lineage.advance(meter.calls, plan.granted)
        granted = on_time(late, plan.granted)
        try:
            for ask, answer in zip(plan.asks, answers, strict=True):
                exact = Sensitive(answer.mean, ask.bound.sensitivity, self.relation, self._basis, self.sampling)
                request = Request(exact, ask.noise_std, meter.calls, granted, ask.restart)
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
            as_planned = (price.rho() <= plan.cost * (1 + TOLERANCE)) >= granted  # where granted, in one kernel
            checks.require(as_planned, lambda: error)
            if not as_planned.is_cpu:  # where the error comes later, and nothing may leave until then
                values = [torch.where(as_planned[:, None], value, 0) for value in values]
        except BaseException:
            meter.lineage.withdraw(calls, meter.calls)
            raise
        return noise, self._counted(plan, answers[0], calls), values, price

    def _counted(self, plan: ReleasePlan, answer: Answer, calls: Tensor) -> Meter:
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
        """Return whether a run has the least noise that an accountant knows; without it nothing is claimed."""
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


class ReleasingOracle(Protocol):
    """An oracle that defines `ask`, `answer` and `bounds`, and its memory: the rest follows here."""

    @property
    def releases(self) -> Releases:
        """Its terms, one object for the life of the oracle."""
        ...

    def ask(self, state: State, x: Tensor) -> tuple[Ask, ...]:
        """The means asked for at `x` `(runs, dim)`, from public numbers."""
        ...

    def answer(self, plan: ReleasePlan, streams: Streams) -> tuple[Answer, ...]:
        """The exact means of a plan; of the granted runs."""
        ...

    def bounds(self, meter: Meter, run: int) -> tuple[Assumption, ...]:
        """The assumptions behind the sensitivity of a run, with the violations that it observed."""
        ...

    def begin(self, x: Tensor) -> Any:
        """The memory before the first release."""
        return Memory(self.releases.mechanism.init(x))

    def remember(self, plan: ReleasePlan, noise: Any, values: list[Tensor]) -> tuple[Any, Tensor]:
        """The memory after a release of these values, and the gradient estimate; zeros in runs without one."""
        return Memory(noise), values[0]

    def init(self, x: Tensor) -> State:
        """The state before the first release, for points `x` `(runs, dim)`."""
        return State(self.begin(x), self.releases.init(x))

    def plan(self, state: State, x: Tensor, active: Tensor) -> ReleasePlan:
        """The cost of an estimate at `x`, and the runs that are refused it; arguments and errors as `estimate`."""
        check_asked(x, active, len(self.releases.budget))
        return self.releases.plan(state, x, self.ask(state, x), active)

    def release(self, plan: ReleasePlan, streams: Streams) -> tuple[State, Estimate]:
        """The estimate of a plan of this oracle; as `estimate`."""
        plan.check(self.releases)
        granted, main, releases = plan.granted, plan.asks[0], self.releases
        if checks.known_empty(granted):
            plan.close(releases)
            price = Price(main.noise_multiplier, granted, releases.relation, releases.sampling)
            return plan.state, Estimate(torch.zeros_like(plan.x), price, torch.zeros_like(plan.status), plan.status)
        answers = self.answer(plan, streams)
        noise, meter, values, price = releases.release(plan, answers, streams)
        memory, gradient = self.remember(plan, noise, values)
        evaluations = None if main.evaluations is None else granted * main.evaluations
        return State(memory, meter), Estimate(gradient, price, granted * main.gradients, plan.status, evaluations)

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
        return self.releases.budget.clone()

    def events(self, run: int) -> list[Event]:
        """All releases of a run, for `privacy.accounting.account`; as `Releases.events`."""
        return self.releases.events(run)

    def guarantee(
        self, state: State, delta: float, streams: Streams, *, not_covered: tuple[str, ...] = ()
    ) -> tuple[Guarantee, ...]:
        """The guarantee of each run for all its releases, whenever it stopped.

        Args:
          state: after the run.
          delta: in (0, 1).
          streams: the runs' randomness; whether it is a secret, and whether runs share it, is part of the claim.
          not_covered: what else depends on the data, such as `guarantees.TUNED_ON_PRIVATE_DATA`.

        Returns:
          One a run. A run that saw a bound exceeded, or spent more than the terms of this oracle allow, claims nothing
          (`Guarantee.holds`): its epsilon is infinite, as it is without noise.

        Raises:
          ValueError: if the runs have released since, or the state is another oracle's.
        """
        validate.between(0, 1, delta=delta)
        claims, releases, meter, about_runs = [], self.releases, state.meter, self.releases.rests_on(streams)
        releases.check_terms(meter)
        on_time(meter.lineage.late(meter.calls, meter.calls >= 0), meter.calls)
        checks.settle()
        for run, budget in enumerate(releases.budget.tolist()):
            rests = (*about_runs, *self.bounds(meter, run), *releases.apart)
            left = (*not_covered, *releases.not_covered)
            if (releases.basis == "measured" or int(meter.checked[run])) and STATISTICS_WITHOUT_NOISE not in left:
                left = (*left, STATISTICS_WITHOUT_NOISE)
            if bool(meter.spent[run] > releases.budget[run] * (1 + releases.tolerance)):
                rests = (*rests, OVERSPENT)
            if releases.accountable(run):
                claims.append(account(releases.events(run), delta, assumptions=rests, not_covered=left))
            else:
                how = "no noise" if budget == float("inf") else "less noise than an accountant knows"
                claims.append(Guarantee(float("inf"), delta, releases.relation, how, rests, left))
        return tuple(claims)

    def take(self, index: Tensor) -> Self:
        """The oracle of some of the runs; data that are the same for all stay so."""
        return part_of(self, index)


def norms_within(norm_bound: float, basis: Basis, meter: Meter, run: int) -> tuple[Assumption, ...]:
    """The assumptions behind the gradient-norm bound, with the violations that a run observed.

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
