"""Attacks on training: many runs are trained with one example, the canary, and many without it.

The attacker in differential privacy knows everything except whether the canary was used: the other examples, the
initial point, and every released gradient. After each step it can therefore compute the exact answer with and without
the canary, and the likelihood ratio of the released answer (the white-box attack with canary gradients of Nasr, Hayes,
Steinke, Balle, Tramer, Jagielski, Carlini and Terzis 2023, arXiv:2302.07956v1).
"""

from collections.abc import Callable

import torch
from torch import Tensor

from dpnotes.core import Method, Oracle, Status
from dpnotes.random.streams import Streams
from dpnotes.util import validate

Answers = Callable[[Tensor], tuple[Tensor, Tensor]]


def transcript_scores(
    method: Method, oracle: Oracle, x: Tensor, streams: Streams, num_steps: int, *, answers: Answers, noise_std: float
) -> Tensor:
    """Train a batch of runs, and score each run by the likelihood ratio of its released gradients.

    If the noise has the assumed standard deviation and is independent across steps, the score is standard normal
    without the canary, adaptive or not. With the canary it is normal around mu,
    `mu^2 = sum_t |with_t - without_t|^2 / noise_std^2`, if that sum is the same for every run.

    Args:
      method: the method that moves the iterate.
      oracle: the audited oracle, with the canary or without it.
      x: `(dim,)`, the public initial point of all runs.
      streams: one key per run.
      num_steps: at least 1.
      answers: maps points `(runs, dim)` to the exact answers without the canary and with it, `(runs, dim)` each,
        computed by the attacker's own code.
      noise_std: the attacker's assumption for each coordinate; a wrong one weakens the attack, never the bound.

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
    validate.provides("estimate", oracle=oracle)
    validate.at_least(1, num_steps=num_steps, num_runs=len(streams))
    validate.positive(noise_std=noise_std)
    state = method.init(x.expand(len(streams), -1).clone(), oracle)
    log_ratio = distance = torch.zeros(len(streams), dtype=torch.float64, device=x.device)
    for step in range(num_steps):
        without, included = answers(method.output(state))
        state, estimate = method.step(state, oracle, streams)
        if bool((estimate.status != Status.OK).any()):
            raise ValueError(f"Expected every run to take num_steps={num_steps} steps; one ended after {step}.")
        shift = (included - without).double() / noise_std
        log_ratio = log_ratio + ((estimate.gradient - without).double() / noise_std * shift).sum(1)
        distance = distance + (shift**2).sum(1)
    if not bool((distance > 0).all()):
        raise ValueError("Expected a canary that moves the answer of some step.")
    return log_ratio / distance.sqrt()
