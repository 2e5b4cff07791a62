"""The token cache: shared renewals, early renewals, and renewals after a failure or cancellation."""

from __future__ import annotations

import json
import threading
from typing import Any

import anyio
import pytest
from chat_core.errors import (
    AuthenticationError,
    ChatError,
    InvalidResponseError,
    NetworkError,
    OverloadedError,
    RequestTimeoutError,
    TransportError,
    UsageError,
)
from chat_core.testing import MockTransport
from chat_testing import Exchange
from chat_vertex import ServiceAccount, TokenSource, credentials_from_json
from vertex_world import JSON, Clock, Google, account_json, user_json

pytestmark = pytest.mark.anyio


def source(google: Google, clock: Clock | None = None, **options: Any) -> TokenSource:
    account = ServiceAccount.from_json(account_json(google.token_uri))
    return TokenSource(account, clock=clock or Clock(), pause=0, **options)


async def gather(tokens: TokenSource, count: int) -> list[str | ChatError]:
    results: list[str | ChatError] = []

    async def ask() -> None:
        try:
            results.append(await tokens())
        except ChatError as error:
            results.append(error)

    async with anyio.create_task_group() as group:
        for _ in range(count):
            group.start_soon(ask)
    return results


async def test_concurrent_callers_share_one_token_request(google: Google) -> None:
    tokens = source(google)

    assert await gather(tokens, 50) == ["secret-token-1"] * 50
    assert len(google.tokens) == 1


async def test_a_token_is_renewed_sixty_seconds_before_it_expires(google: Google) -> None:
    clock = Clock()
    tokens = source(google, clock)
    assert await tokens() == "secret-token-1"

    clock.move(3600 - 61)
    assert await tokens() == "secret-token-1"
    clock.move(1)
    assert await gather(tokens, 50) == ["secret-token-2"] * 50
    assert len(google.tokens) == 2


async def test_rejecting_an_old_token_does_not_drop_the_new_one(google: Google) -> None:
    tokens = source(google)
    first = await tokens()
    tokens.reject(first)
    second = await tokens()
    tokens.reject(first)

    assert await tokens() == second == "secret-token-2"
    assert len(google.tokens) == 2


async def test_concurrent_callers_share_a_failure_but_receive_separate_errors(google: Google) -> None:
    def refuse(exchange: Exchange) -> None:
        exchange.answer(400, JSON, b'{"error": "invalid_grant", "error_description": "Invalid JWT Signature."}')

    google.answer_token = refuse
    tokens = source(google)
    errors = await gather(tokens, 20)

    assert len(google.tokens) == 1
    assert {type(error) for error in errors} == {AuthenticationError}
    assert len({id(error) for error in errors}) == 20
    assert "Invalid JWT Signature" in str(errors[0])
    google.answer_token = None
    assert await tokens() == "secret-token-2"


async def test_a_waiting_caller_repeats_a_cancelled_token_request(google: Google) -> None:
    tokens = source(google)
    asked, proceed = threading.Event(), threading.Event()

    def hold_the_first(exchange: Exchange) -> None:
        if len(google.tokens) == 1:
            asked.set()
            exchange.pause(proceed)
        else:
            exchange.answer(200, JSON, b'{"access_token": "second", "expires_in": 60}')

    google.answer_token = hold_the_first
    results: list[str] = []

    async def ask() -> None:
        results.append(await tokens())

    async with anyio.create_task_group() as group:
        leader = anyio.CancelScope()

        async def lead() -> None:
            with leader:
                await ask()

        group.start_soon(lead)
        await anyio.to_thread.run_sync(asked.wait)
        group.start_soon(ask)
        group.start_soon(ask)
        await anyio.wait_all_tasks_blocked()
        leader.cancel()
    proceed.set()

    assert results == ["second", "second"]
    assert len(google.tokens) == 2


async def test_concurrent_callers_share_a_token_that_expires_too_soon_to_cache(google: Google) -> None:
    google.lifetime = 30

    assert await gather(source(google), 10) == ["secret-token-1"] * 10


async def test_a_temporary_failure_is_attempted_twice(google: Google) -> None:
    statuses = [503, 200, 503, 503, 200]

    def answer(exchange: Exchange) -> None:
        status = statuses.pop(0)
        good = b'{"access_token": "good", "expires_in": "3600"}'
        exchange.answer(status, JSON, good if status == 200 else b"no capacity")

    google.answer_token = answer
    assert await source(google)() == "good"
    assert len(google.tokens) == 2
    assertions = [form["assertion"] for form in google.tokens]
    assert all(assertions)
    with pytest.raises(OverloadedError, match="the token server"):
        await source(google)()
    assert len(google.tokens) == 4


async def test_a_silent_token_server_raises_request_timeout() -> None:
    transport = MockTransport()
    for _ in range(2):
        transport.answer(body=[anyio.sleep_forever])
    account = ServiceAccount.from_json(account_json())

    with pytest.raises(RequestTimeoutError, match=r"no response from oauth2\.googleapis\.com within 0\.01 seconds"):
        await TokenSource(account, transport, timeout=0.01, pause=0)()
    assert len(transport.requests) == 2


async def test_retries_wait_as_documented(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    monkeypatch.setattr("chat_vertex.tokens.anyio.sleep", sleep)
    transport = MockTransport()
    for _ in range(2):
        transport.fail(TransportError("connect", "no"))

    with pytest.raises(NetworkError):
        await TokenSource(ServiceAccount.from_json(account_json()), transport)()
    assert waits == [0.2]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b'{"access_token": "t"}',
        b'{"access_token": "t", "expires_in": -1}',
        b'{"access_token": "t", "expires_in": 1e400}',
        b'{"access_token": "t", "expires_in": 99999999999999999}',
        b'{"access_token": " ", "expires_in": 60}',
        b'{"access_token": 5, "expires_in": 60}',
    ],
)
async def test_a_response_without_a_token_raises_invalid_response(google: Google, body: bytes) -> None:
    google.answer_token = lambda exchange: exchange.answer(200, JSON, body)

    with pytest.raises(InvalidResponseError, match="returned no valid access token"):
        await source(google)()


async def test_secrets_quoted_by_the_token_server_are_not_shown(google: Google) -> None:
    def quote(exchange: Exchange) -> None:
        form = google.tokens[-1]
        exchange.answer(400, JSON, json.dumps({"error": "invalid", "error_description": str(form)}).encode())

    google.answer_token = quote
    for content in (account_json(google.token_uri), user_json(google.token_uri)):
        with pytest.raises(AuthenticationError) as caught:
            await TokenSource(credentials_from_json(content), clock=Clock())()
        shown = f"{caught.value} {caught.value!r} {vars(caught.value)}"
        assert "secret-1" not in shown
        assert google.tokens[-1].get("assertion", "secret-1") not in shown


async def test_no_repr_shows_a_token(google: Google) -> None:
    tokens = source(google)
    token = await tokens()

    assert token not in repr(tokens)


def test_one_token_source_serves_several_event_loops(google: Google) -> None:
    tokens, clock = None, Clock()
    tokens = source(google, clock)
    for number, backend in enumerate(("asyncio", "trio", "asyncio"), 1):
        assert anyio.run(gather, tokens, 5, backend=backend) == [f"secret-token-{number}"] * 5
        clock.move(3600)


def test_a_token_source_needs_at_least_one_attempt() -> None:
    with pytest.raises(UsageError, match="at least 1, not 0"):
        TokenSource(ServiceAccount.from_json(account_json()), attempts=0)
