"""Legal: tools that return data for the application and changes of the state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Never, assert_type

from chat_core import (
    Chat,
    ChatBuilder,
    ChatResponse,
    Data,
    Messages,
    StructuredResponse,
    ToolCollection,
    ToolContext,
    ToolOutput,
)

from world import full, hi, true

charts = ToolCollection()


@charts.tool
def chart(context: ToolContext) -> ToolOutput:
    assert_type(context.state, Mapping[str, object])
    return ToolOutput("drawn", data=Data("chart", [1, 2], keep=True), state={"shown": True})


@charts.tool
async def several() -> ToolOutput | str:
    return ToolOutput("drawn", data=[Data("a", None), Data("b", {"c": 1})])


async def l130_outputs_do_not_change_the_type_of_a_chat() -> None:
    chat = ChatBuilder().with_model(full).with_tools(charts).with_max_kept_data(1000).build()
    plain: Chat[ChatResponse, Never] = chat
    assert_type(await plain.complete(hi()), ChatResponse)


async def l132_an_inner_chat_reports_with_an_output() -> None:
    def count(response: StructuredResponse[list[int]], messages: Messages) -> ToolOutput:
        assert_type(messages.state, Mapping[str, object])
        return ToolOutput(response.raw, state={"count": len(response.value)})

    def text(response: ChatResponse, _messages: Messages) -> ToolOutput:
        return ToolOutput(response.text, data=Data("text", response.text))

    ready = ChatBuilder().with_model(full)
    counting = ready.with_structured_output(list[int]).build().as_tool(name="count", description="", output=count)
    writing = ready.build().as_tool(name="write", description="", output=text)
    chat = ready.with_scoped_tools(counting).with_scoped_tools(writing).build()
    plain: Chat[ChatResponse, Never] = chat
    assert_type(await plain.complete(hi()), ChatResponse)


def l131_a_state_is_read_and_set_with_a_user_turn() -> None:
    messages = Messages(state={"theme": "dark"})
    messages.user("hello", state={"theme": "light"})
    assert_type(messages.state, Mapping[str, object])
    true(messages.state == {"theme": "light"})
