"""Three processes and a server: the first run pauses, the second process approves, and the third runs the tool."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).parent
SERVER = HERE.parents[1] / "packages/chat-mcp-tools/tests/server.py"


@pytest.fixture(params=["stdio", "http"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A folder for one server per process, or the URL of a shared server."""
    if request.param == "stdio":
        yield str(tmp_path)
        return
    command = [sys.executable, str(SERVER), "http", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield f"http://127.0.0.1:{json.loads(server.stdout.readline())['port']}/mcp"
        finally:
            server.kill()


def in_a_process(program: str, folder: Path, *words: str) -> str:
    command = [sys.executable, str(HERE / program), str(folder / "chats.db"), *words]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def wiped(folder: Path) -> list[str]:
    return [line for line in (folder / "notes").read_text().splitlines() if line.startswith("wiped")]


def test_a_destructive_tool_waits_for_an_approval_in_another_process(tmp_path: Path, place: str) -> None:
    asked = {"look_up": "Completed", "add": "Completed", "wipe": "Pending"}
    assert json.loads(in_a_process("clerk.py", tmp_path, place, "Wipe it.")) == asked
    assert wiped(tmp_path) == []

    assert in_a_process("person.py", tmp_path) == "wipe {'disk': 'sda'}"
    assert wiped(tmp_path) == []

    assert json.loads(in_a_process("clerk.py", tmp_path, place)) == {**asked, "wipe": "Completed"}
    assert wiped(tmp_path) == ["wiped sda"]
