"""Norms at any scale: factors whose squares overflow or underflow, and the effect on clipping."""

import itertools
import math

import pytest
import torch
from torch import Tensor, nn

from dpnotes.core import Relation
from dpnotes.oracles.clipped import ClippedGradient
from dpnotes.privacy.mechanisms import Exact
from dpnotes.privacy.noise import FixedNoise
from dpnotes.problems import factors
from dpnotes.problems.modules import ModuleProblem
from dpnotes.problems.networks import TwoLayerNetwork
from dpnotes.random.streams import Streams
from dpnotes.util.precision import flushed, row_norms

LAYERS: dict[str, tuple[nn.Module, tuple[int, ...]]] = {
    "one position": (nn.Linear(4, 3, bias=False), (4,)),
    "a sequence": (nn.Linear(4, 3, bias=False), (5, 4)),
    "patches written": (nn.Conv2d(2, 3, 3, bias=False), (2, 6, 6)),
    "patches by products": (nn.Conv2d(16, 2, 1, bias=False), (16, 2, 2)),
}
ROOM = 3e-7  # float32: a few rounding errors of lengths, products and weights


def test_ordinary_norms_are_the_roots_of_the_sums_of_squares_to_the_bit():
    """Stored results of trained networks have these bits, and clipped training amplifies the last bit."""
    numbers = Streams.of("ordinary", range(6)).normal("factors", 0, 1000 * 8).view(6, 1000, 1, 8).float()
    layers = [factors.Outer(inputs, errors) for inputs, errors in zip(numbers[:3], numbers[3:], strict=True)]
    squares = torch.stack([layer.squares().squared_norms for layer in layers]).sum(0)
    assert torch.equal(factors.norms(layers), squares.sqrt())


def exponents(name: str, count: int) -> Tensor:
    """Return numbers from 1e-30 to 1e30."""
    return 10 ** (60 * Streams.of("scales", [name]).uniform("scales", 0, count)[0] - 30)


def told_and_true(layer: nn.Module, shape: tuple[int, ...], count: int) -> tuple[ModuleProblem, Tensor, Tensor]:
    """Return a layer's problem with outputs scaled per example, its point, and the float64 norms of its gradients."""
    numbers = Streams.of("scales", ["inputs"]).normal("inputs", 0, count * math.prod(shape)).view(count, *shape)
    inputs = (numbers * exponents("inputs", count).view(-1, *[1] * len(shape))).float()
    scales = exponents("errors", count).float()
    problem = ModuleProblem(layer, inputs, scales, loss=lambda output, scale: output.flatten(1).sum(1) * scale)
    x = torch.cat([parameter.detach().reshape(-1) for parameter in layer.parameters()])[None]

    def summed(weight: Tensor, example: Tensor, scale: Tensor) -> Tensor:
        return torch.func.functional_call(layer, {"weight": weight}, (example[None],)).sum() * scale

    weight = next(layer.parameters()).detach().double()
    found = torch.func.vmap(torch.func.grad(summed), (None, 0, 0))(weight, inputs.double(), scales.double())
    return problem, x, found.flatten(1).norm(dim=1)


def longest(problem: ModuleProblem, x: Tensor, true: Tensor) -> float:
    """Return the largest contribution of one clipped example over its clip, which is a thousandth of its gradient."""
    found = 0.0
    for index, length in enumerate(true.tolist()):
        clip = 1e-3 * length
        if 1e-30 < clip < 1e30:
            gradients = problem.gradients(x, torch.tensor([[index]]))
            norms = gradients.norms().nan_to_num(nan=torch.inf, posinf=torch.inf)
            weights = flushed(clip / norms.clamp_min(clip))
            found = max(found, float(gradients.weighted_sum(weights).double().norm()) / clip)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", LAYERS)
def test_no_scale_is_clipped_by_too_little(name: str, monkeypatch: pytest.MonkeyPatch):
    problem, x, true = told_and_true(*LAYERS[name], count=750)
    assert longest(problem, x, true) <= 1 + ROOM
    monkeypatch.setattr(factors, "norms", as_it_was)
    monkeypatch.setattr(factors, "row_norms", lambda rows: torch.linalg.vector_norm(rows, dim=-1))
    assert longest(problem, x, true) > 100, "control"


def as_it_was(gradients) -> Tensor:
    """Return norms from multiplied squares of factors, as in an earlier version."""
    return torch.stack([gradient.squares().squared_norms for gradient in gradients]).sum(0).sqrt()


# ---------------------------------------------------------------- an ordinary network, one long example
def examples(long: float) -> tuple[Tensor, Tensor]:
    inputs = torch.zeros(8, 4)
    inputs[:, 0] = 1.0
    inputs[0] = torch.tensor([26.0, long, long, long])
    return inputs, torch.arange(8) % 2


def moved(clip: float, long: float = 1e19) -> float:
    """Return the distance by which the first example moves the sum, over the clip."""
    inputs, labels = examples(long)
    network = nn.Linear(4, 2)
    with torch.no_grad():
        network.weight.zero_()
        network.weight[0, 0] = 2.0
        network.bias.zero_()
    x = torch.cat([parameter.detach().reshape(-1) for parameter in network.parameters()])[None]

    def total(inputs: Tensor, labels: Tensor) -> Tensor:
        problem = ModuleProblem(network, inputs, labels)
        oracle = ClippedGradient(problem, clip, FixedNoise.none([1]), Relation.ZERO_OUT, Exact())
        _, estimate = oracle.estimate(oracle.init(x), x, Streams.of("scales", [0]), torch.tensor([True]))
        return estimate.gradient.double() * len(inputs)

    return float((total(inputs, labels) - total(inputs[1:], labels[1:])).norm()) / clip


@pytest.mark.parametrize("clip", [1e-5, 1e-4, 1e-2])
def test_one_long_example_moves_a_sum_by_its_clip_at_most(clip: float, monkeypatch: pytest.MonkeyPatch):
    assert moved(clip) <= 1 + ROOM
    monkeypatch.setattr(factors, "norms", as_it_was)
    monkeypatch.setattr(factors, "row_norms", lambda rows: torch.linalg.vector_norm(rows, dim=-1))
    assert moved(clip) > 1.1 or clip == 1e-2, "control"


def test_every_norm_of_rows_is_right_in_both_types():
    for dtype, limit in ((torch.float32, 44), (torch.float64, 320)):
        rows = torch.tensor([[3.0, 4.0], [0.0, 5.0]], dtype=torch.float64)
        for power, dim in itertools.product(range(-limit, 38 if limit == 44 else 308), (2, 2000)):
            scaled = torch.zeros(2, dim, dtype=dtype)
            scaled[:, :2] = (rows * 10.0**power).to(dtype)
            true = math.hypot(*scaled[0, :2].tolist()), math.hypot(*scaled[1, :2].tolist())
            assert row_norms(scaled).tolist() == pytest.approx(true, rel=1e-6), (dtype, power, dim)
    assert math.isnan(row_norms(torch.tensor([math.nan, 1.0])))
    assert row_norms(torch.tensor([math.inf, 1.0])) == math.inf
    short = torch.tensor([[3e-30, 4e-30]])
    assert not torch.linalg.vector_norm(short, dim=-1), "control"


@pytest.mark.parametrize("length", [1e19, 9e29])
def test_an_input_so_long_that_rounding_reaches_its_clip_gets_no_weight(length: float, monkeypatch: pytest.MonkeyPatch):
    """Errors times a weight are subnormal and round up: at 9e29 by 59% of the clip."""
    clip, inputs = 6.27e-15, torch.zeros(1, 4)
    inputs[0, 0] = length
    problem = ModuleProblem(nn.Linear(4, 64), inputs, torch.tensor([0]))
    x = torch.zeros(1, problem.dim)
    x[0, 256] = 103.0

    def added() -> float:
        gradients = problem.gradients(x)
        weights = flushed(clip / gradients.norms().clamp_min(clip))
        return float(gradients.weighted_sum(weights).double().norm()) / clip

    assert added() <= 1 + ROOM
    monkeypatch.setattr(factors, "_LONGEST", 1e30)
    assert length == 1e19 or added() > 1.5, "control"


def test_a_two_layer_network_at_any_scale():
    inputs, labels = examples(1e30)
    problem = TwoLayerNetwork(inputs, labels, 3, activation="relu")
    x = 1e-12 * problem.initial(Streams.of("scales", ["start"]))
    x[0, :12] = 1e-35
    norms = problem.gradients(x).norms()
    wide = TwoLayerNetwork(inputs.double(), labels, 3, activation="relu").gradients(x.double()).norms()
    torch.testing.assert_close(norms.double(), wide, rtol=1e-5, atol=0)
