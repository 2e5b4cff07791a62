from __future__ import annotations

from typing import Any

import pytest
from chat_completions import GROQ, PERPLEXITY, CompletionsBuilder, OllamaBuilder, vendor_builder
from chat_core import ChatBuilder, File, FunctionCall, Messages, ScopedCollection, Text, Tool, ToolCollection, Turn
from chat_core.errors import InvalidResponseError, UnsupportedPartError, UsageError
from chat_core.options import ChatOptions
from chat_core.provider import NO_TOOLS
from chat_core.testing import MockTransport
from chat_core.tools.action import Execute

pytestmark = pytest.mark.anyio

REPLY = {"id": "c", "choices": [{"index": 0, "message": {"content": "Hi"}, "finish_reason": "stop"}]}
CALL = {"id": "1", "type": "function", "function": {"name": "pay", "arguments": "{}"}}


def answer(finish: str, **message: Any) -> dict[str, Any]:
    return {"id": "c", "choices": [{"index": 0, "message": message, "finish_reason": finish}]}


def builders() -> list[Any]:
    return [
        CompletionsBuilder().with_base_url("http://localhost/v1").with_model("m"),
        vendor_builder(GROQ).with_model("m").with_api_key("k"),
        OllamaBuilder().with_model("m"),
    ]


def conversation() -> Messages:
    messages = Messages.from_system("Be brief.")
    messages.user("One.")
    messages.user("Two.")
    messages.append("model", Turn([Text("A.")]))
    messages.append("model", Turn([Text("B.")]))
    messages.user("Three.")
    return messages


async def roles(builder: Any, messages: Messages | None = None) -> list[str]:
    transport = MockTransport()
    transport.answer(body=REPLY)
    said = messages if messages is not None else conversation()
    await builder.with_transport(transport).build().complete(said, NO_TOOLS, ChatOptions(), None)
    return [message["role"] for message in transport.last.json()["messages"]]


@pytest.mark.parametrize("number", range(3))
async def test_every_builder_can_join_messages_of_one_role(number: int) -> None:
    separate = ["system", "user", "user", "assistant", "assistant", "user"]
    joined = ["system", "user", "assistant", "user"]
    builder = builders()[number]
    assert await roles(builder) == separate
    assert await roles(builder.with_joined_messages()) == joined


@pytest.mark.parametrize("number", range(3))
async def test_every_builder_can_add_an_assistant_message_after_tool_results(number: int) -> None:
    tool = Tool(FunctionCall("pay"), call_id="1")
    tool.reject()
    messages = Messages.from_user("Pay.")
    messages.append("model", Turn([tool]))
    messages.user("Why not?")
    builder = builders()[number]
    assert await roles(builder, messages) == ["user", "assistant", "tool", "user"]
    with_message = ["user", "assistant", "tool", "assistant", "user"]
    assert await roles(builder.with_assistant_after_tools(), messages) == with_message


@pytest.mark.parametrize("number", range(3))
async def test_every_builder_can_send_system_messages_first(number: int) -> None:
    messages = Messages.from_user("Hi.")
    messages.append("model", Turn([Text("Hello.")]))
    messages.system("Be brief.").user("Who are you?")
    builder = builders()[number]
    assert await roles(builder, messages) == ["user", "assistant", "system", "user"]
    assert await roles(builder.with_system_first(), messages) == ["system", "user", "assistant", "user"]


async def test_perplexity_gets_alternating_roles() -> None:
    builder = vendor_builder(PERPLEXITY).with_model("sonar").with_api_key("k")
    assert await roles(builder) == ["system", "user", "assistant", "user"]


@pytest.mark.parametrize("number", range(3))
async def test_every_builder_can_map_finish_reasons(number: int) -> None:
    builder = builders()[number]
    paid: list[int] = []
    tools = ToolCollection()

    @tools.tool
    def pay() -> None:
        """Pay."""
        paid.append(1)

    def run(_call: FunctionCall, _meta: None) -> Execute:
        return Execute()

    for ready, runs in ((builder, 0), (builder.with_finish_reasons({"Done_With_Calls": "tool_calls"}), 1)):
        transport = MockTransport()
        transport.answer(body=answer("done_with_calls", content=None, tool_calls=[CALL]))
        transport.answer(body=REPLY)
        chat = ChatBuilder().with_model(ready.with_transport(transport).build())
        scoped = chat.with_scoped_tools(ScopedCollection(tools, run)).build()
        if runs:
            await scoped.complete(Messages.from_user("Pay."))
        else:
            with pytest.raises(InvalidResponseError, match="done_with_calls"):
                await scoped.complete(Messages.from_user("Pay."))
        assert len(paid) == runs


def test_with_finish_reasons_rejects_an_unknown_finish_reason() -> None:
    wrong: Any = {"eos": "finished"}
    with pytest.raises(UsageError, match=r"with_finish_reasons\(\): the meaning of 'eos' must be one of stop, length"):
        CompletionsBuilder().with_finish_reasons(wrong)


async def test_with_url_files_sends_a_document_by_url() -> None:
    messages = Messages()
    messages.append("user", Turn([File("application/pdf", url="https://h/a.pdf")]))
    transport = MockTransport()
    transport.answer(200, {}, REPLY)
    builder = CompletionsBuilder().with_base_url("http://localhost/v1").with_model("m").with_transport(transport)
    with pytest.raises(UnsupportedPartError, match=r"call with_url_files\(\) if it does"):
        await builder.build().complete(messages, NO_TOOLS, ChatOptions(), None)

    await builder.with_url_files("image", "document").build().complete(messages, NO_TOOLS, ChatOptions(), None)

    (part,) = transport.last.json()["messages"][0]["content"]
    assert part["file"]["file_data"] == "https://h/a.pdf"
