"""Invalid numbers are refused by name, for every number of every public callable, found by inspection.

A callable is called as in its example, with one argument replaced: by NaN, infinities, -0.0, 0, a negative number, a
bool, a string, an integer beyond any computer's, None and tensors. The result must be a one-line error that names the
argument and its value, or, if the value may be valid, an answer without NaN. A new public callable that takes a number
is tested too: its numbers have usual values, and the test fails if another argument has no example.
"""

import dataclasses
import importlib
import inspect
import itertools
import math
import pkgutil
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, get_args, is_typeddict

import numpy as np
import pytest
import torch
from torch import Tensor

import dpnotes
from dpnotes import papers
from dpnotes.core import FRESH, WHOLE, Guarantee, Ledger, Mechanism, Method, Oracle, Price, Problem, Relation, Sampling
from dpnotes.methods.descent import Descent
from dpnotes.oracles.blocks import Blocks
from dpnotes.oracles.clipped import ClippedGradient
from dpnotes.oracles.fresh import FreshGradient
from dpnotes.oracles.minibatch import MinibatchGradient
from dpnotes.oracles.samples import FreshData, Samples, VirtualSamples
from dpnotes.oracles.spider import BatchSizes, Refresh, Spider
from dpnotes.papers.adaptive_batch.algorithms import practical as adaptive_practical
from dpnotes.papers.drift_escape.algorithms import Escape, practical_escape
from dpnotes.papers.drift_escape.algorithms import practical as escape_practical
from dpnotes.papers.drift_escape.derivatives import VirtualDerivatives
from dpnotes.papers.drift_escape.selection import GradientAndHessian, Selection
from dpnotes.papers.goldstein.algorithms import GoldsteinParameters as GoldsteinParameters
from dpnotes.papers.goldstein.algorithms import single_pass as goldstein_choice
from dpnotes.privacy import pld
from dpnotes.privacy.accounting import rho_to_epsilon
from dpnotes.privacy.audit import GaussianPair, MixturePair, ScaledPair, epsilon_from_counts
from dpnotes.privacy.calibration import tree_std
from dpnotes.privacy.events import Event
from dpnotes.privacy.factorisation import factors, noise_of_sums
from dpnotes.privacy.mechanisms import Gaussian
from dpnotes.privacy.museum import exhibits
from dpnotes.privacy.museum.releases import answers
from dpnotes.privacy.noise import FixedNoise, NoisePlan
from dpnotes.privacy.schedules import uniform
from dpnotes.problems.custom import CustomProblem
from dpnotes.problems.datasets.cola import Corpus, Sentences
from dpnotes.problems.datasets.dataset import Dataset, gaussian_like
from dpnotes.problems.landscapes import Reflected
from dpnotes.problems.modules import ModuleProblem
from dpnotes.problems.quadratics import Quadratic, log_spectrum
from dpnotes.problems.saddles import PopulationSensing
from dpnotes.problems.sensing import QuadraticSensing
from dpnotes.problems.separable import Cosine, Separable, Sine
from dpnotes.problems.text import TINY_BERT, character_tokenizer
from dpnotes.problems.virtual import VirtualData
from dpnotes.random.streams import Streams
from dpnotes.train.loop import Evaluation
from dpnotes.train.noise import NoiseChoice
from dpnotes.train.plan import TrainingPlan
from dpnotes.util.validate import AtLeastOne, Positive, checked
from tests.points import drawn

# Callables whose arguments no user types; their callers have checked them.
NOT_DOORS = {
    **dict.fromkeys(
        (f"dpnotes.random.{name}" for name in ("draws", "reference", "cpu_kernel", "gpu_kernel", "secret")),
        "kernels, which `Streams` calls",
    ),
    "dpnotes.experiments": "pieces of the runner; the command line and the specs are its doors",
    "dpnotes.util.files": "what is written and sealed, of the cache, the runner and `checkpoint`",
    "dpnotes.oracles.asks": "what an oracle hands to its `Releases`",
    "dpnotes.oracles.release": "what an oracle hands to its `Releases`; the oracles are the doors",
    "dpnotes.notebook": "pictures and cells of our notebooks",
    "dpnotes.theory": "algebra in sympy; its door for numbers is `Calculator`, below",
    "dpnotes.util.validate": "the validators themselves",
    "dpnotes.privacy.museum.releases": "exhibits, of a few lines each",
}
# Values that one part passes to another at every step or product; their maker has checked them.
INSIDE = (
    "core.Sensitive",
    "cli.console.counted",
    "cli.doctor.Finding",
    "util.files.write",
    "cli.gpu.session",  # which asks for a GPU; its minutes are tested in test_gpu.py
    "measure.lanczos.Tridiagonal",
    "measure.goldstein.GoldsteinCertificate",
    "measure.stationarity.Certificate",
    "util.per_run.rows",
    "oracles.blocks.Blocks.clients",
    "oracles.blocks.Blocks.named",
    "oracles.blocks.Blocks.sum",
    "oracles.blocks.Node",
    "oracles.blocks.tree_sum",
    "oracles.blocks.whole_nodes",
    "oracles.clients.ClientsPlan",
    "oracles.holdings.HeldExamples",
    "oracles.samples.DataSetBatch",
    "oracles.samples.DataSetBatch.mean",
    "oracles.samples.shuffled",
    "oracles.smoothed.SmoothedSamples.num_directions",
    "oracles.smoothed.in_ball",
    "oracles.smoothed.on_sphere",
    *(f"oracles.{name}.bounds" for name in ("clipped.ClippedGradient", "fresh.FreshGradient")),
    *(f"oracles.{name}.bounds" for name in ("minibatch.MinibatchGradient", "spider.Spider")),
    "papers.drift_escape.derivatives.ExampleDerivatives.mean",
    "papers.drift_escape.selection.GradientAndHessian.bounds",
    "papers.drift_escape.derivatives.VirtualDerivatives.mean",
    "papers.drift_escape.derivatives.apart_again",
    "papers.drift_escape.derivatives.with_triangle",
    "util.processes.ProcessLost",
    "util.processes.Together",  # asks the launcher; its timeout is tested in oracles/test_clients.py
    "privacy.museum.collection.gaussian_claim",
    "privacy.museum.collection.numbers",
    "privacy.mechanisms.check_answer",
    "privacy.mechanisms.check_release",
    "privacy.mechanisms.is_exact",
    "privacy.mechanisms.noisy_on_grid",
    "privacy.mechanisms.price_of",
    "privacy.mechanisms.says_gaussian",  # returns False for anything else
    "privacy.mechanisms.shared",
    "privacy.sums.check_shared",
    "privacy.sums.check_sum",
    "privacy.sums.unpriced",
    "problems.augmentation.Augmentation",
    "problems.closed.closed",
    "problems.closed.closed_loss",
    "problems.closed.compare_losses",
    "problems.closed.stand_ins",
    "problems.datasets.Location",
    "problems.examples.rows",
    "problems.examples.check",
    "problems.examples.check_points",
    "problems.factors.Lookups",
    "problems.landscapes.check_points",
    "problems.nonsmooth.check_many_points",
    "problems.module_data.ModuleData",
    "problems.passes.Passes",
    "problems.text.pretrained_bert",  # like random_bert, from a file
)
NUMBER = re.compile(r"\b(int|float)\b")


def modules() -> Iterator[ModuleType]:
    for found in pkgutil.walk_packages(dpnotes.__path__, "dpnotes."):
        # A paper's inner functions, and its references: a check in one of them would be a line outside the algorithm.
        inner = ".papers." in found.name and re.search(r"\.(experiments|claims|reference)\b", found.name)
        if found.name.endswith("__main__") or inner or found.name.startswith(tuple(NOT_DOORS)):
            continue
        yield importlib.import_module(found.name)


def callables() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield all public functions, classes and methods by name, from the module that defines them."""
    for module in modules():
        for name, value in vars(module).items():
            if name.startswith("_") or getattr(value, "__module__", None) != module.__name__:
                continue
            whole = f"{module.__name__.removeprefix('dpnotes.')}.{name}"
            if inspect.isfunction(inspect.unwrap(value)):
                yield whole, value
            elif inspect.isclass(value) and not issubclass(value, BaseException) and not _without_calls(value):
                yield whole, value
                bases = [base for base in reversed(value.__mro__) if base.__module__.startswith("dpnotes.")]
                for method, function in {name: f for base in bases for name, f in vars(base).items()}.items():
                    plain = getattr(function, "__func__", function)
                    written = inspect.isfunction(plain) and not getattr(plain, "__isabstractmethod__", False)
                    if not method.startswith("_") and written:
                        yield f"{whole}.{method}", getattr(value, method)


def _without_calls(value: type) -> bool:
    return bool(getattr(value, "_is_protocol", False)) or is_typeddict(value)


def annotations_of(function: Callable[..., Any]) -> dict[str, str]:
    """Return the arguments with their annotations, without the parts in brackets."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:  # a class made in C, such as an enumeration
        return {}
    return {p.name: re.sub(r"\[.*\]", "", inspect.formatannotation(p.annotation)) for p in parameters}


def numbers_of(function: Callable[..., Any]) -> dict[str, str]:
    """Return the arguments that are numbers."""
    return {name: found for name, found in annotations_of(function).items() if NUMBER.search(found)}


# ---------------------------------------------------------------- how each of them is called
def zeros(*shape: int) -> Tensor:
    return torch.zeros(*shape, dtype=torch.float64)


def data(dim: int = 4) -> VirtualData:
    return VirtualData(Separable([(Cosine(1.0), dim)]), Separable([(Sine(0.5), dim)]))


def quadratic() -> Quadratic:
    return Quadratic.sample(torch.tensor([1.0, 0.1]), num_examples=20, spread=0.5, seed=0)


def images() -> Dataset:
    return gaussian_like(12, 4, num_classes=2, seed=0)


def module_problem() -> ModuleProblem:
    return ModuleProblem(torch.nn.Linear(4, 2), images().train_inputs, images().train_labels)


def image_problem() -> ModuleProblem:
    network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(16, 2))
    return ModuleProblem(network, torch.ones(3, 1, 4, 4), torch.tensor([0, 1, 1]))


def spider() -> Spider:
    budget = torch.tensor([2.0, 2.0], dtype=torch.float64)
    refresh, batches = Refresh.squared_moves(0.5), BatchSizes(10_000, 1000)
    return Spider(VirtualSamples(data(), 10**9), Gaussian(), 5.0, budget, refresh, batches, 2.0, 2.0)


def question() -> Selection:
    return Selection(0.1, 4, (30, 30), 2, 1.0, 1e-5, gradient_bound=1.0, smoothness=1.0, hessian_lipschitz=1.0)


def curved(num_clients: int = 1) -> GradientAndHessian:
    """Return derivatives of bowls for two runs."""
    rows = 2 * num_clients
    return GradientAndHessian.of(VirtualDerivatives(data(), torch.full((rows,), 30), zeros(rows, 4)), question())


def kinks() -> CustomProblem:
    return CustomProblem(lambda x, a: (x - a).norm(), 2, torch.linspace(0, 1, 200).view(100, 2))


def goldstein() -> GoldsteinParameters:
    return goldstein_choice(100, 2, 1.0, 1e-5, radius=1.0, lipschitz=1.0, initial_gap=1.0, largest_move=0.2)


def minibatch(problem: Any = None) -> MinibatchGradient:
    problem = quadratic() if problem is None else problem
    whole = Sampling.fixed_size(4, problem.num_examples)
    return MinibatchGradient(problem, whole, torch.ones(2, dtype=torch.float64), 1.0, 2, clipped=True)


def fresh() -> FreshGradient:
    return FreshGradient(data(), 10, torch.ones(2, dtype=torch.float64), 1.0, 2)


def pair() -> GaussianPair:
    return GaussianPair(zeros(2), torch.ones(2), 2 * torch.eye(2))


def mixture() -> MixturePair:
    return MixturePair(np.array([[0.0, 1.0], [0.5, 0.5]]), np.array([[0.0], [1.0]]), 1.0)


def escape() -> Escape:
    return practical_escape(0.2, smoothness=1.0, hessian_lipschitz=1.0, risk_range=1.0)


def ledger() -> Ledger:
    return Ledger([Price(torch.tensor([2.0]), torch.tensor([True]), Relation.ZERO_OUT)])


def eigenvalue_question() -> dict[str, Any]:
    spectrum = torch.linspace(-0.5, 1, 30, dtype=torch.float64)
    return {"hvp": lambda v: spectrum * v, "dim": 30, "num_products": 8, "failure_probability": 0.01}


# The value of an argument with this name, unless an example gives another one; other numbers are `usual_number`'s.
USUAL: dict[str, Callable[[], Any]] = {
    "accountant": lambda: "exact Gaussian",
    "accuracy": lambda: 0.04,
    "alpha": lambda: 0.2,
    "batch_size": lambda: 10,
    "clip": lambda: 1.0,
    "data": data,
    "delta": lambda: 1e-5,
    "divisor": lambda: 10.0,
    "epsilon": lambda: 1.0,
    "events": lambda: [Event(10.0, Relation.ZERO_OUT)],
    "gamma": lambda: 0.9,
    "gradient_bound": lambda: 1.0,
    "gradient_norms": lambda: torch.tensor([[0.3, 0.1]]),
    "hessian_lipschitz": lambda: 1.0,
    "initial_gap": lambda: 1.0,
    "ledger": ledger,
    "level": lambda: 0.01,
    "max_leaves": lambda: 8,
    "momentum": lambda: 0.5,
    "noise_multiplier": lambda: 1.0,
    "noise_std": lambda: 1.0,
    "norm_bound": lambda: 1.0,
    "num_classes": lambda: 2,
    "num_examples": lambda: 20,
    "num_steps": lambda: 3,
    "origin": lambda: "by hand",
    "problem": quadratic,
    "purpose": lambda: "test",
    "radius": lambda: 1.0,
    "relation": lambda: Relation.REPLACE_ONE,
    "rho": lambda: 0.5,
    "run": lambda: 0,
    "runs": lambda: 20,
    "sampling": lambda: WHOLE,
    "seed": lambda: 0,
    "smallest_eigenvalues": lambda: torch.tensor([[1.0, 0.5]]),
    "smoothness": lambda: 1.0,
    "step_size": lambda: 0.1,
    "streams": lambda: Streams.of(0, ["a", "b"]),
    "threshold": lambda: 0.1,
    "x": lambda: torch.ones(2, 2),
    "call": lambda: 0,
    "size": lambda: 4,
}
RATES = {"hit_rate": 0.9, "false_hit_rate": 0.1}
SENTENCES = Sentences(("Go on.",), torch.tensor([1]))
SIZES: dict[str, Any] = {"gradient_bound": 1.0, "smoothness": 1.0, "hessian_lipschitz": 1.0}
SEARCH = {"alpha": 0.01, "norm_bound": 1.0, "num_examples": 10**6, "num_candidates": 3}

# Further or other arguments of particular callables.
NOTHING = Guarantee(0.0, 1e-5, Relation.REPLACE_ONE, "nothing released")
EXAMPLES: dict[str, Callable[[], dict[str, Any]]] = {
    "core.Constant": lambda: {"basis": "proved", "where": "here"},
    "core.Price": lambda: {"noise_multiplier": torch.ones(1), "charged": torch.tensor([True])},
    "guarantees.Assumption": lambda: {"statement": "numbers are real", "basis": "assumed"},
    "guarantees.assumptions_of_runs": lambda: {"secret_seed": False},
    "measure.lanczos.lanczos": lambda: {
        "hvp": eigenvalue_question()["hvp"],
        "start": torch.ones(2, 30, dtype=torch.float64),
        "product_error": 1e-12,
    },
    "measure.curvature.smallest_eigenvalue": lambda: eigenvalue_question() | {"smoothness": 1.0, "tolerance": 1e-3},
    "measure.curvature.spectral_norm": eigenvalue_question,
    "measure.stationarity.certify_sosp": lambda: eigenvalue_question() | {"gradient_norm": zeros(2), "smooth": True},
    "measure.curvature.Interval": lambda: {"lower": zeros(2), "upper": zeros(2)},
    "measure.goldstein.certify_goldstein": lambda: {"gradient": torch.sign, "num_rounds": 2},
    "measure.goldstein.norm_of_distance": lambda: {"distance": torch.arange(3.0)},
    "measure.goldstein.norm_of_max": lambda: {"slopes": torch.eye(2), "offsets": torch.zeros(2), "x": torch.ones(2)},
    "methods.drift_escape.DriftEscape": lambda: {"attempt_length": 5, "attempts": 8},
    "methods.loop.drive": lambda: {
        "method": Descent(0.1),
        "oracle": minibatch(),
        "state": Descent(0.1).init(torch.ones(2, 2), minibatch()),
        "max_steps": 2,
    },
    "methods.loop.run": lambda: {
        "method": Descent(0.1),
        "oracle": minibatch(),
        "x": torch.ones(2, 2),
        "max_steps": 2,
    },
    "methods.online_to_nonconvex.OnlineToNonconvex": lambda: {"largest_move": 0.1, "window": 3},
    "methods.spider_descent.StochasticSpider": lambda: {"window": 5.0, "perturbation": 0.1},
    "oracles.batches.draw": lambda: {"sampling": Sampling.poisson(0.5), "call": torch.tensor([0, 1])},
    "oracles.clients.Clients": lambda: {"oracles": (spider(),), "blocks": Blocks(2, 2), "num_runs": 1},
    "oracles.clients.Clients.of": lambda: {"oracle_of": lambda _: spider(), "blocks": Blocks(2, 2), "num_runs": 1},
    "oracles.clients.Clients.claims": lambda: {
        "state": instance("oracles.clients.Clients").init(zeros(1, 4)),
        "streams": Streams.of(0, ["a"]),
    },
    "oracles.clients.Clients.guarantee": lambda: {
        "state": instance("oracles.clients.Clients").init(zeros(1, 4)),
        "streams": Streams.of(0, ["a"]),
    },
    "oracles.holdings.dirichlet_split": lambda: {"labels": torch.arange(20) % 2},
    "oracles.holdings.ClientSamples": lambda: {"holdings": (torch.arange(5),), "clients": torch.zeros(2).long()},
    "oracles.holdings.ClientSamples.of": lambda: {"holdings": [torch.arange(5)], "num_runs": 2},
    "oracles.holdings.TiltedSamples": lambda: {"samples": VirtualSamples(data(), 10**9), "tilts": zeros(2, 4)},
    "oracles.clipped.ClippedGradient": lambda: {
        "noise": FixedNoise.of([uniform(0.2, 5)] * 2),
        "relation": Relation.ZERO_OUT,
    },
    "oracles.clipped.ClippedGradient.guarantee": lambda: {
        "state": instance("oracles.clipped.ClippedGradient").init(zeros(2, 2))
    },
    "oracles.fresh.FreshGradient": lambda: {"noise_std": torch.ones(2, dtype=torch.float64)},
    "oracles.fresh.FreshGradient.guarantee": lambda: {"state": fresh().init(zeros(2, 4))},
    "oracles.minibatch.MinibatchGradient.guarantee": lambda: {"state": minibatch().init(zeros(2, 2))},
    "oracles.minibatch.MinibatchGradient": lambda: {"noise_std": torch.ones(2, dtype=torch.float64)},
    "oracles.samples.VirtualSamples": lambda: {"total": 10**9},
    "oracles.smoothed.SmoothedSamples": lambda: {"directions": 3, "problem": kinks()},
    "oracles.spider.Refresh": lambda: {"longest": 5},
    "oracles.spider.BatchSizes": lambda: {"first": 100.0},
    "oracles.spider.Spider": lambda: {
        name: getattr(spider(), name) for name in ("samples", "mechanism", "budget", "refresh", "batches")
    },
    "oracles.spider.Spider.guarantee": lambda: {"state": spider().init(zeros(2, 4))},
    "papers.adaptive_batch.algorithms.AdaptiveBatchParameters": lambda: {
        "drift_threshold": 1.0,
        "first_batch": 100.0,
        "batch_per_gradient": 10.0,
        "window": 5.0,
        "perturbation": 0.1,
    },
    "papers.adaptive_batch.algorithms.spider_of": lambda: {
        "parameters": [adaptive_practical(0.2, 4, 1.0, 1e-6, **SIZES, initial_gap=1.0)],
        "samples": VirtualSamples(data(), 10**12),
    },
    "papers.adaptive_batch.algorithms.method_of": lambda: {
        "parameters": [adaptive_practical(0.2, 4, 1.0, 1e-6, **SIZES, initial_gap=1.0)],
    },
    "papers.adaptive_batch.algorithms.theorem_3_11": lambda: {"num_examples": 1e9},
    "papers.adaptive_batch.algorithms.stochastic_spider": lambda: {
        "samples": VirtualSamples(data(), 10**12),
        "parameters": adaptive_practical(0.2, 4, 1.0, 1e-6, **SIZES, initial_gap=1.0),
        "x": zeros(2, 4),
        "max_steps": 2,
    },
    "papers.budget_schedules.algorithms.private_gradient_descent": lambda: {
        "noise": [uniform(0.2, 2)] * 2,
        "relation": Relation.ZERO_OUT,
    },
    "papers.drift_escape.algorithms.spider_of": lambda: {
        "parameters": [escape_practical(escape(), 4, 1.0, 1e-6, gradient_bound=2.0)],
        "samples": VirtualSamples(data(), 10**12),
    },
    "papers.drift_escape.algorithms.method_of": lambda: {"escapes": [escape()]},
    "papers.drift_escape.algorithms.theorem_1": lambda: {"sigma": 1e-8, "r": 1e-10, "s": 10.0},
    "papers.drift_escape.algorithms.practical_escape": lambda: {"step_size": 0.2},
    "papers.drift_escape.algorithms.DriftEscapeParameters": lambda: {"escape": escape()},
    "papers.drift_escape.algorithms.theorem_2": lambda: {"num_examples": 1e20},
    "papers.drift_escape.algorithms.practical": lambda: {
        "escape": escape(),
    },
    "papers.drift_escape.distributed.practical": lambda: {"escape": escape()},
    "papers.drift_escape.distributed.distributed_drift_escape": lambda: {
        "samples_of": lambda _: VirtualSamples(data(), 10**12),
        "parameters": escape_practical(escape(), 4, 1.0, 1e-6, gradient_bound=2.0),
        "x": zeros(2, 4),
        "blocks": Blocks(3, 3),
        "max_steps": 3,
    },
    "papers.drift_escape.derivatives.ExampleDerivatives": lambda: {
        "loss": lambda point, example: point @ example,
        "data": ((torch.ones(3, 2),),),
        "examples_at_once": 2,
    },
    "papers.drift_escape.selection.Selection": lambda: {"sizes": (30, 20)},
    "papers.drift_escape.selection.Selection.accepts": lambda: {"norms": zeros(2), "eigenvalues": zeros(2)},
    "papers.drift_escape.selection.GradientAndHessian.guarantee": lambda: {
        "state": curved().init(zeros(2, 4)),
    },
    "papers.drift_escape.selection.distributed_selection": lambda: {
        "models": zeros(2, 2, 4),
        "derivatives_of": lambda members: curved(len(members)).derivatives,
        "selection": question(),
        "blocks": Blocks(2, 2),
    },
    "papers.drift_escape.baseline.distributed_noisy_sgd": lambda: {
        "problem_of": lambda _: quadratic(),
        "blocks": Blocks(3, 1),
    },
    "papers.drift_escape.algorithms.drift_escape": lambda: {
        "samples": VirtualSamples(data(), 10**12),
        "parameters": escape_practical(escape(), 4, 1.0, 1e-6, gradient_bound=2.0),
        "x": zeros(2, 4),
        "max_steps": 2,
    },
    "papers.goldstein.algorithms.GoldsteinParameters": lambda: dataclasses.asdict(goldstein()),
    "papers.goldstein.algorithms.least_directions": lambda: {"parameters": goldstein()},
    "papers.goldstein.algorithms.single_pass": lambda: {"largest_move": 0.1},
    "papers.goldstein.algorithms.multi_pass": lambda: {"num_examples": 500, "largest_move": 0.1, "num_steps": 50},
    "papers.goldstein.algorithms.plain": lambda: {"num_examples": 5000, "largest_move": 0.1},
    "papers.goldstein.algorithms.oracle_of": lambda: {"parameters": [goldstein()] * 2, "problem": kinks()},
    "papers.goldstein.algorithms.method_of": lambda: {"parameters": [goldstein()] * 2},
    "papers.goldstein.algorithms.online_to_nonconvex": lambda: {
        "problem": kinks(),
        "parameters": goldstein(),
        "max_steps": 2,
    },
    "train.noise.calibrated_noise": dict,
    "papers.noisy_sgd.algorithms.least_noise": lambda: {"num_steps": 10, "delta": 0.1},
    "papers.noisy_sgd.readings.Premises": lambda: {"sigma": 1.0, "smoothness": 1.0, "failure": 0.1},
    "papers.noisy_sgd.algorithms.clipped_noisy_sgd": lambda: {"noise": [NoiseChoice(1.0, 1.0, 1e-5, "by hand")] * 2},
    "papers.noisy_sgd.algorithms.noisy_sgd": lambda: {"noise": [NoiseChoice(1.0, 1.0, 1e-5, "by hand")] * 2},
    "papers.noisy_sgd.algorithms.noisy_sgd_on_fresh_data": lambda: {
        "noise": [NoiseChoice(1.0, 1.0, 1e-5, "by hand")] * 2,
        "x": zeros(2, 4),
        "sampling": FRESH,
    },
    "train.norms.ExampleNorms": lambda: {
        "module": torch.nn.Linear(4, 2),
        "inputs": images().train_inputs,
        "labels": images().train_labels,
        "batches": torch.arange(4).view(2, 2),
        "bound": 1.0,
    },
    "train.plan.TrainingPlan": lambda: {"sampling": "poisson", "relation": Relation.ADD_OR_REMOVE},
    "train.plan.TrainingPlan.train": lambda: {
        "module": torch.nn.Linear(4, 2),
        "inputs": torch.ones(10, 4),
        "labels": torch.zeros(10).long(),
    },
    "train.loop.Evaluation": lambda: {"data": images(), "every": 2},
    "train.loop.Checkpoint": lambda: {"path": Path("never"), "settings": {}},
    "train.loop.train": lambda: {
        "oracle": minibatch(module_problem()),
        "x": torch.zeros(2, 10),
        "evaluation": Evaluation(images(), 2),
    },
    "privacy.accounting.guarantee": lambda: {"gaussian_noise": True},
    "privacy.audit.bounds.LowerBound": lambda: {"method": "test"},
    "privacy.audit.bounds.epsilon_from_counts": lambda: {"hits": 15, "false_hits": 1},
    "privacy.audit.bounds.choose_threshold": lambda: {
        "scores": torch.arange(10, 20.0),
        "false_scores": torch.arange(10.0),
    },
    "privacy.audit.bounds.from_scores": lambda: {
        "scores": torch.arange(10, 20.0),
        "false_scores": torch.arange(10.0),
    },
    "privacy.audit.bounds.power": lambda: RATES,
    "privacy.audit.bounds.runs_for_power": lambda: {**RATES, "most": 10_000},
    "privacy.audit.one_run.one_run_p_value": lambda: {"num_canaries": 30, "num_guesses": 20},
    "privacy.audit.one_run.guess": lambda: {"scores": torch.arange(10.0)},
    "privacy.audit.one_run.one_run": lambda: {
        "included": torch.arange(10) % 2 == 0,
        "guesses": torch.ones(10),
    },
    "privacy.audit.pairs.ScaledPair": lambda: {"means": zeros(2, 3), "stds": (1.0, 2.0)},
    "privacy.audit.pairs.GaussianPair.of": lambda: {
        "release": lambda x, z: x + 3 * z,
        "without": zeros(2),
        "included": torch.ones(2),
        "num_draws": 2,
    },
    "privacy.audit.pairs.ScaledPair.of": lambda: {
        "release": lambda data, noise: data + noise * (1 + data[:, :1]),
        "without": zeros(2),
        "included": torch.ones(2, dtype=torch.float64),
        "num_draws": 2,
    },
    "privacy.audit.pairs.MixturePair": lambda: {
        "included": np.array([[0.0, 1.0], [0.5, 0.5]]),
        "without": np.array([[0.0], [1.0]]),
    },
    "privacy.audit.pairs.MixturePair.of": lambda: {
        "release": lambda values, coins, noise: values[:, 0] + coins[:, 0] + noise[:, 0],
        "without": zeros(1),
        "included": torch.ones(1, dtype=torch.float64),
        "coins": zeros(1, 1),
        "weights": torch.ones(1, dtype=torch.float64),
    },
    "privacy.audit.training.transcript_scores": lambda: {
        "method": Descent(0.1),
        "oracle": ClippedGradient(quadratic(), 1.0, FixedNoise.of([uniform(2.0, 3)] * 2)),
        "x": torch.zeros(2),
        "answers": lambda x: (torch.zeros(1, 2), torch.ones(1, 2)),
    },
    "privacy.calibration.gaussian_std": dict,
    "privacy.calibration.noise_multiplier": lambda: {"events": lambda z: [Event(z, Relation.ZERO_OUT)]},
    "privacy.factorisation.factors": lambda: {"scheme": "square root", "bandwidth": 2},
    "privacy.factorisation.noise_of_sums": lambda: {"scheme": "square root", "bandwidth": 2},
    "privacy.filter.Filter": lambda: {"budget": torch.ones(2, dtype=torch.float64)},
    "privacy.museum.exhibit.Exhibit.pair": lambda: {"broken": True},
    "privacy.museum.exhibit.Exhibit.exact": lambda: {"broken": True},
    "privacy.museum.exhibit.Exhibit.audit": lambda: {"broken": True},
    "privacy.museum.exhibit.Setting": lambda: {
        "without": zeros(2),
        "included": torch.ones(2, dtype=torch.float64),
        "options": {"noise_std": 1.0},
    },
    "privacy.museum.exhibit.Setting.scores": lambda: {"release": answers, "pair": pair(), "included": True},
    "privacy.noise.FixedNoise": lambda: {
        "multipliers": torch.ones(2, 3, dtype=torch.float64),
        "num_steps": torch.tensor([3, 2]),
        "budget": torch.ones(2, dtype=torch.float64),
    },
    "privacy.noise.LossAdaptiveNoise": lambda: {
        "budget": torch.ones(2),
        "first_cost": torch.ones(2) / 10,
        "loss_multiplier": torch.ones(2),
        "growth": 2.0,
    },
    "privacy.pld.epsilon": lambda: {"events": (Event(1.0, Relation.ADD_OR_REMOVE, Sampling.poisson(0.1)),)},
    "privacy.pld.near_least": lambda: {"events": (Event(1.0, Relation.ADD_OR_REMOVE, Sampling.poisson(0.1)),)},
    "privacy.accounting.log_moment": lambda: {"order": 2.0},
    "privacy.pld.fixed_size_hockey_stick": lambda: {"epsilons": np.array([0.0, 0.5])},
    "privacy.pld.pure_hockey_stick": lambda: {"epsilons": np.array([0.0, 0.5]), "noise": "laplace"},
    "privacy.pld.hockey_stick": lambda: {"epsilons": np.array([0.0, 0.5]), "side": "ADD"},
    "privacy.schedules.NoiseSchedule": lambda: {"noise_multipliers": np.array([2.0, 2.0]), "name": "test"},
    "privacy.schedules.from_shares": lambda: {"shares": [1, 2], "name": "test"},
    "privacy.schedules.on_the_private_side": lambda: {"noise_multipliers": np.full(4, 2.0), "name": "test"},
    "privacy.schedules.from_influence": lambda: {"influence": [1, 2]},
    "privacy.search.Search": lambda: SEARCH,
    "privacy.search.Search.guarantee": lambda: {"released": [Event(10.0, Relation.REPLACE_ONE)], "claim": NOTHING},
    "problems.architectures.conv_net": lambda: {"width": 2},
    "problems.architectures.small_conv_net": lambda: {"width": 2},
    "problems.architectures.resnet18": lambda: {"width": 2},
    "problems.architectures.BasicBlock": lambda: {"norm": "batch", "activation": "relu"},
    "problems.custom.CustomProblem": lambda: {
        "loss": lambda point, example: point @ example,
        "data": (torch.ones(3, 2),),
    },
    "problems.datasets.dataset.Dataset": lambda: {
        "name": "test",
        "train_inputs": torch.ones(3, 2),
        "train_labels": torch.tensor([0, 1, 0]),
        "test_inputs": torch.ones(3, 2),
        "test_labels": torch.tensor([0, 1, 0]),
        "licence": "none",
        "source": "here",
    },
    "problems.datasets.dataset.subset": lambda: {"dataset": images(), "num_examples": 5},
    "problems.datasets.dataset.permutation": dict,
    "problems.datasets.dataset.gaussian_like": dict,
    "problems.landscapes.Saddle": lambda: {"point": zeros(2), "direction": zeros(2)},
    "problems.modules.ModuleProblem": lambda: {
        "module": torch.nn.Linear(4, 2),
        "inputs": images().train_inputs,
        "labels": images().train_labels,
        "max_examples_at_once": 4,
    },
    "problems.modules.ModuleProblem.augmented": lambda: {"self": image_problem(), "calls": 0},
    "problems.networks.TwoLayerNetwork": lambda: {"inputs": torch.ones(3, 2), "labels": torch.tensor([0, 1, 0])},
    "problems.nonsmooth.MinOfNorms.sample": lambda: {"centers": torch.eye(2)},
    "problems.datasets.mnist.pooled": lambda: {"images": torch.ones(2, 784)},
    "problems.preprocessing.projected": lambda: {"data": gaussian_like(10, 3, 2, 0), "num_components": 2},
    "problems.preprocessing.fit": lambda: {
        "inputs": torch.arange(30.0).sin().view(10, 3),
        "num_components": 2,
    },
    "problems.quadratics.log_spectrum": lambda: {"condition_number": 10.0},
    "problems.quadratics.Quadratic.sample": lambda: {"spectrum": torch.tensor([1.0, 0.1])},
    "problems.quadratics.Quadratic.expected_excess_risk": lambda: {
        "x0": [1.0, 1.0],
        "noise_std": [0.1, 0.1],
    },
    "problems.robust.RobustRegression": lambda: {"inputs": torch.eye(2), "targets": torch.ones(2)},
    "problems.robust.RobustRegression.sample": lambda: {"signal": torch.tensor([[2.0], [1.0]])},
    "problems.sensing.QuadraticSensing": lambda: {
        "measurements": torch.ones(3, 2),
        "targets": torch.ones(3),
    },
    "problems.sensing.QuadraticSensing.sample": lambda: {"signal": torch.tensor([[2.0], [1.0]])},
    "problems.smoothing.lasry_lions_absolute": lambda: {"t": torch.arange(3.0)},
    "problems.smoothing.lasry_lions_phase": lambda: {"t": torch.arange(3.0), "target": 5.0},
    "problems.smoothing.moreau_absolute": lambda: {"t": torch.arange(3.0)},
    "problems.smoothing.smoothed_absolute": lambda: {"t": torch.arange(3.0)},
    "problems.smoothing.smoothed_norm": lambda: {"distance": torch.arange(3.0)},
    "problems.separable.DoubleWell": lambda: {"radius": 2.0},
    "problems.text.character_tokenizer": lambda: {"sentences": ["Go on."]},
    "problems.text.tokenise": lambda: {
        "corpus": Corpus("test", SENTENCES, SENTENCES, SENTENCES, "none", "here"),
        "tokenizer": character_tokenizer,
    },
    "problems.text.BertSize": lambda: dataclasses.asdict(TINY_BERT),
    "problems.text.Bert": lambda: {"size": TINY_BERT},
    "problems.text.random_bert": lambda: {"size": TINY_BERT},
    "guarantees.Sampling": lambda: {"scheme": "poisson"},
    "random.streams.Streams": lambda: {"keys": torch.zeros(2, 2, dtype=torch.int64)},
    "random.streams.Streams.of": lambda: {"runs": ["a"]},
    "util.lineage.Lineage.of": lambda: {"num_runs": 2},
    "random.streams.Streams.secure": lambda: {"num_runs": 2},
}

# The instances whose methods are called.
SELVES: dict[str, Callable[[], Any]] = {
    "oracles.fresh.FreshGradient": fresh,
    "oracles.minibatch.MinibatchGradient": minibatch,
    "oracles.spider.Spider": spider,
    "papers.drift_escape.selection.GradientAndHessian": curved,
    "train.plan.TrainingPlan": lambda: TrainingPlan(1.0, 1e-5, 10, 5, 2, 1.0),
    "privacy.audit.pairs.GaussianPair": pair,
    "privacy.audit.pairs.Pair": pair,
    "privacy.audit.pairs.MixturePair": mixture,
    "privacy.audit.pairs.ScaledPair": lambda: ScaledPair(zeros(2, 2), (1.0, 2.0)),
    "privacy.museum.exhibit.Exhibit": lambda: exhibits()[0],
    "problems.landscapes.Reflected": lambda: Reflected(Separable([(Cosine(1.0), 2)]), torch.ones(2)),
    "problems.modules.ModuleProblem": module_problem,
    "problems.quadratics.Quadratic": quadratic,
    "problems.saddles.PopulationSensing": lambda: PopulationSensing(torch.tensor([[2.0], [0.0], [0.0]])),
    "problems.sensing.QuadraticSensing": lambda: QuadraticSensing.sample(torch.ones(2, 1), 5, 0),
    "problems.separable.Separable": lambda: Separable([(Cosine(1.0), 2)]),
    "problems.virtual.VirtualData": data,
    "random.streams.Streams": lambda: Streams.of(0, ["a", "b"]),
}


def example(name: str) -> dict[str, Any]:
    """Return a valid call, as keyword arguments."""
    given = EXAMPLES[name]() if name in EXAMPLES else {}
    for parameter in inspect.signature(KNOWN[name]).parameters.values():
        optional = parameter.default is not parameter.empty or parameter.kind is parameter.VAR_KEYWORD
        if parameter.name in given or optional:
            continue
        if parameter.name == "self":
            given["self"] = instance(name.rpartition(".")[0])
        elif parameter.name in USUAL:
            given[parameter.name] = USUAL[parameter.name]()
        elif (number := usual_number(parameter)) is not None:
            given[parameter.name] = number
        else:
            pytest.fail(f"{name} has no example of {parameter.name}: add one to EXAMPLES")
    return given


def usual_number(parameter: inspect.Parameter) -> float | None:
    """Return a number that most domains of the argument's type hold, or None for an argument that is no number."""
    annotation = inspect.formatannotation(parameter.annotation)
    if "Tensor" in annotation or not NUMBER.search(annotation):
        return None
    return 0.5 if "float" in annotation else 3


def instance(name: str) -> Any:
    return SELVES[name]() if name in SELVES else KNOWN[name](**example(name))


def call(name: str, arguments: dict[str, Any]) -> Any:
    bound = inspect.signature(KNOWN[name]).bind_partial()
    bound.arguments.update(arguments)
    return KNOWN[name](*bound.args, **bound.kwargs)


KNOWN = {name: function for name, function in callables() if name not in INSIDE}
DOORS = {name: function for name, function in KNOWN.items() if numbers_of(function)}


# ---------------------------------------------------------------- what is refused
# Values that have a meaning for particular arguments only.
MEANT: dict[str, dict[str, tuple[float, ...]]] = {
    "guarantees.Guarantee": {"nominal_epsilon": (math.inf,)},  # nothing is claimed
    "oracles.spider.Refresh": {"threshold": (math.inf,)},  # the number of terms alone decides
    "papers.adaptive_batch.algorithms.practical": {"epsilon": (math.inf,)},  # a run without noise
    "papers.drift_escape.algorithms.practical": {"epsilon": (math.inf,)},
    "papers.drift_escape.distributed.practical": {"epsilon": (math.inf,)},
    "papers.drift_escape.selection.Selection": {"epsilon": (math.inf,)},
    **{
        f"papers.goldstein.algorithms.{name}": {"epsilon": (math.inf,)}
        for name in ("single_pass", "multi_pass", "plain")
    },
    "train.noise.NoiseChoice": {"epsilon": (math.inf,)},
    "train.plan.TrainingPlan": {"epsilon": (math.inf,)},
}


def refused(name: str, argument: str, annotation: str) -> list[Any]:
    """Return values that are never valid for a numeric argument."""
    values: list[Any] = [math.nan, math.inf, -math.inf, True, "1"]
    values.append(torch.full((2,), math.nan) if "Tensor" in annotation else torch.ones(50))
    if not re.search(r"\bNone\b", annotation):
        values.append(None)
    if not re.search(r"\bfloat\b", annotation):
        values.append(0.5)
    if "str" in annotation:
        values.remove("1")
    else:
        values.append(10**400)
    meant = MEANT.get(name, {}).get(argument, ())
    return [value for value in values if not any(value is other for other in meant)]


def is_named(message: str, argument: str, value: Any) -> bool:
    """Return whether a message is one line with the argument and its value (for a tensor, its fault)."""
    says = {repr(value)[:10], f"{value:g}"} if isinstance(value, float) else {repr(value)[:10]}
    said = isinstance(value, Tensor) or any(one in message for one in says)
    return said and "\n" not in message and re.search(rf"\b{argument}\b", message) is not None


SLOW = {"privacy.audit.pairs.ScaledPair.strongest_threshold", "privacy.audit.pairs.ScaledPair.threshold"}
EACH = [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in DOORS]


@pytest.mark.parametrize("name", EACH)
def test_the_example_works(name: str):
    call(name, example(name))


def wrong_answer(name: str, argument: str, value: Any) -> str | None:
    """Return the fault in the refusal of a call with this value, or None."""
    try:
        call(name, {**example(name), argument: value})
        message = "was taken"
    except (ValueError, TypeError) as error:
        if is_named(str(error), argument, value):
            return None
        message = str(error)
    except Exception as error:  # of an unexpected type
        message = repr(error)
    return f"{argument}={repr(value)[:12]}: {message[:100]!r}"


def found_nan(result: Any) -> bool:
    """Return whether a result contains a NaN."""
    if isinstance(result, float):
        return math.isnan(result)
    if isinstance(result, Tensor):
        return result.is_floating_point() and bool(result.isnan().any())
    if isinstance(result, np.ndarray):
        return bool(np.isnan(result).any())
    if isinstance(result, dict | list | tuple):
        return any(map(found_nan, result.values() if isinstance(result, dict) else result))
    if dataclasses.is_dataclass(result):
        return any(found_nan(getattr(result, field.name)) for field in dataclasses.fields(result))
    return False


@pytest.mark.parametrize("name", EACH)
def test_what_is_no_number_is_refused_by_name(name: str):
    wrong = [
        wrong_answer(name, argument, value)
        for argument, annotation in numbers_of(DOORS[name]).items()
        for value in refused(name, argument, annotation)
    ]
    assert not any(wrong), "\n" + "\n".join(filter(None, wrong))


BELOW_ONE = {"delta", "level", "momentum", "rate", "beta"}
VACUOUS = {"guarantees.Guarantee"}  # may state that a delta is 1 or more, which claims nothing


@pytest.mark.parametrize("name", [n for n in DOORS if BELOW_ONE & numbers_of(DOORS[n]).keys() and n not in VACUOUS])
def test_what_is_below_one_is_refused_above_it(name: str):
    wrong = [wrong_answer(name, argument, 1.5) for argument in BELOW_ONE & numbers_of(DOORS[name]).keys()]
    assert not any(wrong), "\n" + "\n".join(filter(None, wrong))


@pytest.mark.parametrize("name", EACH)
def test_zero_and_what_is_negative_are_refused_by_name_or_give_numbers(name: str):
    wrong = []
    for argument in numbers_of(DOORS[name]):
        for value in (-0.0, 0, -1):
            try:
                result = call(name, {**example(name), argument: value})
            except (ValueError, TypeError) as error:
                if "\n" in str(error) or not re.search(rf"\b{argument}\b", str(error)):
                    wrong.append(f"{argument}={value}: {str(error)[:100]!r}")
            except Exception as error:
                wrong.append(f"{argument}={value}: {repr(error)[:100]}")
            else:
                if found_nan(result):
                    wrong.append(f"{argument}={value}: a result with NaN")
    assert not wrong, "\n" + "\n".join(wrong)


def domains_left(function: Callable[..., Any]) -> list[str]:
    """The arguments that are annotated with a domain which nothing checks: `checked` leaves the plain types."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:
        return []
    return [p.name for p in parameters if "dpnotes.util.validate" in modules_of(p.annotation)]


def modules_of(annotation: Any) -> set[str]:
    """The modules of the checks in an annotation."""
    checks = getattr(annotation, "__metadata__", ()) + sum((get_args(part)[1:] for part in get_args(annotation)), ())
    return {getattr(check, "func", check).__module__ for check in checks if callable(check)}


def test_every_domain_is_checked():
    left = [f"{name}: {argument}" for name, function in callables() for argument in domains_left(function)]
    assert not left, f"Expected @checked, for a subclass of its own, too: {left}"


def test_control_a_domain_that_is_not_checked_is_seen():
    def plain(epsilon: Positive, steps: AtLeastOne | None = None, delta: float = 0.1) -> float:
        return epsilon

    assert domains_left(plain) == ["epsilon", "steps"]
    assert domains_left(checked(plain)) == []


# ---------------------------------------------------------------- what is no number
def words_of(function: Callable[..., Any]) -> Iterator[tuple[str, Any]]:
    """Yield arguments with invalid values: an unknown name, a word in place of a flag, None in place of a part."""
    parameters = inspect.signature(function).parameters.values()
    for parameter in parameters:
        annotation = inspect.formatannotation(parameter.annotation)
        if annotation.startswith("Literal") or "typing.Literal" in annotation:
            yield parameter.name, "no such word"
        elif parameter.annotation is Relation:
            yield parameter.name, "replace"
            yield parameter.name, "replace-one"  # the member is expected, not its printed form
            yield parameter.name, None
        elif parameter.annotation is bool:
            yield parameter.name, "no"
        elif isinstance(parameter.annotation, type) and parameter.annotation in PARTS:
            yield parameter.name, None


PARTS = (Problem, Oracle, Mechanism, Method, Samples, FreshData, NoisePlan, Sampling, Escape)
# Methods that a loop calls at every step with values from the same part.
STEPS = (
    "init",
    "step",
    "estimate",
    "rollback",
    "release",
    "cost",
    "propose",
    "grant",
    "affords",
    "begin",
    "ask",
    "batch",
)
WORDS = {
    name: function
    for name, function in KNOWN.items()
    if any(words_of(function)) and not name.endswith(tuple(f".{step}" for step in STEPS))
}


@pytest.mark.parametrize("name", WORDS)
def test_what_is_no_part_no_name_and_no_flag_is_refused_by_name(name: str):
    wrong = [wrong_answer(name, argument, value) for argument, value in words_of(WORDS[name])]
    assert not any(wrong), "\n" + "\n".join(filter(None, wrong))


# Found by fuzzing: (callable, argument, value, text that the error must contain).
REFUSED: list[tuple[str, str, Any, str]] = [
    ("oracles.samples.VirtualSamples", "total", 2**63, "total=9223372036854775808"),
    ("papers.adaptive_batch.algorithms.spider_of", "parameters", [], "num_runs=0"),
    ("papers.drift_escape.algorithms.practical", "sampling_drift", 1e308, "sampling_drift=1e[+]308"),
    ("privacy.audit.pairs.MixturePair.of", "weights", torch.ones(7), "weights, .7,."),
    ("privacy.factorisation.BandedSquareRoot.max_cost", "noise_multiplier", 1e-300, "noise_multiplier=1e-300"),
    ("privacy.pld.near_least", "events", (), "num_events=0"),
    ("privacy.tree.Tree.max_cost", "noise_multiplier", 1e-300, "noise_multiplier=1e-300"),
    ("problems.sensing.QuadraticSensing.sample", "signal", torch.ones(0, 1), "rows_of_signal=0"),
]


@pytest.mark.parametrize(("name", "argument", "value", "named"), REFUSED)
def test_what_the_fuzz_found_is_refused_by_name(name: str, argument: str, value: Any, named: str):
    with pytest.raises(ValueError, match=f"Expected.*{named}"):
        call(name, example(name) | {argument: value})


def test_what_the_fuzz_found_is_a_number():
    level = call(
        "measure.stationarity.sosp_level", example("measure.stationarity.sosp_level") | {"hessian_lipschitz": 5e-324}
    )
    assert not level.isnan().any()
    name = "privacy.audit.pairs.Pair.threshold"
    assert math.isfinite(call(name, example(name) | {"epsilon": 1e308}))


def test_a_point_of_another_type_is_named_where_products_would_be():
    problem = Quadratic.sample(log_spectrum(3, 4.0).float(), 5, 1.0, seed=0)
    with pytest.raises(ValueError, match="Expected x, torch.float64 of shape"):
        problem.gradients(torch.zeros(1, 3, dtype=torch.float64))


@pytest.mark.parametrize("delta", [5e-324, 1e-308, 1e-307])
def test_a_delta_that_has_no_inverse_is_one(delta: float):
    # The best Renyi order is near 1 + sqrt(ln(1/delta) / rho), and epsilon is near rho + 2 sqrt(rho ln(1/delta)).
    simple = 0.5 + 2 * math.sqrt(-0.5 * math.log(delta))
    assert 0.9 * simple < rho_to_epsilon(0.5, delta, "tight") <= simple


def test_numbers_of_numpy_are_numbers():
    assert tree_std(1.0, 1e-6, 1.0, np.int64(3)) == tree_std(1.0, 1e-6, 1.0, 3)  # type: ignore[arg-type]
    for function in (factors, noise_of_sums):
        assert len(function("tree", np.int64(3))) == len(function("tree", 3))  # type: ignore[arg-type]


def test_what_no_cache_takes_is_named():
    for function in (pld.epsilon, pld.near_least):
        with pytest.raises(TypeError, match=r"Expected delta=\[0.1\] to be a real number"):
            function((), [0.1])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"Expected hits=\{\} to be numbers"):
        epsilon_from_counts({}, 10, 1, 10, delta=1e-5, level=0.05)  # type: ignore[arg-type]


def test_a_guarantee_rests_on_assumptions_alone():
    for argument, value in itertools.product(("assumptions", "not_covered"), (None, ["a"], "a")):
        assert wrong_answer("guarantees.Guarantee", argument, value) is None
    with pytest.raises(TypeError, match="Expected assumptions=1 to be an Assumption"):
        Guarantee(1.0, 1e-5, Relation.ZERO_OUT, "a test", (1,))  # type: ignore[arg-type]


def test_the_controls_are_caught(monkeypatch: pytest.MonkeyPatch):
    def silent(epsilon: float) -> float:
        return epsilon

    def vague(epsilon: float) -> float:
        raise ValueError("Expected another number.")

    def new(no_usual_name: Tensor) -> Tensor:
        return no_usual_name

    for control, said in ((silent, "was taken"), (vague, "Expected another number.")):
        monkeypatch.setitem(KNOWN, "control", control)
        for value in refused("control", "epsilon", numbers_of(control)["epsilon"]):
            assert said in (wrong_answer("control", "epsilon", value) or "")
    assert found_nan([{"x": torch.tensor([math.nan])}]) and not found_nan([{"x": torch.ones(1)}])
    monkeypatch.setitem(KNOWN, "control", new)
    with pytest.raises(pytest.fail.Exception, match="control has no example of no_usual_name"):
        example("control")


@pytest.mark.parametrize(
    "practical",
    [
        lambda epsilon: adaptive_practical(0.2, 4, epsilon, 1e-6, **SIZES, initial_gap=1.0),
        lambda epsilon: escape_practical(escape(), 4, epsilon, 1e-6, gradient_bound=1.0),
    ],
)
def test_an_epsilon_that_is_no_number_runs_no_paper_without_noise(practical: Callable[[float], Any]):
    with pytest.raises(ValueError, match="Expected epsilon=nan to be finite"):
        practical(math.nan)
    assert practical(math.inf).noise_multiplier == 0, "infinity asks for it by name"


# ---------------------------------------------------------------- calculators, and through them the command line
CALCULATORS = {claim.id: claim.calculator() for claim in papers.claims() if claim.calculation is not None}
NEVER = (math.nan, math.inf, -math.inf, 10**400, True, "", "abc", None)
PERHAPS = (1e308, -1e308, 5e-324, 10**30, -0.0, 0, -2, 0.5)


@pytest.mark.parametrize("name", CALCULATORS)
@pytest.mark.slow
def test_a_calculator_gives_numbers_or_one_line_that_names_what_it_was_given(name: str):
    calculator, wrong = CALCULATORS[name], []
    usual = drawn(calculator)
    for argument, value in itertools.product(usual, NEVER + PERHAPS):
        never = any(value is one for one in NEVER)
        try:
            found = calculator(**{**usual, argument: value})
        except (ValueError, TypeError) as error:
            # For incompatible numbers an error may name other arguments: with n=5e-324 an accuracy is too large.
            named = not never or is_named(str(error), argument, value)
            if "\n" in str(error) or not str(error).startswith("Expected") or not named:
                wrong.append(f"{argument}={repr(value)[:12]}: {str(error)[:100]!r}")
        except Exception as error:
            wrong.append(f"{argument}={repr(value)[:12]}: {repr(error)[:100]}")
        else:
            if never or any(isinstance(one, float) and not math.isfinite(one) for one in found.values()):
                wrong.append(f"{argument}={repr(value)[:12]}: {found}")
    assert not wrong, "\n" + "\n".join(wrong)
