"""Fixtures: a loopback server for Google's services, and an environment without credentials."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from vertex_world import VARIABLES, Google


@pytest.fixture(autouse=True)
def empty_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path / "gcloud"))


@pytest.fixture
def google() -> Iterator[Google]:
    with Google() as server:
        yield server
