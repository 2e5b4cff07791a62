"""Recorded background responses, through the provider: the request, and the polls or the stream."""

from __future__ import annotations

import pytest
from chat_core.messages import Messages, Turn
from chat_core.options import ChatOptions
from chat_core.provider import NO_TOOLS
from chat_core.testing import MockTransport
from chat_responses import ResponsesBuilder, ResponsesOptions

from ..exchanges import require_wire
from ..recordings import Recorded, recorded

require_wire()

pytestmark = pytest.mark.anyio

NAME = "pydantic-ai/openai/models__test_openai_responses__test_background_mode_"
OPTIONS = ChatOptions(extras=(ResponsesOptions(background=True),))


def exchanges_of(name: str) -> list[Recorded]:
    found = [item for item in recorded("responses") if f"{NAME}{name}_vcr#" in item.id]
    assert found
    return found


@pytest.fixture(autouse=True)
def without_delays(monkeypatch: pytest.MonkeyPatch) -> None:
    async def sleep(_delay: float) -> None:
        return None

    monkeypatch.setattr("chat_responses.background.anyio.sleep", sleep)


async def run(items: list[Recorded], *, streamed: bool) -> tuple[Turn, list[str]]:
    """Serve the recorded responses, and return the turn and the requests."""
    transport = MockTransport()
    for item in items:
        transport.answer(200, {}, item.body)
    model = ResponsesBuilder().with_base_url("https://host/v1").with_model("m").with_transport(transport).build()
    messages = Messages.from_user("Hi")
    if not streamed:
        turn = await model.complete(messages, NO_TOOLS, OPTIONS, None)
    else:
        async with model.stream(messages, NO_TOOLS, OPTIONS, None) as stream:
            async for _ in stream:
                pass
            turn = stream.close()
    return turn, [f"{request.request.method} {request.path}" for request in transport.requests]


async def test_a_recorded_background_response_is_polled() -> None:
    items = exchanges_of("reasoning")
    turn, requests = await run(items, streamed=False)
    assert turn.finish_reason == "stop"
    assert turn.text
    assert turn.metadata is not None
    assert requests == ["POST /v1/responses", f"GET /v1/responses/{turn.metadata.id}"]


async def test_a_recorded_background_response_is_streamed() -> None:
    turn, requests = await run(exchanges_of("streaming"), streamed=True)
    assert turn.finish_reason == "stop"
    assert turn.text
    assert requests == ["POST /v1/responses"]
