"""Illegal: a pause inside a program that is not handled, and settings of a wrong type."""

from __future__ import annotations

from typing import Never

from chat_pipeline import CodeLimits, CodeTool, code_tool

from chat_core import Chat, ChatBuilder, Execute, FunctionCall, ScopedCollection

from fakes import FakeFull
from world import ask_if_high, hi, more, plain, refuse_if_high, risky

buys = FakeFull(FunctionCall("run_code", {"program": "await pay(500)"}), "paid")
asks = ScopedCollection(risky, ask_if_high)
checks = ScopedCollection(more, refuse_if_high)
chat = ChatBuilder().with_model(buys).with_scoped_tools(code_tool(asks)).build()
mixed = ChatBuilder().with_model(buys).with_scoped_tools(code_tool(checks, asks)).build()


async def x980_text_of_a_program_that_may_be_paused() -> None:  # R: AttributeError: 'Paused'
    print((await chat.complete(hi())).text)  # E: Paused


async def x981_the_same_with_one_scope_that_cannot_pause() -> None:  # R: AttributeError: 'Paused'
    print((await mixed.complete(hi())).text)  # E: Paused


async def bare(chat: Chat) -> str:
    return (await chat.complete(hi())).text


async def x982_a_pausing_code_tool_where_none_may_pause() -> None:  # R: AttributeError: 'Paused'
    await bare(chat)  # E: Paused


def never(tool: CodeTool[Never]) -> None:
    ChatBuilder().with_model(buys).with_scoped_tools(tool).build()


def x983_a_code_tool_that_hides_its_pause() -> None:
    never(code_tool(asks))  # E: Never|Paused


def x984_tools_without_a_policy() -> None:  # R: UsageError: scopes must be
    code_tool(plain)  # E: ToolCollection


def x985_a_list_of_scopes() -> None:  # R: UsageError: scopes must be
    code_tool([checks])  # E: list


def x986_a_function_instead_of_a_scope() -> None:  # R: UsageError: scopes must be
    code_tool(hi)  # E: hi|Messages|ToolScope


def x987_a_limit_in_words() -> None:  # R: UsageError: CodeLimits\(seconds
    CodeLimits(seconds="five")  # E: str|five


def x988_limits_without_their_class() -> None:  # R: UsageError: limits must be
    code_tool(checks, limits={"calls": 3})  # E: CodeLimits


def x989_a_name_that_is_a_number() -> None:  # R: UsageError: name must be
    code_tool(checks, name=5)  # E: int|5


def x990_an_interrupted_call_that_is_executed() -> None:  # R: UsageError: .*
    code_tool(checks, interrupted=Execute())  # E: Execute
