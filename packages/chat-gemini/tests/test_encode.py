from __future__ import annotations

import json
from typing import Any

import pytest
from chat_core.errors import PendingToolsError, UnsupportedOptionError, UsageError
from chat_core.messages import Completed, FunctionCall, Messages, Text, Tool, Turn
from chat_core.options import ChatOptions, Instructions, NamedTool, ReasoningEffort
from chat_core.provider import NO_TOOLS, OutputSchema, ToolDeclaration, ToolDeclarations
from chat_core.usage import Metadata
from chat_gemini.encode import encode, encode_conversation
from chat_gemini.options import Dialect, GeminiOptions, SafetySetting

DIALECT = Dialect(model="m")
SCHEMA = {"type": "object", "properties": {"title": {"type": "string"}}, "required": ["title"]}
TOOLS = ToolDeclarations([ToolDeclaration("f", "Does it.", SCHEMA)])


def body(
    messages: Messages | None = None,
    tools: ToolDeclarations = NO_TOOLS,
    *,
    output: OutputSchema | None = None,
    dialect: Dialect = DIALECT,
    extras: GeminiOptions | None = None,
    options: ChatOptions | None = None,
) -> Any:
    options = options or ChatOptions(extras=() if extras is None else (extras,))
    return json.loads(encode(messages or Messages.from_user("Hi"), tools, options, output, dialect=dialect))


def config(**options: Any) -> Any:
    return body(options=ChatOptions(**options))["generationConfig"]


def calling(extras: GeminiOptions | None = None, tools: ToolDeclarations = TOOLS, **options: Any) -> Any:
    chosen = ChatOptions(extras=() if extras is None else (extras,), **options)
    return body(tools=tools, options=chosen).get("toolConfig", {}).get("functionCallingConfig")


# --- The conversation ---------------------------------------------------------------------------------------


def test_the_minimal_request_contains_only_contents() -> None:
    assert body() == {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]}


def partial(text: str, token: object = None, provider: str = DIALECT.provider) -> Turn:
    extra = {} if token is None else {"continuationToken": token}
    metadata = Metadata(provider, finish_reason="CONTINUATION", extra=extra)
    return Turn([Text(text)], finish_reason="pause", metadata=metadata)


def test_a_response_is_continued_by_the_same_request_with_its_token() -> None:
    messages = Messages.from_user("Hi")
    before = body(messages)
    messages.append("model", partial("One ", "dG9rZW4="))
    messages.append("model", partial("two ", "bmV4dA=="))
    assert body(messages) == {**before, "continuationToken": "bmV4dA=="}
    messages.append("model", Turn([Text("three.")], finish_reason="stop", metadata=Metadata(DIALECT.provider)))
    messages.user("Ho")
    sent = body(messages)
    assert "continuationToken" not in sent
    assert [part["text"] for content in sent["contents"] for part in content["parts"]] == [
        "Hi",
        "One ",
        "two ",
        "three.",
        "Ho",
    ]


@pytest.mark.parametrize("turn", [partial("One"), partial("One", 5), partial("One", "dA==", "another")])
def test_a_partial_response_without_a_token_of_this_provider_is_sent(turn: Turn) -> None:
    messages = Messages.from_user("Hi")
    messages.append("model", turn)
    sent = body(messages)
    assert "continuationToken" not in sent
    assert sent["contents"][1]["parts"] == [{"text": "One"}]


def test_system_messages_at_any_position_become_the_system_instruction() -> None:
    messages = Messages.from_system("One.")
    messages.user("Hi")
    messages.append("system", Turn([Text("Two.")]))
    messages.user("Ho")
    sent = body(messages)
    assert sent["systemInstruction"] == {"parts": [{"text": "One."}, {"text": "Two."}]}
    assert [content["parts"][0]["text"] for content in sent["contents"]] == ["Hi", "Ho"]


def test_empty_turns_are_omitted() -> None:
    messages = Messages.from_user("Hi")
    messages.append("model", Turn([], finish_reason="stop"))
    messages.append("system", Turn([Text("")]))
    messages.user("")
    messages.user("Ho")
    assert [content["role"] for content in body(messages)["contents"]] == ["user", "user"]
    assert "systemInstruction" not in body(messages)


def test_sequential_calls_are_sent_in_separate_contents() -> None:
    messages = Messages.from_user("Hi")
    for name in ("one", "two"):
        messages.append("model", Turn([Tool(FunctionCall(name), status=Completed(name))], metadata=Metadata("gemini")))
    contents = body(messages)["contents"]
    assert [content["role"] for content in contents] == ["user", "model", "user", "model", "user"]


def test_encoding_a_pending_call_raises() -> None:
    messages = Messages.from_user("Hi")
    messages.append("model", Turn([Tool(FunctionCall("f"))], finish_reason="tool_calls"))
    with pytest.raises(PendingToolsError) as error:
        body(messages)
    assert error.value.tool_ids == (messages.pending()[0].id,)


def test_the_encoding_of_a_conversation_is_stable() -> None:
    messages = Messages.from_user("Hi")
    assert encode_conversation(messages.view(), DIALECT) == encode_conversation(messages.view(), DIALECT)
    other = Dialect(model="m", provider="q")
    assert encode_conversation(messages.view(), other) == encode_conversation(messages.view(), DIALECT)


# --- Tools --------------------------------------------------------------------------------------------------


def test_functions_are_declared_before_native_tools() -> None:
    dialect = Dialect(model="m", native_tools=({"googleSearch": {}},))
    sent = body(tools=TOOLS, dialect=dialect, extras=GeminiOptions(tools=({"computerUse": {}},)))
    function = {"name": "f", "description": "Does it.", "parametersJsonSchema": SCHEMA}
    assert sent["tools"] == [{"functionDeclarations": [function]}, {"googleSearch": {}}, {"computerUse": {}}]


def test_a_property_named_title_is_kept_in_both_schema_forms() -> None:
    for schemas, field in (("json", "parametersJsonSchema"), ("openapi", "parameters")):
        dialect = Dialect(model="m", schemas="json" if schemas == "json" else "openapi")
        sent = body(tools=ToolDeclarations([ToolDeclaration("f", "", SCHEMA)]), dialect=dialect)
        assert sent["tools"] == [{"functionDeclarations": [{"name": "f", field: SCHEMA}]}]


def test_a_schema_without_an_openapi_form_is_rejected_with_tool_and_keyword() -> None:
    recursive = {"$ref": "#/$defs/N", "$defs": {"N": {"type": "object", "properties": {"n": {"$ref": "#/$defs/N"}}}}}
    dialect = Dialect(model="m", schemas="openapi")
    with pytest.raises(UnsupportedOptionError, match=r"tool 'f': `\$ref` at n"):
        body(tools=ToolDeclarations([ToolDeclaration("f", "", recursive)]), dialect=dialect)
    with pytest.raises(UnsupportedOptionError, match=r"schema 'answer': `\$ref`"):
        body(output=OutputSchema("answer", recursive), dialect=dialect)


@pytest.mark.parametrize("name", ["", "1st", "my tool", "a" * 129, "naïve"])
def test_an_invalid_function_name_is_rejected(name: str) -> None:
    with pytest.raises(UnsupportedOptionError, match="name"):
        body(tools=ToolDeclarations([ToolDeclaration(name, "", SCHEMA)]))


@pytest.mark.parametrize(
    ("choice", "sent"),
    [
        (None, None),
        ("auto", {"mode": "AUTO"}),
        ("none", {"mode": "NONE"}),
        ("required", {"mode": "ANY"}),
        (NamedTool("f"), {"mode": "ANY", "allowedFunctionNames": ["f"]}),
    ],
)
def test_a_tool_choice_is_sent_as_mode_and_names(choice: Any, sent: object) -> None:
    assert calling(tool_choice=choice) == sent


def test_function_calling_options_of_gemini_are_sent() -> None:
    extras = GeminiOptions(function_mode="VALIDATED", allowed_functions=("f", "g"), stream_arguments=True)
    assert calling(extras) == {
        "mode": "VALIDATED",
        "allowedFunctionNames": ["f", "g"],
        "streamFunctionCallArguments": True,
    }
    with pytest.raises(UnsupportedOptionError, match="cannot be combined"):
        calling(extras, tool_choice="auto")


def test_a_tool_choice_that_needs_tools_is_rejected_without_tools() -> None:
    for choice in ("required", NamedTool("f")):
        with pytest.raises(UnsupportedOptionError, match="requires tools"):
            calling(tools=NO_TOOLS, tool_choice=choice)
    assert calling(tools=NO_TOOLS, tool_choice="auto") is None


def test_a_named_tool_choice_must_be_a_declared_tool() -> None:
    with pytest.raises(UsageError, match=r"NamedTool\(name='lookup'\) names an unknown tool; the tools are: f"):
        calling(tool_choice=NamedTool("lookup"))


def test_parallel_tool_calls_false_is_rejected() -> None:
    assert calling(parallel_tool_calls=True) is None
    with pytest.raises(UnsupportedOptionError, match="parallel_tool_calls"):
        calling(parallel_tool_calls=False)


def test_server_calls_are_requested_in_the_tool_config() -> None:
    sent = body(extras=GeminiOptions(server_calls=True))
    assert sent["toolConfig"] == {"includeServerSideToolInvocations": True}


# --- Options ------------------------------------------------------------------------------------------------


def test_chat_options_are_sent_under_the_field_names_of_the_api() -> None:
    sent = config(temperature=0.5, top_p=0.9, top_k=40, max_tokens=10, stop=("a", "b"), seed=3)
    assert sent == {
        "temperature": 0.5,
        "topP": 0.9,
        "topK": 40,
        "maxOutputTokens": 10,
        "stopSequences": ["a", "b"],
        "seed": 3,
    }


def test_the_top_k_of_gemini_options_overrides_the_option_of_all_providers() -> None:
    assert config(top_k=40, extras=(GeminiOptions(top_k=4),)) == {"topK": 4}


def test_gemini_options_are_sent() -> None:
    extras = GeminiOptions(
        top_k=4,
        presence_penalty=0.1,
        frequency_penalty=0.2,
        response_logprobs=True,
        logprobs=2,
        response_modalities=("AUDIO",),
        speech={"voiceConfig": {}},
        image={"aspectRatio": "1:1"},
        media_resolution="MEDIA_RESOLUTION_LOW",
        include_thoughts=True,
        safety=(SafetySetting("X", "OFF"),),
        cached_content="cachedContents/1",
        labels={"a": "b"},
        service_tier="flex",
        store=False,
        generation_config={"candidateCount": 2},
        extra_body={"modelArmorConfig": {}},
    )
    assert body(extras=extras) == {
        "contents": [{"role": "user", "parts": [{"text": "Hi"}]}],
        "safetySettings": [{"category": "X", "threshold": "OFF"}],
        "cachedContent": "cachedContents/1",
        "labels": {"a": "b"},
        "serviceTier": "flex",
        "store": False,
        "generationConfig": {
            "responseModalities": ["AUDIO"],
            "topK": 4,
            "presencePenalty": 0.1,
            "frequencyPenalty": 0.2,
            "responseLogprobs": True,
            "logprobs": 2,
            "speechConfig": {"voiceConfig": {}},
            "imageConfig": {"aspectRatio": "1:1"},
            "mediaResolution": "MEDIA_RESOLUTION_LOW",
            "thinkingConfig": {"includeThoughts": True},
            "candidateCount": 2,
        },
        "modelArmorConfig": {},
    }


def test_options_of_a_request_override_those_of_the_provider() -> None:
    dialect = Dialect(model="m", include_thoughts=True, modalities=("TEXT",), safety=(SafetySetting("X", "OFF"),))
    assert body(dialect=dialect)["generationConfig"] == {
        "responseModalities": ["TEXT"],
        "thinkingConfig": {"includeThoughts": True},
    }
    extras = GeminiOptions(include_thoughts=False, response_modalities=("IMAGE",), safety=())
    sent = body(dialect=dialect, extras=extras)
    assert sent["generationConfig"] == {
        "responseModalities": ["IMAGE"],
        "thinkingConfig": {"includeThoughts": False},
    }
    assert "safetySettings" not in sent


@pytest.mark.parametrize("name", ["contents", "tools", "generationConfig", "safetySettings"])
def test_extra_body_cannot_replace_a_field_of_the_request(name: str) -> None:
    extras = GeminiOptions(extra_body={name: {}}, safety=(SafetySetting("X", "OFF"),))
    with pytest.raises(UnsupportedOptionError, match=name):
        body(extras=extras)
    with pytest.raises(UnsupportedOptionError, match="topK"):
        body(extras=GeminiOptions(top_k=1, generation_config={"topK": 2}))


@pytest.mark.parametrize(
    ("effort", "level", "budget"),
    [
        ("none", None, 0),
        ("minimal", "minimal", 1024),
        ("low", "low", 1024),
        ("medium", "medium", 8192),
        ("high", "high", 24576),
        ("xhigh", None, None),
    ],
)
def test_a_reasoning_effort_is_sent_as_a_level_or_a_budget(
    effort: ReasoningEffort, level: str | None, budget: int | None
) -> None:
    for dialect, name, value in (
        (Dialect(model="m", thinking="level"), "thinkingLevel", level),
        (Dialect(model="m", thinking="budget"), "thinkingBudget", budget),
    ):
        if value is None:
            with pytest.raises(UnsupportedOptionError, match="use one of"):
                body(dialect=dialect, options=ChatOptions(reasoning=effort))
        else:
            sent = body(dialect=dialect, options=ChatOptions(reasoning=effort))
            assert sent["generationConfig"]["thinkingConfig"] == {name: value}


def test_a_reasoning_budget_is_sent_as_thinking_budget_for_every_model() -> None:
    for thinking in ("level", "budget"):
        dialect = Dialect(model="m", thinking="level" if thinking == "level" else "budget")
        sent = body(dialect=dialect, options=ChatOptions(reasoning=512))
        assert sent["generationConfig"]["thinkingConfig"] == {"thinkingBudget": 512}


def test_an_output_schema_is_sent_in_the_json_or_openapi_field() -> None:
    output = OutputSchema("answer", SCHEMA)
    assert body(output=output)["generationConfig"] == {
        "responseMimeType": "application/json",
        "responseJsonSchema": SCHEMA,
    }
    sent = body(output=output, dialect=Dialect(model="m", schemas="openapi"))["generationConfig"]
    assert sent == {"responseMimeType": "application/json", "responseSchema": SCHEMA}


def test_options_of_another_provider_are_rejected() -> None:
    with pytest.raises(UnsupportedOptionError, match="gemini"):
        body(options=ChatOptions(extras=(_Foreign(),)))


class _Foreign:
    provider = "elsewhere"


# --- Instructions -------------------------------------------------------------------------------------------


def test_instructions_are_parts_of_the_system_instruction() -> None:
    options = ChatOptions(instructions=Instructions("Be kind.", "It is Monday."))
    messages = Messages.from_system("One.").user("Hi").system("Two.")
    texts = ["Be kind.", "One.", "Two.", "It is Monday."]
    assert body(messages, options=options)["systemInstruction"] == {"parts": [{"text": text} for text in texts]}
    assert body(options=ChatOptions(instructions="Be kind."))["systemInstruction"] == {"parts": [{"text": "Be kind."}]}
    assert "systemInstruction" not in body(options=ChatOptions(instructions=""))
