"""The error of a direction, with momentum and without.

Question:
  Does momentum with a correction at least halve the squared error of a direction?

The paper:
  No claim: the paper has no noise for privacy.

Rule:
  Reproduced if momentum 0.1 has less than half of the mean squared error of momentum 1, not reproduced if it has more
  than all of it, undecided otherwise.

If reproduced:
  Yes.

If not reproduced:
  No.

Prediction:
  a tenth of the error

Rival:
  the same error
"""

import torch

from dpnotes.experiments import Cost, Decision, Preregistration
from dpnotes.experiments.sweeps import SYNTHETIC, Each, grid, profiles, study, tabulated
from dpnotes.methods.descent import Descent
from dpnotes.methods.loop import run
from dpnotes.oracles.samples import DataSetSamples
from dpnotes.papers.storm.algorithms import Storm
from dpnotes.problems.quadratics import Quadratic, log_spectrum
from dpnotes.random.streams import Streams

WORDS = Preregistration.of(__doc__)
SPECS = profiles("storm.correction", {
    "decision_rule": WORDS.rule, "momenta": [0.1, 1.0], "steps": 40, "repeats": Each(30, 300),
})  # fmt: skip


def cells(spec):
    """One cell for each momentum."""
    return grid(momentum=spec["momenta"])


def run_cell(spec, cell, context):
    """The squared error of the last direction, one number a run."""
    def errors(runs):
        problem, ones = Quadratic.sample(log_spectrum(10, 10.0), 2000, 1.0, "storm"), torch.ones(len(runs)).double()
        oracle = Storm(DataSetSamples(problem), 2 * ones, 50, cell["momentum"], gradient_bound=4.0, smoothness=1.0)
        x, streams = ones[:, None].expand(len(runs), 10), Streams.of("storm", runs)
        memory = run(Descent(0.1), oracle, x, streams, delta=1e-6, max_steps=spec["steps"]).state.oracle.memory
        return {"error": (memory.direction - problem.spectrum * memory.point).square().sum(1).numpy()}

    context.record_spent(mechanism="gaussian", noise_multiplier=2.0, releases=1, **SYNTHETIC)  # an example is used once
    return {**cell, **context.in_chunks(errors, spec["repeats"], bytes_per_run=100_000)}


def decide(frame, spec):
    """The rule in the spec."""
    error = frame.groupby("momentum")["error"].mean()
    ratio = error[0.1] / error[1.0]
    return Decision.by(f"ratio of the errors: {ratio:.2f}", failed=ratio > 1, passed=ratio < 1 / 2)


@tabulated
def simulated(spec, generator, right):
    """Errors that scatter as squares of ten normal numbers; momentum 0.1 has a tenth of the error, or all of it."""
    for momentum in spec["momenta"]:
        scale = 0.1 if right and momentum < 1 else 1.0
        yield {"momentum": momentum, "error": scale * generator.chisquare(10, spec["repeats"])}


EXPERIMENTS = (study(
    WORDS, SPECS, (cells, run_cell, decide, simulated), chances={"quick": (1.0, 0.0), "paper": (1.0, 0.0)},
    wants={"paper": Cost(why="hours", hours=0.01, basis="ten times the quick profile")},
),)  # fmt: skip
