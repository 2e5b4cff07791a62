"""The number of requests of each user and of each address is limited."""

from __future__ import annotations

import httpx
import pytest
from chat_service import Service, ServiceSettings
from chat_service.rate_limits import MAX_USERS, RateLimits
from chat_store import MemoryStore
from service_helpers import ANA, BO, build_service, scripted, serving
from socket_helpers import open_socket


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_budget_is_spent_at_once_and_refilled_evenly() -> None:
    clock = Clock()
    limits = RateLimits(30, clock)
    first = [limits.count("ana") for _ in range(31)]
    other = limits.count("bo")
    clock.now = 1.9
    early = limits.count("ana")
    clock.now = 2.0
    later = [limits.count("ana"), limits.count("ana")]

    assert (first, other) == ([0] * 30 + [2], 0)
    assert (early, later) == (1, [0, 2])


def test_a_burst_is_smaller_than_the_budget_of_a_minute() -> None:
    clock = Clock()
    limits = RateLimits(120, clock, burst=10)
    first = [limits.count("ana") for _ in range(11)]
    spread: list[int] = []
    for _ in range(50):
        clock.now += 0.5
        spread.append(limits.count("ana"))
    clock.now += 1000
    later = [limits.count("ana") for _ in range(11)]

    assert first == [0] * 10 + [1]
    assert {*spread} == {0}
    assert later == [0] * 10 + [1]


def test_a_burst_is_at_most_the_budget_of_a_minute() -> None:
    limits = RateLimits(2, Clock(), burst=10)

    assert [limits.count("ana") for _ in range(3)] == [0, 0, 30]


def test_the_chat_page_may_open_several_sessions_at_once() -> None:
    settings = ServiceSettings()
    limits = RateLimits(settings.requests_per_minute, Clock(), burst=settings.request_burst)

    assert [limits.count("ana") > 0 for _ in range(41)] == [False] * 40 + [True]


def test_without_a_limit_nothing_is_counted() -> None:
    limits = RateLimits(0, Clock())

    assert {limits.count("ana") for _ in range(1000)} == {0}


def test_the_user_who_was_idle_longest_is_dropped_first() -> None:
    limits = RateLimits(1, Clock())
    limits.count("idle")
    limits.count("active")
    for number in range(MAX_USERS - 1):
        limits.count(f"{number}")

    assert limits.count("active") > 0
    assert limits.count("idle") == 0


@pytest.mark.anyio
async def test_a_user_above_the_limit_receives_a_problem_with_the_time_to_wait(store: MemoryStore) -> None:
    settings = ServiceSettings(requests_per_minute=2, workers=0)
    async with serving(build_service(store, scripted(), settings=settings)) as client:
        replies = [await client.post("/api/v1/sessions", {}) for _ in range(3)]
        other = await client.as_user(BO).get("/api/v1/sessions")
        stored = await store.conversations(owner="ana")

    refused = replies[-1]
    assert ([reply.status for reply in replies], other.status, len(stored)) == ([201, 201, 429], 200, 2)
    assert (refused.headers["content-type"], refused.json["code"]) == ("application/problem+json", "too_many_requests")
    assert 0 < int(refused.headers["retry-after"]) <= 30


@pytest.mark.anyio
@pytest.mark.parametrize("path", ["/agui", "/vercel"])
async def test_the_limit_applies_to_front_ends(store: MemoryStore, path: str) -> None:
    settings = ServiceSettings(requests_per_minute=1, workers=0)
    async with serving(build_service(store, scripted(), settings=settings)) as client:
        await client.get("/api/v1/sessions")
        reply = await client.post(path, {})

    assert (reply.status, reply.json["code"]) == (429, "too_many_requests")
    assert "retry-after" in reply.headers


@pytest.mark.anyio
@pytest.mark.parametrize("path", ["/v1/responses", "/v1/chat/completions"])
async def test_a_client_of_openai_above_the_limit_receives_an_error_of_its_api(store: MemoryStore, path: str) -> None:
    settings = ServiceSettings(requests_per_minute=1, workers=0)
    async with serving(build_service(store, scripted(), settings=settings)) as client:
        await client.get("/api/v1/sessions")
        reply = await client.post(path, {})

    error = reply.json["error"]
    assert (reply.status, error["type"], error["code"]) == (429, "rate_limit_error", "too_many_requests")
    assert 0 < int(reply.headers["retry-after"]) <= 60
    assert f"{reply.headers['retry-after']} seconds" in error["message"]


@pytest.mark.anyio
async def test_messages_of_a_websocket_are_counted_with_the_requests(store: MemoryStore) -> None:
    settings = ServiceSettings(requests_per_minute=2, workers=0)
    async with (
        serving(build_service(store, scripted(), settings=settings)) as client,
        open_socket(client) as socket,
    ):
        replies = [await socket.ask("command", command="x") for _ in range(3)]
        request = await client.get("/api/v1/sessions")
        pong = await socket.ask("ping")

    assert [reply["type"] for reply in replies] == ["command_result", "command_result", "error"]
    assert (replies[-1]["code"], request.status, pong["type"]) == ("too_many_requests", 429, "pong")


async def get_from(service: Service, address: str, path: str = "/api/v1/sessions", token: str | None = ANA) -> int:
    """Send a request from an address, and return the status."""
    transport = httpx.ASGITransport(service, client=(address, 50_000))
    headers = {} if token is None else {"authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        return (await client.get(path, headers=headers)).status_code


@pytest.mark.anyio
async def test_an_address_is_limited_with_and_without_a_token(store: MemoryStore) -> None:
    service = build_service(store, scripted(), settings=ServiceSettings(address_requests_per_minute=3, workers=0))
    first = [await get_from(service, "198.51.100.7", token=token) for token in (ANA, None, "wrong", BO, None)]
    health = await get_from(service, "198.51.100.7", "/health/live")
    other = await get_from(service, "198.51.100.8")

    assert first == [200, 401, 401, 429, 429]
    assert (health, other) == (200, 200)


@pytest.mark.anyio
async def test_the_response_above_the_limit_of_an_address_has_a_retry_delay(store: MemoryStore) -> None:
    settings = ServiceSettings(address_requests_per_minute=1, workers=0)
    async with serving(build_service(store, scripted(), settings=settings)) as client:
        await client.get("/api/v1/sessions")
        refused = await client.post("/sign-in", {"token": ANA})

    assert (refused.status, refused.json["code"]) == (429, "too_many_requests")
    assert 0 < int(refused.headers["retry-after"]) <= 60
    assert "content-security-policy" in refused.headers


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("first", "second", "is_one"),
    [
        pytest.param("2001:db8::1", "2001:db8:0:0:ffff::2", True, id="one-network"),
        pytest.param("2001:db8::1", "2001:db8:0:1::1", False, id="two-networks"),
        pytest.param("::ffff:198.51.100.7", "198.51.100.7", True, id="mapped"),
        pytest.param("::ffff:198.51.100.7", "::ffff:198.51.100.8", False, id="two-mapped"),
        pytest.param("testclient", "testclient", True, id="no-address"),
    ],
)
async def test_the_addresses_of_one_client_are_counted_together(
    store: MemoryStore, first: str, second: str, is_one: bool
) -> None:
    service = build_service(store, scripted(), settings=ServiceSettings(address_requests_per_minute=1, workers=0))
    assert await get_from(service, first) == 200
    assert await get_from(service, second) == (429 if is_one else 200)
