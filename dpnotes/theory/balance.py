"""Balance the terms of a bound: the exact content of "choosing step size, batch and number of steps optimally".

A bound is a sum of monomials; up to the number of its terms it equals their maximum. Minimising a maximum of monomials
over some of the symbols, under constraints `monomial <= 1`, is a linear program in the logarithms, and by its duality

    min over the tuned symbols of max_i term_i  =  max over the vertices w of the dual of  prod_i term_i ** w_i,

a maximum of monomials in the symbols that are kept. The vertices are found exactly, in rationals; each says which
terms and constraints meet at it. Constants are dropped throughout; a logarithm is carried as a symbol of its own.
A bound with the tuned symbol on both sides is a constraint: minimise `alpha` where every term over alpha is at most 1.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import combinations, product
from typing import Any

import numpy as np
import sympy
from sympy.polys.matrices import DomainMatrix

from dpnotes.theory.monomials import Powers, monomial_of, monomials, over, powers_of, put_in, times

Named = Mapping[str, sympy.Expr]
_MOST_RAYS = 500  # on the way to the vertices; the work grows with their cube, and 500 take a few seconds


# ---------------------------------------------------------------- the order of monomials
@dataclass(frozen=True)
class Certificate:
    """A proof that a monomial is at most the largest of others: it is their weighted mean times regime monomials.

    `monomial = prod_i larger_i ** weights[i] * prod_j regime_j ** multipliers[j]`, weights summing to 1, all >= 0.
    """

    weights: Mapping[int, Fraction]
    multipliers: Mapping[str, Fraction]


@dataclass(frozen=True)
class Witness:
    """A direction along which a monomial outgrows all others: `symbol = base ** direction[symbol]` as base grows."""

    direction: Mapping[sympy.Symbol, int]

    def at(self, base: int = 10) -> dict[sympy.Symbol, sympy.Rational]:
        """The point of the direction at a base; what is not in it is 1."""
        return {s: sympy.Integer(base) ** p for s, p in self.direction.items()}


def regime_of(symbols: Iterable[sympy.Symbol]) -> dict[str, sympy.Expr]:
    """The domains of paper symbols as monomials that are at most 1.

    >>> from dpnotes.theory.symbols import COUNT, PaperSymbols
    >>> regime_of([PaperSymbols("example").symbol("d", "dimension", domain=COUNT)])
    {'d >= 1': 1/d}
    """
    found = {}
    for symbol in sorted(symbols, key=str):
        domain = getattr(symbol, "domain", None)
        if domain is not None and domain.low >= 1:
            found[f"{symbol} >= 1"] = 1 / symbol
        if domain is not None and domain.high <= 1:
            found[f"{symbol} <= 1"] = symbol
    return found


def at_most(smaller: sympy.Expr, larger: Sequence[sympy.Expr], regime: Named | None = None) -> Certificate | Witness:
    """Prove or refute that one monomial is at most the largest of others, up to constants, where `regime` is at most 1.

    Floating point proposes the multipliers or the direction, rationals verify them, or decide where they cannot.

    Raises:
      ValueError: an expression is no monomial.

    >>> x, y = sympy.symbols("x y", positive=True)
    >>> at_most(sympy.sqrt(x * y), [x, y])
    Certificate(weights={0: Fraction(1, 2), 1: Fraction(1, 2)}, multipliers={})
    >>> at_most(x, [y], {"y >= 1": 1 / y})
    Witness(direction={x: 1})
    """
    regime = regime or {}
    return _at_most(powers_of(smaller), [powers_of(m) for m in larger], {n: powers_of(m, n) for n, m in regime.items()})


def _at_most(smaller: Powers, larger: Sequence[Powers], regime: Mapping[str, Powers]) -> Certificate | Witness:
    for index, other in enumerate(larger):
        if smaller == other:
            return Certificate({index: Fraction(1)}, {})
    symbols = sorted({s for m in (smaller, *larger, *regime.values()) for s in m}, key=str)
    if not symbols:
        return Certificate({0: Fraction(1)}, {})
    zero = Fraction(0)
    # Columns: one for each of `larger` (with a last row that sums their weights to 1), one for each of the regime.
    columns = [[m.get(s, zero) for s in symbols] + [Fraction(1)] for m in larger]
    columns += [[m.get(s, zero) for s in symbols] + [zero] for m in regime.values()]
    target = [smaller.get(s, zero) for s in symbols] + [Fraction(1)]
    proposed = _proposal([1.0 + 0.01 * k for k in range(len(columns))], equal=(columns, target))
    if proposed is not None:
        support = [k for k, value in enumerate(proposed) if value > 1e-9]
        exact = _solve([columns[k] for k in support], target)
        if exact is not None and all(value >= 0 for value in exact):
            return _certificate(dict(zip(support, exact, strict=True)), len(larger), list(regime))
    direction = _direction([over(smaller, other) for other in larger], list(regime.values()), symbols)
    if direction is not None:
        return Witness(direction)
    # Floats could not tell a tiny weight from none: decide in rationals.
    feasible, found = _farkas(columns, target)
    if feasible:
        return _certificate({k: v for k, v in enumerate(found) if v}, len(larger), list(regime))
    scale = math.lcm(*(value.denominator for value in found))
    return Witness({s: int(v * scale) for s, v in zip(symbols, found, strict=False) if v})


def _certificate(found: Mapping[int, Fraction], num_larger: int, names: Sequence[str]) -> Certificate:
    return Certificate(
        {k: v for k, v in found.items() if k < num_larger and v},
        {names[k - num_larger]: v for k, v in found.items() if k >= num_larger and v},
    )


def _farkas(columns: Sequence[Sequence[Fraction]], target: Sequence[Fraction]) -> tuple[bool, list[Fraction]]:
    """Non-negative `x` with `sum_k x_k columns[k] = target`, or `y` with `y.target > 0 >= y.columns[k]` for all k.

    The first phase of the simplex method, exactly; Bland's rule ends it.
    """
    size, num_columns = len(target), len(columns)
    signs = [1 if value >= 0 else -1 for value in target]
    rows = [
        [signs[r] * column[r] for column in columns]
        + [Fraction(int(r == k)) for k in range(size)]
        + [signs[r] * target[r]]
        for r in range(size)
    ]
    basis = [num_columns + r for r in range(size)]
    # Reduced costs of the sum of the artificial unknowns, which the first phase makes 0 where it can.
    costs = [
        -sum((row[k] for row in rows), Fraction(0)) + int(num_columns <= k < num_columns + size)
        for k in range(num_columns + size)
    ]
    costs.append(-sum((row[-1] for row in rows), Fraction(0)))
    while negative := [k for k in range(num_columns) if costs[k] < 0]:
        entering = negative[0]
        rising = [r for r in range(size) if rows[r][entering] > 0]
        _, _, leaving = min((rows[r][-1] / rows[r][entering], basis[r], r) for r in rising)
        pivot = rows[leaving][entering]
        rows[leaving] = [value / pivot for value in rows[leaving]]
        for row in (*(rows[r] for r in range(size) if r != leaving), costs):
            if factor := row[entering]:
                row[:] = [value - factor * above for value, above in zip(row, rows[leaving], strict=True)]
        basis[leaving] = entering
    if costs[-1]:
        return False, [signs[r] * (1 - costs[num_columns + r]) for r in range(size)]
    found = [Fraction(0)] * num_columns
    for r, column in enumerate(basis):
        if column < num_columns:
            found[column] = rows[r][-1]
    return True, found


def _direction(
    grow: Sequence[Powers], stay: Sequence[Powers], symbols: Sequence[sympy.Symbol]
) -> dict[sympy.Symbol, int] | None:
    """Integer exponents, few and small, at which every `grow` is at least the base and every `stay` at most 1."""
    if any(not ratio for ratio in grow):
        return None
    rows = [([-float(ratio.get(s, 0)) for s in symbols], -1.0) for ratio in grow]
    rows += [([float(m.get(s, 0)) for s in symbols], 0.0) for m in stay]
    # Each unknown is a difference of two non-negative ones; distinct costs leave one optimum on every machine.
    cost = [1.0 + 0.01 * k for k in range(len(symbols))]
    proposed = _proposal([*cost, *cost], upper=[([*row, *(-v for v in row)], bound) for row, bound in rows])
    if proposed is None:
        return None
    size = len(symbols)
    exact = [Fraction(float(proposed[k] - proposed[k + size])).limit_denominator(1000) for k in range(size)]
    scale = math.lcm(*(value.denominator for value in exact))
    direction = {s: value * scale for s, value in zip(symbols, exact, strict=True) if value}
    if any(_dot(ratio, direction) <= 0 for ratio in grow) or any(_dot(m, direction) > 0 for m in stay):
        return None
    return {s: int(value) for s, value in direction.items()}


def _dot(left: Powers, right: Mapping[sympy.Symbol, Fraction]) -> Fraction:
    return sum((value * right[s] for s, value in left.items() if s in right), Fraction(0))


def _proposal(cost: Sequence[float], equal: Any = None, upper: Any = None) -> Sequence[float] | None:
    """A float solution of a linear program in non-negative unknowns, None where there is none."""
    from scipy.optimize import linprog  # scipy costs half a second, and few callers need it

    arguments: dict[str, Any] = {"bounds": (0, None), "method": "highs-ds"}
    if equal is not None:
        columns, target = equal
        arguments |= {"A_eq": np.array(columns, dtype=float).T, "b_eq": np.array(target, dtype=float)}
    if upper:
        arguments |= {"A_ub": np.array([row for row, _ in upper]), "b_ub": np.array([bound for _, bound in upper])}
    found = linprog(cost, **arguments)
    return found.x if found.success else None


def _solve(columns: Sequence[Sequence[Fraction]], target: Sequence[Fraction]) -> list[Fraction] | None:
    """Exact coefficients with `sum_k x_k columns[k] = target`, free ones at 0; None where there are none."""
    rows, pivots = _echelon([[column[r] for column in columns] + [target[r]] for r in range(len(target))])
    if len(columns) in pivots:
        return None
    found = [Fraction(0)] * len(columns)
    for row, column in zip(rows, pivots, strict=False):
        found[column] = row[-1]
    return found


def _echelon(rows: list[list[Fraction]]) -> tuple[list[list[Fraction]], tuple[int, ...]]:
    """The rows in reduced echelon form, and the columns of their pivots."""
    exact = [[sympy.QQ(value.numerator, value.denominator) for value in row] for row in rows]
    reduced, pivots = DomainMatrix(exact, (len(rows), len(rows[0])), sympy.QQ).rref()
    return [[Fraction(int(v.numerator), int(v.denominator)) for v in row] for row in reduced.to_list()], pivots


# ---------------------------------------------------------------- the balance
@dataclass(frozen=True)
class Vertex:
    """One monomial of a best rate.

    Args:
      rate: the monomial, in the symbols that are kept.
      weights: the terms and constraints that meet there, each with its power in `rate`.
    """

    rate: sympy.Expr
    weights: Mapping[str, Fraction]

    @property
    def meet(self) -> tuple[str, ...]:
        """The names of the terms and constraints that are equal there."""
        return tuple(self.weights)


@dataclass(frozen=True)
class Balance:
    """The least that the largest of `terms` can be made by the choice of the tuned symbols, up to constants.

    Args:
      terms: whose maximum is minimised, one monomial each.
      tuned: the symbols that are chosen.
      constraints: monomials that must be at most 1.
      regime: monomials in the kept symbols that are at most 1, as given and from the domains of the symbols.
      vertices: the best rate is the largest of theirs; none is dominated by the others within the regime.
      conditions: monomials in the kept symbols that the constraints force to be at most 1.
    """

    terms: Named
    tuned: tuple[sympy.Symbol, ...]
    constraints: Named
    regime: Named
    vertices: tuple[Vertex, ...]
    conditions: tuple[sympy.Expr, ...] = field(default=())

    @property
    def rate(self) -> sympy.Expr:
        """The best rate as a sum of monomials."""
        return sympy.Add(*(vertex.rate for vertex in self.vertices))

    def parameters(self, vertex: Vertex) -> dict[sympy.Symbol, sympy.Expr] | None:
        """Tuned symbols that reach the rate where this vertex is the largest, as monomials in the kept symbols.

        Where the terms that meet leave a choice, it is made so that further terms or constraints meet; None where no
        single monomial choice serves the whole of the vertex's regime.
        """
        here = {f"{other.rate} is smaller": other.rate / vertex.rate for other in self.vertices if other != vertex}
        region = {name: powers_of(m) for name, m in {**self.regime, **here}.items()}
        region |= {str(condition): powers_of(condition) for condition in self.conditions}
        rate = powers_of(vertex.rate)
        scaled = {name: over(powers_of(term), rate) for name, term in self.terms.items()}
        scaled |= {name: powers_of(m) for name, m in self.constraints.items()}
        tight = [name for name in scaled if name in vertex.weights]
        loose = [name for name in scaled if name not in vertex.weights]
        kept = sorted({s for m in scaled.values() for s in m} - set(self.tuned), key=str)
        free = {s for s in self.tuned if not any(s in m for m in scaled.values())}  # in no term: any value
        for more in range(len(self.tuned) + 1):
            for extra in combinations(loose, more):
                solved = self._tight([scaled[name] for name in (*tight, *extra)], kept, free)
                if solved is None:
                    continue
                there = [put_in(m, solved) for m in scaled.values()]
                if all(isinstance(_at_most(m, [{}], region), Certificate) for m in there):
                    return {s: monomial_of(p) for s, p in solved.items()}
        return None

    def _tight(self, equal_to_one: Sequence[Powers], kept: Sequence[sympy.Symbol], free: set[sympy.Symbol]) -> Any:
        """The tuned symbols at which these monomials are 1, where exactly one choice makes them so."""
        tuned = [s for s in self.tuned if s not in free]
        zero, size = Fraction(0), len(tuned)
        rows, pivots = _echelon(
            [[m.get(s, zero) for s in tuned] + [-m.get(s, zero) for s in kept] for m in equal_to_one]
        )
        if pivots != tuple(range(size)):
            return None
        chosen = {s: {k: v for k, v in zip(kept, rows[r][size:], strict=True) if v} for r, s in enumerate(tuned)}
        return {**chosen, **{s: {} for s in free}}


def balance(
    terms: Named, tuned: Sequence[sympy.Symbol], constraints: Named | None = None, regime: Named | None = None
) -> Balance:
    """Minimise the largest of `terms` over the symbols `tuned`, exactly and up to constants.

    Args:
      terms: by name; a monomial each, or a sum or `Max` of them, which counts as several.
      tuned: the symbols to choose.
      constraints: by name; what must be at most 1, of the same form.
      regime: by name; monomials in the other symbols that are at most 1 where the rate is asked for. The domains of
        paper symbols are added (a count is at least 1, a probability at most 1).

    Raises:
      ValueError: a term is no monomial; the terms can be made arbitrarily small; the constraints contradict the regime;
        so many terms and tuned symbols that the vertices would take minutes.

    >>> T, eta, n = sympy.symbols("T eta n", positive=True)
    >>> found = balance({"descent": 1 / (eta * T), "noise": eta, "data": T / n}, [T, eta])
    >>> found.rate, found.vertices[0].meet
    (n**(-1/3), ('descent', 'noise', 'data'))
    >>> found.parameters(found.vertices[0])
    {T: n**(2/3), eta: n**(-1/3)}
    """
    tuned = tuple(tuned)
    split_terms, split_constraints = _split(terms), _split(constraints or {})
    for name in split_constraints.keys() & split_terms.keys():
        raise ValueError(f"Expected different names for terms and constraints, got {name!r} twice.")
    all_powers = {name: powers_of(m, name) for name, m in {**split_terms, **split_constraints}.items()}
    kept = {s for m in all_powers.values() for s in m} - set(tuned)
    regime = {**regime_of(kept | {s for m in (regime or {}).values() for s in m.free_symbols}), **(regime or {})}
    regime_powers = {name: powers_of(m, name) for name, m in regime.items()}
    for name, m in regime_powers.items():
        if chosen := [str(s) for s in m if s in tuned]:
            raise ValueError(f"Expected a regime without tuned symbols, got {', '.join(chosen)} in {name!r}.")
    vertices, conditions = [], []
    for ray in _rays(list(all_powers.values()), tuned):
        combined: dict[sympy.Symbol, Fraction] = {}
        weights = dict(zip(all_powers, ray, strict=True))
        total = sum((weights[name] for name in split_terms), Fraction(0))
        for name, weight in weights.items():
            combined = times(combined, all_powers[name], weight / total if total else weight)
        meet = {name: weight / total if total else weight for name, weight in weights.items() if weight}
        if total:
            vertices.append((combined, meet))
        elif combined and isinstance(_at_most(combined, [{}], regime_powers), Witness):
            conditions.append((", ".join(meet), combined))
    region = {**regime_powers, **dict(conditions)}
    require_room(region)
    if not vertices:
        raise _unbounded(split_terms, split_constraints, tuned)
    return Balance(
        split_terms,
        tuned,
        split_constraints,
        regime,
        tuple(Vertex(monomial_of(m), meet) for m, meet in _undominated(vertices, region)),
        tuple(dict.fromkeys(monomial_of(condition) for _, condition in conditions)),
    )


def solve_for(symbol: sympy.Symbol, bounds: Named, regime: Named | None = None) -> Balance:
    """The least value of a symbol at which every bound is at most 1: a sample size from a rate, or a rate from it.

    Raises:
      ValueError: as `balance`.

    >>> n, d, alpha = sympy.symbols("n d alpha", positive=True)
    >>> solve_for(n, {"rate": (n ** sympy.Rational(-1, 3) + sympy.sqrt(d) / n) / alpha}).rate
    sqrt(d)/alpha + alpha**(-3)
    """
    return balance({f"{symbol} itself": symbol}, (symbol,), bounds, regime)


def _split(named: Named) -> dict[str, sympy.Expr]:
    found: dict[str, sympy.Expr] = {}
    for name, expression in named.items():
        parts = monomials(sympy.sympify(expression), name)
        named_parts = {name: parts[0]} if len(parts) == 1 else {f"{name} {k}": p for k, p in enumerate(parts, 1)}
        for taken in found.keys() & named_parts.keys():
            raise ValueError(f"Expected different names, got {taken!r} for a term and for a part of the sum {name!r}.")
        found |= named_parts
    return found


def _rays(columns: Sequence[Powers], tuned: Sequence[sympy.Symbol]) -> list[tuple[Fraction, ...]]:
    """The extreme rays of the weights `w >= 0` under which every tuned symbol cancels, by double description."""
    size = len(columns)
    rays = [tuple(Fraction(int(k == place)) for k in range(size)) for place in range(size)]
    for symbol in tuned:
        powers = [column.get(symbol, Fraction(0)) for column in columns]
        values = [sum((w * p for w, p in zip(ray, powers, strict=True) if w), Fraction(0)) for ray in rays]
        supports = [frozenset(k for k, w in enumerate(ray) if w) for ray in rays]
        kept = [ray for ray, value in zip(rays, values, strict=True) if not value]
        for up, down in product(range(len(rays)), repeat=2):
            if values[up] > 0 > values[down]:
                union = supports[up] | supports[down]
                if not any(supports[k] <= union for k in range(len(rays)) if k not in (up, down)):
                    pair = zip(rays[up], rays[down], strict=True)
                    kept.append(tuple(-values[down] * a + values[up] * b for a, b in pair))
        if len(kept) > _MOST_RAYS:
            raise ValueError(
                f"Expected terms and constraints with at most {_MOST_RAYS} ways to cancel the tuned symbols, got more "
                f"of {size} terms at {symbol}: leave out terms that others dominate, or tune fewer than {len(tuned)}."
            )
        rays = kept
    return rays


def _undominated(
    vertices: Sequence[tuple[Powers, Mapping[str, Fraction]]], region: Mapping[str, Powers]
) -> list[tuple[Powers, Mapping[str, Fraction]]]:
    """One vertex a rate, the one at which the fewest terms meet, and none that the others dominate."""
    shortest: dict[str, tuple[Powers, Mapping[str, Fraction]]] = {}
    for powers, meet in sorted(vertices, key=lambda v: (len(v[1]), str(v[1]))):
        shortest.setdefault(str(monomial_of(powers)), (powers, meet))
    left = [shortest[key] for key in sorted(shortest)]
    for vertex in list(left):
        others = [other for other, _ in left if other is not vertex[0]]
        if others and isinstance(_at_most(vertex[0], others, region), Certificate):
            left = [other for other in left if other is not vertex]
    return left


def require_room(region: Mapping[str, Powers]) -> None:
    """Refuse a region that is empty or only an edge: every comparison within it would be true.

    Args:
      region: by name, the exponents of monomials that are at most 1.

    Raises:
      ValueError: their product, to some powers, is 1; the message names them.

    >>> x = sympy.Symbol("x", positive=True)
    >>> require_room({"x <= 1": {x: Fraction(1)}, "x >= 1": {x: Fraction(-1)}})
    Traceback (most recent call last):
    ValueError: Expected conditions that leave more than an edge, got x <= 1; x >= 1.
    """
    by_name = {name: powers for name, powers in region.items() if powers}
    found = _at_most({}, list(by_name.values()), {}) if by_name else None
    if isinstance(found, Certificate):
        names = list(by_name)
        listed = "; ".join(names[k] for k in sorted(found.weights))
        raise ValueError(f"Expected conditions that leave more than an edge, got {listed}.")


def _unbounded(terms: Named, constraints: Named, tuned: Sequence[sympy.Symbol]) -> ValueError:
    falling = [{s: -p for s, p in powers_of(m).items() if s in tuned} for m in terms.values()]
    kept_low = [{s: p for s, p in powers_of(m).items() if s in tuned} for m in constraints.values()]
    direction = _direction(falling, kept_low, tuned) or {}
    moves = ", ".join(f"{s} {'grows' if p > 0 else 'falls'}" for s, p in direction.items())
    return ValueError(
        f"Expected terms that cannot all be made arbitrarily small; {', '.join(terms)} fall without end as {moves}."
    )
