"""The loop that drives a method: finished runs are dropped, every price goes into the ledger."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from dpnotes import checks, validate
from dpnotes.core import Estimate, Ledger, Method, Oracle, Price, Status
from dpnotes.states import map_state
from dpnotes.streams import Streams

_STEPS_A_LOOK = 16
Observer = Callable[[Tensor, Any, Estimate], None]


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
      ValueError: outside these domains, or what an oracle refuses on a device (`dpnotes.checks`).
    """
    validate.provides("step", method=method)
    validate.provides("estimate", "take", oracle=oracle)
    validate.at_least(1, max_steps=max_steps)
    device = streams.keys.device
    if look_every is None:
        look_every = 1 if device.type == "cpu" or observe is not None else _STEPS_A_LOOK
    validate.at_least(1, look_every=look_every)
    runs = len(streams)
    whole = state
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
