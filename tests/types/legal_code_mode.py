"""Legal: a chat with a code tool pauses only if a call of its programs can."""

from __future__ import annotations

from typing import Never, assert_type

from chat_pipeline import CodeLimits, CodeTool, code_tool

from chat_core import (
    ChatBuilder,
    ChatResponse,
    Completed,
    FunctionCall,
    Paused,
    Reject,
    RequireApproval,
    ScopedCollection,
    StreamingChat,
)

from fakes import FakeFull
from world import ask_if_high, hi, more, refuse_if_high, risky, true

adds = FakeFull(FunctionCall("run_code", {"program": "await balance('abc') + 1"}), "done")
buys = FakeFull(FunctionCall("run_code", {"program": "await pay(500)"}, id="run"), "paid")
checks = ScopedCollection(more, refuse_if_high)
asks = ScopedCollection(risky, ask_if_high)


async def l980_a_code_tool_whose_calls_cannot_pause() -> None:
    tool = code_tool(checks)
    assert_type(tool, CodeTool[Never])
    chat = ChatBuilder().with_model(adds).with_scoped_tools(tool).build()
    assert_type(chat, StreamingChat[ChatResponse, Never])
    messages = hi()
    assert_type(await chat.complete(messages), ChatResponse)
    status = messages.tool("call_1").status
    true(isinstance(status, Completed) and status.result == {"result": 4})


async def l981_a_code_tool_whose_calls_can_pause() -> None:
    tool = code_tool(asks, name="run_code", limits=CodeLimits(calls=3, seconds=2))
    assert_type(tool, CodeTool[Paused])
    chat = ChatBuilder().with_model(buys).with_scoped_tools(tool).build()
    assert_type(chat, StreamingChat[ChatResponse, Paused])
    result = await chat.complete(hi())
    assert_type(result, ChatResponse | Paused)
    true(isinstance(result, Paused) and result.waiting[0].path == ("run", "call_1"))


async def l982_one_scope_that_can_pause_and_one_that_cannot() -> None:
    chat = ChatBuilder().with_model(buys).with_scoped_tools(code_tool(asks, checks)).build()
    assert_type(chat, StreamingChat[ChatResponse, Paused])
    result = await chat.complete(hi())
    true(isinstance(result, Paused))


async def l983_a_code_tool_beside_other_tools() -> None:
    ready = ChatBuilder().with_model(adds).with_scoped_tools(code_tool(checks))
    assert_type(ready.build(), StreamingChat[ChatResponse, Never])
    assert_type(ready.with_scoped_tools(asks).build(), StreamingChat[ChatResponse, Paused])


async def l984_a_code_tool_whose_interrupted_calls_wait() -> None:
    waits = code_tool(checks, interrupted=RequireApproval())
    chat = ChatBuilder().with_model(adds).with_scoped_tools(waits).build()
    assert_type(chat, StreamingChat[ChatResponse, Paused])
    rejects = ChatBuilder().with_model(adds).with_scoped_tools(code_tool(checks, interrupted=Reject("unknown"))).build()
    assert_type(rejects, StreamingChat[ChatResponse, Never])
    assert_type(await chat.complete(hi()), ChatResponse | Paused)
