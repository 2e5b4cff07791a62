"""A tool is found by the names that lead to it, and says what is wrong with arguments."""

from __future__ import annotations

from chat_core import ChatBuilder, ToolCollection
from chat_core.testing import ScriptedProvider
from chat_inbox.tool_definitions import find_argument_errors, find_definition, resolve_names
from inbox_helpers import CALL, Bank, messages_of, store


def test_a_tool_of_a_chat_is_found() -> None:
    definition = find_definition(Bank().chat, ["transfer"])

    assert definition is not None
    assert definition.declaration.description == "Send money to somebody."


def test_a_tool_of_a_chat_that_is_a_tool_is_found_by_the_names_on_the_way() -> None:
    inner = Bank().chat.as_tool(name="bank", description="Moves money.")
    outer = ChatBuilder().with_model(ScriptedProvider()).with_scoped_tools(inner).build()

    definition = find_definition(outer, ["bank", "transfer"])
    assert definition is not None
    assert definition.declaration.name == "transfer"
    assert find_definition(outer, ["transfer"]) is None
    assert find_definition(outer, ["bank", "transfer", "more"]) is None


def test_a_chat_that_is_not_known_has_no_tools() -> None:
    assert find_definition(None, ["transfer"]) is None


async def names() -> tuple[str, ...]:
    kept = store()
    await Bank(CALL).ask(kept)
    return resolve_names(await messages_of(kept), ["call_1"])


def test_a_path_has_names() -> None:
    import anyio  # noqa: PLC0415 - for this one test

    assert anyio.run(names) == ("transfer",)


def test_what_is_wrong_is_told_by_its_place() -> None:
    definition = find_definition(Bank().chat, ["transfer"])
    assert definition is not None

    told = find_argument_errors(definition, {"to": 1, "cents": 0, "items": [{"name": "a"}]})
    assert set(told) == {"to", "cents", "items[0].cents"}
    assert find_argument_errors(definition, {"to": "a", "cents": 1}) == {}


def test_what_is_wrong_has_a_place_even_where_a_tool_tells_none() -> None:
    tools = ToolCollection()

    def anything(arguments: dict[str, object]) -> str:
        return f"{arguments}"

    tools.register("raw", {"type": "object", "required": ["a"]}, anything)
    chat = ChatBuilder().with_model(ScriptedProvider()).with_tools(tools).build()
    definition = find_definition(chat, ["raw"])
    assert definition is not None

    assert list(find_argument_errors(definition, {})) == ["the arguments"]
