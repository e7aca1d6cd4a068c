"""The experiments of drift escape on clients, on selections and on sharing: decision rules, and tiny cells."""

import math

import numpy as np
import pandas as pd
import pytest
import torch
from specs import changed, frame_of

from dpnotes.experiments import Context
from dpnotes.oracles.blocks import Blocks
from dpnotes.oracles.samples import VirtualSamples
from dpnotes.papers.drift_escape.algorithms import drift_escape
from dpnotes.papers.drift_escape.distributed import clients_of, distributed_drift_escape
from dpnotes.papers.drift_escape.experiments import clients as of_clients
from dpnotes.papers.drift_escape.experiments import mnist_clients, sharing
from dpnotes.papers.drift_escape.experiments import selection as of_selection
from dpnotes.privacy.calibration import gaussian_std
from dpnotes.problems.datasets.dataset import Dataset
from dpnotes.random.streams import Streams

# ---------------------------------------------------------------- clients
FEW = changed(of_clients.QUICK, clients=[1, 4], repeats=6, steps=12)


def errors(exponent: float = -1.0, floor: float = 0.0, seed: int = 0, steps: int = 30) -> pd.DataFrame:
    draws, rows = np.random.default_rng(seed), []
    for cell in of_clients.cells(of_clients.QUICK):
        size = cell["clients"] ** exponent + floor
        for repeat in range(100):
            rows.append({**cell, "repeat": repeat, "error": size * draws.gamma(25) / 25, "steps": steps})
    return pd.DataFrame(rows)


def test_a_tiny_suite_of_clients_runs_and_disagreement_changes_nothing():
    frame = frame_of(of_clients, FEW)
    assert (frame["steps"] == 12).all() and len(frame) == 6 * len(of_clients.cells(FEW))
    means = frame.groupby(["noise", "tilted", "clients"])["error"].mean()
    for noise in ("examples", "mechanism"):
        for tilted in (False, True):
            assert means[noise, tilted, 1] / means[noise, tilted, 4] == pytest.approx(4, rel=0.6)
        assert means[noise, True, 4] / means[noise, False, 4] == pytest.approx(1, rel=0.6)
    assert means["mechanism", False, 1] > 3 * means["examples", False, 1]
    tilts = of_clients.tilts(FEW, 4)
    assert float(tilts.sum(0).norm()) < 1e-12 and float(tilts.norm(dim=1).mean()) == pytest.approx(1.0)
    assert float(of_clients.tilts(FEW, 1).norm()) < 1e-3


@pytest.mark.slow
def test_the_rule_of_clients():
    rule, spec = of_clients.decide, of_clients.QUICK
    assert np.mean([rule(errors(seed=seed), spec).verdict == "reproduced" for seed in range(30)]) > 0.9
    for wrong in (errors(-0.5), errors(floor=0.1), errors(-1.1), errors(steps=29)):
        assert rule(wrong, spec).verdict == "not reproduced"
    assert rule(errors(-0.966), spec).verdict != "reproduced"


# ---------------------------------------------------------------- selection
ASKED = changed(of_selection.QUICK, sizes=[1e9, 1e10], dims=[8, 16], repeats=3)


def selected(exponent: float, broken: int = 0) -> pd.DataFrame:
    """Return errors if d* grows with the data by `exponent`, with 4% noise; a few runs of the last cell fail."""
    spec, rng, parts = of_selection.QUICK, np.random.default_rng(0), []
    for cell in of_selection.cells(spec):
        accuracy, repeats = of_selection.choice_of(spec, cell).accuracy, np.arange(spec["repeats"])
        relative = (cell["dim"] / (cell["data"] / 1e9) ** exponent / 50) ** 0.65
        noise = 1 + 0.04 * rng.standard_normal(len(repeats))
        last = cell == of_selection.cells(spec)[-1]
        parts.append(
            pd.DataFrame(
                {
                    **cell, "repeat": repeats, "accuracy": accuracy, "promised": 9.0,
                    "eigenvalue_error": relative * noise * accuracy**0.5,
                    "corrected": np.where(last & (repeats < broken), np.nan, 4.0),
                }
            )
        )  # fmt: skip
    return pd.concat(parts)


def test_the_rule_of_selection():
    decide = lambda frame: of_selection.decide(frame, of_selection.QUICK).verdict  # noqa: E731
    assert decide(selected(6 / 13)) == decide(selected(6 / 13, broken=4)) == "reproduced"
    assert decide(selected(6 / 13 + 0.04)) == "undecided"
    assert decide(selected(0.6)) == decide(selected(0.3)) == decide(selected(6 / 13, broken=5)) == "not reproduced"


def test_a_tiny_suite_of_selections_publishes_what_it_promises():
    frame = frame_of(of_selection, ASKED)
    assert len(frame) == 12 and (frame["corrected"] <= frame["promised"]).all() and (frame["trusted"] == 1).all()
    assert np.allclose(frame["epsilon_spent"], 1.0)
    means = frame.groupby(["data", "dim"])["eigenvalue_error"].mean()
    assert means[1e9, 16] > 1.1 * means[1e9, 8] and means[1e9, 8] > 1.5 * means[1e10, 8]


def test_models_of_a_selection_are_what_they_are_said_to_be():
    choice = of_selection.choice_of(ASKED, {"data": 1e9, "dim": 16})
    data, models = of_selection.setting(ASKED, choice)
    assert data.landscape.constants["hessian_lipschitz"].value == pytest.approx(1.0)
    assert float(data.landscape.gradient(models).abs().max()) < 1e-12
    levels = data.landscape.smallest_eigenvalue(models) / choice.accuracy**0.5
    assert torch.allclose(levels, -torch.tensor(ASKED["curvatures"]).double())


# ---------------------------------------------------------------- MNIST by clients
DIGITS = changed(
    mnist_clients.QUICK, clients=3, least_held=300, concentrations=[0.3, 100.0], num_hidden=4, rounds=3, repeats=1,
    **{"drift escape": {**mnist_clients.QUICK["drift escape"], "first": 60}},
)  # fmt: skip


def random_digits() -> Dataset:
    """Return images of noise in which the first square of pixels shows the label."""
    labels = torch.arange(4000) % 10
    images = Streams.of("digits", [0]).uniform("images", 0, 4000 * 784).view(4000, 784).float()
    images[:, :4] += labels[:, None]
    return Dataset("random", images[:3600], labels[:3600], images[3600:], labels[3600:], 10, "none", "here")


@pytest.fixture
def no_download(monkeypatch: pytest.MonkeyPatch):
    mnist_clients.digits.cache_clear()
    monkeypatch.setattr(mnist_clients, "load_mnist", random_digits)
    yield
    mnist_clients.digits.cache_clear()


def test_tiny_cells_of_digits_by_clients(no_download: None):
    cells = mnist_clients.cells(DIGITS)
    contexts = [Context("cpu", 10**9) for _ in cells]
    frame = pd.concat(
        [pd.DataFrame(mnist_clients.run_cell(DIGITS, *each)) for each in zip(cells, contexts, strict=True)]
    )
    assert frame["arm"].tolist() == ["drift escape", "DP-SGD"] * 2 + ["trusted server"]
    assert frame["concentration"].tolist() == [0.3, 0.3, 100.0, 100.0, math.inf]
    # The bytes sent, by hand: three rounds of 49 * 4 + 4 + 4 * 10 + 10 float32 numbers per client.
    assert frame["bytes_up"].tolist() == [3 * 3 * 250 * 4] * 4 + [1800 * 49 * 4] and (frame["rounds"] == 3).all()
    assert frame["bytes_down"].tolist() == [3 * 3 * 250 * 4] * 4 + [0]
    assert frame["epsilon"].tolist() == pytest.approx([4.0] * 5, rel=1e-6) and (frame["epsilon"] <= 4.0).all()
    rho = [event["rho"] for context in contexts for event in context.spent]
    assert rho == pytest.approx([0.5 / gaussian_std(4.0, 1e-5) ** 2] * 5, rel=1e-6)
    spread = frame.groupby("concentration")["disagreement"].first()
    assert spread[0.3] > 2 * spread[100.0] > 0 == spread[math.inf]
    assert (frame["used"] <= 1800).all() and (frame[frame["arm"] != "drift escape"]["used"] == 1800).all()


def test_the_objective_of_clients_is_the_mean_over_clients_of_their_mean_loss(
    no_download: None, monkeypatch: pytest.MonkeyPatch
):
    data = mnist_clients.digits("private", 4, 2.0)
    parts = mnist_clients.split(DIGITS, {"repeat": 0, "concentration": 0.3}, data.train_labels)
    assert sorted(torch.cat(parts).tolist()) == list(range(1800)) and min(map(len, parts)) >= 300
    auxiliary = mnist_clients.digits("auxiliary", 4, 2.0)  # no example is in both halves of the data
    assert len(torch.unique(torch.cat([data.train_inputs, auxiliary.train_inputs]), dim=0)) == 3600
    torch.testing.assert_close(data.train_inputs.norm(dim=1), torch.full((1800,), 2.0))
    x = torch.linspace(-1, 1, 250)[None].double().requires_grad_()
    first, second = x[0, :200].view(50, 4), x[0, 200:].view(5, 10)

    def loss(part: torch.Tensor) -> torch.Tensor:
        inputs = torch.cat([data.train_inputs[part].double(), torch.ones(len(part), 1)], 1)
        hidden = torch.cat([torch.tanh(inputs @ first), torch.ones(len(part), 1)], 1)
        return torch.nn.functional.cross_entropy(hidden @ second, data.train_labels[part])

    problems = [
        mnist_clients.TwoLayerNetwork(data.train_inputs[part].double(), data.train_labels[part], 4, 10, "tanh")
        for part in parts
    ]
    (expected,) = torch.autograd.grad(torch.stack([loss(part) for part in parts]).mean(), x)
    torch.testing.assert_close(mnist_clients.client_gradients(problems, x.detach()).mean(0), expected[0])
    monkeypatch.setattr(mnist_clients, "_SPLITS", 3)
    with pytest.raises(ValueError, match="Expected least_held=700 to be met"):
        mnist_clients.split(changed(DIGITS, least_held=700), {"repeat": 0, "concentration": 0.3}, data.train_labels)


def digits_frame(ratio: float = 1.0, spread: float = 0.1, status: str = "OK", seed: int = 0) -> pd.DataFrame:
    draws, rows = np.random.default_rng(seed), []
    for repeat in range(10):
        for concentration in (0.1, 1.0, 100.0):
            norm = 0.25 * (ratio if concentration == 0.1 else 1.0) * np.exp(spread * draws.normal() / 2**0.5)
            for arm in ("drift escape", "DP-SGD"):
                rows.append(
                    {"arm": arm, "repeat": repeat, "concentration": concentration, "gradient": norm, "status": status,
                     "test_accuracy": 0.5}
                )  # fmt: skip
        rows.append({**rows[-1], "arm": "trusted server", "concentration": math.inf})
    return pd.DataFrame(rows)


@pytest.mark.slow
def test_the_rule_of_digits_by_clients():
    rule, spec = mnist_clients.decide, mnist_clients.QUICK
    assert np.mean([rule(digits_frame(seed=seed), spec).verdict == "reproduced" for seed in range(30)]) > 0.9
    for wrong in (1.5, 1 / 1.5):
        assert rule(digits_frame(wrong), spec).verdict == "not reproduced"
    at_the_margin = [rule(digits_frame(1.2, seed=seed), spec).verdict for seed in range(100)]
    assert at_the_margin.count("reproduced") <= 12, "one in twenty is what the rule allows"
    assert rule(digits_frame(spread=1.0), spec).verdict == "undecided"
    lost = rule(digits_frame(status="DATA_EXHAUSTED"), spec)
    assert (lost.verdict, lost.reason) == ("undecided", "30 of 30 runs of drift escape ended early")


# ---------------------------------------------------------------- sharing
SHORT = changed(
    sharing.QUICK, clients=[1, 4], rungs=[1.1], repeats=4, height=80.0,
    margin={"clients": [4], "multiples": [4.0], "height": 30.0, "repeats": 4},
)  # fmt: skip


def test_a_roof_is_what_its_derivatives_say_within_its_constants():
    roof = sharing.Roof(slope=0.8, frequency=0.1, curvature=0.5)
    t = torch.linspace(-40, 40, 20001, dtype=torch.float64).requires_grad_()
    derivatives, value = [], roof.value(t)
    for _ in range(3):
        (value,) = torch.autograd.grad(value.sum(), t, create_graph=True)
        derivatives.append(value.detach())
    points = t.detach()
    assert torch.allclose(roof.first(points), derivatives[0], atol=1e-9)
    assert torch.allclose(roof.second(points), derivatives[1], atol=1e-7)
    largest, bounds = [float(each.abs().max()) for each in derivatives], roof.suprema
    assert largest[0] == pytest.approx(bounds.lipschitz) and largest[1] == pytest.approx(bounds.smoothness)
    assert 0.9 * bounds.hessian_lipschitz < largest[2] <= bounds.hessian_lipschitz
    assert float(roof.value(points).max()) == pytest.approx(bounds.maximum)


def test_runs_of_sharing_start_on_a_strict_saddle_and_one_kind_of_noise_decides():
    for spec in sharing.EXPERIMENT.specs.values():
        for cell in sharing.cells(spec):
            land, accuracy = sharing.setting(spec, cell).landscape, cell["accuracy"]
            origin = torch.zeros(spec["dim"], dtype=torch.float64)
            assert float(land.gradient(origin).norm()) == 0 and float(land.smallest_eigenvalue(origin)) < -(
                accuracy**0.5
            )
            assert land.constants["hessian_lipschitz"].value < 1 and land.constants["smoothness"].value < 1
            half = origin.index_fill(0, torch.tensor(0), cell["height"] / (4 * accuracy))
            assert float(land.gradient(half).norm()) == pytest.approx(2 * accuracy, rel=0.01)
            found = sharing.parameters(spec, cell)
            assert sharing.minor_noise(found, spec["dim"], cell["regime"]) < 0.05
            other = {"sampling": "private", "private": "sampling"}[cell["regime"]]
            assert sharing.minor_noise(found, spec["dim"], other) > 1, "control"


@pytest.mark.slow
def test_one_client_is_drift_escape_end_to_end():
    for cell in sharing.cells(SHORT):
        if cell["clients"] > 1 or cell["kind"] != "rate":
            continue
        data, choice = sharing.setting(SHORT, cell), sharing.parameters(SHORT, cell)
        x, streams = torch.zeros(3, SHORT["dim"], dtype=torch.float64), Streams.of("one client", ["a", "b", "c"])
        samples, blocks = VirtualSamples(data, 10**18), Blocks(1, 1)
        shared = distributed_drift_escape(lambda _: samples, choice, x, streams, blocks=blocks, delta=1e-6)  # noqa: B023
        (own,) = clients_of([choice] * 3, lambda _: samples, blocks).streams_of(streams)  # noqa: B023
        alone, other = (drift_escape(samples, choice, x, keys, delta=1e-6) for keys in (own, streams))
        assert (alone.state.status == 1).all() and torch.equal(alone.x, shared.x)
        for name in ("steps", "tests", "escapes", "status"):
            assert torch.equal(getattr(alone.state, name), getattr(shared.state, name))
        assert torch.equal(alone.state.oracle.meter.used, shared.state.oracle.meter.used[:, 0])
        assert not torch.equal(other.x, shared.x), "control: the run's keys are not the client's"


def shares(
    exponents: dict[str, float] | None = None, success: float = 1.0, drop: float = 0.5, escapes: int = 3, seed: int = 0
) -> pd.DataFrame:
    """Return runs with these exponents of the accuracy, in which errors of a mean decrease as `m^-drop`."""
    draws, rows, spec = np.random.default_rng(seed), [], sharing.QUICK
    exponents = exponents or sharing.EXPONENTS
    for cell in sharing.cells(spec):
        regime, clients, margin = cell["regime"], cell["clients"], cell["kind"] == "margin"
        at_once = spec["accuracy"] * clients ** exponents[regime]
        used = spec["examples"][regime] * (cell["accuracy"] / at_once) ** -3
        error = cell["multiple"] * clients ** (0.5 - drop)
        for repeat in range(spec["margin"]["repeats"] if margin else spec["repeats"]):
            chance = 1 / (1 + (error / 2.4) ** 10) if margin else success
            rows.append(
                {**cell, "repeat": repeat, "used": used * math.exp(0.02 * draws.normal()), "in_attempts": 0.1 * used,
                 "steps": 100, "fresh": 9, "tests": 4, "escapes": escapes, "returned": draws.random() < chance,
                 "level": 0.1, "error": 0.3, "minor": 0.01}
            )  # fmt: skip
    return pd.DataFrame(rows)


@pytest.mark.slow
def test_the_rule_of_sharing():
    rule, spec = sharing.decide, sharing.QUICK
    assert np.mean([rule(shares(seed=seed), spec).verdict == "reproduced" for seed in range(10)]) >= 0.9
    swapped = {"sampling": -1 / 5, "private": -1 / 3}
    for wrong in (shares(swapped), shares(success=0.4), shares(drop=0.0), shares(drop=1.0)):
        assert rule(wrong, spec).verdict == "not reproduced"
    easy = shares()
    easy.loc[easy["multiple"] == 4.0, "returned"] = True
    for open_ in (shares(escapes=0), shares().assign(minor=0.1), shares(success=0.8), easy):
        assert rule(open_, spec).verdict != "reproduced"


@pytest.mark.slow
def test_a_tiny_suite_of_sharing_returns_points_and_counts_what_was_used():
    frame = frame_of(sharing, SHORT)
    rate, margin = frame[frame["kind"] == "rate"], frame[frame["kind"] == "margin"]
    assert (rate["returned"] & (rate["level"] < 1)).mean() > 0.9 and (rate["escapes"] > 0).all()
    assert (frame["in_attempts"] < frame["used"]).all() and (frame["tests"] >= frame["escapes"]).all()
    assert rate["error"].between(0.1, 0.5).all()
    assert not margin["returned"].all() and margin["error"].mean() == pytest.approx(4 * rate["error"].mean(), rel=0.3)
    # The same accuracy costs each of four clients a quarter of the examples, or half of them.
    for regime, share in (("sampling", 4), ("private", 2)):
        cell = next(c for c in sharing.cells(SHORT) if c["regime"] == regime and c["clients"] == 4)
        one, four = (sharing.parameters(SHORT, {**cell, "clients": count}) for count in (1, 4))
        assert one.batch / four.batch == pytest.approx(share, rel=0.01)
