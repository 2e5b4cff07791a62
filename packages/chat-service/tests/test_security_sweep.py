"""Every operation of the OpenAPI document withstands hostile requests. New operations need no change here."""

from __future__ import annotations

import io
import itertools
import json
import logging
import os
import random
import re
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import pytest
from chat_completions import CompletionsBuilder
from chat_service import JsonFormatter, RequestIdFilter, ServiceSettings
from chat_store import MemoryStore
from chat_testing import LoopbackServer
from chat_transport_httpx import HttpxTransport
from front_end_helpers import agui, ui_message, user, vercel
from service_helpers import ANA, BO, Client, Reply, build_service, scripted, serving
from socket_helpers import open_socket
from test_memory_routes import DictMemory

pytestmark = pytest.mark.anyio
SETTINGS = ServiceSettings(
    poll_seconds=0.2, requests_per_minute=0, address_requests_per_minute=0, metrics_role="metrics"
)
THOROUGH = bool(os.environ.get("CHAT_THOROUGH"))
KEY = "sk-provider-0123456789abcdef"
TITLE = "the title of ana"
PUBLIC = {"/health", "/health/live", "/health/ready", "/openapi.json"}
"""Paths that need no token."""
HOSTILE = [
    "..",
    "../..",
    "..%2f..%2fetc%2fpasswd",
    "%2e%2e%2f%2e%2e%2f",
    "%2fetc%2fpasswd",
    "..%5c..%5cwindows",
    "%00",
    "ID%00",
    "ID%2f..",
    "..%2fID",
    "ID%0d%0aX-Injected:%20yes",
    "%0d%0aX-Injected:%20yes",
    "%c0%ae%c0%ae",
    "%ff%fe",
    "%ed%a0%80",
    "%f0%9f%98%80",
    "%27%20OR%20%271%27=%271",
    "%25",
    "%",
    "*",
    "{run}",
    "x" * 5_000,
    "%F0%9F%98%80" * 2_000,
]
"""Values of path parameters, already encoded. `ID` is the id of an object of the user."""


@dataclass(frozen=True)
class Operation:
    """A method and a path of the document."""

    method: str
    path: str

    @property
    def names(self) -> list[str]:
        """Names of the path parameters."""
        return re.findall(r"\{(\w+)\}", self.path)

    def url(self, values: Mapping[str, str]) -> str:
        return re.sub(r"\{(\w+)\}", lambda found: values[found[1]], self.path)


@dataclass(frozen=True)
class Site:
    """A served service, its operations, and the ids of objects of ana by the name of the path parameter."""

    client: Client
    operations: list[Operation]
    ids: dict[str, str]

    @property
    def with_parameters(self) -> list[Operation]:
        return [operation for operation in self.operations if operation.names]

    async def request(
        self, operation: Operation, url: str | None = None, token: str | None = ANA, **more: str
    ) -> Reply:
        body: dict[str, object] | None = None if operation.method in {"GET", "DELETE"} else {}
        client = self.client.as_user(token)
        target = url if url is not None else operation.url(self.ids)
        return await client.request(operation.method, target, body, headers=more)


def operations_of(document: Mapping[str, Any]) -> list[Operation]:
    methods = {"get", "post", "put", "patch", "delete"}
    return [
        Operation(method.upper(), path)
        for path, item in document["paths"].items()
        for method in item
        if method in methods
    ]


@asynccontextmanager
async def site(store: MemoryStore) -> AsyncGenerator[Site]:
    service = build_service(store, scripted("Good morning."), settings=SETTINGS, memory=DictMemory())
    async with serving(service) as client:
        document = (await client.get("/openapi.json")).json
        answered = (await client.post("/api/v1/chat", {"message": "Hello."})).json
        await client.request("PATCH", f"/api/v1/sessions/{answered['session_id']}", {"title": TITLE})
        await client.post("/api/v1/memory/facts", {"subject": "ana", "predicate": "likes", "object": TITLE})
        assert (await client.post("/vercel", vercel("chat-1", ui_message("m1", TITLE)))).status == 200
        ids = {"session": answered["session_id"], "run": answered["run_id"], "chat": "chat-1", "fact": "1"}
        yield Site(client, operations_of(document), ids)


def is_problem(reply: Reply) -> bool:
    return reply.headers["content-type"] == "application/problem+json" and {"code", "message"} <= reply.json.keys()


async def test_hostile_path_parameters_name_no_object(store: MemoryStore) -> None:
    async with site(store) as found:
        for operation in found.with_parameters:
            for value in HOSTILE:
                for name in operation.names:
                    hostile = value.replace("ID", found.ids[name])
                    reply = await found.request(operation, operation.url({**found.ids, name: hostile}))
                    case = (
                        f"{operation.method} {operation.path} with {hostile[:60]}: {reply.status} {reply.body[:200]!r}"
                    )

                    assert reply.status in {400, 404, 405, 422}, case
                    assert is_problem(reply), case
                    assert "x-injected" not in reply.headers, case
                    assert TITLE.encode() not in reply.body, case
        assert len(await store.conversations(owner="ana")) == 2


async def test_ids_of_another_user_name_no_object(store: MemoryStore) -> None:
    async with site(store) as found:
        for operation in found.with_parameters:
            reply = await found.request(operation, token=BO)
            case = f"{operation.method} {operation.path}: {reply.status} {reply.body[:200]!r}"

            assert (reply.status, is_problem(reply)) == (404, True), case
            assert TITLE.encode() not in reply.body, case
        own = [operation for operation in found.with_parameters if operation.method == "GET"]
        endless = {"/api/v1/sessions/{session}/events", "/vercel/{chat}/stream"}
        statuses = {
            operation.path: (await found.request(operation)).status
            for operation in own
            if operation.path not in endless
        }
    assert {*statuses.values()} == {200}, statuses


@pytest.mark.parametrize("token", [None, "", f"{ANA}x", ANA.upper()])
async def test_no_operation_works_without_a_valid_token(store: MemoryStore, token: str | None) -> None:
    async with site(store) as found:
        for operation in found.operations:
            if operation.path in PUBLIC:
                continue
            reply = await found.request(operation, token=token)

            assert reply.status == 401, f"{operation.method} {operation.path}: {reply.status}"
        assert len(await store.conversations(owner="ana")) == 2


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    """Everything that is logged in the process, as text and as JSON."""
    stream, logger = io.StringIO(), logging.getLogger()
    handlers = [logging.StreamHandler(stream), logging.StreamHandler(stream)]
    handlers[0].setFormatter(JsonFormatter())
    for handler in handlers:
        handler.addFilter(RequestIdFilter())
        logger.addHandler(handler)
    level = logger.level
    logger.setLevel(logging.DEBUG)
    yield stream
    logger.setLevel(level)
    for handler in handlers:
        logger.removeHandler(handler)


async def test_no_token_appears_in_a_response_or_in_the_log(store: MemoryStore, log: io.StringIO) -> None:
    bodies: list[bytes] = []
    async with site(store) as found:
        for operation in found.operations:
            for token, more in ((ANA, {}), (f"wrong {ANA}", {}), (None, {"cookie": f"chat_service_token_0={ANA}"})):
                if "events" not in operation.path and not operation.path.endswith("stream"):
                    reply = await found.request(operation, token=token, **more)
                    bodies.append(reply.body + json.dumps(dict(reply.headers)).encode())
        for body in ({"token": ANA, "x": 1}, {"token": f"{ANA}!"}, {"token": [ANA]}, [ANA]):
            bodies.append((await found.client.as_user(None).post("/sign-in", body)).body)

    assert len(bodies) > 3 * len(PUBLIC)
    assert [body for body in bodies if ANA.encode() in body] == []
    assert log.getvalue()
    assert ANA not in log.getvalue()
    assert quote(ANA) not in log.getvalue()


async def test_a_quoted_key_of_the_provider_appears_in_no_response_and_not_in_the_log(
    store: MemoryStore, log: io.StringIO
) -> None:
    body = json.dumps({"error": {"message": f"Incorrect API key provided: {KEY}"}}).encode()
    with LoopbackServer(lambda exchange: exchange.answer(401, {"content-type": "application/json"}, body)) as server:
        transport = HttpxTransport(trust_env=False)
        builder = CompletionsBuilder().with_model("any").with_base_url(f"http://{server.host}/v1").with_api_key(KEY)
        model = builder.with_transport(transport).build()
        async with serving(build_service(store, model, settings=SETTINGS)) as client, open_socket(client) as socket:
            bodies = [
                (await client.post(path, request)).body
                for path, request in [
                    ("/api/v1/chat", {"message": "Hello."}),
                    ("/api/v1/chat/stream", {"message": "Hello."}),
                    ("/agui", agui("thread", user("m1", "Hello."), tools=[], context=[], state={}, forwardedProps={})),
                    ("/vercel", vercel("chat", ui_message("m1", "Hello."))),
                    ("/v1/responses", {"model": "clerk", "input": "Hello."}),
                    ("/v1/chat/completions", {"model": "clerk", "messages": [{"role": "user", "content": "Hello."}]}),
                ]
            ]
            await socket.send("chat", message="Hello.")
            bodies.append(json.dumps(await socket.until("error")).encode())
            runs = [
                (await client.get(f"/api/v1/sessions/{found.id}/runs")).body for found in await store.conversations()
            ]
        await transport.aclose()

    assert len(server.exchanges) == len(bodies)  # each request has reached the provider
    assert [found for found in [*bodies, *runs] if KEY.encode() in found] == []
    assert "AuthenticationError" in log.getvalue()
    assert KEY not in log.getvalue()


HEADERS = {
    "x-request-id": ["a b", "a\tb", "é", "x" * 5_000, "a%0d%0ax-injected:%20yes", "{}", "\x7f"],
    "idempotency-key": ["é", "x" * 5_000, "a%0d%0ab", "\x7f", "a\tb"],
    "last-event-id": ["é", "x" * 5_000, "1.2.3.4.5", "%0d%0a", "\x7f", "-1"],
    "traceparent": ["é", "x" * 5_000, "00-x", "\x7f"],
    "host": ["localhost:99999", "localhost:", "localhost:0", "[::1", "", "é", "localhost/..", "a\tb"],
    "cookie": ["é", "chat_service_token_0=%ff", "=", ";;;", "x" * 5_000],
    "authorization": ["Bearer", "Bearer é", "é", "Basic %ff", "x" * 5_000],
    "content-type": ["é", "application/json; charset=\x7f", "application/json;charset=utf-99"],
    "origin": ["é", "null", "http://[::1", "http://localhost:99999"],
}
"""Values of headers that a server passes on. Line ends cannot be sent in a header."""


@pytest.mark.parametrize("header", [*HEADERS])
async def test_hostile_headers_are_refused_or_ignored(store: MemoryStore, header: str) -> None:
    endless = {"/api/v1/sessions/{session}/events", "/api/v1/memory"}  # the second one deletes what others read
    async with site(store) as found:
        operations = [operation for operation in found.operations if operation.path not in endless]
        cases = [*itertools.product(operations, HEADERS[header], (ANA, None))]
        for operation, value, token in cases if THOROUGH else random.Random(0).sample(cases, 40):
            reply = await found.request(operation, token=token, **{header: value})
            case = f"{operation.method} {operation.path} with {value[:60]!r}: {reply.status} {reply.body[:200]!r}"

            assert reply.status < 500, case
            assert "x-injected" not in reply.headers, case
            if reply.body != b"Invalid HTTP request received.":  # by the server, before the service
                assert re.fullmatch(r"[\w.:-]{1,64}", reply.headers["x-request-id"], re.ASCII), case


async def test_hostile_paths_and_queries_are_one_line_of_the_log(store: MemoryStore, log: io.StringIO) -> None:
    forged = "%0a%0d%e2%80%a8%c2%85%1b[31m2026-01-01 CRITICAL forged"
    async with site(store) as found:
        for operation in found.with_parameters:
            values = dict.fromkeys(operation.names, quote(forged, safe="%"))
            await found.request(operation, f"{operation.url(values)}?after={quote(forged, safe='%')}")
    lines = [line for line in re.split("[\n\r\u2028\x85]", log.getvalue()) if "forged" in line]

    assert len(lines) == 2 * len(found.with_parameters)
    assert [line for line in lines if not re.match(r'(\{"time": .*\}|[A-Z]+ .* in \d+ ms)$', line)] == []
    assert "\x1b" not in log.getvalue()
