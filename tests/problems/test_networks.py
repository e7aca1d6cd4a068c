"""Ghost norms and weighted sums of the two-layer network against torch.func with explicit gradients."""

import json
import math
from itertools import product
from pathlib import Path

import pytest
import torch
from pretend_device import PretendCuda
from torch import Tensor
from torch.profiler import profile

from dpnotes.problems.networks import Activation, TwoLayerNetwork
from dpnotes.random.streams import Streams


def network(
    activation: Activation = "tanh",
    num_classes: int = 2,
    runs: int | None = None,
    num_examples: int = 17,
    num_inputs: int = 5,
    num_hidden: int = 7,
    dtype: torch.dtype = torch.float64,
) -> TwoLayerNetwork:
    shape = (num_examples,) if runs is None else (runs, num_examples)
    generator = torch.Generator().manual_seed(0)
    inputs = 2 * torch.randn(*shape, num_inputs, generator=generator, dtype=torch.float64).to(dtype)
    labels = torch.randint(0, num_classes, shape, generator=generator)
    return TwoLayerNetwork(inputs, labels, num_hidden, num_classes, activation)


def points(problem: TwoLayerNetwork, runs: int = 3) -> Tensor:
    return 2 * problem.initial(Streams.of("points", range(runs)))


def loss_of_one(problem: TwoLayerNetwork, x: Tensor, features: Tensor, label: Tensor) -> Tensor:
    """Return the same loss, in its plainest form."""
    w1, b1, w2, b2 = (part.squeeze(0) for part in problem.layers(x[None]))
    act = torch.tanh if problem.activation == "tanh" else torch.relu
    logits = act(features @ w1 + b1) @ w2 + b2
    return torch.logsumexp(logits, 0) - (logits * (torch.arange(problem.num_classes) == label)).sum()


def reference(problem: TwoLayerNetwork, x: Tensor) -> tuple[Tensor, Tensor]:
    """Return all gradients `(runs, examples, dim)` and losses, by vmap of grad over runs and examples."""
    one = torch.func.grad_and_value(lambda x, f, y: loss_of_one(problem, x, f, y))
    each = torch.func.vmap(one, in_dims=(None, 0, 0))
    data_dim = 0 if problem.inputs.dim() == 3 else None
    return torch.func.vmap(each, in_dims=(0, data_dim, data_dim))(x, problem.inputs, problem.labels)


CASES = list(product(("tanh", "relu"), (2, 10), (None, 3)))


@pytest.mark.parametrize(("activation", "num_classes", "data_runs"), CASES)
def test_float64_agrees_with_torch_func(activation: Activation, num_classes: int, data_runs: int | None) -> None:
    problem = network(activation, num_classes, data_runs)
    x = points(problem)
    expected, losses = reference(problem, x)
    found = problem.gradients(x)
    torch.testing.assert_close(found.losses, losses, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(found.norms(), expected.norm(dim=-1), rtol=1e-10, atol=1e-12)
    weights = torch.linspace(-1, 2, 3 * 17, dtype=torch.float64).view(3, 17)
    torch.testing.assert_close(
        found.weighted_sum(weights), torch.einsum("rn,rnd->rd", weights, expected), rtol=1e-10, atol=1e-12
    )


@pytest.mark.parametrize("activation", ("tanh", "relu"))
def test_zero_gradients_have_norm_zero(activation: Activation) -> None:
    """For a label predicted with certainty the error underflows, and nothing becomes NaN."""
    problem = network(activation)
    x = torch.zeros(1, problem.dim, dtype=torch.float64)
    problem.layers(x)[3][0, :] = torch.tensor([2000.0, -2000.0])
    found = problem.gradients(x)
    certain = problem.labels == 0
    assert certain.any()
    assert (found.norms()[0, certain] == 0).all()
    assert (found.norms()[0, ~certain] > 1).all()
    assert found.weighted_sum(certain[None].double()).abs().max() == 0


def test_tanh_is_tanh() -> None:
    z = torch.cat([torch.linspace(-30, 30, 6001), torch.tensor([0.0, 1e-30, 1e4, -1e4])])
    problem = TwoLayerNetwork(z[:, None], torch.zeros(len(z), dtype=torch.int64), 1)
    x = torch.zeros(1, problem.dim)
    problem.layers(x)[0].fill_(1.0)
    hidden = problem.gradients(x).hidden[0, :, 0]
    assert (hidden.double() - torch.tanh(z.double())).abs().max() < 2e-7
    assert hidden.abs().max() <= 1


def test_a_batch_of_runs_is_the_runs_one_by_one() -> None:
    problem = network(runs=3)
    x = points(problem)
    together = problem.gradients(x)
    for run in range(3):
        alone = problem.take(torch.tensor([run])).gradients(x[run : run + 1])
        torch.testing.assert_close(alone.norms()[0], together.norms()[run], rtol=1e-12, atol=0)
    shared = network()
    assert shared.take(torch.tensor([1])) is shared


def test_evaluate_in_blocks() -> None:
    problem = network("relu", num_classes=3, num_examples=4)
    other = network("relu", num_classes=3, num_examples=11)
    x = points(problem)
    loss, accuracy = problem.evaluate(x, other.inputs, other.labels)
    w1, b1, w2, b2 = problem.layers(x)
    logits = torch.relu(other.inputs @ w1 + b1[:, None]) @ w2 + b2[:, None]
    torch.testing.assert_close(loss, other.gradients(x).losses.mean(1))
    torch.testing.assert_close(accuracy, (logits.argmax(-1) == other.labels).double().mean(1))
    per_run = other.inputs.expand(3, -1, -1)
    torch.testing.assert_close(problem.evaluate(x, per_run, other.labels.expand(3, -1))[0], loss)


def test_initial_points_are_those_of_linear_layers() -> None:
    problem = network(num_hidden=4000)
    x = problem.initial(Streams.of("start", ["a", "b"]))
    w1, b1, w2, b2 = problem.layers(x)
    for part, fan_in in ((w1, 5), (b1, 5), (w2, 4000)):
        bound = 1 / math.sqrt(fan_in)
        assert 0.999 * bound < part.abs().max() <= bound
        assert abs(float(part.var()) * 3 / bound**2 - 1) < 0.05
    assert b2.abs().max() <= 1 / math.sqrt(4000)
    assert not torch.equal(x[0], x[1])
    single = network(num_hidden=4000, dtype=torch.float32).initial(Streams.of("start", ["b"]))
    assert torch.equal(single[0], x[1].float())


@pytest.mark.parametrize("runs", (1, 3))
@pytest.mark.parametrize(
    ("num_examples", "num_classes", "data_runs"), ((300, 2, False), (20, 10, False), (300, 2, True))
)
def test_bytes_per_run_is_the_measured_peak(
    runs: int, num_examples: int, num_classes: int, data_runs: bool, tmp_path: Path
) -> None:
    problem = network(
        num_examples=num_examples,
        num_classes=num_classes,
        num_inputs=60,
        num_hidden=200,
        runs=runs if data_runs else None,
        dtype=torch.float32,
    )
    start = points(problem, runs)
    with profile(profile_memory=True, acc_events=True) as trace:
        x = start.clone()
        found = problem.gradients(x)
        weights = found.norms().clamp_min(4.0).reciprocal()
        x -= found.weighted_sum(weights)
        del found
    trace.export_chrome_trace(str(tmp_path / "trace.json"))
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    memory = sorted((e["ts"], e["args"]["Bytes"]) for e in events if e.get("name") == "[memory]")
    held = peak = 0
    for _, change in memory:
        held += change
        peak = max(peak, held)
    assert 0.55 * problem.bytes_per_run <= peak / runs <= problem.bytes_per_run


@pytest.mark.parametrize(
    ("change", "message"),
    (
        ({"inputs": torch.tensor([[1.0, math.nan]])}, "without NaN"),
        ({"inputs": torch.ones(1, 2, dtype=torch.int64)}, "floating point"),
        ({"inputs": torch.ones(2)}, "of shape"),
        ({"labels": torch.tensor([0, 1])}, "int64 of shape"),
        ({"labels": torch.tensor([0.0])}, "int64"),
        ({"labels": torch.tensor([2])}, r"labels in 0 ... 1, got 2 ... 2"),
        ({"labels": torch.tensor([-1])}, r"got -1"),
    ),
)
def test_bad_input_is_named(change: dict, message: str) -> None:
    good = {"inputs": torch.ones(1, 2), "labels": torch.tensor([0]), "num_hidden": 3}
    TwoLayerNetwork(**good)
    with pytest.raises(ValueError, match=message):
        TwoLayerNetwork(**{**good, **change})


@pytest.mark.parametrize("num_classes", (2, 10))
def test_an_example_of_weight_zero_takes_no_part(num_classes: int) -> None:
    """Its gradient may be finite or not, on a CPU, which checks it, and on a GPU, which does not."""
    for scale in (1.0, 1e308):  # its hidden units overflow, to infinity less infinity
        problem = network("relu", num_classes, num_examples=4)
        problem.inputs[1] *= scale
        problem = TwoLayerNetwork(problem.inputs, problem.labels, 7, num_classes, "relu")
        x = 1e3 * points(problem)
        weights = torch.tensor([[1.0, 0.0, 2.0, 1.0], [0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0]], dtype=torch.float64)
        kept = torch.tensor([0, 2, 3])
        expected = problem.gradients(x, kept.repeat(3, 1)).weighted_sum(weights[:, kept])
        assert torch.equal(problem.gradients(x).norms()[:, 1].isfinite(), torch.full((3,), scale == 1))
        torch.testing.assert_close(problem.gradients(x).weighted_sum(weights), expected)
        assert bool(problem.gradients(x).weighted_sum(torch.ones_like(weights)).isfinite().all()) is (scale == 1)
        with PretendCuda():
            there = TwoLayerNetwork(problem.inputs.cuda(), problem.labels.cuda(), 7, num_classes, "relu")
            torch.testing.assert_close(there.gradients(x.cuda()).weighted_sum(weights.cuda()).cpu(), expected)
    assert (expected[1] == 0).all()


def test_a_step_on_a_gpu_waits_for_nothing() -> None:
    problem = network(num_classes=10)
    with PretendCuda() as device:
        there = TwoLayerNetwork(problem.inputs.cuda(), problem.labels.cuda(), 7, 10)
        x, examples = points(problem).cuda(), torch.tensor([[0, 3, 3]] * 3).cuda()
        device.reset()
        found = there.gradients(x, examples)
        found.weighted_sum(1 / found.norms())
        assert device.waits == 0 and 20 < device.launches < 70 and not device.places["atomic"]
        found.losses.tolist()
        assert device.waits == 1, "control"


def test_a_clipped_sum_is_rounded_as_float32_whatever_the_user_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Products of reduced precision could make the sum longer than the norms used for clipping."""
    seen: list[str] = []
    bmm = torch.bmm

    def spy(*arguments: Tensor, **named: Tensor) -> Tensor:
        seen.append(torch.get_float32_matmul_precision())
        return bmm(*arguments, **named)

    problem = network()
    found = problem.gradients(points(problem))
    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision("high")
        monkeypatch.setattr(torch, "bmm", spy)
        found.weighted_sum(found.norms())
        assert seen == ["highest", "highest"]
        torch.bmm(found.inputs.mT, found.hidden)
        assert seen[-1] == "high", "control: the user's setting is back"
    finally:
        torch.set_float32_matmul_precision(before)
