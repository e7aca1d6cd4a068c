"""Second-order stationary points: certified by Lanczos, and counted along a run where the Hessian is known.

A point is an alpha-SOSP (an approximate second-order stationary point) of a loss with a rho-Lipschitz Hessian if its
gradient is shorter than alpha and its smallest eigenvalue is above `-sqrt(rho alpha)` (Nesterov and Polyak, "Cubic
regularization of Newton method and its global performance", Math. Program. 108, 2006). Both inequalities are strict.
"""

import math
from dataclasses import dataclass
from enum import IntEnum
from typing import Unpack

import torch
from torch import Tensor

from dpnotes.measure.curvature import Interval, Product, ProductOptions, smallest_eigenvalue
from dpnotes.random.streams import Streams
from dpnotes.util import validate
from dpnotes.util.validate import EachPositive, Positive, checked


class NotSmoothError(ValueError):
    """The error for a second-order certificate of a loss that has no Hessian."""


class Verdict(IntEnum):
    """The verdict of a certificate about a point."""

    NO = 0
    YES = 1
    UNDECIDED = 2


@dataclass(frozen=True, eq=False)
class Certificate:
    """Verdicts on whether points are alpha-SOSPs, with the bounds that they rest on.

    Args:
      verdict: `(...)` int64, a `Verdict` each.
      gradient_norm: bounds on the norm of the exact gradient.
      smallest_eigenvalue: bounds on the smallest eigenvalue; void where the gradient decided alone.
      alpha: accuracy.
      hessian_lipschitz: rho.
      failure_probability: each verdict is wrong with at most this probability.
    """

    verdict: Tensor
    gradient_norm: Interval
    smallest_eigenvalue: Interval
    alpha: Tensor
    hessian_lipschitz: float
    failure_probability: float


@checked
def certify_sosp(
    hvp: Product,
    gradient_norm: Tensor | Interval,
    dim: int,
    streams: Streams,
    *,
    alpha: EachPositive[float | Tensor],
    hessian_lipschitz: Positive,
    smooth: bool,
    num_products: int,
    failure_probability: float,
    **products: Unpack[ProductOptions],
) -> Certificate:
    """Certify for each point of a batch whether it is an alpha-SOSP: yes, no or undecided.

    "Yes" rests on the lower end of the eigenvalue's interval, which fails with `failure_probability`; "no" on a
    gradient or a Rayleigh quotient, which cannot fail. A gradient that is too long decides without a product; the other
    points stop at the first check at which their interval decides. A point with a gradient or product that is not
    finite stays undecided.

    Args:
      hvp: from vectors `(..., dim)` to products with the Hessians at the points, `(..., dim)`.
      gradient_norm: norms of the exact gradients at the points, `(...)`, or bounds on them; no norms of noisy
        gradients.
      dim: the dimension of a point.
      streams: the runs' streams; runs are the first axis of the batch.
      alpha: accuracy, > 0, one for all or `(...)`.
      hessian_lipschitz: rho, the Lipschitz constant of the Hessian, > 0.
      smooth: whether the loss has a Hessian everywhere, as the caller declares. ReLU and max-pooling have none.
      num_products: the most products to compute; `curvature.sufficient_products` computes how many suffice.
      failure_probability: for the eigenvalue's lower end, in (0, 1); that of the gradient's bounds is added to it.
      call: number of the draw, or `(runs, iterates)`; its shape is the shape of the batch.
      dtype: the type of the vectors sent to `hvp`.

    Raises:
      NotSmoothError: for `smooth=False`.
      ValueError: for arguments out of their domain, a negative norm.

    Example:
      >>> spectrum = torch.stack([torch.linspace(low, 1, 100, dtype=torch.float64) for low in (0, -0.4)])
      >>> certificate = certify_sosp(
      ...     lambda v: spectrum * v, torch.zeros(2), 100, Streams.of("example", ["a", "b"]), alpha=0.04,
      ...     hessian_lipschitz=1.0, smooth=True, num_products=60, failure_probability=1e-3,
      ... )
      >>> [Verdict(int(v)).name for v in certificate.verdict]
      ['YES', 'NO']
    """
    if not smooth:
        raise NotSmoothError(
            "Expected a loss that has a Hessian (smooth=True): with ReLU or max-pooling it has none at the kinks, and "
            "second-order stationarity says nothing. Use a smooth activation (tanh, softplus, GELU) and average "
            "pooling, or report the gradient norm alone."
        )
    given = gradient_norm if isinstance(gradient_norm, Interval) else Interval(gradient_norm, gradient_norm)
    call = products.get("call")
    shape = call.shape if isinstance(call, Tensor) else (len(streams),)
    if given.lower.shape != shape or given.upper.shape != shape:
        raise ValueError(f"Expected gradient_norm, {tuple(given.lower.shape)}, to be of shape {tuple(shape)}.")
    if bool((given.upper < 0).any()):
        raise ValueError(f"Expected gradient_norm={float(given.upper.min()):g} >= 0.")
    accuracy = torch.as_tensor(alpha, dtype=torch.float64, device=streams.keys.device)
    if accuracy.shape not in ((), shape):
        raise ValueError(f"Expected alpha of shape {tuple(accuracy.shape)} to be () or {tuple(shape)}.")
    norm = Interval(given.lower.double(), given.upper.double(), given.failure_probability)
    threshold = -torch.sqrt(hessian_lipschitz * accuracy)
    # An infinite norm is an overflow, not a long gradient.
    too_long = (norm.lower >= accuracy) & torch.isfinite(norm.lower)
    eigenvalue = smallest_eigenvalue(
        hvp,
        dim,
        streams,
        num_products=num_products,
        failure_probability=failure_probability,
        threshold=threshold,
        active=torch.isfinite(norm.upper) & ~too_long,
        **products,
    )
    # A Ritz value on the threshold is "no" only up to rounding, which its upper end includes.
    no = too_long | (eigenvalue.upper <= threshold)
    yes = (norm.upper < accuracy) & (eigenvalue.lower > threshold)
    verdict = torch.full(shape, Verdict.UNDECIDED, device=no.device)
    verdict[yes], verdict[no] = Verdict.YES, Verdict.NO
    claimed = failure_probability + norm.failure_probability
    return Certificate(verdict, norm, eigenvalue, accuracy, hessian_lipschitz, claimed)


# ---------------------------------------------------------------- along a run, with exact Hessians
@checked
def sosp_level(gradient_norms: Tensor, smallest_eigenvalues: Tensor, hessian_lipschitz: Positive) -> Tensor:
    """The infimum of the accuracies that a point reaches: it is an a-SOSP exactly for `a` above it (and above 0).

    It is `max(||g||, min(lambda, 0)^2 / rho)`, which has the unit of a gradient.

    Args:
      gradient_norms: `(...)`, of exact gradients.
      smallest_eigenvalues: `(...)`, exact.
      hessian_lipschitz: rho, > 0.

    Returns:
      `(...)`; infinite where an argument is not finite.

    Raises:
      ValueError: for shapes that differ, rho <= 0, a negative norm.

    Example:
      >>> sosp_level(torch.tensor([0.1, 0.1, 0.1]), torch.tensor([1.0, -0.2, -2.0]), hessian_lipschitz=2.0)
      tensor([0.1000, 0.1000, 2.0000])
    """
    if gradient_norms.shape != smallest_eigenvalues.shape:
        raise ValueError(
            f"Expected gradient_norms, {tuple(gradient_norms.shape)}, and smallest_eigenvalues, "
            f"{tuple(smallest_eigenvalues.shape)}, to have one shape."
        )
    if bool((gradient_norms < 0).any()):
        raise ValueError(f"Expected gradient_norms, {float(gradient_norms.min()):g}, >= 0.")
    negative = smallest_eigenvalues.clamp_max(0)
    # Without negative curvature it is 0, even if rho rounds to 0 in the tensors' precision.
    curved = torch.where(negative == 0, 0.0, negative.square() / hessian_lipschitz)
    level = torch.maximum(gradient_norms, curved)
    known = torch.isfinite(gradient_norms) & torch.isfinite(smallest_eigenvalues)
    return torch.where(known, level, torch.inf)


@checked
def fraction_of_sosp(
    gradient_norms: Tensor, smallest_eigenvalues: Tensor, alpha: Positive, hessian_lipschitz: float
) -> Tensor:
    """The fraction of a run's iterates that are alpha-SOSPs.

    Args:
      gradient_norms: `(..., iterates)`, of exact gradients.
      smallest_eigenvalues: `(..., iterates)`, exact.
      alpha: accuracy, > 0.
      hessian_lipschitz: rho, > 0.

    Returns:
      `(...)` float64 in [0, 1].

    Raises:
      ValueError: for no iterates, and as in `sosp_level`.

    Example:
      >>> norms, eigenvalues = torch.tensor([[0.3, 0.1, 0.0, 0.0]]), torch.tensor([[1.0, 1.0, -0.5, 0.0]])
      >>> fraction_of_sosp(norms, eigenvalues, alpha=0.2, hessian_lipschitz=1.0)
      tensor([0.5000], dtype=torch.float64)
    """
    level = sosp_level(gradient_norms, smallest_eigenvalues, hessian_lipschitz)
    validate.at_least(1, num_iterates=level.shape[-1])
    return (level < alpha).double().mean(-1)


@checked
def reached_alpha(
    gradient_norms: Tensor, smallest_eigenvalues: Tensor, hessian_lipschitz: float, fraction: Positive = 0.5
) -> Tensor:
    """The smallest accuracy that a fraction of a run's iterates reach.

    For every `a` above it at least this fraction of the iterates are a-SOSPs, and for `a` at or below it fewer are:
    it is the infimum, which the strict inequalities do not attain. It is the m-th smallest `sosp_level`, m being the
    fewest iterates that make up the fraction: of four iterates the second, of five the third.

    Args:
      gradient_norms: `(..., iterates)`, of exact gradients.
      smallest_eigenvalues: `(..., iterates)`, exact.
      hessian_lipschitz: rho, > 0.
      fraction: in (0, 1]; the default is the fraction in Avdiukhin et al., Theorem 3.4.

    Returns:
      `(...)`; infinite where too many iterates are not finite.

    Raises:
      ValueError: for no iterates, a fraction out of range, and as in `sosp_level`.

    Example:
      >>> reached_alpha(torch.tensor([[0.3, 0.1, 0.0, 0.2]]), torch.tensor([[1.0, 1.0, -0.7, 0.0]]), 1.0)
      tensor([0.2000])
    """
    if fraction > 1:
        raise ValueError(f"Expected 0 < fraction={fraction!r} <= 1.")
    level = sosp_level(gradient_norms, smallest_eigenvalues, hessian_lipschitz)
    iterates = level.shape[-1]
    validate.at_least(1, num_iterates=iterates)
    needed = math.ceil(fraction * iterates)
    if needed > 1 and (needed - 1) / iterates >= fraction:  # the product was rounded up over an integer
        needed -= 1
    return level.kthvalue(needed, dim=-1).values
