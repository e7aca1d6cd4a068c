"""A ReLU network on MNIST: the rule on simulated outcomes, and one small run."""

import numpy as np
import pandas as pd
import pytest
import torch
from specs import changed, simulated

from dpnotes.experiments import Context
from dpnotes.papers.goldstein.experiments import mnist
from dpnotes.problems.datasets.dataset import Dataset


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


def test_a_lost_run_decides_nothing():
    frame = outcomes(0.2, 0.1)
    frame.loc[0, "finished"] = False
    assert "did not finish" in mnist.decide(frame, mnist.QUICK).reason


@pytest.mark.slow
def test_a_cell_runs(monkeypatch):
    draws = torch.Generator().manual_seed(0)
    images, labels = torch.rand(60, 784, generator=draws), torch.tensor([3, 5] * 30)
    pictures = Dataset("pictures", images, labels, images, labels, 10, "none", "drawn")
    monkeypatch.setattr(mnist, "load_mnist", lambda: pictures)
    mnist._pooled.cache_clear()
    changes = {"num_examples": 40, "num_steps": 80, "num_hidden": 2}
    spec = changed(mnist.QUICK, **changes)
    context = Context("cpu", 10**9)
    frame = pd.concat([pd.DataFrame(mnist.run_cell(spec, cell, context)) for cell in mnist.cells(spec)[:2]])
    mnist._pooled.cache_clear()
    assert frame["finished"].all()
    assert np.isfinite(frame[["train_loss", "norm"]]).all(axis=None)
    starts = frame[frame["window"] == 0]
    assert starts["train_loss"].nunique() == 1
    assert set(mnist.summary(frame)["window"]) == set(range(len(frame) // 2))
    assert context.spent[0]["rho"] == pytest.approx(context.spent[1]["rho"])
