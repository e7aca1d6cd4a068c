"""Closed code: modules and losses that consist of known operations, and the treatment of all others."""

import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

import pytest
import torch
from modules import Both, normal
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from dpnotes.core import Relation
from dpnotes.guarantees import SHOWN_ALONE, examples_apart
from dpnotes.oracles.clipped import ClippedGradient
from dpnotes.papers.drift_escape.derivatives import ExampleDerivatives
from dpnotes.privacy.mechanisms import Exact
from dpnotes.privacy.noise import FixedNoise
from dpnotes.problems.architectures import conv_net, resnet18
from dpnotes.problems.closed import Open, closed, is_known, stand_ins
from dpnotes.problems.custom import CustomProblem
from dpnotes.problems.modules import ModuleProblem
from dpnotes.random.streams import Streams

F = nn.functional
LABELS = torch.arange(6) % 3


@pytest.fixture(autouse=True)
def _modules_start_alike() -> None:
    torch.manual_seed(0)


def linear(function: Callable[[Any, Tensor], Any], **parts: Any) -> nn.Module:
    return Both(function, head=nn.Linear(4, 3), **parts)


def attention(m: Any, x: Tensor) -> Tensor:
    """Attention written by hand, with in-place residuals."""
    batch, length, width = x.shape
    query, key, value = m.inner(x + m.places[:length]).view(batch, length, 3, width).unbind(2)
    weights = (query @ key.transpose(-2, -1) * width**-0.5).softmax(-1)
    mixed = weights @ value
    mixed += x
    return m.head(mixed.relu_().mean(1))


def masked(m: Any, x: Tensor) -> Tensor:
    """Attention with Python numbers and in-place statements."""
    query, key = m.inner(x).chunk(2, -1)
    scores = query @ key.mT / math.sqrt(key.size(-1))
    scores.masked_fill_(m.mask[: x.size(1), : x.size(1)] == 0, -math.inf)
    return m.head((scores.softmax(-1) @ x).mean(1))


def in_order(m: Any, x: Tensor) -> Tensor:
    return m.head(F.normalize(x).sort(1).values + torch.tensor([1.0, 2, 3, 4]))


def encoder() -> nn.Module:
    layer = nn.TransformerEncoderLayer(4, 2, 8, 0.0, batch_first=True)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)


def tied() -> nn.Module:
    """A module whose layers are declared in another order than they are used."""
    words = nn.Embedding(7, 4)
    module = linear(lambda m, x: m.out(m.words(x).mean(1)), out=nn.Linear(4, 7, bias=False), words=words)
    module.get_submodule("out").weight = words.weight
    return module


IMAGES, WORDS, SEQUENCES = normal(6, 3, 32, 32).float(), torch.arange(18).view(6, 3) % 7, normal(6, 5, 4).float()
CLOSED: dict[str, tuple[Callable[[], nn.Module], Tensor]] = {
    "ConvNet": (lambda: conv_net(3, width=4, norm="group"), IMAGES),
    "ResNet": (lambda: resnet18(3, width=2, norm="group"), IMAGES),
    "attention by hand": (
        lambda: linear(attention, inner=nn.Linear(4, 12), places=nn.Parameter(torch.zeros(5, 4))), SEQUENCES
    ),
    "attention": (
        lambda: linear(
            lambda m, x: m.head(m.inner(x, x, x)[0].mean(1)), inner=nn.MultiheadAttention(4, 2, batch_first=True)
        ),
        SEQUENCES,
    ),
    "LSTM": (
        lambda: linear(lambda m, x: m.head(m.inner(x)[0][:, -1]), inner=nn.LSTM(4, 4, batch_first=True)), SEQUENCES
    ),
    "words": (lambda: nn.Sequential(nn.Embedding(7, 4, padding_idx=0), nn.Flatten(), nn.Linear(12, 3)), WORDS),
    "a transformer": (lambda: linear(lambda m, x: m.head(m.inner(x).mean(1)), inner=encoder()), SEQUENCES),
    "masked attention by hand": (
        lambda: linear(masked, inner=nn.Linear(4, 8), mask=nn.Buffer(torch.tril(torch.ones(9, 9)))), SEQUENCES
    ),
    "torch's attention": (
        lambda: linear(lambda m, x: m.head(F.scaled_dot_product_attention(x, x, x, is_causal=True).mean(1))), SEQUENCES
    ),
    "sorted, with a constant": (lambda: linear(in_order), SEQUENCES[:, 0]),
    "a weight's norm apart": (
        lambda: linear(
            lambda m, x: m.head(F.hardswish(m.inner(x))), inner=nn.utils.parametrizations.weight_norm(nn.Linear(4, 4))
        ),
        SEQUENCES[:, 0],
    ),
    "tied weights, and one that is not used": (tied, WORDS),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:Examples are passed one by one")  # of the LSTM, for which vmap has no rule
@pytest.mark.filterwarnings("ignore:There is a performance drop")  # vmap has a slow rule for some attention
@pytest.mark.parametrize("name", CLOSED)
def test_ordinary_networks_are_closed_and_their_gradients_their_own(name: str):
    made, inputs = CLOSED[name]
    module = made()
    problem = ModuleProblem(module, inputs, LABELS)
    assert problem.opens is None and problem.keeps_examples_apart and examples_apart(problem) == ()
    x = problem.initial(Streams.of("x", [0]), only=[])
    found = problem.gradients(x)
    total = found.weighted_sum(torch.ones(1, 6) / found.norms())[0]
    alone = torch.zeros_like(total)
    for inputs_of_one, label in zip(inputs, LABELS, strict=True):
        loss = F.cross_entropy(module(inputs_of_one[None]), label[None])
        own = torch.autograd.grad(loss, [*module.parameters()], materialize_grads=True)
        own = torch.cat([t.flatten() for t in own])
        alone += own / own.norm()
    torch.testing.assert_close(total, alone, rtol=1e-2, atol=1e-3)


class Quantised(TorchDispatchMode):
    """A mode that rounds products to a grid set by their maximum, as in fake quantisation."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if func in (torch.ops.aten.mm.default, torch.ops.aten.addmm.default, torch.ops.aten.bmm.default):
            step = out.abs().max() / 4
            return (out / step).round() * step
        return out


def in_a_mode(m: Any, x: Tensor) -> Tensor:
    with Quantised():
        return m.head(x)


def with_int8_activations(m: Any, x: Tensor) -> Tensor:
    def pack(tensor: Tensor) -> tuple[Tensor, Tensor]:
        scale = tensor.abs().max() / 127
        return (tensor / scale).round(), scale

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda packed: packed[0] * packed[1]):
        return m.head(m.inner(x).square())


OPEN: dict[str, tuple[Callable[[Any, Tensor], Tensor], str]] = {
    "its length": (lambda m, x: m.head(x) * len(x), "'len' is not supported"),
    "a branch": (lambda m, x: m.head(x) if bool((x > 9).all()) else 2 * m.head(x), "control flow"),
    "a branch on a size": (lambda m, x: m.head(x) if x.shape[0] > 1 else m.head(2 * x), "control flow"),
    "a number of Python": (lambda m, x: m.head(x) * x.sum().item(), "it calls item"),
    "numpy": (lambda m, x: m.head(torch.from_numpy(x.detach().numpy())), "it calls numpy"),
    "random numbers": (lambda m, x: m.head(x + torch.rand_like(x)), "it calls rand_like"),
    "strides": (lambda m, x: m.head(x.as_strided(x.shape, (4, 1))), "it calls as_strided"),
    "its data": (lambda m, x: m.head(x.data), "it reads .data"),
    "uninitialised memory": (lambda m, x: m.head(x + torch.empty_like(x)), "it calls empty_like"),
    "strides, as numbers": (lambda m, x: m.head(x * x.stride(0)), "it calls stride"),
    "running statistics": (
        lambda m, x: m.head(F.batch_norm(x[:, None].expand(-1, 4, 4), m.mean, m.var, training=True)[:, 0]),
        "batch_norm, which writes to what it is given",
    ),
    "a mode": (in_a_mode, "Quantised|other numbers|tried on made-up"),
    "saved-tensor hooks": (with_int8_activations, "other numbers|tried on made-up|cannot follow"),
}


@pytest.mark.filterwarnings("ignore:Examples are passed one by one")
@pytest.mark.parametrize("name", OPEN)
def test_other_code_is_open_and_sees_one_example(name: str):
    function, reason = OPEN[name]
    module = linear(function, inner=nn.Linear(4, 4))
    module.register_buffer("mean", torch.zeros(4))
    module.register_buffer("var", torch.ones(4))
    problem = ModuleProblem(module, normal(6, 4).float(), LABELS)
    assert problem.opens is not None and not problem.keeps_examples_apart
    assert examples_apart(problem) == (SHOWN_ALONE,)


def moved(module: nn.Module, clip: float = 0.01, count: int = 60) -> float:
    """Return how far one example, a thousand times as large as the others, moves the clipped sum, over the bound."""
    x, sums = torch.cat([p.detach().flatten() for p in module.parameters()])[None], []
    for size in (1.0, 1000.0):
        inputs = normal(count, 4).float()
        inputs[3] *= size
        problem = ModuleProblem(module, inputs, torch.arange(count) % 3)
        oracle = ClippedGradient(problem, clip, FixedNoise.none([1]), Relation.REPLACE_ONE, Exact())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            _, estimate = oracle.estimate(oracle.init(x), x, Streams.of(0, ["a"]), torch.tensor([True]))
        sums.append(count * estimate.gradient.double())
    return float((sums[0] - sums[1]).norm()) / (2 * clip)


@pytest.mark.parametrize("function", [in_a_mode, with_int8_activations])
def test_a_mode_or_hook_of_the_code_s_own_sees_one_example(function: Any, monkeypatch: pytest.MonkeyPatch):
    module = linear(function, inner=nn.Linear(4, 4))
    assert moved(module) <= 1 + 1e-5
    monkeypatch.setattr("dpnotes.problems.passes.nothing_beneath", everything_beneath)
    assert moved(module) > 1.1, "control: beneath vmap it sees all"


@contextmanager
def everything_beneath() -> Iterator[None]:
    yield


def test_what_is_around_a_pass_is_refused():
    problem = ModuleProblem(nn.Linear(4, 3), normal(6, 4).float(), LABELS)
    custom = CustomProblem(lambda x, a: (x - a).square().sum(), 4, normal(6, 4).float())
    x = problem.initial(Streams.of("x", [0]))
    for asked in (lambda: problem.gradients(x).norms(), lambda: custom.gradients(x[:, :4])):
        with torch.device("cpu"):  # control: a torch mode that changes no number
            asked()
        with pytest.raises(ValueError, match="Expected no Quantised around a pass"), Quantised():
            asked()
        hooks = torch.autograd.graph.saved_tensors_hooks(lambda t: t.round(), lambda t: t)
        with pytest.raises(ValueError, match="Expected no saved-tensor hooks around a pass"), hooks:
            asked()
        handle = nn.modules.module.register_module_forward_hook(lambda *_: None)
        try:
            with pytest.raises(ValueError, match="Expected no global hooks"):
                asked()
        finally:
            handle.remove()


class Wrapper(Tensor):
    """A tensor subclass whose own code sees all examples."""

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


class CountsWords(nn.Module):
    """Looks words up by torch's function, whose gradient is divided by a word's count in the batch, or sparse."""

    def __init__(self, *places: Any, **flags: Any) -> None:
        super().__init__()
        self.table, self.places, self.flags = nn.Parameter(torch.ones(7, 4)), places, flags

    def forward(self, words: Tensor) -> Tensor:
        return F.embedding(words, self.table, *self.places, **self.flags)


def test_a_function_that_counts_words_in_the_batch_is_refused():
    places = None, None, 2.0, True
    for layer in (CountsWords(*places), CountsWords(scale_grad_by_freq=True), CountsWords(sparse=True)):
        problem = ModuleProblem(nn.Sequential(layer, nn.Flatten(), nn.Linear(12, 3)), WORDS, LABELS)
        gradients = problem.gradients(problem.initial(Streams.of("x", [0]), only=[]))
        for asked in (gradients.norms, lambda g=gradients: g.weighted_sum(torch.ones(1, len(LABELS)))):
            with pytest.raises(ValueError, match="Expected embedding without scale_grad_by_freq, sparse"):
                asked()


def test_what_is_refused_by_name():
    with pytest.warns(FutureWarning):
        old = nn.utils.weight_norm(nn.Linear(4, 12))
    for layer, said in (
        (nn.Embedding(7, 4, scale_grad_by_freq=True), "0.scale_grad_by_freq=True"),
        (nn.Embedding(7, 4, sparse=True), "0.sparse=True"),
        (nn.Embedding(7, 4, max_norm=1.0), "0.max_norm=1.0 to be None"),
        (old, "Expected 0 without torch.nn.utils.weight_norm, .*: use torch.nn.utils.parametrizations.weight_norm"),
    ):
        with pytest.raises(ValueError, match=said):
            ModuleProblem(nn.Sequential(layer, nn.Flatten(), nn.Linear(12, 3)), WORDS, LABELS)
    inputs, wrapped = normal(6, 4).float(), normal(6, 4).float().as_subclass(Wrapper)
    for name, made in {
        r"inputs\[0\]": lambda: ModuleProblem(nn.Linear(4, 3), wrapped, LABELS),
        "labels": lambda: ModuleProblem(nn.Linear(4, 4), inputs, wrapped, loss=lambda out, own: (out - own).sum(1)),
        r"data\[0\]": lambda: CustomProblem(lambda x, a: (x - a).square().sum(), 4, wrapped),
        r"data\[0\]\[0\]": lambda: ExampleDerivatives(lambda x, a: (x - a).square().sum(), ((wrapped,),)),
    }.items():
        with pytest.raises(TypeError, match=f"{name}, a Wrapper with code of its own, to be a torch.Tensor"):
            made()


class Mine(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x if len(x) > 5 else 2 * x


def test_a_layer_that_somebody_vouches_for_is_named_in_the_claim():
    module = nn.Sequential(Mine(), nn.Linear(4, 3))
    assert ModuleProblem(module, normal(6, 4).float(), LABELS).opens is not None
    problem = ModuleProblem(module, normal(6, 4).float(), LABELS, vouched=(Mine,))
    (assumption,) = examples_apart(problem)
    assert problem.opens is None and assumption.statement.startswith("Mine treats each example by itself")
    assert assumption.basis == "assumed"


def test_a_module_that_checks_its_inputs_is_tried_on_a_public_example():
    def positive(m: Any, x: Tensor) -> Tensor:
        torch._assert((x >= 0).all(), "x is negative")
        return m.head(x)

    inputs = normal(6, 4).float().abs()
    given = torch.ones(1, 4), torch.zeros(1, dtype=torch.int64)
    assert ModuleProblem(linear(positive), inputs, LABELS, example=given).opens is not None
    other: tuple[dict[str, Any], ...] = ({"vouched": nn.Linear}, {"vouched": (3,)}, {"example": 3}, {"example": (3, 4)})
    for argument in other:
        with pytest.raises(TypeError, match=f"Expected {[*argument][0]}"):
            ModuleProblem(linear(positive), inputs, LABELS, **argument)
    for wrong, said in (
        ((torch.ones(1, 5), given[1]), r"example of shape \(1, 5\)"),
        ((given[0].double(), given[1]), "torch.float64"),
        (given[:1], "example"),
    ):
        with pytest.raises(ValueError, match=said):
            ModuleProblem(linear(positive), inputs, LABELS, example=wrong)


class Counting(nn.Module):
    """A loss that writes what it sees to its statistics, so little that numbers hardly change."""

    def __init__(self, written: bool) -> None:
        super().__init__()
        self.written = written
        self.register_buffer("mean", torch.zeros(1))
        self.register_buffer("var", torch.ones(1))

    def forward(self, outputs: Tensor, labels: Tensor) -> Tensor:
        mean = cast(Tensor, self.mean)
        if self.written:
            F.batch_norm(outputs.detach()[:, None], mean, cast(Tensor, self.var), training=True, momentum=1e-5)
        return (outputs - mean - labels[:, None]).square().sum(1)


def test_a_loss_that_keeps_what_it_sees_is_open_and_refused():
    inputs = normal(6, 4).float()
    for written in (False, True):
        problem = ModuleProblem(nn.Linear(4, 3), inputs, LABELS, loss=Counting(written))
        x = problem.initial(Streams.of("x", [0]), only=[])
        assert problem.keeps_examples_apart is not written, "control: statistics that are read alone"
        if written:
            assert "batch_norm" in str(problem.opens)
            with pytest.raises(ValueError, match="leave mean as it is"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                problem.gradients(x).norms()
        else:
            assert problem.gradients(x).norms().shape == (1, 6)


def filled(m: Any, x: Tensor) -> Tensor:
    place = (x[:, 0] * 8).long().remainder(4)[0] - 4  # legal, and counted from the end
    return m.head(torch.index_fill(x, 1, place[None], 1.0))


def test_what_lets_examples_meet_in_vmap_is_open_and_runs_one_by_one():
    inputs = normal(6, 4).float()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        problem = ModuleProblem(linear(filled), inputs, LABELS)
        assert "index_fill" in str(problem.opens)
        x = problem.initial(Streams.of("x", [0]), only=[])
        together = problem.gradients(x).norms()
        alone = torch.cat([problem.gradients(x, torch.tensor([[row]])).norms() for row in range(6)], 1)
    torch.testing.assert_close(together, alone)
    own = CustomProblem(lambda x, a: torch.index_fill(a, 0, a[:1].long() - 1, 1.0) @ x, 4, inputs)
    with pytest.raises(RuntimeError, match="index_fill lets examples meet"):
        own.gradients(torch.ones(1, 4))
    with pytest.raises(Open, match="ctc_loss"):
        closed(lambda a, b: F.ctc_loss(a, b, torch.tensor([3]), torch.tensor([2])), 2)
    with pytest.raises(Open, match="which is a parameter"):
        closed(lambda a, table: F.embedding(a, table), 2)


class Bias:
    """No tensor, and code of its own wherever torch's functions are given it."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return F.linear(args[0], args[1])


class Activation:
    """A class in the place of an activation."""

    def __new__(cls, x: Tensor) -> Any:
        return x.relu()


def test_attributes_of_a_layer_of_torch_bring_no_code():
    layer = nn.Linear(4, 3)
    assert is_known(layer, ()) and is_known(nn.LSTM(4, 3), ()) and is_known(nn.TransformerEncoderLayer(4, 2), ())
    del layer._parameters["bias"]
    vars(layer)["bias"] = Bias()
    assert not is_known(layer, ())
    assert not is_known(nn.TransformerEncoderLayer(4, 2, activation=cast(Any, Activation)), ())


def test_a_loss_of_one_s_own_takes_outputs_of_any_kind():
    module = linear(lambda m, x: {"logits": m.head(x), "more": (x.double().sum(1), x)})
    loss = lambda outputs, labels: F.cross_entropy(outputs["logits"], labels, reduction="none")  # noqa: E731
    inputs = normal(6, 4).float()
    problem, plain = (
        ModuleProblem(module, inputs, LABELS, loss=loss),
        ModuleProblem(cast(nn.Module, module.head), inputs, LABELS),
    )
    x = problem.initial(Streams.of("x", [0]), only=[])
    assert problem.opens is None
    torch.testing.assert_close(problem.gradients(x).norms(), plain.gradients(x).norms())

    def wide(outputs: Tensor, labels: Tensor) -> Tensor:
        assert outputs.dtype == torch.float64, "an output is not narrowed before the loss"
        return outputs.square().sum(1).float()

    double = ModuleProblem(linear(lambda m, x: m.head(x).double()), inputs, LABELS, loss=wide)
    assert bool((double.gradients(x).norms() > 0).all())


def test_stand_ins_are_of_the_data_s_type_and_hang_on_no_number_of_them():
    data = [normal(9, 3).float(), torch.arange(9) + 5, torch.tensor([True, False, True]), torch.zeros(4, 0)]
    found = stand_ins(data, 50)
    for tensor, made in zip(data, found, strict=True):
        assert made.dtype == tensor.dtype and made.shape == (50, *tensor.shape[1:])
    assert torch.equal(found[0], stand_ins([1e3 * data[0]], 50)[0]) and 0 <= float(found[0].min())
    assert sorted(found[1].unique().tolist()) == [*range(5, 14)]


def test_autocast_and_parameters_that_the_loss_does_not_see():
    inputs, module = normal(6, 4).float(), nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    assert ModuleProblem(module, inputs, LABELS, autocast=torch.bfloat16).opens is None
    problem = ModuleProblem(linear(lambda m, x: x[:, :3]), inputs, LABELS)
    with pytest.raises(ValueError, match="Expected a loss that depends on a trainable parameter"):
        problem.gradients(problem.initial(Streams.of("x", [0]))).norms()


def test_which_code_runs_does_not_depend_on_one_long_example():
    """With stand-ins of that example's size, losses are flat, and a list that misses a view's change looks right."""

    def doubled(m: Any, x: Tensor) -> Tensor:
        h = m.head(x)
        h[:, 0].mul_(2)
        return h

    inputs = normal(6, 4).float()
    long = torch.cat([1e3 * inputs[:1], inputs[1:]])
    assert ModuleProblem(linear(doubled), inputs, LABELS).opens is not None
    assert ModuleProblem(linear(doubled), long, LABELS).opens is not None


def test_a_table_whose_gradient_counts_words_is_open():
    module = linear(lambda m, x: m.head(torch.embedding(m.table, x, -1, True, False).mean(1)))
    module.table = nn.Parameter(normal(1000, 4).float())
    problem = ModuleProblem(module, 300 * WORDS % 1000, LABELS)  # stand-ins rarely share a word
    assert problem.opens is not None and "more than a table" in problem.opens


def test_code_may_keep_what_it_sees_but_no_buffer():
    def keeps(m: Any, x: Tensor) -> Tensor:
        m.last = m.head(x)
        return m.last

    def replaces(m: Any, x: Tensor) -> Tensor:
        m.mean = m.mean + x.detach()
        return m.head(x + m.mean)

    inputs = normal(6, 4).float()
    problem = ModuleProblem(linear(keeps), inputs, LABELS)
    x = problem.initial(Streams.of("x", [0]), only=[])
    assert problem.opens is None and bool(problem.evaluate(x, inputs, LABELS)[0].isfinite())
    module = linear(replaces)
    module.register_buffer("mean", torch.zeros(1, 4))
    with pytest.raises(ValueError, match="Expected a pass to leave mean as it is"):
        ModuleProblem(module, inputs, LABELS).gradients(x).norms()


def test_a_constant_is_what_it_was_at_construction():
    held = torch.ones(4)
    problem = CustomProblem(lambda x, a: (x * held - a).square().sum(), 4, torch.zeros(3, 4))
    held.mul_(100)  # control: the code itself would see this
    assert problem.opens is None and problem.gradients(torch.ones(1, 4)).norms().tolist() == [[4.0, 4.0, 4.0]]


def test_an_activation_of_one_s_own_is_no_part_of_a_known_layer():
    assert nn.TransformerEncoderLayer(4, 2, 8, 0.0, activation=torch.tanh).activation is torch.tanh
    for activation, known in ((torch.tanh, True), (F.gelu, True), (torch.ones(1, 5, 8).mul, False)):
        layer = nn.TransformerEncoderLayer(4, 2, 8, 0.0, activation=activation, batch_first=True)
        if known:
            assert closed(layer, 1) is layer
        else:
            with pytest.raises(Open):
                closed(layer, 1)


def test_a_list_of_operations_has_the_code_s_own_parameters():
    module = nn.Sequential(nn.Linear(2, 2), linear(lambda m, x: m.head(x), inner=nn.Linear(2, 4)))
    module[1].forward = None  # pyright: ignore[reportAttributeAccessIssue]  # control: code is followed where it stands
    with pytest.raises(Open):
        closed(module, 1)
    module = nn.Sequential(nn.Linear(4, 4), nn.ReLU(inplace=True))
    found = closed(linear(lambda m, x: m.head(m.inner(x)), inner=module), 1)
    assert found.get_submodule("inner.0") is module[0]
