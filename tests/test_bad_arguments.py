"""What cannot be meant is refused by name: every number of every public callable, found by inspection.

A callable is called as in its example with one argument replaced: by NaN, infinities, -0.0, 0, a negative number, a
truth value, a text, a whole number no computer has, None and tensors. What comes back is one line that names the
argument and its value, or, where the number may be in its domain, a result without a NaN. A new public callable with a
number among its arguments and without an example fails.
"""

import dataclasses
import importlib
import inspect
import math
import pkgutil
import re
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor

import dpnotes

# Whose arguments nobody types: what calls them has checked.
NOT_DOORS = {
    "dpnotes.draws": "kernels, which `Streams` calls",
    "dpnotes.experiments": "pieces of the runner; the command line and the specs are its doors",
    "dpnotes.notebook": "pictures and cells of our notebooks",
    "dpnotes.theory": "algebra in sympy; its door for numbers is `Calculator`, below",
    "dpnotes.validate": "the validators themselves",
    "dpnotes.methods.per_run": "validators",
}
NUMBER = re.compile(r"\b(int|float)\b")
TOO_LARGE = 10**400
NEVER = (math.nan, math.inf, -math.inf, TOO_LARGE, True, "1", None)
PERHAPS = (-0.0, 0, -1, 0.5)


def modules() -> Iterator[ModuleType]:
    for found in pkgutil.walk_packages(dpnotes.__path__, "dpnotes."):
        experiments = ".papers." in found.name and ".experiments" in found.name
        if found.name.endswith("__main__") or experiments or found.name.startswith(tuple(NOT_DOORS)):
            continue
        yield importlib.import_module(found.name)


def callables() -> Iterator[tuple[str, Callable[..., Any]]]:
    """All public functions, classes and methods by name, of the module that defines them."""
    for module in modules():
        for name, value in vars(module).items():
            if name.startswith("_") or getattr(value, "__module__", None) != module.__name__:
                continue
            whole = f"{module.__name__.removeprefix('dpnotes.')}.{name}"
            if inspect.isfunction(value):
                yield whole, value
            elif inspect.isclass(value) and not issubclass(value, BaseException) and not _is_protocol(value):
                yield whole, value
                for method, function in vars(value).items():
                    plain = getattr(function, "__func__", function)
                    if not method.startswith("_") and inspect.isfunction(plain):
                        yield f"{whole}.{method}", getattr(value, method)


def _is_protocol(value: type) -> bool:
    return bool(getattr(value, "_is_protocol", False))


def numbers_of(function: Callable[..., Any]) -> dict[str, str]:
    """The arguments that are numbers, or tensors of them, with their annotations."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:  # a class that is made in C, such as an enumeration
        return {}
    found = {}
    for parameter in parameters:
        annotation = inspect.formatannotation(parameter.annotation)
        outside = re.sub(r"\[.*\]", "", annotation)
        if NUMBER.search(outside) or outside in ("Number", "torch.Tensor | float"):
            found[parameter.name] = outside
    return found


DOORS = {name: function for name, function in callables() if numbers_of(function)}
