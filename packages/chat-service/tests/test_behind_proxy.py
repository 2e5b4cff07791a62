"""A service behind a reverse proxy, with the settings of docs/guides/deployment.md."""

from __future__ import annotations

from contextlib import AsyncExitStack

import pytest
from chat_service import Service, ServiceSettings
from chat_store import MemoryStore
from reverse_proxy import behind_proxy
from service_helpers import ANA, Bank, Event, SteppedModel, build_service, scripted, serving, text_of
from socket_helpers import open_socket
from websockets.exceptions import InvalidStatus

pytestmark = pytest.mark.anyio
SITE = ServiceSettings(hosts=("chat.example.org",), poll_seconds=0.2)


def build(store: MemoryStore, *script: object, settings: ServiceSettings = SITE) -> Service:
    return build_service(store, scripted(*script), settings=settings)


async def test_a_site_with_tls_at_the_proxy_gets_a_secure_cookie(store: MemoryStore) -> None:
    async with serving(build(store)) as service:
        cookies: list[str] = []
        for scheme in ("https", "http"):
            async with behind_proxy(service, scheme=scheme) as site:
                signed = await site.as_user(None).post("/sign-in", {"token": ANA}, host="chat.example.org")
                cookies.append(signed.headers["set-cookie"])

    assert ["Secure" in cookie for cookie in cookies] == [True, False]


async def test_a_host_name_that_is_not_in_the_settings_is_refused(store: MemoryStore) -> None:
    async with serving(build(store)) as service, behind_proxy(service) as site:
        known = await site.get("/api/v1/sessions")
        unknown = await site.get("/api/v1/sessions", host="other.example.org")

    assert (known.status, unknown.status) == (200, 403)


@pytest.mark.parametrize(("origin", "status"), [("https://chat.example.org", 200), ("https://evil.example", 403)])
async def test_only_pages_of_the_site_may_post(store: MemoryStore, origin: str, status: int) -> None:
    async with serving(build(store, "Hello.")) as service, behind_proxy(service) as site:
        reply = await site.post("/agui", AGUI, origin=origin)

    assert reply.status == status


AGUI: dict[str, object] = {
    "threadId": "t",
    "runId": "r",
    "state": {},
    "messages": [{"id": "m-1", "role": "user", "content": "Hello."}],
    "tools": [],
    "context": [],
    "forwardedProps": {},
}


async def test_events_pass_the_proxy_while_the_model_responds(store: MemoryStore) -> None:
    model = SteppedModel(scripted(["It ", "rains."]), 1)
    service = build_service(store, model, bank=Bank(), settings=SITE)
    async with serving(service) as direct, behind_proxy(direct) as site:
        body = {"message": "How is it?"}
        async with site.stream("POST", "/api/v1/chat/stream", body) as events:
            seen: list[Event] = []
            async for event in events:
                seen.append(event)
                if event.name == "text":
                    model.go_on.set()  # the first piece has arrived, and only now may the model continue

    assert text_of(seen) == "It rains."


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/v1/chat/stream", {"message": "Hello."}),
        ("/agui", AGUI),
        ("/vercel", {"id": "c", "trigger": "submit-message", "messages": [
            {"id": "m-1", "role": "user", "parts": [{"type": "text", "text": "Hello."}]}
        ]}),
        ("/v1/responses", {"model": "clerk", "input": "Hello.", "stream": True}),
        ("/v1/chat/completions", {
            "model": "clerk", "stream": True, "messages": [{"role": "user", "content": "Hello."}]
        }),
    ],
)  # fmt: skip
async def test_every_event_stream_asks_the_proxy_not_to_buffer(
    store: MemoryStore, path: str, body: dict[str, object]
) -> None:
    async with serving(build(store, "Hello.")) as service, behind_proxy(service) as site:
        reply = await site.post(path, body)

    assert reply.status == 200, reply.body
    assert reply.headers["content-type"].startswith("text/event-stream")
    assert reply.headers["x-accel-buffering"] == "no"


async def test_the_limit_of_new_websockets_counts_addresses_of_clients(store: MemoryStore) -> None:
    settings = ServiceSettings(hosts=SITE.hosts, socket_connects_per_minute=1, workers=0)
    addresses = {0: "203.0.113.1", 1: "203.0.113.2", 2: "203.0.113.1"}
    async with (
        serving(build(store, settings=settings)) as service,
        behind_proxy(service, addresses=addresses) as site,
        AsyncExitStack() as stack,
    ):
        for _ in range(2):
            socket = await stack.enter_async_context(open_socket(site))
            assert (await socket.ask("ping"))["type"] == "pong"
        with pytest.raises(InvalidStatus) as refused:
            await stack.enter_async_context(open_socket(site))

    assert refused.value.response.status_code == 429
