"""llama.cpp's own HTTP server: a real model, whose answers vary, and the errors of a real server."""

from __future__ import annotations

import json
import math
from typing import Annotated, Literal

import pytest
from annotated_types import Len
from anyio import create_task_group
from chat_completions import CompletionsOptions
from chat_core import ChatBuilder, ChatOptions, Messages
from chat_core.chat import StreamingChat
from chat_core.errors import (
    AuthenticationError,
    ContextLengthError,
    InvalidRequestError,
    NotFoundError,
    ProviderError,
    RequestTimeoutError,
    ServerError,
)
from chat_core.events import TextDelta
from chat_core.messages import FunctionCall, Tool, Turn
from chat_core.response import StructuredResponse
from chat_transport_httpx import HttpxTransport
from pydantic import BaseModel

from .asking import AT_ONCE, WAYS, Way, listen, run, text_of
from .peers import LlamaCpp

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio"])]

BRIEF = ChatOptions(temperature=0, max_tokens=12)
SHORT = ChatOptions(temperature=0, max_tokens=120)
LONG = 1800
ENDLESS = ChatOptions(temperature=0, max_tokens=LONG, extras=(CompletionsOptions(extra_body={"ignore_eos": True}),))
"""An answer of so many tokens, whatever the model would say."""


class City(BaseModel):
    name: Literal["Paris", "Lyon"]
    capital: bool
    rivers: Annotated[list[Literal["Seine", "Rhône"]], Len(max_length=2)]


def chat_with(llamacpp: LlamaCpp, transport: HttpxTransport) -> StreamingChat:
    """Return a chat with retries, because the server closes a connection after each stream although it keeps it alive.

    A request that is sent before the close arrives gets no response, which the client cannot know in advance.
    """
    return ChatBuilder().with_model(llamacpp.model(transport, "smollm2").build()).with_retry(AT_ONCE).build()


async def test_whole_and_streamed_texts_have_usage(llamacpp: LlamaCpp, transport: HttpxTransport) -> None:
    chat = chat_with(llamacpp, transport)
    question = Messages.from_user("What is the capital of France?")
    heard: list[object] = []

    whole = await chat.complete(question, options=BRIEF)
    streamed = await listen(chat, Messages.from_user("What is the capital of France?"), heard, options=BRIEF)

    assert whole.text
    assert streamed.text == text_of(heard) != ""
    assert len([event for event in heard if isinstance(event, TextDelta)]) > 3
    for response in (whole, streamed):
        assert response.metadata.model == "smollm2"
        assert response.usage.input_tokens > 5
        assert 1 < response.usage.output_tokens <= 12
    assert streamed.usage.cache_read_tokens > 0, "the server has read the same prompt before"


@pytest.mark.parametrize("way", WAYS)
async def test_max_tokens_ends_an_answer_and_the_conversation_continues(
    llamacpp: LlamaCpp, transport: HttpxTransport, way: Way
) -> None:
    chat = chat_with(llamacpp, transport)
    messages = Messages.from_system("Be brief.").user("Count to a hundred.")

    first = await run(chat, messages, way, options=ChatOptions(temperature=0, max_tokens=3))
    second = await run(chat, messages.user("Go on."), way, options=BRIEF)

    assert (first.finish_reason, first.usage.output_tokens) == ("length", 3)
    assert second.usage.input_tokens > first.usage.input_tokens
    assert [content.role for content in messages] == ["system", "user", "model", "user", "model"]


@pytest.mark.parametrize("way", WAYS)
async def test_structured_output_follows_the_schema(llamacpp: LlamaCpp, transport: HttpxTransport, way: Way) -> None:
    model = llamacpp.model(transport, "smollm2").build()
    chat = ChatBuilder().with_model(model).with_structured_output(City, max_retries=0).build()

    response = await run(chat, Messages.from_user("Describe Paris, with its river."), way, options=SHORT)

    assert isinstance(response.value, City)
    assert json.loads(response.raw).keys() == {"name", "capital", "rivers"}


@pytest.mark.parametrize("way", WAYS)
async def test_a_history_with_tool_calls_is_accepted(llamacpp: LlamaCpp, transport: HttpxTransport, way: Way) -> None:
    tool = Tool(FunctionCall("weather", {"city": "Paris"}), call_id="call_1")
    tool.start()
    tool.complete("It is sunny.")
    messages = Messages.from_user("How is the weather in Paris?")
    messages.append("model", Turn([tool], finish_reason="tool_calls"))

    response = await run(chat_with(llamacpp, transport), messages, way, options=BRIEF)

    assert response.text


@pytest.mark.parametrize("way", WAYS)
async def test_a_prompt_over_the_context_size_raises_context_length_error(
    llamacpp: LlamaCpp, transport: HttpxTransport, way: Way
) -> None:
    with pytest.raises(ContextLengthError) as caught:
        await run(chat_with(llamacpp, transport), Messages.from_user("word " * 3000), way, options=BRIEF)

    assert (caught.value.status, caught.value.code) == (400, "exceed_context_size_error")
    assert "2048" in str(caught.value)


@pytest.mark.parametrize(
    ("body", "status", "kind", "words"),
    [
        ({"repeat_penalty": "much"}, 400, InvalidRequestError, "repeat_penalty"),
        ({"response_format": {"type": "nonsense"}}, 400, InvalidRequestError, "nonsense"),
    ],
)
@pytest.mark.parametrize("way", WAYS)
async def test_an_unreadable_request_raises_its_error_class(  # noqa: PLR0917 - parametrized
    llamacpp: LlamaCpp,
    transport: HttpxTransport,
    way: Way,
    body: dict[str, object],
    status: int,
    kind: type[ProviderError],
    words: str,
) -> None:
    options = ChatOptions(max_tokens=4, extras=(CompletionsOptions(extra_body=body),))

    with pytest.raises(ProviderError) as caught:
        await run(chat_with(llamacpp, transport), Messages.from_user("Hello?"), way, options=options)

    assert type(caught.value) is kind
    assert caught.value.status == status
    assert words in str(caught.value)


async def test_a_wrong_api_key_and_a_wrong_path_raise_different_errors(
    llamacpp: LlamaCpp, transport: HttpxTransport
) -> None:
    keyless = llamacpp.model(transport).with_api_key("another").build()
    lost = llamacpp.model(transport, path="/v9").build()

    for model, kind in ((keyless, AuthenticationError), (lost, NotFoundError)):
        with pytest.raises(kind):
            await run(ChatBuilder().with_model(model).build(), Messages.from_user("Hello?"), options=BRIEF)


async def test_closing_a_stream_early_stops_the_model(llamacpp: LlamaCpp, transport: HttpxTransport) -> None:
    chat = chat_with(llamacpp, transport)
    messages = Messages.from_user("Tell me a very long tale.")

    async with chat.stream(messages, options=ENDLESS) as stream:
        async for _ in stream.text():
            break

    assert llamacpp.tokens_when_idle() < LONG / 2
    assert len(messages) == 1
    assert (await run(chat, Messages.from_user("Hello?"), options=BRIEF)).text


async def test_a_timeout_stops_the_model(llamacpp: LlamaCpp, transport: HttpxTransport) -> None:
    chat = chat_with(llamacpp, transport)

    with pytest.raises(RequestTimeoutError):
        await chat.complete(Messages.from_user("Tell me a tale."), options=ChatOptions(timeout=0.3).over(ENDLESS))

    assert llamacpp.tokens_when_idle() < LONG / 2
    assert (await run(chat, Messages.from_user("Hello?"), options=BRIEF)).text


@pytest.mark.parametrize("way", WAYS)
async def test_concurrent_conversations_do_not_mix(llamacpp: LlamaCpp, transport: HttpxTransport, way: Way) -> None:
    model = llamacpp.model(transport, "smollm2").build()
    tea = ChatBuilder().with_model(model).with_structured_output(Literal["tea"]).build()
    milk = ChatBuilder().with_model(model).with_structured_output(Literal["milk"]).build()
    heard: list[str] = []

    async def ask(chat: StreamingChat[StructuredResponse[str]]) -> None:
        for _ in range(2):
            heard.append((await run(chat, Messages.from_user("Tea or milk?"), way, options=SHORT)).value)

    async with create_task_group() as group:
        group.start_soon(ask, tea)
        group.start_soon(ask, milk)

    assert sorted(heard) == ["milk", "milk", "tea", "tea"]


async def test_texts_with_similar_meaning_have_similar_embeddings(
    llamacpp_embeddings: LlamaCpp, transport: HttpxTransport
) -> None:
    model = llamacpp_embeddings.model(transport, "smollm2").with_embeddings(max_batch=2).build()
    texts = ["The cat sleeps on the sofa.", "A cat is sleeping on a couch.", "Interest rates rose by two percent."]

    found = await ChatBuilder().with_model(model).with_embeddings().build().embed(texts)

    assert [len(vector) for vector in found.vectors] == [576] * 3
    assert all(math.isclose(math.hypot(*vector), 1, abs_tol=1e-3) for vector in found.vectors)
    cat, also, money = found.vectors
    assert math.dist(cat, also) < math.dist(cat, money)
    assert found.usage.input_tokens > 10
    assert found.model == "smollm2"


async def test_a_server_without_embeddings_raises_server_error(llamacpp: LlamaCpp, transport: HttpxTransport) -> None:
    model = llamacpp.model(transport, "smollm2").build()

    with pytest.raises(ServerError) as caught:
        await ChatBuilder().with_model(model).with_embeddings().with_retry(0).build().embed(["a"])

    assert caught.value.status == 501
    assert "embedding" in str(caught.value)
