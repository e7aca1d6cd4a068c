"""The toy in its own folder, for all tests of experiments."""

from pathlib import Path

import pytest
from toy_package import Toy


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Toy:
    """A toy whose folder is the current one."""
    return Toy(tmp_path / "toy").enter(monkeypatch)
