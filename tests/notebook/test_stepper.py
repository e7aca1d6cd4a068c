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

from dpnotes.notebook.stepper import Frame, Stepper, compare, listing, panes, shown, trace
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


def test_the_lines_that_a_step_ran_are_marked_and_no_others():
    stepped = stepper(spiders, adaptive.stochastic_spider, adaptive.node)
    fresh = [frame.step.fresh for frame in stepped.frames if frame.step is not None]
    assert {*fresh} == {True, False}
    for place, is_fresh in enumerate(fresh, start=1):
        stepped.controls["step"].value = place
        lines = "\n".join(stepped.data["lines"])
        assert ("# 5: O1" in lines, "# 7: O2" in lines) == (is_fresh, not is_fresh)
        assert "S, k = [], 0" in lines, "of a function that it calls"
        marked = re.findall(r"<mark[^>]*><span[^>]*>▸</span>(.*?)</mark>", stepped.code.value)
        assert len(marked) == len(stepped.data["lines"]) < stepped.code.value.count("\n")


def test_control_of_a_function_that_is_not_listed_no_line_is_known():
    stepped = stepper(spiders, adaptive.stochastic_spider)
    assert "S, k = [], 0" not in "\n".join(stepped.data["lines"])


def test_who_knows_what_is_said_in_three_panes():
    stepped = stepper()
    private, released, budget = re.findall(r"<table.*?</table>", stepped.readout.value)
    assert "private" in private and ">mean<" in private and ">g<" not in private
    assert "released" in released and all(f">{name}<" in released for name in ("t", "g", "m", "x"))
    assert "budget" in budget and ">0.75<" in budget and ">left<" in budget
    assert not [name for name in panes(next(spiders())).values() if not name], "every pane has something in it"


def test_the_last_place_says_why_it_ended():
    stepped = stepper()
    assert stepped.controls["step"].max == 5
    stepped.controls["step"].value = 5
    assert stepped.data["step"] is None and stepped.data["end"][0] == "FINISHED"
    assert "After 4 steps: FINISHED" in stepped.readout.value


def test_a_printed_line_is_switched_on_and_off_again():
    stepped = stepper(printed={2: "< in place of <="})
    stepped.controls["step"].value = 5
    stepped.controls[2].value = True
    assert stepped.controls["step"].value == stepped.controls["step"].max == 4, "a step fewer, and the end"
    assert stepped.data["end"][0] == "BUDGET_EXHAUSTED"
    assert any(line.startswith('return "BUDGET_EXHAUSTED"') for line in stepped.data["lines"])
    stepped.controls[2].value = False
    assert stepped.controls["step"].max == 5 and stepped.data["step"].left == 0.0


def test_a_run_without_end_is_left_and_an_error_is_the_end_of_one():
    assert len(stepper(most=2).frames) == 2
    no_number: Any = "none"
    broken = stepper(lambda printed: descends(printed, partial(schedules.private_gradient_descent, beta=no_number)))
    assert "TypeError" in broken.data["end"] and "TypeError" in broken.readout.value


def test_it_reads_without_colours_and_without_a_kernel():
    stepped = stepper()
    assert "▸" in stepped.code.value and 'aria-label="the listing of private_gradient_descent' in stepped.code.value
    assert 'tabindex="0"' in stepped.code.value and 'aria-live="polite"' in stepped.readout.value
    assert "&lt; left if 2 in printed" in stepped.code.value, "escaped"
    bundle = stepped._repr_mimebundle_()
    assert bundle["text/plain"] == repr(stepped) == "Stepper(private_gradient_descent, clipped)"
    assert "<mark" not in bundle["text/html"] and "affordable" in bundle["text/html"]
    stepped.controls["step"].value = 3
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
        assert trace(descends()) and sys.gettrace() is other
    finally:
        sys.settrace(before)


def test_values_are_shown_in_a_few_words():
    assert shown(torch.arange(9.0)) == "[0, 1, 2, 3, 4, 5, …]" and shown(False) == "no" and shown([]) == "none"
    assert shown(("FINISHED", torch.tensor([0.12345]))) == "FINISHED, [0.1235]" and shown(10**12) == "1000000000000"


# ---------------------------------------------------------------- a listing of the reader's own
def pasted(shown_html: str) -> dict[str, Any]:
    """Return the names defined by a pasted listing; text marked `user-select: none` is not copied."""
    text = re.sub(r'<span style="[^"]*user-select: none[^"]*">[^<]*</span>', "", shown_html)
    text = html.unescape(re.sub("<[^>]*>", "", text))
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
    everything = Frame(None, frozenset((one.__code__.co_filename, n) for one in functions for n, _ in listing(one)))
    names = pasted(Stepper(lambda printed: iter(()), functions)._marked(everything))
    for function in functions:
        for code in codes(names[function.__name__].__code__):
            used = {each.argval for each in dis.get_instructions(code) if each.opname == "LOAD_GLOBAL"}
            assert used <= names.keys() | vars(builtins).keys()


def test_a_listing_pasted_as_a_browser_shows_it_is_the_library_s():
    stepped = stepper()
    assert "▸" in stepped.code.value
    mine = pasted(stepped.code.value)["private_gradient_descent"]
    assert repr(compare(descends(function=mine), descends())) == "The same in all 4 steps, and at the end."


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
        ("G * sigma * noise(t) / len(rows)", "G * sigma * noise(t)", 0, "g: "),
        ("left = left - rho  # 3", "left = left - 2 * rho  # 3", 0, "left: 0.5, not 0.75"),
        ("else rho <= left + 1e-9 * R", "else rho < left", 3, "yours ends with BUDGET_EXHAUSTED"),
    ],
)
def test_the_first_step_that_differs_is_found_with_its_line(tmp_path, line: str, instead: str, steps: int, what: str):
    found = compare(descends(function=copied(tmp_path, line, instead)), descends())
    assert found.steps == steps and found.what.startswith(what)
    ((number, text),) = found.lines
    assert instead in text and f"line {number}: {text}" in repr(found) and f"same in {steps} steps; then" in repr(found)


def test_a_copy_is_the_same_and_other_arguments_are_no_line_s_fault(tmp_path):
    copy = copied(tmp_path, "# 3\n", "# the budget that is left\n")
    assert repr(compare(descends(function=copy), descends())) == "The same in all 4 steps, and at the end."
    other = compare(descends(function=partial(schedules.private_gradient_descent, beta=0.5)), descends())
    assert other.what.startswith("m: ") and not other.lines and "None of its lines is yours alone" in repr(other)


def test_a_copy_that_goes_on_raises_or_says_less_differs(tmp_path):
    assert "goes on" in compare(descends(), descends(frozenset({2}))).what
    broken = compare(descends(function=copied(tmp_path, "left = left - rho", "left = left - roh")), descends())
    assert "NameError" in broken.what and broken.lines[0][1].startswith("left = left - roh")
    assert compare(iter(["no named tuple"]), iter([])).what.startswith("yours goes on")
