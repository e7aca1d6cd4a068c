"""The laws of oracles, mechanisms and methods, and a factory for each class of the package that is one of these.

Classes are found by walking a package, including a paper's own: a class without a factory fails, and so does a factory
without a class. A factory makes an instance of its class on the data that a law passes; the laws know nothing else
about it. `laws_data.py` has the data and the plays, `laws_stated.py` the laws.
"""

import ast
import importlib
import inspect
import itertools
import pkgutil
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import laws_data
import pytest
import torch
from laws_data import DIM, LOSS, STEPS, Bowls, Factory, G, Listed, M, N, Pointwise
from laws_stated import CALLS, FIXED, LAWS, MEMBERS, POISSON
from torch import Tensor

from dpnotes.core import WHOLE, Mechanism, Method, Oracle, Relation
from dpnotes.guarantees import ALLOWED, Sampling
from dpnotes.methods.descent import Descent
from dpnotes.methods.spider_descent import StochasticSpider
from dpnotes.oracles.blocks import Blocks
from dpnotes.oracles.clients import Clients
from dpnotes.oracles.clipped import ClippedGradient
from dpnotes.oracles.fresh import FreshGradient
from dpnotes.oracles.minibatch import MinibatchGradient
from dpnotes.oracles.samples import DataSetSamples, VirtualSamples
from dpnotes.oracles.spider import BatchSizes, Refresh, Spider
from dpnotes.papers.drift_escape.derivatives import ExampleDerivatives
from dpnotes.papers.drift_escape.escaping import DriftEscape
from dpnotes.papers.drift_escape.selection import GradientAndHessian, Selection
from dpnotes.papers.goldstein.conversion import OnlineToNonconvex
from dpnotes.papers.goldstein.smoothed import SmoothedSamples
from dpnotes.privacy.discrete import DiscreteGaussian
from dpnotes.privacy.factorisation import BandedSquareRoot
from dpnotes.privacy.mechanisms import Exact, Gaussian, Laplace
from dpnotes.privacy.noise import FixedNoise, LossAdaptiveNoise
from dpnotes.privacy.schedules import uniform
from dpnotes.privacy.tree import Tree
from dpnotes.train.optimiser import Optimised

FUNCTION = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


# ---------------------------------------------------------------- which classes there are
def found(package: ModuleType) -> dict[type, set[type]]:
    """Return the classes of a package that are an `Oracle`, a `Mechanism` or a `Method`, by kind; without protocols."""
    kinds: dict[type, set[type]] = {Oracle: set(), Mechanism: set(), Method: set()}
    for name in (m.name for m in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")):
        if name.endswith("__main__"):
            continue
        try:
            module = importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name != "triton":  # GPU kernels need triton
                raise
            continue
        for value in written_in(module):
            for kind, (members, act) in MEMBERS.items():
                delegates = act in vars(value) and hasattr(value, "__getattr__")
                if delegates or all(hasattr(value, member) for member in members):
                    kinds[kind].add(value)
    return kinds


def written_in(module: ModuleType) -> set[type]:
    """Return the classes of a module without protocols, including nested classes and those that a call created."""
    source = Path(f"{module.__file__}").read_text()
    tree = ast.parse(source) if re.search(r"^[ \t]+class ", source, re.MULTILINE) else ast.Module([], [])
    for function in (node for node in ast.walk(tree) if isinstance(node, FUNCTION)):
        inside = [node.name for node in ast.walk(function) if isinstance(node, ast.ClassDef)]
        assert not inside, f"Expected no class in a function, where no law finds it: {inside} in {module.__name__}."
    waiting, written = [*vars(module).values()], set[type]()
    while waiting:
        value = waiting.pop()
        if inspect.isclass(value) and value not in written:
            home = sys.modules.get(value.__module__)
            elsewhere = getattr(home, value.__name__, None) is value or f"{home}".startswith("<module 'builtins'")
            if value.__module__ == module.__name__ or not elsewhere and "." not in value.__qualname__:
                written.add(value)
                waiting += vars(value).values()
    return {value for value in written if not getattr(value, "_is_protocol", False)}


def complaints(classes: set[type], factories: Mapping[type, Mapping[str, Any]], where: str) -> list[str]:
    """Return the faults of a list of factories: classes without a factory, and factories whose class does not exist."""
    name = lambda value: f"{value.__module__}.{value.__qualname__}"  # noqa: E731
    missing = [f"Expected {name(c)} to have a factory in {where}." for c in classes if not factories.get(c)]
    return missing + [
        f"Expected no factory of {name(c)} in {where}: there is no such class." for c in factories.keys() - classes
    ]


# ---------------------------------------------------------------- factories
def _halving(optimizer: torch.optim.Optimizer) -> torch.optim.lr_scheduler.LRScheduler:
    return torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)


def rows(value: float, runs: int) -> Tensor:
    return torch.full((runs,), value, dtype=torch.float64)


def clipped(problem: Any, runs: int, relation: Relation = Relation.ZERO_OUT, noise: Any = None) -> ClippedGradient:
    noise = FixedNoise.of([uniform(0.5, STEPS)] * runs) if noise is None else noise(runs)
    return ClippedGradient(problem, G, noise, relation, loss_clip=LOSS)


def minibatch(problem: Any, runs: int, sampling: Sampling, relation: Relation, clipped: bool) -> MinibatchGradient:
    divisor = sampling.rate * N
    return MinibatchGradient(problem, sampling, rows(0.3, runs), G, STEPS, relation, clipped, divisor=divisor)


def spider(samples: Any, runs: int, mechanism: Any = Gaussian(), rho: float = 0.5, **more: Any) -> Spider:  # noqa: B008
    refresh, batches = Refresh.path_length(0.12, M, 8), BatchSizes(4, 4 if isinstance(samples, VirtualSamples) else 2)
    return Spider(samples, mechanism, 1.0, rows(rho * (1 + 1e-9), runs), refresh, batches, G, M, **more)


def smoothed(problem: Any, runs: int, order: Any, more: float, **given: Any) -> Spider:
    """Return smoothed SPIDER with so many directions and such large bounds that tame estimates are not clipped."""
    problem = problem if hasattr(problem, "losses") else Pointwise(problem)
    samples = SmoothedSamples(problem, 1e-3, 200 if order == "zeroth" else 2, order, numbers_at_once=2**18)
    return replace(spider(samples, runs, **given), gradient_bound=more * G, smoothness=more * M)


class OneClient(Clients):
    """Clients of which there is one, so that a run's releases are its messages."""

    def events(self, run: int) -> list[Any]:
        return self.oracles[0].events(run)


def one_client(oracle: Any, runs: int) -> Clients:
    return OneClient((oracle,), Blocks(1, 1), runs)


@dataclass(frozen=True, eq=False)
class Unclipped:
    """A problem's first derivatives only, without any bound."""

    problem: Any
    total: Tensor
    basis: Any = "assumed"
    apart: Any = ()

    def take(self, index: Tensor) -> "Unclipped":
        return Unclipped(self.problem, self.total[index])

    def mean(self, x: Tensor, weight: float, longest: float) -> Tensor:
        weights = torch.full((len(x), self.problem.num_examples), 1 / self.problem.num_examples, dtype=x.dtype)
        gradient = self.problem.gradients(x).weighted_sum(weights)
        return torch.cat([gradient, x.new_zeros(len(x), DIM * (DIM + 1) // 2)], 1)


def curved(problem: Any, runs: int) -> GradientAndHessian:
    """Return clipped gradients and Hessians of bowls."""
    selection = Selection(
        0.1, DIM, (problem.num_examples,), STEPS, 2.0, 1e-5, gradient_bound=G, smoothness=M, hessian_lipschitz=1.0
    )
    if not isinstance(problem, Bowls):
        return GradientAndHessian.of(Unclipped(problem, torch.full((runs,), problem.num_examples)), selection)

    def loss(x: Tensor, slope: Tensor, curvature: Tensor, offset: Tensor) -> Tensor:
        return offset[0] + slope @ x + curvature[0] * (x @ x) / 2

    data = [tuple(rows.split([DIM, 1, 1], 1)) for rows in problem.rows.expand(runs, -1, -1)]
    return GradientAndHessian.of(ExampleDerivatives(loss, tuple(data)), selection)


def listed(problem: Any) -> VirtualSamples:
    return VirtualSamples(Listed(problem), N)


ORACLES: dict[type, dict[str, Factory]] = {
    ClippedGradient: {
        "zero-out": clipped,
        "replace-one": lambda p, n: clipped(p, n, Relation.REPLACE_ONE),
        "listening": lambda p, n: clipped(
            p, n, Relation.REPLACE_ONE, lambda n: LossAdaptiveNoise(rows(0.5, n), rows(0.05, n), 1.3, rows(6.0, n))
        ),
    },
    MinibatchGradient: {
        f"{sampling.scheme}, {relation}{', clipped' * clipped}": partial(
            minibatch, sampling=sampling, relation=relation, clipped=clipped
        )
        for sampling, relation in itertools.product((WHOLE, FIXED, POISSON), Relation)
        if (sampling.scheme, relation) in ALLOWED
        for clipped in (True, False)
    },
    Clients: {
        "of Spider": lambda p, n: one_client(spider(DataSetSamples(p), n), n),
        "whole": lambda p, n: one_client(
            spider(DataSetSamples(p), n, rho=3.0, sampling=WHOLE, difference_multiplier=2.0), n
        ),
    },
    GradientAndHessian: {"of bowls": curved},
    FreshGradient: {"fresh": lambda p, n: FreshGradient(Listed(p), 4, rows(0.3, n), G, STEPS)},
    Spider: {
        "data set": lambda p, n: spider(DataSetSamples(p), n),
        "data set, zero-out": lambda p, n: spider(DataSetSamples(p, 3), n, relation=Relation.ZERO_OUT),
        "whole": lambda p, n: spider(DataSetSamples(p), n, rho=3.0, sampling=WHOLE, difference_multiplier=2.0),
        "virtual": lambda p, n: spider(listed(p), n),
        "tree": lambda p, n: spider(DataSetSamples(p), n, Tree(8), Tree(8).max_cost(1.0), term_sensitivity=0.5 * G),
        "smoothed, losses": lambda p, n: smoothed(
            p, n, "zeroth", 1.14, mechanism=Tree(8), rho=Tree(8).max_cost(1.0), term_sensitivity=0.57 * G
        ),
        "smoothed, gradients": lambda p, n: smoothed(
            p, n, "first", 1.05, rho=3.0, sampling=WHOLE, difference_multiplier=2.0
        ),
    },
}
MECHANISMS: dict[type, dict[str, Factory]] = {
    **{plain: {"plain": plain} for plain in (Gaussian, Laplace, Exact)},
    DiscreteGaussian: {"plain": lambda: (pytest.importorskip("opendp"), DiscreteGaussian())[1]},
    Tree: {"plain": lambda: Tree(CALLS), "optimal": lambda: Tree(CALLS, optimal=True)},
    BandedSquareRoot: {"banded": lambda: BandedSquareRoot(CALLS, 3)},
}
METHODS: dict[type, dict[str, Factory]] = {
    Optimised: {
        "AdamW": lambda: Optimised(torch.optim.AdamW, [torch.Size([DIM])], 40),
        "momentum": lambda: Optimised(
            lambda p: torch.optim.SGD(p, 0.1, momentum=0.9), [torch.Size([DIM])], 40, _halving
        ),
    },
    Descent: {"plain": lambda: Descent(torch.tensor([0.1, 0.2])), "momentum": lambda: Descent(0.1, 0.9)},
    StochasticSpider: {
        name: partial(StochasticSpider, 30, 0.1, 5.0, 3.0, 0.3, as_printed)
        for name, as_printed in {"corrected": False, "as printed": True}.items()
    },
    OnlineToNonconvex: {
        name: partial(OnlineToNonconvex, 30, 0.1, 0.05, 4, restart)
        for name, restart in {"plain": False, "restart": True}.items()
    },
    DriftEscape: {
        repeat: partial(DriftEscape, 0.1, 1.0, 4, 0.1, 2, repeat) for repeat in ("restore", "refresh", "go on")
    },
}
laws_data.MECHANISMS.update(MECHANISMS)
FACTORIES: dict[type, dict[type, dict[str, Factory]]] = {Oracle: ORACLES, Mechanism: MECHANISMS, Method: METHODS}


def names(made: type, makes: Mapping[str, Factory]) -> list[str]:
    """Return the names of a class's factories in tests."""
    return [f"{made.__module__.removeprefix('dpnotes.')}.{made.__name__}, {name}" for name in makes]


def cases(factories: Mapping[type, Mapping[type, Mapping[str, Factory]]] = FACTORIES) -> dict[str, Callable[[], None]]:
    """Return every law of every factory, by name."""
    return {
        f"{name}: {law.__name__}": partial(law, make)
        for kind, laws in LAWS.items()
        for made, makes in factories.get(kind, {}).items()
        for name, make in zip(names(made, makes), makes.values(), strict=True)
        for law in laws
    }
