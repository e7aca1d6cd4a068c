"""Modules as problems: norms and weighted sums against torch.func with explicit gradients; refusals; work."""

import itertools
import math
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any

import pytest
import torch
from modules import Both, normal, small_conv_net
from pretend_device import PretendCuda
from torch import Tensor, nn

from dpnotes.problems import factors
from dpnotes.problems.architectures import conv_net, resnet18
from dpnotes.problems.factors import FactoredGradient, Lookups, Outer, Patches, Written, factored, norms
from dpnotes.problems.modules import ExamplesMix, ModuleProblem, OutOfMemory
from dpnotes.random.streams import Streams
from dpnotes.util.per_run import part_of

CLASSES = 3
same = partial(torch.testing.assert_close, rtol=1e-10, atol=1e-12)


@pytest.fixture(autouse=True)
def _modules_start_alike() -> None:
    torch.manual_seed(0)


def words(*shape: int, below: int = 6) -> Tensor:
    return Streams.of("modules", ["words"]).words("words", 0, math.prod(shape))[0].view(shape) % below


def tied() -> nn.Module:
    table, head = nn.Embedding(6, 4), nn.Linear(4, 6)
    head.weight = table.weight
    return Both(
        lambda m, t: m.last(m.head(torch.tanh(m.table(t))).mean(1)), table=table, head=head, last=nn.Linear(6, 3)
    )


def image(*layers: nn.Module, size: int = 8) -> tuple[Any, Tensor]:
    """Return layers from 4 channels to any number, followed by a head, and inputs."""
    inputs = normal(5, 4, size, size)
    body = nn.Sequential(*layers, nn.Flatten()).double()
    with torch.no_grad():
        return nn.Sequential(body, nn.Linear(body(inputs).shape[1], CLASSES)), inputs


def frozen_statistics() -> tuple[nn.Module, Tensor]:
    module, inputs = image(nn.Conv2d(4, 6, 3), nn.BatchNorm2d(6), nn.Tanh())
    module.double()(inputs)
    return module.eval(), inputs


def partly_frozen() -> tuple[nn.Module, Tensor]:
    module, inputs = image(nn.Conv2d(4, 6, 3), nn.GroupNorm(2, 6))
    module[0][0].weight.requires_grad_(False)
    module[0][1].bias.requires_grad_(False)
    return module, inputs


def positions() -> tuple[nn.Module, Tensor]:
    def forward(m: Any, t: Tensor) -> Tensor:
        return m.head(torch.tanh(m.table(t) + m.places(torch.arange(t.shape[1]))).mean(1))

    return Both(forward, table=nn.Embedding(6, 4), places=nn.Embedding(5, 4), head=nn.Linear(4, CLASSES)), words(5, 5)


def positions_with_an_axis_of_one() -> tuple[nn.Module, Tensor]:
    def forward(m: Any, t: Tensor) -> Tensor:
        return m.head(torch.tanh(m.table(t) + m.places(torch.arange(t.shape[1])[None])).mean(1))

    return Both(forward, table=nn.Embedding(6, 4), places=nn.Embedding(5, 4), head=nn.Linear(4, CLASSES)), words(5, 5)


def attention() -> tuple[nn.Module, Tensor]:
    def forward(m: Any, x: Tensor) -> Tensor:
        return m.head(m.norm(x + m.attend(x, x, x, need_weights=False)[0]).mean(1))

    attend = nn.MultiheadAttention(4, 2, batch_first=True)
    return Both(forward, attend=attend, norm=nn.LayerNorm(4), head=nn.Linear(4, CLASSES)), normal(5, 6, 4)


MODULES: dict[str, Callable[[], tuple[nn.Module, Any]]] = {
    "linear": lambda: (nn.Sequential(nn.Linear(4, 7), nn.Tanh(), nn.Linear(7, CLASSES)), normal(5, 4)),
    "linear without bias": lambda: (nn.Linear(4, CLASSES, bias=False), normal(5, 4)),
    "short sequence": lambda: (
        nn.Sequential(nn.Linear(9, 20), nn.Tanh(), nn.Flatten(), nn.Linear(60, 3)),
        normal(5, 3, 9),
    ),
    "long sequence": lambda: (
        nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Flatten(), nn.Linear(90, 3)),
        normal(5, 30, 2),
    ),
    "grid": lambda: (nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Flatten(), nn.Linear(36, 3)), normal(5, 2, 3, 4)),
    "convolution": lambda: image(nn.Conv2d(4, 6, 3), nn.ReLU(inplace=True), nn.Conv2d(6, 5, 3, padding=1, bias=False)),
    "wide convolution": lambda: image(nn.Conv2d(4, 60, 3, padding=1), nn.Tanh(), nn.AvgPool2d(2)),
    "strides": lambda: image(nn.Conv2d(4, 30, 5, 2, 2), nn.Tanh(), nn.Conv2d(30, 20, (2, 3), (1, 3), (0, 1))),
    "dilation": lambda: image(nn.Conv2d(4, 40, 3, (1, 2), (2, 1), (2, 1)), nn.Tanh(), nn.Conv2d(40, 20, 2, 2, 0, 3)),
    "stride beyond the kernel": lambda: image(nn.Conv2d(4, 40, 1, 2), nn.Tanh(), nn.Conv2d(40, 30, 2, 3, 1)),
    "groups": lambda: image(nn.Conv2d(4, 40, 3, groups=2), nn.Tanh(), nn.Conv2d(40, 40, 3, 2, groups=40)),
    "other convolutions": lambda: image(nn.Conv2d(4, 3, 3, padding="same"), nn.ConvTranspose2d(3, 2, 2)),
    "group norm": lambda: image(nn.Conv2d(4, 6, 1), nn.GroupNorm(3, 6), nn.ReLU(inplace=True), size=4),
    "layer norm": lambda: image(nn.LayerNorm(4), nn.Conv2d(4, 3, 2), nn.LayerNorm([3, 3]), size=4),
    "flat layer norm": lambda: (nn.Sequential(nn.Linear(4, 3), nn.LayerNorm(3)), normal(5, 4)),
    "frozen statistics": frozen_statistics,
    "embedding": lambda: (
        Both(
            lambda m, t: m.head(m.table(t).tanh().sum(1)), table=nn.Embedding(6, 4, padding_idx=2), head=nn.Linear(4, 3)
        ),
        words(5, 7),
    ),
    "one word": lambda: (nn.Sequential(nn.Embedding(6, 4), nn.Tanh(), nn.Linear(4, CLASSES)), words(5)),
    "layer called twice": lambda: (
        Both(lambda m, x: m.head(m.body(torch.tanh(m.body(x)))), body=nn.Linear(4, 4), head=nn.Linear(4, 3)),
        normal(5, 4),
    ),
    "tied weights": lambda: (tied(), words(5, 7)),
    "a parameter of its own": lambda: (
        Both(lambda m, x: m.head(x * m.scale), scale=nn.Parameter(torch.ones(4)), head=nn.Linear(4, 3)),
        normal(5, 4),
    ),
    "a number of its own": lambda: (
        Both(lambda m, x: m.head(x) * m.scale, scale=nn.Parameter(torch.tensor(2.0)), head=nn.Linear(4, 3)),
        normal(5, 4),
    ),
    "bilinear": lambda: (nn.Bilinear(4, 2, CLASSES), (normal(5, 4), normal(5, 2, name="more"))),
    "positions without a batch axis": positions,
    "positions with an axis of one": positions_with_an_axis_of_one,
    "attention": attention,
    "changed in place": lambda: (
        Both(lambda m, x: m.head(m.body(x).add_(x).tanh_()), body=nn.Linear(4, 4), head=nn.Linear(4, 3)),
        normal(5, 4),
    ),
    "partly frozen": partly_frozen,
    "unused": lambda: (
        Both(lambda m, x: m.head(x), head=nn.Linear(4, 3), other=nn.Linear(2, 2), own=nn.Parameter(torch.ones(2))),
        normal(5, 4),
    ),
    "small ConvNet": lambda: (small_conv_net(CLASSES, in_channels=4), normal(5, 4, 8, 8)),
    "ConvNet": lambda: (conv_net(CLASSES, norm="group", width=2), normal(3, 3, 16, 16)),
    "ResNet-18": lambda: (resnet18(CLASSES, norm="group", stem="cifar", width=2), normal(3, 3, 16, 16)),
}


def made(name: str, **options: Any) -> tuple[ModuleProblem, nn.Module]:
    module, inputs = MODULES[name]()
    module = module.double()
    labels = torch.arange(len(inputs[0] if isinstance(inputs, tuple) else inputs)) % CLASSES
    return ModuleProblem(module, inputs, labels, **options), module


def points(problem: ModuleProblem, runs: int = 2) -> Tensor:
    """Return points near the module's start; no weight is 1 and no bias 0, also for normalisations."""
    start = problem.initial(Streams.of("points", range(runs)), only=[])
    return start + 0.3 * Streams.of("points", range(runs)).normal("x", 0, problem.dim)


def reference(problem: ModuleProblem, module: nn.Module, x: Tensor) -> tuple[Tensor, Tensor]:
    """Return all gradients `(runs, examples, dim)` and losses, by vmap of grad over runs and examples."""

    def loss(values: dict[str, Tensor], label: Tensor, *inputs: Tensor) -> Tensor:
        outputs = torch.func.functional_call(module, values, tuple(tensor[None] for tensor in inputs))
        return nn.functional.cross_entropy(outputs, label[None])

    one = torch.func.grad_and_value(loss)
    data = problem._data.labels, *problem._data.inputs
    each = torch.func.vmap(torch.func.vmap(one, (None, *[0] * len(data))), (0, *[None] * len(data)))
    gradients, losses = each(problem.parameters(x), *data)  # type: ignore[arg-type]
    return torch.cat([gradients[name].reshape(*losses.shape, -1) for name in problem.parameters(x)], dim=2), losses


# torch.func warns about functions for which it has no fast rule.
slowly = pytest.mark.filterwarnings("ignore:There is a performance drop")


@slowly
@pytest.mark.parametrize("name", MODULES)
@pytest.mark.slow
def test_agrees_with_torch_func(name: str) -> None:
    problem, module = made(name)
    x = points(problem)
    expected, losses = reference(problem, module, x)
    weights = normal(*losses.shape, name="weights")
    total = torch.einsum("rn,rnd->rd", weights, expected)
    found: Any = problem.gradients(x)
    same(found.norms(), expected.norm(dim=2))
    same(found.losses, losses)
    same(found.weighted_sum(weights), total)
    plain = problem.gradients(x)
    same(plain.weighted_sum(weights), total)
    same(plain.losses, losses)
    same(problem.gradients(x).losses, losses)
    # The control: norms without the last parameter differ.
    last = list(problem.parameters(x).values())[-2 if name == "unused" else -1][0].numel()
    if name not in ("unused", "linear without bias"):
        assert ((expected[..., :-last].norm(dim=2) / expected.norm(dim=2)) - 1).abs().max() > 1e-6


# ---------------------------------------------------------------- factors
CONVOLUTIONS = [
    nn.Conv2d(4, 6, 3),
    nn.Conv2d(4, 60, 3, padding=1),
    nn.Conv2d(4, 50, (3, 2), 2, 1),
    nn.Conv2d(4, 60, 5, 2, 2),
    nn.Conv2d(4, 40, 3, (3, 2), (2, 0), (2, 1)),
    nn.Conv2d(4, 40, 3, padding=4, groups=2),
]
TERMS: list[FactoredGradient] = [
    *(Patches(normal(3, 4, 6, 7), normal(*c.double()(normal(3, 4, 6, 7)).shape, name="e"), c) for c in CONVOLUTIONS),
    Outer(normal(3, 1, 4), normal(3, 1, 5, name="e")),
    Outer(normal(3, 9, 2), normal(3, 9, 3, name="e")),
    Outer(normal(3, 4, 20), normal(3, 4, 30, name="e")),
    Lookups(words(3, 8), normal(3, 8, 4, name="e"), 6),
]


@pytest.mark.parametrize("gradient", TERMS)
@pytest.mark.parametrize("block", [1, 2**20])
def test_norms_and_sums_are_those_of_what_is_written_out(
    gradient: FactoredGradient, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(factors._BLOCK, "cpu", block)
    each = Written(gradient.write())
    weights = torch.tensor([0.5, -2.0, 3.0], dtype=torch.float64)
    same(norms([gradient]), norms([each]))
    same(gradient.weighted_sum(weights), each.weighted_sum(weights))
    kept = torch.tensor([2, 0])
    some, some_written = part_of(gradient, kept), Written(each.each[kept])
    same(norms([some]), norms([each])[kept])
    same(some_written.weighted_sum(weights[kept]), some.weighted_sum(weights[kept]))


def test_both_ways_to_a_norm_were_taken() -> None:
    """The control of the test above: its terms use both ways."""
    for kind in (Patches, Outer):
        costs = [gradient.costs() for gradient in TERMS if isinstance(gradient, kind)]
        assert {by_products <= written for by_products, written, _, _ in costs} == {True, False}
    small, large = nn.Linear(2, 3), nn.Linear(20, 30)
    assert isinstance(factored(small, normal(3, 30, 2), normal(3, 30, 3))["weight"], Written)
    assert isinstance(factored(large, normal(3, 4, 20), normal(3, 4, 30))["weight"], Outer)


def test_no_gradient_hides_from_its_norm_by_cancellation() -> None:
    # The outer products of two positions nearly cancel: in float32 the inner products sum to 0 or to an arbitrary
    # number.
    a, e = normal(1, 1, 64).float(), 1e5 * normal(1, 1, 64, name="e").float()
    nearly = 1 + 3e-5
    inputs, errors = torch.cat([a, a * nearly], 1), torch.cat([e, -e], 1)
    layer = nn.Conv2d(64, 64, 1)
    for gradient in (
        Outer(inputs, errors),
        Patches(inputs.mT[..., None], errors.mT[..., None], layer),
        Lookups(torch.zeros(1, 2, dtype=torch.int64), torch.cat([e, -e * nearly], 1), 3),
    ):
        true, found = float(gradient.write().norm()), float(norms([gradient]))
        most = 2 * float(a.norm() * e.norm())
        assert true * (1 - 1e-5) <= found <= math.hypot(true, 1.1 * math.sqrt(factors._ROOM) * most)
    products = [tensor.double() @ tensor.double().mT for tensor in (inputs, errors)]
    control = (inputs @ inputs.mT * (errors @ errors.mT)).sum().clamp_min(0).sqrt()
    assert abs(float(control) - float((products[0] * products[1]).sum().sqrt())) > 1.0


def zero_sums(kind: str, size: float, dtype: torch.dtype) -> FactoredGradient:
    """Return three examples whose terms, each about `size` long, sum to exactly 0."""
    coefficients = torch.tensor([3.0, -1.0, -2.0])
    errors = (coefficients[:, None] * torch.tensor([1.0, -1.0])).expand(3, 3, 2).to(dtype)
    if kind == "lookups":
        return Lookups(torch.zeros(3, 3, dtype=torch.int64), size * errors, 4)
    inputs = torch.full((3, 3, 16), size, dtype=dtype)
    if kind == "outer":
        return Outer(inputs, errors)
    return Patches(inputs.mT[:, :, None], errors.mT[:, :, None], nn.Conv2d(16, 2, 1))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("kind", ["outer", "patches by products", "patches written", "lookups"])
def test_what_rounding_leaves_of_terms_that_cancel_is_clipped(
    kind: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Weights of a third are rounded, so that the rescaled terms do not sum to 0; the remainder may have any length."""
    by_inner_products, written = (9, 1) if "written" in kind else (1, 9)
    monkeypatch.setattr(Patches, "costs", lambda self: (by_inner_products, written, 64, 1))
    gradient = zero_sums(kind, 2.0**30, dtype)
    alone = norms([gradient])
    weights = (1 / 3) / alone.clamp_min(1)
    assert float(gradient.weighted_sum(weights).norm()) <= 0.01
    assert float(gradient.write().norm()) == 0, "control: there is nothing but rounding"
    monkeypatch.setattr(factors, "_ROOM", 0.0)
    weights = (1 / 3) / norms([gradient]).clamp_min(1)
    assert float(gradient.weighted_sum(weights).norm()) > 1, "control: without room for it, three of a third exceed 1"


@pytest.mark.parametrize("positions", [2, 8])
@pytest.mark.parametrize("dim", [2**12, 2**15])
def test_small_numbers_of_long_inputs_do_not_hide_a_gradient(dim: int, positions: int) -> None:
    """Squares slightly below half a bit beside eight ones: float32 products lose most of them in the sum."""
    inputs = torch.full((1, positions, dim), 2.0**-12 * (1 - 2.0**-10))
    inputs[:, :, :8] = 1.0
    errors = torch.ones(1, positions, 2)
    gradient = Outer(inputs, errors)
    true = float((errors.double().mT @ inputs.double()).norm())
    assert true <= float(norms([gradient])) * (1 + 1e-6)
    plain = float(((inputs @ inputs.mT) * (errors @ errors.mT)).sum().sqrt())
    assert plain < true * (1 - 3e-6), "control"


def test_a_pixel_is_in_no_more_patches_than_a_norm_has_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(factors, "_ROOM", 1.0)
    for size, stride, dilation in itertools.product(range(1, 6), range(1, 5), range(1, 5)):
        layer = nn.Conv2d(1, 1, (size, 1), (stride, 1), 0, (dilation, 1))
        ones = torch.ones(1, 1, 40, 1, dtype=torch.float64)
        met = nn.functional.fold(
            nn.functional.unfold(ones, (size, 1), (dilation, 1), 0, (stride, 1)),
            (40, 1),
            (size, 1),
            (dilation, 1),
            0,
            (stride, 1),
        )
        one = torch.ones(1, 1, 1, 1, dtype=torch.float64)
        room = float(Patches(one, one, layer)._with_room(torch.zeros(1, dtype=torch.float64)).squared_norms)
        assert round(room * torch.finfo(torch.float32).eps / torch.finfo(torch.float64).eps) >= int(met.max())


# ---------------------------------------------------------------- laws


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_an_example_of_weight_zero_takes_no_part(device: str) -> None:
    inputs, labels = normal(4, 4), torch.arange(4) % CLASSES
    module = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 3)).double()
    inputs[1] = 1e308  # its outputs overflow
    here = ModuleProblem(module, inputs, labels)
    x = 1e3 + points(here)
    weights = torch.tensor([[1.0, 0.0, 2.0, 1.0], [0.0, 0.0, 0.0, 0.0]], dtype=torch.float64)
    kept = torch.tensor([0, 2, 3])
    expected = here.gradients(x, kept.repeat(2, 1)).weighted_sum(weights[:, kept])
    assert (expected[1] == 0).all()
    with PretendCuda() if device == "cuda" else nullcontext():
        problem, x, weights = (
            ModuleProblem(module, inputs.to(device), labels.to(device)),
            x.to(device),
            weights.to(device),
        )
        plain, after = problem.gradients(x), problem.gradients(x)
        assert not bool(after.norms()[:, 1].isfinite().any()), "control: its gradient is not finite"
        for found in (plain, after):
            same(found.weighted_sum(weights).cpu(), expected)
        assert not bool(plain.weighted_sum(torch.ones_like(weights)).isfinite().all()), "control"


# ---------------------------------------------------------------- batch normalisation
def normalised(**options: Any) -> tuple[ModuleProblem, Any]:
    module = nn.Sequential(
        nn.Conv2d(2, 3, 2), nn.BatchNorm2d(3), nn.Tanh(), nn.Flatten(), nn.Linear(27, CLASSES)
    ).double()
    return ModuleProblem(module, normal(8, 2, 4, 4), torch.arange(8) % CLASSES, **options), module


def test_batch_normalisation_has_a_mean_gradient_and_no_other() -> None:
    problem, module = normalised(max_examples_at_once=2)
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    x, examples = points(problem, 1), torch.tensor([[1, 5, 3, 2]])
    found = problem.gradients(x, examples)
    with pytest.raises(
        ExamplesMix, match="the batch normalisation 1 makes each loss depend on the whole batch.*Use Gr"
    ):
        found.norms()
    total = found.weighted_sum(torch.full((1, 4), 1 / 4, dtype=torch.float64))
    module.load_state_dict({name: view[0] for name, view in problem.parameters(x).items()}, strict=False)
    nn.functional.cross_entropy(
        module(problem._data.inputs[0][examples[0]]), problem._data.labels[examples[0]]
    ).backward()
    expected = torch.cat([parameter.grad.flatten() for parameter in module.parameters()])  # type: ignore[union-attr]
    same(total[0], expected)
    # Padding with weight 0 does not enter the statistics; the control, with another weight, does.
    padded = problem.gradients(x, torch.tensor([[1, 5, 3, 2, 7, 7]]))
    weights = torch.tensor([[0.25] * 4 + [0.0] * 2], dtype=torch.float64)
    same(padded.weighted_sum(weights)[0], expected)
    assert (padded.weighted_sum(weights + 1e-9)[0] - expected).norm() > 1e-3 * expected.norm()
    # The given module is unchanged, except for the pass that this test made itself.
    fresh, given = normalised()
    fresh.gradients(points(fresh, 1)).weighted_sum(torch.ones(1, 8, dtype=torch.float64))
    assert given.state_dict().keys() == before.keys()
    assert given.state_dict()["1.num_batches_tracked"] == 0
    same(given.state_dict()["1.running_var"], before["1.running_var"])


def test_statistics_are_those_of_training_batches_at_the_point() -> None:
    problem, module = normalised()
    x = points(problem)
    batches = torch.tensor([[0, 1, 2, 3], [4, 5, 6, 7], [1, 1, 2, 5]])
    inputs, labels = normal(5, 2, 4, 4, name="test"), torch.tensor([0, 1, 2, 0, 1])
    loss, accuracy = problem.evaluate(x, inputs, labels, batches)
    for run in range(2):
        module.load_state_dict({name: view[run] for name, view in problem.parameters(x).items()}, strict=False)
        seen = torch.stack(
            [module[0](problem._data.inputs[0][batch]).transpose(0, 1).flatten(1) for batch in batches]
        ).detach()
        module[1].running_mean = mean = seen.mean((0, 2))
        module[1].running_var = seen.square().mean((0, 2)) - mean.square()
        module.eval()
        outputs = module(inputs).detach()
        same(loss[run], nn.functional.cross_entropy(outputs, labels))
        assert accuracy[run] == (outputs.argmax(1) == labels).double().mean()
        module.train()
    # The state is the point alone: earlier calls do not change the answer.
    problem.gradients(x + 1).weighted_sum(torch.ones(2, 8, dtype=torch.float64))
    same(problem.evaluate(x, inputs, labels, batches)[0], loss)
    assert (problem.evaluate(x, inputs, labels, batches[:1])[0] - loss).abs().max() > 1e-3, "control"
    with pytest.raises(ValueError, match=r"Expected statistics_from=None to be training examples \(batches, batch\)"):
        problem.evaluate(x, inputs, labels)


def test_evaluation_in_blocks() -> None:
    problem, module = made("convolution")
    x = points(problem)
    inputs, labels = normal(7, 4, 8, 8, name="test"), torch.arange(7) % CLASSES
    loss, accuracy = problem.evaluate(x, inputs, labels)
    values = {name: view[1] for name, view in problem.parameters(x).items()}
    outputs = torch.func.functional_call(module, values, (inputs,))
    same(loss[1], nn.functional.cross_entropy(outputs, labels).detach())
    assert accuracy[1] == (outputs.argmax(1) == labels).double().mean()
    blocks = made("convolution", max_examples_at_once=3)[0].evaluate(x, inputs, labels)
    same(blocks[0], loss)
    same(blocks[1], accuracy)
    with pytest.raises(ValueError, match="Expected statistics_from to be None"):
        problem.evaluate(x, inputs, labels, torch.zeros(1, 2, dtype=torch.int64))
    with pytest.raises(ValueError, match="Expected equal lengths"):
        problem.evaluate(x, inputs, labels[:3])


# ---------------------------------------------------------------- what is refused
@slowly
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("positions with an axis of one", set()),
        ("positions without a batch axis", set()),
        ("layer called twice", set()),
        ("a parameter of its own", {"scale"}),
        ("bilinear", {"weight", "bias"}),
    ],
)
def test_what_layers_cover_takes_no_second_pass(name: str, expected: set[str]) -> None:
    problem, _ = made(name)
    problem.gradients(points(problem, 1)).norms()
    assert problem._passes._direct == expected


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"labels": torch.tensor([0, 1, 3])}, r"Expected labels in 0 ... 2, got 0 ... 3"),
        ({"labels": torch.tensor([0.0, 1.0, 2.0])}, r"to be int64 of shape \(examples,\)"),
        ({"inputs": torch.ones(3, 4, dtype=torch.float64)}, r"Expected inputs\[0\] of type torch.float64"),
        ({"inputs": torch.full((3, 4), torch.nan)}, r"Expected inputs\[0\] without NaN"),
        ({"inputs": torch.ones(3, 2, 4)}, r"Expected outputs of shape \(2, 2, 3\) to be \(2, num_classes\)"),
        ({"module": nn.Flatten()}, r"Expected a module with trainable parameters"),
        ({"autocast": torch.float16}, r"Expected autocast=torch.float16 to be None or torch.bfloat16"),
    ],
)
def test_bad_input_is_named(change: dict[str, Any], message: str) -> None:
    arguments: dict[str, Any] = {
        "module": nn.Linear(4, 3),
        "inputs": torch.ones(3, 4),
        "labels": torch.tensor([0, 1, 2]),
    }
    ModuleProblem(**arguments)
    with pytest.raises(ValueError, match=message):
        ModuleProblem(**(arguments | change))


def test_bad_points_weights_and_examples_are_named() -> None:
    problem = ModuleProblem(nn.Linear(4, 3), torch.ones(3, 4), torch.tensor([0, 1, 2]))
    x = torch.ones(2, 15)
    for wrong in (torch.ones(2, 14), torch.ones(15), torch.ones(2, 15, dtype=torch.float64)):
        with pytest.raises(ValueError, match=r"to be torch.float32 of shape \(runs, 15\)"):
            problem.gradients(wrong)
    with pytest.raises(ValueError, match=r"Expected weights.shape=\(2, 2\) to be \(2, 3\)"):
        problem.gradients(x).weighted_sum(torch.ones(2, 2))
    with pytest.raises(ValueError, match=r"Expected examples in 0 ... 2, got 0 ... 3"):
        problem.gradients(x, torch.tensor([[0], [3]]))
    with pytest.raises(ValueError, match=r"of shape \(3, 4\) to be \(examples, channels, height, width\)"):
        problem.augmented(Streams.of("a", [0]), 0)


def test_no_memory_left_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: nn.Linear, x: Tensor) -> Tensor:
        raise torch.OutOfMemoryError("CUDA out of memory.")

    problem = ModuleProblem(nn.Linear(4, 3), torch.ones(8, 4), torch.arange(8) % 3, max_examples_at_once=6)
    mixing, _ = normalised()
    x, y = points(problem, 1).float(), points(mixing, 1)
    monkeypatch.setattr(nn.Linear, "forward", full)
    for call in (lambda g: g.norms(), lambda g: g.losses, lambda g: g.weighted_sum(torch.ones(1, 8))):
        with pytest.raises(
            OutOfMemory, match="Expected 6 examples at once to fit into cpu; try max_examples_at_once=3"
        ):
            call(problem.gradients(x))
    with pytest.raises(OutOfMemory, match="try a smaller batch: batch normalisation cannot split one"):
        mixing.gradients(y).weighted_sum(torch.ones(1, 8, dtype=torch.float64))
