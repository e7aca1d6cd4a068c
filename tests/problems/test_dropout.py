"""Dropout with masks by run, call and example: gradients, replays, sensitivity with its control, refusals."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from modules import Both
from torch import Tensor, nn
from torch.nn import functional

from dpnotes.problems import modules
from dpnotes.problems.augmentation import Draws
from dpnotes.problems.dropout import Site, drops, masks
from dpnotes.problems.modules import ModuleProblem
from dpnotes.random.streams import Streams

COUNT, CLIP = 12, 0.1
STREAMS = Streams.of("dropout", range(2))


def by_function(m: Any, x: Tensor) -> Tensor:
    """Drop by a function, twice."""
    h = functional.dropout(m.first(x).tanh(), 0.3, m.training)
    return m.last(functional.dropout(h, p=0.1, training=m.training))


NETWORKS: dict[str, Callable[[], nn.Module]] = {
    "layers": lambda: nn.Sequential(nn.Dropout(0.2), nn.Linear(6, 8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 3)),
    "nested": lambda: nn.Sequential(nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.4)), nn.Linear(8, 3)),
    "functional": lambda: Both(by_function, first=nn.Linear(6, 8), last=nn.Linear(8, 3)),
    "images": lambda: nn.Sequential(
        nn.Unflatten(1, (1, 2, 3)), nn.Conv2d(1, 4, 2), nn.Dropout2d(0.5), nn.Flatten(), nn.Linear(8, 3)
    ),
}


def data(count: int = COUNT) -> tuple[Tensor, Tensor]:
    inputs = Streams.of("inputs", [0]).normal("inputs", 0, count * 6).view(count, 6)
    return inputs, torch.arange(count) % 3


def problem_of(name: str, **how: Any) -> ModuleProblem:
    return ModuleProblem(NETWORKS[name]().double(), *data(), **how)


def by_hand(name: str, problem: ModuleProblem, x: Tensor, run: int, call: int) -> Tensor:
    """Return the gradients from a plain backward pass an example, with the masks in place of torch's draws."""
    found, network = [], NETWORKS[name]().double()
    draws = Draws(STREAMS, call)
    for example in range(COUNT):
        own = iter(masks(draws, run, torch.tensor([example]), problem._dropouts, torch.float64))
        values = {key: value[run].clone().requires_grad_() for key, value in problem.parameters(x).items()}
        with pytest.MonkeyPatch.context() as patch:
            for each in ("dropout", "dropout2d"):
                patch.setattr(functional, each, lambda h, *_, own=own, **__: h * next(own)[0])
            outputs = torch.func.functional_call(network, values, (data()[0][example : example + 1],))
        loss = functional.cross_entropy(outputs, data()[1][example : example + 1])
        found.append(torch.cat([g.reshape(-1) for g in torch.autograd.grad(loss, [*values.values()])]))
    return torch.stack(found)


@pytest.mark.parametrize("name", NETWORKS)
def test_gradients_are_those_of_plain_autograd_with_these_masks(name: str):
    problem = problem_of(name)
    x = problem.initial(STREAMS)
    gradients = problem.drawing(STREAMS, torch.tensor([4, 9])).gradients(x)
    for run, call in ((0, 4), (1, 9)):
        expected = by_hand(name, problem, x, run, call)
        assert torch.allclose(gradients.norms()[run], expected.norm(dim=1), atol=1e-14, rtol=1e-12)
        total = gradients.weighted_sum(torch.ones(2, COUNT, dtype=torch.float64))[run]
        assert torch.allclose(total, expected.sum(0), atol=1e-13)
    other = problem.drawing(STREAMS, torch.tensor([5, 9])).gradients(x).norms()
    assert not torch.allclose(other[0], gradients.norms()[0]) and torch.equal(other[1], gradients.norms()[1])


def test_an_example_s_mask_is_the_same_in_another_batch_chunk_and_place():
    problem = problem_of("layers")
    x = problem.initial(STREAMS)
    whole = problem.drawing(STREAMS, 3).gradients(x).norms()
    some = torch.tensor([[7, 2, 2], [0, 11, 5]])
    part = problem.drawing(STREAMS, 3).gradients(x, some).norms()
    assert torch.allclose(part, whole.gather(1, some), atol=1e-14)
    chunked = ModuleProblem(NETWORKS["layers"]().double(), *data(), max_examples_at_once=5)
    assert torch.allclose(chunked.drawing(STREAMS, 3).gradients(x).norms(), whole, atol=1e-14)
    alone = problem.drawing(STREAMS, 3).take(torch.tensor([1])).gradients(x[1:]).norms()
    assert torch.allclose(alone[0], whole[1], atol=1e-14)


def clipped_sum(problem: ModuleProblem, x: Tensor, present: Tensor, call: int) -> Tensor:
    gradients = problem.drawing(STREAMS.take(slice(1)), call).gradients(x, present.nonzero().T)
    return gradients.weighted_sum(CLIP / gradients.norms().clamp_min(CLIP))[0]


def moved(problem: ModuleProblem) -> float:
    """Return by how much, in clips, the clipped sum moves when one example is zeroed out: the most of all."""
    x, everyone, found = problem.initial(STREAMS.take(slice(1))), torch.ones(COUNT, dtype=torch.bool), []
    for call in range(3):
        whole = clipped_sum(problem, x, everyone, call)
        for example in range(COUNT):
            without = everyone.clone()
            without[example] = False
            found.append((whole - clipped_sum(problem, x, without, call)).norm() / CLIP)
    return float(max(found))


def test_one_example_moves_the_clipped_sum_by_one_clip_and_masks_by_place_by_more(monkeypatch: pytest.MonkeyPatch):
    problem = problem_of("layers")
    assert 0.9 < moved(problem) <= 1 + 1e-12

    def by_place(draws: Draws, run: int, examples: Tensor, *rest: Any) -> tuple[Tensor, ...]:
        return masks(draws, run, torch.arange(len(examples)), *rest)

    monkeypatch.setattr(modules, "masks", by_place)
    assert moved(problem) > 1.5, "control"


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_the_share_that_falls_and_the_mean_of_masks(p: float):
    """Over 2 x 10^5 elements the mean of a mask is 1 within five standard errors."""
    (drawn,) = masks(Draws(STREAMS, 0), 0, torch.arange(200), [Site((1000,), p)], torch.float64)
    assert {*drawn.unique().tolist()} == {0.0, 1 / (1 - p)}
    assert abs(float(drawn.mean()) - 1) < 5 * (p / (1 - p) / drawn.numel()) ** 0.5


def test_masks_differ_by_run_call_example_and_place():
    sites = [Site((64,), 0.5)] * 2
    found = [
        mask[row].tolist()
        for run in range(2)
        for call in range(2)
        for mask in masks(Draws(STREAMS, call), run, torch.arange(3), sites, torch.float32)
        for row in range(3)
    ]
    assert len({*map(tuple, found)}) == len(found) == 24


def test_a_network_is_evaluated_without_dropout_and_its_own_module_is_untouched():
    network = NETWORKS["layers"]().double()
    problem = ModuleProblem(network, *data())
    x = problem.initial(STREAMS, only=[])
    loss, _ = problem.evaluate(x, *data())
    assert network.training
    assert torch.allclose(loss[0], functional.cross_entropy(network.eval()(data()[0]), data()[1]))


def test_the_global_generator_is_left_alone():
    network = NETWORKS["functional"]().double()
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    problem = ModuleProblem(network, *data())
    problem.drawing(STREAMS, 0).gradients(problem.initial(STREAMS)).norms()
    assert torch.equal(torch.rand(2), expected)


def test_inactive_dropout_needs_no_draws():
    for network in (NETWORKS["layers"]().eval(), nn.Sequential(nn.Dropout(0.0), nn.Linear(6, 3))):
        problem = ModuleProblem(network.double(), *data())
        assert not problem.draws and problem.gradients(problem.initial(STREAMS)).norms().shape == (2, COUNT)


# ---------------------------------------------------------------- refusals
def branches(m: Any, x: Tensor) -> Tensor:
    return m.layer(x) if x.sum() > 0 else m.last(x)


def reads(m: Any, x: Tensor) -> Tensor:
    return m.last(m.layer(x.unflatten(1, (2, 3)))[0][:, -1])


def attends(m: Any, x: Tensor) -> Tensor:
    h = x.unflatten(1, (2, 3))
    return m.last(m.layer(h, h, h)[0][:, -1])


@pytest.mark.parametrize(
    ("function", "layer", "last", "message"),
    [
        (branches, nn.Sequential(nn.Linear(6, 3), nn.Dropout()), nn.Linear(6, 3), "in code that is not followed"),
        (reads, nn.LSTM(3, 4, 2, dropout=0.1, batch_first=True), nn.Linear(4, 3), "not followed|LSTM, to have no"),
        (
            attends,
            nn.MultiheadAttention(3, 1, 0.1, batch_first=True),
            nn.Linear(3, 3),
            "drop nothing|no active dropout",
        ),
        (
            lambda m, x: m.last(m.layer(x)),
            nn.AlphaDropout(),
            nn.Linear(6, 3),
            "Expected layer, a AlphaDropout, to have",
        ),
    ],
)
def test_dropout_that_cannot_be_replayed_is_refused_by_name(function: Any, layer: Any, last: Any, message: str):
    network = Both(function, layer=layer, last=last).double()
    assert drops(network)
    with pytest.raises(ValueError, match=message):
        ModuleProblem(network, *data())


def test_a_pass_without_draws_is_refused():
    problem = problem_of("layers")
    with pytest.raises(ValueError, match=r"Expected the draws of a step for this module's dropout masks"):
        problem.gradients(problem.initial(STREAMS)).norms()
