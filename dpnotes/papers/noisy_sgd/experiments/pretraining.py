"""Figure 2's question on our own network: last layers trained without clipping, pretrained and not.

Not the paper's setting. One half of CIFAR-10's classes counts as public: we pretrain the ConvNet on it. The other half
is private. There the last layers of the network are trained, after its first layers were pretrained ("pretrained"), or
were left as they were drawn ("untrained"), which differs in the pretraining alone. Beside them the whole network is
trained from where it was drawn ("whole"), as one would without public images.

With and without clipping a run has the same noise: the least at which the run with clipping is private. So epsilon is
true with clipping. Without clipping it would be true if C bounded the gradients of all examples.

Question:
  Does pretraining make training without clipping hold at small epsilon?

The paper:
  No claim: Figure 2 has pretrained networks alone, of other data; this one is ours.

Rule:
  Test accuracy after the last step. A start holds if training without clipping at epsilon = 1/8 loses less than 0.05
  against the run without privacy from the same start. The losses are differences within a repeat, with t-intervals
  over repeats that hold jointly with 95% (Bonferroni). Reproduced if, each with its whole interval, the pretrained
  start holds, and neither start without pretraining does (last layers on untrained ones, and the whole network). Not
  reproduced if one of these three intervals lies wholly on the other side. Undecided otherwise, and if a run did not
  finish. The runs with clipping and the larger epsilons decide nothing.

Earlier rule:
  The same with an interval of 95% for each difference alone, on the seed "images"; with the two repeats of its quick
  profile it was undecided. What it says stands beside.

If reproduced:
  Yes: at epsilon 1/8 accuracy is close to that without privacy with pretraining, and is not without it.

If not reproduced:
  No: at epsilon 1/8 accuracy is far from that without privacy with pretraining, or is close without it.

Prediction:
  at epsilon 1/8 the pretrained start loses 0.01, the others 0.1; runs scatter by 0.8%, at 1/8 by 2%, as was assumed
  before any run

Rival:
  without pretraining as little is lost as with it
"""

import math
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from dpnotes.experiments import Cell, Context, Decision, Preregistration, Spec
from dpnotes.experiments.sweeps import Rows, grid, mean_interval, study, tabulated
from dpnotes.methods.descent import Descent
from dpnotes.oracles.minibatch import MinibatchGradient
from dpnotes.papers.noisy_sgd.experiments import cifar10, curves, figures, images
from dpnotes.papers.noisy_sgd.experiments.curves import Task
from dpnotes.problems.datasets.cifar import CIFAR10_JPEG_FILES
from dpnotes.problems.datasets.dataset import Dataset
from dpnotes.problems.modules import ModuleProblem
from dpnotes.random.streams import Streams
from dpnotes.train.loop import train

WORDS = Preregistration.of(__doc__)

MARGIN, SMALL = 0.05, 0.125
_PUBLIC, _PRIVATE = [0, 1, 2, 3, 4], [5, 6, 7, 8, 9]
_IMAGES = {"name": "cifar10-jpeg", "train": 25_000, "test": 5000, "pixels": 16}
_BOTH: dict[str, Any] = {
    **curves.STATED, "decision_rule": WORDS.rule, "earlier_rule": WORDS.earlier_rule, "margin": MARGIN, "small": SMALL,
    "seed": "pretraining",
    "network": {"name": "convnet", "norm": "group", "width": 8},
    "frozen": 6,  # the first layers of the network: up to its second residual block
    "clipped": True,  # of what the noise is calibrated for; each cell says whether it clips
    "augment": False, "statistics_batches": 0, "norm_batches": 4, "examples_at_once": 500, "checkpoint_every": 10**6,
}  # fmt: skip
_CPU: dict[str, Any] = {
    **_BOTH, "data": {**_IMAGES, "classes": _PRIVATE}, "batch_size": 125, "epochs": 4, "evaluate_every": 4,
    "public": {"data": {**_IMAGES, "classes": _PUBLIC}, "epochs": 6},
    "epsilons": [0.125, 0.5, 2.0, 8.0], "repeats": 8,
}  # fmt: skip
_FEW = {"name": "cifar10-jpeg", "train": 1000, "test": 1000, "pixels": 16}
_QUICK: dict[str, Any] = {
    **_BOTH, "data": {**_FEW, "classes": _PRIVATE}, "batch_size": 50, "epochs": 4, "evaluate_every": 2,
    "public": {"data": {**_FEW, "classes": _PUBLIC}, "epochs": 4}, "network": {**_BOTH["network"], "width": 4},
    "epsilons": [0.125, 8.0], "repeats": 3,
}  # fmt: skip
SPECS = [Spec("noisy_sgd", "pretraining", profile, given) for profile, given in (("quick", _QUICK), ("cpu", _CPU))]
_UNACCOUNTED = (
    "Without clipping no guarantee stands behind an epsilon: it would hold if C bounded the gradients of all examples, "
    "which nothing enforces; where a measured one is longer, it does not hold.",
    "That one half of the classes is public is our assumption.",
    *images.PIXELS, *curves.GAPS,
)  # fmt: skip


def cells(spec: Spec) -> list[Cell]:
    """One a run; null is the run without privacy. Of the whole network there are only the runs that the rule reads."""
    starts = {"repeat": range(spec["repeats"]), "start": ("pretrained", "untrained", "whole")}
    runs = grid(**starts, clipped=(False, True), epsilon=[None, *spec["epsilons"]])
    of_the_rule = [(False, None), (False, spec["small"])]
    return [
        run for run in runs
        if (run["clipped"], run["epsilon"]) in of_the_rule or (run["start"] != "whole" and run["epsilon"])
    ]  # fmt: skip


# ---------------------------------------------------------------- one run
def run_cell(spec: Spec, cell: Cell, context: Context) -> dict[str, Any]:
    """Train one network; a row for each evaluation."""
    columns = curves.run(spec, cell, context, task, partial(oracle_of, clipped=cell["clipped"]))
    return {"start": cell["start"], **columns}


def oracle_of(spec: Spec, epsilon: float | None, problem: ModuleProblem, clipped: bool) -> MinibatchGradient:
    """Algorithm 1, or Algorithm 2 with the noise of Algorithm 1; Poisson batches in both."""
    oracle = curves.oracle_of(spec, epsilon, problem)
    return replace(oracle, clipped=oracle.clipped and clipped, bound_basis="assumed")


def task(spec: Spec, cell: Cell) -> Task:
    """The layers to train, which a run draws, and what they see of the private images."""
    if cell["start"] == "whole":
        return cifar10.task(spec, cell)
    network = cifar10.network(spec["network"], len(spec["data"]["classes"]))
    return Task(network[spec["frozen"] :], features(spec, cell["repeat"], cell["start"] == "pretrained"))


@lru_cache(maxsize=2)
def features(spec: Spec, repeat: int, pretrained: bool) -> Dataset:
    """The private images after the first layers, drawn and perhaps pretrained for this repeat."""
    layers = first_layers(spec, repeat, pretrained)

    def seen(inputs: Tensor) -> Tensor:
        with torch.no_grad():
            return torch.cat([layers(part) for part in inputs.split(spec["examples_at_once"])])

    data = cifar10.task(spec, {}).data
    return data.with_inputs(seen, f"{data.name}, after {'pretrained' if pretrained else 'untrained'} layers")


def first_layers(spec: Spec, repeat: int, pretrained: bool) -> nn.Module:
    """The layers that stay as they are: as drawn, or after plain SGD of the whole network on the public images."""
    public = Spec(spec.paper, spec.experiment, spec.profile, {**spec.parameters, **spec["public"]})
    data = cifar10.task(public, {}).data
    network = cifar10.network(spec["network"], data.num_classes)
    problem = ModuleProblem(
        network, data.train_inputs, data.train_labels, max_examples_at_once=spec["examples_at_once"]
    )
    streams = Streams.of(f"{spec['seed']}: public", [repeat])
    x = problem.initial(streams)
    if pretrained:
        oracle = curves.oracle_of(public, None, problem)
        x = train(oracle, x, streams, None, method=Descent(spec["step_size"])).x
    network.load_state_dict({name: values[0] for name, values in problem.parameters(x).items()})
    return network[: spec["frozen"]]


# ---------------------------------------------------------------- what came out
@tabulated
def losses(frame: pd.DataFrame, level: float = 0.95) -> Rows:
    """One row a start, with or without clipping, and epsilon: the accuracy, and what is lost against no privacy."""
    for start, runs in curves.last(frame).set_index("repeat").groupby("start"):
        plain = runs[np.isinf(runs["epsilon"])]
        for (clipped, epsilon), part in runs[np.isfinite(runs["epsilon"])].groupby(["enforced", "epsilon"]):
            mean, low, high = mean_interval(plain["test_accuracy"] - part["test_accuracy"], level)
            about = {"start": start, "clipped": clipped, "epsilon": epsilon, "runs": len(part)}
            shown = {"plain": plain["test_accuracy"].mean(), "accuracy": part["test_accuracy"].mean()}
            yield {**about, **shown, "lost": mean, "low": low, "high": high, "above": part["gradient_above"].mean()}


def decide(frame: pd.DataFrame, spec: Spec) -> Decision:
    """The rule in the spec."""
    if lost := int((~frame["finished"]).sum()):
        return Decision("undecided", f"{lost} of {len(frame)} evaluations are of a run that did not finish")
    table = losses(frame, 1 - 0.05 / 3)
    small = table[table["epsilon"] == spec["small"]]
    facts, passed, failed = [], [], []
    for row in small[~small["clipped"]].itertuples():
        holds, does_not = row.high < spec["margin"], row.low > spec["margin"]
        passed.append(holds if row.start == "pretrained" else does_not)
        failed.append(does_not if row.start == "pretrained" else holds)
        facts += [
            f"{row.start}, accuracy without privacy: {row.plain:.3f}",
            f"{row.start}, lost without clipping: {row.lost:+.4f} in [{row.low:+.4f}, {row.high:+.4f}]",
            f"{row.start}, gradients of examples longer than C in the end: {row.above:.0%}",
        ]
    facts += [f"{row.start}, lost with clipping: {row.lost:+.4f}" for row in small[small["clipped"]].itertuples()]
    return Decision.by("; ".join(facts), failed=any(failed), passed=all(passed))


# ---------------------------------------------------------------- simulated results
@tabulated
def simulated(spec: Spec, generator: np.random.Generator, right: bool) -> Rows:
    """Accuracies that lose in proportion to 1/epsilon; by the rival as little without pretraining as with it."""
    about = {"step": 1, "finished": True, "gradient_above": 0.9}
    common: dict[int, float] = {}
    for cell in cells(spec):
        small = cell["epsilon"] == spec["small"]
        lost = 0.01 if cell["start"] == "pretrained" or not right else 0.1
        mean = 0.6 - lost * spec["small"] / (cell["epsilon"] or math.inf)
        shared = common.setdefault(cell["repeat"], 0.01 * generator.standard_normal())
        own = (0.02 if small else 0.008) * generator.standard_normal()
        row = {"repeat": cell["repeat"], "start": cell["start"], "enforced": cell["clipped"], **about}
        yield {**row, "epsilon": cell["epsilon"] or math.inf, "test_accuracy": mean + shared + own}


EXPERIMENT = study(
    WORDS, SPECS, (cells, run_cell, decide, simulated), chances={"quick": (0.01, 0.0), "cpu": (0.95, 0.0)},
    rule=curves.RULE, tolerances=curves.TOLERANCES, unaccounted=_UNACCOUNTED, data=tuple(map(str, CIFAR10_JPEG_FILES)),
    figure=figures.PRETRAINING,
)  # fmt: skip
