"""One-line validators: each names the argument, its value and its domain.

A value is checked once, at the public door. This module imports nothing of ours and nothing heavy, so
every part may use it.
"""

import math
import sys
from collections.abc import Callable, Collection, Sized
from enum import Enum
from functools import partial, wraps
from numbers import Integral, Real
from reprlib import Repr
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, cast, get_args, get_origin

_short = Repr()
_short.maxlong, _short.maxstring, _short.maxother = 40, 80, 80


def shown(name: str, value: object) -> str:
    """An argument and its value as an error shows them: one line, and not a long one.

    >>> shown("num_steps", 10**400)
    'num_steps=100000000000000000...0000000000000000000'
    """
    return f"{name}={' '.join(_short.repr(value).split())}"


def real(**named: object) -> None:
    """Refuse what is not a finite real number.

    >>> real(epsilon="1")
    Traceback (most recent call last):
    TypeError: Expected epsilon='1' to be a real number.
    """
    for name, value in named.items():
        if type(value) is not float:  # which most are
            if isinstance(value, bool) or not isinstance(value, Real):
                raise TypeError(f"Expected {shown(name, value)} to be a real number.")
            _as_wide_as_python(name, value)
        if not _finite(value):
            raise ValueError(f"Expected {shown(name, value)} to be finite.")


def _each(named: dict[str, Any], holds: Callable[[Any], bool], expected: str) -> None:
    """Refuse the first value for which the condition does not hold."""
    for name, value in named.items():
        if not holds(value):
            raise ValueError(f"Expected {expected.format(shown(name, value))}.")


def _as_wide_as_python(name: str, value: object) -> None:
    """Refuse numpy's narrow numbers, which overflow or wrap where Python's do not; a cache takes one for its equal."""
    if str(getattr(value, "dtype", "float64")) not in ("float64", "int64"):
        raise TypeError(f"Expected {shown(name, value)} to be a number of Python's, or a float64 or int64.")


def _finite(value: Real | float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number that no floating-point number comes near
        return False


def positive(**named: object) -> None:
    """Refuse what is not a finite number above 0.

    >>> positive(epsilon=-1.0)
    Traceback (most recent call last):
    ValueError: Expected epsilon=-1.0 > 0.
    """
    real(**named)
    _each(named, lambda value: value > 0, "{} > 0")


def non_negative(**named: object) -> None:
    """Refuse what is not a finite number of at least 0.

    >>> non_negative(rho=-0.5)
    Traceback (most recent call last):
    ValueError: Expected rho=-0.5 >= 0.
    """
    real(**named)
    _each(named, lambda value: value >= 0, "{} >= 0")


def between(low: float, high: float, /, **named: object) -> None:
    """Refuse what is not a number in the open interval (low, high).

    >>> between(0, 1, delta=1.5)
    Traceback (most recent call last):
    ValueError: Expected 0 < delta=1.5 < 1.
    """
    real(**named)
    _each(named, lambda value: low < value < high, f"{low} < {{}} < {high}")


def at_least(minimum: int, /, **named: object) -> None:
    """Refuse what is not an integer of at least `minimum`.

    >>> at_least(1, num_steps=0)
    Traceback (most recent call last):
    ValueError: Expected num_steps=0 >= 1.
    """
    _integer(**named)
    _each(named, lambda value: value >= minimum, f"{{}} >= {minimum}")
    _each(named, _finite, "{} < 2^1024")


def _integer(**named: object) -> None:
    for name, value in named.items():
        if type(value) is not int:
            if isinstance(value, bool) or not isinstance(value, Integral):
                raise TypeError(f"Expected {shown(name, value)} to be an integer.")
            _as_wide_as_python(name, value)


def or_infinite(check: Callable[..., None], /, *limits: Any, **named: object) -> None:
    """Refuse what `check(*limits, ...)` refuses, except infinity: for arguments where it has a meaning ("no privacy").

    >>> or_infinite(positive, epsilon=math.inf)
    >>> or_infinite(positive, epsilon=math.nan)
    Traceback (most recent call last):
    ValueError: Expected epsilon=nan to be finite.
    """
    for name, value in named.items():
        if not (isinstance(value, float) and value == math.inf):
            check(*limits, **{name: value})


def or_none(check: Callable[..., None], /, *limits: Any, **named: object) -> None:
    """Refuse what `check(*limits, ...)` refuses, except None.

    >>> or_none(positive, tolerance=None)
    >>> or_none(positive, tolerance=0)
    Traceback (most recent call last):
    ValueError: Expected tolerance=0 > 0.
    """
    for name, value in named.items():
        if value is not None:
            check(*limits, **{name: value})


def every(check: Callable[..., None], /, *limits: Any, **named: Any) -> None:
    """Refuse what `check(*limits, ...)` refuses in some entry: of a number, or of a tensor of them.

    >>> every(at_least, 1, attempts=0)
    Traceback (most recent call last):
    ValueError: Expected attempts=0 >= 1.
    """
    for name, value in named.items():
        several = hasattr(value, "flatten") and not isinstance(value, Real)  # numpy's numbers are real, and have it
        for number in value.flatten().tolist() if several else [value]:  # type: ignore[union-attr]
            check(*limits, **{name: number})


def flag(**named: object) -> None:
    """Refuse what is neither True nor False.

    >>> flag(clipped="no")
    Traceback (most recent call last):
    TypeError: Expected clipped='no' to be True or False.
    """
    for name, value in named.items():
        if not isinstance(value, bool):
            raise TypeError(f"Expected {shown(name, value)} to be True or False.")


def instance(kind: type, /, **named: object) -> None:
    """Refuse what is not of a class; of an enumeration the error lists the members.

    >>> instance(dict, settings=None)
    Traceback (most recent call last):
    TypeError: Expected settings=None to be a dict.
    """
    for name, value in named.items():
        if not isinstance(value, kind):
            members = f": {', '.join(map(_member, kind))}" if issubclass(kind, Enum) else ""
            article = "an" if kind.__name__[0] in "AEIOU" else "a"
            raise TypeError(f"Expected {shown(name, value)} to be {article} {kind.__name__}{members}.")


def _member(member: Enum) -> str:
    return f"{type(member).__name__}.{member.name}"


def index(length: int, /, **named: object) -> None:
    """Refuse what is not an index of a sequence of this length; negative ones are not counted from the end.

    >>> index(3, run=-1)
    Traceback (most recent call last):
    ValueError: Expected 0 <= run=-1 < 3.
    """
    _integer(**named)
    _each(named, lambda value: 0 <= value < length, f"0 <= {{}} < {length}")


def provides(*attributes: str, **named: Any) -> None:
    """Refuse what is not an object with these attributes: those by which a part is used.

    >>> provides("release", "cost", mechanism=None)
    Traceback (most recent call last):
    TypeError: Expected mechanism=None to have release.
    """
    for name, value in named.items():
        for attribute in attributes:
            if not hasattr(value, attribute):
                raise TypeError(f"Expected {shown(name, value)} to have {attribute}.")


def one_of(options: Collection[str], /, **named: object) -> None:
    """Refuse what is not among the named options.

    >>> one_of(("cpu", "cuda"), device="tpu")
    Traceback (most recent call last):
    ValueError: Expected device='tpu' to be one of: cpu, cuda.
    """
    for name, value in named.items():
        if not isinstance(value, str) or value not in options:
            raise ValueError(f"Expected {shown(name, value)} to be one of: {', '.join(options)}.")


def text_or_whole(**named: object) -> None:
    """Refuse what is neither a text nor a whole number: seeds and names of runs are.

    >>> text_or_whole(seed=1.0)
    Traceback (most recent call last):
    TypeError: Expected seed=1.0 to be a text or a whole number.
    """
    for name, value in named.items():
        if isinstance(value, bool) or not isinstance(value, str | Integral):
            raise TypeError(f"Expected {shown(name, value)} to be a text or a whole number.")


def same_length(**named: Sized) -> None:
    """Refuse arguments whose first axes differ.

    >>> same_length(inputs=[1, 2], labels=[1])
    Traceback (most recent call last):
    ValueError: Expected equal lengths, got inputs: 2, labels: 1.
    """
    lengths = {name: len(value) for name, value in named.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"Expected equal lengths, got {', '.join(f'{k}: {v}' for k, v in lengths.items())}.")


# ---------------------------------------------------------------- domains as annotations
Check = Callable[..., None]
T = TypeVar("T")
Target = TypeVar("Target", bound=Callable[..., Any])
Finite = Annotated[float, real]
Positive = Annotated[float, positive]
NonNegative = Annotated[float, non_negative]
PositiveOrInfinite = Annotated[float, partial(or_infinite, positive)]
Probability = Annotated[float, partial(between, 0, 1)]
UnitInterval = Annotated[float, partial(between, 0, 1)]  # as for a probability, 0 and 1 are refused
AtLeastZero = Annotated[int, partial(at_least, 0)]
AtLeastOne = Annotated[int, partial(at_least, 1)]
AtLeastTwo = Annotated[int, partial(at_least, 2)]
Seed = Annotated[str | int, text_or_whole]
# Of a number or a tensor of numbers, as in EachPositive[float | Tensor].
EachFinite = Annotated[T, partial(every, real)]
EachPositive = Annotated[T, partial(every, positive)]
EachNonNegative = Annotated[T, partial(every, non_negative)]
EachAtLeastOne = Annotated[T, partial(every, at_least, 1)]


def checked(target: Target) -> Target:
    """Check the arguments of a function, or of a class when it is made, by their annotations.

    An annotation is one of the domains above, `bool`, a `Literal` of texts or a class, each of them also `| None`.
    Numbers and texts without a domain, protocols, all other annotations and values by default are not checked.

    >>> @checked
    ... def release(epsilon: Positive, steps: AtLeastOne | None = None) -> None: ...
    >>> release(-1.0)
    Traceback (most recent call last):
    ValueError: Expected epsilon=-1.0 > 0.
    >>> release.__annotations__["epsilon"]
    <class 'float'>
    """
    if isinstance(target, type):
        cast(Any, target).__init__ = checked(target.__init__)
        return cast(Any, target)
    code, annotations, checks = target.__code__, target.__annotations__, list[tuple[int, str, Check]]()
    for place, name in enumerate(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]):
        if name in annotations:
            annotations[name], check = _domain(annotations[name])  # whoever reads them later sees plain types
            if check is not None:
                checks.append((place if place < code.co_argcount else sys.maxsize, name, check))

    @wraps(target)
    def called(*args: Any, **kwargs: Any) -> Any:
        for place, name, check in checks:
            if place < len(args):
                check(**{name: args[place]})
            elif name in kwargs:
                check(**{name: kwargs[name]})
        return target(*args, **kwargs)

    return cast(Target, called)


def _domain(annotation: Any) -> tuple[Any, Check | None]:
    """The type in an annotation, and the check of a value."""
    kind, parts = get_origin(annotation), get_args(annotation)
    if kind is Annotated:
        return parts
    if kind in (Union, UnionType) and len(parts) == 2 and parts[1] is NoneType:
        plain, check = _domain(parts[0])
        return plain | None, check and partial(or_none, check)
    if kind is Literal:
        return annotation, partial(one_of, parts)
    if annotation is bool:
        return annotation, flag
    is_class = isinstance(annotation, type) and kind is None and not getattr(annotation, "_is_protocol", False)
    if is_class and annotation not in (float, int, str, object, Any):
        return annotation, partial(instance, annotation)
    return annotation, None
