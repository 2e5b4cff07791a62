"""Error responses of llmock: each status raises its error, and only retryable errors are retried."""

from __future__ import annotations

import time

import pytest
from chat_core import ChatBuilder, ChatOptions, Messages, Retry
from chat_core.errors import (
    AuthenticationError,
    ContextLengthError,
    InvalidRequestError,
    NotFoundError,
    OverloadedError,
    PermissionDeniedError,
    ProviderError,
    QuotaExceededError,
    RateLimitedError,
    RequestTimeoutError,
    ServerError,
)
from chat_transport_httpx import HttpxTransport

from .asking import AT_ONCE, WAYS, Till, Way, run
from .peers import Llmock

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("way", WAYS)]

STATUSES: list[tuple[int, type[ProviderError], bool]] = [
    (400, InvalidRequestError, False),
    (401, AuthenticationError, False),
    (402, QuotaExceededError, False),
    (403, PermissionDeniedError, False),
    (404, NotFoundError, False),
    (408, ServerError, True),
    (409, ServerError, True),
    (413, InvalidRequestError, False),
    (422, InvalidRequestError, False),
    (429, RateLimitedError, True),
    (500, ServerError, True),
    (502, ServerError, True),
    (503, OverloadedError, True),
    (504, ServerError, True),
    (529, OverloadedError, True),
]


@pytest.mark.parametrize(("status", "kind", "retryable"), STATUSES)
async def test_an_error_status_raises_after_retries_if_it_is_retryable(  # noqa: PLR0917 - parametrized
    llmock: Llmock, transport: HttpxTransport, way: Way, status: int, kind: type[ProviderError], retryable: bool
) -> None:
    llmock.order({"type": "fail", "status": status, "retry_after": 0, "message": "It went wrong.", "times": None})
    chat = ChatBuilder().with_model(llmock.model(transport).build()).with_retry(AT_ONCE).build()
    messages = Messages.from_user("Hello?")

    with pytest.raises(kind) as caught:
        await run(chat, messages, way)

    error = caught.value
    assert type(error) is kind
    assert (error.status, error.retryable, error.attempts) == (status, retryable, 3 if retryable else 1)
    assert "It went wrong." in str(error)
    assert llmock.KEY not in repr(error)
    assert len(messages) == 1
    assert len(llmock.requests()) == error.attempts
    assert not {"retried_non_retryable", "retry_after_ignored", "retry_storm"} & set(llmock.findings())


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (400, "context_length_exceeded", ContextLengthError),
        (404, "model_not_found", NotFoundError),
        (429, "insufficient_quota", QuotaExceededError),
        (429, "rate_limit_exceeded", RateLimitedError),
        (500, "server_error", ServerError),
        (503, "server_error", OverloadedError),  # an unknown error code leaves the decision to the status
    ],
)
async def test_an_error_code_determines_the_error_class(  # noqa: PLR0917 - parametrized
    llmock: Llmock, transport: HttpxTransport, way: Way, status: int, code: str, kind: type[ProviderError]
) -> None:
    llmock.order({"type": "fail", "status": status, "code": code})
    chat = ChatBuilder().with_model(llmock.model(transport).build()).with_retry(0).build()

    with pytest.raises(ProviderError) as caught:
        await run(chat, Messages.from_user("Hello?"), way)

    assert type(caught.value) is kind
    assert (caught.value.status, caught.value.code) == (status, code)


async def test_a_rate_limit_is_retried_after_retry_after(llmock: Llmock, transport: HttpxTransport, way: Way) -> None:
    llmock.order({"type": "fail", "status": 429, "retry_after": 0.3, "times": 2}, {"type": "reply", "text": "Now."})
    chat = ChatBuilder().with_model(llmock.model(transport).build()).build()
    began = time.monotonic()

    response = await run(chat, Messages.from_user("Hello?"), way)

    assert response.text == "Now."
    assert time.monotonic() - began >= 0.6
    assert [request["status"] for request in llmock.requests()] == [429, 429, 200]
    assert llmock.findings() == []


async def test_an_outage_is_retried_with_backoff(llmock: Llmock, transport: HttpxTransport, way: Way) -> None:
    llmock.order({"type": "fail", "status": 502, "times": 3}, {"type": "reply", "text": "Back again."})
    patient = Retry(times=3, base=0.1, jitter=lambda _low, high: high)
    chat = ChatBuilder().with_model(llmock.model(transport).build()).with_retry(patient).build()

    assert (await run(chat, Messages.from_user("Hello?"), way)).text == "Back again."
    assert llmock.findings() == []


async def test_a_tool_does_not_run_again_if_a_later_request_is_retried(
    llmock: Llmock, transport: HttpxTransport, way: Way
) -> None:
    llmock.order({"type": "reply", "tool_calls": [{"name": "pay", "arguments": {"cents": 7}}]})
    till = Till(lambda: llmock.order({"type": "fail", "status": 429, "retry_after": 0, "times": 2}))

    response = await run(till.chat(llmock.model(transport).build(), AT_ONCE), Messages.from_user("Pay."), way)

    assert response.text
    assert till.paid == [7]
    assert [request["status"] for request in llmock.requests()] == [200, 429, 429, 200]


async def test_a_failed_request_after_a_tool_leaves_a_resumable_history(
    llmock: Llmock, transport: HttpxTransport, way: Way
) -> None:
    llmock.order({"type": "reply", "tool_calls": [{"name": "pay", "arguments": {"cents": 7}}]})
    till = Till(lambda: llmock.order({"type": "fail", "status": 500}))
    chat = till.chat(llmock.model(transport).build())
    messages = Messages.from_user("Pay.")

    with pytest.raises(ServerError) as caught:
        await run(chat, messages, way)
    messages = Messages.from_json(messages.to_json())
    response = await run(chat, messages, way)

    assert caught.value.usage.output_tokens > 0, "the first step was paid for"
    assert response.text
    assert till.paid == [7]


async def test_a_late_response_raises_a_timeout_and_is_retried(
    llmock: Llmock, transport: HttpxTransport, way: Way
) -> None:
    llmock.order({"type": "delay", "seconds": 30, "times": 2}, {"type": "reply", "text": "At last.", "times": 3})
    hasty = ChatBuilder().with_model(llmock.model(transport).build()).with_options(ChatOptions(timeout=0.2))

    with pytest.raises(RequestTimeoutError) as caught:
        await run(hasty.with_retry(0).build(), Messages.from_user("Hello?"), way)
    response = await run(hasty.with_retry(AT_ONCE).build(), Messages.from_user("Hello?"), way)

    assert caught.value.retryable
    assert response.text == "At last."


async def test_a_retry_after_over_the_budget_raises_immediately(
    strict_llmock: Llmock, transport: HttpxTransport, way: Way
) -> None:
    model = strict_llmock.model(transport).with_api_key(strict_llmock.fresh_key()).build()
    chat = ChatBuilder().with_model(model).with_retry(Retry(budget=5)).build()
    await run(chat, Messages.from_user("Hello?"), way)
    began = time.monotonic()

    with pytest.raises(RateLimitedError) as caught:
        await run(chat, Messages.from_user("Hello?"), way)

    assert time.monotonic() - began < 5
    assert caught.value.attempts == 1
    assert caught.value.retry_after is not None
    assert 50 < caught.value.retry_after <= 60
    assert caught.value.code == "rate_limit_exceeded"


async def test_a_too_long_prompt_is_not_retried(strict_llmock: Llmock, transport: HttpxTransport, way: Way) -> None:
    model = strict_llmock.model(transport).with_api_key(strict_llmock.fresh_key()).build()
    chat = ChatBuilder().with_model(model).with_retry(AT_ONCE).build()

    with pytest.raises(ContextLengthError) as caught:
        await run(chat, Messages.from_user("word " * 500), way)

    assert (caught.value.status, caught.value.attempts) == (400, 1)
