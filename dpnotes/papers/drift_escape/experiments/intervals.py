"""Confidence intervals of probabilities, as the decision rules of this paper's experiments use them."""

from dpnotes.util import validate


def proportion(hits: int, runs: int, level: float = 0.05) -> tuple[float, float]:
    """Clopper and Pearson's interval (1934, doi:10.1093/biomet/26.4.404) of a probability.

    Args:
      hits: from 0 to `runs`.
      runs: at least 1.
      level: one minus the probability that the interval holds it.

    Example:
      >>> [round(end, 4) for end in proportion(0, 100)], [round(end, 4) for end in proportion(100, 100)]
      ([0.0, 0.0362], [0.9638, 1.0])
    """
    from scipy.special import betaincinv

    validate.at_least(1, runs=runs)
    validate.at_least(0, hits=hits, misses=runs - hits)
    low = float(betaincinv(hits, runs - hits + 1, level / 2)) if hits else 0.0
    high = float(betaincinv(hits + 1, runs - hits, 1 - level / 2)) if hits < runs else 1.0
    return low, high
