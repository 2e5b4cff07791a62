"""A real HTTP/1.1 server on the loopback interface, that answers what a test tells it, byte by byte."""

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

_SECONDS = 10.0
_READ = 65536
_Fields = Sequence[tuple[str, str]] | Mapping[str, str]


@final
class Exchange:
    """One request that a `LoopbackServer` got, and the means to answer it, well or badly.

    Attributes:
        method, path, headers, body: the request.
        left: set when the client has closed the connection, as far as `wait_closed` has watched it.
    """

    def __init__(self, head: str, body: bytes, connection: socket.socket, closing: threading.Event) -> None:
        first, *lines = head.split("\r\n")
        self.method, self.path, _ = first.split(" ", 2)
        self.headers = Headers([(name, value.strip()) for name, _, value in (line.partition(":") for line in lines)])
        self.body = body
        self.left = threading.Event()
        self._connection = connection
        self._closing = closing
        self.reusable = False

    def raw(self, data: bytes) -> None:
        """Send bytes as they are."""
        self._connection.sendall(data)

    def head(self, status: int = 200, headers: _Fields = (), *, reason: str = "Whatever", chunked: bool = True) -> None:
        """Send the status and the headers of an answer, whose body follows in chunks or ends with the connection."""
        fields = list(headers.items() if isinstance(headers, Mapping) else headers)
        if chunked:
            fields.append(("transfer-encoding", "chunked"))
        lines = [f"HTTP/1.1 {status} {reason}", *(f"{name}: {value}" for name, value in fields)]
        self.raw("\r\n".join([*lines, "", ""]).encode())

    def chunk(self, data: bytes) -> None:
        """Send one chunk of the body."""
        self.raw(b"%x\r\n%s\r\n" % (len(data), data))

    def end(self) -> None:
        """Send the last chunk. The connection can serve another request."""
        self.raw(b"0\r\n\r\n")
        self.reusable = True

    def answer(self, status: int = 200, headers: _Fields = (), body: bytes = b"", *, reason: str = "Whatever") -> None:
        """Send a whole answer. The connection can serve another request."""
        fields = list(headers.items() if isinstance(headers, Mapping) else headers)
        self.head(status, [*fields, ("content-length", str(len(body)))], reason=reason, chunked=False)
        self.raw(body)
        self.reusable = True

    def events(self, *chunks: bytes) -> None:
        """Send a whole stream of server-sent events, a chunk each."""
        self.head(200, {"content-type": "text/event-stream"})
        for data in chunks:
            self.chunk(data)
        self.end()

    def reset(self) -> None:
        """Break the connection, as a crashed peer does."""
        self._connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._connection.close()

    def pause(self, event: threading.Event) -> None:
        """Do nothing until the test sets the event, or is over."""
        while not event.wait(0.05) and not self._closing.is_set():
            pass

    def wait_closed(self, seconds: float = _SECONDS) -> bool:
        """Wait until the client has closed the connection; whether it has."""
        self._connection.settimeout(seconds)
        try:
            while self._connection.recv(_READ):
                pass
        except TimeoutError:
            return False
        except OSError:
            pass
        self.left.set()
        return True


@final
class LoopbackServer:
    """Serves one connection per thread; `handler` answers each request, in that thread.

    Use it as `with LoopbackServer(handler) as server`. A connection is kept for the next request after a whole answer,
    and closed when the handler returns without one. What a handler raises is raised again at the end of the block,
    except that the client may always hang up.

    Args:
        handler: answers a request.
        tls: speak TLS with this context.
        unix: listen at a Unix socket of this path, and not on the loopback interface.

    Attributes:
        host: the address with its port, as a `Request` wants it; `localhost` at a Unix socket.
        exchanges: what was asked, in order.
        connections: how many connections were accepted.
    """

    def __init__(
        self, handler: Callable[[Exchange], None], *, tls: ssl.SSLContext | None = None, unix: str | None = None
    ) -> None:
        self.exchanges: list[Exchange] = []
        self.connections = 0
        self._handler = handler
        self._tls = tls
        self._closing = threading.Event()
        self._errors: list[Exception] = []
        self._open: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        if unix is None:
            self._listener = socket.create_server(("127.0.0.1", 0), backlog=512)
            self.host = f"127.0.0.1:{self._listener.getsockname()[1]}"
        else:
            self._listener = socket.socket(socket.AF_UNIX)
            self._listener.bind(unix)
            self._listener.listen(512)
            self.host = "localhost"

    def __enter__(self) -> Self:
        self._start_thread(self._accept)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        self._closing.set()
        # Closing a listener wakes no thread that waits on it; a connection does.
        with socket.socket(self._listener.family) as wake:
            wake.connect(self._listener.getsockname())
        self._threads[0].join(_SECONDS)
        self._listener.close()
        for connection in list(self._open):
            _shut_down(connection)
        for thread in self._threads:
            thread.join(_SECONDS)
        if self._errors and kind is None:
            raise self._errors[0]

    def _start_thread(self, target: Callable[..., None], *args: object) -> None:
        thread = threading.Thread(target=target, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            connection, _ = self._listener.accept()
            if self._closing.is_set():
                connection.close()
                return
            self.connections += 1
            self._open.add(connection)
            self._start_thread(self._serve, connection)

    def _serve(self, connection: socket.socket) -> None:
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
        except Exception as error:  # noqa: BLE001  # raised again where the test can see it
            self._errors.append(error)
        finally:
            self._open -= {connection, plain}
            connection.close()
            plain.close()

    def _read_request(self, connection: socket.socket) -> Exchange | None:
        data = b""
        while b"\r\n\r\n" not in data:
            piece = connection.recv(_READ)
            if not piece:
                return None
            data += piece
        head, _, body = data.partition(b"\r\n\r\n")
        exchange = Exchange(head.decode("latin-1"), body, connection, self._closing)
        length = int(exchange.headers.get("content-length", "0"))
        while len(exchange.body) < length:
            piece = connection.recv(_READ)
            if not piece:
                return None
            exchange.body += piece
        return exchange


def _shut_down(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
