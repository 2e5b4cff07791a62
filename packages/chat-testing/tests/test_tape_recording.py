"""Recorded exchanges are replayed: streams with their batches, refusals and errors, in order."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from chat_core.errors import InvalidDocumentError, NewerVersionError, TransportError, UsageError
from chat_core.testing import MockTransport
from chat_core.transport import Event, Headers, Request, Transport
from chat_testing import RecordingTransport, TapeTransport

MOMENT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def is_done(event: Event) -> bool:
    return event.data == b"[DONE]"


def asking(text: str = "hello") -> Request:
    return Request("POST", "https", "llm.example", "/v1/chat", body=json.dumps({"text": text}).encode())


class Clock:
    """Clock that advances by one second with each reading."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1
        return self.now


async def batches(transport: Transport, request: Request, leave_behind: int | None = None) -> list[list[Event]]:
    seen: list[list[Event]] = []
    async with transport.stream(request) as stream:
        async for batch in stream.batches():
            seen.append(list(batch))
            if len(seen) == leave_behind:
                break
    return seen


def files(folder: Path) -> list[Path]:
    return list(folder.iterdir())


def recorder(mock: MockTransport, path: Path, **settings: Any) -> RecordingTransport:
    return RecordingTransport(mock, path, clock=Clock(), now=lambda: MOMENT, **settings)


@pytest.mark.anyio
async def test_whole_response_is_replayed_byte_for_byte(tmp_path: Path) -> None:
    bodies = (b'{"a": 1,\n  "b": "\xc3\xa9"}\r\n', b'{"a":1}', b"", b"\x00\xff\xfe", b"text", b"1.0", b"two\nlines\n")
    mock = MockTransport()
    recording = recorder(mock, tmp_path / "tape.json")
    for body in bodies:
        mock.answer(404, {"content-type": "text/plain"}, body)
        await recording.send(asking())
    tape = TapeTransport(tmp_path / "tape.json")

    for body in bodies:
        response = await tape.send(asking())
        assert (response.status, response.headers["content-type"], response.body) == (404, "text/plain", body)


@pytest.mark.anyio
async def test_stream_is_replayed_in_its_original_batches(tmp_path: Path) -> None:
    mock = MockTransport()
    mock.answer(202, {"content-type": "text/event-stream"}, [b"data: 1\n\nevent: x\nid: 7\ndata: 2\n\n", b"data:\n\n"])
    recorded = await batches(recorder(mock, tmp_path / "tape.json"), asking())
    tape = TapeTransport(tmp_path / "tape.json")
    async with tape.stream(asking()) as stream:
        replayed = [list(batch) async for batch in stream.batches()]

    assert recorded == [[Event("message", b"1"), Event("x", b"2", "7")], [Event("message", b"", "7")]]
    assert replayed == recorded
    assert (stream.status, stream.headers["content-type"]) == (202, "text/event-stream")


@pytest.mark.anyio
async def test_replay_waits_only_if_a_sleep_function_is_passed(tmp_path: Path) -> None:
    mock = MockTransport()
    mock.answer(200, {}, [b"data: 1\n\n", b"data: 2\n\n"])
    mock.answer(200, {}, b"whole")
    recording = recorder(mock, tmp_path / "tape.json")
    await batches(recording, asking())
    await recording.send(asking())
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    for wanted in (None, sleep):
        tape = TapeTransport(tmp_path / "tape.json", sleep=wanted)
        await batches(tape, asking())
        assert waits == ([] if wanted is None else [3.0, 1.0])  # the clock was asked once more between them
        await tape.send(asking())

    assert waits[2:] == [1.0]


@pytest.mark.anyio
async def test_replayed_errors_take_as_long_as_recorded(tmp_path: Path) -> None:
    mock = MockTransport()
    mock.answer(429, {}, b"")
    mock.fail(TransportError("timeout", "too slow"))
    mock.answer(200, {}, [b"data: 1\n\n", TransportError("stream", "reset")])
    transport: Transport = recorder(mock, tmp_path / "tape.json")
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    for _ in range(2):
        waits.append(0)
        for _exchange in range(3):
            with pytest.raises(TransportError):
                await batches(transport, asking())
        transport = TapeTransport(tmp_path / "tape.json", sleep=sleep)

    # The clock is asked twice at the beginning and at the end; of a stream that breaks, twice behind its batch, too.
    assert waits == [0, 0, 3.0, 3.0, 3.0, 2.0]


@pytest.mark.anyio
async def test_refused_stream_is_replayed_as_a_refusal(tmp_path: Path) -> None:
    mock = MockTransport()
    mock.answer(429, {"retry-after": "7"}, '{"error": 1}')
    with pytest.raises(TransportError):
        await batches(recorder(mock, tmp_path / "tape.json"), asking())

    with pytest.raises(TransportError) as caught:
        await batches(TapeTransport(tmp_path / "tape.json"), asking())

    error = caught.value
    assert (error.kind, error.status, error.headers["retry-after"], error.body) == ("status", 429, "7", b'{"error": 1}')


@pytest.mark.anyio
async def test_transport_error_is_replayed_at_its_original_position(tmp_path: Path) -> None:
    mock = MockTransport()
    mock.fail(TransportError("connect", "no route"))
    mock.fail(TransportError("timeout", "too slow"))
    mock.answer(200, {}, [b"data: 1\n\n", TransportError("stream", "reset")])
    recording = recorder(mock, tmp_path / "tape.json")
    tape: Transport = recording
    for _ in range(2):
        with pytest.raises(TransportError, match="no route") as connecting:
            await tape.send(asking())
        with pytest.raises(TransportError, match="too slow") as waiting:
            await batches(tape, asking())
        seen: list[bytes] = []
        async with tape.stream(asking()) as stream:
            with pytest.raises(TransportError, match="reset") as breaking:
                seen += [event.data async for event in Kept(stream, seen)]
        assert [caught.value.kind for caught in (connecting, waiting, breaking)] == ["connect", "timeout", "stream"]
        assert (seen, breaking.value.status) == ([b"1"], None)
        tape = TapeTransport(tmp_path / "tape.json")


class Kept:
    """List that keeps the events received before an error."""

    def __init__(self, stream: Any, seen: list[bytes]) -> None:
        self.events = aiter(stream)
        self.seen = seen

    def __aiter__(self) -> Kept:
        return self

    async def __anext__(self) -> Event:
        event: Event = await anext(self.events)
        self.seen.append(event.data)
        return event


@pytest.mark.anyio
async def test_reading_past_the_end_of_a_stream_closed_early_raises_usage_error(tmp_path: Path) -> None:
    mock = MockTransport()
    mock.events("1", "2", "3")
    await batches(recorder(mock, tmp_path / "tape.json"), asking(), leave_behind=2)

    assert len(await batches(TapeTransport(tmp_path / "tape.json"), asking(), leave_behind=2)) == 2
    with pytest.raises(UsageError, match="was left at this position when it was recorded"):
        await batches(TapeTransport(tmp_path / "tape.json"), asking())


@pytest.mark.anyio
async def test_stream_closed_after_its_last_event_is_recorded_as_complete(tmp_path: Path) -> None:
    mock = MockTransport()
    mock.events("1", "[DONE]")
    request = replace(asking(), is_last=is_done)
    await batches(recorder(mock, tmp_path / "tape.json"), request, leave_behind=2)

    assert len(await batches(TapeTransport(tmp_path / "tape.json"), request)) == 2


@pytest.mark.anyio
async def test_exchanges_are_stored_in_the_order_in_which_they_began(tmp_path: Path) -> None:
    mock = MockTransport()
    go_on, first_asked = anyio.Event(), anyio.Event()

    async def wait() -> None:
        first_asked.set()
        await go_on.wait()

    mock.answer(200, {}, [wait, b"first"])
    mock.answer(200, {}, b"second")
    recording = recorder(mock, tmp_path / "tape.json")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(recording.send, asking("1"))
        await first_asked.wait()
        await recording.send(asking("2"))
        go_on.set()
    tape = TapeTransport(tmp_path / "tape.json")

    assert (await tape.send(asking("1"))).body == b"first"
    assert (await tape.send(asking("2"))).body == b"second"


@pytest.mark.anyio
async def test_cancelled_requests_and_unexpected_errors_are_not_recorded(tmp_path: Path) -> None:
    mock = MockTransport()
    asked = anyio.Event()

    async def wait() -> None:
        asked.set()
        await anyio.sleep_forever()

    mock.answer(200, {}, [wait])
    mock.fail(RuntimeError("a bug"))
    recording = recorder(mock, tmp_path / "tape.json")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(recording.send, asking())
        await asked.wait()
        tasks.cancel_scope.cancel()
    with pytest.raises(RuntimeError):
        await recording.send(asking())

    assert not (tmp_path / "tape.json").exists()


@pytest.mark.anyio
async def test_tape_file_contains_its_date_transport_note_and_readable_lines(tmp_path: Path) -> None:
    mock = MockTransport()
    mock.answer(200, {}, "é\nline")
    await recorder(mock, tmp_path / "new" / "tape.json", note="with the cheap model").send(asking())
    text = (tmp_path / "new" / "tape.json").read_text(encoding="utf-8")
    document = json.loads(text)

    assert {name: document[name] for name in ("tape", "recorded", "transport", "note")} == {
        "tape": 1,
        "recorded": "2026-01-02T03:04:05.000+00:00",
        "transport": "MockTransport",
        "note": "with the cheap model",
    }
    assert document["chat-core"]
    assert document["exchanges"][0]["recorded"] == "2026-01-02T03:04:05.000+00:00"
    assert '          "é",\n          "line"\n' in text  # line by line, for a diff
    assert text.endswith("}\n")


@pytest.mark.anyio
async def test_existing_tape_is_not_replaced_unless_overwrite_is_true(tmp_path: Path) -> None:
    mock = MockTransport()
    mock.answer(body=b"new")
    path = tmp_path / "tape.json"
    path.write_text("old", encoding="utf-8")
    with pytest.raises(UsageError, match="a tape already exists at"):
        recorder(mock, path)

    recording = recorder(mock, path, overwrite=True)
    assert path.read_text(encoding="utf-8") == "old"  # until there is something in its place
    await recording.send(asking())

    assert (await TapeTransport(path).send(asking())).body == b"new"


KILLED = """
import os, signal, sys
import anyio
from chat_core.testing import MockTransport
from chat_testing import RecordingTransport
from chat_core.transport import Request

async def die():
    os.kill(os.getpid(), signal.SIGKILL)

async def main():
    mock = MockTransport()
    mock.answer(200, {}, b"first")
    mock.answer(200, {}, b"second")
    mock.answer(200, {}, [b"data: 1\\n\\n", die])
    recording = RecordingTransport(mock, sys.argv[1])
    for number in (1, 2):
        await recording.send(Request("GET", "http", "h", f"/{number}"))
    async with recording.stream(Request("GET", "http", "h", "/3")) as stream:
        async for event in stream:
            pass

anyio.run(main)
"""


@pytest.mark.anyio
async def test_killed_recording_keeps_the_exchanges_completed_before(tmp_path: Path) -> None:
    path = tmp_path / "tape.json"
    ran = await anyio.to_thread.run_sync(
        lambda: subprocess.run([sys.executable, "-c", KILLED, str(path)], check=False, capture_output=True)
    )
    tape = TapeTransport(path)

    assert ran.returncode == -9, ran.stderr
    assert [(await tape.send(Request("GET", "http", "h", f"/{number}"))).body for number in (1, 2)] == [
        b"first",
        b"second",
    ]
    assert tape.unplayed == []
    assert files(tmp_path) == [path]


@pytest.mark.anyio
async def test_failed_write_leaves_the_previous_tape_unchanged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mock = MockTransport()
    mock.answer(body=b"first")
    mock.answer(body=b"second")
    recording = recorder(mock, tmp_path / "tape.json")
    await recording.send(asking())
    before = (tmp_path / "tape.json").read_bytes()

    def full(_fd: int) -> None:
        raise OSError(28, "no space left")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="no space"):
        await recording.send(asking())

    assert (tmp_path / "tape.json").read_bytes() == before
    assert files(tmp_path) == [tmp_path / "tape.json"]


@pytest.mark.anyio
async def test_lone_surrogate_in_a_response_is_replayed(tmp_path: Path) -> None:
    mock = MockTransport()
    mock.answer(body=b'{"a":"\\ud83d"}')
    await recorder(mock, tmp_path / "tape.json").send(asking())

    response = await TapeTransport(tmp_path / "tape.json").send(asking())
    assert json.loads(response.body) == {"a": "\ud83d"}


@pytest.mark.parametrize(
    ("text", "kind", "says"),
    [
        ("{", InvalidDocumentError, "not valid JSON"),
        ("[]", InvalidDocumentError, 'a JSON object with "tape": 1'),
        ('{"tape": "1"}', InvalidDocumentError, 'a JSON object with "tape": 1'),
        ('{"tape": 2, "exchanges": []}', NewerVersionError, "upgrade chat-testing"),
        ('{"tape": 1, "exchanges": [{}]}', InvalidDocumentError, "the tape is damaged"),
        ('{"tape": 1}', InvalidDocumentError, "the tape is damaged"),
    ],
)
def test_invalid_tape_file_raises_and_names_the_file(
    text: str, kind: type[Exception], says: str, tmp_path: Path
) -> None:
    (tmp_path / "tape.json").write_text(text, encoding="utf-8")
    with pytest.raises(kind, match=says) as caught:
        TapeTransport(tmp_path / "tape.json")

    assert "tape.json" in str(caught.value)


def test_missing_tape_raises_and_explains_how_to_record_it(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no tape at .*: record it"):
        TapeTransport(tmp_path / "tape.json")


@pytest.mark.anyio
async def test_recording_does_not_change_the_request_or_the_response(tmp_path: Path) -> None:
    mock = MockTransport()
    mock.answer(200, Headers({"content-type": "text/plain"}), b"x")
    recording = recorder(mock, tmp_path / "tape.json")
    response = await recording.send(asking())
    await recording.aclose()

    assert response.body == b"x"
    assert mock.closed
    assert mock.last.request == asking()


@pytest.mark.anyio
async def test_tape_of_an_uninstalled_chat_core_has_the_version_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr("chat_testing.tape._file.version", missing)
    mock = MockTransport()
    mock.answer()
    await recorder(mock, tmp_path / "tape.json").send(asking())

    assert '"chat-core": "unknown"' in (tmp_path / "tape.json").read_text(encoding="utf-8")
    assert repr(TapeTransport(tmp_path / "tape.json")).startswith("TapeTransport('")
