"""The solutions of notebooks/04_drift_escape."""

import math

from dpnotes.papers.drift_escape.reference import clipped
from dpnotes.solutions import Solution


def attempts(chance, failure):
    return math.ceil(math.log(failure) / math.log(1 - chance))


def difference(now, before, x, last, M, multiplier, xi, eta):
    move = (x - last.asked).norm()
    mean = clipped(now - before, M * move).mean(dim=0)
    noise = multiplier * (2 * M * move / len(now)) * xi
    return last.g + mean + noise, last.drift + move**2


def of_a_step(now, before, x, last, M, multiplier, xi, eta):
    stepped = last.asked - eta * last.g  # where a step would have led: clipping, noise and drift are for it
    return difference(now, before, stepped, last, M, multiplier, xi, eta)


def noise_of_a_step(now, before, x, last, M, multiplier, xi, eta):
    step = eta * last.g.norm() / (x - last.asked).norm()
    return difference(now, before, x, last, M, multiplier, step * xi, eta)


def drift_of_a_step(now, before, x, last, M, multiplier, xi, eta):
    g, _ = difference(now, before, x, last, M, multiplier, xi, eta)
    return g, last.drift + (eta * last.g.norm()) ** 2


def unclipped(now, before, x, last, M, multiplier, xi, eta):
    return difference(now, before, x, last, 1e6 * M, 1e-6 * multiplier, xi, eta)


def alone(now, before, x, last, M, multiplier, xi, eta):
    g, drift = difference(now, before, x, last, M, multiplier, xi, eta)
    return g - last.g, drift


SOLUTIONS = {
    "how_many": Solution(
        attempts,
        [
            lambda chance, failure: math.ceil(2.5 * math.log(1 / failure)),  # as printed, for a chance of 1/4
            lambda chance, failure: attempts(chance, failure) - 1,  # rounded down
            lambda chance, failure: attempts(chance, failure) + 1,
        ],
    ),
    "covered": Solution(
        difference,
        [
            of_a_step, noise_of_a_step, drift_of_a_step, unclipped, alone,
            lambda now, before, x, last, M, multiplier, xi, eta: difference(
                now, before, x, last, M, multiplier / 2, xi, eta
            ),
            lambda *setting: (difference(*setting)[0], setting[3].drift),
            lambda *setting: difference(*setting)[0],
        ],
    ),
}  # fmt: skip
