"""The experiments of adaptive batches: fast walks against the real oracle, and decision rules."""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace

import numpy as np
import pandas as pd
import pytest
import torch
from specs import frame_of, simulated

from dpnotes.core import Estimate, Status
from dpnotes.methods.loop import Observer, drive
from dpnotes.methods.spider_descent import SpiderDescentState, StochasticSpider
from dpnotes.oracles.spider import BatchSizes, Refresh, Spider
from dpnotes.papers.adaptive_batch import algorithms
from dpnotes.papers.adaptive_batch.algorithms import stochastic_spider
from dpnotes.papers.adaptive_batch.experiments import audit, escape, necessity, ramps, slopes
from dpnotes.papers.adaptive_batch.experiments.ramps import Ramps, RampSamples, first_stationary, walk
from dpnotes.privacy.mechanisms import Gaussian
from dpnotes.privacy.museum.exhibit import module_with_line_replaced
from dpnotes.privacy.tree import Tree
from dpnotes.problems.separable import Parabola, Separable, hard_instance
from dpnotes.problems.virtual import VirtualData
from dpnotes.random.streams import Streams


# ---------------------------------------------------------------- ramps and walks
def test_ramps_are_hard_instances():
    landscapes = Ramps(torch.tensor([0.01, 0.1]).double(), torch.tensor([1.0, 2.0]).double(), 5)
    x = 3 * Streams.of("ramps", range(2)).normal("x", 0, 5)
    for run, (accuracy, amplitude) in enumerate(((0.01, 1.0), (0.1, 2.0))):
        landscape, start = hard_instance(float(torch.tensor(accuracy).double()), 5, amplitude)
        alone = landscapes.take(torch.tensor([run]))
        torch.testing.assert_close(landscapes.start[run], start, rtol=1e-6, atol=0)
        for ours, theirs in (
            (landscapes.gradient(x), landscape.gradient(x)),
            (landscapes.smallest_eigenvalue(x), landscape.smallest_eigenvalue(x)),
        ):
            torch.testing.assert_close(ours[run], theirs[run], rtol=1e-5, atol=1e-7)
        assert torch.equal(alone.gradient(x[run : run + 1])[0], landscapes.gradient(x)[run])
        rho = landscape.constants["hessian_lipschitz"].value
        assert float(landscapes.hessian_lipschitz[run]) == pytest.approx(rho, rel=1e-6)


def stationary(landscape: Ramps, points: torch.Tensor) -> np.ndarray:
    short = landscape.gradient(points).norm(dim=-1) <= landscape.accuracy
    return (short & (landscape.smallest_eigenvalue(points) >= landscape.least_eigenvalue)).numpy()


@dataclass
class Record:
    """The values of a walk at every step, `(steps, runs, ...)`, without those of the next point."""

    points: np.ndarray
    estimates: np.ndarray
    used: np.ndarray
    fresh: np.ndarray
    perturbed: np.ndarray


def walked(module, landscape: Ramps, given: ramps.RampParameters, streams: Streams, steps: int) -> Record:
    blocks: list[ramps.Block] = []

    def watch(block: ramps.Block) -> np.ndarray:
        blocks.append(block)
        return np.zeros(len(streams), dtype=bool)

    module.walk(landscape, given, streams, steps, watch)
    assert len(blocks) > 2
    return Record(*(np.concatenate([getattr(block, each.name) for block in blocks]) for each in fields(Record)))


def driven(start: torch.Tensor, run: Callable[[Observer], SpiderDescentState]) -> Record:
    states, estimates = [], []

    def observe(going: torch.Tensor, state: SpiderDescentState, estimate: Estimate) -> None:
        states.append(state)
        estimates.append(estimate.gradient)

    end = run(observe)
    assert (end.status == Status.FINISHED).all()
    points = torch.stack([start, *(state.x for state in states[:-1])])
    nothing = torch.zeros(1, len(start), dtype=torch.int64)
    used, fresh, perturbed = (
        torch.cat([nothing, torch.stack(counts)])
        for counts in (
            [state.oracle.meter.used for state in states],
            [state.oracle.meter.refreshes for state in states],
            [state.perturbations for state in states],
        )
    )
    found = points, torch.stack(estimates), used[:-1], fresh.diff(dim=0).bool(), perturbed.diff(dim=0).bool()
    return Record(*(column.numpy() for column in found))


def agree(ours: Record, theirs: Record) -> bool:
    same = all((getattr(ours, name) == getattr(theirs, name)).all() for name in ("used", "fresh", "perturbed"))
    near = (np.abs(getattr(ours, name) - getattr(theirs, name)).max() <= 1e-10 for name in ("points", "estimates"))
    return bool(same and all(near))


def through_the_door(landscape: Ramps, given: ramps.RampParameters, streams: Streams, steps: int) -> Record:
    """Run the library's function, with batches of at least 2 / s examples so that s is its term sensitivity, too."""
    most = (
        np.maximum(given.first, 2 / given.term_sensitivity),
        np.maximum(given.per_gradient, 2 / given.term_sensitivity),
    )
    parameters = [
        algorithms.AdaptiveBatchParameters(
            float(landscape.accuracy[run]), 1.0, 1.0, float(landscape.hessian_lipschitz[run]), given.kappa[run],
            most[0][run], most[1][run], given.noise_multiplier[run], steps, given.step_size[run], given.saddle[run],
            given.window[run], given.perturbation[run], steps, "a cell of the experiment",
        )
        for run in range(len(streams))
    ]  # fmt: skip
    samples = RampSamples(landscape)

    def run(observe: Observer) -> SpiderDescentState:
        return stochastic_spider(samples, parameters, landscape.start, streams, delta=1e-6, observe=observe).state

    return driven(landscape.start, run)


def on_the_parts(landscape: Ramps, given: ramps.RampParameters, streams: Streams, steps: int) -> Record:
    """Run the library's oracle and method in combinations that no public function has: one ingredient, or neither."""
    numbers = {name: torch.as_tensor(value) for name, value in vars(given).items() if isinstance(value, np.ndarray)}
    multiplier = numbers["noise_multiplier"]
    sizes = BatchSizes(numbers["first"], numbers["least"], numbers["per_gradient"])
    refresh = Refresh(numbers["kappa"], 1.0, given.power)
    tree = given.mechanism == "tree"
    mechanism, budget = (Tree(steps), multiplier * 0 + 1) if tree else (Gaussian(), 0.5 / multiplier**2)
    oracle = Spider(
        RampSamples(landscape), mechanism, multiplier, budget, refresh, sizes, 1.0, 1.0,
        term_sensitivity=numbers["term_sensitivity"] if tree else None,
    )  # fmt: skip
    method = StochasticSpider(
        steps, numbers["step_size"], numbers["saddle"], numbers["window"], numbers["perturbation"]
    )
    state = method.init(landscape.start, oracle)
    return driven(landscape.start, lambda observe: drive(method, oracle, state, streams, steps, observe=observe))


@pytest.mark.parametrize("arm", list(slopes.EXPONENTS))
@pytest.mark.slow
def test_walks_are_those_of_the_library(arm):
    gamma, runs, steps = np.array([0.03, 0.05, 0.1]), 3, 80
    landscape = Ramps(torch.from_numpy(gamma), torch.ones(runs).double(), 4)
    given = slopes.parameters(arm, gamma, np.full(runs, 0.01), 4, 1.0, 0.1, 12.0)
    given = replace(
        given,
        window=np.array([3.0, 5.0, 4.0]),
        saddle=3 * gamma,
        kappa=given.kappa
        * {"spider": 0.02, "spider_sqrt": 0.02, "tree_alone": 0.02, "adaptive_alone": 0.1}.get(arm, 0.5),
    )
    streams = Streams.of("walks", range(runs))
    library = through_the_door if arm in ("private", "sampling") else on_the_parts
    found, expected = walked(ramps, landscape, given, streams, steps), library(landscape, given, streams, steps)
    assert agree(found, expected)
    assert found.fresh.sum(0).min() > 1 and found.perturbed.sum(0).min() > 1
    total = "total = noise[i] + prefixes[_levels({}), each]"
    tree = [(total.format("leaf & (leaf - 1)"), total.format("leaf"))] if given.mechanism == "tree" else []
    for line, instead in (
        (
            "fresh[i], drift[new], leaf[new], tree[new] = new, 0.0, 0, 0.0",
            "fresh[i], leaf[new], tree[new] = new, 0, 0.0",
        ),
        ("allowed[small] = step + 1 + p.window[small]", "allowed[small] = step + p.window[small]"),
        ("small = square <= p.saddle**2", "small = square <= 1.1 * p.saddle**2"),
        *tree,
    ):
        broken = module_with_line_replaced(ramps, line, instead)
        assert not agree(walked(broken, landscape, given, streams, steps), expected)


def test_a_run_alone_is_the_run_among_others_and_ends_at_its_first_stationary_point():
    gamma = np.array([0.05, 0.1])
    landscapes = Ramps(torch.from_numpy(gamma), torch.ones(2).double(), 4)
    given = slopes.parameters("private", gamma, np.full(2, 1e-5), 4, 1.0, 0.1, 12.0)
    streams = Streams.of("alone", range(2))
    both = first_stationary(landscapes, given, streams, 2000)
    one = torch.tensor([1])
    alone = first_stationary(landscapes.take(one), given.take(np.array([1])), streams.take(one), 2000)
    assert both["reached"].all() and both["steps"][0] > both["steps"][1]
    assert all(np.allclose(both[name][1], alone[name][0]) for name in both)
    few = first_stationary(landscapes, given, streams, int(both["steps"][0]))
    assert few["reached"].tolist() == [False, True] and np.isnan(few["used"][0])
    ends: list[np.ndarray] = []

    def watch(block: ramps.Block) -> np.ndarray:
        here = torch.from_numpy(block.points)
        torch.testing.assert_close(torch.from_numpy(block.gradients), landscapes.gradient(here), rtol=1e-14, atol=1e-15)
        ends.append(stationary(landscapes, here))
        return np.zeros(2, dtype=bool)

    walk(landscapes, given, streams, int(both["steps"][0]) + 1, watch)
    assert np.concatenate(ends).argmax(0).tolist() == both["steps"].tolist()


# ---------------------------------------------------------------- slopes
RIGHT = {**slopes.EXPONENTS, **slopes.SWEEPS}


def used(exponents: dict[str, float] | None = None, spread: float = 0.0, **columns) -> pd.DataFrame:
    """Return simulated samples, with other exponents for some laws, more scatter, or other columns."""
    frame = simulated(slopes).assign(**columns)
    for law, exponent in (exponents or {}).items():
        rows = frame["law"] == law
        frame.loc[rows, "used"] *= frame.loc[rows, slopes.knob_of(law)] ** (exponent - RIGHT[law])
    return frame.assign(used=frame["used"] * np.exp(spread * np.random.default_rng(1).normal(size=len(frame))))


@pytest.mark.parametrize(
    ("change", "verdict", "said"),
    [
        ({}, "reproduced", "predicted -2.000 (ok)"),
        ({"private": -2.3}, "not reproduced", "missed"),
        ({"tree_alone": -2.17}, "not reproduced", "missed"),
        ({"adaptive_alone": -2.5}, "not reproduced", "the exponent of another method"),
        ({"d": 0.65}, "not reproduced", "missed"),
        ({"epsilon": -0.9}, "undecided", "missed"),
    ],
)
@pytest.mark.slow
def test_the_rule_on_slopes(change, verdict, said):
    decision = slopes.decide(used(change), slopes.QUICK)
    assert decision.verdict == verdict and said in decision.reason


@pytest.mark.slow
def test_slopes_that_cannot_be_decided_and_runs_that_fail():
    assert "too wide" in slopes.decide(used(spread=1.0), slopes.QUICK).reason
    part = used()
    part = part[(part["law"] != "private") | (part["accuracy"] < 0.15)]
    decision = slopes.decide(part, slopes.QUICK)
    assert decision.verdict == "undecided" and "1.8 decades only" in decision.reason
    assert slopes.decide(used(error=1.2), slopes.QUICK).verdict == "not reproduced"
    assert slopes.decide(used(reached=False), slopes.QUICK).reason.endswith("did not arrive")
    assert slopes.decide(used(fresh=1), slopes.QUICK).verdict == "undecided"


# ---------------------------------------------------------------- escape
def test_a_factor_is_a_step_of_descent_on_virtual_data():
    lam, step, size, runs = 0.05, 1.0, 7, 4
    data = VirtualData(Separable([(Parabola(-lam), 1)]), Separable([(Parabola(1 - lam), 1)]))
    streams = Streams.of("escape", range(runs))
    batch = data.fresh(float(size), streams, "batches", 0)
    x = torch.full((runs, 1), 0.3, dtype=torch.float64)
    means = escape.batch_means("normal", size, streams, 1)
    assert torch.allclose(x - step * batch.gradient(x), x * escape.factors(means, lam, step))


def test_means_of_coins_have_the_law_of_their_count():
    means = escape.batch_means("coins", 3, Streams.of("coins", ["a"]), 40_000)[0]
    values, counts = means.unique(return_counts=True)
    assert torch.allclose(values, torch.tensor([-1, -1 / 3, 1 / 3, 1]).double())
    expected = 40_000 * torch.tensor([1, 3, 3, 1]) / 8
    assert ((counts - expected).square() / expected).sum() < 16.3  # 0.1% of chi-squared with three degrees
    assert ((counts - expected.roll(1)).square() / expected).sum() > 1000  # control


def exponents(boundary: float = 1.0, **columns) -> pd.DataFrame:
    """Return simulated exponents of rows whose boundary is this many times the predicted one."""
    frame = simulated(escape)
    slope, ratio = frame["step_size"] * frame["curvature"], frame["ratio"]
    exact = (frame["law"] == "coins") & (frame["batch"] == 1) & (frame["step_size"] == 1.0)
    moved = frame["exponent"] + (slope * (1 - boundary) / ratio).mask(exact, 0.0)
    return frame.assign(**{"exponent": moved, "escaped": ratio > boundary, **columns})


@pytest.mark.parametrize(
    ("frame", "verdict"),
    [
        (exponents(), "reproduced"),
        (exponents(1.6), "undecided"),
        (exponents(3.0), "not reproduced"),
        (exponents(0.3), "not reproduced"),
        (exponents(escaped=True), "not reproduced"),
        (exponents(escaped=False), "not reproduced"),
    ],
)
def test_the_rule_on_escape(frame, verdict):
    assert escape.decide(frame, escape.QUICK).verdict == verdict


# ---------------------------------------------------------------- necessity
def errors(printed: float = 4.0, corrected: float = 1.0, **columns) -> pd.DataFrame:
    """Return simulated runs whose squared errors grow by these factors."""
    frame = simulated(necessity).assign(early=1.0, **columns)
    return frame.assign(late=np.where(frame["as_printed"], printed, corrected))


@pytest.mark.parametrize(
    ("frame", "verdict"),
    [
        (errors(), "reproduced"),
        (errors(left=True), "not reproduced"),
        (errors(left=False), "not reproduced"),
        (errors(printed=1.0), "not reproduced"),
        (errors(corrected=4.0), "not reproduced"),
        (errors(printed=1.7), "undecided"),
        (errors(corrected=1.5), "undecided"),
    ],
)
def test_the_rule_on_what_is_needed(frame, verdict):
    assert necessity.decide(frame, necessity.QUICK).verdict == verdict


# ---------------------------------------------------------------- audit
@pytest.fixture(scope="module")
def audited() -> pd.DataFrame:
    return frame_of(audit, audit.QUICK)


@pytest.mark.slow
def test_printed_variants_are_caught_and_corrected_ones_are_not(audited):
    decision = audit.decide(audited, audit.QUICK)
    assert decision.verdict == "reproduced"
    assert "of 6 printed variants 6 are refuted by densities and 6 by samples" in decision.reason
    assert set(audited["release"]) == {cell["release"] for cell in audit.cells(audit.QUICK)}


@pytest.mark.parametrize(
    ("column", "printed", "value", "verdict"),
    [
        ("refuted_exactly", True, False, "not reproduced"),
        ("refuted_exactly", False, True, "not reproduced"),
        ("refuted_by_samples", True, False, "undecided"),
        ("refuted_by_samples", False, True, "undecided"),
        ("power", True, 0.5, "undecided"),
        ("bound", False, 0.1, "undecided"),
    ],
)
@pytest.mark.slow
def test_the_rule_on_audits(audited, column, printed, value, verdict):
    frame = audited.copy()
    frame.loc[frame["printed"] == printed, column] = value
    assert audit.decide(frame, audit.QUICK).verdict == verdict


def test_transcripts_of_the_oracle_have_the_covariance_of_the_museum_tree():
    pair, runs = audit.oracle_pair(audit.QUICK), 4000
    centred = audit.transcripts(audit.QUICK, True, runs) - (pair.mean + pair.shift)
    covariance = pair.noise.T @ pair.noise
    found = centred.T @ centred / runs
    error = (covariance.square() + torch.outer(covariance.diag(), covariance.diag())).div(runs).sqrt()
    assert float(((found - covariance) / error).abs().max()) < 5
    assert float(((found - 1.2 * covariance) / error).abs().max()) > 5  # control
    assert float((centred.mean(0) / (covariance.diag() / runs).sqrt()).abs().max()) < 5
