"""The command `python -m chat_service`."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import anyio
import pytest
from chat_core.testing import ScriptedProvider
from chat_inbox.__main__ import listen
from chat_service.__main__ import main
from service_helpers import Client

pytestmark = pytest.mark.anyio
PROGRAM = """
import chat_service.__main__ as command
from chat_core.testing import ScriptedProvider

command.model = lambda name: ScriptedProvider("Good morning.")
command.main(["--port", "0"])
"""


def test_an_unknown_model_exits_with_a_message() -> None:
    with pytest.raises(SystemExit, match="--model nowhere:x"):
        main(["--model", "nowhere:x"])


async def test_the_command_serves_only_requests_with_its_token(tmp_path: Path) -> None:
    async with await anyio.open_process([sys.executable, "-c", PROGRAM], cwd=tmp_path, stderr=None) as process:
        assert process.stdout is not None
        url = urlsplit((await process.stdout.receive()).decode().splitlines()[0].split()[-1])
        (token,) = parse_qs(url.query)["startup_token"]
        refused = await Client(url.port or 0, None).post("/api/v1/chat", {"message": "Hello."})
        reply = await Client(url.port or 0, token).post("/api/v1/chat", {"message": "Hello."})
        process.send_signal(signal.SIGINT)
        await process.wait()

    assert (url.hostname, refused.status) == ("127.0.0.1", 401)
    assert (reply.status, reply.json["response"]) == (200, "Good morning.")


@pytest.mark.parametrize(
    ("options", "variables"),
    [
        pytest.param(["--host", "0.0.0.0"], {}, id="option"),  # noqa: S104 - it must be refused
        pytest.param([], {"CHAT_SERVICE_SERVER_HOST": "0.0.0.0"}, id="variable"),  # noqa: S104 - it must be refused
    ],
)
def test_the_command_cannot_listen_on_other_addresses(
    monkeypatch: pytest.MonkeyPatch, options: list[str], variables: dict[str, str]
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit) as caught:
        main([*options, "--port", "0"])
    with listen(0) as listener:
        address = listener.getsockname()[0]

    assert caught.value.code
    assert address == "127.0.0.1"


def test_a_store_that_cannot_be_read_exits_with_a_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def model(_name: str) -> ScriptedProvider:
        return ScriptedProvider()

    monkeypatch.setattr("chat_service.__main__.model", model)
    with pytest.raises(SystemExit, match=r"--store .*cannot be read or written"):
        main(["--store", str(tmp_path), "--port", "0"])


def test_a_port_in_use_exits_with_a_message(monkeypatch: pytest.MonkeyPatch) -> None:
    def model(_name: str) -> ScriptedProvider:
        return ScriptedProvider()

    monkeypatch.setattr("chat_service.__main__.model", model)
    with listen(0) as taken, pytest.raises(SystemExit, match="--port"):
        main(["--port", str(taken.getsockname()[1])])
