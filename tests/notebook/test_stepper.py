"""Stepping through a reference and comparing a changed copy of it, without a browser."""

import builtins
import dis
import html
import inspect
import linecache
import re
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from dpnotes.notebook.stepper import KINDS, Moment, Stepper, compare, listing, trace
from dpnotes.papers.adaptive_batch import reference as adaptive
from dpnotes.papers.budget_schedules import reference as schedules
from dpnotes.papers.drift_escape import reference as escape
from dpnotes.papers.goldstein import reference as nonsmooth
from dpnotes.papers.noisy_sgd import reference as noisy

DATA = torch.tensor([[0.1], [-0.1]]).repeat(50, 1)


def descends(
    printed: frozenset[int] = frozenset(), function: Any = schedules.private_gradient_descent
) -> Iterator[Any]:
    return function(
        lambda x: x - DATA, torch.ones(1), [2.0] * 4, 1.0, 1.0, 0.1, lambda t: torch.ones(1), printed=printed
    )


def rows(x: torch.Tensor, places: range) -> torch.Tensor:
    return x.sin() + DATA[places.start : places.stop]


def spiders(printed: frozenset[int] = frozenset()) -> Iterator[Any]:
    return adaptive.stochastic_spider(
        rows, torch.ones(1), n=100, T=9, b=10, c=8.0, kappa=1.5, sigma=0.1, Sigma=4, G=1.0, M=2.0, threshold=0.1,
        Gamma=3, zeta=0.1, noise=lambda i: torch.ones(1), kick=lambda t: torch.ones(1), printed=printed,
    )  # fmt: skip


def stepper(run: Callable[..., Any] = descends, *functions: Any, **more: Any) -> Stepper:
    return Stepper(run, functions or [schedules.private_gradient_descent, schedules.clipped], **more)


def lines_of(stepped: Stepper) -> dict[int, str]:
    """Return the lines of the functions of a stepper by number; its functions are in one file."""
    return {number: text.strip() for function in stepped._functions for number, text in listing(function)}


def at(stepped: Stepper, text: str, step: int = 1) -> Moment:
    """Go to the first moment before a line, given by its beginning, of a step."""
    for place, moment in enumerate(stepped.trace.moments, start=1):
        if moment.step == step - 1 and lines_of(stepped).get(moment.line, "").startswith(text):
            stepped.controls["line"].value = place
            return stepped.data
    raise AssertionError(f"{text} does not run in step {step}")


def test_every_line_that_runs_is_stepped_through_and_no_other():
    stepped = stepper(spiders, adaptive.stochastic_spider, adaptive.node)
    moments, texts = stepped.trace.moments, lines_of(stepped)
    assert stepped.controls["line"].max == len(moments) and moments[-1].line == 0
    fresh = [step.fresh for step in stepped.trace.steps]
    assert {*fresh} == {True, False}
    for place, is_fresh in enumerate(fresh):
        ran = "\n".join(texts[moment.line] for moment in moments if moment.step == place and moment.function)
        assert ("# 5: O1" in ran, "# 7: O2" in ran) == (is_fresh, not is_fresh)
        assert "S, k = [], 0" in ran, "of a function that it calls"
    for moment in moments[1:-1:7]:
        stepped.controls["line"].value = moments.index(moment) + 1
        (marked,) = re.findall(r"<mark [^>]*>▸ (.*?)</mark>", stepped.code.value)
        assert html.unescape(marked) == texts[moment.line] and stepped.controls["step"].value == moment.step + 1
        assert f'aria-label="{moment.function}' in stepped.code.value


def test_what_a_line_changes_stands_first_and_what_it_does_not_change_is_not_marked():
    stepped = stepper()
    assert not stepped.trace.moments[0].changed, "nothing ran before"
    before, after = at(stepped, "left = left - rho"), at(stepped, "g = private_mean")
    assert after.changed == {"left"} and (before.values["left"], after.values["left"]) == ("1", "0.75")
    first, *others = re.findall(r"<table.*?</table>", stepped.values.value)
    assert "changed just now" in first and ">left<" in first and "budget; R_{t+1}, in units of R" in first
    assert ">left<" not in "".join(others) and ">rho<" in "".join(others)
    entered = at(stepped, "return private_rows * (longest")
    assert entered.function == "clipped" and not entered.changed and entered.values["longest"] == "1"


def test_the_budget_has_units_and_stays_in_sight_in_functions_that_are_called():
    for run, functions, unit in (
        (descends, [schedules.private_gradient_descent, schedules.clipped], "in units of R"),
        (spiders, [adaptive.stochastic_spider, adaptive.node], "number of unused examples"),
    ):
        stepped = stepper(run, *functions)
        assert "left" not in at(stepped, "for t").values or run is descends, "nothing is paid before the first step"
        stepped.controls["step"].value = 2
        while stepped.data.function == functions[0].__name__:
            stepped.controls["line"].value += 1
        assert stepped.data.function == functions[1].__name__
        budget = next(each for each in re.findall(r"<table.*?</table>", stepped.values.value) if "budget" in each)
        assert ">left<" in budget and unit in budget and ">paid<" in budget


def test_kinds_follow_from_the_fields_of_the_step():
    stepped = stepper()
    names = ("private_rows", "private_mean", "g", "left", "paid", "rho", "eta", "released")
    kinds = ("private", "private", "released", "budget", "budget", "public", "public", "released")
    assert tuple(map(stepped.kind, names)) == kinds
    tables = dict(re.findall(r"<b>([^<]*)</b>(.*?)</table>", at(stepped, "yield") and stepped.values.value))
    assert ">private_mean<" in tables[KINDS["private"]] and ">rho<" in tables["public"] and ">g<" in tables["released"]


def test_the_last_place_says_why_it_ended():
    stepped = stepper()
    assert stepped.controls["step"].max == 5
    stepped.controls["line"].value = stepped.controls["line"].max
    assert stepped.data.function == "" and stepped.trace.end[0] == "FINISHED" and stepped.data.step == 4
    assert "After 4 steps: FINISHED" in stepped.values.value and "<mark" not in stepped.code.value


def test_a_printed_line_is_switched_on_and_off_again_at_the_same_line():
    stepped = stepper(printed={2: "< in place of <="})
    before = at(stepped, "if not affordable", step=4)
    assert before.values["affordable"] == "yes"
    stepped.controls[2].value = True
    assert stepped.data.line == before.line and stepped.data.values["affordable"] == "no"
    assert stepped.trace.end[0] == "BUDGET_EXHAUSTED" and stepped.controls["step"].max == 4
    stepped.controls[2].value = False
    assert stepped.data == before and stepped.controls["step"].max == 5
    stepped.controls["line"].value = stepped.controls["line"].max
    stepped.controls[2].value = True
    assert stepped.data.function == "", "from the end to the end"


def test_a_run_without_end_is_left_and_an_error_is_the_end_of_one():
    assert [moment.step for moment in stepper(most=2).trace.moments[-2:]] == [1, 2]
    no_number: Any = "none"
    broken = stepper(lambda printed: descends(printed, partial(schedules.private_gradient_descent, beta=no_number)))
    broken.controls["line"].value = broken.controls["line"].max
    assert "TypeError" in broken.trace.end and "TypeError" in broken.values.value


def test_a_list_that_grows_is_said_as_it_was():
    def grow() -> Iterator[list[int]]:
        found = []
        for place in range(3):
            found.append(place)
            yield found

    said = [moment.values["found"] for moment in trace(grow()).moments if "found" in moment.changed]
    assert said == ["none", "[0]", "[0, 1]", "[0, 1, 2]"]


def test_it_reads_without_colours_and_without_a_kernel():
    stepped = stepper()
    assert 'aria-current="step"' in stepped.code.value and "▸" in stepped.code.value and stepped.code.tabbable
    assert 'aria-live="polite"' in stepped.values.value and stepped.values.tabbable
    bundle = stepped._repr_mimebundle_()
    assert bundle["text/plain"] == repr(stepped) == "Stepper(private_gradient_descent, clipped)"
    figure, rest = bundle["text/html"].split("</figure>")
    assert figure.startswith("<figure>"), "as tests/nbval.cfg has it"
    assert ">0.75<" in figure.replace(" <small>", "<") and "after the first step" in figure, (
        "live numbers: not compared"
    )
    assert "&lt; left if 2 in printed" in rest and "<mark" not in rest, "escaped"
    at(stepped, "yield", step=3)
    assert stepped._repr_mimebundle_()["text/html"] == bundle["text/html"], "what is stored is the same in every run"


def test_a_listing_has_no_docstring_and_all_of_its_lines():
    goldstein = (nonsmooth.o2nc, nonsmooth.single_pass_from_losses)  # the second one's signature ends with a comment
    for function in (schedules.private_gradient_descent, adaptive.stochastic_spider, escape.drift_escape, *goldstein):
        text, source = [line for _, line in listing(function)], inspect.getsource(function)
        assert text[0] == source.splitlines()[0] and '"""' not in "\n".join(text)
        assert "\n".join(text).endswith(source.rpartition('"""')[2].strip("\n"))
        assert 15 <= len(text) <= 40


def test_who_traced_before_traces_again():
    def other(frame: Any, event: str, argument: Any) -> None:
        return None

    before = sys.gettrace()
    sys.settrace(other)
    try:
        assert trace(descends()).moments and sys.gettrace() is other
    finally:
        sys.settrace(before)


# ---------------------------------------------------------------- a listing of the reader's own
def pasted(stepped: Stepper) -> dict[str, Any]:
    """Return the names defined by the listing of a stepper, pasted."""
    (listed,) = re.findall(r"<pre[^>]*>(.*?)</pre>", stepped.whole.value, re.DOTALL)
    text = html.unescape(listed)
    names: dict[str, Any] = {"__name__": "__main__"}
    linecache.cache["<cell>"] = (len(text), None, text.splitlines(keepends=True), "<cell>")
    exec(compile(text, "<cell>", "exec"), names)
    return names


def codes(code: Any) -> Iterator[Any]:
    yield code
    for part in code.co_consts:
        if inspect.iscode(part):
            yield from codes(part)


LISTED = {  # as listed in the notebooks 01 to 05 and 04b
    "01": [schedules.private_gradient_descent, schedules.clipped],
    "02": [noisy.clipped_noisy_sgd],
    "03": [adaptive.stochastic_spider, adaptive.node, adaptive.clipped],
    "04": [escape.drift_escape, escape.adaptive_dp_spider],
    "04b": [escape.distributed_adaptive_dp_spider, escape.drift_escape],
    "04b, models": [escape.distributed_model_selection, escape.errors],
    "05": [nonsmooth.o2nc, nonsmooth.single_pass_from_losses, nonsmooth.two_point, nonsmooth.clipped, nonsmooth.node],
}


@pytest.mark.parametrize("functions", LISTED.values(), ids=LISTED)
def test_a_pasted_listing_has_all_of_its_names(functions: list[Callable[..., Any]]):
    names = pasted(Stepper(lambda printed: iter(()), functions))
    for function in functions:
        for code in codes(names[function.__name__].__code__):
            used = {each.argval for each in dis.get_instructions(code) if each.opname == "LOAD_GLOBAL"}
            assert used <= names.keys() | vars(builtins).keys()


def copied(tmp_path: Path, line: str, instead: str) -> Any:
    """Return the module as a reader would copy it with one line changed."""
    source = inspect.getsource(schedules)
    assert source.count(line) == 1
    path = tmp_path / "mine.py"
    path.write_text(source.replace(line, instead))
    names: dict[str, Any] = {}
    exec(compile(path.read_text(), str(path), "exec"), names)
    return names["private_gradient_descent"]


@pytest.mark.parametrize(
    ("line", "instead", "steps", "what"),
    [
        ("x = x - eta * m", "x = x + eta * m", 0, "x: "),
        ("G * sigma * noise(t) / len(private_rows)", "G * sigma * noise(t)", 0, "g: "),
        ("left = left - rho  # 3", "left = left - 2 * rho  # 3", 0, "left: 0.5, not 0.75"),
        ("else rho <= left + 1e-9 * R", "else rho < left", 3, "yours ends with BUDGET_EXHAUSTED"),
    ],
)
def test_the_first_step_that_differs_is_found_with_its_line(tmp_path, line: str, instead: str, steps: int, what: str):
    found = compare(descends(function=copied(tmp_path, line, instead)), descends())
    assert found.steps == steps and found.what.startswith(what)
    ((number, text),) = found.lines
    assert instead in text and f"line {number}: {text}" in repr(found) and f"same in {steps} steps; then" in repr(found)


def test_a_copy_that_goes_on_raises_or_says_less_differs(tmp_path):
    assert "goes on" in compare(descends(), descends(frozenset({2}))).what
    broken = compare(descends(function=copied(tmp_path, "left = left - rho", "left = left - roh")), descends())
    assert "NameError" in broken.what and broken.lines[0][1].startswith("left = left - roh")
    assert compare(iter(["no named tuple"]), iter([])).what.startswith("yours goes on")
