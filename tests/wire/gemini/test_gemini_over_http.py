"""Every recorded response, served on the loopback interface and read through the default transport."""

from __future__ import annotations

import pytest
from chat_core.errors import ChatError, ContentFilteredError, InvalidResponseError, NetworkError, StreamTruncatedError
from chat_core.messages import Messages
from chat_core.options import ChatOptions
from chat_core.provider import NO_TOOLS
from chat_core.transport.protocol import Transport
from chat_gemini import GeminiBuilder
from chat_testing import Exchange, LoopbackServer
from chat_transport_httpx import HttpxTransport

from ..exchanges import require_wire
from ..outcomes import same_outcome
from ..recordings import Recorded, chunks
from .decoding import PROVIDER, Answer, answers, framing_of, read, streams, summary, vectors_of

require_wire()


def serve(exchange: Exchange) -> None:
    """Answer `/<number>/…` with the recorded response of that number."""
    answer = answers()[int(exchange.path.split("/")[1])]
    sse = answer.streamed and framing_of(answer) == "sse"
    exchange.head(answer.status, {"content-type": "text/event-stream" if sse else "application/json"})
    for chunk in chunks(answer.body, answer.id):
        exchange.chunk(chunk)
    exchange.end()


async def ask(answer: Recorded, base: str, transport: Transport) -> Answer:
    builder = GeminiBuilder().with_base_url(base).with_provider_name(PROVIDER).with_transport(transport)
    messages = Messages.from_user("Hi")
    ready = builder.with_model("gemini-3")
    if answer.stream and framing_of(answer) == "json-array":
        ready = ready.with_json_array_streams()
    try:
        if answer.api == "embeddings":
            count = vectors_of(answer) if answer.accepted else 1
            return await builder.with_embedding_model("e").build().embed(["text"] * count, ChatOptions())
        if answer.api == "count-tokens":
            return await ready.build().count_tokens(messages)
        if not answer.stream:
            return await ready.build().complete(messages, NO_TOOLS, ChatOptions(), None)
        async with ready.build().stream(messages, NO_TOOLS, ChatOptions(), None) as stream:
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
            for number, answer in enumerate(answers()):
                got = await ask(answer, f"http://{server.host}/{number}", transport)
                assert same_outcome(got, read(answer), summary), f"{answer.id}: {got} | {read(answer)}"
        finally:
            await transport.aclose()
        assert server.connections < 20, "answers that were read to their end keep their connection"


@pytest.mark.anyio
async def test_a_connection_lost_in_mid_stream_never_gives_an_answer() -> None:
    some = [answer for answer in streams() if not isinstance(read(answer), ChatError)][::9]

    def cut(exchange: Exchange) -> None:
        answer = answers()[int(exchange.path.split("/")[1])]
        exchange.head(200, {"content-type": "text/event-stream"})
        exchange.chunk(answer.body[: min(len(answer.body) // 3, 200)])
        if exchange.path.split("/")[2] == "clean":
            exchange.end()

    with LoopbackServer(cut) as server:
        transport = HttpxTransport()
        for answer in some:
            for how in ("clean", "broken"):
                base = f"http://{server.host}/{answers().index(answer)}/{how}"
                got = await ask(answer, base, transport)
                assert isinstance(got, (StreamTruncatedError, NetworkError)), f"{answer.id}: {got}"
                assert not isinstance(got, (ContentFilteredError, InvalidResponseError))
                assert got.retryable
                assert got.partial is not None
        await transport.aclose()
