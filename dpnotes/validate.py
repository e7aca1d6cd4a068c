"""One-line validators: each names the argument, its value and its domain.

A value is checked once, at the public door. This module imports nothing of ours and nothing heavy, so
every part may use it.
"""

import math
from collections.abc import Collection, Sized
from numbers import Integral, Real


def real(**named: object) -> None:
    """Refuse what is not a finite real number.

    >>> real(epsilon="1")
    Traceback (most recent call last):
    TypeError: Expected epsilon='1' to be a real number.
    """
    for name, value in named.items():
        if isinstance(value, bool) or not isinstance(value, Real):
            raise TypeError(f"Expected {name}={value!r} to be a real number.")
        if not math.isfinite(value):
            raise ValueError(f"Expected {name}={value!r} to be finite.")


def positive(**named: object) -> None:
    """Refuse what is not a finite number above 0.

    >>> positive(epsilon=-1.0)
    Traceback (most recent call last):
    ValueError: Expected epsilon=-1.0 > 0.
    """
    real(**named)
    for name, value in named.items():
        if not value > 0:  # type: ignore[operator]
            raise ValueError(f"Expected {name}={value!r} > 0.")


def non_negative(**named: object) -> None:
    """Refuse what is not a finite number of at least 0.

    >>> non_negative(rho=-0.5)
    Traceback (most recent call last):
    ValueError: Expected rho=-0.5 >= 0.
    """
    real(**named)
    for name, value in named.items():
        if not value >= 0:  # type: ignore[operator]
            raise ValueError(f"Expected {name}={value!r} >= 0.")


def between(low: float, high: float, **named: object) -> None:
    """Refuse what is not a number in the open interval (low, high).

    >>> between(0, 1, delta=1.5)
    Traceback (most recent call last):
    ValueError: Expected 0 < delta=1.5 < 1.
    """
    real(**named)
    for name, value in named.items():
        if not low < value < high:  # type: ignore[operator]
            raise ValueError(f"Expected {low} < {name}={value!r} < {high}.")


def at_least(minimum: int, **named: object) -> None:
    """Refuse what is not an integer of at least `minimum`.

    >>> at_least(1, num_steps=0)
    Traceback (most recent call last):
    ValueError: Expected num_steps=0 >= 1.
    """
    for name, value in named.items():
        if isinstance(value, bool) or not isinstance(value, Integral):
            raise TypeError(f"Expected {name}={value!r} to be an integer.")
        if not value >= minimum:  # type: ignore[operator]
            raise ValueError(f"Expected {name}={value!r} >= {minimum}.")


def one_of(options: Collection[str], **named: object) -> None:
    """Refuse what is not among the named options.

    >>> one_of(("cpu", "cuda"), device="tpu")
    Traceback (most recent call last):
    ValueError: Expected device='tpu' to be one of: cpu, cuda.
    """
    for name, value in named.items():
        if value not in options:
            raise ValueError(f"Expected {name}={value!r} to be one of: {', '.join(options)}.")


def same_length(**named: Sized) -> None:
    """Refuse arguments whose first axes differ.

    >>> same_length(inputs=[1, 2], labels=[1])
    Traceback (most recent call last):
    ValueError: Expected equal lengths, got inputs: 2, labels: 1.
    """
    lengths = {name: len(value) for name, value in named.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"Expected equal lengths, got {', '.join(f'{k}: {v}' for k, v in lengths.items())}.")
