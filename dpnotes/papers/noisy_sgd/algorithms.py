"""Noisy SGD with and without clipping: the algorithms of Avdiukhin, Dinitz, Fan and Yaroslavtsev (2024).

"Noise is All You Need: Private Second-Order Convergence of Noisy SGD", arXiv:2410.06878.

The bodies below use the paper's letters: n number of examples, B batch size, T number of steps, eta step size, C bound
on the norms of the gradients, Delta standard deviation of each coordinate of the noise on the mean gradient, sigma the
scale of Assumption B, L smoothness of the objective, c_1 and c_2 constants that the paper does not give.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Unpack

from torch import Tensor

from dpnotes.core import Problem, Relation, Sampling
from dpnotes.guarantees import Assumption, Basis
from dpnotes.methods.descent import Descent
from dpnotes.methods.loop import RunOptions, Runs, run
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
    """Return the noise of Theorems 3.1 and 3.3, `Delta = c_2 C sqrt(T ln(1/delta)) / (n epsilon)`.

    The theorems state that constants c_1 and c_2 exist, and require `epsilon < c_1 T B^2 / n^2`. The paper gives
    neither constant, and its experiments violate the condition for every c_1 below about 4 (with batches of 512 and 24
    epochs), so a choice that violates it is returned with a premise that does not hold.

    Args:
      epsilon: nominal epsilon, above 0.
      delta: in (0, 1).
      norm_bound: C, above 0: the clipping norm of Algorithm 1; for Algorithm 2 a bound such as that of Lemma 3.2
        (`calculators.GRADIENT_BOUND`).
      batch_size: B, at most n.
      num_examples: n.
      num_steps: T.
      c_1: above 0.
      c_2: above 0; with c_2 = 1 the noise is too small for the nominal epsilon, see the accounted epsilon.

    Raises:
      ValueError: an argument is outside its domain.

    Example:
      >>> sizes = {"norm_bound": 2.5, "batch_size": 512, "num_examples": 50_000, "num_steps": 2328}
      >>> choice = theorem_3_1_noise(2.0, 0.01, **sizes, c_1=1.0, c_2=1.0)
      >>> round(choice.std, 6), choice.premises[0].holds
      (0.002589, False)
    """
    window = c_1 * num_steps * (batch_size / num_examples) ** 2
    sizes = {"n": num_examples, "T": num_steps, "B": batch_size, "C": norm_bound}
    enough = max(c_1, 2 * c_1 * epsilon / window)  # a violated condition is reported below, not refused
    found = PRIVACY_NOISE(**sizes, epsilon=epsilon, delta=delta, c_1=enough, c_2=c_2, constants="paper")
    statement = f"epsilon = {epsilon:g} < c_1 T B^2/n^2 = {window:.4g} (c_1 = {c_1:g})"
    premise = Assumption(statement, "checked", epsilon < window)
    return NoiseChoice(found["Delta"], epsilon, delta, f"Theorem 3.1 with c_2 = {c_2:g}", (premise,))


# ---------------------------------------------------------------- the algorithms
class FreshOptions(RunOptions, total=False):
    """The fields of `FreshGradient`, with its defaults, and the options of a run."""

    sampling: Sampling
    bound_basis: Basis


class BatchOptions(RunOptions, total=False):
    """The fields of `MinibatchGradient`, with its defaults, and the options of a run."""

    relation: Relation
    divisor: float | None
    bound_basis: Basis
    check: int
    augment: bool


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
    **how: Unpack[BatchOptions],
) -> Runs:
    """Algorithm 1 of Avdiukhin et al. (2024), arXiv:2410.06878: noisy SGD with clipping, many runs at once.

      for t = 0..T-1:
        1: sample a minibatch B_t of size B                                  (`batches.draw`)
        2: g_i <- grad f_i(x_t) / max(1, |grad f_i(x_t)| / C), i in B_t      (`MinibatchGradient.estimate`)
        3: xi_t ~ N(0, Delta^2 I)                                            (`Gaussian.release`)
        4: x_{t+1} <- x_t - eta (mean_i g_i + xi_t)                          (`Descent.step`)

    Differences from the paper: see `MinibatchGradient`. The inputs of the printed algorithm omit x_0 and eta.

    Formal guarantees:
      `guarantees` come from the accountant, under `relation`, and need no premise about the loss; `readings.readings`
      adds the nominal epsilon of Theorem 3.1. The initial point, the noise, the sampling scheme and the number of steps
      are public; the sampled examples are not.

    Args:
      problem: the loss to minimise.
      noise: the noise Delta of each run.
      x: `(runs, dim)`, x_0, chosen without looking at the data.
      streams: one key per run. Runs with the same key share batches and noise; at most one of them may be published.
      sampling: how batches are drawn.
      norm_bound: C, above 0, in units of loss over length.
      step_size: eta, above 0, in units of length squared over loss.
      num_steps: T, at least 1.
      delta: in (0, 1), for the guarantees.
      relation: which data sets are neighbours; replace-one by default.
      divisor: as in `MinibatchGradient`.
      bound_basis: "measured" if C was chosen by looking at the private data, which no guarantee covers.
      augment: whether examples are randomly augmented.
      observe: called after every step, see `drive`.
      not_covered: other dependences on the data, such as `guarantees.TUNED_ON_PRIVATE_DATA`.

    Returns:
      The runs. `state.status` marks those that diverged.

    Raises:
      CombinationError: no accountant supports this sampling under this relation.
      ValueError: an argument is outside its domain, the numbers of runs disagree, or some runs have noise and others
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
    oracle_of = partial(MinibatchGradient, problem, sampling, norm_bound=norm_bound, num_steps=num_steps, clipped=True)
    return _descend(oracle_of, noise, x, streams, step_size, delta, **how)


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
    **how: Unpack[BatchOptions],
) -> Runs:
    """Algorithm 2 of Avdiukhin et al. (2024), arXiv:2410.06878: noisy SGD without clipping, many runs at once.

      for t = 0..T-1:
        1: uniformly sample a minibatch B_t of size B                        (`batches.draw`)
        2: xi_t ~ N(0, Delta^2 I)                                            (`Gaussian.release`)
        3: x_{t+1} <- x_t - eta (mean_{i in B_t} grad f_i(x_t) + xi_t)       (`Descent.step`)

    Differences from the paper: see `MinibatchGradient`. During the run, the batch's gradient norms are compared with C.

    Formal guarantees:
      None without a premise, since nothing enforces C. `guarantees` take the bound C for certain; `readings.readings`
      lists arguments that do not. A run that observed a gradient above C claims nothing.

    Args:
      problem: the loss to minimise.
      noise: the noise Delta of each run.
      x: `(runs, dim)`, x_0, chosen without looking at the data.
      streams: one key per run. Runs with the same key share batches and noise; at most one of them may be published.
      sampling: how batches are drawn.
      norm_bound: C, above 0, in units of loss over length.
      step_size: eta, above 0, in units of length squared over loss.
      num_steps: T, at least 1.
      delta: in (0, 1), for the guarantees and the accounted readings; nominal readings have their own.
      relation: which data sets are neighbours; replace-one by default.
      divisor: as in `MinibatchGradient`.
      bound_basis: the justification of C: proved, measured (on the private data, which no guarantee covers) or assumed.
      check: number of steps between two comparisons of the norms with C, 1 by default; 0 means never.
      augment: whether examples are randomly augmented.
      observe: called after every step, see `drive`.
      not_covered: other dependences on the data, such as `guarantees.TUNED_ON_PRIVATE_DATA`.

    Returns:
      The runs. `state.status` marks those that diverged.

    Raises:
      CombinationError: no accountant supports this sampling under this relation.
      ValueError: an argument is outside its domain, the numbers of runs disagree, or some runs have noise and others
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
    oracle_of = partial(MinibatchGradient, problem, sampling, norm_bound=norm_bound, num_steps=num_steps)
    return _descend(oracle_of, noise, x, streams, step_size, delta, **how)


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
    **how: Unpack[FreshOptions],
) -> Runs:
    """Algorithm 2 as `noisy_sgd`, on new examples for each batch, from an unlimited supply.

    This is for studying the theorems: the minibatch variance, the constants and the Hessian of such data are known, and
    batches may be as large as the theorems require. The guarantee depends on what the batches are declared to be
    (`FreshGradient`).

    Args:
      data: for example `problems.virtual.VirtualData`.
      noise: the noise Delta of each run.
      x: `(runs, dim)`, x_0.
      streams: one key per run.
      batch_size: B, at least 1.
      norm_bound: C, above 0.
      step_size: eta, above 0.
      num_steps: T, at least 1.
      delta: in (0, 1), of the guarantees.
      sampling: FRESH by default, or `Sampling.fixed_size(B, n)` to account for the noise as if batches came from n
        examples.
      bound_basis: the justification of C: proved, measured or assumed.
      observe: called after every step, see `drive`.
      not_covered: other dependences on the data.

    Returns:
      The runs. `state.status` marks those that diverged.

    Raises:
      ValueError: as in `noisy_sgd`.

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
    oracle_of = partial(FreshGradient, data, batch_size, norm_bound=norm_bound, num_steps=num_steps)
    return _descend(oracle_of, noise, x, streams, step_size, delta, **how)


def _descend(
    oracle_of: Callable[..., Any],
    noise: Sequence[NoiseChoice],
    x: Tensor,
    streams: Streams,
    step_size: float,
    delta: float,
    **how: Any,
) -> Runs:
    """Run gradient descent on the oracle with the noise of each run."""
    validate.positive(step_size=step_size)
    validate.same_length(x=x, noise=noise, streams=streams)
    std, mechanism = per_run.column(noise, "std", x.device), shared(Gaussian(), [choice.std for choice in noise])
    of_run = {name: how.pop(name) for name in RunOptions.__annotations__ if name in how}
    oracle = oracle_of(noise_std=std, mechanism=mechanism, **how)
    # One further step is needed for a run to notice that it has finished.
    return run(Descent(step_size), oracle, x, streams, delta=delta, max_steps=oracle.num_steps + 1, **of_run)
