"""The exercises of notebooks/05_goldstein."""

import math

import torch

from dpnotes.notebook.teaching import exercise, near
from dpnotes.papers.goldstein.reference import clipped, two_point
from dpnotes.papers.goldstein.smoothed import on_sphere
from dpnotes.random.streams import Streams


@exercise
def private_increment(function):
    """Write the corrected lines 12 to 16 of Algorithm 3: the increment of a batch, before the noise. `losses(points,
    places)` takes points `(examples, m, d)`; `y` are directions on the sphere, `(examples, m, d)`. Use the *same*
    directions at `z` and at `before`, and let no example's increment be longer than `longest`. `two_point` and
    `clipped` of the listing above are at hand.

    Hints:
      two_point(losses, z, places, alpha, y) is an estimate for each example, (examples, d).

      Take the difference example by example, with one y; clip the differences; then take the mean over the examples.
    """
    normal = Streams.of("exercise", ["one"]).normal("numbers", 0, 6 * (3 + 5 * 3))[0].view(6, 18)
    data, y = normal[:, :3], on_sphere(normal[:, 3:].reshape(6, 5, 3))
    losses = lambda at, places: (at - data[list(places)][:, None]).norm(dim=2)
    z, before, places, alpha = torch.tensor([0.4, -0.2, 0.1]), torch.tensor([0.3, -0.1, 0.1]), range(6), 0.5
    answer = lambda longest, before=before: function(losses, z, before, places, alpha, y, longest)
    now, then = two_point(losses, z, places, alpha, y), two_point(losses, before, places, alpha, y)
    each, found = now - then, answer(0.03)
    if getattr(found, "shape", None) != z.shape:
        return f"it should return a vector of shape {tuple(z.shape)}: the mean over the examples."
    if not torch.allclose(answer(1e9, before=z), torch.zeros_like(found), atol=1e-6):
        return "where the point has not moved the increment is not 0: are the directions the same at both points?"
    if torch.allclose(found, each.mean(dim=0)):
        return "nothing was clipped: the sensitivity is not bounded."
    if torch.allclose(found, clipped(each.mean(dim=0)[None], 0.03)[0]):
        return "the mean was clipped: one example can still move it by any amount."
    if torch.allclose(found, (clipped(now, 0.03) - clipped(then, 0.03)).mean(dim=0)):
        return "the estimates were clipped apart: their difference can be twice as long."
    if not torch.allclose(answer(1e9), each.mean(dim=0)):
        return "without clipping, it is not the mean of the differences of the examples' estimates."
    within = torch.allclose(found, clipped(each, 0.03).mean(dim=0))
    return "" if within else "with clipping, it is not the mean of differences of which none is longer than allowed."


@exercise
def cone(number):
    r"""$F(x) = |x|$ in many dimensions, a point at the distance $2\alpha$ from the kink. How long is the shortest
    element of its Goldstein subdifferential of radius $\alpha$?

    Hints:
      The gradients in the ball are unit vectors that point away from 0. How far can they turn from the direction of x?

      A tangent from 0 to the ball: the sine of the largest angle is 1/2. The shortest mean is half way between the two
      gradients that are turned as far as possible, to opposite sides.
    """
    if near(1.0)(number) == "":
        return "this is the length of a single gradient; a mean of several is shorter."
    turn = torch.linspace(0, 2 * math.pi, 10_001, dtype=torch.float64)
    around = torch.stack([2 + turn.cos(), turn.sin()])  # the ball's edge, for alpha = 1
    along = around[0] / around.norm(dim=0)  # a gradient and its mirror image have this mean
    return near(float(along.min()))(number)
