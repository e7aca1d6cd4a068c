"""Experiments on a device: the same numbers as on a CPU, within their tolerances."""

import functools
import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import sentences
import torch
from pretend_device import PretendCuda
from test_device import LOOSER, TOLERANCE, assert_same, leaves, toy
from torch import Tensor

from dpnotes.cli.catalogue import all_experiments
from dpnotes.experiments import Context, Experiment, Spec, load
from dpnotes.experiments.spec import Cell
from dpnotes.papers.noisy_sgd.experiments import cifar10, finetuning
from dpnotes.papers.noisy_sgd.experiments.wells import WellParameters, parameters
from dpnotes.problems import text
from dpnotes.problems.architectures import resnet18
from dpnotes.problems.datasets.cola import Corpus, Sentences
from dpnotes.util import checks
from tests.shown import SHOWN

# ---------------------------------------------------------------- experiments
# Changes that make large cells small; dicts are merged into the spec's.
_NETWORK: dict[str, Any] = {
    "data": {"train": 40, "test": 20, "pixels": 16}, "epsilons": [1.0], "network": {"width": 2}, "batch_size": 10,
    "epochs": 1, "evaluate_every": 1, "statistics_batches": 2, "examples_at_once": 20, "repeats": 1,
}  # fmt: skip
_SENSING: dict[str, Any] = {
    "num_examples": 400, "num_products": 3,
    "DP-SGD": {"scales": [4], "batch": 0.1, "noise_multipliers": [10.0], "step_sizes": [0.1]},
    "fresh gradient": {"scales": [4], "step_sizes": [0.1]}, "drift escape": {"scales": [0.05], "step_sizes": [0.1]},
    "adaptive batch": {"scales": [0.2], "step_sizes": [0.1]},
}  # fmt: skip
SMALLER: dict[str, dict[str, Any]] = {
    "adaptive_batch.slopes": {
        "points": 2, "repeats": 1,
        "arms": {
            name: {"range": [0.1, 0.2]}
            for name in ("spider_sqrt", "private", "sampling", "spider", "tree_alone", "adaptive_alone")
        },
        "sweeps": {
            "d": {"range": [4.0, 8.0], "points": 2, "repeats": 1, "accuracy": 0.2},
            "epsilon": {"accuracy": 0.2, "points": 1, "repeats": 1},
        },
    },
    "adaptive_batch.necessity": {"accuracy": 0.1, "repeats": 2},
    "adaptive_batch.audit": {"runs": 2000},
    "budget_schedules.influence": {
        "num_examples": 100, "num_components": 10, "num_hidden": 20, "num_steps": [6], "probes": [0.0, 1.0],
        "output_scales": [5.0], "repeats": 2,
    },
    "budget_schedules.mnist35": {"num_components": 10, "num_hidden": 20, "num_steps": [3, 5]},
    "budget_schedules.momentum": {
        "num_components": 10, "num_hidden": 20, "num_examples": 60, "num_steps": 4, "auxiliary_repeats": 1,
    },
    "budget_schedules.subsampled": {
        "num_components": 10, "num_hidden": 20, "num_examples": 60, "num_steps": 4, "auxiliary_repeats": 1,
    },
    "budget_schedules.quadratic": {"max_num_steps": 20, "repeats": 5},
    "drift_escape.returned_point": {
        "psi": {"1/M": [0.1]}, "psi_of_attempts": {"theorem": [0.1]}, "psi_of_stops": 0.1, "repeats": 3,
        "repeats_of_attempts": 3, "repeats_of_stops": 3, "steps_at_most": 3, "Q": [2], "tilts": [0.1],
        "psi_of_hills": {"1/M": [0.1]}, "hills": [1.0], "repeats_of_hills": 3,
    },
    "drift_escape.clients": {"repeats": 3, "steps": 4, "clients": [1, 3]},
    "drift_escape.selection": {"sizes": [1e9], "dims": [8], "repeats": 2},
    "drift_escape.mnist_clients": {"repeats": 1, "clients": 2, "least_held": 200, "rounds": 3, "num_hidden": 4},
    "drift_escape.sharing": {
        "clients": [1, 2], "repeats": 2, "height": 4.0, "margin": {"clients": [1, 2], "height": 4.0, "repeats": 2},
    },
    "drift_escape.repeats": {"repeats": 3, "attempt_length": 4, "attempts": 3},
    "drift_escape.sensing": {
        "problems": {name: _SENSING for name in ("phase retrieval", "matrix sensing")} | {
            "digits": _SENSING | {"num_components": 10, "num_hidden": 6}
        },
        "tuning": 1, "repeats": 2,
    },
    "drift_escape.step_size": {"num_steps": 30, "repeats": 2},
    "goldstein.generalisation": {
        "population": 60, "points": 2, "steps": 2, "line": {"cells": 400, "sizes": [4], "repeats": 3},
        "phase retrieval": {"dims": [3], "sizes": [20], "repeats": 3},
    },
    "goldstein.sensitivity": {
        "repeats": 3, "estimates": {"dims": [4], "ratios": [1.0]},
        "increments": {"dim": 4, "ratios": [2.0], "moves": [1e-2]},
    },
    "goldstein.tree": {"periods": [5], "repeats": 3, "dim": 4},
    "goldstein.complexity": {
        "repeats": 2, "test_examples": 50, "one": {"dims": [4], "num_examples": [100]},
        "many": {"dims": [4], "num_examples": [60], "num_steps": 5},
    },
    "goldstein.orders": {
        "dims": [6], "ratios": [1.0], "num_steps": 5, "repeats": 2, "test_examples": 50,
        "increments": {"num_examples": 100},
    },
    "noisy_sgd.escape": {"growths": [0.5], "spreads": [1e-3], "runs": 5},
    "noisy_sgd.fraction": {"multiples": [1e-3], "repeats": 3},
    "noisy_sgd.lemma_3_2": {"num_steps": 30, "repeats": 3},
    "noisy_sgd.appendix_c": {"ratios": [1.0], "repeats": 1},
    **{f"noisy_sgd.{name}": _NETWORK for name in ("convnet", "convnet_clipped", "cola")},
    "noisy_sgd.resnet18": _NETWORK,
    "noisy_sgd.cifar100": _NETWORK | {"image_size": 32},
    "noisy_sgd.pretraining": _NETWORK | {"public": {"data": _NETWORK["data"], "epochs": 1}},
}  # fmt: skip
# Gradients of a ResNet amplify rounding by ten thousand and more: in float32 another CPU's convolutions change them by
# a percent, in float64 by 1e-12.
IN_FLOAT64 = {"noisy_sgd.cifar100", "noisy_sgd.resnet18"}
# Theorem 3.5's T, which is at least 1,200 in every spec: its alpha is at most 0.23 if the step size is 1/L.
NUM_STEPS = 20


def merged(value: Any, changes: Any) -> Any:
    if not isinstance(value, dict):
        return changes
    return {name: merged(part, changes[name]) if name in changes else part for name, part in value.items()}


def some_cells(experiment: Experiment) -> tuple[Spec, list[Cell]]:
    """Return the first cell of each kind in every stage, by the words in it; later stages use the stored result."""
    profile = "quick" if "quick" in experiment.specs else "paper"
    whole = experiment.spec(profile)
    spec = Spec(whole.paper, whole.experiment, whole.profile, merged(whole.parameters, SMALLER.get(experiment.id, {})))
    found: dict[str, Cell] = {}
    stages = [experiment.cells(spec)]
    stages += [stage(whole, load(experiment, profile).frame) for stage in experiment.stages]
    for cell in (cell for cells in stages for cell in cells):
        if experiment.id == "drift_escape.sensing":  # a stored choice that the smaller spec lacks
            cell = cell | {"scale": spec["problems"][cell["problem"]][cell["method"]]["scales"][0]}
        found.setdefault(str({name: value for name, value in cell.items() if isinstance(value, str)}), cell)
    return spec, list(found.values())


ALIKE = {"noisy_sgd.convnet_more", "noisy_sgd.convnet_lemma"}  # the code of convnet, with other numbers
EXPERIMENTS = {each.id: each for each in all_experiments() if each.paper in SHOWN and each.id not in ALIKE}
LOADERS = {
    "load_mnist": lambda: toy("mnist", (784,), 10, 2000, 100),
    "load_cifar10_jpeg": lambda: toy("cifar10-jpeg", (3, 32, 32), 10),
    "load_cifar100": lambda: toy("cifar100", (3, 8, 8), 100, 20, 10),
    "pretrained_resnet18": lambda: weights(),
}


def weights() -> dict[str, Tensor]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return finetuning.resnet18(7).state_dict()


def corpus() -> Corpus:
    words = ["dogs bark", "bark dogs the", "the cat sat", "sat sat the"]
    many = Sentences(tuple(f"{words[i % 4]} {i}." for i in range(40)), torch.arange(40) % 2)
    few = Sentences(many.texts[:6], many.labels[:6])
    return Corpus("toy", many, few, few, "none", "here")


@pytest.fixture
def toys(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    yield from toy_data(monkeypatch)


@pytest.fixture
def default_dtype(name: str) -> Iterator[None]:
    """Use the experiment's dtype as torch's default."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64 if name in IN_FLOAT64 else before)
    yield
    torch.set_default_dtype(before)


def toy_data(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Use toy data and weights in place of published ones in all modules of the experiments, and keep no trace.

    The ResNet, whose width no spec sets, has 8 channels instead of 64.
    """
    monkeypatch.setattr(finetuning, "resnet18", functools.partial(resnet18, width=8))
    ours = [module for name, module in sys.modules.items() if name.startswith("dpnotes.papers.")]

    def forget() -> None:
        for module in ours:
            for value in vars(module).values():
                if hasattr(value, "cache_clear"):
                    value.cache_clear()

    forget()
    for module in ours:
        for name, made in LOADERS.items():
            if hasattr(module, name):
                monkeypatch.setattr(module, name, made)
    for name in cifar10._LOADERS:
        monkeypatch.setitem(cifar10._LOADERS, name, LOADERS[f"load_{name.replace('-', '_')}"])

    def in_fewer_steps(*given: Any) -> WellParameters:
        return replace(parameters(*given), num_steps=NUM_STEPS)

    for module in ours:
        if getattr(module, "parameters", None) is parameters:
            monkeypatch.setattr(module, "parameters", in_fewer_steps)
    monkeypatch.setattr("dpnotes.problems.datasets.cola.load_cola", corpus)
    monkeypatch.setattr(text, "bert_tokenizer", lambda: sentences.character_tokenizer)
    monkeypatch.setattr(text, "pretrained_bert", lambda seed: sentences.random_bert(sentences.TINY_BERT, seed))
    yield
    forget()


@pytest.mark.slow
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_experiments(name: str, default_dtype: None, toys: None) -> None:
    experiment, launches = EXPERIMENTS[name], 0
    spec, cells = some_cells(experiment)
    for cell in cells:
        cpu, cuda, copy = Context("cpu", 10**10), Context("cuda", 10**10), json.dumps(cell)
        with PretendCuda(low_precision=False) as device:
            found = experiment.run_cell(spec, json.loads(copy), cuda)
            checks.settle()
        launches += device.launches
        if experiment.cpu_only:
            continue
        expected = experiment.run_cell(spec, json.loads(copy), cpu)
        coarsest = max((TOLERANCE[dtype] for dtype in device.dtypes & TOLERANCE.keys()), default=1e-10)
        assert_same(expected, found, coarsest * LOOSER.get(name, 1.0))
        assert_same(dict(leaves(cpu.spent)), dict(leaves(cuda.spent)))
    assert experiment.cpu_only == (not launches), "what the manifest says of the device"
