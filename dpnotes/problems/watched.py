"""What code leaves behind: in attributes, buffers, lists, closures, its class, and the global variables that it names.

Code that keeps something of one example may show it to another, in this pass or in a later one. Not seen is what it
keeps in objects of compiled code, in what `functools.lru_cache` gives back, in modules that it does not name (what it
names in one of one's own, as `helpers.seen`, is), or outside of the process.
"""

import functools
import random
import re
import sys
import warnings
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import suppress
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, GeneratorType, MethodType, ModuleType
from typing import Any
from weakref import ReferenceType

import numpy as np
import torch
from torch import Tensor, nn

_CONSTANTS = int, float, complex, bool, str, bytes, type(None), ModuleType, BuiltinFunctionType
_LIBRARIES = {*sys.stdlib_module_names, "torch", "numpy", "dpnotes"}  # whose code is taken to keep nothing
_SILENT = {"logging", "threading", "_thread", "re", "pathlib"}  # whose objects keep nothing of examples
_GENERATORS = random.Random, np.random.Generator, np.random.RandomState, torch.Generator
# What a weak reference points to is held elsewhere.
_CONTAINERS = dict, OrderedDict, list, tuple, set, frozenset, ReferenceType


class Watched:
    """Objects as they were when this was made.

    Args:
      **named: what is watched, with all that it holds: modules, functions, anything.

    Example:
      >>> module = torch.nn.Linear(1, 1)
      >>> watched = Watched(module=module)
      >>> watched.refuse_changes()
      >>> module.seen = 1
      >>> watched.refuse_changes()
      Traceback (most recent call last):
      ValueError: Expected module to leave nothing that another example could read: module.seen changed.
    """

    def __init__(self, **named: object) -> None:
        self._named, self._by_value = named, False
        self._before, self._held = _contents(named, by_value=False)

    def look_at_values(self) -> None:
        """From now on compare the numbers in tensors, too: `.data` and numpy write past torch's count of changes.

        A module's trainable parameters are left out, which no pass works on.
        """
        if not self._by_value:
            self.refuse_changes()
            self._by_value = True
            self._before, self._held = _contents(self._named, by_value=True)

    def refuse_changes(self) -> None:
        """Compare what there is with what was.

        Raises:
          ValueError: if anything was changed, added or removed; it names the first.
        """
        now, _ = _contents(self._named, self._by_value)
        if now == self._before:
            return
        known = dict(self._before)
        differing = [path for path, content in now if path not in known or known.pop(path) != content]
        path = re.sub(r"_(modules|parameters|buffers)\.", "", min([*differing, *known]))
        raise ValueError(
            f"Expected {path.split('.')[0]} to leave nothing that another example could read: {path} changed."
        )


def _contents(root: object, by_value: bool) -> tuple[list[tuple[str, Any]], list[Any]]:
    """All that a pass could have changed below an object, with its path; and the objects, so that no id comes again."""
    found: list[tuple[str, Any]] = []
    held, seen = [], set()
    waiting: list[tuple[str, Any]] = [("", root)]
    while waiting:
        path, value = waiting.pop()
        if type(value) in _CONSTANTS and not _is_bound(value):
            found.append((path, value))
            continue
        if isinstance(value, GeneratorType):
            raise ValueError(f"Expected {path} to be no generator: what it gives next depends on who asked before.")
        if type(value) in _CONTAINERS and not value:  # most of what a module holds
            found.append((path, type(value)))
            continue
        if isinstance(value, torch.Generator):
            found.append((path, value.get_state().tolist()))
            continue
        if _keeps_nothing(value):
            found.append((path, value))
            continue
        held.append(value)
        if isinstance(value, Tensor):
            trained = isinstance(value, nn.Parameter) and value.requires_grad
            numbers = value.detach().cpu().reshape(-1).tolist() if by_value and not trained else None
            found.append((path, (id(value), 0 if value.is_inference() else value._version, repr(numbers))))
            continue
        if isinstance(value, np.ndarray):
            found.append((path, (id(value), value.tobytes())))
            continue
        found.append((path, type(value) if isinstance(value, _CONTAINERS) else id(value)))
        if id(value) not in seen:
            seen.add(id(value))
            waiting += [(f"{path}.{name}" if path else str(name), part) for name, part in _parts(value)]
    return found, held


def _parts(value: Any) -> Iterator[tuple[Any, Any]]:
    """What an object holds, by name."""
    if isinstance(value, dict):
        yield from value.items()
    elif isinstance(value, list | tuple | set | frozenset):
        yield from enumerate(value)
    elif isinstance(value, CellType):
        with suppress(ValueError):  # which an empty one raises
            yield "cell_contents", value.cell_contents
    elif isinstance(value, FunctionType):
        yield from ((name, getattr(value, name)) for name in ("__closure__", "__defaults__", "__kwdefaults__"))
        names = [*_names(value.__code__)]
        for name in names:
            part = value.__globals__.get(name)
            yield f"__globals__.{name}", part
            if isinstance(part, ModuleType) and _is_ones_own(part):
                yield from ((f"__globals__.{name}.{each}", vars(part)[each]) for each in names if each in vars(part))
    elif isinstance(value, type):
        shown = ((name, getattr(part, "__func__", part)) for name, part in vars(value).items())  # of a static method
        kinds = FunctionType, property, *_CONSTANTS, *_CONTAINERS, *_GENERATORS, Tensor, np.ndarray
        yield from ((n, p) for n, p in shown if isinstance(p, kinds) and (n == "__call__" or not n.startswith("__")))
        yield from ((base.__name__, base) for base in value.__bases__)
        return
    elif isinstance(value, BuiltinFunctionType):
        yield "self", value.__self__
    elif isinstance(value, MethodType):
        yield from (("self", value.__self__), ("function", value.__func__))
    elif isinstance(value, functools.partial):
        yield from (("function", value.func), ("arguments", value.args), ("keywords", value.keywords))
    if type(value) in _CONTAINERS:
        return
    if not hasattr(value, "__dict__") or isinstance(value, random.Random):
        yield from _pickled(value)
    own = getattr(value, "__dict__", {})
    if isinstance(value, nn.RNNBase):  # which makes these anew for each pass
        own = {name: part for name, part in own.items() if not name.startswith("_flat_weight")}
    yield from own.items()
    if not _of_a_library(type(value)):
        yield type(value).__name__, type(value)
    for kind in type(value).__mro__:
        slots = getattr(kind, "__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if hasattr(value, name) and name not in ("__dict__", "__weakref__"):
                yield name, getattr(value, name)


def _is_bound(value: Any) -> bool:
    """Whether it is a method of an object of compiled code, such as a generator of random numbers."""
    owner = getattr(value, "__self__", None) if isinstance(value, BuiltinFunctionType) else None
    return not isinstance(owner, ModuleType | type | None)


def _pickled(value: Any) -> Iterator[tuple[str, Any]]:
    """What an object without attributes would be stored as: a deque, an array, a generator of random numbers."""
    with suppress(Exception), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number, part in enumerate(value.__reduce_ex__(4)[1:]):
            yield f"state {number}", [*part] if isinstance(part, Iterator) else part


def _is_ones_own(module: ModuleType) -> bool:
    """Whether it was not installed: the caches of packages fill, and nobody hides examples there."""
    place = getattr(module, "__file__", None) or ""
    return module.__name__.partition(".")[0] not in _LIBRARIES and "-packages" not in place


def _of_a_library(kind: Any) -> bool:
    return getattr(kind, "__module__", None) is not None and kind.__module__.partition(".")[0] in _LIBRARIES


def _keeps_nothing(value: Any) -> bool:
    """Whether an object is a library's own, or one of the silent ones or of torch's internals."""
    if isinstance(value, type | FunctionType):
        return _of_a_library(value)
    module = type(value).__module__
    return module.partition(".")[0] in _SILENT or module.startswith("torch._")


def _names(code: CodeType) -> Iterator[str]:
    """The global names, among others, that a function's code reads, and the functions in it."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)
