"""The notebooks in a real chromium: all cells run, sliders change readout and picture, without browser errors."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import nbformat
import pytest
from browser import Notebook, jupyterlab, launched

from dpnotes.notebook import copies
from dpnotes.notebook.write import METADATA
from tests.notebook.test_write import EXPLORER

if TYPE_CHECKING:
    from playwright.sync_api import Locator

pytestmark = pytest.mark.browser
FOLDER = Path(__file__).parents[1] / "notebooks"
NOTEBOOKS = [path.relative_to(FOLDER).as_posix() for path in copies.notebooks()]
FAULTY = """\
from IPython.display import HTML, display

display(HTML('<img src="http://example.org/tracker.png">'))
display(HTML('<p style="color: #eeeeee">light words</p><p style="color: #222222">dark words</p>'))
display(HTML('<div style="width: 900px">wide</div>'))
display(HTML('<div style="width: 90px; overflow-x: auto"><div style="width: 200px">hidden</div></div>'))
""" + EXPLORER.replace('data["area"]', "1")

MAPPED = """\
figure, (axes,) = plots.new_figure()
plots.heat_map(axes, range(9), range(9), [[8 * i + j for i in range(9)] for j in range(9)], contours=[40])
plots.Picture(figure, "a map")"""

LISTED = """\
import torch
from dpnotes.notebook.stepper import Stepper
from dpnotes.papers.budget_schedules.reference import clipped, private_gradient_descent as descent

run = lambda printed: descent(lambda x: x - torch.eye(2), torch.zeros(2), [2, 2], 0.5, 1.0, 0.1, torch.ones)
Stepper(run, [descent, clipped])"""


# Its last value ends the kernel, and one cell takes a minute when it runs first.
FRAIL = (
    EXPLORER.replace('{"area": side**2}', '{"area": side**2 if side < 9 else os._exit(1)}'),
    """\
Explorer(
    controls={"side": slider("side", 1, 9, value=3)},
    compute=lambda side: time.sleep(60 if side == 3 else 0) or {"area": side},
    draw=lambda data, axes: plots.curve(axes, [0, data["area"]], [0, 1]),
    describe=lambda data: f"The side is {data['area']}.",
    button="Run", still="A still.",
)""",
    "tries = globals().get('tries', 0) + 1\nprint('try', tries, flush=True)\ntime.sleep(60 if tries == 1 else 0)",
)
PREDICTED = """\
from dpnotes.notebook.teaching import Prediction

Prediction(
    "Even?", {"yes": "It is.", "no": "Halve it.", "neither": "Count."}, lambda: {"sum": 4}, lambda data, axes: None,
    lambda data: f"It is {data['sum']}.", right="yes", holds=lambda data: True,
)"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copies of the notebooks, because JupyterLab writes to opened files, and one with faults."""
    root = tmp_path_factory.mktemp("notebooks")
    (root / "evidence").mkdir()
    for name in NOTEBOOKS:
        shutil.copy(FOLDER / name, root / name)
    spoils = nbformat.v4.new_output("stream", name="stdout", text="the answer\n")
    folded = nbformat.v4.new_code_cell(
        "print('the answer')", outputs=[spoils], execution_count=1, metadata={"jupyter": {"outputs_hidden": True}}
    )
    unset, code = nbformat.v4.new_markdown_cell(r"$\begin{nosuchthing} x$"), nbformat.v4.new_code_cell
    made = {
        "faulty": [unset, code(FAULTY), code("1 / 0")],
        "explored": [code(EXPLORER), code(MAPPED)],
        "frail": [code(source) for source in ("import os, time\n" + FRAIL[0], *FRAIL[1:])],
        "predicted": [code(PREDICTED), code(PREDICTED)],
        "folded": [folded, code(LISTED)],
    }
    for name, cells in made.items():
        nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=METADATA), root / f"{name}.ipynb")
    return root


@pytest.fixture(scope="module")
def served(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the server that all tests share."""
    with jupyterlab(folder, tmp_path_factory.mktemp("home")) as found:
        yield found


@pytest.fixture(scope="module")
def opened(served: str) -> Iterator:
    """Open a notebook by its name; all tests share one browser, too."""
    with launched() as chromium:
        yield lambda name: Notebook.opened(chromium, served, name)


def a_row_opens_its_derivation(notebook: Notebook) -> None:
    table = notebook.page.locator(".dpnotes-claims")
    paper, severity = table.locator("select").nth(0), table.locator("select").nth(1)
    paper.select_option("drift_escape")
    severity.select_option("rate")
    notebook.wait_until_idle()
    names = table.locator(".dpnotes-claim:visible")
    row = names.filter(has_text="drift_escape.thm2").first
    row.click()
    table.get_by_text("wording for the authors").wait_for(timeout=10_000)
    table.get_by_text("fresh gradients: data (2/17)").first.wait_for(timeout=10_000)
    table.locator("mjx-container").first.wait_for(timeout=10_000)
    row.click()
    table.get_by_text("wording for the authors").wait_for(state="detached", timeout=10_000)
    table.locator("input[type=text]").first.fill("no such words")
    notebook.page.keyboard.press("Enter")
    table.get_by_text("0 of").wait_for(timeout=10_000)
    assert names.count() == 0


def another_theorem_brings_its_own_sliders(notebook: Notebook) -> None:
    chosen = notebook.page.locator("select").filter(has_text="drift_escape.thm2").first
    (explorer, *_) = notebook.explorers()
    before = explorer.locator(".dpnotes-readout").inner_text()
    option = next(o for o in chosen.locator("option").all() if "goldstein.thm3.1" in o.inner_text())
    chosen.select_option(value=option.get_attribute("value"))
    notebook.wait_until_idle()
    notebook.page.locator(".dpnotes-explorer").get_by_text("Phi", exact=True).first.wait_for(timeout=10_000)
    (explorer, *_) = notebook.explorers()
    assert explorer.locator(".dpnotes-readout").inner_text() != before
    assert notebook.move_slider(explorer, 0, "ArrowRight", 2)


def the_listing_is_stepped_through(notebook: Notebook, stepper: "Locator") -> None:
    box = stepper.bounding_box()
    assert box is not None and box["height"] <= 400
    first = notebook.shown(stepper)
    lines = [first, *(notebook.step(stepper, "ArrowRight") for _ in range(3))]
    assert len({marked for _, marked in lines}) == 4, "another line is marked with each key"
    assert any("changed just now" in values for values, _ in lines)
    assert [notebook.step(stepper, "ArrowLeft") for _ in range(3)] == lines[2::-1], "one goes back to what was there"
    values, _ = notebook.step(stepper, "ArrowRight", slider=1)
    assert "private" in values and "budget" in values and "zCDP" in values, "the second step has what the first paid"
    assert "▸" in stepper.locator("mark").inner_text()
    pane, marked = stepper.locator("mark").evaluate("""mark => [mark.closest('.widget-html'), mark].map(
        part => (({top, bottom}) => ({top, bottom}))(part.getBoundingClientRect()))""")
    assert pane["top"] <= marked["top"] and marked["bottom"] <= pane["bottom"], "the marked line is in sight"
    assert notebook.step(stepper, "ArrowLeft", slider=1) == first
    for switch in stepper.locator("input[type=checkbox]").all():
        notebook.switch(stepper, switch)
        assert notebook.switch(stepper, switch) == first, (
            "a printed line that is turned off again leaves nothing behind"
        )


def the_first_release_as_printed_has_no_noise(notebook: Notebook) -> None:
    """With line 13 as printed the first estimate is the private gradient; without, it is not."""
    (stepper,) = notebook.steppers()
    words, _ = notebook.step(stepper, "ArrowRight", slider=1)
    printed, _ = notebook.switch(stepper, stepper.locator("input[type=checkbox]").nth(2), seconds=5)
    for values, same in ((words, False), (printed, True)):
        told = dict(re.findall(r"^(private_grad|estimate)\s+(.*?)\s*(?:private|released)?$", values, re.MULTILINE))
        assert (told["private_grad"] == told["estimate"]) == same


def a_server_that_looks_and_clients_that_disagree(notebook: Notebook) -> None:
    against, playground = notebook.explorers()[:2]
    readout = against.locator(".dpnotes-readout")
    assert "of Definition 3" not in readout.inner_text()
    against.locator("select").select_option("looks")
    notebook.wait_until_idle()
    against.get_by_text("of Definition 3").wait_for(timeout=10_000)
    for number, key in enumerate(("ArrowLeft", "ArrowRight", "ArrowRight")):  # clients, heterogeneity, round
        assert notebook.move_slider(playground, number, key, 2)
    rest = notebook.page.locator("details").filter(has_text="claims on clients and selection")
    assert not rest.locator("td").first.is_visible()
    rest.locator("summary").click()
    rest.locator("td").first.wait_for(state="visible", timeout=10_000)
    found = ("cancel in it. The error of a message", "nobody has used, sent or paid anything more")
    predictions = (
        notebook.page.locator(".dpnotes-explorer").filter(has=notebook.page.locator("input[type=radio]")).all()
    )
    for prediction, words in zip(predictions, found, strict=True):
        prediction.locator("input[type=radio]").last.click()
        prediction.locator("button").click()
        prediction.get_by_text(words).wait_for(timeout=20_000)


ALSO = {
    "04b_clients.ipynb": a_server_that_looks_and_clients_that_disagree,
    "errata.ipynb": a_row_opens_its_derivation,
    "rates.ipynb": another_theorem_brings_its_own_sliders,
    "03_adaptive_batch.ipynb": the_first_release_as_printed_has_no_noise,
}


def a_dropdown_follows_the_keyboard(notebook: Notebook) -> None:
    """In the first dropdown of each explorer: another choice, another picture or readout, and back."""
    for explorer in notebook.page.locator(".dpnotes-explorer").filter(has=notebook.page.locator("select")).all():
        if explorer.locator("button.jupyter-button").count():
            continue  # its readout waits for the button
        if explorer.locator("select").first.evaluate("element => element.length") == 1:
            continue  # no choice
        notebook.wait_until_idle()  # sliders that moved may still be in progress
        notebook.page.wait_for_timeout(500)
        control = explorer.locator("select").first
        start, last = control.evaluate("element => [element.selectedIndex, element.length - 1]")
        before, steps = notebook.seen(explorer), 0
        there, back = ("ArrowDown", "ArrowUp") if start < last else ("ArrowUp", "ArrowDown")
        changed = False
        while not changed and steps < max(last - start, start):  # neighbouring choices may give the same text
            assert notebook.choose(control, there) != start
            steps += 1
            changed = notebook.differs(explorer, before)
        assert changed, "no other choice changes picture or readout"
        other = notebook.seen(explorer)
        for _ in range(steps):
            notebook.choose(control, back)
        assert notebook.differs(explorer, other) and notebook.seen(explorer) == before


def fits_and_reads(notebook: Notebook) -> None:
    """Nothing is cut at two widths, words have contrast in both themes, and pictures have alternative texts."""
    for theme in ("JupyterLab Dark", "JupyterLab Light"):
        notebook.dress(theme)
        assert notebook.pale() == [], theme
    for width in (1000, 1300):
        notebook.resize(width)
        assert notebook.cut() == [], f"{width} pixels wide"
    assert notebook.unsaid() == []


# `make test` examines the papers' notebooks, which show most, and runs the shortest one. `make test-all` runs all, and
# examines those first that `make test` does not. nbval runs all notebooks.
LOOKED_AT = re.compile(r"0[1-5]_[a-z_]+\.ipynb")
STORED = [name for name in NOTEBOOKS if LOOKED_AT.fullmatch(name)]
RUN = [pytest.param(name, marks=() if name == copies.FIRST else pytest.mark.slow) for name in NOTEBOOKS]


def reads_as_stored(notebook: Notebook) -> None:
    notebook.wait_until_shown()
    assert notebook.page.locator(".jp-OutputArea-output").count() > 0
    fits_and_reads(notebook)
    assert notebook.errors() == [] and notebook.complaints == []


@pytest.mark.parametrize("name", STORED)
def test_the_notebook_as_stored_fits_and_reads(opened, name: str):
    with opened(name) as notebook:
        reads_as_stored(notebook)


@pytest.mark.parametrize("name", RUN)
def test_the_notebook_fits_and_runs_and_its_widgets_work(opened, name: str):
    source = (FOLDER / name).read_text(encoding="utf-8")
    with opened(name) as notebook:
        if name not in STORED:
            reads_as_stored(notebook)
        notebook.run_all()
        assert notebook.errors() == []
        for number, explorer in enumerate(notebook.explorers() if "Explorer(" in source else []):
            moved = notebook.move_slider(explorer, 0, "ArrowRight", 3) or notebook.move_slider(
                explorer, 0, "ArrowLeft", 3
            )
            assert moved, f"explorer {number}: readout and picture did not both follow its first slider"
        a_dropdown_follows_the_keyboard(notebook)
        for stepper in notebook.steppers():
            the_listing_is_stepped_through(notebook, stepper)
        if name in ALSO:
            ALSO[name](notebook)
        notebook.wait_until_idle()
        fits_and_reads(notebook)
        assert notebook.errors() == []
        assert notebook.complaints == []


def test_a_folded_output_opens_with_its_run_and_a_listing_is_stepped_through_and_copied(opened):
    with opened("folded.ipynb") as notebook:
        notebook.wait_until_shown()
        answer = notebook.page.locator(".jp-OutputArea-output", has_text="the answer")
        assert not answer.count() or not answer.first.is_visible()
        page = notebook.page.evaluate("() => fetch('/nbconvert/html/folded.ipynb').then(answer => answer.text())")
        assert "what it gives (predict first)" in page, "the menu's export folds, too"
        notebook.run_all()
        answer.first.wait_for(state="visible", timeout=10_000)
        (stepper,) = notebook.steppers()
        the_listing_is_stepped_through(notebook, stepper)
        stepper.locator("summary").focus()
        notebook.page.keyboard.press("Enter")
        copied = stepper.locator("pre").evaluate("""pre => {
            getSelection().selectAllChildren(pre);
            return getSelection().toString();
        }""")
        assert copied.startswith("from dpnotes.papers.budget_schedules.reference import") and "▸" not in copied
        compile(copied, "<cell>", "exec")


def test_a_picture_outlives_its_kernel(opened, folder: Path):
    with opened("explored.ipynb") as notebook:
        notebook.run_all()
        (explorer,) = notebook.explorers()
        assert notebook.move_slider(explorer, 0, "ArrowRight", 2)
        notebook.page.wait_for_timeout(1500)  # until it is settled
        said = explorer.locator(".dpnotes-readout").inner_text()
        assert said == "The area is 25."
        notebook.save_and_end()
    assert "widget-view" not in (folder / "explored.ipynb").read_text()
    with opened("explored.ipynb") as notebook:
        notebook.wait_until_shown()
        output = notebook.page.locator(".jp-OutputArea-output").first
        assert output.locator("img").count() == 1 and said in output.inner_text(), "the last state, not the first"
        assert notebook.complaints == []
        notebook.run_all()
        (explorer,) = notebook.explorers()
        assert notebook.move_slider(explorer, 0, "ArrowRight", 2), "a run brings its sliders back"


def test_a_page_that_is_loaded_again_finds_pictures_and_kernel(opened):
    with opened("explored.ipynb") as notebook:
        notebook.run_all()
        (explorer,) = notebook.explorers()
        assert notebook.move_slider(explorer, 0, "ArrowRight", 3)
        notebook.page.wait_for_timeout(1500)  # until it is settled
        said, kernel = explorer.locator(".dpnotes-readout").inner_text(), notebook.kernel()
        notebook.page.evaluate("() => window.jupyterapp.commands.execute('docmanager:save')")
        notebook.page.reload()
        notebook.wait_until_shown()
        output = notebook.page.locator(".jp-OutputArea-output").first
        assert output.locator("img").count() == 1 and said in output.inner_text()
        notebook.run_all()
        assert notebook.kernel() == kernel
        (explorer,) = notebook.explorers()
        assert notebook.move_slider(explorer, 0, "ArrowRight", 1)
        assert notebook.complaints == []


def test_a_cell_and_a_run_that_are_interrupted_run_again(opened):
    with opened("frail.ipynb") as notebook:
        notebook.run_all(idle=False)
        notebook.page.locator(".jp-OutputArea", has_text="try 1").wait_for()  # between two cells none is interrupted
        notebook.interrupt()
        notebook.wait_until_idle()
        assert "KeyboardInterrupt" in " ".join(notebook.errors())
        pressed = notebook.page.locator(".dpnotes-explorer").nth(1)
        button = pressed.locator("button.jupyter-button")
        button.click()
        pressed.get_by_text("Running").wait_for()
        notebook.interrupt()
        pressed.get_by_text("Stopped before it had finished.").wait_for(timeout=10_000)
        pressed.locator(".noUi-handle").focus()
        notebook.page.keyboard.press("ArrowRight")
        button.click()
        pressed.get_by_text("The side is 4.").wait_for(timeout=10_000)
        (explorer,) = notebook.explorers()
        assert notebook.move_slider(explorer, 0, "ArrowRight", 1)
        notebook.run_all()
        assert "try 2" in notebook.page.locator(".jp-OutputArea").last.inner_text() and notebook.errors() == []


def test_a_kernel_that_dies_in_a_redraw_is_said_and_a_run_brings_all_back(opened, folder: Path):
    with opened("frail.ipynb") as notebook:
        notebook.run_first()
        (explorer,) = notebook.explorers()
        assert notebook.move_slider(explorer, 0, "ArrowRight", 2)
        notebook.page.wait_for_timeout(1500)  # until it is settled
        explorer.locator(".noUi-handle").focus()
        for _ in range(4):
            notebook.page.keyboard.press("ArrowRight")
        dialog = notebook.page.locator(".jp-Dialog")
        dialog.get_by_text("died").wait_for(timeout=30_000)
        dialog.locator("button").last.click()
        assert explorer.locator("img").is_visible(), "the last picture stays"
        notebook.page.evaluate("() => window.jupyterapp.commands.execute('docmanager:save')")
        assert "<figure>" in (folder / "frail.ipynb").read_text()
        notebook.run_first()
        (explorer,) = notebook.explorers()
        assert notebook.move_slider(explorer, 0, "ArrowRight", 1)


def test_the_choices_of_a_prediction_are_one_stop_and_arrows_move_inside(opened):
    with opened("predicted.ipynb") as notebook:
        notebook.run_all()
        first, second = notebook.page.locator(".dpnotes-explorer").all()
        radios, press = first.locator("input[type=radio]"), notebook.page.keyboard.press
        notebook.page.wait_for_function("() => document.querySelectorAll('input[type=radio][name]').length === 6")
        radios.first.focus()
        for key, place in (("ArrowDown", 1), ("ArrowDown", 2), ("ArrowUp", 1)):
            press(key)
            notebook.wait_until_idle()
            assert [radio.is_checked() for radio in radios.all()] == [place == each for each in range(3)]
            first.get_by_text("The picture appears when you press").wait_for()
        press("Tab")
        press("Enter")
        first.get_by_text("You expected “no”: not so.").wait_for(timeout=10_000)
        assert not any(radio.is_checked() for radio in second.locator("input[type=radio]").all())
        assert notebook.complaints == []


def test_pictures_follow_a_slider_that_is_held(opened):
    with opened("explored.ipynb") as notebook:
        notebook.run_all()
        (explorer,) = notebook.explorers()
        handle, mouse = explorer.locator(".noUi-handle"), notebook.page.mouse
        handle.scroll_into_view_if_needed()
        box = handle.bounding_box()
        assert box is not None
        x, y, seen = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2, set()
        mouse.move(x, y)
        mouse.down()
        for step in range(1, 31):
            mouse.move(x + 8 * step, y)
            notebook.page.wait_for_timeout(100)
            seen.add(notebook.seen(explorer))
        mouse.up()
        assert len(seen) >= 3, "the mouse is still held"


def test_charts_follow_a_dark_theme_and_maps_do_not(opened):
    with opened("explored.ipynb") as notebook:
        notebook.run_all()
        chart, heat = (notebook.page.locator(f'img[alt^="{words}"]').first for words in ("The area", "a map"))
        assert notebook.brightness(chart) > 0.8
        before = notebook.brightness(heat)
        notebook.dress("JupyterLab Dark")
        assert notebook.brightness(chart) < 0.2 and abs(notebook.brightness(heat) - before) < 0.02
        notebook.dress("JupyterLab Light")


def test_control_what_goes_wrong_is_seen(opened):
    with opened("faulty.ipynb") as notebook:
        notebook.run_all()
        errors = " ".join(notebook.errors())
        assert "ZeroDivisionError" in errors and "nosuchthing" in errors
        (explorer,) = notebook.explorers()
        assert not notebook.move_slider(explorer, 0, "ArrowRight", 2, seconds=2), "its picture ignores its data"
        assert any("external request: http://example.org/tracker.png" in said for said in notebook.complaints)
        assert len(notebook.unsaid()) == 1
        for theme, words in (("JupyterLab Light", "light words"), ("JupyterLab Dark", "dark words")):
            notebook.dress(theme)
            pale = [line for line in notebook.pale() if line.endswith(" words")]
            assert len(pale) == 1 and pale[0].endswith(words), "each theme has words that only it makes pale"
        for width, cut in ((1000, ["wide", "hidden"]), (1300, ["hidden"])):
            notebook.resize(width)
            found = [line for line in notebook.cut() if "Traceback" not in line]
            assert len(found) == len(cut) and all(map(str.endswith, found, cut)), found
