"""Component-wise stationarity: Definition B.1 of Kornowski, Liu and Talwar (2025), arXiv:2410.05880."""

import torch
from scipy.optimize import lsq_linear
from torch import Tensor

from dpnotes.measure.curvature import Interval
from dpnotes.problems.robust import _LINKS, RobustRegression


def slope_ranges(problem: RobustRegression, x: Tensor, radius: float) -> tuple[Tensor, Tensor]:
    """Return the smallest and the largest slope of each example along its input, `(runs, examples)`, for one unit.

    The convex hull of an example's gradients within the radius of `x` `(runs, dim)` is its input times all numbers
    between the two.
    """
    weights = problem._weights
    forms, reach = x @ problem.inputs.mT, radius * problem._norms
    low, high = forms - reach, forms + reach
    # The loss is linear between its kinks, which are where the form is 0 or the prediction is the target.
    level = problem.targets / torch.where(weights == 0, 1, weights)
    kinks = torch.stack([torch.zeros_like(level), level, -level], -1)
    inner = kinks.clamp(low[..., None], high[..., None])
    ends = torch.cat([low[..., None], inner, high[..., None]], -1).sort(-1).values
    lengths = ends.diff(dim=-1)
    values, slopes = _LINKS[problem.link](ends[..., :-1] + lengths / 2)
    each = (values * weights - problem.targets[..., None]).sign() * slopes * weights
    empty = (lengths == 0) & (low < high)[..., None]
    return each.masked_fill(empty, torch.inf).amin(-1), each.masked_fill(empty, -torch.inf).amax(-1)


def component_norm(directions: Tensor, lower: Tensor, upper: Tensor) -> Interval:
    """Return bounds on the least norm of `mean_i s_i a_i` with each `s_i` in its own interval.

    A point is component-wise (alpha, beta)-stationary if the mean over examples of elements of the examples' own
    Goldstein subdifferentials is at most beta long. That of a function of one linear form `a_i' x` is a segment, from
    its least slope within `alpha |a_i|` to its largest, times `a_i`, `(examples, dim)`. The least norm is never above
    the Goldstein norm of the mean, since the examples may use different points of the ball.
    """
    rows, low, high = (tensor.double() for tensor in (directions / len(directions), lower, upper))
    free = low < high
    fixed = low[~free] @ rows[~free]
    slopes = low.clone()
    if bool(free.any()):
        bounds = low[free].numpy(), high[free].numpy()
        solved = lsq_linear(rows[free].mT.numpy(), -fixed.numpy(), bounds, tol=1e-14).x
        slopes[free] = torch.as_tensor(solved).clamp(low[free], high[free])
    element = slopes @ rows
    norm = torch.linalg.vector_norm(element)
    products = rows @ element
    least = torch.minimum(low * products, high * products).sum() / norm.clamp_min(torch.finfo(torch.float64).tiny)
    return Interval(least.clamp(0, norm), norm)
