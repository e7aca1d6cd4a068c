"""Bounds on Goldstein stationarity: the least norm of a convex combination of gradients within a radius.

The Goldstein subdifferential of F at x is the convex hull of the gradients in the ball of radius alpha around x, and x
is (alpha, beta)-stationary if the hull's shortest element is at most beta long (Goldstein, "Optimization of Lipschitz
continuous functions", Math. Program. 13, 1977). Every convex combination of gradients in the ball is a member, so the
shortest element of the hull of some gradients bounds the norm from above. No sample of the ball bounds it from below:
an unseen gradient may cancel all that were seen. If F is a maximum of linear forms, or a distance, `norm_of_max` and
`norm_of_distance` give the exact norm.

The choice of the gradients decides how good the bound is. Uniform samples alone miss the gradients in a cap of the
ball: for `|x_1|` at `x_1 = 0.9 alpha` in 10 dimensions one sample in 6,000 has the other sign. So the sample is
extended by Wolfe's algorithm ("Finding the nearest point in a polytope", Math. Program. 11, 1976): given the shortest
element g so far, a gradient with the least inner product with g is searched for and added to the sample. The search
covers the segment from x along -g, where a descent of less than alpha |g| proves that such a gradient exists (Zhang,
Lin, Jegelka, Sra and Jadbabaie, "Complexity of finding stationary points of nonconvex nonsmooth functions", ICML 2020,
arXiv:2002.04130), the whole ball, and points outside it: if a gradient a found there would shorten g, the ball is
searched for it by steps that maximise `a'y - F(y)`, which for a convex F has the supergradients `a - grad F(y)` and is
largest where a is a gradient.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from scipy.optimize import nnls
from torch import Tensor

from dpnotes.core import Problem
from dpnotes.measure.curvature import Interval
from dpnotes.random.streams import Streams
from dpnotes.util import validate
from dpnotes.util.validate import AtLeastOne, AtLeastZero, Positive, checked

Gradient = Callable[[Tensor], Tensor]  # maps points `(points, dim)` to gradients of one function, `(points, dim)`

_JITTER = 1e-6  # radii: the random displacement that keeps points off kinks
_INSIDE = 1 - 1e-6  # radii: the distance to which points outside the ball are moved back
_PATIENCE, _DECREASE = 20, 1e-3  # rounds, and the relative decrease of the norm that they need to continue
_SEARCH_STEPS = 3
_FOLLOWED, _FOLLOW_STEPS, _MOST_LEADS = 2, 10, 20  # leads followed in a round, steps towards each, most leads kept
_OUTSIDE = 4.0  # decades beyond the ball in which leads are looked for
_NEAREST, _FARTHEST = -4.0, 0.7  # decades of the radius: range of the search's probe distances, beyond the ball too
_COARSE = 1e3  # machine epsilons of the largest coordinate: a smaller ball has too few points of x's type
_RANK = 16.0  # machine epsilons of the largest eigenvalue: a smaller eigenvalue is rounding error
_TIE = 1e-12  # of the radius: tolerance for rounding of the distance to a piece
_NUMBERS_AT_ONCE = 2**24  # of gradients by example, in a call of `mean_gradient`
_ZERO = 1e-9  # of the longest gradient: an element this short is not shortened further


# ---------------------------------------------------------------- the shortest element of a convex hull
@dataclass(frozen=True, eq=False)
class MinimumNorm:
    """The shortest element of a convex hull, with bounds on the least norm.

    Args:
      element: `(dim,)` float64.
      weights: `(count,)` float64, >= 0, of sum 1: the weights of the gradients in the element.
      norm: bounds on the least norm, `()` float64; `upper` is the norm of `element`, `lower` comes from the dual. They
        are close if the quadratic programme was solved, and valid if it was not.
    """

    element: Tensor
    weights: Tensor
    norm: Interval


def minimum_norm(gradients: Tensor) -> MinimumNorm:
    """The shortest element of the convex hull of gradients.

    By non-negative least squares: with the gradients, divided by the longest norm, as columns of A, the minimiser u of
    `|A u|^2 + (sum u - 1)^2` over `u >= 0` is proportional to the weights, since for weights w of sum 1 the best
    multiple has the value `|A w|^2 / (1 + |A w|^2)`. For more coordinates than gradients A is replaced by a factor of
    the Gram matrix. That squares the condition number, so the element and its norm are computed from the gradients
    again, and for every g in the hull `min_i <g_i, g> / |g|` is at most the least norm: this is the lower bound.

    The cost is `count^2 dim` operations, then about `count^3`.

    Args:
      gradients: `(count, dim)`, floating point, finite.

    Raises:
      ValueError: for another shape or type, no gradients, NaN or infinite entries.

    Example:
      >>> found = minimum_norm(torch.tensor([[1.0, 1.0], [1.0, -1.0], [3.0, 0.0]]))
      >>> found.weights, found.norm.upper.round(decimals=9), bool(found.norm.width < 1e-12)
      (tensor([0.5000, 0.5000, 0.0000], dtype=torch.float64), tensor(1., dtype=torch.float64), True)
    """
    if gradients.dim() != 2 or not gradients.is_floating_point() or not gradients.numel():
        raise ValueError(
            f"Expected gradients, {gradients.dtype} of shape {tuple(gradients.shape)}, to be floating point, not "
            "empty, of shape (count, dim)."
        )
    count, dim = gradients.shape
    rows = gradients.double()
    norms = torch.linalg.vector_norm(rows, dim=1)
    if not bool(torch.isfinite(norms).all()):
        raise ValueError("Expected gradients without NaN or infinite entries, and with finite norms.")
    longest = float(norms.max()) or 1.0
    factor = (rows.mT if dim <= count else _factor(rows @ rows.mT)) / longest
    system = np.vstack([factor.cpu().numpy(), np.ones(count)])
    try:
        solution = nnls(system, np.eye(1, len(system), len(system) - 1)[0])[0]
    except RuntimeError:  # it ran out of iterations: any element bounds the norm
        solution = np.eye(1, count, int(norms.argmin()))[0]
    weights = torch.as_tensor(solution / solution.sum(), device=rows.device)
    element = weights @ rows
    norm = torch.linalg.vector_norm(element)
    rounding = 4 * math.sqrt(dim) * torch.finfo(torch.float64).eps * longest
    lower = ((rows @ element).min() / norm.clamp_min(torch.finfo(torch.float64).tiny) - rounding).clamp(0, norm)
    return MinimumNorm(element, weights, Interval(lower, norm + rounding))


def _factor(gram: Tensor) -> Tensor:
    """A matrix R of full rank with `R' R` the Gram matrix up to rounding."""
    eigenvalues, vectors = torch.linalg.eigh(gram)
    kept = eigenvalues > _RANK * torch.finfo(gram.dtype).eps * eigenvalues[-1]
    return eigenvalues[kept].sqrt()[:, None] * vectors.mT[kept]


# ---------------------------------------------------------------- certificates
@dataclass(frozen=True, eq=False)
class GoldsteinCertificate:
    """Upper bounds on Goldstein norms, each with the combination of gradients that proves it.

    Args:
      radius: alpha.
      norm: `(runs,)` float64, at least the norm of the shortest element of the Goldstein subdifferential; infinite
        where nothing is known.
      uniform: `(runs,)` float64, the bound from the uniform sample alone.
      num_gradients: `(runs,)` int64, the number of gradients that were evaluated.
      points: the points of each run, `(count, dim)`, within `radius` of its x.
      weights: the weights of each run, `(count,)` float64: the element is the weighted sum of the gradients at the
        points.
    """

    radius: float
    norm: Tensor
    uniform: Tensor
    num_gradients: Tensor
    points: tuple[Tensor, ...]
    weights: tuple[Tensor, ...]


@checked
def certify_goldstein(
    gradient: Gradient,
    x: Tensor,
    streams: Streams,
    *,
    radius: Positive,
    num_samples: AtLeastOne = 100,
    num_rounds: AtLeastZero = 200,
    call: int = 0,
) -> GoldsteinCertificate:
    """Upper bounds on the Goldstein norms of one function at a batch of points.

    Each run evaluates gradients at uniform points of its ball, then at most 30 more in each round: at a random point of
    the segment from x along -g, where g is the shortest element so far, at the segment's end, and in a search for a
    gradient with a small inner product with g. The search starts at the end of the segment, or in a random direction,
    and steps to the far point of the ball against the difference of the gradients at `y + h g / |g|` and
    `y - h g / |g|`, which is the gradient of that inner product where F has a Hessian; h is random, so that the probes
    meet kinks as well. One more point is far outside the ball. Gradients found outside guide the search and are not
    added: two of the gradients that would shorten g are searched for in the ball, with ten steps each. Gradients of
    weight 0 are dropped, so at most `dim + 1` are kept between rounds.

    Points are moved at random by a millionth of the radius, so that none is at a kink, where a gradient of a problem
    need not be in the subdifferential. So a kink that the ball just touches counts as outside.

    For a distance, a form's absolute value and maxima of up to 20 random linear forms the bound is within a tenth of
    the norm in up to 100 dimensions, mostly within 1% (tests/measure/test_goldstein.py). For general F no method that
    evaluates gradients can promise that: a dent in a random place of the ball does not show in any gradient outside the
    dent.

    Args:
      gradient: the exact gradient of F, from points `(points, dim)` to `(points, dim)`; for a problem, `mean_gradient`.
      x: `(runs, dim)`.
      streams: the runs' streams.
      radius: alpha, > 0, large beside the rounding of `x`.
      num_samples: uniform points of the ball, at least 1.
      num_rounds: the most rounds, at least 0; fewer if 20 of them shorten the element by less than 0.1%.
      call: number of the draw.

    Raises:
      ValueError: for arguments out of their domain, points or gradients of another shape, a radius that rounding loses.

    Example:
      >>> def gradient(points):  # of |x_1|
      ...     return torch.stack([points[:, 0].sign(), torch.zeros(len(points))], 1)
      >>> x, streams = torch.tensor([[0.9, 5.0], [1.1, 5.0]]), Streams.of("example", ["a", "b"])
      >>> certify_goldstein(gradient, x, streams, radius=1.0).norm.round(decimals=6)
      tensor([0., 1.], dtype=torch.float64)
    """
    if x.dim() != 2 or not x.is_floating_point() or not bool(torch.isfinite(x).all()):
        raise ValueError(f"Expected x, {x.dtype} of shape {tuple(x.shape)}, to be finite and of shape (runs, dim).")
    if radius < _COARSE * torch.finfo(x.dtype).eps * float(x.abs().max()):
        raise ValueError(f"Expected radius={radius:g} to be large beside the rounding of x, {x.dtype}.")
    validate.same_length(x=x, streams=streams)
    balls = [_Ball(gradient, x[run], radius, streams.take(slice(run, run + 1)), call) for run in range(len(x))]
    found = [_shorten(ball, num_samples, num_rounds) for ball in balls]
    norm = torch.tensor([each[0] for each in found], dtype=torch.float64, device=x.device)
    uniform = torch.tensor([each[1] for each in found], dtype=torch.float64, device=x.device)
    num_gradients = torch.tensor([ball.num_gradients for ball in balls], device=x.device)
    points, weights = tuple(each[2] for each in found), tuple(each[3] for each in found)
    return GoldsteinCertificate(radius, norm, uniform, num_gradients, points, weights)


class _Ball:
    """The ball of one run, in units of its radius around its center, with its random draws."""

    def __init__(self, gradient: Gradient, center: Tensor, radius: float, streams: Streams, call: int) -> None:
        self.gradient, self.center, self.radius, self.streams, self.call = gradient, center, radius, streams, call
        self.num_gradients = self._normals = self._uniforms = 0

    def normal(self, count: int) -> Tensor:
        """Standard normal draws, `(count, dim)` float64."""
        dim = len(self.center)
        self._normals += count * dim
        drawn = self.streams.normal("goldstein", self.call, count * dim, self._normals - count * dim)
        return drawn.view(count, dim)

    def uniform(self, count: int) -> Tensor:
        """Uniform draws in (0, 1), `(count,)` float64."""
        self._uniforms += count
        return self.streams.uniform("goldstein", self.call, count, self._uniforms - count)[0]

    def sample(self, count: int) -> Tensor:
        """Uniform points of the ball, `(count, dim)`."""
        return _unit(self.normal(count)) * self.uniform(count)[:, None] ** (1 / len(self.center))

    def ask(self, offsets: Tensor) -> tuple[Tensor, Tensor]:
        """The points near these offsets, `(count, dim)`, and the gradients there, `(count, dim)` float64."""
        jitter = _JITTER / math.sqrt(len(self.center)) * self.normal(len(offsets))
        points = self.center + (self.radius * (offsets + jitter)).to(self.center)
        gradients = self.gradient(points)
        if gradients.shape != points.shape:
            raise ValueError(f"Expected gradients of shape {tuple(points.shape)}, got {tuple(gradients.shape)}.")
        self.num_gradients += len(points)
        return points, gradients.double()

    def joins(self, points: Tensor, gradients: Tensor) -> tuple[Tensor, Tensor]:
        """The points in the ball whose gradient is finite, and these gradients."""
        distances = torch.linalg.vector_norm((points - self.center).double(), dim=1)
        kept = (distances <= self.radius) & torch.isfinite(gradients).all(1)
        return points[kept], gradients[kept]

    def search(self, start: Tensor, direction: Tensor) -> list[tuple[Tensor, Tensor]]:
        """The points and gradients of a search from an offset for gradients with a large part along a direction."""
        met, offset = [], start
        for exponent in (_NEAREST + (_FARTHEST - _NEAREST) * self.uniform(_SEARCH_STEPS)).tolist():
            step = 10**exponent * direction
            met.append(self.ask(torch.stack([offset + step, offset - step])))
            uphill = met[-1][1][0] - met[-1][1][1]
            known = bool(torch.isfinite(uphill).all()) and bool(uphill.any())
            offset = _INSIDE * (_unit(uphill[None])[0] if known else _unit(self.normal(1))[0])
        return [*met, self.ask(offset[None])]

    def follow(self, leads: "list[_Lead]") -> list[tuple[Tensor, Tensor]]:
        """The points and gradients met in a search of the ball for points at which the leads are gradients."""
        slopes, offsets = (torch.stack([getattr(lead, name) for lead in leads]) for name in ("slope", "offset"))
        met, done = [], torch.tensor([lead.steps for lead in leads], device=slopes.device)[:, None]
        for _ in range(_FOLLOW_STEPS):
            met.append(self.ask(offsets))
            done = done + 1
            ways = (slopes - met[-1][1]).nan_to_num(0.0)
            steps = ways / torch.linalg.vector_norm(ways, dim=1, keepdim=True).clamp_min(torch.finfo(ways.dtype).tiny)
            offsets = offsets + steps / done.sqrt()
            offsets = _INSIDE * offsets / torch.linalg.vector_norm(offsets, dim=1, keepdim=True).clamp_min(1)
        for lead, offset in zip(leads, offsets, strict=True):
            lead.offset, lead.steps = offset, lead.steps + _FOLLOW_STEPS
        return met


@dataclass
class _Lead:
    """A gradient, found in the ball or outside, that would shorten the element; the state of the search for it."""

    slope: Tensor
    offset: Tensor
    steps: int = 0


def _unit(rows: Tensor) -> Tensor:
    return rows / torch.linalg.vector_norm(rows, dim=1, keepdim=True)


def _shorten(ball: _Ball, num_samples: int, num_rounds: int) -> tuple[float, float, Tensor, Tensor]:
    """The least norm found, the norm from the uniform sample, and the element's points and weights."""
    points, gradients = ball.joins(*ball.ask(_INSIDE * ball.sample(num_samples)))
    if not len(points):
        return math.inf, math.inf, points, gradients[:, 0]
    found = minimum_norm(gradients)
    longest = float(torch.linalg.vector_norm(gradients, dim=1).max()) or 1.0
    norms = [float(found.norm.upper)]
    leads: list[_Lead] = []

    def settled() -> bool:
        stalled = len(norms) > _PATIENCE and norms[-1] > (1 - _DECREASE) * norms[-1 - _PATIENCE]
        return stalled or norms[-1] <= _ZERO * longest

    while len(norms) <= num_rounds and not settled():
        down = -_unit(found.element[None])
        turn = math.tan(math.pi / 2 * float(ball.uniform(1))) if len(norms) % 2 == 0 else 0.0
        start = _INSIDE * _unit(down + turn * _unit(ball.normal(1)))[0]
        new = [ball.ask(_INSIDE * torch.cat([ball.uniform(1) * down, down])), *ball.search(start, down[0])]
        new.append(ball.ask(10 ** (_OUTSIDE * ball.uniform(1)) * _unit(ball.normal(1))))
        leads = _leads(leads, torch.cat([each for _, each in new]), found.element, norms[-1])
        if leads:
            new += ball.follow(leads[:_FOLLOWED])
        kept = found.weights > 0
        points = torch.cat([points[kept], *(each for each, _ in new)])
        gradients = torch.cat([gradients[kept], *(each for _, each in new)])
        points, gradients = ball.joins(points, gradients)
        found = minimum_norm(gradients)
        norms.append(float(found.norm.upper))
    kept = found.weights > 0
    return norms[-1], norms[0], points[kept], found.weights[kept]


def _leads(leads: list[_Lead], met: Tensor, element: Tensor, norm: float) -> list[_Lead]:
    """The best old and new leads that would shorten the element, those with the fewest steps so far first."""
    for slope in met[torch.isfinite(met).all(1)]:
        if not any(torch.equal(slope, lead.slope) for lead in leads):
            way = slope - element
            leads = [*leads, _Lead(slope, _INSIDE * way / torch.linalg.vector_norm(way).clamp_min(_JITTER))]
    useful = [lead for lead in leads if float(lead.slope @ element) < (1 - _DECREASE) * norm**2]
    useful = sorted(useful, key=lambda lead: float(lead.slope @ element))[:_MOST_LEADS]
    return sorted(useful, key=lambda lead: lead.steps)


def mean_gradient(problem: Problem) -> Gradient:
    """The gradient of a problem's mean over all examples, for `certify_goldstein`.

    Args:
      problem: a problem whose runs share their examples; a call has so many points that `points examples dim` is at
        most 2^24, or one.

    Example:
      >>> from dpnotes.problems.nonsmooth import AbsoluteDeviations
      >>> gradient = mean_gradient(AbsoluteDeviations(torch.tensor([[0.0], [1.0], [2.0]])))
      >>> gradient(torch.tensor([[-1.0], [0.5], [3.0]])).T
      tensor([[-1.0000, -0.3333,  1.0000]])
    """
    validate.provides("gradients", "num_examples", "dim", problem=problem)
    at_once = max(1, _NUMBERS_AT_ONCE // (problem.num_examples * problem.dim))

    def gradient(points: Tensor) -> Tensor:
        share = points.new_tensor(1 / problem.num_examples)
        parts = [
            problem.gradients(part).weighted_sum(share.expand(len(part), problem.num_examples))
            for part in points.split(at_once)
        ]
        return torch.cat(parts)

    return gradient


# ---------------------------------------------------------------- where the norm is known
@checked
def norm_of_max(slopes: Tensor, offsets: Tensor, x: Tensor, radius: Positive) -> Interval:
    """The Goldstein norm of `max_k a_k' y + b_k` at a point, up to rounding.

    The gradients in the ball are the slopes of the pieces that are active somewhere in it. The ball is closed: a piece
    whose region touches its boundary, up to 1e-12 of the radius, counts as active. The region where piece k is the
    largest is a polyhedron, whose distance from x is a least-distance programme, solved as Lawson and Hanson do
    (Solving least squares problems, 1974, chapter 23): one non-negative least-squares problem of `dim + 1` equations
    for each piece.

    Args:
      slopes: `(pieces, dim)`, the a_k.
      offsets: `(pieces,)`, the b_k.
      x: `(dim,)`.
      radius: the radius of the ball, > 0.

    Raises:
      ValueError: for shapes that disagree, a radius that is not positive, numbers that are not finite.

    Example:
      >>> absolute = torch.tensor([[1.0, 0.0], [-1.0, 0.0]]), torch.zeros(2)  # of the first coordinate
      >>> [round(float(norm_of_max(*absolute, torch.tensor([at, 3.0]), 1.0).upper), 9) for at in (0.9, 1.1)]
      [0.0, 1.0]
    """
    if slopes.dim() != 2 or x.shape != slopes.shape[1:] or offsets.shape != slopes.shape[:1]:
        raise ValueError(
            f"Expected slopes {tuple(slopes.shape)}, offsets {tuple(offsets.shape)} and x {tuple(x.shape)} to be "
            "(pieces, dim), (pieces,) and (dim,)."
        )
    for name, given in (("slopes", slopes), ("offsets", offsets), ("x", x)):
        if not bool(given.isfinite().all()):
            raise ValueError(f"Expected {validate.shown(name, given)} to be finite numbers.")
    rows = slopes.double()
    values = rows @ x.double() + offsets.double()
    inside = [k for k in range(len(rows)) if _is_within_reach(rows, values / radius, k)]
    return minimum_norm(rows[inside]).norm


def _is_within_reach(slopes: Tensor, values: Tensor, piece: int) -> bool:
    """Return whether a piece is the largest within a distance of 1, up to rounding, given the pieces' values here."""
    # The least z with (a_k - a_j)' z >= v_j - v_k for all j; pieces parallel to k are below it everywhere or nowhere.
    normals, needed = slopes[piece] - slopes, values - values[piece]
    lengths = torch.linalg.vector_norm(normals, dim=1)
    others = lengths > 0
    if bool((needed[~others] > 0).any()):
        return False
    normals, needed = normals[others] / lengths[others, None], needed[others] / lengths[others]
    if not bool((needed > 0).any()):
        return True
    system = torch.cat([normals.mT, needed[None]]).numpy()
    target = np.eye(1, len(system), len(system) - 1)[0]
    rest = target - system @ nnls(system, target)[0]
    # The last entry is 1 / (1 + |z|^2), at least 1/2 within reach and 0 if no z exists; z is the other entries divided
    # by it.
    return bool(rest[-1] > 0.25 and np.linalg.norm(rest[:-1]) <= (1 + _TIE) * rest[-1])


@checked
def norm_of_distance(distance: Tensor, radius: Positive, dim: AtLeastOne) -> Tensor:
    """The Goldstein norm of the distance to a point, `|y - c|`, in closed form.

    The gradients in the ball are unit vectors, in a cone whose half angle has the sine `radius / distance`, around the
    direction from c; their hull reaches 0 if c is in the ball.

    Args:
      distance: `(...)`, from the center of the ball to c, >= 0.
      radius: the radius of the ball, > 0.
      dim: the dimension of the space, at least 1; on a line the cone has no width.

    Raises:
      ValueError: outside these domains.

    Example:
      >>> norm_of_distance(torch.tensor([0.9, 1.25, 2.0]), radius=1.0, dim=3)
      tensor([0.0000, 0.6000, 0.8660])
    """
    if not bool((distance >= 0).all()):
        raise ValueError("Expected distance >= 0, without NaN.")
    beyond = 1 - (radius / distance) ** 2 if dim > 1 else torch.ones_like(distance)
    return torch.where(distance > radius, beyond.clamp_min(0).sqrt(), 0.0)
