"""Rates, parameter choices and crossovers: statements about monomials, up to constants, checked by exact balance.

The engine computes the best balance of the terms from which a proof starts, and compares it with the printed rate in
both directions over the whole regime. Every answer is either an exact certificate or a numeric point.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Any, Literal

import sympy

from dpnotes.theory import certificates
from dpnotes.theory.balance import Balance, Named, Witness, at_most, balance, regime_of, require_room
from dpnotes.theory.evaluation import Values, at_most_one, contradicted, evaluator, held_for, number, place_text, writer
from dpnotes.theory.families import for_every_value, interval_text, parameter_of, parts_of
from dpnotes.theory.monomials import Branch, branches, monomial_of, monomials, powers_of
from dpnotes.theory.statements import Statement
from dpnotes.theory.symbols import symbols_of
from dpnotes.theory.units import NONE, Unit, UnitsDiffer, equal_modulo, unit_of
from dpnotes.theory.verdicts import Kind, Verdict

Order = Literal["O", "Omega", "Theta"]
_DECADES = 12  # the points that evidence shows go no further
_ORDERS = {"O": "\\mathcal{O}", "Omega": "\\Omega", "Theta": "\\Theta"}


@dataclass(frozen=True)
class Rate(Statement):
    """The statement that `subject` is of the order `value`: the best order that the terms allow, and no better.

    For a bound with the subject on both sides, or a sample size, the subject is a tuned symbol and the only term; the
    constraints are the expressions that must be at most 1. Exponents may depend on one letter with a bounded domain:
    the rate is then checked for every value of it (`dpnotes.theory.families`).

    Args:
      subject: the quantity that has the rate; only shown.
      value: as printed, a sum (or `Max`) of monomials.
      terms: the terms of the bound by name, each a monomial or a sum of them.
      tuned: the symbols that may be chosen.
      constraints: expressions by name that must be at most 1.
      regime: monomials of the other symbols by name, at most 1 where the rate is claimed. Domains are added.
      logs: symbols that stand for logarithms (at least 1), which an O with a tilde hides.
      normalised: symbols that the paper sets to 1; units are then compared up to the units of these symbols.
      order: how the statement is printed.
      tilde: whether it is printed with a tilde for logarithms that the terms leave out.
    """

    subject: sympy.Expr
    value: sympy.Expr
    terms: Named
    tuned: tuple[sympy.Symbol, ...] = ()
    constraints: Named = field(default_factory=dict)
    regime: Named = field(default_factory=dict)
    logs: tuple[sympy.Symbol, ...] = ()
    normalised: tuple[sympy.Symbol, ...] = ()
    order: Order = "O"
    tilde: bool = False

    PRINTED = ("value",)

    def said(self, latex: bool) -> str:
        """The statement as printed."""
        held = held_for([*interval_text(self, latex), *at_most_one(self.regime.values(), latex)], latex)
        tilde = bool(self.logs) or self.tilde
        if not latex:
            return f"{self.subject} = {self.order}{'~' * tilde}({self.value}){held}"
        order = f"\\tilde{{{_ORDERS[self.order]}}}" if tilde else _ORDERS[self.order]
        return f"{sympy.latex(self.subject)} = {order}\\left({sympy.latex(self.value)}\\right){held}"

    def balance(self) -> Balance:
        """The best balance of the terms, with the normalised symbols set to 1.

        Raises:
          ValueError: as `dpnotes.theory.balance.balance`.
        """
        return _balanced(self, self.normalised)

    def verdict(self) -> Verdict:
        """The verdict: up to constants, up to logs, not implied, improvable, restated, contradicted or units differ."""
        if negative := _negative("the stated rate", self.value, parameter_of(self)):
            return negative
        alike, pure = {**self.terms, "the stated rate": self.value}, {**self.constraints, **self.regime}
        if problem := _units_problem(alike, pure, self.normalised, parameter_of(self)):
            return problem
        return for_every_value(self, Rate._judged)

    def _judged(self) -> Verdict:
        found = _up_to_logs(self, self._compare(self.normalised))
        if found.kind == Kind.UP_TO_CONSTANTS and self._restates():
            listed = f"the terms are the stated ones, up to constants: {', '.join(self.terms)}"
            return Verdict(Kind.RESTATED, listed, partial(certificates.restated, **self._statement(self.normalised)))
        if self.tilde and found.kind == Kind.UP_TO_CONSTANTS:
            return replace(found, kind=Kind.UP_TO_LOGS, evidence=f"{found.evidence}; logarithms are left out")
        return found

    def _restates(self) -> bool:
        """Return whether both sides are one formula: nothing is tuned, and the terms have the printed monomials."""
        if self.tuned or self.constraints:
            return False
        stated, derived = (
            {frozenset(powers_of(m).items()) for e in group for m in monomials(_at_one(e, self.normalised), "a side")}
            for group in ((self.value,), self.terms.values())
        )
        return stated == derived

    def _statement(self, ones: Sequence[sympy.Symbol]) -> dict[str, Any]:
        """The statement's data for a certificate."""
        named = {"terms": self.terms, "constraints": self.constraints, "regime": self.regime}
        return {"rate": self.value, **named, "ones": ones, "tuned": self.tuned}

    def _compare(self, ones: Sequence[sympy.Symbol]) -> Verdict:
        if used := [str(s) for s in self.tuned if s in self.value.free_symbols or s in self.normalised]:
            raise ValueError(f"Expected tuned symbols apart from the rate and from what is 1, got {', '.join(used)}.")
        best = _balanced(self, tuple(ones))
        stated = monomials(_at_one(self.value, ones), "the stated rate")
        region = {**best.regime, **regime_of(self.value.free_symbols - set(ones))}
        region |= {f"{c} <= 1": c for c in best.conditions}
        within = f", where {', '.join(f'{c} <= 1' for c in best.conditions)}" if best.conditions else ""
        statement = self._statement(ones)
        lemmas: list[certificates.Lemma] = []
        rates = [vertex.rate for vertex in best.vertices]
        lost = [(v.rate, stated, f"{v.rate} is lost, {_meeting(v.meet)}") for v in best.vertices]
        loose = [(monomial, rates, f"{monomial} is more than the terms need{within}") for monomial in stated]
        for kind, compared in ((Kind.NOT_IMPLIED, lost), (Kind.IMPROVABLE, loose)):
            for smaller, larger, said in compared:
                found = at_most(smaller, larger, region)
                if isinstance(found, Witness):
                    sides = ("stated", stated, "needed", [smaller])
                    if kind == Kind.IMPROVABLE:
                        sides = ("stated", [smaller], "enough", rates)
                    known = lemmas if kind == Kind.IMPROVABLE else []
                    certificate = partial(certificates.balanced, str(kind), best, known, found, **statement)
                    return Verdict(kind, f"{said}; {_shown(found, *sides)}", certificate)
                lemmas.append((smaller, larger, region, found))
        listed = "; ".join(f"{v.rate}: {', '.join(v.meet)}" for v in best.vertices)
        certificate = partial(certificates.balanced, "constants", best, lemmas, **statement)
        return Verdict(Kind.UP_TO_CONSTANTS, f"the best balance, and what meets: {listed}{within}", certificate)


@lru_cache(maxsize=256)
def _balance_of(
    terms: tuple[Any, ...], tuned: tuple[Any, ...], constraints: tuple[Any, ...], regime: tuple[Any, ...]
) -> Balance:
    return balance(dict(terms), tuned, dict(constraints), dict(regime))


def _balanced(statement: Rate, ones: tuple[sympy.Symbol, ...]) -> Balance:
    """The best balance, cached since the mutants of a rate share its terms."""
    groups = [
        tuple((name, _at_one(e, ones)) for name, e in group.items())
        for group in (statement.terms, statement.constraints, statement.regime)
    ]
    # An expression that has become a bare number says nothing up to constants.
    constraints, regime = (tuple((n, e) for n, e in group if e.free_symbols) for group in groups[1:])
    return _balance_of(groups[0], tuple(s for s in statement.tuned if s not in ones), constraints, regime)


def _at_one(expression: sympy.Expr, ones: Sequence[sympy.Symbol]) -> Any:
    return expression.xreplace({symbol: sympy.Integer(1) for symbol in ones})


# ---------------------------------------------------------------- parameter choices
@dataclass(frozen=True)
class Choice(Statement):
    """The statement that at the printed parameters the terms reach but do not exceed `rate`, and the constraints hold.

    Args:
      parameters: as printed, in an order in which later ones may use earlier ones; monomials, or sums, `Max` or `Min`
        of them.
      terms: expressions by name that must be at most the rate.
      rate: the rate that they must reach; may use the parameters.
      constraints: expressions by name that must be at most 1.
      regime: monomials of the other symbols by name, at most 1. Domains are added.
      logs: symbols that stand for logarithms.
      normalised: symbols that the paper sets to 1.
    """

    parameters: Mapping[sympy.Symbol, sympy.Expr]
    terms: Named
    rate: sympy.Expr
    constraints: Named = field(default_factory=dict)
    regime: Named = field(default_factory=dict)
    logs: tuple[sympy.Symbol, ...] = ()
    normalised: tuple[sympy.Symbol, ...] = ()

    @property
    def printed(self) -> tuple[sympy.Expr, ...]:
        """The printed parameters."""
        return tuple(self.parameters.values())

    def restate(self, *printed: sympy.Expr) -> "Choice":
        """Return the statement with other printed parameters."""
        return replace(self, parameters=dict(zip(self.parameters, printed, strict=True)))

    def said(self, latex: bool) -> str:
        """The statement as printed."""
        show = writer(latex)
        listed = (f"{show(s)} = {show(e)}" for s, e in self.parameters.items())
        held = held_for([*interval_text(self, latex), *at_most_one(self.regime.values(), latex)], latex)
        return (", \\quad " if latex else ", ").join(listed) + held

    def verdict(self) -> Verdict:
        """The verdict: up to constants, up to logs, not implied, improvable, contradicted or units differ."""
        for symbol, value in self.parameters.items():
            if negative := _negative(str(symbol), value, parameter_of(self)):
                return negative
            pair = {f"the parameter {symbol}": symbol, "its value": value}
            if problem := _units_problem(pair, {}, self.normalised, parameter_of(self)):
                return problem
        terms = {**self.terms, "the rate": self.rate}
        pure = {**self.constraints, **self.regime}
        if problem := _units_problem(terms, pure, self.normalised, parameter_of(self)):
            return problem
        return for_every_value(self, lambda one: _up_to_logs(one, one._compare(one.normalised)))

    def _compare(self, ones: Sequence[sympy.Symbol]) -> Verdict:
        if not self.terms:
            raise ValueError("Expected at least one term.")
        for place, (symbol, value) in enumerate(self.parameters.items()):
            later = set(list(self.parameters)[place:])
            if used := [str(s) for s in later & value.free_symbols]:
                raise ValueError(f"Expected {symbol} by earlier parameters only, got {', '.join(used)} in {value}.")
        for name, monomial in self.regime.items():
            if used := [str(s) for s in monomial.free_symbols & set(self.parameters)]:
                raise ValueError(f"Expected a regime without parameters, got {', '.join(used)} in {name!r}.")
        regime = {name: _at_one(m, ones) for name, m in self.regime.items()}
        symbols = {s for e in self.expressions for s in e.free_symbols} - set(self.parameters) - set(ones)
        regime = {**regime_of(symbols), **regime}
        require_room({name: powers_of(m, name) for name, m in regime.items()})
        named = {"terms": self.terms, "constraints": self.constraints, "regime": self.regime}
        statement = {"rate": self.rate, **named, "ones": ones, "parameters": self.parameters}
        slack: Verdict | None = None
        lemmas: list[certificates.Lemma] = []
        num_cases, tight = 0, set()
        for chosen, conditions in self._cases(ones):
            region = {**regime, **{f"case {k}": monomial_of(c) for k, c in enumerate(conditions)}}
            try:
                require_room({name: powers_of(m, name) for name, m in region.items()})
            except ValueError:  # this case is only an edge of other cases
                continue
            num_cases += 1

            def put_in(expression: Any, name: str, chosen: Any = chosen) -> list[Any]:
                return monomials(_at_one(expression, ones).xreplace(chosen), name)

            rate = put_in(self.rate, "the rate")
            reached = [(name, monomial) for name, term in self.terms.items() for monomial in put_in(term, name)]
            bounded = [(name, m) for name, constraint in self.constraints.items() for m in put_in(constraint, name)]
            for several, larger, word, said in (
                (reached, rate, "rate", "{}, {}, exceeds the rate"),
                (bounded, [sympy.Integer(1)], "allowed", "{}, {} <= 1, is broken"),
            ):
                for name, monomial in several:
                    found = at_most(monomial, larger, region)
                    if isinstance(found, Witness):
                        shown = _shown(found, name, [monomial], word, larger)
                        certificate = partial(certificates.chosen, "not implied", [], found, **statement)
                        return Verdict(Kind.NOT_IMPLIED, f"{said.format(name, monomial)}; {shown}", certificate)
                    lemmas.append((monomial, larger, region, found))
            tight |= {name for name, monomial in reached if monomial in rate}
            terms = [monomial for _, monomial in reached]
            for monomial in rate:
                found = at_most(monomial, terms, region) if slack is None else None
                if isinstance(found, Witness):
                    shown = _shown(found, "rate", [monomial], "terms", terms)
                    certificate = partial(certificates.chosen, "improvable", lemmas, found, **statement)
                    slack = Verdict(Kind.IMPROVABLE, f"no term reaches {monomial}; {shown}", certificate)
                elif found is not None:
                    lemmas.append((monomial, terms, region, found))
        if slack is not None:
            return slack
        cases = f" in all {num_cases} cases" if num_cases > 1 else ""
        meets = ", ".join(name for name in self.terms if name in tight)
        reaches = f"every term is at most the rate{cases}; {meets or 'the sum'} reaches it"
        certificate = partial(certificates.chosen, "constants", lemmas, **statement)
        return Verdict(Kind.UP_TO_CONSTANTS, reaches, certificate)

    def _cases(self, ones: Sequence[sympy.Symbol]) -> list[tuple[dict[sympy.Symbol, sympy.Expr], tuple[Any, ...]]]:
        """The parameters' pieces, as monomials of the other symbols, and the conditions under which each applies."""
        cases: list[tuple[dict[sympy.Symbol, sympy.Expr], tuple[Any, ...]]] = [({}, ())]
        for symbol, value in self.parameters.items():
            grown = []
            for chosen, conditions in cases:
                pieces: list[Branch] = branches(_at_one(value, ones).xreplace(chosen), str(symbol))
                grown += [({**chosen, symbol: monomial_of(b.powers)}, (*conditions, *b.conditions)) for b in pieces]
            cases = [(c, tuple(dict.fromkeys(_frozen(m) for m in conditions))) for c, conditions in grown]
            cases = [(c, tuple(dict(m) for m in conditions)) for c, conditions in cases]
        return cases


def _frozen(powers: Mapping[Any, Any]) -> tuple[tuple[Any, Any], ...]:
    return tuple(sorted(powers.items(), key=lambda p: str(p[0])))


# ---------------------------------------------------------------- crossovers
@dataclass(frozen=True)
class Crossover(Statement):
    """The statement that `left = right` exactly at `variable = value`, for monomials with their coefficients.

    Args:
      left: the first monomial.
      right: the second monomial.
      variable: the symbol that varies.
      value: as printed.
      example: values of the other symbols, at which evidence is shown.
    """

    left: sympy.Expr
    right: sympy.Expr
    variable: sympy.Symbol
    value: sympy.Expr
    example: Values = field(default_factory=dict)

    PRINTED = ("value",)

    def said(self, latex: bool) -> str:
        """The statement as printed."""
        show = writer(latex)
        where = "\\iff" if latex else "at"
        return f"{show(self.left)} = {show(self.right)} {where} {show(self.variable)} = {show(self.value)}"

    def verdict(self) -> Verdict:
        """The verdict: exact, contradicted or units differ.

        Raises:
          ValueError: a side is no monomial, or both have the same power of the variable.
        """
        for pair in ({"left": self.left, "right": self.right}, {"variable": self.variable, "value": self.value}):
            if problem := _units_problem(pair, {}):
                return problem
        power = powers_of(self.left).get(self.variable, 0) - powers_of(self.right).get(self.variable, 0)
        if not power:
            raise ValueError(f"Expected sides of different powers of {self.variable}, got {self.left}, {self.right}.")
        exponent = sympy.Rational(1) / sympy.Rational(power.numerator, power.denominator)
        rest = (self.right / self.left * self.variable ** (1 / exponent)).powsimp()
        derived = sympy.powdenest(rest**exponent, force=True)
        ratio = sympy.powsimp(sympy.powdenest(sympy.expand_power_base(self.value / derived), force=True), force=True)
        if ratio == 1 or sympy.simplify(ratio) == 1:
            certificate = partial(certificates.crossover, self.left, self.right, self.variable, self.value)
            return Verdict(Kind.EXACT, f"the sides are equal there, and their ratio has the power {power}", certificate)
        names = symbols_of(self.value, derived)
        point = {symbol: sympy.sympify(self.example.get(symbol, 2)) for symbol in names}
        stated, right = self.value.xreplace(point), derived.xreplace(point)
        place = f"at {place_text(point)}: " if point else ""
        sides = [side.xreplace({self.variable: self.value}) for side in (self.left, self.right)]
        point = {symbol: sympy.sympify(self.example.get(symbol, 2)) for symbol in symbols_of(*sides)}
        values = [evaluator(list(point), side)(point) for side in sides]
        said = f"{place}stated {number(sympy.N(stated))}, derived {number(sympy.N(right))}"
        return contradicted(said, certificates.Relation(sides[0], "==", sides[1]), point, values)


# ---------------------------------------------------------------- shared
def _up_to_logs(statement: Rate | Choice, found: Verdict) -> Verdict:
    """The verdict found or, where the statement fails or is improvable, that with its logarithms set to 1."""
    if not statement.logs or found.kind not in (Kind.NOT_IMPLIED, Kind.IMPROVABLE):
        return found
    without = statement._compare((*statement.normalised, *statement.logs))
    if without.kind != Kind.UP_TO_CONSTANTS:
        return without
    logs = ", ".join(map(str, statement.logs))
    return replace(without, kind=Kind.UP_TO_LOGS, evidence=f"{without.evidence}; {logs} put to 1")


def _meeting(names: Sequence[str]) -> str:
    return f"where {', '.join(names)} meet" if len(names) > 1 else f"which is {names[0]}"


def _negative(name: str, value: sympy.Basic, letter: Any) -> Verdict | None:
    """The verdict `contradicted` if the value has a negative term, as a mutant's sign change makes it; else None."""
    if value.free_symbols == {letter}:  # a constant, whose sign is checked for every value of the letter
        return None
    parts = value.args if isinstance(value, sympy.Add | sympy.Max | sympy.Min) else (value,)
    for part in parts:
        if part.could_extract_minus_sign():
            return Verdict(Kind.CONTRADICTED, f"{name} has the negative term {part}")
        for factor in sympy.Mul.make_args(part):
            inside = factor.args[0] if isinstance(factor, sympy.Pow) else factor
            if inside.args and inside is not value and (found := _negative(name, inside, letter)):
                return found
    return None


def _units_problem(
    alike: Named, pure: Named, normalised: Sequence[sympy.Symbol] = (), letter: Any = None
) -> Verdict | None:
    """The verdict `units differ`; None if `alike` share a unit and `pure` have none, up to units that are set to 1."""
    free = [unit_of(symbol) or NONE for symbol in normalised]
    certificate = partial(certificates.units, alike, pure, normalised)
    try:
        units = {name: _unit(expression, free, letter) for name, expression in alike.items()}
        bare = {name: _unit(expression, free, letter) for name, expression in pure.items()}
    except UnitsDiffer as error:
        return Verdict(Kind.UNITS_DIFFER, str(error), certificate)
    (first, expected), *others = units.items()
    for name, unit in others:
        if not equal_modulo(unit, expected, free):
            return Verdict(Kind.UNITS_DIFFER, f"{name}: {unit}, {first}: {expected}", certificate)
    for name, unit in bare.items():
        if not equal_modulo(unit, NONE, free):
            compares = f"{name} compares {pure[name]} with 1, but its unit is {unit}"
            return Verdict(Kind.UNITS_DIFFER, compares, certificate)
    return None


def _unit(expression: sympy.Expr, free: Sequence[Unit], letter: Any) -> Unit:
    if not free:
        return unit_of(expression) or NONE
    # Terms of a sum may differ by units that are set to 1; each is compared with the first.
    parts = parts_of(expression, letter)
    units = [unit_of(part) or NONE for part in parts]
    for part, unit in zip(parts, units, strict=True):
        if not equal_modulo(unit, units[0], free):
            raise UnitsDiffer(f"Expected equal units in {expression}, got {part}: {unit}, {parts[0]}: {units[0]}.")
    return units[0]


def _shown(witness: Witness, left: str, lefts: Sequence[sympy.Expr], right: str, rights: Sequence[sympy.Expr]) -> str:
    """The text of both sides at a point in the witness's direction, within twelve decades; other symbols are 1."""
    scale = min(1.0, _DECADES / max(abs(power) for power in witness.direction.values()))
    decades = {symbol: power * scale for symbol, power in witness.direction.items()}

    def largest(expressions: Sequence[sympy.Expr]) -> float:
        return max(10 ** sum(float(p) * decades.get(s, 0.0) for s, p in powers_of(m).items()) for m in expressions)

    whole = scale == 1.0
    place = place_text({s: sympy.Integer(10) ** int(p) if whole and p >= 0 else 10**p for s, p in decades.items()})
    return f"at {place}, all else 1: {left} {number(largest(lefts))}, {right} {number(largest(rights))}"
