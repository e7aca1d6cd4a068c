"""The accuracy of a small ConvNet on MNIST at one guarantee, for step sizes of SGD and of Adam.

All trainings have one plan (60,000 examples, Poisson batches of expected size 512, 120 steps, clipping norm 1, the same
noise), the same first weights and the same seed. Trying several step sizes on the data that are to be protected is not
free: no guarantee here covers the choice of the best row.
"""

import argparse
import time
from functools import partial

import torch
from torch import nn

from dpnotes.problems.datasets import load
from dpnotes.problems.published import DataNotFound
from dpnotes.random.streams import Streams
from dpnotes.train.plan import TrainingPlan

STEP_SIZES = {"SGD": (0.25, 0.5, 1.0, 2.0), "Adam": (0.001, 0.002, 0.004, 0.008, 0.016, 0.032)}


def network() -> nn.Module:
    """A ConvNet of two layers, 26,010 parameters."""
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Unflatten(1, (1, 28, 28)),
        nn.Conv2d(1, 16, 8, stride=2, padding=3), nn.ReLU(), nn.MaxPool2d(2, 1),
        nn.Conv2d(16, 32, 4, stride=2), nn.ReLU(), nn.MaxPool2d(2, 1),
        nn.Flatten(), nn.Linear(512, 32), nn.ReLU(), nn.Linear(32, 10),
    )  # fmt: skip


def accuracy(optimiser: str, step_size: float, plan: TrainingPlan) -> float:
    """The accuracy on the test images of the network after a private training."""
    data, streams = load("mnist"), Streams.of("MNIST at one guarantee", ["run"])
    inputs, tests = data.train_inputs.flatten(1).float(), data.test_inputs.flatten(1).float()
    made = {"SGD": partial(torch.optim.SGD, momentum=0.9), "Adam": torch.optim.Adam}[optimiser]
    trained = plan.train(
        network(), inputs, data.train_labels, optimizer=lambda p: made(p, lr=step_size), streams=streams
    )
    return float((trained.module(tests).argmax(1) == data.test_labels).float().mean())


def main() -> None:
    """Print a row for each training."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epsilon", type=float, default=3.0)
    plan = TrainingPlan(parser.parse_args().epsilon, 1e-5, 60000, 512, 120, 1.0)
    try:
        load("mnist")
    except DataNotFound as error:
        print(error)
        return
    print(f"epsilon {plan.epsilon:g}, delta {plan.delta:g}, noise multiplier {plan.noise_multiplier:.3f}")
    for optimiser, step_sizes in STEP_SIZES.items():
        for step_size in step_sizes:
            start = time.process_time()
            found = accuracy(optimiser, step_size, plan)
            print(f"{optimiser:5} {step_size:<6g} {found:.3f}  {time.process_time() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main()
