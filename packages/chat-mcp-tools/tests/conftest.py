"""A server for each transport. That over HTTP is one for all tests that do not end it: it takes a while to start."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from mcp_world import Toolbox, http, stdio


@pytest.fixture(scope="module")
def by_http(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Toolbox]:
    folder = tmp_path_factory.mktemp("http")
    with http(folder) as server:
        yield Toolbox(server, folder)


@pytest.fixture
def by_stdio(tmp_path: Path) -> Toolbox:
    return Toolbox(stdio(tmp_path), tmp_path)


@pytest.fixture(params=["stdio", "http"])
def toolbox(request: pytest.FixtureRequest) -> Toolbox:
    """Over both."""
    found: Toolbox = request.getfixturevalue(f"by_{request.param}")
    return found
