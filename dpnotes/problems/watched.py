"""What code of the user's leaves behind in itself: attributes, buffers, lists, what a function closes over.

Code that keeps something of one example may show it to another, in this pass or in a later one. What it puts into
global variables, into its class or into objects of compiled code is not seen.
"""

import functools
import re
from collections.abc import Iterator
from contextlib import suppress
from types import BuiltinFunctionType, CellType, FunctionType, MethodType, ModuleType
from typing import Any
from weakref import ReferenceType

import numpy as np
from torch import Tensor, nn

_CONSTANTS = int, float, complex, bool, str, bytes, type(None), type, ModuleType, BuiltinFunctionType
_CONTAINERS = dict, list, tuple, set, frozenset, ReferenceType  # what a weak reference points to is held elsewhere


class Watched:
    """Objects as they were when this was made.

    Args:
      **named: what is watched, with all that it holds: modules, functions, anything.

    Example:
      >>> def loss(outputs, kept=[]):
      ...     kept.append(outputs)
      >>> watched = Watched(loss=loss)
      >>> watched.refuse_changes()
      >>> loss(1)
      >>> watched.refuse_changes()
      Traceback (most recent call last):
      ValueError: Expected loss to leave nothing that another example could read: loss.__defaults__.0.0 changed.
    """

    def __init__(self, **named: object) -> None:
        self._named = named
        self._before, self._held = _contents(named)

    def refuse_changes(self) -> None:
        """Compare what there is with what was.

        Raises:
          ValueError: if anything was changed, added or removed; it names the first.
        """
        now, _ = _contents(self._named)
        if now == self._before:
            return
        known = dict(self._before)
        differing = [path for path, content in now if path not in known or known.pop(path) != content]
        path = re.sub(r"_(modules|parameters|buffers)\.", "", min([*differing, *known]))
        raise ValueError(
            f"Expected {path.split('.')[0]} to leave nothing that another example could read: {path} changed."
        )


def _contents(root: object) -> tuple[list[tuple[str, Any]], list[Any]]:
    """All that a pass could have changed below an object, with its path; and the objects, so that no id comes again."""
    found: list[tuple[str, Any]] = []
    held, seen = [], set()
    waiting: list[tuple[str, Any]] = [("", root)]
    while waiting:
        path, value = waiting.pop()
        if isinstance(value, _CONSTANTS):
            found.append((path, value))
            continue
        held.append(value)
        if isinstance(value, Tensor):
            found.append((path, (id(value), 0 if value.is_inference() else value._version)))
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
        names = "__closure__", "__defaults__", "__kwdefaults__"
        yield from ((name, getattr(value, name)) for name in names)
    elif isinstance(value, MethodType):
        yield from (("self", value.__self__), ("function", value.__func__))
    elif isinstance(value, functools.partial):
        yield from (("function", value.func), ("arguments", value.args), ("keywords", value.keywords))
    if type(value) in _CONTAINERS:
        return
    own = getattr(value, "__dict__", {})
    if isinstance(value, nn.RNNBase):  # which makes these anew for each pass
        own = {name: part for name, part in own.items() if not name.startswith("_flat_weight")}
    yield from own.items()
    for kind in type(value).__mro__:
        slots = getattr(kind, "__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if hasattr(value, name) and name not in ("__dict__", "__weakref__"):
                yield name, getattr(value, name)
