from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from chat_completions import CompletionsOptions, Dialect
from chat_completions.codec import encode, encode_turns
from chat_core.errors import PendingToolsError, UnsupportedOptionError, UsageError
from chat_core.messages import Content, FunctionCall, Messages, Text, Tool, Turn
from chat_core.options import ChatOptions, Instructions, NamedTool
from chat_core.provider import NO_TOOLS, OutputSchema, ToolDeclaration, ToolDeclarations
from hypothesis import given
from hypothesis import strategies as st

DIALECT = Dialect(model="m")
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS = ToolDeclarations([ToolDeclaration("weather", "The weather.", PARAMETERS)])


def body(
    messages: Messages | None = None,
    tools: ToolDeclarations = NO_TOOLS,
    options: ChatOptions | None = None,
    output: OutputSchema | None = None,
    *,
    dialect: Dialect = DIALECT,
    stream: bool = False,
) -> Any:
    said = messages if messages is not None else Messages.from_user("Hi")
    return json.loads(encode(said, tools, options or ChatOptions(), output, dialect=dialect, stream=stream))


def completed(call_id: str, name: str, result: object, **arguments: object) -> Tool:
    tool = Tool(FunctionCall(name, arguments), call_id=call_id)
    tool.start()
    tool.complete(result)
    return tool


def answered(*parts: Any) -> Messages:
    messages = Messages.from_user("Hi")
    messages.append("model", Turn(parts))
    return messages


# --- The conversation ----------------------------------------------------------------------------------


def test_the_minimal_request_contains_model_and_messages() -> None:
    assert body() == {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}


def test_system_messages_keep_their_positions() -> None:
    messages = Messages.from_system("Be kind.").user("Hi").system("Be brief.").user("So?")
    assert [(item["role"], item["content"]) for item in body(messages)["messages"]] == [
        ("system", "Be kind."),
        ("user", "Hi"),
        ("system", "Be brief."),
        ("user", "So?"),
    ]


def test_the_dialect_names_the_role_of_system_messages() -> None:
    dialect = Dialect(model="m", system_role="developer")
    assert body(Messages.from_system("Be kind."), dialect=dialect)["messages"][0]["role"] == "developer"


def test_turns_of_one_role_are_separate_messages() -> None:
    messages = Messages.from_user("Hi").user("there")
    assert len(messages) == 1
    assert [item["content"] for item in body(messages)["messages"]] == ["Hi", "there"]


def test_tool_results_follow_their_turn_in_the_order_of_the_calls() -> None:
    messages = answered(Text("Let me see."), completed("a", "f", {"x": 1}), completed("b", "g", "warm", city="Rome"))
    messages.append("model", Turn([completed("c", "f", None)]))
    messages.append("model", Turn([Text("Done.")]))
    assert body(messages)["messages"][1:] == [
        {
            "role": "assistant",
            "content": "Let me see.",
            "tool_calls": [
                {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}},
                {"id": "b", "type": "function", "function": {"name": "g", "arguments": '{"city":"Rome"}'}},
            ],
        },
        {"role": "tool", "tool_call_id": "a", "content": '{"x":1}'},
        {"role": "tool", "tool_call_id": "b", "content": "warm"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "c", "content": "null"},
        {"role": "assistant", "content": "Done."},
    ]


def test_encoding_a_pending_call_raises() -> None:
    with pytest.raises(PendingToolsError) as error:
        body(answered(Tool(FunctionCall("f"), call_id="a")))
    assert error.value.tool_ids == ("a",)


def test_rejected_and_failed_calls_are_sent_with_their_reason() -> None:
    rejected, failed = Tool(FunctionCall("f"), call_id="a"), Tool(FunctionCall("f"), call_id="b")
    rejected.reject("too dear")
    failed.fail("no such city")
    sent = body(answered(rejected, failed))["messages"]
    assert "too dear" in sent[2]["content"]
    assert sent[3]["content"] == "no such city"


def test_the_encoding_of_a_turn_is_cached_per_dialect_key() -> None:
    messages = answered(completed("a", "f", 1))
    first = encode_turns(messages.view(), DIALECT)
    assert encode_turns(messages.view(), DIALECT) == first
    turn = messages[1].turns[0]
    assert turn.encoded(DIALECT.turn_key, lambda _: b"anew") in first
    other = Dialect(model="other")
    assert turn.encoded(other.turn_key, lambda _: b"anew") != b"anew", "the model has no part in a turn"
    renamed = Dialect(model="m", provider="q")
    assert turn.encoded(renamed.turn_key, lambda _: b"anew") == b"anew", "the owner of opaque data has"


def test_a_call_approved_after_encoding_failed_is_encoded_next_time() -> None:
    tool = Tool(FunctionCall("f"), call_id="a")
    messages = answered(tool)
    with pytest.raises(PendingToolsError):
        body(messages)
    tool.reject()
    assert body(messages)["messages"][2]["role"] == "tool"


def test_lone_surrogates_in_text_are_escaped() -> None:
    assert body(Messages([Content.of("user", "a\ud83d")]))["messages"][0]["content"] == "a\ud83d"


# --- Tools ---------------------------------------------------------------------------------------------


def test_tools_are_declared_in_order_and_their_encoding_is_cached() -> None:
    sent = body(tools=TOOLS)["tools"]
    assert sent == [
        {"type": "function", "function": {"name": "weather", "description": "The weather.", "parameters": PARAMETERS}}
    ]
    assert TOOLS.encoded(DIALECT.tools_key, lambda _: b"anew") != b"anew"


def test_an_empty_tool_description_is_omitted() -> None:
    tools = ToolDeclarations([ToolDeclaration("f", "", PARAMETERS)])
    assert "description" not in body(tools=tools)["tools"][0]["function"]


def test_strict_tools_are_declared_only_for_schemas_that_allow_it() -> None:
    open_ended = ToolDeclaration("g", "", {"type": "object", "additionalProperties": {"type": "string"}})
    optional = ToolDeclaration("h", "", {"type": "object", "properties": {"x": {"type": "string"}}})
    tools = ToolDeclarations([TOOLS[0], open_ended, optional])
    first, second, third = body(tools=tools, dialect=Dialect(model="m", strict_tools=True))["tools"]
    assert first["function"]["strict"] is True
    assert first["function"]["parameters"]["additionalProperties"] is False
    assert "strict" not in second["function"]
    assert second["function"]["parameters"] == open_ended.parameters
    assert "strict" not in third["function"]


def test_strict_rewrite_false_sends_strict_schemas_unchanged() -> None:
    dialect = Dialect(model="m", strict_tools=True, strict_rewrite=False)
    sent = body(tools=TOOLS, output=OutputSchema("city", PARAMETERS), dialect=dialect)
    assert sent["tools"][0]["function"]["strict"] is True
    assert sent["tools"][0]["function"]["parameters"] == PARAMETERS
    assert sent["response_format"]["json_schema"] == {"name": "city", "schema": PARAMETERS, "strict": True}


@pytest.mark.parametrize(
    ("choice", "sent"),
    [
        ("auto", "auto"),
        ("none", "none"),
        ("required", "required"),
        (NamedTool("weather"), {"type": "function", "function": {"name": "weather"}}),
    ],
)
def test_a_tool_choice_is_encoded_in_the_format_of_the_api(choice: Any, sent: object) -> None:
    assert body(tools=TOOLS, options=ChatOptions(tool_choice=choice))["tool_choice"] == sent


def test_parallel_tool_calls_is_sent() -> None:
    assert body(tools=TOOLS, options=ChatOptions(parallel_tool_calls=False))["parallel_tool_calls"] is False


@pytest.mark.parametrize("choice", ["required", NamedTool("weather")])
def test_a_tool_choice_that_needs_tools_is_rejected_without_tools(choice: Any) -> None:
    with pytest.raises(UnsupportedOptionError, match="needs tools"):
        body(options=ChatOptions(tool_choice=choice))


def test_tool_choice_auto_is_omitted_without_tools() -> None:
    assert body(options=ChatOptions(tool_choice="auto", parallel_tool_calls=True)).keys() == {"model", "messages"}


def test_native_tools_are_sent_after_the_declared_tools() -> None:
    extras = CompletionsOptions(tools=({"type": "web_search"},))
    options = ChatOptions(extras=(extras,), tool_choice="required")
    assert body(options=options)["tools"] == [{"type": "web_search"}]
    assert [tool["type"] for tool in body(tools=TOOLS, options=options)["tools"]] == ["function", "web_search"]


# --- Options -------------------------------------------------------------------------------------------


def test_chat_options_are_sent_under_the_field_names_of_the_api() -> None:
    options = ChatOptions(temperature=0.0, top_p=0.5, max_tokens=9, stop=("END",), seed=7, reasoning="low")
    sent = body(options=options)
    del sent["messages"], sent["model"]
    assert sent == {
        "temperature": 0.0,
        "top_p": 0.5,
        "max_completion_tokens": 9,
        "stop": ["END"],
        "seed": 7,
        "reasoning_effort": "low",
    }


def test_the_dialect_names_the_max_tokens_field() -> None:
    assert (
        body(options=ChatOptions(max_tokens=9), dialect=Dialect(model="m", max_tokens_field="max_tokens"))["max_tokens"]
        == 9
    )


def test_a_reasoning_budget_is_rejected_unless_the_dialect_supports_it() -> None:
    with pytest.raises(UnsupportedOptionError, match="budget"):
        body(options=ChatOptions(reasoning=1000))
    dialect = Dialect(model="m", reasoning_style="object")
    assert body(options=ChatOptions(reasoning=1000), dialect=dialect)["reasoning"] == {"max_tokens": 1000}
    assert body(options=ChatOptions(reasoning="low"), dialect=dialect)["reasoning"] == {"effort": "low"}


def test_the_dialect_names_the_seed_field() -> None:
    dialect = Dialect(model="m", seed_field="random_seed")
    assert body(options=ChatOptions(seed=7), dialect=dialect)["random_seed"] == 7


def test_the_thinking_style_disables_reasoning_with_its_own_field() -> None:
    dialect = Dialect(model="m", reasoning_style="thinking")
    off, on = (body(options=ChatOptions(reasoning=effort), dialect=dialect) for effort in ("none", "low"))
    assert (off["thinking"], "reasoning_effort" in off) == ({"type": "disabled"}, False)
    assert (on["reasoning_effort"], "thinking" in on) == ("low", False)


def test_top_k_is_sent_only_if_the_dialect_supports_it() -> None:
    options = ChatOptions(top_k=40)
    assert body(options=options, dialect=Dialect(model="m", top_k=True))["top_k"] == 40
    with pytest.raises(UnsupportedOptionError, match="p does not support the option top_k=40"):
        body(options=options, dialect=Dialect(model="m", provider="p"))


def test_unsupported_tools_and_options_are_rejected_by_name() -> None:
    dialect = Dialect(model="m", provider="p", tools=False, refuses=("seed", "stop"))
    with pytest.raises(UnsupportedOptionError, match="p does not support tools: remove weather"):
        body(tools=TOOLS, dialect=dialect)
    with pytest.raises(UnsupportedOptionError, match="p does not support the option stop="):
        body(options=ChatOptions(stop=("x",)), dialect=dialect)
    assert "seed" not in body(options=ChatOptions(temperature=1), dialect=dialect)


def test_a_stream_request_asks_for_usage_unless_the_dialect_disables_it() -> None:
    sent = body(stream=True)
    assert sent["stream"] is True
    assert sent["stream_options"] == {"include_usage": True}
    assert "stream_options" not in body(stream=True, dialect=Dialect(model="m", stream_usage=False))


def test_completions_options_are_sent() -> None:
    extras = CompletionsOptions(
        frequency_penalty=0.1,
        presence_penalty=0.0,
        logit_bias={"50256": -100},
        logprobs=True,
        top_logprobs=2,
        user="u",
        service_tier="flex",
        store=False,
        metadata={"a": "b"},
        modalities=("text", "audio"),
        audio={"voice": "alloy", "format": "wav"},
        prediction="Hello",
        verbosity="low",
        extra_body={"top_k": 5},
    )
    sent = body(options=ChatOptions(extras=(extras,)))
    assert sent["frequency_penalty"] == 0.1
    assert sent["presence_penalty"] == 0.0
    assert sent["logit_bias"] == {"50256": -100}
    assert (sent["logprobs"], sent["top_logprobs"]) == (True, 2)
    assert (sent["user"], sent["service_tier"], sent["store"], sent["verbosity"]) == ("u", "flex", False, "low")
    assert sent["metadata"] == {"a": "b"}
    assert sent["modalities"] == ["text", "audio"]
    assert sent["audio"] == {"voice": "alloy", "format": "wav"}
    assert sent["prediction"] == {"type": "content", "content": "Hello"}
    assert sent["top_k"] == 5


def test_a_prediction_may_be_passed_in_the_format_of_the_api() -> None:
    prediction = {"type": "content", "content": [{"type": "text", "text": "Hello"}]}
    assert body(options=ChatOptions(extras=(CompletionsOptions(prediction=prediction),)))["prediction"] == prediction


@pytest.mark.parametrize("name", ["messages", "model", "stream", "temperature", "user"])
def test_extra_body_cannot_replace_a_field_of_the_request(name: str) -> None:
    extras = CompletionsOptions(user="u", extra_body={name: 1})
    with pytest.raises(UnsupportedOptionError, match=name):
        body(options=ChatOptions(temperature=1.0, extras=(extras,)))


def test_options_of_another_provider_are_rejected() -> None:
    class Foreign:
        provider = "other"

    with pytest.raises(UnsupportedOptionError, match="Foreign"):
        body(options=ChatOptions(extras=(Foreign(),)))


# --- Structured answers --------------------------------------------------------------------------------


def test_a_schema_that_allows_strict_mode_is_sent_as_strict() -> None:
    sent = body(output=OutputSchema("city", PARAMETERS))["response_format"]
    assert sent["type"] == "json_schema"
    assert sent["json_schema"]["name"] == "city"
    assert sent["json_schema"]["strict"] is True
    assert sent["json_schema"]["schema"] == {**PARAMETERS, "additionalProperties": False}
    assert "description" not in sent["json_schema"]


def test_output_description_is_sent_with_the_schema() -> None:
    options = ChatOptions(extras=(CompletionsOptions(output_description="The city of the user."),))
    sent = body(output=OutputSchema("city", PARAMETERS), options=options)["response_format"]
    assert sent["json_schema"]["description"] == "The city of the user."


def test_a_schema_that_does_not_allow_strict_mode_is_sent_unchanged() -> None:
    schema = {"type": "object", "additionalProperties": {"type": "integer"}}
    sent = body(output=OutputSchema("counts", schema))["response_format"]["json_schema"]
    assert sent["strict"] is False
    assert sent["schema"] == schema


def test_strict_output_false_sends_the_schema_unchanged() -> None:
    dialect = Dialect(model="m", strict_output=False)
    sent = body(output=OutputSchema("city", PARAMETERS), dialect=dialect)["response_format"]["json_schema"]
    assert sent["strict"] is False
    assert sent["schema"] == PARAMETERS


def test_json_object_mode_describes_the_schema_in_a_leading_message() -> None:
    dialect = Dialect(model="m", structured="json_object", system_role="developer")
    sent = body(Messages.from_system("Be kind.").user("Hi"), output=OutputSchema("x", PARAMETERS), dialect=dialect)
    assert sent["response_format"] == {"type": "json_object"}
    first, *rest = sent["messages"]
    assert first["role"] == "developer"
    assert json.dumps(PARAMETERS, separators=(",", ":")) in first["content"]
    assert [item["content"] for item in rest] == ["Be kind.", "Hi"]
    assert body(dialect=dialect) == body()


# --- Messages in the API's own form -------------------------------------------------------------------------------

TEXT = st.text(st.characters(codec="utf-8"), min_size=1, max_size=6)
DATA = st.binary(max_size=6).map(lambda data: base64.b64encode(data).decode())


def text_part(text: str) -> Any:
    return {"type": "text", "text": text}


def image_part(data: str) -> Any:
    return {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}}


def audio_part(data: str) -> Any:
    return {"type": "input_audio", "input_audio": {"data": data, "format": "wav"}}


def file_part(name: str, data: str) -> Any:
    return {"type": "file", "file": {"filename": name, "file_data": f"data:application/pdf;base64,{data}"}}


def said(role: str, content: object) -> list[Any]:
    return [{"role": role, "content": content}]


def step(index: int, text: str | None, calls: list[tuple[dict[str, int], str]]) -> list[Any]:
    ids = [f"call_{index}_{number}" for number in range(len(calls))]
    declared = [
        {"id": id_, "type": "function", "function": {"name": "f", "arguments": json.dumps(given)}}
        for id_, (given, _) in zip(ids, calls, strict=True)
    ]
    results = [
        {"role": "tool", "tool_call_id": id_, "content": result} for id_, (_, result) in zip(ids, calls, strict=True)
    ]
    return [{"role": "assistant", "content": text, "tool_calls": declared}, *results]


PARTS = st.builds(text_part, TEXT) | st.builds(image_part, DATA) | st.builds(audio_part, DATA)
CONTENT = TEXT | st.lists(PARTS | st.builds(file_part, TEXT, DATA), min_size=2, max_size=3)
SAID = st.builds(said, st.sampled_from(["system", "user"]), CONTENT) | st.builds(said, st.just("assistant"), TEXT)
CALLS = st.lists(st.tuples(st.dictionaries(TEXT, st.integers(), max_size=2), TEXT), min_size=1, max_size=2)
STEPS = st.builds(step, st.integers(0, 10**9), st.none() | TEXT, CALLS)


@given(st.lists(SAID | STEPS, min_size=1, max_size=5))
def test_messages_imported_from_dicts_are_sent_unchanged(written: list[list[Any]]) -> None:
    messages = [message for group in written for message in group]
    assert body(Messages.from_dicts(messages))["messages"] == messages


def test_a_named_tool_choice_must_be_a_declared_or_native_tool() -> None:
    with pytest.raises(UsageError, match=r"NamedTool\(name='lookup'\) names an unknown tool; the tools are: weather"):
        body(tools=TOOLS, options=ChatOptions(tool_choice=NamedTool("lookup")))
    native = CompletionsOptions(tools=({"type": "web_search"},))
    assert body(tools=TOOLS, options=ChatOptions(tool_choice=NamedTool("web_search"), extras=(native,)))["tool_choice"]


# --- Instructions --------------------------------------------------------------------------------------

INSTRUCTED = ChatOptions(instructions=Instructions("Be kind.", "It is Monday."))


def system_texts(messages: Messages, options: ChatOptions = INSTRUCTED, **arguments: Any) -> list[tuple[str, Any]]:
    return [(item["role"], item["content"]) for item in body(messages, options=options, **arguments)["messages"]]


def test_instructions_surround_the_leading_system_messages() -> None:
    messages = Messages.from_system("One.").system("Two.").user("Hi").system("Later.")
    assert system_texts(messages) == [
        ("system", "Be kind."),
        ("system", "One."),
        ("system", "Two."),
        ("system", "It is Monday."),
        ("user", "Hi"),
        ("system", "Later."),
    ]
    assert system_texts(messages, ChatOptions(instructions="Be kind."))[:2] == [
        ("system", "Be kind."),
        ("system", "One."),
    ]


def test_instructions_without_system_messages_become_one_system_message() -> None:
    hi = Messages.from_user("Hi")
    assert system_texts(hi) == [("system", "Be kind.\n\nIt is Monday."), ("user", "Hi")]
    developer = Dialect(model="m", system_role="developer")
    assert system_texts(hi, dialect=developer)[0][0] == "developer"
    assert system_texts(hi, ChatOptions(instructions="")) == [("user", "Hi")]
    assert system_texts(Messages()) == [("system", "Be kind.\n\nIt is Monday.")]
    assert system_texts(Messages.from_system("Stored.")) == [
        ("system", "Be kind."),
        ("system", "Stored."),
        ("system", "It is Monday."),
    ]


def test_adding_instructions_reuses_the_cached_turns() -> None:
    messages = Messages.from_system("Stored.").user("Hi")
    plain = encode_turns(messages.view(), DIALECT)
    first, second = [turn for content in messages for turn in content.turns]
    assert first.encodings is not None
    assert second.encodings is not None
    cached = first.encodings.get(DIALECT.turn_key)
    assert cached is not None
    first.encodings.put(DIALECT.turn_key, cached.replace(b"Stored", b"Cached"))

    sent = encode(messages, NO_TOOLS, INSTRUCTED, None, dialect=DIALECT, stream=False)

    assert b"Cached." in sent
    assert plain.split(b",{")[-1] in sent
