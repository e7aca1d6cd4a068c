"""Calls of public callables with arguments in their domains: the examples of what each of them takes."""

import dataclasses
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from dpnotes.atlas.question import Question, ask
from dpnotes.core import WHOLE, Guarantee, Ledger, Price, Relation, Sampling
from dpnotes.methods.descent import Descent
from dpnotes.oracles.blocks import Blocks
from dpnotes.oracles.clipped import ClippedGradient
from dpnotes.oracles.fresh import FreshGradient
from dpnotes.oracles.minibatch import MinibatchGradient
from dpnotes.oracles.samples import VirtualSamples
from dpnotes.oracles.spider import BatchSizes, Refresh, Spider
from dpnotes.papers.adaptive_batch.algorithms import practical as adaptive_practical
from dpnotes.papers.drift_escape.algorithms import Escape, practical_escape
from dpnotes.papers.drift_escape.algorithms import practical as escape_practical
from dpnotes.papers.drift_escape.derivatives import VirtualDerivatives
from dpnotes.papers.drift_escape.selection import GradientAndHessian, Selection
from dpnotes.papers.goldstein.algorithms import GoldsteinParameters
from dpnotes.papers.goldstein.algorithms import single_pass as goldstein_choice
from dpnotes.privacy.audit import GaussianPair, MixturePair, ScaledPair
from dpnotes.privacy.events import Event
from dpnotes.privacy.mechanisms import Gaussian
from dpnotes.privacy.noise import FixedNoise
from dpnotes.privacy.schedules import uniform
from dpnotes.problems.custom import CustomProblem
from dpnotes.problems.datasets.dataset import Dataset, gaussian_like
from dpnotes.problems.modules import ModuleProblem
from dpnotes.problems.quadratics import Quadratic
from dpnotes.problems.separable import Cosine, Separable, Sine
from dpnotes.problems.virtual import VirtualData
from dpnotes.random.streams import Streams
from dpnotes.train.noise import NoiseChoice
from dpnotes.train.plan import TrainingPlan
from tests.public import DATA, INSIDE, NUMBER, callables, numbers_of


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


def asked() -> Question:
    return ask("sosp", n=100, d=4, epsilon=1.0, delta=1e-5)


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


def adaptive() -> Any:
    return adaptive_practical(0.2, 4, 1.0, 1e-6, **SIZES, initial_gap=1.0)


def escaping() -> Any:
    return escape_practical(escape(), 4, 1.0, 1e-6, gradient_bound=2.0)


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
    "blocks": lambda: Blocks(2, 2),
    "call": lambda: 0,
    "clip": lambda: 1.0,
    "data": data,
    "delta": lambda: 1e-5,
    "distance": lambda: torch.arange(3.0),
    "divisor": lambda: 10.0,
    "epsilon": lambda: 1.0,
    "epsilons": lambda: np.array([0.0, 0.5]),
    "escape": escape,
    "events": lambda: [Event(10.0, Relation.ZERO_OUT)],
    "failure_probability": lambda: 0.01,
    "gamma": lambda: 0.9,
    "gradient_bound": lambda: 1.0,
    "gradient_norms": lambda: torch.tensor([[0.3, 0.1]]),
    "hessian_lipschitz": lambda: 1.0,
    "included": lambda: torch.ones(2, dtype=torch.float64),
    "initial_gap": lambda: 1.0,
    "inputs": lambda: images().train_inputs,
    "labels": lambda: images().train_labels,
    "ledger": ledger,
    "level": lambda: 0.01,
    "max_leaves": lambda: 8,
    "method": lambda: Descent(0.1),
    "module": lambda: torch.nn.Linear(4, 2),
    "momentum": lambda: 0.5,
    "name": lambda: "test",
    "noise": lambda: [NoiseChoice(1.0, 1.0, 1e-5, "by hand")] * 2,
    "noise_multiplier": lambda: 1.0,
    "noise_std": lambda: 1.0,
    "norm_bound": lambda: 1.0,
    "num_examples": lambda: 20,
    "num_runs": lambda: 2,
    "num_steps": lambda: 3,
    "origin": lambda: "by hand",
    "perturbation": lambda: 0.1,
    "problem": quadratic,
    "purpose": lambda: "test",
    "radius": lambda: 1.0,
    "relation": lambda: Relation.REPLACE_ONE,
    "rho": lambda: 0.5,
    "run": lambda: 0,
    "runs": lambda: 20,
    "samples": lambda: VirtualSamples(data(), 10**12),
    "sampling": lambda: WHOLE,
    "seed": lambda: 0,
    "size": lambda: 4,
    "smallest_eigenvalues": lambda: torch.tensor([[1.0, 0.5]]),
    "smoothness": lambda: 1.0,
    "step_size": lambda: 0.1,
    "streams": lambda: Streams.of(0, ["a", "b"]),
    "threshold": lambda: 0.1,
    "window": lambda: 5.0,
    "without": lambda: zeros(2),
    "x": lambda: torch.ones(2, 2),
}
RATES = {"hit_rate": 0.9, "false_hit_rate": 0.1}
SIZES: dict[str, Any] = {"gradient_bound": 1.0, "smoothness": 1.0, "hessian_lipschitz": 1.0}
SEARCH = {"alpha": 0.01, "norm_bound": 1.0, "num_examples": 10**6, "num_candidates": 3}

# Further or other arguments of particular callables, small enough to be called in seconds.
NOTHING = Guarantee(0.0, 1e-5, Relation.REPLACE_ONE, "nothing released")
EXAMPLES: dict[str, Callable[[], dict[str, Any]]] = {
    "atlas.question.Question": lambda: {"given": asked().given, "goal": "sosp"},
    "atlas.question.ask": lambda: {"goal": "sosp", "numbers": {"n": 100, "d": 4, "epsilon": 1.0, "delta": 1e-5}},
    "atlas.ranking.choose": lambda: {"n": 100, "d": 4, "goal": "sosp", "details": False},
    "core.Constant": lambda: {"basis": "proved", "where": "here"},
    "core.Price": lambda: {"noise_multiplier": torch.ones(1), "charged": torch.tensor([True])},
    "guarantees.Assumption": lambda: {"statement": "numbers are real", "basis": "assumed"},
    "measure.lanczos.lanczos": lambda: {
        "hvp": eigenvalue_question()["hvp"],
        "start": torch.ones(2, 30, dtype=torch.float64),
    },
    "measure.curvature.smallest_eigenvalue": lambda: eigenvalue_question() | {"tolerance": 1e-3},
    "measure.stationarity.certify_sosp": lambda: eigenvalue_question() | {"gradient_norm": zeros(2), "smooth": True},
    "measure.curvature.Interval": lambda: {"lower": zeros(2), "upper": zeros(2)},
    "measure.goldstein.certify_goldstein": lambda: {"gradient": torch.sign, "num_rounds": 2},
    "measure.goldstein.norm_of_max": lambda: {"slopes": torch.eye(2), "offsets": torch.zeros(2), "x": torch.ones(2)},
    "papers.drift_escape.escaping.DriftEscape": lambda: {"attempt_length": 5, "attempts": 8},
    "methods.loop.drive": lambda: {
        "oracle": minibatch(),
        "state": Descent(0.1).init(torch.ones(2, 2), minibatch()),
        "max_steps": 2,
    },
    "methods.loop.run": lambda: {"oracle": minibatch(), "max_steps": 2},
    "papers.goldstein.conversion.OnlineToNonconvex": lambda: {"largest_move": 0.1, "window": 3},
    "oracles.batches.draw": lambda: {"sampling": Sampling.poisson(0.5), "call": torch.tensor([0, 1])},
    "oracles.clients.Clients": lambda: {"oracles": (spider(),), "num_runs": 1},
    "oracles.clients.Clients.of": lambda: {"oracle_of": lambda _: spider(), "num_runs": 1},
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
    "oracles.holdings.ClientSamples.of": lambda: {"holdings": [torch.arange(5)]},
    "oracles.clipped.ClippedGradient": lambda: {"noise": FixedNoise.of([uniform(0.2, 5)] * 2)},
    "oracles.clipped.ClippedGradient.guarantee": lambda: {
        "state": instance("oracles.clipped.ClippedGradient").init(zeros(2, 2))
    },
    "oracles.fresh.FreshGradient": lambda: {"noise_std": torch.ones(2, dtype=torch.float64)},
    "oracles.fresh.FreshGradient.guarantee": lambda: {"state": fresh().init(zeros(2, 4))},
    "oracles.minibatch.MinibatchGradient.guarantee": lambda: {"state": minibatch().init(zeros(2, 2))},
    "oracles.minibatch.MinibatchGradient": lambda: {"noise_std": torch.ones(2, dtype=torch.float64)},
    "oracles.samples.VirtualSamples": lambda: {"total": 10**9},
    "papers.goldstein.smoothed.SmoothedSamples": lambda: {"problem": kinks()},
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
    },
    "papers.adaptive_batch.algorithms.spider_of": lambda: {"parameters": [adaptive()]},
    "papers.adaptive_batch.algorithms.theorem_3_11": lambda: {"num_examples": 1e9},
    "papers.adaptive_batch.algorithms.stochastic_spider": lambda: {
        "parameters": adaptive(),
        "x": zeros(2, 4),
        "max_steps": 2,
    },
    "papers.budget_schedules.algorithms.private_gradient_descent": lambda: {"noise": [uniform(0.2, 2)] * 2},
    "papers.drift_escape.algorithms.method_of": lambda: {"escapes": [escape()]},
    "papers.drift_escape.algorithms.theorem_1": lambda: {"sigma": 1e-8, "r": 1e-10, "s": 10.0},
    "papers.drift_escape.algorithms.practical_escape": lambda: {"step_size": 0.2},
    "papers.drift_escape.algorithms.theorem_2": lambda: {"num_examples": 1e20},
    "papers.drift_escape.distributed.distributed_drift_escape": lambda: {
        "samples_of": lambda _: VirtualSamples(data(), 10**12),
        "parameters": escaping(),
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
    "papers.drift_escape.selection.GradientAndHessian.guarantee": lambda: {"state": curved().init(zeros(2, 4))},
    "papers.drift_escape.baseline.distributed_noisy_sgd": lambda: {
        "problem_of": lambda _: quadratic(),
        "blocks": Blocks(3, 1),
    },
    "papers.drift_escape.algorithms.drift_escape": lambda: {"parameters": escaping(), "x": zeros(2, 4), "max_steps": 2},
    "papers.goldstein.algorithms.GoldsteinParameters": lambda: dataclasses.asdict(goldstein()),
    "papers.goldstein.algorithms.least_directions": lambda: {"parameters": goldstein()},
    "papers.goldstein.algorithms.single_pass": lambda: {"options": {"largest_move": 0.1}},
    "papers.goldstein.algorithms.multi_pass": lambda: {
        "num_examples": 500,
        "num_steps": 50,
        "options": {"largest_move": 0.1},
    },
    "papers.goldstein.algorithms.plain": lambda: {"num_examples": 5000, "options": {"largest_move": 0.1}},
    "papers.goldstein.algorithms.online_to_nonconvex": lambda: {
        "problem": kinks(),
        "parameters": goldstein(),
        "max_steps": 2,
    },
    "papers.noisy_sgd.readings.Premises": lambda: {"sigma": 1.0, "smoothness": 1.0, "failure": 0.1},
    "papers.noisy_sgd.algorithms.noisy_sgd_on_fresh_data": lambda: {"x": zeros(2, 4)},
    "train.norms.ExampleNorms": lambda: {"batches": torch.arange(4).view(2, 2), "bound": 1.0},
    "train.plan.TrainingPlan.train": lambda: {
        "inputs": torch.ones(10, 4),
        "labels": torch.zeros(10).long(),
        "step_size": 0.1,
    },
    "train.optimiser.Optimised": lambda: {"optimizer": torch.optim.AdamW, "shapes": [torch.Size([4])]},
    "train.loop.Evaluation": lambda: {"data": images(), "every": 2},
    "train.loop.Checkpoint": lambda: {"path": Path("never")},
    "privacy.audit.bounds.LowerBound": lambda: {"method": "test"},
    "privacy.audit.bounds.epsilon_from_counts": lambda: {"hits": 15, "false_hits": 1},
    "privacy.audit.bounds.choose_threshold": lambda: {
        "scores": torch.arange(10, 20.0),
        "false_scores": torch.arange(10.0),
    },
    "privacy.audit.bounds.from_scores": lambda: {"scores": torch.arange(10, 20.0), "false_scores": torch.arange(10.0)},
    "privacy.audit.bounds.power": lambda: RATES,
    "privacy.audit.bounds.runs_for_power": lambda: {**RATES, "most": 10_000},
    "privacy.audit.one_run.one_run_p_value": lambda: {"num_canaries": 30, "num_guesses": 20},
    "privacy.audit.one_run.guess": lambda: {"scores": torch.arange(10.0)},
    "privacy.audit.one_run.one_run": lambda: {"included": torch.arange(10) % 2 == 0, "guesses": torch.ones(10)},
    "privacy.audit.pairs.GaussianPair.of": lambda: {
        "release": lambda x, z: x + 3 * z,
        "included": torch.ones(2),
        "num_draws": 2,
    },
    "privacy.audit.pairs.ScaledPair.of": lambda: {
        "release": lambda data, noise: data + noise * (1 + data[:, :1]),
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
        "oracle": ClippedGradient(quadratic(), 1.0, FixedNoise.of([uniform(2.0, 3)] * 2)),
        "x": torch.zeros(2),
        "answers": lambda x: (torch.zeros(1, 2), torch.ones(1, 2)),
    },
    "privacy.calibration.noise_multiplier": lambda: {"events": lambda z: [Event(z, Relation.ZERO_OUT)]},
    "privacy.factorisation.noise_of_sums": lambda: {"scheme": "square root"},
    "privacy.filter.Filter": lambda: {"budget": torch.ones(2, dtype=torch.float64)},
    "privacy.noise.LossAdaptiveNoise": lambda: {
        "budget": torch.ones(2),
        "first_cost": torch.ones(2) / 10,
        "loss_multiplier": torch.ones(2),
        "growth": 2.0,
    },
    "privacy.pld.epsilon": lambda: {"events": (Event(1.0, Relation.ADD_OR_REMOVE, Sampling.poisson(0.1)),)},
    "privacy.pld.near_least": lambda: {"events": (Event(1.0, Relation.ADD_OR_REMOVE, Sampling.poisson(0.1)),)},
    "privacy.accounting.log_moment": lambda: {"order": 2.0},
    "privacy.pld.pure_hockey_stick": lambda: {"noise": "laplace"},
    "privacy.pld.hockey_stick": lambda: {"side": "ADD"},
    "privacy.risk.Risk": lambda: {"epsilons": np.zeros(2), "deltas": np.ones(2)},
    "privacy.schedules.NoiseSchedule": lambda: {"noise_multipliers": np.array([2.0, 2.0])},
    "privacy.schedules.from_shares": lambda: {"shares": [1, 2]},
    "privacy.schedules.on_the_private_side": lambda: {"noise_multipliers": np.full(4, 2.0)},
    "privacy.schedules.from_influence": lambda: {"influence": [1, 2]},
    "privacy.search.Search": lambda: SEARCH,
    "privacy.search.Search.guarantee": lambda: {"released": [Event(10.0, Relation.REPLACE_ONE)], "claim": NOTHING},
    "problems.custom.CustomProblem": lambda: {
        "loss": lambda point, example: point @ example,
        "data": (torch.ones(3, 2),),
    },
    "problems.modules.ModuleProblem": lambda: {"max_examples_at_once": 4},
    "problems.modules.ModuleProblem.augmented": lambda: {"self": image_problem(), "calls": 0},
    "problems.modules.ModuleProblem.drawing": lambda: {"self": module_problem(), "calls": 0},
    "problems.networks.TwoLayerNetwork": lambda: {"inputs": torch.ones(3, 2), "labels": torch.tensor([0, 1, 0])},
    "guarantees.Sampling": lambda: {"scheme": "poisson"},
    "random.streams.Streams.of": lambda: {"runs": ["a"]},
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


KNOWN = {name: function for name, function in callables() if name not in INSIDE and not name.startswith(DATA)}
DOORS = {name: function for name, function in KNOWN.items() if numbers_of(function)}
