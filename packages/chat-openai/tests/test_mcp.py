"""Remote MCP servers: declarations, secrets, and approval of their calls."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Never, assert_type

import pytest
from chat_completions import CompletionsBuilder
from chat_core import (
    ChatBuilder,
    ChatResponse,
    Completed,
    Execute,
    Failed,
    FunctionCall,
    Messages,
    Paused,
    Reject,
    Rejected,
    RequireApproval,
    Schedule,
    StreamingChat,
    Tool,
    ToolResult,
)
from chat_core.errors import UsageError
from chat_core.testing import MockTransport
from chat_core.tools import execute_all
from chat_core.wire.shapes import Json
from chat_openai import (
    APPROVAL,
    ApprovalFor,
    McpApprovals,
    McpRequest,
    McpTools,
    OpenAIBuilder,
    OpenAIProvider,
    RemoteMcp,
)
from chat_responses import MCP_APPROVAL

pytestmark = pytest.mark.anyio

DICE = RemoteMcp(server_label="dice", server_url="https://dice.example.org/mcp", require_approval="always")
LISTED: Json = {
    "type": "mcp_list_tools",
    "id": "mcpl_1",
    "server_label": "dice",
    "tools": [{"name": "roll", "description": "Rolls dice.", "input_schema": {"type": "object"}, "annotations": None}],
}
REQUEST: Json = {
    "type": "mcp_approval_request",
    "id": "mcpr_1",
    "server_label": "dice",
    "name": "roll",
    "arguments": '{"dice": "2d4 + 1"}',
}
CALL: Json = {
    "type": "mcp_call",
    "id": "mcp_1",
    "approval_request_id": "mcpr_1",
    "server_label": "dice",
    "name": "roll",
    "arguments": '{"dice": "2d4 + 1"}',
    "output": "7",
    "error": None,
}
ANSWER: Json = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "A seven.", "annotations": []}],
}


def response(number: int, *output: Json) -> Json:
    return {
        "id": f"resp_{number}",
        "object": "response",
        "status": "completed",
        "model": "gpt-5-mini",
        "output": list(output),
        "usage": {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15},
    }


def answering(*responses: Json) -> MockTransport:
    transport = MockTransport()
    for body in responses:
        transport.answer(200, {"content-type": "application/json"}, body)
    return transport


def model(transport: MockTransport) -> OpenAIProvider:
    return OpenAIBuilder().with_model("gpt-5-mini").with_native_tools(DICE).with_transport(transport).build()


def asks(call: FunctionCall, request: McpRequest) -> RequireApproval:
    return RequireApproval(expires_in=timedelta(hours=24))


def never_asks(call: FunctionCall, request: McpRequest) -> Execute | Reject:
    return Execute() if request.name == "roll" else Reject("only dice are rolled")


def approved(transport: MockTransport) -> list[Json]:
    """Return the responses to approval requests in the last request."""
    return [item for item in transport.last.json()["input"] if item.get("type") == "mcp_approval_response"]


# --- Declarations --------------------------------------------------------------------------------------

DECLARATIONS: dict[str, tuple[RemoteMcp, Json]] = {
    "by its URL": (
        RemoteMcp(server_label="dice", server_url="https://dice.example.org/mcp"),
        {"type": "mcp", "server_label": "dice", "server_url": "https://dice.example.org/mcp"},
    ),
    "a connector": (
        RemoteMcp(
            server_label="calendar",
            connector_id="connector_googlecalendar",
            authorization="ya29.secret",
            server_description="Appointments",
            allowed_tools=("search_events",),
            require_approval="never",
        ),
        {
            "type": "mcp",
            "server_label": "calendar",
            "connector_id": "connector_googlecalendar",
            "authorization": "ya29.secret",
            "server_description": "Appointments",
            "allowed_tools": ["search_events"],
            "require_approval": "never",
        },
    ),
    "a tunnel": (
        RemoteMcp(server_label="inside", tunnel_id="tun_1", defer_loading=True),
        {"type": "mcp", "server_label": "inside", "tunnel_id": "tun_1", "defer_loading": True},
    ),
    "some tools, and some approvals": (
        RemoteMcp(
            server_label="dice",
            server_url="https://dice.example.org/mcp",
            headers={"x-token": "secret"},
            allowed_tools=McpTools(read_only=True),
            require_approval=ApprovalFor(always=McpTools(names=("throw",)), never=McpTools(names=("roll",))),
        ),
        {
            "type": "mcp",
            "server_label": "dice",
            "server_url": "https://dice.example.org/mcp",
            "headers": {"x-token": "secret"},
            "allowed_tools": {"read_only": True},
            "require_approval": {"always": {"tool_names": ["throw"]}, "never": {"tool_names": ["roll"]}},
        },
    ),
}


@pytest.mark.parametrize("case", DECLARATIONS)
def test_a_declaration_contains_only_the_configured_fields(case: str) -> None:
    tool, said = DECLARATIONS[case]
    assert json.loads(json.dumps(tool.declaration())) == said
    assert tool.includes() == ()


def test_the_repr_of_tool_builder_provider_and_chat_shows_no_secrets() -> None:
    tool = RemoteMcp(
        server_label="dice",
        server_url="https://dice.example.org/mcp",
        headers={"x-token": "hush"},
        authorization="hush",
    )
    builder = OpenAIBuilder().with_model("gpt-5-mini").with_native_tools(tool).with_api_key("hush")
    provider = builder.with_transport(MockTransport()).build()
    chat = ChatBuilder().with_model(provider)
    for thing in (tool, builder, provider, chat):
        assert "hush" not in repr(thing)


def test_the_repr_shows_the_server_url_without_credentials_and_query() -> None:
    tool = RemoteMcp(server_label="dice", server_url="https://me:hush@dice.example.org/mcp?key=hush")
    assert repr(tool).startswith(
        "RemoteMcp(server_label='dice', server_url='https://dice.example.org/mcp', connector_id"
    )
    assert tool.declaration()["server_url"] == "https://me:hush@dice.example.org/mcp?key=hush"
    assert "server_url=None" in repr(RemoteMcp(server_label="dice", tunnel_id="tun_1"))


MISTAKES: dict[str, tuple[Callable[[], object], str]] = {
    "no label": (lambda: RemoteMcp(server_label="", tunnel_id="tun_1"), "needs a server_label"),
    "nowhere": (lambda: RemoteMcp(server_label="dice"), "needs exactly one of server_url, connector_id and tunnel_id"),
    "in two places": (
        lambda: RemoteMcp(server_label="dice", server_url="https://dice.example.org", tunnel_id="tun_1"),
        "needs exactly one of",
    ),
    "one tool for several": (
        lambda: RemoteMcp(server_label="dice", tunnel_id="tun_1", allowed_tools="roll"),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType] - wrong on purpose
        r"allowed_tools=\('roll',\)",
    ),
    "no tools at all": (
        lambda: RemoteMcp(server_label="dice", tunnel_id="tun_1", allowed_tools=()),
        "allows no tool",
    ),
    "a place that is no URL": (lambda: RemoteMcp(server_label="dice", server_url="dice.example.org"), "needs a scheme"),
    "a filter of nothing": (McpTools, "needs a condition"),
    "approvals for nothing": (ApprovalFor, "needs always"),
    "approvals for a tool that needs none": (
        lambda: ApprovalFor(always=McpTools(names=("throw", "roll")), never=McpTools(names=("roll",))),
        "always and never: roll",
    ),
    "a policy that is none": (
        lambda: McpApprovals("yes"),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType] - wrong on purpose
        "needs a function that takes a call and its McpRequest",
    ),
    "a fallback that approves": (
        lambda: McpApprovals(asks, fallback=Execute()),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType] - wrong on purpose
        "must not run the call",
    ),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_an_invalid_setting_raises_an_error_that_explains_it(case: str) -> None:
    make, words = MISTAKES[case]
    with pytest.raises(UsageError, match=words):
        make()


# --- Types ---------------------------------------------------------------------------------------------


def test_the_type_of_a_chat_depends_on_whether_approvals_can_pause_it() -> None:
    ready = ChatBuilder().with_model(model(MockTransport()))
    assert_type(McpApprovals(asks), McpApprovals[Paused])
    assert_type(McpApprovals(never_asks), McpApprovals[Never])
    assert_type(ready.with_scoped_tools(McpApprovals(asks)).build(), StreamingChat[ChatResponse, Paused])
    assert_type(ready.with_scoped_tools(McpApprovals(never_asks)).build(), StreamingChat[ChatResponse, Never])
    assert_type(ready.with_scoped_tools(McpApprovals(execute_all)).build(), StreamingChat[ChatResponse, Never])
    falls_back = McpApprovals(never_asks, fallback=RequireApproval())
    assert_type(ready.with_scoped_tools(falls_back).build(), StreamingChat[ChatResponse, Paused])
    assert_type(ready.build(), StreamingChat[ChatResponse, Never])


async def test_an_approval_policy_may_be_a_coroutine() -> None:
    async def decides(call: FunctionCall, request: McpRequest) -> RequireApproval | Reject:
        return RequireApproval() if request.arguments else Reject("it says nothing")

    scope = McpApprovals(decides)
    assert_type(scope, McpApprovals[Paused])
    call = FunctionCall(APPROVAL, {"server_label": "dice", "name": "roll", "arguments": {}})
    assert await scope.decide(call) == Reject("it says nothing")
    assert repr(scope) == "McpApprovals()"


# --- Approving -----------------------------------------------------------------------------------------


async def test_a_pending_approval_is_stored_and_sent_when_resumed() -> None:
    transport = answering(response(1, LISTED, REQUEST), response(2, CALL, ANSWER))
    chat = ChatBuilder().with_model(model(transport)).with_scoped_tools(McpApprovals(asks)).build()
    messages = Messages.from_user("Roll 2d4 + 1.")
    paused = await chat.complete(messages)
    assert isinstance(paused, Paused)
    (wait,) = paused.waiting
    assert (wait.kind, wait.name) == ("approval", "mcp_approval")
    assert wait.arguments == {"server_label": "dice", "name": "roll", "arguments": {"dice": "2d4 + 1"}}
    assert wait.expires_at is not None

    stored = messages.to_json()
    del messages
    resumed = Messages.from_json(stored)
    resumed.tool(wait.tool_id).approve(by="ana@example.com")
    answer = await chat.complete(resumed)
    assert isinstance(answer, ChatResponse)
    assert answer.text == "A seven."
    assert approved(transport) == [{"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": True}]
    kinds = [item.get("type") for item in transport.last.json()["input"]]
    assert kinds == [None, "mcp_list_tools", "mcp_approval_request", "mcp_approval_response"]


async def test_with_a_previous_response_only_the_approval_is_sent() -> None:
    transport = answering(response(1, LISTED, REQUEST), response(2, CALL, ANSWER))
    builder = OpenAIBuilder().with_model("gpt-5-mini").with_native_tools(DICE).with_previous_response()
    chat = ChatBuilder().with_model(builder.with_transport(transport).build())
    await chat.with_scoped_tools(McpApprovals(execute_all)).build().complete(Messages.from_user("Roll."))
    body = transport.last.json()
    assert body["previous_response_id"] == "resp_1"
    assert body["input"] == [{"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": True}]


async def test_without_storage_the_approval_is_sent_with_its_request() -> None:
    transport = answering(response(1, LISTED, REQUEST), response(2, CALL, ANSWER))
    builder = OpenAIBuilder().with_model("gpt-5-mini").with_native_tools(DICE).with_store(store=False)
    chat = ChatBuilder().with_model(builder.with_transport(transport).build())
    await chat.with_scoped_tools(McpApprovals(execute_all)).build().complete(Messages.from_user("Roll."))
    assert transport.last.json()["input"][2] == REQUEST
    assert [answered["approve"] for answered in approved(transport)] == [True]


async def test_a_rejection_is_sent_with_its_reason() -> None:
    transport = answering(response(1, REQUEST), response(2, ANSWER))
    chat = ChatBuilder().with_model(model(transport)).with_scoped_tools(McpApprovals(asks)).build()
    messages = Messages.from_user("Roll 2d4 + 1.")
    paused = await chat.complete(messages)
    assert isinstance(paused, Paused)
    resumed = Messages.from_json(messages.to_json())
    resumed.tool(paused.waiting[0].tool_id).reject("no gambling", by="ana@example.com")
    await chat.complete(resumed)
    (answered,) = approved(transport)
    assert answered["approve"] is False
    assert "no gambling" in answered["reason"]


async def test_a_policy_receives_server_tool_and_arguments_of_a_request() -> None:
    seen: list[McpRequest] = []

    def policy(call: FunctionCall, request: McpRequest) -> Execute | Reject:
        assert call.name == APPROVAL
        seen.append(request)
        return never_asks(call, request)

    throw = {**REQUEST, "id": "mcpr_2", "name": "throw", "arguments": ""}
    transport = answering(response(1, REQUEST, throw), response(2, ANSWER))
    chat = ChatBuilder().with_model(model(transport)).with_scoped_tools(McpApprovals(policy)).build()
    assert (await chat.complete(Messages.from_user("Roll."))).text == "A seven."
    assert seen == [McpRequest("dice", "roll", {"dice": "2d4 + 1"}), McpRequest("dice", "throw", {})]
    first, second = approved(transport)
    assert (first["approve"], first["approval_request_id"]) == (True, "mcpr_1")
    assert (second["approve"], second["approval_request_id"]) == (False, "mcpr_2")
    assert "only dice are rolled" in second["reason"]


async def test_requests_with_unreadable_arguments_are_rejected() -> None:
    requests = [{**REQUEST, "id": f"mcpr_{n}", "arguments": text} for n, text in enumerate(["", "{}", '{"dice": '])]
    transport = answering(response(1, *requests), response(2, ANSWER))
    chat = ChatBuilder().with_model(model(transport)).with_scoped_tools(McpApprovals(execute_all)).build()
    messages = Messages.from_user("Roll.")
    await chat.complete(messages)
    assert [answered["approve"] for answered in approved(transport)] == [True, True, False]
    statuses = [type(tool.status) for content in messages for tool in content.tools]
    assert statuses == [Completed, Completed, Failed]


@pytest.mark.parametrize("arguments", ['{"to": "bo", "to": "ana"}', '{"mail": [{"to": "bo", "to": "ana"}]}'])
async def test_a_request_with_a_repeated_key_is_rejected(
    arguments: str,
) -> None:
    transport = answering(response(1, {**REQUEST, "arguments": arguments}), response(2, ANSWER))
    chat = ChatBuilder().with_model(model(transport)).with_scoped_tools(McpApprovals(execute_all)).build()
    await chat.complete(Messages.from_user("Send it."))
    (answered,) = approved(transport)
    assert answered["approve"] is False
    assert "says something twice" in answered["reason"]


async def test_requests_are_rejected_if_the_chat_has_no_approval_scope() -> None:
    transport = answering(response(1, REQUEST), response(2, ANSWER))
    chat = ChatBuilder().with_model(model(transport)).build()
    answer = await chat.complete(Messages.from_user("Roll."))
    assert_type(answer, ChatResponse)
    assert answer.text == "A seven."
    assert [answered["approve"] for answered in approved(transport)] == [False]


async def test_a_request_is_rejected_if_the_policy_raises() -> None:
    def fails(call: FunctionCall, request: McpRequest) -> Execute:
        raise RuntimeError

    transport = answering(response(1, REQUEST), response(2, ANSWER))
    chat = ChatBuilder().with_model(model(transport)).with_scoped_tools(McpApprovals(fails)).build()
    await chat.complete(Messages.from_user("Roll."))
    assert [answered["approve"] for answered in approved(transport)] == [False]


async def test_an_approval_with_edited_arguments_is_rejected() -> None:
    transport = answering(response(1, REQUEST), response(2, ANSWER))
    chat = ChatBuilder().with_model(model(transport)).with_scoped_tools(McpApprovals(asks)).build()
    messages = Messages.from_user("Roll.")
    paused = await chat.complete(messages)
    assert isinstance(paused, Paused)
    tool = messages.tool(paused.waiting[0].tool_id)
    tool.approve(arguments={"server_label": "dice", "name": "roll", "arguments": {"dice": "1d4"}})
    await chat.complete(messages)
    assert isinstance(tool.status, Rejected)
    assert [answered["approve"] for answered in approved(transport)] == [False]


async def test_replacing_empty_arguments_by_an_empty_object_is_treated_consistently() -> None:
    transport = answering(response(1, {**REQUEST, "arguments": ""}), response(2, ANSWER))
    chat = ChatBuilder().with_model(model(transport)).with_scoped_tools(McpApprovals(asks)).build()
    messages = Messages.from_user("Roll.")
    paused = await chat.complete(messages)
    assert isinstance(paused, Paused)
    tool = messages.tool(paused.waiting[0].tool_id)
    tool.approve(arguments={"server_label": "dice", "name": "roll", "arguments": {}})
    await chat.complete(messages)
    (answered,) = approved(transport)
    assert answered["approve"] == isinstance(tool.status, Completed)


async def test_an_approval_can_be_scheduled() -> None:
    noon = datetime(2026, 1, 2, 12, tzinfo=UTC)

    def later(call: FunctionCall, request: McpRequest) -> Schedule:
        return Schedule(noon)

    transport = answering(response(1, REQUEST), response(2, CALL, ANSWER))
    builder = ChatBuilder().with_model(model(transport)).with_scoped_tools(McpApprovals(later))
    messages = Messages.from_user("Roll.")
    early = await builder.with_clock(lambda: noon - timedelta(hours=1)).build().complete(messages)
    assert isinstance(early, Paused)
    answer = await builder.with_clock(lambda: noon).build().complete(messages)
    assert isinstance(answer, ChatResponse)
    assert [answered["approve"] for answered in approved(transport)] == [True]


async def test_a_stream_reports_the_result_of_an_approval_request() -> None:
    transport = MockTransport()
    first: list[Json] = [
        {"type": "response.created", "response": {**response(1), "status": "in_progress"}},
        {"type": "response.output_item.added", "output_index": 0, "item": REQUEST},
        {"type": "response.output_item.done", "output_index": 0, "item": REQUEST},
        {"type": "response.completed", "response": response(1, REQUEST)},
    ]
    second: list[Json] = [
        {"type": "response.created", "response": {**response(2), "status": "in_progress"}},
        {"type": "response.output_item.done", "output_index": 0, "item": CALL},
        {"type": "response.output_item.done", "output_index": 1, "item": ANSWER},
        {"type": "response.completed", "response": response(2, CALL, ANSWER)},
    ]
    for events in (first, second):
        transport.events(*[json.dumps(event) for event in events])
    chat = ChatBuilder().with_model(model(transport)).with_scoped_tools(McpApprovals(execute_all)).build()
    async with chat.stream(Messages.from_user("Roll.")) as stream:
        results = [event.tool async for event in stream if isinstance(event, ToolResult)]
    assert [(tool.name, type(tool.status)) for tool in results] == [(APPROVAL, Completed)]
    assert stream.response.text == "A seven."
    assert [answered["approve"] for answered in approved(transport)] == [True]


# --- Texts that the model receives ------------------------------------------------------------------------------


async def test_the_approval_tool_is_not_declared_to_models() -> None:
    transport = answering(response(1, ANSWER))
    chat = ChatBuilder().with_model(model(transport)).with_scoped_tools(McpApprovals(asks)).build()
    await chat.complete(Messages.from_user("Roll."))
    assert transport.last.json()["tools"] == [DICE.declaration()]
    answer: Any = {"index": 0, "message": {"role": "assistant", "content": "No."}, "finish_reason": "stop"}
    transport = answering({"id": "chatcmpl-1", "choices": [answer]})
    completions = CompletionsBuilder().with_model("gpt-5-mini").with_transport(transport).build()
    other = ChatBuilder().with_model(completions).with_scoped_tools(McpApprovals(asks)).build()
    await other.complete(Messages.from_user("Roll."))
    assert "tools" not in transport.last.json()


async def test_a_conversation_with_approvals_can_continue_over_chat_completions() -> None:
    transport = answering(response(1, LISTED, REQUEST), response(2, CALL, ANSWER))
    chat = ChatBuilder().with_model(model(transport)).with_scoped_tools(McpApprovals(execute_all)).build()
    messages = Messages.from_user("Roll.")
    await chat.complete(messages)
    messages.user("Again?")
    answer: Any = {"index": 0, "message": {"role": "assistant", "content": "No."}, "finish_reason": "stop"}
    other = answering({"id": "chatcmpl-1", "choices": [answer]})
    completions = OpenAIBuilder().with_completions().with_model("gpt-5-mini").with_transport(other).build()
    await ChatBuilder().with_model(completions).build().complete(messages)
    sent = other.last.json()["messages"]
    assert [message["role"] for message in sent] == ["user", "assistant", "tool", "assistant", "user"]
    assert sent[1]["tool_calls"][0]["function"]["name"] == APPROVAL


def test_the_approval_tool_has_the_name_used_by_the_responses_api() -> None:
    assert APPROVAL == MCP_APPROVAL
    (definition,) = McpApprovals(asks).definitions()
    assert definition.declaration.name == APPROVAL
    assert not definition.declaration.declared
    assert Tool(FunctionCall(APPROVAL)).name == APPROVAL
