"""Native tools over a loopback server: requests, responses, and items sent back unchanged."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from chat_core import ChatBuilder, File, FilePart, Messages, ProviderPart, StreamingChat, Text
from chat_core.wire.shapes import Json
from chat_openai import (
    CodeInterpreter,
    FileSearch,
    ImageGeneration,
    NativeTool,
    OpenAIBuilder,
    RemoteMcp,
    WebSearch,
)
from chat_testing import Exchange, LoopbackServer

pytestmark = pytest.mark.anyio

PNG = b"\x89PNG\r\n\x1a\n the picture"
BLURRED = (b"\x89PNG\r\n\x1a\n hardly", b"\x89PNG\r\n\x1a\n almost")


def coded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def message(text: str, *annotations: Json) -> Json:
    return {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": text, "annotations": list(annotations)}],
    }


@dataclass(frozen=True)
class Case:
    """A tool, and a response with the `items` in which the server used it, also as stream events."""

    tool: NativeTool
    items: tuple[Json, ...]
    events: tuple[Json, ...] = field(default=())


CASES: dict[str, Case] = {
    "web search": Case(
        WebSearch(search_context_size="low", with_sources=True),
        (
            {
                "type": "web_search_call",
                "id": "ws_1",
                "status": "completed",
                "action": {
                    "type": "search",
                    "query": "weather in Utrecht",
                    "sources": [{"type": "url", "url": "https://weather.example.org"}],
                },
            },
            message(
                "It rains.",
                {
                    "type": "url_citation",
                    "start_index": 0,
                    "end_index": 9,
                    "url": "https://weather.example.org",
                    "title": "Weather",
                },
            ),
        ),
        (
            {"type": "response.web_search_call.in_progress", "output_index": 0, "item_id": "ws_1"},
            {"type": "response.web_search_call.searching", "output_index": 0, "item_id": "ws_1"},
            {"type": "response.web_search_call.completed", "output_index": 0, "item_id": "ws_1"},
        ),
    ),
    "file search": Case(
        FileSearch(vector_store_ids=("vs_1",), with_results=True),
        (
            {
                "type": "file_search_call",
                "id": "fs_1",
                "status": "completed",
                "queries": ["deep research"],
                "results": [
                    {"file_id": "file_1", "filename": "a.pdf", "score": 0.9, "text": "Deep.", "attributes": {}}
                ],
            },
            message("Deep.", {"type": "file_citation", "index": 5, "file_id": "file_1", "filename": "a.pdf"}),
        ),
        ({"type": "response.file_search_call.searching", "output_index": 0, "item_id": "fs_1"},),
    ),
    "code interpreter": Case(
        CodeInterpreter(file_ids=("file_1",), with_outputs=True),
        (
            {
                "type": "code_interpreter_call",
                "id": "ci_1",
                "status": "completed",
                "code": "print(2 + 2)",
                "container_id": "cntr_1",
                "outputs": [{"type": "logs", "logs": "4"}],
            },
            message(
                "Four: plot.png",
                {
                    "type": "container_file_citation",
                    "container_id": "cntr_1",
                    "file_id": "cfile_1",
                    "filename": "plot.png",
                    "start_index": 6,
                    "end_index": 14,
                },
            ),
        ),
        (
            {
                "type": "response.code_interpreter_call_code.delta",
                "output_index": 0,
                "item_id": "ci_1",
                "delta": "print(2 + 2)",
            },
            {
                "type": "response.code_interpreter_call_code.done",
                "output_index": 0,
                "item_id": "ci_1",
                "code": "print(2 + 2)",
            },
            {"type": "response.code_interpreter_call.interpreting", "output_index": 0, "item_id": "ci_1"},
        ),
    ),
    "a remote server": Case(
        RemoteMcp(server_label="dice", server_url="https://dice.example.org/mcp", require_approval="never"),
        (
            {
                "type": "mcp_list_tools",
                "id": "mcpl_1",
                "server_label": "dice",
                "tools": [{"name": "roll", "input_schema": {"type": "object"}, "description": None}],
            },
            {
                "type": "mcp_call",
                "id": "mcp_1",
                "server_label": "dice",
                "name": "roll",
                "arguments": '{"dice": "2d4"}',
                "output": "7",
                "error": None,
            },
            message("A seven."),
        ),
        (
            {
                "type": "response.mcp_call_arguments.delta",
                "output_index": 1,
                "item_id": "mcp_1",
                "delta": '{"dice": "2d4"}',
            },
            {"type": "response.mcp_call.completed", "output_index": 1, "item_id": "mcp_1"},
        ),
    ),
}


def response(number: int, output: tuple[Json, ...], status: str = "completed") -> Json:
    return {
        "id": f"resp_{number}",
        "object": "response",
        "status": status,
        "model": "gpt-5-mini",
        "output": list(output),
        "usage": {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15} if status == "completed" else None,
    }


def streamed(number: int, case: Case) -> Iterator[Json]:
    yield {"type": "response.created", "response": response(number, (), "in_progress")}
    for index, item in enumerate(case.items):
        begun = {"type": item["type"], "id": item["id"], "status": "in_progress"}
        if item["type"] == "message":
            begun |= {"role": "assistant", "content": []}
        yield {"type": "response.output_item.added", "output_index": index, "item": begun}
        yield from [event for event in case.events if event["output_index"] == index]
        for piece in item.get("content", ()):
            yield {
                "type": "response.output_text.delta",
                "output_index": index,
                "content_index": 0,
                "item_id": item["id"],
                "delta": piece["text"],
            }
        yield {"type": "response.output_item.done", "output_index": index, "item": item}
    yield {"type": "response.completed", "response": response(number, case.items)}


@dataclass
class Server:
    """Server that returns the response of a case for every request, complete or as a stream."""

    case: Case
    asked: list[Json] = field(default_factory=list[Json])

    def __call__(self, exchange: Exchange) -> None:
        assert exchange.path == "/v1/responses"
        body: Json = json.loads(exchange.body)
        self.asked.append(body)
        number = len(self.asked)
        if body.get("stream"):
            events = streamed(number, self.case)
            exchange.events(*[f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in events])
        else:
            answer = json.dumps(response(number, self.case.items)).encode()
            exchange.answer(200, {"content-type": "application/json"}, answer)


def chat_of(case: Case, host: str) -> StreamingChat:
    builder = OpenAIBuilder().with_api_key("sk-mine").with_gateway(f"http://{host}/v1")
    return ChatBuilder().with_model(builder.with_model("gpt-5-mini").with_native_tools(case.tool).build()).build()


async def talk(chat: StreamingChat, messages: Messages, *, stream: bool) -> list[File]:
    """Run one turn, and return the files that its stream delivered."""
    if not stream:
        await chat.complete(messages)
        return []
    async with chat.stream(messages) as events:
        return [event.file async for event in events if isinstance(event, FilePart)]


def sent_back(item: Json) -> Json:
    """Return an item as a request contains it, without null fields."""
    return {name: value for name, value in item.items() if value is not None}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("name", CASES)
async def test_the_items_of_a_native_tool_are_kept_in_a_round_trip(name: str, stream: bool) -> None:
    case = CASES[name]
    server = Server(case)
    with LoopbackServer(server) as loopback:
        async with chat_of(case, loopback.host) as chat:
            messages = Messages.from_user("Do it.")
            await talk(chat, messages, stream=stream)
            messages = Messages.from_json(messages.to_json())
            messages.user("Again.")
            await talk(chat, messages, stream=stream)
    first, second = server.asked
    assert first["tools"] == second["tools"] == [case.tool.declaration()]
    assert tuple(first.get("include", ())) == case.tool.includes()
    assert [sent_back(item) for item in second["input"][1:-1]] == [sent_back(item) for item in case.items]
    (turn, _) = [turn for content in messages for turn in content.turns if content.role == "model"]
    kinds = [item["type"] for item in case.items[:-1]]
    assert [part.kind for part in turn.parts if isinstance(part, ProviderPart)] == kinds
    (text,) = [part for part in turn.parts if isinstance(part, Text)]
    assert text.text == case.items[-1]["content"][0]["text"]


IMAGE: Json = {
    "type": "image_generation_call",
    "id": "ig_1",
    "status": "completed",
    "background": "opaque",
    "output_format": "png",
    "quality": "high",
    "size": "1024x1024",
    "revised_prompt": "A picture.",
    "result": coded(PNG),
}
PICTURE = Case(
    ImageGeneration(size="1024x1024", quality="high", partial_images=2),
    (IMAGE,),
    (
        {"type": "response.image_generation_call.generating", "output_index": 0, "item_id": "ig_1"},
        *[
            {
                "type": "response.image_generation_call.partial_image",
                "output_index": 0,
                "item_id": "ig_1",
                "partial_image_index": index,
                "partial_image_b64": coded(data),
            }
            for index, data in enumerate(BLURRED)
        ],
        {"type": "response.image_generation_call.completed", "output_index": 0, "item_id": "ig_1"},
    ),
)


@pytest.mark.parametrize("stream", [False, True])
async def test_a_generated_image_becomes_a_file_and_is_sent_back_unchanged(stream: bool) -> None:
    server = Server(PICTURE)
    with LoopbackServer(server) as loopback:
        async with chat_of(PICTURE, loopback.host) as chat:
            messages = Messages.from_user("Draw it.")
            shown = await talk(chat, messages, stream=stream)
            messages = Messages.from_json(messages.to_json())
            messages.user("Make it brighter.")
            await talk(chat, messages, stream=stream)
    (file,) = messages.contents[1].parts
    assert isinstance(file, File)
    assert (file.mime, file.data) == ("image/png", PNG)
    assert server.asked[0]["tools"] == [PICTURE.tool.declaration()]
    assert server.asked[1]["input"][1] == IMAGE
    if stream:
        assert [one.data for one in shown] == [*BLURRED, PNG]


async def test_partial_images_are_streamed_but_not_kept() -> None:
    with LoopbackServer(Server(PICTURE)) as loopback:
        async with chat_of(PICTURE, loopback.host) as chat, chat.stream(Messages.from_user("Draw it.")) as stream:
            files = [event.file async for event in stream if isinstance(event, FilePart)]
            response = stream.response
    first, second, last = files
    assert first.opaque is not None
    assert second.opaque is not None
    assert (first.opaque.data, second.opaque.data) == (
        {"partial": {"item_id": "ig_1", "partial_image_index": 0}},
        {"partial": {"item_id": "ig_1", "partial_image_index": 1}},
    )
    assert last.data == PNG
    assert [part.data for part in response.files] == [PNG]
