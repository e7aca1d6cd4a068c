"""The loop that drives a method: finished runs are dropped, every price goes into the ledger, and claims come of it."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import torch
from torch import Tensor

from dpnotes.core import Estimate, Guarantee, Ledger, Method, Oracle, Price, Status
from dpnotes.random.streams import Streams
from dpnotes.util import checks, validate
from dpnotes.util.states import map_state

_STEPS_A_LOOK = 16
Observer = Callable[[Tensor, Any, Estimate], None]


class AccountedOracle(Oracle, Protocol):
    """An oracle that says what its releases are worth, as those on a `oracles.release.Desk` do."""

    def guarantee(
        self, state: Any, delta: float, streams: Streams, *, not_covered: tuple[str, ...] = ()
    ) -> tuple[Guarantee, ...]:
        """What each run may claim for all its releases."""
        ...


@dataclass(frozen=True)
class Runs:
    """A finished batch of runs: where they ended, what they released, what they may claim.

    Args:
      method: how the iterate moved.
      oracle: where its gradients came from.
      streams: one key a run.
      state: of the method; its `status` says what became of every run.
      ledger: all prices.
      guarantees: one a run.
    """

    method: Any
    oracle: Any
    streams: Streams
    state: Any
    ledger: Ledger
    guarantees: tuple[Guarantee, ...]

    @property
    def x(self) -> Tensor:
        """What was returned, or last iterates, `(runs, dim)`."""
        return self.method.output(self.state)


def run(
    method: Method,
    oracle: AccountedOracle,
    x: Tensor,
    streams: Streams,
    *,
    delta: float,
    max_steps: int,
    observe: Observer | None = None,
    not_covered: tuple[str, ...] = (),
) -> Runs:
    """Many runs of one algorithm at once, from their start to what may be claimed for them.

    Args:
      method: how the iterate moves.
      oracle: where its gradients come from, of as many runs as the points have rows.
      x: `(runs, dim)`, initial points, chosen without looking at the data.
      streams: one key a run. Runs of one key share their noise, and may not both be published.
      delta: in (0, 1), for the guarantees.
      max_steps: as `drive`.
      observe: as `drive`.
      not_covered: what else depends on the private data and is not accounted for, such as
        `guarantees.TUNED_ON_PRIVATE_DATA`: only the caller can know it, and the guarantees name it.

    Returns:
      The runs; those that diverged, or ran out of budget or examples, say so in `state.status`.

    Raises:
      ValueError: if an argument is outside its domain, or the numbers of runs disagree.

    Example:
      >>> import torch
      >>> from dpnotes.methods.descent import Descent
      >>> from dpnotes.oracles.clipped import ClippedGradient
      >>> from dpnotes.privacy.noise import FixedNoise
      >>> from dpnotes.privacy.schedules import uniform
      >>> from dpnotes.problems.quadratics import Quadratic
      >>> problem = Quadratic.sample(torch.tensor([1.0, 0.1]), num_examples=50, spread=0.5, seed=0)
      >>> oracle = ClippedGradient(problem, 4.0, FixedNoise.of([uniform(0.2, 5)]))
      >>> runs = run(Descent(0.5), oracle, torch.ones(1, 2), Streams.of(0, ["demo"]), delta=1e-8, max_steps=6)
      >>> runs.state.steps.tolist(), round(runs.guarantees[0].epsilon, 3)
      ([5], 3.491)
    """
    validate.provides("init", "step", "output", method=method)
    validate.provides("init", "estimate", "declared", "guarantee", oracle=oracle)
    validate.between(0, 1, delta=delta)
    validate.same_length(x=x, streams=streams, oracle=oracle.declared())
    ledger = Ledger()
    state = drive(method, oracle, method.init(x, oracle), streams, max_steps, ledger, observe)
    claims = oracle.guarantee(state.oracle, delta, streams, not_covered=not_covered)
    return Runs(method, oracle, streams, state, ledger, claims)


def drive(
    method: Method,
    oracle: Oracle,
    state: Any,
    streams: Streams,
    max_steps: int,
    ledger: Ledger | None = None,
    observe: Observer | None = None,
    look_every: int | None = None,
) -> Any:
    """Step until every run has ended or `max_steps` are done.

    Args:
      method: how the iterate moves.
      oracle: where its gradients come from.
      state: from `method.init`, or what an earlier call returned (the run goes on as if it had not stopped).
      streams: one key a run.
      max_steps: at least 1; for a schedule of T steps, T + 1 lets the run notice its end.
      ledger: if given, gets every price, in rows of all runs.
      observe: if given, is called after each step with the indices of the runs still going, their state and their
        estimate. What it computes from the data is covered by no guarantee.
      look_every: steps after which finished runs are looked for and dropped, at least 1; until then they stand still.
        Looking makes the host wait for a device: if None every step on the CPU or with `observe`, else every 16.

    Returns:
      The state of all runs, in their order.

    Raises:
      ValueError: outside these domains, or what an oracle refuses on a device (`dpnotes.util.checks`).
    """
    validate.provides("step", method=method)
    validate.provides("estimate", "take", oracle=oracle)
    validate.at_least(1, max_steps=max_steps)
    device = streams.keys.device
    if look_every is None:
        look_every = 1 if device.type == "cpu" or observe is not None else _STEPS_A_LOOK
    validate.at_least(1, look_every=look_every)
    runs, whole = len(streams), state
    going = torch.arange(runs, device=device)
    with checks.settled():
        for step in range(max_steps):
            if step % look_every == 0:
                checks.settle()
                left = (state.status == Status.OK).nonzero()[:, 0]
                if len(left) < len(going):
                    whole = _put(whole, state, going)
                    going = going[left]
                    if not len(going):
                        return whole
                    state, oracle, streams = _take(left, state, oracle, streams)
            state, estimate = method.step(state, oracle, streams)
            if ledger is not None:
                ledger.add(_in_all_runs(estimate.price, going, runs))
            if observe is not None:
                observe(going, state, estimate)
    return _put(whole, state, going)


def _take(index: Tensor, state: Any, oracle: Oracle, streams: Streams) -> tuple[Any, Oracle, Streams]:
    return map_state(lambda t: t[index], state), oracle.take(index), streams.take(index)


def _put(whole: Any, part: Any, index: Tensor) -> Any:
    return map_state(lambda w, p: w.index_copy(0, index, p), whole, part)


def _in_all_runs(price: Price, index: Tensor, runs: int) -> Price:
    """The price with a row for every run, those that have ended not charged."""
    multiplier = torch.ones(runs, dtype=price.noise_multiplier.dtype, device=index.device)
    paid = price.noise_multiplier.masked_fill(~price.charged, 1.0)
    charged = torch.zeros(runs, dtype=torch.bool, device=index.device)
    return replace(
        price,
        noise_multiplier=multiplier.index_copy(0, index, paid),
        charged=charged.index_copy(0, index, price.charged),
    )
