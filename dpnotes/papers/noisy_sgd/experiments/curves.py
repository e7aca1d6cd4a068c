"""Accuracy against epsilon, for a network and a data set: what the image and the text experiments have in common.

The published epsilon of a run is nominal: it goes into Theorem 3.3 with c_2 = 1, as if a bound C of all gradients held.
Beside it stands what the accountant finds for the noise that was added, as if C held. Only with clipping is that so.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import nn

from dpnotes.core import Relation, Sampling, Status
from dpnotes.experiments import Answers, Cell, Context, Decision, Experiment, Preregistration, Simulation, Spec
from dpnotes.experiments.sweeps import Rows, mean_interval, study, tabulated
from dpnotes.guarantees import TUNED_ON_PRIVATE_DATA, Guarantee
from dpnotes.methods.descent import Descent
from dpnotes.oracles.minibatch import MinibatchGradient
from dpnotes.papers.noisy_sgd.algorithms import theorem_3_1_noise
from dpnotes.papers.noisy_sgd.calculators import GRADIENT_BOUND
from dpnotes.papers.noisy_sgd.experiments.costs import COSTS
from dpnotes.privacy.accounting import account
from dpnotes.privacy.events import Event, clipped_sensitivity
from dpnotes.privacy.mechanisms import Exact, Gaussian
from dpnotes.problems.datasets.dataset import Dataset, permutation
from dpnotes.problems.modules import ModuleProblem
from dpnotes.random.streams import Streams
from dpnotes.train.loop import Checkpoint, Evaluation, Training, evaluated_steps, train
from dpnotes.train.noise import calibrated_noise, no_noise
from dpnotes.train.norms import NORMS, ExampleNorms

# Parameters that `decide` alone reads, and words.
RULE = ("close", "drop", "earlier_rule", "margin", "not_stated_by_the_paper", "speaks_of")
# Batch normalisation and some hundred steps in single precision: on another processor a run takes another path.
TOLERANCES = {"*": None, "epsilon": 0.0, "epoch": 0.0, "norm_bound": 0.0, "noise_std": 1e-9, "accounted": 1e-9}
_BYTES_A_PARAMETER = 180  # while noise is drawn, see `train.loop.train`


@dataclass(frozen=True)
class Task:
    """The network, the data and the training of a study.

    Args:
      module: the network; its parameters are where a run starts.
      data: on the CPU.
      only: beginnings of the names that are drawn anew for each run; None: all; []: none.
    """

    module: nn.Module
    data: Dataset
    only: list[str] | None = None


MARGIN, DROP = 0.05, 0.02


def ruled(close: list[float]) -> dict[str, Any]:
    """The decision rule in words, and the epsilons at which accuracy is to be close to that without privacy."""
    near = f"; and the loss against the run without privacy at epsilon in {close} is below {MARGIN:g}" if close else ""
    rule = (
        "Test accuracy after the last step, as differences within a repeat, with t-intervals over repeats that hold "
        "jointly with 95% (Bonferroni). Reproduced if, each with its whole interval, the gain from the smallest "
        f"epsilon to the largest is above 0; that from each epsilon to the next is above -{DROP:g}{near}. Not "
        "reproduced if one of these intervals lies wholly on the other side. Undecided otherwise, and if a run did not "
        "finish. The share of the examples' gradients that were measured above C is named and decides nothing."
    )
    return {"decision_rule": rule, "close": close}


STATED: dict[str, Any] = {
    **ruled([4.0, 8.0]),
    "earlier_rule": 'The same with an interval of 95% for each difference alone, on the seed "images"; with the two '
    "repeats of its quick profile it was undecided. What it says stands beside.",
    "margin": MARGIN, "drop": DROP,
    "epsilons": [0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0], "delta": 0.01, "step_size": 0.1, "norm_bound": 2.5,
    "c_1": 1.0, "c_2": 1.0, "first_repeat": 0, "clipped": False,
}  # fmt: skip
GAPS = (
    "The step size was tuned on the data by the paper.",
    "The runs of a repeat share their noise: a guarantee would hold for one of them alone.",
    "The losses and accuracies shown are exact statistics of private data.",
    "delta = 0.01 allows to publish one example in a hundred.",
)
MIXED = (
    "Batch normalisation mixes examples, so that no example has a gradient of its own, and uses statistics without "
    "noise.",
)


def cells(spec: Spec) -> list[Cell]:
    """One a run; null is the run without privacy. All epsilons of a repeat come before the next repeat."""
    repeats = range(spec["first_repeat"], spec["first_repeat"] + spec["repeats"])
    return [{"repeat": repeat, "epsilon": epsilon} for repeat in repeats for epsilon in [*spec["epsilons"], None]]


# ---------------------------------------------------------------- one run
def steps_of(spec: Spec, num_examples: int) -> tuple[int, int]:
    """Steps in all, and steps an epoch."""
    an_epoch = num_examples // spec["batch_size"]
    return spec["epochs"] * an_epoch, an_epoch


def norm_bound(spec: Spec, num_examples: int) -> float:
    """C: a number, or Lemma 3.2 as printed at the constants in the spec (which nobody knows of a network)."""
    given = spec["norm_bound"]
    if not isinstance(given, dict):
        return given
    given = given | {"alpha": 1.0, "c_eta": 1.0}  # of other sets of constants than the paper's
    num_steps, _ = steps_of(spec, num_examples)
    return float(GRADIENT_BOUND(n=num_examples, T=num_steps, delta=spec["delta"], **given, constants="paper")["C"])


# Kept, as all repeats ask for the same and a calibration takes a second.
_theorem_noise, _calibrated_noise = cache(theorem_3_1_noise), cache(calibrated_noise)


def oracle_of(spec: Spec, epsilon: float | None, problem: ModuleProblem) -> MinibatchGradient:
    """Algorithm 2 with batches of fixed size; or Algorithm 1 with Poisson batches, whose accountant is the tighter.

    The run without privacy is plain SGD.
    """
    n, B, clipped, noise = problem.num_examples, spec["batch_size"], spec["clipped"], no_noise()
    num_steps, bound = steps_of(spec, n)[0], norm_bound(spec, n)
    sampling = Sampling.poisson(B / n) if clipped else Sampling.fixed_size(B, n)
    relation = Relation.ZERO_OUT if clipped else Relation.REPLACE_ONE
    common = {"norm_bound": bound, "num_steps": num_steps}
    if clipped and epsilon is not None:
        how = {"sampling": sampling, "relation": relation, "divisor": B}
        noise = _calibrated_noise(epsilon, spec["delta"], **common, **how)
    elif epsilon is not None:
        how = {"batch_size": B, "num_examples": n, "c_1": spec["c_1"], "c_2": spec["c_2"]}
        noise = _theorem_noise(epsilon, spec["delta"], **common, **how)
    return MinibatchGradient(
        problem, sampling, torch.tensor([noise.std], dtype=torch.float64), bound, num_steps, relation,
        clipped=clipped and epsilon is not None,
        bound_basis="assumed" if isinstance(spec["norm_bound"], dict) else "measured",
        check=0,  # with batch normalisation no example has a gradient of its own
        augment=spec["augment"], divisor=B, mechanism=Exact() if epsilon is None else Gaussian(),
    )  # fmt: skip


def accounted(oracle: MinibatchGradient, guarantee: Guarantee) -> dict[str, float]:
    """Epsilons that the accountant finds for the noise, as if C held: for the batches as they were drawn, and kinder.

    The kinder reading takes the batches for Poisson ones and says that a neighbour lacks an example: the noise counts
    twice as much then as where an example is replaced, and the accountant (PLD) loses nothing.
    """
    std = float(oracle.noise_std[0])
    kinder = math.inf
    if std:
        poisson = Sampling.poisson(oracle.sampling.rate)
        divisor = float(oracle.releases.claimed[0].bound.divisor)
        moved = clipped_sensitivity(oracle.norm_bound, divisor, Relation.ZERO_OUT, poisson)
        event = Event(std / moved, Relation.ZERO_OUT, poisson, oracle.num_steps)
        kinder = account([event], guarantee.delta).epsilon
    return {"accounted": guarantee.nominal_epsilon, "accounted_poisson": kinder}


def run(
    spec: Spec,
    cell: Cell,
    context: Context,
    task: Callable[[Spec, Cell], Task],
    make_oracle: Callable[[Spec, float | None, ModuleProblem], MinibatchGradient] = oracle_of,
) -> dict[str, Any]:
    """Train one network; a row for each evaluation."""
    made = task(spec, cell)
    data = made.data.to(context.device)
    gpu = context.device == "cuda"
    problem = ModuleProblem(
        made.module, data.train_inputs, data.train_labels,
        # Clipped passes are float32 on every device.
        autocast=torch.bfloat16 if gpu and not spec["clipped"] else None,
        channels_last=gpu, max_examples_at_once=spec["examples_at_once"],
    )  # fmt: skip
    oracle = make_oracle(spec, cell["epsilon"], problem)
    num_steps, an_epoch = steps_of(spec, problem.num_examples)
    every = spec["evaluate_every"] * an_epoch
    # Runs of a repeat share their start, their batches and their noise up to its scale: differences are paired.
    streams = Streams.of(spec["seed"], [cell["repeat"]], context.device)
    norms = ExampleNorms(
        made.module, data.train_inputs, data.train_labels,
        _batches(spec, problem.num_examples, "norm_batches", context.device), oracle.norm_bound,
        spec["examples_at_once"],
    )  # fmt: skip
    statistics = _batches(spec, problem.num_examples, "statistics_batches", context.device)
    evaluation = Evaluation(data, every, statistics if problem.mixes_examples else None, norms)
    checkpoint, settings = None, {**spec.parameters, "cell": cell}
    if context.checkpoint is not None:
        checkpoint = Checkpoint(context.checkpoint, spec["checkpoint_every"] * an_epoch, settings)
    finished: list[Training] = []

    def one(rows: range) -> dict[str, torch.Tensor]:
        how = {"method": Descent(spec["step_size"]), "checkpoint": checkpoint, "report": context.report}
        finished.append(train(oracle, problem.initial(streams, only=made.only), streams, evaluation, **how))
        return {"status": finished[-1].status}

    # One run: this refuses what does not fit before the first step.
    columns = context.in_chunks(one, 1, problem.bytes_per_run + _BYTES_A_PARAMETER * problem.dim)
    training = finished[-1]
    (guarantee,) = oracle.guarantee(training.oracle_state, spec["delta"], streams, not_covered=(TUNED_ON_PRIVATE_DATA,))
    found = accounted(oracle, guarantee)
    if cell["epsilon"] is not None:
        context.record_spent(
            mechanism="gaussian", nominal=cell["epsilon"], rho=float(oracle.declared()[0]),
            **{name: float(f"{value:.6g}") for name, value in found.items()}, delta=spec["delta"],
            relation=str(oracle.relation), sampling=oracle.sampling.scheme, steps=num_steps,
            norm_bound=oracle.norm_bound, bound="enforced" if oracle.clipped else oracle.bound_basis, shared_noise=True,
        )  # fmt: skip
    if checkpoint is not None:
        checkpoint.path.unlink(missing_ok=True)
    steps = np.array(evaluated_steps(num_steps, every))
    return {
        "repeat": cell["repeat"], "epsilon": math.inf if cell["epsilon"] is None else float(cell["epsilon"]),
        "step": steps, "epoch": steps / an_epoch,
        **dict(zip(evaluation.names, training.curves[0].double().cpu().numpy().T, strict=True)),
        "noise_std": float(oracle.noise_std[0]), "norm_bound": oracle.norm_bound, **found, "enforced": oracle.clipped,
        "exceeded": int(training.oracle_state.meter.exceeded[0]),
        "finished": bool(columns["status"][0] == Status.FINISHED),
    }  # fmt: skip


def _batches(spec: Spec, num_examples: int, name: str, device: str) -> torch.Tensor:
    """So many batches of training examples, at most all, the same in all runs: to be looked at, not trained on.

    The statistics of batch normalisation are computed from such, and the norms of gradients are measured on some.
    """
    size = spec["batch_size"]
    number = min(spec[name], num_examples // size)
    order = permutation("statistics", spec["seed"], num_examples)[: number * size]
    return order.view(number, size).to(device)


# ---------------------------------------------------------------- what came out
def last(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows after the last step."""
    return frame[frame["step"] == frame["step"].max()]


def bands(frame: pd.DataFrame, metric: str = "test_accuracy") -> pd.DataFrame:
    """Mean, smallest and largest over repeats after the last step, by nominal epsilon (Figures 1 and 3 of the paper).

    With the accounted epsilons beside it; infinite is the run without privacy.
    """
    by = last(frame).groupby("epsilon")
    table = by[metric].agg(["mean", "min", "max", "count"])
    return table.join(by[["accounted", "accounted_poisson", "noise_std"]].first()).reset_index()


def decide(frame: pd.DataFrame, spec: Spec) -> Decision:
    """The rule in the spec."""
    final = last(frame)
    if lost := int((~final["finished"]).sum()):
        return Decision("undecided", f"{lost} of {len(final)} runs did not finish")
    table = final.pivot(index="repeat", columns="epsilon", values="test_accuracy")
    private = sorted(epsilon for epsilon in table.columns if math.isfinite(epsilon))
    steps = list(zip(private[:-1], private[1:], strict=True))
    # What is asked: that a gain lies above a limit.
    asked = [(private[0], private[-1], 0.0), *((low, high, -spec["drop"]) for low, high in steps)]
    asked += [(math.inf, epsilon, -spec["margin"]) for epsilon in spec["close"]]
    decision, earlier = (_decided(table, asked, level) for level in (1 - 0.05 / len(asked), 0.95))
    facts = f"{len(table)} repeats; gain of accuracy from {decision.reason}; by intervals of 95% each: "
    return replace(decision, reason=f"{facts}{earlier.verdict}; {exceedances(frame)}")


def _decided(table: pd.DataFrame, asked: list[tuple[float, float, float]], level: float) -> Decision:
    """The outcome by intervals of this level for gains and limits, and the gains that decide it (or all)."""
    comments: dict[str, list[str]] = {"above": [], "below": [], "around": []}
    for start, end, limit in asked:
        mean, low, high = mean_interval((table[end] - table[start]).to_numpy(), level)
        comment = f"epsilon {start:g} to {end:g}: {mean:+.4f} in [{low:+.4f}, {high:+.4f}], limit {limit:g}"
        comments["above" if low > limit else "below" if high < limit else "around"].append(comment)
    decisive = comments["below"] or comments["around"] or comments["above"]
    return Decision.by("; ".join(decisive), failed=comments["below"], passed=not comments["around"])


def exceedances(frame: pd.DataFrame) -> str:
    """The comparison of the measured gradient norms with C, in words; they are exact, and no guarantee covers them."""
    bound, above = frame["norm_bound"].iloc[0], frame["gradient_above"]
    return (
        f"of the examples' gradients measured in training {above.mean():.1%} were longer than C = {bound:g} (from "
        f"{above.min():.1%} to {above.max():.1%}), the longest {frame['gradient_largest'].max():.3g}; the longest of a "
        f"batch's mean was {frame['batch_gradient'].max():.3g}"
    )


# ---------------------------------------------------------------- simulated results
@dataclass(frozen=True)
class Accuracies:
    """Accuracies after the last step.

    Args:
      without: the mean without privacy.
      lost: at an epsilon of 1, and in proportion to 1/epsilon at others.
      least: the mean at most noise, which is that of guessing or better.
      repeat_std: what the runs of a repeat have in common.
      run_std: what each run has of its own.
      smallest_std: the same at the smallest epsilon.
    """

    without: float
    lost: float
    least: float
    repeat_std: float
    run_std: float
    smallest_std: float

    @tabulated
    def frame(self, spec: Spec, generator: np.random.Generator, right: bool) -> Rows:
        """One result; by the rival the largest epsilon loses the margin and a half.

        Where no epsilon is asked to be close, accuracy is the same at all by the rival.
        """
        smallest, largest = min(spec["epsilons"]), max(spec["epsilons"])
        about = {"norm_bound": norm_bound(spec, 50_000), **dict.fromkeys(NORMS, 0.0), "step": 1, "finished": True}
        common: dict[int, float] = {}
        for cell in cells(spec):
            repeat, epsilon = cell["repeat"], math.inf if cell["epsilon"] is None else cell["epsilon"]
            mean = max(self.least, self.without - self.lost / epsilon)
            if not right and (not spec["close"] or epsilon == largest):
                mean = self.without - 1.5 * spec["margin"] * bool(spec["close"])
            if repeat not in common:
                common[repeat] = self.repeat_std * generator.standard_normal()
            own = (self.smallest_std if epsilon == smallest else self.run_std) * generator.standard_normal()
            yield {**about, "repeat": repeat, "epsilon": epsilon, "test_accuracy": mean + common[repeat] + own}


QUICK = Accuracies(without=0.83, lost=0.012, least=0.6, repeat_std=0.01, run_std=0.016, smallest_std=0.065)
CLIPPED = Accuracies(without=0.74, lost=0.05, least=0.57, repeat_std=0.03, run_std=0.03, smallest_std=0.08)
_FULL = Accuracies(without=0.75, lost=0.06, least=0.2, repeat_std=0.005, run_std=0.008, smallest_std=0.03)


def simulation(
    small: Accuracies = QUICK,
    rival: str = "at the largest epsilon accuracy is off that without privacy by one and a half times the margin",
    **stated: tuple[float, float],
) -> Simulation:
    """The simulation of accuracies, with the shares that are stated of each profile."""

    def frame(spec: Spec, generator: np.random.Generator, right: bool) -> pd.DataFrame:
        return (small if spec.profile == "quick" else _FULL).frame(spec, generator, right)

    return Simulation(
        prediction="accuracy loses in proportion to 1/epsilon, down to guessing; runs scatter as the stored repeats of "
        "the quick profile do, and on all images by 0.8% (in a pilot of 190 steps on 10,000 smaller ones by 0.3%)",
        rival=rival, frame=frame, stated=stated,
    )  # fmt: skip


def experiment(
    name: str,
    title: str,
    task: Callable[[Spec, Cell], Task],
    parameters: dict[str, dict[str, Any]],
    answers: Answers,
    question: str = "Does accuracy grow with epsilon, and is it close to that without privacy at 4 and 8?",
    **more: Any,
) -> Experiment:
    """The experiment of one network, from what it trains and its parameters by profile."""
    specs = [Spec("noisy_sgd", name, profile, given) for profile, given in parameters.items()]
    words, functions = Preregistration(title, question, answers), (cells, partial(run, task=task), decide)
    return study(words, specs, functions, rule=RULE, tolerances=TOLERANCES, wants=COSTS.get(name, {}), **more)


def answers_as_in(figure: str | None) -> Answers:
    """The answers of an experiment that repeats a figure of the paper, or, with clipping, none."""
    return Answers(
        "Yes: accuracy grows with epsilon, and is close to that without privacy at the largest.",
        "No: accuracy falls between some epsilons, or is far from that without privacy at the largest.",
        "Yes" if figure else None,
        f"Section 4 and Figure {figure}" if figure else "the paper's experiments do not clip",
    )
