"""Structured output next to tools, for models that accept no output schema beside function declarations."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import pytest
from chat_core import ChatBuilder, ChatOptions, Messages, ToolCollection
from chat_core.events import Done, StructuredDelta, TextDelta
from chat_core.messages import Text
from chat_core.options import NamedTool
from chat_core.provider import NO_TOOLS, OutputSchema, ToolDeclaration, ToolDeclarations
from chat_core.testing import MockTransport
from chat_core.transport import Event
from chat_gemini import Dialect, GeminiBuilder, GeminiOptions
from chat_gemini.codec import StreamDecoder, decode, encode
from chat_gemini.output_tool import output_tool_name, with_output_tool

OLD = replace(Dialect(model="gemini-2.5-flash"), schemas_with_tools=False)
TOOLS = ToolDeclarations([ToolDeclaration("look_up", "Looks it up.", {"type": "object", "properties": {}})])
OUTPUT = OutputSchema("Weather", {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]})


@dataclass
class Weather:
    city: str
    degrees: int


def request_body(dialect: Dialect = OLD, tools: ToolDeclarations = TOOLS, **options: Any) -> Any:
    said = ChatOptions(**options)
    return json.loads(encode(Messages.from_user("Hi"), tools, said, OUTPUT, dialect=dialect))


def response(*parts: object, finish: str = "STOP") -> dict[str, object]:
    return {"candidates": [{"content": {"role": "model", "parts": list(parts)}, "finishReason": finish}]}


def call(name: str, **arguments: object) -> dict[str, object]:
    return {"functionCall": {"name": name, "args": arguments}}


# --- Requests -------------------------------------------------------------------------------------------------


def test_an_output_tool_is_declared_after_the_tools_of_the_chat() -> None:
    body = request_body()
    declared = body["tools"][0]["functionDeclarations"]
    assert [item["name"] for item in declared] == ["look_up", "Weather"]
    assert declared[1]["parametersJsonSchema"] == OUTPUT.schema
    assert "generationConfig" not in body


def test_an_output_schema_is_sent_without_tools_and_to_models_that_accept_both() -> None:
    for body in (request_body(tools=NO_TOOLS), request_body(replace(OLD, schemas_with_tools=True))):
        assert body["generationConfig"] == {
            "responseMimeType": "application/json",
            "responseJsonSchema": OUTPUT.schema,
        }
        assert "toolConfig" not in body


@pytest.mark.parametrize(
    ("model", "by_tool"), [("gemini-2.0-flash", True), ("gemini-2.5-pro", True), ("gemini-3-pro", False)]
)
def test_the_builder_selects_the_form_by_the_model(model: str, by_tool: bool) -> None:
    provider = GeminiBuilder().with_model(model).with_api_key("k").with_transport(MockTransport()).build()
    sent = json.loads(provider.encode_batch_request(Messages.from_user("Hi"), TOOLS, ChatOptions(), OUTPUT).body)
    assert ("generationConfig" not in sent) is by_tool


@pytest.mark.parametrize(
    ("options", "config"),
    [
        ({}, {"mode": "ANY"}),
        ({"tool_choice": "auto"}, {"mode": "ANY"}),
        ({"tool_choice": "required"}, {"mode": "ANY", "allowedFunctionNames": ["look_up"]}),
        ({"tool_choice": "none"}, {"mode": "ANY", "allowedFunctionNames": ["Weather"]}),
        ({"tool_choice": NamedTool("look_up")}, {"mode": "ANY", "allowedFunctionNames": ["look_up"]}),
        (
            {"extras": (GeminiOptions(function_mode="VALIDATED", allowed_functions=("look_up",)),)},
            {"mode": "VALIDATED", "allowedFunctionNames": ["look_up", "Weather"]},
        ),
    ],
)
def test_the_response_must_be_a_call(options: dict[str, Any], config: object) -> None:
    assert request_body(**options)["toolConfig"] == {"functionCallingConfig": config}


@pytest.mark.parametrize("choice", ["required", NamedTool("look_up")])
def test_a_schema_is_not_sent_with_a_forced_call(choice: Any) -> None:
    body = request_body(replace(OLD, schemas_with_tools=True), tool_choice=choice)
    assert "generationConfig" not in body
    assert [item["name"] for item in body["tools"][0]["functionDeclarations"]] == ["look_up"]


def test_a_model_that_must_call_a_function_gets_an_output_tool() -> None:
    forced = (GeminiOptions(function_mode="ANY", allowed_functions=("look_up",)),)
    body = request_body(replace(OLD, schemas_with_tools=True), extras=forced)
    assert "generationConfig" not in body
    assert [item["name"] for item in body["tools"][0]["functionDeclarations"]] == ["look_up", "Weather"]
    config = {"mode": "ANY", "allowedFunctionNames": ["look_up", "Weather"]}
    assert body["toolConfig"] == {"functionCallingConfig": config}


def test_the_output_tool_gets_a_name_that_no_tool_has() -> None:
    taken = with_output_tool(TOOLS, "Weather", OUTPUT)
    assert output_tool_name(taken, OUTPUT, ChatOptions(), OLD) == "Weather_"
    assert output_tool_name(taken, None, ChatOptions(), OLD) is None


# --- Responses ------------------------------------------------------------------------------------------------


def test_a_call_of_the_output_tool_becomes_the_text_of_the_response() -> None:
    body = json.dumps(response(call("Weather", city="Rome"))).encode()
    turn = decode(body, "gemini", output_tool="Weather")
    assert list(turn.parts) == [Text('{"city":"Rome"}')]
    assert turn.finish_reason == "stop"
    assert [tool.call.name for tool in decode(body, "gemini").tools] == ["Weather"]


@pytest.mark.parametrize(
    "text", [{"text": "Here it is."}, {"text": "Here it is.", "thoughtSignature": "c2ln"}], ids=["plain", "signed"]
)
@pytest.mark.parametrize("order", [1, -1], ids=["before", "after"])
def test_text_beside_a_call_of_the_output_tool_is_no_part_of_the_output(text: dict[str, str], order: int) -> None:
    body = json.dumps(response(*[text, call("Weather", city="Rome")][::order])).encode()
    turn = decode(body, "gemini", output_tool="Weather")
    assert turn.text == '{"city":"Rome"}'
    messages = Messages.from_user("Hi")
    messages.append("model", turn)
    sent = json.loads(encode(messages.user("Go on."), TOOLS, ChatOptions(), OUTPUT, dialect=OLD))
    assert sent["contents"][1]["parts"] == [text, {"text": '{"city":"Rome"}'}][::order]


@pytest.mark.anyio
@pytest.mark.parametrize("cut", range(5))
async def test_text_beside_a_streamed_output_call_has_no_deltas_and_costs_no_correction(cut: int) -> None:
    tools = ToolCollection()

    @tools.tool
    def look_up() -> str:
        """Looks it up."""
        return "30"

    transport = MockTransport()
    parts = [{"text": "Here"}, {"text": " it is."}, call("Weather", city="Rome", degrees=30), {"text": "Done."}]
    pieces = [response(*parts[:cut], finish=""), response(*parts[cut:])]
    transport.events(*[json.dumps(piece) for piece in pieces])
    model = GeminiBuilder().with_model("gemini-2.5-flash").with_api_key("k").with_transport(transport).build()
    chat = ChatBuilder().with_model(model).with_tools(tools).with_structured_output(Weather).build()
    async with chat.stream(Messages.from_user("Weather in Rome?")) as stream:
        events = [event async for event in stream]
    deltas = [event.snapshot() for event in events if isinstance(event, StructuredDelta)]
    values = [event.response.value for event in events if isinstance(event, Done)]
    assert (deltas, values) == ([{"city": "Rome", "degrees": 30}], [Weather("Rome", 30)])
    assert len(transport.requests) == 1


def test_text_without_a_call_of_the_output_tool_is_the_text_of_the_response() -> None:
    decoder = StreamDecoder("gemini", output_tool="Weather")
    pieces = [response({"text": "I can"}, finish=""), response({"text": "not."}, finish=""), response()]
    deltas = [decoder.feed([Event("message", json.dumps(piece).encode())]) for piece in pieces]
    assert [[*batch] for batch in deltas] == [[], [], [TextDelta("I can"), TextDelta("not.")]]
    assert decoder.close().text == "I cannot."


@pytest.mark.anyio
async def test_tools_run_before_the_structured_output_is_returned() -> None:
    tools = ToolCollection()

    @tools.tool
    def look_up() -> str:
        """Looks it up."""
        return "30"

    transport = MockTransport()
    transport.answer(body=response(call("look_up")))
    transport.answer(body=response(call("Weather", city="Rome", degrees=30)))
    model = GeminiBuilder().with_model("gemini-2.5-flash").with_api_key("k").with_transport(transport).build()
    chat = ChatBuilder().with_model(model).with_tools(tools).with_structured_output(Weather).build()
    answer = await chat.complete(Messages.from_user("Weather in Rome?"))
    assert answer.value == Weather("Rome", 30)

    transport.events(json.dumps(response(call("Weather", city="Rome", degrees=31))))
    pieces: list[object] = []
    async with chat.stream(Messages.from_user("And now?")) as stream:
        async for event in stream:
            if isinstance(event, StructuredDelta):
                pieces.append(event.snapshot())
            elif isinstance(event, Done):
                assert event.response.value == Weather("Rome", 31)
    assert pieces == [{"city": "Rome", "degrees": 31}]


@pytest.mark.anyio
@pytest.mark.parametrize("by_file", [False, True])
async def test_the_results_of_a_batch_are_decoded_with_the_output_tool(*, by_file: bool) -> None:
    transport = MockTransport()
    model = GeminiBuilder().with_model("gemini-2.5-flash").with_api_key("k").with_transport(transport).build()
    request = model.encode_batch_request(Messages.from_user("Hi"), TOOLS, ChatOptions(), OUTPUT)
    transport.answer(body={"name": "batches/1"})
    batch = await model.submit_batch([request], name="n")
    transport.answer(body={"operations": [{"name": "batches/1", "metadata": {"displayName": "n"}}]})
    assert await model.find_batch([request], name="n", size=1, since=datetime.now(UTC)) == batch

    entry = {"key": "n-0", "response": response(call("Weather", city="Rome"))}
    if by_file:
        transport.answer(body={"response": {"responsesFile": "files/1"}})
        transport.answer(body=json.dumps(entry))
    else:
        transport.answer(body={"response": {"inlinedResponses": {"inlinedResponses": [entry]}}})
    async with model.batch_results(batch) as items:
        turns = [item.turn async for item in items]
    assert [turn and turn.text for turn in turns] == ['{"city":"Rome"}']
