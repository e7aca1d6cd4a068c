"""Public callables, and the numbers that they take."""

import importlib
import inspect
import pkgutil
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from types import ModuleType
from typing import Any, is_typeddict

import dpnotes
from dpnotes.papers import PAPERS
from tests.shown import SHOWN

# Callables whose arguments no user types; their callers have checked them.
NOT_DOORS = {
    **dict.fromkeys(
        (f"dpnotes.random.{name}" for name in ("draws", "reference", "cpu_kernel", "gpu_kernel", "secret")),
        "kernels, which `Streams` calls",
    ),
    "dpnotes.experiments": "pieces of the runner; the command line and the specs are its doors",
    "dpnotes.util.files": "what is written and sealed, of the cache, the runner and `checkpoint`",
    "dpnotes.problems.augmentation": "draws of `ModuleProblem`",
    "dpnotes.problems.dropout": "masks of `ModuleProblem`",
    "dpnotes.oracles.asks": "what an oracle hands to its `Releases`",
    "dpnotes.oracles.release": "what an oracle hands to its `Releases`; the oracles are the doors",
    "dpnotes.notebook": "pictures and cells of our notebooks",
    "dpnotes.exercises": "checkers of answers, which an `Exercise` calls",
    "dpnotes.solutions": "answers of exercises, as a reader would write them",
    "dpnotes.theory": "algebra in sympy; its door for numbers is `Calculator`, below",
    "dpnotes.util.validate": "the validators themselves",
    "dpnotes.privacy.museum.releases": "exhibits, of a few lines each",
}
# Values that one part passes to another at every step or product; their maker has checked them.
INSIDE = (
    "core.Sensitive",
    "atlas.borders.borders",
    "atlas.borders.regions",
    "atlas.question.Field",
    "atlas.report.amount",  # writes any number
    "atlas.takeovers.Takeover",
    "atlas.takeovers.leaders",
    "cli.console.counted",
    "cli.doctor.Finding",
    "cli.gpu.session",  # which asks for a GPU; its minutes are tested in test_gpu.py
    "measure.lanczos.Tridiagonal",
    "measure.goldstein.GoldsteinCertificate",
    "measure.stationarity.Certificate",
    "util.per_run.rows",
    "oracles.blocks.Blocks.clients",
    "oracles.blocks.Node",
    "oracles.blocks.whole_nodes",
    "oracles.samples.DataSetBatch",
    "oracles.samples.DataSetBatch.mean",
    "oracles.samples.shuffled",
    "papers.goldstein.smoothed.SmoothedSamples.num_directions",
    "papers.goldstein.smoothed.in_ball",
    "papers.goldstein.smoothed.on_sphere",
    *(f"oracles.{name}.bounds" for name in ("clipped.ClippedGradient", "fresh.FreshGradient")),
    *(f"oracles.{name}.bounds" for name in ("minibatch.MinibatchGradient", "spider.Spider")),
    "papers.drift_escape.derivatives.ExampleDerivatives.mean",
    "papers.drift_escape.selection.GradientAndHessian.bounds",
    "papers.drift_escape.derivatives.VirtualDerivatives.mean",
    "papers.drift_escape.derivatives.apart_again",
    "papers.drift_escape.derivatives.with_triangle",
    "util.processes.Together",  # asks the launcher; its timeout is tested in oracles/test_clients.py
    "privacy.mechanisms.check_answer",
    "privacy.mechanisms.check_release",
    "privacy.mechanisms.noisy_on_grid",
    "privacy.mechanisms.price_of",
    "privacy.sums.check_term",
    "privacy.sums.unpriced",
    "problems.closed.closed",
    "problems.closed.closed_loss",
    "problems.closed.compare_losses",
    "problems.closed.stand_ins",
    "problems.examples.rows",
    "problems.examples.check",
    "problems.examples.check_points",
    "problems.factors.Lookups",
)
# Data, losses, networks and exhibits: a wrong number there gives a wrong curve, and no smaller epsilon.
DATA = tuple(
    f"problems.{name}."
    for name in "architectures datasets landscapes nonsmooth preprocessing quadratics robust saddles sensing separable "
    "smoothing text virtual".split()
) + ("privacy.museum.",)  # fmt: skip
NUMBER = re.compile(r"\b(int|float)\b")


def modules() -> Iterator[ModuleType]:
    for found in pkgutil.walk_packages(dpnotes.__path__, "dpnotes."):
        # A paper's inner functions, and its references: a check in one of them would be a line outside the algorithm.
        inner = ".papers." in found.name and re.search(r"\.(experiments|claims|reference)\b", found.name)
        not_yet = found.name.startswith("dpnotes.papers.") and {*found.name.split(".")[2:3]} & {*PAPERS} - {*SHOWN}
        if found.name.endswith("__main__") or inner or not_yet or found.name.startswith(tuple(NOT_DOORS)):
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


def within(value: Any, depth: int) -> Iterator[Any]:
    """Yield a value and all that it holds in records, mappings and sequences, down to a given depth."""
    yield value
    parts: Any = ()
    if is_dataclass(value) and not isinstance(value, type):
        parts = (getattr(value, field.name) for field in fields(value))
    elif isinstance(value, Mapping | list | tuple):
        parts = value.values() if isinstance(value, Mapping) else value
    for part in parts if depth else ():
        yield from within(part, depth - 1)


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
