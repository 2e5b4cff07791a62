"""A pipeline world for each test."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Generator
from pathlib import Path

import pytest
from chat_pipeline.cpython import CPYTHON_LIMITS, Cpython
from chat_pipeline.wasm import WasmLimits
from chat_store import SqliteStore
from dbos import DBOS
from escape_targets import Targets
from pipeline_world import World
from wasm_modules import StandIn


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the tests that need the compiled CPython, unless `CHAT_CPYTHON` names its folder."""
    if os.environ.get("CHAT_CPYTHON"):
        return
    left_out = [item for item in items if "cpython" in getattr(item, "fixturenames", ())]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


@pytest.fixture
def anyio_backend() -> str:
    """DBOS runs on asyncio alone."""
    return "asyncio"


@pytest.fixture
async def world(tmp_path: Path) -> AsyncGenerator[World]:
    async with SqliteStore(tmp_path / "chats.db") as store:
        try:
            yield World(tmp_path, store)
        finally:
            DBOS.destroy(destroy_registry=True)


@pytest.fixture
def granted(tmp_path: Path) -> Path:
    """A granted folder, next to a secret file."""
    folder = tmp_path / "granted"
    folder.mkdir()
    (folder / "a").mkdir()
    (folder / "in.txt").write_text("hällo", encoding="utf-8")
    (tmp_path / "secret.txt").write_text("secret", encoding="utf-8")
    (folder / "link.txt").symlink_to(tmp_path / "secret.txt")
    (folder / "inner.txt").symlink_to(folder / "in.txt")
    (folder / "out").symlink_to(tmp_path)
    (folder / "etc").symlink_to("/etc")
    return folder


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StandIn:
    return StandIn(tmp_path, monkeypatch)


@pytest.fixture
def targets(tmp_path: Path) -> Generator[Targets]:
    folder = tmp_path / "targets"
    folder.mkdir()
    found = Targets(folder)
    yield found
    found.close()


@pytest.fixture(scope="session")
def cpython() -> Cpython:
    """CPython, as `python -m chat_pipeline.cpython` compiled it into the folder of `CHAT_CPYTHON`."""
    limits = WasmLimits(
        seconds=10,
        fuel=3_000_000_000,
        memory_bytes=CPYTHON_LIMITS.memory_bytes,
        stdout_bytes=100_000,
        stderr_bytes=10_000,
    )
    return Cpython(os.environ["CHAT_CPYTHON"], limits=limits)
