"""The experiments of drift escape on clients, on selections and on sharing: their parts, and decision rules."""

from typing import Any

import numpy as np
import pytest
import torch
from specs import changed

from dpnotes.experiments import Decision
from dpnotes.oracles.blocks import Blocks
from dpnotes.oracles.samples import VirtualSamples
from dpnotes.papers.drift_escape.algorithms import drift_escape
from dpnotes.papers.drift_escape.distributed import clients_of, distributed_drift_escape
from dpnotes.papers.drift_escape.experiments import clients as of_clients
from dpnotes.papers.drift_escape.experiments import mnist_clients, sharing
from dpnotes.papers.drift_escape.experiments import selection as of_selection
from dpnotes.problems.datasets.dataset import Dataset
from dpnotes.random.streams import Streams


# ---------------------------------------------------------------- clients
@pytest.mark.slow
def test_the_rule_of_clients():
    def verdict(**columns: Any) -> str:
        return of_clients.decide(good.assign(**columns), of_clients.QUICK).verdict

    good = of_clients.simulated(of_clients.QUICK, np.random.default_rng(0), True)
    error, clients = good["error"], good["clients"]
    assert verdict() == "reproduced"
    wrongs = ({"error": error * clients**0.5}, {"error": error + 0.1}, {"error": error / clients**0.1}, {"steps": 29})
    assert {verdict(**wrong) for wrong in wrongs} == {"not reproduced"}
    assert verdict(error=error * clients**0.034) != "reproduced"


# ---------------------------------------------------------------- selection
def test_the_rule_of_selection():
    spec = of_selection.QUICK
    good = of_selection.simulated(spec, np.random.default_rng(0), True)  # with the exponent 6/13 - 0.02

    def verdict(more: float = 0.0, broken: int = 0) -> str:
        """Return the verdict if d* grows with an exponent larger by `more`, and some runs of the last cell fail."""
        error = good["eigenvalue_error"] * (good["data"] / 1e10) ** (-0.69 * more)
        fails = (good["data"] == spec["sizes"][-1]) & (good["dim"] == spec["dims"][-1]) & (good["repeat"] < broken)
        frame = good.assign(eigenvalue_error=error, corrected=good["corrected"].mask(fails))
        return of_selection.decide(frame, spec).verdict

    assert verdict() == verdict(broken=4) == "reproduced"
    assert verdict(0.06) == "undecided"
    assert verdict(0.16) == verdict(-0.14) == verdict(broken=5) == "not reproduced"


# ---------------------------------------------------------------- MNIST by clients
DIGITS = changed(mnist_clients.QUICK, clients=3, least_held=300)


def random_digits() -> Dataset:
    """Return images of noise in which the first square of pixels shows the label."""
    labels = torch.arange(4000) % 10
    images = Streams.of("digits", [0]).uniform("images", 0, 4000 * 784).view(4000, 784).float()
    images[:, :4] += labels[:, None]
    return Dataset("random", images[:3600], labels[:3600], images[3600:], labels[3600:], 10, "none", "here")


def test_the_objective_of_clients_is_the_mean_over_clients_of_their_mean_loss(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(mnist_clients, "load_mnist", random_digits)
    monkeypatch.setattr(mnist_clients, "digits", mnist_clients.digits.__wrapped__)
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


@pytest.mark.slow
def test_the_rule_of_digits_by_clients():
    def decide(factor: float = 1.0, **columns: Any) -> Decision:
        """Return the decision where gradients are longer by a factor, or shorter, if clients disagree most."""
        frame = mnist_clients.simulated(spec, np.random.default_rng(0), True).assign(**columns)
        frame.loc[frame["concentration"] == 0.1, "gradient"] *= factor
        return mnist_clients.decide(frame, spec)

    spec = mnist_clients.QUICK
    assert decide().verdict == "reproduced"
    assert decide(1.5).verdict == decide(1 / 1.5).verdict == "not reproduced"
    assert decide(gradient=lambda frame: frame["gradient"] ** 10).verdict == "undecided"
    assert decide(status="DATA_EXHAUSTED").verdict == "undecided"


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
    assert largest[1] == pytest.approx(bounds.smoothness)
    assert 0.9 * bounds.hessian_lipschitz < largest[2] <= bounds.hessian_lipschitz


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
    cell = sharing.cells(SHORT)[0]
    data, choice = sharing.setting(SHORT, cell), sharing.parameters(SHORT, cell)
    x, streams = torch.zeros(3, SHORT["dim"], dtype=torch.float64), Streams.of("one client", ["a", "b", "c"])
    samples, blocks = VirtualSamples(data, 10**18), Blocks(1, 1)
    shared = distributed_drift_escape(lambda _: samples, choice, x, streams, blocks=blocks, delta=1e-6)
    (own,) = clients_of([choice] * 3, lambda _: samples, blocks).streams_of(streams)
    alone, other = (drift_escape(samples, choice, x, keys, delta=1e-6) for keys in (own, streams))
    assert (alone.state.status == 1).all() and torch.equal(alone.x, shared.x)
    for name in ("steps", "tests", "escapes", "status"):
        assert torch.equal(getattr(alone.state, name), getattr(shared.state, name))
    assert torch.equal(alone.state.oracle.meter.used, shared.state.oracle.meter.used[:, 0])
    assert not torch.equal(other.x, shared.x), "control: the run's keys are not the client's"


@pytest.mark.slow
def test_the_rule_of_sharing():
    def verdict(right: bool = True, **columns: Any) -> str:
        frame = sharing.simulated(sharing.QUICK, np.random.default_rng(0), right)
        return sharing.decide(frame.assign(**columns), sharing.QUICK).verdict

    def returned(kind: str, share: float) -> Any:
        """Return which runs return a point, if of those of a kind a share does."""
        return lambda frame: (frame["kind"] != kind) | (frame["repeat"] < share * sharing.QUICK["repeats"])

    def levels(one: float, several: float) -> Any:
        """Return levels, if the runs of one client, and those of several, reach these whatever their error."""
        own = lambda frame: np.where(frame["clients"] > 1, several, one)  # noqa: E731
        return lambda frame: frame["level"].mask(frame["kind"] == "margin", own(frame))

    assert verdict() == "reproduced"
    assert verdict(right=False) == "not reproduced", "each regime has the other's exponent"
    for wrong in ({"returned": returned("rate", 0.4)}, {"level": levels(0.5, 2.0)}, {"level": levels(2.0, 0.5)}):
        assert verdict(**wrong) == "not reproduced"
    easy = {"level": lambda frame: frame["level"].mask(frame["multiple"] == 4.0, 0.5)}
    for unclear in ({"escapes": 0}, {"minor": 0.1}, {"returned": returned("rate", 0.8)}, easy):
        assert verdict(**unclear) != "reproduced"
