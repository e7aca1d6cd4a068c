"""Training networks with noisy SGD: evaluation as it goes, progress, checkpoints, and going on after a crash."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
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
from dpnotes.problems.modules import ModuleProblem, OutOfMemory
from dpnotes.random.streams import Streams
from dpnotes.train.norms import NORMS, ExampleNorms
from dpnotes.util import validate
from dpnotes.util.validate import AtLeastOne, checked

METRICS = ("train_loss", "train_accuracy", "test_loss", "test_accuracy")


@checked
@dataclass(frozen=True)
class Evaluation:
    """On what networks are evaluated, and how often.

    The losses and accuracies are exact statistics of the data. No guarantee covers them, and nothing that a run does
    depends on them.

    Args:
      data: training and test examples, on the device of the problem.
      every: steps, at least 1; the last step is always evaluated.
      statistics_from: of a network with batch normalisation, the training examples `(batches, batch)` that its
        statistics are computed from (`ModuleProblem.evaluate`).
      norms: of the examples' gradients, measured beside; None: not at all.

    Raises:
      ValueError: outside these domains.
    """

    data: Dataset
    every: AtLeastOne
    statistics_from: Tensor | None = None
    norms: ExampleNorms | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Of what is measured: the `METRICS`, and the `NORMS` if they are asked for."""
        return METRICS if self.norms is None else (*METRICS, *NORMS)

    def measure(self, problem: ModuleProblem, x: Tensor) -> Tensor:
        """What `names` says at the points `x` `(runs, dim)`, `(runs, names)`."""
        data = self.data
        train = problem.evaluate(x, data.train_inputs, data.train_labels, self.statistics_from)
        test = problem.evaluate(x, data.test_inputs, data.test_labels, self.statistics_from)
        found = torch.stack([*train, *test], dim=1)
        return found if self.norms is None else torch.cat([found, self.norms.measure(x).to(found)], dim=1)


@checked
@dataclass(frozen=True)
class Checkpoint:
    """Where and how often a training is kept, so that it goes on after a crash.

    Args:
      path: of the file. If it is there, the training goes on from it; its folder is made.
      every: steps, at least 1; the end is kept too.
      settings: what else decides what comes out and is not in the oracle, as JSON: network, data, seed.

    Raises:
      ValueError: outside these domains.
    """

    path: Path
    every: AtLeastOne
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Training:
    """A batch of trainings: what a checkpoint holds, and in the end the result.

    Args:
      state: of the method.
      done: steps that were asked for, `(runs,)` int64, the same for all.
      curves: `(runs, evaluations, 4)`: the `METRICS` whenever they were evaluated, NaN where they are yet to be (and
        the norms of gradients beside them, if the evaluation has those). A run that ended early keeps its point, and is
        evaluated there.
    """

    state: DescentState
    done: Tensor
    curves: Tensor

    @property
    def x(self) -> Tensor:
        """Last iterates, `(runs, dim)`."""
        return self.state.x

    @property
    def oracle_state(self) -> State:
        """The oracle's state, for `MinibatchGradient.guarantee`."""
        return self.state.oracle

    @property
    def status(self) -> Tensor:
        """What became of the runs, `(runs,)`; one whose last losses are not finite counts as diverged.

        The method itself sees no loss, only iterates, and ends a run when the next one would not be finite: to stop it
        for an exact loss would publish something about the data.
        """
        finite = self.curves[:, -1:, [0, 2]].isfinite().all((1, 2))  # of no evaluations as well
        ended = self.state.status != Status.OK
        return torch.where(ended & ~finite, int(Status.DIVERGED), self.state.status)


def evaluated_steps(num_steps: int, every: int) -> list[int]:
    """The steps after which a training is evaluated: every so many, and the last.

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
    step_size: float | Tensor,
    momentum: float = 0.0,
    checkpoint: Checkpoint | None = None,
    report: Callable[[str], None] | None = None,
) -> Training:
    """Train networks by Algorithm 1 or 2 of Avdiukhin et al. (2024), arXiv:2410.06878, as the oracle has it.

    A training that was killed goes on from its checkpoint and ends in the same bits as one that was not, on the same
    device, with the same number of threads and versions. On a GPU, cuDNN is held to its deterministic kernels for that.

    Runs take turns in the network (`ModuleProblem`). Beside what the problem holds, a run holds about 180 bytes a
    parameter while its noise is drawn.

    Args:
      oracle: on a `ModuleProblem`, of one run or several.
      x: `(runs, dim)`, starting points, chosen without looking at the data.
      streams: one key a run, the same as before if a checkpoint is there. Secret ones go on with fresh noise.
      evaluation: on what, and how often; None: not at all.
      step_size: above 0, in units of length squared over loss; one, or `(num_steps,)`.
      momentum: of the moving average of the gradients (`Descent`), in [0, 1).
      checkpoint: where and how often it is kept; None: not at all.
      report: called with one line after each evaluation.

    Returns:
      The training; a run that diverged says so in its `status`.

    Raises:
      DamagedFileError: if the checkpoint there is not what was written (`dpnotes.util.files`).
      OutOfMemory: if a batch, the noise or the points do not fit, with what to do.
      ValueError: if the checkpoint there was saved with other settings, naming what differs; if the oracle's problem
        is no `ModuleProblem`; if numbers of runs disagree or an argument is outside its domain.

    Example:
      >>> from dpnotes.core import Sampling
      >>> from dpnotes.problems.datasets import load, subset
      >>> digits = subset(load("digits"), 200, seed=0)
      >>> problem = ModuleProblem(torch.nn.Linear(64, 10), digits.train_inputs, digits.train_labels)
      >>> streams = Streams.of("example", ["run 0"])
      >>> std = torch.tensor([0.01], dtype=torch.float64)
      >>> oracle = MinibatchGradient(problem, Sampling.fixed_size(20, 200), std, 1.0, num_steps=40, clipped=True)
      >>> done = train(oracle, problem.initial(streams), streams, Evaluation(digits, every=20), step_size=0.5)
      >>> done.curves.shape, bool(done.curves[0, -1, 1] > 0.5), done.status.tolist() == [Status.FINISHED]
      (torch.Size([1, 2, 4]), True, True)
    """
    problem = oracle.problem
    if not isinstance(problem, ModuleProblem):
        raise ValueError(f"Expected oracle.problem={type(problem).__name__} to be a ModuleProblem.")
    validate.same_length(x=x, streams=streams, noise_std=oracle.noise_std)
    method, num_steps = Descent(step_size, momentum), oracle.num_steps
    oracle = replace(oracle, noise_std=oracle.noise_std.to(x.device))
    evaluated = [] if evaluation is None else evaluated_steps(num_steps, evaluation.every)
    kept = set(evaluated_steps(num_steps, checkpoint.every)) if checkpoint is not None else set()
    settings = _settings(oracle, method, evaluation, checkpoint)
    with _memory(checkpoint):
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
                # With one step more than there are, the runs notice that they have finished.
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
    oracle: MinibatchGradient, method: Descent, evaluation: Evaluation | None, checkpoint: Checkpoint | None
) -> dict[str, Any]:
    """What decides the numbers, by name. How many examples are passed at once does not, so that it may be changed."""
    return {
        "step_size": method.step_size.tolist() if isinstance(method.step_size, Tensor) else method.step_size,
        "momentum": method.momentum,
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
        "divisor": oracle.desk.claimed[0].bound.divisor,
        "relation": str(oracle.relation),
        "augment": oracle.augment,
        "num_parameters": oracle.problem.dim,
        "evaluate_every": None if evaluation is None else evaluation.every,
        "given": dict(checkpoint.settings) if checkpoint is not None else {},
    }


def _line(step: int, num_steps: int, metrics: Tensor, speed: float) -> str:
    """One line of progress, means over the runs."""
    train_loss, train_accuracy, test_loss, test_accuracy = metrics[:, : len(METRICS)].double().mean(0).tolist()
    return (
        f"step {step}/{num_steps}: train loss {train_loss:.4g}, accuracy {train_accuracy:.4f}; "
        f"test loss {test_loss:.4g}, accuracy {test_accuracy:.4f}; {speed:.3g} steps/s"
    )


@contextmanager
def _memory(checkpoint: Checkpoint | None) -> Iterator[None]:
    """Say what to do when the device has no memory left; a batch that is too large says so itself."""
    goes_on = "" if checkpoint is None else f" The same call goes on from {checkpoint.path}, if it is there by then."
    try:
        yield
    except OutOfMemory as error:
        raise OutOfMemory(f"{error}{goes_on}") from error
    except torch.OutOfMemoryError as error:
        raise OutOfMemory(
            "Expected points and noise to fit into the device's memory, about 180 bytes a parameter and run; try fewer "
            f"runs at once.{goes_on}"
        ) from error
