"""Any `torch.optim` optimiser as a method: it sees released gradients only, so the guarantee stays what it was.

An optimiser is an object that changes parameters in place, and a method is a function of its state. So the numbers that
an optimiser remembers (moments, counters) are part of the method's state, and are given back to it before each step.
Its settings (step size, decay) are public functions of the number of the step: a schedule is evaluated before the
training, into one value per step.
"""

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau

from dpnotes.core import Estimate, Oracle
from dpnotes.methods.descent import Descent
from dpnotes.methods.step import arrive, ask
from dpnotes.random.streams import Streams
from dpnotes.util import validate
from dpnotes.util.states import select
from dpnotes.util.validate import AtLeastOne, checked

MakesOptimiser = Callable[[list[nn.Parameter]], Optimizer]
MakesSchedule = Callable[[Optimizer], LRScheduler]
Settings = list[dict[str, Any]]  # of each group of parameters


@dataclass(frozen=True)
class OptimisedState:
    """The point, what the optimiser remembers, steps taken, status, and the oracle's state.

    Args:
      x: `(runs, dim)`.
      memory: `(runs, entries)`, the tensors that the optimiser keeps for its parameters (moments), one after the other.
      counters: `(runs, entries)` float64, the single numbers that it keeps.
      steps: `(runs,)` int64.
      status: `(runs,)`.
      oracle: the state of the oracle.
    """

    x: Tensor
    memory: Tensor
    counters: Tensor
    steps: Tensor
    status: Tensor
    oracle: Any


@checked
@dataclass(frozen=True, eq=False)
class Optimised:
    """The method that calls `optimizer.step()` with the gradient estimate as the parameters' `.grad`.

    Args:
      optimizer: returns an optimiser of the parameters that it is given: views of the point, with these shapes, in the
        order of `named_parameters()`. It may group them. Its step takes no closure (`LBFGS` needs one).
      shapes: of the parameters.
      num_steps: the length of the schedule; later steps keep its last settings.
      schedule: returns a learning-rate schedule of the optimiser, stepped after each step; None: constant settings.

    Raises:
      TypeError: if an optimiser needs a closure or remembers something that is no number; if a schedule needs a loss.
      ValueError: if the optimiser holds other parameters than it was given; if the schedule has another length.

    Example:
      >>> method = Optimised(lambda parameters: torch.optim.AdamW(parameters, lr=0.1), [torch.Size([2, 3])], 10)
      >>> method.settings()["optimizer"]
      'AdamW'
    """

    optimizer: MakesOptimiser
    shapes: Sequence[torch.Size]
    num_steps: AtLeastOne
    schedule: MakesSchedule | None = None

    def __post_init__(self) -> None:
        _ = self._table, self._live(torch.zeros(()))  # refused before anything is released

    @cached_property
    def _table(self) -> list[Settings]:
        """The settings of each step; a single entry without a schedule."""
        live = _Live(self.optimizer, self.shapes, torch.zeros(()))
        if self.schedule is None:
            return [live.settings()]
        schedule = self.schedule(live.optimizer)
        if isinstance(schedule, ReduceLROnPlateau) or not isinstance(schedule, LRScheduler):
            raise TypeError(
                f"Expected schedule to return an LRScheduler that needs no loss, got {type(schedule).__name__}."
            )
        if (length := getattr(schedule, "total_steps", self.num_steps)) != self.num_steps:
            raise ValueError(f"Expected schedule of {length} steps to have num_steps={self.num_steps}.")
        table = []
        for _ in range(self.num_steps):
            table.append(live.settings())
            live.optimizer.step()  # no parameter has a gradient, so that none moves
            schedule.step()
        return table

    @cached_property
    def _lives(self) -> dict[tuple[torch.device, torch.dtype], "_Live"]:
        return {}

    def _live(self, like: Tensor) -> "_Live":
        key = like.device, like.dtype
        if key not in self._lives:
            self._lives[key] = _Live(self.optimizer, self.shapes, like)
            self._lives[key].probe()
        return self._lives[key]

    def settings(self) -> dict[str, Any]:
        """The settings that determine the steps, as JSON, for a checkpoint: the optimiser, its groups, its schedule."""
        live, table = self._live(torch.zeros(())), json.dumps(self._table, sort_keys=True)
        return {
            "optimizer": type(live.optimizer).__name__,
            "groups": [len(group["params"]) for group in live.optimizer.param_groups],
            "settings": self._table[0],
            "schedule": hashlib.sha256(table.encode()).hexdigest(),
        }

    def init(self, x: Tensor, oracle: Oracle) -> OptimisedState:
        """Start every run at its row of `x`, `(runs, dim)`."""
        dim = sum(shape.numel() for shape in self.shapes)
        if x.dim() != 2 or x.shape[1] != dim:
            raise ValueError(f"Expected x of shape {tuple(x.shape)} to be (runs, {dim}).")
        live, runs = self._live(x), len(x)
        steps = torch.zeros(runs, dtype=torch.int64, device=x.device)
        counters = torch.zeros(runs, len(live.counters), dtype=torch.float64, device=x.device)
        return OptimisedState(x, x.new_zeros(runs, sum(live.sizes)), counters, steps, steps, oracle.init(x))

    def step(self, state: OptimisedState, oracle: Oracle, streams: Streams) -> tuple[OptimisedState, Estimate]:
        """Make one step in the runs whose status is OK; the other runs do not move."""
        oracle_state, estimate, moves = ask(state, oracle, streams)
        live, last = self._live(state.x), len(self._table) - 1
        rows = state.x, state.memory, state.counters, estimate.gradient
        moved_to = [
            live.step(x, memory, counters, gradient, self._table[min(done, last)], first=not done)
            for x, memory, counters, gradient, done in zip(*rows, state.steps.tolist(), strict=True)
        ]
        x, memory, counters = (_stacked([*part]) for part in zip(*moved_to, strict=True))
        moved, status = arrive(state, estimate, moves, x)
        new = OptimisedState(
            select(moved, x, state.x),
            select(moved, memory, state.memory),
            select(moved, counters, state.counters),
            state.steps + moved,
            status,
            oracle_state,
        )
        return new, estimate

    def output(self, state: OptimisedState) -> Tensor:
        """The last iterate, `(runs, dim)`."""
        return state.x


@checked
def method_of(
    module: nn.Module,
    num_steps: AtLeastOne,
    step_size: float | Tensor | None,
    momentum: float = 0.0,
    optimizer: MakesOptimiser | None = None,
    schedule: MakesSchedule | None = None,
) -> "Descent | Optimised":
    """The method of a training: descent with a step size, or an optimiser of torch.

    Args:
      module: the network whose trainable parameters move.
      num_steps: the length of the training.
      step_size: as `Descent`, at most one per step; None with an optimizer.
      momentum: as `Descent`; 0 with an optimizer.
      optimizer: as `Optimised`; None with a step size.
      schedule: as `Optimised`, for an optimizer.

    Raises:
      ValueError: for neither or both of step size and optimizer, or arguments of the other one.

    Example:
      >>> method_of(nn.Linear(2, 1), 10, None, optimizer=torch.optim.Adam).settings()["optimizer"]
      'Adam'
    """
    if optimizer is None and step_size is not None:
        if schedule is not None:
            raise ValueError("Expected schedule to go with an optimizer: a step_size may be one number per step.")
        if isinstance(step_size, Tensor) and step_size.dim() == 1 and len(step_size) > num_steps:
            raise ValueError(f"Expected step_size of {len(step_size)} entries to have at most {num_steps}.")
        return Descent(step_size, momentum)
    if optimizer is None or step_size is not None:
        raise ValueError("Expected either step_size= or optimizer=, and not both.")
    if momentum:
        raise ValueError(f"Expected momentum={momentum!r} to be an argument of the optimizer.")
    shapes = [parameter.shape for parameter in module.parameters() if parameter.requires_grad]
    return Optimised(optimizer, shapes, num_steps, schedule)


class _Live:
    """One optimiser, whose parameters and memory take the values of any run before a step.

    Args:
      make: returns the optimiser of its parameters.
      shapes: of the parameters.
      like: a tensor of the parameters' type and device.
    """

    def __init__(self, make: MakesOptimiser, shapes: Sequence[torch.Size], like: Tensor) -> None:
        self._dtype = like.dtype
        self._parameters = [nn.Parameter(like.new_zeros(shape)) for shape in shapes]
        self.optimizer = make([*self._parameters])
        validate.instance(Optimizer, optimizer=self.optimizer)
        held = [parameter for group in self.optimizer.param_groups for parameter in group["params"]]
        if {*map(id, held)} != {*map(id, self._parameters)}:
            raise ValueError(
                f"Expected optimizer to hold the {len(shapes)} parameters that it is given and no other, got one of "
                f"{len(held)}: freeze a parameter that is not to move (requires_grad_(False))."
            )
        # By parameter and name: the tensors of `memory` with their shapes, and the numbers of `counters`.
        self.entries: list[tuple[nn.Parameter, str, torch.Size]] = []
        self.counters: list[tuple[nn.Parameter, str, Callable[[float], Any]]] = []
        self.sizes: list[int] = []

    def settings(self) -> Settings:
        """The settings of each group that are plain values or sequences of them."""
        return [
            {name: _plain(value) for name, value in group.items() if name != "params"}
            for group in self.optimizer.param_groups
        ]

    def probe(self) -> None:
        """Find what the optimiser remembers, by a step of its own."""
        name, before = type(self.optimizer).__name__, self.settings()
        for parameter in self._parameters:
            parameter.grad = torch.ones_like(parameter)
        try:
            self.optimizer.step()
        except TypeError as error:
            raise TypeError(f"Expected {name}.step() to need no closure: {error}.") from None
        if self.settings() != before:
            raise TypeError(f"Expected {name} to keep its settings during a step: they are public, its memory is not.")
        if others := self.optimizer.state.keys() - {*self._parameters}:
            raise TypeError(f"Expected {name} to remember numbers of its parameters, got {next(iter(others))!r}.")
        for parameter in self._parameters:
            for key, value in self.optimizer.state[parameter].items():
                if isinstance(value, Tensor) and value.dim() and value.dtype == self._dtype:
                    self.entries.append((parameter, key, value.shape))
                elif isinstance(value, Tensor) and not value.dim():
                    like = value.detach().clone()
                    self.counters.append((parameter, key, lambda number, like=like: torch.full_like(like, number)))
                elif isinstance(value, bool | int | float):
                    self.counters.append((parameter, key, type(value)))
                else:
                    raise TypeError(f"Expected {name} to remember numbers like its parameters, got {key}={value!r}.")
        self.sizes = [shape.numel() for _, _, shape in self.entries]

    def step(
        self, row: Tensor, memory: Tensor, counters: Tensor, gradient: Tensor, settings: Settings, first: bool
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The point, the memory and the counters of one run after a step."""
        row, memory = row.clone(), memory.clone()  # which the optimiser changes in place
        sizes = [parameter.numel() for parameter in self._parameters]
        for parameter, part, own in zip(self._parameters, row.split(sizes), gradient.split(sizes), strict=True):
            parameter.data, parameter.grad = part.view(parameter.shape), own.view(parameter.shape)
        state = self.optimizer.state
        state.clear()
        views = [part.view(shape) for part, (_, _, shape) in zip(memory.split(self.sizes), self.entries, strict=True)]
        if not first:
            for (parameter, key, _), view in zip(self.entries, views, strict=True):
                state[parameter][key] = view
            for (parameter, key, typed), number in zip(self.counters, counters.tolist(), strict=True):
                state[parameter][key] = typed(number)
        for group, told in zip(self.optimizer.param_groups, settings, strict=True):
            group.update(told)
        self.optimizer.step()
        if sum(map(len, state.values())) != len(self.entries) + len(self.counters):
            raise TypeError(f"Expected {type(self.optimizer).__name__} to remember the same entries after each step.")
        for (parameter, key, _), view in zip(self.entries, views, strict=True):
            if state[parameter][key] is not view:
                view.copy_(state[parameter][key])
        counted = [float(state[parameter][key]) for parameter, key, _ in self.counters]
        return row, memory, torch.tensor(counted, dtype=torch.float64, device=row.device)


def _stacked(rows: list[Tensor]) -> Tensor:
    """The rows of all runs, `(runs, ...)`; a single one is not copied."""
    return torch.stack(rows) if len(rows) > 1 else rows[0].unsqueeze(0)


def _plain(value: Any) -> Any:
    """A setting as JSON has it, but with tuples."""
    if isinstance(value, Tensor) and value.numel() == 1:
        return value.item()
    if isinstance(value, tuple | list):
        return type(value)(_plain(part) for part in value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"Expected the optimizer's settings to be numbers, texts or sequences of them, got {value!r}.")
