"""The toy, in a folder of its own, for every test of experiments."""

from pathlib import Path

import pytest
from toy_package import Toy


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Toy:
    """A toy in whose folder the test works."""
    return Toy(tmp_path / "toy").enter(monkeypatch)
