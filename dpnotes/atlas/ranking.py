"""The table: which methods promise what, whether it stands, at what cost, and what was run."""

import json
import math
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from dpnotes.atlas.methods import methods
from dpnotes.atlas.question import GOALS, IMPLIES, Question, ask, for_orders, limit, masked, promises
from dpnotes.experiments import store
from dpnotes.theory.cache import Verdicts
from dpnotes.theory.calculators import Measure
from dpnotes.theory.methods import PARAMETERS, Method, Standing, standing
from dpnotes.theory.refusals import Vacuous
from dpnotes.util import validate

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = (
    "measure", "method", "state", "reason", "standing", "because", "printed", "order", "proved", "proved_reason",
    "needed", *PARAMETERS, "parameters_reason", "relation", "experiment", "outcome", "claims", "note",
)  # fmt: skip
_STATES = ("informative", "floor", "vacuous", "masked", "refused")


def choose(
    n: float,
    d: float,
    epsilon: float,
    delta: float,
    *,
    goal: str = "all",
    alpha: float | None = None,
    details: bool = True,
    **constants: Any,
) -> "pd.DataFrame":
    """Rank the methods of all papers for a problem and a privacy budget.

    Within each measure come first the promises that stand, by their order, then those that are conditional, quoted or
    open; floors, and the rows that promise nothing, stand below with the reason. Promises of different measures are
    not compared. Orders have every constant and logarithm 1.

    Args:
      n: examples, of each client; a whole number, at least 2.
      d: dimension, a whole number, at least 1.
      epsilon: privacy loss, above 0.
      delta: failure probability of privacy, in (0, 1).
      goal: "sosp", "fosp" (points with a small gradient, without or with descent along curvature), "goldstein" (losses
        with kinks), "risk" (under the condition of Polyak and Lojasiewicz), or "all".
      alpha: the accuracy for which `needed` is wanted, above 0; needs a goal.
      details: whether parameters, accuracies with constants, and their sample sizes are computed.
      **constants: `lipschitz`, `smoothness`, `hessian_lipschitz`, `initial_gap`, `clients`, `radius`, `distance`,
        `condition_number`, `failure`.

    Returns:
      A row for each method and measure; `attrs` has the question, and whether details were computed. The columns:

        measure: what the accuracy bounds.
        method: the name of the method.
        state: informative, floor (a lower bound), vacuous, masked (it says nothing of such a problem) or refused.
        reason: why it is not informative, or a remark.
        standing, because: stands, conditional, quoted or open, and why.
        printed: the order as printed.
        order: the order as re-derived, by us.
        proved, proved_reason: the accuracy with constants, and why it is missing or vacuous, or what it assumes.
        needed: examples (of each client) for alpha, or for the best informative order of the measure.
        gradients, ..., delta_printed: what it runs with (`dpnotes.theory.methods.PARAMETERS`).
        parameters_reason: why these are missing.
        relation: the relation of neighbouring data sets.
        experiment, outcome: the nearest stored experiment, and its outcome.
        claims, note: what its order rests on, and a remark of the paper's methods.

    Raises:
      ValueError: a number is outside its domain, a name is unknown, or alpha is vacuous.
      MixedLetters: a name is a letter of a paper.
      TypeError: a number is none.

    >>> table = choose(60_000, 800_000, 2.0, 1e-5, goal="sosp", details=False)
    >>> row = table.iloc[0]
    >>> row["method"], row["standing"], f"{row['order']:.6f}"
    ('SPIDER with a tree and adaptive batches', 'conditional', '0.086334')
    """
    return ranked(ask(goal, alpha, n=n, d=d, epsilon=epsilon, delta=delta, **constants), details=details)


def ranked(question: Question, *, details: bool = True) -> "pd.DataFrame":
    """Return the table of `choose` for a question.

    >>> len(ranked(ask("risk", n=100, d=2, epsilon=1.0, delta=1e-5)))
    2
    """
    import pandas as pd

    validate.instance(Question, question=question)
    validate.flag(details=details)
    rows = []
    with Verdicts() as verdicts:
        for measure in question.measures:
            for method in methods():
                if promises(method, measure):
                    known, because = standing(method, verdicts)
                    rows.append(
                        {"standing": str(known), "because": because, **_row(method, measure, question, details)}
                    )
    for measure in question.measures:
        _needed([row for row in rows if row["measure"] == str(measure)], question, details)
    places = {str(measure): place for place, measure in enumerate(question.measures)}
    standings = {str(word): place for place, word in enumerate(Standing)}
    rows.sort(
        key=lambda row: (places[row["measure"]], _STATES.index(row["state"]), standings[row["standing"]], _value(row))
    )
    table = pd.DataFrame(rows).reindex(columns=[*COLUMNS])
    table.attrs |= {"question": question, "details": details}
    return table


def _value(row: Mapping[str, Any]) -> float:
    """The number that a row is ranked by: the order, or the accuracy with constants where there is no order."""
    found = [row[name] for name in ("order", "proved") if math.isfinite(row[name])]
    return found[0] if found else math.inf


def _row(method: Method, measure: Measure, question: Question, details: bool) -> dict[str, Any]:
    given, (largest, words) = question.given, limit(measure, question.given)
    row: dict[str, Any] = {
        "measure": str(measure),
        "method": method.name,
        "printed": math.nan,
        "order": math.nan,
        "proved": math.nan,
        "relation": method.relation,
        "claims": " ".join(claim.id for claim in method.claims),
        "experiment": method.experiment,
        "outcome": outcome(method.experiment) if method.experiment else "",
        "note": method.note
        if measure is method.measure
        else f"It promises more: {method.measure}. {method.note}".strip(),
    }
    why = masked(method, given, method.order.normalised if method.order else ())
    if why:
        return row | {"state": why.split(":")[0], "reason": why.split(": ", 1)[1]}
    if method.order:
        row["order"] = method.order(for_orders(given))
    if method.printed and not masked(method, given, method.printed.normalised):
        row["printed"] = method.printed(for_orders(given))
    if details or method.order is None:
        row |= _proved(method, given, largest, words)
    if math.isinf(_value(row)):
        return row | {"state": "refused", "reason": row["proved_reason"]}
    if _value(row) >= largest * (1 - 1e-12):
        return row | {"state": "vacuous", "reason": f"{_value(row):.4g} >= {largest:.4g}: {words}"}
    row["state"] = "floor" if method.floor else "informative"
    remarks = []
    if measure in GOALS["sosp"] and _value(row) >= limit(IMPLIES[measure], given)[0]:
        remarks.append("its gradient part is empty")
    if details and method.parameters:
        try:
            found = method.parameters(given, _value(row))
            row |= found
            remarks += [f"{name} below one" for name in ("batch", "steps") if found.get(name, 1) < 1]
        except ValueError as error:
            row["parameters_reason"] = str(error)
    return row | {"reason": "; ".join(remarks)}


def _proved(method: Method, given: Mapping[str, float], largest: float, words: str) -> dict[str, Any]:
    if method.proved is None:
        return {"proved_reason": "no proof gives the constants"}
    try:
        value = method.proved(given)
    except ValueError as error:
        return {"proved_reason": f"{'vacuous: ' * isinstance(error, Vacuous)}{error}"}
    assumed = f"if {method.assumed}" if method.assumed else ""
    return {"proved": value, "proved_reason": assumed if value < largest else f"vacuous: {words}"}


def _needed(rows: list[dict[str, Any]], question: Question, details: bool) -> None:
    """Add the examples that are needed for alpha, or for the best informative order among these rows."""
    wanted = question.alpha or min((_value(row) for row in rows if row["state"] == "informative"), default=math.nan)
    known = {method.name: method for method in methods()}
    for row in rows:
        method = known[row["method"]]
        row["needed"] = math.nan
        if not math.isfinite(wanted) or row["state"] not in ("informative", "vacuous"):
            continue
        if method.order:
            row["needed"] = method.order.least(for_orders(question.given), wanted)
        elif details:
            row["needed"] = _least(method, question.given, wanted)
        if row["needed"] < 1:
            row["reason"] = "; ".join(filter(None, [row["reason"], "needed below one"]))


def _least(method: Method, given: Mapping[str, float], wanted: float) -> float:
    """The least whole n at which a proved accuracy is at most the wanted one, by bisection; inf beyond 2^60."""
    assert method.proved is not None
    low, high = 1, 2**60
    if method.proved({**given, "num_examples": high}) > wanted:
        return math.inf
    while high - low > 1:
        middle = (low + high) // 2
        enough = method.proved({**given, "num_examples": middle}) <= wanted
        low, high = (low, middle) if enough else (middle, high)
    return float(high)


# What the answer means for the paper is said by `dpnotes results`.
_MET = {"reproduced": "its rule is met", "not reproduced": "its rule is not met", "undecided": "undecided"}


@cache
def outcome(experiment: str) -> str:
    """Return whether the rule of a stored experiment is met, in its largest profile, with the profile.

    >>> outcome("no.experiment")
    'not run'
    """
    for profile in ("paper", "cpu", "quick"):
        path = store.results_folder() / f"{experiment}.{profile}.manifest.json"
        if path.exists():
            return f"{_MET[json.loads(path.read_text(encoding='utf-8'))['decision']['verdict']]} ({profile})"
    return "not run"
