"""Does the correction pay? The error of the last direction, with it and without."""

from dpnotes.experiments.spec import FLOAT64, Decision, Experiment, Spec
from dpnotes.methods.descent import Descent
from dpnotes.methods.loop import run
from dpnotes.oracles.samples import DataSetSamples
from dpnotes.papers.storm.algorithms import Storm
from dpnotes.problems.quadratics import Quadratic, log_spectrum
from dpnotes.random.streams import Streams


def run_cell(spec, cell, context):
    """All runs of one momentum."""
    problem, ones = Quadratic.sample(log_spectrum(10, 10.0), 2000, 1.0, "storm"), log_spectrum(30, 1.0)
    oracle = Storm(DataSetSamples(problem), 2 * ones, 50, cell["momentum"], gradient_bound=4.0, smoothness=1.0)
    x, streams = ones[:, None].expand(30, 10), Streams.of("storm", range(30))
    memory = run(Descent(0.1), oracle, x, streams, delta=1e-6, max_steps=40).state.oracle.memory
    return {**cell, "error": (memory.direction - problem.spectrum * memory.point).square().sum(1).numpy()}


def decide(frame, spec):
    """The rule in the spec."""
    error = frame.groupby("momentum")["error"].mean()
    return Decision("reproduced" if error[0.1] < error[1] / 2 else "not reproduced", str(error.to_dict()))


specs = {"quick": Spec("storm", "correction", "quick", {"decision_rule": "Reproduced if momentum halves the error."})}
card = dict(paper="storm", name="correction", title="STORM", question="Does it pay?", tolerances=FLOAT64, decide=decide)
EXPERIMENTS = (Experiment(**card, specs=specs, run_cell=run_cell, cells=lambda _: [{"momentum": a} for a in (0.1, 1)]),)
