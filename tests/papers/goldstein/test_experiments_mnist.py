"""A ReLU network on MNIST: the rule on simulated outcomes."""

import numpy as np
import pandas as pd
import pytest
from specs import simulated

from dpnotes.papers.goldstein.experiments import mnist


def outcomes(loss: float, norm: float) -> pd.DataFrame:
    """Return simulated runs with these differences of variance-reduced minus plain, with a little noise."""
    frame, draws = simulated(mnist), 0.01 * np.random.default_rng(0).normal(size=(2, 2 * mnist.QUICK["repeats"]))
    reduced = frame["method"] == "variance_reduced"
    return frame.assign(train_loss=0.5 + loss * reduced + draws[0], norm=0.3 + norm * reduced + draws[1])


@pytest.mark.parametrize(
    ("loss", "norm", "verdict"),
    [(0.2, 0.1, "reproduced"), (0.2, 0.0, "undecided"), (-0.2, 0.1, "not reproduced"), (0.2, -0.1, "not reproduced")],
)
def test_the_rule(loss, norm, verdict):
    found = mnist.decide(outcomes(loss, norm), mnist.QUICK)
    assert found.verdict == verdict, found
