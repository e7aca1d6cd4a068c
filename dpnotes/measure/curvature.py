"""Extreme eigenvalues of a Hessian from products with it, as intervals that say how often they are wrong.

Lanczos' smallest Ritz value is a Rayleigh quotient, so it bounds the smallest eigenvalue from above, and says nothing
about how far below that lies: a start vector almost orthogonal to the eigenvector hides it. The start vector is
random, so its component along the eigenvector is not too small with known probability, and a lower bound follows.

Let `p_0 = 1, p_1, ...` be the Lanczos polynomials, `q_j = p_j(H) q_0` the Lanczos vectors, `x` a unit eigenvector of
the smallest eigenvalue `l`, and `c` the component of the start vector `q_0` along it. Then `q_j' x = c p_j(l)`, and
since the `q_j` are orthonormal,

    c^2 (p_0(l)^2 + ... + p_k(l)^2) <= 1    after k products.

The sum grows without bound as `l` falls below the smallest Ritz value, and `c^2` has a Beta(1/2, (dim - 1)/2)
distribution (it is larger where the eigenvalue is multiple), so `l` is above the point where the sum is one over the
quantile of `c^2`. With the last term alone this is the bound of van Dorsselaer, Hochstenbach and van der Vorst,
"Computing probabilistic bounds for extreme eigenvalues of symmetric matrices with the Lanczos method", SIAM J. Matrix
Anal. Appl. 22(3), 2000, and Hochstenbach, "Probabilistic upper bounds for the matrix two-norm", J. Sci. Comput. 57,
2013, doi:10.1007/s10915-013-9716-x. The whole sum (one over the Christoffel function) is sharper and costs the same; no
sharper bound follows from the same k products and the same event, since the Gauss-Radau rule with a node at `l` attains
it.

Three consequences. The event is the same whatever k, so stopping when the interval is narrow enough costs no failure
probability. The width is at most `sinh^2(acosh(1/c) / (2k - 2))` of the spread of the Ritz values, whatever the
spectrum (`sufficient_products`). And this is less than what the a priori bound of Kuczynski and Wozniakowski gives
where it has to bound the spread as well, with half of the failure probability for each end: that bound is a yardstick
of the tests and not a part.
"""

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from scipy import special
from scipy.linalg.lapack import dsterf
from torch import Tensor

from dpnotes.random.streams import Streams
from dpnotes.util import validate

Product = Callable[[Tensor], Tensor]

_KAHAN = math.sqrt(0.5)  # a vector that lost more of its norm than this is orthogonalised once more
_PRODUCT_ERROR = 4.0  # machine epsilons
_SEMI = 1e-2  # times the square root of the error: the largest allowed inner product of a new vector with earlier ones
_BREAKDOWN = 4.0  # errors of a step: what is left of a vector below this is nothing but errors
_DIRECTIONS = 4.0  # standard deviations of the component along one direction of an error without preferred direction
# Products between two looks at whether a run may stop; from 128 on an eighth more, as a look takes time that grows with
# their square or faster.
_CHECK_EVERY, _CHECK_RARER = 4, 128
_POINTS, _ROUNDS = 16, 6  # of the search for the lower end: from 50 nats of gap to 50 / 15^6, a relative 4e-6
_STEP = 1e-5  # relative: more than the last step of the search


# ---------------------------------------------------------------- products
def hvp_from_loss(loss: Callable[[Tensor], Tensor] | Sequence[Callable[[Tensor], Tensor]], x: Tensor) -> Product:
    """Products with the Hessian at `x` of any differentiable loss, by double backward passes.

    One loss: its gradient is computed once and its graph is kept, so that a product is one backward pass through it;
    the memory is that of the graph. Several losses: the Hessian is that of their sum, every product computes each
    gradient again, and the memory is that of the largest of them; so a large data set is summed in parts.

    Args:
      loss: from points `(..., dim)` to losses `(...)`, each a function of its own point alone; or several such.
      x: `(..., dim)`.

    Returns:
      A function from vectors `(..., dim)` to products `(..., dim)`.

    Raises:
      ValueError: for no losses.

    Example:
      >>> hvp_from_loss(lambda x: x.pow(4).sum(-1) / 12, torch.tensor([[1.0, 2.0]]))(torch.ones(1, 2))
      tensor([[1., 4.]])
    """
    x = x.detach().requires_grad_()

    def gradient(part: Callable[[Tensor], Tensor]) -> Tensor:
        with torch.enable_grad():
            return torch.autograd.grad(part(x).sum(), x, create_graph=True)[0]

    def along(of: Tensor, vector: Tensor, keep: bool) -> Tensor:
        if not of.requires_grad:  # the loss is linear
            return torch.zeros_like(vector)
        return torch.autograd.grad(of, x, vector, retain_graph=keep, materialize_grads=True)[0]

    if not isinstance(loss, Sequence):
        kept = gradient(loss)
        return lambda vector: along(kept, vector, keep=True)
    parts = list(loss)
    validate.at_least(1, num_losses=len(parts))

    def product(vector: Tensor) -> Tensor:
        total = along(gradient(parts[0]), vector, keep=False)
        for part in parts[1:]:
            total = total + along(gradient(part), vector, keep=False)
        return total

    return product


# ---------------------------------------------------------------- Lanczos
@dataclass(frozen=True, eq=False)
class Tridiagonal:
    """What Lanczos learned of a batch of symmetric matrices; leading axes are the batch.

    Args:
      diagonal: `(..., steps)` float64; a run that ended early repeats its first entry: it moves no extreme Ritz value.
      off_diagonal: `(..., steps)` float64; entry j links steps j and j + 1, the last one is the norm of what was left
        after the last step; 0 after a run ended.
      num_products: `(...)` int64, steps of each run.
      invariant: `(...)` bool: the Krylov space is invariant up to rounding, so nothing was left.
      finite: `(...)` bool: every product was finite. The entries of the others stop before it.
      rounding: norm of the error of a step, of the product and of ours, relative to the spectral norm.
    """

    diagonal: Tensor
    off_diagonal: Tensor
    num_products: Tensor
    invariant: Tensor
    finite: Tensor
    rounding: float

    def ritz_values(self) -> Tensor:
        """All Ritz values in ascending order, `(..., steps)`; of a run that ended early some are its first entry."""
        found = _ritz_values(*self._on_host()[:3])
        return torch.from_numpy(found).view_as(self.diagonal).to(self.diagonal.device)

    def _on_host(self) -> tuple[np.ndarray, ...]:
        """Diagonal, off-diagonal, products, and the two flags, with the runs flat."""
        size = self.diagonal.shape[-1]
        matrices = (t.reshape(-1, size).cpu().numpy() for t in (self.diagonal, self.off_diagonal))
        others = (t.reshape(-1).cpu().numpy() for t in (self.num_products, self.invariant, self.finite))
        return (*matrices, *others)


def _ritz_values(diagonal: np.ndarray, off_diagonal: np.ndarray, num_products: np.ndarray) -> np.ndarray:
    """In ascending order, `(runs, steps)`."""
    steps = diagonal.shape[1]
    coupling = off_diagonal * (np.arange(1, steps + 1) < num_products[:, None])
    # What torch.linalg.eigvalsh calls, once it has made a matrix tridiagonal.
    found = [dsterf(*pair) for pair in zip(diagonal, coupling[:, : max(1, steps - 1)], strict=True)]
    if any(failed for _, failed in found):
        raise ArithmeticError("Expected the eigenvalues of a tridiagonal matrix, but dsterf did not converge.")
    return np.stack([values for values, _ in found])


def lanczos(
    hvp: Product,
    start: Tensor,
    num_products: int,
    *,
    active: Tensor | None = None,
    stop: Callable[[Tridiagonal], Tensor] | None = None,
    product_error: float | None = None,
) -> Tridiagonal:
    """Lanczos' tridiagonal matrices with partial re-orthogonalisation, one for each vector of a batch.

    A run ends when its Krylov space is invariant, when a product is not finite, when `stop` says so, or after
    `num_products` (at most `dim`) steps. A run that ended is sent zeros and its products are not looked at; what it
    reports does not depend on the rest of the batch.

    Keeps `num_products` float64 vectors for each start vector. Where the estimated inner product of a new vector with
    an earlier one exceeds `0.01 sqrt(e)`, e a step's error along one direction, this vector and the next are made
    orthogonal to all earlier ones: two passes over them, or four if that took over 0.3 of its norm. Below that bound
    the tridiagonal matrix is right to order e (Simon, "The Lanczos algorithm with partial reorthogonalization", Math.
    Comp. 42, 1984). All but the products is float64: in float32 the inner products of long
    vectors with a few large entries lose half of their digits. Products of norm below 1e-150 count as zero.

    Args:
      hvp: from vectors `(..., dim)` to products with symmetric matrices, `(..., dim)`.
      start: `(..., dim)`, not zero, in the type the products are wanted in.
      num_products: at least 1.
      active: `(...)` bool, the runs to compute; None: all.
      stop: asked after every fourth product, after 128 of them more rarely, which runs are done, `(...)` bool.
      product_error: norm of the error of a product, relative to the spectral norm; None: four times the machine
        epsilon.

    Raises:
      ValueError: for a start vector that is not floating point, zero or not finite, a product of another shape.

    Example:
      >>> start = torch.tensor([3.0, 4.0], dtype=torch.float64)
      >>> matrix = lanczos(lambda vector: torch.tensor([1.0, -2.0]).double() * vector, start, 2)
      >>> matrix.ritz_values().round(decimals=9)
      tensor([-2.,  1.], dtype=torch.float64)
    """
    validate.at_least(1, num_products=num_products)
    if not start.is_floating_point() or start.dim() == 0 or not start.numel():
        raise ValueError(f"Expected start, {start.dtype} of shape {tuple(start.shape)}, to be floating, (..., dim).")
    error = _PRODUCT_ERROR * torch.finfo(start.dtype).eps if product_error is None else product_error
    validate.between(0, 1, product_error=error)
    rounding = error + math.sqrt(start.shape[-1]) * torch.finfo(torch.float64).eps  # inner products round at random
    *batch, dim = start.shape
    q = start.reshape(-1, dim).double()
    norm = torch.linalg.vector_norm(q, dim=1)
    if not bool((torch.isfinite(norm) & (norm > 0)).all()):
        raise ValueError("Expected start vectors that are finite and not zero.")
    q = q / norm[:, None]
    size, runs = min(num_products, dim), len(q)
    basis = _Basis(q.new_empty(runs, size, dim), rounding * min(1.0, _DIRECTIONS / math.sqrt(dim)))
    # What is one number a run is kept on the host, which asks the device once a product.
    running = np.ones(runs, bool) if active is None else active.expand(batch).reshape(-1).cpu().numpy().copy()
    diagonal, links = np.zeros((runs, size)), np.zeros((runs, size + 1))
    taken, largest = np.zeros(runs, np.int64), np.zeros(runs)
    invariant, finite = np.zeros_like(running), np.ones_like(running)
    scale, look = norm, _CHECK_EVERY

    def on_device(values: np.ndarray) -> Tensor:
        return torch.from_numpy(values).to(q.device)

    def result() -> Tridiagonal:
        padded = np.where(np.arange(size) < taken[:, None], diagonal, diagonal[:, :1])
        found = (on_device(each.copy()) for each in (padded, links[:, 1:], taken, invariant, finite))
        return Tridiagonal(*(t.view([*batch, *t.shape[1:]]) for t in found), rounding=rounding)

    for step in range(size):
        if not running.any():
            break
        if not running.all():
            q = torch.where(on_device(running)[:, None], q, 0)
        basis.vectors[:, step] = q
        product = hvp(q.view(start.shape).to(start.dtype))
        if product.shape != start.shape:
            raise ValueError(f"Expected a product of shape {tuple(start.shape)}, got {tuple(product.shape)}.")
        w = product.reshape(runs, dim).double()
        norm, alpha = torch.linalg.vector_norm(w, dim=1), torch.linalg.vecdot(w, q)
        w = torch.addcmul(w, q, alpha[:, None], value=-1)
        if step:
            w = w.addcmul_(basis.vectors[:, step - 1], scale[:, None], value=-1)
        norms, alphas, betas = torch.stack([norm, alpha, torch.linalg.vector_norm(w, dim=1)]).cpu().numpy()
        finite &= np.isfinite(norms) | ~running
        running = running & finite
        largest = np.maximum(largest, np.where(running, norms, 0))
        diagonal[:, step] = np.where(running, alphas, 0)
        w, betas = basis.orthogonalise(w, betas, step, diagonal, links, largest, running)
        links[:, step + 1] = np.where(running, betas, 0)
        taken += running
        # The whole space is invariant, whatever rounding left.
        ended = running & ((betas <= _BREAKDOWN * rounding * largest) | (step + 1 == dim))
        invariant |= ended
        running = running & ~ended
        if stop is not None and step + 1 == look and look < size:
            running = running & ~stop(result()).reshape(-1).cpu().numpy()
            look += _CHECK_EVERY if look < _CHECK_RARER else look // 8
        scale = on_device(np.where(running, betas, 1))
        q = w / scale[:, None]
    return result()


class _Basis:
    """The Lanczos vectors of a batch, `(runs, size, dim)`, and estimates of how far the last two are from orthogonal.

    The estimates follow Simon's recurrence, from the matrix itself, with an error added at every step.

    Args:
      vectors: to be filled.
      error: of a step, its component along a vector, relative to the spectral norm.
    """

    def __init__(self, vectors: Tensor, error: float) -> None:
        runs, size, _ = vectors.shape
        self.vectors, self.error = vectors, error
        # Inner products with the vectors, at an offset of one so that each has two neighbours; with itself 1.
        self._last, self._older = np.zeros((runs, size + 2)), np.zeros((runs, size + 2))
        self._last[:, 1] = 1
        self._follows = np.zeros(runs, bool)

    def orthogonalise(
        self,
        w: Tensor,
        betas: np.ndarray,
        step: int,
        diagonal: np.ndarray,
        links: np.ndarray,
        norms: np.ndarray,
        running: np.ndarray,
    ) -> tuple[Tensor, np.ndarray]:
        """The next vectors, not normalised, and their norms; orthogonalised against all earlier ones where required."""
        last, found, so_far = self._last, self._older, slice(1, step + 1)
        errors = (self.error * norms)[:, None]
        with np.errstate(all="ignore"):  # of runs that ended
            grown = links[:, so_far] * last[:, 2 : step + 2] + links[:, :step] * last[:, :step]
            grown += (diagonal[:, :step] - diagonal[:, step, None]) * last[:, so_far]
            grown -= links[:, step, None] * found[:, so_far]
            found[:, so_far] = (grown + np.copysign(errors, grown)) / betas[:, None]
            found[:, step + 1 : step + 2], found[:, step + 2] = errors / betas[:, None], 1
        estimates = found[:, 1 : step + 2]
        lost = running & ~(np.abs(estimates).max(1) <= _SEMI * math.sqrt(self.error))  # or is not a number
        due = lost | self._follows & running
        if due.any():  # this vector and the next, since a step starts from two
            orthogonal, rest = _orthogonalise(w, self.vectors[:, : step + 1])
            w = torch.where(torch.from_numpy(due).to(w.device)[:, None], orthogonal, w)
            betas = np.where(due, rest.cpu().numpy(), betas)
            estimates[due] = self.error
        self._follows = lost & ~self._follows
        self._last, self._older = found, last
        return w, betas


def _orthogonalise(w: Tensor, basis: Tensor) -> tuple[Tensor, Tensor]:
    """Take the part along `basis`, `(runs, steps, dim)`, from `w`, `(runs, dim)`; with the norm of the rest."""
    before = torch.linalg.vector_norm(w, dim=1)
    w = _subtract_projection(w, basis)
    after = torch.linalg.vector_norm(w, dim=1)
    # Twice is enough (Parlett, The symmetric eigenvalue problem, 1998, section 6.9).
    again = after < _KAHAN * before
    if bool(again.any()):
        w = torch.where(again[:, None], _subtract_projection(w, basis), w)
        after = torch.linalg.vector_norm(w, dim=1)
    return w, after


def _subtract_projection(w: Tensor, basis: Tensor) -> Tensor:
    if len(w) == 1:  # a matrix-vector product takes half the time of a batched one (torch 2.13, CPU)
        return torch.addmv(w[0], basis[0].mT, torch.mv(basis[0], w[0]), alpha=-1)[None]
    along = torch.bmm(basis, w[..., None])
    return torch.baddbmm(w[..., None], basis.mT, along, alpha=-1)[..., 0]


# ---------------------------------------------------------------- intervals
@dataclass(frozen=True, eq=False)
class Interval:
    """Bounds on one number a run; `(-inf, inf)` says that nothing is known, as after a product that was not finite.

    Args:
      lower: `(...)` float64.
      upper: `(...)` float64.
      failure_probability: each run's interval misses the number with at most this probability. For all of them at once
        multiply by how many they are.
      num_products: `(...)` int64, products with the Hessian it took; None where it took none.
    """

    lower: Tensor
    upper: Tensor
    failure_probability: float = 0.0
    num_products: Tensor | None = None

    def __post_init__(self) -> None:
        validate.non_negative(failure_probability=self.failure_probability)

    @property
    def width(self) -> Tensor:
        """`upper - lower`, `(...)`."""
        return self.upper - self.lower


def smallest_eigenvalue(
    hvp: Product,
    dim: int,
    streams: Streams,
    *,
    num_products: int,
    failure_probability: float,
    call: int | Tensor = 0,
    smoothness: float | Tensor | None = None,
    tolerance: float | None = None,
    threshold: float | Tensor | None = None,
    active: Tensor | None = None,
    dtype: torch.dtype = torch.float64,
    product_error: float | None = None,
) -> Interval:
    """An interval for the smallest eigenvalue of each Hessian of a batch, by Lanczos from a random start vector.

    The upper end is a Ritz value and always right, the lower end holds with probability at least
    `1 - failure_probability` over the start vector: the bound of this module's docstring. The start vector must be
    independent of the Hessian; it is drawn for the purpose "lanczos".

    Rounding: the error of a product is taken to have norm `product_error` of the spectral norm and no preferred
    direction, so a component of at most `4 / sqrt(dim)` of that along the eigenvector. It enters the recurrence, step
    by step, as the worst it can do; likewise that of the start vector. For errors of any direction multiply
    `product_error` by `sqrt(dim) / 4`. The lower end cannot come closer to the mean of the spectrum than about
    `4 product_error / failure_probability` of the spectral norm; in float64 that is nothing. For networks of 50,000
    parameters in float32 the error of a product with a random vector was 0.1 to 4 machine epsilons; with the leading
    eigenvector, which matters little, up to 100 where the loss was almost fitted.

    Args:
      hvp: from vectors `(..., dim)` to products with the Hessians, `(..., dim)`; linear and symmetric.
      dim: of a point, at least 1.
      streams: of the runs, the first axis of the batch.
      num_products: the most products to compute; see `sufficient_products`.
      failure_probability: of the lower end of one run, in (0, 1).
      call: number of the draw; a tensor `(runs, ...)` gives the batch its shape: `(runs, iterates)`, say, with the
        numbers of the iterates, so that each has its own start vector.
      smoothness: a proved bound on the spectral norm, > 0; the interval is clipped to it.
      tolerance: a run stops once its interval is narrower than this times the largest absolute Ritz value; None: never.
      threshold: a run stops once its interval does not contain this number; None: never.
      active: `(runs, ...)` bool, the runs to compute; the others get no products and know nothing. None: all.
      dtype: of the vectors sent to `hvp`.
      product_error: norm of the error of a product, relative to the spectral norm; None: four times the machine epsilon
        of `dtype`.

    Raises:
      ValueError: for arguments out of their domain, or a smoothness that a Ritz value exceeds.

    Example:
      >>> spectrum = torch.linspace(-1, 3, 1000, dtype=torch.float64)
      >>> found = smallest_eigenvalue(
      ...     lambda v: spectrum * v, 1000, Streams.of("example", ["run"]), num_products=60, failure_probability=1e-3
      ... )
      >>> bool(found.lower <= -1 <= found.upper), bool(found.width < 0.05)
      (True, True)
    """
    search = _Search(dim, failure_probability, smoothness, tolerance, threshold)
    matrix = _tridiagonal(hvp, streams, num_products, call, active, dtype, product_error, search)
    return search.smallest(matrix)


def spectral_norm(
    hvp: Product,
    dim: int,
    streams: Streams,
    *,
    num_products: int,
    failure_probability: float,
    call: int | Tensor = 0,
    dtype: torch.dtype = torch.float64,
    product_error: float | None = None,
) -> Interval:
    """An interval for the largest absolute eigenvalue, from both ends of one Lanczos run; arguments as above.

    Each end may fail with half of the probability.

    Example:
      >>> spectrum = torch.linspace(-3, 1, 50, dtype=torch.float64)
      >>> found = spectral_norm(
      ...     lambda v: spectrum * v, 50, Streams.of("example", ["run"]), num_products=50, failure_probability=0.01
      ... )
      >>> bool(found.lower <= 3 <= found.upper), bool(found.width < 1e-6)
      (True, True)
    """
    validate.between(0, 1, failure_probability=failure_probability)
    search = _Search(dim, failure_probability / 2)
    matrix = _tridiagonal(hvp, streams, num_products, call, None, dtype, product_error, search)
    low, high = search.smallest(matrix), search.smallest(replace(matrix, diagonal=-matrix.diagonal))
    lower = torch.maximum(-low.upper, -high.upper).clamp_min(0)
    return Interval(lower, torch.maximum(-low.lower, -high.lower), failure_probability, matrix.num_products)


def _tridiagonal(
    hvp: Product,
    streams: Streams,
    num_products: int,
    call: int | Tensor,
    active: Tensor | None,
    dtype: torch.dtype,
    product_error: float | None,
    search: "_Search",
) -> Tridiagonal:
    if not isinstance(call, Tensor):
        validate.at_least(0, call=call)
    calls = call if isinstance(call, Tensor) else torch.full((len(streams),), call)
    validate.same_length(call=calls, streams=streams)
    each = streams.take(torch.arange(len(streams)).repeat_interleave(calls[0].numel()))
    start = each.normal("lanczos", calls.reshape(-1), search.dim).view(*calls.shape, search.dim)
    start = (start / torch.linalg.vector_norm(start, dim=-1, keepdim=True)).to(dtype)
    return lanczos(hvp, start, num_products, active=active, stop=search.stop, product_error=product_error)


@dataclass(frozen=True, eq=False)
class _Search:
    """From a tridiagonal matrix to the interval, and to whether that is good enough."""

    dim: int
    failure_probability: float
    smoothness: float | Tensor | None = None
    tolerance: float | None = None
    threshold: float | Tensor | None = None

    def __post_init__(self) -> None:
        validate.at_least(1, dim=self.dim)
        validate.between(0, 1, failure_probability=self.failure_probability)
        validate.or_none(validate.positive, tolerance=self.tolerance)
        validate.or_none(validate.every, validate.positive, smoothness=self.smoothness)
        validate.or_none(validate.every, validate.real, threshold=self.threshold)

    @property
    def stop(self) -> Callable[[Tridiagonal], Tensor] | None:
        return None if self.tolerance is None and self.threshold is None else self._is_good_enough

    def _is_good_enough(self, matrix: Tridiagonal) -> Tensor:
        """Return the runs that may stop; each condition tests one candidate lower end, without a search."""
        seen = _Polynomials.of(matrix, self.dim, self.failure_probability)
        bound = torch.as_tensor(torch.inf if self.smoothness is None else self.smoothness).cpu().expand(seen.shape)
        upper = torch.minimum(seen.upper, bound.reshape(-1))
        done, wanted = torch.zeros_like(seen.known), []
        if self.tolerance is not None:
            wanted.append(upper - self.tolerance * seen.ritz.abs().amax(1))
        if self.threshold is not None:
            wanted.append(torch.as_tensor(self.threshold).to(upper).expand(seen.shape).reshape(-1))
            done |= upper < wanted[-1]
        for lower in wanted:
            done |= seen.is_above(lower) | (-bound.reshape(-1) > lower)
        return (done & seen.known).view(seen.shape).to(matrix.finite.device)

    def smallest(self, matrix: Tridiagonal) -> Interval:
        ends = _Polynomials.of(matrix, self.dim, self.failure_probability).ends()
        lower, upper = (end.view(matrix.finite.shape).to(matrix.diagonal.device) for end in ends)
        if self.smoothness is not None:
            bound = torch.as_tensor(self.smoothness).to(lower)
            if bool((matrix.finite & (upper < -bound)).any()):
                worst = float(torch.where(matrix.finite, upper, torch.inf).min())
                raise ValueError(
                    f"Expected smoothness={self.smoothness} to bound the spectrum, which reaches {worst:.6g} at least."
                )
            lower = torch.where(matrix.finite, torch.maximum(lower, -bound), lower)
            upper = torch.where(matrix.finite, torch.minimum(upper, bound), upper)
        return Interval(lower, upper, self.failure_probability, matrix.num_products)


def _start_component(dim: int, failure_probability: float) -> float:
    """What a coordinate of a uniformly random unit vector exceeds, in absolute value, but with this probability."""
    return math.sqrt(special.betaincinv(0.5, (dim - 1) / 2, failure_probability)) if dim > 1 else 1.0


@dataclass(frozen=True, eq=False)
class _Polynomials:
    """The Lanczos polynomials of runs below their smallest Ritz values, and which eigenvalues they rule out there.

    Below the Ritz values the `P_j = (-1)^j p_j` are positive and follow
    `b_j P_(j+1) = (a_j - l) P_j - b_(j-1) P_(j-1)`. An error f_j of a step, with component `x' f_j` along the
    eigenvector, takes at most `|x' f_j| / c` from the right. Ratios of successive P grow as `l` falls, so taking the
    bounds on |c| and |x' f_j|, with the worse sign, keeps the induction: |q_j' x| is at least what the recurrence says.

    The fields are on the host: a few hundred operations on single numbers are never worth a kernel launch each. Gaps
    and the recurrence are in units of `norm`, relative to the smallest Ritz value.
    """

    shape: torch.Size  # of the batch; the runs are flat in what follows
    known: Tensor
    ritz: Tensor  # `(runs, steps)`
    norm: Tensor
    upper: Tensor
    component: float  # c, less what rounding may have taken of it
    error: float  # the bound on |x' f_j| / c
    needed: list[float]  # a sum of squares that rules out
    steps: list[list[tuple[float, float, float]]]  # of each run: a_j, b_(j-1), b_j
    closest: float  # logarithm of the least gap that rounding does not hide

    @classmethod
    def of(cls, matrix: Tridiagonal, dim: int, failure_probability: float) -> "_Polynomials":
        diagonal, off, steps, invariant, finite = matrix._on_host()
        size, taken = diagonal.shape[1], max(1, steps.max())
        diagonal, off, known = diagonal[:, :taken], off[:, :taken], finite & (steps > 0)
        ritz = _ritz_values(diagonal, off, steps)
        # All of them are at most the spectral norm; in its units the smallest numbers neither vanish nor overflow.
        norm = np.abs(np.hstack([ritz, off])).max(1)
        unit = np.where(norm > 0, norm, 1)[:, None]
        diagonal, off = (diagonal - ritz[:, :1]) / unit, off / unit
        upper = np.where(known, ritz[:, 0] + matrix.rounding * np.sqrt(steps) * norm, np.inf)
        along = matrix.rounding * min(1.0, _DIRECTIONS / math.sqrt(dim))
        component = _start_component(dim, failure_probability) - along
        # What is left of an invariant space is error: any vector of at most this norm.
        floor = _BREAKDOWN * matrix.rounding
        last = np.arange(taken) == steps[:, None] - 1
        off = np.where(last & invariant[:, None], np.maximum(off, floor), off)
        # The q_j are orthonormal up to rounding; where the last one is an error, its component is at most 1.
        needed = (1 + invariant + 8 * matrix.rounding * steps) / max(component, 1e-99) ** 2
        before = np.hstack([np.zeros_like(off[:, :1]), off[:, :-1]])
        rows = zip(*(each.tolist() for each in (diagonal, before, np.where(off > 0, off, 1), steps)), strict=True)
        known, ritz, norm, upper = map(torch.from_numpy, (known, ritz, norm, upper))
        return cls(
            matrix.finite.shape, known, ritz, norm, upper, component, along / max(component, 1e-99), needed.tolist(),
            [[*zip(*row, strict=True)][:number] for *row, number in rows], math.log(floor) + 0.5 * math.log(size),
        )  # fmt: skip

    def rules_out(self, run: int, gap: float) -> bool:
        """Whether an eigenvalue this far below the smallest Ritz value would have been seen."""
        before, polynomial, total = 0.0, 1.0, 1.0
        for diagonal, link_before, link in self.steps[run]:
            following = ((diagonal + gap) * polynomial - link_before * before - self.error) / link
            before, polynomial = polynomial, following
            total += polynomial * polynomial
            # Any first terms of the sum will do: from the first on that may not be positive they are left out.
            if polynomial <= 0 or total >= self.needed[run]:
                return polynomial > 0
        return False

    def is_above(self, lower: Tensor) -> Tensor:
        """Whether the lower ends that `ends` finds are above these, `(runs,)`."""
        gaps = ((self.ritz[:, 0] - lower) / torch.where(self.norm > 0, self.norm, 1)).tolist()
        hidden = math.exp(self.closest) if self.component > 0 else math.inf
        found = [gap > hidden and self.rules_out(run, gap * (1 - _STEP)) for run, gap in enumerate(gaps)]
        return torch.tensor(found)

    def ends(self) -> tuple[Tensor, Tensor]:
        """Lower and upper end for the smallest eigenvalue, `(runs,)`; rounded outwards, infinite if unknown."""
        if self.component <= 0:  # rounding may have taken all of it
            return torch.full_like(self.upper, -torch.inf), self.upper
        # In logarithms, so that the width has a relative precision; `far` has been ruled out at every round.
        close, far = (torch.full_like(self.norm, end) for end in (self.closest, math.log(8 / self.component)))
        points = torch.linspace(0, 1, _POINTS, dtype=torch.float64)[:, None]
        for _ in range(_ROUNDS):
            tried = torch.lerp(close, far, points)
            gaps = enumerate(tried.exp().mT.tolist())
            first = [bisect_left(gap[:-1], True, key=partial(self.rules_out, run)) for run, gap in gaps]
            index = torch.tensor(first)[None]
            far, close = (tried.gather(0, each)[0] for each in (index, (index - 1).clamp_min(0)))
        return torch.where(self.known, self.ritz[:, 0] - far.exp() * self.norm, -torch.inf), self.upper


# ---------------------------------------------------------------- how many products
def sufficient_products(dim: int, relative_width: float, failure_probability: float) -> int:
    """Products after which an interval of `smallest_eigenvalue` is narrow, whatever the spectrum.

    For polynomials of degree k - 1 the Gauss rule of the Ritz values is exact, so Chebyshev's polynomial on their range
    bounds the sum of this module's docstring from below: the width is at most `sinh^2(acosh(1 / c) / (2k - 2))` times
    the spread of the Ritz values, where the start component `c` is exceeded with probability `1 - failure_probability`.
    Most spectra need far fewer.

    Args:
      dim: at least 1.
      relative_width: in units of the spectral norm, > 0; the spread is at most twice that norm.
      failure_probability: in (0, 1).

    Returns:
      At most `dim`.

    Example:
      >>> sufficient_products(dim=1000, relative_width=0.05, failure_probability=1e-3)
      36
      >>> sufficient_products(dim=10**6, relative_width=0.05, failure_probability=1e-3)
      47
    """
    validate.at_least(1, dim=dim)
    validate.positive(relative_width=relative_width)
    validate.between(0, 1, failure_probability=failure_probability)
    rate = math.acosh(1 / _start_component(dim, failure_probability))
    return min(dim, 1 + math.ceil(rate / (2 * math.asinh(math.sqrt(relative_width / 2)))))
