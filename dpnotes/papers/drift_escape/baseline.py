"""Distributed DP-SGD, the baseline for distributed drift escape: it has the same clients and the same guarantees."""

from collections.abc import Callable
from typing import Unpack

import torch
from torch import Tensor

from dpnotes.core import WHOLE, Problem, Relation
from dpnotes.methods.descent import Descent
from dpnotes.methods.loop import RunOptions, Runs, run
from dpnotes.oracles.blocks import Blocks
from dpnotes.oracles.clients import Clients
from dpnotes.oracles.minibatch import MinibatchGradient
from dpnotes.privacy.calibration import gaussian_std
from dpnotes.privacy.events import clipped_sensitivity
from dpnotes.random.streams import Streams
from dpnotes.util.validate import AtLeastOne, Positive, checked


@checked
def distributed_noisy_sgd(
    problem_of: Callable[[range], Problem],
    x: Tensor,
    streams: Streams,
    *,
    blocks: Blocks,
    epsilon: Positive,
    delta: float,
    norm_bound: Positive,
    step_size: Positive,
    num_steps: AtLeastOne,
    **how: Unpack[RunOptions],
) -> Runs:
    """Run DP-SGD by clients: each sends its clipped, noised mean gradient, and the server steps along their mean.

    The oracle is `oracles.clients.Clients` over `oracles.minibatch.MinibatchGradient`, on whole batches. With a single
    client that holds all examples this is DP-SGD with a trusted server.

    Formal guarantees:
      Everything that a client sends in `num_steps` rounds is (epsilon, delta)-DP under replace-one in its own examples,
      whoever sees it. The noise comes from the exact accountant: a client with fewer examples adds more noise.

    Args:
      problem_of: from the clients of a block (numbered from 0) to the problem of their examples, in row `run * clients
        + place`, with equally many examples each. Clients with other numbers of examples need other blocks.
      x: `(runs, dim)` initial points, chosen without looking at the data.
      streams: one key per run, from which the clients' keys are derived; or secret streams.
      blocks: the clients, and the process that computes each of them.
      epsilon: of each client, above 0.
      delta: in (0, 1).
      norm_bound: C, above 0, the clipping norm of the gradients.
      step_size: above 0.
      num_steps: number of rounds, at least 1.
      observe: as in `methods.loop.drive`.
      not_covered: as in `methods.loop.run`.

    Raises:
      ProcessLost: another process died, hung or computed something different.
      ValueError: an argument is outside its domain.

    Example:
      >>> from dpnotes.problems.quadratics import Quadratic
      >>> problem = Quadratic.sample(torch.tensor([1.0, 0.1]), num_examples=500, spread=0.5, seed=0)
      >>> runs = distributed_noisy_sgd(
      ...     lambda members: problem, torch.ones(1, 2), Streams.of(0, ["a"]), blocks=Blocks(5, 1), epsilon=2.0,
      ...     delta=1e-5, norm_bound=2.0, step_size=0.5, num_steps=10,
      ... )
      >>> round(runs.guarantees[0].epsilon, 6), runs.state.oracle.meter.calls.tolist()
      (2.0, [[10, 10, 10, 10, 10]])
    """

    def oracle_of(members: range) -> MinibatchGradient:
        problem = problem_of(members)
        sensitivity = clipped_sensitivity(norm_bound, problem.num_examples, Relation.REPLACE_ONE, WHOLE)
        noise_std = gaussian_std(epsilon, delta, sensitivity * num_steps**0.5)  # as one release of all
        rows = torch.full((len(x) * len(members),), noise_std, dtype=torch.float64, device=x.device)
        return MinibatchGradient(problem, WHOLE, rows, norm_bound, num_steps, Relation.REPLACE_ONE, clipped=True)

    oracle = Clients.of(oracle_of, blocks, len(x))
    return run(Descent(step_size), oracle, x, streams, delta=delta, max_steps=num_steps, **how)
