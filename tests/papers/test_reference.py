"""Two implementations of each algorithm, the library's and its plain reference, compared on the same draws.

`CASES` gives the number of steps of each path, the allowed difference, and whether the paths must agree to the bit. A
mutated line on either side makes the comparison fail, and every line that can run as printed affects the result.
"""

import ast
import inspect
import math
import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import islice, zip_longest
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor

from dpnotes.core import FRESH, Constant, Relation, Request, Sampling, Sensitive, Status
from dpnotes.methods import descent, drift_escape, online_to_nonconvex, spider_descent
from dpnotes.methods.drift_escape import Repeat
from dpnotes.oracles import blocks, clients, clipped, holdings, minibatch, samples, smoothed, spider
from dpnotes.oracles.batches import draw
from dpnotes.oracles.blocks import Blocks
from dpnotes.oracles.holdings import ClientSamples
from dpnotes.oracles.samples import (
    DIRECTIONS_PURPOSE,
    ORDER_PURPOSE,
    PREVIOUS_PURPOSE,
    PURPOSE,
    DataSetSamples,
    VirtualSamples,
    WrittenOut,
    shuffled,
)
from dpnotes.papers.adaptive_batch import algorithms as adaptive
from dpnotes.papers.adaptive_batch import reference as adaptive_reference
from dpnotes.papers.budget_schedules import algorithms as schedules
from dpnotes.papers.budget_schedules import reference as schedules_reference
from dpnotes.papers.drift_escape import algorithms as escape
from dpnotes.papers.drift_escape import derivatives as model_derivatives
from dpnotes.papers.drift_escape import reference as escape_reference
from dpnotes.papers.drift_escape import selection as model_selection
from dpnotes.papers.drift_escape.distributed import distributed_drift_escape
from dpnotes.papers.goldstein import algorithms as goldstein
from dpnotes.papers.goldstein import reference as goldstein_reference
from dpnotes.papers.noisy_sgd import algorithms as noisy
from dpnotes.papers.noisy_sgd import reference as noisy_reference
from dpnotes.privacy import filter as filters
from dpnotes.privacy import mechanisms, search, selection, tree
from dpnotes.privacy.calibration import gaussian_std
from dpnotes.privacy.mechanisms import laplace
from dpnotes.privacy.museum import module_with_line_replaced
from dpnotes.privacy.noise import FixedNoise
from dpnotes.privacy.schedules import exponential
from dpnotes.problems.custom import CustomProblem
from dpnotes.problems.separable import Cosine, Separable, Sine
from dpnotes.problems.virtual import VirtualData
from dpnotes.random.streams import Streams
from tests.attack.mutants import Mutant, mutants_of

DIM, ENOUGH = 3, 10**4
STREAMS = Streams.of("reference", ["run"])
ORIGIN = torch.zeros(DIM, dtype=torch.float64)
START = torch.tensor([0.5, -1.0, 2.0], dtype=torch.float64)
MARGIN = 1 + 2.0**-40  # of `oracles.spider`, whose noise exceeds the multiplier by this factor

Record = dict[str, Any]  # from a name to a number, a vector or a decision
Path = Iterable[Record]  # the last record holds the reason for the end, unless the path was stopped


def normal(purpose: str, call: int) -> Tensor:
    return STREAMS.normal(purpose, call, DIM)[0]


# ---------------------------------------------------------------- what is minimised
@dataclass(frozen=True, eq=False)
class Hills:
    """The losses `sum_k cos x_k + a_k sin x_k`, with an a per example, `(examples, dim)`; a problem of the library."""

    a: Tensor
    dim: int = DIM
    keeps_examples_apart: bool = True
    constants: dict[str, Constant] = field(default_factory=dict)

    @property
    def num_examples(self) -> int:
        return len(self.a)

    def gradients(self, x: Tensor, examples: Tensor | None = None) -> WrittenOut:
        return WrittenOut(self.of(x[:, None], examples))

    def of(self, x: Tensor, examples: Tensor | None = None) -> Tensor:
        """Return the gradients of examples at `x` `(..., dim)`."""
        return -x.sin() + (self.a if examples is None else self.a[examples]) * x.cos()

    def take(self, index: Tensor) -> "Hills":
        return self


def hills(num_examples: int) -> tuple[Hills, Callable[..., Tensor]]:
    a = 0.6 * Streams.of("hills", ["a"]).normal("a", 0, num_examples * DIM).view(-1, DIM)
    return Hills(a), Hills(a).of


def in_order(gradients: Callable[..., Tensor], num_examples: int) -> Callable[..., Tensor]:
    """Return the gradients by position in the order in which `DataSetSamples` visits the examples."""
    order = shuffled(torch.arange(num_examples)[None], num_examples, STREAMS, ORDER_PURPOSE)[0]
    return lambda x, places: gradients(x, order[torch.tensor(places) % num_examples])


POPULATION = VirtualData(Separable([(Cosine(1.0), DIM)]), Separable([(Sine(0.5), DIM)]))


def virtual() -> Callable[..., Tensor]:
    """Return the mean gradient of a `VirtualSamples` batch as that of one example; new positions mean the next call."""
    seen: list[int] = []

    def gradients(x: Tensor, places: range) -> Tensor:
        seen.extend({places.start} - {*seen})
        size = torch.tensor([float(len(places))], dtype=torch.float64)
        return POPULATION.fresh(size, STREAMS, PURPOSE, seen.index(places.start)).gradient(x[None])

    return gradients


# ---------------------------------------------------------------- paths
def walked(steps: Iterator[Any], *names: str, **also: Callable[[Any], Any]) -> Iterator[Record]:
    """Yield the fields with these names of a reference's steps, and finally its return value."""
    while True:
        try:
            step = next(steps)
        except StopIteration as stop:
            yield {"end": stop.value}
            return
        yield {name: getattr(step, name) for name in names} | {name: of(step) for name, of in also.items()}


class Watch:
    """An observer of the library's single run, which records every release."""

    def __init__(self, **of: Callable[..., Any]) -> None:
        self.of, self.records = of, list[Record]()

    def __call__(self, going: Tensor, state: Any, estimate: Any) -> None:
        if estimate.status[0] == Status.OK:
            self.records.append({name: of(state, estimate) for name, of in self.of.items()})

    def path(self, runs: Any) -> list[Record]:
        status = Status(int(runs.state.status[0]))
        return self.records if status == Status.OK else [*self.records, {"end": (status.name, runs.x[0])}]


def released(state: Any, estimate: Any) -> Tensor:
    return estimate.gradient[0]


def rho(state: Any, estimate: Any) -> float:
    return float(estimate.price.rho()[0])


def point(state: Any, estimate: Any) -> Tensor:
    return state.x[0]


def apart(one: Any, other: Any) -> float:
    """Return the distance of two numbers or vectors; for other values 0 if they are equal, else infinity."""
    if isinstance(one, Tensor | float) or isinstance(other, Tensor | float):
        one, other = torch.as_tensor(one, dtype=torch.float64), torch.as_tensor(other, dtype=torch.float64)
        if one.shape != other.shape:
            return math.inf
        far = float((one - other).abs().max())
        return math.inf if math.isnan(far) else far
    if isinstance(one, tuple) and isinstance(other, tuple) and len(one) == len(other):
        return max(apart(*pair) for pair in zip(one, other, strict=True))
    return 0.0 if one == other else math.inf


def distance(one: Path, other: Path, most: float = math.inf) -> float:
    """Return the largest distance of two paths, computed until it exceeds `most`; infinite if one path ends earlier."""
    far = 0.0
    for left, right in zip_longest(one, other, fillvalue={}):
        far = max(far, *(apart(left[name], right[name]) for name in left)) if left.keys() == right.keys() else math.inf
        if far > most:
            break
    return far


@dataclass(frozen=True)
class Case:
    """A path that the library and a reference both take.

    Args:
      library: computes it by the library.
      reference: computes it with the functions of a module, or of a mutated copy.
      module: the module of the reference.
      functions: the functions of the reference that the path uses.
      steps: the number of steps.
      within: the largest distance of the two paths; 0 means equal to the bit.
    """

    library: Callable[[], Path]
    reference: Callable[[Any], Path]
    module: ModuleType
    functions: tuple[str, ...]
    steps: int
    within: float = 1e-10


# ---------------------------------------------------------------- budget_schedules
SPREAD, FIFTY = hills(50), exponential(0.9, 0.05, 40)


def library_descends(momentum: float, share: float) -> Path:
    noise = FixedNoise.of([FIFTY])
    noise = FixedNoise(noise.multipliers, noise.num_steps, share * noise.budget)
    watch = Watch(
        g=released,
        x=point,
        m=lambda state, estimate: state.average[0] if momentum else estimate.gradient[0],
        paid=lambda *step: 2 * rho(*step),
        left=lambda state, _: float(2 * (noise.budget - state.oracle.meter.spent)[0]),
    )
    return watch.path(
        schedules.private_gradient_descent(
            SPREAD[0], noise, START[None], STREAMS, clip=1.3, step_size=0.3, delta=1e-6, momentum=momentum,
            observe=watch, max_steps=100,
        )
    )  # fmt: skip


def reference_descends(module: Any, momentum: float, share: float, **more: Any) -> Path:
    steps = module.private_gradient_descent(
        SPREAD[1], START, FIFTY.noise_multipliers.tolist(), 2 * share * FIFTY.rho, 1.3, 0.3,
        lambda t: normal("gaussian mechanism", t - 1), momentum, **more,
    )  # fmt: skip
    return walked(steps, "g", "x", "m", "paid", "left")


# ---------------------------------------------------------------- noisy_sgd
FIXED, POISSON = Sampling.fixed_size(10, 50), Sampling.poisson(0.2)


def library_samples(clip: bool, sampling: Sampling) -> Path:
    door = noisy.clipped_noisy_sgd if clip else noisy.noisy_sgd
    relation = Relation.REPLACE_ONE if sampling == FIXED else Relation.ZERO_OUT
    choice = noisy.NoiseChoice(0.2, 1.0, 1e-6, "by hand")
    of = {"g": released, "x": point, "paid": rho}
    left = lambda state, _: budget - float(state.oracle.meter.spent[0])  # noqa: E731
    budget = 40 * ((2 if sampling == FIXED else 1) * 1.3 / 10 / 0.2) ** 2 / 2
    longer = {} if clip else {"longer": lambda state, _: int(state.oracle.meter.exceeded[0])}
    watch = Watch(**of, left=left, **longer)
    return watch.path(
        door(
            SPREAD[0], [choice], START[None], STREAMS, sampling=sampling, norm_bound=1.3, step_size=0.3, num_steps=40,
            delta=1e-6, relation=relation, observe=watch,
        )
    )  # fmt: skip


def reference_samples(module: Any, clip: bool, sampling: Sampling, **more: Any) -> Path:
    def batch(t: int) -> Tensor:
        drawn = draw(sampling, 50, STREAMS, "minibatch: examples", torch.tensor([t]))
        assert drawn.examples is not None
        return drawn.examples[0][drawn.present[0]]

    function, seen = (module.clipped_noisy_sgd if clip else module.noisy_sgd), [0]

    def longer(step: Any) -> int:
        seen[0] += step.private_longer
        return seen[0]

    steps = function(
        SPREAD[1], START, batch, 10, 40, 1.3, 0.2, 0.3, lambda t: normal("gaussian mechanism", t),
        moves=2.0 if sampling == FIXED else 1.0, **more,
    )  # fmt: skip
    return walked(steps, "g", "x", "paid", "left", **({} if clip else {"longer": longer}))


# ---------------------------------------------------------------- selection
SOUGHT: dict[str, Any] = {"epsilon": 0.5, "alpha": 0.01, "k": 6, "beta": 0.05}
SIZES: dict[str, Any] = {"rho": 0.5, "C": 1.5, "L": 0.8, "n": 10**5}


def laplace_of(purpose: str) -> Callable[[str, int], float]:
    return lambda kind, call: float(laplace(STREAMS, f"{purpose}: {kind}", call)[0])


def close(purpose: str, threshold: float, sensitivity: float) -> list[float]:
    """Return six values a billionth from the threshold: the noise leaves five below it and lifts the last above it."""
    noise = laplace_of(purpose)
    level = threshold + 2 * sensitivity / 0.5 * noise("threshold", 0)
    just = [level - 4 * sensitivity / 0.5 * noise("question", i) for i in range(6)]
    return [value - 1e-9 for value in just[:5]] + [just[5] + 1e-9]


VALUES = close("above threshold", 10.0, 1.5)


def library_asks() -> Path:
    asked = selection.AboveThreshold(0.5, 10.0, 1.5, Relation.REPLACE_ONE)
    everyone, records = torch.tensor([True]), list[Record]()
    state, price = asked.begin(asked.init(STREAMS), STREAMS, everyone)
    for place, value in enumerate(VALUES):
        number = torch.tensor([[value]], dtype=torch.float64)
        question = Sensitive(number, torch.ones(1), Relation.REPLACE_ONE, "proved")
        state, yes = asked.ask(state, question, STREAMS, everyone)
        records.append({"yes": bool(yes), "paid": 0.0 if place else float(price.rho()), "left": 0.0})
        if bool(state.halted):
            break
    return [*records, {"end": ("FINISHED", len(records) - 1)}]


def reference_asks(module: Any) -> Path:
    return walked(module.above_threshold(VALUES, 10.0, 1.5, 0.5, laplace_of("above threshold")), "yes", "paid", "left")


MARGINS = close("search: stationary point", 0.0, 1.0)
_SLACK = 8 * math.log(6 * 2 / 0.05) / 0.5
# The norm decides at every second point and the eigenvalue at the others; both are close at the last point.
NORMS = [0.01 + 3e-5 * (_SLACK - m - 99 * (i % 2) * (i < 5)) for i, m in enumerate(MARGINS)]
EIGENVALUES = [-(0.005**0.5) + 1.6e-5 * (m + 99 * (1 - i % 2) * (i < 5) - _SLACK) for i, m in enumerate(MARGINS)]


def library_selects() -> Path:
    named = {"hessian_lipschitz": 0.5, "norm_bound": 1.5, "smoothness": 0.8, "num_examples": 10**5}
    sought = search.Search(epsilon=0.5, alpha=0.01, **named, num_candidates=6, failure=0.05)
    places = [torch.tensor([[float(place)]]) for place in range(6)]
    found = search.select_stationary_point(
        sought, places, lambda x: torch.tensor([NORMS[int(x)]], dtype=torch.float64),
        lambda x: torch.tensor([EIGENVALUES[int(x)]], dtype=torch.float64), STREAMS,
    )  # fmt: skip
    asked, index = int(found.asked), int(found.index) if bool(found.found) else None
    prices = [float(found.price.rho()), *[0.0] * (asked - 1)]
    answers = [{"yes": place == index, "paid": prices[place], "left": 0.0} for place in range(asked)]
    return [*answers, {"end": ("FINISHED", index)}]


def reference_selects(module: Any) -> Path:
    points = range(6)
    steps = module.select_stationary_point(
        points, NORMS.__getitem__, EIGENVALUES.__getitem__, **SOUGHT, **SIZES,
        laplace=laplace_of("search: stationary point"),
    )  # fmt: skip
    return walked(steps, "yes", "paid", "left")


# ---------------------------------------------------------------- the tree
TERMS = Streams.of("terms", ["run"]).normal("terms", 0, 45 * DIM).view(45, DIM)


def library_sums() -> Path:
    mechanism, total, records = tree.Tree(45), ORIGIN, list[Record]()
    state = mechanism.init(ORIGIN[None])
    for call, term in enumerate(TERMS):
        answer = Sensitive(term[None], torch.tensor([0.3], dtype=torch.float64), Relation.REPLACE_ONE, "proved", FRESH)
        asked = Request(answer, torch.tensor([2.0]).double(), torch.tensor([call]), torch.tensor([True]))
        state, value, price = mechanism.release(state, asked, STREAMS)
        total = total + value[0]
        blocks = [2**level for level in reversed(range(6)) if (call + 1) >> level & 1]  # the step in binary
        records.append({"released": total, "paid": float(price.rho()), "left": 44 - call, "blocks": blocks})
    return [*records, {"end": ("FINISHED", total)}]


def reference_sums(module: Any, **more: Any) -> Path:
    noise = lambda end: normal("tree mechanism", end - 1)  # noqa: E731
    steps = module.tree_mechanism(TERMS, 45, 2.0, 0.3, noise, **more)
    return walked(steps, "released", "paid", "left", blocks=lambda step: [v - u + 1 for u, v in step.blocks])


# ---------------------------------------------------------------- adaptive_batch
MANY = hills(3000)


@dataclass(frozen=True)
class Spider:
    """Parameters and data for Algorithm 2 of adaptive_batch."""

    parameters: adaptive.AdaptiveBatchParameters
    x: Tensor
    virtual: bool
    as_printed: bool = False
    total: int = 3000


def of_data(**more: Any) -> adaptive.AdaptiveBatchParameters:
    given: dict[str, Any] = {
        "accuracy": 0.1, "gradient_bound": 1.0, "smoothness": 1.25, "hessian_lipschitz": 1.0, "drift_threshold": 0.6,
        "first_batch": 60.5, "batch_per_gradient": 150.0, "noise_multiplier": 1.5, "num_steps": 120, "step_size": 0.8,
        "threshold": 0.3, "window": 4.5, "perturbation": 0.2, "max_leaves": 13, "origin": "by hand",
    }  # fmt: skip
    return adaptive.AdaptiveBatchParameters(**given | more)


OF_POPULATION = of_data(
    gradient_bound=4.0, smoothness=4.0, step_size=0.25, num_steps=120, first_batch=1e5, batch_per_gradient=3e4,
    threshold=0.2, window=20.0, noise_multiplier=15.0, perturbation=0.1, drift_threshold=4.0, max_leaves=64,
)  # fmt: skip


def library_spiders(setting: Spider) -> Path:
    source = VirtualSamples(POPULATION, setting.total) if setting.virtual else DataSetSamples(MANY[0])
    fires: list[int] = [0]

    def saddle(state: Any, _: Any) -> bool:
        fires.append(int(state.perturbations[0]))
        return fires[-1] > fires[-2]

    watch = Watch(
        estimate=released, x=point, paid=rho, saddle=saddle,
        fresh=lambda state, _: int(state.oracle.memory.terms[0]) == 1,
        left=lambda state, _: setting.total - int(state.oracle.meter.used[0]),
    )  # fmt: skip
    return watch.path(
        adaptive.stochastic_spider(
            source, setting.parameters, setting.x[None], STREAMS, delta=1e-6, observe=watch,
            as_printed=setting.as_printed,
        )
    )  # fmt: skip


def spider_steps(module: Any, setting: Spider, printed: frozenset[int] = frozenset(), **more: Any) -> Iterator[Any]:
    p = setting.parameters
    given: dict[str, Any] = {
        "gradients": virtual() if setting.virtual else in_order(MANY[1], 3000), "x": setting.x, "n": setting.total,
        "T": p.num_steps, "b": p.first_batch, "c": p.batch_per_gradient, "kappa": p.drift_threshold,
        "sigma": p.noise_multiplier * p.term_sensitivity * MARGIN, "Sigma": p.max_leaves, "G": p.gradient_bound,
        "M": p.smoothness, "threshold": p.threshold, "Gamma": p.window, "zeta": p.perturbation,
        "noise": lambda i: normal("tree mechanism", i - 1),
        "kick": lambda t: normal("spider descent: saddle perturbation", t),
    }  # fmt: skip
    return module.stochastic_spider(**given | more, printed=printed | ({9, 10} if setting.as_printed else set()))


def reference_spiders(module: Any, setting: Spider) -> Path:
    return walked(spider_steps(module, setting), "estimate", "x", "paid", "saddle", "fresh", "left")


# ---------------------------------------------------------------- goldstein
@dataclass(frozen=True)
class Conversion:
    """Parameters for Algorithm 2 of goldstein with one of its oracles, and the number of examples."""

    parameters: goldstein.GoldsteinParameters
    examples: int

    @property
    def function(self) -> str:
        asked = "losses" if self.parameters.order == "zeroth" else "gradients"
        return f"{'multi' if self.multi else 'single'}_pass_from_{asked}"

    @property
    def multi(self) -> bool:
        return self.parameters.difference_multiplier is not None


def converted(many: bool, examples: int, **more: Any) -> Conversion:
    """Return parameters at which some estimates and some increments are clipped."""
    given: dict[str, Any] = {
        "num_examples": 60 if many else 300, "dim": DIM, "radius": 0.4, "lipschitz": 1.0, "num_steps": 30,
        "largest_move": 0.08, "step_size": 0.1, "window": 5, "period": 6, "first_batch": 7, "batch": 3,
        "noise_multiplier": 2.0, "difference_multiplier": 3.0 if many else None, "order": "zeroth", "directions": 6,
        "first_directions": None, "slack": 0.25, "independent": False, "failure": 0.0, "origin": "by hand",
    }  # fmt: skip
    return Conversion(goldstein.GoldsteinParameters(**given | more), examples)


CENTRES = 0.6 * Streams.of("centres", ["a"]).normal("a", 0, 300 * DIM).view(-1, DIM)


def library_converts(setting: Conversion) -> Path:
    problem = CustomProblem(lambda x, a: (x - a).norm(), DIM, CENTRES[: setting.examples])
    used = lambda state: int(state.oracle.meter.used[0])  # noqa: E731
    live = lambda leaf: [2**level for level in reversed(range(9)) if leaf >> level & 1]  # noqa: E731
    watch = Watch(
        g=released, paid=rho, blocks=lambda state, _: [] if setting.multi else live(int(state.oracle.memory.terms[0])),
        x=lambda state, _: state.iterate[0], z=lambda state, _: state.oracle.memory.point[0],
        Delta=lambda state, _: state.move[0], average=lambda state, _: state.average[0],
        windows=lambda state, _: int(state.windows[0]), fresh=lambda state, _: int(state.oracle.memory.terms[0]) == 1,
        left=lambda state, _: setting.examples - used(state),
        queries=lambda _, estimate: int(estimate.num_gradients[0]) + int((estimate.num_evaluations or [0])[0]),
    )  # fmt: skip
    return watch.path(
        goldstein.online_to_nonconvex(
            problem, setting.parameters, START[None], STREAMS, delta=1e-6, observe=watch, max_steps=100
        )
    )


def drawn_points(setting: Conversion, t: int, examples: int, count: int, where: str = "ball of radius alpha") -> Tensor:
    """Return the directions of query t; those beyond m are for the other point."""
    p, found = setting.parameters, []
    width, many = DIM if where == "sphere" else DIM + 2, min(count, setting.parameters.directions)
    assert count in (many, 2 * many)
    for purpose in (DIRECTIONS_PURPOSE, PREVIOUS_PURPOSE)[: count // many]:
        numbers = STREAMS.normal(purpose, t - 1, examples * many * width).view(examples, many, width)
        found.append((numbers / numbers.norm(dim=2, keepdim=True))[..., :DIM])
    return torch.cat(found, 1) * (p.radius if where.endswith("alpha") else 1.0)


def conversion_steps(module: Any, setting: Conversion, printed: frozenset[int] = frozenset(), **more: Any) -> Any:
    """Return the steps of Algorithm 2; `printed` holds line numbers of its oracle."""
    p, own = setting.parameters, (CENTRES[: setting.examples],)
    order = shuffled(torch.arange(setting.examples)[None], setting.examples, STREAMS, ORDER_PURPOSE)[0]
    away = lambda at, places: at - own[0][order[torch.tensor(places)]][:, None]  # noqa: E731
    move = 2 * p.largest_move * (1 + 2.0**-10)
    kappa = smoothed.ball_smoothness(DIM)
    clip = {"C1": p.first_bound, "C2": 1.25 * kappa / p.radius * move}
    given: dict[str, Any] = {"n": setting.examples, "Sigma": p.period, "m": p.directions, **clip}
    given |= {"y": partial(drawn_points, setting)}
    if setting.multi:
        stds = (
            p.noise_multiplier * 2 * clip["C1"] / p.num_examples,
            (p.difference_multiplier or 0) * 2 * clip["C2"] / 60,
        )
        given |= {"sigma1": stds[0] * MARGIN, "sigma2": stds[1] * MARGIN}
        given |= {"noise": lambda t: normal("gaussian mechanism", t - 1)}
    else:
        largest = 2 * max(clip["C1"] / p.first_batch, clip["C2"] / p.batch * (p.period > 1))
        given |= {"B1": p.first_batch, "B2": p.batch, "sigma": p.noise_multiplier * largest * MARGIN}
        given |= {"noise": lambda i: normal("tree mechanism", i - 1)}
    if p.order == "zeroth":
        given |= {"losses": lambda at, places: away(at, places).norm(dim=2), "alpha": p.radius}
    else:
        given |= {"gradients": lambda at, places: torch.nn.functional.normalize(away(at, places), dim=2)}
    lines = printed | ({11 if p.order == "first" else 13 if setting.multi else 14} if p.independent else set())
    oracle = partial(getattr(module, setting.function), **given | more, printed=lines)
    uniform = lambda purpose, t: float(STREAMS.uniform(f"online to nonconvex: {purpose}", t, 1))  # noqa: E731
    return module.o2nc(
        oracle, START, p.largest_move, p.step_size, p.window, p.num_steps,
        s=lambda t: uniform("point of a move", t - 2) if t > 1 else 0.5, lot=lambda t: uniform("window", t - 1),
    )  # fmt: skip


def reference_converts(module: Any, setting: Conversion) -> Path:
    names = ("g", "paid", "x", "z", "Delta", "average", "windows", "fresh", "left", "queries")
    blocks = lambda step: [v - u + 1 for u, v in step.blocks]  # noqa: E731
    return walked(conversion_steps(module, setting), *names, blocks=blocks)


# ---------------------------------------------------------------- drift_escape
@dataclass(frozen=True)
class Escape:
    """Parameters and data for Algorithms 1 and 2 of drift_escape."""

    parameters: escape.DriftEscapeParameters
    x: Tensor
    virtual: bool
    repeat: Repeat = "refresh"
    total: int = 3000

    @property
    def as_printed(self) -> bool:
        """True if lines 9 and 21 of Algorithm 1 run as printed."""
        return self.repeat == "go on"


def escapes(
    bound: float, attempts: int = 3, threshold: float = 0.5, drift: float = 0.05, radius: float = 0.9
) -> escape.DriftEscapeParameters:
    """Return parameters for gradients of norm and smoothness at most `bound`."""
    return escape.DriftEscapeParameters(
        escape.Escape(
            accuracy=0.2, smoothness=bound, hessian_lipschitz=1.0, step_size=0.4 / bound, threshold=threshold,
            attempt_length=6, radius=radius, attempts=attempts, num_steps=1000, origin="by hand",
        ),
        gradient_bound=bound, drift_threshold=drift, first_batch=90.5, batch=20.0, noise_multiplier=1.5,
        origin="by hand",
    )  # fmt: skip


def library_escapes(setting: Escape) -> Path:
    source = VirtualSamples(POPULATION, setting.total) if setting.virtual else DataSetSamples(MANY[0])
    points, used = [setting.x], [0]

    def asked(state: Any, _: Any) -> Tensor:
        points.append(state.x[0])
        return points[-2]

    def fresh(state: Any, estimate: Any) -> bool:
        used.append(int(state.oracle.meter.used[0]))
        return int(estimate.num_gradients[0]) == used[-1] - used[-2]

    watch = Watch(
        asked=asked, g=released, paid=rho, fresh=fresh, escapes=lambda state, _: int(state.escapes[0]),
        attempt=lambda state, _: (int(state.attempt[0]), int(state.elapsed[0])),
        left=lambda state, _: setting.total - int(state.oracle.meter.used[0]),
    )  # fmt: skip
    return watch.path(
        escape.drift_escape(
            source, setting.parameters, setting.x[None], STREAMS, delta=1e-6, repeat=setting.repeat, observe=watch,
            return_tested=not setting.as_printed,
        )
    )  # fmt: skip


def escape_steps(
    module: Any, setting: Escape, printed: frozenset[int] = frozenset(), of_oracle: frozenset[int] = frozenset()
) -> Iterator[Any]:
    p, e = setting.parameters, setting.parameters.escape
    oracle = partial(
        module.adaptive_dp_spider, gradients=virtual() if setting.virtual else in_order(MANY[1], 3000),
        n=setting.total, b1=p.first_batch, b2=p.batch, kappa=p.drift_threshold, G=p.gradient_bound, M=e.smoothness,
        multiplier=p.noise_multiplier * MARGIN, eta=e.step_size, printed=of_oracle,
        noise=lambda t: normal("gaussian mechanism", t - 1),
    )  # fmt: skip
    return module.drift_escape(
        oracle, setting.x, e.step_size, e.threshold / 3, e.attempts, e.radius, e.attempt_length,
        "restore" if setting.repeat == "restore" else "refresh",
        printed=printed | ({9, 21} if setting.as_printed else set()),
    )  # fmt: skip


def reference_escapes(module: Any, setting: Escape) -> Iterator[Record]:
    t, paid, escaped, rules = 0, 0.0, 0, setting.parameters.escape
    restored = int(setting.repeat == "restore")

    def attempt(step: Any) -> tuple[int, int]:
        """Return the library's attempt and step after this step; after a failed attempt, those of the next attempt."""
        again = step.tau == rules.attempt_length and not step.esc and step.q < rules.attempts
        return (0 if step.esc else step.q + again), restored if again else step.tau

    steps = walked(
        escape_steps(module, setting), "t", "asked", "g", "paid", "fresh", "left", escapes=lambda step: step.esc,
        attempt=attempt,
    )  # fmt: skip
    for record in steps:
        # A step that follows a restored query releases nothing.
        if "end" not in record:
            paid, escaped = paid + record["paid"], escaped + record["escapes"]
        if record.pop("t", t + 1) > t:
            yield record if "end" in record else record | {"paid": paid, "escapes": escaped}
            t, paid = t + 1, 0.0


# The numbers of examples of three clients, their examples, and the keys of their draws.
HELD = 2900, 2500, 3000


def streams_of_client(client: int) -> Streams:
    return Streams(torch.cat(STREAMS.words("client", client, 1)[:2], 1))


def holding(client: int) -> Tensor:
    """Return every third example, starting from the client's own number."""
    return torch.arange(client, 3 * HELD[client], 3)


def library_clients(setting: Escape) -> Path:
    data = hills(9000)[0]
    points = [setting.x]

    def asked(state: Any, _: Any) -> Tensor:
        points.append(state.x[0])
        return points[-2]

    watch = Watch(
        asked=asked, g=released, paid=rho, escapes=lambda state, _: int(state.escapes[0]),
        sent=lambda state, _: state.oracle.memory.gradient[0],
        left=lambda state, _: min(HELD) - int(state.oracle.meter.used[0, 0]),
    )  # fmt: skip
    return watch.path(
        distributed_drift_escape(
            lambda members: ClientSamples.of(data, [holding(client) for client in members], 1), setting.parameters,
            setting.x[None], STREAMS, blocks=Blocks(3, 2), delta=1e-6, repeat=setting.repeat, observe=watch,
        )
    )  # fmt: skip


def client_rounds(
    module: Any, setting: Escape, models: Any, printed: frozenset[int] = frozenset(), n: Any = HELD
) -> Iterator[Any]:
    p, e, of = setting.parameters, setting.parameters.escape, hills(9000)[1]

    def gradients(client: int) -> Callable[..., Tensor]:
        places = torch.arange(HELD[client])[None]
        order = shuffled(places, HELD[client], streams_of_client(client), ORDER_PURPOSE)[0]
        return lambda x, z: of(x, holding(client)[order[torch.tensor(z)]])

    return module.distributed_adaptive_dp_spider(
        models, [gradients(client) for client in range(3)], n, p.first_batch, p.batch, p.drift_threshold,
        p.gradient_bound, e.smoothness, p.noise_multiplier * MARGIN, e.step_size, printed=printed,
        noise=lambda t, j: streams_of_client(j).normal("gaussian mechanism", t - 1, DIM)[0],
    )  # fmt: skip


def reference_clients(module: Any, setting: Escape) -> Iterator[Record]:
    rules, rounds, escaped = setting.parameters.escape, list[Any](), 0

    def oracle(models: Any) -> Iterator[Any]:
        for each in client_rounds(module, setting, models):
            rounds.append(each)
            yield each

    steps = walked(
        module.drift_escape(
            oracle, setting.x, rules.step_size, rules.threshold / 3, rules.attempts, rules.radius, rules.attempt_length
        ),
        "asked", "g", "paid", "left", escapes=lambda step: step.esc, sent=lambda _: rounds[-1].sent,
    )  # fmt: skip
    for record in steps:
        if "end" not in record:
            escaped += record["escapes"]
            record = record | {"escapes": escaped}
        yield record


# ---------------------------------------------------------------- drift_escape: selection
SPECIMENS = torch.tensor([[0.5, -1.0, 2.0], [3.1, 3.2, 0.1], [0.1, 0.0, 0.2], [3.1, 3.2, 3.1]], dtype=torch.float64)


def library_chooses(as_printed: bool) -> Path:
    data = hills(9000)[0]
    chosen = model_selection.Selection(
        0.2, DIM, HELD, 4, 8.0, 1e-5, gradient_bound=1.1, smoothness=1.25, hessian_lipschitz=1.5, failure=0.1
    )

    def derivatives(members: range) -> model_derivatives.ExampleDerivatives:
        own = tuple((data.a[holding(client)],) for client in members)
        return model_derivatives.ExampleDerivatives(lambda x, a: (x.cos() + a * x.sin()).sum(), own, 700)

    found = model_selection.distributed_selection(
        SPECIMENS[:, None], derivatives, chosen, STREAMS, blocks=Blocks(3, 2), as_printed=as_printed
    )
    slack = chosen.printed_slacks if as_printed else (chosen.gradient_slack, chosen.eigenvalue_slack)
    paid, index = 0.5 / chosen.noise_multiplier**2, int(found.index)
    return [
        *(
            {
                "norm": found.norms[t, 0], "eigenvalue": found.eigenvalues[t, 0], "longest": 0.2 + slack[0],
                "least": -(0.3**0.5) - slack[1], "yes": t == index, "paid": paid, "left": (3 - t) * paid,
            }
            for t in range(int(found.asked))
        ),
        {"end": ("FINISHED", index + 1 if bool(found.found) else None)},
    ]  # fmt: skip


def choosing(module: Any, printed: set[int], models: Any, of: Any, n: Any, T: int, noise: Any, **more: Any) -> Any:
    c = 8 * (8.0 * gaussian_std(8.0, 1e-5)) ** 2 / math.log(1e5)
    given: dict[str, Any] = {"alpha": 0.2, "rho": 1.5, "G": 1.1, "M": 1.25, "epsilon": 8.0, "delta": 1e-5, "c": c}
    return module.distributed_model_selection(
        models, [each[0] for each in of], [each[1] for each in of], n, T, **given | more, omega=0.1, noise=noise,
        printed=printed,
    )  # fmt: skip


def reference_chooses(module: Any, as_printed: bool) -> Path:
    data = hills(9000)[0].a

    def derivatives(client: int) -> tuple[Callable[[Tensor], Tensor], ...]:
        own = data[holding(client)]
        return lambda x: -x.sin() + own * x.cos(), lambda x: torch.diag_embed(-x.cos() - own * x.sin())

    noise = lambda t, j: streams_of_client(j).normal("selection: gradient and Hessian", t - 1, 9)[0]  # noqa: E731
    printed = {7} if as_printed else set()
    steps = choosing(module, printed, SPECIMENS, [derivatives(client) for client in range(3)], HELD, 4, noise)
    return walked(
        steps, "longest", "least", "yes", "paid", "left", norm=lambda step: step.gradient.norm(),
        eigenvalue=lambda step: torch.linalg.eigvalsh(step.hessian)[0],
    )  # fmt: skip


# ---------------------------------------------------------------- the table
DATA, SADDLE = Spider(of_data(), START, False), Spider(OF_POPULATION, ORIGIN, True, total=10**9)
SINGLE = Spider(of_data(batch_per_gradient=2.0, noise_multiplier=0.2), START, False)
PRINTED = Spider(of_data(), START, False, True)
# The number of examples is such that none is left after the hundredth step.
EXACTLY = replace(SADDLE, total=10**9 - next(islice(spider_steps(adaptive_reference, SADDLE), 99, None)).left)
DESCENDING = Escape(escapes(4.0, threshold=1e-300), START, True, total=10**9)
ESCAPES: dict[str, tuple[Escape, int]] = {
    "refresh": (Escape(escapes(1.25, drift=50.0), START, False), 29),
    "refresh, from a saddle": (Escape(escapes(4.0, radius=0.3), ORIGIN, True, total=10**9), 81),
    "refresh, until the data are gone": (Escape(escapes(1.25, attempts=40), START, False), 75),
    "restore": (Escape(escapes(1.25), START, False, "restore"), 26),
    "restore, from a saddle": (Escape(escapes(4.0, radius=0.3), ORIGIN, True, "restore", 10**9), 16),
    "go on, 9 and 21 as printed": (Escape(escapes(1.25), START, False, "go on"), 28),
    "go on, descending until the data are gone": (Escape(escapes(1.25, threshold=1e-300), START, False, "go on"), 110),
    "until no example is left": (
        replace(
            DESCENDING,
            total=10**9 - next(islice(escape_steps(escape_reference, DESCENDING), 19, None)).left,
        ),
        20,
    ),
}
CLIENTS: dict[str, tuple[Escape, int]] = {
    "from a slope": (Escape(escapes(1.25), START, False), 29),
    "with differences": (Escape(escapes(1.25, drift=0.5), START, False), 28),
    "until one has no example left": (Escape(escapes(1.25, threshold=1e-300), START, False), 85),
}
CONVERSIONS: dict[str, tuple[Conversion, int]] = {
    "Algorithm 3": (converted(False, 300, period=20), 30),
    "Algorithm 3, until no example is left": (converted(False, 66), 18),
    "Algorithm 3, no window whole": (converted(False, 12), 2),
    "Algorithm 3, line 14 as printed": (converted(False, 300, independent=True), 30),
    "Algorithm 4": (converted(True, 60), 30),
    "Algorithm 4, line 13 as printed": (converted(True, 60, independent=True), 30),
    "Algorithm 5": (converted(False, 300, order="first", first_directions=1, period=5), 30),
    "Algorithm 5, line 11 as printed": (converted(False, 98, order="first", first_directions=1, independent=True), 26),
    "Algorithm 5, a period of one": (
        converted(False, 275, order="first", directions=1, period=1, first_batch=5, num_steps=55),
        55,
    ),
}


def rows(
    title: str, paths: tuple[Callable[..., Path], Callable[..., Path]], module: ModuleType, functions: str,
    settings: dict[str, tuple[Any, ...]], within: float = 1e-10,
) -> dict[str, Case]:  # fmt: skip
    """Return the cases of one algorithm: for each name its arguments, the same for both paths, and its steps."""
    library, reference = paths
    return {
        title + name: Case(
            partial(library, *given), lambda of, given=given: reference(of, *given), module, tuple(functions.split()),
            steps, within,
        )
        for name, (*given, steps) in settings.items()
    }  # fmt: skip


CASES: dict[str, Case] = {
    **rows("", (library_descends, reference_descends), schedules_reference, "private_gradient_descent clipped", {
        "descent": (0.0, 1.0, 40), "momentum, until the budget is gone": (0.9, 0.4, 25),
    }),
    **rows("clipped noisy SGD", (library_samples, reference_samples), noisy_reference, "clipped_noisy_sgd", {
        "": (True, FIXED, 40), ", Poisson": (True, POISSON, 40),
    }),
    **rows("noisy SGD", (library_samples, reference_samples), noisy_reference, "noisy_sgd", {
        "": (False, FIXED, 40), ", Poisson": (False, POISSON, 40),
    }),
    **rows("AboveThreshold", (library_asks, reference_asks), noisy_reference, "above_threshold", {"": (6,)}, 0.0),
    **rows("selection", (library_selects, reference_selects), noisy_reference,
           "select_stationary_point above_threshold", {"": (6,)}, 0.0),
    **rows("model selection", (library_chooses, reference_chooses), escape_reference,
           "distributed_model_selection errors clipped", {"": (False, 4), ", 7 as printed": (True, 4)}),
    **rows("tree", (library_sums, reference_sums), adaptive_reference,
           "tree_mechanism node touched hidden", {"": (45,)}),
    **rows("Stochastic Spider", (library_spiders, reference_spiders), adaptive_reference,
           "stochastic_spider clipped node touched hidden", {"": (DATA, 99)}),
    **rows("Stochastic Spider, ", (library_spiders, reference_spiders), adaptive_reference, "stochastic_spider", {
        "from a saddle": (SADDLE, 120),
        "batches of one": (SINGLE, 99),
        "until no example is left": (EXACTLY, 100),
        "9 and 10 as printed": (PRINTED, 102),
    }),
    **rows("drift escape, ", (library_escapes, reference_escapes), escape_reference,
           "drift_escape adaptive_dp_spider clipped", ESCAPES),
    **rows("clients, ", (library_clients, reference_clients), escape_reference,
           "drift_escape distributed_adaptive_dp_spider clipped", CLIENTS),
}  # fmt: skip
for _name, (_conversion, _steps) in CONVERSIONS.items():
    CASES |= rows(
        "O2NC, ", (library_converts, reference_converts), goldstein_reference,
        f"o2nc {_conversion.function} two_point clipped node touched", {_name: (_conversion, _steps)},
    )  # fmt: skip


@cache
def path(name: str) -> list[Record]:
    return [*CASES[name].library()]


@pytest.mark.parametrize("name", CASES)
def test_the_library_goes_the_path_of_its_reference(name: str):
    case, found = CASES[name], path(name)
    assert len([record for record in found if "end" not in record]) == case.steps
    assert distance(found, case.reference(case.module)) <= case.within


def test_control_a_difference_is_seen_in_numbers_in_decisions_and_at_the_end():
    found = path("Stochastic Spider")
    for place, name, instead in ((70, "estimate", ORIGIN), (70, "fresh", None), (70, "left", 0), (-1, "end", None)):
        broken = [dict(record) for record in found]
        broken[place][name] = instead
        assert distance(found, broken) > 1e-3
    assert distance(found, found[:-1]) == distance(found[:-1], found) == math.inf


# ---------------------------------------------------------------- lines as printed
ONE = torch.ones(1, dtype=torch.float64)


Check = Callable[[Any, set[int]], bool]


def of_schedules(module: Any, printed: set[int], rows: Tensor, sigmas: list[float]) -> list[Any]:
    draws = lambda t: 0 * ONE  # noqa: E731
    given = (lambda x: rows - x, 0 * ONE, sigmas, 1.0, 1.0, 0.1, draws)
    return [*module.private_gradient_descent(*given, printed=printed)]


def long_gradient_moves_the_mean_too_far(module: Any, printed: set[int]) -> bool:
    """Return whether an example with a gradient of norm 50 moves the mean of four by more than G / 4."""
    without, included = torch.zeros(4, 1, dtype=torch.float64), torch.tensor([[50.0], [0], [0], [0]]).double()
    moved = (of_schedules(module, printed, rows, [2.0])[0].g for rows in (included, without))
    return float(next(moved) - next(moved)) > 1 / 4


def last_step_is_lost(module: Any, printed: set[int]) -> bool:
    """Return whether the last of four steps, each at a quarter of the budget, is refused."""
    return len(of_schedules(module, printed, torch.zeros(4, 1).double(), [2.0] * 4)) == 3


def lone_example_moves_the_mean_by_C(function: str) -> Callable[[Any, set[int]], bool]:
    """Return a check that a lone example, in a Poisson batch of expected size 10, moves the mean by C, not C / 10."""

    def check(module: Any, printed: set[int]) -> bool:
        batch = lambda t: torch.tensor([0])  # noqa: E731
        given = (lambda x, _: ONE[None], 0 * ONE, batch, 10, 1, 1.0, 1.0, 0.1, lambda t: 0 * ONE)
        return float(next(getattr(module, function)(*given, printed=printed)).g) == pytest.approx(1.0)

    return check


def sums(module: Any, printed: set[int]) -> list[Any]:
    return [*module.tree_mechanism(TERMS[:8], 8, 2.0, 0.3, lambda end: normal("tree mechanism", end), printed=printed)]


def eighth_term_has_no_noise(module: Any, printed: set[int]) -> bool:
    """Return whether TREE(8) equals TREE(7), so that the difference of the two sums is the private term."""
    seventh, eighth = sums(module, printed)[6:]
    assert module.node(9, 9, printed) == [(1, 8), (9, 9)], "a sum of nine has the block of eight"
    return eighth.blocks == seventh.blocks != [] and bool((eighth.private_noise == seventh.private_noise).all())


def largest_block_is_not_paid_for(module: Any, printed: set[int]) -> bool:
    assert module.held(6, 8, printed) == ({6} if printed else {6, 8}) and module.held(7, 7, printed) == {7}
    assert module.held(1, 9, printed) == {1, 2, 4, 8}, "of nine leaves that is no largest block"
    return module.held(1, 8, printed) == {1, 2, 4}


def no_term_has_noise(module: Any, printed: set[int]) -> bool:
    terms = list(sums(module, printed))
    bare = all(bool((each.released == each.private_sum).all()) and each.blocks == [] for each in terms)
    return bare and {each.paid for each in terms} == {math.inf}


def numbers_are_published(module: Any, printed: set[int]) -> bool:
    """Two questions a point, with noise C/(n epsilon) = 1/8 and L/(n epsilon) = 1/4; the last is at both limits."""
    noise = {0: 1.0, 1: 0.0, 2: 0.5, 3: -1.0, 4: 0.5, 5: 1.0, 6: 0.5, 7: 0.5}
    norms, eigenvalues = [0.1875, 0.125, 0.125, 0.1875], [0.0, -0.125, -0.625, -0.375]

    def asked(count: int) -> list[Record]:
        found = module.select_stationary_point(
            range(count), norms.__getitem__, eigenvalues.__getitem__, 2.0, 0.25, 0.25, 2.0, 4.0, 8, 3, 0.05,
            lambda purpose, i: noise.get(i, 0.0) if not printed else noise[i], printed=printed,
        )  # fmt: skip
        return list(walked(found, "i", "yes", "paid", "left", "private_value", "private_threshold"))

    rows = [(i, i == 3, math.inf, 0.0, norms[i], 0.25) for i in range(4)]
    names = ("i", "yes", "paid", "left", "private_value", "private_threshold")
    expected = [dict(zip(names, row, strict=True)) for row in rows]
    all_no = [*expected[:2], {"end": ("FINISHED", None)}]
    return asked(4) == [*expected, {"end": ("FINISHED", 3)}] and asked(2) == all_no


def least_cost(leaf: int, reset: int, blocks: list[list[tuple[int, int]]]) -> float:
    """The least sum of squared shifts of noises that make up for an example of a leaf, until the sum forgets it.

    Args:
      leaf: whose example is replaced by one that is a unit apart.
      reset: the leaf at which the sum is begun anew.
      blocks: of the release at each leaf, 1, 2, ...

    Returns:
      Twice the zCDP, in units of the noise's variance; infinite where no noise makes up for it.
    """
    used = sorted({block for some in blocks for block in some})
    design = torch.tensor([[float(block in some) for block in used] for some in blocks]).double()
    shift = torch.tensor([float(leaf <= t < reset) for t in range(1, len(blocks) + 1)]).double()
    if not used:
        return math.inf
    needed = torch.linalg.pinv(design) @ shift
    return float(needed.square().sum()) if torch.allclose(design @ needed, shift, atol=1e-9) else math.inf


@cache
def worst_cost(leaf: int, Sigma: int) -> float:
    """The same at the worst leaf for a reset, of a tree that goes on; the last one is none."""
    blocks = [adaptive_reference.node(t, Sigma) for t in range(1, Sigma + 1)]
    return max(least_cost(leaf, reset, blocks) for reset in range(leaf + 1, Sigma + 2))


def examples_are_taken_that_are_not_there(module: Any, printed: set[int]) -> bool:
    """Return whether a batch is drawn although fewer examples are left, as long as more than b are."""
    *steps, last = spider_steps(module, DATA, frozenset(printed), c=1000.0)
    early = [*spider_steps(module, DATA, frozenset(printed), b=1500.0)]
    return last.left < 0 and all(step.left > 60.5 for step in steps) and len(early) == 1


def saddle_where_the_estimate_is_large(module: Any, printed: set[int]) -> bool:
    saddles = [step for step in spider_steps(module, DATA, frozenset(printed), threshold=0.12) if step.saddle]
    return any(float(step.estimate.norm()) > 0.12 for step in saddles)


def drift_is_forgotten(module: Any, printed: set[int]) -> bool:
    """Return whether the drift is one move long after the first saddle found by O2, although O1 was not called."""
    steps = [*spider_steps(module, DATA, frozenset(printed))]
    place = next(place for place, step in enumerate(steps) if step.saddle and not step.fresh)
    return steps[place].drift == pytest.approx(1.25 * float((steps[place].x - steps[place - 1].x).norm()))


def first_release_is_the_private_mean(module: Any, printed: set[int]) -> bool:
    """And, of one tree for the whole run, an example pays for the worst step at which its sum is begun anew."""
    first, second, *later = spider_steps(module, DATA, frozenset(printed), sigma=2.0)
    asked = [step for step in later if step.fresh and step.blocks and step.blocks[-1][1] == step.t]
    for step in asked if printed else ():
        assert step.paid == pytest.approx(worst_cost(step.t, 13) * (2 * 1.0 / step.batch / 2.0) ** 2 / 2)
    assert asked or not printed
    assert all(step.paid == math.inf for step in later if step.t > 13) or not printed, "the tree has no such leaf"
    assert not printed or torch.allclose(second.estimate - second.private_grad, 2 * normal("tree mechanism", 0))
    bare = bool((first.estimate - first.private_grad == 0).all())
    return first.blocks == [] and bare and first.paid == math.inf > second.paid


SLOW_DRIFT = Escape(escapes(1.25, drift=50.0), START, False)


def second_attempt_sees_a_jump(module: Any, printed: set[int]) -> bool:
    """Return whether its first query is a difference across the way back."""
    first = next(s for s in escape_steps(module, SLOW_DRIFT, frozenset(printed)) if (s.q, s.tau) == (2, 1))
    return not first.fresh


def first_step_of_an_attempt_asks_again(module: Any, printed: set[int]) -> bool:
    """Return whether it queries b2 examples at the last point, where the answer is 0 and known."""
    steps = [*escape_steps(module, SLOW_DRIFT, frozenset(printed))]
    place = next(place for place, step in enumerate(steps) if step.q)
    again, asked = steps[place], steps[place].t - steps[place - 1].t
    return asked == 2 and bool((again.private_mean == 0).all()) and not again.fresh


def last_point_is_returned(module: Any, printed: set[int]) -> bool:
    *steps, end = walked(escape_steps(module, SLOW_DRIFT, frozenset(printed)), "x")
    assert end["end"][0] == "FINISHED"
    return bool((end["end"][1] == steps[-1]["x"]).all())


def noise_is_half_of_what_it_should_be(fresh: bool) -> Callable[[Any, set[int]], bool]:
    def check(module: Any, printed: set[int]) -> bool:
        steps = escape_steps(module, SLOW_DRIFT, of_oracle=frozenset(printed))
        return next(step for step in steps if step.fresh == fresh).paid == pytest.approx(4 * 0.5 / 1.5**2)

    return check


def jump_is_no_drift(module: Any, printed: set[int]) -> bool:
    """Return whether the drift counted for the way back is that of a move that was not made."""
    steps = [*escape_steps(module, SLOW_DRIFT, frozenset({9}), frozenset(printed))]
    place = next(place for place, step in enumerate(steps) if (step.q, step.tau) == (2, 1))
    before = steps[place - 1]
    return steps[place].drift - before.drift == pytest.approx(0.32**2 * float(before.g @ before.g))


def rounds_at(module: Any, points: list[Tensor], printed: set[int], n: Any = HELD) -> list[Any]:
    """Return consecutive rounds of three clients at these points; the second point is away from the first."""
    last: list[Any] = [None]

    def models() -> Iterator[Any]:
        for x in points:
            yield x, last[0]

    found = []
    for each in client_rounds(module, SLOW_DRIFT, models(), frozenset(printed), n):
        last[0] = each
        found.append(each)
    return found


def a_client_pays_four_times(fresh: bool) -> Callable[[Any, set[int]], bool]:
    def check(module: Any, printed: set[int]) -> bool:
        steps = rounds_at(module, [START, 1.01 * START], printed)
        assert rounds_at(module, [START, START], printed)[1].paid == 0, "a move of 0 has no answer to pay for"
        assert len(rounds_at(module, [START, START], printed, [91, 92, 93])) == 1, "all its examples, and no more"
        return next(step for step in steps if step.fresh == fresh).paid == pytest.approx(4 * 0.5 / 1.5**2)

    return check


def a_jump_of_the_server_is_no_drift(module: Any, printed: set[int]) -> bool:
    first, second = rounds_at(module, [START, START + 1.0], printed)
    step = SLOW_DRIFT.parameters.escape.step_size
    return second.drift == pytest.approx(step**2 * float(first.g @ first.g)) != pytest.approx(3.0)


def a_flat_critical_point_is_rejected(module: Any, printed: set[int]) -> bool:
    """Return whether a client with one example in 60 dimensions rejects it: the threshold covers little but noise."""
    d = 60
    zero = (lambda x: torch.zeros(1, d).double(), lambda x: torch.zeros(1, d, d).double())
    noise = lambda t, j: STREAMS.normal("selection", t, d * (d + 3) // 2)[0]  # noqa: E731
    (step,) = choosing(module, printed, [torch.zeros(d).double()], [zero], [1], 50, noise, alpha=1e-12)
    return not step.yes


def last_leaf_is_the_one_before(module: Any, printed: set[int]) -> bool:
    assert module.node(9, 9, printed) == [(1, 8), (9, 9)]
    return module.node(8, 8, printed) == module.node(7, 8, printed)


BOWL = {
    "losses": lambda at, places: at.square().sum(2) / 2,
    "gradients": lambda at, places: at.sign(),
}


def queries_at(function: str, points: list[Tensor], asked: str, m: int) -> Callable[[Any, set[int]], list[Any]]:
    """Return a function that queries an oracle at these points, for a bowl or `|x|_1`, with negligible noise."""
    setting = Conversion(replace(converted(False, 300).parameters, directions=m), 300)
    given: dict[str, Any] = {"n": 300, "Sigma": len(points), "m": m, "C1": 99.0, "C2": 99.0}
    given |= {"y": partial(drawn_points, setting), "noise": lambda t: normal("noise", t), asked: BOWL[asked]}
    given |= {"sigma1": 1e-9, "sigma2": 1e-9} if "multi" in function else {"B1": 1, "B2": 1, "sigma": 1e-9}
    given |= {"n": 2} if "multi" in function else {}
    given |= {"alpha": 0.4} if asked == "losses" else {}
    return lambda module, printed: [*getattr(module, function)(points, **given, printed=printed)]


def increment_is_too_short(function: str) -> Check:
    """Return a check that the increment of a bowl is too short: with the ball, `alpha^2 d / (d + 2)` of the move."""
    queries = queries_at(function, [START, 3 * START], "losses", 4000)

    def check(module: Any, printed: set[int]) -> bool:
        first, second = queries(module, printed)
        length = float((second.private_g - first.g).norm() / (2 * START).norm())
        assert length == pytest.approx(0.4**2 * 3 / 5 if printed else 1.0, rel=0.1)
        return bool(printed)

    return check


def spot_has_an_increment(function: str, asked: str) -> Check:
    """Return a check that a second query at the same point, with its own directions, has a nonzero increment."""
    queries = queries_at(function, [0.1 * START] * 2, asked, 5)

    def check(module: Any, printed: set[int]) -> bool:
        first, second = queries(module, printed)
        return bool((second.private_g - first.g).norm() > 0.01)

    return check


def last_of_a_period_has_no_noise(function: str, asked: str) -> Check:
    queries = queries_at(function, [START] * 3, asked, 5)

    def check(module: Any, printed: set[int]) -> bool:
        last = queries(module, printed)[-1]
        return last.blocks == [] and bool((last.g == last.private_g).all())

    return check


LINES: dict[tuple[ModuleType, str, int], Check] = {
    (schedules_reference, "private_gradient_descent", 1): long_gradient_moves_the_mean_too_far,
    (schedules_reference, "private_gradient_descent", 2): last_step_is_lost,
    (noisy_reference, "clipped_noisy_sgd", 4): lone_example_moves_the_mean_by_C("clipped_noisy_sgd"),
    (noisy_reference, "noisy_sgd", 3): lone_example_moves_the_mean_by_C("noisy_sgd"),
    (noisy_reference, "select_stationary_point", 1): numbers_are_published,
    (adaptive_reference, "node", 12): eighth_term_has_no_noise,
    (adaptive_reference, "held", 12): largest_block_is_not_paid_for,
    (adaptive_reference, "node", 14): no_term_has_noise,
    (adaptive_reference, "stochastic_spider", 3): examples_are_taken_that_are_not_there,
    (adaptive_reference, "stochastic_spider", 9): saddle_where_the_estimate_is_large,
    (adaptive_reference, "stochastic_spider", 10): drift_is_forgotten,
    (adaptive_reference, "stochastic_spider", 13): first_release_is_the_private_mean,
    (escape_reference, "drift_escape", 9): second_attempt_sees_a_jump,
    (escape_reference, "drift_escape", 11): first_step_of_an_attempt_asks_again,
    (escape_reference, "drift_escape", 21): last_point_is_returned,
    (escape_reference, "adaptive_dp_spider", 5): noise_is_half_of_what_it_should_be(True),
    (escape_reference, "adaptive_dp_spider", 10): noise_is_half_of_what_it_should_be(False),
    (escape_reference, "adaptive_dp_spider", 12): jump_is_no_drift,
    (escape_reference, "distributed_adaptive_dp_spider", 6): a_client_pays_four_times(True),
    (escape_reference, "distributed_adaptive_dp_spider", 13): a_client_pays_four_times(False),
    (escape_reference, "distributed_adaptive_dp_spider", 17): a_jump_of_the_server_is_no_drift,
    (escape_reference, "errors", 7): a_flat_critical_point_is_rejected,
    (goldstein_reference, "node", 11): last_leaf_is_the_one_before,
    (goldstein_reference, "single_pass_from_losses", 12): increment_is_too_short("single_pass_from_losses"),
    (goldstein_reference, "single_pass_from_losses", 14): spot_has_an_increment("single_pass_from_losses", "losses"),
    (goldstein_reference, "single_pass_from_losses", 18): last_of_a_period_has_no_noise(
        "single_pass_from_losses", "losses"
    ),
    (goldstein_reference, "multi_pass_from_losses", 11): increment_is_too_short("multi_pass_from_losses"),
    (goldstein_reference, "multi_pass_from_losses", 13): spot_has_an_increment("multi_pass_from_losses", "losses"),
    (goldstein_reference, "single_pass_from_gradients", 11): spot_has_an_increment(
        "single_pass_from_gradients", "gradients"
    ),
    (goldstein_reference, "single_pass_from_gradients", 15): last_of_a_period_has_no_noise(
        "single_pass_from_gradients", "gradients"
    ),
}


# ---------------------------------------------------------------- what is paid, against the exact cost
@pytest.mark.parametrize("Sigma", [7, 8, 13, 16])
@pytest.mark.parametrize("printed", [frozenset(), frozenset({12}), frozenset({14})], ids=str)
def test_what_a_term_of_a_sum_pays_is_the_exact_cost(Sigma: int, printed: frozenset[int]):
    terms, noise = torch.zeros(Sigma, 1).double(), lambda end: normal("tree mechanism", end)
    sums = [*adaptive_reference.tree_mechanism(terms, Sigma, 2.0, 0.3, noise, printed)]
    for each in sums:
        exact = least_cost(each.t, Sigma + 1, [one.blocks for one in sums])
        assert each.paid == pytest.approx(exact * (0.3 / 2.0) ** 2 / 2), each.t


@pytest.mark.parametrize("Sigma", [8, 13, 16])
def test_what_an_example_of_one_tree_pays_is_the_exact_cost_at_the_worst_reset(Sigma: int):
    for leaf in range(1, Sigma + 1):
        assert adaptive_reference.shifted(leaf, Sigma) == pytest.approx(worst_cost(leaf, Sigma)), leaf


def test_control_a_reset_costs_more_than_the_blocks_of_the_leaf():
    blocks = [adaptive_reference.node(t, 16) for t in range(1, 17)]
    assert adaptive_reference.touched(8, 16) == 2 < least_cost(8, 9, blocks) == pytest.approx(4)
    ratios = [adaptive_reference.shifted(leaf, 64) / adaptive_reference.touched(leaf, 64) for leaf in range(1, 65)]
    assert max(ratios) == pytest.approx(3)


@pytest.mark.parametrize(("module", "function", "line"), LINES, ids=lambda part: getattr(part, "__package__", None))
def test_a_line_as_printed_does_what_it_says(module: ModuleType, function: str, line: int):
    check = LINES[module, function, line]
    assert check(module, {line}) and not check(module, set())


def test_every_line_that_can_be_printed_is_in_the_table():
    found = {
        (module, name, line.value)
        for module in {module for module, _, _ in LINES}
        for name, function in inspect.getmembers(module, inspect.isfunction)
        for node in ast.walk(ast.parse(inspect.getsource(function)))
        if isinstance(node, ast.Compare) and ast.unparse(node.comparators[0]) == "printed"
        for line in ast.walk(node.left)
        if isinstance(line, ast.Constant)
    }
    assert found == set(LINES)


# ---------------------------------------------------------------- mutated lines of the references
NUMBER = 12  # mutants per function
NO_TIE = "no two numbers of a run are equal"
EQUIVALENT: dict[tuple[str, str, str], str] = {
    ("budget_schedules", "torch.zeros_like(x)", "(torch).ones_like(x)"): "1 - beta^0 = 0 times m_1 is 0 for every m_1",
    ("budget_schedules", "rho <= left + 1e-9 * R", "(rho) < (left + 1e-9 * R)"): NO_TIE,
    ("budget_schedules", "1e-9 * R", "((1e-9) / (R))"): "an allowance for rounding, either way",
    ("noisy_sgd", "lengths > C", "(lengths) >= (C)"): NO_TIE,
    ("noisy_sgd", "rows.norm(dim=1) > C", "(rows.norm(dim=1)) >= (C)"): NO_TIE,
    ("noisy_sgd", "private_value + nu >= private_threshold", "(private_value + nu) > (private_threshold)"): NO_TIE,
    ("adaptive_batch", "lengths > longest", "(lengths) >= (longest)"): "scaled to the length that it has",
    ("adaptive_batch", "0", "(0 + 1)"): "tau, which the first step sets",
    ("adaptive_batch", "2", "(2 + 1)"): "a leaf after the last one is in no block, and the next one is neither",
    ("adaptive_batch", "0.0", "(0.0 + 1)"): "private_grad, which the first step sets",
    (
        "adaptive_batch",
        "(last if 9 in printed else estimate.norm()) <= threshold",
        "(last if 9 in printed else estimate.norm()) < (threshold)",
    ): NO_TIE,
    ("goldstein", "lengths > longest", "(lengths) >= (longest)"): "scaled to the length that it has",
    ("goldstein", "lot(t) * windows < 1", "(lot(t) * windows) <= (1)"): NO_TIE,
    ("drift_escape", "last.g.norm() > 3 * chi", "(last.g.norm()) >= (3 * chi)"): NO_TIE,
    ("drift_escape", "(x - tested).norm() >= S", "((x - tested).norm()) > (S)"): NO_TIE,
    ("drift_escape", "gradient.norm() <= longest", "(gradient.norm()) < (longest)"): NO_TIE,
    (
        "drift_escape",
        "torch.linalg.eigvalsh(hessian)[0] >= least",
        "(torch.linalg.eigvalsh(hessian)[0]) > (least)",
    ): NO_TIE,
    ("drift_escape", "False", "True"): "esc, which every attempt sets",
}


def mutants(module: ModuleType) -> dict[str, list[Mutant]]:
    """Return all mutants of the listings by function, except those of defaults and examples."""
    source, found = inspect.getsource(module), {}
    functions = [node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)]
    for mutant in mutants_of(module.__name__, source):
        for function in functions:
            if function.body[1].lineno <= mutant.line <= (function.end_lineno or 0):
                found.setdefault(function.name, []).append(mutant)
    return found


def mutated(module: ModuleType, mutant: Mutant) -> ModuleType:
    copy = ModuleType(module.__name__)
    exec(mutant.source(inspect.getsource(module)), copy.__dict__)
    return copy


def is_noticed(module: ModuleType, function: str, mutant: Mutant) -> bool:
    """Return whether a mutant changes a path that is compared with the library, or the effect of a printed line."""
    broken = mutated(module, mutant)
    for name, case in CASES.items():
        if case.module is module and function in case.functions:
            try:
                if distance(path(name), islice(case.reference(broken), 4 * case.steps), case.within) > case.within:
                    return True
            except Exception:  # any exception of a mutant counts as noticed
                return True
    for (of, name, line), check in LINES.items():
        if of is module and (name == function or function in ("clipped", "touched", "held", "shifted")):
            try:
                if not check(broken, {line}) or check(broken, set()):
                    return True
            except Exception:
                return True
    return False


def unnoticed(module: ModuleType, number: int | None = None) -> list[tuple[str, str, str]]:
    found = []
    for function, many in mutants(module).items():
        shuffled_many = random.Random(f"{module.__name__}.{function}").sample(many, len(many))
        few = [mutant for mutant in shuffled_many[:number] if not is_noticed(module, function, mutant)]
        found += [(mutant.file.split(".")[2], mutant.old, mutant.new) for mutant in few]
    return found


MODULES = [schedules_reference, noisy_reference, adaptive_reference, escape_reference, goldstein_reference]


@pytest.mark.slow
@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__package__)
def test_a_mutated_line_of_a_reference_is_noticed(module: ModuleType):
    assert set(unnoticed(module, NUMBER)) <= set(EQUIVALENT)


@pytest.mark.slow
def test_every_mutant_of_a_reference_is_noticed_or_equivalent():
    """Each mutant that is listed as equivalent must occur once; equal lines have a mutant each."""
    assert sorted(mutant for module in MODULES for mutant in unnoticed(module)) == sorted(EQUIVALENT)


@pytest.mark.slow
def test_control_a_listing_that_is_the_same_is_not_noticed():
    for module in MODULES:
        function, (mutant, *_) = max(mutants(module).items(), key=lambda item: len(item[1]))
        assert not is_noticed(module, function, replace(mutant, new=mutant.old))


# ---------------------------------------------------------------- mutated lines of the library
AWAY: list[tuple[str, ModuleType, str, str, str]] = [
    ("momentum, until the budget is gone", descent, "Descent.step",
     "weight = (1 - self.momentum) / (1 - self.momentum ** (state.steps + 1).double())",
     "weight = (1 - self.momentum) / (1 - self.momentum ** (state.steps + 2).double())"),
    ("descent", clipped, "ClippedGradient.answer",
     "scale = self.clip / self.problem.num_examples / norms.clamp_min(self.clip)",
     "scale = self.clip / self.problem.num_examples / norms.clamp_min(2 * self.clip)"),
    ("momentum, until the budget is gone", filters, "Filter.grant",
     "reused = reused + cost", "reused = reused + 0.9 * cost"),
    ("clipped noisy SGD", mechanisms, "Gaussian.release",
     "noise = streams.normal(self.purpose, request.call, value.shape[1])",
     "noise = streams.normal(self.purpose, request.call + 1, value.shape[1])"),
    ("clipped noisy SGD, Poisson", minibatch, "MinibatchGradient.answer",
     "weights = self.norm_bound / divisor / norms.clamp_min(self.norm_bound)",
     "weights = self.norm_bound / divisor / norms.clamp_min(1.1 * self.norm_bound)"),
    ("noisy SGD", minibatch, "MinibatchGradient.answer",
     "longer = sample.present & ~(gradients.norms() <= self.norm_bound)  # NaN counts as longer",
     "longer = sample.present & ~(gradients.norms() <= 1.1 * self.norm_bound)"),
    ("AboveThreshold", selection, "AboveThreshold.begin",
     'noisy = self._noisy(threshold, 2, streams, f"{self.purpose}: threshold", state.searches)',
     'noisy = self._noisy(threshold, 1, streams, f"{self.purpose}: threshold", state.searches)'),
    ("AboveThreshold", selection, "AboveThreshold.ask",
     'noisy = self._noisy(value[:, 0].double(), 4, streams, f"{self.purpose}: question", state.asked)',
     'noisy = self._noisy(value[:, 0].double(), 2, streams, f"{self.purpose}: question", state.asked)'),
    ("selection", search, "select_stationary_point",
     "most_norm = search.alpha + search.gradient_slack", "most_norm = search.alpha"),
    ("tree", tree, "Tree.release",
     "released = released - old if released is drawn else released.sub_(old)",
     "released = released - old if released is drawn else released"),
    ("Stochastic Spider", samples, "DataSetBatch.mean",
     "kept = torch.where(norms.isfinite(), torch.where(norms > most, most / norms, 1.0), 0.0)",
     "kept = torch.where(norms.isfinite(), 1.0, 0.0)"),
    ("Stochastic Spider, from a saddle", spider, "BatchSizes.wanted",
     "later = (self.per_gradient * bound).clamp_min(self.least)",
     "later = (0.9 * self.per_gradient * bound).clamp_min(self.least)"),
    ("Stochastic Spider, from a saddle", spider, "Refresh.due",
     "due = (terms == 0) | (drift >= self.threshold)", "due = (terms == 0) | (drift >= 1.1 * self.threshold)"),
    ("Stochastic Spider, from a saddle", spider_descent, "StochasticSpider.step",
     "saddle = moves & (tested <= settings.threshold) & (state.frozen <= 0)",
     "saddle = moves & (tested <= settings.threshold) & (state.frozen <= 1)"),
    ("Stochastic Spider, 9 and 10 as printed", spider_descent, "StochasticSpider.step",
     "tested = state.previous if self.as_printed else norms(direction)", "tested = norms(direction)"),
    ("drift escape, refresh, from a saddle", spider, "Spider.remember",
     "gradient = torch.where(plan.begins[:, None], values[0], old.gradient + values[0])", "gradient = values[0]"),
    ("drift escape, refresh, from a saddle", drift_escape, "DriftEscape.step",
     "escaped = testing & (norms(x - anchor) >= settings.radius)",
     "escaped = testing & (norms(x - anchor) >= 2 * settings.radius)"),
    ("drift escape, refresh", drift_escape, "DriftEscape.step",
     "oracle_state = _restorable(oracle).rollback(oracle_state, oracle_state, again, refresh=True)", "pass"),
    ("drift escape, refresh", drift_escape, "DriftEscape.step", "x = select(done, anchor, x)", "pass"),
    ("drift escape, restore, from a saddle", drift_escape, "DriftEscape.step",
     "back = anchor - (step_size * anchor_gradient).to(anchor)", "back = anchor"),
    ("clients, from a slope", clients, "Clients.release",
     "mean = total / torch.full_like(total[:1, :1], self.blocks.num_clients)",
     "mean = total / torch.full_like(total[:1, :1], len(self.blocks.members))"),
    ("clients, from a slope", clients, "Clients.streams_of",
     "Streams(keys).words(CLIENT_PURPOSE, clients.repeat(self.num_runs), 1)",
     "Streams(keys).words(CLIENT_PURPOSE, 0 * clients.repeat(self.num_runs), 1)"),
    ("clients, until one has no example left", clients, "Clients.plan",
     "why * (active ^ granted),", "why * (active & granted),"),
    ("clients, from a slope", blocks, "pairwise_sum",
     "terms = torch.cat([terms[:, 0:pairs:2] + terms[:, 1:pairs:2], terms[:, pairs:]], 1)",
     "terms = terms[:, 0:pairs:2] + terms[:, 0:pairs:2]"),
    ("clients, from a slope", holdings, "HeldExamples.gradients",
     "return self.problem.gradients(x, self.table if examples is None else self.table.gather(1, examples))",
     "return self.problem.gradients(x, self.table if examples is None else examples)"),
    ("model selection", model_derivatives, "with_triangle",
     "return torch.cat([gradient, weight * hessian[..., rows, columns]], -1)",
     "return torch.cat([gradient, weight * hessian[..., columns, rows] * 1.1], -1)"),
    ("model selection", model_derivatives, "ExampleDerivatives._sum",
     "weights = (longest / lengths).clamp_max(1).to(terms)", "weights = (longest / lengths).clamp_max(1.1).to(terms)"),
    ("model selection", model_selection, "Selection.noise_multiplier",
     "return gaussian_std(self.epsilon, self.delta) * math.sqrt(self.num_models)",
     "return gaussian_std(self.epsilon, self.delta)"),
    ("model selection", model_selection, "Selection._logarithm",
     "return math.log(6 * self.num_models / self.failure)", "return math.log(6 / self.failure)"),
    ("model selection, 7 as printed", model_selection, "Selection.accepts",
     "return (norms <= self.accuracy + far) & (eigenvalues >= least)", "return norms <= self.accuracy + far"),
    ("O2NC, Algorithm 3", online_to_nonconvex, "OnlineToNonconvex.step",
     "shrunk = torch.where(length > settings.largest_move, settings.largest_move / length, 1.0)",
     "shrunk = torch.where(length > settings.largest_move, 1.1 * settings.largest_move / length, 1.0)"),
    ("O2NC, Algorithm 5", online_to_nonconvex, "OnlineToNonconvex.step",
     "chosen = select(whole & (lot * windows < 1), average, state.chosen)  # the k-th of them with probability 1 / k",
     "chosen = average"),
    ("O2NC, Algorithm 5, a period of one", online_to_nonconvex, "OnlineToNonconvex.step",
     "total, whole = state.total + state.x, moved & closes", "total, whole = state.total + x, moved & closes"),
    ("O2NC, Algorithm 3, line 14 as printed", smoothed, "SmoothedBatch._estimates",
     "part = estimate(problem, asked, points if not samples.independent else points[:1], steps, radius)",
     "part = estimate(problem, asked, points, steps, radius)"),
    ("O2NC, Algorithm 5", smoothed, "in_ball",
     "return on_sphere(normal, radius)[..., :-2]", "return on_sphere(normal[..., :-2], radius)"),
    ("O2NC, Algorithm 4", smoothed, "SmoothedBatch.mean",
     "longest = bound if samples.clipped else torch.full_like(bound, torch.inf)",
     "longest = torch.full_like(bound, torch.inf)"),
    ("O2NC, Algorithm 4", spider, "Spider.ask",
     "longest = torch.where(new, self.gradient_bound, self.smoothness * far)",
     "longest = torch.where(new, self.gradient_bound, self.smoothness * move)"),
]  # fmt: skip


def replaced(monkeypatch: pytest.MonkeyPatch, module: ModuleType, name: str, line: str, instead: str) -> None:
    """Replace the function or method that contains a line by the version with the changed line."""
    *owners, last = name.split(".")
    there, broken = module, module_with_line_replaced(module, line, instead)
    for owner in owners:
        there, broken = getattr(there, owner), getattr(broken, owner)
    monkeypatch.setattr(there, last, getattr(broken, last))


@pytest.mark.parametrize(("name", "module", "function", "line", "instead"), AWAY, ids=lambda part: str(part)[:40])
@pytest.mark.slow
def test_a_mutated_line_of_the_library_is_noticed(
    monkeypatch: pytest.MonkeyPatch, name: str, module: ModuleType, function: str, line: str, instead: str
):
    case = CASES[name]
    replaced(monkeypatch, module, function, line, instead)
    assert distance(case.library(), case.reference(case.module), case.within) > case.within
