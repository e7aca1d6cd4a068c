"""Mutated lines of the references: each is noticed by a comparison of paths, or is listed."""

import ast
import inspect
from dataclasses import replace
from itertools import islice
from types import ModuleType

import pytest

from dpnotes.papers.adaptive_batch import reference as adaptive_reference
from dpnotes.papers.budget_schedules import reference as schedules_reference
from dpnotes.papers.drift_escape import reference as escape_reference
from dpnotes.papers.goldstein import reference as goldstein_reference
from dpnotes.papers.noisy_sgd import reference as noisy_reference
from tests.attack.mutants import Mutant, mutants_of
from tests.papers.paths import distance
from tests.papers.test_reference import CASES, path
from tests.papers.test_reference_lines import LINES

# Comparisons of numbers of a run, of which no two are equal: whether they are strict does not matter.
TIES = {
    "budget_schedules": ["rho <= left + 1e-9 * R"],
    "noisy_sgd": [
        "private_lengths > C", "private_rows.norm(dim=1) > C", "private_value + private_nu >= private_threshold",
    ],
    "adaptive_batch": ["(last if 9 in printed else estimate.norm()) <= threshold"],
    "goldstein": ["lot(t) * windows < 1"],
    "drift_escape": [
        "last.g.norm() > 3 * chi", "(x - tested).norm() >= S", "gradient.norm() <= longest",
        "torch.linalg.eigvalsh(hessian)[0] >= least",
    ],
}  # fmt: skip
SAME_LENGTH = ("private_lengths > longest", "(private_lengths) >= (longest)")  # scaled to the length that it has


def loosened(comparison: str) -> str:
    """Return the mutant of a comparison that is strict where it was not, or the other way round."""
    tree = ast.parse(comparison, mode="eval").body
    assert isinstance(tree, ast.Compare)
    other = {ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">"}[type(tree.ops[0])]
    left, right = (ast.get_source_segment(comparison, side) for side in (tree.left, tree.comparators[0]))
    return f"({left}) {other} ({right})"


EQUIVALENT: set[tuple[str, str, str]] = {
    *((paper, one, loosened(one)) for paper, some in TIES.items() for one in some),
    *((paper, *SAME_LENGTH) for paper in ("adaptive_batch", "goldstein")),
    ("budget_schedules", "torch.zeros_like(x)", "(torch).ones_like(x)"),  # 1 - beta^0 = 0 times m_1 is 0 for every m_1
    ("budget_schedules", "1e-9 * R", "((1e-9) / (R))"),  # an allowance for rounding, either way
    ("adaptive_batch", "0", "(0 + 1)"),  # tau, which the first step sets
    ("adaptive_batch", "2", "(2 + 1)"),  # a leaf after the last one is in no block, and the next one is neither
    ("adaptive_batch", "0.0", "(0.0 + 1)"),  # private_grad, which the first step sets
    ("drift_escape", "False", "True"),  # esc, which every attempt sets
}


def mutants(module: ModuleType) -> dict[str, list[Mutant]]:
    """Return all mutants of the listings by function, except those of defaults and examples."""
    source, found = inspect.getsource(module), {}
    functions = [node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)]
    for mutant in mutants_of(module.__name__, source):
        for function in functions:
            if function.body[1].lineno <= mutant.line <= (function.end_lineno or 0):
                found.setdefault(function.name, []).append(mutant)
    return found


def mutated(module: ModuleType, mutant: Mutant) -> ModuleType:
    copy = ModuleType(module.__name__)
    exec(mutant.source(inspect.getsource(module)), copy.__dict__)
    return copy


def is_noticed(module: ModuleType, function: str, mutant: Mutant) -> bool:
    """Return whether a mutant changes a path that is compared with the library, or the effect of a printed line."""
    broken = mutated(module, mutant)
    for name, case in CASES.items():
        if case.module is module and function in case.functions:
            try:
                if distance(path(name), islice(case.reference(broken), 4 * case.steps), case.within) > case.within:
                    return True
            except Exception:  # any exception of a mutant counts as noticed
                return True
    for (of, name, line), check in LINES.items():
        if of is module and (name == function or function in ("clipped", "touched", "held", "shifted")):
            try:
                if not check(broken, {line}) or check(broken, set()):
                    return True
            except Exception:
                return True
    return False


def unnoticed(module: ModuleType) -> list[tuple[str, str, str]]:
    return [
        (mutant.file.split(".")[2], mutant.old, mutant.new)
        for function, many in mutants(module).items()
        for mutant in many
        if not is_noticed(module, function, mutant)
    ]


MODULES = [schedules_reference, noisy_reference, adaptive_reference, escape_reference, goldstein_reference]


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__package__)
def test_every_mutant_of_a_reference_is_noticed_or_equivalent(module: ModuleType):
    """Each mutant that is listed as equivalent must occur once; equal lines have a mutant each."""
    paper = module.__name__.split(".")[2]
    assert sorted(unnoticed(module)) == sorted(mutant for mutant in EQUIVALENT if mutant[0] == paper)


@pytest.mark.slow
def test_control_a_listing_that_is_the_same_is_not_noticed():
    for module in MODULES:
        function, (mutant, *_) = max(mutants(module).items(), key=lambda item: len(item[1]))
        assert not is_noticed(module, function, replace(mutant, new=mutant.old))
