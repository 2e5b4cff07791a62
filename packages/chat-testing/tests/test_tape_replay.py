"""Selection of the recorded response for a request, and the error if there is none."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from chat_core.errors import UsageError
from chat_core.testing import MockTransport
from chat_core.transport import Framing, Request
from chat_testing import RecordingTransport, TapeTransport

Body = dict[str, Any] | str


def asking(
    body: Body | None = None,
    path: str = "/v1/chat",
    *,
    method: str = "POST",
    host: str = "llm.example",
    headers: Sequence[tuple[str, str]] = (),
    framing: Framing = "sse",
) -> Request:
    data = b"" if body is None else body.encode() if isinstance(body, str) else json.dumps(body).encode()
    return Request(method, "https", host, path, tuple(headers), data, framing=framing)


async def recorded(folder: Path, *requests: Request) -> Path:
    """Record a tape whose n-th response is the text `n`."""
    mock = MockTransport()
    recording = RecordingTransport(mock, folder / "tape.json")
    for number, request in enumerate(requests, 1):
        mock.answer(body=f"{number}")
        await recording.send(request)
    return folder / "tape.json"


async def refused(tape: TapeTransport, request: Request) -> str:
    """Return the error message for a request that is not on the tape, without the path of the file."""
    with pytest.raises(UsageError) as caught:
        await tape.send(request)
    return str(caught.value).partition("tape.json: ")[2]


@pytest.mark.anyio
async def test_strict_matching_ignores_white_space_and_key_order_of_json(tmp_path: Path) -> None:
    tape = TapeTransport(await recorded(tmp_path, asking('{"a": 1, "b": [true, null]}')))

    assert (await tape.send(asking('{"b":[true,null],\n"a":1}'))).body == b"1"


@pytest.mark.parametrize(
    ("came", "where"),
    [
        (asking({"a": 2, "c": [1, {"d": "x"}]}), "body.a: recorded 1, received 2"),
        (asking({"a": True, "c": [1, {"d": "x"}]}), "body.a: recorded 1, received true"),
        (asking({"a": 1, "c": [1, {"d": "y"}]}), 'body.c[1].d: recorded "x", received "y"'),
        (asking({"a": 1, "c": [1, {"d": "x"}, 3]}), "body.c: recorded 2 items, received 3"),
        (asking({"c": [1, {"d": "x"}]}), "body.a: recorded 1, not received"),
        (asking({"a": 1, "c": [1, {"d": "x"}], "e": 5}), "body.e: not recorded, received 5"),
        (
            asking({"a": 1, "c": [1, {"d": "x"}]}, "/v2"),
            'url: recorded "https://llm.example/v1/chat", received "https://',
        ),
        (asking({"a": 1, "c": [1, {"d": "x"}]}, host="other"), 'received "https://other/v1/chat"'),
        (asking({"a": 1, "c": [1, {"d": "x"}]}, "/v1/chat?alt=sse"), 'received "https://llm.example/v1/chat?alt=sse"'),
        (asking({"a": 1, "c": [1, {"d": "x"}]}, method="PUT"), 'method: recorded "POST", received "PUT"'),
        (asking(), 'body: recorded {"json": {"a": 1, "c": [1, {"d": "x"}]}}, received none'),
        (asking("text"), 'received {"text": "text"}'),
    ],
)
@pytest.mark.anyio
async def test_strict_matching_reports_the_difference_to_the_nearest_request(
    came: Request, where: str, tmp_path: Path
) -> None:
    tape = TapeTransport(await recorded(tmp_path, asking({"a": 1, "c": [1, {"d": "x"}]})))

    assert where in await refused(tape, came)


@pytest.mark.anyio
async def test_request_with_a_body_does_not_match_one_without_in_strict_mode(tmp_path: Path) -> None:
    path = await recorded(tmp_path, asking())

    assert "body: recorded none, received" in await refused(TapeTransport(path), asking({"a": 1}))
    assert (await TapeTransport(path, match="lenient").send(asking({"a": 1}))).body == b"1"


@pytest.mark.anyio
async def test_mismatch_error_numbers_the_request_and_the_nearest_exchange(tmp_path: Path) -> None:
    path = await recorded(tmp_path, asking({"a": 1, "b": 1}), asking({"a": 2, "b": 2}), asking({"a": 3, "b": 3}))
    tape = TapeTransport(path)
    await tape.send(asking({"a": 1, "b": 1}))

    assert await refused(tape, asking({"a": 3, "b": 4})) == (
        "request 2 is not on the tape: send() of POST https://llm.example/v1/chat\n"
        "  nearest is exchange 3 of 3; it differs in\n"
        "    body.b: recorded 3, received 4"
    )
    assert "nearest is exchange 1 of 3 (it was played before)" in await refused(tape, asking({"a": 1, "b": 4}))


@pytest.mark.anyio
async def test_strict_matching_enforces_the_recorded_order(tmp_path: Path) -> None:
    tape = TapeTransport(await recorded(tmp_path, asking({"a": 1}), asking({"a": 2})))

    assert "exchange 2 of 2 matches, but exchange 1 is next: keep the order, or use match='lenient'" in await refused(
        tape, asking({"a": 2})
    )
    assert (await tape.send(asking({"a": 1}))).body == b"1"
    assert "exchange 1 of 2 matches, but was played before: each exchange is played once" in await refused(
        tape, asking({"a": 1})
    )


@pytest.mark.anyio
async def test_stream_does_not_match_a_whole_response_in_any_mode(tmp_path: Path) -> None:
    path = await recorded(tmp_path, asking({"a": 1}))
    for match in ("strict", "lenient", "order"):
        with pytest.raises(UsageError, match=r"transport method: recorded send\(\), received stream\(\)"):
            async with TapeTransport(path, match=match).stream(asking({"a": 1})):
                pass


@pytest.mark.anyio
async def test_stream_with_another_framing_does_not_match(tmp_path: Path) -> None:
    mock = MockTransport()
    mock.events("1")
    async with RecordingTransport(mock, tmp_path / "tape.json").stream(asking()) as stream:
        assert [event.data async for event in stream] == [b"1"]

    with pytest.raises(UsageError, match='framing: recorded "sse", received "json-lines"'):
        async with TapeTransport(tmp_path / "tape.json").stream(asking(framing="json-lines")):
            pass


@pytest.mark.anyio
async def test_headers_are_compared_only_if_they_are_selected(tmp_path: Path) -> None:
    path = await recorded(tmp_path, asking(headers=[("Anthropic-Beta", "a"), ("user-agent", "x")]))
    other = asking(headers=[("anthropic-beta", "b"), ("user-agent", "y")])

    assert (await TapeTransport(path).send(other)).body == b"1"
    assert 'headers.anthropic-beta: recorded "a", received "b"' in await refused(
        TapeTransport(path, headers=["Anthropic-Beta"]), other
    )


@pytest.mark.anyio
async def test_lenient_matching_ignores_order_host_and_additional_fields(tmp_path: Path) -> None:
    path = await recorded(tmp_path, asking({"a": {"x": 1}}), asking({"b": [{"y": 1}]}), asking({"a": {"x": 1}}))
    tape = TapeTransport(path, match="lenient")

    assert (await tape.send(asking({"b": [{"y": 1, "more": 1}]}, "/v1/chat?k=v", host="other"))).body == b"2"
    assert (await tape.send(asking({"a": {"x": 1}, "more": 2}))).body == b"1"
    assert (await tape.send(asking({"a": {"x": 1}}))).body == b"3"


@pytest.mark.anyio
async def test_lenient_matching_requires_every_recorded_field(tmp_path: Path) -> None:
    tape = TapeTransport(await recorded(tmp_path, asking({"a": {"x": 1}, "b": [1]})), match="lenient")

    assert "body.a.x: recorded 1, not received" in await refused(tape, asking({"a": {}, "b": [1]}))
    assert "body.b: recorded 1 items, received 2" in await refused(tape, asking({"a": {"x": 1}, "b": [1, 2]}))
    assert 'path: recorded "/v1/chat", received "/v1/other"' in await refused(
        tape, asking({"a": {"x": 1}, "b": [1]}, "/v1/other")
    )


@pytest.mark.anyio
async def test_order_matching_accepts_any_request(tmp_path: Path) -> None:
    tape = TapeTransport(await recorded(tmp_path, asking({"a": 1}), asking({"a": 2})), match="order")

    assert [(await tape.send(asking({"z": 0}, "/elsewhere"))).body for _ in range(2)] == [b"1", b"2"]
    assert "was played before" in await refused(tape, asking())


@pytest.mark.anyio
async def test_long_values_and_many_differences_are_truncated(tmp_path: Path) -> None:
    tape = TapeTransport(await recorded(tmp_path, asking({f"k{n}": "x" * 200 for n in range(20)})))
    text = await refused(tape, asking({}))

    assert "    … and 8 more" in text
    assert max(map(len, text.splitlines()[2:])) < 130


@pytest.mark.anyio
async def test_mismatch_error_mentions_the_empty_tape(tmp_path: Path) -> None:
    (tmp_path / "tape.json").write_text('{"tape": 1, "exchanges": []}', encoding="utf-8")

    assert (await refused(TapeTransport(tmp_path / "tape.json"), asking())).endswith("the tape is empty")


@pytest.mark.anyio
async def test_closing_reports_unrequested_exchanges_once(tmp_path: Path) -> None:
    tape = TapeTransport(await recorded(tmp_path, asking({"a": 1}), asking({"a": 2}, "/v1/other?key=secret99")))
    await tape.send(asking({"a": 1}))
    with pytest.raises(UsageError) as caught:
        await tape.aclose()
    await tape.aclose()

    assert str(caught.value).endswith(
        "tape.json: 1 recorded exchange(s) were not requested:\n    POST https://llm.example/v1/other?key=…"
    )


@pytest.mark.anyio
async def test_closing_a_completely_played_tape_raises_nothing(tmp_path: Path) -> None:
    tape = TapeTransport(await recorded(tmp_path, asking()))
    await tape.send(asking())
    await tape.aclose()

    assert tape.unplayed == []


def test_unknown_match_mode_raises() -> None:
    wrong: Any = "fuzzy"
    with pytest.raises(UsageError, match="'strict', 'lenient', 'order', not 'fuzzy'"):
        TapeTransport("tape.json", match=wrong)
