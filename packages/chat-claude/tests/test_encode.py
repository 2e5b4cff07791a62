from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from chat_claude import (
    Cache,
    ClaudeOptions,
    Dialect,
    KnownTool,
    McpServer,
    WebSearch,
    cached,
    on_bedrock,
    on_vertex,
    uploaded,
)
from chat_claude.codec import encode, encode_count, encode_turns
from chat_core.errors import PendingToolsError, UnsupportedOptionError, UnsupportedPartError, UsageError
from chat_core.messages import Completed, File, FunctionCall, Messages, ProviderPart, Text, Tool, Turn
from chat_core.options import ChatOptions, Instructions
from chat_core.provider import NO_TOOLS, ToolDeclaration, ToolDeclarations
from chat_core.usage import Metadata

DIALECT = Dialect.of("claude-opus-4-6")
SCHEMA: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}


def declared(*names: str) -> ToolDeclarations:
    return ToolDeclarations([ToolDeclaration(name, f"does {name}", SCHEMA) for name in names])


def sent(
    messages: Messages,
    own: ToolDeclarations = NO_TOOLS,
    *,
    dialect: Dialect = DIALECT,
    stream: bool = False,
    **extras: Any,
) -> Any:
    options = ChatOptions(extras=(ClaudeOptions(**extras),) if extras else ())
    return json.loads(encode(messages, own, options, None, dialect=dialect, stream=stream).body)


def model(*parts: Any) -> Turn:
    return Turn(parts, finish_reason="stop", metadata=Metadata("claude"))


def conversation() -> Messages:
    messages = Messages.from_system("Be kind.").user("Hi")
    messages.append("model", model(Text("Let me see."), Tool(FunctionCall("f", {"a": 1}), call_id="t1")))
    messages.tool("t1").adopt(messages.tool("t1").with_status(Completed("ok")))
    return messages


# --- The conversation -----------------------------------------------------------------------------------------


def test_system_messages_are_sent_as_blocks_of_the_system_field() -> None:
    body = sent(conversation())
    assert body["system"] == [{"type": "text", "text": "Be kind."}]
    assert [message["role"] for message in body["messages"]] == ["user", "assistant", "user"]
    assert body["messages"][2]["content"] == [{"type": "tool_result", "tool_use_id": "t1", "content": "ok"}]
    assert body["model"] == "claude-opus-4-6"
    assert "stream" not in body
    assert sent(conversation(), stream=True)["stream"] is True


def test_sequential_and_parallel_calls_keep_their_grouping() -> None:
    messages = Messages.from_user("Hi")
    for ids in (("a", "b"), ("c",)):
        messages.append("model", model(*[Tool(FunctionCall("f"), call_id=id_, status=Completed(id_)) for id_ in ids]))
    wire = [[block.get("id", block.get("tool_use_id")) for block in m["content"]] for m in sent(messages)["messages"]]
    assert wire == [[None], ["a", "b"], ["a", "b"], ["c"], ["c"]]


def test_encoding_a_pending_call_raises() -> None:
    messages = Messages.from_user("Hi")
    messages.append("model", model(Tool(FunctionCall("f"), call_id="t1")))
    with pytest.raises(PendingToolsError, match="t1"):
        sent(messages)


def test_a_turn_without_sendable_blocks_is_omitted() -> None:
    messages = Messages.from_user("Hi")
    messages.append("model", Turn([Text(""), ProviderPart("gemini", "x", {})]))
    messages.user("Well?")
    assert [message["role"] for message in sent(messages)["messages"]] == ["user", "user"]


def test_a_conversation_without_a_user_message_is_rejected() -> None:
    with pytest.raises(UsageError, match="at least one user message"):
        sent(Messages.from_system("Be kind."))


def test_later_system_messages_join_the_system_field_unless_system_in_place_is_set() -> None:
    messages = Messages.from_system("One.").user("Hi").system("Two.").user("Well?")
    body = sent(messages)
    assert [block["text"] for block in body["system"]] == ["One.", "Two."]
    assert [message["role"] for message in body["messages"]] == ["user", "user"]
    body = sent(messages, dialect=replace(DIALECT, system_in_place=True))
    assert [block["text"] for block in body["system"]] == ["One."]
    assert [message["role"] for message in body["messages"]] == ["user", "system", "user"]


# --- Caching --------------------------------------------------------------------------------------------------


def test_a_moving_cache_point_keeps_the_cached_bytes_of_earlier_turns() -> None:
    messages = conversation()
    cache = Cache(messages="1h", system="5m")
    _, bare = encode_turns(messages.view(), DIALECT)
    system, first = encode_turns(messages.view(), DIALECT, cache)
    assert json.loads(system)["cache_control"] == {"type": "ephemeral"}
    assert first.count(b"cache_control") == 1
    assert json.loads(b"[" + first + b"]")[-1]["content"][-1]["cache_control"] == {"type": "ephemeral", "ttl": "1h"}
    assert encode_turns(messages.view(), DIALECT) == (b'{"type":"text","text":"Be kind."}', bare)
    messages.user("And now?")
    _, later = encode_turns(messages.view(), DIALECT, cache)
    assert later.startswith(bare + b",")
    assert later.count(b"cache_control") == 1


def test_the_cache_point_is_put_on_the_last_block_of_the_last_message() -> None:
    messages = Messages.from_user("Hi")
    messages.append("model", model(Text("Hello")))
    assert sent(messages, cache=Cache(messages="5m"))["messages"][1]["content"][0]["cache_control"]
    messages = Messages.from_user("Hi")
    assert sent(messages, cache=Cache(messages="5m"))["messages"][0]["content"][0]["cache_control"]


def test_the_cache_point_is_put_on_the_last_turn_that_is_not_empty() -> None:
    messages = Messages.from_user("Hi")
    messages.append("model", model(Text("")))
    said = sent(messages, cache=Cache(messages="5m"))["messages"]
    assert [message["content"][-1].get("cache_control") for message in said] == [{"type": "ephemeral"}]


def test_a_cache_point_set_by_the_user_is_sent_with_its_part() -> None:
    messages = Messages.from_user(cached(Text("A long text"), "1h"), "And?")
    blocks = sent(messages)["messages"][0]["content"]
    assert [block.get("cache_control") for block in blocks] == [{"type": "ephemeral", "ttl": "1h"}, None]


def test_the_tools_cache_point_is_put_on_the_last_tool() -> None:
    messages = Messages.from_user("Hi")
    point = {"type": "ephemeral"}
    tools = sent(messages, declared("f", "g"), cache=Cache(tools="5m"))["tools"]
    assert [tool.get("cache_control") for tool in tools] == [None, point]
    tools = sent(messages, declared("f"), cache=Cache(tools="5m"), tools=(WebSearch(),))["tools"]
    assert [tool.get("cache_control") for tool in tools] == [None, point]


def test_the_encodings_of_turns_and_tools_are_cached() -> None:
    messages, tools = conversation(), declared("f")
    first = encode(messages, tools, ChatOptions(), None, dialect=DIALECT, stream=False).body
    turn = messages[2].turns[0]
    assert turn.encoded(DIALECT.turn_key, lambda _: b"again") != b"again"
    assert encode(messages, tools, ChatOptions(), None, dialect=DIALECT, stream=False).body == first


# --- Tools ----------------------------------------------------------------------------------------------------


def test_tools_are_declared_in_registration_order_with_their_extra_fields() -> None:
    body = sent(Messages.from_user("Hi"), declared("g", "f"), tool_fields={"f": {"defer_loading": True}})
    assert [tool["name"] for tool in body["tools"]] == ["g", "f"]
    assert body["tools"][0] == {"name": "g", "description": "does g", "input_schema": SCHEMA}
    assert body["tools"][1]["defer_loading"] is True


def test_strict_tools_get_schemas_that_the_api_can_enforce() -> None:
    strict = replace(DIALECT, strict_tools=True)
    tools = ToolDeclarations(
        [
            ToolDeclaration("f", "", {"type": "object", "properties": {"a": {"type": "integer", "minimum": 1}}}),
            ToolDeclaration("g", "", {"type": "object", "additionalProperties": {"type": "string"}}),
        ]
    )
    first, second = sent(Messages.from_user("Hi"), tools, dialect=strict)["tools"]
    assert first["strict"] is True
    assert first["input_schema"]["properties"]["a"] == {"type": "integer", "description": "(minimum: 1)"}
    assert "strict" not in second
    assert "description" not in second


@pytest.mark.parametrize(
    ("property_", "required", "each", "limit"),
    [
        ({"type": "string"}, True, 1, 20),
        ({"type": "string"}, False, 3, 8),
        ({"type": ["string", "null"]}, True, 2, 8),
        ({"type": "object", "properties": {"b": {"type": "integer"}}, "required": []}, True, 5, 4),
    ],
    ids=["tools", "optional", "unions", "inner-optional"],
)
def test_tools_are_strict_until_a_limit_of_the_api_is_reached(
    property_: dict[str, Any], required: bool, each: int, limit: int
) -> None:
    names = [f"p{index}" for index in range(each)]
    schema = {"type": "object", "properties": dict.fromkeys(names, property_), "required": names if required else []}
    tools = ToolDeclarations([ToolDeclaration(f"f{index}", "", schema) for index in range(22)])
    body = sent(Messages.from_user("Hi"), tools, dialect=replace(DIALECT, strict_tools=True))
    assert [tool.get("strict", False) for tool in body["tools"]] == [True] * limit + [False] * (22 - limit)
    assert body["tools"][-1]["input_schema"] == schema


def test_a_native_declaration_replaces_the_declared_tool_of_the_same_name() -> None:
    native = (KnownTool("memory_20250818", "memory"), {"type": "bash_20250124", "name": "bash"})
    body = sent(Messages.from_user("Hi"), declared("memory", "f"), tools=native)
    assert [tool["name"] for tool in body["tools"]] == ["f", "memory", "bash"]
    assert body["tools"][1] == {"type": "memory_20250818", "name": "memory"}


def test_a_native_toolset_without_a_name_does_not_hide_a_tool() -> None:
    body = sent(Messages.from_user("Hi"), declared("None"), tools=({"type": "computer_toolset_20260801"},))
    assert [tool.get("name") for tool in body["tools"]] == ["None", None]


def test_the_token_of_an_mcp_server_does_not_appear_in_any_repr() -> None:
    hidden = "s3cret"
    server = McpServer(name="s", url="https://h", authorization_token=hidden)
    options = ChatOptions(extras=(ClaudeOptions(mcp_servers=(server,)),))
    encoded = encode(Messages.from_user("Hi"), NO_TOOLS, options, None, dialect=Dialect.of("m"), stream=False)
    assert b"s3cret" in encoded.body
    assert "s3cret" not in repr((encoded, options))


def test_a_tool_name_that_the_api_does_not_accept_is_rejected() -> None:
    with pytest.raises(UnsupportedOptionError, match=r"tool name 'a\.b'"):
        sent(Messages.from_user("Hi"), declared("a.b"))


def test_a_file_sent_by_id_requires_the_files_beta() -> None:
    def betas(*parts: Any, dialect: Dialect = DIALECT, extras: tuple[ClaudeOptions, ...] = ()) -> tuple[str, ...]:
        messages, options = Messages.from_user(*parts), ChatOptions(extras=extras)
        return encode(messages, NO_TOOLS, options, None, dialect=dialect, stream=False).betas

    file, beta = uploaded("file_1", "application/pdf"), "files-api-2025-04-14"
    assert betas(file) == (beta,)
    assert betas(file, extras=(ClaudeOptions(betas=("a", beta)),)) == ("a", beta)
    assert betas('{"file_id": "x"} or {"file_id":"x"}') == ()
    assert betas(file, dialect=on_bedrock("claude-opus-4-8")) == ()


# --- Platforms and counting -----------------------------------------------------------------------------------


def test_a_block_with_a_null_file_id_does_not_require_the_files_beta() -> None:
    block: dict[str, Any] = {"type": "document", "source": {"type": "content", "content": []}, "file_id": None}
    messages = Messages()
    messages.append("user", Turn([Text("x"), ProviderPart("claude", "document", block)]))
    encoded = encode(messages, NO_TOOLS, ChatOptions(), None, dialect=Dialect.of("m"), stream=False)
    assert encoded.betas == ()


def test_vertex_and_bedrock_requests_contain_a_version_instead_of_the_model() -> None:
    messages = Messages.from_user("Hi")
    vertex = sent(messages, dialect=on_vertex("claude-sonnet-4-5@20250929"), stream=True)
    assert vertex["anthropic_version"] == "vertex-2023-10-16"
    assert vertex["stream"] is True
    assert "model" not in vertex
    bedrock = sent(messages, dialect=on_bedrock("claude-sonnet-4-5"), stream=True, betas=("b",))
    assert bedrock["anthropic_version"] == "bedrock-2023-05-31"
    assert bedrock["anthropic_beta"] == ["b"]
    assert not {"model", "stream"} & bedrock.keys()


def test_a_platform_without_url_support_rejects_files_by_url() -> None:
    bedrock, image = on_bedrock("claude-opus-4-8"), File("image/png", url="https://a/b.png")
    for messages in (Messages.from_user(image), conversation()):
        if len(messages) > 1:
            messages.tool("t1").adopt(messages.tool("t1").with_status(Completed("ok", (image,))))
        with pytest.raises(UnsupportedPartError, match=r"mime='image/png'.*attach its bytes"):
            sent(messages, dialect=bedrock)
    assert sent(Messages.from_user(File("image/png", data=b"png"), '"type":"url"'), dialect=bedrock)
    own = ProviderPart("claude", "image", {"type": "image", "source": {"type": "url", "url": "https://a"}})
    assert sent(Messages.from_user(File("image/png", data=b"png"), own), dialect=bedrock)


def test_a_token_count_request_contains_only_input_fields() -> None:
    options = ChatOptions(max_tokens=9, stop=("x",), reasoning="high", tool_choice="auto")
    encoded = encode_count(conversation(), declared("f"), options, None, dialect=DIALECT)
    assert json.loads(encoded.body).keys() == {
        "model", "system", "tools", "messages", "tool_choice", "thinking", "output_config",
    }  # fmt: skip
    bare = replace(DIALECT, model_in_body=False)
    assert json.loads(encode_count(Messages.from_user("Hi"), NO_TOOLS, ChatOptions(), None, dialect=bare).body)


# --- Instructions -------------------------------------------------------------------------------------------

INSTRUCTED = ChatOptions(instructions=Instructions("Be kind.", "It is Monday."))


def system_blocks(messages: Messages, options: ChatOptions = INSTRUCTED) -> Any:
    return json.loads(encode(messages, NO_TOOLS, options, None, dialect=DIALECT, stream=False).body)["system"]


def test_instructions_are_sent_as_blocks_of_the_system_field() -> None:
    messages = Messages.from_system("One.").user("Hi").system("Two.")
    assert [block["text"] for block in system_blocks(messages)] == [
        "Be kind.",
        "One.",
        "Two.",
        "It is Monday.",
    ]
    assert [block["text"] for block in system_blocks(Messages.from_user("Hi"))] == [
        "Be kind.",
        "It is Monday.",
    ]


def test_the_system_cache_point_precedes_changing_instructions() -> None:
    def marked(messages: Messages, instructions: Instructions) -> list[str]:
        extras = (ClaudeOptions(cache=Cache(system="5m")),)
        blocks = system_blocks(messages, ChatOptions(instructions=instructions, extras=extras))
        return [block["text"] for block in blocks if "cache_control" in block]

    stored = Messages.from_system("Stored.").user("Hi")
    assert marked(stored, Instructions("Be kind.", "It is Monday.")) == ["Stored."]
    assert marked(Messages.from_user("Hi"), Instructions("Be kind.", "It is Monday.")) == ["Be kind."]
    assert marked(Messages.from_user("Hi"), Instructions("", "It is Monday.")) == ["It is Monday."]


def test_a_token_count_request_contains_the_instructions() -> None:
    counted = encode_count(Messages.from_user("Hi"), NO_TOOLS, INSTRUCTED, None, dialect=DIALECT)
    assert b"Be kind." in counted.body
