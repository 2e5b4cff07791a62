"""Keys that an async function returns: every builder calls it for each request, and no error contains the key."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest
from chat_claude import ClaudeBuilder
from chat_completions import PRESETS, CompletionsBuilder, HuggingFaceBuilder, OllamaBuilder, vendor_builder
from chat_core import ChatBuilder, ChatError, Messages, Retry
from chat_core.testing import MockTransport
from chat_gemini import GeminiBuilder
from chat_openai import AzureBuilder, OpenAIBuilder, OpenRouterBuilder
from chat_responses import ResponsesBuilder

pytestmark = pytest.mark.anyio
URL = "https://example.test/v1"


class Keys:
    """A source of keys that makes a new one for each request."""

    def __init__(self) -> None:
        self.count = 0

    async def __call__(self) -> str:
        self.count += 1
        return f"rotating-key-{self.count}\n"


def vendor(name: str) -> Any:
    builder: Any = vendor_builder(PRESETS[name])
    return builder.with_model("m").with_base_url(URL)


BUILDERS: dict[str, Callable[[], Any]] = {
    "claude": lambda: ClaudeBuilder().with_model("claude-sonnet-4-5"),
    "claude-gateway": lambda: ClaudeBuilder().with_model("m").with_base_url(URL),
    "gemini": lambda: GeminiBuilder().with_model("gemini-3-flash-preview"),
    "responses": lambda: ResponsesBuilder().with_model("m").with_base_url(URL),
    "completions": lambda: CompletionsBuilder().with_model("m").with_base_url(URL),
    "openai": lambda: OpenAIBuilder().with_model("gpt-5-mini"),
    "openai-completions": lambda: OpenAIBuilder().with_completions().with_model("gpt-5-mini"),
    "openrouter": lambda: OpenRouterBuilder().with_model("m"),
    "huggingface": lambda: HuggingFaceBuilder().with_model("m"),
    "ollama": lambda: OllamaBuilder().with_model("m"),
    **{name: partial(vendor, name) for name, preset in PRESETS.items() if not preset.own_builder},
}


def keys_sent(transport: MockTransport) -> list[str]:
    values = [dict(request.headers) for request in transport.requests]
    return [" ".join([text for text in headers.values() if "rotating" in text]) for headers in values]


def refuse(transport: MockTransport, key: str) -> None:
    transport.answer(503, {"content-type": "application/json"}, {"error": {"message": f"invalid key {key} sent"}})


@pytest.mark.parametrize("name", BUILDERS)
async def test_a_key_function_is_called_for_each_attempt_and_the_key_is_never_quoted(name: str) -> None:
    transport, keys = MockTransport(), Keys()
    provider = BUILDERS[name]().with_api_key("old").with_api_key(keys).with_transport(transport).build()
    chat = ChatBuilder().with_model(provider).with_retry(Retry(times=1, base=0)).build()
    refuse(transport, "rotating-key-1")
    refuse(transport, "rotating-key-2")

    with pytest.raises(ChatError) as caught:
        await chat.complete(Messages.from_user("hi"))

    assert [sent.rpartition(" ")[2] for sent in keys_sent(transport)] == ["rotating-key-1", "rotating-key-2"]
    assert "rotating" not in f"{caught.value!r} {vars(caught.value)}"
    assert "old" not in str([request.headers for request in transport.requests])


@pytest.mark.parametrize("name", BUILDERS)
async def test_an_error_in_a_response_does_not_quote_the_key(name: str) -> None:
    transport = MockTransport()
    provider = BUILDERS[name]().with_api_key(Keys()).with_transport(transport).build()
    error = {"type": "error", "code": 400, "message": "rotating-key-1 is wrong"}
    transport.answer(200, {"content-type": "application/json"}, {"type": "error", "error": error})

    with pytest.raises(ChatError) as caught:
        await ChatBuilder().with_model(provider).with_retry(0).build().complete(Messages.from_user("hi"))

    assert "rotating" not in f"{caught.value!r} {vars(caught.value)}"


@pytest.mark.parametrize("name", BUILDERS)
async def test_a_key_function_is_called_for_a_stream(name: str) -> None:
    transport, keys = MockTransport(), Keys()
    provider = BUILDERS[name]().with_api_key(keys).with_transport(transport).build()
    chat = ChatBuilder().with_model(provider).with_retry(0).build()
    refuse(transport, "rotating-key-1")

    with pytest.raises(ChatError) as caught:
        async with chat.stream(Messages.from_user("hi")) as stream:
            async for _ in stream:
                pass

    assert [sent.rpartition(" ")[2] for sent in keys_sent(transport)] == ["rotating-key-1"]
    assert "rotating" not in f"{caught.value!r} {vars(caught.value)}"


@pytest.mark.parametrize("name", BUILDERS)
def test_a_later_key_or_header_replaces_the_key_function(name: str) -> None:
    keys = Keys()
    for replaced in (
        BUILDERS[name]().with_api_key(keys).with_api_key("fixed-key"),
        BUILDERS[name]().with_api_key(keys).with_headers({"Authorization": "Bearer fixed-key"}),
    ):
        transport = MockTransport()
        provider = replaced.with_transport(transport).build()
        refuse(transport, "none")
        with pytest.raises(ChatError):
            ChatBuilder().with_model(provider).with_retry(0).build().blocking.complete(Messages.from_user("hi"))

        assert keys_sent(transport) == [""]
    assert keys.count == 0


async def test_a_token_function_is_called_for_each_request() -> None:
    builders: dict[str, Any] = {
        "azure": AzureBuilder().with_endpoint("https://mine.openai.azure.com").with_model("m").with_bearer_token,
        "claude": ClaudeBuilder().with_model("claude-sonnet-4-5").with_bearer_token,
        "gemini": GeminiBuilder().with_model("m").with_vertex("project").with_token,
    }
    for with_token in builders.values():
        transport = MockTransport()
        refuse(transport, "none")
        provider: Any = with_token(Keys()).with_transport(transport).build()
        with pytest.raises(ChatError):
            await ChatBuilder().with_model(provider).with_retry(0).build().complete(Messages.from_user("hi"))

        assert keys_sent(transport) == ["Bearer rotating-key-1"]


async def test_a_key_function_is_called_by_the_blocking_interface() -> None:
    transport = MockTransport()
    refuse(transport, "none")
    provider = ClaudeBuilder().with_model("m").with_api_key(Keys()).with_transport(transport).build()

    with pytest.raises(ChatError):
        ChatBuilder().with_model(provider).with_retry(0).build().blocking.complete(Messages.from_user("hi"))

    assert keys_sent(transport) == ["rotating-key-1"]


def returning(value: Any) -> Callable[[], Awaitable[Any]]:
    async def function() -> Any:
        return value

    return function


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (returning(None), "returned a NoneType: return the key"),
        (returning(" "), "returned an empty string: return the key"),
        (returning(b"secret-bytes"), "returned a bytes"),
        (lambda: "secret-text", "must be async, but it returned a str"),
    ],
)
async def test_an_invalid_result_of_a_key_function_is_reported_without_its_value(function: Any, message: str) -> None:
    provider = ClaudeBuilder().with_model("m").with_api_key(function).with_transport(MockTransport()).build()

    with pytest.raises(ChatError, match=message) as caught:
        await ChatBuilder().with_model(provider).build().complete(Messages.from_user("hi"))

    assert "secret" not in str(caught.value)
