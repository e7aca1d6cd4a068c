"""The solutions of notebooks/05_goldstein."""

import math

from dpnotes.papers.goldstein.reference import clipped, two_point
from dpnotes.solutions import Solution


def increment(losses, z, before, places, alpha, y, longest):
    now = two_point(losses, z, places, alpha, y)
    then = two_point(losses, before, places, alpha, y)
    return clipped(now - then, longest).mean(dim=0)


def mean_clipped(losses, z, before, places, alpha, y, longest):
    return clipped(increment(losses, z, before, places, alpha, y, 1e9)[None], longest)[0]


def clipped_apart(losses, z, before, places, alpha, y, longest):
    now, then = two_point(losses, z, places, alpha, y), two_point(losses, before, places, alpha, y)
    return (clipped(now, longest) - clipped(then, longest)).mean(dim=0)


def other_directions(losses, z, before, places, alpha, y, longest):
    now, then = two_point(losses, z, places, alpha, y), two_point(losses, before, places, alpha, y.flip(0))
    return clipped(now - then, longest).mean(dim=0)


SOLUTIONS = {
    "private_increment": Solution(
        increment,
        [
            lambda losses, z, before, places, alpha, y, longest: increment(losses, z, before, places, alpha, y, 1e9),
            mean_clipped,
            clipped_apart,
            other_directions,
            lambda *setting: -increment(*setting),
            lambda *setting: increment(*setting)[None],
            lambda losses, z, before, places, alpha, y, longest: increment(
                losses, z, before, places, alpha, y, longest / 2
            ),
        ],
    ),
    # the gradient at the point; the square; the sine
    "cone": Solution(
        math.sqrt(3) / 2, [1.0, 0.75, 0.5], f"The cosine of that angle: sqrt(1 - (1/2)^2) = {math.sqrt(3) / 2:.3f}."
    ),
}
