"""Private Goldstein stationary points: the algorithms of Kornowski, Liu and Talwar (2025), many runs at once.

"Improved Sample Complexity for Private Nonsmooth Nonconvex Optimization", ICML 2025, arXiv:2410.05880.

The code below uses the paper's letters: alpha is the radius of smoothing, L the Lipschitz constant of every example's
loss, Phi the initial gap, D the largest move, eta the step size, T the number of steps, M the window, Sigma the period,
B1 and B2 batch sizes, m the number of directions, sigma the noise, G1 the root of the second moment of an estimate, n
the number of examples, d the dimension. It adds letters of its own: kappa(d) L / alpha is the smoothness of a smoothed
loss (`smoothing_constant`), tau the slack of a bound, z the noise multiplier of a Gaussian.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, TypedDict, Unpack

from torch import Tensor

from dpnotes.guarantees import FRESH, WHOLE, Assumption
from dpnotes.methods.loop import RunOptions, Runs, run
from dpnotes.oracles.spider import BatchSizes, Refresh, Spider
from dpnotes.papers.goldstein.conversion import OnlineToNonconvex
from dpnotes.papers.goldstein.smoothed import Order, SmoothedSamples
from dpnotes.privacy.calibration import gaussian_std, tree_std
from dpnotes.privacy.mechanisms import Gaussian, shared
from dpnotes.privacy.tree import Tree
from dpnotes.problems.smoothing import smoothing_constant
from dpnotes.random.streams import Streams
from dpnotes.util import per_run, validate
from dpnotes.util.validate import AtLeastOne, NonNegative, Positive, PositiveOrInfinite, Probability, checked

# Points are rounded, so their distance can slightly exceed 2 D; sensitivities are computed for a slightly larger move.
_MOVE_MARGIN = 2.0**-10
_ROUNDING = 1e-12


@checked
@dataclass(frozen=True)
class GoldsteinParameters:
    """All parameters of a run.

    Args:
      num_examples: n.
      dim: d.
      radius: alpha, above 0, a length.
      lipschitz: L, above 0, in the units of a gradient.
      num_steps: T, at least M.
      largest_move: D, above 0; a window stays within alpha: M D <= alpha.
      step_size: eta, above 0.
      window: M, in steps.
      period: Sigma, the number of steps from one fresh estimate to the next; 1 means no variance reduction.
      first_batch: B1, the batch size of a fresh estimate.
      batch: B2, the batch size of an increment.
      noise_multiplier: at least 0. In a single pass: the noise of a node of the tree, divided by the largest
        sensitivity of a leaf. In several passes: the noise of a fresh estimate, divided by its sensitivity. 0 means no
        privacy.
      directions: m.
      origin: the source of the numbers, for display.
      difference_multiplier: the noise of an increment, divided by its sensitivity, in several passes; None for a single
        pass. With several passes, every step uses all examples.
      order: "zeroth" (losses) or "first" (gradients).
      first_directions: the number of directions of a fresh estimate; None means m.
      slack: tau, above 0: the norm of an estimate is at most `(1 + tau)` times the bound on a smoothed gradient.
      independent: if true, an increment draws separate directions at each of its two points, as printed.
      failure: the probability, over the directions, that the sensitivity is exceeded, at least 0 and below 1. With 0,
        estimates are clipped, and the sensitivity always holds.

    Raises:
      ValueError: an argument is outside its domain, or there are too few directions: fewer than the declared
        sensitivity needs (`least_directions`) or, where estimates are clipped, so few that the root-mean-square norm of
        a linear loss's estimate exceeds the clipping norm.
    """

    num_examples: AtLeastOne
    dim: AtLeastOne
    radius: Positive
    lipschitz: Positive
    num_steps: AtLeastOne
    largest_move: Positive
    step_size: Positive
    window: AtLeastOne
    period: AtLeastOne
    first_batch: AtLeastOne
    batch: AtLeastOne
    noise_multiplier: NonNegative
    directions: AtLeastOne
    origin: str
    difference_multiplier: NonNegative | None = None
    order: Order = "zeroth"
    first_directions: AtLeastOne | None = None
    slack: Positive = 0.5
    independent: bool = False
    failure: NonNegative = 0.0

    def __post_init__(self) -> None:
        if self.failure >= 1:
            raise ValueError(f"Expected failure={self.failure} < 1.")
        if self.window * self.largest_move > self.radius * (1 + _ROUNDING):
            raise ValueError(
                f"Expected window={self.window} <= radius/largest_move={self.radius / self.largest_move:.6g}: a window "
                "has to stay within the radius."
            )
        for name, least in zip(("first_directions", "directions"), self._least(), strict=True):
            given = self.directions if name == "directions" else self.first_directions or self.directions
            if given < least:
                raise ValueError(
                    f"Expected {name}={given} >= {least}: with fewer the sensitivity that is promised, of estimates "
                    f"{1 + self.slack:g} times as long as a smoothed gradient, does not hold"
                    + (f" with probability 1 - {self.failure:g}." if self.failure else " for most: they are clipped.")
                )

    def _least(self) -> tuple[int, int]:
        if self.failure:
            estimates = 2 * (1 if self.difference_multiplier is None else self.num_steps)
            return least_directions(self, self.failure / estimates)
        least = 1 if self.order == "first" else math.ceil((self.dim - 1) / ((1 + self.slack) ** 2 - 1))
        return least, least if self.period > 1 else 1

    @property
    def first_bound(self) -> float:
        """The bound on the norm of an example's fresh estimate: L for gradients, `(1 + tau) L` for losses."""
        return self.lipschitz if self.order == "first" else (1 + self.slack) * self.lipschitz

    @property
    def smoothness(self) -> float:
        """The largest change of an example's estimate, divided by the length of the move."""
        return (1 + self.slack) * smoothing_constant(self.dim) * self.lipschitz / self.radius

    @property
    def least_move(self) -> float:
        """The move length that bounds every increment: slightly above 2 D, the largest distance of two points."""
        return 2 * self.largest_move * (1 + _MOVE_MARGIN)

    @property
    def sensitivities(self) -> tuple[float, float]:
        """The sensitivities of a fresh estimate and of an increment, under replace-one."""
        first, later = 2 * self.first_bound, 2 * self.smoothness * self.least_move
        if self.difference_multiplier is not None:
            return first / self.num_examples, later / self.num_examples
        return first / self.first_batch, later / self.batch

    @property
    def term_sensitivity(self) -> float:
        """The unit of `noise_multiplier`: the larger sensitivity, or the fresh estimate's in several passes."""
        if self.difference_multiplier is not None or self.period == 1:
            return self.sensitivities[0]
        return max(self.sensitivities)

    @property
    def difference_scale(self) -> float:
        """The noise of an increment in several passes, divided by `term_sensitivity`."""
        first, later = self.sensitivities
        return (self.difference_multiplier or 0.0) * later / first

    @property
    def budget(self) -> float:
        """zCDP of a run: the first leaf's cost for a single pass, the sum over steps for several passes."""
        if not self.noise_multiplier:
            return math.inf
        if self.difference_multiplier is None:
            return Tree(self.period).max_cost(self.noise_multiplier)
        resets = math.ceil(self.num_steps / self.period)
        later = (self.num_steps - resets) / self.difference_multiplier**2 if self.period > 1 else 0.0
        return 0.5 * (resets / self.noise_multiplier**2 + later)


def least_directions(parameters: Any, failure: float) -> tuple[int, int]:
    """Return how many directions keep a fresh estimate, and an increment, within bounds except with this probability.

    The numbers follow from Hoeffding's inequality for vectors (Pinelis 1994): the mean of m independent vectors of norm
    at most b is farther than r from its expectation with a probability of at most `2 exp(-m r^2 / (8 b^2))`. The bound
    b is `d L` for a two-point estimate, `2 d L D / alpha` for an increment with common directions, `2 d L` for an
    increment with independent directions, and `2 L` for a difference of gradients (claims goldstein.own.common,
    goldstein.own.clipping).

    Args:
      parameters: of a run (`GoldsteinParameters`).
      failure: the failure probability of one estimate, in (0, 1).

    Returns:
      The number m for a fresh estimate, and for an increment.
    """
    validate.between(0, 1, failure=failure)
    d, L, tau, D = parameters.dim, parameters.lipschitz, parameters.slack, parameters.largest_move
    increment = 2 * smoothing_constant(d) * L * D / parameters.radius
    common = 2 * d * L * D / parameters.radius
    longest = 2 * L if parameters.order == "first" else 2 * d * L if parameters.independent else common
    logarithm = 8 * math.log(2 / failure) / tau**2
    first = 1 if parameters.order == "first" else math.ceil(logarithm * d**2)
    return first, math.ceil(logarithm * (longest / increment) ** 2) if parameters.period > 1 else 1


# ---------------------------------------------------------------- choices of parameters
class PlainOptions(TypedDict, total=False):
    """The numbers of `GoldsteinParameters` that are not the theorem's; without `largest_move` it is the theorem's."""

    largest_move: float | None
    order: Order
    directions: int | None
    slack: float


class EstimateOptions(PlainOptions, total=False):
    """The same for an oracle that reduces variance."""

    independent: bool
    failure: float


@checked
def single_pass(
    num_examples: AtLeastOne,
    dim: AtLeastOne,
    epsilon: PositiveOrInfinite,
    delta: Probability,
    *,
    radius: Positive,
    lipschitz: Positive,
    initial_gap: Positive,
    **options: Unpack[EstimateOptions],
) -> GoldsteinParameters:
    """Return parameters of Theorem 3.1 (losses) or 6.1 (gradients), with explicit constants in place of the O.

    D is the smaller of two of the theorem's four terms, `(Phi^2 alpha / (L^2 T^2 sqrt(d)))^(1/3)` and `(Phi alpha
    epsilon / (d L T))^(1/2)` at T = n / 2; the other two are superfluous (claims goldstein.own.superfluous). D is also
    at most `alpha / sqrt(d)`, so that a period has at least one step. Sigma and B1 are alpha / (D sqrt(d)), the first
    summand of the printed Sigma; the second is superfluous (claim goldstein.own.superfluous.period). B2 is 1. M is
    alpha / D rounded down; the paper prints alpha / (4 D). The step size is `eta = D / (G1 sqrt(M))`, where G1 includes
    the noise. The exact accountant determines the noise.

    Args:
      num_examples: n.
      dim: d.
      epsilon: above 0; infinite for a run without noise.
      delta: in (0, 1).
      radius: alpha, above 0 and at most Phi / L.
      lipschitz: L, above 0.
      initial_gap: Phi, above 0.
      largest_move: D, above 0 and at most alpha; None means the value above. Experiments tune it.
      order: "zeroth" (losses, unless given) or "first" (gradients).
      directions: m; None means 8 d for losses and 4 for gradients, or more if a `failure` above 0 needs more
        (`least_directions`).
      slack: tau, above 0; 0.5 unless given.
      independent: as in `GoldsteinParameters`; False unless given.
      failure: as in `GoldsteinParameters`; it is part of delta, and therefore below delta. 0 unless given.

    Raises:
      ValueError: an argument is outside its domain, or there are too few examples for one window.

    Example:
      >>> sizes = {"radius": 0.5, "lipschitz": 1.0, "initial_gap": 1.0}
      >>> found = single_pass(20_000, 4, 1.0, 1e-6, **sizes)
      >>> found.num_steps, found.period, found.window, found.directions
      (9936, 184, 368, 32)
    """
    failure, largest_move = options.get("failure", 0.0), options.get("largest_move")
    z = _noise(epsilon, delta, radius, initial_gap / lipschitz, failure)
    if largest_move is None:
        steps, root = num_examples / 2, math.sqrt(dim)
        sampling = (initial_gap**2 * radius / (lipschitz**2 * steps**2 * root)) ** (1 / 3)
        private = math.sqrt(initial_gap * radius * epsilon / (dim * lipschitz * steps))
        largest_move = float(min(sampling, private, radius / root))
    options["largest_move"], window = _window(largest_move, radius)
    period = max(1, int(window / math.sqrt(dim)))
    steps = _whole_windows(_steps_of(num_examples, period), window, num_examples)
    noise = tree_std(epsilon, delta - failure, 1.0, period) if z else 0.0
    live = sum(leaf.bit_count() for leaf in range(1, period + 1)) / period
    return _chosen(
        live, num_examples=num_examples, dim=dim, radius=radius, lipschitz=lipschitz, num_steps=steps,
        window=window, period=period, first_batch=period, batch=1, noise_multiplier=noise,
        origin=f"Theorem {'6.1' if options.get('order') == 'first' else '3.1'} with numbers", **options,
    )  # fmt: skip


@checked
def multi_pass(
    num_examples: AtLeastOne,
    dim: AtLeastOne,
    epsilon: PositiveOrInfinite,
    delta: Probability,
    *,
    radius: Positive,
    lipschitz: Positive,
    initial_gap: Positive,
    num_steps: AtLeastOne | None = None,
    **options: Unpack[EstimateOptions],
) -> GoldsteinParameters:
    """Return parameters of the corrected Theorem 4.1, with explicit constants; every step uses all examples.

    The theorem's accuracy is `beta = max((sqrt(Phi) L d^(3/4) z / (n sqrt(alpha)))^(2/3), L / sqrt(n))`, at most L.
    From it follow `D = alpha beta^2 / L^2` and `T = Phi L^2 / (alpha beta^3)`; the paper prints `alpha^2` in both,
    which has the wrong units. Sigma is alpha / (D sqrt(d)) and M is alpha / D, both rounded down. All releases compose
    to one Gaussian mechanism with noise multiplier z. The budget is divided between resets and increments so that `d
    (sigma1^2 + Sigma sigma2^2)` is smallest.

    Args:
      num_examples: n, the size of the data set; the noise is calibrated for it.
      dim: d.
      epsilon: above 0; infinite for a run without noise.
      delta: in (0, 1).
      radius: alpha, above 0 and at most Phi / L.
      lipschitz: L, above 0.
      initial_gap: Phi, above 0.
      num_steps: T, rounded down to whole windows; None means the value above.
      largest_move: D, above 0 and at most alpha; None means the value above.
      order: as in `single_pass`, as are `directions`, `slack`, `independent` and `failure`.

    Raises:
      ValueError: an argument is outside its domain, or the run is shorter than one window.

    Example:
      >>> sizes = {"radius": 0.5, "lipschitz": 1.0, "initial_gap": 1.0}
      >>> found = multi_pass(2000, 4, 1.0, 1e-6, **sizes)
      >>> found.num_steps, found.period, found.window, round(found.budget, 4)
      (27888, 290, 581, 0.028)
    """
    failure, largest_move = options.get("failure", 0.0), options.get("largest_move")
    z = _noise(epsilon, delta, radius, initial_gap / lipschitz, failure)
    beta = (math.sqrt(initial_gap / radius) * lipschitz * dim**0.75 * z / num_examples) ** (2 / 3)
    beta = min(max(beta, lipschitz / math.sqrt(num_examples)), lipschitz)
    options["largest_move"], window = _window(
        radius * beta**2 / lipschitz**2 if largest_move is None else largest_move, radius
    )
    steps = initial_gap * lipschitz**2 / (radius * beta**3) if num_steps is None else num_steps
    steps, period = _whole_windows(int(steps), window, num_examples), max(1, int(window / math.sqrt(dim)))
    chosen = _chosen(
        0.0, num_examples=num_examples, dim=dim, radius=radius, lipschitz=lipschitz, num_steps=steps,
        window=window, period=period, first_batch=num_examples, batch=num_examples, noise_multiplier=1.0,
        difference_multiplier=1.0, origin="Theorem 4.1 with numbers", **options,
    )  # fmt: skip
    return _shared_out(chosen, z)


@checked
def plain(
    num_examples: AtLeastOne,
    dim: AtLeastOne,
    epsilon: PositiveOrInfinite,
    delta: Probability,
    *,
    radius: Positive,
    lipschitz: Positive,
    initial_gap: Positive,
    passes: Literal["one", "many"] = "one",
    num_steps: AtLeastOne | None = None,
    **options: Unpack[PlainOptions],
) -> GoldsteinParameters:
    """Return parameters without variance reduction: a baseline with a conditionally unbiased oracle.

    The noise is as large as a gradient, `d sigma^2 = L^2`. A single pass has batches of `2 z sqrt(d)` examples, and
    therefore `n / (2 z sqrt(d))` steps; several passes have `T = n^2 / (4 z^2 d)` steps over all examples. The bound
    `gap / (D T) + k sqrt(D / alpha)` (claims goldstein.own.explicit, goldstein.own.plain_single and
    goldstein.own.plain_multi) is smallest at `D = (2 gap sqrt(alpha) / (k T))^(2/3)`, with `k = (5/2) G1 + s` and G1 =
    s = sqrt(2) L; M = alpha / D.

    Args:
      num_examples: n.
      dim: d.
      epsilon: above 0; infinite for a run without noise, with batches of one example or with n steps over all examples.
      delta: in (0, 1).
      radius: alpha, above 0 and at most Phi / L.
      lipschitz: L, above 0.
      initial_gap: Phi, above 0.
      passes: "one" or "many".
      num_steps: T, rounded down to whole windows; None means the value above. In a single pass, at most n divided by
        the batch size.
      largest_move: D, above 0 and at most alpha; None means the value above.
      order: "zeroth" (losses) or "first" (gradients, unless given).
      directions: m; None means 8 d for losses and 1 for gradients.
      slack: tau, above 0, for losses; 0.5 unless given.

    Raises:
      ValueError: an argument is outside its domain, or the run is shorter than one window.

    Example:
      >>> sizes = {"radius": 0.5, "lipschitz": 1.0, "initial_gap": 1.0}
      >>> found = plain(20_000, 4, 1.0, 1e-6, **sizes)
      >>> found.num_steps, found.first_batch, found.window, found.directions
      (1122, 17, 102, 1)
    """
    z, largest_move = _noise(epsilon, delta, radius, initial_gap / lipschitz), options.get("largest_move")
    one, gap = passes == "one", initial_gap + lipschitz * radius * dim / (dim + 1)
    batch = max(1, math.ceil(2 * z * math.sqrt(dim))) if one else num_examples
    steps = num_examples / batch if one else num_examples**2 / (4 * z**2 * dim) if z else num_examples
    steps = steps if num_steps is None else num_steps
    k = (2.5 + 1) * math.sqrt(2) * lipschitz
    best = min((2 * gap * math.sqrt(radius) / (k * steps)) ** (2 / 3), radius)
    options["largest_move"], window = _window(best if largest_move is None else largest_move, radius)
    steps = _whole_windows(int(steps), window, num_examples)
    return _chosen(
        1.0, num_examples=num_examples, dim=dim, radius=radius, lipschitz=lipschitz, num_steps=steps,
        window=window, period=1, first_batch=batch, batch=batch, noise_multiplier=z if one else z * math.sqrt(steps),
        difference_multiplier=None if one else 1.0, origin=f"no variance reduction, {passes} pass{'' if one else 'es'}",
        few=1, **{"order": "first", **options}, independent=False, failure=0.0,
    )  # fmt: skip


def _noise(epsilon: float, delta: float, radius: float, largest_radius: float, failure: float = 0.0) -> float:
    """Return z after checking what several arguments must fulfil together; 0 without privacy."""
    validate.non_negative(failure=failure)
    if failure >= delta:
        raise ValueError(f"Expected failure={failure} < delta={delta}, which it is part of.")
    if radius > largest_radius * (1 + _ROUNDING):
        raise ValueError(
            f"Expected radius={radius:.6g} <= initial_gap/lipschitz={largest_radius:.6g}: too large by a factor of "
            f"{radius / largest_radius:.4g}, which the theorems exclude."
        )
    return gaussian_std(epsilon, delta - failure) if epsilon < math.inf else 0.0


@checked
def _window(largest_move: Positive, radius: float) -> tuple[float, int]:
    """Return D, and M = alpha / D rounded down."""
    if largest_move > radius * (1 + _ROUNDING):
        raise ValueError(f"Expected largest_move={largest_move:.6g} <= radius={radius:.6g}.")
    return largest_move, max(1, int(radius / largest_move * (1 + _ROUNDING)))


def _steps_of(num_examples: int, period: int) -> int:
    """Return how many steps n examples allow: a fresh estimate uses Sigma examples, an increment one."""
    periods, left = divmod(num_examples, 2 * period - 1)
    return periods * period + max(0, left - period + 1)


def _whole_windows(steps: int, window: int, num_examples: int) -> int:
    if steps < window:
        raise ValueError(
            f"Expected num_examples={num_examples} to last for a window of {window} steps, they do for {steps}: choose "
            "a larger move or radius."
        )
    return steps // window * window


def _chosen(live: float, directions: int | None = None, few: int = 4, **numbers: Any) -> GoldsteinParameters:
    """Return the parameters with directions and step size, where an estimate carries `live` noise draws on average.

    Without a number of directions it is 8 d for losses, and `few` for gradients, or what a failure probability needs.
    """
    some = GoldsteinParameters(**numbers, step_size=1.0, directions=2**62)
    if directions is None:
        failure = some.failure / (2 if some.difference_multiplier is None else 2 * some.num_steps)
        least = least_directions(some, failure) if failure else (0, 0)
        directions = max(*least, 8 * some.dim if some.order == "zeroth" else few)
    first = 1 if some.order == "first" and some.period > 1 else None  # fresh estimates from gradients: one, as printed
    noise = some.dim * live * (some.noise_multiplier * some.term_sensitivity) ** 2
    return _with_step_size(some, noise, directions=directions, first_directions=first)


def _with_step_size(some: GoldsteinParameters, noise: float, **changes: Any) -> GoldsteinParameters:
    """Return the changed parameters with the step size D / (G1 sqrt(M)), given the mean square of the noise."""
    step_size = some.largest_move / math.sqrt((some.lipschitz**2 + noise) * some.window)
    return replace(some, step_size=step_size, **changes)


def _shared_out(some: GoldsteinParameters, z: float) -> GoldsteinParameters:
    """Return the parameters with one Gaussian's budget divided between resets and increments, and the step size."""
    resets = math.ceil(some.num_steps / some.period)
    increments = some.num_steps - resets
    first, later = some.sensitivities
    # Minimise (s1 nu1)^2 + Sigma (s2 nu2)^2 subject to R / nu1^2 + I / nu2^2 = 1 / z^2.
    error = math.sqrt(resets) * first + math.sqrt(increments * some.period) * later
    nu1 = z * math.sqrt(math.sqrt(resets) / first * error)
    nu2 = z * math.sqrt(math.sqrt(max(increments, 1) / some.period) / later * error)
    mean = (nu1 * first) ** 2 + (some.period - 1) / 2 * (nu2 * later) ** 2
    return _with_step_size(some, some.dim * mean, noise_multiplier=nu1, difference_multiplier=nu2)


# ---------------------------------------------------------------- the algorithms
def oracle_of(parameters: Sequence[GoldsteinParameters], problem: Any, device: Any = "cpu") -> Spider:
    """Return the oracle for runs with these parameters, one set per run.

    Raises:
      ValueError: the runs differ in a parameter that they share, the dimension or (for several passes) the size of the
        data set differs from the parameters', or there are too few examples for one fresh estimate.

    Example:
      >>> import torch
      >>> from dpnotes.problems.custom import CustomProblem
      >>> problem = CustomProblem(lambda x, a: (x - a).norm(), 2, torch.rand(2000, 2))
      >>> sizes = {"radius": 0.5, "lipschitz": 1.0, "initial_gap": 1.0}
      >>> oracle_of([multi_pass(2000, 2, 1.0, 1e-6, **sizes)], problem).declared()
      tensor([0.0280], dtype=torch.float64)
    """
    validate.at_least(1, num_parameters=len(parameters))
    column, one = partial(per_run.column, parameters, device=device), parameters[0]
    for name in ("order", "period", "directions", "first_directions", "independent", "dim"):
        if len({getattr(p, name) for p in parameters}) > 1:
            raise ValueError(f"Expected parameters of one {name}: runs share it.")
    many = one.difference_multiplier is not None
    if any((p.difference_multiplier is not None, p.failure > 0) != (many, one.failure > 0) for p in parameters):
        raise ValueError("Expected parameters all of one pass, or all of many, and all with a failure or none.")
    if problem.dim != one.dim:
        raise ValueError(f"Expected dim={one.dim} to be the problem's {problem.dim}.")
    wrong = [p.num_examples for p in parameters if p.num_examples != problem.num_examples]
    if many and wrong:
        raise ValueError(f"Expected num_examples={wrong[0]} to be the problem's {problem.num_examples}.")
    samples = SmoothedSamples(
        problem, column("radius"), one.directions, one.order, one.first_directions, one.independent, not one.failure
    )
    return Spider(
        samples,
        shared(Gaussian() if many else Tree(one.period), [p.noise_multiplier for p in parameters]),
        column("noise_multiplier"),
        column("budget"),
        Refresh.every(one.period),
        BatchSizes(column("first_batch"), column("batch")),
        column("first_bound"),
        column("smoothness"),
        column("term_sensitivity"),
        sampling=WHOLE if many else FRESH,
        difference_multiplier=column("difference_scale") if many else None,
        least_move=column("least_move"),
    )


def method_of(parameters: Sequence[GoldsteinParameters], restart: bool = False) -> OnlineToNonconvex:
    """Return the method for runs with these parameters, one set per run.

    Example:
      >>> sizes = {"radius": 0.5, "lipschitz": 1.0, "initial_gap": 1.0}
      >>> method_of([plain(n, 4, 1.0, 1e-6, **sizes) for n in (20_000, 40_000)]).window
      tensor([102, 162])
    """
    column = partial(per_run.column, parameters)
    return OnlineToNonconvex(
        column("num_steps").long(), column("step_size"), column("largest_move"), column("window").long(), restart
    )


def online_to_nonconvex(
    problem: Any,
    parameters: GoldsteinParameters | Sequence[GoldsteinParameters],
    x: Tensor,
    streams: Streams,
    *,
    delta: float,
    restart: bool = False,
    max_steps: int | None = None,
    **how: Unpack[RunOptions],
) -> Runs:
    """Find Goldstein stationary points privately, for many runs at once.

    Algorithm 2 of Kornowski, Liu and Talwar (2025) is `conversion.OnlineToNonconvex`; its oracle is
    Algorithm 3 (`single_pass`), 4 (`multi_pass`) or 5 (`single_pass` with order "first"), which are `oracles.spider.
    Spider` with `smoothed.SmoothedSamples`, or the baseline `plain`. Those classes list their differences from
    the paper. The tree of Algorithm 1 is `privacy.tree.Tree`: a new tree begins with every period, and its leaves are 1
    to Sigma. The paper prints `TREE(t mod Sigma)`, which would release every Sigma-th estimate without noise.

    Formal guarantees:
      Every run is `parameters.budget`-zCDP under replace-one. The guarantees state the equivalent (epsilon, delta) for
      everything that the run released, whenever it stopped. Estimates are clipped, so the sensitivity is enforced. With
      a `failure` above 0 they are not clipped: the bounds are assumed to hold except with that probability, which is
      part of delta, and a run that observes a batch mean above them claims nothing.

    Args:
      problem: the data set; order "zeroth" needs its method `losses` (`smoothed.PointLosses`).
      parameters: one set per run, or one set for all runs.
      x: `(runs, dim)` initial points, chosen independently of the data; float64 if D is small compared with them.
      streams: random streams with one key per run.
      delta: in (0, 1), for the guarantees.
      restart: if true, every window begins with Delta = 0.
      max_steps: a limit on the number of steps, below T.
      observe: called after every step, see `drive`; `OnlineToNonconvex` says how to get the mean over all windows.
      not_covered: other uses of the private data that no guarantee covers, such as `guarantees.TUNED_ON_PRIVATE_DATA`.

    Returns:
      The runs. Their `x` is the average of a randomly chosen window; `state.status` marks runs that ran out of examples
      or budget.

    Raises:
      ValueError: an argument is outside its domain, the numbers of runs disagree, or `oracle_of` raises.

    Example:
      >>> import torch
      >>> from dpnotes.problems.custom import CustomProblem
      >>> problem = CustomProblem(lambda x, a: (x - a).norm(), 2, torch.rand(5000, 2).double())
      >>> sizes = {"radius": 0.5, "lipschitz": 1.0, "initial_gap": 2.0}
      >>> choice = single_pass(5000, 2, 4.0, 1e-6, **sizes, largest_move=0.05)
      >>> start, streams = torch.tensor([[1.0, 0.0]]).double(), Streams.of(0, ["a"])
      >>> runs = online_to_nonconvex(problem, choice, start, streams, delta=1e-6, max_steps=60)
      >>> bool((runs.state.average - 0.5).norm() < 0.5), round(runs.guarantees[0].epsilon, 2)
      (True, 4.0)
    """
    chosen = [parameters] * len(x) if isinstance(parameters, GoldsteinParameters) else list(parameters)
    validate.same_length(x=x, parameters=chosen, streams=streams)
    validate.between(0, 1, delta=delta)
    failure = max(p.failure for p in chosen)
    if failure >= delta:
        raise ValueError(f"Expected delta={delta} > failure={failure}, which is part of it.")
    method, oracle = method_of(chosen, restart), oracle_of(chosen, problem, x.device)
    steps = max(p.num_steps for p in chosen) if max_steps is None else max_steps
    runs = run(method, oracle, x, streams, delta=delta - failure, max_steps=steps, **how)
    if not failure:
        return runs
    rare = Assumption(f"directions exceed no bound, but with a probability of {failure:g}, part of delta", "assumed")
    claims = tuple(replace(claim, delta=delta, assumptions=(*claim.assumptions, rare)) for claim in runs.guarantees)
    return replace(runs, guarantees=claims)
