"""Any optimiser of torch.optim on released gradients: to the bit a live one, resumed, refused where it cannot be."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim import lr_scheduler

from dpnotes.core import Status
from dpnotes.guarantees import STATISTICS_WITHOUT_NOISE, Sampling
from dpnotes.methods.loop import drive
from dpnotes.oracles.minibatch import MinibatchGradient
from dpnotes.privacy.mechanisms import Gaussian
from dpnotes.problems.datasets.dataset import Dataset
from dpnotes.problems.modules import ModuleProblem
from dpnotes.random.streams import Streams
from dpnotes.train.loop import Checkpoint, Evaluation
from dpnotes.train.optimiser import MakesOptimiser, MakesSchedule, Optimised
from dpnotes.train.plan import TrainingPlan

STEPS = 7
NETWORK = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3))
INPUTS = torch.randn(40, 4, generator=torch.Generator().manual_seed(0))
LABELS = (INPUTS[:, 0] > 0).long() + (INPUTS[:, 1] > 0)
OPTIM = torch.optim
OPTIMISERS: dict[str, MakesOptimiser] = {
    "SGD": lambda p: OPTIM.SGD(p, lr=0.1),
    "momentum": lambda p: OPTIM.SGD(p, lr=0.1, momentum=0.9, dampening=0.1, weight_decay=0.01),
    "Nesterov": lambda p: OPTIM.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
    "Adam": lambda p: OPTIM.Adam(p, lr=0.01),
    "AMSGrad": lambda p: OPTIM.Adam(p, lr=0.01, amsgrad=True),
    "foreach": lambda p: OPTIM.Adam(p, lr=0.01, foreach=True),
    "AdamW": lambda p: OPTIM.AdamW(p, lr=2e-3),
    "groups": lambda p: OPTIM.AdamW(
        [{"params": [q for q in p if q.dim() > 1]}, {"params": [q for q in p if q.dim() < 2], "weight_decay": 0.0}]
    ),
    "Adamax": lambda p: OPTIM.Adamax(p),
    "NAdam": lambda p: OPTIM.NAdam(p),
    "RAdam": lambda p: OPTIM.RAdam(p),
    "Adadelta": lambda p: OPTIM.Adadelta(p),
    "Adagrad": lambda p: OPTIM.Adagrad(p, initial_accumulator_value=0.1),
    "RMSprop": lambda p: OPTIM.RMSprop(p, momentum=0.5, centered=True),
    "Rprop": lambda p: OPTIM.Rprop(p),
    "ASGD": lambda p: OPTIM.ASGD(p),
    "Adafactor": lambda p: OPTIM.Adafactor(p),
}
SCHEDULES: dict[str, MakesSchedule] = {
    "cosine": lambda o: lr_scheduler.CosineAnnealingLR(o, STEPS),
    "one cycle": lambda o: lr_scheduler.OneCycleLR(o, max_lr=0.1, total_steps=STEPS),
    "warm-up": lambda o: lr_scheduler.SequentialLR(
        o, [lr_scheduler.LinearLR(o, 0.1, total_iters=3), lr_scheduler.ExponentialLR(o, 0.9)], milestones=[3]
    ),
    "steps": lambda o: lr_scheduler.MultiStepLR(o, [2, 4]),
}


def problem() -> ModuleProblem:
    return ModuleProblem(NETWORK, INPUTS, LABELS)


def oracle(runs: int = 1, steps: int = STEPS) -> MinibatchGradient:
    std = torch.full((runs,), 0.05, dtype=torch.float64)
    return MinibatchGradient(
        problem(), Sampling.fixed_size(12, 40), std, 1.0, num_steps=steps, clipped=True, mechanism=Gaussian()
    )


def method(make: MakesOptimiser, schedule: MakesSchedule | None = None, steps: int = STEPS) -> Optimised:
    return Optimised(make, [parameter.shape for parameter in NETWORK.parameters()], steps, schedule)


def against_a_live_one(make: MakesOptimiser, schedule: MakesSchedule | None, dtype: torch.dtype) -> None:
    """Feed the released gradients to an optimiser that lives on, and compare the points by bits."""
    asked, streams = oracle(), Streams.of("optimiser", [0])
    own, x = method(make, schedule), problem().initial(streams).to(dtype)
    parameters = [nn.Parameter(part.view(p.shape).clone()) for p, part in zip(
        NETWORK.parameters(), x[0].split([p.numel() for p in NETWORK.parameters()]), strict=True
    )]  # fmt: skip
    live = make(parameters)
    told = schedule(live) if schedule else None
    state = own.init(x, asked)
    for _ in range(STEPS):
        state, estimate = own.step(state, asked, streams)
        row = estimate.gradient[0].split([p.numel() for p in parameters])
        for parameter, part in zip(parameters, row, strict=True):
            parameter.grad = part.view(parameter.shape).clone()
        live.step()
        if told:
            told.step()
        assert torch.equal(state.x[0], torch.cat([p.detach().reshape(-1) for p in parameters]))
    assert state.steps.item() == STEPS and not torch.equal(state.x, x)


@pytest.mark.parametrize("name", OPTIMISERS)
def test_the_points_are_those_of_a_live_optimiser(name: str):
    against_a_live_one(OPTIMISERS[name], None, torch.float32)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name", ["momentum", "groups"])
def test_the_settings_of_each_step_are_those_of_a_live_schedule(name: str, schedule: str):
    against_a_live_one(OPTIMISERS[name], SCHEDULES[schedule], torch.float32)


@pytest.mark.parametrize("name", OPTIMISERS)
def test_runs_together_are_the_runs_one_by_one(name: str):
    own, streams = method(OPTIMISERS[name]), Streams.of("runs", range(3))
    start = problem().initial(streams)
    together = drive(own, oracle(3), own.init(start, oracle(3)), streams, STEPS)
    for run in range(3):
        keys, rows = torch.tensor([run]), start[run : run + 1]
        alone = drive(own, oracle(), own.init(rows, oracle()), streams.take(keys), STEPS)
        assert torch.equal(alone.x[0], together.x[run]) and torch.equal(alone.memory[0], together.memory[run])


def test_a_refused_run_keeps_point_and_memory():
    own, asked, streams = method(OPTIMISERS["Adam"]), oracle(2), Streams.of("status", range(2))
    state = drive(own, asked, own.init(problem().initial(streams), asked), streams, 2)
    stopped = type(state)(**{**vars(state), "status": torch.tensor([Status.OK, Status.DIVERGED])})
    later, _ = own.step(stopped, asked, streams)
    for name in ("x", "memory", "counters", "steps"):
        old, new = getattr(state, name), getattr(later, name)
        assert torch.equal(old[1], new[1]) and not torch.equal(old[0], new[0]), name


# ---------------------------------------------------------------- refusals
class Nested(OPTIM.SGD):
    """Remembers what is no number."""

    def step(self, closure: Any = None) -> None:
        super().step(closure)
        for group in self.param_groups:
            for parameter in group["params"]:
                self.state[parameter]["history"] = [1.0]


class Growing(OPTIM.SGD):
    """Remembers more after its second step."""

    def step(self, closure: Any = None) -> None:
        super().step(closure)
        for group in self.param_groups:
            for parameter in group["params"]:
                entries = self.state[parameter]
                entries["second" if "first" in entries else "first"] = 1.0


class Tuning(OPTIM.SGD):
    """Changes its own step size, as D-adaptation does."""

    def step(self, closure: Any = None) -> None:
        super().step(closure)
        self.param_groups[0]["lr"] *= 2


OTHER = [nn.Parameter(torch.zeros(2))]


@pytest.mark.parametrize(
    ("make", "schedule", "error", "message"),
    [
        (lambda p: OPTIM.LBFGS(p), None, TypeError, "Expected LBFGS.step.. to need no closure"),
        (lambda p: OPTIM.SGD(p[:1], lr=0.1), None, ValueError, "hold the 4 parameters .* got one of 1: freeze"),
        (lambda p: OPTIM.SGD(OTHER, lr=0.1), None, ValueError, "hold the 4 parameters"),
        (lambda p: OPTIM.SGD([*p, *OTHER], lr=0.1), None, ValueError, "and no other, got one of 5"),
        (lambda p: p, None, TypeError, "Expected optimizer"),
        (lambda p: Nested(p, lr=0.1), None, TypeError, "Expected Nested to remember numbers .* history="),
        (lambda p: Tuning(p, lr=0.1), None, TypeError, "Expected Tuning to keep its settings"),
        (OPTIMISERS["SGD"], lr_scheduler.ReduceLROnPlateau, TypeError, "needs no loss, got ReduceLROnPlateau"),
        (OPTIMISERS["SGD"], lambda o: o, TypeError, "needs no loss, got SGD"),
        (
            OPTIMISERS["SGD"],
            lambda o: lr_scheduler.OneCycleLR(o, 0.1, total_steps=9),
            ValueError,
            "Expected schedule of 9 steps to have num_steps=7",
        ),
    ],
)
def test_bad_optimisers_are_refused_before_anything_is_released(
    make: Callable, schedule: Any, error: type[Exception], message: str
):
    with pytest.raises(error, match=message):
        method(make, schedule)


def test_an_optimiser_whose_memory_grows_is_refused_at_the_step_that_would_lose_it():
    own, asked, streams = method(lambda p: Growing(p, lr=0.1)), oracle(), Streams.of("growing", [0])
    state, _ = own.step(own.init(problem().initial(streams), asked), asked, streams)
    with pytest.raises(TypeError, match="Expected Growing to remember the same entries after each step"):
        own.step(state, asked, streams)


def test_settings_tell_optimisers_groups_and_schedules_apart():
    found = [method(OPTIMISERS[name]).settings() for name in ("Adam", "AMSGrad", "AdamW", "groups")]
    found += [method(OPTIMISERS["Adam"], SCHEDULES[name]).settings() for name in SCHEDULES]
    assert len({repr(settings) for settings in found}) == len(found)
    assert found[0] == method(OPTIMISERS["Adam"]).settings()


def test_float64_counters_and_points():
    x = torch.zeros(1, 4, dtype=torch.float64)
    own = Optimised(OPTIMISERS["NAdam"], [torch.Size([4])], 3)

    class Slope:
        """An oracle of a constant gradient."""

        def init(self, x: Tensor) -> Tensor:
            return torch.zeros(len(x))

        def estimate(self, state: Tensor, x: Tensor, streams: Any, active: Tensor) -> Any:
            from types import SimpleNamespace

            return state, SimpleNamespace(gradient=torch.full_like(x, 1 / 3), status=torch.zeros(1, dtype=torch.int64))

    state = own.init(x, Slope())  # type: ignore[arg-type]
    live = OPTIM.NAdam([parameter := nn.Parameter(x[0].clone())])
    for _ in range(3):
        state, _ = own.step(state, Slope(), None)  # type: ignore[arg-type]
        parameter.grad = torch.full_like(parameter, 1 / 3)
        live.step()
        assert torch.equal(state.x[0], parameter.detach())


# ---------------------------------------------------------------- a plan
PLAN = TrainingPlan(epsilon=3.0, delta=1e-3, num_examples=40, batch_size=10, num_steps=STEPS, norm_bound=1.0)
ADAMW: dict[str, Any] = {"optimizer": OPTIMISERS["AdamW"], "schedule": SCHEDULES["cosine"]}


class Dropping(nn.Sequential):
    """A network with dropout."""

    def __init__(self) -> None:
        super().__init__(nn.Linear(4, 5), nn.Dropout(0.5), nn.Linear(5, 3))


def shifted(example: Tensor, uniforms: Tensor) -> Tensor:
    return example + 0.1 * uniforms[: len(example)]


class Killed(Exception):
    """The process that trains ends here."""


FALLING: dict[str, Any] = {"step_size": torch.linspace(0.5, 0.1, STEPS), "momentum": 0.9}
ANOTHER: list[tuple[dict[str, Any], str]] = [
    ({"optimizer": OPTIMISERS["Adam"]}, "Expected the settings that"),
    ({"optimizer": lambda p: OPTIM.AdamW(p, lr=1e-3)}, "Expected the settings that"),
]
SLOWER = [(FALLING | {"momentum": 0.5}, "momentum was 0.9, is 0.5"), (FALLING | {"step_size": 0.5}, "step_size was ")]


@pytest.mark.parametrize(
    ("more", "others"),
    [
        (ADAMW, [*ANOTHER, (ADAMW | {"schedule": SCHEDULES["steps"]}, "schedule was ")]),
        ({"optimizer": OPTIMISERS["SGD"], "transform": shifted}, ANOTHER),
        (FALLING, SLOWER),
    ],
)
def test_a_killed_training_goes_on_to_the_same_bits(more: dict[str, Any], others: list, tmp_path: Path):
    network, data = Dropping(), Dataset("toy", INPUTS, LABELS, INPUTS[:10], LABELS[:10], 3, "none", "made here")
    how = {"streams": Streams.of("plan", [0]), "evaluation": Evaluation(data, every=3)}
    whole = PLAN.train(network, INPUTS, LABELS, **how, **more)

    def kill(line: str) -> None:
        raise Killed

    kept = Checkpoint(tmp_path / "run.pt", every=2)
    with pytest.raises(Killed):
        PLAN.train(network, INPUTS, LABELS, **how, **more, checkpoint=kept, report=kill)
    assert kept.path.exists()
    resumed = PLAN.train(network, INPUTS, LABELS, **how, **more, checkpoint=kept)
    assert torch.equal(resumed.training.x, whole.training.x) and resumed.guarantee == whole.guarantee
    assert torch.equal(resumed.training.curves, whole.training.curves) and whole.training.curves.isfinite().all()
    unseen = PLAN.train(network, INPUTS, LABELS, streams=how["streams"], **more)
    assert torch.equal(unseen.training.x, whole.training.x) and unseen.training.curves.shape == (1, 0, 4)
    assert whole.guarantee == replace(unseen.guarantee, not_covered=(STATISTICS_WITHOUT_NOISE,)), "exact losses"
    for other, said in others:
        with pytest.raises(ValueError, match=said):
            PLAN.train(network, INPUTS, LABELS, **how, **other, checkpoint=kept)


def test_the_claim_is_that_of_descent():
    streams = Streams.of("plan", [0])
    trained = PLAN.train(NETWORK, INPUTS, LABELS, **ADAMW, streams=streams)
    assert trained.guarantee == PLAN.train(NETWORK, INPUTS, LABELS, step_size=0.1, streams=streams).guarantee
    assert trained.guarantee.epsilon <= PLAN.epsilon


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (ADAMW | {"step_size": 0.1}, "either step_size= or optimizer="),
        (ADAMW | {"momentum": 0.9}, "momentum=0.9 to be an argument of the optimizer"),
    ],
)
def test_two_ways_to_move_are_refused(more: dict[str, Any], message: str):
    with pytest.raises(ValueError, match=message):
        PLAN.train(NETWORK, INPUTS, LABELS, **more)


@pytest.mark.parametrize(
    ("transform", "message"),
    [
        (lambda example, uniforms: example[:2], r"transform to return torch.float32 of \(4,\), got .* \(2,\)"),
        (lambda example, uniforms: example + torch.rand(4), "a transform that draws no random numbers"),
        (lambda example, uniforms: example if example.sum() > 0 else -example, "transform to apply torch's operations"),
        (lambda example, uniforms: 1.0, "got float|transform to apply"),
    ],
)
def test_a_transform_that_draws_elsewhere_or_changes_the_shape_is_refused(transform: Any, message: str):
    with pytest.raises(ValueError, match=message):
        PLAN.train(NETWORK, INPUTS, LABELS, step_size=0.1, transform=transform)
