"""Faults of aimock: error responses, timeouts, closed connections and invalid data."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from chat_core import ChatBuilder, ChatOptions, Messages, Retry
from chat_core.errors import (
    AuthenticationError,
    ChatError,
    ContentFilteredError,
    ContextLengthError,
    InvalidRequestError,
    InvalidResponseError,
    NetworkError,
    NotFoundError,
    OverloadedError,
    PermissionDeniedError,
    ProviderError,
    QuotaExceededError,
    RateLimitedError,
    RequestTimeoutError,
    ServerError,
)
from chat_core.events import AttemptReset
from chat_transport_httpx import HttpxTransport

from .asking import AT_ONCE, WAYS, Till, Way, listen, run, text_of
from .peers import Aimock, Json

pytestmark = pytest.mark.anyio

TEXT = "The Loire, the Seine and the Rhône are rivers in France."
CALL: Json = {"toolCalls": [{"name": "pay", "arguments": {"cents": 123456789}}]}

REFUSALS: list[tuple[int, Mapping[str, str], type[ProviderError]]] = [
    (400, {"type": "invalid_request_error"}, InvalidRequestError),
    (400, {"type": "invalid_request_error", "code": "context_length_exceeded"}, ContextLengthError),
    (400, {"type": "invalid_request_error", "code": "content_filter"}, ContentFilteredError),
    (401, {"type": "authentication_error", "code": "invalid_api_key"}, AuthenticationError),
    (403, {"type": "permission_error"}, PermissionDeniedError),
    (404, {"type": "invalid_request_error", "code": "model_not_found"}, NotFoundError),
    (429, {"type": "rate_limit_error", "code": "rate_limit_exceeded"}, RateLimitedError),
    (429, {"type": "insufficient_quota", "code": "insufficient_quota"}, QuotaExceededError),
    (500, {"type": "server_error"}, ServerError),
    (503, {"type": "overloaded_error"}, OverloadedError),
]

CHAOS: list[tuple[str, type[ChatError]]] = [
    ("drop", ServerError),
    ("malformed", InvalidResponseError),
    ("disconnect", NetworkError),
    ("ratelimit", RateLimitedError),
]


@pytest.mark.parametrize(("status", "words", "kind"), REFUSALS)
@pytest.mark.parametrize("way", WAYS)
async def test_an_error_status_raises_its_error_class_with_the_message(  # noqa: PLR0917 - parametrized
    aimock: Aimock,
    transport: HttpxTransport,
    way: Way,
    status: int,
    words: Mapping[str, str],
    kind: type[ProviderError],
) -> None:
    model = aimock.script(
        {"response": {"error": {"message": "Not today.", **words}, "status": status, "retryAfter": 7}}
    )
    chat = ChatBuilder().with_model(aimock.model(transport, model).build()).with_retry(0).build()
    messages = Messages.from_user("Hello?")

    with pytest.raises(kind) as caught:
        await run(chat, messages, way)

    error = caught.value
    assert type(error) is kind
    assert (error.status, error.code, error.attempts) == (status, words.get("code", words["type"]), 1)
    assert error.retryable is (kind in {RateLimitedError, ServerError, OverloadedError})
    assert error.retry_after == (7 if status == 429 else None)
    assert error.request_id is not None
    assert "Not today." in str(error)
    assert len(messages) == 1


@pytest.mark.parametrize("way", WAYS)
async def test_a_wrong_api_key_is_not_retried_and_not_shown(
    aimock: Aimock, transport: HttpxTransport, way: Way
) -> None:
    model = aimock.model(transport, aimock.says(content=TEXT)).with_api_key("sk-wrong-key-of-mine").build()

    with pytest.raises(AuthenticationError) as caught:
        await run(ChatBuilder().with_model(model).build(), Messages.from_user("Hello?"), way)

    assert (caught.value.status, caught.value.code, caught.value.attempts) == (401, "invalid_api_key", 1)
    assert "sk-wrong-key-of-mine" not in f"{caught.value!r} {caught.value.body!r}"


@pytest.mark.parametrize(("path", "name"), [("/v1", "a-model-that-nobody-scripted"), ("/nowhere", "any")])
@pytest.mark.parametrize("way", WAYS)
async def test_an_unknown_model_or_path_raises_not_found(
    aimock: Aimock, transport: HttpxTransport, way: Way, path: str, name: str
) -> None:
    with pytest.raises(NotFoundError):
        await run(
            ChatBuilder().with_model(aimock.model(transport, name, path=path).build()).build(),
            Messages.from_user("Hello?"),
            way,
        )


@pytest.mark.parametrize("way", WAYS)
async def test_a_rate_limit_is_retried_after_a_delay(aimock: Aimock, transport: HttpxTransport, way: Way) -> None:
    model = aimock.script(
        {
            "match": {"sequenceIndex": 0},
            "response": {
                "error": {"message": "Slow down.", "type": "rate_limit_error"},
                "status": 429,
                "retryAfter": 1,
            },
        },
        {"match": {"sequenceIndex": 1}, "response": {"content": TEXT}},
    )
    waits: list[float] = []

    def note(wait: float) -> float:
        waits.append(wait)
        return 0.0

    retry = Retry(strategy=lambda attempt: note(attempt.delay))
    chat = ChatBuilder().with_model(aimock.model(transport, model).build()).with_retry(retry).build()

    assert (await run(chat, Messages.from_user("Rivers?"), way)).text == TEXT
    assert waits == [1.0]


@pytest.mark.parametrize(("chaos", "kind"), CHAOS)
@pytest.mark.parametrize("way", WAYS)
async def test_an_injected_fault_raises_its_error_and_runs_no_tool(
    aimock: Aimock, transport: HttpxTransport, way: Way, chaos: str, kind: type[ChatError]
) -> None:
    name = aimock.says(**CALL)
    model = aimock.model(transport, name).with_headers({f"x-aimock-chaos-{chaos}": "1"}).build()
    till = Till()

    with pytest.raises(kind) as caught:
        await run(till.chat(model), Messages.from_user("Pay."), way)

    assert type(caught.value) is kind
    assert caught.value.retryable is (kind is not InvalidResponseError)
    assert till.paid == []


async def test_an_injected_fault_in_an_embeddings_request_raises_its_error(
    aimock: Aimock, transport: HttpxTransport
) -> None:
    for chaos, kind in CHAOS:
        model = aimock.model(transport, "any").with_headers({f"x-aimock-chaos-{chaos}": "1"}).build()
        with pytest.raises(kind):
            await ChatBuilder().with_model(model).with_embeddings().with_retry(0).build().embed(["a"])


@pytest.mark.parametrize("way", WAYS)
async def test_a_late_response_raises_a_timeout(aimock: Aimock, transport: HttpxTransport, way: Way) -> None:
    name = aimock.says(content=TEXT)
    model = aimock.model(transport, name).with_headers({"x-aimock-chaos-latency": "30000"}).build()
    chat = ChatBuilder().with_model(model).with_retry(0).build()

    with pytest.raises(RequestTimeoutError):
        await run(chat, Messages.from_user("Rivers?"), way, options=ChatOptions(timeout=0.2))


@pytest.mark.parametrize("after", [1, 2, 3])
async def test_a_stream_truncated_after_some_text_raises_network_error(
    aimock: Aimock, transport: HttpxTransport, after: int
) -> None:
    name = aimock.script({"response": {"content": TEXT}, "truncateAfterChunks": after, "latency": 20})
    heard: list[object] = []

    with pytest.raises(NetworkError) as caught:
        await listen(
            ChatBuilder().with_model(aimock.model(transport, name).build()).with_retry(0).build(),
            Messages.from_user("Rivers?"),
            heard,
        )

    assert type(caught.value) is NetworkError
    partial = caught.value.partial
    assert (partial.text if partial is not None else "") == text_of(heard)
    assert TEXT.startswith(text_of(heard))


@pytest.mark.parametrize("after", [1, 2, 3, 4])
async def test_a_call_with_truncated_arguments_does_not_run(
    aimock: Aimock, transport: HttpxTransport, after: int
) -> None:
    name = aimock.script({"response": CALL, "truncateAfterChunks": after, "latency": 20, "chunkSize": 5})
    till = Till()
    messages = Messages.from_user("Pay.")

    with pytest.raises(NetworkError):
        await run(till.chat(aimock.model(transport, name).build()), messages)

    assert till.paid == []
    (turn,) = [turn for content in messages for turn in content.turns]
    assert (turn.text, turn.failed_requests) == ("Pay.", 1)


async def test_a_restarted_stream_emits_a_reset_and_the_whole_text(aimock: Aimock, transport: HttpxTransport) -> None:
    name = aimock.script(
        {"match": {"sequenceIndex": 0}, "response": {"content": TEXT}, "truncateAfterChunks": 3, "latency": 20},
        {"match": {"sequenceIndex": 1}, "response": {"content": TEXT}},
    )
    again = Retry(after_delivery=True, jitter=lambda _low, _high: 0)
    heard: list[object] = []

    response = await listen(
        ChatBuilder().with_model(aimock.model(transport, name).build()).with_retry(again).build(),
        Messages.from_user("Rivers?"),
        heard,
    )

    assert response.text == text_of(heard) == TEXT
    assert len([event for event in heard if isinstance(event, AttemptReset)]) == 1


async def test_a_slow_stream_is_not_interrupted(aimock: Aimock, transport: HttpxTransport) -> None:
    name = aimock.script(
        {"response": {"content": TEXT}, "streamingProfile": {"ttft": 200, "tps": 25, "jitter": 0.3}, "chunkSize": 10}
    )
    chat = ChatBuilder().with_model(aimock.model(transport, name).build()).with_retry(AT_ONCE).build()

    assert (await run(chat, Messages.from_user("Rivers?"), options=ChatOptions(timeout=2))).text == TEXT
    assert len(aimock.asked(name)) == 1
