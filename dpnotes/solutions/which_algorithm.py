"""The solutions of notebooks/which_algorithm."""

from dpnotes.solutions import Solution

SOLUTIONS = {
    "lasry_lions": Solution(1e5 / 0.5, [1e5, 1e5 * 0.5, (1e5 / 0.5) ** 2, -1], "n epsilon = d, that is n = 200,000."),
    "needed": Solution(1e3 / 0.03**3, [1 / 0.03**3, 1e6 / 0.03**3, 1e3 / 0.03**2], "sqrt(10^6) / 0.03^3 = 3.7 10^7."),
}
