"""Results of experiments in a notebook: the question, the outcome, and the setting beside the paper's.

Every picture and table of a result carries its setting: the profile, and all differences from the paper's setting. A
result that was not run has no verdict.
"""

import html
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dpnotes.experiments import Experiment, outcome, store
from dpnotes.experiments.spec import PROFILES
from dpnotes.notebook import markup
from dpnotes.notebook.teaching import Table

if TYPE_CHECKING:
    import pandas as pd

    from dpnotes.notebook.plots import Picture

_COLUMNS = 110


class Results:
    """The results of a paper's experiments, with a record of those that were shown.

    Args:
      experiments: the experiments of the paper.

    >>> from dpnotes.papers.budget_schedules.experiments import EXPERIMENTS
    >>> results = Results(EXPERIMENTS)
    >>> found = results.show("erub_gain")  # doctest: +ELLIPSIS
    question: Do the bounds of Theorems 4.3 and 4.5, at their exact minima, differ by a factor ln N?
    ...
    >>> results.outcomes().columns
    ['experiment', 'profile', 'outcome']
    """

    def __init__(self, experiments: Iterable[Experiment]) -> None:
        self._experiments = {experiment.name: experiment for experiment in experiments}
        self._shown: list[store.Result] = []

    def show(self, name: str) -> store.Result:
        """Show the question, the outcome, the decision rule and the origin of an experiment's result.

        The result is that of the largest profile with a result to show: paper, else cpu, else quick.

        Raises:
          KeyError: no such experiment.
        """
        from IPython.display import display

        experiment = self._experiments[name]
        found = [store.load(experiment, profile) for profile in reversed(PROFILES) if profile in experiment.specs]
        result = next((one for one in found if one.is_shown), found[-1])
        display(Shown(result, found[0]))
        self._shown.append(result)
        return result

    def outcomes(self) -> Table:
        """A table of the outcomes that were shown; experiments that were not run are marked so."""
        found = [(one, outcome(one.experiment, one.decision)) for one in self._shown]
        rows = [[one.experiment.title, one.spec.profile, f"{each.answer}. {each.standing}"] for one, each in found]
        return Table(["experiment", "profile", "outcome"], [[*map(markup.greek, row)] for row in rows])

    def outstanding(self) -> Table:
        """A table of the profiles without a stored result, and the commands that compute them."""
        found = [store.load(one, profile) for one in self._experiments.values() for profile in one.specs]
        rows = [[one.experiment.title, one.spec.profile, stamp] for one in found if (stamp := store.stamp(one))]
        return Table(["experiment", "profile", "state"], rows or [["none", "–", "every profile has a stored result"]])


@dataclass(frozen=True, repr=False)
class Shown:
    """The question and the outcome of an experiment; folded, the decision rule and the origin.

    Args:
      result: as loaded from the store.
      wanted: the result of the largest profile; if that is another result, its state is shown, too.
    """

    result: store.Result
    wanted: store.Result

    def _parts(self) -> dict[str, str]:
        result, found = self.result, outcome(self.result.experiment, self.result.decision)
        parts = {"question": found.question, "answer": str(found), "rule": result.spec["decision_rule"]}
        parts |= {"chances of the rule": result.chances} if result.chances else {}
        return {name: markup.greek(text) for name, text in parts.items()}

    def _facts(self) -> Table:
        facts = outcome(self.result.experiment, self.result.decision).facts
        return Table(["", "found"], [[*map(markup.greek, fact)] for fact in facts])

    def _origin(self) -> list[str]:
        lines = provenance(self.result).splitlines()
        return lines if self.result is self.wanted else [*lines, f"profile paper: {store.stamp(self.wanted)}"]

    def __repr__(self) -> str:
        told = [_filled(f"{name}: {text}") for name, text in self._parts().items()]
        facts = [_filled(f"found: {': '.join(filter(None, fact))}") for fact in self._facts().rows]
        return "\n".join([*told[:2], *facts, *told[2:], *self._origin()])

    def _repr_html_(self) -> str:
        parts, answer = self._parts(), outcome(self.result.experiment, self.result.decision).answer
        told = f"<p><b>question</b>: {html.escape(parts['question'])}</p>\n"
        told += f"<p><b>{answer}</b>{html.escape(parts['answer'].removeprefix(answer))}</p>\n"
        told += f"{self._facts()._repr_html_()}\n"
        rules = {name: text for name, text in parts.items() if name not in ("question", "answer")}
        rule = "".join(f"<p>{html.escape(text)}</p>" for text in rules.values())
        lines = "<br>".join(map(html.escape, self._origin()))
        for summary, text in ((", ".join(rules), rule), ("where it comes from", f"<p>{lines}</p>")):
            told += f"<details><summary>{summary}</summary>{text}</details>\n"
        return told


def setting(result: store.Result) -> str:
    """The text that every picture and table of a result carries, with its deficiency, if any, first."""
    return "; ".join(filter(None, [store.stamp(result), result.experiment.setting(result.spec.profile)]))


def compared(result: store.Result) -> Table:
    """A table of the paper's figure, which the experiment must have, beside ours: settings, result, and reasons."""
    figure, spec = result.experiment.figure, result.spec
    assert figure is not None
    ours = [(one, one.ours(spec)) for one in figure.settings]
    rows = [[one.what, one.paper, own, one.why if own != one.paper else ""] for one, own in ours]
    rows.append(["what it shows", figure.shows, str(outcome(result.experiment, result.decision)), ""])
    return Table(["", "paper", "ours", "why different"], rows, f"{figure.name}; {setting(result)}")


def results_table(frame: "pd.DataFrame", formats: Mapping[str, str], caption: str = "") -> Table:
    """A table of a data frame's columns as text.

    Args:
      frame: the rows to show.
      formats: heading to the column's name and how to write it, as in a format string: `"{num_steps:d}"`; several
        columns may share a cell, `"{mean:.3f} ± {error:.3f}"`.
      caption: the caption of the table.

    >>> import pandas as pd
    >>> results_table(pd.DataFrame({"n": [250], "mean": [0.1234]}), {"N": "{n}", "loss": "{mean:.2f}"})
    N    loss
    250  0.12
    """
    texts = [[form.format(**row) for form in formats.values()] for row in frame.to_dict("records")]
    rows = [["–" if text == "nan" else text for text in row] for row in texts]
    return Table([*formats], rows, caption)


def provenance(result: store.Result) -> str:
    """The origin of a result, in lines to print under its figure or table.

    Args:
      result: as loaded from the store; a missing, mismatched or disputed result is marked so first.
    """
    stamp = store.stamp(result)
    lines = [stamp] if stamp else []
    if result.manifest:
        manifest = result.manifest
        machines = {f"torch {one['versions']['torch']} on {one['name']}" for one in manifest["environments"]}
        computed = [result.computed, *sorted(machines), f"{manifest['cell_seconds']:.0f} s of computing"]
        lines += [f"{manifest['experiment']}, profile {result.spec.profile}", "; ".join(computed)]
    lines += [f"not accounted: {text}" for text in result.experiment.unaccounted]
    return "\n".join(map(_filled, lines))


def picture(
    result: store.Result,
    draw: Callable[..., Any],
    describe: Callable[[], str],
    widths: Sequence[float] = (1,),
    size: tuple[float, float] = (7.2, 3.8),
) -> "Picture":
    """Draw a result with its setting above, and its origin and the unaccounted privacy costs below.

    The axes stay empty if the result may not be shown.

    Args:
      result: as loaded from the store.
      draw: `draw(*axes)`, called if there are rows.
      describe: returns a description of the picture, called if there are rows.
      widths: relative widths of the panels.
      size: width and height in inches.
    """
    from dpnotes.notebook import plots

    figure, panels = plots.new_figure(widths, size)
    if result.is_shown:
        draw(*panels)
    description = describe() if result.is_shown else "Nothing to see yet."
    stamp, whose = store.stamp(result), result.experiment.figure
    differs = whose is not None and any(one.differs(result.spec) for one in whose.settings)
    plots.headline(figure, setting(result), grave=bool(stamp) or differs)
    if stamp:
        for axes in figure.axes:
            plots.stamp(axes, stamp.partition(":")[0])
    unaccounted = f"not accounted: {' '.join(result.experiment.unaccounted)}" if result.experiment.unaccounted else ""
    if below := "; ".join(filter(None, [result.computed, unaccounted])):
        plots.footnote(figure, below)
    plots.make_room(figure)
    return plots.Picture(figure, f"{setting(result)}. {description}")


def table(result: store.Result, rows: "Callable[[pd.DataFrame], pd.DataFrame]", formats: Mapping[str, str]) -> Table:
    """A table of a result's rows under its setting; the headings alone if the result may not be shown.

    Args:
      result: as loaded from the store.
      rows: maps the result's frame to the rows to show, called if there are any.
      formats: as in `results_table`.
    """
    if not result.is_shown:
        return Table([*formats], [], setting(result))
    return results_table(rows(result.frame), formats, setting(result))


def _filled(text: str) -> str:
    return textwrap.fill(text, _COLUMNS, subsequent_indent="  ")
