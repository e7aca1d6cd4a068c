"""Pretraining: the rule on made-up outcomes, what the starts have in common, and whose epsilon is true."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from dpnotes.experiments import Context, Spec
from dpnotes.papers.noisy_sgd.experiments import cifar10, pretraining
from dpnotes.problems.datasets.dataset import Dataset
from dpnotes.problems.modules import ModuleProblem
from dpnotes.random.streams import Streams

QUICK, CPU = pretraining.SPECS


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> Spec:
    """A spec of few small images, which are drawn."""
    drawn = Streams.of("toy images", [0]).normal("images", 0, 120 * 3 * 16**2).view(120, 3, 16, 16).float()
    labels = torch.arange(120) % 4
    toy = Dataset("toy", drawn[:80], labels[:80], drawn[80:], labels[80:], 4, "none needed", "here")
    monkeypatch.setitem(cifar10._LOADERS, "toy", lambda: toy)
    sizes = {"name": "toy", "train": 40, "test": 20, "pixels": 16}
    public = {"data": {**sizes, "classes": [0, 1]}, "epochs": 1}
    small = {"network": {**QUICK["network"], "width": 2}, "batch_size": 10, "epochs": 2, "epsilons": [0.125]}
    changes = {"data": {**sizes, "classes": [2, 3]}, "public": public, "repeats": 1, **small}
    return Spec("noisy_sgd", "pretraining", "quick", {**QUICK.parameters, **changes})


def cell(start: str, epsilon: float | None = None, clipped: bool = False) -> dict:
    return {"repeat": 0, "start": start, "clipped": clipped, "epsilon": epsilon}


# ---------------------------------------------------------------- the rule
def outcome(lost: dict[str, float], noise: float = 1e-3) -> pd.DataFrame:
    """Return a frame in which each start loses so much at epsilon 1/8, without clipping, and nothing otherwise."""
    frame = pd.DataFrame(pretraining.cells(CPU)).rename(columns={"clipped": "enforced"})
    small = (frame["epsilon"] == 0.125) & ~frame["enforced"]
    accuracy = 0.6 - frame["start"].map(lost) * small + noise * np.random.default_rng(0).normal(size=len(frame))
    frame["epsilon"] = frame["epsilon"].fillna(math.inf).astype(float)
    return frame.assign(step=1, finished=True, gradient_above=0.25, test_accuracy=accuracy)


@pytest.mark.parametrize(
    ("pretrained", "untrained", "whole", "verdict"),
    [
        (0.01, 0.1, 0.1, "reproduced"),
        (0.1, 0.1, 0.1, "not reproduced"),  # it does not hold with pretraining
        (0.01, 0.01, 0.1, "not reproduced"),  # it holds with untrained layers, too
        (0.01, 0.1, 0.01, "not reproduced"),  # it holds for the whole network, too
        (0.045, 0.1, 0.1, "undecided"),  # near the limit
    ],
)
def test_the_rule(pretrained: float, untrained: float, whole: float, verdict: str):
    noise = 0.01 if verdict == "undecided" else 1e-3
    frame = outcome({"pretrained": pretrained, "untrained": untrained, "whole": whole}, noise)
    assert pretraining.decide(frame, CPU).verdict == verdict


def test_losses_are_paired_within_a_repeat():
    frame = outcome({"pretrained": 0.02, "untrained": 0.1, "whole": 0.3}, noise=0.0)
    frame["test_accuracy"] += 0.01 * frame["repeat"]  # of which no difference within a repeat knows
    table = pretraining.losses(frame.sample(frac=1, random_state=0)).set_index(["start", "clipped", "epsilon"])
    assert table.loc[("pretrained", False, 0.125), ["lost", "low", "high"]].tolist() == pytest.approx([0.02] * 3)
    others = table.drop([(start, False, 0.125) for start in ("pretrained", "untrained", "whole")])
    assert others["lost"].abs().max() < 1e-12
    assert set(table["runs"]) == {8} and len(table) == 2 * 2 * 4 + 1


# ---------------------------------------------------------------- the runs
def test_starts_differ_in_the_first_layers_alone_and_only_pretraining_changes_those(tiny: Spec):
    pretrained, untrained = (pretraining.task(tiny, cell(start)) for start in ("pretrained", "untrained"))
    start = [
        ModuleProblem(made.module, made.data.train_inputs, made.data.train_labels).initial(Streams.of(0, [0]))
        for made in (pretrained, untrained)
    ]
    assert torch.equal(*start) and torch.equal(pretrained.data.train_labels, untrained.data.train_labels)
    assert not torch.equal(pretrained.data.train_inputs, untrained.data.train_inputs)
    drawn = pretraining.first_layers(tiny, 0, pretrained=False)
    images = cifar10.task(tiny, {}).data.train_inputs
    torch.testing.assert_close(untrained.data.train_inputs, drawn(images))
    whole = pretraining.task(tiny, cell("whole")).module
    shapes = [p.shape for p in whole.parameters()]
    assert shapes == [p.shape for part in (drawn, untrained.module) for p in part.parameters()]
    assert not torch.equal(*(next(pretraining.first_layers(tiny, r, False).parameters()) for r in (0, 1)))


def test_clipping_is_all_that_differs_and_only_with_it_the_guarantee_is_more_than_an_assumption(tiny: Spec):
    made = pretraining.task(tiny, cell("untrained"))
    problem = ModuleProblem(made.module, made.data.train_inputs, made.data.train_labels)
    clipped, free = (pretraining.oracle_of(tiny, 0.125, problem, clips) for clips in (True, False))
    assert clipped.clipped and not free.clipped
    assert replace(free, clipped=True, noise_std=clipped.noise_std) == replace(clipped, noise_std=clipped.noise_std)
    assert torch.equal(clipped.noise_std, free.noise_std)
    bases = []
    for oracle in (clipped, free):
        state = oracle.init(torch.zeros(1, problem.dim))
        (guarantee,) = oracle.guarantee(state, tiny["delta"], Streams.of(0, ["a"]))
        assert 0.124 < guarantee.nominal_epsilon <= 0.125
        bases.append([one.basis for one in guarantee.assumptions if "gradient" in one.statement])
    assert "enforced" in bases[0] and "enforced" not in bases[1] and "assumed" in bases[1]
    plain = pretraining.oracle_of(tiny, None, problem, False)
    assert not plain.clipped and float(plain.noise_std[0]) == 0 and plain.sampling == free.sampling


@pytest.mark.parametrize("start", ["pretrained", "whole"])
def test_a_cell_end_to_end(tiny: Spec, start: str):
    context = Context("cpu", 10**10)
    columns = pretraining.run_cell(tiny, cell(start, 0.125, clipped=start == "pretrained"), context)
    assert columns["start"] == start and columns["finished"] and columns["enforced"] == (start == "pretrained")
    assert columns["step"].tolist() == [8] and 0.124 < columns["accounted"] <= 0.125
    (spent,) = context.spent
    assert spent["bound"] == ("enforced" if start == "pretrained" else "assumed") and spent["sampling"] == "poisson"
