"""Smoothed losses in closed form: means over a ball, and the envelopes of Moreau and of Lasry and Lions.

Most are functions of one number, a linear form `t = a'x` with `|a| = 1`, or a distance `t = |x - c|`; for a longer form
multiply the radius by `|a|`, and the parameter of an envelope by `|a|^2`. The gradient in x is the derivative times
`a`, or times the unit vector from c. A piecewise linear function of a form is a sum of absolute values and a linear
term: `max(u, v) = (u + v)/2 + |u - v|/2`, `relu(t) = (t + |t|)/2`, `||t| - b| = |t - b| + |t + b| - |t| - b`; taking
the mean over a ball is linear, so the means of these functions follow. Taking an envelope is not.

Means over a ball are those of the paper by Kornowski, Liu and Talwar, Fact 2.3, with sharp constants in place of
orders: the mean of an L-Lipschitz function over a ball of radius alpha differs from it by at most
`L alpha dim / (dim + 1)` and is `kappa L / alpha`-smooth, with kappa of `smoothing_constant`. Parts (ii) and (iv) of
their Fact B.2, on envelopes, are corrected here: the double envelope differs from the function by at most
`L^2 parameter` and is `1 / parameter`-smooth (docs/errata.md).
"""

import math

import numpy as np
import torch
from scipy import special
from torch import Tensor

from dpnotes.problems.examples import check_finite
from dpnotes.util.validate import AtLeastOne, Finite, Positive, checked

# From c = 10 on the series converges fast, in some `6 sqrt(dim)` terms; below it does not, but scipy (1.17) copes.
_LONG_SERIES = 10.0


@checked
def smoothing_constant(dim: AtLeastOne) -> float:
    """The constant kappa: the mean of a 1-Lipschitz function over a ball of radius alpha is `kappa / alpha`-smooth.

    `|x_1|` attains it. It is `2 Gamma(dim/2 + 1) / (sqrt(pi) Gamma((dim + 1)/2))`, twice the density at 0 of a
    coordinate of the unit ball, about `sqrt(2 dim / pi)`.

    Args:
      dim: at least 1.

    Example:
      >>> [round(smoothing_constant(dim), 6) for dim in (1, 2, 3, 100)]
      [1.0, 1.27324, 1.5, 7.998817]
    """
    return 2 / math.sqrt(math.pi) * math.exp(math.lgamma(dim / 2 + 1) - math.lgamma((dim + 1) / 2))


# ---------------------------------------------------------------- means over a ball
def smoothed_absolute(t: Tensor, radius: float, dim: int) -> tuple[Tensor, Tensor]:
    """The mean of `|t + a'y|`, the absolute value of a linear form, over y in a ball, and its derivative.

    The derivative is the fraction of the ball on x's side of the kink minus the fraction beyond it,
    `I(t^2; 1/2, (dim + 1)/2)` for `|t| <= radius = 1`, I the regularised incomplete beta function; the value is its
    integral.

    Args:
      t: `(...)`, values of the form at the center.
      radius: the radius of the ball, > 0.
      dim: the dimension of the ball, at least 1.

    Returns:
      Value and derivative, `(...)` each, in the type of `t`.

    Raises:
      ValueError: outside these domains.

    Example:
      >>> value, slope = smoothed_absolute(torch.tensor([0.0, 0.5, -2.0]), radius=1.0, dim=3)
      >>> value, slope
      (tensor([0.3750, 0.5547, 2.0000]), tensor([ 0.0000,  0.6875, -1.0000]))
    """
    at = _scaled(t, radius, dim)
    share = special.betainc(0.5, (dim + 1) / 2, np.minimum(at, 1) ** 2)
    beyond = smoothing_constant(dim) / (dim + 1) * np.clip(1 - at**2, 0, None) ** ((dim + 1) / 2)
    return torch.as_tensor(radius * (at * share + beyond)).to(t), torch.as_tensor(share).to(t) * t.sign()


def smoothed_norm(distance: Tensor, radius: float, dim: int) -> tuple[Tensor, Tensor]:
    """The mean over y in a ball of the distance from x + y to a point, and its derivative along the distance of x.

    The mean over a sphere is a hypergeometric function of the ratio of the two lengths; integrated over the radii, with
    `r = distance / radius`,

        |r| F(-1/2, (1 - dim)/2; dim/2 + 1; 1/r^2)  for r >= 1,  dim/(dim + 1) F(-1/2, -(dim + 1)/2; dim/2; r^2)  else.

    Args:
      distance: `(...)`, from the center of the ball to the point, >= 0.
      radius: the radius of the ball, > 0.
      dim: the dimension of the ball, at least 1.

    Returns:
      Value and derivative, `(...)` each, in the type of `distance`.

    Raises:
      ValueError: outside these domains.

    Example:
      >>> value, slope = smoothed_norm(torch.tensor([0.0, 0.5, 2.0]), radius=1.0, dim=3)
      >>> value, slope
      (tensor([0.7500, 0.8719, 2.1000]), tensor([0.0000, 0.4750, 0.9500]))
    """
    at = _scaled(distance, radius, dim)
    if not bool((distance >= 0).all()):
        raise ValueError("Expected distance >= 0.")
    half = dim / 2
    inner, outer = np.minimum(at, 1) ** 2, np.maximum(at, 1) ** -2.0

    near, near_slope = _hypergeometric(-0.5, -half - 0.5, half, inner)
    far, far_slope = _hypergeometric(-0.5, 0.5 - half, half + 1, outer)
    value = np.where(at < 1, dim / (dim + 1) * near, at * far)
    slope = np.where(at < 1, dim / (dim + 1) * 2 * at * near_slope, far - 2 * outer * far_slope)
    return torch.as_tensor(radius * value).to(distance), torch.as_tensor(slope).to(distance)


def _hypergeometric(a: float, b: float, c: float, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The Gauss hypergeometric function and its derivative, for z in [0, 1]."""

    def function(a: float, b: float, c: float) -> np.ndarray:
        if c < _LONG_SERIES:
            return special.hyp2f1(a, b, c, z)
        total = term = np.ones_like(z)
        order = 0
        while float(np.abs(term).max(initial=0)) > np.finfo(float).eps / 16:
            term = term * ((a + order) * (b + order) / ((c + order) * (order + 1))) * z
            total = total + term
            order += 1
        return total

    return function(a, b, c), a * b / c * function(a + 1, b + 1, c + 1)


@checked
def _scaled(t: Tensor, radius: Positive, dim: AtLeastOne) -> np.ndarray:
    """The absolute values in units of the radius, float64; the arguments are checked."""
    check_finite(numbers=t)
    return (t.double().abs() / radius).cpu().numpy()


# ---------------------------------------------------------------- envelopes
@checked
def moreau_absolute(t: Tensor, parameter: Positive, slope: Finite = 1.0) -> tuple[Tensor, Tensor]:
    """Moreau's envelope `min_s slope |s| + (s - t)^2 / (2 parameter)`, and a derivative of it.

    For a positive slope it is Huber's function. For a negative slope it is the function minus `slope^2 parameter / 2`,
    with the same kink.

    Args:
      t: `(...)`.
      parameter: lambda, > 0, a squared length over a loss.
      slope: of either sign.

    Returns:
      Value and derivative, `(...)` each.

    Raises:
      ValueError: outside these domains.

    Example:
      >>> moreau_absolute(torch.tensor([0.0, 0.5, -3.0]), parameter=1.0)
      (tensor([0.0000, 0.1250, 2.5000]), tensor([ 0.0000,  0.5000, -1.0000]))
    """
    if slope <= 0:
        return slope * t.abs() - parameter * slope**2 / 2, slope * t.sign()
    derivative = (t / parameter).clamp(-slope, slope)
    return derivative * t - parameter / 2 * derivative.square(), derivative


@checked
def lasry_lions_absolute(t: Tensor, parameter: float, slope: Finite = 1.0) -> tuple[Tensor, Tensor]:
    """The double envelope `max_z min_y slope |y| + (z - y)^2 / (4 parameter) - (z - t)^2 / (2 parameter)`.

    `-M(-M'(h))` with Moreau's envelopes M of this parameter and M' of twice it (Lasry and Lions, "A remark on
    regularization in Hilbert spaces", Israel J. Math. 55, 1986; eq. (19) of Kornowski, Liu and Talwar, corrected). For
    a convex function it equals M, since `M'` is M of M and `-M(-M(g)) = g` for convex g. For `-c |t|`, M' is
    `-c |t| - c^2 parameter`, so it equals `-M(c |t|) - c^2 parameter`, whose error at 0 is `c^2 parameter`.

    Args:
      t: `(...)`.
      parameter: lambda, > 0.
      slope: of either sign.

    Returns:
      Value and derivative, `(...)` each; the derivative is `1 / parameter`-Lipschitz.

    Raises:
      ValueError: outside these domains.

    Example:
      >>> lasry_lions_absolute(torch.tensor([0.0, 0.25, 3.0]), parameter=0.5, slope=-4.0)
      (tensor([ -8.0000,  -8.0625, -16.0000]), tensor([-0.0000, -0.5000, -4.0000]))
    """
    value, derivative = moreau_absolute(t, parameter, abs(slope))
    return (value, derivative) if slope > 0 else (-value - parameter * slope**2, -derivative)


@checked
def lasry_lions_phase(t: Tensor, target: Positive, parameter: Positive) -> tuple[Tensor, Tensor]:
    """The double envelope of `||t| - target|`, robust phase retrieval along one form, and its derivative.

    M' is Huber's function of `|t| - target`, since the envelope of a minimum is the minimum of the envelopes; for
    `target >= 2 parameter` the three kinks are smoothed separately, the outer ones like that of `|t|`, the middle one
    like that of `-|t|`.

    Args:
      t: `(...)`.
      target: at least `2 parameter`.
      parameter: lambda, > 0.

    Returns:
      Value and derivative, `(...)` each.

    Raises:
      ValueError: for a smaller target, whose kinks are too close for this formula.

    Example:
      >>> lasry_lions_phase(torch.tensor([0.0, 0.5, 2.0, 4.0]), target=2.0, parameter=1.0)
      (tensor([1.0000, 0.8750, 0.0000, 1.5000]), tensor([-0.0000, -0.5000,  0.0000,  1.0000]))
    """
    if target < 2 * parameter:
        raise ValueError(f"Expected target={target:g} >= 2 parameter={parameter:g}.")
    peak, peak_slope = lasry_lions_absolute(t, parameter, -1.0)
    valley, valley_slope = lasry_lions_absolute(t.abs() - target, parameter)
    near = t.abs() < parameter
    return torch.where(near, target + peak, valley), torch.where(near, peak_slope, valley_slope * t.sign())
