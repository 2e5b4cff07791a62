"""The builders of OpenAI, Azure and OpenRouter send recorded requests to the same address with the same content."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from fnmatch import fnmatch
from typing import Any, Final, cast

import pytest
from chat_core.provider import ChatProvider
from chat_core.testing import MockTransport
from chat_openai import (
    ApprovalFor,
    AzureBuilder,
    CodeInterpreter,
    FileSearch,
    ImageGeneration,
    McpTools,
    NativeTool,
    OpenAIBuilder,
    OpenAIEmbeddings,
    OpenRouterBuilder,
    RemoteMcp,
    UserLocation,
    WebSearch,
)

from .exchanges import require_wire
from .normalise import Json, Object
from .normalise import differences as unlike_completions
from .rebuild import rebuild as rebuild_completions
from .rebuild import rebuild_embeddings
from .recordings import Recorded, recorded
from .responses.canonical import differences as unlike_responses
from .responses.encoding import speaks
from .responses.rebuild import Rebuilt, rebuild

require_wire()
pytestmark = pytest.mark.anyio

VENDORS: Final = ("openai", "azure", "openrouter")

KEY_HEADERS: Final = {"openai": "authorization", "azure": "api-key", "openrouter": "authorization"}

HOSTS: Final = {
    "openai": "api.openai.com",
    "azure": "*.azure.com",
    "openrouter": "openrouter.ai",
}
"""The hosts that builders ask; a recording that was made by way of another one does not say where that is."""

OTHERWISE: Final = {
    "*": (
        # Tools are enforced where their schemas allow it, and a stream is asked for its usage.
        "tools[[]*[]].strict",
        "tools[[]*[]].function.strict",
        "stream_options",
    ),
    "openai": ("tools[[]*[]].parameters.additionalProperties", "max_tokens", "max_completion_tokens"),
    "azure": ("model", "max_tokens", "max_completion_tokens"),
    "openrouter": (
        # The server stores nothing there: our request sets `store` to false and includes the encrypted reasoning.
        "include",
        "store",
        "max_tokens",
        "max_completion_tokens",
        "reasoning",
        "reasoning_effort",
        "messages[[]*[]].role",
        "*.cache_control",
        "*[[]0[]].cache_control",
        # One client sends arguments that are not a JSON object. Our request wraps them.
        "input[[]*[]].arguments",
    ),
}
"""Where a vendor takes what its builder says, and something else too, which some recorded client has said."""

ANSWER: Final[Object] = {
    "id": "resp_1",
    "status": "completed",
    "output": [
        {"type": "message", "id": "msg_1", "role": "assistant", "content": [{"type": "output_text", "text": "Hi"}]}
    ],
}


@pytest.fixture
def anyio_backend() -> str:
    """Use one event loop, because the requests do not depend on it."""
    return "asyncio"


def accepted(*apis: str) -> Iterator[Recorded]:
    for item in recorded(*apis):
        if item.provider in VENDORS and item.accepted and item.asked is not None:
            yield item


def version_of(item: Recorded) -> str | None:
    found = re.search(r"api-version'?[:=]\s*'?([\w.-]+)", item.query)
    return found[1] if found else None


def azure(item: Recorded, model: str, transport: MockTransport) -> Any:
    """Return the builder for a recorded request to Azure. The path of the request selects the API."""
    root = AzureBuilder().with_api_key("k").with_transport(transport).with_endpoint(f"https://{item.host or 'a.b'}")
    if item.path.startswith("/models/"):
        return root.with_catalog_model(model, api_version=version_of(item) or "v")
    if "/deployments/" in item.path:
        name = item.path.split("/deployments/")[1].split("/")[0]
        return root.with_deployment(name, api_version=version_of(item) or "v")
    if item.path == "/openai/responses":
        return root.with_deployment(model, api_version=version_of(item) or "v")
    return root.with_model(model)


def builder(item: Recorded, model: str, transport: MockTransport) -> Any:
    if item.provider == "azure":
        return azure(item, model, transport)
    begun = OpenAIBuilder() if item.provider == "openai" else OpenRouterBuilder()
    return begun.with_api_key("k").with_transport(transport).with_model(model)


def on_responses(item: Recorded, said: Rebuilt, transport: MockTransport) -> ChatProvider:
    ready, dialect = builder(item, said.dialect.model or "m", transport), said.dialect
    if item.provider != "openrouter":
        ready = ready.with_previous_response() if dialect.previous_response else ready
        ready = ready if dialect.store is None else ready.with_store(store=dialect.store)
        ready = ready.with_encrypted_reasoning() if dialect.encrypted_reasoning else ready
    return cast("ChatProvider", ready.build())


async def ask(provider: ChatProvider, said: Any, transport: MockTransport, answer: Object, *events: str) -> None:
    if not said.stream:
        transport.answer(body=answer)
        await provider.complete(said.messages, said.tools, said.options, said.output)
        return
    transport.events(*events)
    async with provider.stream(said.messages, said.tools, said.options, said.output) as stream:
        async for _ in stream:
            pass
    assert stream.close().text == "Hi"


async def ask_responses(item: Recorded, transport: MockTransport) -> list[str]:
    asked = cast("Object", item.asked)
    said = rebuild(asked, f"{item.provider}-responses")
    event = json.dumps({"type": "response.completed", "response": ANSWER})
    await ask(on_responses(item, said, transport), said, transport, ANSWER, event)
    sent = cast("Object", transport.last.json())
    return [difference.path for difference in unlike_responses(led(asked), led(sent))]


def led(body: Object) -> Object:
    """Return a body with leading system messages as instructions, and with the results after a response first.

    OpenAI accepts system text as instructions and as messages. After a stored response, the position of a result does
    not matter, because it belongs to a call of that response.
    """
    given = body.get("input")
    items = [cast("Object", item) for item in given] if isinstance(given, list) else []
    leads = list[str]()
    while not body.get("instructions") and items and items[0].get("role") in {"system", "developer"}:
        leads.append(text_of(items.pop(0).get("content")))
    if body.get("previous_response_id"):
        items.sort(key=lambda item: not str(item.get("type")).endswith("_output"))
    told: Object = {"instructions": "\n\n".join(leads)} if leads else {}
    return {**body, **told, "input": cast("list[Json]", items)} if items else body


def text_of(content: Json) -> str:
    parts = content if isinstance(content, list) else [{"text": content or ""}]
    return "".join([str(cast("Object", part)["text"]) for part in parts])


async def ask_completions(item: Recorded, transport: MockTransport) -> list[str]:
    asked = cast("Object", item.asked)
    said = rebuild_completions(asked, item.provider)
    ready = builder(item, said.dialect.model or "m", transport)
    provider = (ready.with_completions() if hasattr(ready, "with_completions") else ready).build()
    choice: Object = {"index": 0, "finish_reason": "stop"}
    answer: Object = {"id": "c", "choices": [{**choice, "message": {"content": "Hi"}}]}
    piece: Object = {"id": "c", "choices": [{**choice, "delta": {"content": "Hi"}}]}
    await ask(provider, said, transport, answer, json.dumps(piece), "[DONE]")
    return [difference.path for difference in unlike_completions(asked, cast("Object", transport.last.json()))]


async def ask_embeddings(item: Recorded, transport: MockTransport) -> list[str]:
    asked = cast("Object", item.asked)
    said = rebuild_embeddings(asked, item.provider)
    transport.answer(body={"data": [{"embedding": [0.5] * (said.dialect.dimensions or 1)}] * len(said.texts)})
    await embedder(item, said.dialect.model or "m", said.dialect.dimensions, transport).embed(said.texts, said.options)
    return [difference.path for difference in unlike_completions(asked, cast("Object", transport.last.json()))]


def embedder(item: Recorded, model: str, dimensions: int | None, transport: MockTransport) -> OpenAIEmbeddings:
    if item.provider != "azure":
        begun = OpenAIBuilder() if item.provider == "openai" else OpenRouterBuilder()
        ready = begun.with_api_key("k").with_transport(transport)
        return ready.with_embeddings(model=model, dimensions=dimensions).build()
    root = AzureBuilder().with_api_key("k").with_transport(transport).with_endpoint(f"https://{item.host}")
    if "/deployments/" not in item.path:
        return root.with_embeddings(model=model, dimensions=dimensions).build()
    name = item.path.split("/deployments/")[1].split("/")[0]
    return root.with_embeddings(model=name, dimensions=dimensions, api_version=version_of(item) or "v").build()


def address(item: Recorded) -> str:
    version = version_of(item)
    path = item.path.replace("//", "/")  # a few clients asked with a slash too many
    return f"https://{item.host}{path}{f'?api-version={version}' if version else ''}"


def questions(wire: str) -> Iterator[Recorded]:
    for item in accepted(wire):
        asked = item.asked or {}
        field, path = ("messages", "/chat/completions") if wire == "chat-completions" else ("input", f"/{wire}")
        if speaks(item) if wire == "responses" else field in asked and item.path.endswith(path):
            yield item


ASK: Final[Mapping[str, Callable[[Recorded, MockTransport], Any]]] = {
    "responses": ask_responses,
    "chat-completions": ask_completions,
    "embeddings": ask_embeddings,
}

# --- Requests ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wire", ASK)
async def test_a_request_has_the_recorded_url_header_and_body(wire: str) -> None:
    same: dict[str, int] = dict.fromkeys(VENDORS, 0)
    alike: dict[str, int] = dict.fromkeys(VENDORS, 0)
    for item in questions(wire):
        transport = MockTransport()
        unlike = await ASK[wire](item, transport)
        vendor, (path, _, query) = item.provider, transport.last.url.partition("?")
        if fnmatch(item.host, HOSTS[vendor]):
            # Some recordings keep no query: ours has a version where the path is of the dated API.
            here = path if not item.query and query == "api-version=v" else transport.last.url
            assert here == address(item), item.id
            same[vendor] += 1
        keys = {"authorization", "api-key"} & {header.lower() for header in item.asked_headers}
        assert keys <= {KEY_HEADERS[vendor]}, item.id
        assert {"authorization", "api-key"} & set(transport.last.headers) == {KEY_HEADERS[vendor]}
        allowed = (*OTHERWISE["*"], *OTHERWISE[vendor])
        for path in unlike:
            fitting = [pattern for pattern in allowed if fnmatch(path, pattern)]
            assert fitting, f"{item.id}: {path}"
        alike[vendor] += not unlike
    assert all(same.values()), f"nothing is asked where it was recorded: {same}"
    assert all(alike.values()), f"nothing is said as it was recorded: {alike}"


# --- Native tools --------------------------------------------------------------------------------------


def _location(place: Json) -> UserLocation | None:
    if not isinstance(place, dict):
        return None
    return UserLocation(**{name: cast("str | None", value) for name, value in place.items() if name != "type"})


def _texts(value: Json) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, list) else ()


def _web(tool: Object) -> WebSearch:
    filters = cast("Object", tool.get("filters") or {})
    return WebSearch(
        search_context_size=cast("Any", tool.get("search_context_size")),
        user_location=_location(tool.get("user_location")),
        allowed_domains=_texts(filters.get("allowed_domains")),
        live=cast("bool | None", tool.get("external_web_access")),
        tool=cast("Any", tool["type"]),
    )


def _code(tool: Object) -> CodeInterpreter:
    container = tool["container"]
    if not isinstance(container, dict):
        return CodeInterpreter(container=str(container))
    return CodeInterpreter(
        file_ids=_texts(container.get("file_ids")), memory_limit=cast("Any", container.get("memory_limit"))
    )


def _names(value: Json) -> McpTools:
    given = cast("Object", value)
    return McpTools(names=_texts(given.get("tool_names")), read_only=cast("bool | None", given.get("read_only")))


def _mcp(tool: Object) -> RemoteMcp:
    rest: dict[str, Any] = {name: value for name, value in tool.items() if name != "type" and value is not None}
    if isinstance(tools := rest.get("allowed_tools"), list):
        rest["allowed_tools"] = tuple(cast("list[str]", tools))
    elif tools is not None:
        rest["allowed_tools"] = _names(tools)
    if isinstance(approval := rest.get("require_approval"), dict):
        rest["require_approval"] = ApprovalFor(
            **{name: _names(cast("Json", value)) for name, value in cast("dict[str, object]", approval).items()}
        )
    return RemoteMcp(**rest)


def _files(tool: Object) -> FileSearch:
    assert tool.keys() <= {"type", "vector_store_ids", "max_num_results"}, f"read these too: {sorted(tool)}"
    return FileSearch(
        vector_store_ids=_texts(tool["vector_store_ids"]), max_results=cast("int | None", tool.get("max_num_results"))
    )


def _image(tool: Object) -> ImageGeneration:
    rest: dict[str, Any] = {name: value for name, value in tool.items() if name != "type" and value is not None}
    return ImageGeneration(**rest)


READERS: Final[Mapping[str, Callable[[Object], NativeTool]]] = {
    "web_search": _web,
    "web_search_2025_08_26": _web,
    "web_search_preview": _web,
    "web_search_preview_2025_03_11": _web,
    "file_search": _files,
    "code_interpreter": _code,
    "image_generation": _image,
    "mcp": _mcp,
}


async def test_recorded_native_tools_are_sent_equivalently_from_typed_settings() -> None:
    seen: set[str] = set()
    for item in accepted("responses"):
        for tool in cast("list[Object]", cast("Object", item.asked).get("tools") or []):
            reader = READERS.get(str(tool.get("type")))
            if item.provider == "openrouter" or reader is None:
                continue
            transport = MockTransport()
            ready = OpenAIBuilder().with_transport(transport).with_native_tools(reader(tool)).with_model("m")
            said = rebuild({"input": "Hi", "model": "m"}, "openai-responses")
            await ask(ready.build(), said, transport, ANSWER)
            sent = cast("Object", transport.last.json())
            assert not unlike_responses({"tools": [tool]}, {"tools": sent["tools"]}), item.id
            seen.add(str(tool["type"]))
    assert {"web_search", "file_search", "code_interpreter", "mcp"} <= seen
