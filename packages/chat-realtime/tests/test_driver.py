"""The loop of a talk starts no unnecessary run."""

from __future__ import annotations

import pytest
from anyio import wait_all_tasks_blocked
from chat_core import Content, Done, Messages
from chat_realtime import TalkCancelled, converse
from talk_helpers import ScriptedStreams, chat_of, read_to_end

pytestmark = pytest.mark.anyio


async def test_a_talk_that_is_cancelled_at_once_sends_no_request() -> None:
    model = ScriptedStreams(["a"])

    async with converse(chat_of(model), Messages.from_user("Hi.")) as talk:
        talk.cancel()
        events = [event async for event in talk]

    assert events == [TalkCancelled()]
    assert model.requests == []


@pytest.mark.parametrize("role", ["system", "model"])
async def test_a_talk_waits_for_input_unless_a_response_is_due(role: str) -> None:
    model = ScriptedStreams(["Hello."])
    messages = Messages([Content.of("model" if role == "model" else "system", "Hi.")])

    async with converse(chat_of(model), messages) as talk:
        talk.resume()
        await wait_all_tasks_blocked()
        assert model.requests == []
        await talk.send("Hello?")
        *_, last = await read_to_end(talk)

    assert isinstance(last, Done)
    assert len(model.requests) == 1
