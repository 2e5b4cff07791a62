"""A server for each transport. The HTTP server is shared by all tests that do not stop it, because it starts slowly."""

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
    """Return a server over stdio and one over HTTP."""
    found: Toolbox = request.getfixturevalue(f"by_{request.param}")
    return found
