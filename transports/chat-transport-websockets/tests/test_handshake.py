"""Opening handshakes that succeed or fail."""

from __future__ import annotations

import logging
import socket
import ssl
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import trustme
from chat_core.errors import TransportError
from chat_core.transport import Request, Timeouts
from chat_testing import LoopbackServer
from socket_exchanges import ask, is_end, opened, read, three, until, ways
from socket_server import SECONDS, Session, SocketServer, refusal

pytestmark = pytest.mark.anyio

SECRET = "sk-hunter2"


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def tls(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1", "models.test").configure_cert(context)  # pyright: ignore[reportUnknownMemberType]  # pyOpenSSL
    return context


def secretly(scheme: str, host: str) -> Request:
    """Return a request with secrets in its headers and its query."""
    headers = (
        ("authorization", f"Bearer {SECRET}"),
        ("content-type", "application/json"),
        ("x-kind", "a"),
        ("X-Kind", "b"),
    )
    path = f"/v1?key={SECRET}"
    return Request(
        "POST", "https" if scheme == "https" else "http", host, path, headers, b"q", Timeouts(), is_last=is_end
    )


async def test_the_handshake_has_the_headers_of_the_request_and_the_transport() -> None:
    with SocketServer(three) as server:
        async with opened(headers={"X-Mine": "yes", "X-Kind": "never"}) as transport:
            await read(transport, secretly("http", server.host))
    asked = server.sessions[0].asked
    assert asked is not None
    assert asked.path == f"/v1?key={SECRET}"
    assert asked.headers["authorization"] == f"Bearer {SECRET}"
    assert asked.headers.get_all("x-kind") == ["a", "b"]
    assert asked.headers["x-mine"] == "yes"
    assert "content-type" not in asked.headers
    assert len(asked.headers.get_all("user-agent")) == 1


async def test_a_given_user_agent_replaces_the_default() -> None:
    with SocketServer(three) as server:
        async with opened() as transport:
            await read(transport, ask(server.host, headers=(("user-agent", "me/1"),)))
    asked = server.sessions[0].asked
    assert asked is not None
    assert asked.headers.get_all("user-agent") == ["me/1"]


async def test_subprotocols_are_offered_and_response_headers_are_available() -> None:
    with SocketServer(three, subprotocols=("v2",)) as server:
        async with opened(subprotocols=["v1", "v2"]) as transport, transport.stream(ask(server.host)) as stream:
            assert stream.status == 200
            assert stream.headers["sec-websocket-protocol"] == "v2"
            assert "upgrade" not in stream.headers
            assert len([event async for event in stream]) == 3
    asked = server.sessions[0].asked
    assert asked is not None
    assert asked.headers["sec-websocket-protocol"] == "v1, v2"


@pytest.mark.parametrize("status", [400, 401, 404, 429, 500, 503])
async def test_a_refused_handshake_raises_with_status_headers_and_body(status: int) -> None:
    body = b'{"error": {"message": "no"}}'
    answer = refusal(status, body, retry_after="7", x_request_id="req_1")
    with SocketServer(three, handshake=lambda _session, _request: answer) as server:
        async with opened() as transport:
            with pytest.raises(TransportError, match=f"returned status {status}") as caught:
                await read(transport, ask(server.host))
            assert (caught.value.kind, caught.value.status, caught.value.body) == ("status", status, body)
            assert caught.value.headers["retry-after"] == "7"
            response = await transport.send(ask(server.host))
            assert (response.status, response.body) == (status, body)
            assert response.headers["x-request-id"] == "req_1"


async def test_the_body_of_a_refused_handshake_is_limited() -> None:
    with SocketServer(three, handshake=lambda _session, _request: refusal(500, b"x" * 100_000)) as server:
        async with opened(max_error_bytes=1000) as transport:
            assert (await transport.send(ask(server.host))).body == b"x" * 1000


async def test_a_redirect_is_not_followed() -> None:
    with SocketServer(three) as elsewhere:
        location = f"ws://{elsewhere.host}/there?key=1"
        with SocketServer(three, handshake=lambda _session, _request: refusal(307, b"", location=location)) as server:
            async with opened() as transport:
                with pytest.raises(TransportError, match=r"a redirect to ws://\S+/there; redirects") as caught:
                    await read(transport, ask(server.host))
                assert (caught.value.status, caught.value.headers["location"]) == (307, location)
        assert elsewhere.connections == 0


async def test_a_server_without_websocket_support_raises_a_protocol_error() -> None:
    with LoopbackServer(lambda exchange: exchange.answer(200, {}, b"hello")) as server:
        async with opened() as transport:
            for call in ways(transport):
                with pytest.raises(TransportError, match="does not support WebSocket at this URL") as caught:
                    await call(ask(server.host))
                assert (caught.value.kind, caught.value.body) == ("protocol", b"hello")


async def test_an_error_does_not_quote_a_body_that_repeats_a_secret() -> None:
    with LoopbackServer(lambda exchange: exchange.answer(200, {}, f"Bearer {SECRET}".encode())) as server:
        async with opened() as transport:
            for call in ways(transport):
                with pytest.raises(TransportError, match="does not support WebSocket at this URL") as caught:
                    await call(secretly("http", server.host))
                assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        (b"SSH-2.0-OpenSSH_9.9\r\n\r\n", "protocol"),
        (b"", "stream"),
        (b"HTTP/1.1 101 Switching Protocols\r\n\r\n", "protocol"),
    ],
)
async def test_an_invalid_or_missing_handshake_response_raises(said: bytes, kind: str) -> None:
    def handshake(session: Session, _: object) -> None:
        session.raw(said)
        session.abort()
        session.wait_closed()

    with SocketServer(three, handshake=handshake) as server:
        async with opened() as transport:
            with pytest.raises(TransportError) as caught:
                await read(transport, secretly("http", server.host))
            assert caught.value.kind == kind
            assert SECRET not in f"{caught.value!r} {caught.value.__cause__!r}"


async def test_an_unreachable_address_raises_a_connect_error() -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        async with opened() as transport:
            with pytest.raises(TransportError, match="no connection") as caught:
                await read(transport, secretly("http", f"127.0.0.1:{bound.getsockname()[1]}"))
            assert caught.value.kind == "connect"
            assert SECRET not in f"{caught.value!r} {caught.value.__cause__!r}"


async def test_an_unanswered_handshake_raises_a_timeout() -> None:
    with SocketServer(three, handshake=lambda session, _: session.wait_closed()) as server:
        async with opened() as transport:
            with pytest.raises(TransportError, match=r"no connection within 0\.3 seconds") as caught:
                await read(transport, ask(server.host, connect=0.3))
            assert caught.value.kind == "timeout"


async def test_an_invalid_url_is_refused_without_leaking_its_secret() -> None:
    async with opened() as transport:
        with pytest.raises(TransportError) as caught:
            await read(transport, secretly("http", "127.0.0.1:port"))
        assert SECRET not in f"{caught.value!r} {caught.value.__cause__!r}"


async def test_a_header_with_a_line_break_is_refused_before_sending() -> None:
    with SocketServer(three) as server:
        async with opened() as transport:
            for name, value in (("authorization", f"{SECRET}\r\nx: 1"), ("x\n", "1"), ("", "1")):
                with pytest.raises(TransportError, match="does not allow") as caught:
                    await read(transport, ask(server.host, headers=((name, value),)))
                assert caught.value.kind == "protocol"
                assert SECRET not in str(caught.value)
        assert server.connections == 0


# --- TLS and proxies ------------------------------------------------------------------------------------------


async def test_verify_accepts_a_context_a_bundle_and_false(
    authority: trustme.CA, tls: ssl.SSLContext, tmp_path: Path
) -> None:
    bundle = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(bundle))
    context = ssl.create_default_context()
    authority.configure_trust(context)  # pyright: ignore[reportUnknownMemberType]  # pyOpenSSL
    with SocketServer(three, tls=tls) as server:
        for verify in (context, str(bundle), False):
            async with opened(verify=verify) as transport:
                for _ in range(2):
                    assert len(await read(transport, secretly("https", server.host))) == 3
        assert server.connections == 3


async def test_an_untrusted_certificate_raises_a_connect_error(tls: ssl.SSLContext) -> None:
    with SocketServer(three, tls=tls) as server:
        async with opened() as transport:
            with pytest.raises(TransportError, match="CERTIFICATE_VERIFY_FAILED") as caught:
                await read(transport, secretly("https", server.host))
            assert caught.value.kind == "connect"


async def test_closing_a_tls_stream_early_closes_its_connection_immediately(tls: ssl.SSLContext) -> None:
    with SocketServer(lambda session, _: session.send("1"), tls=tls) as server:
        async with opened(verify=False) as transport:
            async with transport.stream(secretly("https", server.host)) as stream:
                await anext(aiter(stream))
            await until(server.sessions[0].closed.is_set)


class Proxy:
    """Proxy that connects to one address, regardless of the requested address."""

    def __init__(self, target: str) -> None:
        self.target = target
        self.asked: list[bytes] = []
        self.first: list[bytes] = []
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.host = f"127.0.0.1:{self._listening.getsockname()[1]}"
        self._threads: list[threading.Thread] = []
        self._sockets: list[socket.socket] = []

    def run(self, target: object, *args: object) -> None:
        thread = threading.Thread(target=target, args=args)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType] - a callable
        self._threads.append(thread)
        thread.start()

    def serve(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            self._sockets.append(client)
            self.asked.append(client.recv(65536))
            server = socket.create_connection(self.target.split(":"))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType] - two of them
            self._sockets.append(server)
            client.sendall(b"HTTP/1.1 200 Connected\r\n\r\n")
            self.run(self.pump, client, server, self.first)
            self.run(self.pump, server, client, [])

    def pump(self, source: socket.socket, sink: socket.socket, heard: list[bytes]) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                heard.append(data)
                sink.sendall(data)
        with suppress(OSError):
            sink.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        for each in self._sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(SECONDS)
        for each in self._sockets:
            each.close()


@contextmanager
def proxy_to(target: str) -> Generator[Proxy]:
    proxy = Proxy(target)
    proxy.run(proxy.serve)
    try:
        yield proxy
    finally:
        proxy.close()


@pytest.fixture
def clean(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in ("http_proxy", "https_proxy", "ws_proxy", "wss_proxy", "socks_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    return monkeypatch


async def test_a_proxy_receives_the_host_of_the_request(clean: pytest.MonkeyPatch) -> None:
    assert clean
    with SocketServer(three) as server, proxy_to(server.host) as proxy:
        async with opened(proxy=f"http://{proxy.host}") as transport:
            for host in ("models.test", "models.test:8080", "10.0.0.7:80"):
                assert len(await read(transport, ask(host))) == 3
    assert [asked.split()[1] for asked in proxy.asked] == [b"models.test:80", b"models.test:8080", b"10.0.0.7:80"]
    # What goes through is the handshake itself, not the beginning of TLS.
    assert proxy.first[0].startswith(b"GET /v1 HTTP/1.1\r\nHost: models.test\r\n")


async def test_https_requests_use_a_tunnel_through_the_proxy(tls: ssl.SSLContext, authority: trustme.CA) -> None:
    context = ssl.create_default_context()
    authority.configure_trust(context)  # pyright: ignore[reportUnknownMemberType]  # pyOpenSSL
    with SocketServer(three, tls=tls) as server, proxy_to(server.host) as proxy:
        async with opened(proxy=f"http://{proxy.host}", verify=context) as transport:
            assert len(await read(transport, secretly("https", "models.test"))) == 3
    assert proxy.asked[0].startswith(b"CONNECT models.test:443 ")
    assert SECRET.encode() not in proxy.asked[0] + b"".join(proxy.first)


async def test_proxies_are_read_from_the_environment_unless_trust_env_is_false(clean: pytest.MonkeyPatch) -> None:
    with SocketServer(three) as server, proxy_to(server.host) as proxy:
        clean.setenv("http_proxy", f"http://{proxy.host}")
        clean.setenv("no_proxy", "127.0.0.1")
        async with opened() as transport:
            assert len(await read(transport, ask("models.test"))) == 3
            assert len(proxy.asked) == 1
            assert len(await read(transport, ask(server.host))) == 3
            assert len(proxy.asked) == 1
        clean.delenv("no_proxy")
        async with opened(trust_env=False) as transport:
            assert len(await read(transport, ask(server.host))) == 3
            assert len(proxy.asked) == 1


async def test_a_failed_proxy_raises_a_connect_error_without_its_password() -> None:
    with LoopbackServer(lambda exchange: exchange.answer(407, {}, b"no")) as refusing:
        proxies = [f"http://me:{SECRET}@{refusing.host}", f"http://me:{SECRET}@127.0.0.1:9", f"ftp://me:{SECRET}@h"]
        for proxy in proxies:
            async with opened(proxy=proxy) as transport:
                with pytest.raises(TransportError) as caught:
                    await read(transport, ask("models.test"))
                assert caught.value.kind == "connect"
                assert SECRET not in f"{caught.value!r} {caught.value.__cause__!r} {transport!r}"


async def test_compression_is_offered_only_if_enabled() -> None:
    with SocketServer(three) as server:
        for wanted in (False, True):
            async with opened(compression=wanted) as transport:
                await read(transport, ask(server.host))
    offered = ["sec-websocket-extensions" in session.asked.headers for session in server.sessions if session.asked]
    assert offered == [False, True]


async def test_no_log_contains_a_key_at_any_level(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with SocketServer(three) as server:
        async with opened() as transport:
            await read(transport, secretly("http", server.host))
    # The server of this test records the requests.
    assert SECRET not in "".join(
        [record.getMessage() for record in caplog.records if record.name != "websockets.server"]
    )
