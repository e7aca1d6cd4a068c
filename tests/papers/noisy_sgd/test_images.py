"""Accuracy against epsilon: the rule on simulated outcomes, the epsilons, and every task end to end on tiny data."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from dpnotes.experiments import Context, Spec
from dpnotes.experiments.sweeps import grid
from dpnotes.papers.noisy_sgd.experiments import cifar10, curves, images
from dpnotes.papers.noisy_sgd.experiments.curves import Task
from dpnotes.problems.datasets.dataset import Dataset
from dpnotes.problems.modules import ModuleProblem
from dpnotes.random.streams import Streams
from dpnotes.train.norms import NORMS, ExampleNorms

TINY = {"batch_size": 10, "epochs": 2, "statistics_batches": 2, "norm_batches": 2, "examples_at_once": 20} | {
    "data": {"name": "toy", "classes": [0, 1], "train": 40, "test": 20, "pixels": 16}, "epsilons": [1.0], "repeats": 1,
    **dict.fromkeys(("evaluate_every", "checkpoint_every"), 1),
}  # fmt: skip


def tiny(experiment: str, profile: str = "paper", width: int = 2, **changes) -> Spec:
    """Return the spec of an image experiment with few small images and a narrow network."""
    spec = next(e for e in images.EXPERIMENTS if e.name == experiment).spec(profile)
    network = {**spec["network"], "width": width}
    return Spec("noisy_sgd", experiment, profile, {**spec.parameters, **TINY, "network": network, **changes})


def toy_images(classes: int = 2, pixels: int = 16) -> Dataset:
    drawn = Streams.of("toy images", [0]).normal("images", 0, 60 * 3 * pixels**2).view(60, 3, pixels, pixels).float()
    labels = torch.arange(60) % classes
    return Dataset("toy", drawn[:40], labels[:40], drawn[40:], labels[40:], classes, "none needed", "here")


def toy_task(spec: Spec, cell: dict) -> Task:
    return Task(cifar10.network(spec["network"], 2), toy_images())


def cell_of(spec: Spec, epsilon: float | None, task=toy_task, **context) -> dict:
    return curves.run(spec, {"repeat": 0, "epsilon": epsilon}, Context("cpu", 10**10, **context), task)


# ---------------------------------------------------------------- the rule
def outcome(accuracy, spec: Spec = images.CONVNET.specs["paper"], noise: float = 1e-3, repeats: int = 10):
    """Return a frame of accuracies by epsilon, with a little noise."""
    frame = pd.DataFrame(grid(repeat=range(repeats), epsilon=[*spec["epsilons"], math.inf], step=[100, 200]))
    scatter = noise * np.random.default_rng(0).normal(size=len(frame))
    reached = frame["epsilon"].map(accuracy) * frame["step"] / 200 + scatter
    return frame.assign(test_accuracy=reached, finished=True, norm_bound=2.5, **dict.fromkeys(NORMS, 0.0))


def rising(epsilon: float) -> float:
    return 0.9 - 0.02 / epsilon


@pytest.mark.parametrize(
    ("accuracy", "verdict", "said"),
    [
        (rising, "reproduced", "epsilon 0.125 to 8"),
        (lambda e: 0.9, "undecided", "epsilon 0.125 to 8"),  # neither gain nor loss
        (lambda e: 1.8 - rising(e), "not reproduced", "epsilon 0.125 to 8"),  # falling
        (lambda e: rising(e) - 0.1 * (e == 1.0), "not reproduced", "epsilon 0.5 to 1"),  # a local decrease
        (lambda e: rising(e) + 0.1 * (e == math.inf), "not reproduced", "epsilon inf to 4"),  # far below no privacy
        (lambda e: rising(e) + 0.045 * (e == math.inf), "undecided", "epsilon inf to 8"),  # at the margin
    ],
)
def test_the_rule(accuracy, verdict: str, said: str):
    noise = 2e-2 if verdict == "undecided" else 1e-3
    decision = curves.decide(outcome(accuracy, noise=noise), images.CONVNET.specs["paper"])
    assert decision.verdict == verdict and said in decision.reason


def test_a_single_repeat_and_much_scatter_decide_nothing():
    spec = images.CONVNET.specs["paper"]
    assert curves.decide(outcome(rising, repeats=1), spec).verdict == "undecided"
    assert curves.decide(outcome(rising, noise=0.1), spec).verdict == "undecided"


def test_closeness_is_asked_only_where_the_paper_claims_it():
    spec = images.CONVNET_LEMMA.specs["paper"]
    assert spec["close"] == [] and "without privacy" not in spec["decision_rule"]
    low = outcome(lambda e: rising(e) + 0.1 * (e == math.inf))
    assert curves.decide(low, spec).verdict == "reproduced"


# ---------------------------------------------------------------- the specs
def test_the_published_network_and_settings():
    spec = images.CONVNET.specs["paper"]
    assert sum(p.numel() for p in cifar10.network(spec["network"], 10).parameters()) == 2_274_880
    assert curves.steps_of(spec, 50_000) == (2328, 97)
    assert curves.norm_bound(spec, 50_000) == 2.5
    # Lemma 3.2 with all constants 1: 2 + sqrt(ln(T/delta)) + sqrt(ln(nT)) + sqrt(ln(1/delta)).
    logs = [math.log(2328 / 0.01), math.log(50_000 * 2328), math.log(100)]
    expected = 2 + sum(map(math.sqrt, logs))
    assert curves.norm_bound(images.CONVNET_LEMMA.specs["paper"], 50_000) == pytest.approx(expected)


# ---------------------------------------------------------------- the epsilons
class Sizes:
    """A stand-in with the attributes of a problem that `oracle_of` reads."""

    num_examples = 50_000
    keeps_examples_apart = True
    gradients = take = None

    def augmented(self, streams: Streams, calls: torch.Tensor) -> "Sizes":
        return self


@pytest.mark.slow
@pytest.mark.parametrize(("nominal", "poisson"), [(1.0, 1.18), (8.0, 848.7)])
def test_nominal_epsilons_of_the_paper_are_not_the_accounted_ones(nominal: float, poisson: float):
    spec = images.CONVNET.specs["paper"]
    oracle = curves.oracle_of(spec, nominal, Sizes())  # type: ignore[arg-type]
    assert float(oracle.noise_std[0]) == pytest.approx(2.5 * math.sqrt(2328 * math.log(100)) / (50_000 * nominal))
    state = oracle.init(torch.zeros(1, 1))
    (guarantee,) = oracle.guarantee(state, 0.01, Streams.of(0, ["a"]))
    found = curves.accounted(oracle, guarantee)
    assert found["accounted_poisson"] == pytest.approx(poisson, rel=5e-3)
    assert found["accounted"] > found["accounted_poisson"] > nominal


@pytest.mark.parametrize("epsilon", [0.125, 8.0])
@pytest.mark.slow
def test_the_clipped_family_is_as_private_as_it_says(epsilon: float):
    spec = images.CONVNET_CLIPPED.specs["paper"]
    oracle = curves.oracle_of(spec, epsilon, Sizes())  # type: ignore[arg-type]
    (guarantee,) = oracle.guarantee(oracle.init(torch.zeros(1, 1)), 0.01, Streams.of(0, ["a"]))
    found = curves.accounted(oracle, guarantee)
    assert oracle.clipped and guarantee.holds
    assert 0.999 * epsilon < found["accounted"] == found["accounted_poisson"] <= epsilon
    less = replace(oracle, noise_std=oracle.noise_std * 0.95)
    (control,) = less.guarantee(less.init(torch.zeros(1, 1)), 0.01, Streams.of(0, ["a"]))
    assert control.epsilon > epsilon


# ---------------------------------------------------------------- end to end
@pytest.mark.slow
@pytest.mark.parametrize("experiment", ["convnet", "convnet_clipped"])
def test_a_cell_of_each_family(experiment: str, tmp_path: Path):
    spec = tiny(experiment)
    path = tmp_path / "cell.pt"
    context = Context("cpu", 10**10, checkpoint=path)
    columns = curves.run(spec, {"repeat": 0, "epsilon": 1.0}, context, toy_task)
    assert columns["step"].tolist() == [4, 8] and columns["epoch"].tolist() == [1.0, 2.0]
    assert columns["finished"] and columns["noise_std"] > 0 and not path.exists()
    assert columns["enforced"] == (experiment == "convnet_clipped")
    assert np.isfinite(columns["train_loss"]).all() and (0 <= columns["test_accuracy"]).all()
    (spent,) = context.spent
    assert spent["rho"] > 0 and spent["nominal"] == 1.0 and spent["relation"]
    assert len(context.notes) == 2
    plain = cell_of(spec, None)
    assert plain["epsilon"] == math.inf and plain["noise_std"] == 0 and not plain["enforced"]
    assert plain["accounted"] == plain["accounted_poisson"] == math.inf


@pytest.mark.slow
def test_a_cell_goes_on_where_it_was_interrupted(tmp_path: Path):
    spec, path = tiny("convnet"), tmp_path / "cell.pt"

    class Killed(Exception):
        pass

    class Watched(list):
        def append(self, line: str) -> None:
            super().append(line)
            if line.startswith("step 8/"):
                raise Killed

    with pytest.raises(Killed):
        cell_of(spec, 1.0, checkpoint=path, notes=Watched())
    assert path.exists()
    lines: list[str] = []
    resumed = cell_of(spec, 1.0, checkpoint=path, notes=lines)
    assert [line[:8] for line in lines] == ["step 8/8"]
    whole = cell_of(spec, 1.0)
    for name in whole:
        np.testing.assert_array_equal(resumed[name], whole[name])


# ---------------------------------------------------------------- norms of gradients
def test_norms_are_those_of_each_example_alone_with_the_statistics_of_its_batch_held():
    data, bound = toy_images(), 1.0
    module = torch.nn.Sequential(
        torch.nn.Conv2d(3, 2, 3, bias=False), torch.nn.BatchNorm2d(2), torch.nn.Flatten(), torch.nn.Linear(2 * 14**2, 2)
    ).double()
    inputs, labels, batches = data.train_inputs.double(), data.train_labels, torch.arange(20).view(2, 10)
    problem = ModuleProblem(module, inputs, labels)
    x = problem.initial(Streams.of("norms", [0, 1]))
    found = ExampleNorms(module, inputs, labels, batches, bound).measure(x)
    conv, _, _, linear = module
    for run, point in enumerate(x):
        values = {name: value[run] for name, value in problem.parameters(x).items()}
        lengths, means = [], []
        for batch in batches:
            seen = torch.nn.functional.conv2d(inputs[batch], values["0.weight"])
            held = {"0": conv, "1": torch.nn.BatchNorm2d(2).double().eval(), "3": linear}
            held["1"].running_mean = seen.mean((0, 2, 3))
            held["1"].running_var = seen.var((0, 2, 3))
            alone = torch.nn.Sequential(held["0"], held["1"], torch.nn.Flatten(), linear)
            for example in batch:
                leaves = {name: value.clone().requires_grad_() for name, value in values.items()}
                outputs = torch.func.functional_call(alone, leaves, (inputs[example][None],))
                loss = torch.nn.functional.cross_entropy(outputs, labels[example][None])
                own = torch.autograd.grad(loss, list(leaves.values()))
                lengths.append(torch.cat([gradient.flatten() for gradient in own]).norm())
            mean = problem.gradients(point[None], batch[None]).weighted_sum(torch.full((1, 10), 0.1).double())
            means.append(mean.norm())
        lengths = torch.stack(lengths)
        expected = [
            *torch.quantile(lengths, torch.tensor([0.5, 0.99, 1.0]).double()),
            (lengths > bound).double().mean(),
        ]
        torch.testing.assert_close(found[run], torch.stack([*expected, max(means)]), rtol=1e-6, atol=1e-9)
    assert (found[:, 4] < found[:, 2]).all() and (found[:, 3] > 0).any()
    mixed = ModuleProblem(module, inputs, labels)  # control: the module still mixes examples
    assert mixed.mixes_examples and module[1].momentum == 0.1


def test_without_batch_normalisation_norms_are_the_problems():
    data, module = toy_images(), torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 16**2, 2))
    problem = ModuleProblem(module, data.train_inputs, data.train_labels)
    x = problem.initial(Streams.of("norms", [0]))
    found = ExampleNorms(module, data.train_inputs, data.train_labels, torch.arange(40).view(4, 10), 5.0, 7).measure(x)
    norms = problem.gradients(x).norms()[0]
    expected = [torch.quantile(norms, 0.5), norms.max(), (norms > 5.0).float().mean()]
    torch.testing.assert_close(found[0, [0, 2, 3]], torch.stack(expected), rtol=1e-5, atol=0)


# ---------------------------------------------------------------- pretrained networks
def test_what_diverged_is_not_finished():
    columns = cell_of(tiny("convnet", step_size=1e38), None)
    assert not columns["finished"]
