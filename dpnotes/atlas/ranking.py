"""The table: which methods promise what, whether it stands, at what cost, and what was run."""

import contextlib
import json
import math
from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from dpnotes.atlas.methods import methods
from dpnotes.atlas.question import FIELDS, GOALS, IMPLIES, Question, ask, for_orders, limit, promises
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
MORE = "It promises more"  # how the note of a stronger promise begins
_WHOLE = ("gradients", "function_values", "batch", "steps")  # whole numbers, rounded up
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

    validate.flag(details=details)
    table = []
    with Verdicts() as verdicts:
        for measure in question.measures:
            rows = [(m, _row(m, measure, question, details)) for m in methods() if promises(m, measure)]
            best = min((_value(row) for _, row in rows if row["state"] == "informative"), default=math.nan)
            for method, row in rows:
                word, row["because"] = standing(method, verdicts)
                row["standing"] = str(word)
                row["needed"] = _needed(method, row["state"], question.given, question.alpha or best, details)
                if row["needed"] < 1:
                    row["reason"] = "; ".join(filter(None, [row["reason"], "needed below one"]))
            table += sorted((row for _, row in rows), key=_place)
    found = pd.DataFrame(table).reindex(columns=[*COLUMNS])
    found.attrs |= {"question": question, "details": details}
    return found


def _value(row: Mapping[str, Any]) -> float:
    """The number that a row is ranked by: the order, or the accuracy with constants where there is no order."""
    return next((row[name] for name in ("order", "proved") if math.isfinite(row[name])), math.inf)


def _place(row: Mapping[str, Any]) -> tuple[int, int, float]:
    return _STATES.index(row["state"]), [*Standing].index(row["standing"]), _value(row)


def _row(method: Method, measure: Measure, question: Question, details: bool) -> dict[str, Any]:
    given, numbers, (largest, words) = question.given, for_orders(question.given), limit(measure, question.given)
    more = "" if measure is method.measure else f"{MORE}: {method.measure}. "
    row: dict[str, Any] = {
        "measure": str(measure),
        "method": method.name,
        **dict.fromkeys(("printed", "order", "proved"), math.nan),
        "relation": method.relation,
        "claims": " ".join(claim.id for claim in method.claims),
        "experiment": method.experiment,
        "outcome": outcome(method.experiment) if method.experiment else "",
        "note": f"{more}{method.note}".strip(),
    }
    failing = [(one, why) for one in method.conditions(method.order) if (why := one.failure(numbers, method.order))]
    for state in ("masked", "refused"):  # whatever the accuracy is
        if reasons := [why for one, why in failing if one.state == state and "accuracy" not in one.powers]:
            return row | {"state": state, "reason": "; ".join(reasons)}
    values = {"order": method.order(numbers)} if method.order else {}
    if (printed := method.applies(method.printed)) and math.isfinite(value := printed(numbers)):
        values["printed"] = value
    values |= _proved(method, given, largest, words) if details or not method.order else {}
    value = _value(row | values)
    if value >= largest * (1 - 1e-12) and math.isfinite(value):
        return row | values | {"state": "vacuous", "reason": f"{value:.4g} >= {largest:.4g}: {words}"}
    if failing or math.isinf(value):
        why = "; ".join(why for _, why in failing)
        return row | {"state": "refused", "reason": why or values.get("proved_reason", "")}
    remarks = ["a lower bound, no promise"] if method.floor else []
    if measure in GOALS["sosp"] and value >= limit(IMPLIES[measure], given)[0]:
        remarks.append("its gradient part is empty")
    if details and method.parameters:
        try:
            found = _within_reach(method.parameters, given, value)
            remarks += [f"{name} below one" for name in ("batch", "steps") if found.get(name, 1) < 1]
            row |= found | {name: float(math.ceil(found[name])) for name in _WHOLE if name in found}
        except ValueError as error:
            row["parameters_reason"] = str(error)
    return row | values | {"state": "floor" if method.floor else "informative", "reason": "; ".join(remarks)}


def _within_reach(function: Callable[..., Any], *arguments: Any) -> Any:
    """The results of a function of numbers, of which none is infinite.

    Raises:
      ValueError: floating point holds no result, or as the function.
    """
    try:
        found = function(*arguments)
        if not np.isfinite([*found.values()] if isinstance(found, Mapping) else found).all():
            raise OverflowError
    except ArithmeticError as error:
        raise ValueError("Expected numbers within reach of floating point, got numbers too large or small.") from error
    return found


def _proved(method: Method, given: Mapping[str, float], largest: float, words: str) -> dict[str, Any]:
    if method.proved is None:
        return {"proved_reason": "no proof gives the constants"}
    try:
        value = _within_reach(method.proved, given)
    except ValueError as error:
        return {"proved_reason": f"{'vacuous: ' * isinstance(error, Vacuous)}{error}"}
    numbers = {n: f"{x:g}" + (", the default" if x == FIELDS[n].default else "") for n, x in given.items()}
    assumed = method.assumed.format(**numbers)
    return {"proved": value, "proved_reason": assumed if value < largest else f"vacuous: {words}"}


def _needed(method: Method, state: str, given: Mapping[str, float], wanted: float, details: bool) -> float:
    """The examples that are needed for an accuracy; of a proved one the least whole n, by bisection up to 2^60."""
    if not math.isfinite(wanted) or method.floor or state == "masked":
        return math.nan
    if order := method.applies(method.order):
        return order.least(for_orders(given), wanted)
    if not details or (proved := method.proved) is None or state == "refused":
        return math.nan

    low, high = 1, 2**60
    with contextlib.suppress(ValueError):  # of sizes out of reach nothing is known
        if _within_reach(proved, {**given, "num_examples": high}) > wanted:
            return math.inf
        while high - low > 1:
            middle = (low + high) // 2
            enough = _within_reach(proved, {**given, "num_examples": middle}) <= wanted
            low, high = (low, middle) if enough else (middle, high)
        return float(high)
    return math.nan


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
