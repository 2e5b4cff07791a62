"""The handles of a talk have the effects of its methods."""

from __future__ import annotations

import pytest
from chat_core import ChatBuilder, Done, Messages, NetworkError
from chat_core.testing import ScriptedProvider
from chat_realtime import TalkCancelled, converse
from talk_helpers import said

pytestmark = pytest.mark.anyio


async def test_a_handle_resumes_a_talk_after_an_error() -> None:
    messages = Messages()
    chat = ChatBuilder().with_model(ScriptedProvider(NetworkError("lost"), "Hi.")).with_retry(0).build()

    async with converse(chat, messages) as talk:
        spoken, heard = talk.split()
        assert spoken.is_connected
        await spoken.send("Hello?")
        with pytest.raises(NetworkError):
            await anext(heard)
        spoken.resume()
        events = [await anext(heard) for _ in range(3)]

    assert isinstance(events[-1], Done)
    assert said(messages) == ["user: Hello?", "model: Hi."]


async def test_a_handle_cancels_a_talk() -> None:
    async with converse(ChatBuilder().with_model(ScriptedProvider()).build(), Messages()) as talk:
        spoken, heard = talk.split()
        spoken.cancel()
        events = [event async for event in heard]

    assert events == [TalkCancelled()]
    assert not spoken.is_connected
