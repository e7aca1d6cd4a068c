"""Private Goldstein stationary points: the algorithms of Kornowski, Liu and Talwar (2025), many runs at once.

"Improved Sample Complexity for Private Nonsmooth Nonconvex Optimization", ICML 2025, arXiv:2410.05880.

Letters of the paper in the bodies below: alpha radius of smoothing, L Lipschitz constant of every example's loss, Phi
initial gap, D largest move, eta step size, T steps, M window, Sigma period, B1, B2 batches, m directions, sigma noise,
G1 root of the second moment of an estimate, n examples, d dimension. Of ours: kappa(d) L / alpha the smoothness of a
smoothed loss (`ball_smoothness`), tau the slack of a bound, z noise of a Gaussian over its sensitivity.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, get_args

from torch import Tensor

from dpnotes.guarantees import FRESH, WHOLE, Assumption
from dpnotes.methods.loop import Observer, Runs, run
from dpnotes.methods.online_to_nonconvex import OnlineToNonconvex
from dpnotes.oracles.smoothed import Order, SmoothedSamples, ball_smoothness
from dpnotes.oracles.spider import BatchSizes, Refresh, Spider
from dpnotes.privacy.calibration import gaussian_std, tree_std
from dpnotes.privacy.mechanisms import Gaussian, shared
from dpnotes.privacy.tree import Tree
from dpnotes.random.streams import Streams
from dpnotes.util import per_run, validate

# Points are rounded, so two of them can be a little farther apart than 2 D: sensitivities are those of so much more.
_MOVE_MARGIN = 2.0**-10
_ROUNDING = 1e-12


@dataclass(frozen=True)
class GoldsteinParameters:
    """All numbers of a run.

    Args:
      num_examples: n.
      dim: d.
      radius: alpha, above 0, a length.
      lipschitz: L, above 0, in the units of a gradient.
      num_steps: T, at least M.
      largest_move: D, above 0; a window stays within alpha: M D <= alpha.
      step_size: eta, above 0.
      window: M, steps.
      period: Sigma, steps from one fresh estimate to the next; 1: no variance reduction.
      first_batch: B1, of a fresh estimate.
      batch: B2, of an increment.
      noise_multiplier: at least 0: of one pass, the noise of a node of the tree over the largest sensitivity of a leaf;
        of many passes, the noise of a fresh estimate over its sensitivity. 0 without privacy.
      difference_multiplier: the same of an increment; given means many passes, each step over all examples.
      order: "zeroth" (losses) or "first" (gradients).
      directions: m.
      first_directions: of a fresh estimate; None: m.
      slack: tau, above 0: an estimate is at most `(1 + tau)` times as long as a smoothed gradient.
      independent: whether an increment has directions of its own at each point, as printed.
      failure: from 0 to 1: the probability, over the directions, with which the sensitivity may be exceeded. 0:
        estimates are clipped, and it holds always.
      origin: where the numbers come from.

    Raises:
      ValueError: outside these domains; for fewer directions than the sensitivity that is promised needs
        (`least_directions`), or, where estimates are clipped, than keep the mean of a linear loss below that length.
    """

    num_examples: int
    dim: int
    radius: float
    lipschitz: float
    num_steps: int
    largest_move: float
    step_size: float
    window: int
    period: int
    first_batch: int
    batch: int
    noise_multiplier: float
    difference_multiplier: float | None
    order: Order
    directions: int
    first_directions: int | None
    slack: float
    independent: bool
    failure: float
    origin: str

    def __post_init__(self) -> None:
        for name in ("radius", "lipschitz", "largest_move", "step_size", "slack"):
            validate.positive(**{name: getattr(self, name)})
        for name in ("num_examples", "dim", "num_steps", "window", "period", "first_batch", "batch", "directions"):
            validate.at_least(1, **{name: getattr(self, name)})
        validate.or_none(validate.at_least, 1, first_directions=self.first_directions)
        validate.non_negative(noise_multiplier=self.noise_multiplier, failure=self.failure)
        validate.or_none(validate.non_negative, difference_multiplier=self.difference_multiplier)
        validate.one_of(get_args(Order), order=self.order)
        validate.flag(independent=self.independent)
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
        """The longest estimate of an example; a gradient is never longer than L."""
        return self.lipschitz if self.order == "first" else (1 + self.slack) * self.lipschitz

    @property
    def smoothness(self) -> float:
        """The largest change of an example's estimate over the move."""
        return (1 + self.slack) * ball_smoothness(self.dim) * self.lipschitz / self.radius

    @property
    def least_move(self) -> float:
        """A little more than 2 D, of which two points are apart at most: all increments have the bound of this move."""
        return 2 * self.largest_move * (1 + _MOVE_MARGIN)

    @property
    def sensitivities(self) -> tuple[float, float]:
        """The change of a fresh estimate, and of an increment, when an example is replaced."""
        first, later = 2 * self.first_bound, 2 * self.smoothness * self.least_move
        if self.difference_multiplier is not None:
            return first / self.num_examples, later / self.num_examples
        return first / self.first_batch, later / self.batch

    @property
    def term_sensitivity(self) -> float:
        """The unit of noise multipliers: of one pass the larger sensitivity, of many that of a reset."""
        if self.difference_multiplier is not None or self.period == 1:
            return self.sensitivities[0]
        return max(self.sensitivities)

    @property
    def difference_scale(self) -> float:
        """The noise of an increment of many passes over `term_sensitivity`."""
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
    """Directions with which an estimate, and an increment, is as short as is promised, but for so small a probability.

    By Hoeffding's inequality for vectors (Pinelis 1994): the mean of m independent vectors, at most b long each, is
    farther than r from its expectation with a probability of at most `2 exp(-m r^2 / (8 b^2))`. b is `d L` of a
    two-point estimate, `2 d L D / alpha` of an increment with common directions, `2 d L` with independent ones, and
    2 L of a difference of gradients (claims goldstein.own.common, goldstein.own.clipping).

    Args:
      parameters: of a run (`Parameters`).
      failure: of one estimate, in (0, 1).

    Returns:
      m of a fresh estimate, and of an increment.
    """
    validate.between(0, 1, failure=failure)
    d, L, tau, D = parameters.dim, parameters.lipschitz, parameters.slack, parameters.largest_move
    increment = 2 * ball_smoothness(d) * L * D / parameters.radius
    common = 2 * d * L * D / parameters.radius
    longest = 2 * L if parameters.order == "first" else 2 * d * L if parameters.independent else common
    logarithm = 8 * math.log(2 / failure) / tau**2
    first = 1 if parameters.order == "first" else math.ceil(logarithm * d**2)
    return first, math.ceil(logarithm * (longest / increment) ** 2) if parameters.period > 1 else 1


# ---------------------------------------------------------------- choices of parameters
def single_pass(
    num_examples: int,
    dim: int,
    epsilon: float,
    delta: float,
    *,
    radius: float,
    lipschitz: float,
    initial_gap: float,
    order: Order = "zeroth",
    largest_move: float | None = None,
    directions: int | None = None,
    slack: float = 0.5,
    independent: bool = False,
    failure: float = 0.0,
) -> GoldsteinParameters:
    """Parameters of Theorem 3.1 (losses) or 6.1 (gradients) with numbers in place of what an O hides.

    D is the smaller of two of the theorem's four terms, `(Phi^2 alpha / (L^2 T^2 sqrt(d)))^(1/3)` and `(Phi alpha
    epsilon / (d L T))^(1/2)` at T = n / 2 (the others are superfluous, claims goldstein.own.superfluous), and at most
    `alpha / sqrt(d)`, so that a period has a step; Sigma = B1 = alpha / (D sqrt(d)), the first summand of the printed
    Sigma (the second is superfluous, goldstein.own.superfluous.period), B2 = 1, M = alpha / D where alpha / (4 D) is
    printed, rounded down, and `eta = D / (G1 sqrt(M))` with the noise in G1. Noise
    is that of the exact accountant.

    Args:
      num_examples: n.
      dim: d.
      epsilon: above 0; infinite for a run without noise.
      delta: in (0, 1).
      radius: alpha, above 0 and at most Phi / L.
      lipschitz: L, above 0.
      initial_gap: Phi, above 0.
      order: whether losses or gradients are asked for.
      largest_move: D, above 0 and at most alpha; None: as above. Experiments tune it.
      directions: m; None: 8 d for losses, 4 for gradients, or the `least_directions` with a `failure`.
      slack: tau, above 0.
      independent: as `Parameters`.
      failure: as `Parameters`; below delta, which it is part of.

    Raises:
      ValueError: outside these domains, or for too few examples for a window.

    Example:
      >>> sizes = {"radius": 0.5, "lipschitz": 1.0, "initial_gap": 1.0}
      >>> found = single_pass(20_000, 4, 1.0, 1e-6, **sizes)
      >>> found.num_steps, found.period, found.window, found.directions
      (9936, 184, 368, 32)
    """
    z = _noise(num_examples, dim, epsilon, delta, radius, lipschitz, initial_gap, failure)
    if largest_move is None:
        steps, root = num_examples / 2, math.sqrt(dim)
        sampling = (initial_gap**2 * radius / (lipschitz**2 * steps**2 * root)) ** (1 / 3)
        private = math.sqrt(initial_gap * radius * epsilon / (dim * lipschitz * steps))
        largest_move = float(min(sampling, private, radius / root))
    move, window = _window(largest_move, radius)
    period = max(1, int(window / math.sqrt(dim)))
    steps = _whole_windows(_steps_of(num_examples, period), window, num_examples)
    noise = tree_std(epsilon, delta - failure, 1.0, period) if z else 0.0
    live = sum(leaf.bit_count() for leaf in range(1, period + 1)) / period
    return _chosen(
        directions, live, num_examples=num_examples, dim=dim, radius=radius, lipschitz=lipschitz, num_steps=steps,
        largest_move=move, window=window, period=period, first_batch=period, batch=1, noise_multiplier=noise,
        difference_multiplier=None, order=order, slack=slack, independent=independent, failure=failure,
        origin=f"Theorem {'3.1' if order == 'zeroth' else '6.1'} with numbers",
    )  # fmt: skip


def multi_pass(
    num_examples: int,
    dim: int,
    epsilon: float,
    delta: float,
    *,
    radius: float,
    lipschitz: float,
    initial_gap: float,
    order: Order = "zeroth",
    largest_move: float | None = None,
    num_steps: int | None = None,
    directions: int | None = None,
    slack: float = 0.5,
    independent: bool = False,
    failure: float = 0.0,
) -> GoldsteinParameters:
    """Parameters of Theorem 4.1, corrected, with numbers in place of what an O hides: all examples at every step.

    `beta = max((sqrt(Phi) L d^(3/4) z / (n sqrt(alpha)))^(2/3), L / sqrt(n))`, at most L, is what the theorem promises;
    `D = alpha beta^2 / L^2` and `T = Phi L^2 / (alpha beta^3)` (printed `alpha^2` in both, which has other units),
    Sigma = alpha / (D sqrt(d)) and M = alpha / D, rounded down. All releases compose to one Gaussian with noise z over
    its sensitivity; it is shared out between resets and increments so that `d (sigma1^2 + Sigma sigma2^2)` is least.

    Args:
      num_examples: n, which the noise is for: the data set has so many.
      dim: d.
      epsilon: above 0; infinite for a run without noise.
      delta: in (0, 1).
      radius: alpha, above 0 and at most Phi / L.
      lipschitz: L, above 0.
      initial_gap: Phi, above 0.
      order: whether losses or gradients are asked for.
      largest_move: D, above 0 and at most alpha; None: as above.
      num_steps: T, rounded down to whole windows; None: as above.
      directions: as `single_pass`.
      slack: tau, above 0.
      independent: as `Parameters`.
      failure: as `Parameters`; below delta, which it is part of.

    Raises:
      ValueError: outside these domains, or for less than one window.

    Example:
      >>> sizes = {"radius": 0.5, "lipschitz": 1.0, "initial_gap": 1.0}
      >>> found = multi_pass(2000, 4, 1.0, 1e-6, **sizes)
      >>> found.num_steps, found.period, found.window, round(found.budget, 4)
      (27888, 290, 581, 0.028)
    """
    validate.or_none(validate.at_least, 1, num_steps=num_steps)
    z = _noise(num_examples, dim, epsilon, delta, radius, lipschitz, initial_gap, failure)
    beta = (math.sqrt(initial_gap / radius) * lipschitz * dim**0.75 * z / num_examples) ** (2 / 3)
    beta = min(max(beta, lipschitz / math.sqrt(num_examples)), lipschitz)
    move, window = _window(radius * beta**2 / lipschitz**2 if largest_move is None else largest_move, radius)
    steps = initial_gap * lipschitz**2 / (radius * beta**3) if num_steps is None else num_steps
    steps, period = _whole_windows(int(steps), window, num_examples), max(1, int(window / math.sqrt(dim)))
    chosen = _chosen(
        directions, 0.0, num_examples=num_examples, dim=dim, radius=radius, lipschitz=lipschitz, num_steps=steps,
        largest_move=move, window=window, period=period, first_batch=num_examples, batch=num_examples,
        noise_multiplier=1.0, difference_multiplier=1.0, order=order, slack=slack, independent=independent,
        failure=failure, origin="Theorem 4.1 with numbers",
    )  # fmt: skip
    return _shared_out(chosen, z)


def plain(
    num_examples: int,
    dim: int,
    epsilon: float,
    delta: float,
    *,
    radius: float,
    lipschitz: float,
    initial_gap: float,
    passes: str = "one",
    order: Order = "first",
    largest_move: float | None = None,
    num_steps: int | None = None,
    directions: int | None = None,
    slack: float = 0.5,
) -> GoldsteinParameters:
    """GoldsteinParameters without variance reduction: a conditionally unbiased oracle, what the others have to beat.

    Noise is as large as a gradient, `d sigma^2 = L^2`: one pass has batches of `2 z sqrt(d)` examples and n over that
    many steps, many passes have `T = n^2 / (4 z^2 d)` steps over all examples. Of the bound `gap / (D T) + k
    sqrt(D / alpha)` (claims goldstein.own.explicit, goldstein.own.plain_single and goldstein.own.plain_multi) the least
    is at `D = (2 gap sqrt(alpha) / (k T))^(2/3)`, with `k = (5/2) G1 + s` and G1 = s = sqrt(2) L; M = alpha / D.

    Args:
      num_examples: n.
      dim: d.
      epsilon: above 0; infinite for a run without noise, in steps of one example, or n steps over all.
      delta: in (0, 1).
      radius: alpha, above 0 and at most Phi / L.
      lipschitz: L, above 0.
      initial_gap: Phi, above 0.
      passes: "one" or "many".
      order: whether losses or gradients are asked for.
      largest_move: D, above 0 and at most alpha; None: as above.
      num_steps: T, rounded down to whole windows; None: as above. Of one pass, at most n over the batch.
      directions: m; None: 8 d for losses, 1 for gradients.
      slack: tau, above 0, of losses.

    Raises:
      ValueError: outside these domains, or for less than one window.

    Example:
      >>> sizes = {"radius": 0.5, "lipschitz": 1.0, "initial_gap": 1.0}
      >>> found = plain(20_000, 4, 1.0, 1e-6, **sizes)
      >>> found.num_steps, found.first_batch, found.window, found.directions
      (1122, 17, 102, 1)
    """
    validate.one_of(("one", "many"), passes=passes)
    validate.or_none(validate.at_least, 1, num_steps=num_steps)
    z = _noise(num_examples, dim, epsilon, delta, radius, lipschitz, initial_gap, 0.0)
    one, gap = passes == "one", initial_gap + lipschitz * radius * dim / (dim + 1)
    batch = max(1, math.ceil(2 * z * math.sqrt(dim))) if one else num_examples
    steps = num_examples / batch if one else num_examples**2 / (4 * z**2 * dim) if z else num_examples
    steps = steps if num_steps is None else num_steps
    k = (2.5 + 1) * math.sqrt(2) * lipschitz
    best = min((2 * gap * math.sqrt(radius) / (k * steps)) ** (2 / 3), radius)
    move, window = _window(best if largest_move is None else largest_move, radius)
    steps = _whole_windows(int(steps), window, num_examples)
    directions = (8 * dim if order == "zeroth" else 1) if directions is None else directions
    return _chosen(
        directions, 1.0, num_examples=num_examples, dim=dim, radius=radius, lipschitz=lipschitz, num_steps=steps,
        largest_move=move, window=window, period=1, first_batch=batch, batch=batch,
        noise_multiplier=z if one else z * math.sqrt(steps), difference_multiplier=None if one else 1.0, order=order,
        slack=slack, independent=False, failure=0.0,
        origin=f"no variance reduction, {passes} pass{'' if one else 'es'}",
    )  # fmt: skip


def _noise(
    num_examples: int, dim: int, epsilon: float, delta: float, radius: float, lipschitz: float, initial_gap: float,
    failure: float,
) -> float:  # fmt: skip
    """z, after a look at all that the choices have in common; 0 without privacy."""
    validate.at_least(1, num_examples=num_examples, dim=dim)
    validate.or_infinite(validate.positive, epsilon=epsilon)
    validate.between(0, 1, delta=delta)
    validate.positive(radius=radius, lipschitz=lipschitz, initial_gap=initial_gap)
    validate.non_negative(failure=failure)
    if failure >= delta:
        raise ValueError(f"Expected failure={failure} < delta={delta}, which it is part of.")
    if radius > initial_gap / lipschitz * (1 + _ROUNDING):
        raise ValueError(
            f"Expected radius={radius:.6g} <= initial_gap/lipschitz={initial_gap / lipschitz:.6g}: too large by "
            f"a factor of {radius * lipschitz / initial_gap:.4g}, which the theorems exclude."
        )
    return gaussian_std(epsilon, delta - failure) if epsilon < math.inf else 0.0


def _window(largest_move: float, radius: float) -> tuple[float, int]:
    """D and M = alpha / D, rounded down."""
    validate.positive(largest_move=largest_move)
    if largest_move > radius * (1 + _ROUNDING):
        raise ValueError(f"Expected largest_move={largest_move:.6g} <= radius={radius:.6g}.")
    return largest_move, max(1, int(radius / largest_move * (1 + _ROUNDING)))


def _steps_of(num_examples: int, period: int) -> int:
    """The steps that n examples last, of which a fresh estimate takes Sigma and an increment one."""
    periods, left = divmod(num_examples, 2 * period - 1)
    return periods * period + max(0, left - period + 1)


def _whole_windows(steps: int, window: int, num_examples: int) -> int:
    if steps < window:
        raise ValueError(
            f"Expected num_examples={num_examples} to last for a window of {window} steps, they do for {steps}: choose "
            "a larger move or radius."
        )
    return steps // window * window


def _chosen(directions: int | None, live: float, **numbers: Any) -> GoldsteinParameters:
    """The parameters with directions, and the step size for the noise of `live` draws on average."""
    step_size = numbers["largest_move"] / numbers["lipschitz"]
    some = GoldsteinParameters(**numbers, step_size=step_size, directions=2**62, first_directions=None)
    if directions is None:
        failure = some.failure / (2 if some.difference_multiplier is None else 2 * some.num_steps)
        least = least_directions(some, failure) if failure else (0, 0)
        directions = max(*least, 8 * some.dim if some.order == "zeroth" else 4)
    moment = some.lipschitz**2 + some.dim * live * (some.noise_multiplier * some.term_sensitivity) ** 2
    step_size = some.largest_move / math.sqrt(moment * some.window)
    first = 1 if some.order == "first" and some.period > 1 else None  # a fresh estimate from gradients, as printed
    return replace(some, directions=directions, first_directions=first, step_size=step_size)


def _shared_out(some: GoldsteinParameters, z: float) -> GoldsteinParameters:
    """The parameters with the noise of one Gaussian shared out between resets and increments, and its step size."""
    resets = math.ceil(some.num_steps / some.period)
    increments = some.num_steps - resets
    first, later = some.sensitivities
    # R / nu1^2 + I / nu2^2 = 1 / z^2, and (s1 nu1)^2 + Sigma (s2 nu2)^2 is least.
    error = math.sqrt(resets) * first + math.sqrt(increments * some.period) * later
    nu1 = z * math.sqrt(math.sqrt(resets) / first * error)
    nu2 = z * math.sqrt(math.sqrt(max(increments, 1) / some.period) / later * error)
    mean = (nu1 * first) ** 2 + (some.period - 1) / 2 * (nu2 * later) ** 2
    step_size = some.largest_move / math.sqrt((some.lipschitz**2 + some.dim * mean) * some.window)
    return replace(some, noise_multiplier=nu1, difference_multiplier=nu2, step_size=step_size)


# ---------------------------------------------------------------- the algorithms
def oracle_of(parameters: Sequence[GoldsteinParameters], problem: Any, device: Any = "cpu") -> Spider:
    """The oracle of runs with these parameters, one each.

    Raises:
      ValueError: if what runs share is not the same in all of them, the data set has another dimension or (of many
        passes) another size, or there are too few examples for one fresh estimate.

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
    """The method of runs with these parameters, one each.

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
    observe: Observer | None = None,
    not_covered: tuple[str, ...] = (),
) -> Runs:
    """Private search for Goldstein stationary points, many runs at once.

    Algorithm 2 of Kornowski, Liu and Talwar (2025) is `methods.online_to_nonconvex.OnlineToNonconvex`; its oracle is
    Algorithm 3 (`single_pass`), 4 (`multi_pass`) or 5 (`single_pass` with order "first"), which are `oracles.spider.
    Spider` with `oracles.smoothed.SmoothedSamples`, or none of them (`plain`). Where they differ from the paper stands
    there. The tree of Algorithm 1 is `privacy.tree.Tree`: it begins anew with every period, and its leaves are 1 ...
    Sigma; printed is `TREE(t mod Sigma)`, with which every Sigma-th estimate is released without noise.

    Formal guarantees:
      Every run is `parameters.budget`-zCDP under replace-one, and the guarantees list what that means as (epsilon,
      delta), for all that it released, whenever it stopped. Estimates are clipped, so that is enforced. With a
      `failure` they are not: the bounds are assumed to hold but for that probability, which is part of delta; a run
      that sees a mean of a batch exceed them claims nothing.

    Args:
      problem: the data set; for losses with `losses` (`oracles.smoothed.PointLosses`).
      parameters: of each run, or of all.
      x: `(runs, dim)` initial points, chosen without looking at the data; float64, where D is small against them.
      streams: one key a run.
      delta: in (0, 1), for the guarantees.
      restart: whether every window begins with Delta = 0.
      max_steps: stops runs earlier than their T.
      observe: called after every step, see `drive`; for the mean over all windows see `OnlineToNonconvex`.
      not_covered: what else depends on the private data, such as `guarantees.TUNED_ON_PRIVATE_DATA`.

    Returns:
      The runs, `x` of which is a random window's average; those that ran out of examples or budget say so in
      `state.status`.

    Raises:
      ValueError: if an argument is outside its domain, the numbers of runs disagree, or as `oracle_of`.

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
    runs = run(
        method, oracle, x, streams, delta=delta - failure, max_steps=steps, observe=observe, not_covered=not_covered
    )
    if not failure:
        return runs
    rare = Assumption(f"directions exceed no bound, but with a probability of {failure:g}, part of delta", "assumed")
    claims = tuple(replace(claim, delta=delta, assumptions=(*claim.assumptions, rare)) for claim in runs.guarantees)
    return replace(runs, guarantees=claims)
