"""The training of networks with noisy SGD: evaluation, progress reports, checkpoints, resuming after a crash."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
from torch import Tensor

from dpnotes.core import Status
from dpnotes.methods import checkpoint as checkpoints
from dpnotes.methods.descent import Descent, DescentState
from dpnotes.methods.loop import drive
from dpnotes.oracles.minibatch import MinibatchGradient
from dpnotes.oracles.release import State
from dpnotes.problems.datasets.dataset import Dataset
from dpnotes.problems.modules import ModuleProblem
from dpnotes.random.streams import Streams
from dpnotes.train.norms import NORMS, ExampleNorms
from dpnotes.train.optimiser import Optimised, OptimisedState
from dpnotes.util import validate
from dpnotes.util.validate import AtLeastOne, checked

METRICS = ("train_loss", "train_accuracy", "test_loss", "test_accuracy")


@checked
@dataclass(frozen=True)
class Evaluation:
    """The data on which networks are evaluated, and how often.

    The losses and accuracies are exact statistics of the data. No guarantee covers them, and nothing that a run does
    depends on them.

    Args:
      data: training and test examples, on the device of the problem.
      every: steps, at least 1; the last step is always evaluated.
      statistics_from: for a network with batch normalisation, the training examples `(batches, batch)` that its
        statistics are computed from (`ModuleProblem.evaluate`).
      norms: the per-example gradient norms to measure as well; None: not measured.

    Raises:
      ValueError: outside these domains.
    """

    data: Dataset
    every: AtLeastOne
    statistics_from: Tensor | None = None
    norms: ExampleNorms | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the measured quantities: the `METRICS`, and the `NORMS` if they are requested."""
        return METRICS if self.norms is None else (*METRICS, *NORMS)

    def measure(self, problem: ModuleProblem, x: Tensor) -> Tensor:
        """The quantities in `names` at the points `x` `(runs, dim)`, as `(runs, names)`."""
        data = self.data
        train = problem.evaluate(x, data.train_inputs, data.train_labels, self.statistics_from)
        test = problem.evaluate(x, data.test_inputs, data.test_labels, self.statistics_from)
        found = torch.stack([*train, *test], dim=1)
        return found if self.norms is None else torch.cat([found, self.norms.measure(x).to(found)], dim=1)


@checked
@dataclass(frozen=True)
class Checkpoint:
    """The place and the frequency of a training's checkpoints, from which it resumes after a crash.

    Args:
      path: of the file. If the file exists, the training resumes from it; a missing folder is created.
      every: steps between checkpoints, at least 1; the last step is stored too.
      settings: further inputs that determine the result and are not in the oracle, as JSON: network, data, seed.

    Raises:
      ValueError: outside these domains.
    """

    path: Path
    every: AtLeastOne
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Training:
    """The state of a batch of trainings: the content of a checkpoint and, at the end, the result.

    Args:
      state: the method's state.
      done: the number of steps requested so far, `(runs,)` int64, the same for all runs.
      curves: `(runs, evaluations, 4)`: the `METRICS` at each evaluation, NaN where it is still to come; further columns
        hold the `NORMS`, if the evaluation measures them. A run that ended early is evaluated at its last point.
    """

    state: DescentState | OptimisedState
    done: Tensor
    curves: Tensor

    @property
    def x(self) -> Tensor:
        """The last iterates, `(runs, dim)`."""
        return self.state.x

    @property
    def oracle_state(self) -> State:
        """The oracle's state, for `MinibatchGradient.guarantee`."""
        return self.state.oracle

    @property
    def status(self) -> Tensor:
        """The status of each run, `(runs,)`; an ended run whose last losses are not finite counts as DIVERGED.

        The method sees iterates only, no losses, and ends a run when its next iterate would not be finite: stopping on
        an exact loss would publish information about the data.
        """
        finite = self.curves[:, -1:, [0, 2]].isfinite().all((1, 2))  # True without evaluations
        ended = self.state.status != Status.OK
        return torch.where(ended & ~finite, int(Status.DIVERGED), self.state.status)


def evaluated_steps(num_steps: int, every: int) -> list[int]:
    """The steps after which a training is evaluated: every `every` steps, and the last.

    Example:
      >>> evaluated_steps(10, 4)
      [4, 8, 10]
    """
    validate.at_least(1, num_steps=num_steps, every=every)
    return sorted({*range(every, num_steps + 1, every), num_steps})


def train(
    oracle: MinibatchGradient,
    x: Tensor,
    streams: Streams,
    evaluation: Evaluation | None,
    *,
    method: Descent | Optimised,
    checkpoint: Checkpoint | None = None,
    report: Callable[[str], None] | None = None,
) -> Training:
    """Train networks by Algorithm 1 or 2 of Avdiukhin et al. (2024), arXiv:2410.06878; the oracle says which.

    An interrupted training resumes from its checkpoint and gives the same bits as an uninterrupted one, on the same
    device with the same versions and number of threads. On a GPU, cuDNN uses its deterministic kernels for this.

    The network processes the runs one after another (`ModuleProblem`). In addition to the problem's memory, a run needs
    about 180 bytes per parameter while its noise is drawn.

    Args:
      oracle: the gradient oracle on a `ModuleProblem`, for one run or several.
      x: `(runs, dim)`, starting points, chosen without looking at the data.
      streams: one key per run, the same as before if a checkpoint exists. Secret streams continue with fresh noise.
      evaluation: the data and the frequency of evaluations; None: no evaluation.
      method: descent, or an optimiser of torch.
      checkpoint: where and how often the training is stored; None: never.
      report: called with one line after each evaluation.

    Returns:
      The training; `status` shows the runs that diverged.

    Raises:
      DamagedFileError: if the checkpoint's content is not what was written (`dpnotes.util.files`).
      OutOfMemory: if a batch does not fit into memory; the message says what to do.
      ValueError: if the checkpoint was saved with other settings, naming the difference; if numbers of runs disagree or
        an argument is outside its domain.

    Example:
      >>> from dpnotes.core import Sampling
      >>> from dpnotes.problems.datasets import load, subset
      >>> digits = subset(load("digits"), 200, seed=0)
      >>> problem = ModuleProblem(torch.nn.Linear(64, 10), digits.train_inputs, digits.train_labels)
      >>> streams = Streams.of("example", ["run 0"])
      >>> std = torch.tensor([0.01], dtype=torch.float64)
      >>> oracle = MinibatchGradient(problem, Sampling.fixed_size(20, 200), std, 1.0, num_steps=40, clipped=True)
      >>> done = train(oracle, problem.initial(streams), streams, Evaluation(digits, every=20), method=Descent(0.5))
      >>> done.curves.shape, bool(done.curves[0, -1, 1] > 0.5), done.status.tolist() == [Status.FINISHED]
      (torch.Size([1, 2, 4]), True, True)
    """
    problem: Any = oracle.problem
    validate.same_length(x=x, streams=streams, noise_std=oracle.noise_std)
    num_steps = oracle.num_steps
    oracle = replace(oracle, noise_std=oracle.noise_std.to(x.device))
    evaluated = [] if evaluation is None else evaluated_steps(num_steps, evaluation.every)
    kept = set(evaluated_steps(num_steps, checkpoint.every)) if checkpoint is not None else set()
    settings = _settings(oracle, method, evaluation, checkpoint)
    names = METRICS if evaluation is None else evaluation.names
    curves = torch.full((len(x), len(evaluated), len(names)), torch.nan, device=x.device, dtype=x.dtype)
    done = torch.zeros(len(x), dtype=torch.int64, device=x.device)
    training = Training(method.init(x, oracle), done, curves)
    if checkpoint is not None and checkpoint.path.exists():
        seeded = None if streams.secret else streams
        training, streams = checkpoints.resume(checkpoint.path, training, seeded, settings)
    begun, before = perf_counter(), int(training.done[0])
    for step in sorted({*evaluated, *kept, num_steps}):
        if step <= int(training.done[0]):
            continue
        state = training.state
        if bool((state.status == Status.OK).any()):
            # A step beyond the last one sets the runs' status to FINISHED.
            last = step == num_steps
            state = drive(method, oracle, state, streams, step - int(training.done[0]) + last)
        curves = training.curves
        if evaluation is not None and step in evaluated:
            curves = curves.clone()
            curves[:, evaluated.index(step)] = evaluation.measure(problem, state.x)
            if report is not None:
                speed = (step - before) / (perf_counter() - begun)
                report(_line(step, num_steps, curves[:, evaluated.index(step)], speed))
        training = Training(state, torch.full_like(done, step), curves)
        if checkpoint is not None and step in kept:
            checkpoints.save(checkpoint.path, training, streams, settings)
    return training


def _settings(
    oracle: MinibatchGradient, method: Descent | Optimised, evaluation: Evaluation | None, checkpoint: Checkpoint | None
) -> dict[str, Any]:
    """The settings that determine the result, by name; the number of examples processed at once is not one of them."""
    return {
        **method.settings(),
        "noise_std": oracle.noise_std.tolist(),
        "mechanism": type(oracle.mechanism).__name__,
        "norm_bound": oracle.norm_bound,
        "clipped": oracle.clipped,
        "check": oracle.check,
        "num_steps": oracle.num_steps,
        "sampling": {
            "scheme": oracle.sampling.scheme,
            "rate": oracle.sampling.rate,
            "num_examples": oracle.problem.num_examples,
        },
        "divisor": oracle.releases.claimed[0].bound.divisor,
        "relation": str(oracle.relation),
        "augment": oracle.augment,
        "num_parameters": oracle.problem.dim,
        "evaluate_every": None if evaluation is None else evaluation.every,
        "given": dict(checkpoint.settings) if checkpoint is not None else {},
    }


def _line(step: int, num_steps: int, metrics: Tensor, speed: float) -> str:
    """A line of progress with means over the runs."""
    train_loss, train_accuracy, test_loss, test_accuracy = metrics[:, : len(METRICS)].double().mean(0).tolist()
    return (
        f"step {step}/{num_steps}: train loss {train_loss:.4g}, accuracy {train_accuracy:.4f}; "
        f"test loss {test_loss:.4g}, accuracy {test_accuracy:.4f}; {speed:.3g} steps/s"
    )
