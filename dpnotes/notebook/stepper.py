"""A listing, step by step: the lines of a paper's `reference.py` that a step ran, its private and its released values.

A reference is a generator that yields a named tuple for each step. Fields that begin with `private_` are known to the
data holder alone, `paid` and `left` are the budget, and all other fields are released or follow from released values.
"""

import ast
import html
import inspect
import itertools
import math
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ipywidgets

MARK = "background: #FFE69C; color: #000000; margin-left: -2ch"  # 4.5:1 and more, whatever the theme
_POINTER = '<span style="display: inline-block; width: 2ch; user-select: none">▸</span>'  # not copied with the text
_NONE_OF_YOURS = "None of its lines is yours alone: look at what they call, at the names in them, and at the arguments."
_PANES = ("private: for the data holder alone", "released, or follows from it", "budget")


# ---------------------------------------------------------------- the lines that ran
@dataclass(frozen=True)
class Frame:
    """A step of a run, or its end.

    Args:
      step: the yielded tuple; None at the end.
      lines: file and number of every line that ran for it.
      end: the generator's value, or the error it raised; None before the end.
    """

    step: Any
    lines: frozenset[tuple[str, int]]
    end: Any = None


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


def imports(functions: Sequence[Callable[..., Any]]) -> list[str]:
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


def trace(steps: Iterator[Any], functions: Sequence[Callable[..., Any]] = (), most: int = 200) -> list[Frame]:
    """Run a generator, and record for each step the lines that ran, in it and in these functions.

    Args:
      steps: a generator that has not begun.
      functions: other functions to trace.
      most: the number of steps after which the run is stopped.

    >>> def count():
    ...     yield 1
    ...     yield 2
    >>> [frame.step for frame in trace(count())]
    [1, 2, None]
    """
    codes = [getattr(steps, "gi_code", None), *(function.__code__ for function in functions)]
    inside = {(code.co_filename, n) for code in codes if code for n in _numbers(code)}
    seen: set[tuple[str, int]] = set()

    def watch(frame: Any, event: str, argument: Any) -> Any:
        place = frame.f_code.co_filename, frame.f_lineno
        if event == "line" and place in inside:
            seen.add(place)
        return watch if (place[0], frame.f_code.co_firstlineno) in inside else None

    frames: list[Frame] = []
    while len(frames) < most:
        seen.clear()
        step = end = None
        before = sys.gettrace()
        sys.settrace(watch)
        try:
            step = next(steps)
        except StopIteration as stop:
            end = "the end" if stop.value is None else stop.value
        except Exception as error:  # of a reader's own listing, or of a line that uses a value that does not exist
            end = f"{type(error).__name__}: {error}"
        finally:
            sys.settrace(before)
        frames.append(Frame(step, frozenset(seen), end))
        if end is not None:
            break
    return frames


def _numbers(code: Any) -> Iterator[int]:
    yield from (n for _, _, n in code.co_lines() if n)
    yield code.co_firstlineno
    for part in code.co_consts:  # nested functions and comprehensions
        if inspect.iscode(part):
            yield from _numbers(part)


def shown(value: Any) -> str:
    """A value in a few words: numbers to four digits, no more than six of a vector.

    >>> import torch
    >>> shown(torch.tensor([0.123456, 2.0])), shown(True), shown([(1, 2), (3, 3)]), shown(1e-9), shown(None)
    ('[0.1235, 2]', 'yes', '1–2, 3–3', '1e-09', 'none')
    """
    value = value.tolist() if hasattr(value, "tolist") else value
    if value is None or value == []:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list) and isinstance(value[0], tuple):
        return ", ".join("–".join(map(str, pair)) for pair in value)
    if isinstance(value, list):
        return f"[{', '.join(map(shown, value[:6]))}{', …' if len(value) > 6 else ''}]"
    if isinstance(value, tuple):
        return ", ".join(map(shown, value))
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def panes(step: Any) -> dict[str, dict[str, str]]:
    """The values of a step in three groups: private, released, budget.

    >>> from typing import NamedTuple
    >>> Step = NamedTuple("Step", [("t", int), ("private_mean", float), ("g", float), ("paid", float), ("left", float)])
    >>> [*panes(Step(1, 0.5, 0.75, 0.1, 0.9)).values()]
    [{'mean': '0.5'}, {'t': '1', 'g': '0.75'}, {'paid': '0.1', 'left': '0.9'}]
    """
    found: dict[str, dict[str, str]] = {name: {} for name in _PANES}
    for name, value in step._asdict().items():
        place = 0 if name.startswith("private_") else 2 if name in ("paid", "left") else 1
        found[_PANES[place]][name.removeprefix("private_")] = shown(value)
    return found


# ---------------------------------------------------------------- a listing that one steps through
class Stepper:
    """A listing with Play and a slider (left and right arrows) that shows the lines and the values of a step.

    Args:
      run: maps the numbers of the lines to run as printed to the generator of one run, not begun yet.
      functions: the functions to list, the algorithm first.
      printed: by line, a description of the line as printed; each gets a checkbox.
      most: the largest number of steps.

    Attributes:
      controls: "step" and, by number, the checkboxes.
      data: for the step shown: "step" (None at the end), "end", and "lines", the texts of the lines that ran.
      code, readout, box: the ipywidgets it consists of.

    >>> import torch
    >>> from dpnotes.papers.budget_schedules.reference import private_gradient_descent
    >>> def run(printed):
    ...     gradients, noise = lambda x: x - torch.eye(2), lambda t: torch.zeros(2)
    ...     return private_gradient_descent(gradients, torch.zeros(2), [2, 2], 0.5, 1.0, 0.1, noise, printed=printed)
    >>> stepper = Stepper(run, [private_gradient_descent], printed={2: "< in place of <="})
    >>> stepper.controls["step"].value = 3
    >>> stepper.data["end"][0], stepper.data["lines"][-1]
    ('FINISHED', 'return "FINISHED", x')
    >>> stepper.controls[2].value = True
    >>> stepper.data["end"][0], len(stepper.frames)
    ('BUDGET_EXHAUSTED', 2)
    """

    def __init__(
        self,
        run: Callable[[frozenset[int]], Iterator[Any]],
        functions: Sequence[Callable[..., Any]],
        printed: Mapping[int, str] | None = None,
        most: int = 200,
    ):
        self._run, self._functions, self._most = run, functions, most
        self._listings = [(function.__code__.co_filename, listing(function)) for function in functions]
        slider = ipywidgets.IntSlider(min=1, max=1, value=1, description="step")
        slider.layout.width = "min(100%, 36em)"
        play = ipywidgets.Play(min=1, max=1, value=1, interval=700, tooltip="play the steps")
        ipywidgets.jslink((play, "value"), (slider, "value"))
        ipywidgets.jslink((play, "max"), (slider, "max"))
        self.controls: dict[Any, Any] = {"step": slider}
        for line, what in (printed or {}).items():
            self.controls[line] = ipywidgets.Checkbox(
                False, description=f"line {line} as printed: {what}", indent=False, layout={"width": "auto"}
            )
            self.controls[line].observe(self._begin, "value")
        self._play = play
        self.code, self.readout = ipywidgets.HTML(), ipywidgets.HTML()
        self.readout.add_class("dpnotes-readout")
        boxes = [control for name, control in self.controls.items() if name != "step"]
        self.box = ipywidgets.VBox([ipywidgets.HBox([play, slider]), *boxes, self.readout, self.code])
        self.box.add_class("dpnotes-stepper")
        self.frames: list[Frame] = []
        self.data: dict[str, Any] = {}
        slider.observe(self._show, "value")
        self._begin()

    def _begin(self, _: Any = None) -> None:
        lines = frozenset(line for line, control in self.controls.items() if line != "step" and control.value)
        self.frames = trace(self._run(lines), self._functions, self._most)
        slider = self.controls["step"]
        self._play.max = slider.max = len(self.frames)  # a value beyond the end becomes the end
        self._show()

    def _show(self, _: Any = None) -> None:
        number = self.controls["step"].value
        frame = self.frames[number - 1]
        ran = [text.strip() for file, lines in self._listings for n, text in lines if (file, n) in frame.lines]
        self.data = {"step": frame.step, "end": frame.end, "lines": ran}
        self.code.value, self.readout.value = self._marked(frame), self._words(number, frame)

    def _marked(self, frame: Frame) -> str:
        blocks = ["\n".join(imports(self._functions))]
        for file, lines in self._listings:
            texts = [(html.escape(text), (file, n) in frame.lines) for n, text in lines]
            marked = (f'<mark style="{MARK}">{_POINTER}{text}</mark>' if ran else text for text, ran in texts)
            blocks.append("\n".join(marked))
        label = f"the listing of {', '.join(function.__name__ for function in self._functions)}; ▸ marks what ran"
        named = f'role="region" aria-label="{html.escape(label)}" tabindex="0"'
        style = "overflow-x: auto; padding-left: 2ch; word-break: normal"  # lines break between words, not letters
        return f'<pre {named} style="{style}">' + "\n\n".join(filter(None, blocks)) + "</pre>"

    def _words(self, number: int, frame: Frame) -> str:
        if frame.step is None:
            return f'<p aria-live="polite">After {number - 1} steps: {html.escape(shown(frame.end))}.</p>'
        tables = []
        for name, values in panes(frame.step).items():
            rows = "".join(
                f'<tr><th scope="row" style="text-align: left">{html.escape(key)}</th>'
                f'<td style="text-align: left">{html.escape(value)}</td></tr>'
                for key, value in values.items()
            )
            caption = f'<caption style="text-align: left"><b>{name}</b></caption>'
            tables.append(f'<table style="margin: 0 2em 0 0">{caption}{rows}</table>')
        beside = "display: flex; flex-wrap: wrap; align-items: flex-start"
        return f'<div aria-live="polite" style="{beside}">{"".join(tables)}</div>'

    def __repr__(self) -> str:
        return f"Stepper({', '.join(function.__name__ for function in self._functions)})"

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        # A reader without a kernel sees the listing alone: the values of a step are live numbers.
        bundle = {"text/plain": repr(self), "text/html": self._marked(Frame(None, frozenset()))}
        return {**(self.box._repr_mimebundle_() or {}), **bundle}


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
    for place, (left, right) in enumerate(itertools.zip_longest(own, other, fillvalue=Frame(None, frozenset()))):
        what = _difference(left, right, within)
        if what:
            known = {text.strip() for _, text in listing(codes[1])} if codes[1] else set()
            lines = listing(codes[0]) if codes[0] else []
            ran = {number for _, number in left.lines}
            alone = ((n, text.strip()) for n, text in lines if n in ran and text.strip() not in known)
            return Comparison(place, what, tuple(alone))
    return Comparison(len([frame for frame in own if frame.end is None]), "")


def _difference(left: Frame, right: Frame, within: float) -> str:
    if left.step is None or right.step is None:
        if left.step is right.step and _same(left.end, right.end, within):
            return ""
        ends = ["goes on" if frame.end is None else f"ends with {shown(frame.end)}" for frame in (left, right)]
        return f"yours {ends[0]}, and the library's {ends[1]}"
    mine, its = left.step._asdict(), right.step._asdict()
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
