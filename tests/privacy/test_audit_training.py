"""Audits of training: half of the noise and missing clipping are caught, the correct training is not."""

import functools
import math
from types import ModuleType

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor

from dpnotes.core import Guarantee, Relation, Request, Sensitive
from dpnotes.methods.descent import Descent
from dpnotes.oracles import clipped
from dpnotes.privacy import mechanisms
from dpnotes.privacy.accounting import rho_to_epsilon
from dpnotes.privacy.audit import (
    GaussianPair,
    LowerBound,
    MixturePair,
    from_scores,
    guess,
    one_run,
    runs_for_power,
    transcript_scores,
)
from dpnotes.privacy.museum import module_with_line_replaced
from dpnotes.privacy.noise import FixedNoise
from dpnotes.privacy.schedules import NoiseSchedule, uniform
from dpnotes.problems.custom import CustomProblem
from dpnotes.random.streams import Streams
from tests.privacy.test_audit import ZERO_OUT

# ---------------------------------------------------------------- training
NUM_EXAMPLES, DIM, STEPS, CLIP = 5, 2, 10, 1.0


def weighted_loss(parameters: Tensor, example: Tensor, weight: Tensor) -> Tensor:
    return weight * 0.5 * ((parameters - example) ** 2).sum()


def examples() -> Tensor:
    near = 0.3 * Streams.of("examples", range(NUM_EXAMPLES)).normal("x", 0, DIM)
    near[-1] = torch.tensor([30.0, 40.0])  # the canary
    return near


def problem(included: bool, device: str = "cpu") -> CustomProblem:
    """Return quadratics around the examples; zeroing out the last one means giving it weight 0."""
    weights = torch.ones(NUM_EXAMPLES, dtype=torch.float64)
    weights[-1] = float(included)
    return CustomProblem(weighted_loss, DIM, examples().to(device), weights.to(device))


def clipped_means(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return the attacker's own computation: the mean of clipped gradients without the canary, and with it."""
    each = x[:, None] - examples()
    each = each / (each.norm(dim=2, keepdim=True) / CLIP).clamp_min(1) / NUM_EXAMPLES
    return each[:, :-1].sum(1), each.sum(1)


def scores_of(
    module: ModuleType, schedule: NoiseSchedule, included: bool, runs: int, seed: str, device: str = "cpu"
) -> Tensor:
    """Return the scores of runs with the canary or without it."""
    plan = FixedNoise.of([schedule] * runs, device)
    oracle = module.ClippedGradient(problem(included, device), CLIP, plan, Relation.ZERO_OUT)
    start, streams = torch.zeros(DIM).double().to(device), Streams.of(f"{seed} {included}", range(runs), device)
    noise_std = float(schedule.noise_multipliers[0]) * CLIP / NUM_EXAMPLES

    def answers(x: Tensor) -> tuple[Tensor, Tensor]:
        without, included = clipped_means(x.cpu())
        return without.to(device), included.to(device)

    return transcript_scores(Descent(0.5), oracle, start, streams, STEPS, answers=answers, noise_std=noise_std)


def training_audit(
    module: ModuleType, schedule: NoiseSchedule, delta: float, runs: int, threshold: float
) -> LowerBound:
    sides = [scores_of(module, schedule, included, runs, "training") for included in (True, False)]
    return from_scores(*sides, delta=delta, relation=ZERO_OUT, threshold=threshold)


SENSITIVITY = "return self.releases.bound(self.clip, self.problem.num_examples)"


@functools.cache
def training_design() -> tuple[Guarantee, NoiseSchedule, int, float]:
    """Return the claim of ten uniform steps, and runs and threshold of an attack on one with half of the noise."""
    rho, delta = 0.5, 1e-3
    claim = Guarantee(rho_to_epsilon(rho, delta), delta, Relation.ZERO_OUT, "exact Gaussian")
    # In units of the noise that the attacker assumes: N(1, 1/4) with the canary and N(0, 1/4) without it.
    halved = MixturePair(np.array([[1.0], [1.0]]), np.array([[0.0], [1.0]]), 0.5)
    threshold = halved.threshold(claim.epsilon, delta)
    runs = runs_for_power(*halved.rates(threshold), epsilon=claim.epsilon, delta=delta)
    return claim, uniform(rho, STEPS), runs, threshold


def test_training_with_half_of_the_noise_is_caught_and_the_correct_one_is_not():
    claim, schedule, runs, threshold = training_design()
    broken = module_with_line_replaced(clipped, SENSITIVITY, SENSITIVITY.replace("self.clip,", "self.clip / 2,"))
    assert training_audit(broken, schedule, claim.delta, runs, threshold).exceeds(claim)
    correct = GaussianPair(torch.zeros(1), torch.ones(1), torch.ones(1, 1))
    bound = training_audit(clipped, schedule, claim.delta, runs, correct.strongest_threshold(runs, claim.delta, 0.01))
    assert 0.5 * claim.epsilon < bound.epsilon <= claim.epsilon


def test_the_transcript_s_score_has_the_distance_of_the_claim():
    rho = 2.0
    for included in (True, False):
        scores = scores_of(clipped, uniform(rho, STEPS), included, 1000, "distance").numpy()
        assert stats.kstest(scores, stats.norm(included * math.sqrt(2 * rho), 1).cdf).pvalue > 1e-4
        assert stats.kstest(scores, stats.norm(math.sqrt(2 * rho) / 2, 1).cdf).pvalue < 1e-4  # the control


def test_unclipped_training_is_caught():
    claim, schedule, _, _ = training_design()
    line = "scale = self.clip / self.problem.num_examples / norms.clamp_min(self.clip)"
    broken = module_with_line_replaced(clipped, line, "scale = torch.ones_like(norms) / self.problem.num_examples")
    assert training_audit(broken, schedule, claim.delta, 2000, 5.0).exceeds(claim)
    assert not training_audit(clipped, schedule, claim.delta, 2000, 5.0).exceeds(claim)


def test_a_mechanism_that_draws_every_call_from_one_seed_is_caught():
    line = "noise = streams.normal(self.purpose, request.call, value.shape[1])"
    broken = module_with_line_replaced(mechanisms, line, line.replace("request.call", "0"))
    claim = Guarantee(rho_to_epsilon(1.0, 1e-5), 1e-5, Relation.ZERO_OUT, "exact Gaussian")  # two answers at mu = 1
    runs = runs_for_power(1.0, 0.0, epsilon=claim.epsilon, delta=claim.delta)

    def difference(module: ModuleType, moved: float) -> Tensor:
        """Return the difference of two answers that the example moves in opposite directions."""
        ones, streams = (
            torch.ones(runs, dtype=torch.float64),
            Streams.of("reuse", [f"{i} {moved}" for i in range(runs)]),
        )
        released = []
        for call, direction in enumerate((moved, -moved)):
            answer = Sensitive(torch.full((runs, 1), direction).double(), ones, Relation.ZERO_OUT, "proved")
            request = Request(answer, ones, torch.full((runs,), call), ones.bool())
            mechanism = module.Gaussian()
            released.append(mechanism.release(mechanism.init(answer.value), request, streams)[1][:, 0])
        return released[0] - released[1]

    for module, caught in ((broken, True), (mechanisms, False)):
        bound = from_scores(
            difference(module, 1.0), difference(module, 0.0), delta=claim.delta, relation=ZERO_OUT, threshold=1.0
        )
        assert bound.exceeds(claim) is caught


CANARIES = 1000


def one_training_run(module: ModuleType, rho: float, delta: float, seed: int) -> LowerBound:
    """Train once with all canaries; each has its own direction, along which its gradient has the clipping norm."""
    coins = Streams.of("coins", [seed]).uniform("included", 0, CANARIES)[0] < 0.5
    directions = torch.eye(CANARIES, dtype=torch.float64) * coins[:, None]
    linear = CustomProblem(lambda parameters, direction: parameters @ direction, CANARIES, directions)
    oracle = module.ClippedGradient(linear, CLIP, FixedNoise.of([uniform(rho, STEPS)]), Relation.ZERO_OUT)
    method, streams = Descent(1.0), Streams.of("one run", [seed])
    state = method.init(torch.zeros(1, CANARIES, dtype=torch.float64), oracle)
    for _ in range(STEPS):
        state, _ = method.step(state, oracle, streams)
    guesses = guess(-method.output(state)[0], 50, 50)  # black box: only the last iterate is used
    return one_run(coins, guesses, delta=delta, relation=ZERO_OUT)


def test_one_run_catches_a_quarter_of_the_noise_and_does_not_accuse_the_correct_one():
    rho, delta = 0.05, 1e-7
    claim = Guarantee(rho_to_epsilon(rho, delta), delta, Relation.ZERO_OUT, "exact Gaussian")
    broken = module_with_line_replaced(clipped, SENSITIVITY, SENSITIVITY.replace("self.clip,", "self.clip / 8,"))
    for seed in range(3):
        assert one_training_run(broken, rho, delta, seed).exceeds(claim)
        bound = one_training_run(clipped, rho, delta, seed)
        assert not bound.exceeds(claim) and bound.epsilon > 0


def test_training_that_ends_early_or_ignores_the_canary_is_refused():
    oracle = clipped.ClippedGradient(problem(True), CLIP, FixedNoise.of([uniform(0.5, 3)] * 2))
    start, streams = torch.zeros(DIM, dtype=torch.float64), Streams.of("refused", range(2))
    with pytest.raises(ValueError, match="Expected every run to take num_steps=4 steps; one ended after 3"):
        transcript_scores(Descent(0.5), oracle, start, streams, 4, answers=clipped_means, noise_std=1.0)
    with pytest.raises(ValueError, match="Expected a canary that moves"):
        transcript_scores(Descent(0.5), oracle, start, streams, 3, answers=lambda x: (x, x), noise_std=1.0)


@pytest.mark.gpu
def test_scores_are_the_same_on_a_gpu():
    _, schedule, _, _ = training_design()
    here, there = (scores_of(clipped, schedule, True, 50, "gpu", device).cpu() for device in ("cpu", "cuda"))
    torch.testing.assert_close(here, there, atol=1e-9, rtol=1e-9)
