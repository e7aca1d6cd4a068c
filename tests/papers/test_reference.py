"""Two implementations of each algorithm, the library's and its plain reference, compared on the same draws.

`CASES` gives the number of steps of each path, the allowed difference, and whether the paths must agree to the bit. In
`test_reference_lines.py` every line that can run as printed affects the result; in `test_reference_mutants.py` a
mutated line of a reference makes the comparison fail, or a line as printed lose its effect.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import islice
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor

from dpnotes.core import WHOLE
from dpnotes.oracles.blocks import Blocks
from dpnotes.oracles.holdings import ClientSamples
from dpnotes.oracles.samples import ORDER_PURPOSE, DataSetSamples, VirtualSamples, shuffled
from dpnotes.papers.adaptive_batch import reference as adaptive_reference
from dpnotes.papers.budget_schedules import reference as schedules_reference
from dpnotes.papers.drift_escape import algorithms as escape
from dpnotes.papers.drift_escape import derivatives as model_derivatives
from dpnotes.papers.drift_escape import reference as escape_reference
from dpnotes.papers.drift_escape import selection as model_selection
from dpnotes.papers.drift_escape.distributed import distributed_drift_escape
from dpnotes.papers.drift_escape.escaping import Repeat
from dpnotes.papers.goldstein import reference as goldstein_reference
from dpnotes.papers.noisy_sgd import reference as noisy_reference
from dpnotes.privacy.calibration import gaussian_std
from dpnotes.random.streams import Streams
from tests.papers import paths
from tests.papers.paths import ORIGIN, START, STREAMS, Path, Record, Watch, distance, released, rho, walked


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
    source = VirtualSamples(paths.POPULATION, setting.total) if setting.virtual else DataSetSamples(paths.MANY[0])
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
        module.adaptive_dp_spider,
        gradients=paths.virtual() if setting.virtual else paths.in_order(paths.MANY[1], 3000), n=setting.total,
        b1=p.first_batch, b2=p.batch, kappa=p.drift_threshold, G=p.gradient_bound, M=e.smoothness,
        multiplier=p.noise_multiplier * paths.MARGIN, eta=e.step_size, printed=of_oracle,
        noise=lambda t: paths.normal("gaussian mechanism", t - 1),
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
    data = paths.hills(9000)[0]
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
    p, e, of = setting.parameters, setting.parameters.escape, paths.hills(9000)[1]

    def gradients(client: int) -> Callable[..., Tensor]:
        places = torch.arange(HELD[client])[None]
        order = shuffled(places, HELD[client], streams_of_client(client), ORDER_PURPOSE)[0]
        return lambda x, z: of(x, holding(client)[order[torch.tensor(z)]])

    return module.distributed_adaptive_dp_spider(
        models, [gradients(client) for client in range(3)], n, p.first_batch, p.batch, p.drift_threshold,
        p.gradient_bound, e.smoothness, p.noise_multiplier * paths.MARGIN, e.step_size, printed=printed,
        noise=lambda t, j: streams_of_client(j).normal("gaussian mechanism", t - 1, paths.DIM)[0],
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
    data = paths.hills(9000)[0]
    chosen = model_selection.Selection(
        0.2, paths.DIM, HELD, 4, 8.0, 1e-5, gradient_bound=1.1, smoothness=1.25, hessian_lipschitz=1.5, failure=0.1
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
    data = paths.hills(9000)[0].a

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
DATA, SADDLE = paths.Spider(paths.of_data(), START, False), paths.Spider(paths.OF_POPULATION, ORIGIN, True, total=10**9)
SINGLE = paths.Spider(paths.of_data(batch_per_gradient=2.0, noise_multiplier=0.2), START, False)
PRINTED = paths.Spider(paths.of_data(), START, False, True)
# The number of examples is such that none is left after the hundredth step.
EXACTLY = replace(SADDLE, total=10**9 - next(islice(paths.spider_steps(adaptive_reference, SADDLE), 99, None)).left)
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
        replace(DESCENDING, total=10**9 - next(islice(escape_steps(escape_reference, DESCENDING), 19, None)).left),
        20,
    ),
}
CLIENTS: dict[str, tuple[Escape, int]] = {
    "from a slope": (Escape(escapes(1.25), START, False), 29),
    "with differences": (Escape(escapes(1.25, drift=0.5), START, False), 28),
    "until one has no example left": (Escape(escapes(1.25, threshold=1e-300), START, False), 85),
}
CONVERSIONS: dict[str, tuple[paths.Conversion, int]] = {
    "Algorithm 3": (paths.converted(False, 300, period=20), 30),
    "Algorithm 3, until no example is left": (paths.converted(False, 66), 18),
    "Algorithm 3, no window whole": (paths.converted(False, 12), 2),
    "Algorithm 3, line 14 as printed": (paths.converted(False, 300, independent=True), 30),
    "Algorithm 4": (paths.converted(True, 60), 30),
    "Algorithm 4, line 13 as printed": (paths.converted(True, 60, independent=True), 30),
    "Algorithm 5": (paths.converted(False, 300, order="first", first_directions=1, period=5), 30),
    "Algorithm 5, line 11 as printed": (
        paths.converted(False, 98, order="first", first_directions=1, independent=True),
        26,
    ),
    "Algorithm 5, a period of one": (
        paths.converted(False, 275, order="first", directions=1, period=1, first_batch=5, num_steps=55),
        55,
    ),
}


def rows(
    title: str,
    act: str,
    module: ModuleType,
    functions: str,
    settings: dict[str, tuple[Any, ...]],
    within: float = 1e-10,
) -> dict[str, paths.Case]:
    """Return the cases of one algorithm: for each name its arguments, the same for both paths, and its steps.

    The paths are `library_` and `reference_`, and then what they do.
    """
    library, reference = ({**vars(paths), **globals()}[f"{side}_{act}"] for side in ("library", "reference"))
    return {
        title + name: paths.Case(
            partial(library, *given), lambda of, given=given: reference(of, *given), module, tuple(functions.split()),
            steps, within,
        )
        for name, (*given, steps) in settings.items()
    }  # fmt: skip


CASES: dict[str, paths.Case] = {
    **rows("", "descends", schedules_reference, "private_gradient_descent clipped", {
        "descent": (0.0, 1.0, 40), "momentum, until the budget is gone": (0.9, 0.4, 25),
    }),
    **rows("clipped noisy SGD", "samples", noisy_reference, "clipped_noisy_sgd", {
        "": (True, paths.FIXED, 40), ", Poisson": (True, paths.POISSON, 40), ", whole": (True, WHOLE, 40),
    }),
    **rows("noisy SGD", "samples", noisy_reference, "noisy_sgd", {
        "": (False, paths.FIXED, 40), ", Poisson": (False, paths.POISSON, 40), ", whole": (False, WHOLE, 40),
    }),
    **rows("AboveThreshold", "asks", noisy_reference, "above_threshold", {"": (6,)}, 0.0),
    **rows("selection", "selects", noisy_reference, "select_stationary_point above_threshold", {"": (6,)}, 0.0),
    **rows("model selection", "chooses", escape_reference,
           "distributed_model_selection errors clipped", {"": (False, 4), ", 7 as printed": (True, 4)}),
    **rows("tree", "sums", adaptive_reference, "tree_mechanism node touched hidden", {"": (45,)}),
    **rows("Stochastic Spider", "spiders", adaptive_reference, "stochastic_spider clipped node touched hidden",
           {"": (DATA, 99)}),
    **rows("Stochastic Spider, ", "spiders", adaptive_reference, "stochastic_spider", {
        "from a saddle": (SADDLE, 120), "batches of one": (SINGLE, 99), "until no example is left": (EXACTLY, 100),
        "9 and 10 as printed": (PRINTED, 102),
    }),
    **rows("drift escape, ", "escapes", escape_reference, "drift_escape adaptive_dp_spider clipped", ESCAPES),
    **rows("clients, ", "clients", escape_reference, "drift_escape distributed_adaptive_dp_spider clipped", CLIENTS),
}  # fmt: skip
for _name, _given in CONVERSIONS.items():
    _functions = f"o2nc {_given[0].function} two_point clipped node touched"
    CASES |= rows("O2NC, ", "converts", goldstein_reference, _functions, {_name: _given})


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
