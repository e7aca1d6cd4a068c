"""Which functions of a result's code its cells enter.

Every function of the modules is compiled again with one call at its start, and its code put in place of what was
loaded: names, arguments, line numbers and results stay as they are. A profiler would see the calls of all libraries,
too, and make some runs half as slow again; this costs some 20 nanoseconds for a call of ours.

What a cache holds would not be entered, so the caches of these functions are emptied first.
"""

import ast
import builtins
import functools
import gc
import importlib
from collections.abc import Iterable, Iterator
from types import CodeType, FunctionType

from dpnotes.experiments.functions import FunctionNode, Place, functions
from dpnotes.experiments.sources import find, sources

_NOTE = "_dpnotes_entered"  # the one name that every module sees is one of Python's own
_Cached = type(functools.cache(len))


class Notes:
    """What was entered in this process since these notes were begun; only the last ones begun grow.

    Args:
      modules: of the experiment; what they import is watched, too.
      token: whose cells are watched.
    """

    current: "Notes | None" = None

    def __init__(self, modules: Iterable[str], token: str) -> None:
        self.token = token
        self.places: set[Place] = set()
        self._replaced: list[tuple[FunctionType, CodeType]] = []
        self._begin(sources(modules))

    @classmethod
    def of(cls, modules: Iterable[str], token: str) -> "Notes":
        """The notes that this process takes for a token; begun if it takes others, or none."""
        if cls.current is None or cls.current.token != token:
            if cls.current is not None:
                cls.current.end()
            cls.current = cls(modules, token)
        return cls.current

    def _begin(self, watched: dict[str, str]) -> None:
        files = {str(path): name for name in watched if (path := find(name))}
        for name in watched:
            try:
                importlib.import_module(name)  # one that is imported in the middle of a cell would come too late
            except ImportError:
                continue  # what it needs is not there, so no cell imports it
        codes: dict[CodeType, CodeType] = {}
        for path, name in files.items():
            codes |= _noting(watched[name], path, name)
        setattr(builtins, _NOTE, self.places.add)  # returns None, on which a lambda goes on
        # Asked once: a process with all papers loaded holds millions.
        things = [thing for thing in gc.get_objects() if type(thing) in (FunctionType, _Cached)]
        for function in [thing for thing in things if type(thing) is FunctionType]:
            if function.__code__.co_filename in files and (code := codes.get(function.__code__)):
                self._replaced.append((function, function.__code__))
                function.__code__ = code
        for cached in [thing for thing in things if type(thing) is _Cached]:
            code = getattr(cached.__wrapped__, "__code__", None)
            if code is not None and code.co_filename in files:
                cached.cache_clear()

    def end(self) -> None:
        """Put the functions back."""
        for function, code in self._replaced:
            function.__code__ = code
        setattr(builtins, _NOTE, set().add)  # for functions that were made in the meantime
        Notes.current = None


def _noting(source: str, path: str, module: str) -> dict[CodeType, CodeType]:
    """For the code of every function in a module, the one that notes that it was entered."""
    tree = ast.parse(source)
    plain = compile(tree, path, "exec", dont_inherit=True)
    for name, node in functions(tree).items():
        _note(node, module, name)
    noting = compile(ast.fix_missing_locations(tree), path, "exec", dont_inherit=True)
    return dict(_pairs(plain, noting))


def _note(node: FunctionNode, module: str, name: str) -> None:
    call = ast.parse(f"{_NOTE}({(module, name)!r})", mode="eval").body
    if isinstance(node, ast.Lambda):
        node.body = ast.copy_location(ast.BoolOp(ast.Or(), [call, node.body]), node.body)
    else:
        after = 1 if ast.get_docstring(node, clean=False) is not None else 0
        node.body.insert(after, ast.copy_location(ast.Expr(call), node.body[0]))


def _pairs(plain: CodeType, noting: CodeType) -> Iterator[tuple[CodeType, CodeType]]:
    yield plain, noting
    inside = [[each for each in code.co_consts if isinstance(each, CodeType)] for code in (plain, noting)]
    for one, other in zip(*inside, strict=True):
        yield from _pairs(one, other)
