"""Requests go only to allowed hosts with public addresses, and only once for each decision about an address."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from chat_core.errors import UsageError
from chat_core.json import JsonValue
from chat_pipeline import Http, TaskCall, TaskError
from chat_pipeline.http import is_public

pytestmark = pytest.mark.anyio


ENDLESS = {"header": b"X", "continue": b"HTTP/1.1 100 Continue\r\n\r\n"}
"""Parts of the head of a response that never ends."""


class Server(ThreadingHTTPServer):
    """A server on loopback that records its requests."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.requests: list[tuple[str, str, dict[str, str], bytes]] = []
        self.stop = threading.Event()
        self.sending = threading.Event()
        self.disconnected = threading.Event()

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    def handle_any(self) -> None:
        assert isinstance(self.server, Server)
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server.requests.append((self.command, self.path, headers, body))
        kind = self.path.split("?")[0].strip("/")
        if kind == "slow":
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"x")
            self.server.stop.wait(30)
            return
        if kind in ENDLESS:
            self.send_endlessly(ENDLESS[kind])
            return
        status = int(kind) if kind.isdigit() else 200
        data = {"large": b"x" * 2000, "broken": b"{"}.get(kind, json.dumps({"ok": [1]}).encode())
        self.send_response(status)
        self.send_header("Content-Type", "text/plain" if kind == "large" else "application/json; charset=utf-8")
        self.send_header("Content-Length", str(len(data)))
        if status in {301, 302, 307}:
            self.send_header("Location", "http://169.254.169.254/latest/meta-data")
        self.end_headers()
        self.wfile.write(data)

    def send_endlessly(self, data: bytes) -> None:
        """Send data again and again, more often than the time limit of a read, until the client disconnects."""
        assert isinstance(self.server, Server)
        self.wfile.write(b"HTTP/1.1 200 OK\r\n" if data.startswith(b"X") else b"")
        try:
            while not self.server.stop.wait(0.01):
                self.wfile.write(data)
                self.server.sending.set()
        except OSError:
            self.server.disconnected.set()

    do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = handle_any  # noqa: N815 - the names of http.server

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name in http.server
        pass


@pytest.fixture
def server() -> Generator[Server]:
    server = Server()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.stop.set()
        server.shutdown()
        thread.join()
        server.server_close()


def call(url: str, **config: JsonValue) -> TaskCall:
    return TaskCall(run_id="run", task_id="send", config={"url": url, **config}, context={})


@pytest.mark.parametrize("hosts", [b"b", "api.example.org", [[]], [5], ["http://["], ["api.example.org:x"], 5])
def test_hosts_are_a_collection_of_names(hosts: Any) -> None:
    with pytest.raises(UsageError, match=r"hosts must be a collection of names of hosts"):
        Http(hosts)


async def test_a_response_has_status_headers_and_a_json_body(server: Server) -> None:
    http = Http([server.host], private=True)
    output = await http.run(call(f"http://{server.host}/items?q=1", headers={"X-Key": "k"}))

    assert isinstance(output, dict)
    assert (output["status"], output["body"]) == (200, {"ok": [1]})
    ((method, path, headers, _),) = server.requests
    assert (method, path, headers["x-key"], headers["host"]) == ("GET", "/items?q=1", "k", server.host)
    assert "idempotency-key" not in headers


async def test_a_changing_request_has_the_same_idempotency_key_in_each_attempt(server: Server) -> None:
    http = Http([server.host], private=True)
    for _ in range(2):
        await http.run(call(f"http://{server.host}/", method="POST", body={"a": None}))

    keys = {headers["idempotency-key"] for _, _, headers, _ in server.requests}
    assert keys == {"run/send"}
    assert server.requests[0][3] == b'{"a":null}'
    assert server.requests[0][2]["content-type"] == "application/json"


@pytest.mark.parametrize(
    "url",
    [
        "http://other.example/",
        "http://127.0.0.1:1/",
        "http://127.0.0.1/",
        "https://{host}/",
        "ftp://{host}/",
        "file:///etc/passwd",
        "http://{host}@other.example/",
        "http://user:pw@{host}/",
        "http://other.example#@{host}/",
        "//{host}/",
        "http://{host}\\@other.example/",
        "http://{host}/a b",
        "http://{host}/\r\nX-Injected: 1",
        "http://[::1]/",
        "http://{host}:80:80/",
        "",
    ],
)
async def test_a_url_outside_the_allow_list_is_refused_before_anything_is_sent(server: Server, url: str) -> None:
    http = Http([f"http://{server.host}"], private=True)

    with pytest.raises(TaskError, match="is not allowed"):
        await http.run(call(url.replace("{host}", server.host)))
    assert server.requests == []


@pytest.mark.parametrize("path", ["é", "?q=é", "\ud800"])
async def test_a_url_with_characters_that_cannot_be_sent_is_refused(server: Server, path: str) -> None:
    http, url = Http([server.host], private=True), f"http://{server.host}/{path}"

    ((_, problem),) = http.check({"url": url})
    with pytest.raises(TaskError, match="%XX") as caught:
        await http.run(call(url))
    assert (problem, caught.value.retryable) == (str(caught.value), False)


async def test_a_host_name_that_cannot_exist_is_a_permanent_failure() -> None:
    host = f"{'a' * 70}.example"
    with pytest.raises(TaskError, match="cannot be resolved") as caught:
        await Http([host]).run(call(f"http://{host}/"))
    assert not caught.value.retryable


@pytest.mark.parametrize(
    "url", ["http://ana:pass@{host}/", "http://ana:pass@[", "http:ana:pass@{host}", "http://ana:1/pass@{host}"]
)
async def test_the_error_for_a_url_with_a_password_does_not_contain_it(server: Server, url: str) -> None:
    with pytest.raises(TaskError, match="is not allowed") as caught:
        await Http([server.host], private=True).run(call(url.replace("{host}", server.host)))
    assert "ana" not in str(caught.value)
    assert "pass" not in str(caught.value)


async def test_an_allowed_name_with_a_private_address_is_refused(server: Server) -> None:
    port = server.host.partition(":")[2]
    http = Http([server.host, f"localhost:{port}"])

    for url in (f"http://{server.host}/", f"http://localhost:{port}/"):
        with pytest.raises(TaskError, match="has the private address"):
            await http.run(call(url))
    assert server.requests == []


async def test_the_connection_goes_to_the_checked_address(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that resolves to another address after the check reaches nothing else."""
    port = int(server.host.partition(":")[2])
    lookups: list[str] = []

    async def resolve(host: str, port: int, **_: object) -> list[tuple[object, ...]]:
        lookups.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", resolve)
    http = Http([f"rebound.invalid:{port}"], private=True)
    await http.run(call(f"http://rebound.invalid:{port}/"))

    assert lookups == ["rebound.invalid"]
    assert server.requests[0][2]["host"] == f"rebound.invalid:{port}"


@pytest.mark.parametrize("status", [301, 302, 307])
async def test_a_redirect_is_not_followed(server: Server, status: int) -> None:
    with pytest.raises(TaskError, match=f"redirects with status {status}"):
        await Http([server.host], private=True).run(call(f"http://{server.host}/{status}"))
    assert len(server.requests) == 1


@pytest.mark.parametrize(("status", "retryable"), [(400, False), (404, False), (429, True), (503, True)])
async def test_an_error_status_fails_the_task(server: Server, status: int, *, retryable: bool) -> None:
    with pytest.raises(TaskError, match=f"answered with status {status}") as caught:
        await Http([server.host], private=True).run(call(f"http://{server.host}/{status}"))
    assert caught.value.retryable is retryable


async def test_size_and_time_of_a_response_are_limited(server: Server) -> None:
    with pytest.raises(TaskError, match="more than 1999 bytes"):
        await Http([server.host], private=True, max_bytes=1999).run(call(f"http://{server.host}/large"))
    with pytest.raises(TaskError, match="failed: TimeoutError"):
        await Http([server.host], private=True, timeout=0.2).run(call(f"http://{server.host}/slow"))
    assert isinstance(
        await Http([server.host], private=True, max_bytes=2000).run(call(f"http://{server.host}/large")), dict
    )


@pytest.fixture
async def single_thread() -> None:
    """Give the event loop one worker thread, so that an occupied thread blocks everything else."""
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))


@pytest.mark.usefixtures("single_thread")
@pytest.mark.parametrize("path", ENDLESS)
async def test_an_endless_head_ends_at_the_time_limit_and_frees_the_thread(server: Server, path: str) -> None:
    hasty, patient = (Http([server.host], private=True, timeout=seconds) for seconds in (0.2, 30))

    with pytest.raises(TaskError, match="failed: TimeoutError") as caught:
        await asyncio.wait_for(hasty.run(call(f"http://{server.host}/{path}")), 10)
    assert caught.value.retryable
    assert server.disconnected.wait(10)
    assert isinstance(await asyncio.wait_for(patient.run(call(f"http://{server.host}/")), 10), dict)


@pytest.mark.usefixtures("single_thread")
async def test_a_cancelled_request_frees_its_thread_and_connection(server: Server) -> None:
    http = Http([server.host], private=True, timeout=60)
    request = asyncio.create_task(http.run(call(f"http://{server.host}/header")))
    with ThreadPoolExecutor(1) as other_thread:
        await asyncio.get_running_loop().run_in_executor(other_thread, server.sending.wait, 10)
    request.cancel()

    with pytest.raises(asyncio.CancelledError):
        await request
    assert isinstance(await asyncio.wait_for(http.run(call(f"http://{server.host}/")), 10), dict)
    assert server.disconnected.wait(10)


async def test_a_body_that_is_not_json_in_spite_of_its_type_is_an_error(server: Server) -> None:
    with pytest.raises(TaskError, match="not JSON"):
        await Http([server.host], private=True).run(call(f"http://{server.host}/broken"))


async def test_an_unreachable_host_is_a_temporary_failure() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        host = f"127.0.0.1:{unused.getsockname()[1]}"
        with pytest.raises(TaskError, match="no connection to") as caught:
            await Http([host], private=True).run(call(f"http://{host}/"))
    assert caught.value.retryable


@pytest.mark.parametrize(
    ("name", "value"),
    [("Host", "evil"), ("Idempotency-Key", "x"), ("X-A", "a\r\nX-B: b"), ("X\r\nY", "a"), ("X-A", 1), ("", "a")],
)
async def test_a_header_that_could_change_the_request_is_refused(server: Server, name: str, value: JsonValue) -> None:
    http = Http([server.host], private=True)

    assert list(http.check({"url": f"http://{server.host}/", "headers": {name: value}}))
    with pytest.raises(TaskError):
        await http.run(call(f"http://{server.host}/", headers={name: value}))
    assert server.requests == []


@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("93.184.216.34", True),
        ("2606:2800:220:1::1", True),
        ("127.0.0.1", False),
        ("10.1.2.3", False),
        ("172.16.0.1", False),
        ("192.168.1.1", False),
        ("169.254.169.254", False),
        ("100.64.0.1", False),
        ("0.0.0.0", False),  # noqa: S104 - not bound
        ("224.0.0.1", False),
        ("255.255.255.255", False),
        ("::1", False),
        ("::", False),
        ("fe80::1%eth0", False),
        ("fd00::1", False),
        ("::ffff:127.0.0.1", False),
        ("::ffff:169.254.169.254", False),
        ("64:ff9b::7f00:1", False),
        ("2002:7f00:1::", False),
    ],
)
def test_only_addresses_of_the_internet_are_public(address: str, *, public: bool) -> None:
    assert is_public(address) is public
