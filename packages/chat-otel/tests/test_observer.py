"""Spans and metrics of runs, as an SDK receives them."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import anyio
import pytest
from chat_core import (
    ChatBuilder,
    ChatOptions,
    ChatResponse,
    Execute,
    File,
    FunctionCall,
    Messages,
    Paused,
    Reasoning,
    Reject,
    RequireApproval,
    Retry,
    Schedule,
    ScopedCollection,
    StreamingChat,
    Text,
    ToolCollection,
)
from chat_core.errors import PendingToolsError, ProviderError, RateLimitedError
from chat_core.provider import ProviderMeta
from chat_core.testing import Answer, MemoryConversation, ScriptedProvider
from chat_otel import OpenTelemetry, _names
from opentelemetry import trace

pytestmark = pytest.mark.anyio

SECRET = "sk-very-secret"
SAID = "Pay Maria for the flowers"
START = datetime.now(UTC)
MUCH = 987_654_321_012
Policy = Callable[[FunctionCall, None], Any]


def asks(call: FunctionCall, meta: None) -> RequireApproval:
    return RequireApproval(expires_in=timedelta(hours=1))


def runs(call: FunctionCall, meta: None) -> Execute:
    return Execute()


def pays(*ids: str, cents: int = 5) -> list[FunctionCall]:
    return [FunctionCall("pay", {"cents": cents, "note": SAID}, id=name) for name in ids]


class Desk:
    """A chat with a tool that pays, and an observer."""

    def __init__(self, sdk: Any, *script: Any, policy: Policy = runs, **settings: Any) -> None:
        self.now = START
        self.current: list[str] = []
        self.model = ScriptedProvider(*script, by_history=True, meta=ProviderMeta("openai-responses", "gpt-5-mini"))
        self.tools = ToolCollection()

        @self.tools.tool
        def pay(cents: int, note: str) -> str:
            """Pay somebody."""
            self.current.append(getattr(trace.get_current_span(), "name", "none"))
            if cents > 99:
                raise ZeroDivisionError(note)
            return f"{note} is paid"

        scope: ScopedCollection[None, Paused] = ScopedCollection(self.tools, policy)
        builder = ChatBuilder().with_model(self.model).with_scoped_tools(scope)
        self.builder = builder.with_observer(OpenTelemetry(**sdk.providers, **settings)).with_clock(lambda: self.now)
        self.chat: StreamingChat[ChatResponse, Paused] = self.builder.build()

    async def run(self, messages: Any, *, streamed: bool = False) -> None:
        if not streamed:
            await self.chat.complete(messages)
            return
        async with self.chat.stream(messages) as stream:
            async for _ in stream:
                assert trace.get_current_span() is trace.INVALID_SPAN  # a reader is in no span


def tree(spans: Any, parent: Any = None) -> list[Any]:
    """Return the names of spans, each with its children, in the order of their start."""
    below = [span for span in spans if (span.parent.span_id if span.parent else None) == parent]
    found: list[Any] = []
    for span in sorted(below, key=lambda span: span.start_time):
        under = tree(spans, span.context.span_id)
        found.append((span.name, under) if under else span.name)
    return found


def named(spans: Any, name: str) -> Any:
    [span] = [span for span in spans if span.name == name]
    return span


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_run_is_a_span_tree_of_model_calls_and_tools(sdk: Any, streamed: bool) -> None:
    desk = Desk(sdk, pays("p1"), "Done.")
    await desk.run(Messages.from_user(SAID), streamed=streamed)
    spans = sdk.spans()
    assert tree(spans) == [("invoke_agent", ["chat gpt-5-mini", "execute_tool pay", "chat gpt-5-mini"])]
    assert desk.current == ["execute_tool pay"]  # in its thread
    run = named(spans, "invoke_agent")
    assert run.kind is trace.SpanKind.INTERNAL
    assert dict(run.attributes) == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-5-mini",
        "gen_ai.response.finish_reasons": ("stop",),
        "gen_ai.usage.input_tokens": 20,
        "gen_ai.usage.output_tokens": 10,
        "chat.run.goes_on": False,
        "chat.run.outcome": "answered",
        "chat.run.steps": 2,
    }
    assert all(span.status.status_code is trace.StatusCode.UNSET for span in spans)


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_model_call_span_records_options_and_usage(sdk: Any, streamed: bool) -> None:
    desk = Desk(sdk, "Done.")
    options = ChatOptions(temperature=0.5, top_p=0.9, top_k=40, max_tokens=50, seed=7, stop=(SECRET,))
    desk.chat = desk.builder.with_options(options).build()
    conversation = MemoryConversation(Messages.from_user(SAID))
    await desk.run(conversation, streamed=streamed)
    call = named(sdk.spans(), "chat gpt-5-mini")
    assert call.kind is trace.SpanKind.CLIENT
    attributes = dict(call.attributes)
    assert (attributes.pop("gen_ai.response.time_to_first_chunk", None) is not None) == streamed
    assert attributes == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-5-mini",
        "gen_ai.request.stream": streamed,
        "gen_ai.request.temperature": 0.5,
        "gen_ai.request.top_p": 0.9,
        "gen_ai.request.top_k": 40.0,
        "gen_ai.request.max_tokens": 50,
        "gen_ai.request.seed": 7,
        "gen_ai.conversation.id": conversation.id,
        "gen_ai.response.finish_reasons": ("stop",),
        "gen_ai.response.model": "gpt-5-mini",
        "gen_ai.usage.input_tokens": 10,
        "gen_ai.usage.output_tokens": 5,
        "chat.call.attempts": 1,
    }


async def test_structured_output_is_recorded_as_json_output_type(sdk: Any) -> None:
    chat = ChatBuilder().with_model(ScriptedProvider('{"a": 7}')).with_observer(OpenTelemetry(**sdk.providers))
    await chat.with_structured_output(dict[str, int]).build().complete(Messages.from_user("?"))
    assert named(sdk.spans(), "chat script").attributes["gen_ai.output.type"] == "json"


async def test_metrics_have_the_attributes_of_the_spans(sdk: Any) -> None:
    desk = Desk(sdk, pays("p1"), "Done.")
    await desk.run(Messages.from_user(SAID), streamed=True)
    common = {"gen_ai.provider.name": "openai", "gen_ai.request.model": "gpt-5-mini"}
    call = {"gen_ai.operation.name": "chat", **common, "gen_ai.response.model": "gpt-5-mini"}
    [duration] = sdk.points("gen_ai.client.operation.duration")
    assert (dict(duration.attributes), duration.count) == (call, 2)
    assert duration.explicit_bounds[0] == 0.01
    [first] = sdk.points("gen_ai.client.operation.time_to_first_chunk")
    assert (dict(first.attributes), first.count) == (call, 2)
    tokens = {point.attributes["gen_ai.token.type"]: point for point in sdk.points("gen_ai.client.token.usage")}
    assert {kind: (point.sum, point.count) for kind, point in tokens.items()} == {"input": (20, 2), "output": (10, 2)}
    assert dict(tokens["input"].attributes) == {**call, "gen_ai.token.type": "input"}
    [tool] = sdk.points("gen_ai.execute_tool.duration")
    assert dict(tool.attributes) == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "pay",
        "gen_ai.tool.type": "function",
    }
    [run] = sdk.points("gen_ai.invoke_agent.duration")
    assert dict(run.attributes) == {"gen_ai.operation.name": "invoke_agent", **common, "chat.run.outcome": "answered"}


async def test_a_failed_tool_marks_its_span_and_the_run_continues(sdk: Any) -> None:
    desk = Desk(sdk, pays("p1", cents=100), "Done.")
    await desk.run(Messages.from_user(SAID))
    tool, run = named(sdk.spans(), "execute_tool pay"), named(sdk.spans(), "invoke_agent")
    assert (tool.status.status_code, tool.status.description) == (trace.StatusCode.ERROR, None)
    assert dict(tool.attributes) == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "pay",
        "gen_ai.tool.type": "function",
        "gen_ai.tool.call.id": "p1",
        "gen_ai.tool.description": "Pay somebody.",
        "chat.tool.attempt": 1,
        "chat.tool.status": "failed",
        "error.type": "ZeroDivisionError",
    }
    assert (run.status.status_code, run.attributes["chat.run.outcome"]) == (trace.StatusCode.UNSET, "answered")
    assert sdk.points("gen_ai.execute_tool.duration")[0].attributes["error.type"] == "ZeroDivisionError"


async def test_an_unserializable_tool_result_is_an_error_of_the_tool_span(sdk: Any) -> None:
    odd = ToolCollection()

    @odd.tool
    async def odd_one() -> object:
        return object()

    desk = Desk(sdk, [FunctionCall("odd_one", {}, id="o1")], "Done.")
    await desk.builder.with_tools(odd).build().complete(Messages.from_user(SAID))
    assert named(sdk.spans(), "execute_tool odd_one").attributes["error.type"] == "InvalidResultError"


async def test_a_tool_that_calls_sys_exit_has_a_failed_span(sdk: Any) -> None:
    leaving = ToolCollection()

    @leaving.tool
    async def leave() -> None:
        sys.exit(SECRET)

    desk = Desk(sdk, [FunctionCall("leave", {}, id="l1")], "Done.")
    await desk.builder.with_tools(leaving).build().complete(Messages.from_user(SAID))
    tool = named(sdk.spans(), "execute_tool leave")
    assert (tool.status.status_code, tool.attributes["error.type"]) == (trace.StatusCode.ERROR, "SystemExit")
    assert SECRET not in sdk.everything()


async def test_a_retried_model_call_is_one_span(sdk: Any) -> None:
    busy = Answer(error=RateLimitedError(SECRET, status=429, retry_after=0.0))
    chat = ChatBuilder().with_model(ScriptedProvider(busy, busy, "Done.")).with_observer(OpenTelemetry(**sdk.providers))
    await chat.with_retry(2).build().complete(Messages.from_user(SAID))
    call = named(sdk.spans(), "chat script")
    assert call.attributes["chat.call.attempts"] == 3
    assert call.attributes["chat.call.failures"] == ("scripted/script: RateLimitedError",) * 2
    assert SECRET not in sdk.everything()
    assert call.status.status_code is trace.StatusCode.UNSET
    assert "error.type" not in call.attributes


async def test_a_model_call_that_exhausts_its_retries_fails_the_run_span(sdk: Any) -> None:
    busy = Answer(error=RateLimitedError(SECRET, status=429, retry_after=0.0))
    chat = ChatBuilder().with_model(ScriptedProvider(busy, busy)).with_observer(OpenTelemetry(**sdk.providers))
    with pytest.raises(RateLimitedError):
        await chat.with_retry(Retry(times=1)).build().complete(Messages.from_user(SAID))
    for span in sdk.spans():
        assert (span.status.status_code, span.status.description) == (trace.StatusCode.ERROR, None)
        assert span.attributes["error.type"] == "RateLimitedError"
    assert named(sdk.spans(), "chat script").attributes["chat.call.attempts"] == 2
    assert named(sdk.spans(), "invoke_agent").attributes["chat.run.outcome"] == "failed"
    assert sdk.points("gen_ai.client.operation.duration")[0].attributes["error.type"] == "RateLimitedError"
    assert SECRET not in sdk.everything()


async def test_a_restarted_stream_is_one_span(sdk: Any) -> None:
    cut = Answer(
        ["one two three"], fail_after=2, error=ProviderError(SECRET, status=503, retryable=True, retry_after=0.0)
    )
    chat = ChatBuilder().with_model(ScriptedProvider(cut, "Done.")).with_observer(OpenTelemetry(**sdk.providers))
    async with chat.with_retry(Retry(times=1, after_delivery=True)).build().stream(Messages.from_user(SAID)) as stream:
        async for _ in stream:
            pass
    assert tree(sdk.spans()) == [("invoke_agent", ["chat script"])]
    assert named(sdk.spans(), "chat script").attributes["chat.call.attempts"] == 2


async def test_closing_a_stream_early_ends_its_spans_without_an_error(sdk: Any) -> None:
    desk = Desk(sdk, "one two three")
    async with desk.chat.stream(Messages.from_user(SAID)) as stream:
        async for _ in stream:
            break
    assert tree(sdk.spans()) == [("invoke_agent", ["chat gpt-5-mini"])]
    assert all(span.status.status_code is trace.StatusCode.UNSET for span in sdk.spans())
    assert named(sdk.spans(), "invoke_agent").attributes["chat.run.outcome"] == "left"
    assert trace.get_current_span() is trace.INVALID_SPAN


async def test_cancelling_a_run_ends_its_spans_without_an_error(sdk: Any) -> None:
    desk = Desk(sdk, Answer(["never"], before=anyio.sleep_forever))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(desk.chat.complete, Messages.from_user(SAID))
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
    assert all(span.status.status_code is trace.StatusCode.UNSET for span in sdk.spans())
    assert named(sdk.spans(), "invoke_agent").attributes["chat.run.outcome"] == "cancelled"


async def test_a_cancelled_tool_has_a_span_without_an_error(sdk: Any) -> None:
    slow = ToolCollection()

    @slow.tool
    async def wait() -> None:
        await anyio.sleep_forever()

    desk = Desk(sdk, [FunctionCall("wait", {}, id="w1")])
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(desk.builder.with_tools(slow).build().complete, Messages.from_user(SAID))
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
    tool = named(sdk.spans(), "execute_tool wait")
    assert (tool.status.status_code, "error.type" in tool.attributes) == (trace.StatusCode.UNSET, False)
    assert tool.attributes["chat.tool.status"] == "running"


# Waits


async def paused(desk: Desk, *ids: str) -> Messages:
    messages = Messages.from_user(SAID)
    end = await desk.chat.complete(messages)
    assert isinstance(end, Paused)
    assert [wait.tool_id for wait in end.waiting] == list(ids)
    return Messages.from_json(messages.to_json())


async def test_a_paused_run_records_the_waiting_tool_calls(sdk: Any) -> None:
    desk = Desk(sdk, pays("p1", "p2"), policy=asks)
    await paused(desk, "p1", "p2")
    run = named(sdk.spans(), "invoke_agent")
    assert run.attributes["chat.run.outcome"] == "paused"
    assert run.attributes["chat.run.pause.reason"] == "AwaitingApproval"
    assert run.attributes["chat.run.pause.tool_call_ids"] == ("p1", "p2")
    assert run.status.status_code is trace.StatusCode.UNSET


async def test_an_approval_is_a_span_from_the_request_to_the_decision(sdk: Any) -> None:
    desk = Desk(sdk, pays("p1"), "Done.", policy=asks)
    messages = await paused(desk, "p1")
    asked = messages.contents[-1].turns[-1].created_at
    messages.tool("p1").approve(by="ana@example.com", note=SECRET, at=asked + timedelta(seconds=90))
    await desk.run(messages)
    wait = named(sdk.spans(), "await_approval pay")
    assert dict(wait.attributes) == {
        "gen_ai.tool.name": "pay",
        "gen_ai.tool.call.id": "p1",
        "chat.wait.kind": "approval",
        "chat.wait.outcome": "approved",
        "chat.wait.edited": False,
    }
    assert wait.end_time - wait.start_time == 90_000_000_000
    assert abs(wait.start_time - asked.timestamp() * 1e9) < 1_000
    first, second = tree(sdk.spans())
    assert first == ("invoke_agent", ["chat gpt-5-mini"])
    assert second == ("invoke_agent", ["await_approval pay", "execute_tool pay", "chat gpt-5-mini"])
    [point] = sdk.points("chat.wait.duration")
    assert (point.sum, point.count) == (90, 1)
    assert dict(point.attributes) == {
        "gen_ai.tool.name": "pay",
        "chat.wait.kind": "approval",
        "chat.wait.outcome": "approved",
        "chat.wait.edited": False,
    }
    assert "ana@example.com" not in sdk.everything()


async def test_a_decision_from_a_slow_clock_has_no_negative_duration(sdk: Any) -> None:
    desk = Desk(sdk, pays("p1"), "Done.", policy=asks)
    messages = await paused(desk, "p1")
    asked = messages.contents[-1].turns[-1].created_at
    messages.tool("p1").approve(at=asked - timedelta(seconds=90))
    await desk.run(messages)
    wait = named(sdk.spans(), "await_approval pay")
    assert wait.end_time == wait.start_time
    assert sdk.points("chat.wait.duration")[0].sum == 0


async def test_the_approver_is_recorded_with_record_who(sdk: Any) -> None:
    desk = Desk(sdk, pays("p1"), "Done.", policy=asks, record_who=True)
    messages = await paused(desk, "p1")
    messages.tool("p1").approve(by="ana", arguments={"cents": 1, "note": SAID})
    await desk.run(messages)
    wait = named(sdk.spans(), "await_approval pay")
    assert (wait.attributes["chat.wait.decided_by"], wait.attributes["chat.wait.edited"]) == ("ana", True)
    assert "ana" not in str([dict(point.attributes) for point in sdk.points("chat.wait.duration")])


async def test_rejected_and_expired_waits_have_spans(sdk: Any) -> None:
    desk = Desk(sdk, pays("p1", "p2"), "Done.", policy=asks)
    messages = await paused(desk, "p1", "p2")
    messages.tool("p1").reject(SECRET)
    desk.now = START + timedelta(hours=2)
    await desk.run(messages)
    waits = {span.attributes["gen_ai.tool.call.id"]: span for span in sdk.spans() if span.name == "await_approval pay"}
    assert {name: span.attributes["chat.wait.outcome"] for name, span in waits.items()} == {
        "p1": "rejected",
        "p2": "expired",
    }
    assert abs(waits["p2"].end_time - (START + timedelta(hours=1)).timestamp() * 1e9) < 1_000
    assert "execute_tool pay" not in [span.name for span in sdk.spans()]


async def test_an_expired_wait_is_recorded_by_the_run_that_found_it(sdk: Any) -> None:
    desk = Desk(sdk, pays("p1", "p2"), policy=lambda call, meta: asks(call, meta) if call.id == "p1" else never(call))
    messages = await paused(desk, "p1", "p2")
    desk.now = START + timedelta(hours=2)
    await desk.run(messages)
    assert tree(sdk.spans())[1] == ("invoke_agent", ["await_approval pay"])


def never(_call: FunctionCall) -> RequireApproval:
    return RequireApproval()


async def test_a_scheduled_call_has_a_wait_span(sdk: Any) -> None:
    at = START + timedelta(days=1)
    desk = Desk(sdk, pays("p1"), "Done.", policy=lambda call, meta: Schedule(at))
    messages = await paused(desk, "p1")
    desk.now = at
    await desk.run(messages)
    wait = named(sdk.spans(), "await_schedule pay")
    assert wait.attributes["chat.wait.outcome"] == "due"


async def test_a_call_rejected_by_the_policy_has_no_wait_span(sdk: Any) -> None:
    desk = Desk(sdk, pays("p1"), "Done.", policy=lambda call, meta: Reject(SECRET))
    await desk.run(Messages.from_user(SAID))
    assert tree(sdk.spans()) == [("invoke_agent", ["chat gpt-5-mini", "chat gpt-5-mini"])]


async def test_a_run_that_raises_pending_tools_has_a_failed_span(sdk: Any) -> None:
    desk = Desk(sdk, pays("p1"), "Done.", policy=asks)
    messages = await paused(desk, "p1")
    lax = Desk(sdk, pays("p1"), "Done.")
    with pytest.raises(PendingToolsError):
        await lax.run(messages)
    assert sdk.spans()[-1].attributes["error.type"] == "PendingToolsError"


# The parents of spans


async def test_runs_are_inside_the_caller_span_and_user_code_inside_run_spans(sdk: Any) -> None:
    desk = Desk(sdk, [FunctionCall("look", {}, id="l1")], "Done.")
    more = ToolCollection()

    @more.tool
    async def look() -> str:
        with sdk.tracer.start_as_current_span("query"):
            return "found"

    def before(messages: Messages) -> None:
        with sdk.tracer.start_as_current_span("remember"):
            pass

    chat = desk.builder.with_tools(more).with_before(before).build()
    with sdk.tracer.start_as_current_span("request"):
        await chat.complete(Messages.from_user(SAID))
    run = ("invoke_agent", ["remember", "chat gpt-5-mini", ("execute_tool look", ["query"]), "chat gpt-5-mini"])
    assert tree(sdk.spans()) == [("request", [run])]


async def test_concurrent_runs_have_separate_spans(sdk: Any) -> None:
    desk = Desk(sdk, pays("p1", "p2"), "Done.")

    async def one(number: int) -> None:
        with sdk.tracer.start_as_current_span(f"request {number}"):
            await desk.run(Messages.from_user(SAID), streamed=False)

    async with anyio.create_task_group() as tasks:
        for number in range(5):
            tasks.start_soon(one, number)
    run = ("invoke_agent", ["chat gpt-5-mini", "execute_tool pay", "execute_tool pay", "chat gpt-5-mini"])
    assert sorted(tree(sdk.spans())) == [(f"request {number}", [run]) for number in range(5)]


async def test_the_run_of_an_inner_chat_is_a_child_of_its_tool_span(sdk: Any) -> None:
    clerk = Desk(sdk, pays("p1"), "Paid.", policy=asks).chat
    boss = ScriptedProvider([FunctionCall("ask", {"request": SAID}, id="a1")], "Done.", by_history=True)
    outer = (
        ChatBuilder()
        .with_model(boss)
        .with_scoped_tools(clerk.as_tool(name="ask", description="Asks the clerk."))
        .with_observer(OpenTelemetry(agent_name="boss", **sdk.providers))
        .build()
    )
    messages = Messages.from_user(SAID)
    assert isinstance(await outer.complete(messages), Paused)
    messages.tool("a1", "p1").approve()
    await outer.complete(messages)
    first, second = tree(sdk.spans())
    assert first == (
        "invoke_agent boss",
        ["chat script", ("execute_tool ask", [("invoke_agent ask", ["chat gpt-5-mini"])])],
    )
    inner = ("invoke_agent ask", ["await_approval pay", "execute_tool pay", "chat gpt-5-mini"])
    assert second == ("invoke_agent boss", [("execute_tool ask", [inner]), "chat script"])
    pause = next(span for span in sdk.spans() if span.name == "invoke_agent boss")
    assert pause.attributes["chat.run.pause.tool_call_ids"] == ("a1/p1",)
    assert named(
        [span for span in sdk.spans() if span.attributes.get("chat.tool.status") == "suspended"], "execute_tool ask"
    )


async def test_embeddings_requests_have_spans(sdk: Any) -> None:
    chat = ChatBuilder().with_model(ScriptedProvider()).with_observer(OpenTelemetry(**sdk.providers)).with_embeddings()
    await chat.build().embed([SAID])
    call = named(sdk.spans(), "embeddings script")
    assert (call.kind, call.attributes["gen_ai.operation.name"]) == (trace.SpanKind.CLIENT, "embeddings")
    assert sdk.points("gen_ai.client.operation.duration")[0].attributes["gen_ai.operation.name"] == "embeddings"
    assert SAID not in sdk.everything()


# Recorded content


async def everything(sdk: Any, **settings: Any) -> Desk:
    """Run a chat with everything that can be recorded."""
    call = FunctionCall("pay", {"cents": MUCH, "note": SECRET}, id="p2")
    desk = Desk(sdk, [SAID, Reasoning(SECRET), *pays("p1"), call], SAID, policy=asks, **settings)
    messages = Messages.from_user(SAID)
    messages.push(Messages.from_user(SECRET).contents[0])
    end = await desk.chat.complete(messages)
    assert isinstance(end, Paused)
    messages.tool("p1").approve(by=SECRET, note=SECRET)
    messages.tool("p2").approve(by=SECRET, note=SECRET)
    async with desk.chat.stream(messages) as stream:
        async for _ in stream:
            pass
    return desk


async def test_message_content_is_not_recorded_by_default(sdk: Any) -> None:
    await everything(sdk)
    told = sdk.everything()
    assert "execute_tool pay" in told
    for word in (SECRET, SAID, "is paid", str(MUCH)):
        assert word not in told


async def test_message_content_is_recorded_with_record_content(sdk: Any) -> None:
    await everything(sdk, record_content=True)
    calls = sorted([span for span in sdk.spans() if span.name.startswith("chat ")], key=lambda span: span.start_time)
    asked = json.loads(calls[1].attributes["gen_ai.input.messages"])
    assert [message["role"] for message in asked] == ["user", "user", "assistant", "tool"]
    assert asked[2]["parts"][0] == {"type": "text", "content": SAID}
    assert asked[2]["parts"][1] == {"type": "reasoning", "content": SECRET}
    assert asked[2]["parts"][2] == {
        "type": "tool_call",
        "id": "p1",
        "name": "pay",
        "arguments": {"cents": 5, "note": SAID},
    }
    assert asked[3]["parts"][0] == {"type": "tool_call_response", "id": "p1", "response": f"{SAID} is paid"}
    [said] = json.loads(calls[1].attributes["gen_ai.output.messages"])
    assert said == {"role": "assistant", "parts": [{"type": "text", "content": SAID}], "finish_reason": "stop"}
    tools = {span.attributes["gen_ai.tool.call.id"]: span for span in sdk.spans() if span.name == "execute_tool pay"}
    assert json.loads(tools["p1"].attributes["gen_ai.tool.call.arguments"]) == {"cents": 5, "note": SAID}
    assert tools["p1"].attributes["gen_ai.tool.call.result"] == f"{SAID} is paid"
    assert tools["p2"].status.description == SECRET


async def test_lone_surrogates_and_unprintable_errors_lose_no_span(sdk: Any) -> None:
    class MuteError(Exception):
        def __str__(self) -> str:
            raise ZeroDivisionError

    def refuse(_: Messages) -> None:
        raise MuteError

    model = ScriptedProvider("half: \ud83d")
    builder = ChatBuilder().with_model(model).with_observer(OpenTelemetry(**sdk.providers, record_content=True))
    await builder.build().complete(Messages.from_user("\ud83d"))
    with pytest.raises(MuteError):
        await builder.with_before(refuse).build().complete(Messages.from_user(SAID))
    call, _, failed = sdk.spans()
    assert json.loads(call.attributes["gen_ai.output.messages"])[0]["parts"][0]["content"] == "half: ?"
    assert call.attributes["gen_ai.input.messages"].isascii()
    assert failed.status.description == MuteError.__qualname__


async def test_system_instructions_and_files_follow_the_semantic_conventions(sdk: Any) -> None:
    messages = Messages.from_system("Be brief.")
    messages.user(Text("look"), File("image/png", b"bytes"), File("audio/mp3", url="https://files.test/a.mp3"))
    desk = Desk(sdk, "Done.", record_content=True)
    await desk.run(messages)
    call = named(sdk.spans(), "chat gpt-5-mini")
    assert json.loads(call.attributes["gen_ai.system_instructions"]) == [{"type": "text", "content": "Be brief."}]
    [asked] = json.loads(call.attributes["gen_ai.input.messages"])
    assert asked["parts"][1:] == [
        {"type": "file", "modality": "image", "mime_type": "image/png"},
        {"type": "uri", "uri": "https://files.test/a.mp3", "modality": "audio", "mime_type": "audio/mp3"},
    ]


# Names


def test_attribute_names_exist_in_the_semantic_conventions() -> None:
    mine = {value for value in vars(_names).values() if isinstance(value, str) and value.startswith("gen_ai.")}
    published = importlib.import_module("opentelemetry.semconv._incubating.attributes.gen_ai_attributes")
    theirs = {value for value in vars(published).values() if isinstance(value, str)}
    assert mine - theirs == set()


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("claude", "anthropic"),
        ("xai", "x_ai"),
        ("openai", "openai"),
        ("azure-responses", "azure.ai.openai"),
        ("a", "a"),
    ],
)
def test_provider_names_follow_the_semantic_conventions(ours: str, theirs: str) -> None:
    assert _names.provider_name(ProviderMeta(ours)) == theirs


# Off


def test_a_run_without_an_observer_does_not_import_opentelemetry() -> None:
    program = """
import sys
import anyio
from chat_core import ChatBuilder, Messages
from chat_core.testing import ScriptedProvider
anyio.run(ChatBuilder().with_model(ScriptedProvider("hi")).build().complete, Messages.from_user("?"))
print([name for name in sys.modules if "opentelemetry" in name or "observation" in name])
"""
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"


async def test_an_observer_without_an_sdk_does_not_affect_a_run() -> None:
    chat = ChatBuilder().with_model(ScriptedProvider("Done.")).with_observer(OpenTelemetry()).build()
    assert (await chat.complete(Messages.from_user(SAID))).text == "Done."
