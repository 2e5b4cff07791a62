"""Lookup of tool definitions, and argument errors."""

from __future__ import annotations

from chat_core import ChatBuilder, ToolCollection
from chat_core.testing import ScriptedProvider
from chat_inbox.tool_definitions import find_argument_errors, find_definition, resolve_names
from inbox_helpers import CALL, Bank, messages_of, store


def test_definition_of_a_tool_is_found() -> None:
    definition = find_definition(Bank().chat, ["transfer"])

    assert definition is not None
    assert definition.declaration.description == "Send money to somebody."


def test_definition_of_a_nested_tool_is_found_by_its_names() -> None:
    inner = Bank().chat.as_tool(name="bank", description="Moves money.")
    outer = ChatBuilder().with_model(ScriptedProvider()).with_scoped_tools(inner).build()

    definition = find_definition(outer, ["bank", "transfer"])
    assert definition is not None
    assert definition.declaration.name == "transfer"
    assert find_definition(outer, ["transfer"]) is None
    assert find_definition(outer, ["bank", "transfer", "more"]) is None


def test_find_definition_returns_none_without_a_chat() -> None:
    assert find_definition(None, ["transfer"]) is None


async def names() -> tuple[str, ...]:
    kept = store()
    await Bank(CALL).ask(kept)
    return resolve_names(await messages_of(kept), ["call_1"])


def test_resolve_names_returns_the_tool_names_of_a_path() -> None:
    import anyio  # noqa: PLC0415 - for this one test

    assert anyio.run(names) == ("transfer",)


def test_argument_errors_are_keyed_by_path() -> None:
    definition = find_definition(Bank().chat, ["transfer"])
    assert definition is not None

    told = find_argument_errors(definition, {"to": 1, "cents": 0, "items": [{"name": "a"}]})
    assert set(told) == {"to", "cents", "items[0].cents"}
    assert find_argument_errors(definition, {"to": "a", "cents": 1}) == {}


def test_argument_error_without_path_applies_to_all_arguments() -> None:
    tools = ToolCollection()

    def anything(arguments: dict[str, object]) -> str:
        return f"{arguments}"

    tools.register("raw", {"type": "object", "required": ["a"]}, anything)
    chat = ChatBuilder().with_model(ScriptedProvider()).with_tools(tools).build()
    definition = find_definition(chat, ["raw"])
    assert definition is not None

    assert list(find_argument_errors(definition, {})) == ["the arguments"]
