"""A listing, line by line: the line of a paper's `reference.py` that runs next, and all values at that moment.

A reference is a generator that yields a named tuple for each step. Values whose names begin with `private_` are known
to the data holder alone, `paid` and `left` are the budget, and all others are released or computed from public values.
"""

import ast
import html
import inspect
import math
import re
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import ipywidgets

Functions = Sequence[Callable[..., Any]]
Run = Callable[[frozenset[int]], Iterator[Any]]
KINDS = dict(budget="budget", private="private: for the data holder alone", released="released", public="public")
_MARK = "display: block; background: #FFE69C; color: #000000"  # 4.5:1 and more, whatever the theme
_CODE = "white-space: pre-wrap; font: var(--jp-code-font-size, 13px)/1.4 var(--jp-code-font-family, monospace)"
_LEFT = "text-align: left; vertical-align: top; padding: 1px 6px; line-height: 1.3; white-space: "
_PANE = {"min_width": "0", "overflow": "auto", "border": "1px solid var(--jp-border-color2, #bdbdbd)", "padding": "4px"}
_KEPT = "<figcaption>The values after the first step. Run the cell to go through it line by line.</figcaption>"
_NONE_OF_YOURS = (
    "No line of this step differs from the library's: compare the functions that it calls, its names and its arguments."
)


# ---------------------------------------------------------------- a run, line by line
@dataclass(frozen=True)
class Moment:
    """The moment before a line runs, or the end of a run.

    Args:
      step: the number of steps yielded before.
      function: the name of the listed function that the line is in; "" at the end.
      line: its number in its file.
      values: the variables' values, in words; in the generator itself, also the fields of its last step.
      changed: the names whose values the line before has changed.
    """

    step: int
    function: str
    line: int
    values: Mapping[str, str]
    changed: frozenset[str] = frozenset()


@dataclass
class Trace:
    """A run of a generator.

    Args:
      moments: the moment before each line that ran, and the end.
      steps: the yielded values.
      end: the generator's return value, or the error that it raised, in words.
    """

    moments: list[Moment] = field(default_factory=list)
    steps: list[Any] = field(default_factory=list)
    end: Any = "stopped before its end"


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


def imports(functions: Functions) -> list[str]:
    """The import lines that a copy of these functions needs above it, one for each of their modules.

    >>> from dpnotes.papers.budget_schedules.reference import clipped, private_gradient_descent
    >>> imports([private_gradient_descent, clipped])
    ['from dpnotes.papers.budget_schedules.reference import Step, Tensor, torch']
    """
    copied = {function.__name__ for function in functions}
    needed: dict[str, set[str]] = {}
    for function in functions:
        tree = ast.walk(ast.parse(textwrap.dedent(inspect.getsource(function))))
        names = {node.id for node in tree if isinstance(node, ast.Name)} & function.__globals__.keys() - copied
        needed.setdefault(function.__module__, set()).update(names)
    return [f"from {module} import {', '.join(sorted(names))}" for module, names in needed.items() if names]


def explained(functions: Functions) -> dict[str, str]:
    """The names of arguments and of fields that these functions yield, each with its words in docstring or comment.

    >>> from dpnotes.papers.noisy_sgd.reference import clipped_noisy_sgd
    >>> words = explained([clipped_noisy_sgd])
    >>> words["eta"], words["left"]
    ('step size, in units of length squared over loss.', 'zCDP of the remaining releases')
    """
    found: dict[str, str] = {}
    for function in reversed(functions):  # the first one's words are the last ones
        entries = re.findall(r"^  (\w+): (.+(?:\n    .+)*)", inspect.getdoc(function) or "", re.MULTILINE)
        found |= {name: " ".join(words.split()) for name, words in entries}
        for step in (each for each in _yielded(function) if each.__module__ != "__main__"):  # a cell's has no source
            found |= dict(re.findall(r"^    (\w+): [^#\n]+  # (.+)$", inspect.getsource(step), re.MULTILINE))
    return found


def _yielded(function: Any) -> list[Any]:
    """The types that a function yields, by the names in its source."""
    names = re.findall(r"^ *yield (\w+)\(", inspect.getsource(function), re.MULTILINE)
    return [function.__globals__[name] for name in names if hasattr(function.__globals__.get(name), "_fields")]


def trace(steps: Iterator[Any], functions: Functions = (), most: int = 200) -> Trace:
    """Run a generator, and record the moment before each line of these functions.

    Args:
      steps: a generator that has not begun.
      functions: the functions to trace; if there are none, the generator's own.
      most: the number of steps after which the run is stopped.

    >>> def count():
    ...     for x in range(2):
    ...         yield x
    >>> found = trace(count())
    >>> found.steps, [(moment.step, *moment.values.values(), *moment.changed) for moment in found.moments]
    ([0, 1], [(0,), (0, '0', 'x'), (1, '0'), (1, '1', 'x'), (2, '1'), (2,)])
    """
    tops = [each.__code__ for each in functions] or [getattr(steps, "gi_code", None)]
    owners = {code: top.co_name for top in tops if top for code in _codes(top)}
    found, own = Trace(), getattr(steps, "gi_frame", None)
    last: dict[Any, tuple[int, dict[str, str]]] = {}  # line and values of each frame
    fields: dict[str, str] = {}

    def watch(frame: Any, event: str, _: Any) -> Any:
        function = owners.get(frame.f_code)
        if function and event == "line":
            values = {name: words for name, words in fields.items() if frame is own or name in ("paid", "left")}
            values |= {name: shown(value) for name, value in frame.f_locals.items() if _sayable(value)}
            line, before = last.get(frame, (0, values))
            changed = frozenset(name for name in values if values[name] != before.get(name))
            if changed or line != frame.f_lineno:  # not each turn of a comprehension
                found.moments.append(Moment(len(found.steps), function, frame.f_lineno, values, changed))
            last[frame] = frame.f_lineno, values
        return watch if function else None

    before = sys.gettrace()
    sys.settrace(watch)
    try:
        while len(found.steps) < most:
            found.steps.append(next(steps))
            fields |= {name: shown(value) for name, value in getattr(found.steps[-1], "_asdict", dict)().items()}
    except StopIteration as stop:
        found.end = "the end" if stop.value is None else stop.value
    except Exception as error:  # of a reader's own listing, or of a line that uses a value that does not exist
        found.end = f"{type(error).__name__}: {error}"
    finally:
        sys.settrace(before)
    found.moments.append(Moment(len(found.steps), "", 0, fields))
    return found


def _codes(code: Any) -> list[Any]:
    """A code and those of the functions in it, not those of comprehensions."""
    inner = (part for part in code.co_consts if inspect.iscode(part) and not part.co_name.startswith("<"))
    return [code, *(each for part in inner for each in _codes(part))]


def _sayable(value: Any) -> bool:
    plain = value is None or isinstance(value, int | float | str | range | list | tuple) or hasattr(value, "tolist")
    return plain and not (isinstance(value, list | tuple) and any(map(callable, value)))


def shown(value: Any) -> str:
    """A value in a few words: numbers to four digits, six of a vector, three rows, and no private field of a step.

    >>> import torch
    >>> shown(torch.tensor([0.123456, 2.0])), shown(True), shown([(1, 2), (3, 3)]), shown(1e-9), shown(None)
    ('[0.1235, 2]', 'yes', '1–2, 3–3', '1e-09', 'none')
    """
    if hasattr(value, "tolist"):
        value = (value[:7] if value.ndim else value).tolist()
    if value is None or value == []:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if hasattr(value, "_asdict"):
        return ", ".join(f"{name} {shown(part)}" for name, part in value._asdict().items() if "private_" not in name)
    if isinstance(value, list) and isinstance(value[0], tuple):
        return ", ".join("–".join(map(str, pair)) for pair in value)
    if isinstance(value, list):
        most = 3 if isinstance(value[0], list) else 6
        return f"[{', '.join(map(shown, value[:most]))}{', …' if len(value) > most else ''}]"
    if isinstance(value, tuple):
        return ", ".join(map(shown, value))
    return f"{value:.4g}" if isinstance(value, float) else str(value)


# ---------------------------------------------------------------- a listing that one steps through
class Stepper:
    """A listing whose next line is marked, all values at that moment beside it, two sliders (line, step) and Play.

    Args:
      run: maps the numbers of the lines to run as printed to the generator of one run, not begun yet.
      functions: the functions to list, the algorithm first.
      printed: by line, a description of the line as printed; each gets a checkbox.
      most: the largest number of steps.

    Attributes:
      controls: "line", "step" and, by number, the checkboxes.
      trace: the run.
      data: the moment shown.
      code, values, whole, box: the ipywidgets it consists of.

    >>> import torch
    >>> from dpnotes.papers.budget_schedules.reference import private_gradient_descent
    >>> def run(printed):
    ...     gradients, noise = lambda x: x - torch.eye(2), lambda t: torch.zeros(2)
    ...     return private_gradient_descent(gradients, torch.zeros(2), [2, 2], 0.5, 1.0, 0.1, noise, printed=printed)
    >>> stepper = Stepper(run, [private_gradient_descent], printed={2: "< in place of <="})
    >>> stepper.controls["line"].value = 5
    >>> stepper.data.changed, stepper.data.values["private_mean"], stepper.kind("private_mean")
    (frozenset({'private_mean'}), '[-0.5, -0.5]', 'private')
    >>> stepper.controls["step"].value, stepper.controls[2].value = 2, True
    >>> stepper.data.step, stepper.trace.end[0]
    (1, 'BUDGET_EXHAUSTED')
    """

    def __init__(self, run: Run, functions: Functions, printed: Mapping[int, str] | None = None, most: int = 200):
        self._run, self._functions, self._most = run, functions, most
        self._listings = {function.__name__: listing(function) for function in functions}
        self._explained = explained(functions)
        fields = {name: "released" for function in functions for step in _yielded(function) for name in step._fields}
        self._kinds = fields | {"released": "released", "paid": "budget", "left": "budget"}
        slider = {"min": 1, "max": 1, "layout": {"width": "22em"}, "style": {"description_width": "3em"}}
        line, step = (ipywidgets.IntSlider(**slider, description=name) for name in ("line", "step"))
        self.controls: dict[Any, Any] = {"line": line, "step": step}
        play = ipywidgets.Play(min=1, max=1, value=1, interval=900, tooltip="play the lines")
        for trait in ("value", "max"):
            ipywidgets.jslink((play, trait), (line, trait))
        for number, what in (printed or {}).items():
            switch = {"description": f"line {number}: {what}", "indent": False, "layout": {"width": "auto"}}
            self.controls[number] = ipywidgets.Checkbox(False, **switch)
        _, _, *switches = self.controls.values()
        above = [[play, line, step], [ipywidgets.HTML("As printed:"), *switches] if switches else []]
        rows = [ipywidgets.HBox(row, layout={"flex_flow": "row wrap"}) for row in above]
        self.code, self.values = (ipywidgets.HTML(layout=_PANE | {"flex": flex}, tabbable=True) for flex in "53")
        panes = ipywidgets.HBox([self.code, self.values], layout={"flex": "1 1 0", "min_height": "0"})
        lists = ("\n".join(text for _, text in lines) for lines in self._listings.values())
        copied = html.escape("\n\n".join(["\n".join(imports(functions)), *lists]).lstrip())
        copied = f'<pre tabindex="0" style="white-space: pre-wrap; word-break: normal">{copied}</pre>'
        names = _table("names", "".join(map(_row, self._explained, self._explained.values())))
        self.whole = ipywidgets.HTML(f"<details><summary>Whole listing, and names</summary>{copied}{names}</details>")
        self.box = ipywidgets.VBox([ipywidgets.VBox([*rows, panes], layout={"height": "350px"}), self.whole])
        self.box.add_class("dpnotes-stepper")
        self._begin()
        kept = next((moment for moment in self.trace.moments if moment.step), self.data)
        kept = self._said(kept, "display: flex; flex-wrap: wrap; align-items: flex-start") + _KEPT
        self._still = f"<figure>{kept}</figure>{copied}<details><summary>The names</summary>{names}</details>"
        line.observe(self._show, "value")
        step.observe(lambda change: self._go(change.new - 1), "value")
        for switch in switches:
            switch.observe(self._begin, "value")

    def kind(self, name: str) -> str:
        """The kind of a value, one of `KINDS`, by its name."""
        return "private" if name.startswith("private_") else self._kinds.get(name, "public")

    def _begin(self, change: Any = None) -> None:
        before = self.data if change else None
        lines = frozenset(line for line, control in self.controls.items() if control.value is True)
        self.trace = trace(self._run(lines), self._functions, self._most)
        self.controls["line"].max = len(self.trace.moments)
        self.controls["step"].max = self.trace.moments[-1].step + 1
        if before:
            self._go(before.step, before.line)
        self._show()

    def _go(self, step: int, line: int = -1) -> None:
        """Go to this line of a step, else to the beginning of the step or of a later one, else to the end."""
        if step != self.data.step or line >= 0:
            moments = enumerate(self.trace.moments, 1)
            later = ((each.step, each.line != line, place) for place, each in moments if each.step >= step)
            self.controls["line"].value = min(later, default=(0, 0, len(self.trace.moments)))[2]

    def _show(self, _: Any = None) -> None:
        self.data = self.trace.moments[self.controls["line"].value - 1]
        self.controls["step"].value = self.data.step + 1
        self.code.value, self.values.value = self._marked(self.data), self._said(self.data)

    def _marked(self, moment: Moment) -> str:
        """The listing of the function that runs, from a few lines above the marked one."""
        name = moment.function or self._functions[0].__name__
        lines = self._listings[name]
        here = next((place for place, (number, _) in enumerate(lines) if number == moment.line), 0)
        first = max(0, min(here - 4, len(lines) - 8))
        rows = [f"⋮ lines above: {first}"] if first else []
        for number, text in lines[first:]:
            indent = f"padding-left: {len(text) - len(text.lstrip()) + 4}ch; text-indent: -4ch"
            code = html.escape(text.strip())
            mark = f'<mark aria-current="step" style="{_MARK}; {indent}">▸ {code}</mark>'
            rows.append(mark if number == moment.line else f'<div style="{indent}">{code}</div>')
        return f'<div role="group" aria-label="{name}; marked: what runs next" style="{_CODE}">{"".join(rows)}</div>'

    def _said(self, moment: Moment, style: str = "") -> str:
        groups = dict.fromkeys(("changed just now", *KINDS), "")
        for name, words in moment.values.items():
            new, kind, meaning = name in moment.changed, self.kind(name), self._explained.get(name, "")
            notes = "; ".join([kind] * new + [meaning] * (kind == "budget"))
            groups["changed just now" if new else kind] += _row(name, words, notes, meaning)
        end = "" if moment.function else f"<p>After {moment.step} steps: {html.escape(shown(self.trace.end))}.</p>"
        tables = (_table(KINDS.get(group, group), rows) for group, rows in groups.items() if rows)
        return f'<div role="group" aria-label="values" aria-live="polite" style="{style}">{end}{"".join(tables)}</div>'

    def __repr__(self) -> str:
        return f"Stepper({', '.join(self._listings)})"

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        return {**(self.box._repr_mimebundle_() or {}), "text/plain": repr(self), "text/html": self._still}


def _row(name: str, words: str, notes: str = "", meaning: str = "") -> str:
    name, words, notes, meaning = map(html.escape, (name, words, notes, meaning))
    words = f'<td style="{_LEFT}normal; overflow-wrap: anywhere">{words} <small>{notes}</small></td>'
    return f'<tr title="{meaning}"><th scope="row" style="{_LEFT}nowrap">{name}</th>{words}</tr>'


def _table(caption: str, rows: str) -> str:
    return f'<table style="margin: 0"><caption style="{_LEFT}nowrap"><b>{caption}</b></caption>{rows}</table>'


# ---------------------------------------------------------------- a listing of the reader's own
@dataclass(frozen=True, repr=False)
class Comparison:
    """The first difference between two generators.

    Args:
      steps: the number of steps before it, which are the same.
      what: the first value that differs, as "name: yours, library's"; "" if none does.
      lines: the lines of yours that ran in that step and are not in the library's listing, number and text.
    """

    steps: int
    what: str
    lines: tuple[tuple[int, str], ...] = ()

    def __repr__(self) -> str:
        if not self.what:
            return f"The same in all {self.steps} steps, and at the end."
        where = "".join(f"\n  line {number}: {text}" for number, text in self.lines)
        blame = f"Your own lines that ran in this step:{where}" if where else _NONE_OF_YOURS
        return f"The same in {self.steps} steps; then {self.what}.\n{blame}"


def compare(yours: Iterator[Any], library: Iterator[Any], within: float = 1e-9, most: int = 200) -> Comparison:
    """Run a listing that a reader has changed beside the library's, up to the first step that differs.

    Args:
      yours: the generator of a function, such as a copy of a reference in a cell; not begun yet.
      library: the reference's generator on the same arguments, not begun yet either.
      within: the allowed difference between numbers, relative to the larger one or to 1.
      most: the largest number of steps.

    >>> from typing import NamedTuple
    >>> Step = NamedTuple("Step", [("x", float)])
    >>> def halves(x):
    ...     while x > 1:
    ...         x = x / 2
    ...         yield Step(x)
    >>> compare(halves(8.0), halves(8.0)), compare(halves(8.0), halves(9.0)).what
    (The same in all 3 steps, and at the end., 'x: 4, not 4.5')
    """
    lists = [listing(code) if code else [] for code in (getattr(each, "gi_code", None) for each in (yours, library))]
    own, other = (trace(steps, most=most) for steps in (yours, library))
    for place in range(max(len(own.steps), len(other.steps)) + 1):
        what = _difference(own, other, place, within)
        if what:
            known = {text.strip() for _, text in lists[1]}
            ran = {moment.line for moment in own.moments if moment.step == place}
            alone = ((n, text.strip()) for n, text in lists[0] if n in ran and text.strip() not in known)
            return Comparison(place, what, tuple(alone))
    return Comparison(len(own.steps), "")


def _difference(left: Trace, right: Trace, place: int, within: float) -> str:
    mine, its = (run.steps[place] if place < len(run.steps) else None for run in (left, right))
    if mine is None or its is None:
        if mine is its and _same(left.end, right.end, within):
            return ""
        ends = ["goes on" if run.steps[place:] else f"ends with {shown(run.end)}" for run in (left, right)]
        return f"yours {ends[0]}, and the library's {ends[1]}"
    mine, its = mine._asdict(), its._asdict()
    for name, value in its.items():
        if name not in mine:
            return f"{name}: missing"
        if not _same(mine[name], value, within):
            return f"{name}: {shown(mine[name])}, not {shown(value)}"
    return ""


def _same(left: Any, right: Any, within: float) -> bool:
    left, right = (value.tolist() if hasattr(value, "tolist") else value for value in (left, right))
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return len(left) == len(right) and all(_same(*pair, within) for pair in zip(left, right, strict=True))
    if isinstance(left, float | int) and isinstance(right, float | int):
        return math.isclose(left, right, rel_tol=within, abs_tol=within)
    return left == right
