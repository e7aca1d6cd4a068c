"""The checks of `dpnotes doctor`: each reports the state of one part of the machine and, if it is bad, a remedy."""

import importlib.metadata
import importlib.util
import os
import platform
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

_REQUIRED = (
    *("numpy", "scipy", "sympy", "torch", "dp-accounting"),
    *("pooch", "scikit-learn", "pandas", "joblib", "matplotlib"),
)
_CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome")


@dataclass(frozen=True)
class Finding:
    """The result of one check.

    Args:
      subject: the part that was checked.
      level: "ok", "note" (something optional is missing) or "problem" (the package is not usable without it).
      found: the state that was found.
      advice: the remedy, empty if none is needed.
    """

    subject: str
    level: Literal["ok", "note", "problem"]
    found: str
    advice: str = ""


def chromium() -> str | None:
    """The path of the browser that the browser tests drive, or None; `DPNOTES_CHROMIUM` takes precedence."""
    named = os.environ.get("DPNOTES_CHROMIUM")
    return next((path for name in (named, *_CHROMIUM_NAMES) if name and (path := shutil.which(name))), None)


def examine() -> Iterator[Finding]:
    """Check Python, packages, GPU, draws, widget manager, data sets and browser, in this order."""
    yield Finding("python", "ok", f"{platform.python_version()} at {sys.executable}")
    for name in _REQUIRED:
        yield _package(name, "problem", "pip install -c constraints.txt -e .")
    yield from _devices()
    yield _widgets()
    yield from _data()
    if path := chromium():
        yield Finding("chromium", "ok", path)
    else:
        yield Finding("chromium", "note", "not found", "only the browser tests need it: apt-get install chromium")


def _package(name: str, missing: Literal["note", "problem"], advice: str) -> Finding:
    try:
        return Finding(name, "ok", importlib.metadata.version(name))
    except importlib.metadata.PackageNotFoundError:
        return Finding(name, missing, "not installed", advice)


def _devices() -> Iterator[Finding]:
    """Check for a GPU, and on each device for a fused kernel; without one draws are the same, but slower."""
    if importlib.util.find_spec("torch") is None:
        yield Finding("gpu", "note", "torch is not installed")
        return
    import torch

    from dpnotes.random import draws

    if gpu := torch.cuda.is_available():
        yield Finding("gpu", "ok", torch.cuda.get_device_name())
    else:
        advice = "none is needed; only the experiments' paper profiles want one"
        yield Finding("gpu", "note", "no CUDA device", advice)
    for device in ("cpu", "cuda") if gpu else ("cpu",):
        backend = draws.backend(torch.device(device))
        yield Finding(f"draws {device}", "ok" if backend.fused else "note", backend.about, backend.advice)


def _widgets() -> Finding:
    """Check both halves that sliders need: ipywidgets in the kernel, and JupyterLab's widget manager in the server."""
    advice = "pip install -c constraints.txt -e '.[lab]', then restart JupyterLab"
    for name in ("jupyterlab", "ipywidgets", "jupyterlab_widgets"):
        finding = _package(name, "problem", advice)
        if finding.level != "ok":
            return Finding("widget manager", "note", f"{name} is not installed", f"sliders need it: {advice}")
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("ipywidgets", "jupyterlab_widgets"))
    return Finding("widget manager", "ok", versions)


def _data() -> Iterator[Finding]:
    from dpnotes.problems import datasets

    for name in (*datasets.NAMES, *datasets.CORPORA):
        location = datasets.locate(name)
        licence = f"(licence: {location.licence})"
        if location.found:
            yield Finding(f"data {name}", "ok", f"{location.path} {licence}")
        else:
            yield Finding(f"data {name}", "note", f"not found in {location.path} {licence}", location.advice)
