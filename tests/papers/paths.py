"""Paths of the references and of the library, from the same numbers: of five papers, for the tests beside."""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import zip_longest
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from dpnotes.core import FRESH, Constant, Relation, Request, Sampling, Sensitive, Status
from dpnotes.oracles.batches import draw
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
from dpnotes.papers.budget_schedules import algorithms as schedules
from dpnotes.papers.goldstein import algorithms as goldstein
from dpnotes.papers.noisy_sgd import algorithms as noisy
from dpnotes.privacy import search, selection, tree
from dpnotes.privacy.mechanisms import laplace
from dpnotes.privacy.noise import FixedNoise
from dpnotes.privacy.schedules import exponential
from dpnotes.problems.custom import CustomProblem
from dpnotes.problems.separable import Cosine, Separable, Sine
from dpnotes.problems.smoothing import smoothing_constant
from dpnotes.problems.virtual import VirtualData
from dpnotes.random.streams import Streams

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
    relation = Relation.ZERO_OUT if sampling == POISSON else Relation.REPLACE_ONE
    choice = noisy.NoiseChoice(0.2, 1.0, 1e-6, "by hand")
    of = {"g": released, "x": point, "paid": rho}
    left = lambda state, _: budget - float(state.oracle.meter.spent[0])  # noqa: E731
    budget = 40 * ((1 if sampling == POISSON else 2) * 1.3 / (50 * sampling.rate) / 0.2) ** 2 / 2
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
        return torch.arange(50) if drawn.examples is None else drawn.examples[0][drawn.present[0]]

    function, seen = (module.clipped_noisy_sgd if clip else module.noisy_sgd), [0]

    def longer(step: Any) -> int:
        seen[0] += step.private_longer
        return seen[0]

    steps = function(
        SPREAD[1], START, batch, 50 * sampling.rate, 40, 1.3, 0.2, 0.3, lambda t: normal("gaussian mechanism", t),
        moves=1.0 if sampling == POISSON else 2.0, **more,
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
    kappa = smoothing_constant(DIM)
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
