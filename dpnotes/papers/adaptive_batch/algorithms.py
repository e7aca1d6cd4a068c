"""Stochastic Spider with adaptive batches and the tree mechanism: the algorithm of Liu and Talwar (2024).

"Adaptive Batch Size for Privately Finding Second-Order Stationary Points", arXiv:2410.07502v1.

The bodies below use the paper's letters: alpha accuracy, gamma bound on an estimate's error, G, M, rho Lipschitz,
smoothness and Hessian-Lipschitz constants of every example's loss, B initial gap, kappa threshold of the drift, b and
b_t batch sizes, sigma noise of a tree node, T steps, Gamma escape window, zeta perturbation, n examples, d dimension.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Unpack

import torch
from torch import Tensor

from dpnotes.methods.loop import RunOptions, Runs, run
from dpnotes.methods.spider_descent import StochasticSpider
from dpnotes.oracles.samples import Samples
from dpnotes.oracles.spider import BatchSizes, Refresh, Spider
from dpnotes.papers.adaptive_batch.calculators import THEOREM, theorem
from dpnotes.privacy.calibration import tree_std
from dpnotes.privacy.mechanisms import shared
from dpnotes.privacy.tree import Tree
from dpnotes.random.streams import Streams
from dpnotes.util import per_run, validate
from dpnotes.util.validate import AtLeastOne, NonNegative, Positive, PositiveOrInfinite, Probability, checked


@checked
@dataclass(frozen=True)
class AdaptiveBatchParameters:
    """All parameters of a run.

    Args:
      accuracy: alpha (and gamma), above 0, in the units of a gradient.
      gradient_bound: G, above 0.
      smoothness: M, above 0, and at least sqrt(rho alpha).
      hessian_lipschitz: rho, above 0.
      drift_threshold: kappa, above 0, in the units of a gradient.
      first_batch: b, the batch size of a fresh gradient.
      batch_per_gradient: batch size of a gradient difference, divided by M times the length of the move.
      noise_multiplier: sigma of a node divided by the largest sensitivity of a term (replace-one); 0 without privacy.
      num_steps: T.
      step_size: eta, at most 1 / M.
      threshold: estimates with at most this norm count as small, in the units of a gradient.
      window: Gamma, in steps.
      perturbation: zeta, at least 0.
      max_leaves: number of leaves of the tree, which is the length of its longest sum; a new tree is begun after it.
      origin: the source of the numbers, for display.

    Raises:
      ValueError: an argument is outside its domain; the message says by how much.
    """

    accuracy: Positive
    gradient_bound: Positive
    smoothness: Positive
    hessian_lipschitz: Positive
    drift_threshold: Positive
    first_batch: Positive
    batch_per_gradient: Positive
    noise_multiplier: NonNegative
    num_steps: AtLeastOne
    step_size: Positive
    threshold: Positive
    window: Positive
    perturbation: NonNegative
    max_leaves: AtLeastOne
    origin: str

    def __post_init__(self) -> None:
        smoothness, step_size = self.smoothness, self.step_size
        curvature = math.sqrt(self.hessian_lipschitz * self.accuracy)
        if smoothness < curvature:
            raise ValueError(
                f"Expected M={smoothness:.6g} >= sqrt(rho alpha)={curvature:.6g}: too small by a factor of "
                f"{curvature / smoothness:.4g}, every point has a curvature that is small enough."
            )
        if step_size * smoothness > 1 + 1e-12:
            raise ValueError(
                f"Expected step_size={step_size:.6g} <= 1/M={1 / smoothness:.6g}: too large by a factor of "
                f"{step_size * smoothness:.4g}."
            )

    @property
    def term_sensitivity(self) -> float:
        """The largest replace-one sensitivity of a term of the sum, `2 max(G / b, |g| / b_t)`."""
        return 2 * max(self.gradient_bound / self.first_batch, 1 / self.batch_per_gradient)

    @property
    def budget(self) -> float:
        """zCDP parameter of a run: the cost of the first leaf, which belongs to the most nodes."""
        if not self.noise_multiplier:
            return math.inf
        return Tree(self.max_leaves).max_cost(self.noise_multiplier)


@checked
def theorem_3_11(
    num_examples: Positive,
    dim: AtLeastOne,
    epsilon: Positive,
    delta: Probability,
    *,
    gradient_bound: Positive,
    smoothness: Positive,
    hessian_lipschitz: Positive,
    initial_gap: Positive,
    failure: Probability = 0.01,
    constants: str = "paper",
) -> AdaptiveBatchParameters:
    """Return the parameters of Theorem 3.11 at its accuracy.

    For small n these parameters are vacuous: the threshold of line 9, `gamma log^3(..)`, exceeds G unless n is above
    about 1e10, so every iterate counts as a saddle point. Where privacy needs larger batches than sampling does, the
    printed noise is also not private; the guarantee of such a run states its true epsilon. Use `practical` for actual
    runs.

    Args:
      num_examples: n.
      dim: d.
      epsilon: above 0.
      delta: in (0, 1).
      gradient_bound: G, above 0.
      smoothness: M, above 0.
      hessian_lipschitz: rho, above 0.
      initial_gap: B, above 0.
      failure: iota, in (0, 1).
      constants: "paper", or "one" with noise that is private, see `calculators`. No proof gives other constants.

    Raises:
      ValueError: an argument is outside its domain, or the theorem says nothing about so few examples.

    Example:
      >>> sizes = {"gradient_bound": 1.0, "smoothness": 1.0, "hessian_lipschitz": 1.0, "initial_gap": 1.0}
      >>> found = theorem_3_11(1e8, 100, 1.0, 1e-6, **sizes)
      >>> round(found.accuracy, 5), round(found.threshold, 1), found.threshold > found.gradient_bound
      (0.00504, 3.9, True)
    """
    THEOREM.choose(constants)
    found = theorem(
        float(num_examples), dim, epsilon, delta, gradient_bound, smoothness, hessian_lipschitz, initial_gap, failure,
        constants,
    )  # fmt: skip
    number = {name: float(value) for name, value in found.items()}
    sensitivity = 2 * max(gradient_bound / number["batch"], 1 / number["batch_per_gradient"])
    steps = math.ceil(number["steps"])
    as_named = ("batch_per_gradient", "step_size", "threshold", "window", "perturbation")
    return AdaptiveBatchParameters(
        accuracy=number["alpha"],
        gradient_bound=gradient_bound,
        smoothness=smoothness,
        hessian_lipschitz=hessian_lipschitz,
        drift_threshold=number["kappa"],
        first_batch=number["batch"],
        noise_multiplier=number["sigma"] / sensitivity,
        num_steps=steps,
        max_leaves=steps,
        origin=f"Theorem 3.11, constants={constants}",
        **{name: number[name] for name in as_named},
    )


@checked
def practical(
    accuracy: Positive,
    dim: AtLeastOne,
    epsilon: PositiveOrInfinite,
    delta: Probability,
    *,
    gradient_bound: Positive,
    smoothness: Positive,
    hessian_lipschitz: Positive,
    initial_gap: Positive,
    max_leaves: AtLeastOne = 2**16,
) -> AdaptiveBatchParameters:
    """Return parameters with the theorem's exponents, and fixed factors in place of its logarithms.

    The error of an estimate has four parts: privacy noise and sampling noise, each from the fresh gradient and from the
    differences. Batch sizes are chosen such that each sampling part has a root mean square of a quarter of the
    accuracy, and so has the privacy noise when half of the tree's levels contribute. The total error is therefore half
    the accuracy. kappa is G, or larger where that costs no further examples for the differences. T is `4 B M /
    gamma^2`. The threshold of line 9 is twice the accuracy; factors from 1 to 4 have been tried. The window of line 10
    is `5 M / sqrt(rho accuracy)`, during which a perturbation grows by a factor exp(5). The perturbation equals the
    accuracy. `dataclasses.replace` sets others.

    Args:
      accuracy: gamma, above 0.
      dim: d.
      epsilon: above 0; infinite for a run without noise.
      delta: in (0, 1).
      gradient_bound: G, above 0.
      smoothness: M, above 0.
      hessian_lipschitz: rho, above 0.
      initial_gap: B, above 0.
      max_leaves: use one value for all runs that are compared, because the noise grows with its logarithm.

    Raises:
      ValueError: an argument is outside its domain.

    Example:
      >>> sizes = {"gradient_bound": 1.0, "smoothness": 1.0, "hessian_lipschitz": 1.0, "initial_gap": 1.0}
      >>> found = practical(0.01, 100, 1.0, 1e-6, **sizes)
      >>> round(found.first_batch), found.num_steps, round(found.window, 1)
      (406273, 40000, 50.0)
    """
    error = accuracy / 4
    multiplier = private = 0.0
    if epsilon < math.inf:
        multiplier = tree_std(epsilon, delta, 1.0, max_leaves)
        # This is 2 / s, where s is the sensitivity at which the noise of half of the levels has the size of the error.
        private = 2 * multiplier * math.sqrt(dim * max_leaves.bit_length() / 2) / error
    kappa = max(gradient_bound, private * error**2)
    return AdaptiveBatchParameters(
        accuracy=accuracy,
        gradient_bound=gradient_bound,
        smoothness=smoothness,
        hessian_lipschitz=hessian_lipschitz,
        drift_threshold=kappa,
        first_batch=max(gradient_bound * private, (gradient_bound / error) ** 2),
        batch_per_gradient=max(private, kappa / error**2),
        noise_multiplier=multiplier,
        num_steps=math.ceil(4 * initial_gap * smoothness / accuracy**2),
        step_size=1 / smoothness,
        threshold=2 * accuracy,
        window=5 * smoothness / math.sqrt(hessian_lipschitz * accuracy),
        perturbation=accuracy,
        max_leaves=max_leaves,
        origin="practical",
    )


def spider_of(
    parameters: Sequence[AdaptiveBatchParameters], samples: Samples, device: torch.device | str = "cpu"
) -> Spider:
    """Return the SPIDER oracle for runs with these parameters, one set per run.

    Raises:
      ValueError: the trees differ in length, some runs have noise and others none, or there are too few examples for
        one fresh gradient.

    Example:
      >>> from dpnotes.oracles.samples import VirtualSamples
      >>> from dpnotes.problems.separable import Cosine, Separable, Sine
      >>> from dpnotes.problems.virtual import VirtualData
      >>> data = VirtualData(Separable([(Cosine(1.0), 4)]), Separable([(Sine(0.5), 4)]))
      >>> sizes = {"gradient_bound": 2.0, "smoothness": 2.0, "hessian_lipschitz": 1.0, "initial_gap": 8.0}
      >>> oracle = spider_of([practical(0.1, 4, 1.0, 1e-6, **sizes)], VirtualSamples(data, 10**12))
      >>> oracle.declared()
      tensor([0.0280], dtype=torch.float64)
    """
    column = partial(per_run.column, parameters, device=device)
    leaves = {p.max_leaves for p in parameters}
    if len(leaves) > 1:
        raise ValueError(f"Expected parameters of one max_leaves, got {sorted(leaves)}: runs share their mechanism.")
    mechanism = shared(Tree(max(leaves, default=1)), [p.noise_multiplier for p in parameters])
    noise, budget = column("noise_multiplier"), column("budget")
    refresh = Refresh.path_length(column("drift_threshold"), column("smoothness"), max(leaves))
    sizes = BatchSizes(column("first_batch"), 1.0, column("batch_per_gradient"))
    bound, smoothness, sensitivity = map(column, ("gradient_bound", "smoothness", "term_sensitivity"))
    return Spider(samples, mechanism, noise, budget, refresh, sizes, bound, smoothness, sensitivity)


def method_of(parameters: Sequence[AdaptiveBatchParameters], as_printed: bool = False) -> StochasticSpider:
    """Return the method for runs with these parameters, one set per run.

    Example:
      >>> sizes = {"gradient_bound": 1.0, "smoothness": 1.0, "hessian_lipschitz": 1.0, "initial_gap": 1.0}
      >>> method_of([practical(gamma, 4, 1.0, 1e-6, **sizes) for gamma in (0.1, 0.2)]).num_steps
      tensor([400, 100])
    """
    column = partial(per_run.column, parameters)
    step_size, threshold, window, scale = map(column, ("step_size", "threshold", "window", "perturbation"))
    return StochasticSpider(column("num_steps").long(), step_size, threshold, window, scale, as_printed)


def stochastic_spider(
    samples: Samples,
    parameters: AdaptiveBatchParameters | Sequence[AdaptiveBatchParameters],
    x: Tensor,
    streams: Streams,
    *,
    delta: float,
    as_printed: bool = False,
    max_steps: int | None = None,
    **how: Unpack[RunOptions],
) -> Runs:
    """Search privately for second-order stationary points, in many runs at once.

    Algorithm 2 of Liu and Talwar (2024), arXiv:2410.07502v1. Lines 2 to 8, line 13 and the drift are implemented by
    `oracles.spider.Spider` with a `Tree` (Algorithm 1), the batches of Algorithm 3 by `samples`, and lines 9 to 15 by
    `methods.spider_descent.StochasticSpider`; those docstrings state the differences from the paper. Line 17 returns
    the list of all iterates, one of which is the wanted point: `observe` receives all iterates, and `privacy.search`
    selects one to publish.

    Formal guarantees:
      Every run is `parameters.budget`-zCDP under replace-one. The guarantees state the equivalent (epsilon, delta) for
      everything that the run released, whenever it stopped. They rest on G and M, which are enforced where the samples
      clip and assumed otherwise.

    Args:
      samples: the examples, each used at most once.
      parameters: one set per run, or one for all runs.
      x: `(runs, dim)` initial points, chosen without looking at the data.
      streams: one key per run.
      delta: in (0, 1), for the guarantees.
      as_printed: whether to run lines 9 and 10 as printed in the paper.
      max_steps: number of steps at which runs stop if their T is larger.
      observe: called after every step, see `drive`.
      not_covered: other dependences on the private data, such as `guarantees.TUNED_ON_PRIVATE_DATA`.

    Returns:
      The runs. `state.status` marks those that ran out of examples or budget.

    Raises:
      ValueError: an argument is outside its domain, the numbers of runs disagree, or there are too few examples for one
        fresh gradient.

    Example:
      >>> from dpnotes.oracles.samples import VirtualSamples
      >>> from dpnotes.problems.separable import Cosine, Separable, Sine
      >>> from dpnotes.problems.virtual import VirtualData
      >>> data = VirtualData(Separable([(Cosine(1.0), 4)]), Separable([(Sine(0.5), 4)]))
      >>> sizes = {"gradient_bound": 4.0, "smoothness": 4.0, "hessian_lipschitz": 1.0, "initial_gap": 8.0}
      >>> choice = practical(0.1, 4, 1.0, 1e-6, **sizes)
      >>> saddle, streams = torch.zeros(2, 4, dtype=torch.float64), Streams.of(0, ["a", "b"])
      >>> runs = stochastic_spider(VirtualSamples(data, 10**9), choice, saddle, streams, delta=1e-6, max_steps=100)
      >>> bool((data.landscape.gradient(runs.x).norm(dim=1) < 0.1).all()), round(runs.guarantees[0].epsilon, 2)
      (True, 1.0)
    """
    chosen = [parameters] * len(x) if isinstance(parameters, AdaptiveBatchParameters) else list(parameters)
    validate.same_length(x=x, parameters=chosen, streams=streams)
    method, oracle = method_of(chosen, as_printed), spider_of(chosen, samples, x.device)
    steps = max(p.num_steps for p in chosen) if max_steps is None else max_steps
    return run(method, oracle, x, streams, delta=delta, max_steps=steps, **how)
