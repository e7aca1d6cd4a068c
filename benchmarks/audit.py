"""The time of audits: 10,000 runs of a training of 100 steps with the canary, and 10,000 without it.

    python benchmarks/audit.py

The audited code is the library's own: gradient descent on clipped gradients of ten examples in eight dimensions,
released with Gaussian noise. The attack is the likelihood ratio of all 100 released gradients. The target is under 30 s
on two cores for all 20,000 runs and the bound. The exit status is 1 if the target is missed, or if the audit rejects
the correct code.
"""

import sys
import time

import torch
from torch import Tensor

from dpnotes.core import Guarantee, Relation
from dpnotes.methods.descent import Descent
from dpnotes.oracles.clipped import ClippedGradient
from dpnotes.privacy.accounting import rho_to_epsilon
from dpnotes.privacy.audit import GaussianPair, from_scores, transcript_scores
from dpnotes.privacy.museum import exhibits
from dpnotes.privacy.noise import FixedNoise
from dpnotes.privacy.schedules import uniform
from dpnotes.problems.custom import CustomProblem
from dpnotes.random.streams import Streams

RUNS, STEPS, EXAMPLES, DIM, CLIP = 10_000, 100, 10, 8, 1.0
RHO, DELTA, LIMIT = 0.5, 1e-3, 30.0


def loss(parameters: Tensor, example: Tensor, weight: Tensor) -> Tensor:
    return weight * 0.5 * ((parameters - example) ** 2).sum()


def training() -> float:
    """Audit the training; return the seconds."""
    examples = 0.3 * Streams.of("benchmark", range(EXAMPLES)).normal("examples", 0, DIM)
    examples[-1] = 10.0

    def answers(x: Tensor) -> tuple[Tensor, Tensor]:
        each = x[:, None] - examples
        each = each / (each.norm(dim=2, keepdim=True) / CLIP).clamp_min(1) / EXAMPLES
        return each[:, :-1].sum(1), each.sum(1)

    schedule = uniform(RHO, STEPS)
    start = time.perf_counter()
    sides = []
    for included in (True, False):
        weights = torch.ones(EXAMPLES, dtype=torch.float64)
        weights[-1] = float(included)
        oracle = ClippedGradient(
            CustomProblem(loss, DIM, examples, weights), CLIP, FixedNoise.of([schedule] * RUNS), Relation.ZERO_OUT
        )
        sides.append(
            transcript_scores(
                Descent(0.1),
                oracle,
                torch.zeros(DIM, dtype=torch.float64),
                Streams.of(f"benchmark {included}", range(RUNS)),
                STEPS,
                answers=answers,
                noise_std=float(schedule.noise_multipliers[0]) * CLIP / EXAMPLES,
            )
        )
    pair = GaussianPair(torch.zeros(1), torch.ones(1), torch.ones(1, 1))
    threshold = pair.strongest_threshold(RUNS, DELTA, 0.01)
    bound = from_scores(*sides, delta=DELTA, relation=Relation.ZERO_OUT, threshold=threshold)
    seconds = time.perf_counter() - start
    claim = Guarantee(rho_to_epsilon(RHO, DELTA), DELTA, Relation.ZERO_OUT, "exact Gaussian")
    print(f"training, 2 x {RUNS:,} runs of {STEPS} steps:  {seconds:.1f} s;  {bound};  claimed {claim.epsilon:.4g}")
    if bound.exceeds(claim):
        sys.exit("the correct code was accused")
    return seconds


def museum() -> float:
    """Run both exhibits of every broken variant and of every correct one; return the seconds."""
    start = time.perf_counter()
    runs = 0
    for exhibit in exhibits():
        for broken in (True, False):
            exhibit.exact(broken)
            runs += exhibit.audit(broken).runs
    seconds = time.perf_counter() - start
    print(f"museum, {len(exhibits())} exhibits, broken and correct, exact and sampled, {runs:,} runs:  {seconds:.1f} s")
    return seconds


if __name__ == "__main__":
    torch.set_num_threads(1)  # the tensors of a chunk are small, so that a second thread would mostly wait
    print(f"torch {torch.__version__}, one thread")
    longest = training()
    museum()
    sys.exit(int(longest > LIMIT))
