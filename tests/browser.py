"""JupyterLab in a real chromium, offline: a local server, and a page that records its errors.

Tests that import this module are skipped without playwright; in CI they fail.
"""

import contextlib
import io
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from PIL import Image

try:
    from playwright.sync_api import sync_playwright
except ImportError:
    if os.environ.get("CI"):
        raise
    pytest.skip("playwright was not found: pip install -e '.[dev]'", allow_module_level=True)

from dpnotes.cli import doctor
from dpnotes.notebook import copies
from dpnotes.notebook.write import environment

if TYPE_CHECKING:
    from playwright.sync_api import Browser, ConsoleMessage, Locator, Page, Response, Route

CHROMIUM = [
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage",
]  # fmt: skip
SETTINGS = '{"windowingMode": "none"}'  # all cells are in the page, not only the visible ones


READY = "() => window.jupyterapp?.shell.currentWidget?.context?.isReady"
TYPESET = """() => {
    const cells = [...document.querySelectorAll('.jp-MarkdownCell')];
    const set = text => !text.textContent.includes('$') || text.querySelector('mjx-container');
    return cells.every(cell => cell.textContent.trim())
        && [...document.querySelectorAll('.jp-MarkdownOutput')].every(set);
}"""
IDLE = """() => {
    const kernel = window.jupyterapp.shell.currentWidget.sessionContext.session?.kernel;
    const prompts = [...document.querySelectorAll('.jp-InputPrompt')];
    return kernel?.status === 'idle' && !prompts.some(prompt => prompt.textContent.includes('[*]'));
}"""
PLACES = ".jp-OutputArea-output, .jp-MarkdownOutput"
CUT = """() => {
    const found = new Map();
    for (const place of document.querySelectorAll('PLACES')) {
        const edge = place.getBoundingClientRect().right;
        for (const part of [place, ...place.querySelectorAll('*')]) {
            const box = part.getBoundingClientRect();
            if (!box.width || !box.height) continue;
            if (part.closest('mjx-assistive-mml, mjx-stretchy-h, mjx-stretchy-v, .sr-only, select, [hidden]')) continue;
            const scrolls = part.clientWidth && getComputedStyle(part).overflowX !== 'visible';
            const over = Math.max(box.right - edge, scrolls ? part.scrollWidth - part.clientWidth : 0);
            if (over > 4 && !found.has(place))  // less is the overhang of a letter
                found.set(place, `${Math.round(over)} px, ${part.tagName}: ${part.textContent.trim().slice(0, 90)}`);
        }
    }
    return [...found.values()];
}""".replace("PLACES", PLACES)
PALE = """least => {
    const numbers = colour => (colour.match(/[0-9.]+/g) || [0, 0, 0]).map(Number);
    const linear = part => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
    const [red, green, blue] = [0.2126, 0.7152, 0.0722];
    const light = c => red * linear(c[0] / 255) + green * linear(c[1] / 255) + blue * linear(c[2] / 255);
    const over = (front, back) => [0, 1, 2].map(i => front[i] * (front[3] ?? 1) + back[i] * (1 - (front[3] ?? 1)));
    const behind = part => {
        if (!part) return [255, 255, 255];
        const colour = numbers(getComputedStyle(part).backgroundColor);
        return (colour[3] ?? 1) === 1 ? colour : over(colour, behind(part.parentElement));
    };
    const found = new Map();
    for (const place of document.querySelectorAll('PLACES')) {
        const texts = document.createTreeWalker(place, NodeFilter.SHOW_TEXT);
        while (texts.nextNode()) {
            const part = texts.currentNode.parentElement;
            const box = part.getBoundingClientRect();
            if (!texts.currentNode.textContent.trim() || !box.width || !box.height) continue;
            if (part.closest('mjx-assistive-mml, style, script, button:disabled, option, .noUi-tooltip')) continue;
            const back = behind(part);
            const pair = [light(over(numbers(getComputedStyle(part).color), back)), light(back)].sort((a, b) => b - a);
            const contrast = (pair[0] + 0.05) / (pair[1] + 0.05);
            const words = texts.currentNode.textContent.trim().slice(0, 60);
            const kind = `${part.tagName} ${getComputedStyle(part).color}`;
            if (contrast < least) found.set(kind, `${contrast.toFixed(2)}:1: ${words}`);
        }
    }
    return [...found.values()];
}""".replace("PLACES", PLACES)


@contextlib.contextmanager
def jupyterlab(root: Path, home: Path, seconds: float = 60) -> Iterator[str]:
    """Serve `root` as `dpnotes lab` does, with settings and caches under `home`; yield its address."""
    path = home / "settings/@jupyterlab/notebook-extension/tracker.jupyterlab-settings"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(SETTINGS)
    folders = {
        "JUPYTER_CONFIG_DIR": "config", "JUPYTER_RUNTIME_DIR": "runtime", "JUPYTER_DATA_DIR": "data",
        "JUPYTERLAB_SETTINGS_DIR": "settings", "JUPYTERLAB_WORKSPACES_DIR": "workspaces", "IPYTHONDIR": "ipython",
    }  # fmt: skip
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = [
        "--no-browser", "--allow-root", "--ip=127.0.0.1", f"--port={port}", "--ServerApp.port_retries=0",
        "--IdentityProvider.token=", f"--ServerApp.root_dir={root}", "--expose-app-in-browser",
        "--LabApp.extension_manager=readonly",
    ]  # fmt: skip
    log = home / "lab.log"
    with log.open("w") as output:
        server = subprocess.Popen(
            [sys.executable, "-m", "jupyterlab", *options],
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment() | {name: str(home / folder) for name, folder in folders.items()} | copies.settings(),
            start_new_session=True,
        )
        try:
            url = f"http://127.0.0.1:{port}"
            _wait_for(f"{url}/api/status", server, log, seconds)
            yield url
        finally:
            server.terminate()
            try:
                server.wait(15)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()


def _wait_for(url: str, server: subprocess.Popen[bytes], log: Path, seconds: float) -> None:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    deadline = time.monotonic() + seconds
    while True:
        try:
            opener.open(url, timeout=2).close()
            return
        except OSError:
            if server.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"JupyterLab did not start:\n{log.read_text()}") from None
            time.sleep(0.1)


@contextlib.contextmanager
def launched() -> Iterator["Browser"]:
    """Launch the system's chromium."""
    if doctor.chromium() is None:
        pytest.fail("chromium was not found")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=doctor.chromium(), args=CHROMIUM)
        yield chromium
        chromium.close()


def complaints(page: "Page", url: str) -> list[str]:
    """Collect the errors and warnings of a page from now on; requests outside `url` are blocked."""
    heard: list[str] = []

    def console(message: "ConsoleMessage") -> None:
        slow = "to activate" in message.text  # a message of JupyterLab on a busy machine
        if message.type in ("error", "warning") and not slow:
            heard.append(f"console {message.type}: {message.text}")

    def only_local(route: "Route") -> None:
        heard.append(f"external request: {route.request.url}")
        route.abort()

    def response(answer: "Response") -> None:
        if answer.status >= 400:
            heard.append(f"{answer.status}: {answer.url}")

    page.on("console", console)
    page.on("pageerror", lambda error: heard.append(f"page error: {error}"))
    page.on("response", response)
    page.route(lambda address: not address.startswith((url, url.replace("http", "ws"), "data:", "blob:")), only_local)
    return heard


@dataclass
class Notebook:
    """A notebook that is open in JupyterLab, and the errors of its page.

    Args:
      page: the browser's page.
      complaints: console errors and warnings, failed and external requests.
    """

    page: "Page"
    complaints: list[str] = field(default_factory=list)

    @staticmethod
    @contextlib.contextmanager
    def opened(browser: "Browser", url: str, name: str) -> Iterator["Notebook"]:
        """Open the notebook called `name` in the served folder."""
        page = browser.new_page(viewport={"width": 1300, "height": 1500})
        notebook = Notebook(page, complaints(page, url))
        try:
            page.set_default_timeout(120_000)  # a busy machine is slow
            page.goto(f"{url}/doc/tree/{name}")
            page.wait_for_selector(".jp-Notebook .jp-Cell")
            yield notebook
        finally:
            page.close()

    def wait_until_shown(self, milliseconds: float = 60_000) -> None:
        """Wait until the stored notebook is shown, with its formulas typeset."""
        self._until(READY, milliseconds)
        self._until(TYPESET, milliseconds)

    def run_all(self, milliseconds: float = 240_000, idle: bool = True, first: bool = False) -> None:
        """Run every cell, or the first, through JupyterLab's own command; wait until the kernel is idle, or do not."""
        self._until(READY, milliseconds)
        command = """async ([first, idle]) => {
            const widget = window.jupyterapp.shell.currentWidget;
            await widget.context.ready;
            await widget.sessionContext.ready;
            await widget.sessionContext.session?.kernel?.info;
            if (first) widget.content.activeCellIndex = 0;
            const run = window.jupyterapp.commands.execute(first ? 'notebook:run-cell' : 'notebook:run-all-cells');
            if (idle) await run;
        }"""
        self.page.evaluate(command, [first, idle])
        if idle:
            self.wait_until_idle(milliseconds)

    def run_first(self) -> None:
        """Run the first cell."""
        self.run_all(first=True)

    def interrupt(self) -> None:
        """Interrupt the kernel, as the button does."""
        self.page.evaluate("() => window.jupyterapp.commands.execute('notebook:interrupt-kernel')")

    def kernel(self) -> str:
        """Return the id of the kernel."""
        return self.page.evaluate("() => window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.id")

    def wait_until_idle(self, milliseconds: float = 60_000) -> None:
        """Wait until no cell is queued and the kernel is idle."""
        self._until(IDLE, milliseconds)

    def _until(self, condition: str, milliseconds: float) -> None:
        self.page.wait_for_function(condition, timeout=milliseconds)

    def save_and_end(self) -> None:
        """Save the notebook and end its kernel."""
        self.page.evaluate("""async () => {
            await window.jupyterapp.commands.execute('docmanager:save');
            await window.jupyterapp.shell.currentWidget.sessionContext.shutdown();
        }""")

    def explorers(self) -> list["Locator"]:
        """Return the explorers that follow their sliders without a button."""
        found = self.page.locator(".dpnotes-explorer")
        following = found.filter(has=self.page.locator(".noUi-handle")).filter(
            has_not=self.page.locator("button.jupyter-button")
        )
        following.first.wait_for(state="visible", timeout=10_000)
        return following.all()

    def seen(self, explorer: "Locator") -> tuple[str, str]:
        """Return the picture and the readout of an explorer."""
        picture, readout = explorer.locator("img"), explorer.locator(".dpnotes-readout")
        return picture.evaluate("element => element.src"), readout.inner_text()

    def differs(self, explorer: "Locator", before: tuple[str, str], both: bool = False, seconds: float = 5) -> bool:
        """Wait until picture or readout (or both) differ from before; return whether they do."""
        deadline, enough = time.monotonic() + seconds, all if both else any
        while not (changed := enough(map(str.__ne__, self.seen(explorer), before))) and time.monotonic() < deadline:
            self.page.wait_for_timeout(100)
        return changed

    def move_slider(self, explorer: "Locator", slider: int, key: str, times: int, seconds: float = 10) -> bool:
        """Press `key` on a slider; return whether both readout and picture changed."""
        self.wait_until_idle()  # an earlier move may still be in progress and would count as this one
        before = self.seen(explorer)
        explorer.locator(".noUi-handle").nth(slider).focus()
        for _ in range(times):
            self.page.keyboard.press(key)
        return self.differs(explorer, before, both=True, seconds=seconds)

    def choose(self, control: "Locator", key: str = "ArrowDown") -> int:
        """Open a dropdown, press `key` and confirm; return the index of the new choice.

        On a closed dropdown JupyterLab itself handles the arrow keys and moves to another cell.
        """
        control.focus()
        for press in ("Space", key, "Enter"):
            self.page.keyboard.press(press)
        self.page.wait_for_timeout(200)
        self.wait_until_idle()
        return control.evaluate("element => element.selectedIndex")

    def steppers(self) -> list["Locator"]:
        """Return the listings with a stepper."""
        return self.page.locator(".dpnotes-stepper").all()

    def step(self, stepper: "Locator", key: str, slider: int = 0, seconds: float = 5) -> tuple[str, str]:
        """Press `key` on a stepper's slider (0 line, 1 step) and wait; return the values and the marked line."""
        return self._press(stepper, stepper.locator(".noUi-handle").nth(slider), key, seconds)

    def switch(self, stepper: "Locator", box: "Locator", seconds: float = 1) -> tuple[str, str]:
        """Turn a printed line of a stepper on or off, wait for a change, which need not come; return as `step` does."""
        return self._press(stepper, box, "Space", seconds)

    def _press(self, stepper: "Locator", control: "Locator", key: str, seconds: float) -> tuple[str, str]:
        before = self.shown(stepper)
        control.focus()
        self.page.keyboard.press(key)
        deadline = time.monotonic() + seconds
        while self.shown(stepper) == before and time.monotonic() < deadline:
            self.page.wait_for_timeout(50)
        self.wait_until_idle()
        self.page.wait_for_timeout(100)  # listing and values come in two messages
        return self.shown(stepper)

    def shown(self, stepper: "Locator") -> tuple[str, str]:
        """Return the values that a stepper shows and its marked line."""
        values, marked = stepper.locator("[aria-label=values]"), stepper.locator("mark")
        return values.inner_text(), "\n".join(marked.all_inner_texts())

    def errors(self) -> list[str]:
        """Return error and warning outputs, errors of explorers, and formulas that could not be typeset."""
        return self.page.evaluate("""() => [
            ...document.querySelectorAll('[data-mime-type="application/vnd.jupyter.stderr"]'),
            ...document.querySelectorAll('[data-mime-type="application/vnd.jupyter.error"]'),
            ...document.querySelectorAll('mjx-merror, .MathJax_Error, .dpnotes-error'),
        ].map(element => element.textContent.slice(0, 300))""")

    def resize(self, width: int) -> None:
        """Set the width of the window, in pixels, and wait for the layout."""
        self.page.set_viewport_size({"width": width, "height": 1500})
        self.page.wait_for_timeout(300)

    def dress(self, theme: str) -> None:
        """Set the theme, "JupyterLab Light" or "JupyterLab Dark"."""
        self.page.evaluate(
            "theme => window.jupyterapp.commands.execute('apputils:change-theme', {theme: theme})", theme
        )
        light = "true" if theme.endswith("Light") else "false"
        self.page.wait_for_function(f"() => document.body.dataset.jpThemeLight === '{light}'")
        self.page.wait_for_timeout(300)

    def brightness(self, picture: "Locator") -> float:
        """Return the mean brightness of a picture as it is shown, from 0 to 1."""
        with Image.open(io.BytesIO(picture.screenshot())) as image:
            return float(np.asarray(image.convert("L")).mean()) / 255

    def cut(self) -> list[str]:
        """Return outputs and texts wider than their box, with the excess in pixels; scrolling boxes count, too."""
        return self.page.evaluate(CUT)

    def pale(self, least: float = 4.5) -> list[str]:
        """Return words in outputs and texts whose contrast with their background, as painted, is too low."""
        return self.page.evaluate(PALE, least)

    def unsaid(self) -> list[str]:
        """Return pictures in outputs and texts without an alternative text."""
        return self.page.evaluate("""() => [...document.querySelectorAll('.jp-OutputArea img, .jp-MarkdownOutput img')]
            .filter(image => ['', 'Image'].includes(image.alt.trim())).map(image => image.outerHTML.slice(0, 80))""")
