"""The parts of a teaching notebook besides its pictures: exercises, predictions, tables.

All of it prints or shows text that is the same in every run, so that a stored notebook can be compared with a new run.
"""

import copy
import functools
import html
import importlib
import inspect
import math
import re
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from dpnotes.notebook import markup
from dpnotes.theory.cache import Verdicts
from dpnotes.theory.claims import Claim
from dpnotes.theory.premises import word
from dpnotes.theory.symbols import symbols_of

_DATE = re.compile(r"\d+(?:-\d+)+")  # 2018-06-14: a browser breaks it at a hyphen
_LONGEST_WORD = 24  # letters: a longer one, a path or a line of code, may break anywhere


# ---------------------------------------------------------------- exercises
def exercise(mistake: Callable[[Any], str]) -> "Exercise":
    """The decorator that turns a checker into an exercise of the same name.

    A checker maps an answer to the mistake in it, in words, or to "" if the answer is right. It never prints the right
    answer. Its argument is called `function` if the answer has to be one (which then gets copies of its arguments),
    `number` if the answer has to be a finite number, and `answer` otherwise. Its docstring is the question, in
    Markdown without lists, then a line `Hints:` and the hints, from gentle to plain, with blank lines between them. A
    check may take 20 seconds.

    Raises:
      ValueError: a docstring without a question or without hints.

    >>> @exercise
    ... def product(number):
    ...     '''What is 6 times 7?
    ...
    ...     Hints:
    ...       It is even.
    ...     '''
    ...     return near(42)(number)
    >>> product.check(...)
    Not answered yet: put your answer in place of the dots.
    >>> product.check(40)
    Not yet: 40 is too small.
    >>> product.hint()
    Hint 1 of 1: It is even.
    >>> product.check(42)
    Right.
    """
    parts = re.split(r"^Hints:[ \t]*$", inspect.getdoc(mistake) or "", flags=re.MULTILINE)
    question, *hints = [[" ".join(each.split()) for each in re.split(r"\n\s*\n", part.strip())] for part in parts]
    if len(hints) != 1 or not all([*question, *hints[0]]):
        raise ValueError(f"Expected the docstring of {mistake.__name__} to be a question, a line 'Hints:', and hints.")
    return Exercise("\n\n".join(question), hints[0], mistake, 20.0)


class _Unfit(Exception):
    """An answer that is not of the kind that a checker takes; the message is the mistake."""


class _OutOfTime(BaseException):
    """The time limit of a check; not an `Exception`, which an answer may catch."""


class Exercise:
    """A question that checks its answer, with hints one at a time; made by `exercise`.

    The solution is in `dpnotes.solutions`, in the module and under the name of the exercise; a copy for students has no
    such package.
    """

    def __init__(self, question: str, hints: Sequence[str], mistake: Callable[[Any], str], seconds: float):
        self.question = question
        self._mistake, self._hints, self._hinted, self._seconds = mistake, hints, 0, seconds

    def mistake(self, answer: Any) -> str:
        """The mistake in an answer, in words; "" if the answer is right."""
        (expected,) = inspect.signature(self._mistake).parameters
        try:
            with _time_limit(self._seconds):
                return self._mistake(_READ[expected](answer))
        except _Unfit as error:
            return str(error)
        except _OutOfTime:
            return f"there is no result after {self._seconds:g} seconds. Does a loop never end?"
        except (Exception, SystemExit) as error:  # a reader's answer may be anything, and so may its errors
            if type(error) is NameError:  # after a restart, say
                return (
                    f"it uses `{error.name}`, which does not exist: run the cell that defines it, or correct the name."
                )
            return f"it raises {type(error).__name__}: {error}"

    def check(self, answer: Any) -> None:
        """Print whether `answer` is right and, if not, the mistake in it; `...` means no answer."""
        if answer is ...:
            print("Not answered yet: put your answer in place of the dots.")
        else:
            mistake = self.mistake(answer)
            print(f"Not yet: {mistake}" if mistake else "Right.")

    def points(self, answer: Any) -> int:
        """The points for an answer: 1 if it is right, else 0. A teacher's grading cell ends with this number."""
        return int(answer is not ... and not self.mistake(answer))

    def hint(self) -> None:
        """Print the next hint; after the last one it starts again."""
        number = self._hinted % len(self._hints) + 1
        self._hinted += 1
        print(f"Hint {number} of {len(self._hints)}: {self._hints[number - 1]}")

    def solution(self) -> None:
        """Print the solution; a copy for students says that it has none."""
        package, name = "dpnotes.solutions", self._mistake.__module__.rpartition(".")[2]
        try:
            solutions = importlib.import_module(f"{package}.{name}")
        except ModuleNotFoundError as error:
            if error.name is None or not error.name.startswith(package):
                raise
            print("This copy of dpnotes has no solutions: your teacher has them.")
        else:
            print(solutions.SOLUTIONS[self._mistake.__name__])

    def __repr__(self) -> str:
        return f"Exercise: {self.question}"

    def _repr_markdown_(self) -> str:
        return f"**Exercise.** {self.question}"


def _asked(function: Callable[..., Any]) -> Callable[..., Any]:
    """A reader's function on copies of its arguments, so that it cannot change what the checker compares with."""
    if not callable(function):
        raise _Unfit(f"{function!r} is not a function.")

    @functools.wraps(function)
    def asked(*arguments: Any) -> Any:
        # Tensors of a derivative have no deep copy.
        found = function(*(one.clone() if hasattr(one, "clone") else copy.deepcopy(one) for one in arguments))
        if found is ...:
            raise _Unfit("the function still returns the dots.")
        return found

    return asked


def _number(answer: Any) -> float:
    try:
        number = float(answer)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise _Unfit(f"{answer!r} is not a number.")
    return number


_READ: dict[str, Callable[[Any], Any]] = {"function": _asked, "number": _number, "answer": lambda answer: answer}


@contextmanager
def _time_limit(seconds: float) -> Iterator[None]:
    """Raise `_OutOfTime` in the block after `seconds`; no limit outside the main thread, or where there is no alarm."""

    def stop(number: int, frame: Any) -> None:
        raise _OutOfTime

    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return
    handler = signal.signal(signal.SIGALRM, stop)
    others = signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, *others)
        signal.signal(signal.SIGALRM, handler)


def near(value: float, relative: float = 0.01) -> Callable[[float], str]:
    """The checker of an `exercise` whose answer is a number.

    Args:
      value: the right number.
      relative: the allowed relative error.

    >>> near(3.4565)(3.46), near(3.4565)(4)
    ('', '4 is too large.')
    """

    def mistake(number: float) -> str:
        if math.isclose(number, value, rel_tol=relative):
            return ""
        return f"{number:.6g} is too {'small' if number < value else 'large'}."

    return mistake


# ---------------------------------------------------------------- predictions
# Radio buttons of one name are one Tab stop, and arrow keys move inside it. The widget gives them no name, and
# JupyterLab would take the keys, so that a page sets both as soon as the buttons are there.
_ONE_STOP = """<style onload="const group = left => {
    const found = [...(this.closest('.dpnotes-explorer')?.querySelectorAll('input[type=radio]') ?? [])];
    const name = `prediction ${Math.random()}`;
    for (const radio of found) {
        radio.name = name;
        radio.setAttribute('data-lm-suppress-shortcuts', '');
    }
    if (!found.length && left) setTimeout(group, 100, left - 1);
}; group(50)"></style>"""


class Prediction:
    """A prediction followed by a run: nothing is computed or drawn before a choice has been recorded.

    Args:
      question: the question about the run; HTML, and mathematics between dollar signs.
      choices: the possible expectations, each with the reason why it is right or wrong, in a sentence or two.
      run: the computation; returns the data.
      draw: as for an `Explorer`.
      describe: maps data to words; the judgement of the reader's choice, with its reason, precedes them.
      right: the right choice.
      holds: tests whether the run's data confirm that choice.
      options: further options of `Explorer`.

    Attributes:
      explorer: the widget that is shown; its `controls`, `data`, `error`, `readout` and `run` are attributes here, too.

    Raises:
      ValueError: fewer than two choices, one without a reason, or `right` is none of them.

    >>> asked = Prediction(
    ...     "Is 2 + 2 even?", {"yes": "It is twice 2.", "no": "Sums of equal numbers are even."},
    ...     lambda: {"sum": 2 + 2}, lambda data, axes: None, lambda data: f"The sum is {data['sum']}.",
    ...     right="yes", holds=lambda data: data["sum"] % 2 == 0,
    ... )
    >>> asked.run()
    >>> asked.error, asked.data
    ('First choose what you expect.', None)
    >>> asked.controls["prediction"].value = "no"
    >>> asked.run()
    >>> asked.readout.value
    'You expected “no”: not so. Sums of equal numbers are even. The sum is 4.'
    """

    def __init__(
        self,
        question: str,
        choices: Mapping[str, str],
        run: Callable[[], Mapping[str, Any]],
        draw: Callable[..., Any],
        describe: Callable[[Any], str],
        *,
        right: str,
        holds: Callable[[Any], bool],
        **options: Any,
    ):
        import ipywidgets

        from dpnotes.notebook.widgets import Explorer

        if len(choices) < 2 or not all(choices.values()):
            raise ValueError(f"Expected choices={dict(choices)!r} to be two or more, each with its reason.")
        if right not in choices:
            raise ValueError(f"Expected right={right!r} to be one of the choices {[*choices]}.")
        self._question, self._choices, self._right, self._run, self._holds = question, choices, right, run, holds

        def compute(prediction: str | None) -> dict[str, Any]:
            if prediction is None:
                raise ValueError("First choose what you expect.")
            return {**run(), "prediction": prediction}

        def judged(data: Mapping[str, Any]) -> str:
            chosen = data["prediction"]
            verdict = "right" if chosen == right else "not so"
            return f"You expected “{html.escape(chosen)}”: {verdict}. {choices[chosen]} {describe(data)}"

        asked = ipywidgets.RadioButtons(options=[*choices], value=None, description="I expect")
        self.explorer: Explorer = Explorer(
            controls={"prediction": asked},
            compute=compute,
            draw=draw,
            describe=judged,
            heading=question + _ONE_STOP,
            button="Record my prediction and run",
            still=self._repr_html_(),
            **options,
        )
        asked.layout.width = "100%"  # choices are whole sentences

    def unsound(self) -> list[str]:
        """The fault of the prediction itself: a run that does not confirm the right choice."""
        return [] if self._holds(self._run()) else [f"the run does not bear out {self._right!r}"]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # IPython asks for forms in which to show it
            raise AttributeError(name)
        return getattr(self.explorer, name)

    def __repr__(self) -> str:
        return f"Prediction: {markup.plain(self._question)}"

    def _repr_html_(self) -> str:
        choices = "".join(f"<li>{html.escape(choice)}</li>" for choice in self._choices)
        reasons = "".join(
            f"<li>“{html.escape(choice)}”: {'right' if choice == self._right else 'not so'}. {reason}</li>"
            for choice, reason in self._choices.items()
        )
        answer = f"<details><summary>What is right, and why</summary><ul>{reasons}</ul></details>"
        return f"<p>{self._question}</p>\n<p>What do you expect?</p>\n<ul>{choices}</ul>\n{answer}"

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        return {**self.explorer._repr_mimebundle_(), "text/plain": repr(self)}


# ---------------------------------------------------------------- tables
@dataclass(frozen=True, repr=False)
class Table:
    """A table of short texts; mathematics between dollar signs, and an address is a link named by its last part.

    Long formulas wrap: it fits any width that its longest word fits.

    Args:
      columns: the headings.
      rows: for each column one text, or several, which are shown below one another.
      caption: the caption of the table.
      folded: the text in its place until a reader opens it; "": the table is open.

    >>> Table(["schedule", "steps"], [["uniform", "24"], ["dynamic", "31"]])
    schedule  steps
    uniform   24
    dynamic   31
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    caption: str = ""
    folded: str = ""

    def __repr__(self) -> str:
        rows = [[cell if isinstance(cell, str) else " / ".join(cell) for cell in row] for row in self.rows]
        lines = [self.columns, *rows]
        widths = [max(len(line[place]) for line in lines) for place in range(len(self.columns))]
        texts = ["  ".join(map(str.ljust, line, widths)).rstrip() for line in lines]
        return "\n".join([self.caption] * bool(self.caption) + texts)

    def _repr_html_(self) -> str:
        caption = f"<caption>{html.escape(self.caption)}</caption>" if self.caption else ""
        head = "".join(f'<th style="text-align: left">{html.escape(column)}</th>' for column in self.columns)
        body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>\n" for row in self.rows)
        table = f"<table>{caption}<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody></table>"
        return f"<details><summary>{html.escape(self.folded)}</summary>{table}</details>" if self.folded else table


def _cell(texts: str | Sequence[str]) -> str:
    parts = [texts] if isinstance(texts, str) else texts
    shown = "".join(f"<div>{_linked(text)}</div>" for text in parts) if len(parts) > 1 else _linked("".join(parts))
    long = any(len(word) > _LONGEST_WORD for text in parts for word in text.split())
    return f'<td style="text-align: left; vertical-align: top{"; overflow-wrap: anywhere" * long}">{shown}</td>'


def _linked(text: str) -> str:
    if "$" not in text and "https:" not in text:
        return markup.numbers(_DATE.sub(r'<span style="white-space: nowrap">\g<0></span>', html.escape(text)))
    return markup.wrapped(re.sub(r"https://\S+/(\S+)", r'<a href="\g<0>">\1</a>', html.escape(text)))


def claims_table(claims: Iterable[Claim]) -> Table:
    """A table of claims: the verdict computed now, the evidence in words, and below it the formula.

    Below the printed statement stands the corrected one, with its own verdict. A result that is derived here, and
    printed nowhere, is marked as ours. A claim that is confirmed, but rests on one that falls, says so: "exact, given
    ...".

    Args:
      claims: claims of one paper or of several.

    >>> from dpnotes.papers.budget_schedules.claims import CLAIMS
    >>> claims_table(CLAIMS[1:2]).rows[0][:2]
    ['zCDP of the Gaussian mechanism (Lemma C.3)', 'exact']
    """
    rows, known = [], Verdicts()
    for claim in claims:
        verdict, correction, fallen = claim.check(), claim.correction(), known.fallen(claim)
        letters = symbols_of(*claim.statement.expressions)
        parts = [*([markup.typeset(verdict.evidence, letters)] if verdict.evidence else [])]
        parts.append(f"{'ours' if claim.derived_here else 'printed'}: ${claim.printed}$")
        if correction is not None:
            parts.append(f"ours, {word(correction.check(), fallen)}: ${correction.printed}$")
        elif claim.erratum is not None:
            parts.append("ours: to be left out")
        rows.append([f"{claim.title} ({claim.locator})", word(verdict, fallen), parts])
    return Table(["claim", "verdict", "evidence, and the statement"], rows)
