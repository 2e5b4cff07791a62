from __future__ import annotations

import json
from typing import Any

import pytest
from chat_core.errors import UnsupportedOptionError
from chat_core.options import ChatOptions, NamedTool
from chat_core.provider import NO_TOOLS, ToolDeclaration, ToolDeclarations
from chat_responses import ResponsesDialect, ResponsesOptions
from chat_responses.declare import encode_tools, tool_choice_fields

DIALECT = ResponsesDialect(model="m")
STRICT = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"], "additionalProperties": False}
LOOSE = {"type": "object", "properties": {"x": {"type": "integer", "default": 1}}}
TOOLS = ToolDeclarations([ToolDeclaration("f", "Does.", STRICT), ToolDeclaration("g", "", LOOSE)])


def sent(*raw: dict[str, object], dialect: ResponsesDialect = DIALECT, chats: ToolDeclarations = TOOLS) -> Any:
    extras = ResponsesOptions(tools=raw) if raw else None
    return json.loads(b"[" + encode_tools(chats, extras, dialect) + b"]")


def chosen(options: ChatOptions, *, tools: bool = True, **fields: Any) -> Any:
    return tool_choice_fields(options, ResponsesOptions(**fields) if fields else None, tools=tools)


def test_a_tool_is_strict_only_if_all_its_arguments_are_required() -> None:
    assert sent() == [
        {"type": "function", "name": "f", "description": "Does.", "parameters": STRICT, "strict": True},
        {"type": "function", "name": "g", "parameters": LOOSE, "strict": False},
    ]


def test_a_dialect_can_disable_and_omit_strict() -> None:
    quiet = ResponsesDialect(model="m", strict_tools=False, say_strict=False)
    assert all("strict" not in tool for tool in sent(dialect=quiet))


def test_strict_rewrite_false_sends_strict_schemas_unchanged() -> None:
    plain = ResponsesDialect(model="m", strict_rewrite=False)
    assert [(tool["parameters"], tool["strict"]) for tool in sent(dialect=plain)] == [(STRICT, True), (LOOSE, True)]


def test_native_tools_are_sent_after_the_declared_tools() -> None:
    assert [tool["type"] for tool in sent({"type": "web_search"})] == ["function", "function", "web_search"]
    assert sent({"type": "web_search"}, chats=NO_TOOLS) == [{"type": "web_search"}]


def test_a_native_declaration_replaces_the_declared_tool_of_the_same_name() -> None:
    custom: dict[str, object] = {"type": "custom", "name": "f", "format": {"type": "text"}}
    assert [(tool["type"], tool["name"]) for tool in sent(custom)] == [("function", "g"), ("custom", "f")]


def test_a_native_declaration_in_a_namespace_replaces_the_declared_tool() -> None:
    inner = [{"type": "function", "name": "g"}, {"type": "function"}, "odd"]
    assert [tool["name"] for tool in sent({"type": "namespace", "name": "n", "tools": inner})] == ["f", "n"]


def test_the_mcp_approval_tool_is_never_declared() -> None:
    tools = ToolDeclarations([ToolDeclaration("mcp_approval", "", STRICT)])
    assert sent(chats=tools) == []
    assert [tool["name"] for tool in sent(chats=ToolDeclarations([*tools, *TOOLS]))] == ["f", "g"]


def test_tool_declarations_are_always_encoded_to_the_same_bytes() -> None:
    assert encode_tools(TOOLS, None, DIALECT) == encode_tools(TOOLS, ResponsesOptions(), DIALECT)


# --- The choice ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("word", ["auto", "none", "required"])
def test_a_tool_choice_mode_is_sent_unchanged(word: Any) -> None:
    assert chosen(ChatOptions(tool_choice=word, parallel_tool_calls=False)) == {
        "tool_choice": word,
        "parallel_tool_calls": False,
    }


def test_a_named_tool_choice_is_encoded_by_name_or_type() -> None:
    tools = (
        {"type": "custom", "name": "sql"},
        {"type": "mcp", "server_label": "wiki"},
        {"type": "file_search"},
    )
    for name, expected in (
        ("f", {"type": "function", "name": "f"}),
        ("sql", {"type": "custom", "name": "sql"}),
        ("wiki", {"type": "mcp", "server_label": "wiki"}),
        ("file_search", {"type": "file_search"}),
    ):
        options = ChatOptions(tool_choice=NamedTool(name))
        assert tool_choice_fields(options, ResponsesOptions(tools=tools), tools=True) == {"tool_choice": expected}
        assert tool_choice_fields(options, None, tools=True) == {"tool_choice": {"type": "function", "name": name}}


def test_allowed_tools_are_sent_as_a_tool_choice() -> None:
    assert chosen(ChatOptions(), allowed_tools=("f", {"type": "web_search"})) == {
        "tool_choice": {
            "type": "allowed_tools",
            "mode": "auto",
            "tools": [{"type": "function", "name": "f"}, {"type": "web_search"}],
        }
    }
    must = chosen(ChatOptions(tool_choice="required"), allowed_tools=("f",))
    assert must["tool_choice"]["mode"] == "required"


def test_a_native_tool_choice_is_sent_unchanged() -> None:
    raw = {"type": "computer_use_preview"}
    assert chosen(ChatOptions(), tool_choice=raw) == {"tool_choice": raw}
    assert chosen(ChatOptions(), tools=False, tool_choice=raw) == {"tool_choice": raw}


def test_a_tool_choice_without_tools_is_omitted_or_rejected() -> None:
    assert chosen(ChatOptions(tool_choice="auto", parallel_tool_calls=True), tools=False) == {}
    for options in (ChatOptions(tool_choice="required"), ChatOptions(tool_choice=NamedTool("f"))):
        with pytest.raises(UnsupportedOptionError, match="needs tools"):
            chosen(options, tools=False)
    with pytest.raises(UnsupportedOptionError, match="needs tools"):
        chosen(ChatOptions(), tools=False, allowed_tools=("f",))


def test_conflicting_tool_choices_are_rejected() -> None:
    with pytest.raises(UnsupportedOptionError, match="conflicts with"):
        chosen(ChatOptions(tool_choice="auto"), tool_choice={"type": "mcp"})
    with pytest.raises(UnsupportedOptionError, match="allowed_tools"):
        chosen(ChatOptions(tool_choice=NamedTool("f")), allowed_tools=("f",))
    with pytest.raises(UnsupportedOptionError, match="allowed_tools"):
        chosen(ChatOptions(), allowed_tools=("f",), tool_choice={"type": "mcp"})
