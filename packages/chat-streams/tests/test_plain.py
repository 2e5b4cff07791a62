from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from chat_core import ChatError, Messages
from chat_core.events import event_schema
from chat_core.testing import Answer
from chat_streams import PlainEncoder, send_run
from jsonschema import validate
from stream_world import BALANCE, PAY, bank

if TYPE_CHECKING:
    from chat_core.testing.scripted import Scripted
    from chat_streams.plain import PlainFormat

pytestmark = pytest.mark.anyio


async def sent(encoding: PlainFormat, *script: Scripted) -> str:
    chunks: list[bytes] = []

    async def send(data: bytes) -> None:
        chunks.append(data)

    async with bank(*script).stream(Messages.from_user("hi")) as stream:
        await send_run(aiter(stream), PlainEncoder(encoding), send)
    return b"".join(chunks).decode()


async def test_json_lines_are_the_events_of_the_engine() -> None:
    lines = (await sent("json_lines", [BALANCE], "much\n\r\u2028 more")).split("\n")
    events = [json.loads(line) for line in lines[:-1]]
    for event in events:
        validate(event, event_schema())
    assert "".join([event["text"] for event in events if event["type"] == "text_delta"]) == "much\n\r\u2028 more"
    assert [event["type"] for event in events if "tool" in event] == ["tool_call", "tool_started", "tool_result"]
    assert events[-1]["type"] == "done"


async def test_server_sent_events_are_named_after_their_type() -> None:
    blocks = [block.split("\n") for block in (await sent("sse", [PAY])).split("\n\n")[:-1]]
    assert {len(block) for block in blocks} == {2}
    for name, data in blocks:
        assert name.removeprefix("event: ") == json.loads(data.removeprefix("data: "))["type"]
    assert blocks[-1][0] == "event: paused"


@pytest.mark.parametrize("script", [ChatError("key s3cret"), Answer(["one two"], fail_after=1)])
async def test_a_failed_run_ends_with_one_error_event(script: Scripted) -> None:
    events = [json.loads(line) for line in (await sent("json_lines", script)).splitlines()]
    assert [event["type"] for event in events].count("error") == 1
    assert (events[-1]["type"], "s3cret" in str(events)) == ("error", False)
