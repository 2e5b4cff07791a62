"""The address, headers and body of each preset are compared with recorded requests to its vendor."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatch
from typing import Any, Final, cast

import pytest
from chat_completions import PRESETS as COMPLETIONS_PRESETS
from chat_completions import HuggingFaceBuilder, OllamaBuilder, vendor_builder
from chat_completions.codec import decode
from chat_completions.presets import AnyPreset
from chat_core.errors import ChatError, ProviderError
from chat_core.messages import Messages
from chat_core.options import ChatOptions
from chat_core.provider import NO_TOOLS
from chat_core.testing import MockTransport
from chat_core.transport.protocol import Transport
from chat_core.transport.values import Headers
from chat_openai import AzureBuilder, OpenAIBuilder, OpenRouterBuilder
from chat_openai.presets import VENDORS
from chat_testing import Exchange, LoopbackServer

from .exchanges import require_wire
from .normalise import Object, differences
from .rebuild import rebuild, rebuild_embeddings
from .recordings import Recorded, recorded, suite
from .test_rejections import RULES, WORTH_ANOTHER_TRY

require_wire()
pytestmark = pytest.mark.anyio

PRESETS: Final[Mapping[str, AnyPreset]] = dict(
    sorted({**COMPLETIONS_PRESETS, **{name: vendor.preset for name, vendor in VENDORS.items()}}.items())
)

OWN_BUILDERS: Final[dict[str, Any]] = {
    "huggingface": HuggingFaceBuilder,
    "ollama": OllamaBuilder,
    "openai": lambda: OpenAIBuilder().with_completions(),
    "openrouter": lambda: OpenRouterBuilder().with_completions(),
}


def start(name: str) -> Any:
    """Begin building a model of the preset's vendor, on the wire of the recordings."""
    preset = PRESETS[name]
    return OWN_BUILDERS[name]() if preset.own_builder else vendor_builder(preset)


ELSEWHERE: Final = {
    "azure": ("*/models/chat/completions*", "*//openai/*", "*/openai/deployments/*/chat/completions"),
    "deepseek": ("*/beta/chat/completions", "*/v1/chat/completions"),
    "huggingface": ("*/together/v1/*", "*/nebius/v1/*"),
    "together": ("*//api.together.xyz/*",),
}
"""Other addresses of a vendor, by the name of its preset: of another API, of a beta, with a version or without."""

ELSEWHERE_BY: Final = {"ollama": "with_host", "openai": "with_gateway", "openrouter": "with_gateway"}
"""The method that sends the requests of a vendor to another host, where it is not `with_base_url`."""

OTHERWISE: Final = {
    "*": (
        # Our request includes the usage of a stream where the vendor allows it, and `strict` if the caller sets it.
        "stream_options",
        "tools[[]*[]].function.strict",
    ),
    "azure": ("model", "max_tokens", "max_completion_tokens"),
    "deepseek": ("messages[[]*[]].reasoning_content",),
    "groq": ("messages[[]*[]].tool_calls[[]*[]].function.arguments.json",),
    "mistral": ("messages", "messages[[]*[]].tool_call*"),
    "ollama": ("response_format.json_schema.strict",),
    "openai": ("max_tokens", "max_completion_tokens"),
    "openrouter": (
        "max_tokens",
        "max_completion_tokens",
        "reasoning",
        "reasoning_effort",
        "messages[[]*[]].role",
        "*.cache_control",
        "*[[]0[]].cache_control",
    ),
    "xai": ("max_tokens", "max_completion_tokens"),
}
"""Where a vendor takes what its preset says, and something else too, which some recorded client has said."""


@pytest.fixture
def anyio_backend() -> str:
    """Use one event loop, because the requests do not depend on it."""
    return "asyncio"


def of_this_wire(item: Recorded) -> bool:
    asked = item.asked or {}
    return (item.path.endswith("/chat/completions") and "messages" in asked) or (
        item.path.endswith("/embeddings") and "input" in asked
    )


def accepted(name: str) -> Iterator[Recorded]:
    for item in recorded("chat-completions", "embeddings"):
        if item.provider == name and item.accepted and of_this_wire(item):
            yield item


RECORDED: Final = sorted({name for name in PRESETS if any(True for _ in accepted(name))})


def built(name: str, transport: Transport, model: str = "m", dimensions: int | None = None, item: Any = None) -> Any:
    """Build the provider of the preset's vendor. For Azure, the request selects the API.

    The vendors of `chat_openai` have providers of their own for embeddings.
    """
    embeds = item is not None and item.path.endswith("/embeddings")
    if name == "azure":
        return built_for_azure(transport, model, dimensions, item)
    if name in VENDORS and embeds:
        vectors: Any = OpenAIBuilder() if name == "openai" else OpenRouterBuilder()
        vectors = vectors.with_embeddings(model=model, dimensions=dimensions)
        return vectors.with_api_key("k").with_transport(transport).build()
    builder: Any = start(name).with_api_key("k").with_transport(transport).with_model(model)
    if dimensions is not None:
        builder = builder.with_embeddings(dimensions=dimensions)
    return builder.build()


def built_for_azure(transport: Transport, model: str, dimensions: int | None, item: Any) -> Any:
    builder = AzureBuilder().with_api_key("k").with_transport(transport)
    endpoint = builder.with_endpoint(f"https://{item.host}" if item else "https://name.openai.azure.com")
    version, deployment = None, model
    if item is not None and "/deployments/" in item.path:
        version, deployment = version_of(item) or "2024-10-21", item.path.split("/deployments/")[1].split("/")[0]
    if item is not None and item.path.endswith("/embeddings"):
        return endpoint.with_embeddings(model=deployment, dimensions=dimensions, api_version=version).build()
    if version is not None:
        return endpoint.with_deployment(deployment, api_version=version).with_completions().build()
    return endpoint.with_model(model).with_completions().build()


def version_of(item: Recorded) -> str | None:
    found = re.search(r"'api-version': '([^']+)'", item.query)
    return found[1] if found else None


def address(item: Recorded) -> str:
    version = version_of(item)
    return f"https://{item.host}{item.path}{f'?api-version={version}' if version else ''}"


async def sent_for(item: Recorded) -> tuple[MockTransport, list[str]]:
    """Return the request of the preset's provider for a recorded request, and their differences."""
    asked = cast("Object", item.asked)
    transport = MockTransport()
    if item.path.endswith("/embeddings"):
        texts = rebuild_embeddings(asked, item.provider)
        transport.answer(body={"data": [{"embedding": [0.5] * (texts.dialect.dimensions or 1)}] * len(texts.texts)})
        model, dimensions = texts.dialect.model, texts.dialect.dimensions
        await built(item.provider, transport, model, dimensions, item).embed(texts.texts, texts.options)
    else:
        said = rebuild(asked, item.provider)
        provider = built(item.provider, transport, said.dialect.model or "m", item=item)
        ask = (said.messages, said.tools, said.options, said.output)
        if said.stream:
            piece = {"index": 0, "delta": {"content": "Hi"}, "finish_reason": "stop"}
            transport.events(json.dumps({"id": "c", "choices": [piece]}), "[DONE]")
            async with provider.stream(*ask) as stream:
                async for _ in stream:
                    pass
            assert stream.close().text == "Hi"
        else:
            choice = {"index": 0, "message": {"content": "Hi"}, "finish_reason": "stop"}
            transport.answer(body={"id": "c", "choices": [choice]})
            await provider.complete(*ask)
    body = cast("Object", transport.last.json())
    return transport, [difference.path for difference in differences(asked, body)]


# --- Requests ------------------------------------------------------------------------------------------


def test_presets_with_recordings_are_marked_as_recorded() -> None:
    assert [name for name, preset in PRESETS.items() if preset.recorded] == RECORDED


@pytest.mark.parametrize("name", RECORDED)
async def test_a_request_has_the_recorded_url_and_key_header(name: str) -> None:
    same, others = 0, ELSEWHERE.get(name, ())
    for item in accepted(name):
        if not item.host:
            continue
        transport, _ = await sent_for(item)
        there, here = address(item), transport.last.url.replace("http://localhost", "https://localhost")
        if there == here:
            same += 1
        else:
            assert any(fnmatch(there, pattern) for pattern in others), f"{item.id}: {there}, and ours {here}"
        keys = {"authorization", "api-key"} & {header.lower() for header in item.asked_headers}
        assert keys <= {PRESETS[name].key_header}, item.id
        assert PRESETS[name].key_header in transport.last.headers
    assert same or name == "llamacpp", "its recordings do not say where they were made"


@pytest.mark.parametrize("name", RECORDED)
async def test_accepted_requests_are_encoded_as_recorded_except_allowed_differences(name: str) -> None:
    allowed = (*OTHERWISE["*"], *OTHERWISE.get(name, ()))
    alike: dict[tuple[str, bool], bool] = {}
    used: set[str] = set()
    for item in accepted(name):
        _, unlike = await sent_for(item)
        for path in unlike:
            fitting = [pattern for pattern in allowed if fnmatch(path, pattern)]
            assert fitting, f"{item.id}: {path}"
            used.update(fitting)
        kind = (item.path.rpartition("/")[2], item.stream)
        alike[kind] = alike.get(kind, False) or not unlike
    assert all(alike.values()), f"nothing is said as it was recorded: {alike}"
    assert used >= set(OTHERWISE.get(name, ())), "a difference that is listed is gone"


# --- Answers -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in RECORDED if name != "azure"])
async def test_the_provider_of_a_preset_decodes_recorded_responses(name: str) -> None:
    whole = [item for item in accepted(name) if not item.stream and item.path.endswith("/chat/completions")][:3]

    def serve(exchange: Exchange) -> None:
        item = whole[int(exchange.path.split("/")[1])]
        exchange.answer(item.status, {"content-type": "application/json"}, item.body)

    with LoopbackServer(serve) as server:
        for number, item in enumerate(whole):
            builder: Any = start(name).with_api_key("k").with_model("m")
            base = f"http://{server.host}/{number}"
            builder = getattr(builder, ELSEWHERE_BY.get(name, "with_base_url"))(base)
            async with builder.build() as provider:
                turn = await provider.complete(Messages.from_user("Hi"), NO_TOOLS, ChatOptions(), None)
            assert (turn.text, turn.usage) == ((known := decode(item.body, name)).text, known.usage), item.id
            assert turn.metadata is not None
            assert turn.metadata.provider == name
    assert whole or name in {"together", "llamacpp"}


# --- Refusals ------------------------------------------------------------------------------------------

ROWS: Final = [
    row
    for row in suite("rejections.jsonl", "chat-completions", "embeddings")
    if row["provider"] in RECORDED and str(row["url_path"]).endswith(("/chat/completions", "/embeddings"))
]


def expected(status: int, text: str) -> type[ProviderError]:
    return next(
        kind
        for statuses, words, kind in RULES
        if re.fullmatch(statuses, str(status)) and re.search(words, text, re.IGNORECASE)
    )


async def refused(name: str, row: Object, *, streamed: bool) -> ProviderError:
    text = row["body"] if isinstance(row["body"], str) else json.dumps(row["body"])
    status = cast("int", row["status"])
    transport = MockTransport()
    transport.answer(status, cast("dict[str, str]", row["headers"]), text.encode())
    provider = built(name, transport)
    ask = (Messages.from_user("Hi"), NO_TOOLS, ChatOptions(), None)
    with pytest.raises(ChatError) as error:
        if streamed:
            async with provider.stream(*ask):
                pass
        else:
            await provider.complete(*ask)
    assert isinstance(error.value, ProviderError)
    return error.value


@pytest.mark.parametrize("name", sorted({str(row["provider"]) for row in ROWS}))
async def test_a_recorded_error_response_raises_the_expected_error(name: str) -> None:
    for row in ROWS:
        if row["provider"] != name:
            continue
        status, text = cast("int", row["status"]), json.dumps(row["body"])
        headers = Headers(cast("dict[str, str]", row["headers"]))
        for streamed in (False, True):
            error = await refused(name, row, streamed=streamed)
            kind = expected(status, text)
            assert type(error) is kind, f"{row['from']}: {error}"
            assert error.status == status
            again = (status in WORTH_ANOTHER_TRY and kind.retryable) or "tool_use_failed" in text
            assert error.retryable is {"true": True, "false": False}.get(headers.get("x-should-retry", ""), again)
            assert name in str(error)
