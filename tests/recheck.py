"""Check certificates of `dpnotes check --certificates FILE` again: `python tests/recheck.py FILE`.

This program uses nothing of dpnotes or sympy, but exact fractions, intervals of fractions that enclose roots,
logarithms and exponentials, a normal form of expressions, and z3 for inequalities and for questions that one linear
program cannot answer. What is not proved here is counted with the reason. The exit status is 1 if a certificate is
wrong, and its claim is named.
"""

# There are four kinds of numbers here, which share operators but no class.
# pyright: reportAttributeAccessIssue=false, reportCallIssue=false, reportArgumentType=false, reportOperatorIssue=false
# pyright: reportOptionalSubscript=false, reportOptionalOperand=false

import ast
import json
import sys
from collections import Counter
from fractions import Fraction as F
from functools import reduce
from itertools import product
from math import ceil
from pathlib import Path

import z3
from recheck_numbers import (
    HALF,
    Form,
    Interval,
    OpenError,
    WrongError,
    evaluate,
    forms,
    holds,
    limits,
    parsed,
    prove,
    require,
    variants,
)

EVIDENCE = "a search over a box is evidence, no proof"


# ---------------------------------------------------------------- the content of a relation
def inside(entry, point):
    """Refuse a point outside of the domains."""
    for name, value in point.items():
        domain = entry["symbols"][name]
        for end, sign in zip(limits(domain), (1, -1), strict=True):
            beyond = end is not None and (sign * value < sign * end or (value == end and not domain["closed"]))
            require(not beyond, f"{name} = {value} is outside its domain")
        require(value.denominator == 1 or not domain["integer"], f"{name} = {value} is no integer")


def side(text, env):
    """Return a side at a point, or None if it is not a real number."""
    try:
        return evaluate(text, env, Interval)
    except WrongError:
        return None


def both_sides(entry, point):
    """Return both sides of a relation at a point; a witness must be in the domains and satisfy the conditions."""
    point = {name: F(value) for name, value in point.items()}
    (variant,) = variants(entry)
    env = variant(Interval, {name: Interval(value) for name, value in point.items()})
    if entry["certificate"] == "witness":
        inside(entry, point)
        require(all(holds(condition, env, Interval) for condition in entry["conditions"]), "a condition fails there")
    return [side(entry[name], env) for name in ("left", "right")]


def at_point(entry, point):
    """Return both sides at a point, and compare them with the noted ones."""
    values = both_sides(entry, point)
    for value, noted in zip(values, entry["sides"], strict=True):
        require((value is None) == (noted is None), f"a side is noted as {noted}")
        if value is not None and noted not in ("+inf", "inf", "-inf"):
            scale = max(abs(value.low), F(1, 10**30))
            require(
                abs(value.low - F(noted)) < scale / 10**12, f"a side is noted as {noted}, and is {float(value.low)}"
            )
    return values


def witness(entry):
    """Check that the relation fails at a point."""
    left, right = at_point(entry, entry["point"])
    if left is not None and right is not None:
        gap = left - right
        if entry["relation"] == "==":
            require(max(gap.low, -gap.high) > F(entry["within"]), "the sides are equal at the point")
        else:
            require(gap.sign() > 0 or (entry["relation"] == "<" and gap.sign() == 0), "the relation holds at the point")
    return "both sides at a point"


def rounded(entry):
    """Check that a printed number is right to one unit of its last digit."""
    left, right = at_point(entry, {})
    gap = left - right
    require(max(abs(gap.low), abs(gap.high)) < F(1, 10 ** entry["digits"]), "the numbers differ")
    return "a number to its last digit"


def samples(entry):
    """Yield points of the domains, for testing the conditions."""
    for shift in (F(3, 7), F(1, 5), F(5, 8), F(12, 13)):
        point = {}
        for k, (name, domain) in enumerate(entry["symbols"].items()):
            low, high = limits(domain)
            low = F(0) if low is None else low
            value = low + (high - low) * shift if high is not None else low + (1 + k) * (1 + shift)
            point[name] = F(ceil(value)) if domain["integer"] else value
        yield {name: Interval(value) for name, value in point.items()}


def identity(entry):
    """Check that both sides have the same normal form; the certificate is wrong if they differ at a point."""
    for variant in variants(entry):
        env = variant(Form, forms(entry))
        gap = evaluate(entry["left"], env, Form) - evaluate(entry["right"], env, Form)
        if gap.cleared().terms and not prove(entry, gap, "=="):
            for point in samples(entry):
                at = variant(Interval, point)
                if all(holds(condition, at, Interval) for condition in entry["conditions"]):
                    ends = evaluate(entry["left"], at, Interval) - evaluate(entry["right"], at, Interval)
                    require(ends.low <= 0 <= ends.high, "the sides differ")
            raise OpenError("an identity that the normal form does not show")
    return "one normal form of both sides"


def inequality(entry):
    """Check the sides at the closest point; z3 then proves the relation, or it counts as the result of a search."""
    at_point(entry, entry["closest"])
    (variant,) = variants(entry)
    try:
        env = variant(Form, forms(entry))
        ends = [evaluate(entry[name], env, Form) for name in ("left", "right")]
        gap = ends[0] * Form.of(F(entry["factor"])) - ends[1]
    except OpenError:
        raise OpenError(EVIDENCE) from None
    for box in ((), entry["box"].items()):
        if prove(entry, gap, entry["relation"], box):
            return "z3 shows the relation" + (" in the box" if box else "")
    raise OpenError(EVIDENCE)


# ---------------------------------------------------------------- optima and crossovers
def optimum(entry):
    """Check a minimum: a sum of positive powers is convex in the logarithm, so a zero slope means the minimum."""
    symbols = forms(entry)
    variable, argument = entry["variable"], evaluate(entry["argument"], symbols, Form)
    objective = evaluate(entry["objective"], {**symbols, variable: Form.atom(variable, True)}, Form)
    slope = Form({})
    for atoms, value in objective.terms.items():
        power = dict(atoms).get((variable, True), F(0))
        rest = Form({tuple(pair for pair in atoms if pair[0] != (variable, True)): value})
        if variable in repr(rest.terms) or (power and (value < 0 or not all(atom[1] for atom, _ in atoms))):
            raise OpenError("an optimum of what is no sum of positive powers")
        slope = slope + rest * Form.of(power) * argument.power(Form.of(power))
    require(not slope.cleared().terms, "the slope is not 0")
    least = evaluate(entry["objective"], {**symbols, variable: argument}, Form)
    gap = least - evaluate(entry["least"], symbols, Form)
    require(not gap.cleared().terms, "the least value is another")
    return "slope 0 of a convex sum"


def crossover(entry):
    """Check that the ratio of two monomials is a power of the variable and equals 1 at the value."""
    symbols = {**forms(entry), entry["variable"]: Form.atom(entry["variable"], True)}
    text = f"({entry['left']})/({entry['right']})"
    ratio = evaluate(text, symbols, Form)
    require(len(ratio.terms) == 1, "a side is no monomial")
    require(dict(next(iter(ratio.terms))).get((entry["variable"], True)), "the ratio does not depend on the variable")
    there = evaluate(text, {**symbols, entry["variable"]: evaluate(entry["value"], symbols, Form)}, Form)
    require(there.terms == {(): F(1)}, "the sides differ there")
    return "a ratio of monomials that is 1"


# ---------------------------------------------------------------- units
def unit(node, entry):
    """Return the powers of loss and length, up to the units that are set to 1; None for 0, which has every unit."""
    match node:
        case ast.Constant(value):
            return (F(0), F(0)) if value else None
        case ast.Name(name):
            return tuple(map(F, entry["units"].get(name) or (0, 0)))
        case ast.Subscript(name, _):
            return unit(name, entry)
        case ast.UnaryOp(_, operand):
            return unit(operand, entry)
        case ast.BinOp(left, ast.Mult() | ast.Div() as operator, right):
            pair, sign = (unit(left, entry), unit(right, entry)), 1 if isinstance(operator, ast.Mult) else -1
            return None if None in pair else tuple(a + sign * b for a, b in zip(*pair, strict=True))
        case ast.BinOp(base, ast.Pow(), exponent):
            return power_of_unit(unit(base, entry), exponent, entry)
        case ast.Call(ast.Name("sqrt"), [base]):
            return power_of_unit(unit(base, entry), ast.Constant("1/2"), entry)
        case ast.Call(ast.Name("Sum" | "Abs"), [term, *_]):
            return unit(term, entry)
        case ast.BinOp(left, _, right) | ast.Compare(left, _, [right]):
            terms = [left, right]
        case ast.Call(ast.Name("Max" | "Min"), terms):
            pass
        case ast.Call(ast.Name("Piecewise"), pieces):
            terms = [piece.elts[0] for piece in pieces]
        case ast.Call(_, arguments):
            for argument in arguments:
                require(alike(unit(argument, entry) or (F(0), F(0)), (F(0), F(0)), entry), "a unit in a function")
            return F(0), F(0)
        case _:
            raise OpenError(f"the unit of {ast.unparse(node)}")
    units = [one for one in (unit(term, entry) for term in terms) if one is not None]
    require(all(alike(one, units[0], entry) for one in units), "terms of different units")
    return units[0] if units else None


def power_of_unit(base, exponent, entry):
    """Return the unit of a power with a rational exponent; other exponents require a base without unit."""
    if base is None or not any(base):
        return F(0), F(0)
    try:
        value = F(exponent.value) if isinstance(exponent, ast.Constant) else evaluate(exponent, {}, Interval).rational()
    except WrongError:
        raise WrongError("a unit under a power with symbols") from None
    return tuple(value * one for one in base)


def alike(one, other, entry):
    """Return whether two units are equal up to products of powers of the units that are set to 1."""
    gap = [a - b for a, b in zip(one, other, strict=True)]
    free = [tuple(map(F, entry["units"][name] or (0, 0))) for name in entry["normalised"]]
    free = [pair for pair in free if any(pair)]

    def parallel(left, right):
        return left[0] * right[1] == left[1] * right[0]

    spans = any(not parallel(a, b) for a, b in product(free, free))
    return not any(gap) or spans or any(parallel(gap, pair) for pair in free)


def units(entry):
    """Check that the units of all expressions are as noted, and that they differ."""
    found = {}
    for name, text in {**entry["alike"], **entry["pure"]}.items():
        try:
            found[name] = unit(parsed(text), entry)
        except WrongError:
            found[name] = "differ"
    for name, noted in entry["found"].items():
        if not entry["normalised"]:
            ours = None if found[name] == "differ" else found[name]
            require(noted is None or ours == tuple(map(F, noted)), f"the unit of {name} is {ours}")
    if "differ" in found.values():
        return "units of terms"
    first, *others = [found[name] for name in entry["alike"] if found[name] is not None]
    pure = [found[name] for name in entry["pure"] if found[name] is not None]
    same = all(alike(first, one, entry) for one in others) and all(alike(one, (F(0), F(0)), entry) for one in pure)
    require(not same, "the units are equal")
    return "units of sides"


# ---------------------------------------------------------------- balances
def times(left, right, power=F(1)):
    """Return a product of monomials."""
    found = dict(left)
    for name, value in dict(right).items():
        found[name] = found.get(name, F(0)) + power * value
    return tuple(sorted((name, value) for name, value in found.items() if value))


def pieces(node, put_in=()):
    """Return the possible monomials of an expression, up to constants, each with monomials that are at most 1 there."""
    node, put_in = parsed(node) if isinstance(node, str) else node, dict(put_in)
    match node:
        case ast.Constant(value):
            require(value > 0, "a term that is not positive")
            return [((), ())]
        case ast.Name(name):
            return [(put_in.get(name, ((name, F(1)),)), ())]
        case ast.BinOp(left, ast.Mult(), right):
            return [(times(a, b), c + d) for (a, c), (b, d) in product(pieces(left, put_in), pieces(right, put_in))]
        case ast.BinOp(left, ast.Div(), right):
            return pieces(ast.BinOp(left, ast.Mult(), ast.BinOp(right, ast.Pow(), ast.Constant(-1))), put_in)
        case ast.BinOp(base, ast.Pow(), exponent):
            power = evaluate(exponent, {}, Interval).rational()
            return [(times((), one, power), where) for one, where in pieces(base, put_in)]
        case ast.Call(ast.Name("sqrt"), [base]):
            return [(times((), one, HALF), where) for one, where in pieces(base, put_in)]
        case ast.BinOp(left, ast.Add(), right):
            options, sign = [right], 1
            while isinstance(left, ast.BinOp) and isinstance(left.op, ast.Add):
                left, options = left.left, [left.right, *options]
            options = [left, *options]
        case ast.Call(ast.Name("Max" | "Min" as name), options):
            sign = 1 if name == "Max" else -1
        case _:
            raise OpenError(f"the monomial {ast.unparse(node)}")
    found = []
    for choice in product(*(pieces(option, put_in) for option in options)):
        inner = tuple(condition for _, where in choice for condition in where)
        for k, (one, _) in enumerate(choice):
            others = [other for j, (other, _) in enumerate(choice) if j != k]
            found.append((one, inner + tuple(filter(None, (times((), times(o, one, F(-1)), F(sign)) for o in others)))))
    return found


def largest(*texts, put_in=()):
    """Return the monomials of which expressions are the largest."""
    return {one for text in texts for one, _ in pieces(text, put_in)}


class Lemmas:
    """Proofs that monomials are at most the largest of others: as weighted means times monomials that are at most 1."""

    def __init__(self, entry, ones):
        self.proofs = {}
        for lemma in entry["lemmas"]:
            ((monomial, _),) = pieces(lemma["monomial"], ones)
            sides = [{pieces(t, ones)[0][0]: F(w) for t, w in lemma[name].items()} for name in ("larger", "where")]
            require(all(w >= 0 for side in sides for w in side.values()), "a negative multiplier")
            require(sum(sides[0].values()) == 1, "weights that do not sum to 1")
            combined = reduce(lambda p, term: times(p, *term), [t for side in sides for t in side.items()], ())
            require(combined == monomial, f"{lemma['monomial']} is not the product of what it is said to be")
            self.proofs.setdefault(monomial, []).append(([*sides[0]], [*sides[1]]))

    def need(self, monomials, larger, region):
        """Refuse what no lemma shows."""
        for one in monomials:
            fits = (set(a) <= set(larger) and set(b) <= set(region) for a, b in self.proofs.get(one, []))
            require(one in larger or any(fits), f"no lemma shows that {dict(one)} is small enough")


def statement(entry):
    """Symbols that are put to 1, the regime, and the terms and constraints that hold text."""
    ones = {name: () for name in entry["ones"]}
    regime = largest(*entry["regime"].values(), put_in=ones) - {()}
    for name, domain in entry["symbols"].items():
        if name not in (*entry["tuned"], *entry["ones"], *(symbol for symbol, _ in entry["parameters"])):
            regime |= {((name, F(-1)),)} if domain["low"] is not None and F(domain["low"]) >= 1 else set()
            regime |= {((name, F(1)),)} if domain["high"] is not None and F(domain["high"]) <= 1 else set()
    return ones, regime


def grows(entry, monomials):
    """Return the growth exponent of the largest of these monomials along the direction."""
    return max(sum(F(entry["direction"].get(name, 0)) * power for name, power in m) for m in monomials)


def balance(entry):
    """The dual solution bounds the rate from below, the primal one reaches it, and the stated rate compares so."""
    ones, regime = statement(entry)
    lemmas, one = Lemmas(entry, ones), {()}
    stated = largest(entry["rate"], put_in=ones)
    terms, constraints = (largest(*entry[name].values(), put_in=ones) for name in ("terms", "constraints"))
    tuned, conditions = {*entry["tuned"]} - {*ones}, largest(*entry["conditions"])
    rates = {pieces(vertex["rate"])[0][0] for vertex in entry["vertices"]}
    require(not tuned & {name for m in conditions | rates | stated for name, _ in m}, "a rate has tuned symbols")
    lemmas.need(conditions, one, constraints)
    lemmas.need(rates, terms, constraints)  # dual feasible: no choice is better
    region, compares = regime | conditions, entry["compares"]
    if compares != "not implied":
        for vertex in entry["vertices"]:  # primal feasible, with the same objective: a choice is as good
            ((rate, _),) = pieces(vertex["rate"])
            if vertex["choice"] is None:
                reachable(terms, constraints, region, rates, tuned)
                continue
            choice = {**ones, **{name: pieces(text)[0][0] for name, text in vertex["choice"].items()}}
            here = region | {times(other, rate, F(-1)) for other in rates if other != rate}
            for group, bound in ((terms, {rate}), (constraints, one)):
                put = {reduce(lambda p, q: times(p, choice.get(q[0], (q[:1] + (F(1),),)), q[1]), m, ()) for m in group}
                lemmas.need(put, bound, here)
    if compares == "constants":
        lemmas.need(stated, rates, region)
        lemmas.need(rates, stated, region)
        return "primal and dual solution of linear programs"
    require(grows(entry, region | {()}) <= 0, "the direction leaves the regime")
    top, best = grows(entry, stated), grows(entry, rates)
    require(top < best if compares == "not implied" else top > best, "the direction does not tell the rates apart")
    return "dual solution and a direction" if compares == "not implied" else "primal, dual and a direction"


def reachable(terms, constraints, region, rates, tuned):
    """Return whether everywhere in a region some choice makes all terms at most the largest rate (exact, by z3)."""
    unknown = {name: z3.Real(name) for m in (*terms, *constraints, *region, *rates) for name, _ in m}

    def linear(monomial):
        return z3.Sum([z3.RealVal(0), *(z3.Q(p.numerator, p.denominator) * unknown[name] for name, p in monomial)])

    good = [z3.Or([linear(t) <= linear(rate) for rate in rates]) for t in terms] + [linear(c) <= 0 for c in constraints]
    solver = z3.Solver()
    choice = [unknown[name] for name in tuned if name in unknown]
    solver.add(*[linear(m) <= 0 for m in region], z3.Not(z3.Exists(choice, z3.And(good))))
    solver.set("timeout", 20000)
    found = solver.check()
    require(found != z3.sat, "no choice reaches the rate")
    if found != z3.unsat:
        raise OpenError("a choice that z3 does not find")


def roomy(region):
    """Return whether a region has an interior."""
    solver = z3.Solver()
    for m in region - {()}:
        solver.add(z3.Sum([z3.Q(p.numerator, p.denominator) * z3.Real(name) for name, p in m]) < 0)
    return solver.check() == z3.sat


def choice(entry):
    """In each case of the printed parameters every term is at most the rate, or not, along the direction."""
    ones, regime = statement(entry)
    lemmas, cases = Lemmas(entry, ones), [(ones, frozenset(regime))]
    for name, text in entry["parameters"]:
        cases = [({**put, name: m}, where | set(more)) for put, where in cases for m, more in pieces(text, put)]
    broken = False
    for put, region in cases:
        if not roomy(set(region)):
            continue
        rate = largest(entry["rate"], put_in=put)
        terms, constraints = (largest(*entry[name].values(), put_in=put) for name in ("terms", "constraints"))
        if entry["direction"] and grows(entry, region | {()}) <= 0:
            top, best = grows(entry, terms), grows(entry, rate)
            over = top > best or grows(entry, constraints | {()}) > 0
            broken = broken or (over if entry["compares"] == "not implied" else best > top)
        if entry["compares"] != "not implied":
            lemmas.need(terms, rate, region)
            lemmas.need(constraints, {()}, region)
        if entry["compares"] == "constants":
            lemmas.need(rate, terms, region)
    require(broken or entry["compares"] == "constants", "the direction does not tell rate and terms apart")
    return "multipliers for each case" if entry["compares"] == "constants" else "a direction"


def restated(entry):
    """Rate and terms are the same monomials."""
    ones, _ = statement(entry)
    require(not entry["tuned"] and not entry["constraints"], "something is tuned")
    terms, rate = largest(*entry["terms"].values(), put_in=ones), largest(entry["rate"], put_in=ones)
    require(rate == terms, "the monomials differ")
    return "the same monomials"


CHECKS = {
    "witness": (witness, {"contradicted"}),
    "rounded": (rounded, {"exact"}),
    "identity": (identity, {"exact", "not refuted"}),
    "inequality": (inequality, {"exact", "not refuted", "improvable"}),
    "optimum": (optimum, {"exact", "not refuted"}),
    "crossover": (crossover, {"exact"}),
    "units": (units, {"units differ"}),
    "balance": (balance, {"up to constants", "up to logs", "not implied", "improvable"}),
    "choice": (choice, {"up to constants", "up to logs", "not implied", "improvable"}),
    "restated": (restated, {"restated"}),
}
UNCHECKED = {
    "none": "not checkable, says dpnotes too",
    "growth": "an order of growth seen over decades is evidence, no proof",
    "limit": "a limit",
    "family": "exponents that depend on a letter",
    "monotone": "the sign of a derivative, which is not derived here",
    "allocation": "an optimum over a sequence",
}


def recheck(entry):
    """Return the way in which a certificate was checked again.

    Raises:
      WrongError: the certificate does not hold.
      OpenError: this program cannot decide it.
    """
    kind, Form.work = entry["certificate"], 0
    if kind in UNCHECKED:
        raise OpenError(UNCHECKED[kind])
    check, verdicts = CHECKS[kind]
    require(entry["verdict"] in verdicts, f"the verdict is {entry['verdict']}")
    return check(entry)


def main(path):
    """Check a file, print the counts, and return the exit status: 1 if one is wrong, 2 if there is nothing to check."""
    try:
        document = json.loads(Path(path).read_text(encoding="utf-8"))
        entries = document["certificates"] if document["format"] == 1 else []
    except (OSError, ValueError, KeyError, TypeError) as error:
        print(f"Expected {path} to be what dpnotes check --certificates wrote: {type(error).__name__}: {error}.")
        return 2
    if not entries:
        print(f"Expected {path} to have format 1 and certificates in it.")
        return 2
    counts, left, wrong = Counter(), Counter(), 0
    for entry in entries:
        try:
            counts[entry["certificate"], recheck(entry)] += 1
        except OpenError as error:
            left[entry["certificate"], str(error)] += 1
        except WrongError as error:
            wrong += 1
            print(f"wrong: {entry['claim']} ({entry['statement']}, {entry['certificate']}): {error}")
        except (KeyError, TypeError, AttributeError) as error:
            wrong += 1
            print(f"wrong: {entry!r:.60}: no certificate, {type(error).__name__}: {error}")
    total = counts.total() + left.total() + wrong
    print(f"{total} certificates: {counts.total()} hold ({counts.total() / total:.1%}), {wrong} do not")
    for title, some in (("checked", counts), ("not checked", left)):
        for (kind, how), count in sorted(some.items()):
            print(f"{count:5} {title}: {kind}, {how}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]) if len(sys.argv) == 2 else "Expected one file: python tests/recheck.py FILE")
