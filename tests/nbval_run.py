"""nbval's comparison of notebooks with a run, in a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

from dpnotes.notebook.write import environment

ROOT = Path(__file__).parents[1]


def nbval(*notebooks: Path, cwd: Path = ROOT, **variables: str) -> subprocess.CompletedProcess[str]:
    """Compare notebooks outside of the repository under its settings, with these environment variables."""
    options = ["-q", "-p", "no:cacheprovider", "-p", "conftest", "-c", ROOT / "pyproject.toml", "--rootdir", ROOT]
    command = [sys.executable, "-m", "pytest", *options, "--nbval", "--nbval-current-env", *notebooks]
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
    here = environment() | {"PYTHONPATH": path} | variables
    return subprocess.run(command, cwd=cwd, env=here, capture_output=True, text=True, check=False)
