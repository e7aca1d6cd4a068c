"""The solutions of notebooks/evidence/04_drift_escape_evidence."""

from dpnotes.solutions import Solution

SOLUTIONS = {
    # lambda = alpha; the 2 forgotten; M = 1/lambda taken for M/lambda
    "small_enough": Solution(100, [1000, 200, 10, "large"], "lambda = 0.1, b = 20/(2 * 0.1) = 100."),
    # the paper's step; the step 1/M; the exponent itself
    "exponent_of": Solution(
        1, [0.5, 0, 3 / 8], "k = 1. The smaller the step, the more of them, and the fewer examples for each."
    ),
}
