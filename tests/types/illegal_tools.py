"""Illegal: strategies, tools, and actions for interrupted calls."""

from __future__ import annotations

from typing import Never

from chat_core import (
    Action,
    Chat,
    ChatBuilder,
    ChatResponse,
    Execute,
    FunctionCall,
    Messages,
    Reject,
    RequireApproval,
    ScopedCollection,
    StructuredResponse,
    ToolCollection,
    ToolOutput,
)

from world import City, Risk, ask_if_high, hi, pay, pays, plain, refuse_if_high, risky

ready = ChatBuilder().with_model(pays)
asks = ScopedCollection(risky, ask_if_high)
waits = ready.with_scoped_tools(asks).build()


def yes(call: FunctionCall, risk: Risk) -> bool:
    return risk.high


async def yes_async(call: FunctionCall, risk: Risk) -> bool:
    return risk.high


def sometimes(call: FunctionCall, risk: Risk) -> Execute | None:
    return Execute() if risk.high else None


def over_text(call: FunctionCall, meta: str) -> Execute:
    return Execute()


def over_nothing(call: FunctionCall) -> Execute:
    return Execute()


def x50_a_strategy_that_returns_no_action() -> None:
    ScopedCollection(risky, yes)  # E: bool


def x51_a_lambda_that_returns_no_action() -> None:
    ScopedCollection(risky, lambda call, risk: risk.high)  # E: bool


def x52_a_coroutine_function_that_returns_no_action() -> None:
    ScopedCollection(risky, yes_async)  # E: bool


def x53_a_strategy_over_another_metadata() -> None:
    ScopedCollection(risky, over_text)  # E: (Risk|str)


def x54_a_lambda_over_another_metadata() -> None:
    ScopedCollection(risky, lambda call, risk: Execute() if risk.amount else Reject("no"))  # E: amount


def x55_a_strategy_without_the_metadata() -> None:
    ScopedCollection(risky, over_nothing)  # E: Risk


def x56_an_action_that_is_not_made() -> None:
    ScopedCollection(risky, lambda call, risk: Execute)  # E: Execute


def x57_a_strategy_that_forgets_to_decide() -> None:
    ScopedCollection(risky, sometimes)  # E: None


def x58_a_strategy_that_says_it_never_waits(call: FunctionCall, risk: Risk) -> Action[Never]:
    return RequireApproval()  # E: RequireApproval


def x59_a_fallback_that_is_no_action() -> None:
    ScopedCollection(risky, ask_if_high, fallback="no")  # E: fallback|\bno\b


def x60_metadata_of_another_type() -> None:  # R: UsageError: tool\(\) needs a Risk, not 'high'
    @risky.tool("high")  # E: \btool\b
    def fee(amount: int) -> int:
        return amount

    print(fee)


def x61_no_metadata_where_it_is_needed() -> None:  # R: UsageError: tool\(\) needs a Risk
    @risky.tool  # E: \btool\b
    def fee(amount: int) -> int:
        return amount

    print(fee)


def x62_metadata_where_there_is_none() -> None:  # R: UsageError: tool\(\) needs a NoneType
    @plain.tool(Risk(high=True))  # E: \btool\b
    def fee(amount: int) -> int:
        return amount

    print(fee)


async def x63_a_tool_called_with_the_wrong_type() -> None:
    print(await pay("5"))  # E: int


async def x64_a_tool_called_with_an_unknown_argument() -> None:  # R: TypeError
    print(await pay(5, whom="bo"))  # E: whom


def x65_tools_without_a_policy_where_one_is_needed() -> None:  # R: UsageError: with_scoped_tools\(\) needs
    ready.with_scoped_tools(risky)  # E: ToolCollection


def x66_a_policy_where_tools_run_anyway() -> None:  # R: UsageError: with_tools\(\) needs a ToolCollection
    ready.with_tools(asks)  # E: ScopedCollection


def x67_a_function_that_is_no_collection() -> None:  # R: UsageError: with_tools\(\) needs a ToolCollection
    ready.with_tools(pay)  # E: ToolCollection


def x68_tools_on_an_embeddings_builder() -> None:  # R: AttributeError: 'EmbeddingsBuilder'
    ready.with_embeddings().with_tools(plain)  # E: attribute .?with_tools


def x69_scoped_tools_on_an_embeddings_builder() -> None:  # R: AttributeError: 'EmbeddingsBuilder'
    ready.with_embeddings().with_scoped_tools(asks)  # E: attribute .?with_scoped_tools


def x70_structured_output_on_an_embeddings_builder() -> None:  # R: AttributeError: 'EmbeddingsBuilder'
    ready.with_embeddings().with_structured_output(City)  # E: attribute .?with_structured_output


def x71_a_chat_that_is_not_made_a_tool() -> None:  # R: UsageError: with_scoped_tools\(\) needs
    ready.with_scoped_tools(waits)  # E: StreamingChat


def x72_a_chat_as_a_tool_without_a_name() -> None:  # R: TypeError
    waits.as_tool(description="Pays bills.")  # E: name


def x73_tools_that_are_no_type() -> None:  # R: UsageError
    ToolCollection("risk")  # E: meta_type|ToolCollection


async def x74_metadata_read_as_another_type() -> None:
    level: str = risky.meta("pay")  # E: Risk
    print(level)


def x76_an_output_of_an_inner_chat_that_is_a_text() -> None:
    waits.as_tool(name="pay", description="Pays.", output=lambda response, messages: response.text)  # E: str|ToolOutput


def report_of_a_city(response: StructuredResponse[City], _messages: Messages) -> ToolOutput:
    return ToolOutput(response.raw)


def x77_an_output_of_another_response() -> None:
    waits.as_tool(name="pay", description="Pays.", output=report_of_a_city)  # E: StructuredResponse|report_of_a_city


def x78_an_output_that_is_no_function() -> None:  # R: UsageError: output of as_tool\(\) must be a function
    waits.as_tool(name="pay", description="Pays.", output=ToolOutput("text"))  # E: ToolOutput


def x75_a_structured_response_is_no_text_response(answer: StructuredResponse[City]) -> ChatResponse:
    return answer  # E: StructuredResponse\[City\]


# --- Interrupted calls --------------------------------------------------------------------------------


def x80_an_interrupted_call_is_not_run_again() -> None:  # R: UsageError: with_interrupted\(\) needs RequireApproval
    ready.with_interrupted(Execute())  # E: Execute


def x81_nor_before_the_model() -> None:  # R: UsageError: with_interrupted\(\) needs RequireApproval
    ChatBuilder().with_interrupted(Execute())  # E: Execute


def x82_an_action_that_is_no_action() -> None:  # R: UsageError: with_interrupted\(\) needs RequireApproval
    ready.with_interrupted("reject")  # E: reject|str


def x83_an_action_that_is_not_made() -> None:  # R: UsageError: with_interrupted\(\) needs RequireApproval
    ready.with_interrupted(Reject)  # E: Reject


def x84_an_action_that_may_execute(action: Execute | Reject) -> None:
    ready.with_interrupted(action)  # E: Execute


def x85_an_action_of_any_kind(action: Action[Never]) -> None:
    ready.with_interrupted(action)  # E: Action


async def x86_asking_about_interrupted_calls_pauses_the_chat() -> None:
    chat = ready.with_interrupted(RequireApproval()).build()
    print((await chat.complete(hi())).text)  # E: Paused


async def x87_so_does_asking_before_the_model() -> None:
    chat: Chat = ChatBuilder().with_interrupted(RequireApproval()).with_model(pays).build()  # E: Paused
    print(await chat.complete(hi()))


async def x88_a_rejection_beside_a_scope_that_waits() -> None:
    chat = ready.with_scoped_tools(asks).with_interrupted(Reject("no")).build()
    print((await chat.complete(hi())).text)  # E: Paused


def x89_embeddings_after_it() -> None:  # R: UsageError: an embeddings chat has no tools
    ready.with_interrupted(RequireApproval()).with_embeddings()  # E: Paused


def x90_it_on_an_embeddings_builder() -> None:  # R: AttributeError: 'EmbeddingsBuilder'
    ready.with_embeddings().with_interrupted(Reject("no"))  # E: attribute .?with_interrupted


def x91_a_fallback_that_executes() -> None:  # R: UsageError
    ScopedCollection(risky, ask_if_high, fallback=Execute())  # E: Execute|fallback


async def x92_an_action_that_may_ask(action: Reject | RequireApproval) -> None:
    chat = ready.with_interrupted(action).build()
    print((await chat.complete(hi())).text)  # E: Paused


async def x93_a_scope_of_one_kind_or_another(nested: bool) -> None:
    scope = waits.as_tool(name="pays", description="Pays bills.") if nested else ScopedCollection(risky, refuse_if_high)
    chat = ready.with_scoped_tools(scope).build()
    print((await chat.complete(hi())).text)  # E: Paused


async def x94_a_fallback_that_may_ask(fallback: Reject | RequireApproval) -> None:
    chat = ready.with_scoped_tools(ScopedCollection(risky, refuse_if_high, fallback=fallback)).build()
    print((await chat.complete(hi())).text)  # E: Paused


def x95_no_scope() -> None:  # R: UsageError: with_scoped_tools\(\) needs
    ready.with_scoped_tools(None)  # E: None


def x96_no_action() -> None:  # R: UsageError: with_interrupted\(\) needs
    ready.with_interrupted(None)  # E: None
