"""The page: the numbers of Python in a browser, in both themes and widths, by keyboard, and offline."""

import json
import math
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest
from browser import launched

from dpnotes.atlas import page
from dpnotes.atlas.question import FIELDS, GOALS, ask, for_orders
from dpnotes.atlas.ranking import choose, ranked
from dpnotes.atlas.takeovers import takeovers

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

COLUMNS = ("order", "printed", "needed")


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "which.html"
    assert page.write(path) == path.stat().st_size <= 40_000
    return path


@pytest.fixture(scope="module")
def browser() -> Iterator["Browser"]:
    with launched() as found:
        yield found


@pytest.fixture
def shown(browser: "Browser", written: Path) -> Iterator["Page"]:
    tab = browser.new_page(viewport={"width": 830, "height": 900})
    requests: list[str] = []
    problems: list[str] = []
    tab.on("request", lambda request: requests.append(request.url))
    tab.on("pageerror", lambda error: problems.append(str(error)))
    tab.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    tab.goto(written.as_uri())
    yield tab
    assert [url for url in requests if not url.startswith("data:")] == [written.as_uri()], "no request but its own"
    assert not problems
    tab.close()


def test_what_is_exported_is_what_the_claims_say(written: Path):
    assert "http" not in written.read_text().replace("https://", "http"), "no address"
    rows = {row["name"]: row for row in page.exported()["methods"]}
    assert rows["one plain pass (ours)"]["order"]["max"][0]["num_examples"] == [-1, 3]
    assert rows["SPIDER with a tree and adaptive batches"]["standing"] == "conditional"
    assert all(row["claims"] for row in rows.values())


def seeded(draw: random.Random) -> dict[str, float]:
    """Return numbers for every field: of the problem's constants half are 1, and all are drawn over their sliders."""
    given: dict[str, float] = {}
    for name, field in FIELDS.items():
        value = math.exp(draw.uniform(math.log(field.least), math.log(field.most)))
        if name in ("clients", "lipschitz", "smoothness", "hessian_lipschitz", "initial_gap") and draw.random() < 0.5:
            value = 1.0
        given[name] = float(round(value)) if field.domain.integer else value
    return given


def words(reason: str) -> str:
    """Return a reason without its numbers, which the page writes in its own way."""
    return re.sub(r"-?[\d.,]+(e[+-]?\d+)?(?![\w)])", "#", reason.replace("≥", ">="))


def compared(rows: list[dict[str, Any]], table: pd.DataFrame) -> int:
    """Compare the rows of a page with a table, and return the number of compared cells."""
    known = {(row["measure"], row["method"]): row for row in rows}
    assert len(known) == len(table) == len(rows)
    cells = 0
    for row in table.to_dict("records"):
        found = known[row["measure"], row["method"]]
        assert found["state"] == row["state"], row
        assert words(found["reason"]) == words(row["reason"]), (row, found)
        names = (*COLUMNS, "proved") if row["measure"].startswith("excess") else COLUMNS
        for name in names:
            value = row[name]
            theirs = {"NaN": math.nan, "Infinity": math.inf}.get(found[name], found[name])
            assert theirs == pytest.approx(value, rel=1e-9, abs=0, nan_ok=True), (name, row, found)
            cells += math.isfinite(value)
    return cells


CALL = """asked => asked.map(([g, goal, alpha]) => choose(g, goal, alpha).map(r => ({
    method: r.method, measure: r.measure, state: r.state, reason: r.reason,
    ...Object.fromEntries(["order", "printed", "needed", "proved"].map(
        k => [k, Number.isFinite(r[k]) ? r[k] : String(r[k])]))})))"""


@pytest.mark.slow
@pytest.mark.browser
def test_the_page_has_pythons_numbers(shown: "Page"):
    """200 seeded questions, every cell within 1e-9, and every state alike; the order of the rows, too."""
    draw = random.Random(42)
    asked = [(seeded(draw), draw.choice([*GOALS]), None) for _ in range(200)]
    answers = shown.evaluate(CALL, asked)
    cells = 0
    for (given, goal, _), rows in zip(asked, answers, strict=True):
        table = ranked(ask(goal, **given), details=goal == "risk")
        cells += compared(rows, table)
    assert cells > 1000
    (rows,) = shown.evaluate(CALL, [[{**asked[0][0], "epsilon": 2 * asked[0][0]["epsilon"]}, "sosp", None]])
    with pytest.raises(AssertionError):  # control: another epsilon has other numbers
        compared(rows, ranked(ask("sosp", **asked[0][0]), details=False))


@pytest.mark.slow
@pytest.mark.browser
def test_the_page_orders_rows_and_finds_takeovers_as_python_does(shown: "Page"):
    draw = random.Random(7)
    for _ in range(20):
        given, goal = seeded(draw), draw.choice(["sosp", "fosp", "goldstein"])
        table = ranked(ask(goal, **given), details=False)
        (rows,) = shown.evaluate(CALL, [[given, goal, None]])
        informative = [row["method"] for row in rows if row["state"] == "informative"]
        assert informative == [*table[table["state"] == "informative"]["method"]]
        for measure in GOALS[goal]:
            for along in ("num_examples", "dim"):
                theirs = shown.evaluate("([g, me, along]) => takeovers(g, me, along)", [given, str(measure), along])
                ours = takeovers(ask(goal, **given), measure, along)
                assert [set(filter(None, names.split(" = "))) for _, names in theirs] == [set(one.best) for one in ours]
                assert [value for value, _ in theirs] == pytest.approx([one.value for one in ours], rel=1e-9)


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.parametrize(
    "changes",
    [{"dim": 2.5}, {"num_examples": 1}, {"delta": 2.0}, {"delta": 0.0}, {"epsilon": -1.0}, {"clients": 1.5},
     {"condition_number": 1.0}, {"radius": 0.0}, {}],
)  # fmt: skip
def test_the_page_refuses_what_python_refuses(shown: "Page", changes: dict[str, float]):
    given: dict[str, Any] = {**ask(n=60_000, d=800_000, epsilon=2.0, delta=1e-5).given, **changes}
    said = shown.evaluate("g => refuse(g, 'sosp', null)", given)
    try:
        ask(**given)
    except ValueError:
        assert said.startswith(f"Expected {next(iter(changes))}=")
    else:
        assert said == "" and not changes
    for alpha, refused in ((2.0, True), (0.5, False)):
        said = shown.evaluate(
            "([g, alpha]) => refuse(g, 'sosp', alpha)", [dict(ask(n=9, d=9, epsilon=2, delta=0.1).given), alpha]
        )
        assert bool(said) == refused


@pytest.mark.slow
@pytest.mark.browser
def test_the_page_is_driven_by_keyboard(shown: "Page"):
    shown.focus("#x_num_examples")
    shown.keyboard.press("Control+A")
    shown.keyboard.type("1000000")
    shown.keyboard.press("Tab")
    assert shown.evaluate("G.num_examples") == 1e6 and "n=1000000" in (shown.text_content("#run") or "")
    shown.focus("#s_dim")
    before = shown.evaluate("G.dim")
    shown.keyboard.press("ArrowRight")
    assert shown.evaluate("G.dim") > before
    shown.focus("#x_delta")
    shown.keyboard.press("Control+A")
    shown.keyboard.type("2")
    shown.keyboard.press("Tab")
    assert "Expected delta=2 > 0 and < 1" in (shown.text_content("#error") or "")
    assert shown.evaluate("G.delta") == 1e-5
    shown.focus("#goal")
    shown.keyboard.press("ArrowDown")
    shown.keyboard.press("ArrowDown")
    assert shown.evaluate("goal") == "goldstein" and "one plain pass" in (shown.text_content("#say") or "")


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 830])
def test_the_page_fits_in_both_themes(browser: "Browser", written: Path, scheme: Any, width: int):
    tab = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    tab.goto(written.as_uri())
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    label = tab.get_attribute("#map", "aria-label") or ""
    assert label.startswith("Map of the best order") and "SPIDER" in label
    contrast = tab.evaluate(
        """() => {
            const rgb = c => c.match(/[\\d.]+/g).slice(0, 3).map(v => v / 255);
            const part = v => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4;
            const light = c => {const [r, g, b] = rgb(c).map(part); return .2126 * r + .7152 * g + .0722 * b};
            const probe = document.createElement("div");
            probe.style.background = "Canvas";
            document.body.append(probe);
            const canvas = getComputedStyle(probe).backgroundColor;
            const of = e => {
                const both = [light(getComputedStyle(e).color), light(canvas)];
                return (Math.max(...both) + .05) / (Math.min(...both) + .05)};
            return Math.min(...[...document.querySelectorAll("h1,h2,p,td,.bad,a,label span")].map(of))}"""
    )
    assert contrast >= 4.5
    tab.close()


def test_a_question_of_python_and_of_the_page_have_the_same_fields():
    exported = json.loads(json.dumps(page.exported()))
    assert [*exported["fields"]] == [*FIELDS]
    table = choose(60_000, 800_000, 2.0, 1e-5, details=False)
    assert {row["name"] for row in exported["methods"]} == {*table["method"]}
    named = {name for row in exported["methods"] if row["order"] for one in row["order"]["max"] for name in one}
    assert named <= {*for_orders(ask(n=9, d=9, epsilon=1.0, delta=0.1).given)}
