from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from chat_core.errors import PendingToolsError, UnsupportedOptionError, UsageError
from chat_core.messages import File, FunctionCall, Messages, Opaque, Reasoning, Text, Tool, Turn
from chat_core.options import ChatOptions, Instructions, NamedTool
from chat_core.provider import NO_TOOLS, OutputSchema, ToolDeclaration, ToolDeclarations
from chat_core.usage import Metadata
from chat_responses import BackgroundResponse, ResponsesDialect, ResponsesOptions
from chat_responses.chain import sealed
from chat_responses.encode import ENCRYPTED, compose, encode, encode_count

DIALECT = ResponsesDialect(model="m", provider="p")
SCHEMA = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}
TOOLS = ToolDeclarations([ToolDeclaration("f", "", SCHEMA)])


def body(
    messages: Messages | None = None,
    options: ChatOptions | None = None,
    *,
    tools: ToolDeclarations = NO_TOOLS,
    output: OutputSchema | None = None,
    dialect: ResponsesDialect = DIALECT,
    stream: bool = False,
) -> Any:
    messages = messages or Messages.from_user("Hi")
    return json.loads(encode(messages, tools, options or ChatOptions(), output, dialect=dialect, stream=stream))


def extra(**fields: Any) -> ChatOptions:
    return ChatOptions(extras=(ResponsesOptions(provider="p", **fields),))


def test_the_minimal_request_contains_model_and_input() -> None:
    assert body() == {"model": "m", "input": [{"role": "user", "content": "Hi"}]}


def test_a_model_named_in_the_url_is_not_sent() -> None:
    assert body(dialect=ResponsesDialect(model="", provider="p")) == {"input": [{"role": "user", "content": "Hi"}]}


def test_a_stream_request_sets_stream() -> None:
    assert body(stream=True)["stream"] is True


# --- Instructions ---------------------------------------------------------------------------------------


def test_leading_system_messages_are_sent_as_instructions() -> None:
    messages = Messages.from_system("Be brief.")
    messages.system("Be kind.")
    messages.user("Hi")
    messages.system("Be quick.")
    sent = body(messages)
    assert sent["instructions"] == "Be brief.\n\nBe kind."
    assert sent["input"] == [{"role": "user", "content": "Hi"}, {"role": "system", "content": "Be quick."}]


def test_a_dialect_can_send_instructions_as_messages_of_another_role() -> None:
    messages = Messages.from_system("Be brief.")
    sent = body(messages, dialect=ResponsesDialect(model="m", instructions=False, system_role="developer"))
    assert sent == {"model": "m", "input": [{"role": "developer", "content": "Be brief."}]}


def test_system_messages_with_more_than_text_are_sent_as_messages() -> None:
    cached = Text("Be brief.", Opaque("p", {"part": {"prompt_cache_breakpoint": {"mode": "explicit"}}}))
    sent = body(Messages.from_system(cached, File("image/png", url="https://host/a.png")))
    assert "instructions" not in sent
    assert [part["type"] for part in sent["input"][0]["content"]] == ["input_text", "input_image"]
    assert sent["input"][0]["content"][0]["prompt_cache_breakpoint"] == {"mode": "explicit"}


def test_a_conversation_of_system_messages_only_has_an_empty_input() -> None:
    assert body(Messages.from_system("Go.")) == {"model": "m", "instructions": "Go.", "input": []}


# --- Options ---------------------------------------------------------------------------------------------


def test_chat_options_are_sent_under_the_field_names_of_the_api() -> None:
    sent = body(options=ChatOptions(temperature=0, top_p=0.5, max_tokens=9, reasoning="low"))
    assert (sent["temperature"], sent["top_p"], sent["max_output_tokens"]) == (0, 0.5, 9)
    assert sent["reasoning"] == {"effort": "low"}


@pytest.mark.parametrize(
    "options", [ChatOptions(stop=("x",)), ChatOptions(seed=1), ChatOptions(top_k=40), ChatOptions(reasoning=100)]
)
def test_options_that_the_api_does_not_support_are_rejected(options: ChatOptions) -> None:
    with pytest.raises(UnsupportedOptionError):
        body(options=options)


def test_a_reasoning_budget_is_sent_if_the_dialect_supports_it() -> None:
    dialect = ResponsesDialect(model="m", provider="p", reasoning_budget=True)
    assert body(options=ChatOptions(reasoning=100), dialect=dialect)["reasoning"] == {"max_tokens": 100}


def test_responses_options_are_sent_unchanged() -> None:
    fields = {
        "max_tool_calls": 3,
        "top_logprobs": 2,
        "truncation": "auto",
        "background": False,
        "conversation": "conv_1",
        "user": "u",
        "safety_identifier": "s",
        "prompt_cache_key": "k",
        "prompt_cache_retention": "24h",
        "service_tier": "flex",
        "metadata": {"a": "b"},
        "prompt": {"id": "pmpt_1"},
    }
    sent = body(options=extra(**fields, include=("message.output_text.logprobs",), verbosity="low"))
    assert {name: sent[name] for name in fields} == fields
    assert sent["include"] == ["message.output_text.logprobs"]
    assert sent["text"] == {"verbosity": "low"}


def test_a_background_response_in_extra_body_is_rejected() -> None:
    with pytest.raises(UnsupportedOptionError, match="background"):
        body(options=extra(extra_body={"background": True}))
    assert body(options=extra(extra_body={"background": False}))["background"] is False


def test_a_background_response_cannot_be_resumed_over_a_websocket() -> None:
    options = extra(background=True, resume=BackgroundResponse("resp_1"))
    with pytest.raises(UnsupportedOptionError, match="remove resume, or send the request over HTTP"):
        encode(
            Messages.from_user("Hi"),
            NO_TOOLS,
            options,
            None,
            dialect=ResponsesDialect(model="m", socket=True),
            stream=True,
        )


def test_text_options_are_merged_with_verbosity_and_output_schema() -> None:
    text = {"format": {"type": "grammar", "description": "d"}, "verbosity": "high", "new": 1}
    assert body(options=extra(text=text))["text"] == text
    sent = body(options=extra(text=text, verbosity="low"), output=OutputSchema("answer", {"type": "object"}))["text"]
    assert (sent["verbosity"], sent["new"]) == ("low", 1)
    assert (sent["format"]["type"], sent["format"]["description"], sent["format"]["name"]) == (
        "json_schema",
        "d",
        "answer",
    )


def test_tool_choice_is_allowed_without_tools_if_a_stored_prompt_is_used() -> None:
    options = ChatOptions(tool_choice="required", extras=(ResponsesOptions(provider="p", prompt={"id": "pmpt_1"}),))
    assert body(options=options)["tool_choice"] == "required"


def test_reasoning_options_are_merged_with_effort_and_summary() -> None:
    options = ChatOptions(
        reasoning="high",
        extras=(ResponsesOptions(provider="p", reasoning_summary="auto", reasoning={"context": "all_turns"}),),
    )
    assert body(options=options)["reasoning"] == {"context": "all_turns", "effort": "high", "summary": "auto"}


def test_extra_body_adds_fields_but_cannot_replace_any() -> None:
    assert body(options=extra(extra_body={"provider": {"only": ["openai"]}}))["provider"] == {"only": ["openai"]}
    for name in ("model", "input", "tools", "stream", "store"):
        with pytest.raises(UnsupportedOptionError, match=name):
            body(options=extra(extra_body={name: 1}, store=True))


def test_options_of_another_provider_are_rejected() -> None:
    with pytest.raises(UnsupportedOptionError):
        body(options=ChatOptions(extras=(ResponsesOptions(provider="q"), ResponsesDialect(model="m"))))


# --- Storage and encrypted reasoning ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "store", "options", "asked"),
    [
        ("gpt-5-mini", None, ChatOptions(), False),
        ("gpt-5-mini", False, ChatOptions(), True),
        ("openai/o4-mini", False, ChatOptions(), True),
        ("gpt-5-chat-latest", False, ChatOptions(), False),
        ("gpt-4o", False, ChatOptions(), False),
        ("grok-4", False, ChatOptions(reasoning="low"), True),
        ("grok-4", False, ChatOptions(reasoning="none"), False),
    ],
)
def test_encrypted_reasoning_is_requested_if_nothing_is_stored(
    model: str, store: bool | None, options: ChatOptions, asked: bool
) -> None:
    sent = body(options=options, dialect=ResponsesDialect(model=model, store=store))
    assert (sent.get("include") == [ENCRYPTED]) is asked
    assert sent.get("store") is store


def test_encrypted_reasoning_is_requested_once_and_only_if_the_dialect_allows_it() -> None:
    always = ResponsesDialect(model="m", provider="p", encrypted_reasoning=True)
    assert body(options=extra(include=(ENCRYPTED,)), dialect=always)["include"] == [ENCRYPTED]
    never = ResponsesDialect(model="gpt-5", provider="p", encrypted_reasoning=False, store=False)
    assert "include" not in body(dialect=never)


def test_the_store_option_overrides_the_dialect() -> None:
    sent = body(options=extra(store=False), dialect=ResponsesDialect(model="gpt-5", provider="p", store=True))
    assert (sent["store"], sent["include"]) == (False, [ENCRYPTED])
    assert body(options=extra(store=True), dialect=ResponsesDialect(model="m", provider="p", store=False))["store"]


def test_item_ids_are_sent_only_if_the_server_stores_the_items() -> None:
    thought = Reasoning("", "gAAA", Opaque("p", {"item": {"id": "rs_1", "summary": []}}))
    messages = Messages.from_user("Hi")
    messages.append("model", Turn([thought, Text("Hello", Opaque("p", {"item": {"id": "msg_1"}}))]))
    assert [item.get("id") for item in body(messages)["input"]] == [None, "rs_1", "msg_1"]
    forgetful = body(messages, extra(store=False))["input"]
    assert [item.get("id") for item in forgetful] == [None, None, None]
    assert forgetful[1]["encrypted_content"] == "gAAA"


# --- Structured answers -----------------------------------------------------------------------------------


def test_an_output_schema_is_sent_in_strict_form() -> None:
    sent = body(output=OutputSchema("answer", SCHEMA), options=extra(verbosity="low"))
    assert sent["text"] == {
        "format": {
            "type": "json_schema",
            "name": "answer",
            "schema": {**SCHEMA, "additionalProperties": False},
            "strict": True,
        },
        "verbosity": "low",
    }


def test_a_schema_without_a_strict_form_is_sent_unchanged() -> None:
    schema = {"type": "object", "additionalProperties": {"type": "integer"}}
    shape = body(output=OutputSchema("answer", schema))["text"]["format"]
    assert (shape["schema"], shape["strict"]) == (schema, False)
    loose = ResponsesDialect(model="m", strict_output=False)
    assert body(output=OutputSchema("answer", SCHEMA), dialect=loose)["text"]["format"]["schema"] == SCHEMA
    plain = ResponsesDialect(model="m", strict_rewrite=False)
    shape = body(output=OutputSchema("answer", schema), dialect=plain)["text"]["format"]
    assert (shape["schema"], shape["strict"]) == (schema, True)


# --- The conversation ------------------------------------------------------------------------------------


def test_encoding_a_pending_call_raises() -> None:
    messages = Messages.from_user("Hi")
    messages.append("model", Turn([Tool(FunctionCall("f"), call_id="a")]))
    with pytest.raises(PendingToolsError) as error:
        body(messages)
    assert error.value.tool_ids == ("a",)


@pytest.mark.parametrize("turns", ["s", "us", "su", "usu", "ussus", "ss", "usussu"])
@pytest.mark.parametrize("dialect", [DIALECT, ResponsesDialect(model="m", provider="p", previous_response=True)])
def test_a_turn_without_sendable_items_is_omitted(turns: str, dialect: ResponsesDialect) -> None:
    messages = Messages.from_system("Be brief.")
    for kind in turns:
        if kind == "u":
            messages.append("user", Turn([Text("Well?")]))
        else:
            messages.append("model", Turn([Reasoning("Hm", opaque=Opaque("q", {}))]))
    said = {"role": "user", "content": "Well?"}
    assert body(messages, dialect=dialect)["input"] == [said] * turns.count("u")
    assert body(messages, dialect=replace(dialect, instructions=False))["input"] == [
        {"role": "system", "content": "Be brief."},
        *[said] * turns.count("u"),
    ]


def test_the_encoding_of_a_turn_is_cached_per_dialect_key() -> None:
    messages = Messages.from_user("Hi")
    messages.append("model", Turn([Text("Hello")], metadata=Metadata("p")))
    first = encode(messages, TOOLS, ChatOptions(), None, dialect=DIALECT, stream=False)
    assert encode(messages, TOOLS, ChatOptions(), None, dialect=DIALECT, stream=False) == first
    turn = messages[1].turns[0]
    same = turn.encoded(DIALECT.turn_key, lambda _: b"not called again")
    assert same == b'{"role":"assistant","content":"Hello"}'


def test_a_token_count_request_contains_only_the_input_and_its_settings() -> None:
    options = ChatOptions(
        temperature=1,
        max_tokens=5,
        tool_choice="required",
        reasoning="low",
        extras=(ResponsesOptions(provider="p", truncation="auto", store=True),),
    )
    messages = Messages.from_system("Be brief.")
    messages.user("Hi")
    sent = json.loads(encode_count(messages, TOOLS, options, OutputSchema("answer", SCHEMA), dialect=DIALECT))
    assert sorted(sent) == [
        "input",
        "instructions",
        "model",
        "reasoning",
        "text",
        "tool_choice",
        "tools",
        "truncation",
    ]
    bare = encode_count(Messages(), NO_TOOLS, ChatOptions(), None, dialect=ResponsesDialect(model=""))
    assert json.loads(bare) == {"input": []}


# --- Instructions -------------------------------------------------------------------------------------------

INSTRUCTED = ChatOptions(instructions=Instructions("Be kind.", "It is Monday."))


def test_instructions_are_joined_with_the_leading_system_texts() -> None:
    messages = Messages.from_system("One.").system("Two.").user("Hi")
    sent = body(messages, options=INSTRUCTED)
    assert sent["instructions"] == "Be kind.\n\nOne.\n\nTwo.\n\nIt is Monday."
    assert [item["role"] for item in sent["input"]] == ["user"]
    assert body(Messages.from_user("Hi"), options=INSTRUCTED)["instructions"] == "Be kind.\n\nIt is Monday."
    assert b"Be kind." in encode_count(messages, NO_TOOLS, INSTRUCTED, None, dialect=DIALECT)


def test_instructions_are_sent_as_messages_if_the_dialect_has_no_field_for_them() -> None:
    dialect = replace(DIALECT, instructions=False, system_role="developer")
    messages = Messages.from_system("One.").user("Hi").system("Later.")
    sent = body(messages, options=INSTRUCTED, dialect=dialect)
    assert "instructions" not in sent
    assert [(item["role"], item["content"]) for item in sent["input"]] == [
        ("developer", "Be kind."),
        ("developer", "One."),
        ("developer", "It is Monday."),
        ("user", "Hi"),
        ("developer", "Later."),
    ]


def test_changing_instructions_follow_system_messages_with_more_than_text() -> None:
    messages = Messages.from_system("One.")
    messages.append("system", Turn([File(url="https://h/a.png", mime="image/png")]))
    messages.user("Hi")
    sent = body(messages, options=INSTRUCTED)
    assert sent["instructions"] == "Be kind.\n\nOne."
    assert [item["role"] for item in sent["input"]] == ["system", "system", "user"]
    assert sent["input"][1]["content"] == "It is Monday."


@pytest.mark.parametrize("instructions", [True, False])
def test_a_request_with_a_previous_response_repeats_only_the_instructions_field(instructions: bool) -> None:
    dialect = replace(DIALECT, instructions=instructions, store=True, previous_response=True)
    messages = Messages.from_user("Hi")
    first = compose(messages, NO_TOOLS, INSTRUCTED, None, dialect=dialect, stream=False)
    metadata = Metadata("p", "m", "resp_1", "completed")
    messages.append("model", sealed(Turn([Text("Ho")], metadata=metadata), first.history, first.dialect))
    messages.user("And?")

    same = compose(messages, NO_TOOLS, INSTRUCTED, None, dialect=dialect, stream=False)
    changed = ChatOptions(instructions=Instructions("Be kind.", "It is Tuesday."))
    other = compose(messages, NO_TOOLS, changed, None, dialect=dialect, stream=False)

    assert same.previous == "resp_1"
    assert (b"It is Monday." in same.body) == instructions
    assert other.previous == ("resp_1" if instructions else None)
    assert b"It is Tuesday." in other.body
    assert (b'"Hi"' in other.body) != instructions


def test_a_named_tool_choice_must_be_a_declared_tool_if_no_native_tool_exists() -> None:
    options = ChatOptions(tool_choice=NamedTool("lookup"))
    with pytest.raises(UsageError, match=r"NamedTool\(name='lookup'\) names an unknown tool; the tools are: f"):
        body(Messages.from_user("hi"), options, tools=TOOLS)
    native = ResponsesOptions(tools=({"type": "lookup"},))
    assert body(Messages.from_user("hi"), replace(options, extras=(native,)), tools=TOOLS)["tool_choice"]
