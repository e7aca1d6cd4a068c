"""Mutated lines of the references and of the library: each is noticed by a comparison of paths, or is listed."""

import ast
import inspect
import random
from dataclasses import replace
from itertools import islice
from types import ModuleType

import pytest

from dpnotes.methods import descent, drift_escape, online_to_nonconvex, spider_descent
from dpnotes.oracles import blocks, clients, clipped, holdings, minibatch, samples, smoothed, spider
from dpnotes.papers.adaptive_batch import reference as adaptive_reference
from dpnotes.papers.budget_schedules import reference as schedules_reference
from dpnotes.papers.drift_escape import derivatives as model_derivatives
from dpnotes.papers.drift_escape import reference as escape_reference
from dpnotes.papers.drift_escape import selection as model_selection
from dpnotes.papers.goldstein import reference as goldstein_reference
from dpnotes.papers.noisy_sgd import reference as noisy_reference
from dpnotes.privacy import filter as filters
from dpnotes.privacy import mechanisms, search, selection, tree
from dpnotes.privacy.museum import module_with_line_replaced
from tests.attack.mutants import Mutant, mutants_of
from tests.papers.paths import (
    distance,
)
from tests.papers.test_reference import CASES, path
from tests.papers.test_reference_lines import LINES

# ---------------------------------------------------------------- mutated lines of the references
NUMBER = 12  # mutants per function
NO_TIE = "no two numbers of a run are equal"
EQUIVALENT: dict[tuple[str, str, str], str] = {
    ("budget_schedules", "torch.zeros_like(x)", "(torch).ones_like(x)"): "1 - beta^0 = 0 times m_1 is 0 for every m_1",
    ("budget_schedules", "rho <= left + 1e-9 * R", "(rho) < (left + 1e-9 * R)"): NO_TIE,
    ("budget_schedules", "1e-9 * R", "((1e-9) / (R))"): "an allowance for rounding, either way",
    ("noisy_sgd", "private_lengths > C", "(private_lengths) >= (C)"): NO_TIE,
    ("noisy_sgd", "private_rows.norm(dim=1) > C", "(private_rows.norm(dim=1)) >= (C)"): NO_TIE,
    (
        "noisy_sgd",
        "private_value + private_nu >= private_threshold",
        "(private_value + private_nu) > (private_threshold)",
    ): NO_TIE,
    (
        "adaptive_batch",
        "private_lengths > longest",
        "(private_lengths) >= (longest)",
    ): "scaled to the length that it has",
    ("adaptive_batch", "0", "(0 + 1)"): "tau, which the first step sets",
    ("adaptive_batch", "2", "(2 + 1)"): "a leaf after the last one is in no block, and the next one is neither",
    ("adaptive_batch", "0.0", "(0.0 + 1)"): "private_grad, which the first step sets",
    (
        "adaptive_batch",
        "(last if 9 in printed else estimate.norm()) <= threshold",
        "(last if 9 in printed else estimate.norm()) < (threshold)",
    ): NO_TIE,
    ("goldstein", "private_lengths > longest", "(private_lengths) >= (longest)"): "scaled to the length that it has",
    ("goldstein", "lot(t) * windows < 1", "(lot(t) * windows) <= (1)"): NO_TIE,
    ("drift_escape", "last.g.norm() > 3 * chi", "(last.g.norm()) >= (3 * chi)"): NO_TIE,
    ("drift_escape", "(x - tested).norm() >= S", "((x - tested).norm()) > (S)"): NO_TIE,
    ("drift_escape", "gradient.norm() <= longest", "(gradient.norm()) < (longest)"): NO_TIE,
    (
        "drift_escape",
        "torch.linalg.eigvalsh(hessian)[0] >= least",
        "(torch.linalg.eigvalsh(hessian)[0]) > (least)",
    ): NO_TIE,
    ("drift_escape", "False", "True"): "esc, which every attempt sets",
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
    ("momentum, until the budget is gone", descent, "Descent.step",
     "weight = (1 - self.momentum) / (1 - self.momentum ** (state.steps + 1).double())",
     "weight = (1 - self.momentum) / (1 - self.momentum ** (state.steps + 2).double())"),
    ("descent", clipped, "ClippedGradient.answer",
     "scale = self.clip / self.problem.num_examples / norms.clamp_min(self.clip)",
     "scale = self.clip / self.problem.num_examples / norms.clamp_min(2 * self.clip)"),
    ("momentum, until the budget is gone", filters, "Filter.grant",
     "reused = reused + cost", "reused = reused + 0.9 * cost"),
    ("clipped noisy SGD", mechanisms, "Gaussian.release",
     "noise = streams.normal(self.purpose, request.call, value.shape[1])",
     "noise = streams.normal(self.purpose, request.call + 1, value.shape[1])"),
    ("clipped noisy SGD, Poisson", minibatch, "MinibatchGradient.answer",
     "weights = self.norm_bound / divisor / norms.clamp_min(self.norm_bound)",
     "weights = self.norm_bound / divisor / norms.clamp_min(1.1 * self.norm_bound)"),
    ("noisy SGD", minibatch, "MinibatchGradient.answer",
     "longer = sample.present & ~(gradients.norms() <= self.norm_bound)  # NaN counts as longer",
     "longer = sample.present & ~(gradients.norms() <= 1.1 * self.norm_bound)"),
    ("AboveThreshold", selection, "AboveThreshold.begin",
     'noisy = self._noisy(threshold, 2, streams, f"{self.purpose}: threshold", state.searches)',
     'noisy = self._noisy(threshold, 1, streams, f"{self.purpose}: threshold", state.searches)'),
    ("AboveThreshold", selection, "AboveThreshold.ask",
     'noisy = self._noisy(value[:, 0].double(), 4, streams, f"{self.purpose}: question", state.asked)',
     'noisy = self._noisy(value[:, 0].double(), 2, streams, f"{self.purpose}: question", state.asked)'),
    ("selection", search, "select_stationary_point",
     "most_norm = search.alpha + search.gradient_slack", "most_norm = search.alpha"),
    ("tree", tree, "Tree.release",
     "released = released - old if released is drawn else released.sub_(old)",
     "released = released - old if released is drawn else released"),
    ("Stochastic Spider", samples, "DataSetBatch.mean",
     "kept = torch.where(norms.isfinite(), torch.where(norms > most, most / norms, 1.0), 0.0)",
     "kept = torch.where(norms.isfinite(), 1.0, 0.0)"),
    ("Stochastic Spider, from a saddle", spider, "BatchSizes.wanted",
     "later = (self.per_gradient * bound).clamp_min(self.least)",
     "later = (0.9 * self.per_gradient * bound).clamp_min(self.least)"),
    ("Stochastic Spider, from a saddle", spider, "Refresh.due",
     "due = (terms == 0) | (drift >= self.threshold)", "due = (terms == 0) | (drift >= 1.1 * self.threshold)"),
    ("Stochastic Spider, from a saddle", spider_descent, "StochasticSpider.step",
     "saddle = moves & (tested <= settings.threshold) & (state.frozen <= 0)",
     "saddle = moves & (tested <= settings.threshold) & (state.frozen <= 1)"),
    ("Stochastic Spider, 9 and 10 as printed", spider_descent, "StochasticSpider.step",
     "tested = state.previous if self.as_printed else norms(direction)", "tested = norms(direction)"),
    ("drift escape, refresh, from a saddle", spider, "Spider.remember",
     "gradient = torch.where(plan.begins[:, None], values[0], old.gradient + values[0])", "gradient = values[0]"),
    ("drift escape, refresh, from a saddle", drift_escape, "DriftEscape.step",
     "escaped = testing & (norms(x - anchor) >= settings.radius)",
     "escaped = testing & (norms(x - anchor) >= 2 * settings.radius)"),
    ("drift escape, refresh", drift_escape, "DriftEscape.step",
     "oracle_state = oracle.rollback(oracle_state, oracle_state, again, refresh=True)", "pass"),
    ("drift escape, refresh", drift_escape, "DriftEscape.step", "x = select(done, anchor, x)", "pass"),
    ("drift escape, restore, from a saddle", drift_escape, "DriftEscape.step",
     "back = anchor - (step_size * anchor_gradient).to(anchor)", "back = anchor"),
    ("clients, from a slope", clients, "Clients.release",
     "mean = total / torch.full_like(total[:1, :1], self.blocks.num_clients)",
     "mean = total / torch.full_like(total[:1, :1], len(self.blocks.members))"),
    ("clients, from a slope", clients, "Clients.streams_of",
     "words = Streams(keys).words(CLIENT_PURPOSE, clients.repeat(self.num_runs), 1)",
     "words = Streams(keys).words(CLIENT_PURPOSE, 0 * clients.repeat(self.num_runs), 1)"),
    ("clients, until one has no example left", clients, "Clients.plan",
     "why * (active ^ granted),", "why * (active & granted),"),
    ("clients, from a slope", blocks, "pairwise_sum",
     "terms = torch.cat([terms[:, 0:pairs:2] + terms[:, 1:pairs:2], terms[:, pairs:]], 1)",
     "terms = terms[:, 0:pairs:2] + terms[:, 0:pairs:2]"),
    ("clients, from a slope", holdings, "_Held.gradients",
     "return self.problem.gradients(x, self.table.gather(1, examples))", "return self.problem.gradients(x, examples)"),
    ("model selection", model_derivatives, "with_triangle",
     "return torch.cat([gradient, weight * hessian[..., rows, columns]], -1)",
     "return torch.cat([gradient, weight * hessian[..., columns, rows] * 1.1], -1)"),
    ("model selection", model_derivatives, "ExampleDerivatives._sum",
     "weights = (longest / lengths).clamp_max(1).to(terms)", "weights = (longest / lengths).clamp_max(1.1).to(terms)"),
    ("model selection", model_selection, "Selection.noise_multiplier",
     "return gaussian_std(self.epsilon, self.delta) * math.sqrt(self.num_models)",
     "return gaussian_std(self.epsilon, self.delta)"),
    ("model selection", model_selection, "Selection._logarithm",
     "return math.log(6 * self.num_models / self.failure)", "return math.log(6 / self.failure)"),
    ("model selection, 7 as printed", model_selection, "Selection.accepts",
     "return (norms <= self.accuracy + far) & (eigenvalues >= least)", "return norms <= self.accuracy + far"),
    ("O2NC, Algorithm 3", online_to_nonconvex, "OnlineToNonconvex.step",
     "shrunk = torch.where(length > settings.largest_move, settings.largest_move / length, 1.0)",
     "shrunk = torch.where(length > settings.largest_move, 1.1 * settings.largest_move / length, 1.0)"),
    ("O2NC, Algorithm 5", online_to_nonconvex, "OnlineToNonconvex.step",
     "chosen = select(whole & (lot * windows < 1), average, state.chosen)  # the k-th of them with probability 1 / k",
     "chosen = average"),
    ("O2NC, Algorithm 5, a period of one", online_to_nonconvex, "OnlineToNonconvex.step",
     "total, whole = state.total + state.x, moved & closes", "total, whole = state.total + x, moved & closes"),
    ("O2NC, Algorithm 3, line 14 as printed", smoothed, "SmoothedBatch._estimates",
     "part = estimate(problem, asked, points if not samples.independent else points[:1], steps, radius)",
     "part = estimate(problem, asked, points, steps, radius)"),
    ("O2NC, Algorithm 5", smoothed, "in_ball",
     "return on_sphere(normal, radius)[..., :-2]", "return on_sphere(normal[..., :-2], radius)"),
    ("O2NC, Algorithm 4", smoothed, "SmoothedBatch.mean",
     "longest = bound if samples.clipped else torch.full_like(bound, torch.inf)",
     "longest = torch.full_like(bound, torch.inf)"),
    ("O2NC, Algorithm 4", spider, "Spider.ask",
     "longest = torch.where(new, self.gradient_bound, self.smoothness * far)",
     "longest = torch.where(new, self.gradient_bound, self.smoothness * move)"),
]  # fmt: skip


def replaced(monkeypatch: pytest.MonkeyPatch, module: ModuleType, name: str, line: str, instead: str) -> None:
    """Replace the function or method that contains a line by the version with the changed line."""
    *owners, last = name.split(".")
    there, broken = module, module_with_line_replaced(module, line, instead)
    for owner in owners:
        there, broken = getattr(there, owner), getattr(broken, owner)
    monkeypatch.setattr(there, last, getattr(broken, last))


@pytest.mark.parametrize(("name", "module", "function", "line", "instead"), AWAY, ids=lambda part: str(part)[:40])
@pytest.mark.slow
def test_a_mutated_line_of_the_library_is_noticed(
    monkeypatch: pytest.MonkeyPatch, name: str, module: ModuleType, function: str, line: str, instead: str
):
    case = CASES[name]
    replaced(monkeypatch, module, function, line, instead)
    assert distance(case.library(), case.reference(case.module), case.within) > case.within
