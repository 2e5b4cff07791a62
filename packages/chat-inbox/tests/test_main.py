"""The command `python -m chat_inbox`."""

from __future__ import annotations

import http.client
import signal
import socket
import subprocess
import sys
from pathlib import Path

import anyio
import pytest
from chat_core.messages import Approved
from chat_inbox.__main__ import import_chat, listen, main
from chat_store import SqliteStore
from inbox_helpers import Bank

CHATS = """
from chat_core import ChatBuilder
from chat_core.testing import ScriptedProvider

chat = ChatBuilder().with_model(ScriptedProvider()).build()
nothing = 7


def make():
    return chat


class Support:
    chat = chat
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "inbox_chats.py").write_text(CHATS, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    monkeypatch.delitem(sys.modules, "inbox_chats", raising=False)
    return tmp_path


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("name", ["inbox_chats:chat", "inbox_chats:make", "inbox_chats:Support.chat"])
def test_import_chat_accepts_a_chat_a_factory_or_an_attribute(name: str) -> None:
    assert hasattr(import_chat(name), "complete")


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("inbox_chats", "expected MODULE:NAME"),
        (":chat", "expected MODULE:NAME"),
        ("no_such_module:chat", "No module named"),
        ("inbox_chats:none", "has no attribute 'none'"),
        ("inbox_chats:nothing", "expected a chat that ChatBuilder built"),
    ],
)
def test_invalid_chat_option_exits_with_a_message(name: str, told: str) -> None:
    with pytest.raises(SystemExit, match=told):
        main(["--store", "chats.db", "--chat", name])


def test_port_in_use_exits_with_a_message() -> None:
    with listen(0) as taken, pytest.raises(SystemExit, match="--port"):
        main(["--store", "chats.db", "--port", str(taken.getsockname()[1])])


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param(None, "cannot be read or written", id="no-folder"),
        pytest.param("print('hello')" * 100, "is not a database of SQLite", id="another-file"),
    ],
)
def test_a_store_that_cannot_be_read_exits_with_a_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str | None, problem: str
) -> None:
    async def serve(*_: object, **__: object) -> None:
        """Return at once, so that a command that does not exit ends."""

    monkeypatch.setattr("uvicorn.Server.serve", serve)
    path = tmp_path / "missing" / "chats.db" if text is None else tmp_path / "chats.py"
    if text is not None:
        path.write_text(text)
    with pytest.raises(SystemExit, match=f"--store {path}: .*{problem}"):
        main(["--store", str(path), "--port", "0"])


def test_a_blank_person_exits_with_a_message() -> None:
    with pytest.raises(SystemExit, match="--person: person must be a string that is not empty"):
        main(["--store", "chats.db", "--port", "0", "--person", " "])


def test_listener_is_bound_to_loopback() -> None:
    with listen(0) as listener:
        assert listener.getsockname()[0] == "127.0.0.1"
        socket.create_connection(listener.getsockname()).close()


def get(port: int, path: str, token: str) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("GET", path, headers={"authorization": f"Bearer {token}"})
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def test_command_serves_the_inbox_until_interrupted(folder: Path) -> None:
    async def ask() -> None:
        async with SqliteStore(folder / "chats.db") as store:
            await Bank().ask(store)

    async def status() -> object:
        async with SqliteStore(folder / "chats.db") as store:
            return (await store.load("chat-17")).messages.tool("call_1").status

    anyio.run(ask)
    command = [sys.executable, "-m", "chat_inbox", "--store", "chats.db", "--port", "0", "--person", "ana"]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            port = int(line.partition("http://127.0.0.1:")[2].partition("/")[0])
            token = line.partition("startup_token=")[2].partition(" ")[0]
            authorized = {"authorization": f"Bearer {token}"}
            assert len(token) > 40
            assert get(port, "/api/waiting", "")[0] == 401
            assert b"1 pending approval" in get(port, "/", token)[1]
            assert get(port, "/api/waiting", token)[0] == 200

            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            connection.request("GET", "/api/conversations/chat-17/calls/call_1", headers=authorized)
            version = connection.getresponse().read().partition(b'"version":"')[2].partition(b'"')[0].decode()
            body = f'{{"version": "{version}"}}'
            path = "/api/conversations/chat-17/calls/call_1/approve"
            connection.request("POST", path, body, {"content-type": "application/json"})
            refused = connection.getresponse()  # another process of this machine
            assert (refused.status, refused.read()[:22]) == (401, b"You are not signed in:")
            connection.request("POST", path, body, {"content-type": "application/json", **authorized})
            answer = connection.getresponse()
            assert (answer.status, b'"by":"ana"' in answer.read()) == (200, True)
            connection.close()

            # A page that is open does not keep it from ending.
            listening = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            listening.request("GET", "/api/waiting/stream", headers=authorized)
            assert listening.getresponse().readline().startswith(b": listening")
        finally:
            process.send_signal(signal.SIGINT)
            assert process.wait(60) is not None
        listening.close()

    assert isinstance(anyio.run(status), Approved)


@pytest.mark.parametrize("port", ["-1", "65536"])
def test_port_out_of_range_exits_with_a_message(port: str) -> None:
    with pytest.raises(SystemExit, match=f"--port {port}: the port must be a number from 0 to 65535"):
        main(["--store", "chats.db", "--port", port])
