"""The loop that runs a method: it drops finished runs, collects every price in a ledger, and returns guarantees."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypedDict

import torch
from torch import Tensor

from dpnotes.core import Estimate, Guarantee, Ledger, Method, Oracle, Price, Status
from dpnotes.random.streams import Streams
from dpnotes.util import checks, validate
from dpnotes.util.states import map_state

_STEPS_A_LOOK = 16
Observer = Callable[[Tensor, Any, Estimate], None]


class RunOptions(TypedDict, total=False):
    """The arguments of `run` that a paper's algorithm takes as they are."""

    observe: Observer | None
    not_covered: tuple[str, ...]


@dataclass(frozen=True)
class Runs:
    """A finished batch of runs: final state, prices of the releases, and guarantees.

    Args:
      method: the method that moved the iterate.
      oracle: the source of the gradients.
      streams: one key per run.
      state: the method's final state; its `status` holds each run's status.
      ledger: all prices.
      guarantees: one per run.
    """

    method: Any
    oracle: Any
    streams: Streams
    state: Any
    ledger: Ledger
    guarantees: tuple[Guarantee, ...]

    @property
    def x(self) -> Tensor:
        """The returned points, or the last iterates, `(runs, dim)`."""
        return self.method.output(self.state)


def run(
    method: Method,
    oracle: Any,
    x: Tensor,
    streams: Streams,
    *,
    delta: float,
    max_steps: int,
    observe: Observer | None = None,
    not_covered: tuple[str, ...] = (),
) -> Runs:
    """Run one algorithm in many runs at once, from the initial points to the guarantees.

    Args:
      method: the method that moves the iterate.
      oracle: the source of the gradients, for as many runs as the points have rows; it computes the `guarantee` of its
        releases, as every `ReleasingOracle` does.
      x: `(runs, dim)`, initial points, chosen without looking at the data.
      streams: one key per run. Runs with the same key share their noise, and may not both be published.
      delta: in (0, 1), for the guarantees.
      max_steps: as `drive`.
      observe: as `drive`.
      not_covered: other quantities that depend on the private data and are not accounted for, such as
        `guarantees.TUNED_ON_PRIVATE_DATA`: only the caller knows them, and the guarantees name them.

    Returns:
      The runs; `state.status` shows those that diverged, or ran out of budget or examples.

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
      method: the method that moves the iterate.
      oracle: the source of the gradients.
      state: from `method.init`, or returned by an earlier call (the run then continues as if it had not stopped).
      streams: one key per run.
      max_steps: at least 1; for a schedule of T steps, T + 1 lets the run reach the status FINISHED.
      ledger: if given, receives every price, with a row for every run.
      observe: if given, is called after each step with the indices of the unfinished runs, their state and their
        estimate. No guarantee covers what it computes from the data.
      look_every: the number of steps, at least 1, after which finished runs are dropped; until then they do not move.
        The check makes the host wait for a device; None: at every step on the CPU or with `observe`, else every 16.

    Returns:
      The state of all runs, in their order.

    Raises:
      ValueError: outside these domains, or if a deferred check on a device fails (`dpnotes.util.checks`).
    """
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
    """The price with a row for every run; runs that have ended are not charged."""
    multiplier = torch.ones(runs, dtype=price.noise_multiplier.dtype, device=index.device)
    paid = price.noise_multiplier.masked_fill(~price.charged, 1.0)
    charged = torch.zeros(runs, dtype=torch.bool, device=index.device)
    return replace(
        price,
        noise_multiplier=multiplier.index_copy(0, index, paid),
        charged=charged.index_copy(0, index, price.charged),
    )
