"""Lemma 9: the error of a mean of clients, alike or not.

Question:
  Is the squared error of m clients, each with noise of its own, 1/m of that of one?

The paper:
  Yes: Lemma 9.

Rule:
  Lemma 9: the squared error of the server's estimate is 1/m of that of one client, whether it is of the examples'
  noise (where privacy has hardly any) or of the mechanism's (where examples have), and tilts of the clients that add
  up to 0 change nothing. Reproduced if all four exponents in m (95% bootstrap intervals over runs) have their whole
  interval within 0.03 of -1. Not reproduced if an interval lies outside of that range, or a run ends early. Undecided
  otherwise. In a pilot with another seed the mean squared error of a run had a relative standard deviation of 0.2, so
  that of an exponent is 0.006 with 100 runs: under the lemma an interval is inside with a chance of 0.998, all four
  with 0.99; with exponents of -1/2, or with a floor of a tenth of one client's error (about -0.5), none is.

If reproduced:
  Yes: the squared error is 1/m of one client's, for clients alike and for clients that disagree.

If not reproduced:
  No: the squared error does not fall as 1/m.

Prediction:
  the exponent of the squared error in m is -1; runs scatter by 0.2, as in the stored results

Rival:
  the exponent is -0.9
"""

from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from dpnotes.experiments import Cell, Context, Decision, Preregistration, Spec
from dpnotes.experiments.fits import fitted
from dpnotes.experiments.sweeps import Each, Rows, grid, profiles, study, tabulated
from dpnotes.methods.loop import drive
from dpnotes.oracles.blocks import Blocks
from dpnotes.oracles.holdings import TiltedSamples
from dpnotes.oracles.samples import VirtualSamples
from dpnotes.papers.drift_escape.algorithms import DriftEscapeParameters, Escape, method_of
from dpnotes.papers.drift_escape.distributed import clients_of
from dpnotes.problems.separable import Cosine, Separable, Sine
from dpnotes.problems.virtual import VirtualData
from dpnotes.random.streams import Streams

WORDS = Preregistration.of(__doc__)
QUICK, PAPER = profiles("drift_escape.clients", {
    "decision_rule": WORDS.rule, "seed": "clients", "dim": 20, "smoothness": 2.0, "gradient_bound": 6.0,
    "features": 0.5,  # standard deviation of an example's gradient in a coordinate, at most
    "tilt": 1.0,  # length of a client's tilt, where clients disagree
    "first": 4000,  # b1, of each client
    "least": 400,  # b2
    "drift_threshold": 0.3, "step_size": 0.2, "steps": 30,
    "block": 4,  # clients that are added up first, wherever they are computed
    # Of the mechanism's noise over its sensitivity: so little that examples decide the error, and so much that it does.
    "multipliers": {"examples": 0.01, "mechanism": 5.0},
    "clients": Each([1, 2, 4, 16, 64], [1, 4, 16, 64, 256]), "repeats": Each(100, 400),
})  # fmt: skip


def cells(spec: Spec) -> list[Cell]:
    """One cell a noise, a disagreement and a number of clients."""
    return grid(noise=spec["multipliers"], tilted=(False, True), clients=spec["clients"])


def tilts(spec: Spec, clients: int) -> Tensor:
    """One a client, `(clients, dim)`, that add up to 0; nothing for a client alone."""
    drawn = Streams.of(spec["seed"], ["tilts"]).normal("tilts", 0, clients * spec["dim"]).view(clients, -1)
    drawn = drawn - drawn.mean(0)
    return spec["tilt"] * drawn / drawn.norm(dim=1, keepdim=True).mean().clamp_min(1e-12)


def parameters(spec: Spec, noise: str) -> DriftEscapeParameters:
    """A run that descends all the way: no gradient is small enough for a test."""
    escape = Escape(
        accuracy=0.1, smoothness=spec["smoothness"], hessian_lipschitz=1.0, step_size=spec["step_size"],
        threshold=1e-12, attempt_length=10, radius=1.0, attempts=1, num_steps=spec["steps"], origin="the spec",
    )  # fmt: skip
    return DriftEscapeParameters(
        escape, spec["gradient_bound"], spec["drift_threshold"], spec["first"], spec["least"],
        spec["multipliers"][noise], "the spec",
    )  # fmt: skip


def run_cell(spec: Spec, cell: Cell, context: Context) -> dict[str, Any]:
    """The mean squared error of the estimates of each run, and what each client used.

    Runs descend from near the top of cosines; examples differ by sines.
    """
    count, dim = cell["clients"], spec["dim"]
    data = VirtualData(Separable([(Cosine(1.0), dim)]), Separable([(Sine(spec["features"]), dim)]))
    apart = tilts(spec, count).to(context.device) * float(cell["tilted"])
    choice = parameters(spec, cell["noise"])
    blocks = Blocks(count, spec["block"], context.sharing(-(-count // spec["block"])))

    def run(chosen: range) -> dict[str, Tensor]:
        runs, names = len(chosen), [f"{cell['noise']}/{cell['tilted']}/{count}/{r}" for r in chosen]
        streams = Streams.of(spec["seed"], names, context.device)

        def samples_of(members: range) -> TiltedSamples:
            return TiltedSamples(VirtualSamples(data, 10**15), apart[members.start : members.stop].repeat(runs, 1))

        oracle = clients_of([choice] * runs, samples_of, blocks, context.device)
        method = method_of([choice.escape] * runs)
        start = torch.linspace(0.3, 1.2, dim, dtype=torch.float64, device=context.device).repeat(runs, 1)
        error, x = torch.zeros_like(start[:, 0]), start.clone()

        def observe(going: Tensor, state: Any, estimate: Any) -> None:
            off = estimate.gradient - data.landscape.gradient(x[going])
            error[going] += off.square().sum(1) / spec["steps"]
            x[going] = state.x

        state = drive(method, oracle, method.init(start, oracle), streams, spec["steps"], observe=observe)
        return {"error": error, "used": state.oracle.meter.used[:, 0], "steps": state.steps}

    columns = context.in_chunks(run, spec["repeats"], 8 * 30 * dim * count)
    return {**cell, "repeat": np.arange(spec["repeats"]), **columns}


def exponents(frame: pd.DataFrame) -> dict[str, Any]:
    """The exponent of the squared error in m, by what makes it and whether clients disagree."""
    return {
        f"{noise}, {'clients that disagree' if tilted else 'clients alike'}": fitted(part, "clients", "error")
        for (noise, tilted), part in frame.groupby(["noise", "tilted"], sort=False)
    }


def decide(frame: pd.DataFrame, spec: Spec) -> Decision:
    """The rule in the spec."""
    found = exponents(frame)
    facts = "; ".join(f"{name}: {slope}" for name, slope in found.items())
    early = int((frame["steps"] < spec["steps"]).sum())
    missed = any(slope.misses(-1, 0.03) for slope in found.values())
    if early or missed:
        facts += f"; {early} runs ended early"
    inside = all(slope.within(-1, 0.03) for slope in found.values())
    return Decision.by(f"exponents in m {facts}", failed=early or missed, passed=inside)


# ---------------------------------------------------------------- simulated results
@tabulated
def simulated(spec: Spec, generator: np.random.Generator, right: bool) -> Rows:
    """Mean squared errors that fall as a power of m, and scatter by 0.2 from run to run as in the stored results."""
    for cell in cells(spec):
        mean = cell["clients"] ** (-1.0 if right else -0.9)
        error = mean * np.exp(generator.normal(0, 0.2, spec["repeats"]))
        yield {**cell, "repeat": np.arange(len(error)), "error": error, "steps": spec["steps"]}


EXPERIMENT = study(
    WORDS, [QUICK, PAPER], (cells, run_cell, decide, simulated), chances={"quick": (0.995, 0.0), "paper": (1.0, 0.0)},
    distributed=True,
)  # fmt: skip
