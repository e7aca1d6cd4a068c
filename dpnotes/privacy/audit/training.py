"""Attacks on training: one example is the canary, many runs are trained with it and many without.

The attacker of differential privacy knows everything but whether the canary is there: the other examples, the initial
point, and every released gradient. So after each step it can tell what the exact answer would have been with the
canary and without it, and how much likelier the released one is with it (the white-box attack with canary gradients of
Nasr, Hayes, Steinke, Balle, Tramer, Jagielski, Carlini and Terzis 2023, arXiv:2302.07956v1).
"""

from collections.abc import Callable

import torch
from torch import Tensor

from dpnotes.core import Method, Oracle, Status
from dpnotes.random.streams import Streams
from dpnotes.util import validate

Answers = Callable[[Tensor], tuple[Tensor, Tensor]]


def transcript_scores(
    method: Method,
    oracle: Oracle,
    x: Tensor,
    streams: Streams,
    num_steps: int,
    *,
    answers: Answers,
    noise_std: float,
    chunk: int = 2048,
) -> Tensor:
    """Train a batch of runs, and score each by how likely its released gradients are with the canary.

    Adaptive or not, with noise of the assumed standard deviation and independent across steps the score is standard
    normal without the canary, and normal around mu with it, `mu^2 = sum_t |with_t - without_t|^2 / noise_std^2`, where
    that sum is the same for every run.

    Args:
      method: how the iterate moves.
      oracle: what is audited, with the canary or without it.
      x: `(dim,)`, the public initial point of all runs.
      streams: one key a run.
      num_steps: at least 1.
      answers: from points `(runs, dim)` to the exact answers without the canary and with it, `(runs, dim)` each; what
        the attacker computes, from code of its own.
      noise_std: of each coordinate, as the attacker assumes it; a wrong one makes a weaker attack, never a wrong bound.
      chunk: runs at once.

    Returns:
      `(runs,)` float64.

    Raises:
      ValueError: if a run ended before its steps were done, or the canary moves no answer.

    Example:
      >>> from dpnotes.methods.descent import Descent
      >>> from dpnotes.oracles.clipped import ClippedGradient
      >>> from dpnotes.privacy.noise import FixedNoise
      >>> from dpnotes.privacy.schedules import uniform
      >>> from dpnotes.problems.custom import CustomProblem
      >>> problem = CustomProblem(lambda p, g: p @ g, 2, torch.tensor([[0.0, 1.0], [9.0, 0.0]]))  # the second: a canary
      >>> oracle = ClippedGradient(problem, clip=1.0, noise=FixedNoise.of([uniform(2.0, 3)] * 4))
      >>> scores = transcript_scores(
      ...     Descent(0.1), oracle, torch.zeros(2), Streams.of(0, range(4)), 3, noise_std=0.5 * 0.75**0.5,
      ...     answers=lambda x: (torch.tensor([[0.0, 0.5]]), torch.tensor([[0.5, 0.5]])),
      ... )
      >>> scores.shape
      torch.Size([4])
    """
    validate.provides("init", "step", method=method)
    validate.provides("estimate", "take", oracle=oracle)
    validate.at_least(1, num_steps=num_steps, chunk=chunk, num_runs=len(streams))
    validate.positive(noise_std=noise_std)
    parts = []
    for first in range(0, len(streams), chunk):
        rows = torch.arange(first, min(first + chunk, len(streams)), device=x.device)
        part_of_oracle, part_of_streams = oracle.take(rows), streams.take(rows)
        state = method.init(x.expand(len(rows), -1).clone(), part_of_oracle)
        log_ratio = distance = torch.zeros(len(rows), dtype=torch.float64, device=x.device)
        for step in range(num_steps):
            without, included = answers(method.output(state))
            state, estimate = method.step(state, part_of_oracle, part_of_streams)
            if bool((estimate.status != Status.OK).any()):
                raise ValueError(f"Expected every run to take num_steps={num_steps} steps; one ended after {step}.")
            shift = (included - without).double() / noise_std
            log_ratio = log_ratio + ((estimate.gradient - without).double() / noise_std * shift).sum(1)
            distance = distance + (shift**2).sum(1)
        if not bool((distance > 0).all()):
            raise ValueError("Expected a canary that moves the answer of some step.")
        parts.append(log_ratio / distance.sqrt())
    return torch.cat(parts)
