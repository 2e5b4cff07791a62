"""Errors contain no credentials that a server repeats, at any place, in any encoding, and over a real connection."""

from __future__ import annotations

import base64
import json
import logging
import re
from collections.abc import Callable
from html import escape
from pathlib import Path
from traceback import walk_tb
from typing import Any
from urllib.parse import quote

import httpx
import httpx2
import pytest
from chat_claude import ClaudeBuilder
from chat_completions import CompletionsBuilder
from chat_core.errors import ChatError
from chat_core.messages import Messages
from chat_core.options import ChatOptions
from chat_core.provider import NO_TOOLS, ChatProvider
from chat_core.transport import Request
from chat_gemini import GeminiBuilder
from chat_responses import ResponsesBuilder
from chat_testing import Exchange, LoopbackServer
from chat_transport_httpx import HttpxTransport

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio"])]

SECRET = 'Zm9v/"odd"+key=77.q~&7'
PROVIDERS: dict[str, Callable[[str], Any]] = {
    "claude": lambda url: ClaudeBuilder().with_base_url(url).with_model("m").with_api_key(SECRET),
    "completions": lambda url: CompletionsBuilder().with_base_url(url).with_model("m").with_api_key(SECRET),
    "gemini": lambda url: GeminiBuilder().with_base_url(url).with_model("m").with_api_key(SECRET),
    "responses": lambda url: ResponsesBuilder().with_base_url(url).with_model("m").with_api_key(SECRET),
}
FORMS = {
    "raw": SECRET,
    "bearer": f"Bearer {SECRET}",
    "json": json.dumps(SECRET),
    "url": quote(SECRET, safe=""),
    "lower-url": quote(SECRET, safe="").lower().replace("zm9v", "Zm9v"),
    "html": escape(SECRET),
    "base64": base64.b64encode(SECRET.encode()).decode(),
    "unicode": "".join([f"\\u{ord(character):04x}" for character in SECRET]),
    "truncated": f"{SECRET[:14]}...",
}
PLACES: dict[str, tuple[int, dict[str, str], str]] = {
    # status, headers and body; `@` is where the credential is
    "refusal": (401, {"content-type": "application/json"}, '{"error": {"message": "no @", "code": "@"}}'),
    "text": (503, {"content-type": "text/plain"}, "no @"),
    "header": (400, {"content-type": "application/json", "x-request-id": "@"}, '{"error": "no"}'),
    "location": (302, {"location": "http://elsewhere/@?key=@"}, ""),
    "page": (200, {"content-type": "text/html"}, "<p>no @</p>"),
    "error-in-stream": (
        200,
        {"content-type": "text/event-stream"},
        'event: error\ndata: {"type": "error", "error": {"message": "no @", "type": "x"}}\n\n',
    ),
    "broken-event": (200, {"content-type": "text/event-stream"}, "data: {no @\n\n"),
}


def shown(error: BaseException) -> str:
    """Return the texts of an error, its causes and the variables in their stack frames, except those of this test."""
    texts: list[str] = []
    current: BaseException | None = error
    while current is not None:
        texts += [str(current), repr(current), repr(vars(current))]
        for frame, _ in walk_tb(current.__traceback__):
            if frame.f_globals["__name__"] != __name__:
                texts += [repr(value) for value in frame.f_locals.values()]
        current = current.__cause__ or current.__context__
    return "\n".join(texts)


async def failure(provider: ChatProvider, *, streaming: bool) -> ChatError:
    with pytest.raises(ChatError) as caught:
        if not streaming:
            await provider.complete(Messages.from_user("Hi"), NO_TOOLS, ChatOptions(), None)
        else:
            async with provider.stream(Messages.from_user("Hi"), NO_TOOLS, ChatOptions(), None) as stream:
                async for _ in stream:
                    pass
                stream.close()
    return caught.value


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("vendor", PROVIDERS)
async def test_credentials_echoed_by_a_server_do_not_appear_in_errors_or_frames(
    anyio_backend: str, vendor: str, place: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert anyio_backend
    status, headers, body = PLACES[place]
    form = ""

    def serve(exchange: Exchange) -> None:
        exchange.head(status, {name: value.replace("@", form) for name, value in headers.items()})
        exchange.chunk(body.replace("@", form).encode())
        exchange.end()

    caplog.set_level(logging.INFO)
    with LoopbackServer(serve) as server:
        transport = HttpxTransport(trust_env=False)
        for name, form in FORMS.items() if vendor == "completions" else list(FORMS.items())[:2]:
            for streaming in (False, True):
                provider = PROVIDERS[vendor](f"http://{server.host}").with_transport(transport).build()
                text = shown(await failure(provider, streaming=streaming)) + caplog.text
                secret = SECRET[:14] if name == "truncated" else form
                assert secret not in text, (name, streaming)
                assert repr(secret)[1:-1] not in text, (name, streaming)
                assert SECRET not in text, (name, streaming)
        await transport.aclose()


async def test_the_documented_loggers_are_those_that_write_the_headers_of_responses(
    anyio_backend: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert anyio_backend
    page = (Path(__file__).parents[2] / "docs" / "security.md").read_text()
    caplog.set_level(logging.DEBUG)

    with LoopbackServer(lambda exchange: exchange.answer(200, {"x-echo": "sk-in-a-header"}, b"{}")) as server:
        for client in (None, httpx.AsyncClient(), httpx2.AsyncClient()):
            transport = HttpxTransport(client)
            await transport.send(Request("POST", "http", server.host, "/", (), b"{}"))
            await transport.aclose()
            if client is not None:
                await client.aclose()

    loggers = {record.name.partition(".")[0] for record in caplog.records if "sk-in-a-header" in record.getMessage()}
    assert loggers == set(re.findall(r"`(httpcore\d?)`", page)) == {"httpcore", "httpcore2"}
