"""One law for all papers: noise returned for (epsilon, delta) is (epsilon, delta)-DP under replace-one.

The releases are assembled here from their description, and an accountant that knows nothing of the papers computes
their cost. Every calculator and every public algorithm that takes a privacy target has a case here, or a reason for
having none; a new one without either fails by name. Printed noise need not be private, but must state its delta.
"""

import importlib
import inspect
import math
import pkgutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import cycle, islice
from typing import Any, is_typeddict

import numpy as np
import pytest
import torch

from dpnotes import papers
from dpnotes.core import FRESH, WHOLE, Relation, Sampling
from dpnotes.oracles.blocks import Blocks
from dpnotes.papers.adaptive_batch import algorithms as adaptive_batch
from dpnotes.papers.adaptive_batch import calculators as adaptive_batch_numbers
from dpnotes.papers.budget_schedules import algorithms as budget_schedules
from dpnotes.papers.budget_schedules import calculators as budget_schedules_numbers
from dpnotes.papers.drift_escape import algorithms as drift_escape
from dpnotes.papers.drift_escape import calculators as drift_escape_numbers
from dpnotes.papers.drift_escape import distributed as drift_escape_doors
from dpnotes.papers.drift_escape.baseline import distributed_noisy_sgd
from dpnotes.papers.drift_escape.selection import Selection
from dpnotes.papers.goldstein import algorithms as goldstein_doors
from dpnotes.papers.goldstein import calculators as goldstein_numbers
from dpnotes.papers.noisy_sgd import calculators as noisy_sgd_numbers
from dpnotes.privacy.accounting import account
from dpnotes.privacy.calibration import gaussian_delta
from dpnotes.privacy.events import Event
from dpnotes.privacy.tree import Tree
from dpnotes.problems.quadratics import Quadratic
from dpnotes.random.streams import Streams
from dpnotes.theory.calculators import Calculator
from dpnotes.train.noise import calibrated_noise
from dpnotes.train.plan import TrainingPlan

Releases = list[Event]
Case = Callable[["Draw"], Releases]


class Draw:
    """Random parameters of a problem, over decades, and a privacy target."""

    def __init__(self, seed: tuple[int, ...]) -> None:
        self.random = np.random.default_rng(seed)
        self.epsilon, self.delta = self.between(0.03, 30.0), self.between(1e-10, 1e-2)

    def between(self, low: float, high: float) -> float:
        """Return a log-uniform number."""
        return float(np.exp(self.random.uniform(math.log(low), math.log(high))))

    def whole(self, low: float, high: float) -> int:
        """Return a rounded log-uniform number."""
        return round(self.between(low, high))

    @property
    def privacy(self) -> dict[str, float]:
        """The target epsilon and delta of the draw."""
        return {"epsilon": self.epsilon, "delta": self.delta}


def once(noise_multiplier: float) -> Releases:
    """Return one Gaussian release of data that are used once."""
    return [Event(noise_multiplier, Relation.REPLACE_ONE, FRESH)]


def on_a_tree(noise_multiplier: float, num_leaves: float) -> Releases:
    """Return the cost of the worst-placed example of a tree."""
    return once(math.sqrt(0.5 / Tree(math.ceil(num_leaves)).max_cost(noise_multiplier)))


# ---------------------------------------------------------------- the papers
def unit(draw: Draw) -> dict[str, float]:
    """Return G, M and rho."""
    smoothness = draw.between(1, 3)
    curvatures = {"smoothness": smoothness, "hessian_lipschitz": draw.between(0.3, 1) * smoothness}
    return {"gradient_bound": draw.between(0.3, 3), **curvatures}


def adaptive_batch_parameters(draw: Draw, choose: Callable[..., Any]) -> Releases:
    sizes = {**unit(draw), "initial_gap": draw.between(0.3, 3)}
    more: dict[str, Any] = {"constants": "one"}
    size, dim = draw.between(1e4, 1e12), draw.whole(1, 1e4)
    if choose is adaptive_batch.practical:
        size, more = draw.between(1e-3, 0.3), {"max_leaves": draw.whole(1, 1e6)}
    found = choose(size, dim, draw.epsilon, draw.delta, **sizes, **more)
    leaf = 2 * max(found.gradient_bound / found.first_batch, 1 / found.batch_per_gradient)
    return on_a_tree(found.noise_multiplier * found.term_sensitivity / leaf, found.max_leaves)


def adaptive_batch_numbers_of_theorem(draw: Draw) -> Releases:
    letters = {name: draw.between(0.3, 3) for name in ("G", "M", "rho", "B")}
    n, dim = draw.whole(1e4, 1e12), draw.whole(1, 1e4)
    found = adaptive_batch_numbers.THEOREM(n=n, d=dim, **draw.privacy, **letters, iota=0.01, constants="one")
    leaf = 2 * max(letters["G"] / found["batch"], 1 / found["batch_per_gradient"])
    return on_a_tree(found["sigma"] / leaf, found["steps"])


def adaptive_batch_tree(draw: Draw) -> Releases:
    bound, batch, leaves = draw.between(0.1, 10), draw.between(1, 1e4), draw.whole(1, 1e9)
    found = adaptive_batch_numbers.TREE(G=bound, b=batch, Sigma=leaves, **draw.privacy)
    return on_a_tree(found["sigma"] * batch / (2 * bound), leaves)


def budget_schedule(draw: Draw, kind: str) -> Releases:
    """Return a budget for (epsilon, delta), spent over steps on all examples."""
    budget, steps = budget_schedules_numbers.ZCDP(**draw.privacy), draw.whole(1, 60)
    kappa, rho = draw.between(1.05, 100), budget["rho"]
    gamma = 1 - 1 / kappa
    if kind == "numbers":
        times = np.arange(1, steps + 1)
        found = budget_schedules_numbers.SCHEDULE(t=times, T=steps, kappa=kappa, R=budget["R"])["noise_multiplier"]
    elif kind == "momentum":
        found = budget_schedules.momentum_schedule(draw.between(0.1, 0.9) * gamma, gamma, rho, steps).noise_multipliers
    else:
        found = budget_schedules.theorem_4_5_schedule(gamma, rho, steps).noise_multipliers
    return [Event(float(noise), Relation.REPLACE_ONE, WHOLE) for noise in found]


def budget_schedule_of_risk(draw: Draw) -> Releases:
    sizes = {"N": draw.whole(1e4, 1e6), "D": draw.whole(1, 100), "kappa": draw.between(1.05, 30)}
    found = budget_schedules_numbers.RISK(**sizes, G=1.0, M=draw.between(1, 3), Delta=1.0, **draw.privacy)
    return [Event(found["uniform_noise"] * sizes["N"], Relation.REPLACE_ONE, WHOLE, int(found["uniform_steps"]))]


def drift_escape_theorem(draw: Draw) -> Releases:
    constants = ("corrected", "one")[draw.whole(1, 2) - 1]
    sizes = {**unit(draw), "risk_range": draw.between(0.3, 3), "constants": constants}
    n, dim = draw.between(1e16, 1e24), draw.whole(2, 1e3)
    return once(drift_escape.theorem_2(n, dim, draw.epsilon, draw.delta, **sizes).noise_multiplier)


def drift_escape_practical(draw: Draw, choose: Callable[..., Any]) -> Releases:
    """Return what one run releases, or the messages of each client, for any number of clients."""
    escape = drift_escape.practical_escape(
        draw.between(1e-3, 0.3), smoothness=draw.between(1, 3), hessian_lipschitz=draw.between(0.3, 1), risk_range=1.0
    )
    dim, bound = draw.whole(1, 1e4), draw.between(0.3, 3)
    clients = [draw.whole(1, 1e4)] if choose is drift_escape_doors.practical else []
    return once(choose(escape, dim, draw.epsilon, draw.delta, *clients, gradient_bound=bound).noise_multiplier)


def drift_escape_selection(draw: Draw) -> Releases:
    """Return the messages of each client about all models, for any number of examples."""
    bounds = {name: draw.between(0.3, 3) for name in ("gradient_bound", "smoothness", "hessian_lipschitz")}
    sizes = tuple(draw.whole(1, 1e6) for _ in range(draw.whole(1, 5)))
    dim, models = draw.whole(1, 1e3), draw.whole(1, 1e4)
    choice = Selection(draw.between(1e-3, 1), dim, sizes, models, draw.epsilon, draw.delta, **bounds)
    return once(choice.noise_multiplier / math.sqrt(models))


def drift_escape_baseline(draw: Draw) -> Releases:
    """Return the messages of one client of distributed DP-SGD; all clients have equally many examples."""
    size, steps, bound = draw.whole(1, 50), draw.whole(1, 20), draw.between(0.1, 10)
    problem = Quadratic.sample(torch.tensor([1.0]), num_examples=size, spread=1.0, seed=0)
    runs = distributed_noisy_sgd(
        lambda _: problem, torch.ones(1, 1), Streams.of(0, ["a"]), blocks=Blocks(2, 1), epsilon=draw.epsilon,
        delta=draw.delta, norm_bound=bound, step_size=1e-9, num_steps=steps,
    )  # fmt: skip
    assert runs.state.oracle.meter.calls.tolist() == [[steps, steps]]
    return [Event(float(runs.oracle.oracles[0].noise_std[0]) * size / (2 * bound), Relation.REPLACE_ONE, WHOLE, steps)]


def drift_escape_plan(draw: Draw, most_clients: int) -> Releases:
    """Return what one client releases: its noise is sqrt(m) times that of the mean over m clients."""
    letters = {name: draw.between(0.3, 3) for name in ("G", "M", "rho", "U")}
    n, dim, m = draw.whole(1e12, 1e24), draw.whole(2, 1e3), draw.whole(1, most_clients)
    plan = drift_escape_numbers.PLAN if m == 1 else partial(drift_escape_numbers.SHARED_PLAN, m=m)
    found = plan(n=float(n), d=dim, **draw.privacy, **letters)
    fresh, later = 2 * letters["G"] / found["b_1"], 2 * letters["M"] * math.sqrt(found["kappa"]) / found["b_2"]
    return once(math.sqrt(m) * found["r"] / math.hypot(fresh, later))


def goldstein_problem(draw: Draw) -> dict[str, Any]:
    gap, lipschitz = draw.between(0.1, 10), draw.between(0.1, 10)
    return {
        "d": draw.whole(1, 1e4), "alpha": draw.between(1e-3, 1) * gap / lipschitz,
        "beta": draw.between(1e-3, 1) * lipschitz, "Phi": gap, "L": lipschitz, **draw.privacy,
    }  # fmt: skip


def goldstein_single_pass(draw: Draw) -> Releases:
    problem = goldstein_problem(draw)
    found = goldstein_numbers.SINGLE_PASS_PARAMETERS(**problem)
    # Replacing an example at most reverses one of the clipped means.
    leaf = 2 * max(found["clip_reset"] / found["B1"], found["clip_increment"] / found["B2"])
    return on_a_tree(found["sigma"] / leaf, found["Sigma"])


def goldstein_multi_pass(draw: Draw) -> Releases:
    problem = goldstein_problem(draw)
    found = goldstein_numbers.MULTI_PASS_PARAMETERS(**problem)
    resets = math.ceil(found["T"] / found["Sigma"])
    first, second = (2 * found[f"clip_{part}"] / found["n"] for part in ("reset", "increment"))
    cost = resets * (first / found["sigma1"]) ** 2 + (found["T"] - resets) * (second / found["sigma2"]) ** 2
    return once(1 / math.sqrt(cost))


def goldstein_tree(draw: Draw) -> Releases:
    leaves, sensitivity = draw.whole(1, 1e9), draw.between(1e-3, 1e3)
    found = goldstein_numbers.TREE_NOISE(Sigma=leaves, S=sensitivity, **draw.privacy)
    return on_a_tree(found["sigma"] / sensitivity, leaves)


def goldstein_plain(draw: Draw) -> Releases:
    return once(1 / goldstein_numbers.EXPLICIT(**goldstein_problem(draw))["ratio"])


def goldstein_plain_parameters(draw: Draw) -> Releases:
    found = goldstein_numbers.PLAIN_PARAMETERS(**(problem := goldstein_problem(draw)))
    noise = found["sigma_multi"] * found["n"] / math.sqrt(math.ceil(found["T"]))
    return once(min(noise, found["sigma_single"] * found["B"]) / (2 * problem["L"]))


def noisy_sgd_noise(draw: Draw) -> Releases:
    """The batches are whole: fixed-size batches take a second each to account for, see `tests/papers/noisy_sgd`."""
    steps, bound, size = draw.whole(1, 1e4), draw.between(0.1, 10), draw.whole(10, 1e5)
    how = {"norm_bound": bound, "sampling": WHOLE, "relation": Relation.REPLACE_ONE, "num_steps": steps}
    found = calibrated_noise(draw.epsilon, draw.delta, **how, divisor=size)
    return [Event(found.std * size / (2 * bound), Relation.REPLACE_ONE, WHOLE, steps)]


def noisy_sgd_plan(draw: Draw) -> Releases:
    examples = draw.whole(100, 1e4)
    steps, batch = draw.whole(1, 30), examples // draw.whole(2, 20)
    plan = TrainingPlan(
        **draw.privacy, num_examples=examples, batch_size=batch, num_steps=steps, norm_bound=2.0,
        sampling="fixed-size", relation=Relation.REPLACE_ONE,
    )  # fmt: skip
    sampling = Sampling.fixed_size(batch, examples)
    return [Event(plan.noise.std * batch / 4.0, Relation.REPLACE_ONE, sampling, steps)]


def noisy_sgd_problem(draw: Draw) -> dict[str, Any]:
    """Return a problem with whole batches, for which the constants of the noise are known."""
    size = draw.whole(1e4, 1e12)
    return {
        "n": size, "B": size, "d": draw.whole(1, 1e5), "L": draw.between(0.3, 3), "f_max": draw.between(0.3, 3),
        "sigma": draw.between(0.03, 3), "rho": draw.between(0.1, 1), "c": draw.between(0.1, 3), "c_1": 1.0,
        "c_2": draw.between(0.1, 10), "c_eta": draw.between(0.003, 0.3),
    }  # fmt: skip


def steps_of(found: dict[str, Any], size: float) -> Releases:
    """Return the steps of a run, rounded up, as the single release that they equal together."""
    return once(found["Delta"] * size / (2 * found["C"]) / math.sqrt(math.ceil(found["T"])))


def noisy_sgd_loop(draw: Draw, calculator: Calculator) -> Releases:
    problem = noisy_sgd_problem(draw)
    known = {letter: value for letter, value in problem.items() if letter in calculator.parameters}
    return steps_of(calculator(**known, **draw.privacy), problem["n"])


def noisy_sgd_sample_size(draw: Draw) -> Releases:
    problem = {**noisy_sgd_problem(draw), "B": 10**30, "alpha": draw.between(1e-3, 0.3)}
    del problem["n"]
    found = noisy_sgd_numbers.SAMPLE_SIZE(**problem, **draw.privacy)
    return steps_of(found, found["n"])


def noisy_sgd_privacy_noise(draw: Draw) -> Releases:
    size, steps, bound = draw.whole(10, 1e9), draw.whole(1, 1e9), draw.between(0.1, 10)
    problem = {"n": size, "B": size, "T": steps, "C": bound, "c_1": 1.0, "c_2": draw.between(0.1, 10)}
    found = noisy_sgd_numbers.PRIVACY_NOISE(**problem, **draw.privacy)
    return [Event(found["Delta"] * size / (2 * bound), Relation.REPLACE_ONE, WHOLE, steps)]


def goldstein_choice(choose: Callable[..., goldstein_doors.GoldsteinParameters], draw: Draw) -> Releases:
    """Return all releases of a run, as the single Gaussian release that they equal together."""
    sizes = {"radius": draw.between(0.1, 0.9), "lipschitz": 1.0, "initial_gap": draw.between(1, 3)}
    found = choose(draw.whole(1e3, 1e6), draw.whole(1, 30), **draw.privacy, **sizes)
    return once(math.sqrt(0.5 / found.budget))


# The functions that return noise, by paper and name; several cases share the parameter sets of their paper.
CASES: dict[str, dict[str, Case]] = {
    "adaptive_batch": {
        "calculators.THEOREM": adaptive_batch_numbers_of_theorem,
        "calculators.TREE": adaptive_batch_tree,
        "algorithms.theorem_3_11": lambda draw: adaptive_batch_parameters(draw, adaptive_batch.theorem_3_11),
        "algorithms.practical": lambda draw: adaptive_batch_parameters(draw, adaptive_batch.practical),
    },
    "budget_schedules": {
        "calculators.ZCDP": lambda draw: budget_schedule(draw, "numbers"),
        "calculators.RISK": budget_schedule_of_risk,
        "algorithms.theorem_4_5_schedule": lambda draw: budget_schedule(draw, "theorem"),
        "algorithms.momentum_schedule": lambda draw: budget_schedule(draw, "momentum"),
    },
    "drift_escape": {
        "calculators.PLAN": lambda draw: drift_escape_plan(draw, 1),
        "calculators.SHARED_PLAN": lambda draw: drift_escape_plan(draw, 1000),
        "algorithms.theorem_2": drift_escape_theorem,
        "algorithms.practical": lambda draw: drift_escape_practical(draw, drift_escape.practical),
        "distributed.practical": lambda draw: drift_escape_practical(draw, drift_escape_doors.practical),
        "selection.Selection": drift_escape_selection,
        "baseline.distributed_noisy_sgd": drift_escape_baseline,
    },
    "goldstein": {
        **{
            f"algorithms.{choose.__name__}": partial(goldstein_choice, choose)
            for choose in (goldstein_doors.single_pass, goldstein_doors.multi_pass, goldstein_doors.plain)
        },
        "calculators.SINGLE_PASS_PARAMETERS": goldstein_single_pass,
        "calculators.MULTI_PASS_PARAMETERS": goldstein_multi_pass,
        "calculators.TREE_NOISE": goldstein_tree,
        "calculators.EXPLICIT": goldstein_plain,
        "calculators.PLAIN_PARAMETERS": goldstein_plain_parameters,
    },
    "noisy_sgd": {
        "calculators.PRIVACY_NOISE": noisy_sgd_privacy_noise,
        "calculators.CLOSED_LOOP": lambda draw: noisy_sgd_loop(draw, noisy_sgd_numbers.CLOSED_LOOP),
        "calculators.DETERMINISTIC_LOOP": lambda draw: noisy_sgd_loop(draw, noisy_sgd_numbers.DETERMINISTIC_LOOP),
        "calculators.SAMPLE_SIZE": noisy_sgd_sample_size,
    },
    "train": {"noise.calibrated_noise": noisy_sgd_noise, "plan.TrainingPlan": noisy_sgd_plan},
}
PARTS = (*papers.PAPERS, "train")
ORDER = "an order of magnitude, which no set of constants calls more than that"
SIZE = "a number of samples, no noise: its parameters are a case"
GIVEN = "the caller's c_1 and c_2, which Theorem 3.1 does not give: the accountant's noise is calibrated_noise"
ORDERS = [f"drift_escape.calculators.{name}" for name in ("RATE", "SHARED_RATE", "SAMPLES", "SHARED_SAMPLES")]
SIZES = ["SIZES", "SINGLE_PASS", "MULTI_PASS", "PLAIN_SINGLE_PASS", "PLAIN_MULTI_PASS", "LASRY_LIONS"]
SIZES += ["SINGLE_PASS_FIRST_ORDER", *(name for name in dir(goldstein_numbers) if name.endswith("_ACCURACY"))]
NO_CASE: dict[str, str] = {
    **dict.fromkeys([*ORDERS, "goldstein.calculators.SINGLE_PASS_PARAMETERS_FIRST_ORDER"], ORDER),
    **dict.fromkeys([f"goldstein.calculators.{name}" for name in SIZES], SIZE),
    "adaptive_batch.calculators.theorem": "what THEOREM calls",
    "adaptive_batch.calculators.tree": "what TREE calls",
    "goldstein.proved.single_pass": "what SINGLE_PASS_PARAMETERS calls",
    "goldstein.proved.multi_pass": "what MULTI_PASS_PARAMETERS calls",
    "goldstein.proved.plain": "what EXPLICIT calls",
    "goldstein.calculators.CALLS": "a number of calls, no noise",
    "noisy_sgd.calculators.SPENT": "what given noise is worth, by the accountant",
    "noisy_sgd.calculators.TOTAL_DELTA": "a delta, no noise",
    "noisy_sgd.algorithms.theorem_3_1_noise": GIVEN,
    "train.noise.NoiseChoice": "a record, which its makers fill",
}


# ---------------------------------------------------------------- the registry finds them
def asked_for_privacy(paper: str) -> Iterator[str]:
    """Yield every calculator and public name of a paper that takes a privacy target."""
    package = importlib.import_module("dpnotes.train" if paper == "train" else f"dpnotes.papers.{paper}")
    for info in pkgutil.iter_modules(package.__path__):
        if info.name in ("claims", "notation", "experiments", "reference"):  # a reference takes its noise
            continue
        module = importlib.import_module(f"{package.__name__}.{info.name}")
        for name, value in vars(module).items():
            if isinstance(value, Calculator):
                takes = set(value.parameters) if info.name == "calculators" else set()
            elif is_typeddict(value) or name.startswith("_"):
                continue
            elif callable(value) and getattr(value, "__module__", None) == module.__name__:
                takes = set(inspect.signature(value).parameters)
            else:
                continue
            if {"epsilon", "delta"} <= takes or ("rho" in takes and not isinstance(value, Calculator)):
                yield f"{info.name}.{name}"


def unknown(paper: str) -> set[str]:
    """Return the functions that have neither a case nor a reason for having none."""
    reasons = {name.split(".", 1)[1] for name in NO_CASE if name.startswith(f"{paper}.")}
    return set(asked_for_privacy(paper)) - CASES.get(paper, {}).keys() - reasons


@pytest.mark.parametrize("paper", PARTS)
def test_everything_that_is_asked_for_privacy_has_a_case(paper: str, monkeypatch: pytest.MonkeyPatch):
    assert not unknown(paper)
    if paper not in CASES:
        return
    there = {f"{paper}.{name}" for name in asked_for_privacy(paper)}
    listed = {f"{paper}.{name}" for name in CASES[paper]} | {name for name in NO_CASE if name.startswith(f"{paper}.")}
    assert listed <= there, "a name that is no more"
    monkeypatch.delitem(CASES[paper], next(iter(CASES[paper])))
    assert unknown(paper), "control: one that is not listed is seen"


def test_what_is_no_more_than_an_order_is_never_called_corrected():
    for name, reason in NO_CASE.items():
        if reason is ORDER:
            paper, module, attribute = name.split(".")
            calculator = getattr(importlib.import_module(f"dpnotes.papers.{paper}.{module}"), attribute)
            assert "corrected" in calculator.missing and "corrected" not in calculator.constants, name


@pytest.mark.parametrize("paper", papers.PAPERS)
def test_every_calculator_has_corrected_constants_or_says_why_not(paper: str):
    found = [calculator for calculator in papers.calculators(paper).values() if calculator.constants]
    for calculator in found:
        assert ("corrected" in calculator.constants) != ("corrected" in calculator.missing)
        assert {"corrected", "paper", "one", "best", "given"} >= set(calculator.constants)


# ---------------------------------------------------------------- the law
def excess(releases: Releases, draw: Draw) -> float:
    """Return the accounted epsilon divided by the target epsilon."""
    return account(releases, draw.delta).epsilon / draw.epsilon


def check_law(paper: str, names: list[str], num_sets: int) -> None:
    """Check at `num_sets` seeded parameter sets that the noise suffices and that half of it does not."""
    tried = accepted = caught = 0
    for name in islice(cycle(names), 20 * num_sets):
        if accepted == num_sets:
            break
        tried += 1
        draw = Draw((14, tried, PARTS.index(paper)))
        try:
            releases = CASES[paper][name](draw)
        except ValueError:  # outside the theorem's regime
            continue
        accepted += 1
        assert excess(releases, draw) <= 1, (name, draw.privacy)
        halved = [replace(release, noise_multiplier=release.noise_multiplier / 2) for release in releases]
        caught += excess(halved, draw) > 1
    assert accepted == num_sets, f"{accepted} of {tried} were within the theorems' regime"
    # Only budget_schedules' conversion from zCDP uses slightly more noise than necessary.
    assert caught >= (0.9 if paper == "budget_schedules" else 1) * num_sets, "control: half the noise is too little"


SLOW = ("plan.TrainingPlan",)  # seconds each


@pytest.mark.parametrize("num_sets", [36, pytest.param(500, marks=pytest.mark.slow)])
@pytest.mark.parametrize("paper", CASES)
def test_the_accountant_finds_what_was_asked_for(paper: str, num_sets: int):
    check_law(paper, [name for name in CASES[paper] if name not in SLOW], num_sets)


@pytest.mark.slow
def test_the_accountant_finds_what_a_plan_was_asked_for():
    check_law("train", list(SLOW), 2)


# ---------------------------------------------------------------- what is printed says what it is worth
PRINTED: dict[str, tuple[Calculator, Callable[[Draw], dict[str, Any]]]] = {
    "adaptive_batch.THEOREM": (
        adaptive_batch_numbers.THEOREM,
        lambda draw: dict(n=draw.whole(1e6, 1e12), d=draw.whole(2, 1e4), G=1.0, M=1.0, rho=1.0, B=1.0, iota=0.01),
    ),
    "adaptive_batch.TREE": (
        adaptive_batch_numbers.TREE,
        lambda draw: dict(G=1.0, b=draw.between(1, 1e3), Sigma=draw.whole(2, 1e6)),
    ),
    "goldstein.SINGLE_PASS_PARAMETERS": (goldstein_numbers.SINGLE_PASS_PARAMETERS, goldstein_problem),
    "goldstein.MULTI_PASS_PARAMETERS": (goldstein_numbers.MULTI_PASS_PARAMETERS, goldstein_problem),
    "goldstein.TREE_NOISE": (goldstein_numbers.TREE_NOISE, lambda draw: dict(Sigma=draw.whole(2, 1e6), S=1.0)),
}


def levels(num_leaves: float) -> int:
    """Return the number of levels of a tree."""
    return math.ceil(num_leaves).bit_length()


def printed_releases(name: str, numbers: dict[str, Any], found: dict[str, Any]) -> Releases:
    """Return the releases as in the cases above; clipped smoothed gradients are taken to be exact."""
    if name == "adaptive_batch.THEOREM":
        leaf = 2 * max(1 / found["batch"], 1 / found["batch_per_gradient"])
        shifted = max(levels(found["steps"]), 2 * levels(found["steps"]) - 3)  # nodes of a single tree, by alg2.reset
        return once(found["sigma"] / leaf / math.sqrt(shifted))
    if name == "adaptive_batch.TREE":
        return on_a_tree(found["sigma"] * numbers["b"] / 2, numbers["Sigma"])
    if name == "goldstein.TREE_NOISE":
        return on_a_tree(found["sigma"], numbers["Sigma"])
    d, lipschitz, alpha = numbers["d"], numbers["L"], numbers["alpha"]
    ratio = math.exp(math.lgamma(d / 2 + 1) - math.lgamma((d + 1) / 2))
    smoothness = 2 * ratio / math.sqrt(math.pi) * lipschitz / alpha
    if name == "goldstein.SINGLE_PASS_PARAMETERS":
        leaf = max(2 * lipschitz / found["B1"], 4 * smoothness * found["D"] / found["B2"])
        return on_a_tree(found["sigma"] / leaf, math.floor(found["Sigma"]))
    resets = math.ceil(found["T"] / found["Sigma"])
    increments = math.ceil(found["T"]) - resets
    first = 2 * lipschitz / (found["n"] * found["sigma1"])
    second = 4 * smoothness * found["D"] / (found["n"] * found["sigma2"])
    return once(1 / math.sqrt(resets * first**2 + increments * second**2))


@pytest.mark.parametrize("name", PRINTED)
def test_printed_noise_says_the_delta_that_it_reaches(name: str):
    """At that delta, the accounted epsilon is the target."""
    calculator, numbers_of = PRINTED[name]
    compared = exceeded = 0
    for seed in range(60):
        draw = Draw((15, seed))
        numbers = {**numbers_of(draw), **draw.privacy}
        try:
            found = calculator(**numbers, constants="paper")
        except ValueError:
            continue
        exceeded += found["delta_reached"] > draw.delta
        if 1e-100 < found["delta_reached"] < 0.9:
            claim = account(printed_releases(name, numbers, found), found["delta_reached"])
            assert claim.epsilon == pytest.approx(draw.epsilon, rel=1e-6)
            compared += 1
    assert compared >= 5 and (exceeded > 0 or name.split(".")[1] in ("TREE", "TREE_NOISE"))


@pytest.mark.parametrize("constants", ["paper", "given"])
def test_noise_of_constants_that_nobody_gives_says_its_excess(constants: str):
    """With c_2 = 1 the noise of Theorem 3.1 does not reach its nominal privacy; `delta_reached` is the true delta."""
    problem = noisy_sgd_problem(Draw((16, 0))) | {"c_2": 1.0, "c": 1.0, "n": 10**9, "B": 10**9}
    found = noisy_sgd_numbers.CLOSED_LOOP(**problem, epsilon=1.0, delta=1e-6, constants=constants)
    assert found["delta_reached"] > 1e3 * 1e-6
    claim = account(steps_of(found, problem["n"]), found["delta_reached"])
    assert claim.epsilon == pytest.approx(1.0, rel=1e-6)
    corrected = noisy_sgd_numbers.CLOSED_LOOP(**problem, epsilon=1.0, delta=1e-6)
    assert 0.99e-6 < corrected["delta_reached"] <= 1e-6
    twice = noisy_sgd_numbers.CLOSED_LOOP(**problem | {"c_1": 3.0, "c_2": 7.0}, epsilon=1.0, delta=1e-6)
    assert twice == corrected, "c_1 and c_2 are of no account there"


@pytest.mark.slow
def test_what_noise_is_worth_on_batches_of_fixed_size_is_the_accountants():
    numbers = {"n": 1000, "T": 50, "B": 10, "C": 1.0, "Delta": 0.2}
    found = noisy_sgd_numbers.SPENT(**numbers, epsilon=1.0, delta=1e-5)
    events = [Event(1.0, Relation.REPLACE_ONE, Sampling.fixed_size(10, 1000), 50)]
    assert found["epsilon_reached"] == account(events, 1e-5).epsilon
    assert account(events, found["delta_reached"]).epsilon == pytest.approx(1.0, rel=1e-4)
    assert account(events, found["delta_reached"]).epsilon <= 1.0
    whole = noisy_sgd_numbers.SPENT(**numbers | {"B": 1000, "Delta": 0.02}, epsilon=1.0, delta=1e-5)
    assert whole["delta_reached"] == pytest.approx(gaussian_delta(1.0, 10 / math.sqrt(50)), rel=1e-5)
