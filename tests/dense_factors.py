"""Correlated noise as dense matrices, which the mechanisms of `privacy.factorisation` are compared with."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from dpnotes.privacy import tree
from dpnotes.privacy.factorisation import Scheme, square_root_coefficients


def factors(scheme: Scheme, num_steps: int, bandwidth: int | None = None) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the factors B and C with `B C = A`, dense lower triangular `(num_steps, num_steps)`.

    The rows of C are the quantities released with noise of unit variance, step by step, without redundant ones;
    `bandwidth` is of the square root only, the whole if None.
    """
    total = np.tril(np.ones((num_steps, num_steps)))
    if scheme == "terms":
        return total, np.eye(num_steps)
    if scheme == "sums":
        return np.eye(num_steps), total
    encoder = np.zeros_like(total)
    if scheme == "square root":
        coefficients = square_root_coefficients(min(bandwidth or num_steps, num_steps))
        column = np.zeros(num_steps)
        column[: len(coefficients)] = coefficients
        encoder = np.tril(linalg.toeplitz(column))
    else:
        combine, own = tree._weights(int(num_steps).bit_length(), scheme == "optimal tree")
        for leaf in range(1, num_steps + 1):
            level = (leaf & -leaf).bit_length() - 1
            encoder[leaf - 1, leaf - 1] = 1 / own[level]
            end = leaf - 1
            for low in range(level):  # the live blocks that end before this leaf, the smallest last
                encoder[leaf - 1, end - 2**low : end] = (1 - combine[level][low]) / own[level]
                end -= 2**low
    return linalg.solve_triangular(encoder, total.T, trans="T", lower=True).T, encoder
