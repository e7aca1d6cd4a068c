"""Two digits of MNIST in the paper's scaling, and Gaussian data to tune on: what its training experiments share."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from dpnotes.core import Status
from dpnotes.experiments import Cell, Context, Decision, Spec
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
        inputs, labels = self.train_inputs[places], self.train_labels[places]
        return TwoLayerNetwork(
            inputs, labels, self.spec["num_hidden"], len(self.spec["classes"]), self.spec["activation"]
        )

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
        data = subset(_mnist(tuple(spec["classes"])), num_examples, f"{spec['seed']}/{repeat}")
    return preprocessing.projected(data, spec["num_components"], spec["max_norm"])


@cache
def _mnist(classes: tuple[int, ...]) -> Dataset:
    return keep_classes(load_mnist(), classes)


def in_parts(count: int, together: int) -> list[list[int]]:
    """Repeats 0 to count - 1, so many together.

    >>> in_parts(5, 2)
    [[0, 1], [2, 3], [4]]
    """
    return [list(range(first, min(first + together, count))) for first in range(0, count, together)]


def tuning_cells(spec: Spec) -> list[Cell]:
    """First stage of one training size: all schedules on auxiliary data, which cost no privacy."""
    return [{"stage": "tune", "repeats": list(range(spec["auxiliary_repeats"]))}]


def loss_of_finished(frame: pd.DataFrame) -> pd.Series:
    """Training losses, infinite where a run did not finish."""
    return frame["train_loss"].where(frame["finished"] & np.isfinite(frame["train_loss"]), np.inf)


def unfinished(frame: pd.DataFrame) -> Decision | None:
    """The decision where a run did not finish."""
    lost = int((~frame["finished"] | ~np.isfinite(frame["train_loss"])).sum())
    return Decision("undecided", f"{lost} of {len(frame)} runs did not finish") if lost else None


def trained(
    spec: Spec, sets: Sets, names: list[str], rows: list[Any], context: Context, momentum: float = 0.0
) -> dict[str, np.ndarray]:
    """Columns of runs of private gradient descent, as one program; the runs of a place share start and noise.

    Args:
      spec: with clip, step size and delta.
      sets: the data of all places.
      names: of the places, for their keys.
      rows: one a run, which begins with its place and ends with its schedule.
      context: of the cell.
      momentum: of the descent.
    """

    def run(chosen: range) -> dict[str, Tensor]:
        places = [rows[i][0] for i in chosen]
        problem = sets.network(places)
        streams = Streams.of(spec["seed"], [names[place] for place in places], context.device)
        runs = private_gradient_descent(
            problem, [rows[i][-1] for i in chosen], problem.initial(streams), streams, clip=spec["clip"],
            step_size=spec["step_size"], delta=spec["delta"], momentum=momentum,
        )  # fmt: skip
        return {**sets.measured(problem, places, runs.x), "finished": runs.state.status == Status.FINISHED}

    return context.in_chunks(run, len(rows), bytes_per_run(sets.network([0])))


def shown(values: tuple[float, float, float]) -> str:
    """A mean with its interval, in a reason.

    >>> shown((0.01, 0.005, 0.015))
    '+0.0100 in [+0.0050, +0.0150]'
    """
    mean, low, high = values
    return f"{mean:+.4f} in [{low:+.4f}, {high:+.4f}]"
