"""Drift escape with adaptive DP-SPIDER: the single-machine algorithms of an anonymous submission.

"Private Stochastic Optimization for Achieving Second-Order Stationary Points", submitted to ICLR, Algorithms 1
and 2; a later version is Tao et al., arXiv:2505.15647, with another title.

The bodies below use the paper's letters: alpha accuracy, chi bound on an estimate's error, psi scale of that error
(sigma from sampling the examples, r sqrt(d) from the mechanism), G, M, rho Lipschitz, smoothness and Hessian-Lipschitz
constants of every example's loss, U range of the risk, eta step size, T_esc, S, Q length, radius and number of escape
attempts, kappa threshold of the drift, b1, b2 batch sizes, n examples, d dimension.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Unpack

import torch
from torch import Tensor

from dpnotes.methods.loop import RunOptions, Runs, run
from dpnotes.oracles.samples import Samples
from dpnotes.oracles.spider import BatchSizes, Refresh, Spider
from dpnotes.papers.drift_escape.calculators import PARAMETERS, PLAN, largest_sensitivity
from dpnotes.papers.drift_escape.escaping import DriftEscape, Repeat
from dpnotes.privacy.calibration import gaussian_std
from dpnotes.privacy.mechanisms import Gaussian, shared
from dpnotes.random.streams import Streams
from dpnotes.util import per_run, validate
from dpnotes.util.validate import AtLeastOne, NonNegative, Positive, PositiveOrInfinite, Probability, checked


@checked
@dataclass(frozen=True)
class Escape:
    """The parameters of Algorithm 1.

    Args:
      accuracy: alpha, above 0, in the units of a gradient.
      smoothness: M, above 0, and at least sqrt(rho alpha).
      hessian_lipschitz: rho, above 0.
      step_size: eta, at most 1 / M.
      threshold: 3 chi; a gradient estimate of at most this norm counts as small.
      attempt_length: T_esc, in steps.
      radius: S, in the units of a length.
      attempts: Q, the number of escape attempts.
      num_steps: T, the largest number of steps.
      origin: the source of the numbers, for display.

    Raises:
      ValueError: an argument is outside its domain; the message says by how much.
    """

    accuracy: Positive
    smoothness: Positive
    hessian_lipschitz: Positive
    step_size: Positive
    threshold: Positive
    attempt_length: AtLeastOne
    radius: Positive
    attempts: AtLeastOne
    num_steps: AtLeastOne
    origin: str

    def __post_init__(self) -> None:
        curvature, steepest = math.sqrt(self.hessian_lipschitz * self.accuracy), self.step_size * self.smoothness
        if self.smoothness < curvature:
            needed = f"M={self.smoothness:.6g} >= sqrt(rho alpha)={curvature:.6g}"
            factor = curvature / self.smoothness
            raise ValueError(f"Expected {needed}: too small by a factor of {factor:.4g}, which the theorem excludes.")
        if steepest > 1 + 1e-12:
            needed = f"step_size={self.step_size:.6g} <= 1/M={1 / self.smoothness:.6g}"
            raise ValueError(f"Expected {needed}: too large by a factor of {steepest:.4g}.")


@checked
def theorem_1(
    sigma: Positive,
    r: Positive,
    dim: AtLeastOne,
    *,
    smoothness: Positive,
    hessian_lipschitz: Positive,
    risk_range: Positive,
    failure: Probability = 0.1,
    constants: str = "paper",
    C: Positive = 1.0,
    s: Positive = 1.0,
) -> Escape:
    """Return the parameters (4) and (5) of Theorem 1 for an oracle with fresh noise of this scale.

    At realistic sizes these parameters are vacuous: with s = 10 and psi = 1e-8 the accuracy is 2.4e-4, an attempt takes
    8e8 steps and a run 2e22 steps. Use `practical_escape` for actual runs.

    Args:
      sigma: norm-sub-Gaussian scale of the sampling noise of the examples, above 0.
      r: standard deviation of each coordinate of the added noise, above 0.
      dim: d.
      smoothness: M, above 0.
      hessian_lipschitz: rho, above 0.
      risk_range: U, above 0.
      failure: omega, in (0, 1).
      constants: "paper", "corrected" or "one", see `calculators`.
      C: the constant of the concentration inequalities, above 0.
      s: the constant that the paper calls "sufficiently large", above 0.

    Raises:
      ValueError: an argument is outside its domain, M < sqrt(rho alpha), or (5) has no solution.

    Example:
      >>> found = theorem_1(1e-8, 1e-10, 100, smoothness=1.0, hessian_lipschitz=1.0, risk_range=1.0, s=10.0)
      >>> f"{found.accuracy:.1e} {found.attempt_length:.1e} {found.num_steps:.1e}"
      '2.4e-04 7.7e+08 2.4e+22'
    """
    found = PARAMETERS(
        C=C, s=s, sigma=sigma, r=r, d=dim, M=smoothness, rho=hessian_lipschitz, U=risk_range, omega=failure,
        constants=constants,
    )  # fmt: skip
    number = {name: float(value) for name, value in found.items()}
    return Escape(
        accuracy=number["alpha"],
        smoothness=smoothness,
        hessian_lipschitz=hessian_lipschitz,
        step_size=number["eta"],
        threshold=3 * number["chi"],
        attempt_length=max(2, math.ceil(number["T_esc"])),
        radius=number["S"],
        attempts=math.ceil(number["Q"]),
        num_steps=math.ceil(number["T"]),
        origin=f"Theorem 1, constants={constants}",
    )


@checked
def practical_escape(
    accuracy: Positive,
    *,
    smoothness: Positive,
    hessian_lipschitz: Positive,
    risk_range: Positive,
    step_size: Positive | None = None,
    length_factor: Positive = 8.0,
    radius_factor: Positive = 0.3,
    attempts: AtLeastOne = 8,
    steps_factor: Positive = 4.0,
) -> Escape:
    """Return parameters with the theorem's exponents, and fixed factors in place of its logarithms (s and iota are 1).

    chi is a quarter of the accuracy, as in (4), and the oracle's noise psi should be at most chi / 2. Then `T_esc =
    length_factor / (eta sqrt(rho alpha))`, during which a deviation grows by a factor exp(length_factor), `S =
    radius_factor sqrt(alpha / rho)`, and `T = steps_factor U / (eta chi^2)`.

    Args:
      accuracy: alpha, above 0.
      smoothness: M, above 0.
      hessian_lipschitz: rho, above 0.
      risk_range: U, above 0.
      step_size: eta, at most 1 / M; if None the paper's `sqrt(rho alpha) / M^2`. Batch sizes above `M / (2 sqrt(rho
        alpha))`, which SPIDER uses, also escape with step size 1 / M.
      length_factor: above 0; values from 5 to 10 have been tried.
      radius_factor: above 0.
      attempts: Q, at least 1; values from 8 to 20 have been tried.
      steps_factor: above 0.

    Raises:
      ValueError: an argument is outside its domain.

    Example:
      >>> found = practical_escape(0.04, smoothness=1.0, hessian_lipschitz=1.0, risk_range=1.0)
      >>> found.step_size, found.attempt_length, round(found.radius, 3), found.num_steps
      (0.2, 200, 0.06, 200000)
    """
    curvature, chi = math.sqrt(hessian_lipschitz * accuracy), accuracy / 4
    eta = min(curvature / smoothness, 1.0) / smoothness if step_size is None else step_size
    return Escape(
        accuracy=accuracy,
        smoothness=smoothness,
        hessian_lipschitz=hessian_lipschitz,
        step_size=eta,
        threshold=3 * chi,
        attempt_length=max(2, math.ceil(length_factor / (eta * curvature) * (1 - 1e-12))),
        radius=radius_factor * math.sqrt(accuracy / hessian_lipschitz),
        attempts=attempts,
        num_steps=math.ceil(steps_factor * risk_range / (eta * chi**2) * (1 - 1e-12)),
        origin="practical",
    )


@checked
@dataclass(frozen=True)
class DriftEscapeParameters:
    """All parameters of a run: those of Algorithm 1 and those of Algorithm 2.

    Args:
      escape: the parameters of Algorithm 1.
      gradient_bound: G, above 0.
      drift_threshold: kappa, above 0, in the units of a length squared.
      first_batch: b1, the batch size of a fresh gradient.
      batch: b2, the batch size of a gradient difference.
      noise_multiplier: the noise of a release divided by its replace-one sensitivity; 0 without privacy.
      origin: the source of the numbers, for display.

    Raises:
      ValueError: an argument is outside its domain.
    """

    escape: Escape
    gradient_bound: Positive
    drift_threshold: Positive
    first_batch: Positive
    batch: Positive
    noise_multiplier: NonNegative
    origin: str

    @property
    def budget(self) -> float:
        """zCDP parameter of a run; infinite without noise."""
        return 0.5 / self.noise_multiplier**2 if self.noise_multiplier else math.inf


@checked
def theorem_2(
    num_examples: Positive,
    dim: AtLeastOne,
    epsilon: Positive,
    delta: Probability,
    *,
    gradient_bound: Positive,
    smoothness: Positive,
    hessian_lipschitz: Positive,
    risk_range: Positive,
    failure: Probability = 0.1,
    constants: str = "paper",
) -> DriftEscapeParameters:
    """Return the parameters of Theorem 2, with those of Theorem 1 at the noise level of the resulting oracle.

    These parameters are vacuous: at n = 1e12 (d = 100, epsilon = 1, all constants 1) the accuracy of Theorem 1 is above
    M^2 / rho, which raises an error here; n = 1e20 gives an accuracy of 0.06. In addition the batches add up to more
    than n examples, so that a run ends with DATA_EXHAUSTED. Use `practical` for actual runs.

    Args:
      num_examples: n.
      dim: d, at least 2.
      epsilon: above 0.
      delta: in (0, 1).
      gradient_bound: G, above 0.
      smoothness: M, above 0.
      hessian_lipschitz: rho, above 0.
      risk_range: U, above 0.
      failure: omega, in (0, 1).
      constants: "paper" (with c1 = c2 = 1 for the constants of the noise, which the paper leaves open), "corrected" or
        "one" (both with noise from the accountant, at which the escape is planned), see `calculators`.

    Raises:
      ValueError: an argument is outside its domain; the message names the inequality that failed.

    Example:
      >>> sizes = {"gradient_bound": 1.0, "smoothness": 1.0, "hessian_lipschitz": 1.0, "risk_range": 1.0}
      >>> theorem_2(1e12, 100, 1.0, 1e-6, **sizes)
      Traceback (most recent call last):
      dpnotes.theory.refusals.OutsideRegime: Expected M=1 >= sqrt(rho alpha)=3.72174: the error alpha is too large by
      a factor 13.85 for the assumption of Section 2.
      >>> round(theorem_2(1e20, 100, 1.0, 1e-6, **sizes).escape.accuracy, 3)
      0.06
    """
    sizes = {"G": gradient_bound, "M": smoothness, "rho": hessian_lipschitz, "U": risk_range}
    found = PLAN(n=num_examples, d=dim, epsilon=epsilon, delta=delta, **sizes, constants=constants)
    kappa, first, later = float(found["kappa"]), float(found["b_1"]), float(found["b_2"])
    printed = constants == "paper"
    # The printed variance is c1 G^2 log(1/delta) / (b1 epsilon)^2, and the sensitivity is 2 G / b1.
    multiplier = math.sqrt(math.log(1 / delta)) / (2 * epsilon) if printed else gaussian_std(epsilon, delta)
    drawn = multiplier * float(largest_sensitivity(first, later, kappa, gradient_bound, smoothness))
    escape = theorem_1(
        float(found["sigma"]), drawn, dim, smoothness=smoothness, hessian_lipschitz=hessian_lipschitz,
        risk_range=risk_range, failure=failure, constants=constants,
    )  # fmt: skip
    return DriftEscapeParameters(
        escape, gradient_bound, kappa, first, later, multiplier, f"Theorem 2, constants={constants}"
    )


@checked
def practical(
    escape: Escape,
    dim: AtLeastOne,
    epsilon: PositiveOrInfinite,
    delta: Probability,
    *,
    gradient_bound: Positive,
    error_share: Positive = 0.25,
    private_drift: Positive = 64.0,
    sampling_drift: Positive = 16.0,
) -> DriftEscapeParameters:
    """Return oracle parameters for an escape, with the exponents of Theorem 2 and fixed factors for its logarithms.

    The error of an estimate has four parts: privacy noise and sampling noise, each from the fresh gradient and from the
    differences since then. Batch sizes are chosen such that each part has a root mean square of at most `error_share
    * chi`, so that by default the total error is chi / 2. kappa balances fresh gradients and differences: it is
    `private_drift (G / M)^(2/3) (eta chi)^(4/3)` where privacy determines the fresh batch, and `sampling_drift (G /
    M) eta chi` where sampling does. With a factor 1 in place of 64, a single step would reach kappa and every
    gradient would be fresh.

    Args:
      escape: the parameters of Algorithm 1.
      dim: d.
      epsilon: above 0; infinite for a run without noise.
      delta: in (0, 1).
      gradient_bound: G, above 0.
      error_share: above 0.
      private_drift: above 0.
      sampling_drift: above 0.

    Raises:
      ValueError: an argument is outside its domain.

    Example:
      >>> escape = practical_escape(0.04, smoothness=1.0, hessian_lipschitz=1.0, risk_range=1.0)
      >>> found = practical(escape, 100, 1.0, 1e-6, gradient_bound=1.0)
      >>> round(found.first_batch), round(found.batch), round(found.drift_threshold, 4)
      (160000, 6046, 0.032)
    """
    chi = escape.threshold / 3
    error, step = error_share * chi, escape.step_size * chi
    multiplier = gaussian_std(epsilon, delta) if epsilon < math.inf else 0.0
    length = gradient_bound / escape.smoothness

    if 2 * multiplier * math.sqrt(dim) * error > gradient_bound:
        kappa = private_drift * length ** (2 / 3) * step ** (4 / 3)
    else:
        kappa = sampling_drift * length * step

    def batch(longest: float) -> float:
        return max(1.0, (longest / error) ** 2, 2 * multiplier * math.sqrt(dim) * longest / error)

    try:
        first, later = batch(gradient_bound), batch(escape.smoothness * math.sqrt(kappa))
    except OverflowError:
        raise ValueError(
            f"Expected batches within reach of floating point, got gradient_bound={gradient_bound!r}, "
            f"error_share={error_share!r}, private_drift={private_drift!r}, sampling_drift={sampling_drift!r}."
        ) from None
    return DriftEscapeParameters(escape, gradient_bound, kappa, first, later, multiplier, "practical")


def spider_of(
    parameters: Sequence[DriftEscapeParameters], samples: Samples, device: torch.device | str = "cpu"
) -> Spider:
    """Return the oracle of Algorithm 2 for runs with these parameters, one set per run.

    Raises:
      ValueError: some runs have noise and others none, or there are too few examples for one fresh gradient.

    Example:
      >>> from dpnotes.oracles.samples import VirtualSamples
      >>> from dpnotes.problems.separable import Cosine, Separable, Sine
      >>> from dpnotes.problems.virtual import VirtualData
      >>> data = VirtualData(Separable([(Cosine(1.0), 4)]), Separable([(Sine(0.5), 4)]))
      >>> escape = practical_escape(0.1, smoothness=2.0, hessian_lipschitz=1.0, risk_range=8.0)
      >>> choice = practical(escape, 4, 1.0, 1e-6, gradient_bound=2.0)
      >>> spider_of([choice], VirtualSamples(data, 10**9)).declared()
      tensor([0.0280], dtype=torch.float64)
    """
    column = partial(per_run.column, parameters, device=device)
    multiplier, budget, bound = column("noise_multiplier"), column("budget"), column("gradient_bound")
    mechanism = shared(Gaussian(), [p.noise_multiplier for p in parameters])
    refresh = Refresh.squared_moves(column("drift_threshold"))
    batches = BatchSizes(column("first_batch"), column("batch"))
    smoothness = per_run.column([p.escape for p in parameters], "smoothness", device)
    return Spider(samples, mechanism, multiplier, budget, refresh, batches, bound, smoothness)


def method_of(escapes: Sequence[Escape], repeat: Repeat = "refresh", return_tested: bool = True) -> DriftEscape:
    """Return the method of Algorithm 1 for runs with these parameters, one set per run.

    Example:
      >>> sizes = {"smoothness": 1.0, "hessian_lipschitz": 1.0, "risk_range": 1.0}
      >>> method_of([practical_escape(alpha, **sizes) for alpha in (0.04, 0.16)]).attempt_length
      tensor([200,  50])
    """
    step_size, threshold, radius = (per_run.column(escapes, name) for name in ("step_size", "threshold", "radius"))
    length, attempts = (per_run.column(escapes, name).long() for name in ("attempt_length", "attempts"))
    return DriftEscape(step_size, threshold, length, radius, attempts, repeat, return_tested)


def drift_escape(
    samples: Samples,
    parameters: DriftEscapeParameters | Sequence[DriftEscapeParameters],
    x: Tensor,
    streams: Streams,
    *,
    delta: float,
    repeat: Repeat = "refresh",
    return_tested: bool = True,
    max_steps: int | None = None,
    **how: Unpack[RunOptions],
) -> Runs:
    """Search privately for a second-order stationary point and test it, in many runs at once.

    Algorithm 1 of the paper is `escaping.DriftEscape`; Algorithm 2 is `oracles.spider.Spider` with
    `Gaussian`. Their docstrings contain the numbered lines and the differences from the paper. In short: the
    sensitivity is for replacing an example, and the noise comes from an exact accountant; the drift counts the moves
    that were actually made, jumps back included; `repeat` sets the oracle's state at a repeated attempt; the returned
    point is the one that was tested; and a run ends when its examples are used up, where the paper's batch sizes need
    more examples than there are.

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
      repeat: state of the oracle at the start of a repeated attempt.
      return_tested: True to return the tested point, False to return the last iterate as printed.
      max_steps: number of steps at which runs stop if their T is larger.
      observe: called after every step, see `drive`.
      not_covered: other dependences on the private data, such as `guarantees.TUNED_ON_PRIVATE_DATA`.

    Returns:
      The runs. Those with status FINISHED returned a point.

    Raises:
      ValueError: an argument is outside its domain, the numbers of runs disagree, or there are too few examples for one
        fresh gradient.

    Example:
      >>> from dpnotes.oracles.samples import VirtualSamples
      >>> from dpnotes.problems.separable import Cosine, Separable, Sine
      >>> from dpnotes.problems.virtual import VirtualData
      >>> data = VirtualData(Separable([(Cosine(1.0), 4)]), Separable([(Sine(0.5), 4)]))
      >>> escape = practical_escape(0.2, smoothness=4.0, hessian_lipschitz=1.0, risk_range=8.0, step_size=0.25)
      >>> choice = practical(escape, 4, 1.0, 1e-6, gradient_bound=4.0)
      >>> saddle, streams = torch.zeros(2, 4, dtype=torch.float64), Streams.of(0, ["a", "b"])
      >>> runs = drift_escape(VirtualSamples(data, 10**12), choice, saddle, streams, delta=1e-6, max_steps=1000)
      >>> runs.state.status.tolist(), bool((data.landscape.gradient(runs.x).norm(dim=1) < 0.2).all())
      ([1, 1], True)
    """
    chosen = [parameters] * len(x) if isinstance(parameters, DriftEscapeParameters) else list(parameters)
    validate.same_length(x=x, parameters=chosen, streams=streams)
    escapes = [p.escape for p in chosen]
    method, oracle = method_of(escapes, repeat, return_tested), spider_of(chosen, samples, x.device)
    steps = max(e.num_steps for e in escapes) if max_steps is None else max_steps
    return run(method, oracle, x, streams, delta=delta, max_steps=steps, **how)
