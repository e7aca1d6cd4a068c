"""What a teaching notebook asks and shows beside its pictures: exercises, predictions, tables.

All of it prints or shows text that is the same in every run, so that a stored notebook can be compared with a new run.
"""

import html
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dpnotes.theory.claims import Claim

if TYPE_CHECKING:
    from dpnotes.notebook.widgets import Explorer


# ---------------------------------------------------------------- exercises
class Exercise:
    """A question that checks its answer, with hints one at a time and a solution.

    Args:
      question: what is asked; Markdown.
      mistake: an answer to what is wrong with it, or to "" if it is right. An error it raises on a strange answer
        counts as wrong.
      hints: from gentle to plain.
      solution: how one gets there.

    >>> exercise = Exercise("What is 6 times 7?", near(42), hints=["It is even."], solution="6 * 7 = 42.")
    >>> exercise.check(...)
    Not answered yet: put your answer in place of the dots.
    >>> exercise.check(40)
    Not yet: 40 is too small.
    >>> exercise.hint()
    Hint 1 of 1: It is even.
    >>> exercise.check(42)
    Right.
    """

    def __init__(self, question: str, mistake: Callable[[Any], str], hints: Sequence[str], solution: str):
        self.question, self._mistake, self._hints, self._solution, self._hinted = question, mistake, hints, solution, 0

    def check(self, answer: Any) -> None:
        """Say whether `answer` is right and, if not, what is wrong with it; `...` stands for no answer."""
        if answer is ...:
            print("Not answered yet: put your answer in place of the dots.")
            return
        try:
            mistake = self._mistake(answer)
        except Exception as error:  # the reader's answer may be anything, and so may what it raises
            mistake = f"it raises {type(error).__name__}: {error}"
        print(f"Not yet: {mistake}" if mistake else "Right.")

    def hint(self) -> None:
        """Print the next hint; after the last one it starts again."""
        number = self._hinted % len(self._hints) + 1
        self._hinted += 1
        print(f"Hint {number} of {len(self._hints)}: {self._hints[number - 1]}")

    def solution(self) -> None:
        """Print the solution."""
        print(self._solution)

    def __repr__(self) -> str:
        return f"Exercise: {self.question}"

    def _repr_markdown_(self) -> str:
        return f"**Exercise.** {self.question}"


def near(value: float, relative: float = 0.01) -> Callable[[Any], str]:
    """The rule of an `Exercise` whose answer is a number.

    Args:
      value: the right one.
      relative: how far an answer may be off.

    >>> near(3.4565)(3.46), near(3.4565)(4), near(3.4565)("four")
    ('', '4 is too large.', "'four' is not a number.")
    """

    def mistake(answer: Any) -> str:
        try:
            number = float(answer)
        except (TypeError, ValueError):
            return f"{answer!r} is not a number."
        if math.isclose(number, value, rel_tol=relative):
            return ""
        return f"{answer} is {'too small' if number < value else 'too large' if number > value else 'no number'}."

    return mistake


def predict(
    question: str,
    choices: Sequence[str],
    run: Callable[[], Mapping[str, Any]],
    draw: Callable[..., Any],
    describe: Callable[[Any], str],
    **options: Any,
) -> "Explorer":
    """Ask for a prediction, and only then run: nothing is computed or drawn before one has been recorded.

    Args:
      question: what will happen? HTML, and mathematics between dollar signs.
      choices: the answers to choose from.
      run: the work; gives the data.
      draw: as for an `Explorer`.
      describe: data to words; the reader's prediction is put before them.
      options: further ones of `Explorer`.

    Returns:
      The widget; its `.data` has the prediction too.

    >>> asked = predict("Is 2 + 2 even?", ["yes", "no"], lambda: {"sum": 2 + 2}, lambda data, axes: None,
    ...                 lambda data: f"The sum is {data['sum']}.")
    >>> asked.run()
    >>> asked.error, asked.data
    ('First choose what you expect.', None)
    >>> asked.controls["prediction"].value = "yes"
    >>> asked.run()
    >>> asked.readout.value
    'You expected “yes”. The sum is 4.'
    """
    import ipywidgets

    from dpnotes.notebook.widgets import Explorer

    def compute(prediction: str | None) -> dict[str, Any]:
        if prediction is None:
            raise ValueError("First choose what you expect.")
        return {**run(), "prediction": prediction}

    return Explorer(
        controls={"prediction": ipywidgets.RadioButtons(options=choices, value=None, description="I expect")},
        compute=compute,
        draw=draw,
        describe=lambda data: f"You expected “{html.escape(data['prediction'])}”. {describe(data)}",
        heading=question,
        button="Record my prediction and run",
        hidden=True,
        **options,
    )


# ---------------------------------------------------------------- tables
@dataclass(frozen=True, repr=False)
class Table:
    """A table of short texts; mathematics between dollar signs, and an address is a link named by its last part.

    Args:
      columns: the headings.
      rows: one text a column.
      caption: what it is a table of.
      folded: what stands in its place until a reader opens it; "": it is open.

    >>> Table(["schedule", "steps"], [["uniform", "24"], ["dynamic", "31"]])
    schedule  steps
    uniform   24
    dynamic   31
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""
    folded: str = ""

    def __repr__(self) -> str:
        lines = [self.columns, *self.rows]
        widths = [max(len(line[place]) for line in lines) for place in range(len(self.columns))]
        texts = ["  ".join(map(str.ljust, line, widths)).rstrip() for line in lines]
        return "\n".join([self.caption] * bool(self.caption) + texts)

    def _repr_html_(self) -> str:
        caption = f"<caption>{html.escape(self.caption)}</caption>" if self.caption else ""
        head = "".join(f'<th style="text-align: left">{html.escape(column)}</th>' for column in self.columns)
        body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>\n" for row in self.rows)
        table = f"<table>{caption}<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody></table>"
        return f"<details><summary>{html.escape(self.folded)}</summary>{table}</details>" if self.folded else table


def _cell(text: str) -> str:
    linked = re.sub(r"https://\S+/(\S+)", r'<a href="\g<0>">\1</a>', html.escape(text))
    return f'<td style="text-align: left; vertical-align: top">{linked}</td>'


def claims_table(claims: Iterable[Claim]) -> Table:
    """Each claim as printed with the verdict computed now; below it what we would print, with its own verdict.

    What is derived here, and printed nowhere, is ours from the beginning.

    Args:
      claims: of one paper or of several.

    >>> from dpnotes.papers.budget_schedules.claims import CLAIMS
    >>> claims_table(CLAIMS[1:2]).rows[0][:2]
    ['zCDP of the Gaussian mechanism (Lemma C.3)', 'printed']
    """
    rows = []
    for claim in claims:
        whose = "ours" if claim.derived_here else "printed"
        rows.append([f"{claim.title} ({claim.locator})", whose, f"${claim.printed}$", str(claim.check())])
        correction = claim.correction()
        if correction is not None:
            rows.append(["", "ours", f"${correction.printed}$", str(correction.check())])
        elif claim.erratum is not None:
            rows.append(["", "ours", "to be left out", ""])
    return Table(["claim", "", "statement", "verdict"], rows)
