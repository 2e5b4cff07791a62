"""Every recorded exchange with Vertex AI, through the builders of chat-vertex: equal addresses, requests and turns."""

from __future__ import annotations

import json
import re
from typing import Any, cast

import pytest
from chat_core.errors import ChatError
from chat_core.messages import Messages, Turn
from chat_core.options import ChatOptions
from chat_core.provider import NO_TOOLS
from chat_core.testing import MockTransport
from chat_vertex import VertexBuilder

from .claude import answers as claude
from .claude import encoding as claude_requests
from .claude.rebuild import rebuild as rebuild_claude
from .exchanges import require_wire
from .gemini import decoding as gemini
from .gemini import encoding as gemini_requests
from .gemini.rebuild import rebuild as rebuild_gemini
from .outcomes import same_outcome
from .recordings import Recorded

require_wire()

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio"])]

PLACE = re.compile(r"/v1(?:beta1)?/projects/[^/]+/locations/[^/]+(?P<rest>/publishers/[a-z]+/models/(?P<model>.+):\w+)")
CLAUDE = [item for item in claude.answers() if item.provider == "vertex"]
GEMINI = [item for item in gemini.answers() if item.provider == "vertex" and item.api == "generate-content"]


def region_of(item: Recorded) -> str:
    """Return the region in the recorded host, or `global` if the request is not known."""
    return item.host.removesuffix("aiplatform.googleapis.com").rstrip("-") or "global"


def builder_for(item: Recorded, transport: MockTransport) -> tuple[VertexBuilder, str]:
    """Return the builder for the recorded address, and the name of the model."""
    place = PLACE.fullmatch(item.path)
    builder = VertexBuilder().with_project("a-project", region_of(item)).with_token("t").with_transport(transport)
    return builder, "m" if place is None else place["model"]


def answering(item: Recorded) -> MockTransport:
    transport = MockTransport()
    kind = "text/event-stream" if item.streamed and not item.body.lstrip().startswith(b"[") else "application/json"
    headers = {name: value for name, value in item.headers.items() if name.lower() in {"retry-after", "request-id"}}
    transport.answer(item.status, {"content-type": kind, **headers}, body=[item.body])
    return transport


async def ask(provider: Any, item: Recorded, said: Any = None) -> Turn | ChatError:
    asked = (Messages.from_user("Hi"), NO_TOOLS, ChatOptions(), None)
    if said is not None:
        asked = (said.messages, said.tools, said.options, said.output)
    try:
        if not item.stream:
            return cast("Turn", await provider.complete(*asked))
        async with provider.stream(*asked) as stream:
            async for _ in stream:
                pass
            return cast("Turn", stream.close())
    except ChatError as error:
        return error


def known(items: list[Recorded]) -> list[Recorded]:
    """Return the accepted exchanges that were recorded with the host of Vertex AI."""
    return [item for item in items if item.accepted and item.host.endswith("aiplatform.googleapis.com")]


def require_place(transport: MockTransport, item: Recorded) -> None:
    place = PLACE.fullmatch(item.path)
    assert place is not None
    request = transport.last.request
    assert request.host == item.host
    prefix = f"/v1/projects/a-project/locations/{region_of(item)}"
    assert request.path.partition("?")[0] == prefix + place["rest"]


@pytest.mark.parametrize("item", CLAUDE, ids=lambda item: item.id)
async def test_a_recorded_claude_response_gives_the_same_turn(item: Recorded, anyio_backend: str) -> None:
    assert anyio_backend
    builder, model = builder_for(item, answering(item))
    provider = builder.with_claude_model(model).with_provider_name(claude.PROVIDER).build()

    got, expected = await ask(provider, item), claude.read(item)
    assert same_outcome(got, expected, claude.summary), f"{got} | {expected}"


@pytest.mark.parametrize("item", GEMINI, ids=lambda item: item.id)
async def test_a_recorded_gemini_response_gives_the_same_turn(item: Recorded, anyio_backend: str) -> None:
    assert anyio_backend
    builder, model = builder_for(item, answering(item))
    ready = builder.with_gemini_model(model).with_provider_name(gemini.PROVIDER)
    if item.streamed and gemini.framing_of(item) == "json-array":
        ready = ready.with_json_array_streams()

    got, expected = await ask(ready.build(), item), gemini.read(item)
    assert same_outcome(got, expected, gemini.summary), f"{got} | {expected}"


@pytest.mark.parametrize("item", known(CLAUDE), ids=lambda item: item.id)
async def test_a_claude_request_equals_the_recorded_request(item: Recorded, anyio_backend: str) -> None:
    assert anyio_backend
    assert item.asked is not None
    transport = answering(item)
    builder, model = builder_for(item, transport)
    said = rebuild_claude(item.asked)
    await ask(builder.with_claude_model(model).with_provider_name(said.dialect.provider).build(), item, said)

    require_place(transport, item)
    assert json.loads(transport.last.request.body) == claude_requests.encoded(item)


@pytest.mark.parametrize("item", known(GEMINI), ids=lambda item: item.id)
async def test_a_gemini_request_equals_the_recorded_request(item: Recorded, anyio_backend: str) -> None:
    assert anyio_backend
    assert item.asked is not None
    transport = answering(item)
    builder, model = builder_for(item, transport)
    said = rebuild_gemini(item.asked, item.provider)
    ready = builder.with_gemini_model(model).with_provider_name(item.provider)
    if said.dialect.schemas == "openapi":
        ready = ready.with_openapi_schemas()
    await ask(ready.build(), item, said)

    require_place(transport, item)
    assert json.loads(transport.last.request.body) == gemini_requests.encoded(item)


def test_all_recordings_are_present(anyio_backend: str) -> None:
    assert anyio_backend
    assert len(CLAUDE) >= 20
    assert len(GEMINI) >= 50
    assert len(known(CLAUDE)) >= 8
    assert len(known(GEMINI)) >= 15
