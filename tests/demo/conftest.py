"""Fixtures of the tests of the examples."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    """A fifo that a process can be held at."""
    path = tmp_path / "gate"
    os.mkfifo(path)
    return path
