"""The fake provider with scripted answers."""

from __future__ import annotations

import anyio
import pytest
from chat_core import ChatBuilder, ChatOptions, FunctionCall, Messages
from chat_core.errors import NetworkError, StreamTruncatedError, UsageError
from chat_core.events import FilePart, ReasoningDelta, StructuredPart, TextDelta, ToolCallDelta
from chat_core.messages import File, Reasoning, Structured, Text, Tool, Turn
from chat_core.provider import NO_TOOLS, ChatProvider, Delta, EmbeddingsProvider, ProviderMeta
from chat_core.testing import Answer, ScriptedProvider

pytestmark = pytest.mark.anyio


async def streamed(model: ScriptedProvider) -> tuple[list[Delta], Turn]:
    async with model.stream(Messages.from_user("hi"), NO_TOOLS, ChatOptions(), None) as stream:
        deltas = [delta async for batch in stream for delta in batch]
        return deltas, stream.close()


async def test_scripted_provider_implements_every_provider_protocol() -> None:
    model = ScriptedProvider()
    assert isinstance(model, ChatProvider)
    assert isinstance(model, EmbeddingsProvider)


async def test_scripted_provider_streams_every_kind_of_part() -> None:
    image = File("image/png", data=b"png")
    call = FunctionCall("f", {"a": 1}, id="call_1")
    deltas, turn = await streamed(ScriptedProvider([Reasoning("hm"), "one two", call, image, Structured([1])]))
    assert deltas == [
        ReasoningDelta("hm"),
        TextDelta("one "),
        TextDelta("two"),
        ToolCallDelta('{"a":1}', 0, "f", "call_1"),
        FilePart(image),
        StructuredPart([1]),
    ]
    assert [type(part) for part in turn.parts] == [Reasoning, Text, Tool, File, Structured]
    assert turn.finish_reason == "tool_calls"


async def test_nth_request_gets_the_nth_answer_and_an_extra_request_raises() -> None:
    model = ScriptedProvider("a", NetworkError("down"), "b")
    messages = Messages.from_user("hi")
    assert (await model.complete(messages, NO_TOOLS, ChatOptions(), None)).text == "a"
    with pytest.raises(NetworkError):
        await model.complete(messages, NO_TOOLS, ChatOptions(), None)
    assert (await model.complete(messages, NO_TOOLS, ChatOptions(), None)).text == "b"
    with pytest.raises(UsageError, match="3 answer"):
        await model.complete(messages, NO_TOOLS, ChatOptions(), None)


async def test_by_history_continues_the_script_in_another_process() -> None:
    messages = Messages.from_user("hi")
    await ChatBuilder().with_model(ScriptedProvider("a", "b", by_history=True)).build().complete(messages)
    again = Messages.from_json(messages.user("and?").to_json())
    chat = ChatBuilder().with_model(ScriptedProvider("a", "b", by_history=True)).build()
    assert (await chat.complete(again)).text == "b"


async def test_recorded_request_does_not_change_with_the_messages() -> None:
    model = ScriptedProvider("a")
    messages = Messages.from_user("hi")
    await model.complete(messages, NO_TOOLS, ChatOptions(seed=1), None)
    messages.user("later")
    assert model.asked[0].messages == Messages.from_json(model.asked[0].document)
    assert model.asked[0].messages[0].text == "hi"
    assert model.asked[0].options.seed == 1


async def test_scripted_stream_can_end_early_or_fail() -> None:
    with pytest.raises(StreamTruncatedError) as cut:
        await streamed(ScriptedProvider(Answer(["one two three"], fail_after=1)))
    assert cut.value.partial is not None
    assert cut.value.partial.text == "one "
    with pytest.raises(NetworkError):
        await streamed(ScriptedProvider(Answer(["one two three"], fail_after=1, error=NetworkError("broken"))))
    with pytest.raises(StreamTruncatedError):
        await ScriptedProvider(Answer(["x"], fail_after=0)).complete(Messages(), NO_TOOLS, ChatOptions(), None)


async def test_before_hook_delays_the_answer() -> None:
    gate = anyio.Event()
    model = ScriptedProvider(Answer(["there"], before=gate.wait))
    said: list[str] = []
    async with anyio.create_task_group() as group:

        async def ask() -> None:
            said.append((await model.complete(Messages(), NO_TOOLS, ChatOptions(), None)).text)

        group.start_soon(ask)
        await anyio.wait_all_tasks_blocked()
        assert said == []
        gate.set()
    assert said == ["there"]


async def test_scripted_embed_returns_vectors_and_enforces_the_batch_limit() -> None:
    model = ScriptedProvider(meta=ProviderMeta("scripted", max_embedding_batch=2))
    assert (await model.embed(["a", "bcd"], ChatOptions())).vectors == ((1.0,), (3.0,))
    with pytest.raises(UsageError, match="at most 2"):
        await model.embed(["a", "b", "c"], ChatOptions())
    chosen = ScriptedProvider(vectors=lambda text: (0.0, float(text)))
    assert (await chosen.embed(["7"], ChatOptions())).vectors == ((0.0, 7.0),)


async def test_request_with_unresolved_calls_raises() -> None:
    messages = Messages.from_user("hi")
    messages.append("model", Turn([Tool(FunctionCall("f"))]))
    with pytest.raises(AssertionError, match="unresolved"):
        await ScriptedProvider("a").complete(messages, NO_TOOLS, ChatOptions(), None)
