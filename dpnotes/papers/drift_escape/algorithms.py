"""Drift escape with adaptive DP-SPIDER: the single-machine algorithms of an anonymous submission.

"Private Stochastic Optimization for Achieving Second-Order Stationary Points", arXiv:2505.15647, Algorithms 1 and 2.

Letters of the paper in the bodies below: alpha accuracy, chi bound of an estimate's error, psi its scale (of the noise
of the examples, sigma, and of the mechanism, r sqrt(d)), G, M, rho Lipschitz, smoothness and Hessian-Lipschitz
constants of every example's loss, U range of the risk, eta step size, T_esc, S, Q length, radius and number of
attempts, kappa threshold of the drift, b1, b2 batches, n examples, d dimension.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from dpnotes.methods.drift_escape import DriftEscape, Repeat
from dpnotes.methods.loop import Observer, Runs, run
from dpnotes.oracles.samples import Samples
from dpnotes.oracles.spider import BatchSizes, Refresh, Spider
from dpnotes.papers.drift_escape.calculators import PARAMETERS, PLAN, largest_sensitivity
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
      threshold: 3 chi.
      attempt_length: T_esc, steps.
      radius: S, in the units of a length.
      attempts: Q.
      num_steps: T, the steps at most.
      origin: where the numbers come from.

    Raises:
      ValueError: outside these domains, saying by how much.
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
        curvature = math.sqrt(self.hessian_lipschitz * self.accuracy)
        if self.smoothness < curvature:
            raise ValueError(
                f"Expected M={self.smoothness:.6g} >= sqrt(rho alpha)={curvature:.6g}: too small by a factor of "
                f"{curvature / self.smoothness:.4g}, which the theorem excludes."
            )
        if self.step_size * self.smoothness > 1 + 1e-12:
            raise ValueError(
                f"Expected step_size={self.step_size:.6g} <= 1/M={1 / self.smoothness:.6g}: too large by a factor of "
                f"{self.step_size * self.smoothness:.4g}."
            )


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
    """The parameters (4) and (5) of Theorem 1 for an oracle with fresh noise of this scale.

    At the size of a laptop they are vacuous: with s = 10 and psi = 1e-8 the accuracy is 2.4e-4, an attempt has 8e8
    steps and a run 2e22 of them. `practical_escape` is for running.

    Args:
      sigma: norm-sub-Gaussian scale of the noise of the examples, above 0.
      r: standard deviation of the added noise in a coordinate, above 0.
      dim: d.
      smoothness: M, above 0.
      hessian_lipschitz: rho, above 0.
      risk_range: U, above 0.
      failure: omega, in (0, 1).
      constants: "paper", "corrected" or "one", see `calculators`.
      C: the constant of the concentration inequalities, above 0.
      s: the constant of the paper that is "sufficiently large", above 0.

    Raises:
      ValueError: outside these domains, M < sqrt(rho alpha) among them, or if (5) has no solution.

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
    """Parameters that have the theorem's exponents, with numbers in place of its logarithms (s and iota are 1).

    chi is a fourth of the accuracy, as in (4), and the noise psi of the oracle should be at most half of chi. Then
    `T_esc = length_factor / (eta sqrt(rho alpha))`, in which a deviation grows by exp(length_factor),
    `S = radius_factor sqrt(alpha / rho)`, and `T = steps_factor U / (eta chi^2)`.

    Args:
      accuracy: alpha, above 0.
      smoothness: M, above 0.
      hessian_lipschitz: rho, above 0.
      risk_range: U, above 0.
      step_size: eta, at most 1 / M; if None the paper's `sqrt(rho alpha) / M^2`. Batches above `M / (2 sqrt(rho
        alpha))`, which SPIDER's are, do escape with 1 / M.
      length_factor: above 0; what has been tried is from 5 to 10.
      radius_factor: above 0.
      attempts: Q, at least 1; what has been tried is from 8 to 20.
      steps_factor: above 0.

    Raises:
      ValueError: outside these domains.

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
    """All numbers of a run: those of Algorithm 1, and of Algorithm 2.

    Args:
      escape: of Algorithm 1.
      gradient_bound: G, above 0.
      drift_threshold: kappa, above 0, in the units of a length squared.
      first_batch: b1, of a fresh gradient.
      batch: b2, of a difference.
      noise_multiplier: the noise of a release over its sensitivity, replace-one; 0 without privacy.
      origin: where the numbers come from.

    Raises:
      ValueError: outside these domains.
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
        """zCDP of a run."""
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
    """The parameters of Theorem 2, with those of Theorem 1 at the noise that its oracle then has and draws.

    They are vacuous: at n = 1e12 (d = 100, epsilon = 1, all constants 1) the accuracy of Theorem 1 is above M^2 / rho,
    which is an error here, and n = 1e20 gives 0.06. The batches add up to more than n besides: a run ends with
    DATA_EXHAUSTED. `practical` is for running.

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
        "one" (with the accountant's noise, for which the escape is planned), see `calculators`.

    Raises:
      ValueError: outside these domains, saying which inequality failed.

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
    # The printed variance is c1 G^2 log(1/delta) / (b1 epsilon)^2, and the sensitivity 2 G / b1.
    multiplier = math.sqrt(math.log(1 / delta)) / (2 * epsilon) if printed else gaussian_std(epsilon, delta)
    drawn = multiplier * float(largest_sensitivity(first, later, kappa, gradient_bound, smoothness))
    escape = theorem_1(
        float(found["sigma"]), drawn, dim, smoothness=smoothness, hessian_lipschitz=hessian_lipschitz,
        risk_range=risk_range, failure=failure, constants=constants,
    )  # fmt: skip
    return DriftEscapeParameters(
        escape,
        gradient_bound,
        kappa,
        first,
        later,
        multiplier,
        f"Theorem 2, constants={constants}",
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
    """An oracle for an escape, with the exponents of Theorem 2 and numbers in place of its logarithms.

    The error of an estimate has four parts: noise of the mechanism and of the examples, each of the fresh gradient and
    of the differences since. Batches are such that each part has a root mean square of at most `error_share * chi`, so
    the error is half of chi by default. kappa balances fresh gradients and differences: it is `private_drift
    (G / M)^(2/3) (eta chi)^(4/3)` where privacy asks for the larger fresh batch, and `sampling_drift (G / M) eta chi`
    where sampling does. With 1 in place of 64 a single step reaches kappa, and every gradient is a fresh one.

    Args:
      escape: Algorithm 1's parameters.
      dim: d.
      epsilon: above 0; infinite for a run without noise.
      delta: in (0, 1).
      gradient_bound: G, above 0.
      error_share: above 0.
      private_drift: above 0.
      sampling_drift: above 0.

    Raises:
      ValueError: outside these domains.

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
    """The oracle of Algorithm 2 for runs with these parameters, one each.

    Raises:
      ValueError: if some have noise and some none, or there are too few examples for one fresh gradient.

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
    return Spider(
        samples,
        shared(Gaussian(), [p.noise_multiplier for p in parameters]),
        column("noise_multiplier"),
        column("budget"),
        Refresh.squared_moves(column("drift_threshold")),
        BatchSizes(column("first_batch"), column("batch")),
        column("gradient_bound"),
        per_run.column([p.escape for p in parameters], "smoothness", device),
    )


def method_of(escapes: Sequence[Escape], repeat: Repeat = "refresh", return_tested: bool = True) -> DriftEscape:
    """Algorithm 1 for runs with these parameters, one each.

    Example:
      >>> sizes = {"smoothness": 1.0, "hessian_lipschitz": 1.0, "risk_range": 1.0}
      >>> method_of([practical_escape(alpha, **sizes) for alpha in (0.04, 0.16)]).attempt_length
      tensor([200,  50])
    """
    column = partial(per_run.column, escapes)
    return DriftEscape(
        column("step_size"),
        column("threshold"),
        column("attempt_length").long(),
        column("radius"),
        column("attempts").long(),
        repeat,
        return_tested,
    )


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
    observe: Observer | None = None,
    not_covered: tuple[str, ...] = (),
) -> Runs:
    """Private search for a second-order stationary point that knows when it has found one, many runs at once.

    Algorithm 1 of the paper is `methods.drift_escape.DriftEscape`, Algorithm 2 `oracles.spider.Spider` with `Gaussian`;
    their docstrings have the numbered lines and where they differ from the paper. In short: the sensitivity is that of
    an example replaced, and the noise that of an exact accountant; drift is of the moves that were made, jumps back
    included; what becomes of the oracle at a repeated attempt is `repeat`; the point returned is the one that was
    tested; and examples that are used up end a run, where the paper's batches ask for more than there are.

    Formal guarantees:
      Every run is `parameters.budget`-zCDP under replace-one, and the guarantees list what that means as
      (epsilon, delta), for all that it released, whenever it stopped. It rests on G and M, enforced where the samples
      clip, else assumed.

    Args:
      samples: examples that are used once.
      parameters: of each run, or of all.
      x: `(runs, dim)` initial points, chosen without looking at the data.
      streams: one key a run.
      delta: in (0, 1), for the guarantees.
      repeat: what the oracle believes when an attempt is repeated.
      return_tested: whether the tested point is returned, or as printed the last iterate.
      max_steps: stops runs earlier than their T.
      observe: called after every step, see `drive`.
      not_covered: what else depends on the private data, such as `guarantees.TUNED_ON_PRIVATE_DATA`.

    Returns:
      The runs; FINISHED are those that returned a point.

    Raises:
      ValueError: if an argument is outside its domain, the numbers of runs disagree, or there are too few examples for
        one fresh gradient.

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
    return run(method, oracle, x, streams, delta=delta, max_steps=steps, observe=observe, not_covered=not_covered)
