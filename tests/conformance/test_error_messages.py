"""Situations in which a request fails, for each vendor: the class of the error, and what its message tells."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from threading import Event
from typing import Any

import pytest
from chat_claude import ClaudeBuilder
from chat_completions import CompletionsBuilder
from chat_core import errors
from chat_core.errors import ChatError, UsageError
from chat_core.messages import Messages
from chat_core.options import ChatOptions
from chat_core.provider import NO_TOOLS, ChatProvider
from chat_gemini import GeminiBuilder
from chat_openai import OpenAIBuilder
from chat_responses import ResponsesBuilder
from chat_testing import Exchange, LoopbackServer
from chat_transport_httpx import HttpxTransport

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio"])]

VENDORS: dict[str, Callable[[str], Any]] = {
    "claude": lambda url: ClaudeBuilder().with_base_url(url).with_model("m").with_api_key("key-1234567"),
    "completions": lambda url: CompletionsBuilder().with_base_url(url).with_model("m").with_api_key("key-1234567"),
    "gemini": lambda url: GeminiBuilder().with_base_url(url).with_model("m").with_api_key("key-1234567"),
    "openai": lambda url: OpenAIBuilder().with_gateway(url).with_model("m").with_api_key("key-1234567"),
    "responses": lambda url: ResponsesBuilder().with_base_url(url).with_model("m").with_api_key("key-1234567"),
}
WAITING = Event()


@dataclass(frozen=True)
class Situation:
    """A response of the server, and the error for it.

    Attributes:
        error: the class of the error.
        words: texts that the message must have; `@` is the address of the server without the query.
        status, headers: of the response; status 0 sends nothing.
        says: the vendor's words, in the error format of the vendor.
        body: the body, if it is not in the error format of the vendor.
        how: the forms of the request that meet this situation.
    """

    error: type[ChatError]
    words: tuple[str, ...]
    status: int
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    says: str | None = None
    body: bytes = b""
    how: tuple[str, ...] = ("whole", "streamed")


HTML = {"content-type": "text/html"}
EMPTY = {"content-type": "application/json"}
SITUATIONS: dict[str, Situation] = {
    "wrong key": Situation(
        errors.AuthenticationError, ("401", "Bad key.", "check that the API key"), 401, says="Bad key."
    ),
    "unpaid": Situation(errors.QuotaExceededError, ("402", "Pay.", "the balance of the account"), 402, says="Pay."),
    "forbidden": Situation(errors.PermissionDeniedError, ("403", "No.", "what the API key"), 403, says="No."),
    "no model": Situation(
        errors.NotFoundError, ("404", "No m.", "name of the model and the base URL"), 404, says="No m."
    ),
    "page not found": Situation(
        errors.NotFoundError, ("404", "nginx", "base URL"), 404, HTML, body=b"<html>404 nginx</html>"
    ),
    "no such method": Situation(errors.InvalidRequestError, ("405", "it said nothing", "next step"), 405, HTML),
    "too large": Situation(
        errors.InvalidRequestError, ("413", "Too Large", "files"), 413, HTML, body=b"<html>413 Too Large</html>"
    ),
    "bad option": Situation(errors.InvalidRequestError, ("400", "Bad x.", "check the options"), 400, says="Bad x."),
    "too long": Situation(
        errors.ContextLengthError,
        ("400", "maximum context length", "with_context()"),
        400,
        says="This model's maximum context length is 8192 tokens, however you requested 9000 tokens.",
    ),
    "too many requests": Situation(errors.RateLimitedError, ("429", "Slow.", "with_retry()"), 429, says="Slow."),
    "too many requests, and a wait": Situation(
        errors.RateLimitedError, ("429", "Slow."), 429, {"retry-after": "7"}, says="Slow."
    ),
    "server error": Situation(errors.ServerError, ("500", "Oops.", "try again later"), 500, says="Oops."),
    "bad gateway": Situation(errors.ServerError, ("502", "Bad gateway"), 502, HTML, body=b"<html>Bad gateway</html>"),
    "nothing said": Situation(errors.OverloadedError, ("503", "it said nothing", "try again later"), 503, EMPTY),
    "gateway timeout": Situation(errors.ServerError, ("504", "try again later"), 504, HTML, body=b"<html></html>"),
    "overloaded": Situation(errors.OverloadedError, ("529", "Busy.", "try again later"), 529, says="Busy."),
    "redirect": Situation(
        errors.ProviderError,
        ("307", "https://other.example/v2", "not followed", "check the base URL"),
        307,
        {"location": "https://user@other.example/v2?key=1"},
    ),
    "login page": Situation(
        errors.InvalidResponseError,
        ("POST @", "'text/html'", "<title>Login"),
        200,
        HTML,
        body=b"<title>Login</title>",
    ),
    "plain text": Situation(
        errors.InvalidResponseError,
        ("POST @", "'text/plain'", "b'ok'"),
        200,
        {"content-type": "text/plain"},
        body=b"ok",
    ),
    "nothing": Situation(
        errors.InvalidResponseError, ("POST @", "200", "is empty", "base URL"), 200, EMPTY, how=("whole",)
    ),
    "cut JSON": Situation(
        errors.InvalidResponseError, ("POST @", "not JSON", '{"id": '), 200, EMPTY, body=b'{"id": ', how=("whole",)
    ),
    "silence": Situation(
        errors.RequestTimeoutError, ("POST @", "no data within 0.1 seconds", "ChatOptions(timeout=…)"), 0
    ),
}


def body_of(vendor: str, situation: Situation) -> bytes:
    """The vendor's words in its error format."""
    if situation.says is None:
        return situation.body
    error: dict[str, object] = {"message": situation.says}
    if vendor == "gemini":
        error["code"] = situation.status
    return json.dumps({"error": error}).encode()


async def failure(provider: ChatProvider, options: ChatOptions, *, streaming: bool) -> ChatError:
    with pytest.raises(ChatError) as caught:
        if not streaming:
            await provider.complete(Messages.from_user("Hi"), NO_TOOLS, options, None)
        else:
            async with provider.stream(Messages.from_user("Hi"), NO_TOOLS, options, None) as stream:
                async for _ in stream:
                    pass
                stream.close()
    return caught.value


@pytest.mark.parametrize("vendor", VENDORS)
async def test_an_error_message_explains_what_happened_and_what_to_do(anyio_backend: str, vendor: str) -> None:
    assert anyio_backend
    situation = SITUATIONS["wrong key"]

    def serve(exchange: Exchange) -> None:
        if not situation.status:
            WAITING.wait(0.3)
            return
        exchange.head(situation.status, {"content-type": "application/json", **situation.headers})
        if body := body_of(vendor, situation):
            exchange.chunk(body)
        exchange.end()

    with LoopbackServer(serve) as server:
        transport = HttpxTransport(trust_env=False)
        provider = VENDORS[vendor](f"http://{server.host}/v1?secret=in-the-query").with_transport(transport).build()
        for name, situation in SITUATIONS.items():
            options = ChatOptions() if situation.status else ChatOptions(timeout=0.1)
            for how in situation.how:
                error = await failure(provider, options, streaming=how == "streamed")
                assert type(error) is situation.error, (name, how, error)
                for words in situation.words:
                    assert words.replace("@", f"http://{server.host}/v1") in str(error), (
                        name,
                        how,
                        words,
                        str(error),
                    )
                assert "in-the-query" not in str(error)
                assert " 0x" not in str(error)
                assert "cancel scope" not in str(error)
        await transport.aclose()


@pytest.mark.parametrize("vendor", VENDORS)
async def test_an_unreachable_server_is_named_in_the_error(anyio_backend: str, vendor: str) -> None:
    assert anyio_backend
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        host = f"127.0.0.1:{closed.getsockname()[1]}"
        transport = HttpxTransport(trust_env=False)
        provider = VENDORS[vendor](f"http://{host}/v1").with_transport(transport).build()
        error = await failure(provider, ChatOptions(), streaming=False)
        await transport.aclose()
    assert type(error) is errors.NetworkError
    assert f"POST http://{host}/v1" in str(error)


@pytest.mark.parametrize("vendor", VENDORS)
@pytest.mark.parametrize(("key", "shown"), [("“sk-abc”", "'“' (U+201C)"), ("sk-\nabc", r"'\n' (U+000A)")])
async def test_a_key_with_invalid_header_characters_is_rejected_without_quoting_it(
    anyio_backend: str, vendor: str, key: str, shown: str
) -> None:
    assert anyio_backend
    with pytest.raises(UsageError) as caught:
        VENDORS[vendor]("http://h").with_api_key(key)
    assert shown in str(caught.value)
    assert "copy the key again" in str(caught.value)
    assert "abc" not in str(caught.value)
