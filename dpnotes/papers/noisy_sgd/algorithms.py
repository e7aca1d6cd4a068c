"""Noisy SGD with and without clipping: the algorithms of Avdiukhin, Dinitz, Fan and Yaroslavtsev (2024).

"Noise is All You Need: Private Second-Order Convergence of Noisy SGD", arXiv:2410.06878.

Letters of the paper in the bodies below: n number of examples, B batch size, T number of steps, eta step size, C bound
of the gradients' norms, Delta standard deviation of a coordinate of the noise on the mean gradient, sigma the scale of
Assumption B, L smoothness of the objective, c_1 and c_2 constants that the paper does not give.
"""

import math
from collections.abc import Sequence

from torch import Tensor

from dpnotes.core import FRESH, Problem, Relation, Sampling
from dpnotes.guarantees import Assumption, Basis
from dpnotes.methods.descent import Descent
from dpnotes.methods.loop import Observer, Runs, run
from dpnotes.oracles.fresh import FreshData, FreshGradient
from dpnotes.oracles.minibatch import MinibatchGradient
from dpnotes.papers.noisy_sgd.calculators import PRIVACY_NOISE
from dpnotes.privacy.mechanisms import Gaussian, shared
from dpnotes.random.streams import Streams
from dpnotes.train.noise import NoiseChoice
from dpnotes.util import per_run, validate
from dpnotes.util.validate import AtLeastOne, Positive, Probability, checked


# ---------------------------------------------------------------- how much noise
@checked
def theorem_3_1_noise(
    epsilon: Positive,
    delta: Probability,
    *,
    norm_bound: Positive,
    batch_size: AtLeastOne,
    num_examples: AtLeastOne,
    num_steps: AtLeastOne,
    c_1: Positive,
    c_2: Positive,
) -> NoiseChoice:
    """The noise of Theorems 3.1 and 3.3, `Delta = c_2 C sqrt(T ln(1/delta)) / (n epsilon)`.

    The theorems say that there are constants c_1 and c_2, and that `epsilon < c_1 T B^2 / n^2`. The paper gives neither
    constant, and its experiments are outside that window for every c_1 below about 4 (at batches of 512 and 24 epochs),
    so a choice outside of it is returned with a premise that does not hold.

    Args:
      epsilon: nominal, above 0.
      delta: in (0, 1).
      norm_bound: C, above 0: the clipping norm of Algorithm 1, or what Lemma 3.2 (`calculators.GRADIENT_BOUND`) or
        somebody else promises for Algorithm 2.
      batch_size: B, at most n.
      num_examples: n.
      num_steps: T.
      c_1: above 0.
      c_2: above 0; 1 is too small for the noise to be what it is called, see the accounted epsilon.

    Raises:
      ValueError: outside these domains.

    Example:
      >>> sizes = {"norm_bound": 2.5, "batch_size": 512, "num_examples": 50_000, "num_steps": 2328}
      >>> choice = theorem_3_1_noise(2.0, 0.01, **sizes, c_1=1.0, c_2=1.0)
      >>> round(choice.std, 6), choice.premises[0].holds
      (0.002589, False)
    """
    window = c_1 * num_steps * (batch_size / num_examples) ** 2
    found = PRIVACY_NOISE(
        n=num_examples,
        T=num_steps,
        B=batch_size,
        epsilon=epsilon,
        delta=delta,
        C=norm_bound,
        c_1=max(c_1, 2 * c_1 * epsilon / window),  # the window is judged below, not refused
        c_2=c_2,
        constants="paper",
    )
    statement = f"epsilon = {epsilon:g} < c_1 T B^2/n^2 = {window:.4g} (c_1 = {c_1:g})"
    premise = Assumption(statement, "checked", epsilon < window)
    return NoiseChoice(found["Delta"], epsilon, delta, f"Theorem 3.1 with c_2 = {c_2:g}", (premise,))


def least_noise(
    sigma: float, batch_size: int, *, num_steps: int | None = None, delta: float | None = None, factor: float = 1.0
) -> float:
    """The least Delta for which the paper claims convergence, up to constants.

    Theorem 3.4 (whose proof needs Assumption B): `Delta^2 >= sigma^2 / B`. Given T and delta, Appendix C (which does
    not): `Delta^2 >= sigma^2 T / (B delta)`. The noise of a minibatch then is no larger than the noise that is added;
    where they are equal, Lemma B.11 needs a factor of logarithms more (claim thmB.13.noise).

    Args:
      sigma: above 0, in the units of a gradient; without Assumption B that of Assumption A.2, its standard deviation.
      batch_size: B, at least 1.
      num_steps: T; with delta, for Appendix C.
      delta: the failure probability of convergence, in (0, 1).
      factor: on Delta, at least 1.

    Raises:
      ValueError: outside these domains, or if one of T and delta is missing.

    Example:
      >>> least_noise(1.0, 100), round(least_noise(1.0, 100, num_steps=1000, delta=0.1), 6)
      (0.1, 10.0)
    """
    validate.positive(sigma=sigma)
    validate.at_least(1, batch_size=batch_size)
    validate.real(factor=factor)
    if factor < 1:
        raise ValueError(f"Expected factor={factor!r} >= 1.")
    if (num_steps is None) != (delta is None):
        raise ValueError(f"Expected num_steps={num_steps} and delta={delta} together, or neither.")
    share = 1.0
    if num_steps is not None:
        validate.at_least(1, num_steps=num_steps)
        validate.between(0, 1, delta=delta)
        share = delta / num_steps  # type: ignore[operator]
    return factor * sigma / math.sqrt(share * batch_size)


# ---------------------------------------------------------------- the algorithms
def clipped_noisy_sgd(
    problem: Problem,
    noise: Sequence[NoiseChoice],
    x: Tensor,
    streams: Streams,
    *,
    sampling: Sampling,
    norm_bound: float,
    step_size: float,
    num_steps: int,
    delta: float,
    relation: Relation = Relation.REPLACE_ONE,
    divisor: float | None = None,
    bound_basis: Basis = "assumed",
    augment: bool = False,
    observe: Observer | None = None,
    not_covered: tuple[str, ...] = (),
) -> Runs:
    """Algorithm 1 of Avdiukhin et al. (2024), arXiv:2410.06878: noisy SGD with clipping, many runs at once.

      for t = 0..T-1:
        1: sample a minibatch B_t of size B                                  (`batches.draw`)
        2: g_i <- grad f_i(x_t) / max(1, |grad f_i(x_t)| / C), i in B_t      (`MinibatchGradient.estimate`)
        3: xi_t ~ N(0, Delta^2 I)                                            (`Gaussian.release`)
        4: x_{t+1} <- x_t - eta (mean_i g_i + xi_t)                          (`Descent.step`)

    Differences from the paper: see `MinibatchGradient`; its inputs do not name x_0 and eta.

    Formal guarantees:
      `guarantees` are accounted, under `relation`, and rest on no premise about the loss; `readings.readings` sets the
      nominal epsilon of Theorem 3.1 beside them. The initial point, the noise, the sampling scheme and the number of
      steps are public; who was sampled is not.

    Args:
      problem: what is minimised.
      noise: Delta of each run.
      x: `(runs, dim)`, x_0, chosen without looking at the data.
      streams: one key a run. Runs of one key share batches and noise, and may not both be published.
      sampling: how batches are drawn.
      norm_bound: C, above 0, in units of loss over length.
      step_size: eta, above 0, in units of length squared over loss.
      num_steps: T, at least 1.
      delta: in (0, 1), for the guarantees.
      relation: which data sets are neighbours.
      divisor: as `MinibatchGradient`.
      bound_basis: "measured" if C was chosen by looking at the private data, which no guarantee covers then.
      augment: whether examples are changed at random.
      observe: called after every step, see `drive`.
      not_covered: what else depends on the data, such as `guarantees.TUNED_ON_PRIVATE_DATA`.

    Returns:
      The runs; those that diverged say so in `state.status`.

    Raises:
      CombinationError: if no accountant knows this sampling under this relation.
      ValueError: if an argument is outside its domain, the numbers of runs disagree, or some runs have noise and others
        none.

    Example:
      >>> import torch
      >>> from dpnotes.problems.quadratics import Quadratic
      >>> problem = Quadratic.sample(torch.tensor([1.0, 0.1]), num_examples=50, spread=0.5, seed=0)
      >>> how = {"sampling": Sampling.poisson(0.2), "relation": Relation.ZERO_OUT, "norm_bound": 4.0, "num_steps": 20}
      >>> from dpnotes.train.noise import calibrated_noise
      >>> noise = [calibrated_noise(2.0, 1e-3, **how, divisor=10)]
      >>> start, streams = torch.ones(1, 2), Streams.of(0, ["a"])
      >>> runs = clipped_noisy_sgd(problem, noise, start, streams, **how, step_size=0.1, delta=1e-3)
      >>> [round(claim.epsilon, 3) for claim in runs.guarantees]
      [2.0]
    """
    validate.positive(step_size=step_size)
    validate.same_length(x=x, noise=noise, streams=streams)
    oracle = MinibatchGradient(
        problem, sampling, per_run.column(noise, "std", x.device), norm_bound, num_steps, relation,
        clipped=True, bound_basis=bound_basis, check=0, augment=augment, divisor=divisor,
        mechanism=shared(Gaussian(), [choice.std for choice in noise]),
    )  # fmt: skip
    # With one step more a run notices that it has finished.
    ends, method = num_steps + 1, Descent(step_size)
    return run(method, oracle, x, streams, delta=delta, max_steps=ends, observe=observe, not_covered=not_covered)


def noisy_sgd(
    problem: Problem,
    noise: Sequence[NoiseChoice],
    x: Tensor,
    streams: Streams,
    *,
    sampling: Sampling,
    norm_bound: float,
    step_size: float,
    num_steps: int,
    delta: float,
    relation: Relation = Relation.REPLACE_ONE,
    divisor: float | None = None,
    bound_basis: Basis = "assumed",
    check: int = 1,
    augment: bool = False,
    observe: Observer | None = None,
    not_covered: tuple[str, ...] = (),
) -> Runs:
    """Algorithm 2 of Avdiukhin et al. (2024), arXiv:2410.06878: noisy SGD without clipping, many runs at once.

      for t = 0..T-1:
        1: uniformly sample a minibatch B_t of size B                        (`batches.draw`)
        2: xi_t ~ N(0, Delta^2 I)                                            (`Gaussian.release`)
        3: x_{t+1} <- x_t - eta (mean_{i in B_t} grad f_i(x_t) + xi_t)       (`Descent.step`)

    Differences from the paper: see `MinibatchGradient`; the batch's gradients are compared with C as the run goes.

    Formal guarantees:
      None without a premise, since nothing enforces C. `guarantees` take C for certain; `readings.readings` are the
      arguments that do without. A run that saw a gradient above C claims nothing.

    Args:
      problem: what is minimised.
      noise: Delta of each run.
      x: `(runs, dim)`, x_0, chosen without looking at the data.
      streams: one key a run. Runs of one key share batches and noise, and may not both be published.
      sampling: how batches are drawn.
      norm_bound: C, above 0, in units of loss over length.
      step_size: eta, above 0, in units of length squared over loss.
      num_steps: T, at least 1.
      delta: in (0, 1), of the guarantees and of what the accountant finds; nominal readings have their own.
      relation: which data sets are neighbours.
      divisor: as `MinibatchGradient`.
      bound_basis: what C rests on: proved, measured (on the private data, which no guarantee covers) or assumed.
      check: norms are compared with C every so many steps; 0: never.
      augment: whether examples are changed at random.
      observe: called after every step, see `drive`.
      not_covered: what else depends on the data, such as `guarantees.TUNED_ON_PRIVATE_DATA`.

    Returns:
      The runs; those that diverged say so in `state.status`.

    Raises:
      CombinationError: if no accountant knows this sampling under this relation.
      ValueError: if an argument is outside its domain, the numbers of runs disagree, or some runs have noise and others
        none.

    Example:
      >>> import torch
      >>> from dpnotes.problems.quadratics import Quadratic
      >>> problem = Quadratic.sample(torch.tensor([1.0, 0.1]), num_examples=50, spread=0.1, seed=0)
      >>> how = {"norm_bound": 4.0, "num_steps": 20}
      >>> noise = theorem_3_1_noise(8.0, 1e-3, **how, batch_size=10, num_examples=50, c_1=20.0, c_2=9.0)
      >>> runs = noisy_sgd(
      ...     problem, [noise], torch.ones(1, 2), Streams.of(0, ["demo"]), **how, step_size=0.1, delta=1e-3,
      ...     sampling=Sampling.fixed_size(10, 50)
      ... )
      >>> runs.guarantees[0].holds, round(runs.guarantees[0].epsilon, 2)
      (True, 2.86)
    """
    validate.positive(step_size=step_size)
    validate.same_length(x=x, noise=noise, streams=streams)
    oracle = MinibatchGradient(
        problem, sampling, per_run.column(noise, "std", x.device), norm_bound, num_steps, relation,
        clipped=False, bound_basis=bound_basis, check=check, augment=augment, divisor=divisor,
        mechanism=shared(Gaussian(), [choice.std for choice in noise]),
    )  # fmt: skip
    # With one step more a run notices that it has finished.
    ends, method = num_steps + 1, Descent(step_size)
    return run(method, oracle, x, streams, delta=delta, max_steps=ends, observe=observe, not_covered=not_covered)


def noisy_sgd_on_fresh_data(
    data: FreshData,
    noise: Sequence[NoiseChoice],
    x: Tensor,
    streams: Streams,
    *,
    batch_size: int,
    norm_bound: float,
    step_size: float,
    num_steps: int,
    delta: float,
    sampling: Sampling = FRESH,
    bound_basis: Basis = "assumed",
    observe: Observer | None = None,
    not_covered: tuple[str, ...] = (),
) -> Runs:
    """Algorithm 2 as `noisy_sgd`, on examples that are drawn for each batch, as many as one likes.

    For the theorems: the variance of a minibatch, the constants and the Hessian of such data are known, and batches may
    be as large as the theorems ask for. What may be claimed depends on what the batches are declared to be
    (`FreshGradient`).

    Args:
      data: such as `problems.virtual.VirtualData`.
      noise: Delta of each run.
      x: `(runs, dim)`, x_0.
      streams: one key a run.
      batch_size: B, at least 1.
      norm_bound: C, above 0.
      step_size: eta, above 0.
      num_steps: T, at least 1.
      delta: in (0, 1), of the guarantees.
      sampling: FRESH, or `Sampling.fixed_size(B, n)` for an account of what the noise is worth on n examples.
      bound_basis: what C rests on: proved, measured or assumed.
      observe: called after every step, see `drive`.
      not_covered: what else depends on the data.

    Returns:
      The runs; those that diverged say so in `state.status`.

    Raises:
      ValueError: as `noisy_sgd`.

    Example:
      >>> import torch
      >>> from dpnotes.problems.separable import DoubleWell, Linear, Separable
      >>> from dpnotes.problems.virtual import VirtualData
      >>> data = VirtualData(Separable([(DoubleWell(1.0), 2)]), Separable([(Linear(0.5), 2)]))
      >>> noise = NoiseChoice(0.1, 1.0, 1e-6, "by hand")
      >>> runs = noisy_sgd_on_fresh_data(
      ...     data, [noise], torch.zeros(1, 2), Streams.of(0, ["saddle"]), batch_size=10**6, norm_bound=5.0,
      ...     step_size=0.1, num_steps=200, delta=1e-6
      ... )
      >>> runs.x.abs().round(decimals=0)  # from the saddle at 0 to a minimum
      tensor([[1., 1.]])
    """
    validate.positive(step_size=step_size)
    validate.same_length(x=x, noise=noise, streams=streams)
    noise_std, mechanism = per_run.column(noise, "std", x.device), shared(Gaussian(), [choice.std for choice in noise])
    oracle = FreshGradient(data, batch_size, noise_std, norm_bound, num_steps, sampling, bound_basis, mechanism)
    ends, method = num_steps + 1, Descent(step_size)
    return run(method, oracle, x, streams, delta=delta, max_steps=ends, observe=observe, not_covered=not_covered)
