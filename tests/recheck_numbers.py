"""Exact numbers for `recheck.py`: expressions as intervals of fractions or as normal forms, and proofs by z3."""

# There are four kinds of numbers here, which share operators but no class.
# pyright: reportAttributeAccessIssue=false, reportCallIssue=false, reportArgumentType=false, reportOperatorIssue=false
# pyright: reportOptionalSubscript=false, reportOptionalOperand=false

import ast
from contextlib import suppress
from fractions import Fraction as F
from functools import cache, reduce
from itertools import product
from math import ceil, factorial, floor, lcm
from operator import add

import z3

BITS = 200  # precision of the ends of intervals
WORK = 50_000  # limit on products of terms in the normal forms of a certificate
EFFORT = 300_000  # z3's limit, in its own units, which are the same on every machine
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
