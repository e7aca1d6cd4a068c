"""Examples are kept apart by construction: modules and losses whose code mixes, keeps, draws or branches."""

import contextvars
import logging
import random
import warnings
from collections.abc import Callable
from types import MethodType
from typing import Any

import numpy as np
import pytest
import torch
from modules import Both, normal
from torch import Tensor, fx, nn

from dpnotes.guarantees import SHOWN_ALONE, examples_apart
from dpnotes.problems.factors import Patches
from dpnotes.problems.modules import ModuleProblem
from dpnotes.random.streams import Streams

CLASSES, NUM_EXAMPLES = 3, 6
same = torch.testing.assert_close


@pytest.fixture(autouse=True)
def _modules_start_alike() -> None:
    torch.manual_seed(0)


def body(function: Callable[[Any, Tensor], Tensor], **more: Any) -> Callable[[], nn.Module]:
    """Return a factory of linear layers with a function between them."""

    def made() -> nn.Module:
        return Both(
            lambda m, x: m.head(function(m, torch.tanh(m.body(x)))), body=nn.Linear(4, 5), head=nn.Linear(5, 3), **more
        ).double()

    return made


def sorts(m: Any, h: Tensor) -> Tensor:
    """Sort the batch by length, as text code does, and back; in between, neighbours leak into each other."""
    order = h[:, 0].argsort()
    return h[order].cumsum(0)[order.argsort()]


# ---------------------------------------------------------------- code that mixes sees one example
MIXING: dict[str, Callable[[Any, Tensor], Tensor]] = {
    "sorts its batch": sorts,
    "a cumulative maximum": lambda m, h: h.cummax(0).values,
    "mixes in batches above two": lambda m, h: h - h.mean(0) if len(h) > 2 else h,
    "centres when its first two are equal": lambda m, h: h - h.mean(0) if len(h) > 1 and torch.equal(h[0], h[1]) else h,
    "divides by its batch": lambda m, h: h / len(h),
    "turns with its batch": lambda m, h: h * h.sum(1).prod().sign(),
    "reads what the example before wrote": lambda m, h: torch.cat([h[:1], h[1:] + h[:-1]]),
}


def examples_alone(module: nn.Module, problem: ModuleProblem, row: Tensor) -> Tensor:
    """Return each example's gradient `(examples, dim)` by plain autograd on a batch of one, without the library."""
    values = {name: view[0].clone().requires_grad_() for name, view in problem.parameters(row[None]).items()}
    found = []
    inputs_of_all: Any = problem._data.inputs[0]
    for inputs, label in zip(inputs_of_all, problem._data.labels, strict=True):
        outputs = torch.func.functional_call(module, values, (inputs[None],))
        loss = nn.functional.cross_entropy(outputs, label[None])
        gradients = torch.autograd.grad(loss, [*values.values()], materialize_grads=True)
        found.append(torch.cat([gradient.flatten() for gradient in gradients]))
    return torch.stack(found)


def gradients_are_each_example_s_own(module: nn.Module, inputs: Tensor | None = None) -> None:
    problem = problem_of(module, inputs)
    x = problem.initial(Streams.of("x", [0]), only=[]) + 0.3 * Streams.of("x", [0]).normal("x", 0, problem.dim)
    expected = examples_alone(module, problem, x[0])
    for _ in range(2):  # the first pass learns which parameters are used elsewhere than in their layer
        found = problem.gradients(x)
        same(found.norms()[0], expected.norm(dim=1))
        same(found.weighted_sum(torch.ones(1, NUM_EXAMPLES, dtype=torch.float64))[0], expected.sum(0))


def problem_of(module: nn.Module, inputs: Tensor | None = None, **options: Any) -> ModuleProblem:
    inputs = normal(NUM_EXAMPLES, 4) if inputs is None else inputs
    return ModuleProblem(module, inputs, torch.arange(len(inputs)) % CLASSES, **options)


def clipped(problem: ModuleProblem, x: Tensor, examples: Tensor | None = None, bound: float = 0.01) -> Tensor:
    found = problem.gradients(x, examples)
    return found.weighted_sum(bound / found.norms().clamp_min(bound))[0]


@pytest.mark.parametrize("name", MIXING)
def test_an_example_moves_the_clipped_sum_of_a_mixing_module_by_its_bound_alone(name: str) -> None:
    """A replaced example moves it by at most twice the bound; in the control, a batch seen whole, by more."""
    module = body(MIXING[name])()
    far = torch.cat([normal(NUM_EXAMPLES, 4), 5 * normal(1, 4, name="far")])
    problem = problem_of(module, far)
    x = problem.initial(Streams.of("x", [0])) + 0.3 * Streams.of("points", [0]).normal("x", 0, problem.dim)
    before, bound = torch.arange(NUM_EXAMPLES)[None], 0.01
    for example in range(NUM_EXAMPLES):
        after = before.clone()
        after[0, example] = NUM_EXAMPLES
        moved = (clipped(problem, x, before, bound) - clipped(problem, x, after, bound)).norm()
        assert moved <= 2 * bound * (1 + 1e-9)


def test_the_control_a_batch_that_is_seen_whole_moves_further() -> None:
    """One example turns all others around; the same module, passed as above, moves by at most its bound."""
    module = body(MIXING["turns with its batch"])()
    alike = 3 + 0.1 * normal(NUM_EXAMPLES, 4)
    far = torch.cat([alike, -1e3 * alike[:1]])
    problem = ModuleProblem(module, far, torch.zeros(len(far), dtype=torch.int64))
    x = problem.initial(Streams.of("x", [0]))
    row = x[0]

    def seen_whole(examples: Tensor) -> Tensor:
        def losses(row: Tensor) -> Tensor:
            values = {name: view[0] for name, view in problem.parameters(row[None]).items()}
            outputs = torch.func.functional_call(module, values, (far[examples],))
            return nn.functional.cross_entropy(outputs, 0 * examples, reduction="none")

        each = torch.func.jacrev(losses)(row)
        return (each * (0.01 / each.norm(dim=1).clamp_min(0.01))[:, None]).sum(0)

    before, after = torch.arange(NUM_EXAMPLES), torch.arange(NUM_EXAMPLES)
    after[3] = NUM_EXAMPLES
    assert (clipped(problem, x, before[None]) - clipped(problem, x, after[None])).norm() <= 2 * 0.01 * (1 + 1e-9)
    assert (seen_whole(before) - seen_whole(after)).norm() > 4 * 0.01


# ---------------------------------------------------------------- what code keeps
class Keeps(nn.Module):
    """A module that stores something in a pass, and adds it to the next."""

    mean: Tensor

    def __init__(self, keep: Callable[["Keeps", Tensor], object]) -> None:
        super().__init__()
        self.layer = nn.Linear(4, CLASSES).double()
        self.keep: Any = keep
        self.calls: Any = 0
        self.kept, self.table, self.array = [], {}, torch.zeros(2).numpy()
        self.register_buffer("mean", torch.zeros(CLASSES, dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        self.keep(self, x)
        return self.layer(x) + self.mean


GLOBAL: list[Any] = []
CONTEXT: contextvars.ContextVar[Any] = contextvars.ContextVar("kept", default=0)


def remembering(m: Keeps, x: Tensor) -> None:
    """Add all examples up in a place that no search of the module finds."""
    CONTEXT.set(CONTEXT.get() + float(x.sum()))


KEEPING: dict[str, Callable[[Keeps, Tensor], object]] = {
    "a counter": lambda m, x: setattr(m, "calls", m.calls + 1),
    "a list": lambda m, x: m.kept.append(x),
    "a dict": lambda m, x: m.table.update(seen=x),
    "an attribute that is new": lambda m, x: setattr(m, "last", x.mean()),
    "an array": lambda m, x: m.array.__setitem__(0, float(x.sum())),
    "a global variable": lambda m, x: GLOBAL.append(x),
    "a global variable by its name": lambda m, x: globals().__setitem__("GLOBAL_2", x),
    "its class": lambda m, x: setattr(type(m), "last", x),
    "a context variable": remembering,
    "a frozen parameter's gradient": lambda m, x: setattr(m.layer.bias, "grad", x.sum().expand(CLASSES)),
    "a logger": lambda m, x: logging.getLogger("kept").debug("%s", x.sum().item()),
}


def shown(value: Any) -> bool:
    """Return whether a value contains numbers of an example; only examples have numbers of 7 and more here."""
    return isinstance(value, Tensor) and not isinstance(value, fx.Proxy) and bool((value.detach() >= 7).any())


@pytest.mark.filterwarnings("ignore:Examples are passed one by one")
@pytest.mark.parametrize("name", KEEPING)
def test_code_sees_no_example_or_the_claim_says_what_it_assumes(name: str) -> None:
    seen = []

    def keep(m: Keeps, x: Tensor) -> None:
        seen.append(shown(x))
        KEEPING[name](m, x)

    inputs = 7 + normal(4, 4).abs()
    public = 0.5 * torch.ones(1, 4, dtype=torch.float64), torch.zeros(1, dtype=torch.int64)
    problem = ModuleProblem(Keeps(keep), inputs, torch.arange(4) % CLASSES, example=public)
    assert not any(seen), "while it is made, a module sees what is public"
    problem.gradients(problem.initial(Streams.of("x", [0]))).norms()
    assert problem.keeps_examples_apart == (not any(seen)) == (problem.opens is None)
    assert examples_apart(problem) == (() if problem.opens is None else (SHOWN_ALONE,))
    control = Keeps(keep)
    control(inputs)
    assert seen[-1], "control: it would see them"


def test_a_buffer_that_a_pass_changes_is_refused() -> None:
    for keep in (lambda m, x: m.mean.add_(1.0), lambda m, x: m.mean.data.mul_(0.5).add_(float(x.sum()))):
        problem = ModuleProblem(Keeps(keep), normal(4, 4), torch.arange(4) % CLASSES)
        assert problem.opens
        with pytest.raises(ValueError, match="Expected a pass to leave mean as it is"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            problem.gradients(problem.initial(Streams.of("x", [0]))).norms()


def first_seen(how: str) -> Callable[[Keeps, Tensor], None]:
    """Return a function that keeps its first batch in a buffer, undetected by torch's count of changes."""

    def keep(m: Keeps, x: Tensor) -> None:
        if len(m.kept) == 0 and len(x) > 1:
            m.kept.append(1)
            value = x.mean(0)[:CLASSES].detach()
            if how == "copy":
                m.mean.data.copy_(value)
            elif how == "data":
                m.mean.data = value.clone()
            else:
                m.mean.numpy()[:] = value.numpy()

    return keep


@pytest.mark.parametrize("how", ["copy", "data", "numpy"])
def test_nothing_is_kept_of_examples_that_are_shown_whole(how: str) -> None:
    """A codebook initialised by the first batch: everybody's gradients would reveal two examples."""
    module = Keeps(first_seen(how))
    problem = ModuleProblem(module, normal(4, 4), torch.arange(4) % CLASSES)
    x = problem.initial(Streams.of("x", [0]))
    before = problem.gradients(x).weighted_sum(torch.full((1, 4), 0.25, dtype=torch.float64))
    problem.evaluate(x, 5 + normal(4, 4), torch.arange(4) % CLASSES)
    assert problem.bytes_per_run > 0
    assert torch.equal(problem._module.get_buffer("mean"), torch.zeros(CLASSES, dtype=torch.float64))
    after = problem.gradients(x).weighted_sum(torch.full((1, 4), 0.25, dtype=torch.float64))
    assert torch.equal(before, after) and bool((before != 0).any())
    module.keep(module, normal(4, 4))
    assert bool((module.mean != 0).any()), "control: it keeps what it sees"


def test_a_layer_that_is_called_with_other_parameters_is_written_out() -> None:
    def forward(m: Any, x: Tensor) -> Tensor:
        scaled = {"weight": m.scale * m.body.weight, "bias": m.body.bias}
        return m.head(torch.tanh(torch.func.functional_call(m.body, scaled, (x,))))

    def hyper(m: Any, x: Tensor) -> Tensor:  # its weights depend on the example
        own = {"weight": m.body.weight * (1 + x.mean()), "bias": m.body.bias}
        return m.head(torch.tanh(torch.func.functional_call(m.body, own, (x,))))

    for called in (forward, hyper):
        parts = {"body": nn.Linear(4, 4), "head": nn.Linear(4, 3), "scale": nn.Parameter(torch.tensor(2.0))}
        gradients_are_each_example_s_own(Both(called, **parts).double())


def test_a_loss_of_known_operations_sees_no_example() -> None:
    kept: list[Any] = []

    def keeps(outputs: Tensor, labels: Tensor) -> Tensor:
        kept.append(outputs)
        return outputs.square().sum(1)

    problem = ModuleProblem(nn.Linear(4, 3).double(), normal(4, 4), torch.arange(4) % CLASSES, loss=keeps)
    before = len(kept)
    assert bool((problem.gradients(problem.initial(Streams.of("x", [0]))).norms() > 0).all())
    assert len(kept) == before and problem.opens is None
    branching = lambda outputs, labels: outputs.square().sum(1) * (1 if bool(labels.sum() > 0) else 2)  # noqa: E731
    opened = ModuleProblem(nn.Linear(4, 3).double(), normal(4, 4), torch.arange(4) % CLASSES, loss=branching)
    assert opened.opens is not None and "torch.fx cannot follow it" in opened.opens


def test_a_weight_behind_a_gate_that_opens_later_is_counted() -> None:
    """Earlier, norms came from factors and the sum of later chunks from autograd: 32 times the bound."""

    def gated(m: Any, x: Tensor) -> Tensor:
        m.calls[0] += 1
        return m.head(x) + (100 * x @ m.head.weight.T if m.calls[0] > 8 else 0)

    module = Both(gated, head=nn.Linear(4, 3)).double()
    module.calls = [0]  # type: ignore[assignment]
    problem = problem_of(module, max_examples_at_once=2)
    x = problem.initial(Streams.of("x", [0]))
    for _ in range(10):
        assert float(clipped(problem, x).norm()) <= NUM_EXAMPLES * 0.01 * (1 + 1e-9)


def test_a_weight_used_in_any_way_is_in_norms_and_sums() -> None:
    def forward(m: Any, x: Tensor) -> Tensor:
        return m.head(torch.tanh(m.body(x) + 3 * x @ m.body.weight) + m.body.forward(x))

    gradients_are_each_example_s_own(Both(forward, body=nn.Linear(4, 4), head=nn.Linear(4, 3)).double())


# ---------------------------------------------------------------- where vmap has no rule
BRANCHING: dict[str, Callable[[Any, Tensor], Tensor]] = {
    "branches on a value": lambda m, h: h if bool(h.sum() > 0) else 2 * h,
    "reads a number": lambda m, h: h * h[0, 0].item(),
    "counts what it finds": lambda m, h: h * len(h.flatten().nonzero()),
    "writes into its own": lambda m, h: torch.zeros(len(h), 5, dtype=h.dtype).add_(h),
}


@pytest.mark.parametrize("name", BRANCHING)
def test_what_vmap_cannot_do_is_done_one_by_one_and_said(name: str) -> None:
    module = body(BRANCHING[name])()
    problem = problem_of(module)
    x = problem.initial(Streams.of("x", [0]))
    expected = examples_alone(module, problem, x[0])
    weights = normal(1, NUM_EXAMPLES, name="weights")
    with pytest.warns(UserWarning, match=r"Examples are passed one by one, which is slower, as torch.func.vmap cannot"):
        found: Any = problem.gradients(x)
        same(found.norms()[0], expected.norm(dim=1))
    assert problem._passes.one_by_one
    same(found.weighted_sum(weights)[0], weights[0] @ expected)
    plain = problem.gradients(x)
    same(plain.weighted_sum(weights)[0], weights[0] @ expected)
    same(problem.gradients(x).losses, found.losses)


@pytest.mark.filterwarnings("ignore:Examples are passed one by one")
def test_an_example_that_is_passed_alone_lies_in_memory_of_its_own() -> None:
    sizes: list[int] = []

    def looks(m: Any, x: Tensor) -> Tensor:
        if bool((x < 1e9).all()):  # it branches on values
            sizes.append(x.untyped_storage().nbytes() // x.element_size())
        return m.head(x)

    problem = problem_of(Both(looks, head=nn.Linear(4, 3)).double())
    sizes.clear()
    problem.gradients(problem.initial(Streams.of("x", [0]))).norms()
    assert sizes == [4] * NUM_EXAMPLES


@pytest.mark.parametrize("together", [True, False])
def test_draws_of_the_module_s_own_are_refused(together: bool) -> None:
    def dropped(m: Any, h: Tensor) -> Tensor:
        if not together and bool(h.sum() > 100):
            return h
        return h * torch.rand_like(h)

    for seed in range(20):
        torch.manual_seed(seed)
        problem = problem_of(body(dropped)())
        with pytest.raises(ValueError, match="Expected a module that draws no random numbers"):
            problem.gradients(problem.initial(Streams.of("x", [0]))).norms()


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("draw", [lambda: random.random(), lambda: np.random.rand()])
def test_draws_from_python_s_and_numpy_s_generators_are_refused(draw: Callable[[], float], together: bool) -> None:
    """One example less, or a chunk, would shift all later draws."""

    def scaled(m: Any, h: Tensor) -> Tensor:
        return h * draw() if together or bool(h.sum() > 100) else h * draw() * 2

    problem = problem_of(body(scaled)())
    x = problem.initial(Streams.of("x", [0]))
    for asked in (lambda g: g.norms(), lambda g: g.weighted_sum(torch.ones(1, NUM_EXAMPLES, dtype=torch.float64))):
        with pytest.raises(ValueError, match="Expected a module that draws no random numbers"):
            asked(problem.gradients(x))


def test_what_gives_other_numbers_next_time_is_an_assumption() -> None:
    held = random.Random(0)
    problem = problem_of(body(lambda m, h: h * held.random())())
    assert problem.opens == "its operations give other numbers than its code"
    assert examples_apart(problem) == (SHOWN_ALONE,)


class Ruled(torch.autograd.Function):
    """A function whose vmap rule mixes examples."""

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, *errors: Tensor) -> Tensor:
        return errors[0] / errors[0].norm()

    @staticmethod
    def vmap(info: Any, in_dims: Any, x: Tensor) -> tuple[Tensor, int]:
        return x - x.mean(in_dims[0], keepdim=True), in_dims[0]


def normalised_gradients(layer: nn.Module, errors: Any) -> Any:
    return tuple(error / error.norm() for error in errors)


@pytest.mark.parametrize("name", ["a vmap rule of its own", "a hook of the backward pass"])
def test_code_that_would_see_all_examples_is_given_one(name: str) -> None:
    if name == "a vmap rule of its own":
        module = body(lambda m, h: Ruled.apply(h))()
    else:
        module: Any = body(lambda m, h: h)()
        module.head.register_full_backward_pre_hook(normalised_gradients)
    problem = problem_of(module)
    x = problem.initial(Streams.of("x", [0]))
    expected = examples_alone(module, problem, x[0])
    with pytest.warns(UserWarning, match="one by one.*(Ruled brings a vmap rule|Linear has hooks)"):
        found: Any = problem.gradients(x)
        same(found.norms()[0], expected.norm(dim=1))
    same(found.weighted_sum(torch.ones(1, NUM_EXAMPLES, dtype=torch.float64))[0], expected.sum(0))


@pytest.mark.filterwarnings("ignore:Examples are passed one by one")
def test_a_weight_that_a_pass_writes_over_is_refused() -> None:
    module = Both(lambda m, x: m.head(x * m.head.weight.data.mul_(float(x.sum())).sum()), head=nn.Linear(4, 3))
    problem = problem_of(module.double())
    with pytest.raises(ValueError, match=r"Expected a pass to leave the parameter head.weight as it is"):
        problem.gradients(problem.initial(Streams.of("x", [0]))).norms()


@pytest.mark.parametrize("chunk", [None, 2])
@pytest.mark.slow
def test_random_numbers_that_nobody_sees_lengthen_no_gradient(chunk: int | None) -> None:
    """Norms and sums of chunks came from two passes; random numbers made the second 120 times as long."""
    module = Both(lambda m, x: m.head(x * 10 ** DICE.uniform(-3, 3)), head=nn.Linear(4, 3)).double()
    problem = problem_of(module, max_examples_at_once=chunk)
    x, bound, longest = problem.initial(Streams.of("x", [0])), 1e-3, 0.0
    for _ in range(20):
        found = problem.gradients(x)
        weights = bound / found.norms().clamp_min(bound)
        for example in range(NUM_EXAMPLES):
            alone = torch.zeros_like(weights)
            alone[0, example] = weights[0, example]
            longest = max(longest, float(found.weighted_sum(alone).norm()))
    assert 0.9 * bound < longest <= bound * (1 + 1e-9)


class Dice:
    """Random numbers from the operating system."""

    def uniform(self, low: float, high: float) -> float:
        return random.SystemRandom().uniform(low, high)


DICE = Dice()


def test_an_operation_with_a_vmap_rule_of_its_own_is_given_one_example() -> None:
    @torch.library.custom_op("tests_passes::scaled", mutates_args=())
    def scaled(x: Tensor) -> Tensor:
        return x / x.abs().max()

    @scaled.register_vmap
    def _(info: Any, in_dims: Any, x: Tensor) -> tuple[Tensor, int]:
        return x / x.abs().max(), in_dims[0]

    @scaled.register_fake
    def _(x: Tensor) -> Tensor:
        return torch.empty_like(x)

    module = body(lambda m, h: h * scaled(h.detach()))()
    problem = problem_of(module)
    x = problem.initial(Streams.of("x", [0]))
    with pytest.warns(UserWarning, match="tests_passes::scaled brings a vmap rule"):
        same(problem.gradients(x).norms()[0], examples_alone(module, problem, x[0]).norm(dim=1))


def test_a_module_that_cannot_be_copied_is_named() -> None:
    module = nn.Linear(4, 3)
    module.waits = (number for number in range(3))  # type: ignore[assignment]
    with pytest.raises(TypeError, match="Expected module=Linear to be one that can be copied: cannot pickle"):
        ModuleProblem(module, torch.ones(3, 4), torch.arange(3))


def test_the_sum_of_a_convolution_in_bfloat16_is_not_rounded() -> None:
    """With a thousand examples of weight 1/1000, a rounded sum would lose the last ones."""
    inputs, errors = torch.ones(1000, 1, 2, 2, dtype=torch.bfloat16), torch.ones(1000, 1, 1, 1, dtype=torch.bfloat16)
    layer = nn.Conv2d(1, 1, 2, bias=False)
    weights = torch.ones(1000) / 1024
    weights[0] = 1 + 3 / 1024
    found = Patches(inputs, errors, layer).weighted_sum(weights)
    assert found.dtype == torch.float32
    expected = float(weights.double().sum())
    torch.testing.assert_close(found, torch.full_like(found, expected), rtol=1e-6, atol=0)
    assert abs(float(torch.tensor(expected).to(torch.bfloat16)) - expected) > 5e-4, "control"


def test_a_mistake_of_the_module_s_own_keeps_its_words() -> None:
    module = body(lambda m, h: h @ torch.ones(7, 7, dtype=h.dtype) if len(h) == 1 else h)()
    problem = problem_of(module)
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        problem.gradients(problem.initial(Streams.of("x", [0]))).norms()
    assert problem._passes.one_by_one is None
    problem = ModuleProblem(body(lambda m, h: h)(), normal(6, 4), torch.arange(6) % 3, loss=lambda o, t: o.sum())
    with pytest.raises(ValueError, match=r"Expected losses of shape \(\) for one example to be \(1,\)"):
        problem.gradients(problem.initial(Streams.of("x", [0]))).norms()


# ---------------------------------------------------------------- several of one example, in place, transforms
def hooked() -> nn.Module:
    module: Any = Both(lambda m, x: m.head(m.body(x)), body=nn.Linear(12, 4), head=nn.Linear(4, 3))
    module.body.register_forward_pre_hook(lambda layer, arguments: (2 * arguments[0],))
    module.body.register_forward_hook(lambda layer, arguments, output: output.square())
    return module


def replaced_forward() -> nn.Module:
    layer = nn.Linear(12, 3)
    own = MethodType(lambda self, x: 3 * nn.functional.linear(x, self.weight, self.bias), layer)
    layer.forward = own  # type: ignore[method-assign]
    return nn.Sequential(layer)


LAYERS: dict[str, Callable[[], nn.Module]] = {
    "frames": lambda: Both(
        lambda m, x: m.head(m.norm(m.conv(x.view(-1, 1, 2, 2))).view(len(x), -1)),
        conv=nn.Conv2d(1, 2, 2),
        norm=nn.GroupNorm(1, 2),
        head=nn.Linear(6, 3),
    ),
    "without a batch axis": lambda: Both(
        lambda m, x: torch.stack([m.head(m.conv(one.view(1, 4, 3)).flatten()) for one in x]),
        conv=nn.Conv2d(1, 2, 2),
        head=nn.Linear(12, 3),
    ),
    "a transform of its own": lambda: Both(
        lambda m, x: m.head(torch.func.vmap(m.body, in_dims=1, out_dims=1)(x.view(-1, 3, 4)).flatten(1)),
        body=nn.Linear(4, 2),
        head=nn.Linear(6, 3),
    ),
    "called by name": lambda: Both(lambda m, x: m.head(input=m.body(x)), body=nn.Linear(12, 4), head=nn.Linear(4, 3)),
    "outputs changed in place": lambda: Both(
        lambda m, x: m.head(m.body(x.view(-1, 1, 4, 3)).relu_().flatten(1)),
        body=nn.Conv2d(1, 2, 2),
        head=nn.Linear(12, 3),
    ),
    "hooks of its own": hooked,
    "a parametrised layer": lambda: nn.Sequential(
        nn.utils.parametrizations.weight_norm(nn.Linear(12, 4)), nn.Tanh(), nn.Linear(4, 3)
    ),
    "a forward of its own": replaced_forward,
    "a recurrent layer": lambda: Both(
        lambda m, x: m.head(m.body(x.view(len(x), 4, 3))[0][:, -1]),
        body=nn.LSTM(3, 4, batch_first=True),
        head=nn.Linear(4, 3),
    ),
}


@pytest.mark.filterwarnings("ignore:Examples are passed one by one")
@pytest.mark.filterwarnings("ignore:There is a performance drop")
@pytest.mark.parametrize("name", LAYERS)
def test_layers_called_in_other_ways(name: str) -> None:
    gradients_are_each_example_s_own(LAYERS[name]().double(), normal(NUM_EXAMPLES, 12))
