"""The answer as one HTML file: no kernel, no request. Its formulas are exported from the claims."""

import json
from pathlib import Path
from typing import Any

from dpnotes.atlas.methods import methods
from dpnotes.atlas.question import FIELDS, GOALS, IMPLIES, LIMITS
from dpnotes.atlas.ranking import outcome
from dpnotes.theory.cache import Verdicts
from dpnotes.theory.methods import Method, standing
from dpnotes.theory.orders import Order
from dpnotes.util import files


def exported() -> dict[str, Any]:
    """Return the data of the page, which it calculates with and shows: fields, goals, and methods with exact powers.

    >>> len(exported()["methods"]) == len(methods())
    True
    """
    with Verdicts() as verdicts:
        rows = [_method(method, verdicts) for method in methods()]
    fields = {
        name: [f.label, f.least, f.most, None if f.default != f.default else f.default, f.domain.low,
               f.domain.high if f.domain.high < float("inf") else None, f.domain.closed, f.domain.integer]
        for name, f in FIELDS.items()
    }  # fmt: skip
    implies = {str(stronger): str(weaker) for stronger, weaker in IMPLIES.items()}
    return {
        "methods": rows,
        "fields": fields,
        "goals": {k: [*map(str, v)] for k, v in GOALS.items()},
        "implies": implies,
        "limits": {words: _powers(dict(powers)) for words, powers in LIMITS.items()},
    }


def _method(method: Method, verdicts: Verdicts) -> dict[str, Any]:
    word, because = standing(method, verdicts)
    risk = next((kind for kind in ("uniform", "dynamic") if kind in method.name), "") if method.order is None else ""
    claims = [[claim.id, str(claim.erratum.severity) if claim.erratum else ""] for claim in method.claims]
    return {
        "name": method.name, "measure": str(method.measure), "standing": str(word), "because": because,
        "order": _order(method.order), "printed": _order(method.printed), "risk": risk, "claims": claims,
        "assumed": method.assumed if risk else "",
        "domain": [[one.text, one.state, _powers(one.powers), _order(one.of)] for one in method.domain],
        "clients": method.by_clients, "floor": method.floor, "note": method.note, "relation": method.relation,
        "outcome": f"{method.experiment}: {outcome(method.experiment)}" if method.experiment else "",
    }  # fmt: skip


def _order(order: Order | None) -> dict[str, Any] | None:
    return order and {"ones": order.normalised, "max": [_powers(dict(monomial)) for monomial in order.monomials]}


def _powers(powers: Any) -> dict[str, list[int]]:
    return {name: list(power.as_integer_ratio()) for name, power in powers.items()}


def write(path: Path) -> int:
    """Write the page, and return its size in bytes.

    Args:
      path: the file.
    """
    page = Path(__file__).with_suffix(".html").read_text(encoding="utf-8")
    data = json.dumps(exported(), separators=(",", ":"), ensure_ascii=False)
    files.write({path: page.replace("/*DATA*/null", data).encode()})
    return path.stat().st_size


if __name__ == "__main__":
    import sys

    print(f"{write(Path(sys.argv[1])):,} bytes")
