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


def test_the_least_request_names_a_model_and_what_was_said() -> None:
    assert body() == {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}


def test_instructions_stay_where_they_are() -> None:
    messages = Messages.from_system("Be kind.").user("Hi").system("Be brief.").user("So?")
    assert [(item["role"], item["content"]) for item in body(messages)["messages"]] == [
        ("system", "Be kind."),
        ("user", "Hi"),
        ("system", "Be brief."),
        ("user", "So?"),
    ]


def test_instructions_go_by_the_role_of_the_dialect() -> None:
    dialect = Dialect(model="m", system_role="developer")
    assert body(Messages.from_system("Be kind."), dialect=dialect)["messages"][0]["role"] == "developer"


def test_turns_of_one_role_stay_turns() -> None:
    messages = Messages.from_user("Hi").user("there")
    assert len(messages) == 1
    assert [item["content"] for item in body(messages)["messages"]] == ["Hi", "there"]


def test_the_results_of_calls_follow_their_own_turn_in_the_order_of_the_calls() -> None:
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


def test_a_call_that_waits_never_reaches_the_wire() -> None:
    with pytest.raises(PendingToolsError) as error:
        body(answered(Tool(FunctionCall("f"), call_id="a")))
    assert error.value.tool_ids == ("a",)


def test_a_rejected_and_a_failed_call_go_out_with_the_reason() -> None:
    rejected, failed = Tool(FunctionCall("f"), call_id="a"), Tool(FunctionCall("f"), call_id="b")
    rejected.reject("too dear")
    failed.fail("no such city")
    sent = body(answered(rejected, failed))["messages"]
    assert "too dear" in sent[2]["content"]
    assert sent[3]["content"] == "no such city"


def test_a_closed_turn_is_encoded_once() -> None:
    messages = answered(completed("a", "f", 1))
    first = encode_turns(messages.view(), DIALECT)
    assert encode_turns(messages.view(), DIALECT) == first
    turn = messages[1].turns[0]
    assert turn.encoded(DIALECT.turn_key, lambda _: b"anew") in first
    other = Dialect(model="other")
    assert turn.encoded(other.turn_key, lambda _: b"anew") != b"anew", "the model has no part in a turn"
    renamed = Dialect(model="m", provider="q")
    assert turn.encoded(renamed.turn_key, lambda _: b"anew") == b"anew", "the owner of opaque data has"


def test_a_call_that_is_decided_later_is_encoded_then() -> None:
    tool = Tool(FunctionCall("f"), call_id="a")
    messages = answered(tool)
    with pytest.raises(PendingToolsError):
        body(messages)
    tool.reject()
    assert body(messages)["messages"][2]["role"] == "tool"


def test_text_that_utf_8_cannot_carry_is_escaped() -> None:
    assert body(Messages([Content.of("user", "a\ud83d")]))["messages"][0]["content"] == "a\ud83d"


# --- Tools ---------------------------------------------------------------------------------------------


def test_tools_are_declared_in_their_order_and_in_the_same_bytes_each_time() -> None:
    sent = body(tools=TOOLS)["tools"]
    assert sent == [
        {"type": "function", "function": {"name": "weather", "description": "The weather.", "parameters": PARAMETERS}}
    ]
    assert TOOLS.encoded(DIALECT.tools_key, lambda _: b"anew") != b"anew"


def test_a_tool_without_a_description_has_none() -> None:
    tools = ToolDeclarations([ToolDeclaration("f", "", PARAMETERS)])
    assert "description" not in body(tools=tools)["tools"][0]["function"]


def test_parameters_are_enforced_where_the_dialect_says_so_and_the_schema_allows_it() -> None:
    open_ended = ToolDeclaration("g", "", {"type": "object", "additionalProperties": {"type": "string"}})
    optional = ToolDeclaration("h", "", {"type": "object", "properties": {"x": {"type": "string"}}})
    tools = ToolDeclarations([TOOLS[0], open_ended, optional])
    first, second, third = body(tools=tools, dialect=Dialect(model="m", strict_tools=True))["tools"]
    assert first["function"]["strict"] is True
    assert first["function"]["parameters"]["additionalProperties"] is False
    assert "strict" not in second["function"]
    assert second["function"]["parameters"] == open_ended.parameters
    assert "strict" not in third["function"]


def test_a_dialect_may_enforce_schemas_as_they_are_written() -> None:
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
def test_a_tool_choice_is_sent_in_the_words_of_the_wire(choice: Any, sent: object) -> None:
    assert body(tools=TOOLS, options=ChatOptions(tool_choice=choice))["tool_choice"] == sent


def test_whether_calls_may_be_parallel_is_sent() -> None:
    assert body(tools=TOOLS, options=ChatOptions(parallel_tool_calls=False))["parallel_tool_calls"] is False


@pytest.mark.parametrize("choice", ["required", NamedTool("weather")])
def test_a_choice_that_needs_tools_is_refused_without_them(choice: Any) -> None:
    with pytest.raises(UnsupportedOptionError, match="needs tools"):
        body(options=ChatOptions(tool_choice=choice))


def test_a_choice_that_asks_for_nothing_is_left_out_without_tools() -> None:
    assert body(options=ChatOptions(tool_choice="auto", parallel_tool_calls=True)).keys() == {"model", "messages"}


def test_tools_that_the_server_knows_itself_follow_the_chat_s_own() -> None:
    extras = CompletionsOptions(tools=({"type": "web_search"},))
    options = ChatOptions(extras=(extras,), tool_choice="required")
    assert body(options=options)["tools"] == [{"type": "web_search"}]
    assert [tool["type"] for tool in body(tools=TOOLS, options=options)["tools"]] == ["function", "web_search"]


# --- Options -------------------------------------------------------------------------------------------


def test_options_go_by_the_names_of_the_wire() -> None:
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


def test_the_limit_has_an_older_name() -> None:
    assert (
        body(options=ChatOptions(max_tokens=9), dialect=Dialect(model="m", max_tokens_field="max_tokens"))["max_tokens"]
        == 9
    )


def test_a_budget_for_reasoning_is_refused_where_the_wire_has_no_place_for_it() -> None:
    with pytest.raises(UnsupportedOptionError, match="budget"):
        body(options=ChatOptions(reasoning=1000))
    dialect = Dialect(model="m", reasoning_style="object")
    assert body(options=ChatOptions(reasoning=1000), dialect=dialect)["reasoning"] == {"max_tokens": 1000}
    assert body(options=ChatOptions(reasoning="low"), dialect=dialect)["reasoning"] == {"effort": "low"}


def test_the_seed_has_another_name_too() -> None:
    dialect = Dialect(model="m", seed_field="random_seed")
    assert body(options=ChatOptions(seed=7), dialect=dialect)["random_seed"] == 7


def test_reasoning_may_be_switched_off_by_a_switch_of_its_own() -> None:
    dialect = Dialect(model="m", reasoning_style="thinking")
    off, on = (body(options=ChatOptions(reasoning=effort), dialect=dialect) for effort in ("none", "low"))
    assert (off["thinking"], "reasoning_effort" in off) == ({"type": "disabled"}, False)
    assert (on["reasoning_effort"], "thinking" in on) == ("low", False)


def test_what_a_dialect_does_not_have_is_refused_by_name() -> None:
    dialect = Dialect(model="m", provider="p", tools=False, refuses=("seed", "stop"))
    with pytest.raises(UnsupportedOptionError, match="p does not support tools: remove weather"):
        body(tools=TOOLS, dialect=dialect)
    with pytest.raises(UnsupportedOptionError, match="p does not support the option stop="):
        body(options=ChatOptions(stop=("x",)), dialect=dialect)
    assert "seed" not in body(options=ChatOptions(temperature=1), dialect=dialect)


def test_a_stream_is_asked_for_its_usage() -> None:
    sent = body(stream=True)
    assert sent["stream"] is True
    assert sent["stream_options"] == {"include_usage": True}
    assert "stream_options" not in body(stream=True, dialect=Dialect(model="m", stream_usage=False))


def test_extras_are_sent() -> None:
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


def test_a_prediction_may_be_given_in_the_words_of_the_wire() -> None:
    prediction = {"type": "content", "content": [{"type": "text", "text": "Hello"}]}
    assert body(options=ChatOptions(extras=(CompletionsOptions(prediction=prediction),)))["prediction"] == prediction


@pytest.mark.parametrize("name", ["messages", "model", "stream", "temperature", "user"])
def test_the_way_out_for_fields_cannot_replace_a_field(name: str) -> None:
    extras = CompletionsOptions(user="u", extra_body={name: 1})
    with pytest.raises(UnsupportedOptionError, match=name):
        body(options=ChatOptions(temperature=1.0, extras=(extras,)))


def test_extras_of_another_provider_are_refused() -> None:
    class Foreign:
        provider = "other"

    with pytest.raises(UnsupportedOptionError, match="Foreign"):
        body(options=ChatOptions(extras=(Foreign(),)))


# --- Structured answers --------------------------------------------------------------------------------


def test_a_schema_that_can_be_enforced_is_sent_so_that_it_is() -> None:
    sent = body(output=OutputSchema("city", PARAMETERS))["response_format"]
    assert sent["type"] == "json_schema"
    assert sent["json_schema"]["name"] == "city"
    assert sent["json_schema"]["strict"] is True
    assert sent["json_schema"]["schema"] == {**PARAMETERS, "additionalProperties": False}
    assert "description" not in sent["json_schema"]


def test_a_structured_output_may_be_described() -> None:
    options = ChatOptions(extras=(CompletionsOptions(output_description="The city of the user."),))
    sent = body(output=OutputSchema("city", PARAMETERS), options=options)["response_format"]
    assert sent["json_schema"]["description"] == "The city of the user."


def test_a_schema_that_cannot_be_enforced_is_sent_as_it_is() -> None:
    schema = {"type": "object", "additionalProperties": {"type": "integer"}}
    sent = body(output=OutputSchema("counts", schema))["response_format"]["json_schema"]
    assert sent["strict"] is False
    assert sent["schema"] == schema


def test_a_dialect_may_leave_schemas_alone() -> None:
    dialect = Dialect(model="m", strict_output=False)
    sent = body(output=OutputSchema("city", PARAMETERS), dialect=dialect)["response_format"]["json_schema"]
    assert sent["strict"] is False
    assert sent["schema"] == PARAMETERS


def test_an_unenforced_schema_is_described_in_a_leading_message() -> None:
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
def test_messages_in_the_form_of_this_api_are_sent_as_they_were_read(written: list[list[Any]]) -> None:
    messages = [message for group in written for message in group]
    assert body(Messages.from_dicts(messages))["messages"] == messages


def test_a_tool_choice_names_a_declared_tool() -> None:
    with pytest.raises(UsageError, match=r"NamedTool\(name='lookup'\) is not among the tools: weather"):
        body(tools=TOOLS, options=ChatOptions(tool_choice=NamedTool("lookup")))
    native = CompletionsOptions(tools=({"type": "web_search"},))
    assert body(tools=TOOLS, options=ChatOptions(tool_choice=NamedTool("web_search"), extras=(native,)))["tool_choice"]


# --- Instructions --------------------------------------------------------------------------------------

INSTRUCTED = ChatOptions(instructions=Instructions("Be kind.", "It is Monday."))


def system_texts(messages: Messages, options: ChatOptions = INSTRUCTED, **arguments: Any) -> list[tuple[str, Any]]:
    return [(item["role"], item["content"]) for item in body(messages, options=options, **arguments)["messages"]]


def test_instructions_are_sent_around_the_leading_system_messages() -> None:
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


def test_instructions_alone_are_one_system_message() -> None:
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


def test_instructions_encode_no_stored_turn_again() -> None:
    messages = Messages.from_system("Stored.").user("Hi")
    plain = encode_turns(messages.view(), DIALECT)
    first, second = [turn for content in messages for turn in content.turns]
    assert first.encodings is not None
    assert second.encodings is not None
    first.encodings[DIALECT.turn_key] = first.encodings[DIALECT.turn_key].replace(b"Stored", b"Cached")

    sent = encode(messages, NO_TOOLS, INSTRUCTED, None, dialect=DIALECT, stream=False)

    assert b"Cached." in sent
    assert plain.split(b",{")[-1] in sent
