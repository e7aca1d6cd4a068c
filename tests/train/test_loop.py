"""Training by noisy SGD: the numbers of the paper's function, with and without a kill; errors are named."""

import os
import signal
import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from dpnotes.core import Relation, Sampling, Status
from dpnotes.methods.descent import Descent
from dpnotes.oracles.minibatch import MinibatchGradient
from dpnotes.problems.architectures import conv_net
from dpnotes.problems.datasets.dataset import Dataset
from dpnotes.problems.modules import ModuleProblem
from dpnotes.random.streams import Streams
from dpnotes.train.loop import Checkpoint, Evaluation, Training, train

STEP_SIZE, BOUND, STEPS, NOISE = 0.3, 2.0, 12, 0.02


def toy(num_examples: int = 60, device: str = "cpu") -> Dataset:
    """Return points of two linearly separable classes."""
    points = Streams.of("toy", [0]).normal("points", 0, 2 * num_examples * 4).view(-1, 4).float().to(device)
    labels = (points[:, 0] + points[:, 1] > 0).long()
    half = slice(None, num_examples), slice(num_examples, None)
    return Dataset("toy", points[half[0]], labels[half[0]], points[half[1]], labels[half[1]], 2, "none needed", "here")


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 2))


def oracle_of(problem: ModuleProblem, runs: int = 1, **changes) -> MinibatchGradient:
    std = torch.full((runs,), NOISE, dtype=torch.float64)
    return replace(
        MinibatchGradient(problem, Sampling.fixed_size(10, problem.num_examples), std, BOUND, STEPS), **changes
    )


def trained(
    path: Path | None = None,
    runs: tuple[str, ...] = ("a",),
    every: int = 5,
    step_size: float = STEP_SIZE,
    given: str = "toy",
    report=None,
    **changes,
) -> Training:
    data = toy()
    problem = ModuleProblem(network(), data.train_inputs, data.train_labels)
    streams = Streams.of("training", runs)
    checkpoint = None if path is None else Checkpoint(path, every, {"data": given})
    oracle = oracle_of(problem, len(runs), **changes)
    x = problem.initial(streams)
    evaluation = Evaluation(data, every=4)
    return train(oracle, x, streams, evaluation, method=Descent(step_size), checkpoint=checkpoint, report=report)


# ---------------------------------------------------------------- what comes out
def test_curves_are_what_the_problem_says_of_the_iterates():
    lines: list[str] = []
    training = trained(report=lines.append)
    data = toy()
    problem = ModuleProblem(network(), data.train_inputs, data.train_labels)
    assert training.curves.shape == (1, 3, 4)  # after 4, 8 and 12 steps
    expected = Evaluation(data, every=1).measure(problem, training.x)
    assert torch.equal(training.curves[:, -1], expected)
    test = problem.evaluate(training.x, data.test_inputs, data.test_labels)
    assert torch.equal(training.curves[:, -1, 2:], torch.stack(test, dim=1))
    assert training.curves[0, -1, 1] > 0.8
    assert [line.split(":")[0] for line in lines] == ["step 4/12", "step 8/12", "step 12/12"]


def test_batch_normalisation_is_evaluated_with_statistics_of_training_examples():
    images = Streams.of("images", [0]).normal("images", 0, 40 * 3 * 16 * 16).view(40, 3, 16, 16).float()
    labels = (images.mean((1, 2, 3)) > 0).long()
    data = Dataset("toy", images[:20], labels[:20], images[20:], labels[20:], 2, "none needed", "here")
    problem = ModuleProblem(conv_net(2, width=2), data.train_inputs, data.train_labels)
    streams = Streams.of("training", ["a"])
    oracle = replace(oracle_of(problem, check=0, num_steps=2), sampling=Sampling.fixed_size(10, 20), augment=True)
    with pytest.raises(ValueError, match="statistics_from=None to be training examples"):
        train(oracle, problem.initial(streams), streams, Evaluation(data, 2), method=Descent(0.1))
    batches = torch.arange(20).view(2, 10)
    training = train(oracle, problem.initial(streams), streams, Evaluation(data, 2, batches), method=Descent(0.1))
    assert training.curves.isfinite().all()


# ---------------------------------------------------------------- killed and gone on
CHILD = """
    import sys, time
    from pathlib import Path
    sys.path.insert(0, {folder!r})
    from test_loop import trained

    def report(line):
        if line.startswith("step 8/"):
            print("killable", flush=True)
            time.sleep(600)

    trained(Path({path!r}), ("a", "b"), clipped=True, report=report)
"""


@pytest.mark.slow
def test_killed_and_gone_on_is_uninterrupted_to_the_bit(tmp_path: Path):
    path = tmp_path / "folder" / "run.pt"
    script = textwrap.dedent(CHILD.format(folder=str(Path(__file__).parent), path=str(path)))
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    child = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, env=environment)
    assert child.stdout is not None
    assert child.stdout.readline() == b"killable\n"
    child.send_signal(signal.SIGKILL)
    assert child.wait() == -signal.SIGKILL
    child.stdout.close()
    assert path.exists() and path.stat().st_mode & 0o077 == 0  # after 5 steps; nobody else may read it

    lines: list[str] = []
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        resumed = trained(path, ("a", "b"), clipped=True, report=lines.append)
        whole = trained(None, ("a", "b"), clipped=True)
        assert [line.split(":")[0] for line in lines] == ["step 8/12", "step 12/12"]  # step 4 was done before
        again = trained(path, ("a", "b"), clipped=True, report=lines.append)
    finally:
        torch.set_num_threads(threads)
    for other in (resumed, again):
        assert torch.equal(other.x, whole.x) and torch.equal(other.curves, whole.curves)
        assert torch.equal(other.oracle_state.meter.spent, whole.oracle_state.meter.spent)
        assert torch.equal(other.oracle_state.meter.checked, whole.oracle_state.meter.checked)
    assert len(lines) == 2  # finished steps are not repeated


def test_control_another_seed_has_other_bits():
    assert not torch.equal(trained(runs=("a",)).x, trained(runs=("c",)).x)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"step_size": 0.2}, r"step_size was 0\.3, is 0\.2"),
        ({"norm_bound": 1.0}, r"norm_bound was 2\.0, is 1\.0"),
        ({"clipped": True}, "clipped was false, is true"),
        ({"given": "other"}, 'given.data was "toy", is "other"'),
        ({"num_steps": 20}, "num_steps was 12, is 20"),
        ({"runs": ("b",)}, "other keys"),
    ],
)
def test_a_checkpoint_of_other_settings_is_refused_with_what_differs(tmp_path: Path, changes: dict, said: str):
    path = tmp_path / "run.pt"
    trained(path)
    with pytest.raises(ValueError, match=said):
        trained(path, **changes)


def test_a_secret_training_goes_on_with_fresh_keys(tmp_path: Path):
    data = toy()
    problem = ModuleProblem(network(), data.train_inputs, data.train_labels)
    streams = Streams.secure(1)
    checkpoint = Checkpoint(tmp_path / "run.pt", 4, {})

    class Killed(Exception):
        pass

    def kill(line: str) -> None:
        if line.startswith("step 8/"):
            raise Killed

    x = problem.initial(Streams.of("start", ["a"]))
    how = {"method": Descent(STEP_SIZE), "checkpoint": checkpoint}
    with pytest.raises(Killed):
        train(oracle_of(problem), x, streams, Evaluation(data, 4), **how, report=kill)
    training = train(oracle_of(problem), x, Streams.secure(1), Evaluation(data, 4), **how)
    assert training.oracle_state.meter.calls.tolist() == [STEPS] and training.curves.isfinite().all()


# ---------------------------------------------------------------- what goes wrong
@pytest.mark.parametrize("clipped", [False, True])
def test_a_loss_that_diverges_is_a_status(clipped: bool):
    # Without clipping, the next iterate is not finite. With clipping the iterate is finite, but the loss is not.
    training = trained(step_size=1e38, clipped=clipped)
    assert training.status.tolist() == [Status.DIVERGED]
    assert trained(clipped=clipped).status.tolist() == [Status.FINISHED]


def test_one_run_diverges_and_the_other_goes_on():
    std = torch.tensor([NOISE, 1e38], dtype=torch.float64)
    training = trained(runs=("a", "b"), noise_std=std)
    assert training.status.tolist() == [Status.FINISHED, Status.DIVERGED]
    alone = trained(runs=("a",))
    torch.testing.assert_close(training.x[:1], alone.x, rtol=1e-4, atol=1e-5)


# ---------------------------------------------------------------- on a GPU
@pytest.mark.gpu
@pytest.mark.parametrize("norm", ["batch", "group"])
def test_on_a_gpu_gone_on_is_uninterrupted_to_the_bit(tmp_path: Path, norm):
    clipped = norm == "group"
    images = Streams.of("images", [0], "cuda").normal("images", 0, 512 * 3 * 32 * 32).view(512, 3, 32, 32).float()
    labels = (images.mean((1, 2, 3)) > 0).long()
    data = Dataset("toy", images[:256], labels[:256], images[256:], labels[256:], 2, "none needed", "here")
    problem = ModuleProblem(
        conv_net(2, norm=norm, width=16),
        data.train_inputs,
        data.train_labels,
        autocast=None if clipped else torch.bfloat16,
        channels_last=True,
        max_examples_at_once=256,
    )
    streams = Streams.of("training", ["a"], "cuda")
    sampling, relation = Sampling.poisson(0.25), Relation.ZERO_OUT
    changes = {"sampling": sampling, "relation": relation, "clipped": True} if clipped else {"check": 0}
    oracle = oracle_of(problem, **changes)
    statistics = None if clipped else torch.arange(256, device="cuda").view(2, 128)
    evaluation = Evaluation(data, 4, statistics)

    class Killed(Exception):
        pass

    def kill(line: str) -> None:
        if line.startswith("step 8/"):
            raise Killed

    x, checkpoint = problem.initial(streams), Checkpoint(tmp_path / "run.pt", 5, {})
    with pytest.raises(Killed):
        train(oracle, x, streams, evaluation, method=Descent(0.1), checkpoint=checkpoint, report=kill)
    resumed = train(oracle, x, streams, evaluation, method=Descent(0.1), checkpoint=checkpoint)
    whole = train(oracle, x, streams, evaluation, method=Descent(0.1))
    assert torch.equal(resumed.x, whole.x) and torch.equal(resumed.curves, whole.curves)
    assert whole.status.tolist() == [Status.FINISHED]
