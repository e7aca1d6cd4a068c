"""The solution of notebooks/rates."""

from dpnotes.solutions import Solution

EPSILON = 1000**0.5 / 1e6 ** (2 / 7)

SOLUTIONS = {
    "crossing": Solution(
        EPSILON, [1000**0.5 / 1e6 ** (4 / 85), 1.0, 1 / EPSILON, -1], f"epsilon = sqrt(d) / n^(2/7) = {EPSILON:.3f}"
    )
}
