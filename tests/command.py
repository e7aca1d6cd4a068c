"""The command line in this process, as tests call it."""

from typing import Any

from typer.testing import CliRunner, Result

from dpnotes.cli.main import app


def call(*words: Any, code: int = 0) -> Result:
    """Return what a command line answers; it must end with this status, and not by an error of ours."""
    result = CliRunner().invoke(app, [*map(str, words)])
    assert result.exit_code == code, f"{result.output}{result.exception}"
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result
