"""Fixtures of the tests of the examples."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    """Return a fifo that holds a process until it is opened."""
    path = tmp_path / "gate"
    os.mkfifo(path)
    return path
