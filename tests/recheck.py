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
from contextlib import suppress
from fractions import Fraction as F
from functools import cache, reduce
from itertools import product
from math import ceil, factorial, floor, lcm
from operator import add
from pathlib import Path

import z3

BITS = 200  # precision of the ends of intervals
WORK = 50_000  # limit on products of terms in the normal forms of a certificate
EFFORT = 300_000  # z3's limit, in its own units, which are the same on every machine
EVIDENCE = "a search over a box is evidence, no proof"
DEGREE = 24  # largest degree of the polynomials passed to z3
HALF = F(1, 2)


class WrongError(Exception):
    """The certificate does not hold."""


class OpenError(Exception):
    """The certificate is not decided here; the message is the reason that is counted."""


def require(holds, what):
    """Refuse a certificate unless a condition holds."""
    if not holds:
        raise WrongError(what)


# ---------------------------------------------------------------- expressions, in one of two kinds of value
@cache
def parsed(text):
    """Return the syntax tree of an expression."""
    return ast.parse(text, mode="eval").body


def evaluate(node, env, kind):
    """Return an expression as a value of this kind, `Interval` or `Form`; `env` has the values of names."""
    if isinstance(node, str):
        node = parsed(node)
    match node:
        case ast.Constant(value):
            return kind.of(F(str(value)))
        case ast.Name(name) if name in env:
            return env[name]
        case ast.Name(name):
            return kind.call(name, [])
        case ast.Subscript(ast.Name(name), index):
            parts = index.elts if isinstance(index, ast.Tuple) else [index]
            return env["_".join([name, *(str(evaluate(part, env, kind).rational()) for part in parts)])]
        case ast.UnaryOp(ast.USub(), operand):
            return kind.of(F(-1)) * evaluate(operand, env, kind)
        case ast.BinOp(left, operator, right):
            left, right = evaluate(left, env, kind), evaluate(right, env, kind)
            match operator:
                case ast.Add():
                    return left + right
                case ast.Sub():
                    return left - right
                case ast.Mult():
                    return left * right
                case ast.Div():
                    return left * right.power(kind.of(F(-1)))
                case ast.Pow():
                    return left.power(right)
        case ast.Call(ast.Name("Sum"), [term, ast.Tuple([ast.Name(index), low, high])]):
            ends = [int(evaluate(end, env, kind).rational()) for end in (low, high)]
            values = (kind.of(F(k)) for k in range(ends[0], ends[1] + 1))
            return reduce(add, (evaluate(term, {**env, index: k}, kind) for k in values), kind.of(F(0)))
        case ast.Call(ast.Name("Piecewise"), pieces):
            return next(evaluate(p.elts[0], env, kind) for p in pieces if holds(p.elts[1], env, kind))
        case ast.Call(ast.Name("floor"), [inner]) if (whole := whole_part(inner, env)) is not None:
            return kind.of(F(whole))
        case ast.Call(ast.Name("sqrt"), [inner]):
            return evaluate(inner, env, kind).power(kind.of(HALF))
        case ast.Call(ast.Name(name), arguments):
            return kind.call(name, [evaluate(argument, env, kind) for argument in arguments])
    raise OpenError(f"the syntax {ast.unparse(node)}")


def whole_part(node, env):
    """Return the whole part of a number, by the kind of value that determines it; None if neither does."""
    for kind in (Form, Interval):
        try:
            numbers = {}
            for name, value in env.items():
                with suppress(OpenError):
                    numbers[name] = kind.of(value.rational())
            return kind.call("floor", [evaluate(node, numbers, kind)]).rational()
        except (OpenError, WrongError):
            continue
    return None


def holds(node, env, kind):
    """Return whether a condition holds."""
    if isinstance(node, str):
        node = parsed(node)
    match node:
        case ast.Constant(value):
            return value
        case ast.BinOp(left, ast.BitAnd(), right):
            return holds(left, env, kind) and holds(right, env, kind)
        case ast.BinOp(left, ast.BitOr(), right):
            return holds(left, env, kind) or holds(right, env, kind)
        case ast.Call(ast.Name("Eq" | "Ne" as name), sides):
            operator = "==" if name == "Eq" else "!="
        case ast.Compare(left, [sign], [right]):
            sides = [left, right]
            operator = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}[type(sign)]
        case _:
            raise OpenError(f"the condition {ast.unparse(node)}")
    left, right = (evaluate(side, env, kind) for side in sides)
    sign = (left - right).sign()
    return {"<": sign < 0, "<=": sign <= 0, ">": sign > 0, ">=": sign >= 0, "==": sign == 0, "!=": sign != 0}[operator]


def outward(value, up):
    """Return a fraction with few digits on one side of a value."""
    size = value.numerator.bit_length(), value.denominator.bit_length()
    if max(size) < 3 * BITS:
        return value
    if max(size) > 10**6:
        raise OpenError("a number of too many digits")
    scale = F(2) ** (BITS - size[0] + size[1])
    return (ceil if up else floor)(value * scale) / scale


class Interval:
    """Two fractions that enclose a real number; they are equal where the arithmetic is exact."""

    def __init__(self, low, high=None):
        self.low, self.high = outward(F(low), False), outward(F(low if high is None else high), True)

    of = classmethod(lambda cls, value: cls(value))

    def __add__(self, other):
        return Interval(self.low + other.low, self.high + other.high)

    def __sub__(self, other):
        return Interval(self.low - other.high, self.high - other.low)

    def __mul__(self, other):
        ends = [a * b for a in (self.low, self.high) for b in (other.low, other.high)]
        return Interval(min(ends), max(ends))

    def sign(self):
        """Return -1, 0 or 1."""
        if self.low <= 0 <= self.high and (self.low or self.high):
            raise OpenError("a sign that 200 bits do not show")
        return (self.low > 0) - (self.low < 0)

    def rational(self):
        """Return the number if the arithmetic was exact."""
        if self.low != self.high:
            raise OpenError("a number that is not known to be rational")
        return self.low

    def power(self, exponent):
        """Return the power with a rational or real exponent."""
        if exponent.low == exponent.high and exponent.low.denominator == 1 and abs(exponent.low) < 1000:
            if exponent.low < 0:
                require(self.sign(), "division by 0")
                return Interval(1 / self.high, 1 / self.low).power(Interval(-exponent.low))
            return reduce(Interval.__mul__, [self] * int(exponent.low), Interval(1))
        if self.low == self.high == 0 and exponent.sign() > 0:
            return self
        return (exponent * self.log()).exp()

    def log(self):
        """Return the logarithm; it is undefined at and below 0."""
        require(self.high > 0, "not a real number")
        self.sign()
        return Interval(_log(self.low).low, _log(self.high).high)

    def exp(self):
        """Return the exponential, with both ends enclosed."""
        return Interval(_exp(self.low).low, _exp(self.high).high)

    @staticmethod
    def call(name, arguments):
        """Return the value of a function by its name."""
        match name, arguments:
            case "E", []:
                return Interval(1).exp()
            case "pi", []:
                return Interval(
                    F("3.14159265358979323846264338327950288419"), F("3.1415926535897932384626433832795028842")
                )
            case "log" | "exp", [one]:
                return getattr(one, name)()
            case "Abs" | "sign", [one]:
                return Interval(one.sign()) * (one if name == "Abs" else Interval(1))
            case "Max" | "Min", _:
                choose = max if name == "Max" else min
                return Interval(choose(a.low for a in arguments), choose(a.high for a in arguments))
            case "floor" | "ceiling", [one]:
                low, high = ((floor if name == "floor" else ceil)(end) for end in (one.low, one.high))
                if low != high:
                    raise OpenError("a whole part that 200 bits do not show")
                return Interval(low)
            case "Mod", [one, other]:
                return Interval(one.rational() % other.rational())
            case "erfc", [one]:
                return Interval(1) - Interval.call("erf", [one])
            case "erf", [one]:
                return Interval(_erf(one.low).low, _erf(one.high).high)
            case "factorial" | "gamma", [one] if one.rational().denominator == 1:
                return Interval(factorial(int(one.rational()) - (name == "gamma")))
            case "binomial", [one, other]:
                n, k = int(one.rational()), int(other.rational())
                return Interval(F(factorial(n), factorial(k) * factorial(n - k)))
        raise OpenError(f"the function {name}")


@cache
def _exp(value):
    halvings = max(0, value.numerator.bit_length() - value.denominator.bit_length() + 2)
    if halvings > 20:
        raise OpenError("a number of too many digits")
    small, term, total = value / 2**halvings, F(1), F(0)
    for k in range(1, 70):
        total, term = total + term, outward(term * small / k, True)
    slack = 4 * abs(term) + 70 * F(1, 2**BITS)
    result = Interval(total - slack, total + slack)
    for _ in range(halvings):
        result = result * result
    return result


@cache
def _erf(value):
    if abs(value) > 6:
        raise OpenError("a tail of the normal distribution")
    value, term, total, k = outward(value, False), outward(value, False), F(0), 0
    while k < 50 or abs(term) > F(1, 2**BITS):
        total, k = total + term / (2 * k + 1), k + 1
        term = outward(-term * value * value / k, False)
    slack = F(1, 2 ** (BITS - 60))  # of an alternating series whose terms are below 2**53
    root = Interval.call("pi", []).power(Interval(-HALF)) * Interval(2)
    return Interval(total - slack, total + slack) * root


@cache
def _log(value):
    if value == 1:
        return Interval(0)
    twos = 0 if value == 2 else value.numerator.bit_length() - value.denominator.bit_length()
    ratio = (value / F(2) ** twos - 1) / (value / F(2) ** twos + 1)  # value over a power of 2 is in (1/2, 2)
    ratio = outward(ratio, False)
    total = 2 * sum(outward(ratio**k / k, False) for k in range(1, 131, 2))
    slack = F(1, 2 ** (BITS - 10))
    whole = Interval(total - slack, total + slack)
    return whole + Interval(twos) * _log(F(2)) if twos else whole


class Form:
    """A sum of products of powers of atoms with rational coefficients; equal forms are equal numbers.

    An atom is a pair of a description and whether it is positive: a symbol, a prime under a root, or an expression that
    is not decomposed, such as a sum under a root, a logarithm of a sum or a named function.
    """

    work = 0  # number of products so far, for a certificate

    def __init__(self, terms):
        self.terms = {product: value for product, value in terms.items() if value}

    @classmethod
    def of(cls, value):
        return cls({(): value})

    @classmethod
    def atom(cls, description, positive, power=F(1)):
        """Return a power of an expression that is not decomposed."""
        return cls({(((description, positive), power),): F(1)})

    def __add__(self, other):
        return Form({p: self.terms.get(p, F(0)) + other.terms.get(p, F(0)) for p in {*self.terms, *other.terms}})

    def __sub__(self, other):
        return Form({p: self.terms.get(p, F(0)) - other.terms.get(p, F(0)) for p in {*self.terms, *other.terms}})

    def __mul__(self, other):
        Form.work += len(self.terms) * len(other.terms)
        if Form.work > WORK:
            raise OpenError("too many terms")
        found = {}
        for (left, a), (right, b) in product(self.terms.items(), other.terms.items()):
            powers, value = dict(left), a * b
            for atom, power in right:
                powers[atom] = powers.get(atom, F(0)) + power
            for atom, power in powers.items():
                if isinstance(atom[0], int):  # for a prime, whole powers are numbers
                    powers[atom], value = power - floor(power), value * F(atom[0]) ** floor(power)
            key = ordered((atom, power) for atom, power in powers.items() if power)
            found[key] = found.get(key, F(0)) + value
        return Form(found)

    def key(self):
        """Return the form as a description."""
        return ordered(self.terms.items())

    def rational(self):
        """Return the number if the form contains no symbols."""
        if {*self.terms} - {()}:
            raise OpenError("a whole number that depends on symbols")
        return self.terms.get((), F(0))

    def sign(self):
        """Return -1, 0 or 1 for a form that is a number."""
        return (self.rational() > 0) - (self.rational() < 0)

    def split(self):
        """Return a positive rational number, positive atoms with powers, and the rest; the form is their product."""
        products = [dict(atoms) for atoms in self.terms]
        common = {a: min(p.get(a, F(0)) for p in products) for p in products for a in p if a[1]}
        inverse = Form({ordered((a, -p) for a, p in common.items() if p): F(1)})
        rest = self * inverse
        first = min(rest.terms.items(), key=repr)
        return abs(first[1]), {a: p for a, p in common.items() if p}, rest * Form.of(1 / abs(first[1]))

    def bases(self):
        """Return positive atoms with powers whose product is the form; a rest that is no atom becomes one."""
        number, common, rest = self.split()
        found = dict(common)
        for part, sign in ((number.numerator, 1), (number.denominator, -1)):
            for prime in primes(part):
                found[(prime, True)] = found.get((prime, True), F(0)) + sign
        if rest.terms != {(): F(1)}:
            if rest.terms == {(): F(-1)}:
                raise WrongError("not a real number")
            ((only, power),) = (
                next(iter(rest.terms)) if len(rest.terms) == len(next(iter(rest.terms))) == 1 else ((None, 0),)
            )
            inverted = is_a("sum", only or (None,)) and power % 2 == 1 and rest.terms == {((only, power),): F(1)}
            found[(only[0], True) if inverted else (("sum", rest.key()), True)] = power if inverted else F(1)
        return found

    def power(self, exponent):
        """Return the power with a rational exponent, or with one that contains symbols."""
        if not self.terms:
            require(exponent.sign() > 0, "division by 0")
            return self
        constant = exponent.terms.get((), F(0))
        if exponent.terms.keys() <= {()} and constant.denominator == 1:
            if abs(constant) > 100 and len(self.terms) > 1:
                raise OpenError("too many terms")
            if constant >= 0:
                return reduce(Form.__mul__, [self] * int(constant), Form.of(F(1)))
            number, common, rest = self.split()
            outside = Form({ordered((a, constant * p) for a, p in common.items()): number**constant})
            if len(rest.terms) == 1:
                ((atoms, value),) = rest.terms.items()
                return outside * Form({ordered((a, constant * p) for a, p in atoms): value**constant})
            sign = -1 if min(rest.terms.items(), key=repr)[1] < 0 else 1
            rest = rest * Form.of(F(sign))
            return outside * Form.of(F(sign) ** constant) * Form.atom(("sum", rest.key()), False, constant)
        return (exponent * self.log()).exp()

    def log(self):
        """Return the logarithm as a sum of logarithms."""
        found = Form.of(F(0))
        for (atom, _), power in self.bases().items():
            match atom:
                case "E":
                    one = Form.of(F(1))
                case ("power", base, symbols):
                    one = Form({symbols: F(1)})
                    one = one if base == "E" else one * Form.atom(("log", base), False)
                case _:
                    one = Form.atom(("log", atom), False)
            found = found + one * Form.of(power)
        return found

    def exp(self):
        """Return the exponential as a product; the exponential of a logarithm is the logarithm's argument."""
        result, low = Form.of(F(1)), [p for atoms in self.terms for a, p in atoms if is_a("sum", a)]
        for atoms, value in (self if min(low, default=0) < 0 else self.cleared()).terms.items():
            log = next((a[0] for a, power in atoms if power == 1 and is_a("log", a)), None)
            others = tuple(pair for pair in atoms if pair[0][0] != log)
            base = log[1] if log else "E"
            one = ("power", base, others) if others else base
            result = result * Form.atom(one, True, value)
        return result

    @staticmethod
    def call(name, arguments):
        """Return the value of a function by its name; for numbers, if it is rational."""
        if name in ("log", "exp"):
            return getattr(arguments[0], name)()
        if arguments and name in ("floor", "Mod", "Max", "Min", "Abs", "sign", "binomial", "factorial"):
            try:
                return Form.of(Interval.call(name, [Interval(a.rational()) for a in arguments]).rational())
            except OpenError:
                pass
        if not arguments:
            require(name in ("E", "pi"), f"the name {name} has no value")
            return Form.atom(name, True)
        return Form.atom((name, *(a.key() for a in arguments)), False)

    def cleared(self):
        """Return the form times a positive factor, so that sums that are no roots are multiplied out."""
        form = self
        while True:
            powers = {}
            for atoms in form.terms:
                for atom, power in atoms:
                    if is_a("sum", atom):
                        powers.setdefault(atom, []).append(power)
            low = {a: -floor(min(p)) + (0 if a[1] else -floor(min(p)) % 2) for a, p in powers.items() if min(p) < 0}
            if low:
                form = form * Form({ordered((atom, F(power)) for atom, power in low.items()): F(1)})
                continue
            if all(power < 1 for several in powers.values() for power in several):
                return form
            expanded = Form({})
            for atoms, value in form.terms.items():
                whole = {a: p for a, p in atoms if is_a("sum", a) and p >= 1}
                one = Form(
                    {ordered((a, p - floor(whole.get(a, 0))) for a, p in atoms if p != floor(whole.get(a, 0))): value}
                )
                for atom, power in whole.items():
                    one = reduce(Form.__mul__, [Form(dict(atom[0][1]))] * floor(power), one)
                expanded = expanded + one
            form = expanded


def is_a(kind, atom):
    """Return whether an atom has this kind: a sum, or a logarithm."""
    return isinstance(atom[0], tuple) and atom[0][0] == kind


def ordered(pairs):
    """Return pairs in a fixed order."""
    return tuple(sorted(pairs, key=repr))


def primes(number):
    """Yield the prime factors of a number, with multiplicity."""
    if number > 10**15:
        raise OpenError("a root of a long number")
    divisor = 2
    while divisor * divisor <= number:
        while number % divisor == 0:
            yield divisor
            number //= divisor
        divisor += 1
    if number > 1:
        yield number


# ---------------------------------------------------------------- the content of a relation
def variants(entry):
    """Return the relation for each instance, as names with values; definitions are substituted one after the other."""

    def environment(kind, instance, symbols):
        env = {**symbols, **{name: kind.of(F(value)) for name, value in instance.items()}}
        for name, text in reversed(entry["definitions"]):
            env[name] = evaluate(text, env, kind)
        return env

    return [lambda kind, symbols, one=one: environment(kind, one, symbols) for one in entry["instances"]]


def limits(domain):
    """Return the ends of a domain, None for an end that is infinite."""
    return tuple(None if domain[end] is None else F(domain[end]) for end in ("low", "high"))


def forms(entry):
    """Return symbols as forms; a symbol whose domain begins at 0 or above is treated as positive under roots."""
    return {
        name: Form.atom(name, domain["low"] is not None and F(domain["low"]) >= 0)
        for name, domain in entry["symbols"].items()
    }


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


# ---------------------------------------------------------------- z3
class Algebra:
    """Forms as z3 terms: a real variable for each atom, with the known facts about it."""

    def __init__(self, entry, *forms):
        self.entry, self.known, self.numbers = entry, [], {}
        powers = [power.denominator for form in forms for atoms in form.terms for _, power in atoms]
        self.root = lcm(*powers, 1)

    def number(self, atom):
        """Return the variable whose power `root` is the atom."""
        if atom not in self.numbers:
            description, positive = atom
            self.numbers[atom] = one = z3.Real(f"x{len(self.numbers)}")
            whole = one**self.root if positive and self.root > 1 else one  # an even power cannot be a negative atom
            domain = self.entry["symbols"].get(description, {}) if isinstance(description, str) else {}
            if positive:
                zero = is_a("sum", atom) or (domain.get("closed") and F(domain["low"]) == 0)
                self.known.append(one >= 0 if zero else one > 0)
            if isinstance(description, int):
                self.known.append(whole == description)
            elif is_a("sum", atom):
                inner = Form(dict(description[1])).cleared()
                if Form(dict(description[1])).terms == inner.terms:
                    self.known.append(whole == self.term(inner))
            for end, sign in zip(limits(domain) if domain else (), (1, -1), strict=False):
                if end is not None:
                    gap = sign * (whole - z3.Q(end.numerator, end.denominator))
                    self.known.append(gap >= 0 if domain["closed"] else gap > 0)
        return self.numbers[atom]

    def term(self, form):
        """Return a form without negative powers of sums."""
        total = z3.RealVal(0)
        for atoms, value in form.terms.items():
            one = z3.Q(value.numerator, value.denominator)
            if sum(power for _, power in atoms) * self.root > DEGREE:
                raise OpenError("a polynomial of a high degree")
            for atom, power in atoms:
                exponent = power * self.root if atom[1] else power
                if exponent.denominator != 1 or exponent < 0:
                    raise OpenError("a root within a root")
                one = one * self.number(atom) ** int(exponent)
            total = total + one
        return total


def positive_powers(form):
    """Return the form times positive atoms, so that no power is negative; other atoms are squared."""
    form = form.cleared()
    low = {}
    for atoms in form.terms:
        for atom, power in atoms:
            low[atom] = min(low.get(atom, F(0)), power)
    up = {a: -p if a[1] else F(2 * ceil(-p / 2)) for a, p in low.items() if p < 0}
    return (form * Form({ordered(up.items()): F(1)})).cleared()


def prove(entry, gap, relation, box=()):
    """Return whether z3 proves that a form is 0, or not positive, under the domains and the conditions."""
    (variant, *_) = variants(entry)
    env = variant(Form, forms(entry))
    try:
        gap, conditions = positive_powers(gap), []
        for text in entry["conditions"]:
            node = parsed(text)
            if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Lt | ast.LtE | ast.Gt | ast.GtE):
                ends = [evaluate(one, env, Form) for one in (node.left, node.comparators[0])]
                ends = ends if isinstance(node.ops[0], ast.Lt | ast.LtE) else ends[::-1]
                conditions.append(positive_powers(ends[0] - ends[1]))
        for name, ends in box:
            for end, sign in zip(map(F, ends), (-1, 1), strict=True):
                conditions.append((env[name] - Form.of(end)) * Form.of(F(sign)))
        algebra = Algebra(entry, gap, *conditions)
        solver = z3.SolverFor("QF_NRA")
        solver.set("rlimit", EFFORT, "timeout", 2000)
        top = algebra.term(gap)
        solver.add(*[algebra.term(condition) <= 0 for condition in conditions])
        solver.add(*algebra.known)
        solver.push()
        solver.add({"==": top != 0, "<=": top > 0, "<": top >= 0}[relation])
        shown = solver.check() == z3.unsat
        solver.pop()
        return shown and solver.check() != z3.unsat  # an empty set of points would satisfy everything
    except OpenError:
        return False


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
