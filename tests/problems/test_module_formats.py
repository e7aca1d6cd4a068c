"""Networks: work, second derivatives, starts, augmentation, devices, formats and precisions."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from modules import Both, normal, small_conv_net
from pretend_device import PretendCuda, looking
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from dpnotes.problems.modules import ModuleProblem
from dpnotes.random.streams import Streams
from tests.problems.test_modules import CLASSES, MODULES, made, points, reference, same, slowly, words


# ---------------------------------------------------------------- work
@looking
class Counted(TorchDispatchMode):
    """A mode that counts convolution passes: forward, to activations, to weights."""

    def __init__(self) -> None:
        super().__init__()
        self.counts = [0, 0, 0]

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten.convolution.default:
            self.counts[0] += 1
        if func is torch.ops.aten.convolution_backward.default:
            to_input, to_weight, _ = args[-1]
            self.counts[1] += to_input
            self.counts[2] += to_weight
        return func(*args, **(kwargs or {}))

    def of(self, call: Callable[[], Any]) -> list[int]:
        self.counts = [0, 0, 0]
        with self:
            call()
        return self.counts


def test_only_the_work_that_is_asked_for_is_done() -> None:
    layers = [nn.Conv2d(20, 20, 3, padding=1) for _ in range(3)]
    problem = ModuleProblem(
        nn.Sequential(*layers, nn.Flatten(), nn.Linear(320, 3)), normal(2, 20, 4, 4).float(), torch.tensor([0, 1])
    )
    x = problem.initial(Streams.of("work", [0]))
    problem.gradients(x).norms()  # the first call's check
    count, weights = Counted(), torch.tensor([[0.5, 0.25]])
    found = problem.gradients(x)
    assert count.of(lambda: None) == [0, 0, 0]
    assert count.of(lambda: problem.gradients(x).weighted_sum(weights)) == [3, 2, 3]  # as plain SGD
    assert count.of(found.norms) == [3, 2, 0]  # no weight gradients
    assert count.of(lambda: found.losses) == [0, 0, 0]
    assert count.of(lambda: found.weighted_sum(weights)) == [0, 0, 3]  # no second backward pass
    assert count.of(lambda: found.weighted_sum(torch.tensor([[0.5, 0.0]]))) == [0, 0, 3]
    assert count.of(lambda: problem.gradients(x).losses) == [3, 0, 0]
    problem._max_examples_at_once = 1
    chunks = problem.gradients(x)
    assert count.of(chunks.norms) == [6, 4, 0]
    assert count.of(lambda: chunks.weighted_sum(weights)) == [6, 4, 6]


def test_bytes_per_run_covers_the_factors() -> None:
    problem, _ = made("convolution")
    found = problem.gradients(points(problem, 1))
    found.norms()
    assert found._factors is not None
    kept = [*found._factors[0].large.values(), found._factors[0].small]
    tensors = [t for gradient in kept for t in vars(gradient).values() if isinstance(t, Tensor)]
    held = sum(tensor.numel() * 8 for tensor in tensors) + 3 * problem.dim * 8
    assert held <= problem.bytes_per_run <= 4 * held
    assert made("convolution", max_examples_at_once=1)[0].bytes_per_run < problem.bytes_per_run


# ---------------------------------------------------------------- where it starts
def test_the_start_is_what_torch_s_layers_do() -> None:
    module = nn.Sequential(
        nn.Conv2d(3, 64, 5, groups=1), nn.GroupNorm(2, 64), nn.Flatten(), nn.Linear(64 * 16, 50), nn.LayerNorm(50)
    )
    problem = ModuleProblem(module, torch.ones(2, 3, 8, 8), torch.tensor([0, 1]))
    streams = Streams.of("start", range(2))
    x = problem.initial(streams)
    views, theirs = problem.parameters(x), dict(module.named_parameters())
    for name in ("0.weight", "3.weight"):
        bound = theirs[name][0].numel() ** -0.5
        for weights in (views[name][0], theirs[name].detach()):
            assert 0.99 * bound < weights.abs().max() <= bound
            # The standard error of a mean of n uniform numbers is bound / sqrt(3 n); one test in 16,000 is off by 4.
            assert weights.mean().abs() < 4 * bound / math.sqrt(3 * weights.numel())
            assert weights.std() == pytest.approx(bound / math.sqrt(3), rel=0.03)
    assert views["0.bias"].abs().max() <= 75**-0.5 and views["3.bias"].abs().max() <= 1024**-0.5
    for name, value in (("1.weight", 1), ("1.bias", 0), ("4.weight", 1), ("4.bias", 0)):
        assert (views[name] == value).all()
    assert torch.equal(problem.initial(streams.take(slice(1, 2)))[0], x[1])
    assert not torch.equal(x[0], x[1])


def test_a_new_head_on_what_was_learned() -> None:
    module: Any = nn.Sequential(nn.Embedding(6, 4, padding_idx=1), nn.Flatten(), nn.Linear(8, 3))
    problem = ModuleProblem(module, words(5, 2), torch.arange(5) % CLASSES)
    streams = Streams.of("start", [0])
    whole, none, head = (problem.parameters(problem.initial(streams, only)) for only in (None, [], ["2."]))
    assert torch.equal(none["0.weight"][0], module[0].weight) and torch.equal(none["2.bias"][0], module[2].bias)
    assert torch.equal(head["0.weight"], none["0.weight"]) and torch.equal(head["2.weight"], whole["2.weight"])
    assert not torch.equal(head["2.weight"], none["2.weight"])
    assert (whole["0.weight"][0, 1] == 0).all() and whole["0.weight"].abs().max() > 1
    with pytest.raises(ValueError, match="Expected only='fc.' to begin a parameter's name: 0.weight, 2.weight, 2.bias"):
        problem.initial(streams, ["fc."])
    own = ModuleProblem(nn.Bilinear(4, 2, 3), (torch.ones(2, 4), torch.ones(2, 2)), torch.tensor([0, 1]))
    with pytest.raises(ValueError, match="Expected weight to be of a layer with a known default, not of a Bilinear"):
        own.initial(streams)


# ---------------------------------------------------------------- augmentation
def pixels(problem: ModuleProblem, run: int, examples: Tensor) -> Tensor:
    return problem._batch(run, examples)[0][0]


def test_images_are_cropped_and_flipped() -> None:
    images = torch.arange(1.0, 1 + 200 * 2 * 5 * 6).view(200, 2, 5, 6)
    problem = ModuleProblem(nn.Sequential(nn.Flatten(), nn.Linear(60, 3)), images, torch.arange(200) % CLASSES)
    streams = Streams.of("augment", range(2))
    changed = problem.augmented(streams, 3)
    everything = torch.arange(200)
    found = pixels(changed, 1, everything)
    padded = nn.functional.pad(images, [4] * 4)
    seen = set()
    for image_, big in zip(found, padded, strict=True):
        fits = [
            (down, right, flip)
            for down in range(9)
            for right in range(9)
            for flip in (False, True)
            if torch.equal(
                image_,
                (big[:, down : down + 5, right : right + 6]).flip(-1)
                if flip
                else big[:, down : down + 5, right : right + 6],
            )
        ]
        assert fits
        seen.add(fits[0])
    for axis, values in enumerate((range(9), range(9), (False, True))):
        assert {fit[axis] for fit in seen} == set(values)
    # The draws depend on run, call and example only.
    some = torch.tensor([7, 150, 7])
    assert torch.equal(pixels(changed, 1, some), found[some])
    assert torch.equal(pixels(changed.take(torch.tensor([1])), 0, everything), found)
    assert torch.equal(pixels(problem.augmented(streams, torch.tensor([5, 3])), 1, everything), found)
    assert torch.equal(
        pixels(problem.augmented(streams, torch.tensor([5, 3])).take(torch.tensor([1])), 0, some), found[some]
    )
    for other in (pixels(changed, 0, everything), pixels(problem.augmented(streams, 4), 1, everything)):
        assert not torch.equal(other, found)
    assert torch.equal(pixels(problem, 0, everything), images), "the problem itself is as it was"


# ---------------------------------------------------------------- on a GPU
def there(name: str, **options: Any) -> ModuleProblem:
    """Return a problem of `MODULES` on a pretend GPU."""
    module, inputs = MODULES[name]()
    module = module.double()
    inputs = tuple(t.cuda() for t in inputs) if isinstance(inputs, tuple) else inputs.cuda()
    labels = torch.arange(len(inputs[0] if isinstance(inputs, tuple) else inputs), device="cuda") % CLASSES
    return ModuleProblem(module, inputs, labels, **options)


@pytest.mark.slow
@slowly
@pytest.mark.parametrize("chunk", [None, 2])
@pytest.mark.parametrize(
    "name", ["long sequence", "wide convolution", "groups", "group norm", "layer norm", "embedding", "bilinear"]
)
def test_on_a_gpu_nothing_waits_and_nothing_adds_in_another_order(name: str, chunk: int | None) -> None:
    here, _ = made(name)
    x, weights = points(here), normal(2, 5, name="weights")
    weights[0, 2], weights[1] = 0, 0
    expected = here.gradients(x)
    with PretendCuda() as device:
        problem, point, own = there(name, max_examples_at_once=chunk), x.cuda(), weights.cuda()
        problem.gradients(point).norms()  # the first call's check
        device.reset()
        found, plain = problem.gradients(point), problem.gradients(point)
        norms, total, passed = found.norms(), found.weighted_sum(own), plain.weighted_sum(own)
        assert device.waits == 0
        # cuDNN's sums are kept in one order: `test_what_enforces_a_bound_is_rounded_as_float32`.
        assert all("convolution_backward" in place for place in device.places["atomic"])
        found.losses.tolist()
        assert device.waits == 1, "control"
        same(norms.cpu(), expected.norms())
        for answer in (total, passed):
            same(answer.cpu(), expected.weighted_sum(weights))
            assert (answer[1].cpu() == 0).all()


def test_sums_without_an_order_are_seen() -> None:
    """The control of the test above: the earlier sums of embeddings."""
    with PretendCuda() as device:
        rows = torch.zeros(6, 4, device="cuda").index_add_(0, words(8).cuda(), normal(8, 4).float().cuda())
        assert rows.shape == (6, 4) and any("index_add_" in place for place in device.places["atomic"])


@looking
class Settings(TorchDispatchMode):
    """A mode that records the precision and determinism settings of products and convolutions."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: dict[str, set[tuple[str, str, bool]]] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        if name == "convolution_backward":
            name += " to weights" if args[-1][1] else " to inputs"
        precision = torch.backends.cudnn.conv.fp32_precision  # type: ignore[attr-defined]
        now = precision, torch.get_float32_matmul_precision(), torch.backends.cudnn.deterministic
        self.seen.setdefault(name, set()).add(now)
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("chunk", [None, 2])
def test_what_enforces_a_bound_is_rounded_as_float32(chunk: int | None) -> None:
    """With TensorFloat-32 the clipped sum could be longer than the norms used for clipping."""
    inputs = normal(4, 16, 8, 8).float()
    # The first convolution computes its norms by inner products, the second explicitly.
    module = nn.Sequential(nn.Conv2d(16, 512, 3), nn.Tanh(), nn.AvgPool2d(2), nn.Conv2d(512, 2, 3), nn.Flatten())
    module.append(nn.Linear(2, CLASSES))
    problem = ModuleProblem(module, inputs, torch.arange(4) % CLASSES, max_examples_at_once=chunk)
    x = problem.initial(Streams.of("precision", [0]))
    problem.gradients(x).norms()
    before = torch.get_float32_matmul_precision()
    allowed, enforced = ("tf32", "high", True), ("ieee", "highest", True)
    conv = torch.backends.cudnn.conv  # type: ignore[attr-defined]
    usual = conv.fp32_precision
    try:
        conv.fp32_precision = "tf32"
        torch.set_float32_matmul_precision("high")
        found = problem.gradients(x)
        with Settings() as norms:
            found.norms()
        # The passes use the user's settings: their errors are the factors, however they were rounded.
        assert norms.seen["convolution"] == norms.seen["convolution_backward to inputs"] == {allowed}
        assert norms.seen["sum"] == {allowed, enforced} and enforced in norms.seen["bmm"]
        with Settings() as contracted:
            found.weighted_sum(torch.full((1, 4), 0.25))
        assert contracted.seen["convolution_backward to weights"] == {enforced}
        with Settings() as control:
            problem.gradients(x).weighted_sum(torch.full((1, 4), 0.25))
        assert control.seen["convolution_backward to weights"] == {allowed}, "control: no norms, no bound"
        now = conv.fp32_precision, torch.get_float32_matmul_precision(), torch.backends.cudnn.deterministic
        assert now == ("tf32", "high", False), "the user's settings are back"
    finally:
        torch.set_float32_matmul_precision(before)
        conv.fp32_precision = usual


# ---------------------------------------------------------------- formats and precisions


@pytest.mark.parametrize(("examples", "chunk"), [(1, None), (3, 2)])
def test_an_image_alone_in_its_batch_has_its_own_gradient(examples: int, chunk: int | None) -> None:
    normalised = nn.BatchNorm2d(6).eval()  # strides that fit both formats are misread by torch's backward pass
    module = Both(
        lambda m, x: m.head(m.norm(m.norm(x)).mean((2, 3))), norm=normalised, head=nn.Linear(6, CLASSES)
    ).double()
    inputs, labels = normal(examples, 6, 5, 5), torch.arange(examples) % CLASSES
    last = ModuleProblem(module, inputs, labels, channels_last=True, max_examples_at_once=chunk)
    plain = ModuleProblem(module, inputs, labels)
    x, weights = points(plain, 1), normal(1, examples, name="weights")
    exact = reference(plain, module, x)[0]
    total = torch.einsum("rn,rnd->rd", weights, exact)
    for problem in (plain, last):
        same(problem.gradients(x).weighted_sum(weights), total)
        same((found := problem.gradients(x)).norms(), exact.norm(dim=2))
        same(found.weighted_sum(weights), total)


@pytest.mark.filterwarnings("ignore:Examples are passed one by one")
def test_an_image_that_is_passed_alone_has_the_usual_strides() -> None:
    def function(module: Any, x: Tensor) -> Tensor:
        if x.sum() < 1e9 and len(x) == 1:  # it branches on values
            assert x.is_contiguous()
        return module.head(x.mean((2, 3)))

    problem = ModuleProblem(
        Both(function, head=nn.Linear(4, CLASSES)).double(), normal(3, 4, 5, 5), torch.arange(3), channels_last=True
    )
    problem.gradients(points(problem, 1)).norms()
    assert problem._passes.one_by_one


def distance(found: Tensor, exact: Tensor) -> float:
    """Return the distance of two sums relative to the exact one."""
    return float((found.cpu() - exact).norm() / exact.norm())


def moved(module: nn.Module, inputs: Tensor, labels: Tensor, x: Tensor, weights: Tensor, bits: int) -> float:
    """Return the relative change of a sum when weights and inputs change at random by up to 2^-bits of themselves.

    Rounding to this number of bits has the same effect on the factors of a pass, so its error has this size for any
    network. For a network with kinks the change is large, because some units change sides.
    """
    exact = ModuleProblem(module, inputs, labels).gradients(x).weighted_sum(weights)

    def near(tensor: Tensor, draw: str) -> Tensor:
        unit = Streams.of("near", [draw]).uniform("x", 0, tensor.numel()).view(tensor.shape)
        return tensor * (1 + 2.0**-bits * (2 * unit - 1)).to(tensor)

    sums = [
        ModuleProblem(module, near(inputs, f"inputs {i}"), labels).gradients(near(x, f"x {i}")).weighted_sum(weights)
        for i in range(3)
    ]
    return max(distance(found, exact) for found in sums)


def rounded(tensor: Tensor, bits: int) -> Tensor:
    mantissa, exponent = torch.frexp(tensor)
    return torch.ldexp(torch.round(mantissa * 2**bits) / 2**bits, exponent)


def test_bfloat16_passes_give_float32_answers_close_by() -> None:
    inputs, labels = normal(6, 2, 8, 8).float(), torch.arange(6) % CLASSES
    module = small_conv_net(CLASSES, in_channels=2)
    exact, low = (ModuleProblem(module, inputs, labels, autocast=kind) for kind in (None, torch.bfloat16))
    x = exact.initial(Streams.of("precision", range(2)))
    weights = torch.full((2, 6), 1 / 6)
    expected, found, plain = exact.gradients(x), low.gradients(x), low.gradients(x)
    assert (
        found.norms().dtype == found.weighted_sum(weights).dtype == plain.weighted_sum(weights).dtype == torch.float32
    )
    bound = 2 * moved(module, inputs, labels, x, weights, bits=8)
    error = (found.norms() / expected.norms() - 1).abs().max()
    assert 1e-5 < error < bound < 0.05, "bfloat16 was used, and is close"
    # Norms are those of the contracted sums, more precisely than the passes compute.
    one = torch.eye(6)[:2]
    assert (found.weighted_sum(one).norm(dim=1) / found.norms().diag()[:2] - 1).abs().max() < 1 / 256
    total = expected.weighted_sum(weights)
    for answer in (found.weighted_sum(weights), plain.weighted_sum(weights)):
        assert distance(answer, total) < bound
    coarse = ModuleProblem(module, rounded(inputs, 5), labels).gradients(rounded(x, 5))
    assert distance(coarse.weighted_sum(weights), total) > bound, "the control: 5 bits are too few"


def test_a_loss_of_your_own() -> None:
    def squares(outputs: Tensor, targets: Tensor) -> Tensor:
        return 0.5 * (outputs - targets).square().sum(1)

    module, inputs, targets = nn.Linear(4, 2).double(), normal(5, 4), normal(5, 2, name="targets")
    problem = ModuleProblem(module, inputs, targets, loss=squares)
    x = points(problem, 1)
    error = module(inputs).detach() + 0  # the layer at its own parameters
    found = problem.gradients(problem.initial(Streams.of("own", [0]), only=[]))
    error = error - targets
    same(found.losses[0], 0.5 * error.square().sum(1))
    same(found.norms()[0], error.norm(dim=1) * torch.cat([inputs, torch.ones(5, 1)], 1).norm(dim=1))
    assert problem.constants == {} and math.isnan(float(problem.evaluate(x, inputs, targets)[1]))
    assert made("linear")[0].constants["lower_bound"].value == 0
