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
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypedDict, Unpack

import numpy as np
import torch
from scipy import special
from torch import Tensor

from dpnotes.measure.lanczos import BREAKDOWN, DIRECTIONS, Product, Tridiagonal, lanczos, ritz_values
from dpnotes.random.streams import Streams
from dpnotes.util import validate
from dpnotes.util.validate import AtLeastOne, EachFinite, NonNegative, Positive, Probability, checked

_POINTS, _ROUNDS = 16, 6  # of the search for the lower end: from 50 nats of gap to 50 / 15^6, a relative 4e-6
_STEP = 1e-5  # relative: more than the last step of the search


# ---------------------------------------------------------------- intervals
@checked
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
    failure_probability: NonNegative = 0.0
    num_products: Tensor | None = None

    @property
    def width(self) -> Tensor:
        """`upper - lower`, `(...)`."""
        return self.upper - self.lower


class ProductOptions(TypedDict, total=False):
    """The start vectors and the precision of products with a Hessian, as `smallest_eigenvalue` explains them."""

    call: int | Tensor
    dtype: torch.dtype


def smallest_eigenvalue(
    hvp: Product,
    dim: int,
    streams: Streams,
    *,
    num_products: int,
    failure_probability: float,
    tolerance: float | None = None,
    threshold: float | Tensor | None = None,
    active: Tensor | None = None,
    **products: Unpack[ProductOptions],
) -> Interval:
    """An interval for the smallest eigenvalue of each Hessian of a batch, by Lanczos from a random start vector.

    The upper end is a Ritz value and always right, the lower end holds with probability at least
    `1 - failure_probability` over the start vector: the bound of this module's docstring. The start vector must be
    independent of the Hessian; it is drawn for the purpose "lanczos".

    Rounding: the error of a product is taken to have a norm of four machine epsilons of `dtype`, relative to the
    spectral norm, and no preferred direction, so a component of at most `4 / sqrt(dim)` of that along the eigenvector.
    It enters the recurrence, step by step, as the worst it can do; likewise that of the start vector. The lower end
    cannot come closer to the mean of the spectrum than about `4 error / failure_probability` of the spectral norm; in
    float64 that is nothing. For networks of 50,000 parameters in float32 the error of a product with a random vector
    was 0.1 to 4 machine epsilons; with the leading eigenvector, which matters little, up to 100 where the loss was
    almost fitted.

    Args:
      hvp: from vectors `(..., dim)` to products with the Hessians, `(..., dim)`; linear and symmetric. Of a loss of
        your own, `torch.autograd.grad` of its gradient (`benchmarks/curvature.py`).
      dim: of a point, at least 1.
      streams: of the runs, the first axis of the batch.
      num_products: the most products to compute; see `sufficient_products`.
      failure_probability: of the lower end of one run, in (0, 1).
      tolerance: a run stops once its interval is narrower than this times the largest absolute Ritz value; None: never.
      threshold: a run stops once its interval does not contain this number; None: never.
      active: `(runs, ...)` bool, the runs to compute; the others get no products and know nothing. None: all.
      call: number of the draw, 0 unless given; a tensor `(runs, ...)` gives the batch its shape: `(runs, iterates)`,
        say, with the numbers of the iterates, so that each has its own start vector.
      dtype: of the vectors sent to `hvp`, float64 unless given.

    Raises:
      ValueError: for arguments out of their domain.

    Example:
      >>> spectrum = torch.linspace(-1, 3, 1000, dtype=torch.float64)
      >>> found = smallest_eigenvalue(
      ...     lambda v: spectrum * v, 1000, Streams.of("example", ["run"]), num_products=60, failure_probability=1e-3
      ... )
      >>> bool(found.lower <= -1 <= found.upper), bool(found.width < 0.05)
      (True, True)
    """
    search = _Search(dim, failure_probability, tolerance, threshold)
    return search.smallest(_tridiagonal(hvp, streams, num_products, search, active, **products))


def _tridiagonal(
    hvp: Product,
    streams: Streams,
    num_products: int,
    search: "_Search",
    active: Tensor | None = None,
    *,
    call: int | Tensor = 0,
    dtype: torch.dtype = torch.float64,
) -> Tridiagonal:
    if not isinstance(call, Tensor):
        validate.at_least(0, call=call)
    calls = call if isinstance(call, Tensor) else torch.full((len(streams),), call)
    validate.same_length(call=calls, streams=streams)
    each = streams.take(torch.arange(len(streams)).repeat_interleave(calls[0].numel()))
    start = each.normal("lanczos", calls.reshape(-1), search.dim).view(*calls.shape, search.dim)
    start = (start / torch.linalg.vector_norm(start, dim=-1, keepdim=True)).to(dtype)
    return lanczos(hvp, start, num_products, active=active, stop=search.stop)


@checked
@dataclass(frozen=True, eq=False)
class _Search:
    """The rules that make an interval of a tridiagonal matrix, and say whether it is good enough."""

    dim: AtLeastOne
    failure_probability: Probability
    tolerance: Positive | None = None
    threshold: EachFinite[float | Tensor] | None = None

    @property
    def stop(self) -> Callable[[Tridiagonal], Tensor] | None:
        return None if self.tolerance is None and self.threshold is None else self._is_good_enough

    def _is_good_enough(self, matrix: Tridiagonal) -> Tensor:
        """Return the runs that may stop; each condition tests one candidate lower end, without a search."""
        seen = _Polynomials.of(matrix, self.dim, self.failure_probability)
        done, wanted = torch.zeros_like(seen.known), []
        if self.tolerance is not None:
            wanted.append(seen.upper - self.tolerance * seen.ritz.abs().amax(1))
        if self.threshold is not None:
            wanted.append(torch.as_tensor(self.threshold).to(seen.upper).expand(seen.shape).reshape(-1))
            done |= seen.upper < wanted[-1]
        for lower in wanted:
            done |= seen.is_above(lower)
        return (done & seen.known).view(seen.shape).to(matrix.finite.device)

    def smallest(self, matrix: Tridiagonal) -> Interval:
        ends = _Polynomials.of(matrix, self.dim, self.failure_probability).ends()
        lower, upper = (end.view(matrix.finite.shape).to(matrix.diagonal.device) for end in ends)
        return Interval(lower, upper, self.failure_probability, matrix.num_products)


def _start_component(dim: int, failure_probability: float) -> float:
    """The length that a coordinate of a random unit vector falls below with this probability."""
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
        diagonal, off, steps, invariant, finite = matrix.on_host()
        size, taken = diagonal.shape[1], max(1, steps.max())
        diagonal, off, known = diagonal[:, :taken], off[:, :taken], finite & (steps > 0)
        ritz = ritz_values(diagonal, off, steps)
        # All of them are at most the spectral norm; in its units the smallest numbers neither vanish nor overflow.
        norm = np.abs(np.hstack([ritz, off])).max(1)
        unit = np.where(norm > 0, norm, 1)[:, None]
        diagonal, off = (diagonal - ritz[:, :1]) / unit, off / unit
        upper = np.where(known, ritz[:, 0] + matrix.rounding * np.sqrt(steps) * norm, np.inf)
        along = matrix.rounding * min(1.0, DIRECTIONS / math.sqrt(dim))
        component = _start_component(dim, failure_probability) - along
        # What is left of an invariant space is error: any vector of at most this norm.
        floor = BREAKDOWN * matrix.rounding
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
        """Return whether an eigenvalue this far below the smallest Ritz value would have been seen."""
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
        """Return whether the lower ends that `ends` finds are above these, `(runs,)`."""
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
@checked
def sufficient_products(dim: AtLeastOne, relative_width: Positive, failure_probability: Probability) -> int:
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
    rate = math.acosh(1 / _start_component(dim, failure_probability))
    return min(dim, 1 + math.ceil(rate / (2 * math.asinh(math.sqrt(relative_width / 2)))))
