"""Every recorded response, served on the loopback interface and read through the default transport."""

from __future__ import annotations

import pytest
from chat_core.errors import ChatError, NetworkError, StreamTruncatedError
from chat_core.messages import Messages, Turn
from chat_core.options import ChatOptions
from chat_core.provider import NO_TOOLS
from chat_responses import ResponsesBuilder, ResponsesProvider
from chat_testing import Exchange, LoopbackServer
from chat_transport_httpx import HttpxTransport

from ..exchanges import require_wire
from ..outcomes import same_outcome
from ..recordings import chunks
from .decoding import PROVIDER, Answer, answers, read, streams, summary

require_wire()

OVER_HTTP = tuple([answer for answer in answers() if not answer.frames])


def serve(exchange: Exchange) -> None:
    """Answer `/<number>/…` with the recorded response of that number."""
    answer = OVER_HTTP[int(exchange.path.split("/")[1])]
    kind = "text/event-stream" if answer.streamed else "application/json"
    headers = {name: value for name, value in answer.headers.items() if name.lower() in {"retry-after", "x-request-id"}}
    exchange.head(answer.status, {"content-type": kind, **headers})
    for chunk in chunks(answer.body, answer.id):
        exchange.chunk(chunk)
    exchange.end()


async def ask(provider: ResponsesProvider, answer: Answer) -> Turn | ChatError:
    messages = Messages.from_user("Hi")
    try:
        if not answer.stream:
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
            for number, answer in enumerate(OVER_HTTP):
                builder = ResponsesBuilder().with_base_url(f"http://{server.host}/{number}")
                provider = builder.with_provider_name(PROVIDER).with_model("m").with_transport(transport).build()
                got = await ask(provider, answer)
                assert same_outcome(got, read(answer), summary), f"{answer.id}: {got} | {read(answer)}"
        finally:
            await transport.aclose()
        assert server.connections < 20, "answers that were read to their end keep their connection"


@pytest.mark.anyio
async def test_a_connection_lost_in_mid_stream_never_gives_an_answer() -> None:
    some = streams()[::17]

    def cut(exchange: Exchange) -> None:
        answer = OVER_HTTP[int(exchange.path.split("/")[1])]
        exchange.head(200, {"content-type": "text/event-stream"})
        exchange.chunk(answer.body[: len(answer.body) // 5])
        if exchange.path.split("/")[2] == "clean":
            exchange.end()

    with LoopbackServer(cut) as server:
        for answer in some:
            for how, kind in (("clean", StreamTruncatedError), ("broken", NetworkError)):
                base = f"http://{server.host}/{OVER_HTTP.index(answer)}/{how}"
                async with ResponsesBuilder().with_base_url(base).with_model("m").build() as provider:
                    got = await ask(provider, answer)
                assert isinstance(got, kind), f"{answer.id}: {got}"
                assert got.retryable
                assert got.partial is not None
