"""Tools made from functions: name, description, options and execution."""

from __future__ import annotations

import copy
import functools
import inspect
import math
import pickle
from typing import Annotated, Any

import pytest
from chat_core.errors import UsageError
from chat_core.messages import File
from chat_core.tools import InvalidArgumentsError, ToolContext, ToolDefinition, ToolOptions, declare, require_name
from pydantic import Field

CONTEXT = ToolContext("call_1", attempt=2, idempotency_key="key")


def transfer(to: str, cents: Annotated[int, Field(gt=0)] = 100, *, ctx: ToolContext) -> str:
    """Send money.

    Args:
        to: IBAN of the receiver.
        cents: How much.
        ctx: not for the model.
    """
    return f"{cents} to {to}, {ctx.idempotency_key}"


async def look(at: str) -> str:
    return at


def test_declaration_has_the_name_docstring_and_schema_of_the_function() -> None:
    declaration = declare(transfer, ToolOptions()).declaration
    assert (declaration.name, declaration.description) == ("transfer", "Send money.")
    assert declaration.parameters == {
        "type": "object",
        "properties": {
            "to": {"description": "IBAN of the receiver.", "type": "string"},
            "cents": {"default": 100, "description": "How much.", "exclusiveMinimum": 0, "type": "integer"},
        },
        "required": ["to"],
        "additionalProperties": False,
    }


def test_options_replace_the_name_and_description_of_the_function() -> None:
    tool: ToolDefinition = declare(transfer, ToolOptions("pay-out", "", 1.5, idempotent=True, sequential=True))
    assert (tool.declaration.name, tool.declaration.description) == ("pay-out", "")
    assert (tool.timeout, tool.idempotent, tool.sequential, tool.blocking) == (1.5, True, True, True)


def test_tool_without_options_has_no_timeout_and_is_not_idempotent_or_sequential() -> None:
    tool: ToolDefinition = declare(look, ToolOptions())
    assert (tool.timeout, tool.idempotent, tool.sequential, tool.blocking) == (None, False, False, False)
    assert tool.declaration.description == ""


def test_run_calls_the_function_with_validated_arguments_and_the_context() -> None:
    tool = declare(transfer, ToolOptions())
    arguments = tool.validate({"to": "bo"})
    assert arguments == {"to": "bo", "cents": 100}
    assert tool.run(arguments, CONTEXT) == "100 to bo, key"


def test_arguments_validated_by_another_tool_are_validated_again() -> None:
    def loose(to: str, cents: int) -> None: ...

    arguments = declare(loose, ToolOptions()).validate({"to": "bo", "cents": -1})
    tool = declare(transfer, ToolOptions())
    with pytest.raises(InvalidArgumentsError, match="cents: should be greater than 0, not -1"):
        tool.validate(arguments)
    with pytest.raises(InvalidArgumentsError, match="cents: should be greater than 0, not -1"):
        tool.run(arguments, CONTEXT)


def test_validated_arguments_that_were_changed_are_validated_again() -> None:
    tool = declare(transfer, ToolOptions())
    arguments = tool.validate({"to": "bo", "cents": 5})
    arguments = {**arguments, "cents": -1}
    with pytest.raises(InvalidArgumentsError, match="cents: should be greater than 0, not -1"):
        tool.validate(arguments)


def test_copied_validated_arguments_are_validated_again() -> None:
    tool = declare(transfer, ToolOptions())
    arguments = tool.validate({"to": "bo", "cents": 5})
    through_a_pickle: Any = pickle.loads(pickle.dumps(arguments))  # noqa: S301 - our own
    copies: list[Any] = [copy.copy(arguments), copy.deepcopy(arguments), through_a_pickle]
    for copied in copies:
        assert copied == {"to": "bo", "cents": 5}
        copied["cents"] = -1
        with pytest.raises(InvalidArgumentsError, match="cents: should be greater than 0, not -1"):
            tool.run(copied, CONTEXT)


def test_changes_of_the_arguments_by_the_body_do_not_affect_the_next_run() -> None:
    def take(queue: list[int], deep: dict[str, list[int]]) -> list[int]:
        return [queue.pop(), deep["a"].pop()]

    tool = declare(take, ToolOptions())
    arguments = tool.validate({"queue": [1, 2], "deep": {"a": [3, 4]}})
    assert tool.run(arguments, CONTEXT) == [2, 4]
    assert tool.run(arguments, CONTEXT) == [2, 4]
    assert arguments == {"queue": [1, 2], "deep": {"a": [3, 4]}}


@pytest.mark.anyio
async def test_run_of_a_coroutine_function_returns_an_awaitable() -> None:
    outcome = declare(look, ToolOptions()).run({"at": "it"}, CONTEXT)
    assert inspect.isawaitable(outcome)
    assert await outcome == "it"


def test_invalid_arguments_raise_before_the_body_runs() -> None:
    tool = declare(transfer, ToolOptions())
    with pytest.raises(InvalidArgumentsError, match="cents: should be greater than 0, not -1"):
        tool.validate({"to": "bo", "cents": -1})
    with pytest.raises(InvalidArgumentsError, match="cents: should be greater than 0, not -1"):
        tool.run({"to": "bo", "cents": -1}, CONTEXT)


def test_error_of_the_body_propagates() -> None:
    def breaks() -> None:
        msg = "no such account"
        raise LookupError(msg)

    with pytest.raises(LookupError, match="no such account"):
        declare(breaks, ToolOptions()).run({}, CONTEXT)


def test_result_returns_json_and_files() -> None:
    file = File("image/png", data=b"1")
    assert declare(look, ToolOptions()).result([1, file]) == ([1, "[file, image/png]"], (file,))


@pytest.mark.parametrize("name", ["a", "A-b_9", "x" * 64])
def test_valid_tool_name_is_accepted(name: str) -> None:
    assert require_name(name) == name


@pytest.mark.parametrize("name", ["", "a b", "a.b", "größe", "x" * 65, "a\n", 5])
def test_invalid_tool_name_raises_and_suggests_name(name: Any) -> None:
    with pytest.raises(UsageError, match=r"a tool's name is 1 to 64 of the characters .* pass name="):
        declare(look, ToolOptions(name))


def test_function_with_an_invalid_name_needs_an_explicit_one() -> None:
    with pytest.raises(UsageError, match="'<lambda>': pass name="):
        declare(lambda: None, ToolOptions())
    assert declare(lambda: None, ToolOptions("nothing")).declaration.name == "nothing"


def test_callable_object_needs_an_explicit_name() -> None:
    class Clock:
        """Tells the time."""

        def __call__(self, zone: str) -> str:
            return zone

    with pytest.raises(UsageError, match="has no name: pass name="):
        declare(Clock(), ToolOptions())
    tool = declare(Clock(), ToolOptions("clock"))
    assert tool.declaration.description == "Tells the time."
    assert tool.run(tool.validate({"zone": "UTC"}), CONTEXT) == "UTC"


def test_partial_has_the_name_and_docstring_of_its_function() -> None:
    declaration = declare(functools.partial(transfer, cents=5), ToolOptions()).declaration
    assert (declaration.name, declaration.description) == ("transfer", "Send money.")
    assert declaration.parameters["required"] == ["to"]
    assert "cents" not in repr(declaration.parameters)


@pytest.mark.parametrize("seconds", [0, -1, math.inf, math.nan, True, "5"])
def test_timeout_that_is_not_a_positive_number_raises(seconds: Any) -> None:
    with pytest.raises(UsageError, match="timeout must be a positive number of seconds"):
        ToolOptions(timeout=seconds)


def test_declare_raises_if_the_tool_is_not_a_function() -> None:
    number: Any = 5
    with pytest.raises(UsageError, match="a tool must be a function, not 5"):
        declare(number, ToolOptions())
