"""The names of a listing: which values are private, and what each name stands for.

Both follow from the source of a paper's `reference.py`: from the fields of the named tuples that its generators yield,
with the comments beside them, from the arguments in the docstrings, and from the assignments.
"""

import ast
import contextlib
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator, Sequence
from typing import Any

# A release, the budget, and what is given or computed from public values, are known to all.
KINDS = dict(private="private: for the data holder alone", released="released", budget="budget", public="public")
BUDGET = ("paid", "left")
Function = Callable[..., Any]
Name = tuple[str, str]  # a function and a variable of it


def listing(code: Any) -> list[tuple[int, str]]:
    """The numbers and texts of the lines of a function, or of its code, without its docstring.

    >>> [text for _, text in listing(listing)][:2]
    ['def listing(code: Any) -> list[tuple[int, str]]:', '    code = getattr(code, "__code__", code)']
    """
    code = getattr(code, "__code__", code)
    lines, first = inspect.getsourcelines(code)
    begin = min((n for _, _, n in code.co_lines() if n and n > code.co_firstlineno), default=first)
    ends = (line.partition("  #")[0].rstrip().endswith(":") for line in lines)  # a remark may follow the signature
    signature = next((place for place, end in enumerate(ends) if end), 0)
    numbered = list(enumerate((line.rstrip("\n") for line in lines), start=first))
    return [(n, text) for n, text in numbered if n <= first + signature or n >= begin]


def imports(functions: Sequence[Function]) -> list[str]:
    """The import lines that a copy of these functions needs above it, one for each of their modules.

    >>> from dpnotes.papers.budget_schedules.reference import clipped, private_gradient_descent
    >>> imports([private_gradient_descent, clipped])
    ['from dpnotes.papers.budget_schedules.reference import Step, Tensor, torch']
    """
    copied = {function.__name__ for function in functions}
    needed: dict[str, set[str]] = {}
    for function in functions:
        names = {node.id for node in ast.walk(_tree(function)) if isinstance(node, ast.Name)}
        needed.setdefault(function.__module__, set()).update(names & function.__globals__.keys() - copied)
    return [f"from {module} import {', '.join(sorted(names))}" for module, names in needed.items() if names]


class Names:
    """The variables of some functions, the fields that they yield, and what both stand for.

    Args:
      functions: the functions of a listing.

    Attributes:
      meanings: by function and name, the comment beside the field, or the docstring's words on the argument.

    >>> from dpnotes.papers.noisy_sgd.reference import clipped_noisy_sgd
    >>> names = Names([clipped_noisy_sgd])
    >>> private = names.private({("clipped_noisy_sgd", name) for name in ("gradients", "minibatch", "noise")})
    >>> [names.kind("clipped_noisy_sgd", name, private) for name in ("rows", "rho", "g", "left")]
    ['private', 'public', 'released', 'budget']
    >>> names.meanings["clipped_noisy_sgd", "B"]
    'batch size; for Poisson batches the expected batch size.'
    """

    def __init__(self, functions: Sequence[Function]):
        self.meanings: dict[Name, str] = {}
        self._released: set[Name] = set()
        self._flows: set[tuple[Name, Name]] = set()  # from what a value is computed, and what it is
        trees = {function.__name__: _tree(function) for function in functions}
        for function in functions:
            name, tree = function.__name__, trees[function.__name__]
            fields, arguments = _fields(function, tree), _arguments(function)
            self._released |= {(name, each) for each in (*fields, "released") if not each.startswith("private_")}
            self.meanings |= {(name, each): words for each, words in (arguments | fields).items() if words}
            for targets, value in _flows(tree):
                self._flows |= {((name, source), (name, target)) for source in _read(value) for target in targets}
            for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
                called = getattr(call.func, "id", "")  # what a listed function is given is computed from what it reads
                given: list[Any] = [(each.arg, each.value) for each in call.keywords]
                given += zip((each.arg for each in trees[called].args.args), call.args) if called in trees else []
                self._flows |= {((name, source), (called, each)) for each, value in given for source in _read(value)}

    def private(self, calls: set[Name]) -> set[Name]:
        """The variables that are private: named so, or computed from the data by way of no released value.

        The data come from the functions in `calls` that a value named `private_...` is computed from, and from nowhere
        else: noise that is only added to a private value is not among them.

        Args:
          calls: function and name of every variable that holds a function, or a list of functions.
        """
        pairs = {name for flow in self._flows for name in flow}
        named = {pair for pair in pairs if pair[1].startswith("private_")}
        return self._closed(named | (self._closed(named, -1) & calls), 1)

    def _closed(self, start: set[Name], way: int) -> set[Name]:
        found, more = set(), start
        while more:  # no released value is followed: what is computed from it is public
            found |= more
            more = {b for a, b in (flow[::way] for flow in self._flows) if a in more} - found - self._released
        return found

    def kind(self, function: str, name: str, private: set[Name]) -> str:
        """The kind of a variable, one of `KINDS`; `private` is what the method of this name returns."""
        if name in BUDGET:
            return "budget"
        if name.startswith("private_") or (function, name) in private:
            return "private"
        return "released" if (function, name) in self._released else "public"

    def meaning(self, function: str, name: str) -> str:
        """The meaning of a name in a function, or else in another one; "" if nothing says it."""
        others = (words for (_, other), words in self.meanings.items() if other == name)
        return self.meanings.get((function, name)) or next(others, "")


def _tree(function: Function) -> ast.FunctionDef:
    tree = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    assert isinstance(tree, ast.FunctionDef)
    return tree


def _fields(function: Function, tree: ast.AST) -> dict[str, str]:
    """The fields of the named tuples that a function yields, each with the comment beside it."""
    yielded = (getattr(node.value, "func", None) for node in ast.walk(tree) if isinstance(node, ast.Yield))
    found: dict[str, str] = {}
    for each in (function.__globals__.get(getattr(name, "id", "")) for name in yielded):
        found |= dict.fromkeys(getattr(each, "_fields", ()), "")
        with contextlib.suppress(OSError, TypeError):  # a class in a cell may have no source
            found |= dict(re.findall(r"^    (\w+): [^#\n]+  # (.+)$", inspect.getsource(each), re.MULTILINE))
    return found


def _arguments(function: Function) -> dict[str, str]:
    """The arguments that a docstring explains, each with its words."""
    of_args = re.search(r"^Args:\n(.*?)(?=^\S|\Z)", inspect.getdoc(function) or "", re.MULTILINE | re.DOTALL)
    entries = re.findall(r"^  (\w+): (.+(?:\n    .+)*)", of_args[1] if of_args else "", re.MULTILINE)
    return {name: " ".join(words.split()) for name, words in entries}


def _flows(tree: ast.AST) -> Iterator[tuple[set[str], ast.AST]]:
    """The names that each statement sets, with the expression that they are computed from, or depend on."""
    for node in ast.walk(tree):
        value: Any = getattr(node, "value", None) or getattr(node, "iter", None) or getattr(node, "test", None)
        for target in getattr(node, "targets", [getattr(node, "target", None)]) if isinstance(value, ast.AST) else []:
            parts = [getattr(each, "elts", []) for each in (target, value)]
            if target is None and isinstance(node, ast.Expr) and isinstance(value, ast.Call):
                yield _names(value.func), value  # such as `sent.append(released)`
            elif target is None:  # of a condition: what its branches set
                yield _names(node, ast.Store), value
            elif len(parts[0]) == len(parts[1]) > 0:
                yield from ((_names(one), other) for one, other in zip(*parts, strict=True))
            else:
                yield _names(target), value


def _names(node: ast.AST, context: type = ast.expr_context) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, context)}


def _read(node: ast.AST) -> set[str]:
    """The names that an expression reads, and the private fields: `last.private_mean` is not released with `last`."""
    fields = (each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute))
    return _names(node) | {field for field in fields if field.startswith("private_")}
