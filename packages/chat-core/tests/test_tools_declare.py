"""A function as a tool: its name, its description, its options, and how it runs."""

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


def test_a_model_is_told_the_name_the_docstring_and_the_schema() -> None:
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


def test_options_replace_what_the_function_says() -> None:
    tool: ToolDefinition = declare(transfer, ToolOptions("pay-out", "", 1.5, idempotent=True, sequential=True))
    assert (tool.declaration.name, tool.declaration.description) == ("pay-out", "")
    assert (tool.timeout, tool.idempotent, tool.sequential, tool.blocking) == (1.5, True, True, True)


def test_without_options_it_has_no_limit_and_promises_nothing() -> None:
    tool: ToolDefinition = declare(look, ToolOptions())
    assert (tool.timeout, tool.idempotent, tool.sequential, tool.blocking) == (None, False, False, False)
    assert tool.declaration.description == ""


def test_canonical_arguments_run_with_the_context() -> None:
    tool = declare(transfer, ToolOptions())
    arguments = tool.validate({"to": "bo"})
    assert arguments == {"to": "bo", "cents": 100}
    assert tool.run(arguments, CONTEXT) == "100 to bo, key"


def test_arguments_that_another_tool_has_validated_are_read_by_the_one_that_runs() -> None:
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


def test_a_copy_of_validated_arguments_is_read_again() -> None:
    tool = declare(transfer, ToolOptions())
    arguments = tool.validate({"to": "bo", "cents": 5})
    through_a_pickle: Any = pickle.loads(pickle.dumps(arguments))  # noqa: S301 - our own
    copies: list[Any] = [copy.copy(arguments), copy.deepcopy(arguments), through_a_pickle]
    for copied in copies:
        assert copied == {"to": "bo", "cents": 5}
        copied["cents"] = -1
        with pytest.raises(InvalidArgumentsError, match="cents: should be greater than 0, not -1"):
            tool.run(copied, CONTEXT)


def test_what_a_body_does_to_its_arguments_is_not_seen_when_they_run_again() -> None:
    def take(queue: list[int], deep: dict[str, list[int]]) -> list[int]:
        return [queue.pop(), deep["a"].pop()]

    tool = declare(take, ToolOptions())
    arguments = tool.validate({"queue": [1, 2], "deep": {"a": [3, 4]}})
    assert tool.run(arguments, CONTEXT) == [2, 4]
    assert tool.run(arguments, CONTEXT) == [2, 4]
    assert arguments == {"queue": [1, 2], "deep": {"a": [3, 4]}}


@pytest.mark.anyio
async def test_a_coroutine_function_gives_an_awaitable() -> None:
    outcome = declare(look, ToolOptions()).run({"at": "it"}, CONTEXT)
    assert inspect.isawaitable(outcome)
    assert await outcome == "it"


def test_arguments_that_do_not_fit_are_refused_before_the_body() -> None:
    tool = declare(transfer, ToolOptions())
    with pytest.raises(InvalidArgumentsError, match="cents: should be greater than 0, not -1"):
        tool.validate({"to": "bo", "cents": -1})
    with pytest.raises(InvalidArgumentsError, match="cents: should be greater than 0, not -1"):
        tool.run({"to": "bo", "cents": -1}, CONTEXT)


def test_what_the_body_raises_passes() -> None:
    def breaks() -> None:
        msg = "no such account"
        raise LookupError(msg)

    with pytest.raises(LookupError, match="no such account"):
        declare(breaks, ToolOptions()).run({}, CONTEXT)


def test_a_result_is_json_and_files() -> None:
    file = File("image/png", data=b"1")
    assert declare(look, ToolOptions()).result([1, file]) == ([1, "[file, image/png]"], (file,))


@pytest.mark.parametrize("name", ["a", "A-b_9", "x" * 64])
def test_a_name_that_every_wire_carries_is_taken(name: str) -> None:
    assert require_name(name) == name


@pytest.mark.parametrize("name", ["", "a b", "a.b", "größe", "x" * 65, "a\n", 5])
def test_another_name_is_refused_with_the_way_out(name: Any) -> None:
    with pytest.raises(UsageError, match=r"a tool's name is 1 to 64 of the characters .* pass name="):
        declare(look, ToolOptions(name))


def test_a_function_whose_name_cannot_be_sent_needs_another() -> None:
    with pytest.raises(UsageError, match="'<lambda>': pass name="):
        declare(lambda: None, ToolOptions())
    assert declare(lambda: None, ToolOptions("nothing")).declaration.name == "nothing"


def test_a_callable_object_needs_a_name() -> None:
    class Clock:
        """Tells the time."""

        def __call__(self, zone: str) -> str:
            return zone

    with pytest.raises(UsageError, match="has no name: pass name="):
        declare(Clock(), ToolOptions())
    tool = declare(Clock(), ToolOptions("clock"))
    assert tool.declaration.description == "Tells the time."
    assert tool.run(tool.validate({"zone": "UTC"}), CONTEXT) == "UTC"


def test_a_partial_has_the_name_and_the_words_of_its_function() -> None:
    declaration = declare(functools.partial(transfer, cents=5), ToolOptions()).declaration
    assert (declaration.name, declaration.description) == ("transfer", "Send money.")
    assert declaration.parameters["required"] == ["to"]
    assert "cents" not in repr(declaration.parameters)


@pytest.mark.parametrize("seconds", [0, -1, math.inf, math.nan, True, "5"])
def test_a_timeout_is_a_number_of_seconds(seconds: Any) -> None:
    with pytest.raises(UsageError, match="timeout must be a positive number of seconds"):
        ToolOptions(timeout=seconds)


def test_what_is_no_function_is_no_tool() -> None:
    number: Any = 5
    with pytest.raises(UsageError, match="a tool must be a function, not 5"):
        declare(number, ToolOptions())
