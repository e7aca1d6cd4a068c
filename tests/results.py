"""The faults of experiments, of their stored results and of the words that tell them."""

import re

from dpnotes.experiments import Experiment, Result, Spec
from dpnotes.experiments.outcomes import AGAINST, AS_PREDICTED, NO_CLAIM, Outcome

_ASKS = ("Do ", "Does ", "Is ", "Are ", "May ", "At ", "With ")  # "At the same guarantee, does ...?"


def mismatch(result: Result) -> list[str]:
    """Return the reason why a result may not be shown."""
    return [] if result.state in ("stored", "disputed") else [f"{result.state}: {result.reason}"]


def undecided(result: Result) -> list[str]:
    """Return the cases in which today's rule, on the stored rows, is not the recorded rule or decides otherwise."""
    experiment, decided_by = result.experiment, result.manifest["rule"]
    again, rule = experiment.decide(result.frame, result.spec), experiment.rule_record(result.spec.profile)
    found = [] if again == result.decision else [f"stored {result.decision}, by today's rule {again}"]
    return found + ([] if rule == decided_by else [f"decided by rule {decided_by}, now by rule {rule}"])


def without_tolerance(result: Result) -> list[str]:
    """Return columns of floats without a stated tolerance for another processor."""
    floats = {name for name, column in result.frame.items() if column.dtype.kind == "f"}
    return [] if "*" in (stated := result.experiment.tolerances) else sorted(floats - {*stated})


def is_judged(experiment: Experiment, spec: Spec) -> bool:
    """Return whether the experiment has cells, and a rule that says when each verdict is reached."""
    rule = spec["decision_rule"].lower()
    outcomes = (r"(?<!not )\breproduced\b", r"\bnot reproduced if\b", r"\bundecided\b")
    return all(re.search(outcome, rule) for outcome in outcomes) and bool(experiment.cells(spec))


def contradictions(found: Outcome, papers_answer: str) -> list[str]:
    """Return the places where the words of an outcome contradict its answer or the paper's ("": the paper has none)."""
    told = str(found)
    faults = [f"{found.question!r} cannot be answered by Yes or No"] * (not found.question.startswith(_ASKS))
    if not told.startswith(found.answer):
        faults.append(f"{told!r} does not begin with {found.answer}")
    if "reproduced" in told.lower():
        faults.append(f"{told!r} says 'reproduced'")
    expected = {NO_CLAIM} if not papers_answer else set()
    if papers_answer and found.answer in ("Yes", "No"):
        expected = {AS_PREDICTED if found.answer == papers_answer else AGAINST}
    said = {word for word in (AS_PREDICTED, AGAINST, NO_CLAIM) if word in told}
    return faults + [f"{told!r} should say {sorted(expected)}"] * (said != expected)
