"""Exact numbers for `recheck.py`: the value of an expression, as an interval of fractions that encloses it."""

# pyright: reportAttributeAccessIssue=false, reportCallIssue=false, reportArgumentType=false, reportOperatorIssue=false
# pyright: reportOptionalSubscript=false, reportOptionalOperand=false

import ast
from fractions import Fraction as F
from functools import cache, reduce
from math import ceil, factorial, floor
from operator import add

BITS = 200  # precision of the ends of intervals
HALF = F(1, 2)


class WrongError(Exception):
    """The certificate does not hold."""


class OpenError(Exception):
    """The certificate is not decided here; the message is the reason that is counted."""


def require(holds, what):
    """Refuse a certificate unless a condition holds."""
    if not holds:
        raise WrongError(what)


# ---------------------------------------------------------------- expressions
@cache
def parsed(text):
    """Return the syntax tree of an expression."""
    return ast.parse(text, mode="eval").body


def evaluate(node, env):
    """Return the value of an expression; `env` has the values of names."""
    if isinstance(node, str):
        node = parsed(node)
    match node:
        case ast.Constant(value):
            return Interval(F(str(value)))
        case ast.Name(name) if name in env:
            return env[name]
        case ast.Name(name):
            return Interval.call(name, [])
        case ast.Subscript(ast.Name(name), index):
            parts = index.elts if isinstance(index, ast.Tuple) else [index]
            return env["_".join([name, *(str(evaluate(part, env).rational()) for part in parts)])]
        case ast.UnaryOp(ast.USub(), operand):
            return Interval(F(-1)) * evaluate(operand, env)
        case ast.BinOp(left, operator, right):
            left, right = evaluate(left, env), evaluate(right, env)
            match operator:
                case ast.Add():
                    return left + right
                case ast.Sub():
                    return left - right
                case ast.Mult():
                    return left * right
                case ast.Div():
                    return left * right.power(Interval(F(-1)))
                case ast.Pow():
                    return left.power(right)
        case ast.Call(ast.Name("Sum"), [term, ast.Tuple([ast.Name(index), low, high])]):
            ends = [int(evaluate(end, env).rational()) for end in (low, high)]
            values = (Interval(F(k)) for k in range(ends[0], ends[1] + 1))
            return reduce(add, (evaluate(term, {**env, index: k}) for k in values), Interval(F(0)))
        case ast.Call(ast.Name("Piecewise"), pieces):
            return next(evaluate(p.elts[0], env) for p in pieces if holds(p.elts[1], env))
        case ast.Call(ast.Name("floor"), [ast.BinOp(ast.Call(ast.Name("log"), [inner]), ast.Div(), base)]) if (
            ast.unparse(base) == "log(2)"
        ):
            return Interval(binary_logarithm(evaluate(inner, env).rational()))
        case ast.Call(ast.Name("sqrt"), [inner]):
            return evaluate(inner, env).power(Interval(HALF))
        case ast.Call(ast.Name(name), arguments):
            return Interval.call(name, [evaluate(argument, env) for argument in arguments])
    raise OpenError(f"the syntax {ast.unparse(node)}")


def binary_logarithm(value):
    """Return the whole part of the binary logarithm of a fraction, which is exact at powers of 2."""
    twos = value.numerator.bit_length() - value.denominator.bit_length()
    return twos if F(2) ** twos <= value else twos - 1


def holds(node, env):
    """Return whether a condition holds."""
    if isinstance(node, str):
        node = parsed(node)
    match node:
        case ast.Constant(value):
            return value
        case ast.BinOp(left, ast.BitAnd(), right):
            return holds(left, env) and holds(right, env)
        case ast.BinOp(left, ast.BitOr(), right):
            return holds(left, env) or holds(right, env)
        case ast.Call(ast.Name("Eq" | "Ne" as name), sides):
            operator = "==" if name == "Eq" else "!="
        case ast.Compare(left, [sign], [right]):
            sides = [left, right]
            operator = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}[type(sign)]
        case _:
            raise OpenError(f"the condition {ast.unparse(node)}")
    left, right = (evaluate(side, env) for side in sides)
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


def variants(entry):
    """Return the relation for each instance, as names with values; definitions are substituted one after the other."""

    def environment(instance, symbols):
        env = {**symbols, **{name: Interval(F(value)) for name, value in instance.items()}}
        for name, text in reversed(entry["definitions"]):
            env[name] = evaluate(text, env)
        return env

    return [lambda symbols, one=one: environment(one, symbols) for one in entry["instances"]]


def limits(domain):
    """Return the ends of a domain, None for an end that is infinite."""
    return tuple(None if domain[end] is None else F(domain[end]) for end in ("low", "high"))
