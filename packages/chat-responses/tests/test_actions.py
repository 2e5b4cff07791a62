"""Client actions: the item of the API becomes a call under the policy of a scope, and the result its output item."""

from __future__ import annotations

import json
from typing import Any

import pytest
from chat_core import (
    ChatBuilder,
    Execute,
    File,
    FunctionCall,
    Messages,
    Paused,
    RequireApproval,
    ScopedCollection,
    ToolCallDelta,
    ToolCollection,
    ToolStarted,
)
from chat_core.errors import InvalidResponseError
from chat_core.messages import ProviderPart, Tool
from chat_core.options import ChatOptions
from chat_core.provider import NO_TOOLS
from chat_core.testing import MockTransport
from chat_responses import ResponsesBuilder, ResponsesOptions, ResponsesProvider, ShellResult
from chat_responses.actions import BLANK_PNG, declared_action, is_action

pytestmark = pytest.mark.anyio

DONE = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Done."}]}
PNG = b"\x89PNG"
CHECK = {"id": "cu_1", "code": "malicious_instructions", "message": "Look."}

SHELL = {
    "type": "shell_call",
    "id": "sh_1",
    "call_id": "a",
    "status": "completed",
    "action": {"commands": ["ls", "pwd"], "timeout_ms": None, "max_output_length": 100},
    "environment": {"type": "local"},
    "created_by": "model",
}
LOCAL_SHELL: dict[str, Any] = {
    "type": "local_shell_call",
    "id": "lsh_1",
    "call_id": "a",
    "status": "completed",
    "action": {"type": "exec", "command": ["ls"], "env": {}},
}
PATCH = {
    "type": "apply_patch_call",
    "id": "apc_1",
    "call_id": "a",
    "status": "completed",
    "operation": {"type": "update_file", "path": "a.py", "diff": "@@"},
}
COMPUTER = {
    "type": "computer_call",
    "id": "cu_1",
    "call_id": "a",
    "status": "completed",
    "action": {"type": "click", "x": 1, "y": 2, "button": "left"},
    "pending_safety_checks": [CHECK],
}
SEARCH = {
    "type": "tool_search_call",
    "id": "tsc_1",
    "call_id": "a",
    "execution": "client",
    "status": "completed",
    "arguments": {"query": "weather"},
}
FOUND: dict[str, Any] = {"type": "function", "name": "weather", "parameters": {"type": "object", "properties": {}}}

tools = ToolCollection()


@tools.tool
async def shell(commands: list[str], max_output_length: int | None = None) -> list[ShellResult]:
    assert max_output_length == 100
    return [ShellResult(stdout=f"ran {commands[0]}"), ShellResult(stderr="slow", exit_code=None)]


@tools.tool
async def local_shell(command: list[str], env: dict[str, str]) -> str:
    return f"ran {command[0]} {env}"


@tools.tool
async def apply_patch(type: str, path: str, diff: str = "") -> str:  # noqa: A002 - the name in the API
    return f"{type} {path} {diff}"


@tools.tool
async def computer(actions: list[dict[str, Any]], pending_safety_checks: list[dict[str, Any]] | None = None) -> File:
    assert (actions, pending_safety_checks) == ([COMPUTER["action"]], [CHECK])
    return File("image/png", data=PNG)


@tools.tool
async def tool_search(query: str) -> list[dict[str, Any]]:
    assert query == "weather"
    return [FOUND]


OUTPUTS: list[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = [
    # item, output of the call, output of a rejected call
    (
        SHELL,
        {
            "type": "shell_call_output",
            "max_output_length": 100,
            "output": [
                {"stdout": "ran ls", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}},
                {"stdout": "", "stderr": "slow", "outcome": {"type": "timeout"}},
            ],
        },
        {
            "type": "shell_call_output",
            "max_output_length": 100,
            "output": [{"stdout": "", "stderr": "REASON", "outcome": {"type": "exit", "exit_code": 1}}],
        },
    ),
    (
        LOCAL_SHELL,
        {"type": "local_shell_call_output", "output": "ran ls {}"},
        {"type": "local_shell_call_output", "output": "REASON"},
    ),
    (
        PATCH,
        {"type": "apply_patch_call_output", "status": "completed", "output": "update_file a.py @@"},
        {"type": "apply_patch_call_output", "status": "failed", "output": "REASON"},
    ),
    (
        COMPUTER,
        {
            "type": "computer_call_output",
            "output": {"type": "computer_screenshot", "image_url": "data:image/png;base64,iVBORw=="},
            "acknowledged_safety_checks": [CHECK],
        },
        {"type": "computer_call_output", "output": {"type": "computer_screenshot", "image_url": BLANK_PNG}},
    ),
    (
        SEARCH,
        {"type": "tool_search_output", "execution": "client", "status": "completed", "tools": [FOUND]},
        {"type": "tool_search_output", "execution": "client", "status": "completed", "tools": []},
    ),
]


def respond(transport: MockTransport, *items: dict[str, Any], streamed: bool) -> None:
    response = {"id": "resp_1", "status": "completed", "output": list(items)}
    if not streamed:
        transport.answer(200, {}, response)
        return
    events: list[dict[str, Any]] = []
    for place, item in enumerate(items):
        events.append({"type": "response.output_item.added", "output_index": place, "item": {**item, "action": {}}})
        events.append({"type": "response.output_item.done", "output_index": place, "item": item})
    events.append({"type": "response.completed", "response": response})
    transport.events(*map(json.dumps, events))


def calls(messages: Messages) -> list[Tool]:
    return [tool for content in messages for turn in content.turns for tool in turn.tools]


def provider(transport: MockTransport) -> ResponsesProvider:
    return ResponsesBuilder().with_base_url("http://host/v1").with_model("m").with_transport(transport).build()


def sent_back(transport: MockTransport) -> list[dict[str, Any]]:
    """Return the input items after the user's message."""
    sent: list[dict[str, Any]] = transport.last.json()["input"][1:]
    return sent


@pytest.mark.parametrize("streamed", [False, True], ids=["complete", "stream"])
@pytest.mark.parametrize(("item", "output", "_rejected"), OUTPUTS, ids=lambda row: str(row.get("type")))
async def test_a_computer_or_shell_call_runs_as_a_tool_call_and_its_output_is_sent(
    item: dict[str, Any], output: dict[str, Any], _rejected: object, *, streamed: bool
) -> None:
    transport = MockTransport()
    respond(transport, item, streamed=streamed)
    respond(transport, DONE, streamed=streamed)
    scope = ScopedCollection(tools, lambda _call, _meta: Execute())
    chat = ChatBuilder().with_model(provider(transport)).with_scoped_tools(scope).build()
    messages = Messages.from_user("Go.")
    if streamed:
        async with chat.stream(messages) as stream:
            deltas = [event async for event in stream if isinstance(event, ToolCallDelta)]
        (call,) = calls(messages)
        assert [(delta.name, delta.call_id, json.loads(delta.arguments)) for delta in deltas] == [
            (call.name, "a", dict(call.call.arguments))
        ]
    else:
        await chat.complete(messages)

    request, answer = sent_back(transport)
    assert request == {name: value for name, value in item.items() if name != "created_by"}
    assert answer == {"call_id": "a", **output}
    assert messages[-1].text == "Done."


@pytest.mark.parametrize(("item", "output", "rejected"), OUTPUTS, ids=lambda row: str(row.get("type")))
async def test_an_action_pauses_and_is_rejected_in_another_process(
    item: dict[str, Any], output: object, rejected: dict[str, Any]
) -> None:
    assert output
    transport = MockTransport()
    respond(transport, item, streamed=False)
    respond(transport, DONE, streamed=False)

    def ask(_call: FunctionCall, _meta: object) -> RequireApproval:
        return RequireApproval()

    chat = ChatBuilder().with_model(provider(transport)).with_scoped_tools(ScopedCollection(tools, ask)).build()
    messages = Messages.from_user("Go.")
    assert isinstance(await chat.complete(messages), Paused)

    stored = Messages.from_json(messages.to_json())
    (tool,) = calls(stored)
    tool.reject("Not today.", by="ana")
    await chat.complete(stored)

    _, answer, *rest = sent_back(transport)
    assert answer == json.loads(json.dumps({"call_id": "a", **rejected}).replace("REASON", tool.result_text()))
    # The API has no place for the reason in a screenshot.
    expected = [{"role": "user", "content": tool.result_text()}] if item is COMPUTER else []
    assert rest == expected


async def test_an_action_without_a_tool_fails_and_the_model_receives_the_error() -> None:
    transport = MockTransport()
    respond(transport, PATCH, streamed=False)
    respond(transport, DONE, streamed=False)
    chat = ChatBuilder().with_model(provider(transport)).build()
    await chat.complete(Messages.from_user("Go."))
    answer = sent_back(transport)[1]
    assert answer["status"] == "failed"
    assert "apply_patch" in answer["output"]


async def test_an_edited_command_is_sent_to_the_model() -> None:
    transport = MockTransport()
    respond(transport, SHELL, streamed=False)
    respond(transport, DONE, streamed=False)

    def ask(_call: FunctionCall, _meta: object) -> RequireApproval:
        return RequireApproval()

    chat = ChatBuilder().with_model(provider(transport)).with_scoped_tools(ScopedCollection(tools, ask)).build()
    messages = Messages.from_user("Go.")
    await chat.complete(messages)
    calls(messages)[0].approve(by="ana", arguments={"commands": ["df"], "max_output_length": 100})
    await chat.complete(messages)
    (output,) = sent_back(transport)[1]["output"]
    assert output["stdout"] == calls(messages)[0].result_text()
    assert "df" in output["stdout"]


@pytest.mark.parametrize("streamed", [False, True], ids=["complete", "stream"])
async def test_a_shell_that_the_server_runs_is_a_provider_part(*, streamed: bool) -> None:
    call = {"type": "shell_call", "call_id": "b", "action": {"commands": ["ls"]}}
    output: dict[str, Any] = {"type": "shell_call_output", "call_id": "b", "output": []}
    contained = {**call, "call_id": "c", "environment": {"type": "container_reference", "container_id": "cn"}}
    transport = MockTransport()
    respond(transport, call, output, contained, DONE, streamed=streamed)
    model = provider(transport)
    if streamed:
        async with model.stream(Messages.from_user("Go."), NO_TOOLS, ChatOptions(), None) as stream:
            deltas = [delta async for batch in stream for delta in batch if isinstance(delta, ToolCallDelta)]
            turn = stream.close()
        assert deltas == []
    else:
        turn = await model.complete(Messages.from_user("Go."), NO_TOOLS, ChatOptions(), None)
    kinds = [part.kind for part in turn.parts if isinstance(part, ProviderPart)]
    assert kinds == ["shell_call", "shell_call_output", "shell_call"]
    assert (turn.tools, turn.finish_reason) == ([], "stop")


ANSWERED: list[tuple[dict[str, Any], dict[str, Any]]] = [
    (
        {"type": "function_call", "id": "fc_1", "call_id": "b", "name": "shell", "arguments": "{}"},
        {"type": "function_call_output", "id": "fco_1", "call_id": "b", "output": "42"},
    ),
    (
        {"type": "custom_tool_call", "id": "ctc_1", "call_id": "b", "name": "shell", "input": "ls"},
        {"type": "custom_tool_call_output", "id": "cto_1", "call_id": "b", "output": "42"},
    ),
    (
        {"type": "mcp_approval_request", "id": "mcpr_1", "server_label": "s", "name": "pay", "arguments": "{}"},
        {"type": "mcp_approval_response", "id": "mcpa_1", "approval_request_id": "mcpr_1", "approve": True},
    ),
    ({**COMPUTER, "call_id": "b"}, {"type": "computer_call_output", "call_id": "b", "output": {}}),
    ({**LOCAL_SHELL, "call_id": "b"}, {"type": "local_shell_call_output", "id": "b", "output": "{}"}),
    (LOCAL_SHELL, {"type": "local_shell_call_output", "id": "lsh_1", "output": "{}"}),
]
"""Calls and approval requests, each with its output. The output of a local shell has no `call_id` (OpenAI SDK 3.57)."""


@pytest.mark.parametrize("streamed", [False, True], ids=["complete", "stream"])
@pytest.mark.parametrize(("item", "output"), ANSWERED, ids=[str(output["type"]) for _, output in ANSWERED])
async def test_a_call_whose_output_is_in_the_response_does_not_run(
    item: dict[str, Any], output: dict[str, Any], *, streamed: bool
) -> None:
    transport = MockTransport()
    respond(transport, item, output, DONE, streamed=streamed)
    respond(transport, DONE, streamed=streamed)
    chat = ChatBuilder().with_model(provider(transport)).with_tools(tools).build()
    messages = Messages.from_user("Go.")
    for _ in range(2):
        if streamed:
            async with chat.stream(messages) as stream:
                events = [event async for event in stream]
            assert not any(isinstance(event, ToolStarted) for event in events)
        else:
            await chat.complete(messages)
        messages.user("And then?")
    assert calls(messages) == []
    assert len(transport.requests) == 2
    assert sent_back(transport)[:2] == [item, output]


async def test_an_output_without_a_call_id_does_not_answer_a_call_without_one() -> None:
    search: dict[str, Any] = {"type": "tool_search_call", "call_id": None, "execution": "server", "arguments": {}}
    output: dict[str, Any] = {"type": "tool_search_output", "call_id": None, "execution": "server", "tools": []}
    transport = MockTransport()
    respond(transport, search, output, {**LOCAL_SHELL, "call_id": None}, streamed=False)
    turn = await provider(transport).complete(Messages.from_user("Go."), NO_TOOLS, ChatOptions(), None)
    assert [tool.name for tool in turn.tools] == ["local_shell"]


async def test_a_shell_without_an_environment_is_a_call_at_the_end_of_the_stream() -> None:
    item = {name: value for name, value in SHELL.items() if name != "environment"}
    transport = MockTransport()
    respond(transport, item, streamed=True)
    async with provider(transport).stream(Messages.from_user("Go."), NO_TOOLS, ChatOptions(), None) as stream:
        deltas = [delta async for batch in stream for delta in batch]
        turn = stream.close()
    assert [delta.name for delta in deltas if isinstance(delta, ToolCallDelta)] == ["shell"]
    assert [tool.name for tool in turn.tools] == ["shell"]


async def test_a_declared_action_replaces_the_declaration_of_its_tool() -> None:
    transport = MockTransport()
    respond(transport, DONE, streamed=False)
    declared = (
        {"type": "shell", "environment": {"type": "local"}},
        {"type": "computer"},
        {"type": "apply_patch"},
        {"type": "tool_search", "execution": "client", "parameters": {"type": "object"}},
    )
    scope = ScopedCollection(tools, lambda _call, _meta: Execute())
    chat = ChatBuilder().with_model(provider(transport)).with_scoped_tools(scope).build()
    options = ChatOptions(extras=(ResponsesOptions(tools=declared),))
    await chat.complete(Messages.from_user("Go."), options=options)
    sent = transport.last.json()["tools"]
    assert [(tool["type"], tool.get("name")) for tool in sent] == [
        ("function", "local_shell"),
        ("shell", None),
        ("computer", None),
        ("apply_patch", None),
        ("tool_search", None),
    ]


@pytest.mark.parametrize(
    ("tool", "name"),
    [
        ({"type": "shell"}, "shell"),
        ({"type": "shell", "environment": {"type": "container_auto"}}, None),
        ({"type": "tool_search"}, None),
        ({"type": "computer_use_preview"}, "computer"),
        ({"type": "local_shell"}, "local_shell"),
        ({"type": ["shell"]}, None),
        ({"type": "web_search"}, None),
    ],
)
def test_only_tools_that_the_client_runs_declare_an_action(tool: dict[str, Any], name: str | None) -> None:
    assert declared_action(tool) == name


@pytest.mark.parametrize(
    "item",
    [
        {"type": "computer_call", "call_id": "a"},
        {"type": "shell_call", "call_id": "a", "action": "ls"},
        {"type": "apply_patch_call", "call_id": "a", "operation": []},
        {"type": "tool_search_call", "call_id": "a", "execution": "client", "arguments": [1]},
    ],
)
async def test_a_malformed_action_is_an_invalid_response(item: dict[str, Any]) -> None:
    transport = MockTransport()
    respond(transport, item, streamed=False)
    with pytest.raises(InvalidResponseError, match="is not an object"):
        await provider(transport).complete(Messages.from_user("Go."), NO_TOOLS, ChatOptions(), None)
    assert is_action(item)
