"""The log record of each exchange, and the secrets that it must not contain."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import anyio
import pytest
from chat_core.errors import TransportError
from chat_core.testing import MockTransport
from chat_core.transport import LoggingTransport, Request, Transport

SECRET = "sk-must-not-be-told"
ASKED = Request(
    "POST",
    "https",
    f"user:{SECRET}@llm.example",
    f"/v1/chat?key={SECRET}",
    (("authorization", f"Bearer {SECRET}"),),
    f'{{"key": "{SECRET}"}}'.encode(),
)


class Clock:
    """Clock that advances by half a second with each reading."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 0.5
        return self.now


class Lines(logging.Handler):
    """Log handler that stores the records."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)

    @property
    def only(self) -> logging.LogRecord:
        (record,) = self.records
        return record


@pytest.fixture
def lines() -> Iterator[Lines]:
    handler, logger = Lines(), logging.getLogger("test.transport")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield handler
    logger.removeHandler(handler)


@pytest.fixture
def logger(lines: Lines) -> logging.Logger:
    return logging.getLogger("test.transport")


async def read(transport: Transport, leave_behind: int | None = None) -> None:
    seen = 0
    async with transport.stream(ASKED) as stream:
        async for _ in stream:
            seen += 1
            if seen == leave_behind:
                break


@pytest.mark.anyio
async def test_stream_is_logged_as_one_line_with_its_attributes(lines: Lines, logger: logging.Logger) -> None:
    mock = MockTransport()
    mock.events("12", "345", headers={"x-request-id": "r7", "set-cookie": SECRET})
    await read(LoggingTransport(mock, logger, clock=Clock()))
    record = lines.only

    assert record.getMessage() == (
        "POST https://llm.example/v1/chat?…: complete, status 200, 2 events, 5 bytes, 1.000 s"
    )
    facts = {name.removeprefix("http_"): value for name, value in vars(record).items() if name.startswith("http_")}
    assert facts == {
        "method": "POST",
        "url": "https://llm.example/v1/chat?…",
        "streamed": True,
        "status": 200,
        "request_id": "r7",
        "headers": {"content-type": "text/event-stream", "x-request-id": "…", "set-cookie": "…"},
        "events": 2,
        "bytes": 5,
        "seconds": 1.0,
        "first_seconds": 0.5,
        "outcome": "complete",
        "error": None,
    }


@pytest.mark.anyio
async def test_whole_response_is_logged_as_one_line(lines: Lines, logger: logging.Logger) -> None:
    mock = MockTransport()
    mock.answer(404, {}, b"not here")
    await LoggingTransport(mock, logger).send(Request("GET", "http", "llm.example", "/v1/models"))

    assert lines.only.getMessage().startswith(
        "GET http://llm.example/v1/models: complete, status 404, 0 events, 8 bytes"
    )
    assert lines.only.levelno == logging.INFO


@pytest.mark.anyio
async def test_stream_closed_early_is_logged_as_left(lines: Lines, logger: logging.Logger) -> None:
    mock = MockTransport()
    mock.answer(body=[b"data: 1\n\n", anyio.sleep_forever])
    await read(LoggingTransport(mock, logger), leave_behind=1)

    assert ": left, status 200, 1 events" in lines.only.getMessage()


@pytest.mark.anyio
async def test_failure_is_logged_as_a_warning_and_propagates_unchanged(lines: Lines, logger: logging.Logger) -> None:
    failures = {"timeout": TransportError("timeout", SECRET), "RuntimeError": RuntimeError(SECRET)}
    for kind, failure in failures.items():
        lines.records.clear()
        mock = MockTransport()
        mock.fail(failure)
        with pytest.raises(type(failure)) as caught:
            await LoggingTransport(mock, logger, level=logging.DEBUG).send(ASKED)

        assert caught.value is failure
        assert f": failed ({kind}), status None" in lines.only.getMessage()
        assert lines.only.levelno == logging.WARNING


@pytest.mark.anyio
async def test_a_log_record_contains_no_secret(lines: Lines, logger: logging.Logger) -> None:
    mock = MockTransport()
    mock.answer(200, {"x-echo": SECRET}, SECRET)
    mock.events(SECRET)
    mock.answer(401, {"x-echo": SECRET}, SECRET)
    mock.fail(TransportError("stream", f"broke behind {SECRET}"))
    transport = LoggingTransport(mock, logger)
    await transport.send(ASKED)
    await read(transport)
    for _ in range(2):
        with pytest.raises(TransportError):
            await read(transport)

    assert len(lines.records) == 4
    assert [record for record in lines.records if SECRET in f"{vars(record)} {record.getMessage()}"] == []


@pytest.mark.anyio
async def test_disabled_log_level_logs_nothing(lines: Lines, logger: logging.Logger) -> None:
    mock = MockTransport()
    mock.answer()
    await LoggingTransport(mock, logger, level=logging.DEBUG).send(ASKED)

    assert lines.records == []


@pytest.mark.anyio
async def test_default_logger_is_the_logger_of_the_package(caplog: pytest.LogCaptureFixture) -> None:
    mock = MockTransport()
    mock.answer()
    with caplog.at_level(logging.INFO, "chat_core.transport"):
        await LoggingTransport(mock).send(ASKED)

    assert [record.name for record in caplog.records] == ["chat_core.transport"]
