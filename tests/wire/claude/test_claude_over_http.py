"""Every recorded response of the Messages API, served on the loopback interface, through the default transport."""

from __future__ import annotations

import pytest
from chat_claude import ClaudeBuilder, ClaudeProvider
from chat_core.errors import ChatError, NetworkError, StreamTruncatedError
from chat_core.messages import Messages, Turn
from chat_core.options import ChatOptions
from chat_core.provider import NO_TOOLS
from chat_testing import Exchange, LoopbackServer
from chat_transport_httpx import HttpxTransport

from ..exchanges import require_wire
from ..outcomes import same_outcome
from ..recordings import Recorded, chunks
from .answers import BINARY, answers, counts, read, streams, summary

require_wire()


def served() -> list[Recorded]:
    return [*answers(), *counts()]


def serve(exchange: Exchange) -> None:
    """Answer `/<number>/…` with the recorded response of that number."""
    item = served()[int(exchange.path.split("/")[1])]
    kind = "text/event-stream" if item.streamed else "application/json"
    if item.body.startswith(BINARY):
        kind = "application/vnd.amazon.eventstream"
    headers = {name: value for name, value in item.headers.items() if name.lower() in {"retry-after", "request-id"}}
    exchange.head(item.status, {"content-type": kind, **headers})
    for chunk in chunks(item.body, item.id):
        exchange.chunk(chunk)
    exchange.end()


async def ask(provider: ClaudeProvider, item: Recorded) -> Turn | int | ChatError:
    messages = Messages.from_user("Hi")
    try:
        if item.api == "count-tokens":
            return await provider.count_tokens(messages)
        if not item.stream:
            return await provider.complete(messages, NO_TOOLS, ChatOptions(), None)
        async with provider.stream(messages, NO_TOOLS, ChatOptions(), None) as stream:
            async for _ in stream:
                pass
            return stream.close()
    except ChatError as error:
        return error


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_every_response_is_decoded_the_same_over_http(anyio_backend: str) -> None:
    assert anyio_backend
    with LoopbackServer(serve) as server:
        transport = HttpxTransport()
        try:
            for number, item in enumerate(served()):
                url = f"http://{server.host}/{number}"
                builder = ClaudeBuilder().with_base_url(url)
                if item.body.startswith(BINARY):
                    builder = ClaudeBuilder().with_bedrock("us-east-1", url=url).with_bearer_token("key")
                provider = builder.with_model("claude-opus-5").with_transport(transport).build()
                got = await ask(provider, item)
                assert same_outcome(got, read(item), summary), f"{item.id}: {got} | {read(item)}"
        finally:
            await transport.aclose()
        assert server.connections < 20, "answers that were read to their end keep their connection"


@pytest.mark.anyio
async def test_a_connection_lost_in_mid_stream_never_gives_an_answer() -> None:
    some = streams()[::13]

    def cut(exchange: Exchange) -> None:
        item = streams()[int(exchange.path.split("/")[1])]
        exchange.head(200, {"content-type": "text/event-stream"})
        exchange.chunk(item.body[: len(item.body) // 3])
        if exchange.path.split("/")[2] == "clean":
            exchange.end()

    with LoopbackServer(cut) as server:
        for item in some:
            for how, kind in (("clean", StreamTruncatedError), ("broken", NetworkError)):
                base = f"http://{server.host}/{streams().index(item)}/{how}"
                async with ClaudeBuilder().with_base_url(base).with_model("claude-opus-5").build() as provider:
                    got = await ask(provider, item)
                assert isinstance(got, kind), f"{item.id}: {got}"
                assert got.retryable
                assert got.partial is not None
