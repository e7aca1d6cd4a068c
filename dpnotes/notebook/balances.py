"""Pictures of best balances: a bound's terms as lines in log-log, and the points where they meet.

In logarithms a monomial is a line, and the best choice of the tuned symbols is a point at which no line can be pushed
down without another one rising. All formulas come from claims that are passed in; constants are set to 1.
"""

import html
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any

import ipywidgets
import numpy as np
import sympy

from dpnotes.notebook import plots
from dpnotes.notebook.teaching import Table
from dpnotes.notebook.widgets import Explorer, OneOf, log_slider
from dpnotes.theory.balance import Balance, Vertex
from dpnotes.theory.claims import Claim
from dpnotes.theory.monomials import monomials, powers_of
from dpnotes.theory.rates import Rate

SPAN = 2.0  # decades shown on each side of the optimum
HEIGHT = 3.0  # decades shown above and below the limit


# ---------------------------------------------------------------- in words
def latex_of(expression: Any) -> str:
    """The LaTeX of an expression with powers written as powers: d^{2/17} is easier to read than a seventeenth root.

    >>> latex_of(sympy.Symbol("d", positive=True) ** sympy.Rational(2, 17))
    'd^{2/17}'
    """
    return sympy.latex(expression, fold_frac_powers=True, root_notation=False)


def meeting(found: Balance, vertex: Vertex) -> str:
    r"""The rate of a vertex as the product of the terms that meet there, each with its weight; LaTeX.

    >>> from dpnotes.theory.balance import balance
    >>> eta, n = sympy.symbols("eta n", positive=True)
    >>> found = balance({"noise": eta, "data": 1 / (eta * n)}, [eta])
    >>> print(meeting(found, found.vertices[0]))
    \left(\eta\right)^{1/2} \cdot \left(\frac{1}{\eta n}\right)^{1/2} = n^{-1/2}
    """
    formulas = {**found.terms, **found.constraints}
    powers = {name: "" if weight == 1 else f"^{{{weight}}}" for name, weight in vertex.weights.items()}
    factors = (f"\\left({latex_of(formulas[name])}\\right){power}" for name, power in powers.items())
    return " \\cdot ".join(factors) + f" = {latex_of(vertex.rate)}"


def balance_table(found: Balance, subject: Any = "rate") -> Table:
    """A table of a balance's vertices: rate, the terms that meet there with their weights, and the best parameters.

    Args:
      found: the balance.
      subject: the quantity that has the rate.
    """
    rows = []
    for vertex in found.vertices:
        meet = ", ".join(f"{name} ({weight})" for name, weight in vertex.weights.items())
        parameters = found.parameters(vertex)
        chosen = "several choices serve" if parameters is None else ""
        if parameters:
            chosen = ", ".join(f"${latex_of(s)} = {latex_of(e)}$" for s, e in parameters.items())
        rows.append([f"${latex_of(vertex.rate)}$", meet, chosen])
    return Table([str(subject), "what meets (weight)", "at"], rows)


# ---------------------------------------------------------------- in numbers
@dataclass(frozen=True)
class Solved:
    """A balance at one point of the symbols that are kept.

    Args:
      vertex: the vertex whose rate is the largest there.
      rate: its value.
      tuned: best values of the tuned symbols.
      unique: whether a monomial choice serves the whole regime of the vertex; otherwise `tuned` is one of several.
      sizes: every term divided by the rate, and every constraint; none is above 1, and the ones that meet are 1.
    """

    vertex: Vertex
    rate: float
    tuned: Mapping[sympy.Symbol, float]
    unique: bool
    sizes: Mapping[str, float]


class Numbers:
    """A balance as matrices of exponents, to be evaluated at many points.

    Args:
      found: the balance.

    Attributes:
      kept: the symbols that must be given, by name.

    >>> from dpnotes.theory.balance import balance
    >>> T, eta, n = sympy.symbols("T eta n", positive=True)
    >>> numbers = Numbers(balance({"descent": 1 / (eta * T), "noise": eta, "data": T / n}, [T, eta]))
    >>> solved = numbers.solve({n: 1e6})
    >>> round(solved.rate, 6), {str(symbol): round(value, 6) for symbol, value in solved.tuned.items()}
    (0.01, {'T': 10000.0, 'eta': 0.01})
    """

    def __init__(self, found: Balance):
        self.balance = found
        self.formulas = {**found.terms, **found.constraints}
        rest = [*self.formulas.values(), *found.regime.values(), *found.conditions]
        self.kept = sorted({s for e in rest for s in e.free_symbols} - set(found.tuned), key=str)
        self._tuned = self._matrix(self.formulas.values(), found.tuned)
        self._given = self._matrix(self.formulas.values(), self.kept)
        self._rates = self._matrix([vertex.rate for vertex in found.vertices], self.kept)
        self._is_term = np.array([name in found.terms for name in self.formulas])

    @staticmethod
    def _matrix(expressions: Any, symbols: Sequence[sympy.Symbol]) -> np.ndarray:
        rows = [[float(powers_of(e).get(s, 0)) for s in symbols] for e in expressions]
        return np.array(rows).reshape(len(rows), len(symbols))

    @cached_property
    def _parameters(self) -> list[np.ndarray | None]:
        found = [self.balance.parameters(vertex) for vertex in self.balance.vertices]
        return [None if p is None else self._matrix([p[s] for s in self.balance.tuned], self.kept) for p in found]

    def slope(self, name: str, symbol: sympy.Symbol) -> float:
        """The power of a tuned symbol in a term or constraint."""
        return float(self._tuned[[*self.formulas].index(name), self.balance.tuned.index(symbol)])

    def rates(self, values: Mapping[sympy.Symbol, float]) -> list[float]:
        """The rate of each vertex at a point."""
        return [*map(float, 10 ** (self._rates @ self._logs(values)))]

    def solve(self, values: Mapping[sympy.Symbol, float]) -> Solved:
        """The best balance at a point.

        Raises:
          ValueError: the point is outside the regime, or no choice meets all constraints there.
        """
        logs = self._logs(values)
        conditions = {f"{condition} <= 1": condition for condition in self.balance.conditions}
        for names, kind in ((self.balance.regime, "in the regime"), (conditions, "for the constraints to hold")):
            for name, size in zip(names, self._matrix(names.values(), self.kept) @ logs, strict=True):
                if size > 1e-9:
                    given = ", ".join(f"{s} = {values[s]:g}" for s in self.kept)
                    raise ValueError(f"Expected {name} {kind}, which fails at {given}.")
        powers = self._rates @ logs
        place, best = int(np.argmax(powers)), float(np.max(powers))
        parameters = self._parameters[place]
        tuned = self._linear_program(logs)[0] if parameters is None else parameters @ logs
        sizes = self._tuned @ tuned + self._given @ logs - best * self._is_term
        return Solved(
            self.balance.vertices[place],
            float(10**best),
            dict(zip(self.balance.tuned, map(float, 10**tuned), strict=True)),
            parameters is not None,
            dict(zip(self.formulas, map(float, 10**sizes), strict=True)),
        )

    def rate_with(self, values: Mapping[sympy.Symbol, float], symbol: sympy.Symbol, at: Any) -> np.ndarray:
        """The best rate when one tuned symbol is held and the others are tuned again; nan where no choice is allowed.

        Args:
          values: the values of the kept symbols.
          symbol: a tuned symbol.
          at: the values at which the symbol is held, an array or a sequence.
        """
        logs = self._logs(values)
        held = [self._linear_program(logs, (self.balance.tuned.index(symbol), float(np.log10(v))))[1] for v in at]
        return 10 ** np.array(held)

    def numeric_rate(self, values: Mapping[sympy.Symbol, float]) -> float:
        """The best rate by a linear program in floating point, without the vertices."""
        return float(10 ** self._linear_program(self._logs(values))[1])

    def _linear_program(self, logs: np.ndarray, held: tuple[int, float] | None = None) -> tuple[np.ndarray, float]:
        from scipy.optimize import linprog

        size = len(self.balance.tuned)
        bounds: list[tuple[float | None, float | None]] = [(None, None)] * (size + 1)
        if held is not None:
            bounds[held[0]] = (held[1], held[1])
        rows = np.hstack([self._tuned, -self._is_term[:, None].astype(float)])
        found = linprog([0.0] * size + [1.0], A_ub=rows, b_ub=-self._given @ logs, bounds=bounds, method="highs")
        return (found.x[:-1], float(found.x[-1])) if found.success else (np.full(size, np.nan), np.nan)

    def _logs(self, values: Mapping[sympy.Symbol, float]) -> np.ndarray:
        return np.log10([float(values[symbol]) for symbol in self.kept])


def magnitude(rate: sympy.Expr, **values: Any) -> Any:
    """The largest monomial of a rate, with all coefficients and all symbols that are not named set to 1.

    Args:
      rate: a sum or `Max` of monomials.
      values: numbers or arrays by the name of the symbol.

    >>> d, n, G = sympy.symbols("d n G", positive=True)
    >>> magnitude(G * sympy.sqrt(d) / n + n ** sympy.Rational(-1, 2), d=100, n=1e4).item()
    0.01
    """
    logs = {name: np.log10(value) for name, value in values.items()}
    powers = [{s.name: float(power) for s, power in powers_of(m).items()} for m in monomials(rate)]
    found = [sum((p * logs[name] for name, p in some.items() if name in logs), 0.0) for some in powers]
    return 10 ** reduce(np.maximum, found)


# ---------------------------------------------------------------- the balance explorer
def balance_explorer(claims: Sequence[Claim]) -> OneOf:
    """A widget for best balances: a theorem's terms and constraints as lines in log-log, those that meet are lit up.

    Args:
      claims: claims whose statement is a `Rate` with tuned symbols.

    Returns:
      The widget. The `.data` of its `.explorer` has the names that meet, their weights, the rate, and the parameters.
    """
    makers = {f"{claim.id}: {claim.title}": lambda claim=claim: _one_balance(claim) for claim in claims}
    return OneOf("theorem", makers)


def _one_balance(claim: Claim) -> Explorer:
    statement = claim.statement
    assert isinstance(statement, Rate)
    numbers = Numbers(statement.balance())
    kept = {symbol.name: symbol for symbol in sorted(numbers.kept, key=_importance)}
    tuned = {symbol.name: symbol for symbol in numbers.balance.tuned}
    vertices = {str(vertex.rate): vertex for vertex in numbers.balance.vertices}
    names = [name for name in tuned if any(abs(numbers.slope(f, tuned[name])) > 0 for f in numbers.formulas)]
    # A parameter to choose, rather than the quantity that is minimised.
    first = next((name for name in names if tuned[name] not in numbers.balance.terms.values()), names[0])
    stated = {"printed": statement.value}
    if claim.erratum is not None and isinstance(claim.erratum.corrected, Rate):
        stated["corrected"] = claim.erratum.corrected.value

    def compute(axis: str, **values: float) -> dict[str, Any]:
        point = {kept[name]: value for name, value in values.items()}
        solved, symbol = numbers.solve(point), tuned[axis]
        decades = np.linspace(-SPAN, SPAN, 17)
        here = solved.tuned[symbol]
        return {
            "point": values,
            "axis": axis,
            "here": here,
            "rate": solved.rate,
            "rates": dict(zip(vertices, numbers.rates(point), strict=True)),
            "vertex": str(solved.vertex.rate),
            "weights": {name: str(weight) for name, weight in solved.vertex.weights.items()},
            "tuned": {s.name: value for s, value in solved.tuned.items()},
            "unique": solved.unique,
            "sizes": dict(solved.sizes),
            "slopes": {name: numbers.slope(name, symbol) for name in numbers.formulas},
            "held": (decades, np.log10(numbers.rate_with(point, symbol, here * 10**decades) / solved.rate)),
            "stated": {how: float(magnitude(rate, **values)) for how, rate in stated.items()},
        }

    def describe(data: Mapping[str, Any]) -> str:
        vertex = vertices[data["vertex"]]
        subject = latex_of(statement.subject)
        values = ", ".join(f"${latex_of(tuned[name])}$ ≈ {value:.3g}" for name, value in data["tuned"].items())
        choice = "" if data["unique"] else " (one of several choices that are equally good)"
        weights = ", ".join(f"{html.escape(name)} ({weight})" for name, weight in data["weights"].items())
        compared = "; ".join(f"{how}, {_shown(rate)}: {data['stated'][how]:.3g}" for how, rate in stated.items())
        others = sorted((value, name) for name, value in data["rates"].items() if name != data["vertex"])
        largest = f", the largest of {len(others) + 1} vertices" if others else ", the only vertex"
        within = "; ".join(html.escape(name) for name in numbers.balance.regime) or "everywhere"
        regime = f"<b>Regime</b>, which holds here: {within}."
        if others:
            value, name = others[-1]
            regime += f" The next vertex is {_shown(vertices[name].rate)} ≈ {value:.3g}."
        lines = [
            f"<b>Best rate</b> ${subject}$ ≈ {data['rate']:.3g}{largest}: {_shown(vertex.rate)}.",
            f"<b>What meets there</b> (weight): {weights}. Product: {_shown(meeting(numbers.balance, vertex))}.",
            f"<b>Best choice</b>{choice}: {values}.",
            f"<b>In print</b>, at this point, constants 1: {compared}.",
            regime,
        ]
        style = "line-height: 1.9; overflow-x: auto; overflow-y: hidden"
        return "".join(f'<div style="{style}">{line}</div>' for line in lines)

    axis = ipywidgets.Dropdown(options=names, value=first, description="horizontal axis")
    sliders = {name: _slider(symbol) for name, symbol in kept.items()}
    return Explorer(
        {**sliders, "axis": axis}, compute, _draw_balance, describe, widths=(3, 2.1), size=(9.6, 4.4), columns=2
    )


_COMMON = {"n": (1e2, 1e12, 1e6), "d": (1.0, 1e8, 1e3), "epsilon": (1e-3, 10.0, 1.0)}


def _importance(symbol: sympy.Symbol) -> tuple[int, str]:
    order = [*_COMMON, "alpha", "beta"]
    return (order.index(symbol.name) if symbol.name in order else len(order), symbol.name)


def _slider(symbol: Any) -> Any:
    domain = getattr(symbol, "domain", None)
    low, high, value = 1e-3, 1e3, 1.0
    if symbol.name in _COMMON:
        low, high, value = _COMMON[symbol.name]
    elif domain is not None and domain.low >= 1:
        low, high = 1.0, 1e6
    elif symbol.name in ("alpha", "beta") or (domain is not None and domain.high <= 1):
        low, high, value = 1e-4, 1.0, 0.1
    return log_slider(symbol.name, low, high, value=value, per_decade=4)


def _shown(formula: Any) -> str:
    """The formula between dollar signs, large enough to read."""
    latex = formula if isinstance(formula, str) else latex_of(formula)
    return f"$\\displaystyle {latex}$"


def _draw_balance(data: Mapping[str, Any], lines: Any, names: Any) -> None:
    """Draw, on the left, the lines that must stay below 1 and, on the right, their names."""
    centre = float(np.log10(data["here"]))
    ends = np.array([-SPAN, SPAN])
    meet, below = ([n for n in data["sizes"] if (n in data["weights"]) is there] for there in (True, False))
    number = {name: str(place) for place, name in enumerate([*meet, *below], 1)}
    lines.axhspan(0, HEIGHT, color="#f3e3de", zorder=0)
    lines.text(centre - 0.97 * SPAN, 0.9 * HEIGHT, "too large", fontsize=9, color=plots.GREY)
    together: dict[tuple[float, float], list[str]] = {}
    for name in number:
        height = float(np.log10(data["sizes"][name])) if name in below else 0.0
        together.setdefault((round(height, 6), data["slopes"][name]), []).append(name)
    placed: list[float] = []
    styles, colours = itertools.count(), dict[str, str]()
    for (height, slope), group in together.items():
        tag = ", ".join(number[name] for name in group)
        if any(name in meet for name in group):
            colour, line, _ = plots.look(next(styles))
            colours.update(dict.fromkeys(group, colour))
            lines.plot(centre + ends, height + slope * ends, color=colour, linestyle=line, linewidth=3, zorder=4)
            far = 0.88 * SPAN if abs(slope) * 0.88 * SPAN < 0.88 * HEIGHT else 0.85 * HEIGHT / abs(slope)
            box = {"facecolor": "white", "edgecolor": colour, "boxstyle": "round,pad=0.2", "linewidth": 1.2}
            lines.text(
                centre + (far if slope else 0.97 * SPAN), height + slope * far, tag, color=colour, fontsize=10,
                fontweight="bold", ha="center" if slope else "right", va="center", bbox=box, zorder=6,
            )  # fmt: skip
            continue
        lines.plot(centre + ends, height + slope * ends, color="#8c8c8c", linewidth=0.9, zorder=2)
        left = height - 0.9 * SPAN * slope
        if abs(left) < 0.95 * HEIGHT and all(abs(left - other) > 0.22 for other in placed):
            placed.append(left)
            lines.text(centre - 0.9 * SPAN, left, tag, fontsize=8, color=plots.GREY, ha="center", va="center",
                       bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.6}, zorder=3)  # fmt: skip
    decades, held = data["held"]
    lines.plot(centre + decades, held, color="black", linewidth=1.6, linestyle=(0, (1, 1.5)), zorder=5)
    lines.axhline(0, color="black", linewidth=0.8, zorder=3)
    lines.plot([centre], [0], marker="o", markersize=9, color="black", zorder=7)
    plots.log_axis(lines, "x", 10 ** (centre - SPAN), 10 ** (centre + SPAN))
    plots.log_axis(lines, "y", 10**-HEIGHT, 10**HEIGHT)
    title = "thick: what meets; dotted: the best rate if only the others follow"
    plots.label(
        lines, x=f"{data['axis']} (the others at their best)", y="terms over the best rate; constraints", title=title
    )

    names.set_axis_off()
    names.set(xlim=(0, 1), ylim=(0, 1))
    rows = [("meet at the optimum (weight)", "black", "bold")]
    rows += [(f"{number[n]}  {n} ({data['weights'][n]})", colours[n], "bold") for n in meet]
    rows += [("", "black", "normal"), ("below, at the optimum", "black", "normal")]
    rows += [(f"{number[n]}  {n}: {_short(data['sizes'][n])}", plots.GREY, "normal") for n in below]
    step = min(1 / len(rows), 0.075)
    for place, (text, colour, weight) in enumerate(rows):
        names.text(0, 0.99 - place * step, text, fontsize=9, color=colour, fontweight=weight, va="top")


def _short(size: float) -> str:
    return "1, it meets too" if abs(np.log10(size)) < 1e-6 else f"{size:.2g}"
