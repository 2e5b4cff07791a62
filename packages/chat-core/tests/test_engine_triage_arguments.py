"""Arguments whose validation raises unusual errors do not end a run."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Never

import anyio
import pytest
from chat_core import (
    Action,
    ChatBuilder,
    Execute,
    File,
    FunctionCall,
    Messages,
    Paused,
    Reject,
    RequireApproval,
    ScopedCollection,
    ToolCollection,
    ToolContext,
)
from chat_core.messages import Completed, Failed, Pending, Rejected
from chat_core.provider import ToolDeclaration
from chat_core.testing import ScriptedProvider
from chat_core.tools import ToolDefinition, ToolScope
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import AfterValidator

pytestmark = pytest.mark.anyio


class Hostile:
    """A tool whose validation raises."""

    def __init__(self, error: Exception) -> None:
        self.tools = ToolCollection()

        def check(value: int) -> int:
            raise error

        @self.tools.tool
        async def pay(cents: Annotated[int, AfterValidator(check)]) -> None: ...


@pytest.mark.parametrize("error", [LookupError("no such account"), RecursionError("deep"), OverflowError("big")])
async def test_the_error_of_an_application_validator_is_sent_to_the_model(error: Exception) -> None:
    messages = Messages.from_user("pay")
    model = ScriptedProvider(FunctionCall("pay", {"cents": 1}, id="call_1"), "sorry")
    await ChatBuilder().with_model(model).with_tools(Hostile(error).tools).build().complete(messages)
    assert messages.tool("call_1").result_text() == (
        f"The call of pay was not run: The arguments could not be checked: {type(error).__name__}: {error}"
    )


class RaisingDefinition:
    """Tool definition of an application with its own validation."""

    declaration = ToolDeclaration("pay", "", {"type": "object"})
    timeout = None
    idempotent = sequential = blocking = False

    def validate(self, _arguments: Mapping[str, object], /) -> Mapping[str, object]:
        raise ZeroDivisionError("nothing")

    def run(self, arguments: Mapping[str, object], context: ToolContext, /) -> object:
        raise NotImplementedError

    def result(self, value: object, /) -> tuple[object, tuple[File, ...]]:
        raise NotImplementedError


class RaisingScope(ToolScope[Never]):
    def definitions(self) -> list[ToolDefinition]:
        return [RaisingDefinition()]

    async def decide(
        self,
        _call: FunctionCall,
        /,
        *,
        on_error: Callable[[BaseException], None] | None = None,
    ) -> Execute:
        return Execute()


async def test_the_error_of_a_custom_tool_definition_is_sent_to_the_model() -> None:
    messages = Messages.from_user("pay")
    model = ScriptedProvider(FunctionCall("pay", {"cents": 1}, id="call_1"), "sorry")
    await ChatBuilder().with_model(model).with_scoped_tools(RaisingScope()).build().complete(messages)
    assert "could not be checked: ZeroDivisionError: nothing" in messages.tool("call_1").result_text()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.just(10**400) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8) | st.just("\ud800"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=12,
)  # fmt: skip


def nest(depth: int, item: int) -> object:
    return json.loads("[" * depth + json.dumps(item) + "]" * depth)


def wrap(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    def items(item: object) -> object:
        return {"items": item}

    def choice(*branches: object) -> object:
        return {"anyOf": list(branches)}

    def members(item: object) -> object:
        return {"patternProperties": {"^a|b+": item}, "additionalProperties": item}

    return st.builds(items, inner) | st.builds(choice, inner, inner) | st.builds(members, inner)


DEEP = st.builds(nest, st.sampled_from([30, 150, 201, 300, 490, 700]), st.integers())
ARGUMENTS = st.dictionaries(st.sampled_from(["a", "b", "cents"]), JSON | DEEP, max_size=3)
LEAVES: list[Any] = [
    True,
    {},
    {"multipleOf": 0.1},
    {"multipleOf": 7},
    {"pattern": "^(a+)+$"},
    {"$ref": "#"},
    {"$ref": "#/$defs/list"},
    {"$ref": "#/$defs/pattern"},
    {"maximum": 5},
    {"uniqueItems": True},
    {"const": 10**400},
    {"enum": [1, "a", None]},
    {"minLength": 3},
]
SCHEMAS: st.SearchStrategy[Any] = st.recursive(st.sampled_from(LEAVES), wrap, max_leaves=5)
DEFINITIONS = {"list": {"items": {"$ref": "#/$defs/list"}}, "pattern": {"pattern": "^[a-z]+$"}}


@given(
    st.dictionaries(st.sampled_from(["a", "b", "cents"]), SCHEMAS, max_size=3),
    ARGUMENTS,
    st.sampled_from([Execute(), RequireApproval(), Reject("no")]),
    st.booleans(),
)
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_a_run_handles_any_arguments_with_any_schema(
    properties: dict[str, object], arguments: dict[str, object], action: Action[Paused], parsed: bool
) -> None:
    tools = ToolCollection()
    schema = {"type": "object", "properties": properties, "$defs": DEFINITIONS}
    tools.register("pay", schema, accept)
    tools.tool(untyped)
    text = json.dumps(arguments)
    calls = [FunctionCall.parse(name, text) if parsed else FunctionCall(name, arguments) for name in ("pay", "untyped")]
    scope = ScopedCollection(tools, lambda _call, _meta: action)
    messages = Messages.from_user("go")
    chat = ChatBuilder().with_model(ScriptedProvider(calls, "done")).with_scoped_tools(scope).build()
    end = anyio.run(chat.complete, messages)
    assert Messages.from_json(messages.to_json()) == messages
    statuses = [tool.status for content in messages.contents for tool in content.tools]
    assert len(statuses) == 2
    if isinstance(end, Paused):
        assert all(
            isinstance(status, (Failed, Pending)) and (not isinstance(status, Pending) or status.kind == "approval")
            for status in statuses
        )
    else:
        assert all(isinstance(status, (Completed, Failed, Rejected)) for status in statuses)


async def accept(_arguments: dict[str, Any]) -> None: ...


async def untyped(a: object = None, b: Any = 1, cents: float | list[Any] = 0) -> None: ...
