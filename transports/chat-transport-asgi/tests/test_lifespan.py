"""The lifespan of an application: startup before the first request, and shutdown after the last one."""

from __future__ import annotations

import logging

import anyio
import pytest
from chat_core.errors import TransportError, UsageError
from chat_core.transport import Request
from chat_transport_asgi import AsgiTransport, Message, Receive, Scope, Send

ASKED = Request("GET", "http", "app.example", "/")


class Living:
    """Application with a lifespan that records its events."""

    def __init__(self, ends: Message | None = None, begins: Message | None = None) -> None:
        self.notes: list[str] = []
        self.begins = begins or {"type": "lifespan.startup.complete"}
        self.ends = ends or {"type": "lifespan.shutdown.complete"}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            scope["state"]["pool"] = "open"
            self.notes.append((await receive())["type"])
            await send(self.begins)
            if self.begins["type"].endswith("failed"):
                return
            self.notes.append((await receive())["type"])
            await send(self.ends)
        else:
            self.notes.append(f"asked with {scope['state']}")
            scope["state"]["own"] = 1
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body"})


@pytest.mark.anyio
async def test_the_lifespan_runs_during_the_block_and_shares_its_state() -> None:
    app = Living()
    async with AsgiTransport(app) as transport:
        await transport.send(ASKED)
        await transport.send(ASKED)
        assert app.notes[-1] != "lifespan.shutdown"

    assert app.notes == ["lifespan.startup", *["asked with {'pool': 'open'}"] * 2, "lifespan.shutdown"]


@pytest.mark.anyio
async def test_without_a_block_the_lifespan_does_not_run() -> None:
    app = Living()
    transport = AsgiTransport(app)
    await transport.send(ASKED)
    await transport.aclose()

    assert app.notes == ["asked with {}"]


@pytest.mark.anyio
async def test_aclose_ends_the_lifespan_once_from_any_task() -> None:
    app = Living()
    async with AsgiTransport(app) as transport:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(transport.aclose)
        assert app.notes == ["lifespan.startup", "lifespan.shutdown"]
        await transport.aclose()

    assert app.notes == ["lifespan.startup", "lifespan.shutdown"]


@pytest.mark.anyio
async def test_the_block_can_be_entered_again_after_its_exit_only() -> None:
    app = Living()
    transport = AsgiTransport(app)
    for _ in range(2):
        async with transport:
            with pytest.raises(UsageError, match="already"):
                await transport.__aenter__()

    assert app.notes == ["lifespan.startup", "lifespan.shutdown"] * 2


@pytest.mark.anyio
async def test_a_failed_startup_raises_a_connect_error() -> None:
    app = Living(begins={"type": "lifespan.startup.failed", "message": "no database"})
    with pytest.raises(TransportError, match="did not start: no database") as caught:
        async with AsgiTransport(app):
            pass

    assert caught.value.kind == "connect"


@pytest.mark.anyio
async def test_an_application_that_hangs_after_a_failed_startup_is_cancelled() -> None:
    async def stays(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "lifespan.startup.failed"})
        try:
            await anyio.sleep_forever()
        finally:
            ended.append(1)

    ended: list[int] = []
    with anyio.fail_after(60), pytest.raises(TransportError, match="no reason given"):
        await AsgiTransport(stays, grace=0.01).__aenter__()

    assert ended == [1]


@pytest.mark.anyio
async def test_an_application_without_lifespan_support_is_accepted() -> None:
    async def plain(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise NotImplementedError(scope["type"])
        await Living()(scope, receive, send)

    async with AsgiTransport(plain) as transport:
        assert (await transport.send(ASKED)).status == 200


@pytest.mark.anyio
async def test_errors_of_the_shutdown_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    failed: Message = {"type": "lifespan.shutdown.failed", "message": "still busy"}
    for app in (Living(ends=failed), Living(ends={"type": "nonsense"})):
        with caplog.at_level(logging.ERROR, "chat_transport_asgi"):
            async with AsgiTransport(app):
                pass

    assert [record.getMessage() for record in caplog.records] == [
        "the shutdown of the application failed: still busy",
        "the application raised in its lifespan",
    ]


@pytest.mark.anyio
async def test_an_exception_in_the_block_is_raised_after_the_shutdown() -> None:
    app = Living()
    own = ValueError("the block's own")
    with pytest.raises(ValueError, match="own") as caught:
        async with AsgiTransport(app):
            raise own

    assert caught.value is own
    assert app.notes == ["lifespan.startup", "lifespan.shutdown"]


@pytest.mark.anyio
async def test_exiting_a_block_that_was_not_entered_does_nothing() -> None:
    app = Living()
    await AsgiTransport(app).__aexit__(None, None, None)

    assert app.notes == []
