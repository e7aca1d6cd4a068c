"""Private gradient descent with budget schedules: the algorithms of Hong, Wang and Zhou (2022).

"Dynamic Privacy Budget Allocation Improves Data Efficiency of Differentially Private Gradient Descent", FAccT 2022,
doi:10.1145/3531146.3533070.

The bodies below use the paper's letters: T number of steps, N number of examples, G clipping norm, sigma_t noise
multiplier of step t = 1..T, R = 2 rho privacy budget, gamma contraction factor of a step, beta momentum, w_t influence
of step t.
"""

from collections.abc import Sequence
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from dpnotes.core import Problem, Relation
from dpnotes.methods.descent import Descent
from dpnotes.methods.loop import RunOptions, Runs, run
from dpnotes.oracles.clipped import ClippedGradient
from dpnotes.privacy.noise import FixedNoise, NoisePlan
from dpnotes.privacy.schedules import NoiseSchedule, from_influence, on_the_private_side
from dpnotes.problems.networks import TwoLayerNetwork
from dpnotes.random import draws
from dpnotes.random.streams import Streams
from dpnotes.util import validate
from dpnotes.util.validate import AtLeastOne, Positive, UnitInterval, checked


class DescentOptions(RunOptions, total=False):
    """The relation of `ClippedGradient`, and the options of a run."""

    relation: Relation


@checked
def private_gradient_descent(
    problem: Problem,
    noise: Sequence[NoiseSchedule] | NoisePlan,
    x: Tensor,
    streams: Streams,
    *,
    clip: float,
    step_size: Positive,
    delta: float,
    momentum: float = 0.0,
    max_steps: AtLeastOne = 10_000,
    **how: Unpack[DescentOptions],
) -> Runs:
    """Run private gradient descent under a budget schedule, for many runs at once.

    Equation (1) with Algorithm 1 of Hong, Wang and Zhou (2022), doi:10.1145/3531146.3533070, line by line:

      for t = 1..T:
        1: request rho_t <- 1 / sigma_t^2; average the N gradients     (`ClippedGradient.ask`, `.answer`; `NoisePlan`)
        2: if rho_t <= R_t                                             (`Filter.grant`; printed: <)
        3:   R_{t+1} <- R_t - rho_t                                    (`Meter.spent`)
        4:   g_t <- average + G sigma_t nu_t / N                       (`Gaussian.release`)
        5:   m_{t+1} <- phi(m_t, g_t)                                  (`Descent.step`, equations (2) and (3))
        6:   theta_{t+1} <- theta_t - eta_t m_{t+1}                    (`Descent.step`)
        7: else terminate                                              (`Status.BUDGET_EXHAUSTED`)

    Differences from the paper: the paper assumes that G bounds the gradients. Here gradients are clipped to G, which
    enforces the sensitivity but biases the average. `ClippedGradient` explains the change of line 2 and the
    neighbouring relation.

    Formal guarantees:
      Every run is rho-zCDP under `relation`, with the rho of its plan (Theorem 3.5, R = 2 rho). The guarantees state
      the equivalent (epsilon, delta) for everything that the run released, whenever it stopped. The number of examples,
      the schedule and the initial point are public.

    Args:
      problem: the loss to minimise.
      noise: one schedule per run, or one plan for all runs.
      x: `(runs, dim)` initial points, chosen without looking at the data.
      streams: one key per run. Runs with the same key share their noise (common random numbers): comparing them is more
        precise, but publishing more than one of them lets a reader cancel the noise; their guarantees say so. Two calls
        with equal keys share noise as well, which neither call can detect.
      clip: clipping norm of each example's gradient, above 0, in units of loss over length.
      step_size: above 0, in units of length squared over loss.
      delta: in (0, 1), for the guarantees.
      momentum: beta, in [0, 1).
      relation: which data sets are neighbours; zero-out by default.
      max_steps: limit for a plan that may have no end of its own; schedules always run to their end.
      observe: called after every step, see `drive`.
      not_covered: other dependences on the private data that are not accounted for, such as
        `guarantees.TUNED_ON_PRIVATE_DATA`. Only the caller can know them; the guarantees list them.

    Returns:
      The runs. `state.status` marks those that diverged or ran out of budget.

    Raises:
      ValueError: if an argument is outside its domain, or the numbers of runs disagree.

    Example:
      >>> import torch
      >>> from dpnotes.privacy.schedules import uniform
      >>> from dpnotes.problems.quadratics import Quadratic
      >>> problem = Quadratic.sample(torch.tensor([1.0, 0.1]), num_examples=50, spread=0.5, seed=0)
      >>> start, streams = torch.ones(1, 2), Streams.of(0, ["demo"])
      >>> runs = private_gradient_descent(
      ...     problem, [uniform(0.2, 5)], start, streams, clip=4.0, step_size=0.5, delta=1e-8
      ... )
      >>> int(runs.state.steps[0]), round(runs.guarantees[0].epsilon, 3)
      (5, 3.491)
    """
    if isinstance(noise, Sequence):
        plan = FixedNoise.of(noise, x.device)
        max_steps = int(plan.num_steps.max()) + 1  # with the last one, the longest run notices that it has finished
    else:
        plan = noise
    validate.same_length(x=x, noise=plan.budget, streams=streams)
    given: Any = how
    oracle = ClippedGradient(problem, clip, plan, given.pop("relation", Relation.ZERO_OUT))
    return run(Descent(step_size, momentum), oracle, x, streams, delta=delta, max_steps=max_steps, **given)


def bytes_per_run(problem: TwoLayerNetwork) -> int:
    """Return the peak memory, in bytes, that one more run of `private_gradient_descent` needs, for choosing chunks.

    This is the network's own memory, the memory for drawing the noise, and 32 bytes per parameter for the point, the
    old point, the direction and the allocator's overhead.

    Example:
      >>> import torch
      >>> bytes_per_run(TwoLayerNetwork(torch.zeros(1000, 60), torch.zeros(1000).long(), num_hidden=1000)) > 10**7
      True
    """
    return problem.bytes_per_run + (32 + draws.backend(problem.inputs.device).bytes_a_number) * problem.dim


@checked
def theorem_4_5_schedule(gamma: UnitInterval, rho: Positive, num_steps: AtLeastOne) -> NoiseSchedule:
    """Return the dynamic schedule in the closed form of Theorem 4.5.

    `sigma_t^2 = ((1/gamma)^{T/2} - 1) / (1 - sqrt(gamma)) * gamma^{t/2} / R` for t = 1..T. It equals `exponential` with
    rate gamma, which the tests check.

    Args:
      gamma: contraction factor of a gradient step, in (0, 1); `1 - 1/kappa` at step size 1/M.
      rho: zCDP budget, above 0; the paper's R is `2 rho`.
      num_steps: T, at least 1.

    Example:
      >>> theorem_4_5_schedule(gamma=0.81, rho=0.5, num_steps=2).noise_multipliers.round(4)
      array([1.453 , 1.3784])
    """
    t = np.arange(1, num_steps + 1)
    root = np.sqrt(gamma)
    # This equals the printed product, rearranged as gamma^{(t - T)/2} (1 - gamma^{T/2}) to avoid overflow at large T.
    variance = root ** (t - num_steps) * (1 - root**num_steps) / (1 - root) / (2 * rho)
    return on_the_private_side(np.sqrt(variance), rho, "Theorem 4.5")


def momentum_influence(momentum: float, gamma: float, num_steps: int) -> NDArray[np.float64]:
    """Return the exact influence of each step's noise variance on the bound for momentum.

    `w_i = sum_{t=i}^T gamma^{T-t} ((1-beta)/(1-beta^t))^2 beta^{2(t-i)}`, which is the coefficient of sigma_i^2 in the
    U_3 of Theorem 4.6 after its two sums are exchanged.

    Args:
      momentum: beta, in (0, gamma), because the theorem's proof sums a geometric series in beta / gamma.
      gamma: contraction, in (0, 1).
      num_steps: T, at least 1.

    Returns:
      `(num_steps,)`.

    Example:
      >>> momentum_influence(0.5, 0.9, 3).round(4)
      array([0.9304, 0.4816, 0.3265])
    """
    _check_momentum(momentum, gamma, num_steps)
    t = np.arange(1, num_steps + 1)
    terms = gamma ** (num_steps - t) * ((1 - momentum) / (1 - momentum**t)) ** 2
    influence = np.empty(num_steps)
    tail = 0.0
    for i in reversed(range(num_steps)):  # w_i = term_i + beta^2 w_{i+1}
        influence[i] = tail = terms[i] + momentum**2 * tail
    return influence


def turning_step(momentum: float, gamma: float) -> int:
    """Return T-hat of Section 4.2: the last t >= 1 with `gamma^{t-1} >= (1-beta)/(1-beta^t)`.

    Example:
      >>> turning_step(0.9, 0.99), turning_step(0.5, 0.9)
      (230, 7)
    """
    _check_momentum(momentum, gamma, 1)
    t = 1
    while gamma**t >= (1 - momentum) / (1 - momentum ** (t + 1)):
        t += 1
    return t


def momentum_influence_majorant(momentum: float, gamma: float, num_steps: int) -> NDArray[np.float64]:
    """Return the upper bound on `momentum_influence` behind Theorem 4.8, with corrected constants.

    The bound is `c_1 gamma^{T+t}` for t <= T-hat and `gamma^{T-hat-1} c_2 gamma^{T-t}` for later t, where `c_1 = 2 /
    (gamma (gamma - beta^2))` and `c_2 = gamma^{T-hat} / (gamma - beta^2)`. The paper prints gamma^{2 T-hat} in c_2, and
    compares T instead of t with T-hat; the bound fails with either version.

    Args and returns:
      As for `momentum_influence`.

    Example:
      >>> bool(np.all(momentum_influence(0.5, 0.9, 40) <= momentum_influence_majorant(0.5, 0.9, 40)))
      True
    """
    _check_momentum(momentum, gamma, num_steps)
    t = np.arange(1, num_steps + 1)
    turn = turning_step(momentum, gamma)
    early = 2 / (gamma * (gamma - momentum**2)) * gamma ** (num_steps + t)
    late = gamma ** (turn - 1) * gamma**turn / (gamma - momentum**2) * gamma ** (num_steps - t)
    return np.where(t <= turn, early, late)


def momentum_schedule(momentum: float, gamma: float, rho: float, num_steps: int) -> NoiseSchedule:
    """Return the schedule that minimises the momentum bound exactly (Lemma 4.4 applied to `momentum_influence`).

    Example:
      >>> momentum_schedule(0.5, 0.9, rho=0.2, num_steps=10).num_steps
      10
    """
    return from_influence(momentum_influence(momentum, gamma, num_steps), rho, f"momentum {momentum:g}")


@checked
def _check_momentum(momentum: UnitInterval, gamma: UnitInterval, num_steps: AtLeastOne) -> None:
    if momentum >= gamma:
        raise ValueError(f"Expected momentum={momentum!r} < gamma={gamma!r}.")
