"""A listing, line by line: the line of a paper's `reference.py` that runs next, and every value at that moment.

A reference is a generator that yields a named tuple for each step. Fields that begin with `private_` are known to the
data holder alone, `paid` and `left` are the budget, and all other fields are released or follow from released values.
The kinds of the other variables follow from those of the fields (`dpnotes.notebook.names`).
"""

import html
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import ipywidgets

from dpnotes.notebook.names import BUDGET, KINDS, Name, Names, imports, listing

_MARK = "display: block; background: #FFE69C; color: #000000"  # 4.5:1 and more, whatever the theme
_NONE_OF_YOURS = "None of its lines is yours alone: look at what they call, at the names in them, and at the arguments."
_COLUMNS, _ROWS = 58, 13  # letters of a line and lines, of the listing, that have room beside the values
_CODE = (
    "font-family: var(--jp-code-font-family, monospace); font-size: var(--jp-code-font-size, 13px); line-height: 1.4"
)
_LEFT, _FLOW = "text-align: left; vertical-align: top", "display: flex; flex-wrap: wrap; gap: 0 2em"
_CAPTION = "The values after the first step. Run the cell to go through the listing line by line."
_PANE = {"min_width": "0", "overflow": "auto", "border": "1px solid var(--jp-border-color2, #bdbdbd)", "padding": "4px"}


# ---------------------------------------------------------------- a run, line by line
@dataclass(frozen=True)
class Moment:
    """The moment before a line runs, or after the last one.

    Args:
      function: the name of the listed function that the line is in; "" at the end.
      line: its number in its file.
      step: the number of steps yielded before.
      values: the variables' values, in words; in the generator itself, also the fields of its last step.
      changed: the names whose values the line before has changed.
    """

    function: str
    line: int
    step: int
    values: Mapping[str, str]
    changed: frozenset[str] = frozenset()


@dataclass
class Trace:
    """A run of a generator.

    Args:
      moments: the moment before each line that ran, and the end.
      steps: the yielded values.
      end: the generator's return value, or the error that it raised, in words.
      calls: function and name of every variable that held a function, or a list of functions.
    """

    moments: list[Moment] = field(default_factory=list)
    steps: list[Any] = field(default_factory=list)
    end: Any = "stopped, with more to come"
    calls: set[Name] = field(default_factory=set)


def trace(steps: Iterator[Any], functions: Sequence[Callable[..., Any]] = (), most: int = 200) -> Trace:
    """Run a generator, and record the moment before each of its lines, and of these functions' lines.

    Args:
      steps: a generator that has not begun.
      functions: other functions to trace.
      most: the number of steps after which the run is stopped.

    >>> def count():
    ...     for x in range(2):
    ...         yield x
    >>> found = trace(count())
    >>> found.steps, [(moment.step, *moment.values.values(), *moment.changed) for moment in found.moments]
    ([0, 1], [(0,), (0, '0', 'x'), (1, '0'), (1, '1', 'x'), (2, '1'), (2,)])
    """
    tops = [code for code in (*(each.__code__ for each in functions), getattr(steps, "gi_code", None)) if code]
    owners = {code: top.co_name for top in tops for code in _codes(top)}
    found, own = Trace(), getattr(steps, "gi_frame", None)
    last: dict[Any, tuple[int, dict[str, str]]] = {}  # line and values of each frame
    said: dict[int, tuple[Any, int, str]] = {}  # a tensor that is the same object, unchanged, is not said anew
    fields: dict[str, str] = {}

    def say(value: Any) -> str:
        version = getattr(value, "_version", None)
        if version is None:
            return shown(value)
        if id(value) not in said or said[id(value)][1] != version:
            said[id(value)] = value, version, shown(value)
        return said[id(value)][2]

    def watch(frame: Any, event: str, _: Any) -> Any:
        function = owners.get(frame.f_code)
        if function is not None and event == "line":
            found.calls |= {(function, name) for name, value in frame.f_locals.items() if _calls(value)}
            known = {name: words for name, words in fields.items() if frame is own or name in BUDGET}
            values = known | {name: say(value) for name, value in frame.f_locals.items() if _sayable(value)}
            line, before = last.get(frame, (0, values))
            changed = frozenset(name for name in values if values[name] != before.get(name))
            if changed or line != frame.f_lineno:  # not each turn of a comprehension
                found.moments.append(Moment(function, frame.f_lineno, len(found.steps), values, changed))
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
    found.moments.append(Moment("", 0, len(found.steps), fields))
    return found


def _codes(code: Any) -> Iterator[Any]:
    yield code
    for part in code.co_consts:  # nested functions, not comprehensions
        if hasattr(part, "co_name") and not part.co_name.startswith("<"):
            yield from _codes(part)


def _calls(value: Any) -> bool:
    return callable(value) or (isinstance(value, list | tuple) and any(map(callable, value)))


def _sayable(value: Any) -> bool:
    plain = value is None or isinstance(value, int | float | str | range | list | tuple)
    return not _calls(value) and (plain or hasattr(value, "tolist"))


def shown(value: Any) -> str:
    """A value in a few words: numbers to four digits, no more than six of a vector, no private field of a step.

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
    if isinstance(value, range):
        return f"{value.start}–{value.stop - 1}"
    if hasattr(value, "_asdict"):
        return ", ".join(f"{name} {shown(part)}" for name, part in value._asdict().items() if "private_" not in name)
    if isinstance(value, list) and isinstance(value[0], tuple):
        return ", ".join("–".join(map(str, pair)) for pair in value)
    if isinstance(value, list):
        return f"[{', '.join(map(shown, value[:6]))}{', …' if len(value) > 6 else ''}]"
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
      data: for the moment shown: "line", the text that runs next ("" at the end), "step", from 1, "values" and
        "kinds" by name, "changed", and "end", the reason of the end, None before it.
      code, values, whole, box: the ipywidgets it consists of.

    >>> import torch
    >>> from dpnotes.papers.budget_schedules.reference import private_gradient_descent
    >>> def run(printed):
    ...     gradients, noise = lambda x: x - torch.eye(2), lambda t: torch.zeros(2)
    ...     return private_gradient_descent(gradients, torch.zeros(2), [2, 2], 0.5, 1.0, 0.1, noise, printed=printed)
    >>> stepper = Stepper(run, [private_gradient_descent], printed={2: "< in place of <="})
    >>> stepper.controls["line"].value = 5
    >>> stepper.data["line"], stepper.data["changed"], stepper.data["kinds"]["rows"]
    ('private_mean = rows.mean(dim=0)  # 1: average the gradients,', ['rows'], 'private')
    >>> stepper.controls["step"].value, stepper.controls[2].value = 3, True
    >>> stepper.data["step"], stepper.trace.end[0]
    (2, 'BUDGET_EXHAUSTED')
    """

    def __init__(
        self,
        run: Callable[[frozenset[int]], Iterator[Any]],
        functions: Sequence[Callable[..., Any]],
        printed: Mapping[int, str] | None = None,
        most: int = 200,
    ):
        self._run, self._functions, self._most, self._names = run, functions, most, Names(functions)
        self._listings = {function.__name__: listing(function) for function in functions}
        width = {"width": "20em"}
        self.controls: dict[Any, Any] = {
            name: ipywidgets.IntSlider(min=1, max=1, description=name, layout=width, style={"description_width": "3em"})
            for name in ("line", "step")
        }
        play = ipywidgets.Play(min=1, max=1, value=1, interval=900, tooltip="play the lines")
        for trait in ("value", "max"):
            ipywidgets.jslink((play, trait), (self.controls["line"], trait))
        sliders = [play, *self.controls.values()]
        switches = {
            line: ipywidgets.Checkbox(False, description=f"line {line}: {what}", indent=False, layout={"width": "auto"})
            for line, what in (printed or {}).items()
        }
        self.controls |= switches
        self.code = ipywidgets.HTML(layout={**_PANE, "flex": "5 1 0"}, tabbable=True)
        self.values = ipywidgets.HTML(layout={**_PANE, "flex": "3 1 0"}, tabbable=True)
        rows = [sliders, [ipywidgets.HTML("as printed:"), *switches.values()] if switches else []]
        above = [ipywidgets.HBox(row, layout={"flex_flow": "row wrap"}) for row in rows if row]
        panes = ipywidgets.HBox([self.code, self.values], layout={"flex": "1 1 0", "min_height": "0"})
        copied = f"<details><summary>The whole listing, to copy</summary>{self._whole()}</details>"
        self.whole = ipywidgets.HTML(copied + self._meanings())
        fixed = ipywidgets.VBox([*above, panes], layout={"height": "350px"})
        self.box = ipywidgets.VBox([fixed, self.whole])
        self.box.add_class("dpnotes-stepper")
        self.data: dict[str, Any] = {}
        self._begin()
        after = next((each for each in self.trace.moments if each.step), self.trace.moments[-1])
        figure = f'<figure style="margin: 0">{self._said(after, _FLOW)}<figcaption>{_CAPTION}</figcaption></figure>'
        self._still = figure + self._whole() + self._meanings()
        self.controls["line"].observe(self._show, "value")
        self.controls["step"].observe(self._jump, "value")
        for switch in switches.values():
            switch.observe(self._begin, "value")

    def _begin(self, _: Any = None) -> None:
        lines = frozenset(line for line, control in self.controls.items() if isinstance(line, int) and control.value)
        before = self.trace.moments[self.controls["line"].value - 1] if self.data else None
        self.trace = trace(self._run(lines), self._functions, self._most)
        self._private = self._names.private(self.trace.calls)
        moments = self.trace.moments
        self.controls["line"].max, self.controls["step"].max = len(moments), moments[-1].step + 1
        if before is not None:  # the same line of the same step, if there is one
            later = [place for place, each in enumerate(moments) if each.step >= before.step] or [len(moments) - 1]
            same = [p for p in later if (moments[p].step, moments[p].line) == (before.step, before.line)]
            self.controls["line"].value = (same or later)[0] + 1
        self._show()

    def _jump(self, _: Any) -> None:
        step = self.controls["step"].value - 1
        if self.trace.moments[self.controls["line"].value - 1].step != step:
            first = next(place for place, each in enumerate(self.trace.moments) if each.step >= step)
            self.controls["line"].value = first + 1

    def _show(self, _: Any = None) -> None:
        moment = self.trace.moments[self.controls["line"].value - 1]
        self.controls["step"].value = moment.step + 1
        texts = dict(self._listings.get(moment.function, []))
        self.data = {
            "line": texts.get(moment.line, "").strip(),
            "step": moment.step + 1,
            "values": dict(moment.values),
            "kinds": {name: self._names.kind(moment.function, name, self._private) for name in moment.values},
            "changed": sorted(moment.changed),
            "end": None if moment.function else self.trace.end,
        }
        self.code.value, self.values.value = self._marked(moment), self._said(moment)

    def _marked(self, moment: Moment) -> str:
        """The function that runs, from a few lines above the marked one."""
        name = moment.function or next(iter(self._listings))
        lines = self._listings[name]
        here = next((place for place, (n, _) in enumerate(lines) if n == moment.line), 0)
        heights = [1 + len(text) // _COLUMNS for _, text in lines]
        first, room = here, max(_ROWS // 2, _ROWS - sum(heights[here + 1 :]))
        while first and sum(heights[first - 1 : here + 1]) <= room:
            first -= 1
        rows = [f"<i>{first} lines above</i>"] if first else []
        for n, text in lines[first:]:
            indent = len(text) - len(text.lstrip())
            row = html.escape(text.strip())
            row = f'<mark aria-current="step" style="{_MARK}">▸ {row}</mark>' if n == moment.line else row
            rows.append(f'<div style="padding-left: {indent + 4}ch; text-indent: -4ch">{row}</div>')
        label = f'role="group" aria-label="listing of {html.escape(name)}; marked is the line that runs next"'
        return f'<div {label} style="{_CODE}; white-space: pre-wrap">{"".join(rows)}</div>'

    def _said(self, moment: Moment, style: str = "") -> str:
        name, groups = moment.function or next(iter(self._listings)), dict.fromkeys(("changed just now", *KINDS), "")
        for value, words in moment.values.items():
            kind, meaning = self._names.kind(name, value, self._private), self._names.meaning(name, value)
            notes = [kind] * (value in moment.changed) + [meaning] * (kind == "budget")
            group = "changed just now" if value in moment.changed else kind
            groups[group] += _row(value, words, meaning, "; ".join(notes))
        tables = "".join(
            f'<table style="margin: 0"><caption style="text-align: left"><b>{KINDS.get(group, group)}</b></caption>{rows}</table>'
            for group, rows in groups.items()
            if rows
        )
        end = "" if moment.function else f"<p>After {moment.step} steps: {html.escape(shown(self.trace.end))}.</p>"
        return f'<div role="group" aria-label="values" aria-live="polite" style="{style}">{end}{tables}</div>'

    def _whole(self) -> str:
        texts = ["\n".join(text for _, text in lines) for lines in self._listings.values()]
        text = html.escape("\n\n".join(filter(None, ["\n".join(imports(self._functions)), *texts])))
        return f'<pre tabindex="0" style="white-space: pre-wrap; word-break: normal">{text}</pre>'

    def _meanings(self) -> str:
        told = {name: words for (_, name), words in self._names.meanings.items() if not words.startswith("set to ")}
        rows = "".join(map(_row, told, told.values()))
        return f"<details><summary>The names</summary><table>{rows}</table></details>"

    def __repr__(self) -> str:
        return f"Stepper({', '.join(self._listings)})"

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        return {**(self.box._repr_mimebundle_() or {}), "text/plain": repr(self), "text/html": self._still}


def _row(name: str, words: str, meaning: str = "", note: str = "") -> str:
    name, words, meaning, note = map(html.escape, (name, words, meaning, note))
    cells = f'<th scope="row" style="{_LEFT}">{name}</th><td style="{_LEFT}">{words} <small>{note}</small></td>'
    return f'<tr title="{meaning}">{cells}</tr>'


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
        blame = f"Yours alone, and ran in this step:{where}" if where else _NONE_OF_YOURS
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
    codes = [getattr(steps, "gi_code", None) for steps in (yours, library)]
    own, other = (trace(steps, most=most) for steps in (yours, library))
    for place in range(max(len(own.steps), len(other.steps)) + 1):
        what = _difference(own, other, place, within)
        if what:
            known = {text.strip() for _, text in listing(codes[1])} if codes[1] else set()
            lines = listing(codes[0]) if codes[0] else []
            ran = {moment.line for moment in own.moments if moment.step == place}
            alone = ((n, text.strip()) for n, text in lines if n in ran and text.strip() not in known)
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
