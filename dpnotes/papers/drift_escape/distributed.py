"""Drift escape by clients that trust nobody: Algorithm 3 under Algorithm 1 of the paper.

Each client has n examples and noise of its own, and a guarantee for everything it sends, against the server and all
other clients (inter-client record-level privacy, Definition 3 of the paper). The server receives noisy estimates and
steps along their mean.
"""

import math
from collections.abc import Callable, Sequence
from typing import Unpack

import pandas as pd
import torch
from torch import Tensor

from dpnotes.core import FRESH, Guarantee, Relation
from dpnotes.guarantees import Assumption, rest_of
from dpnotes.methods.loop import RunOptions, Runs, run
from dpnotes.oracles.blocks import Blocks
from dpnotes.oracles.clients import Clients
from dpnotes.oracles.samples import Samples
from dpnotes.papers.drift_escape import algorithms
from dpnotes.papers.drift_escape.algorithms import DriftEscapeParameters, Escape, method_of, spider_of
from dpnotes.papers.drift_escape.escaping import Repeat
from dpnotes.privacy.accounting import account, assumptions_of
from dpnotes.privacy.events import Event
from dpnotes.random.streams import Streams
from dpnotes.util import validate
from dpnotes.util.validate import AtLeastOne, Positive, checked

TRUSTED_SERVER = Assumption("the server shows nothing but means, and every client adds its noise", "assumed")


@checked
def practical(
    escape: Escape, dim: int, epsilon: float, delta: float, num_clients: AtLeastOne, *, gradient_bound: float,
    error_share: Positive = 0.25, private_drift: float = 64.0, sampling_drift: float = 16.0,
) -> DriftEscapeParameters:  # fmt: skip
    """Return oracle parameters for an escape by m clients: `algorithms.practical` for the error of their mean.

    The clients' examples and noise are independent, so the error of the mean is `1 / sqrt(m)` times a client's error,
    and each client may have `sqrt(m)` times the error that a single client may have.

    Args:
      escape: the parameters of Algorithm 1.
      dim: d.
      epsilon: of each client, above 0; infinite for a run without noise.
      delta: in (0, 1).
      num_clients: m, at least 1.
      gradient_bound: G, above 0.
      error_share: above 0; the share of the error of the mean.
      private_drift: above 0.
      sampling_drift: above 0.

    Raises:
      ValueError: an argument is outside its domain.

    Example:
      >>> escape = algorithms.practical_escape(0.04, smoothness=1.0, hessian_lipschitz=1.0, risk_range=1.0)
      >>> [round(practical(escape, 100, 1.0, 1e-6, m, gradient_bound=1.0).first_batch) for m in (1, 4, 16)]
      [160000, 40000, 10000]
    """
    return algorithms.practical(
        escape, dim, epsilon, delta, gradient_bound=gradient_bound, error_share=error_share * math.sqrt(num_clients),
        private_drift=private_drift, sampling_drift=sampling_drift,
    )  # fmt: skip


def clients_of(
    parameters: Sequence[DriftEscapeParameters],
    samples_of: Callable[[range], Samples],
    blocks: Blocks,
    device: torch.device | str = "cpu",
) -> Clients:
    """Return the oracle of Algorithm 3 for runs with these parameters, one set per run, shared by all clients.

    Args:
      parameters: one set per run.
      samples_of: from the clients of a block to their examples, in row `run * clients + place`.
      blocks: the clients.
      device: of the points.

    Raises:
      ValueError: as in `algorithms.spider_of`.
    """

    def oracle_of(members: range) -> object:
        return spider_of([each for each in parameters for _ in members], samples_of(members), device)

    return Clients.of(oracle_of, blocks, len(parameters))


def distributed_drift_escape(
    samples_of: Callable[[range], Samples],
    parameters: DriftEscapeParameters | Sequence[DriftEscapeParameters],
    x: Tensor,
    streams: Streams,
    *,
    blocks: Blocks,
    delta: float,
    repeat: Repeat = "refresh",
    return_tested: bool = True,
    max_steps: int | None = None,
    **how: Unpack[RunOptions],
) -> Runs:
    """Run drift escape with the mean of the estimates that clients send as the gradient.

    Algorithm 3 of the paper is `oracles.clients.Clients` over `oracles.spider.Spider`; Algorithm 1 is
    `escaping.DriftEscape`. Those docstrings and `algorithms.drift_escape` state the differences from the
    paper.

    Formal guarantees:
      Everything that a client sends is `parameters.budget`-zCDP under replace-one in its own examples, whoever sees it.
      `guarantees` contains the weakest of the clients' guarantees; `client_table` lists all of them, beside the epsilon
      for an observer who sees the means alone.

    Args:
      samples_of: from the clients of a block (numbered from 0) to their examples, each used at most once, in row `run *
        clients + place`. `oracles.holdings` has two kinds.
      parameters: one set per run, or one for all runs; all clients use the same.
      x: `(runs, dim)` initial points, chosen without looking at the data.
      streams: one key per run, from which the clients' keys are derived; or secret streams.
      blocks: the clients, and the process that computes each of them.
      delta: in (0, 1), for the guarantees.
      repeat: as in `algorithms.drift_escape`.
      return_tested: as in `algorithms.drift_escape`.
      max_steps: as in `algorithms.drift_escape`.
      observe: as in `algorithms.drift_escape`.
      not_covered: as in `algorithms.drift_escape`.

    Returns:
      The runs. `state.oracle.stopped` names the client that could not continue a run.

    Raises:
      ProcessLost: another process died, hung or computed something different.
      ValueError: an argument is outside its domain.

    Example:
      >>> import torch
      >>> from dpnotes.oracles.samples import VirtualSamples
      >>> from dpnotes.problems.separable import Cosine, Separable, Sine
      >>> from dpnotes.problems.virtual import VirtualData
      >>> data = VirtualData(Separable([(Cosine(1.0), 4)]), Separable([(Sine(0.5), 4)]))
      >>> sizes = {"smoothness": 4.0, "hessian_lipschitz": 1.0, "risk_range": 8.0, "step_size": 0.25}
      >>> choice = practical(algorithms.practical_escape(0.2, **sizes), 4, 1.0, 1e-6, 16, gradient_bound=4.0)
      >>> runs = distributed_drift_escape(
      ...     lambda members: VirtualSamples(data, 10**12), choice, torch.zeros(1, 4, dtype=torch.float64),
      ...     Streams.of(0, ["a"]), blocks=Blocks(16, 16), delta=1e-6, max_steps=1000,
      ... )
      >>> runs.state.status.tolist(), bool((data.landscape.gradient(runs.x).norm(dim=1) < 0.2).all())
      ([1], True)
      >>> client_table(runs)[["client", "used", "epsilon", "epsilon (trusted server)"]].head(2).round(3)
         client    used  epsilon  epsilon (trusted server)
      0       0  887040      1.0                     0.227
      1       1  887040      1.0                     0.227
    """
    chosen = [parameters] * len(x) if isinstance(parameters, DriftEscapeParameters) else list(parameters)
    validate.instance(Blocks, blocks=blocks)
    validate.same_length(x=x, parameters=chosen, streams=streams)
    escapes = [each.escape for each in chosen]
    method, oracle = method_of(escapes, repeat, return_tested), clients_of(chosen, samples_of, blocks, x.device)
    steps = max(each.num_steps for each in escapes) if max_steps is None else max_steps
    return run(method, oracle, x, streams, delta=delta, max_steps=steps, **how)


def trusted_server(runs: Runs) -> tuple[Guarantee, ...]:
    """Return each run's guarantee for an example of any client if a trusted server publishes nothing but the means.

    All clients have the same sensitivity in a round, and draw noise of the same scale. The mean of m clients has `1 /
    m` of a client's sensitivity and `1 / sqrt(m)` of its noise, so its noise multiplier is `sqrt(m)` times a client's.

    Args:
      runs: the result of `distributed_drift_escape`.
    """
    num_clients, rests = runs.oracle.blocks.num_clients, (*assumptions_of(runs.streams), TRUSTED_SERVER)

    def claim(budget: float, own: Guarantee) -> Guarantee:
        if budget == math.inf:
            return Guarantee(math.inf, own.delta, Relation.REPLACE_ONE, "no noise", rests, own.not_covered)
        event = Event(math.sqrt(num_clients * 0.5 / budget), Relation.REPLACE_ONE, FRESH, 1)
        return account([event], own.delta, assumptions=rest_of(rests, own.assumptions), not_covered=own.not_covered)

    return tuple(map(claim, runs.oracle.declared().tolist(), runs.guarantees))


def client_table(runs: Runs) -> pd.DataFrame:
    """Return a table with one row per run and client of this process: its examples, its zCDP and two epsilons.

    `epsilon` holds against every observer, `epsilon (trusted server)` against an observer who sees the means alone.

    Args:
      runs: the result of `distributed_drift_escape`.
    """
    clients, meter = runs.oracle, runs.state.oracle.meter
    own = clients.blocks.clients(clients.blocks.processes.rank)
    totals = clients.totals()
    claims = clients.claims(runs.state.oracle, runs.guarantees[0].delta, runs.streams)
    central = trusted_server(runs)
    rows = [
        {
            "run": run_number, "client": client, "examples": int(totals[run_number, place]),
            "used": int(meter.used[run_number, place]), "declared": float(clients.declared()[run_number]),
            "spent": float(meter.spent[run_number, place]), "epsilon": claims[run_number][place].epsilon,
            "delta": claims[run_number][place].delta, "epsilon (trusted server)": central[run_number].epsilon,
        }
        for run_number in range(len(runs.streams))
        for place, client in enumerate(own)
    ]  # fmt: skip
    return pd.DataFrame(rows)
