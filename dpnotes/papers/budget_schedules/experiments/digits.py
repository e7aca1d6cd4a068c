"""Two digits of MNIST in the paper's scaling, and Gaussian data to tune on: what its training experiments share."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from dpnotes.core import Status
from dpnotes.experiments import Cell, Context, Decision, Spec
from dpnotes.experiments.sweeps import Rows, columns_of
from dpnotes.papers.budget_schedules.algorithms import bytes_per_run, private_gradient_descent
from dpnotes.problems import preprocessing
from dpnotes.problems.datasets.dataset import Dataset, gaussian_like, keep_classes, subset
from dpnotes.problems.datasets.mnist import FILES as MNIST_FILES
from dpnotes.problems.datasets.mnist import load_mnist
from dpnotes.problems.networks import TwoLayerNetwork
from dpnotes.random.streams import Streams

SETTING = {
    "classes": [3, 5], "num_components": 60, "max_norm": 10.0, "num_hidden": 1000, "activation": "tanh", "clip": 4.0,
    "step_size": 0.1, "epsilon": 4.0, "delta": 1e-8, "conversion": "classic",
}  # fmt: skip
DATA = tuple(map(str, MNIST_FILES))
# Of the event that is spent on them, beside its rho and the number of runs.
SPENT = {"mechanism": "gaussian", "relation": "zero-out-one", "data": "mnist", "shared_noise": True}
UNACCOUNTED = (
    preprocessing.UNACCOUNTED,
    "The runs of a repeat share their noise, for precise comparison: their guarantees hold for one of them alone.",
    "The losses and accuracies shown are exact statistics of private data, covered by no guarantee.",
)


@dataclass(frozen=True)
class Sets:
    """The data sets of some repeats beside each other, on a device; a place is the position of a repeat among them."""

    spec: Spec
    train_inputs: Tensor
    train_labels: Tensor
    test_inputs: Tensor
    test_labels: Tensor

    @staticmethod
    def of(spec: Spec, stage: str, num_examples: int, repeats: Sequence[int], device: str) -> "Sets":
        """Those of a stage: "tune" has auxiliary data, which cost no privacy, any other one the digits."""
        data = [_data(spec, stage, num_examples, repeat) for repeat in repeats]
        parts = ("train_inputs", "train_labels", "test_inputs", "test_labels")
        return Sets(spec, *(torch.stack([getattr(each, part) for each in data]).to(device) for part in parts))

    def network(self, places: list[int]) -> TwoLayerNetwork:
        """The network on the training examples of these places, a run each."""
        inputs, labels, spec = self.train_inputs[places], self.train_labels[places], self.spec
        return TwoLayerNetwork(inputs, labels, spec["num_hidden"], len(spec["classes"]), spec["activation"])

    def measured(self, problem: TwoLayerNetwork, places: list[int], x: Tensor) -> dict[str, Tensor]:
        """Loss and accuracy on training and test examples, of the network on these places."""
        train = problem.evaluate(x, problem.inputs, problem.labels)
        test = problem.evaluate(x, self.test_inputs[places], self.test_labels[places])
        names = ("train_loss", "train_accuracy", "test_loss", "test_accuracy")
        return dict(zip(names, (*train, *test), strict=True))


def _data(spec: Spec, stage: str, num_examples: int, repeat: int) -> Dataset:
    """The training and test examples of a repeat, in the paper's scaling."""
    if stage == "tune":
        seed = f"{spec['seed']}/auxiliary/{repeat}"
        data = gaussian_like(num_examples, spec["num_components"], len(spec["classes"]), seed)
    else:
        data = subset(mnist(tuple(spec["classes"])), num_examples, f"{spec['seed']}/{repeat}")
    return preprocessing.projected(data, spec["num_components"], spec["max_norm"])


@cache
def mnist(classes: tuple[int, ...] = ()) -> Dataset:
    """MNIST, or the images of some of its digits."""
    return keep_classes(load_mnist(), classes) if classes else load_mnist()


def in_parts(count: int, together: int) -> list[list[int]]:
    """Repeats 0 to count - 1, so many together.

    >>> in_parts(5, 2)
    [[0, 1], [2, 3], [4]]
    """
    return [list(range(first, min(first + together, count))) for first in range(0, count, together)]


def tuning_cells(spec: Spec) -> list[Cell]:
    """First stage of one training size: all schedules on auxiliary data, which cost no privacy."""
    return [{"stage": "tune", "repeats": list(range(spec["auxiliary_repeats"]))}]


def _lost(frame: pd.DataFrame) -> pd.Series:
    return ~frame["finished"] | ~np.isfinite(frame["train_loss"])


def best(frame: pd.DataFrame, *names: str) -> Any:
    """The values of some columns with the lowest mean training loss, which is infinite where a run did not finish."""
    return frame["train_loss"].mask(_lost(frame), np.inf).groupby([frame[name] for name in names]).mean().idxmin()


def unfinished(frame: pd.DataFrame) -> Decision | None:
    """The decision where a run did not finish."""
    lost = int(_lost(frame).sum())
    return Decision("undecided", f"{lost} of {len(frame)} runs did not finish") if lost else None


# From a network a run, the run's plan, and the keys of its streams, to its last point and whether it finished.
Descend = Callable[[TwoLayerNetwork, list[Any], list[str]], tuple[Tensor, Tensor]]


def descent(spec: Spec, momentum: float = 0.0) -> Descend:
    """Private gradient descent, where a plan is a schedule."""

    def descend(problem: TwoLayerNetwork, schedules: list[Any], keys: list[str]) -> tuple[Tensor, Tensor]:
        streams = Streams.of(spec["seed"], keys, problem.inputs.device)
        runs = private_gradient_descent(
            problem, schedules, problem.initial(streams), streams, clip=spec["clip"], step_size=spec["step_size"],
            delta=spec["delta"], momentum=momentum,
        )  # fmt: skip
        return runs.x, runs.state.status == Status.FINISHED

    return descend


def trained(
    sets: Sets, cell: Cell, names: str, plans: list[Any], context: Context, descend: Descend, size: str = ""
) -> dict[str, np.ndarray]:
    """Columns of every plan on the training set of each repeat, as one program; a repeat's runs share start and noise.

    Args:
      sets: the data of the cell's repeats.
      cell: with `stage` and `repeats`.
      names: of the columns that a plan begins with.
      plans: what stands in these columns, then what `descend` takes.
      context: of the cell.
      descend: see there.
      size: of the training set, for keys that have it.
    """
    rows = [*product(range(len(cell["repeats"])), plans)]
    keys = [f"{cell['stage']}/{size}{repeat}" for repeat in cell["repeats"]]

    def run(chosen: range) -> dict[str, Tensor]:
        places = [rows[i][0] for i in chosen]
        problem = sets.network(places)
        x, finished = descend(problem, [rows[i][1][-1] for i in chosen], [keys[place] for place in places])
        return {**sets.measured(problem, places, x), "finished": finished}

    columns = context.in_chunks(run, len(rows), bytes_per_run(sets.network([0])))
    given = columns_of(f"repeat {names}", [(cell["repeats"][place], *plan) for place, plan in rows])
    return {"stage": cell["stage"], **given, **columns}


def simulated_pair(
    generator: np.random.Generator, repeats: int, kind: str, spread: float, gain: float, scatter: float
) -> Rows:
    """Losses around 0.15 under the uniform schedule, and under another one with this gain; both scatter."""
    level = 0.15 + spread * generator.standard_normal(repeats)
    gained = gain + scatter * generator.standard_normal(repeats)
    for schedule, loss in (("uniform", level), (kind, level - gained)):
        about = {"stage": "main", "schedule": schedule, "finished": True}
        yield {**about, "repeat": range(repeats), "train_loss": loss, "test_accuracy": 1 - loss}


def shown(values: tuple[float, float, float]) -> str:
    """A mean with its interval, in a reason.

    >>> shown((0.01, 0.005, 0.015))
    '+0.0100 in [+0.0050, +0.0150]'
    """
    mean, low, high = values
    return f"{mean:+.4f} in [{low:+.4f}, {high:+.4f}]"
