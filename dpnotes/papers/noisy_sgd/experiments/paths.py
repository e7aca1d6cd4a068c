"""Measurements along runs of noisy SGD, at all of their iterates."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from dpnotes.oracles.samples import FreshData
from dpnotes.papers.noisy_sgd.algorithms import noisy_sgd_on_fresh_data
from dpnotes.random.streams import Streams
from dpnotes.train.noise import NoiseChoice


def along(
    measure: Callable[[Tensor, Tensor], Tensor],
    data: FreshData,
    x: Tensor,
    streams: Streams,
    noise_std: Sequence[float],
    *,
    batch_size: int,
    norm_bound: float,
    step_size: float,
    num_steps: int,
) -> Tensor:
    """A number at each of the iterates x_0 .. x_T of `noisy_sgd_on_fresh_data`, `(T + 1, runs)`.

    After a run has diverged it is infinite. Nothing is claimed of the runs: the norm bound is assumed.

    Args:
      measure: is given points `(going, dim)` and which runs they are of, `(going,)`; says a number each, `(going,)`.
      data: as the others, of `noisy_sgd_on_fresh_data`.
      x: `(runs, dim)`, x_0.
      streams: one key a run.
      noise_std: Delta of each run; of all or of none 0.
      batch_size: B.
      norm_bound: C.
      step_size: eta.
      num_steps: T.

    Example:
      >>> from dpnotes.problems.separable import DoubleWell, Linear, Separable
      >>> from dpnotes.problems.virtual import VirtualData
      >>> data = VirtualData(Separable([(DoubleWell(1.0), 2)]), Separable([(Linear(0.0), 2)]))
      >>> how = {"batch_size": 1, "norm_bound": 5.0, "step_size": 0.1, "num_steps": 100}
      >>> start, streams = torch.zeros(1, 2, dtype=torch.float64), Streams.of(0, ["demo"])
      >>> lengths = along(lambda x, going: x.norm(dim=1), data, start, streams, [0.01], **how)
      >>> lengths.shape, float(lengths[0]), bool(lengths[-1] > 1)
      (torch.Size([101, 1]), 0.0, True)
    """
    first = measure(x, torch.arange(len(x), device=x.device))
    found = torch.full((num_steps + 1, len(x)), torch.inf, dtype=first.dtype, device=x.device)
    found[0] = first
    rows = iter(found[1:])

    def observe(going: Tensor, state: Any, estimate: Any) -> None:
        if (row := next(rows, None)) is not None:  # one step more tells a run that it has finished
            row[going] = measure(state.x, going)

    noisy_sgd_on_fresh_data(
        data, [NoiseChoice(std, math.inf, 0.5, "given") for std in noise_std], x, streams, batch_size=batch_size,
        norm_bound=norm_bound, step_size=step_size, num_steps=num_steps, delta=0.5, observe=observe,
    )  # fmt: skip
    return found
