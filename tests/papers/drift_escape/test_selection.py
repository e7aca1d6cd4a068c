"""Algorithm 4: acceptance, error rates and epsilon, and the search by a trusted server in its place."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import binom
from torch import Tensor, fx

from dpnotes.core import Status
from dpnotes.guarantees import SHOWN_ALONE
from dpnotes.oracles.blocks import Blocks
from dpnotes.oracles.clients import Clients
from dpnotes.papers.drift_escape.derivatives import (
    ExampleDerivatives,
    VirtualDerivatives,
    apart_again,
    smallest_eigenvalues,
    with_triangle,
)
from dpnotes.papers.drift_escape.selection import (
    GradientAndHessian,
    Selection,
    distributed_selection,
    trusted_search,
    trusted_selection,
)
from dpnotes.privacy.calibration import gaussian_std
from dpnotes.problems.separable import Cosine, Separable, Sine
from dpnotes.problems.virtual import VirtualData
from dpnotes.random.streams import Streams

DIM, DELTA = 4, 1e-5
SIZES = (4000, 1000, 2500)
GIVEN: dict[str, Any] = {"gradient_bound": 1.0, "smoothness": 1.5, "hessian_lipschitz": 1.5, "failure": 0.1}
CHOICE = Selection(0.05, DIM, SIZES, 3, 4.0, DELTA, **GIVEN)
EASY = replace(CHOICE, accuracy=0.01, epsilon=20.0, smoothness=0.4, gradient_bound=0.6)


def loss(x: Tensor, a: Tensor) -> Tensor:
    """Return `mean_k cos(x_k) + a_k sin(x_k)`; for |a| <= 1 an example's gradient is at most 1 long."""
    return (x.cos() + a * x.sin()).mean()


def examples(client: int, run: int = 0) -> Tensor:
    uniform = Streams.of("examples", [f"{run}/{client}"]).uniform("a", 0, SIZES[client] * DIM)
    return (uniform.view(-1, DIM) - 0.5).double()


def derivatives_of(runs: int = 1) -> Callable[[range], ExampleDerivatives]:
    return lambda members: ExampleDerivatives(
        loss, tuple((examples(client, run),) for run in range(runs) for client in members)
    )


HILL, SLOPE = torch.zeros(DIM).double(), torch.full((DIM,), math.pi / 2).double()
VALLEY = torch.full((DIM,), math.pi).double()


STREAM = (Streams.of("trusted", [0]),)


def choose(models: list[Tensor], runs: int = 1, choice: Selection = CHOICE, **more: Any) -> Any:
    at = torch.stack(models)[:, None].expand(-1, runs, -1)
    streams = Streams.of("selection", range(runs))
    return distributed_selection(at, derivatives_of(runs), choice, streams, blocks=Blocks(3, 2), **more)


def test_the_first_model_that_is_good_enough_is_published():
    found = choose([SLOPE, HILL, VALLEY], choice=EASY)
    assert not EASY.vacuous and found.index.tolist() == [2] and found.asked.tolist() == [3]
    assert choose([SLOPE, VALLEY, HILL], choice=EASY).asked.tolist() == [2], "no model after it is asked about"
    none = choose([SLOPE, HILL], choice=EASY)
    assert none.index.tolist() == [-1] and not bool(none.found)
    assert bool(none.norms[0] > 0.3) and bool(none.eigenvalues[1] < -0.15)


def test_epsilon_is_what_was_asked_for_and_models_beyond_it_are_refused():
    found = choose([SLOPE, SLOPE, SLOPE])
    (claim,) = found.guarantees
    assert claim.epsilon == pytest.approx(4.0, rel=1e-6) and claim.epsilon <= 4.0 * (1 + 1e-9) and claim.delta == DELTA
    assert any("seen by the server" in assumption.statement for assumption in claim.assumptions)
    spent = 3 * 0.5 / CHOICE.noise_multiplier**2
    assert found.state.meter.spent.tolist() == [[pytest.approx(spent)] * 3]
    oracle, x = found.oracle, SLOPE[None]
    _, more = oracle.estimate(found.state, x, Streams.of("selection", [0]), torch.tensor([True]))
    assert more.status.tolist() == [Status.BUDGET_EXHAUSTED], "a fourth model costs more than there is"
    with pytest.raises(ValueError, match=r"Expected models of shape \(4, 1, 4\) to be .* num_models=3"):
        choose([SLOPE] * 4)


def test_the_noise_of_a_client_is_that_of_its_own_examples():
    """The standard deviation of the messages is checked for gradient coordinates and Hessian entries."""
    at, streams = HILL.expand(4000, DIM), Streams.of("noise", range(4000))
    oracle = GradientAndHessian.of(ExampleDerivatives(loss, ((examples(1)[:10],),) * 4000), CHOICE)
    _, estimate = oracle.estimate(oracle.init(at), at, streams, torch.ones(4000).bool())
    std = gaussian_std(4.0, DELTA) * math.sqrt(3) * 2 * math.sqrt(2) / 10
    spread = estimate.gradient.std(0)
    assert torch.allclose(spread, torch.full_like(spread, std), rtol=0.06)  # 14 of them: 5 standard errors
    _, hessian = apart_again(estimate.gradient, DIM, CHOICE.weight)
    assert float(hessian[:, 1, 2].std()) == pytest.approx(std * 1.5 * math.sqrt(DIM), rel=0.06)
    assert torch.equal(hessian, hessian.mT)


def off(choice: Selection, runs: int) -> tuple[Tensor, Tensor]:
    """Return the errors of the server's gradient and smallest eigenvalue against the population, over `runs` runs."""
    size = max(choice.sizes)
    data = VirtualData(Separable([(Cosine(0.5), DIM)]), Separable([(Sine(0.2), DIM)]))
    names = [f"{run}/{client}" for run in range(runs) for client in range(3)]
    total = torch.tensor([*choice.sizes] * runs)
    own = VirtualDerivatives.drawn(data, total, Streams.of("population", names))
    assert own.means.std(0).mul(size**0.5).min() > 1
    oracle = Clients.of(lambda _: GradientAndHessian.of(own, choice), Blocks(3, 3), runs)
    x = torch.full((runs, DIM), 0.8, dtype=torch.float64)
    _, estimate = oracle.estimate(oracle.init(x), x, Streams.of("runs", range(runs)), torch.ones(runs).bool())
    gradient, hessian = apart_again(estimate.gradient, DIM, choice.weight)
    bent = torch.linalg.eigvalsh(hessian - data.landscape.hessian(x))
    return (gradient - data.landscape.gradient(x)).norm(dim=1), bent.abs().amax(1)


@pytest.mark.parametrize("epsilon", [0.5, math.inf])
def test_slack_is_exceeded_no_more_often_than_is_said(epsilon: float):
    """The slack is exceeded rarely by noise and by sampling alone, but is not so large that nothing could exceed it."""
    choice = replace(CHOICE, epsilon=epsilon, num_models=1, failure=0.2)
    gradient, eigenvalue = off(choice, 2000)
    longer, bent = gradient > choice.gradient_slack, eigenvalue > choice.eigenvalue_slack
    assert int((longer | bent).sum()) <= binom.isf(1e-6, 2000, 0.2)
    for errors, slack in ((gradient, choice.gradient_slack), (eigenvalue, choice.eigenvalue_slack)):
        share = float((errors > slack / 5).double().mean())
        assert epsilon == math.inf or share > 0.2, "the control: a fifth of it is exceeded"


def test_derivatives_are_those_of_torch_and_long_ones_are_clipped():
    x, data = torch.tensor([[0.3, -0.2, 1.0, 2.0]]).double(), examples(2)[:50]
    own = ExampleDerivatives(loss, ((data,),), 7)
    weight = 0.7
    gradients = torch.stack([torch.func.grad(loss)(x[0], a) for a in data])
    hessian_of: Any = torch.autograd.functional.hessian
    hessians = torch.stack([hessian_of(lambda y, a=a: loss(y, a), x[0]) for a in data])
    terms = with_triangle(gradients, hessians, weight)
    lengths = terms.norm(dim=1)
    middle = float(lengths.median())
    for longest in (100.0, middle):
        kept = terms * (longest / lengths).clamp_max(1)[:, None]
        assert torch.allclose(own.mean(x, weight, longest)[0], kept.mean(0), rtol=1e-12)
    gradient, hessian = apart_again(own.mean(x, weight, 100.0), DIM, weight)
    assert torch.allclose(gradient[0], gradients.mean(0)) and torch.allclose(hessian[0], hessians.mean(0))


def test_an_example_without_finite_derivatives_counts_as_the_longest_slope():
    own = ExampleDerivatives(lambda x, a: (x * a).sum(), ((torch.tensor([[-1.0], [math.inf], [math.nan]]).double(),),))
    assert own.mean(torch.ones(1, 1).double(), 1.0, 0.5).tolist() == [[0.5 / 3, 0.0]]


def test_a_model_where_derivatives_overflow_is_not_published():
    """The model is finite, but its derivatives overflow in float32; the control uses float64."""
    quartic = ExampleDerivatives(lambda x, a: (x - a).pow(4).sum(), ((examples(0)[:, :2].float(),),))
    choice = replace(CHOICE, dim=2, sizes=(4000,), epsilon=20.0)
    for kind in (torch.float32, torch.float64):
        at = torch.full((1, 1, 2), 1e20, dtype=kind)
        found = distributed_selection(at, lambda _: quartic, choice, *STREAM, blocks=Blocks(1, 1))
        assert not choice.vacuous and not bool(found.found) and float(found.norms[0, 0]) == pytest.approx(1.4, rel=0.05)
        trusted = trusted_selection(at, lambda _: quartic, choice, *STREAM, blocks=Blocks(1, 1))
        assert not bool(trusted.found)


def test_what_is_released_holds_no_graph_of_the_examples():
    """Otherwise `backward` through the graph would return derivatives without noise."""
    at = torch.zeros(1, 1, DIM, dtype=torch.float64, requires_grad=True)
    found = distributed_selection(at, derivatives_of(), CHOICE, *STREAM, blocks=Blocks(3, 2))
    assert not found.norms.requires_grad and not found.eigenvalues.requires_grad


@pytest.mark.parametrize("longest", [1e-6, 1e-24, 1e-30, 1.0])
@pytest.mark.parametrize("scale", [1e38, 1e20, 1.0, 1e-22])
def test_no_example_is_longer_than_its_bound_in_float32_whatever_its_scale(longest: float, scale: float):
    """Squares of float32 numbers overflow or vanish, and so may a weight; no example is shortened unnecessarily."""
    own = ExampleDerivatives(lambda x, a: (x * a).sum(), ((torch.full((1, 2), scale),),))
    length = float(own.mean(torch.ones(1, 2), 1.0, longest).double().norm())
    assert length == pytest.approx(min(longest, scale * 2**0.5), rel=1e-6)


def test_an_example_without_finite_derivatives_is_no_error_of_a_trusted_server():
    """The existence of such an example must not show: it is an exact answer about the data. Torch raises in 5-D."""
    choice = replace(CHOICE, dim=5, sizes=(50,))
    models = torch.full((1, 1, 5), math.pi).double()
    data = torch.zeros(50, 5).double()
    answers = []
    for wrong in (0.0, math.nan, math.inf):
        data[0, 0] = wrong
        own = ExampleDerivatives(loss, ((data.clone(),),))
        answers.append(trusted_selection(models, lambda _, own=own: own, choice, *STREAM, blocks=Blocks(1, 1)).index)
    assert answers[0] == answers[1] == answers[2] == 0, "one of 50 examples does not decide"
    flat = VirtualData(Separable([(Cosine(0.5), 5)]), Separable([(Sine(0.2), 5)]))
    for wrong in (math.nan, math.inf):
        virtual = VirtualDerivatives(flat, torch.tensor([50]), torch.full((1, 5), wrong).double())
        found = trusted_selection(models, lambda _, own=virtual: own, choice, *STREAM, blocks=Blocks(1, 1))
        assert found.index == -1, "what is no number is a no"


@pytest.mark.parametrize("wrong", [math.nan, math.inf])
@pytest.mark.slow
def test_what_has_diverged_is_not_published(wrong: float):
    """This holds whatever the examples answer about it."""
    lost = VALLEY.clone()
    lost[1] = wrong
    found = choose([lost, VALLEY], choice=EASY)
    assert found.index.tolist() == [1] and found.asked.tolist() == [1] and bool(found.norms[0].isnan())
    assert found.norms[1] == choose([VALLEY], choice=EASY).norms[0], "nobody is asked about it, nor pays"
    nobody = choose([lost, lost], choice=EASY)
    assert not bool(nobody.found) and nobody.asked.tolist() == [0]
    at = torch.stack([lost, VALLEY])[:, None]
    assert trusted_selection(at, derivatives_of(), EASY, *STREAM, blocks=Blocks(3, 2)).index.tolist() == [1]


def test_what_is_done_to_the_noise_multiplier_afterwards_changes_no_price():
    oracle = GradientAndHessian.of(ExampleDerivatives(loss, ((examples(1)[:10],),)), CHOICE)
    x, active, streams, granted = HILL[None], torch.tensor([True]), Streams.secure(1), 0
    state = oracle.init(x)
    for _ in range(6):
        oracle.noise_multiplier.mul_(1000.0)
        state, estimate = oracle.estimate(state, x, streams, active)
        granted += int(estimate.status[0] == Status.OK)
    assert granted == CHOICE.num_models and oracle.guarantee(state, DELTA, streams)[0].epsilon <= 4.0


def test_a_loss_of_known_operations_sees_no_example_and_another_one_is_assumed_to_keep_nothing():
    seen: list[Any] = []

    def curious(x: Tensor, a: Tensor) -> Tensor:
        seen.append(a)
        return loss(x, a)

    def branching(x: Tensor, a: Tensor) -> Tensor:
        return loss(x, a) if len(a) > 0 else x.sum()

    own = ((examples(0)[:5],),)
    closed, opened = ExampleDerivatives(curious, own), ExampleDerivatives(branching, own)
    found = closed.mean(HILL[None], 1.0, 1.0)
    of_data = {float(row.sum()) for row in own[0][0]}
    assert not any(isinstance(a, Tensor) and not isinstance(a, fx.Proxy) and float(a.sum()) in of_data for a in seen)
    torch.testing.assert_close(found, opened.mean(HILL[None], 1.0, 1.0))
    assert closed.apart == () and opened.apart == (SHOWN_ALONE,)
    releases = GradientAndHessian.of(opened, CHOICE).releases
    assert SHOWN_ALONE in releases.apart


def test_the_trusted_server_pays_for_the_answer_alone():
    at = torch.stack([SLOPE, HILL, VALLEY])[:, None]
    found = trusted_selection(at, derivatives_of(), EASY, Streams.of("trusted", [0]), blocks=Blocks(3, 2))
    assert found.index.tolist() == [2] and float(found.price.rho()) == pytest.approx(20.0**2 / 2)
    search = trusted_search(EASY)
    assert search.num_examples == 3 * 1000 and search.gradient_sensitivity == pytest.approx(2 * 0.6 / 3000)
    # The slack of Algorithm 4 grows with the dimension, but that of AboveThreshold does not.
    wide = replace(EASY, dim=400)
    assert trusted_search(wide).gradient_slack == search.gradient_slack
    assert wide.gradient_slack > 1.1 * EASY.gradient_slack and wide.eigenvalue_slack > 5 * EASY.eigenvalue_slack


def test_an_example_of_the_smallest_client_moves_the_means_of_the_trusted_server_as_far_as_is_said():
    """Checked by brute force: the worst example of all clients is replaced by its opposite."""
    sizes = (8, 3, 5)
    parts = [examples(client)[:size].sign() for client, size in enumerate(sizes)]

    def mean(parts: list[Tensor]) -> Tensor:
        own = ExampleDerivatives(lambda x, a: a @ x / 2, tuple((part,) for part in parts))  # |a| / 2 = 1
        return own.mean(torch.zeros(3, DIM).double(), 1.0, math.inf)[:, :DIM].mean(0)

    moved = []
    for client, place in [(c, p) for c in range(3) for p in range(sizes[c])]:
        other = [part.clone() for part in parts]
        other[client][place] *= -1
        moved.append(float((mean(parts) - mean(other)).norm()))
    said = trusted_search(replace(CHOICE, sizes=sizes)).gradient_sensitivity
    assert max(moved) == pytest.approx(2 / 9) == said
    assert max(moved) > 2 / 16, "the control: all examples are not alike"


@pytest.mark.parametrize("dim", [1, 2, 5])
def test_an_example_outside_its_bounds_moves_the_means_of_the_trusted_server_no_further_than_is_said(dim: int):
    """The gradients are far too long, the Hessians have no diagonal, of either sign; the docstring states the bound."""
    choice = replace(CHOICE, dim=dim, sizes=(1,))
    limits = math.sqrt(2), 2 * math.sqrt(dim)
    bent = torch.ones(dim, dim).double() - (torch.eye(dim).double() if dim > 1 else 0)
    moved: list[float] = []
    for slope, curvature in ((1e9, 0.0), (0.0, 1e9)):
        norms, eigenvalues = [], []
        for sign in (-1, 0, 1):
            own = ExampleDerivatives(
                lambda x, a, b: a @ x + x @ b @ x / 2,
                (((torch.full((1, dim), sign * slope)).double(), (sign * curvature * bent)[None]),),
            )
            mean = own.mean(torch.zeros(1, dim).double(), choice.weight, choice.longest)
            gradient, hessian = apart_again(mean, dim, choice.weight)
            norms.append(float(gradient.norm()))
            eigenvalues.append(float(smallest_eigenvalues(hessian)))
        moved += [max(norms) - min(norms), max(eigenvalues) - min(eigenvalues)]
    search = trusted_search(choice)
    assert max(moved[::2]) <= search.gradient_sensitivity * limits[0]
    assert 0.3 * limits[1] < max(moved[1::2]) / search.eigenvalue_sensitivity <= limits[1]


def test_blocks_of_one_size_give_the_same_bits_and_numbers_of_runs_do_too():
    one = choose([SLOPE, VALLEY])
    alone, beside = one.norms[0, 0], choose([SLOPE, VALLEY], runs=3).norms[0]
    assert torch.allclose(beside[0], alone, rtol=1e-12) and len(beside.unique()) == 3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sizes": (4000, 1000)}, r"Expected num_clients=3 to be 2, as sizes says"),
        ({"sizes": (4000, 999, 2500)}, r"Expected examples=\[4000, 1000\] of clients range\(0, 2\) to be sizes=\[4000"),
        ({"dim": 5}, r"Expected models of shape \(1, 1, 4\) to be \(models, 1, 5\)"),
    ],
)
def test_what_does_not_fit_is_refused(change: dict[str, Any], message: str):
    with pytest.raises(ValueError, match=message):
        choose([HILL], choice=replace(CHOICE, **change))


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"models": torch.zeros(1, 1, DIM).half()}, ValueError, r"Expected models of torch.float16 to be of float32"),
        ({"models": torch.zeros(1, 1, DIM).long()}, ValueError, r"Expected models of torch.int64 to be of float32"),
        ({"derivatives_of": lambda members: None}, TypeError, r"Expected derivatives_of=None to have mean"),
        ({"as_printed": True}, ValueError, r"Expected noise_multiplier=0.0 > 0"),
    ],
)
def test_what_is_of_another_kind_is_refused_before_anything_is_released(
    change: dict[str, Any], error: type[Exception], message: str
):
    free = replace(CHOICE, epsilon=math.inf)

    def nobody(members: range) -> Any:
        raise AssertionError("a client was asked")

    given: dict[str, Any] = {"models": torch.zeros(1, 1, DIM), "streams": STREAM[0], "derivatives_of": nobody}
    with pytest.raises(error, match=message):
        distributed_selection(selection=free, blocks=Blocks(3, 2), **(given | change))


def test_data_that_are_no_tuples_of_tensors_are_refused():
    """A tensor in place of a tuple of tensors would be read as one tensor per example."""
    wrong: Any = (torch.ones(3, 2),)
    with pytest.raises(TypeError, match=r"Expected data\[0\]=tensor.* to be a tuple"):
        ExampleDerivatives(loss, wrong)
    with pytest.raises(ValueError, match="num_examples=0"):
        ExampleDerivatives(loss, ((torch.tensor(1.0),),))
    oracle = GradientAndHessian.of(ExampleDerivatives(loss, ((examples(1)[:10],),)), CHOICE)
    for level in (torch.ones(1), -torch.ones(1).double(), torch.full((1,), math.nan).double()):
        with pytest.raises(ValueError, match="Expected noise_multiplier=.* finite numbers >= 0, .* float64"):
            replace(oracle, noise_multiplier=level)


def test_without_privacy_nothing_is_claimed_and_the_printed_thresholds_have_no_meaning():
    free = replace(CHOICE, epsilon=math.inf)
    found = choose([VALLEY], choice=free)
    assert found.guarantees[0].epsilon == math.inf and bool(found.found)
    exact = np.mean([float(torch.func.grad(loss)(VALLEY, examples(c).mean(0)).norm()) for c in range(3)])
    assert float(found.norms[0, 0]) <= exact * 1.001
    with pytest.raises(ValueError, match="noise_multiplier"):
        _ = free.printed_slacks
