"""Code as text, function by function: what a change of it is, and what only looks like one.

Comments, docstrings, positions and `__version__` are not part of the text, nor are the words of what is raised or
warned of. The words of an exception of one's own do count: somebody catches it by its name, and may keep what it says
(`UnitsDiffer` becomes a verdict). What is formatted into a message counts, too.

A function that was moved as it is, to another module or with its module, is the same function where every name in it
still stands for the same; where that is in doubt it counts as changed, which costs a `dpnotes verify`.
"""

import ast
import builtins
import symtable
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

Place = tuple[str, str]  # a module, and the name of a function or class in it; "" for the module's own statements
FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda

_IGNORED_FIELDS = {"type_comment", "type_ignores", "kind"}


# ---------------------------------------------------------------- text
def normalised(source: str) -> str:
    """The syntax tree of a module as text.

    `ast.dump` would do, were its output not different from one Python version to the next.

    >>> normalised("x = 1  # one") == normalised("x  =  1")
    True
    >>> normalised("x = 1") == normalised("x = 1.0")
    False
    >>> normalised("raise ValueError(f'Got {x}.')") == normalised("raise ValueError(f'There is {x:.2f}!')")
    True
    >>> normalised("raise ValueError(f'Got {x}.')") == normalised("raise ValueError(f'Got {y}.')")
    False
    """
    return _text(ast.parse(source))


def _text(node: Any, *, message: bool = False, bodies: bool = True) -> str:
    """The text of a node.

    Args:
      node: of a syntax tree, or what stands in one.
      message: whether the node is part of one, whose words do not belong to it.
      bodies: whether those of functions belong to it.
    """
    message = message or isinstance(node, ast.AST) and _is_message(node)
    how = {"message": message, "bodies": bodies}
    if isinstance(node, list):
        return f"[{','.join(_text(item, **how) for item in node if not _is_silent(item, message))}]"
    if isinstance(node, ast.Constant):
        return "words" if message and isinstance(node.value, str) else ascii(node.value)
    if not isinstance(node, ast.AST):
        return ascii(node)
    values = {name: getattr(node, name, None) for name in node._fields if name not in _IGNORED_FIELDS}
    if isinstance(node, ast.FormattedValue) and message:
        how["message"] = False
        del values["format_spec"]
    if isinstance(node, FunctionNode) and not bodies and not _hands_on(node):
        del values["body"]
    inside = ",".join(f"{name}={_text(value, **how)}" for name, value in values.items() if value not in (None, []))
    return f"{type(node).__name__}({inside})"


def _hands_on(node: FunctionNode) -> bool:
    """Whether it is a lambda that only hands on a value, such as an error that may be raised: it computes nothing.

    It is a part of the function around it, as a branch is: else a check that never fails would not have been entered,
    however many cells are run.
    """
    return isinstance(node, ast.Lambda) and isinstance(node.body, ast.Name)


def _is_message(node: ast.AST) -> bool:
    """Whether a node raises an exception of Python's own, or warns."""
    if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
        return hasattr(builtins, getattr(node.exc.func, "id", ""))
    return isinstance(node, ast.Call) and ast.unparse(node.func) in ("warnings.warn", "warn")


def _is_silent(node: Any, message: bool) -> bool:
    """A string that stands alone does nothing, words of a message no more, and the version changes no number."""
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    if isinstance(node, ast.Constant):
        return message and isinstance(node.value, str)
    return isinstance(node, ast.Assign) and [getattr(target, "id", None) for target in node.targets] == ["__version__"]


# ---------------------------------------------------------------- functions
@dataclass(frozen=True)
class Unit:
    """A function without those in it that compute, a class without its methods, or a module's statements besides both.

    Args:
      text: what it says.
      names: of variables and attributes in it.
      own: local variables of a function; such a name cannot refer to a function or class defined outside of it.
      is_function: whether it runs when it is called; all else does when its module is imported.
    """

    text: str
    names: frozenset[str]
    own: frozenset[str]
    is_function: bool


def functions(tree: ast.AST) -> dict[str, FunctionNode]:
    """Every function in a syntax tree by its name; a second one of a name (a property's setter) has a prime.

    >>> [*functions(ast.parse("class C: f = lambda self: (lambda: 0)"))]
    ['C.<lambda>', 'C.<lambda>.<lambda>']
    """
    found: dict[str, FunctionNode] = {}

    def walk(node: ast.AST, scope: str) -> None:
        for child in ast.iter_child_nodes(node):
            inner = scope
            if isinstance(child, FunctionNode | ast.ClassDef):
                inner = f"{scope}.{getattr(child, 'name', '<lambda>')}".lstrip(".")
            if isinstance(child, FunctionNode):
                while inner in found:
                    inner += "'"
                found[inner] = child
            walk(child, inner)

    walk(tree, "")
    return found


def _unit(node: FunctionNode | ast.ClassDef | list[ast.stmt]) -> Unit:
    is_function = isinstance(node, FunctionNode)
    text = _text(node, bodies=False) + (_text(node.body, bodies=False) if is_function else "")
    parts = node if isinstance(node, list) else ast.iter_child_nodes(node)
    own = _own_names(node) if isinstance(node, FunctionNode) else frozenset[str]()
    return Unit(text, frozenset(name for part in parts for name in _names(part)), own, is_function)


def _own_names(node: FunctionNode) -> frozenset[str]:
    """The names that are local variables wherever the function uses them, by Python's own scoping rules.

    >>> sorted(_own_names(ast.parse("def f(x, y, z): from m import y; return x + y + x.z").body[0]))
    ['x']
    """
    try:
        table = symtable.symtable(ast.unparse(node), "<unit>", "exec")
    except SyntaxError:  # it rebinds a variable of the function around it
        return frozenset()
    own, others = set[str](), {each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute)}
    tables = [table]
    for table in tables:
        for symbol in table.get_symbols():
            is_bound = table.get_type() == "function" and (symbol.is_local() or symbol.is_free())
            is_own = is_bound and not symbol.is_imported() and not symbol.is_namespace()
            (own if is_own else others).add(symbol.get_name())
        tables += table.get_children()
    return frozenset(own - others)


def _names(node: ast.AST) -> Iterator[str]:
    """The names in a node, but for those in the bodies of functions that compute."""
    if isinstance(node, ast.Name):
        yield node.id
    elif isinstance(node, ast.Attribute):
        yield node.attr
    body = node.body if isinstance(node, FunctionNode) and not _hands_on(node) else []
    for child in ast.iter_child_nodes(node):
        if child is not body and child not in (body if isinstance(body, list) else []):
            yield from _names(child)


@dataclass(frozen=True)
class _Module:
    """A module's units by name, and what its names stand for: a node, or the (module, name) of an import."""

    units: dict[str, Unit]
    bound: dict[str, ast.AST | Place]


@lru_cache(maxsize=1024)
def _module(source: str, package: str) -> _Module:
    tree = ast.parse(source)
    units = {name: _unit(node) for name, node in functions(tree).items() if not _hands_on(node)}
    bound: dict[str, ast.AST | Place] = {}
    statements: list[ast.stmt] = []
    for node in tree.body:
        if isinstance(node, ast.Import):
            for alias in node.names:
                top = alias.name.split(".")[0]
                bound[alias.asname or top] = (alias.name if alias.asname else top, "")
        elif isinstance(node, ast.ImportFrom) and node.names[0].name != "*":
            bound |= {alias.asname or alias.name: (imported_from(node, package), alias.name) for alias in node.names}
        elif isinstance(node, ast.ClassDef):
            bound[node.name], units[node.name] = node, _unit(node)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            bound[node.name] = node
            if node.decorator_list:  # which run when the module is imported
                statements.append(node)
        else:
            statements.append(node)
            stored = (each for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store))
            bound |= {name.id: node for name in stored}
    own = _unit(statements)
    return _Module(units | ({"": own} if own.text != "[]" else {}), bound)


def imported_from(node: ast.ImportFrom, package: str) -> str:
    """The whole name of the module that is imported from, in a module of a package.

    >>> imported_from(ast.parse("from ..core import Problem").body[0], "dpnotes.oracles")
    'dpnotes.core'
    """
    parts = package.split(".")
    base = parts[: len(parts) - node.level + 1] if node.level else []
    return ".".join([*base, node.module] if node.module else base)


# ---------------------------------------------------------------- changes
class Code:
    """The code that a result rests on.

    Args:
      sources: of all modules, by name.
    """

    def __init__(self, sources: Mapping[str, str]) -> None:
        packages = {name.rpartition(".")[0] for name in sources}
        self.sources = sources
        self._modules = {
            name: _module(source, name if name in packages else name.rpartition(".")[0])
            for name, source in sources.items()
        }
        self.units: dict[Place, Unit] = {
            (name, unit): found for name, module in self._modules.items() for unit, found in module.units.items()
        }

    def meaning(self, module: str, name: str) -> Place:
        """Where what a name stands for in a module is written: imports are followed; ("", name) outside of the code."""
        value = self._modules[module].bound.get(name)
        if not isinstance(value, tuple):
            return (module, name) if value else ("", name)
        base, item = value
        if f"{base}.{item}" in self.sources:
            return f"{base}.{item}", ""
        if base not in self.sources:
            return "", f"{base}.{item}"
        return self.meaning(base, item) if item else value

    def written(self, place: Place) -> str:
        """The text of what stands there."""
        module, name = place
        if not module:
            return name
        if not name:
            return normalised(self.sources[module])
        node = self._modules[module].bound[name]
        assert isinstance(node, ast.AST)
        return _text(node)


def changed(then: Code, now: Code) -> list[Place]:
    """What is in the code now and was not then, and the modules whose own statements are gone.

    >>> then = Code({"toys.helper": "def twice(x): return 2 * x"})
    >>> changed(then, Code({"toys.other": "def twice(x): return 2 * x  # moved"}))
    []
    >>> changed(then, Code({"toys.helper": "def twice(x): return x + x"}))
    [('toys.helper', 'twice')]
    """

    def is_same(old: Place, new: Place) -> bool:
        if then.units[old].text != now.units[new].text:
            return False
        for name in now.units[new].names:
            before, after = then.meaning(old[0], name), now.meaning(new[0], name)
            if before != after and then.written(before) != now.written(after):
                return False
        return True

    gone = {p for p, unit in then.units.items() if p not in now.units or now.units[p].text != unit.text}
    found = []
    for place in now.units:
        # Only what was nowhere is moved: of two functions that change places each now stands for the other.
        olds = [place] if place in then.units else [p for p in gone if p[1] == place[1]]
        if same := next((old for old in olds if is_same(old, place)), None):
            gone.discard(same)
        else:
            found.append(place)
    return sorted({*found, *(place for place in gone if not place[1])})
