"""The guarantees of noisy SGD under several privacy arguments: Theorems 3.1 and 3.3, and weaker premises.

The letters are those of `algorithms`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from dpnotes.core import FRESH, Guarantee, Relation
from dpnotes.guarantees import Assumption
from dpnotes.methods.loop import Runs
from dpnotes.oracles.fresh import FreshGradient
from dpnotes.oracles.minibatch import MinibatchGradient
from dpnotes.oracles.release import Releases, norms_within
from dpnotes.papers.noisy_sgd.calculators import SENSITIVITY, TOTAL_DELTA, TRANSCRIPT_DELTA
from dpnotes.privacy.accounting import account
from dpnotes.privacy.events import LEAST_NOISE
from dpnotes.train.noise import NoiseChoice
from dpnotes.util import validate
from dpnotes.util.validate import Positive, Probability, checked


@dataclass(frozen=True)
class Reading:
    """A privacy argument for a run, with the nominal and the accounted epsilon.

    Args:
      nominal: the guarantee with the epsilon of the theorem; None where the argument has no epsilon of its own.
      accounted: the guarantee with the epsilon that the accountant computes for the noise that was added.
    """

    nominal: Guarantee | None
    accounted: Guarantee

    @property
    def vacuous(self) -> bool:
        """True if the accounted guarantee is trivial, or if one of its assumptions failed."""
        return self.accounted.delta >= 1 or math.isinf(self.accounted.epsilon)


@checked
@dataclass(frozen=True)
class Premises:
    """The known constants of a problem, for the arguments about unclipped runs; None for unknown ones.

    Args:
      sigma: the constant of Assumption B for this data set and its neighbours, above 0, in the units of a gradient.
      smoothness: L, above 0.
      failure: the probability that some gradient is longer than the bound; if None the nominal delta, as in Theorem
        3.3.

    Raises:
      ValueError: an argument is outside its domain.
    """

    sigma: Positive | None = None
    smoothness: Positive | None = None
    failure: Probability | None = None


NOT_KNOWN = Premises()
Readings = dict[str, Reading]

# The step of the proof of Theorem 3.3 that fails (claim thm3.3.privacy): the theorem's guarantee does not follow,
# whatever a run observed.
COUNTED_ONCE = Assumption(
    "a failure in a data set's own run costs delta once (it may cost 1 + e^epsilon times itself)", "checked", False
)


def readings(runs: Runs, noise: Sequence[NoiseChoice], premises: Premises = NOT_KNOWN) -> tuple[Readings, ...]:
    """Return the privacy arguments for finished runs, by name; each holds only under its own assumptions.

    For `clipped_noisy_sgd`:
      "theorem 3.1": the nominal epsilon, and whether the accountant confirms it.

    For `noisy_sgd` and `noisy_sgd_on_fresh_data`, nothing enforces C, and `runs.guarantees` take the bound C for
    certain. The following arguments do not; each lists its premises and which of them held:
      "theorem 3.3": (epsilon, 2 delta) as printed. The proof conditions on an event of one data set and counts its
        failure probability once, which does not follow (`COUNTED_ONCE`), so this argument never holds.
      "premises": (epsilon, delta + (1 + e^epsilon) delta), which is all that follows from the premises of that proof
        for each data set separately (claim thm3.3.privacy). It is vacuous where this delta exceeds 1.
      "transcript": (epsilon, delta + failure), if the event concerns the examples of both data sets along the run on
        one of them (claim own.transcript).
      "assumption B": (epsilon, delta) from the sensitivity `2 s n / ((n-1) B)`, `s = sigma sqrt(ln(1 + (e-1) n))`,
        which Assumption B implies by itself if both data sets satisfy it (claim own.sensitivity). It needs neither C
        nor an event, but a known sigma, a known number of examples and the replace-one relation. It does not apply to
        randomly augmented pictures (`augment`), about which the assumption says nothing.
    If a run observed a gradient above C, every argument that rests on C claims nothing.

    Args:
      runs: the result of one of these functions.
      noise: the noise of each run, as passed to that function.
      premises: the known constants of the problem.

    Returns:
      One dict per run.

    Raises:
      ValueError: the numbers of runs disagree.

    Example:
      >>> import torch
      >>> from dpnotes.core import Sampling
      >>> from dpnotes.papers.noisy_sgd.algorithms import noisy_sgd, theorem_3_1_noise
      >>> from dpnotes.problems.quadratics import Quadratic
      >>> from dpnotes.random.streams import Streams
      >>> problem = Quadratic.sample(torch.tensor([1.0, 0.1]), num_examples=50, spread=0.1, seed=0)
      >>> how = {"norm_bound": 4.0, "num_steps": 20}
      >>> noise = [theorem_3_1_noise(8.0, 1e-3, **how, batch_size=10, num_examples=50, c_1=20.0, c_2=9.0)]
      >>> start, batches = torch.ones(1, 2), Sampling.fixed_size(10, 50)
      >>> runs = noisy_sgd(
      ...     problem, noise, start, Streams.of(0, ["demo"]), **how, step_size=0.1, delta=1e-3, sampling=batches
      ... )
      >>> for name, reading in readings(runs, noise, Premises(sigma=0.1))[0].items():
      ...     print(f"{name}: epsilon={reading.accounted.epsilon:.2f}, delta={reading.accounted.delta:.3g}")
      theorem 3.3: epsilon=inf, delta=0.002
      premises: epsilon=2.86, delta=0.0194
      transcript: epsilon=2.86, delta=0.002
      assumption B: epsilon=0.06, delta=0.001
    """
    validate.instance(Runs, runs=runs)
    validate.same_length(runs=runs.guarantees, noise=noise)
    of_run = _clipped if getattr(runs.oracle, "clipped", False) else _not_clipped
    return tuple(of_run(runs, index, choice, premises) for index, choice in enumerate(noise))


def _clipped(runs: Runs, index: int, choice: NoiseChoice, _: Premises) -> Readings:
    claim = runs.guarantees[index]
    rests = *claim.assumptions, *choice.premises, _accounted(choice, runs.oracle.releases, index)
    name = f"nominal: {choice.origin}"
    nominal = Guarantee(choice.epsilon, choice.delta, claim.relation, name, rests, claim.not_covered)
    return {"theorem 3.1": Reading(nominal, claim)}


def _not_clipped(runs: Runs, index: int, choice: NoiseChoice, premises: Premises) -> Readings:
    claim, releases, epsilon = runs.guarantees[index], runs.oracle.releases, choice.epsilon
    C, failure = releases.claimed[0].bound.longest, choice.delta if premises.failure is None else premises.failure
    budgets = (epsilon, choice.delta), (max(claim.nominal_epsilon, 1e-300), claim.delta)  # nominal and accounted
    both = [
        TOTAL_DELTA(epsilon=min(loss, 700.0), delta=delta, failure=failure, constants="corrected")["delta"]
        for loss, delta in budgets
    ]
    joint = [TRANSCRIPT_DELTA(delta=delta, failure=failure)["delta"] for _, delta in budgets]
    but_for = f"but for a probability of {failure:g}"
    alone, together = (
        Assumption(f"{but_for}, no example of {whose} has a gradient above {C:g} in {run_on}", "assumed")
        for whose, run_on in (("a data set", "its own run"), ("either of two neighbours", "the run on one of them"))
    )
    # These arguments do not assume that the bound is certain; a violation that the run observed still counts.
    about_norms = norms_within(C, releases.basis, runs.state.oracle.meter, index)
    others = tuple(a for a in claim.assumptions if a not in about_norms)
    seen = tuple(a for a in about_norms if a.basis == "checked")
    algorithm_1 = *choice.premises, _accounted(choice, releases, index)
    theorem = _premises_of_theorem_3_3(premises, runs.method.step_size, releases.steps)

    def reading(name: str, deltas: list[float], nominal_only: tuple[Assumption, ...], *of: Assumption) -> Reading:
        rests = (*others, *seen, *of)
        nominal = Guarantee(epsilon, deltas[0], claim.relation, name, (*rests, *nominal_only), claim.not_covered)
        return Reading(nominal, replace(claim, delta=deltas[1], assumptions=rests))

    named = {
        "theorem 3.3": reading("Theorem 3.3 as printed", joint, (*theorem, *algorithm_1), alone, COUNTED_ONCE),
        "premises": reading("the premises of Theorem 3.3", both, algorithm_1, alone),
        "transcript": reading("an event of the transcript", joint, algorithm_1, together),
    }
    num_examples = _num_examples(runs.oracle)
    as_they_are = not getattr(runs.oracle, "augment", False)
    if premises.sigma is not None and num_examples and as_they_are and claim.relation == Relation.REPLACE_ONE:
        named["assumption B"] = _by_assumption_b(releases, index, claim, premises.sigma, others, num_examples)
    return named


def _num_examples(oracle: MinibatchGradient | FreshGradient) -> int:
    """Return the number of examples of the data set; 0 if every batch consists of new examples."""
    if isinstance(oracle, FreshGradient):
        return 0 if oracle.sampling == FRESH else oracle.sampling.num_examples
    return oracle.problem.num_examples


def _accounted(choice: NoiseChoice, releases: Releases, run: int) -> Assumption:
    """Return the assumption that clipped SGD with this noise has its nominal privacy, checked by the accountant."""
    found = account(releases.events(run), choice.delta).epsilon if releases.accountable(run) else math.inf
    statement = (
        f"Algorithm 1 with Delta = {choice.std:.4g} ({choice.origin}) is ({choice.epsilon:g}, {choice.delta:g})-DP "
        f"(accounted: epsilon = {found:.4g}, {releases.relation})"
    )
    return Assumption(statement, "checked", found <= choice.epsilon)


def _premises_of_theorem_3_3(premises: Premises, step_size: float, num_steps: int) -> tuple[Assumption, ...]:
    sigma, L, statement = premises.sigma, premises.smoothness, f"eta = {step_size:g} <= min(1/L, 1/(sigma sqrt(T)))"
    small = Assumption(statement, "assumed")
    if sigma is not None and L is not None:
        largest = min(1 / L, 1 / (sigma * math.sqrt(num_steps)))
        small = Assumption(f"{statement} = {largest:.4g}", "checked", step_size <= largest)
    return (
        Assumption("Assumptions A and B hold for both data sets", "assumed"),
        small,
        Assumption("Lemma 3.2 holds, whose bound leaves the privacy noise out", "assumed"),
    )


def _by_assumption_b(
    releases: Releases, run: int, claim: Guarantee, sigma: float, others: tuple[Assumption, ...], num_examples: int
) -> Reading:
    (ask,) = releases.claimed
    batch_size = releases.sampling.batch_size if releases.sampling.scheme == "fixed-size" else num_examples
    # The sum over the batch has B times the sensitivity of the mean, whatever the sum is divided by.
    moved = SENSITIVITY(n=num_examples, B=batch_size, sigma=sigma)["batch"] * batch_size / ask.bound.divisor
    std = float(ask.noise_std[run])
    statement = f"Assumption B holds for both data sets with sigma = {sigma:g}, at every iterate"
    rests = *others, Assumption(statement, "assumed")
    if not releases.accountable(run) or std / moved < LEAST_NOISE:
        return Reading(None, replace(claim, nominal_epsilon=math.inf, assumptions=rests))
    event = replace(releases.events(run)[0], noise_multiplier=std / moved)
    return Reading(None, account([event], claim.delta, assumptions=rests, not_covered=claim.not_covered))
