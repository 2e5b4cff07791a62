"""HTTP/1.1 server on the loopback interface whose responses a test controls byte by byte."""

from __future__ import annotations

import socket
import ssl
import struct
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Self, final

from chat_core.transport import Headers

_TIMEOUT = 10.0
_READ_SIZE = 65536
_Fields = Sequence[tuple[str, str]] | Mapping[str, str]


@final
class Exchange:
    """Request received by a `LoopbackServer`, with methods that send a valid or an invalid response.

    Attributes:
        method, path, headers, body: the request.
        left: set when `wait_closed()` has seen that the client closed the connection.
        reusable: whether the connection can serve another request after the handler returns.
    """

    def __init__(self, head: str, body: bytes, connection: socket.socket, closing: threading.Event) -> None:
        first, *lines = head.split("\r\n")
        method, path, _ = first.split(" ", 2)
        self.method: str = method
        self.path: str = path
        fields = [line.partition(":") for line in lines]
        self.headers: Headers = Headers([(name, value.strip()) for name, _, value in fields])
        self.body: bytes = body
        self.left: threading.Event = threading.Event()
        self._connection = connection
        self._closing = closing
        self.reusable: bool = False

    def raw(self, data: bytes) -> None:
        """Send `data` unchanged over the connection."""
        self._connection.sendall(data)

    def head(self, status: int = 200, headers: _Fields = (), *, reason: str = "Whatever", chunked: bool = True) -> None:
        """Send the status line and the headers of a response.

        Args:
            status: the status code.
            headers: the header fields.
            reason: the reason phrase.
            chunked: whether the body is sent with `chunk()` and `end()`. Otherwise the body ends with the connection.
        """
        fields = list(headers.items() if isinstance(headers, Mapping) else headers)
        if chunked:
            fields.append(("transfer-encoding", "chunked"))
        lines = [f"HTTP/1.1 {status} {reason}", *(f"{name}: {value}" for name, value in fields)]
        self.raw("\r\n".join([*lines, "", ""]).encode())

    def chunk(self, data: bytes) -> None:
        """Send `data` as one chunk of a response with chunked encoding."""
        self.raw(b"%x\r\n%s\r\n" % (len(data), data))

    def end(self) -> None:
        """End a response with chunked encoding. The connection can then serve another request."""
        self.raw(b"0\r\n\r\n")
        self.reusable = True

    def answer(self, status: int = 200, headers: _Fields = (), body: bytes = b"", *, reason: str = "Whatever") -> None:
        """Send a complete response. The connection can then serve another request.

        Args:
            status: the status code.
            headers: the header fields, without `content-length`.
            body: the bytes of the body.
            reason: the reason phrase.
        """
        fields = list(headers.items() if isinstance(headers, Mapping) else headers)
        self.head(status, [*fields, ("content-length", str(len(body)))], reason=reason, chunked=False)
        self.raw(body)
        self.reusable = True

    def events(self, *chunks: bytes) -> None:
        """Send a complete stream of server-sent events, one chunk per argument."""
        self.head(200, {"content-type": "text/event-stream"})
        for data in chunks:
            self.chunk(data)
        self.end()

    def reset(self) -> None:
        """Reset the TCP connection, as if this server had crashed."""
        self._connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._connection.close()

    def pause(self, event: threading.Event) -> None:
        """Block until the test sets `event` or the server closes."""
        while not event.wait(0.05) and not self._closing.is_set():
            pass

    def wait_closed(self, seconds: float = _TIMEOUT) -> bool:
        """Block until the client closes the connection. Return `False` if it is still open after `seconds`."""
        self._connection.settimeout(seconds)
        try:
            while self._connection.recv(_READ_SIZE):
                pass
        except TimeoutError:
            return False
        except OSError:
            pass
        self.left.set()
        return True


@final
class LoopbackServer:
    """HTTP server for tests, with one thread per connection. `handler` responds to each request in that thread.

    Use `with LoopbackServer(handler) as server`. A connection is reused after a complete response, and closed if the
    handler returns without a complete response. Exiting the context re-raises the first exception of a handler, except
    `OSError`, because a client may disconnect at any time.

    Args:
        handler: function that sends the response.
        tls: context for TLS. Default: no TLS.
        unix: path of a Unix socket to use instead of the loopback interface.

    Attributes:
        host: host and port for a `Request`; `localhost` with a Unix socket.
        exchanges: the received requests, in order.
        connections: number of accepted connections.
    """

    def __init__(
        self, handler: Callable[[Exchange], None], *, tls: ssl.SSLContext | None = None, unix: str | None = None
    ) -> None:
        self.exchanges: list[Exchange] = []
        self.connections: int = 0
        self._handler = handler
        self._tls = tls
        self._closing = threading.Event()
        self._errors: list[Exception] = []
        self._open: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        if unix is None:
            self._listener = socket.create_server(("127.0.0.1", 0), backlog=512)
            self.host: str = f"127.0.0.1:{self._listener.getsockname()[1]}"
        else:
            self._listener = socket.socket(socket.AF_UNIX)
            self._listener.bind(unix)
            self._listener.listen(512)
            self.host = "localhost"

    def __enter__(self) -> Self:
        self._start_thread(self._accept_connections)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        self._closing.set()
        # Closing a listener does not wake a thread that waits in accept(). A new connection does.
        with socket.socket(self._listener.family) as wake:
            wake.connect(self._listener.getsockname())
        self._threads[0].join(_TIMEOUT)
        self._listener.close()
        for connection in list(self._open):
            _shut_down(connection)
        for thread in self._threads:
            thread.join(_TIMEOUT)
        if self._errors and kind is None:
            raise self._errors[0]

    def _start_thread(self, target: Callable[..., None], *args: object) -> None:
        thread = threading.Thread(target=target, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept_connections(self) -> None:
        while True:
            connection, _ = self._listener.accept()
            if self._closing.is_set():
                connection.close()
                return
            self.connections += 1
            self._open.add(connection)
            self._start_thread(self._serve_connection, connection)

    def _serve_connection(self, connection: socket.socket) -> None:
        plain = connection
        try:
            if connection.family == socket.AF_INET:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._tls is not None:
                connection = self._tls.wrap_socket(connection, server_side=True)
                self._open.add(connection)
            while not self._closing.is_set():
                exchange = self._read_request(connection)
                if exchange is None:
                    break
                self.exchanges.append(exchange)
                self._handler(exchange)
                if not exchange.reusable:
                    break
        except OSError:
            pass
        except Exception as error:  # noqa: BLE001  # raised again by __exit__()
            self._errors.append(error)
        finally:
            self._open -= {connection, plain}
            connection.close()
            plain.close()

    def _read_request(self, connection: socket.socket) -> Exchange | None:
        """Read one request and return it, or None if the client closes the connection first."""
        data = b""
        while b"\r\n\r\n" not in data:
            piece = connection.recv(_READ_SIZE)
            if not piece:
                return None
            data += piece
        head, _, body = data.partition(b"\r\n\r\n")
        exchange = Exchange(head.decode("latin-1"), body, connection, self._closing)
        length = int(exchange.headers.get("content-length", "0"))
        while len(exchange.body) < length:
            piece = connection.recv(_READ_SIZE)
            if not piece:
                return None
            exchange.body += piece
        return exchange


def _shut_down(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
