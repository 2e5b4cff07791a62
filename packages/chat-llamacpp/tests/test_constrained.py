from __future__ import annotations

import json
from typing import Any

import pytest
from chat_llamacpp.constrained import Constrained, constrain
from chat_llamacpp.schema import UnconstrainableError
from pydantic import BaseModel

HELLO: list[dict[str, Any]] = [{"role": "user", "content": "Hello."}]
PARAMETERS = {"type": "object", "properties": {"to": {"type": "string"}}, "required": ["to"]}
CLOSED = {**PARAMETERS, "additionalProperties": False}
SAY = {
    "type": "object",
    "properties": {"say": {"type": "string"}},
    "required": ["say"],
    "additionalProperties": False,
}
IMAGE: dict[str, Any] = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}


class Inner(BaseModel):
    n: int


class Outer(BaseModel):
    inner: Inner


def tool(name: str, parameters: dict[str, Any] | None = PARAMETERS) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


def call(name: str, arguments: dict[str, Any] = CLOSED) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {"call": {"const": name}, "arguments": arguments},
        "required": ["call", "arguments"],
        "additionalProperties": False,
    }


def asked(**fields: object) -> Constrained:
    return constrain({"model": "m", "messages": HELLO, **fields})


def wire(schema: object) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "x", "schema": schema, "strict": True}}


def test_a_request_without_tools_is_unchanged() -> None:
    assert asked(temperature=0) == Constrained({"model": "m", "messages": HELLO, "temperature": 0}, None, calls=False)


def test_tools_become_a_choice_between_calls_and_text() -> None:
    request = asked(tools=[tool("pay"), tool("ask")], parallel_tool_calls=True)

    assert request.calls
    assert request.schema == {"anyOf": [call("pay"), call("ask"), SAY]}
    assert request.body.keys() == {"model", "messages"}


@pytest.mark.parametrize("choice", ["auto", None])
def test_tool_choice_auto_allows_calls_and_text(choice: object) -> None:
    assert asked(tools=[tool("pay")], tool_choice=choice).schema == {"anyOf": [call("pay"), SAY]}


def test_tool_choice_required_allows_only_calls() -> None:
    assert asked(tools=[tool("pay"), tool("ask")], tool_choice="required").schema == {
        "anyOf": [call("pay"), call("ask")]
    }


def test_a_named_tool_choice_allows_only_that_call() -> None:
    choice = {"type": "function", "function": {"name": "ask"}}

    assert asked(tools=[tool("pay"), tool("ask")], tool_choice=choice).schema == call("ask")


def test_tool_choice_none_leaves_the_response_unconstrained() -> None:
    request = asked(tools=[tool("pay")], tool_choice="none")

    assert request == Constrained({"model": "m", "messages": HELLO}, None, calls=False)


@pytest.mark.parametrize("parameters", [None, {}, {"type": "object", "properties": {}}])
def test_a_function_without_parameters_accepts_no_arguments(parameters: dict[str, Any] | None) -> None:
    arguments: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": False}

    assert asked(tools=[tool("now", parameters)], tool_choice="required").schema == call("now", arguments)


def test_an_output_schema_without_tools_constrains_the_whole_response() -> None:
    request = asked(response_format=wire(PARAMETERS))

    assert request == Constrained({"model": "m", "messages": HELLO}, CLOSED, calls=False)


@pytest.mark.parametrize("wanted", [{"type": "json_object"}, wire(None)])
def test_json_object_mode_allows_any_object(wanted: object) -> None:
    assert asked(response_format=wanted).schema == {"type": "object"}


def test_response_format_text_leaves_the_response_unconstrained() -> None:
    assert asked(response_format={"type": "text"}).schema is None


def test_an_output_schema_with_tools_replaces_the_text_variant() -> None:
    request = asked(tools=[tool("pay")], response_format=wire(PARAMETERS))

    assert request.schema == {"anyOf": [call("pay"), {**SAY, "properties": {"say": CLOSED}}]}
    assert "response_format" not in request.body


def test_schemas_with_references_are_moved_to_separate_definitions() -> None:
    nested = Outer.model_json_schema()
    request = asked(tools=[tool("a", nested), tool("b", nested)], tool_choice="required")

    assert request.schema is not None
    assert [variant["properties"]["arguments"] for variant in request.schema["anyOf"]] == [
        {"$ref": "#/$defs/place-0"},
        {"$ref": "#/$defs/place-1"},
    ]
    assert request.schema["$defs"]["place-1"]["properties"]["inner"] == {"$ref": "#/$defs/place-1/$defs/Inner"}


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"tools": [{"type": "web_search"}]}, "type 'web_search'; llama.cpp supports only tools of type 'function'"),
        ({"tool_choice": "required"}, "tool_choice is 'required', but the request has no tools"),
        (
            {"tools": [tool("pay")], "tool_choice": {"function": {"name": "ask"}}},
            r"names the unknown tool 'ask'; the tools are \['pay'\]",
        ),
        ({"tools": [tool("pay", {"$ref": "#/x"})]}, "the schema of the tool 'pay' .* '#/x'"),
        ({"response_format": wire({"type": "frob"})}, "the schema of the structured output .* 'frob'"),
        ({"messages": [{"role": "user", "content": [IMAGE, {"type": "video_url"}]}]}, "a part of type 'video_url'"),
        ({"messages": [{"role": "assistant", "content": [IMAGE]}]}, "a part of type 'image_url'"),
    ],
)
def test_unsupported_request_fields_are_rejected(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(UnconstrainableError, match=said):
        asked(**fields)


@pytest.mark.parametrize("tools", [[], [tool("pay")]])
def test_images_and_audio_of_the_user_keep_their_place_between_the_texts(tools: list[Any]) -> None:
    audio = {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}
    content = [{"type": "text", "text": "Compare"}, IMAGE, {"type": "text", "text": "with"}, audio]

    messages = asked(messages=[{"role": "user", "content": content}], tools=tools).body["messages"]
    assert messages[-1] == {"role": "user", "content": content}


def test_calls_and_results_in_the_history_become_text() -> None:
    function = {"name": "pay", "arguments": '{"to": "Bo"}'}
    history = [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "Pay"}, {"type": "text", "text": "Bo."}]},
        {
            "role": "assistant",
            "content": "Gladly.",
            "tool_calls": [{"id": "1", "type": "function", "function": function}],
        },
        {"role": "tool", "tool_call_id": "1", "content": "paid"},
        {"role": "assistant", "content": None},
    ]

    assert asked(messages=history).body["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Pay\nBo."},
        {"role": "assistant", "content": json.dumps({"call": "pay", "arguments": {"to": "Bo"}})},
        {"role": "user", "content": "The result is: paid"},
        {"role": "assistant", "content": ""},
    ]


@pytest.mark.parametrize("arguments", ["", '{"to": "B', None])
def test_truncated_arguments_in_the_history_are_shown_as_an_empty_object(arguments: str | None) -> None:
    made = {"id": "1", "type": "function", "function": {"name": "pay", "arguments": arguments}}
    request = asked(messages=[{"role": "assistant", "tool_calls": [made, made]}])

    (message,) = request.body["messages"]
    assert message["content"] == "\n".join([json.dumps({"call": "pay", "arguments": {}})] * 2)


def test_constraining_a_request_does_not_change_its_body() -> None:
    body = {"messages": HELLO, "tools": [tool("pay")], "tool_choice": "required"}
    before = json.dumps(body)
    constrain(body)

    assert json.dumps(body) == before
