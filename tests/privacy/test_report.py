"""The report of a guarantee: what it says first, and that no fact of the claim is missing."""

import math

import pytest

from dpnotes.guarantees import (
    GIVEN_IS_PUBLIC,
    NOISE_IS_SECRET,
    OVERSPENT,
    ROUNDED_ONCE,
    SEED_IS_PUBLIC,
    TUNED_ON_PRIVATE_DATA,
    Assumption,
    Guarantee,
    Relation,
)
from dpnotes.privacy.accounting import account
from dpnotes.privacy.events import Event
from dpnotes.privacy.report import report

CLAIM = Guarantee(
    1.23401,
    1e-5,
    Relation.ADD_OR_REMOVE,
    "PLD",
    (NOISE_IS_SECRET, ROUNDED_ONCE, GIVEN_IS_PUBLIC),
    (TUNED_ON_PRIVATE_DATA,),
)


def facts(claim: Guarantee) -> list[str]:
    """Return the facts of a report, each as one line."""
    lines: list[str] = []
    for line in report(claim).splitlines():
        if line.startswith(" "):
            lines[-1] += f" {line.strip()}"
        else:
            lines.append(line)
    return lines


def test_every_fact_of_the_claim_is_said():
    said = facts(CLAIM)
    assert said[0].startswith("protects") and "add-or-remove-one" in said[0]
    assert said[1:4] == ["epsilon       1.235", "delta         1e-05", "computed by   PLD"], "rounded up"
    assert said[5:] == [
        f"enforced      {ROUNDED_ONCE.statement}",
        f"you make sure that {NOISE_IS_SECRET.statement}",
        f"you make sure that {GIVEN_IS_PUBLIC.statement}",
        f"not covered   {TUNED_ON_PRIVATE_DATA}",
    ]
    assert max(map(len, report(CLAIM).splitlines())) <= 100


def test_a_known_seed_is_a_demonstration_and_is_not_the_reader_s_part():
    known = Guarantee(1.0, 1e-5, Relation.ZERO_OUT, "PLD", (SEED_IS_PUBLIC, GIVEN_IS_PUBLIC))
    said = facts(known)
    assert said[0].startswith("DEMONSTRATION") and sum("seed" in line for line in said) == 1
    assert not facts(CLAIM)[0].startswith("DEMONSTRATION"), "control"


@pytest.mark.parametrize(
    ("claim", "because"),
    [
        (Guarantee(1.0, 1e-5, Relation.ZERO_OUT, "PLD", (OVERSPENT,)), OVERSPENT.statement),
        (Guarantee(math.inf, 1e-5, Relation.ZERO_OUT, "PLD"), "epsilon is infinite"),
        (Guarantee(1.0, 1.0, Relation.ZERO_OUT, "PLD"), "delta is 1"),
        (
            Guarantee(1.0, 0.1, Relation.ZERO_OUT, "x", (SEED_IS_PUBLIC, Assumption("it rains", "checked", False))),
            "rains",
        ),
    ],
)
def test_a_claim_of_nothing_says_so_first_and_why(claim: Guarantee, because: str):
    said = facts(claim)
    assert said[0] == "NO GUARANTEE" and because in said[1]
    assert not [line for line in said if line.startswith(("epsilon", "delta", "in words"))]


def test_the_risk_is_that_of_the_releases_where_they_are_known():
    claim = account([Event(10.0, Relation.ZERO_OUT, count=100)], 1e-5)
    assert "69.2%" in report(claim) and "98.8%" not in report(claim)
