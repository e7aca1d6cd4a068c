"""Lanczos' tridiagonal matrices of a batch of symmetric matrices, from products with them."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from scipy.linalg.lapack import dsterf
from torch import Tensor

from dpnotes.util import validate

Product = Callable[[Tensor], Tensor]

_KAHAN = math.sqrt(0.5)  # a vector that lost more of its norm than this is orthogonalised once more
_PRODUCT_ERROR = 4.0  # machine epsilons
_SEMI = 1e-2  # times the square root of the error: the largest allowed inner product of a new vector with earlier ones
BREAKDOWN = 4.0  # errors of a step: what is left of a vector below this is nothing but errors
DIRECTIONS = 4.0  # standard deviations of the component along one direction of an error without preferred direction
# Products between two looks at whether a run may stop; from 128 on an eighth more, as a look takes time that grows with
# their square or faster.
_CHECK_EVERY, _CHECK_RARER = 4, 128


@dataclass(frozen=True, eq=False)
class Tridiagonal:
    """The tridiagonal matrices that Lanczos made of a batch of symmetric matrices; leading axes are the batch.

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
        found = ritz_values(*self.on_host()[:3])
        return torch.from_numpy(found).view_as(self.diagonal).to(self.diagonal.device)

    def on_host(self) -> tuple[np.ndarray, ...]:
        """Diagonal, off-diagonal, products, and the two flags, with the runs flat."""
        size = self.diagonal.shape[-1]
        matrices = (t.reshape(-1, size).cpu().numpy() for t in (self.diagonal, self.off_diagonal))
        others = (t.reshape(-1).cpu().numpy() for t in (self.num_products, self.invariant, self.finite))
        return (*matrices, *others)


def ritz_values(diagonal: np.ndarray, off_diagonal: np.ndarray, num_products: np.ndarray) -> np.ndarray:
    """The eigenvalues of tridiagonal matrices in ascending order, `(runs, steps)`.

    Args:
      diagonal: `(runs, steps)`.
      off_diagonal: `(runs, steps)`, as in `Tridiagonal`.
      num_products: `(runs,)`, steps of each run.

    Raises:
      ArithmeticError: if LAPACK does not converge.

    Example:
      >>> ritz_values(np.zeros((1, 2)), np.array([[3.0, 0.0]]), np.array([2]))
      array([[-3.,  3.]])
    """
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
    error = _PRODUCT_ERROR * torch.finfo(start.dtype).eps  # of a product, relative to the spectral norm
    rounding = error + math.sqrt(start.shape[-1]) * torch.finfo(torch.float64).eps  # inner products round at random
    *batch, dim = start.shape
    q = start.reshape(-1, dim).double()
    norm = torch.linalg.vector_norm(q, dim=1)
    if not bool((torch.isfinite(norm) & (norm > 0)).all()):
        raise ValueError("Expected start vectors that are finite and not zero.")
    q = q / norm[:, None]
    size, runs = min(num_products, dim), len(q)
    basis = _Basis(q.new_empty(runs, size, dim), rounding * min(1.0, DIRECTIONS / math.sqrt(dim)))
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
        ended = running & ((betas <= BREAKDOWN * rounding * largest) | (step + 1 == dim))
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
