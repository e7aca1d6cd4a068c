"""Mutated lines of the references and of the library: each is noticed by a comparison of paths, or is listed."""

import ast
import inspect
import random
from dataclasses import replace
from itertools import islice
from types import ModuleType

import pytest

from dpnotes.methods import descent, spider_descent
from dpnotes.oracles import blocks, clients, clipped, holdings, minibatch, samples, spider
from dpnotes.papers.adaptive_batch import reference as adaptive_reference
from dpnotes.papers.budget_schedules import reference as schedules_reference
from dpnotes.papers.drift_escape import derivatives as model_derivatives
from dpnotes.papers.drift_escape import escaping
from dpnotes.papers.drift_escape import reference as escape_reference
from dpnotes.papers.drift_escape import selection as model_selection
from dpnotes.papers.goldstein import conversion, smoothed
from dpnotes.papers.goldstein import reference as goldstein_reference
from dpnotes.papers.noisy_sgd import reference as noisy_reference
from dpnotes.privacy import filter as filters
from dpnotes.privacy import mechanisms, search, selection, tree
from tests.attack.mutants import Mutant, mutants_of
from tests.papers.paths import distance
from tests.papers.test_reference import CASES, path
from tests.papers.test_reference_lines import LINES

# ---------------------------------------------------------------- mutated lines of the references
NUMBER = 12  # mutants per function
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


def unnoticed(module: ModuleType, number: int | None = None) -> list[tuple[str, str, str]]:
    found = []
    for function, many in mutants(module).items():
        shuffled_many = random.Random(f"{module.__name__}.{function}").sample(many, len(many))
        few = [mutant for mutant in shuffled_many[:number] if not is_noticed(module, function, mutant)]
        found += [(mutant.file.split(".")[2], mutant.old, mutant.new) for mutant in few]
    return found


MODULES = [schedules_reference, noisy_reference, adaptive_reference, escape_reference, goldstein_reference]


@pytest.mark.slow
@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__package__)
def test_a_mutated_line_of_a_reference_is_noticed(module: ModuleType):
    assert set(unnoticed(module, NUMBER)) <= set(EQUIVALENT)


@pytest.mark.slow
def test_every_mutant_of_a_reference_is_noticed_or_equivalent():
    """Each mutant that is listed as equivalent must occur once; equal lines have a mutant each."""
    assert sorted(mutant for module in MODULES for mutant in unnoticed(module)) == sorted(EQUIVALENT)


@pytest.mark.slow
def test_control_a_listing_that_is_the_same_is_not_noticed():
    for module in MODULES:
        function, (mutant, *_) = max(mutants(module).items(), key=lambda item: len(item[1]))
        assert not is_noticed(module, function, replace(mutant, new=mutant.old))


# ---------------------------------------------------------------- mutated lines of the library
AWAY: list[tuple[str, ModuleType, str, str, str]] = [
    ("momentum, until the budget is gone", descent, "Descent.step", "steps + 1).double(", "steps + 2).double("),
    ("descent", clipped, "ClippedGradient.answer", "clamp_min(self.clip)", "clamp_min(2 * self.clip)"),
    ("momentum, until the budget is gone", filters, "Filter.grant",
     "reused = reused + cost", "reused = reused + 0.9 * cost"),
    ("clipped noisy SGD", mechanisms, "Gaussian.release", "request.call, value", "request.call + 1, value"),
    ("clipped noisy SGD, Poisson", minibatch, "MinibatchGradient.answer",
     "(self.norm_bound)", "(1.1 * self.norm_bound)"),
    ("noisy SGD", minibatch, "MinibatchGradient.answer",
     "self.norm_bound)  # NaN counts as longer", "1.1 * self.norm_bound)"),
    ("AboveThreshold", selection, "AboveThreshold.begin", "threshold, 2, streams", "threshold, 1, streams"),
    ("AboveThreshold", selection, "AboveThreshold.ask", "double(), 4, streams,", "double(), 2, streams,"),
    ("selection", search, "select_stationary_point", "alpha + search.gradient_slack", "alpha"),
    ("tree", tree, "Tree.release", "released.sub_(old)", "released"),
    ("Stochastic Spider", samples, "DataSetBatch.mean", "torch.where(norms > most, most / norms, 1.0)", "1.0"),
    ("Stochastic Spider, from a saddle", spider, "BatchSizes.wanted", "(self.per_gradient", "(0.9 * self.per_gradient"),
    ("Stochastic Spider, from a saddle", spider, "Refresh.due", "= self.threshold", "= 1.1 * self.threshold"),
    ("Stochastic Spider, from a saddle", spider_descent, "StochasticSpider.step",
     "state.frozen <= 0)", "state.frozen <= 1)"),
    ("Stochastic Spider, 9 and 10 as printed", spider_descent, "StochasticSpider.step",
     "= state.previous if self.as_printed else norms", "= norms"),
    ("drift escape, refresh, from a saddle", spider, "Spider.remember",
     "torch.where(plan.begins[:, None], values[0], old.gradient + values[0])", "values[0]"),
    ("drift escape, refresh, from a saddle", escaping, "DriftEscape.step",
     "= settings.radius)", "= 2 * settings.radius)"),
    ("drift escape, refresh", escaping, "DriftEscape.step",
     "oracle_state = oracle.rollback(oracle_state, oracle_state, again, refresh=True)", "pass"),
    ("drift escape, refresh", escaping, "DriftEscape.step", "x = select(done, anchor, x)", "pass"),
    ("drift escape, restore, from a saddle", escaping, "DriftEscape.step",
     "anchor - (step_size * anchor_gradient).to(anchor)", "anchor"),
    ("clients, from a slope", clients, "Clients.release", ", self.blocks.num_clients)", ", len(self.blocks.members))"),
    ("clients, from a slope", clients, "Clients.streams_of", ", clients.repeat", ", 0 * clients.repeat"),
    ("clients, until one has no example left", clients, "Clients.plan", "* (active ^ granted)", "* (active & granted)"),
    ("clients, from a slope", blocks, "pairwise_sum",
     "torch.cat([terms[:, 0:pairs:2] + terms[:, 1:pairs:2], terms[:, pairs:]], 1)",
     "terms[:, 0:pairs:2] + terms[:, 0:pairs:2]"),
    ("clients, from a slope", holdings, "_Held.gradients", "self.table.gather(1, examples)", "examples"),
    ("model selection", model_derivatives, "with_triangle", ", rows, columns]],", ", columns, rows] * 1.1],"),
    ("model selection", model_derivatives, "ExampleDerivatives._sum", "clamp_max(1).to(", "clamp_max(1.1).to("),
    ("model selection", model_selection, "Selection.noise_multiplier", ") * math.sqrt(self.num_models)", ")"),
    ("model selection", model_selection, "Selection._logarithm", "* self.num_models /", "/"),
    ("model selection, 7 as printed", model_selection, "Selection.accepts",
     "(norms <= self.accuracy + far) & (eigenvalues >= least)", "norms <= self.accuracy + far"),
    ("O2NC, Algorithm 3", conversion, "OnlineToNonconvex.step",
     ", settings.largest_move /", ", 1.1 * settings.largest_move /"),
    ("O2NC, Algorithm 5", conversion, "OnlineToNonconvex.step",
     "select(whole & (lot * windows < 1), average, state.chosen)  # the k-th of them with probability 1 / k",
     "average"),
    ("O2NC, Algorithm 5, a period of one", conversion, "OnlineToNonconvex.step",
     "total + state.x, moved", "total + x, moved"),
    ("O2NC, Algorithm 3, line 14 as printed", smoothed, "SmoothedBatch._estimates",
     "points if not samples.independent else points[:1]", "points"),
    ("O2NC, Algorithm 5", smoothed, "in_ball", ", radius)[..., :-2]", "[..., :-2], radius)"),
    ("O2NC, Algorithm 4", smoothed, "SmoothedBatch.mean", "bound if samples.clipped else torch", "torch"),
    ("O2NC, Algorithm 4", spider, "Spider.ask", "smoothness * far)", "smoothness * move)"),
]  # fmt: skip


def replaced(monkeypatch: pytest.MonkeyPatch, module: ModuleType, name: str, part: str, instead: str) -> None:
    """Replace the function or method that contains a part of a line by the version with the changed part."""
    source, broken = inspect.getsource(module), ModuleType(module.__name__)
    assert source.count(part) == 1
    broken.__file__ = module.__file__
    exec(source.replace(part, instead), broken.__dict__)
    *owners, last = name.split(".")
    there, changed = module, broken
    for owner in owners:
        there, changed = getattr(there, owner), getattr(changed, owner)
    monkeypatch.setattr(there, last, getattr(changed, last))


@pytest.mark.parametrize(("name", "module", "function", "part", "instead"), AWAY, ids=lambda part: str(part)[:40])
@pytest.mark.slow
def test_a_mutated_line_of_the_library_is_noticed(
    monkeypatch: pytest.MonkeyPatch, name: str, module: ModuleType, function: str, part: str, instead: str
):
    case = CASES[name]
    replaced(monkeypatch, module, function, part, instead)
    assert distance(case.library(), case.reference(case.module), case.within) > case.within
