"""Request ids and structured logs."""

from __future__ import annotations

import gc
import io
import json
import logging
import signal
import weakref
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from chat_core import UsageError
from chat_service import ServiceSettings
from chat_service.hosts import HostGuard
from chat_service.live_text import LiveText
from chat_service.request_log import (
    JsonFormatter,
    RequestIdFilter,
    RequestLog,
    TextFormatter,
    configure_logging,
    set_logged_run,
)
from chat_service.runs import Runs
from chat_store import MemoryStore
from psycopg.conninfo import conninfo_to_dict
from service_helpers import Client, Reply, build_service, scripted, serving, text_of
from socket_helpers import open_socket
from starlette.responses import PlainTextResponse
from starlette.types import Message, Receive, Scope, Send

pytestmark = pytest.mark.anyio
SETTINGS = ServiceSettings(poll_seconds=0.2)


class Log:
    """The lines that a handler with the JSON formatter has written."""

    def __init__(self) -> None:
        self._stream = io.StringIO()
        self.handler = logging.StreamHandler(self._stream)
        self.handler.addFilter(RequestIdFilter())
        self.handler.setFormatter(JsonFormatter())

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self._stream.getvalue().splitlines()]


@pytest.fixture
def log() -> Iterator[Log]:
    found, logger = Log(), logging.getLogger()
    level = logging.getLogger("chat_service").level
    logger.addHandler(found.handler)
    logging.getLogger("chat_service").setLevel(logging.INFO)
    yield found
    logger.removeHandler(found.handler)
    logging.getLogger("chat_service").setLevel(level)


async def get(client: Client, path: str, request_id: str | None = None) -> Reply:
    return await client.request("GET", path, headers={} if request_id is None else {"x-request-id": request_id})


async def test_a_valid_id_is_returned_and_logged(store: MemoryStore, log: Log) -> None:
    async with serving(build_service(store, scripted(), settings=SETTINGS)) as client:
        reply = await get(client, "/api/v1/sessions?limit=3", "a.B-c_9:1")
    (line,) = [line for line in log.lines if line.get("request_id") == "a.B-c_9:1"]

    assert reply.headers["x-request-id"] == "a.B-c_9:1"
    assert (line["level"], line["method"], line["path"], line["status"]) == ("info", "GET", "/api/v1/sessions", 200)
    assert line["duration_ms"] >= 0
    assert "limit" not in json.dumps(line), "a query can contain secrets"


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(None, id="missing"),
        pytest.param("", id="empty"),
        pytest.param("a" * 65, id="long"),
        pytest.param("a b", id="space"),
        pytest.param('"}', id="json"),
        pytest.param("\u00e9", id="not-ascii"),
    ],
)
async def test_any_other_id_is_replaced(store: MemoryStore, sent: str | None) -> None:
    async with serving(build_service(store, scripted(), settings=SETTINGS)) as client:
        ids = [(await get(client, "/health", sent)).headers["x-request-id"] for _ in range(2)]

    assert [len(found) for found in ids] == [32, 32]
    assert ids[0] != ids[1]


async def test_the_events_of_a_stream_are_not_sent_through_the_middleware(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    passed: list[str] = []

    async def handle(guard: HostGuard, scope: Scope, receive: Receive, send: Send) -> None:
        async def note(message: Message) -> None:
            passed.append(message["type"])
            await send(message)

        await vars(guard)["_app"](scope, receive, note)

    monkeypatch.setattr(HostGuard, "__call__", handle)
    async with serving(build_service(store, scripted("It is well."))) as client:
        events = await client.events("POST", "/api/v1/chat/stream", {"message": "How is it?"})

    assert text_of(events) == "It is well."
    assert [name for name in passed if name.startswith("http.")] == ["http.response.start"]


class Connection:
    """A connection of a server, whose method `send` the application calls. It refers to the scope of its request."""

    def __init__(self) -> None:
        self.scope: Scope = {"type": "http", "method": "GET", "path": "/", "headers": [], "query_string": b""}
        self.sent: list[Message] = []

    async def receive(self) -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(self, message: Message) -> None:
        self.sent.append(message)


async def test_a_request_is_freed_without_the_garbage_collector() -> None:
    async def fail(scope: Scope, receive: Receive, send: Send) -> None:
        raise ConnectionError

    for app in (PlainTextResponse("well"), fail):
        connection = Connection()
        alive = weakref.ref(connection)
        gc.disable()
        try:
            with suppress(ConnectionError):
                await RequestLog(app)(connection.scope, connection.receive, connection.send)
            assert [message["type"] for message in connection.sent][:1] == ["http.response.start"][: app is not fail]
            del connection
            assert alive() is None
        finally:
            gc.enable()


async def test_every_response_has_an_id(store: MemoryStore, monkeypatch: pytest.MonkeyPatch, log: Log) -> None:
    service = build_service(store, scripted(), settings=SETTINGS)
    async with serving(service) as client:
        missing = await get(client, "/nowhere", "r-1")
        foreign = await client.get("/health", host="evil.example.org", x_request_id="r-2")
        monkeypatch.setattr(store, "meta", None)  # a defect of the store
        failed = await get(client, "/api/v1/sessions/6b1e0a4c-5d0f-4c39-9f0e-2a7d8f6b3c11", "r-3")
        async with open_socket(client, headers={"x-request-id": "r-4"}) as socket:
            response = socket.connection.response
            assert response is not None
            connected = response.headers["x-request-id"]

    assert (missing.status, foreign.status, failed.status) == (404, 403, 500)
    assert [reply.headers["x-request-id"] for reply in (missing, foreign, failed)] == ["r-1", "r-2", "r-3"]
    assert connected == "r-4"
    assert [line["status"] for line in log.lines if line.get("request_id") == "r-3"] == [500]


@pytest.mark.parametrize("failing", [LiveText.open, Runs.last_entry], ids=["before the run is read", "after it"])
async def test_a_request_and_its_run_are_found_by_the_id_of_the_run(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch, log: Log, failing: Callable[..., Any]
) -> None:
    failures = ["the disk is full"]

    def fail_once(*args: Any) -> Any:
        if failures:
            raise OSError(failures.pop())
        return failing(*args)

    owner = LiveText if failing is LiveText.open else Runs
    monkeypatch.setattr(owner, failing.__name__, fail_once)
    settings = ServiceSettings(poll_seconds=0.2, retry_seconds=0.05)
    async with serving(build_service(store, scripted("Hi."), settings=settings)) as client:
        events = await client.events("POST", "/api/v1/chat/stream", {"message": "Hello."})
    run_id = events[0].data["run_id"]
    lines = [line for line in log.lines if line.get("run_id") == run_id]

    assert [line.get("path") for line in lines] == [None, "/api/v1/chat/stream"]
    assert lines[0]["message"] == "a run will be tried again"
    assert "the disk is full" in lines[0]["exception"]


def test_a_record_of_a_run_is_one_line_of_json(log: Log) -> None:
    set_logged_run("run-1")
    try:
        int("line 1\nline 2")
    except ValueError:
        logging.getLogger("chat_service").exception("it failed:\n%s", {"level": "none"})
    finally:
        set_logged_run(None)
    logging.getLogger("chat_service").info("later")
    failed, later = log.lines

    assert (failed["level"], failed["message"]) == ("error", "it failed:\n{'level': 'none'}")
    assert failed["exception"].startswith("Traceback (most recent call last):\n")
    assert (failed["run_id"], "request_id" in failed) == ("run-1", False)
    assert "run_id" not in later


@pytest.mark.parametrize("formatter", [JsonFormatter(), TextFormatter()], ids=["json", "text"])
@pytest.mark.parametrize(
    "text",
    [
        "postgresql://ana:hunter2@db.example.org/chats",
        "postgresql://:hunter2@db/chats?sslmode=require",
        "postgresql://ana:hunt@hunter2@db/chats",
        "host=db user=ana password=hunter2 dbname=chats",
        "host=db password = 'hunter2 hunter2' dbname=chats",
        r"password='it\'s hunter2'",
        "postgresql://db/chats?user=ana&password=hunter2&sslmode=require",
        "{'user': 'ana', 'password': 'hunter2'}",
        'PGPASSWORD="hunter2"',
        "password='hunter2",
    ],
)
def test_passwords_in_connection_strings_are_not_logged(text: str, formatter: logging.Formatter) -> None:
    failure = OSError(text)
    record = logging.LogRecord(
        "store", logging.ERROR, "", 0, "no connection: %s", (text,), (OSError, failure, failure.__traceback__)
    )
    RequestIdFilter().filter(record)
    line = formatter.format(record)

    assert "hunter2" not in line
    assert line.count("***") == 2
    assert "no connection: " in line


@pytest.fixture
def alarm() -> Iterator[None]:
    """Fails a test after 10 seconds, also within a regular expression."""

    def fail(_number: int, _frame: object) -> None:
        pytest.fail("the text was searched again from each of its letters")

    before = signal.signal(signal.SIGALRM, fail)
    signal.alarm(10)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.usefixtures("alarm")
@pytest.mark.parametrize("word", ["a", "password", "://a", "://a:", " ", "password=\\"])
def test_the_path_of_a_request_cannot_delay_the_log(word: str) -> None:
    text = word * 500_000  # a quadratic search needs minutes
    record = logging.LogRecord("store", logging.ERROR, "", 0, text, (), None)

    assert json.loads(JsonFormatter().format(record))["level"] == "error"


@pytest.mark.parametrize("text", ["http://127.0.0.1:8080/a@b", "wrong password for ana", "a: b@c.example.org"])
def test_texts_without_passwords_are_logged_unchanged(text: str) -> None:
    record = logging.LogRecord("store", logging.ERROR, "", 0, text, (), None)

    assert json.loads(JsonFormatter().format(record))["message"] == text


async def test_an_error_of_the_store_is_logged_without_its_password(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch, log: Log
) -> None:
    dsn, last_entry = ["postgresql://ana:hunter2@[::1/chats"], Runs.last_entry

    def fail_once(*args: Any) -> Any:
        if dsn:
            conninfo_to_dict(dsn.pop())
        return last_entry(*args)

    monkeypatch.setattr(Runs, "last_entry", fail_once)
    settings = ServiceSettings(poll_seconds=0.2, retry_seconds=0.05)
    async with serving(build_service(store, scripted("Hi."), settings=settings)) as client:
        await client.events("POST", "/api/v1/chat/stream", {"message": "Hello."})
    (exception,) = [line["exception"] for line in log.lines if "exception" in line]

    assert "postgresql://ana:***@[::1/chats" in exception
    assert "hunter2" not in exception


async def test_a_path_with_a_line_end_is_one_line(caplog: pytest.LogCaptureFixture) -> None:
    async def app(scope: Scope, _receive: Receive, send: Send) -> None:
        del scope
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def send(message: Message) -> None:
        del message

    scope: Scope = {"type": "http", "method": "GET", "path": "/a\n2026 ERROR forged", "headers": []}
    with caplog.at_level("INFO", "chat_service"):
        await RequestLog(app)(scope, _never, send)

    assert "\n" not in caplog.messages[0]


async def _never() -> Message:
    raise AssertionError


def test_the_logging_of_the_process_is_configured(capsys: pytest.CaptureFixture[str]) -> None:
    root = logging.getLogger()
    handlers, level = [*root.handlers], root.level
    try:
        configure_logging("json", "warning")
        logging.getLogger("other").warning("seen")
        logging.getLogger("other").info("not seen")
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]

    assert [(line["message"], line["logger"]) for line in lines] == [("seen", "other")]


@pytest.mark.parametrize(("form", "level"), [("yaml", "info"), (None, "info"), ("text", "loud"), ("text", 5)])
def test_an_unknown_form_or_level_is_refused(form: Any, level: Any) -> None:
    with pytest.raises(UsageError, match=r"^(form|level) must be "):
        configure_logging(form, level)
