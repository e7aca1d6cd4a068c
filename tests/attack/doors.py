"""The doors that are audited: every public algorithm as a user calls it, every oracle, every mechanism, and an attack.

The attacker knows everything but the canary (`signals.py`). A run's score is the log likelihood ratio of everything
that the run released, along the path that it took. The distribution of the scores is computed from the papers alone
(`Door.law`, in numpy).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from types import SimpleNamespace as Namespace
from typing import Any
from unittest import mock

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dpnotes.core import FRESH, WHOLE, Guarantee, Ledger, Relation, Request, Sampling, Sensitive
from dpnotes.methods.descent import Descent
from dpnotes.methods.loop import drive
from dpnotes.oracles.blocks import Blocks
from dpnotes.oracles.clients import Clients
from dpnotes.oracles.clipped import ClippedGradient
from dpnotes.oracles.fresh import FreshGradient
from dpnotes.oracles.minibatch import MinibatchGradient
from dpnotes.oracles.samples import ORDER_PURPOSE, DataSetSamples, shuffled
from dpnotes.oracles.spider import BatchSizes, Refresh, Spider
from dpnotes.papers.adaptive_batch import algorithms as adaptive_batch
from dpnotes.papers.budget_schedules.algorithms import private_gradient_descent
from dpnotes.papers.drift_escape import algorithms as drift_escape
from dpnotes.papers.drift_escape.baseline import distributed_noisy_sgd
from dpnotes.papers.drift_escape.derivatives import ExampleDerivatives
from dpnotes.papers.drift_escape.distributed import distributed_drift_escape
from dpnotes.papers.drift_escape.selection import Selection, distributed_selection, trusted_search, trusted_selection
from dpnotes.papers.goldstein import algorithms as goldstein
from dpnotes.papers.noisy_sgd.algorithms import clipped_noisy_sgd, noisy_sgd, noisy_sgd_on_fresh_data
from dpnotes.privacy import discrete
from dpnotes.privacy.accounting import account
from dpnotes.privacy.audit import GaussianPair
from dpnotes.privacy.calibration import gaussian_std
from dpnotes.privacy.events import Event, events_of
from dpnotes.privacy.factorisation import BandedSquareRoot
from dpnotes.privacy.mechanisms import Gaussian, Laplace
from dpnotes.privacy.museum import releases
from dpnotes.privacy.noise import FixedNoise
from dpnotes.privacy.schedules import exponential
from dpnotes.privacy.search import Search, select_stationary_point
from dpnotes.privacy.selection import AboveThreshold
from dpnotes.privacy.tree import Tree
from dpnotes.problems.datasets.dataset import Dataset
from dpnotes.problems.modules import ModuleProblem
from dpnotes.random.streams import Streams
from dpnotes.train.loop import Evaluation, train
from dpnotes.train.noise import NoiseChoice
from tests.attack.signals import (
    Bowl,
    Signal,
    Transcript,
    Turn,
    far,
    half_the_discrete_noise,
    half_the_laplace_noise,
    half_the_noise,
    just,
    origin,
    steep,
    unit,
)
from tests.stand_ins import UnitRuns

DELTA = 1e-2
NOTHING = Guarantee(0.0, DELTA, Relation.REPLACE_ONE, "nothing released")
RUNS = 10_000  # per side, at least, unless the door sets a smaller number
Law = Callable[[bool, float, int, np.random.Generator], NDArray[np.float64]]
Attack = Callable[[bool, Streams], tuple[Tensor, Guarantee]]


# ---------------------------------------------------------------- laws of scores
def normal(mu: float) -> Law:
    """Return the law N(0, 1) without the canary and N(mu, 1) with it."""
    return lambda included, scale, runs, draw: included * mu + scale * draw.standard_normal(runs)


def zero_out_ratio(along: Any, rate: float, noise: float) -> Any:
    """Return the log likelihood ratio of a canary against none, over all steps, in units of its contribution."""
    return np.log(1 - rate + rate * np.exp((np.asarray(along) - 0.5) / noise**2)).sum(0)


def replaced_ratio(along: Any, rate: float, noise: float) -> Any:
    """Return the log likelihood ratio of a canary against the reversed canary."""
    return zero_out_ratio(along, rate, noise) - zero_out_ratio(-np.asarray(along), rate, noise)


def sampled(ratio: Callable[..., Any], without: float, rate: float, noise: float, steps: int) -> Law:
    """Return the law of steps that hold the canary with probability `rate`; it adds 1, in the neighbour `without`."""

    def law(included: bool, scale: float, runs: int, draw: np.random.Generator) -> NDArray[np.float64]:
        there = (draw.random((steps, runs)) < rate) * (1.0 if included else without)
        return ratio(there + scale * noise * draw.standard_normal((steps, runs)), rate, noise)

    return law


EPSILON, QUESTIONS = 4.0, 8  # of a search


def margins(included: bool) -> list[float]:
    """Return the margins of a search's questions: the canary moves all by 1, the last in the other direction."""
    early, last = (-1.0, 0.0) if included else (0.0, -1.0)
    return [early] * (QUESTIONS - 1) + [last]


def searched(included: bool, scale: float, runs: int, draw: np.random.Generator) -> NDArray[np.float64]:
    """Draw whether the last of many questions gets the first yes (AboveThreshold, Dwork and Roth)."""
    threshold = scale * 2 / EPSILON * draw.laplace(size=runs)
    asked = np.array(margins(included))[:, None] + scale * 4 / EPSILON * draw.laplace(size=(QUESTIONS, runs))
    yes = asked >= threshold
    return (yes[-1] & ~yes[:-1].any(0)).astype(np.float64)


# ---------------------------------------------------------------- doors
@dataclass(frozen=True)
class Door:
    """An algorithm that releases something, and the attack on it.

    Args:
      covers: the algorithm, oracle or mechanism.
      attack: the scores `(runs,)` with or without the canary, and the claimed guarantee.
      law: the distribution of such scores, `(runs,)`, at a share of the noise; computed from the papers, not by the
        code.
      halved: a context that halves the noise of the code.
      least_runs: the least number of runs per side.
    """

    covers: tuple[Any, ...]
    attack: Attack
    law: Law
    halved: Callable[[], Any] = half_the_noise
    least_runs: int = RUNS


def scheduled(included: bool, streams: Streams) -> tuple[Tensor, Guarantee]:
    x, schedule, n = origin(streams), exponential(0.8, 0.5, 5), 4
    seen = Transcript(x, 5, far)
    runs = private_gradient_descent(
        Signal(float(included), n, far), [schedule] * len(x), x, streams, clip=1.0, step_size=0.5, momentum=0.5,
        delta=DELTA, observe=seen,
    )  # fmt: skip
    levels = torch.tensor(schedule.noise_multipliers)
    return (seen.along * n / levels[:, None] ** 2).sum(0), runs.guarantees[0]  # mu = 1


def turned_around(included: bool, streams: Streams) -> tuple[Tensor, Guarantee]:
    x, schedule, n, steps = origin(streams), exponential(0.7, 0.5, 4), 5, 4
    oracle = ClippedGradient(
        Signal(2.0 * included - 1, n, far), 1.0, FixedNoise.of([schedule] * len(x)), Relation.REPLACE_ONE
    )
    seen, ledger = Transcript(x, steps, far), Ledger()
    method = Descent(0.3)
    drive(method, oracle, method.init(x, oracle), streams, steps, ledger, seen)
    levels = torch.tensor(schedule.noise_multipliers)
    score = (seen.along * n / 2 / levels[:, None] ** 2).sum(0) + 0.5
    return score, account(events_of(ledger, 0), DELTA)


def descended(
    door: Callable[..., Any], sampling: Sampling, relation: Relation, noise: float, steps: int,
    included: bool, streams: Streams,
) -> tuple[Tensor, Guarantee]:  # fmt: skip
    """Run noisy SGD on a canary among 8 examples, at batch size `8 rate` on average; noise relative to its effect."""
    x, n = origin(streams), 8
    replaced = relation == Relation.REPLACE_ONE
    divisor, field = sampling.rate * n, far if door is clipped_noisy_sgd else just
    problem = Signal(2.0 * included - 1 if replaced else float(included), n, field)
    seen, choice = Transcript(x, steps, field), NoiseChoice(noise / divisor, 1.0, DELTA, "the attack")
    how: dict[str, Any] = {"divisor": divisor} if relation == Relation.ADD_OR_REMOVE else {}
    runs = door(
        problem, [choice] * len(x), x, streams, sampling=sampling, norm_bound=1.0, step_size=0.2, num_steps=steps,
        delta=DELTA, relation=relation, observe=seen, **how,
    )  # fmt: skip
    ratio = replaced_ratio if replaced else zero_out_ratio
    return torch.as_tensor(ratio(seen.along.numpy() * divisor, sampling.rate, noise)), runs.guarantees[0]


@dataclass(frozen=True)
class OneFresh:
    """Data in which only one example of the first batch has a gradient."""

    side: float

    def fresh(self, batch_size: int, streams: Streams, purpose: str, call: int | Tensor) -> Any:
        share = torch.where(torch.as_tensor(call) == 0, self.side / batch_size, 0.0)
        return mock.Mock(gradient=lambda x: share[:, None] * just(x))


def fresh(included: bool, streams: Streams) -> tuple[Tensor, Guarantee]:
    x, batch = origin(streams), 10
    seen, noise = Transcript(x, 3, just), NoiseChoice(2 / batch, 1.0, DELTA, "the attack")
    runs = noisy_sgd_on_fresh_data(
        OneFresh(2.0 * included - 1), [noise] * len(x), x, streams, batch_size=batch, norm_bound=1.0, step_size=0.1,
        num_steps=3, delta=DELTA, observe=seen,
    )  # fmt: skip
    return seen.along[0] * batch / 2 + 0.5, runs.guarantees[0]


def trained(included: bool, streams: Streams) -> tuple[Tensor, Guarantee]:
    """Run two steps of a linear network and publish the last point; the canary's gradient is (-1, 1) / sqrt 2."""
    n, steps, step_size, noise = 4, 2, 1e-3, 2**0.5
    inputs, labels = torch.zeros(n, 1), torch.zeros(n, dtype=torch.int64)
    inputs[0] = 100.0 * included
    problem = ModuleProblem(torch.nn.Linear(1, 2, bias=False), inputs, labels)
    data = Dataset("attack", inputs, labels, inputs, labels, 2, "none needed", "here")
    std = torch.full((len(streams),), noise / n, dtype=torch.float64)
    oracle = MinibatchGradient(problem, WHOLE, std, 1.0, steps, Relation.ZERO_OUT, clipped=True)
    x = torch.zeros(len(streams), 2)
    training = train(oracle, x, streams, Evaluation(data, every=steps), method=Descent(step_size))
    direction = torch.tensor([-(0.5**0.5), 0.5**0.5], dtype=torch.float64)
    score = -(training.x.double() @ direction) / step_size * n / noise / steps**0.5
    return score, oracle.guarantee(training.oracle_state, DELTA, streams)[0]


def with_tree(included: bool, streams: Streams) -> tuple[Tensor, Guarantee]:
    """Run Stochastic Spider with the canary in the first batch, so that every later release depends on it, too."""
    leaves, first = 8, 4
    x = origin(streams, 1.0)
    problem = Signal.in_turn(2.0 * included - 1, 400, 0, len(x))
    choice = adaptive_batch.AdaptiveBatchParameters(
        accuracy=0.1, gradient_bound=1.0, smoothness=1.0, hessian_lipschitz=1.0, drift_threshold=1e6, first_batch=first,
        batch_per_gradient=first, noise_multiplier=2.0, num_steps=leaves, step_size=0.05, threshold=1.0, window=3.0,
        perturbation=0.1, max_leaves=leaves, origin="the attack",
    )  # fmt: skip
    released = torch.zeros(leaves, len(x), dtype=torch.float64)

    def seen(going: Tensor, state: Any, estimate: Any) -> None:
        step = int(state.steps.max()) - 1
        released[step, going] = (estimate.gradient * unit(steep(x[going]))).sum(1)

    runs = adaptive_batch.stochastic_spider(DataSetSamples(problem), choice, x, streams, delta=DELTA, observe=seen)
    return tree_score(released, 2 / first), runs.guarantees[0]


def tree_score(released: Tensor, shift: float, noise_multiplier: float = 2.0) -> Tensor:
    """Score the sums `(steps, runs)` of a tree whose first leaf the canary moves by half of `shift`, or back."""
    steps = range(1, len(released) + 1)
    nodes = sorted({node for step in steps for node in releases.node(step)})
    there = torch.tensor([[float(node in releases.node(step)) for step in steps] for node in nodes])
    pair = GaussianPair(torch.zeros(len(steps)), torch.full((len(steps),), shift), noise_multiplier * shift * there)
    return pair.score(released.T + shift / 2)


FIRST, LATER = 4, 3  # batch sizes of drift escape


def escape_choice(threshold: float) -> drift_escape.DriftEscapeParameters:
    escape = drift_escape.Escape(0.1, 1.0, 1.0, 0.2, threshold, 3, 0.5, 4, 30, "the attack")
    return drift_escape.DriftEscapeParameters(escape, 1.0, 0.2, FIRST, LATER, 1.0, "the attack")


def escaping(turn: int, threshold: float, included: bool, streams: Streams) -> tuple[Tensor, Guarantee]:
    """Run drift escape with the canary in batch number `turn`; a high threshold makes runs jump back and forth."""
    x = origin(streams, 1.0)
    problem = Signal.in_turn(2.0 * included - 1, 400, turn, len(x))
    choice, seen = escape_choice(threshold), Turn(problem, x, (1.0, FIRST), (1.0, LATER))
    runs = drift_escape.drift_escape(
        DataSetSamples(problem), choice, x, streams, delta=DELTA, max_steps=3 * turn + 2, observe=seen
    )
    return seen.found / 2 + 0.5, runs.guarantees[0]


def client(turn: int, included: bool, streams: Streams) -> tuple[Tensor, Guarantee]:
    """Return the server's view of the first of two clients; the second client has no canary."""
    x = origin(streams, 1.0)
    problem, other = (Signal.in_turn(side, 400, turn, len(x)) for side in (2.0 * included - 1, 0.0))
    choice, seen = escape_choice(1e-9), Turn(problem, x, (1.0, FIRST), (1.0, LATER))

    def sent(going: Tensor, state: Any, estimate: Any) -> None:
        own = Namespace(x=state.x, oracle=Namespace(meter=Namespace(refreshes=state.oracle.meter.refreshes[:, 0])))
        seen(going, own, replace(estimate, gradient=state.oracle.memory.gradient[:, 0]))

    runs = distributed_drift_escape(
        lambda members: DataSetSamples(problem if members.start == 0 else other), choice, x, streams,
        blocks=Blocks(2, 1), delta=DELTA, max_steps=3 * turn + 2, observe=sent,
    )  # fmt: skip
    return seen.found / 2 + 0.5, runs.guarantees[0]


def of_selection(accuracy: float, epsilon: float, num_models: int) -> Selection:
    """Return the selection problem of one client with 1,000 examples of one-dimensional functions."""
    sizes = {"gradient_bound": 1.0, "smoothness": 1.0, "hessian_lipschitz": 1.0}
    return Selection(accuracy, 1, (1000,), num_models, epsilon, DELTA, **sizes, failure=0.1)


def lines_and_a_canary(slope: float, canary: tuple[float, float], runs: int) -> ExampleDerivatives:
    """Return 1,000 losses `slope x`, of which the canary's is replaced by `a x + b x^2 / 2`."""
    slopes, curvatures = torch.full((1000, 1), slope).double(), torch.zeros(1000, 1).double()
    slopes[0], curvatures[0] = canary
    return ExampleDerivatives(lambda x, a, b: (a * x + b * x**2 / 2).sum(), ((slopes, curvatures),) * runs, 10**6)


def told(included: bool, streams: Streams) -> tuple[Tensor, Guarantee]:
    """Score the messages of one client about three models, along the canary's effect on the norm and the eigenvalue."""
    side, runs = 2.0 * included - 1, len(streams)
    choice = of_selection(1e-3, account([Event(1.0, Relation.REPLACE_ONE)], DELTA).epsilon, 3)
    found = distributed_selection(
        origin(streams, 0.0)[None, :, :1].expand(3, -1, -1), lambda _: lines_and_a_canary(1.0, (side, side), runs),
        choice, streams, blocks=Blocks(1, 1),
    )  # fmt: skip
    along = (found.norms - 0.999 + choice.weight * found.eigenvalues) / math.sqrt(2)
    return along.mean(0) / (2 * choice.longest / 1000) + 0.5, found.guarantees[0]


def told_by_a_trusted_server(included: bool, streams: Streams) -> tuple[Tensor, Guarantee]:
    """Score whether the last model is published, as `selected` does; the canary makes the other models worse."""
    choice, side = of_selection(0.1, EPSILON, QUESTIONS), 2.0 * included - 1
    sought = trusted_search(choice)
    most = sought.alpha + sought.gradient_slack + sought.gradient_sensitivity / 2
    models = origin(streams, 1.0)[None, :, :1].expand(QUESTIONS, -1, -1).clone()
    models[-1] *= -1
    own = lines_and_a_canary(most * 1000 / 999, (0.0, side), len(streams))
    found = trusted_selection(models, lambda _: own, choice, streams, blocks=Blocks(1, 1))
    return (found.index == QUESTIONS - 1).double(), sought.guarantee([], NOTHING, streams)


def one_of_sgd(steps: int, included: bool, streams: Streams) -> tuple[Tensor, Guarantee]:
    """Run DP-SGD with a single client, whose messages are the server's view."""
    x, n = origin(streams), 8
    seen = Transcript(x, steps, far)
    runs = distributed_noisy_sgd(
        lambda _: Signal(2.0 * included - 1, n, far), x, streams, blocks=Blocks(1, 1), epsilon=EPSILON_OF_SGD,
        delta=DELTA, norm_bound=1.0, step_size=0.2, num_steps=steps, observe=seen,
    )  # fmt: skip
    return torch.as_tensor(replaced_ratio(seen.along.numpy() * n, 1.0, noise_of_sgd(steps))), runs.guarantees[0]


EPSILON_OF_SGD = 4.0


def noise_of_sgd(steps: int) -> float:
    """Return the noise in units of the canary's contribution, which is half of the sensitivity."""
    return 2 * gaussian_std(EPSILON_OF_SGD, DELTA) * math.sqrt(steps)


CONVERTED = goldstein.GoldsteinParameters(
    num_examples=200, dim=1, radius=1.0, lipschitz=1.0, num_steps=8, largest_move=0.1, step_size=0.05, window=4,
    period=8, first_batch=1, batch=1, noise_multiplier=2.0, difference_multiplier=None, order="zeroth", directions=2,
    first_directions=None, slack=0.5, independent=False, failure=0.0, origin="the attack",
)  # fmt: skip


def _converted(choice: goldstein.GoldsteinParameters, side: float, canary: Tensor, streams: Streams) -> Any:
    """Return the releases and their points, `(steps, runs)` each, and the claimed guarantee."""
    x = torch.full((len(streams), 1), 5.0, dtype=torch.float64)
    released, places = torch.zeros(2, choice.num_steps, len(x), dtype=torch.float64)
    state: Any = mock.Mock(x=x.clone())

    def seen(going: Tensor, after: Any, estimate: Any) -> None:
        step = int(after.steps.max()) - 1
        released[step, going], places[step, going] = estimate.gradient[:, 0], state.x[going, 0]
        state.x[going] = after.x

    bowl = Bowl(side, choice.num_examples, canary)
    runs = goldstein.online_to_nonconvex(bowl, choice, x, streams, delta=DELTA, observe=seen)
    return released, places, runs.guarantees[0]


def converted_once(included: bool, streams: Streams) -> tuple[Tensor, Guarantee]:
    """Run one-pass online-to-nonconvex with the canary in the first batch, on which all later releases depend."""
    canary = shuffled(torch.zeros(len(streams), 1, dtype=torch.int64), 200, streams, ORDER_PURPOSE)[:, 0]
    released, _, claim = _converted(CONVERTED, 2.0 * included - 1, canary, streams)
    return tree_score(released, 2 * CONVERTED.first_bound, CONVERTED.noise_multiplier), claim


def converted_often(included: bool, streams: Streams) -> tuple[Tensor, Guarantee]:
    """Run multi-pass online-to-nonconvex, in which every reset and every increment uses the canary."""
    noise, later_noise, period, steps, n = 2.0, 8**0.5, 3, 6, 4
    choice = replace(
        CONVERTED, num_examples=n, num_steps=steps, window=2, period=period, order="first",
        noise_multiplier=noise, difference_multiplier=later_noise,
    )  # fmt: skip
    released, places, claim = _converted(
        choice, 2.0 * included - 1, torch.zeros(len(streams), dtype=torch.int64), streams
    )
    score = torch.full_like(released[0], 0.5)
    for step in range(steps):
        if step % period == 0:  # in units of the sensitivity, so that the shift is 1
            score += released[step] * n / (2 * choice.first_bound) / noise**2
        else:
            value = (released[step] - released[step - 1]) * (places[step] - places[step - 1]).sign()
            score += value * n / (2 * choice.smoothness * choice.least_move) / later_noise**2
    return score, claim


def plain_spider(included: bool, streams: Streams) -> tuple[Tensor, Guarantee]:
    x, turn, first, later = origin(streams, 1.0), 3, 5, 2
    problem = Signal.in_turn(2.0 * included - 1, 100, turn, len(x))
    budget = torch.full((len(x),), 0.5 * (1 + 1e-9), dtype=torch.float64)
    oracle = Spider(
        DataSetSamples(problem), Gaussian(), 1.0, budget, Refresh.every(4), BatchSizes(first, later), 1.0, 1.0
    )
    method, seen = Descent(0.1), Turn(problem, x, (1.0, first), (1.0, later))
    state: Any = drive(method, oracle, method.init(x, oracle), streams, turn + 1, observe=seen)
    return seen.found / 2 + 0.5, oracle.guarantee(state.oracle, DELTA, streams)[0]


def mechanism(made: Callable[[], Any], noise: float, steps: int, included: bool, streams: Streams) -> Any:
    """Score a mechanism with Gaussian noise of any covariance, whose first term the canary changes; and its claim."""
    unit_draws = UnitRuns(torch.zeros(steps + 1, 2))
    plain, _ = _terms(made(), noise, steps, False, unit_draws)
    moved, _ = _terms(made(), noise, steps, True, unit_draws)
    pair = GaussianPair(plain[0], moved[0] - plain[0], plain[1:] - plain[0])
    released, ledger = _terms(made(), noise, steps, included, streams)
    return pair.score(released), account(events_of(ledger, 0), DELTA)


def _terms(made: Any, noise: float, steps: int, included: bool, streams: Any) -> tuple[Tensor, Ledger]:
    runs = len(streams.keys)
    ones, ledger, outputs = torch.ones(runs, dtype=torch.float64), Ledger(), []
    state = made.init(torch.zeros(runs, 1, dtype=torch.float64))
    for step in range(steps):
        value = torch.full((runs, 1), float(included and step == 0), dtype=torch.float64)
        answer = Sensitive(value, ones, Relation.ZERO_OUT, "proved", FRESH)
        call = torch.full((runs,), step)
        state, released, price = made.release(
            state, Request(answer, noise * ones, call, ones.bool(), call == 0), streams
        )
        ledger.add(price)
        outputs.append(released)
    return torch.cat(outputs, 1), ledger


def once(made: Any, noise: float, included: bool, streams: Streams) -> tuple[Tensor, Guarantee]:
    """Return one release of one number, which is its own score."""
    released, ledger = _terms(made, noise, 1, included, streams)
    return released[:, 0], account(events_of(ledger, 0), DELTA)


def asked(included: bool, streams: Streams) -> tuple[Tensor, Guarantee]:
    selection = AboveThreshold(EPSILON, 0.0, 1.0, Relation.REPLACE_ONE)
    every = torch.ones(len(streams), dtype=torch.bool)
    state, price = selection.begin(selection.init(streams), streams, every)
    yes = every
    for margin in margins(included):
        value = torch.full((len(every), 1), margin, dtype=torch.float64)
        question = Sensitive(value, every.double(), Relation.REPLACE_ONE, "proved")
        state, yes = selection.ask(state, question, streams, every)
    return yes.double(), account(events_of(Ledger([price]), 0), DELTA)


def selected(included: bool, streams: Streams) -> tuple[Tensor, Guarantee]:
    sizes: dict[str, Any] = {"hessian_lipschitz": 1.0, "norm_bound": 1.0, "smoothness": 1.0, "num_examples": 1000}
    search = Search(EPSILON, 0.1, **sizes, num_candidates=QUESTIONS, failure=0.1)
    most = search.alpha + search.gradient_slack
    candidates = [torch.full((len(streams), 1), margin, dtype=torch.float64) for margin in margins(included)]
    found = select_stationary_point(
        search, candidates, lambda x: most - search.gradient_sensitivity * x[:, 0], lambda x: x[:, 0] * 0 + 1e9, streams
    )
    return (found.index == QUESTIONS - 1).double(), search.guarantee([], NOTHING, streams)


def _loudness(made: Tree | BandedSquareRoot) -> float:
    """Return the noise at which all releases together equal one Gaussian release with noise multiplier 1."""
    return math.sqrt(2 * made.max_cost(1.0))


def doors() -> dict[str, Door]:
    """Return all doors by name."""
    sgd, most = partial(partial, descended), Sampling.fixed_size(7, 8)
    few = partial(Door, least_runs=2000)  # the time of these guarantees grows with the square of the number of runs
    replace_one, zero_out, poisson = Relation.REPLACE_ONE, Relation.ZERO_OUT, Sampling.poisson(0.5)
    by_size, whole = (sampled(replaced_ratio, -1.0, rate, 4.0, steps) for rate, steps in ((7 / 8, 8), (1.0, 4)))
    escapes = (drift_escape.drift_escape,)
    sums = {"Tree": Tree(8), "Tree, optimal": Tree(8, optimal=True), "BandedSquareRoot": BandedSquareRoot(8, 3)}
    found = {
        "private_gradient_descent": Door((private_gradient_descent,), scheduled, normal(1.0)),
        "ClippedGradient, replaced": Door((ClippedGradient,), turned_around, normal(1.0)),
        "clipped_noisy_sgd, Poisson, zero-out": few(
            (clipped_noisy_sgd, MinibatchGradient), sgd(clipped_noisy_sgd, poisson, zero_out, 1.0, 3),
            sampled(zero_out_ratio, 0.0, 0.5, 1.0, 3),
        ),
        "clipped_noisy_sgd, Poisson, add-or-remove": few(
            (clipped_noisy_sgd,), sgd(clipped_noisy_sgd, poisson, Relation.ADD_OR_REMOVE, 1.0, 2),
            sampled(zero_out_ratio, 0.0, 0.5, 1.0, 2),
        ),
        "clipped_noisy_sgd, fixed size": few(
            (clipped_noisy_sgd,), sgd(clipped_noisy_sgd, most, replace_one, 4.0, 8), by_size
        ),
        "noisy_sgd, fixed size": few((noisy_sgd,), sgd(noisy_sgd, most, replace_one, 4.0, 8), by_size),
        "noisy_sgd, whole": few((noisy_sgd,), sgd(noisy_sgd, WHOLE, replace_one, 4.0, 4), whole),
        "noisy_sgd_on_fresh_data": few((noisy_sgd_on_fresh_data, FreshGradient), fresh, normal(1.0)),
        "train": Door((train,), trained, normal(1.0), least_runs=100),
        "stochastic_spider": Door((adaptive_batch.stochastic_spider, Spider), with_tree, normal(1.0)),
        "drift_escape, first batch": Door(escapes, partial(escaping, 0, 1e-9), normal(1.0)),
        "drift_escape, later batch": Door(escapes, partial(escaping, 4, 1e-9), normal(1.0)),
        "drift_escape, among attempts": Door(escapes, partial(escaping, 5, 1.0), normal(1.0)),
        "a client, first batch": Door((Clients, distributed_drift_escape), partial(client, 0), normal(1.0)),
        "a client, later batch": Door((Clients, distributed_drift_escape), partial(client, 4), normal(1.0)),
        "a client, asked about models": Door((distributed_selection,), told, normal(1.0)),
        "a trusted server, asked about models": Door(
            (trusted_selection,), told_by_a_trusted_server, searched, half_the_laplace_noise
        ),
        "a client of DP-SGD": few(
            (distributed_noisy_sgd,), partial(one_of_sgd, 4), sampled(replaced_ratio, -1.0, 1.0, noise_of_sgd(4), 4)
        ),
        "online_to_nonconvex, one pass": Door((goldstein.online_to_nonconvex,), converted_once, normal(1.0)),
        "online_to_nonconvex, many passes": Door((goldstein.online_to_nonconvex,), converted_often, normal(1.0)),
        "Spider, plain": Door((Spider,), plain_spider, normal(1.0)),
        "Gaussian": Door((Gaussian,), partial(mechanism, Gaussian, 1.0, 3), normal(1.0)),
        **{
            name: Door((type(made),), partial(mechanism, lambda made=made: made, _loudness(made), 8), normal(1.0))
            for name, made in sums.items()
        },
        "Laplace": Door(
            (Laplace,), partial(once, Laplace(), 1.0),
            lambda included, scale, runs, draw: included + scale * draw.laplace(scale=0.5**0.5, size=runs),
            half_the_laplace_noise,
        ),
        "AboveThreshold": Door((AboveThreshold,), asked, searched, half_the_laplace_noise),
        "select_stationary_point": Door((select_stationary_point,), selected, searched, half_the_laplace_noise),
    }  # fmt: skip
    if find_spec("opendp") is not None:
        attack = partial(once, discrete.DiscreteGaussian(), 1.0)
        half = half_the_discrete_noise
        found["DiscreteGaussian"] = Door((discrete.DiscreteGaussian,), attack, normal(1.0), half, least_runs=500)
    return found
