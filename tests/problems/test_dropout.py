"""Dropout with masks by run, call and example: gradients, replays, sensitivity with its control, refusals."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from modules import Both
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from dpnotes.problems import modules
from dpnotes.problems.augmentation import Draws
from dpnotes.problems.dropout import Site, masks
from dpnotes.problems.modules import ModuleProblem
from dpnotes.random.streams import Streams

COUNT, CLIP = 12, 0.1
STREAMS = Streams.of("dropout", range(2))


def by_function(m: Any, x: Tensor) -> Tensor:
    """Drop by a function, twice."""
    h = functional.dropout(m.first(x).tanh(), 0.3, m.training)
    return m.last(functional.dropout(h, p=0.1, training=m.training))


class Recurrent(nn.Module):
    """A recurrent layer with dropout between its layers; or the same, a layer at a time."""

    def __init__(self, by_layer: bool = False) -> None:
        super().__init__()
        how: Any = {"batch_first": True, "bidirectional": True}
        self.layer, self.last = nn.LSTM(3, 4, 2, dropout=0.5, **how), nn.Linear(8, 3)
        self.single = (nn.LSTM(3, 4, **how).double(), nn.LSTM(8, 4, **how).double()) if by_layer else ()

    def forward(self, x: Tensor) -> Tensor:
        h = x.unflatten(1, (2, 3))
        for number, single in enumerate(self.single):
            own: Any = {k.replace(f"l{number}", "l0"): v for k, v in self.layer.named_parameters() if f"l{number}" in k}
            h = functional.dropout(h.transpose(0, 1)).transpose(0, 1) if number else h  # masks are (time, ...)
            h = torch.func.functional_call(single, own, (h,))[0]
        return self.last((h if self.single else self.layer(h)[0])[:, -1])


class Attention(nn.Module):
    """Attention that drops some of its weights, by torch's layer with or without its weights as a second result."""

    def __init__(self, weights: bool) -> None:
        super().__init__()
        self.layer, self.last = nn.MultiheadAttention(2, 2, dropout=0.3, batch_first=True), nn.Linear(2, 3)
        self.weights = weights

    def forward(self, x: Tensor) -> Tensor:
        h = x.unflatten(1, (3, 2))
        return self.last(self.layer(h, h, h, need_weights=self.weights)[0][:, -1])


class Fused(nn.Module):
    """Causal attention that drops some of its weights, by torch's function."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(2, 6), nn.Linear(2, 3)

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = self.first(x.unflatten(1, (3, 2))).chunk(3, dim=-1)
        p = 0.3 if self.training else 0.0
        return self.last(functional.scaled_dot_product_attention(query, key, value, None, p, is_causal=True)[:, -1])


class Unfollowed(nn.Module):
    """Code that torch.fx cannot follow, and that drops by a function, and by a layer or not."""

    def __init__(self, layer: bool) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(6, 8), nn.Linear(8, 3)
        self.drop = nn.Dropout(0.5) if layer else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        h = self.first(x).tanh() * len(x)
        return self.last(functional.dropout(self.drop(h), 0.1, self.training))


def attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, p: float, is_causal: bool = False
) -> Tensor:
    """Return attention in plain operations; its dropout is the functional one."""
    scores = query @ key.transpose(-2, -1) / query.shape[-1] ** 0.5
    if is_causal:
        scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), float("-inf"))
    return functional.dropout(scores.softmax(-1), p) @ value


NETWORKS: dict[str, Callable[[], nn.Module]] = {
    "layers": lambda: nn.Sequential(nn.Dropout(0.2), nn.Linear(6, 8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 3)),
    "nested": lambda: nn.Sequential(nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.4)), nn.Linear(8, 3)),
    "functional": lambda: Both(by_function, first=nn.Linear(6, 8), last=nn.Linear(8, 3)),
    "images": lambda: nn.Sequential(
        nn.Unflatten(1, (1, 2, 3)), nn.Conv2d(1, 4, 2), nn.Dropout2d(0.5), nn.Flatten(), nn.Linear(8, 3)
    ),
    "recurrent": Recurrent,
    "attention": lambda: Attention(False),
    "attention and weights": lambda: Attention(True),
    "fused": Fused,
    "unfollowed": lambda: Unfollowed(True),
    "unfollowed function": lambda: Unfollowed(False),
    "encoder": lambda: nn.Sequential(
        nn.Unflatten(1, (3, 2)),
        nn.TransformerEncoderLayer(2, 1, 4, dropout=0.3, batch_first=True),
        nn.Flatten(),
        nn.Linear(6, 3),
    ),
}


def data(count: int = COUNT) -> tuple[Tensor, Tensor]:
    inputs = Streams.of("inputs", [0]).normal("inputs", 0, count * 6).view(count, 6)
    return inputs, torch.arange(count) % 3


def problem_of(name: str, **how: Any) -> ModuleProblem:
    return ModuleProblem(NETWORKS[name]().double(), *data(), **how)


def point(problem: ModuleProblem, streams: Streams = STREAMS) -> Tensor:
    return streams.normal("point", 0, problem.dim).double() / 2


def by_hand(name: str, problem: ModuleProblem, x: Tensor, run: int, call: int) -> Tensor:
    """Return the gradients from a plain backward pass an example, with the masks in place of torch's draws."""
    found, network = [], (Recurrent(True) if name == "recurrent" else NETWORKS[name]()).double()
    draws = Draws(STREAMS, call)
    for example in range(COUNT):
        own = iter(masks(draws, run, torch.tensor([example]), problem._dropouts, torch.float64))
        values = {key: value[run].clone().requires_grad_() for key, value in problem.parameters(x).items()}
        with pytest.MonkeyPatch.context() as patch:
            for each in ("dropout", "dropout2d"):
                patch.setattr(functional, each, lambda h, *_, own=own, **__: h * next(own)[0])
            patch.setattr(functional, "scaled_dot_product_attention", attention)
            outputs = torch.func.functional_call(network, values, (data()[0][example : example + 1],))
        loss = functional.cross_entropy(outputs, data()[1][example : example + 1])
        found.append(torch.cat([g.reshape(-1) for g in torch.autograd.grad(loss, [*values.values()])]))
    return torch.stack(found)


@pytest.mark.parametrize("name", NETWORKS)
def test_gradients_are_those_of_plain_autograd_with_these_masks(name: str):
    problem = problem_of(name)
    x = point(problem)
    gradients = problem.drawing(STREAMS, torch.tensor([4, 9])).gradients(x)
    assert (problem.opens is None) == (not name.startswith("unfollowed")) and problem._passes.one_by_one is None
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
    x, everyone, found = point(problem, STREAMS.take(slice(1))), torch.ones(COUNT, dtype=torch.bool), []
    for call in range(3):
        whole = clipped_sum(problem, x, everyone, call)
        for example in range(COUNT):
            without = everyone.clone()
            without[example] = False
            found.append((whole - clipped_sum(problem, x, without, call)).norm() / CLIP)
    return float(max(found))


@pytest.mark.parametrize("name", ["layers", "recurrent", "attention", "fused", "encoder", "unfollowed"])
def test_one_example_moves_the_clipped_sum_by_one_clip_and_masks_by_place_by_more(
    name: str, monkeypatch: pytest.MonkeyPatch
):
    problem = problem_of(name)
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
    alpha = nn.Sequential(nn.Linear(6, 3), nn.AlphaDropout(0.5))
    for network in (NETWORKS["layers"]().eval(), nn.Sequential(nn.Dropout(0.0), nn.Linear(6, 3)), alpha.eval()):
        problem = ModuleProblem(network.double(), *data())
        assert not problem.draws and problem.gradients(problem.initial(STREAMS)).norms().shape == (2, COUNT)


# ---------------------------------------------------------------- refusals
class Free(nn.Module):
    """Drops whenever it is called, by a function of torch.nn or a lower one."""

    def __init__(self, lower: bool) -> None:
        super().__init__()
        self.layer, self.lower = nn.Linear(6, 3), lower

    def forward(self, x: Tensor) -> Tensor:
        x = self.layer(x)
        return torch.dropout(x, 0.5, True) if self.lower else functional.dropout(x)


class UnfollowedRecurrent(nn.Module):
    """Code that torch.fx cannot follow, whose recurrent layer drops inside torch's kernel."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.last = nn.GRU(3, 4, 2, dropout=0.5, batch_first=True), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.layer(x.unflatten(1, (2, 3)) * len(x))[0][:, -1])


class Branching(nn.Module):
    """Drops if an example says so, or more then."""

    def __init__(self, sign: int, more: bool = False) -> None:
        super().__init__()
        self.layer, self.drop, self.sign, self.more = nn.Linear(6, 3), nn.Dropout(0.5), sign, more

    def forward(self, x: Tensor) -> Tensor:
        if self.more:
            return functional.dropout(self.drop(self.layer(x)), 0.9 if x.sum() < 0 else 0.5, self.training)
        h = self.drop(self.layer(x)) if self.sign > 0 else self.layer(x)
        return self.drop(h) if self.sign * x.sum() < 0 else h


class Mapped(nn.Module):
    """Each of three tokens drops its own elements, by torch's vmap."""

    def __init__(self) -> None:
        super().__init__()
        self.drop, self.last = nn.Dropout(0.5), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        dropped = torch.func.vmap(self.drop, in_dims=1, out_dims=1, randomness="different")
        return self.last(dropped(x.unflatten(1, (3, 2))).flatten(1))


@pytest.mark.parametrize(
    ("network", "message"),
    [
        (UnfollowedRecurrent, "Expected a module that draws no random numbers of its own"),
        (lambda: Branching(0), "Expected dropout that made-up examples come to"),
        (lambda: Free(False), "Expected functional.dropout with training=self.training"),
        (lambda: Free(True), "Expected dropout to drop nothing: its draws cannot be replayed"),
        (lambda: nn.Sequential(nn.AlphaDropout(0.5), nn.Linear(6, 3)), "Expected 0, a AlphaDropout, to have no active"),
        (Mapped, "Expected no dropout inside torch.func.vmap"),
        (
            lambda: nn.Sequential(nn.Linear(6, 3), nn.BatchNorm1d(3), nn.Dropout(0.5)),
            "Expected no active dropout beside batch normalisation",
        ),
    ],
)
def test_dropout_that_cannot_be_replayed_is_refused_by_name(network: Callable[[], nn.Module], message: str):
    with pytest.raises(ValueError, match=message):
        ModuleProblem(network().double(), *data())


@pytest.mark.filterwarnings("ignore:Examples are passed one by one")
@pytest.mark.parametrize("more", [False, True])
def test_an_example_that_comes_to_another_dropout_is_refused(more: bool):
    problem = ModuleProblem(Branching(1, more).double(), *data())
    assert len(problem._dropouts) == 1 + more
    with pytest.raises(ValueError, match="Expected a module whose dropouts do not depend on the example"):
        problem.drawing(STREAMS, 0).gradients(problem.initial(STREAMS)).norms()


class Followed(nn.Module):
    """Code that torch.fx follows to other numbers than its own, as what it does in place is lost; it drops, too."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(6, 8), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        h = self.first(x)
        functional.relu(h, inplace=True)
        return self.last(functional.dropout(h, 0.5, self.training))


class InPlace(nn.Module):
    """Drops in place, and does not look at what the layer or the function returns."""

    def __init__(self, layer: bool) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(6, 8), nn.Linear(8, 3)
        self.drop = nn.Dropout(0.5, inplace=True) if layer else None

    def forward(self, x: Tensor) -> Tensor:
        h = self.first(x)
        _ = self.drop(h) if self.drop else functional.dropout(h, 0.5, self.training, inplace=True)
        return self.last(h)


@pytest.mark.parametrize("network", [Followed, lambda: InPlace(True), lambda: InPlace(False)])
def test_dropout_in_place_and_in_code_that_differs_from_its_operations_is_on(network: Callable[[], nn.Module]):
    problem = ModuleProblem(network().double(), *data())
    x = point(problem)
    one, same, other = (problem.drawing(STREAMS, call).gradients(x).norms() for call in (0, 0, 1))
    assert torch.equal(one, same) and not torch.allclose(one, other)


def test_dropout_in_place_changes_no_example():
    problem = ModuleProblem(nn.Sequential(nn.Dropout(0.5, inplace=True), nn.Linear(6, 3)).double(), *data())
    plain = ModuleProblem(nn.Sequential(nn.Dropout(0.5), nn.Linear(6, 3)).double(), *data())
    x = point(problem)
    for _ in range(2):
        one, other = (each.drawing(STREAMS, 0).gradients(x).norms() for each in (problem, plain))
        assert torch.equal(one, other)


class Kept(nn.Module):
    """Code that torch.fx cannot follow, computed again in the backward pass to save memory."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.drop, self.last = nn.Linear(6, 8), nn.Dropout(0.5), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        hidden: Any = checkpoint(lambda x: self.drop(self.first(x) * len(x)).tanh(), x, use_reentrant=False)
        return self.last(hidden)


@pytest.mark.filterwarnings("ignore:Examples are passed one by one")
def test_dropout_that_is_drawn_again_in_the_backward_pass_is_refused():
    problem = ModuleProblem(Kept().double(), *data())
    with pytest.raises(RuntimeError, match="Expected no checkpointing around dropout"):
        problem.drawing(STREAMS, 0).gradients(point(problem)).norms()


def test_a_pass_without_draws_is_refused():
    problem = problem_of("layers")
    with pytest.raises(ValueError, match=r"Expected the draws of a step for this module's dropout masks"):
        problem.gradients(problem.initial(STREAMS)).norms()
