"""The experiments of drift escape: their settings against definitions, and decision rules."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from specs import changed, frame_of
from stand_ins import UnitDraws

from dpnotes.experiments import Context
from dpnotes.experiments.sweeps import Rows, proportion, tabulated
from dpnotes.oracles import spider
from dpnotes.oracles.samples import DataSetSamples
from dpnotes.papers.drift_escape.experiments import audit, repeats, returned_point, sensing, step_size
from dpnotes.papers.drift_escape.experiments.ladder import landscape, quiet_first, rungs_down_to
from dpnotes.privacy.audit import GaussianPair
from dpnotes.privacy.mechanisms import Gaussian
from dpnotes.privacy.museum.exhibit import module_with_line_replaced
from dpnotes.problems.custom import CustomProblem
from dpnotes.random.streams import Streams


def test_intervals_of_proportions_hold_the_probability_as_often_as_they_say():
    draws = np.random.default_rng(0).binomial(50, 0.3, size=2000)
    ends = [proportion(int(hits), 50) for hits in draws]
    assert np.mean([low <= 0.3 <= high for low, high in ends]) > 0.95  # Clopper and Pearson are conservative
    assert np.mean([low <= 0.5 <= high for low, high in ends]) < 0.5, "control"


# ---------------------------------------------------------------- the ladder
def test_the_ladder_is_a_sum_of_cosines_with_a_hill_of_every_curvature():
    curvatures = rungs_down_to(0.1)
    ladder, x = landscape(curvatures), Streams.of(0, ["x"]).normal("x", 0, len(curvatures)).requires_grad_()
    (gradient,) = torch.autograd.grad(ladder.value(x).sum(), x, create_graph=True)
    torch.testing.assert_close(ladder.gradient(x), gradient)
    (product,) = torch.autograd.grad(gradient.sum(), x)  # the diagonal, because the Hessian is diagonal
    torch.testing.assert_close(ladder.curvatures(x), product)
    torch.testing.assert_close(ladder.curvatures(torch.zeros_like(x)), -curvatures[None])
    # It is self-similar: half the curvature, half the length, a quarter of the slope.
    torch.testing.assert_close(landscape(curvatures / 2).gradient(x / 2), ladder.gradient(x) / 4)


# ---------------------------------------------------------------- the returned point
def returned(kind: str = "", **columns: Callable[[pd.DataFrame], Any]) -> pd.DataFrame:
    """Return simulated results with some columns of the runs of one kind computed anew."""
    frame = returned_point.simulated(returned_point.QUICK, np.random.default_rng(0), True)
    rows = frame["kind"] == kind
    for name, column in columns.items():
        frame.loc[rows, name] = column(frame[rows])
    return frame


def leave(step: str, share: float) -> Callable[[pd.DataFrame], Any]:
    """Return the outcomes of attempts of which, with this step, so many leave."""
    return lambda part: np.where(part["step"] == step, np.arange(len(part)) % 100 < 100 * share, True)


@pytest.mark.slow
def test_the_rule_of_the_returned_point():
    decide = lambda frame: returned_point.decide(frame, returned_point.QUICK)  # noqa: E731
    assert decide(returned()).verdict == "reproduced"
    for wrong in (
        returned("level", level=lambda part: part["level"] * part["psi"] ** -0.15),
        returned("attempt", escaped=leave("theorem", 0.15)),
        returned("attempt", coupled=leave("theorem", 0.4)),
        returned("stop", false_stop=lambda part: np.arange(len(part)) % 20 < 19),
    ):
        assert decide(wrong).verdict == "not reproduced"
    assert decide(returned("attempt", escaped=leave("theorem", 0.26))).verdict == "undecided"
    cut = returned()
    cut = cut[(cut["kind"] != "hill") | (cut["hill"] > 1.1)]
    assert decide(cut).verdict == "undecided", "the first hill is too steep"


def test_coupled_attempts_share_all_noise_but_that_along_the_hill():
    """Compared with a path computed by hand from the same point, with the noise along the hill reversed."""
    spec = changed(returned_point.QUICK, tilts=[0.01], repeats_of_attempts=40)
    cell = next(cell for cell in returned_point.cells(spec) if cell["kind"] == "attempt")
    frame = frame_of(returned_point.EXPERIMENT, spec, [cell])
    found, length = returned_point.parameters(spec, cell, cell["dim"])
    curvatures, start = returned_point.single_hill(cell["dim"], *returned_point.hill(found.alpha, 0.01))
    ladder = landscape(curvatures)
    streams = Streams.of(
        spec["seed"], [f"attempt/{cell['step']}/{cell['psi']:g}/{cell['dim']}/0.01/{r}" for r in range(40)]
    )
    data = found.oracle(curvatures, 40, length, "cpu")
    batch = math.ceil(2 / cell["psi"] ** 2)
    features = quiet_first(cell["dim"])
    left = torch.zeros(2, 40, dtype=torch.bool)
    for side, sign in enumerate((1.0, -1.0)):
        x = start.repeat(40, 1)
        for step in range(length):
            means = streams.normal("fresh batch: examples", step, cell["dim"]) / batch**0.5
            noise = found.privacy_std * streams.normal("gaussian mechanism", step, cell["dim"])
            noise[:, 0] *= sign
            x = x - found.step_size * (ladder.gradient(x) + means * features.gradient(x) + noise)
            left[side] |= (x - start).norm(dim=1) >= found.radius
    assert data.batch_size == batch
    assert frame["escaped"].tolist() == left[0].tolist()
    assert frame["coupled"].tolist() == (left[0] | left[1]).tolist()
    assert (left[0] != left[1]).any(), "control: the two are not the same path"


# ---------------------------------------------------------------- repeats
def test_the_rule_of_repeats():
    spec, simulated = repeats.QUICK, repeats.simulated
    good, dependent = (simulated(spec, np.random.default_rng(0), right) for right in (True, False))
    assert repeats.decide(good, spec).verdict == "reproduced"
    assert repeats.decide(dependent, spec).verdict == "not reproduced", "forced attempts depend on each other"
    forced = good[good["oracle"] == "forced"].assign(oracle="restored")
    independent = pd.concat([good[good["oracle"] != "restored"], forced])
    assert repeats.decide(independent, spec).verdict == "not reproduced", "restored ones do not"


# ---------------------------------------------------------------- step size
def test_the_exact_growth_is_the_expectation():
    z = np.random.default_rng(0).normal(size=400_000)
    for eta, batch in ((0.1, 1), (0.4, 4), (1.6, 16)):
        logs = np.log(np.abs(1 + eta * 0.05 - eta * 0.95 * z / batch**0.5))
        exact = step_size.exact_growth(eta, batch, 0.05)
        assert abs(logs.mean() - exact) < 4 * logs.std() / len(z) ** 0.5
    assert step_size.exact_boundary(4, 0.05) == pytest.approx(step_size.boundary(4, 0.05), rel=0.1)


def test_the_rule_of_the_step_size():
    spec = step_size.QUICK
    good = step_size.simulated(spec, np.random.default_rng(0), True)
    growth, odd = good["growth"], np.arange(len(good)) % 2
    assert step_size.decide(good, spec).verdict == "reproduced"
    for wrong in (-growth, growth + 0.01, 0.01 * growth):
        assert step_size.decide(good.assign(growth=wrong), spec).verdict == "not reproduced"
    assert step_size.decide(good.assign(growth=growth + 0.2 * odd - 0.1), spec).verdict == "undecided"


# ---------------------------------------------------------------- audit
def test_the_printed_releases_are_less_private_than_claimed_and_the_corrected_ones_are_not():
    spec = changed(audit.QUICK, audited=[16], uses=[1, 16], lengths=[2, 16])
    frame = frame_of(audit.EXPERIMENT, spec)
    assert audit.decide(frame, spec).verdict == "reproduced"
    # k uses cost as much as k releases: the distance grows with sqrt(k), and that of a jump with its length.
    for name, size, factor in (("samples reused", 16, 4.0), ("jump not tracked", 16, 16.0)):
        pair = audit.exhibit(spec, name, size)
        assert pair.pair(True).mu / pair.pair(False).mu == pytest.approx(factor)  # type: ignore[union-attr]
    private = frame.assign(exact=frame["claim"])
    assert audit.decide(private, spec).verdict == "not reproduced"
    leaking = frame.assign(audited=np.where(frame["printed"], frame["audited"], 2.0))
    assert audit.decide(leaking, spec).verdict == "not reproduced"
    missed = frame.assign(audited=np.where(frame["printed"], 0.5, frame["audited"]))
    assert audit.decide(missed, spec).verdict == "undecided"


def path_of(module: Any, data: torch.Tensor) -> torch.Tensor:
    """Return the oracle's releases for losses `z x^2 / 2 + x` along the path 0, 0.1, ..., 0.4 and back to 0.

    Run 0 has no noise, run k one unit of it in release k.
    """
    problem = CustomProblem(lambda x, z: (z[0] * x.square() / 2 + x).sum(), 1, data[:, None])
    streams, active = UnitDraws(Streams.of(0, ["order"] * 7), "gaussian mechanism"), torch.ones(7, dtype=torch.bool)
    oracle = module.Spider(
        DataSetSamples(problem), Gaussian(), 4.0, torch.full((7,), torch.inf, dtype=torch.float64),
        module.Refresh.squared_moves(1e9), module.BatchSizes(2, 2), gradient_bound=2.0, smoothness=1.0,
    )  # fmt: skip
    state, released = oracle.init(torch.zeros(7, 1, dtype=torch.float64)), []
    for point in (0.0, 0.1, 0.2, 0.3, 0.4, 0.0):
        x = torch.full((7, 1), point, dtype=torch.float64)
        state, estimate = oracle.estimate(state, x, streams, active)
        assert (estimate.status == 0).all()
        released.append(estimate.gradient[:, 0])
    return torch.stack(released, 1)


@pytest.mark.slow
def test_the_oracle_itself_pays_for_the_jump_back():
    def farthest(module: Any) -> float:
        """Return the largest distance that replacing any one example causes."""
        data, found = torch.zeros(12, dtype=torch.float64), []
        for example in range(12):
            low, high = data.index_fill(0, torch.tensor(example), -1), data.index_fill(0, torch.tensor(example), 1)
            base, *noisy = path_of(module, low)
            found.append(GaussianPair(base, path_of(module, high)[0] - base, torch.stack(noisy) - base).mu)
        return max(found)

    assert farthest(spider) == pytest.approx(1 / 4, rel=1e-9)
    line = "scale = bound.sensitivity if self._scale is None else self._scale"
    printed = module_with_line_replaced(spider, line, "scale = bound.sensitivity.clamp_max(0.1)")
    assert farthest(printed) == pytest.approx(4 / 4, rel=1e-9), "control: the jump is four steps long"


# ---------------------------------------------------------------- sensing
GRID = [(scale, step) for scale in (1.0, 2.0, 3.0) for step in (0.1, 0.2, 0.4)]


@tabulated
def left(edge: str = "", **means: float) -> Rows:
    """Return risks of one problem, with the best pair in the middle of every grid; of the method `edge` in a corner."""
    draws = np.random.default_rng(0)
    for name, mean in means.items():
        method = name.replace("_", " ").replace("DP SGD", "DP-SGD")
        common = {"problem": "one", "method": method, **dict.fromkeys(sensing.MEASURED, 0.0)}
        best = (1.0, 0.1) if method == edge else (2.0, 0.2)
        for pair in GRID:
            at = dict(zip(("scale", "step_size"), pair, strict=True))
            yield {**common, **at, "stage": "tune", "repeat": 0, "left": mean if pair == best else 2 * mean}
        for repeat in range(1, 11, 2):
            main = {**common, "stage": "main", "scale": best[0], "step_size": best[1]}
            yield {**main, "repeat": repeat, "left": mean * np.exp(0.1 * draws.normal())}


@pytest.mark.parametrize(
    ("means", "verdict", "earlier"),
    [
        ((0.5, 0.4, 0.1, 0.9), "reproduced", "reproduced"),
        ((0.5, 0.05, 0.1, 0.9), "not reproduced", "reproduced"),  # the earlier rule did not know the simple method
        ((0.05, 0.5, 0.1, 0.9), "not reproduced", "not reproduced"),
        ((0.2, 0.9, 0.22, 0.9), "undecided", "undecided"),
    ],
)
def test_the_rule_of_sensing(means, verdict, earlier):
    descent, fresh, drift, adaptive = means
    frame = left(DP_SGD=descent, fresh_gradient=fresh, drift_escape=drift, adaptive_batch=adaptive)
    found = sensing.decide(frame, sensing.QUICK)
    assert found.verdict == verdict and found.reason.endswith(f"against DP-SGD alone: {earlier}")


def test_a_method_at_the_edge_of_its_grid_is_not_beaten():
    means: Any = {"DP_SGD": 0.05, "fresh_gradient": 0.04, "drift_escape": 0.1, "adaptive_batch": 0.9}
    assert sensing.decide(left(**means), sensing.QUICK).verdict == "not reproduced"
    found = sensing.decide(left("drift escape", **means), sensing.QUICK)
    assert found.verdict == "undecided" and "drift escape (batches and steps)" in found.reason
    assert sensing.decide(left("DP-SGD", **means), sensing.QUICK).verdict == "not reproduced", "a winner may be there"
    chosen = sensing.choices(left("drift escape", **means)).set_index("method")
    assert chosen.loc["drift escape", ["scale", "step_size", "edge"]].tolist() == [1.0, 0.1, "batches and steps"]
    assert chosen.loc["drift escape", "worse"] == pytest.approx(2) and chosen.loc["DP-SGD", "worse"] == 1


@pytest.mark.slow
def test_the_noise_of_dp_sgd_costs_what_all_methods_spend(monkeypatch: pytest.MonkeyPatch):
    for problem in sensing.QUICK["problems"].values():
        options, count = problem["DP-SGD"], problem["num_examples"]
        batch = round(options["batch"] * count)
        for steps, multiplier in zip(options["scales"], options["noise_multipliers"], strict=True):
            spent = sensing.sampled_epsilon(multiplier, 1e-6, batch, count, steps)
            assert 0.99 < spent <= sensing.QUICK["epsilon"]
    monkeypatch.setattr(sensing, "sampled_epsilon", lambda *args: 1.1)
    with pytest.raises(ValueError, match=r"cost epsilon=1.0 at most, not 1.1"):
        sensing.run_cell(sensing.QUICK, sensing.cells(sensing.QUICK)[0], Context("cpu", 10**9))
