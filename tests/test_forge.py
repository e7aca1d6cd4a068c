"""The files that a forge reads: workflows, issue forms, the wheel's metadata. None of them can run here."""

import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
WORKFLOW = (ROOT / ".github/workflows/tests.yml").read_text()
PINNED = re.compile(r"[\w-]+/[\w-]+@v\d+")
PROGRAMS = {"make", "python", "cd", "uv", ".ci/run", "user/bin/dpnotes", "$RUNNER_TEMP/user/bin/python"}


def commands(workflow: dict) -> Iterator[list[str]]:
    for job in workflow["jobs"].values():
        for step in job["steps"]:
            for part in step.get("run", "").split(" && "):
                if part:
                    yield shlex.split(part)


def faults(text: str) -> list[str]:
    """Return the ways in which a workflow disagrees with the project."""
    workflow, found = yaml.safe_load(text), list[str]()
    matrix = workflow["jobs"]["fast"]["strategy"]["matrix"]
    pythons = [name.rpartition(" ")[2] for name in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", name)]
    if matrix["python"] != pythons or PROJECT["requires-python"] != f">={pythons[0]}":
        found.append(f"Pythons: {matrix['python']}, {pythons}, {PROJECT['requires-python']}")
    if {"ubuntu-latest", "macos-latest", "windows-latest"} != {
        *matrix["os"],
        *(one["os"] for one in matrix["include"]),
    }:
        found.append("systems")
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for program, *arguments in commands(workflow):
        if program not in PROGRAMS:
            found.append(f"no program {program}")
        if program == "make" and not {*arguments} <= targets:
            found.append(f"no target {arguments}")
        found += [f"no extra {extra}" for one in arguments for extra in re.findall(r"\[(\w+)\]$", one)
                  if extra not in PROJECT["optional-dependencies"]]  # fmt: skip
    for job in workflow["jobs"].values():
        used = [step["uses"] for step in job["steps"] if "uses" in step]
        found += [f"{one} is not pinned" for one in used if not PINNED.fullmatch(one)]
        if "timeout-minutes" not in job or job["runs-on"] not in ("ubuntu-latest", "${{ matrix.os }}"):
            found.append("a job without limit or system")
    return found


def test_the_workflow_runs_commands_that_exist_on_the_pythons_that_are_declared():
    assert not faults(WORKFLOW)
    workflow = yaml.safe_load(WORKFLOW)
    assert workflow["permissions"] == {"contents": "read"} and workflow[True]["schedule"]  # YAML reads `on` as true
    assert ["python", "-m", "pip", "install", "-c", "constraints.txt", "-e", ".[dev]"] in [*commands(workflow)]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("make release-check", "make release-checks"),
        ('"3.13"]', '"3.14"]'),
        ("os: windows", "os: macos"),
        ("checkout@v4", "checkout@main"),
        (".[dev]", ".[development]"),
        (".ci/run", ".ci/runs"),
    ],
)
def test_control_a_workflow_that_disagrees_is_seen(old: str, new: str):
    assert old in WORKFLOW and faults(WORKFLOW.replace(old, new))


def test_issue_forms_are_ones_that_github_takes():
    forms = [path for path in (ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml") if path.name != "config.yml"]
    assert {path.stem for path in forms} == {"wrong_claim", "bug"}
    for path in forms:
        form = yaml.safe_load(path.read_text())
        assert form.keys() == {"name", "description", "labels", "body"} and "SECURITY.md" in form["description"]
        identifiers = [part["id"] for part in form["body"]]
        assert len({*identifiers}) == len(identifiers) and "doctor" in identifiers
        assert all(part["type"] in ("input", "textarea") and part["attributes"]["label"] for part in form["body"])


def test_the_owner_stands_in_one_place_until_the_first_release():
    texts = [path for pattern in ("*.md", "*.toml", "*.yml", "*.cff", "setup.py", ".github/**/*.yml", "docs/*.md")
             for path in ROOT.glob(pattern) if "OWNER" in path.read_text()]  # fmt: skip
    assert {path.name for path in texts} == {"pyproject.toml", "CONTRIBUTING.md"}
    assert "OWNER" in (ROOT / "CONTRIBUTING.md").read_text().partition("Before the first release")[2]
    assert all("/OWNER/" in url for url in PROJECT["urls"].values()), "then this test goes, too"
