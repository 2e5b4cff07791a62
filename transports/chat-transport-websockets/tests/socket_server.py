"""A WebSocket server on the loopback interface that a test controls frame by frame."""

from __future__ import annotations

import socket
import ssl
import struct
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Self

from websockets.datastructures import Headers
from websockets.exceptions import InvalidState
from websockets.frames import Frame, Opcode
from websockets.http11 import Request, Response
from websockets.protocol import State
from websockets.server import ServerProtocol
from websockets.typing import Subprotocol

SECONDS = 30.0


class ClientGoneError(Exception):
    """Error raised if the client has disconnected, or if the server is closing."""


@contextmanager
def leaving() -> Generator[None]:
    """Return a context manager that converts a closed connection to `ClientGoneError`."""
    try:
        yield
    except InvalidState:
        raise ClientGoneError from None


class Session:
    """Connection of a client.

    Attributes:
        number: index of the connection, from 0.
        asked: the request of the handshake.
        closed: set when the client has disconnected.
        goodbye: the code of its close frame, if it has sent one.
    """

    def __init__(
        self, number: int, connection: socket.socket, ending: threading.Event, protocol: ServerProtocol
    ) -> None:
        self.number = number
        self.asked: Request | None = None
        self.closed = threading.Event()
        self.goodbye: int | None = None
        self.connection = connection
        self._ending = ending
        self._protocol = protocol
        self._lock = threading.Lock()

    @property
    def is_open(self) -> bool:
        """Return whether messages can be sent."""
        return self._protocol.state is State.OPEN

    def send(self, *messages: str | bytes) -> None:
        """Send messages, text or binary."""
        for message in messages:
            with self._lock, leaving():
                if isinstance(message, str):
                    self._protocol.send_text(message.encode())
                else:
                    self._protocol.send_binary(message)
                self._flush()

    def ping(self, data: bytes) -> None:
        """Send a ping."""
        with self._lock, leaving():
            self._protocol.send_ping(data)
            self._flush()

    def accept(self, response: Response) -> None:
        """Accept the handshake."""
        with self._lock:
            self._protocol.send_response(response)
            self._flush()

    def close(self, code: int = 1000, reason: str = "") -> None:
        """Close the connection with a close frame."""
        with self._lock, leaving():
            self._protocol.send_close(code, reason)
            self._flush()

    def raw(self, data: bytes) -> None:
        """Send bytes unchanged."""
        try:
            self.connection.sendall(data)
        except OSError:
            raise ClientGoneError from None

    def abort(self, *, reset: bool = False) -> None:
        """End the connection without a close frame, with `reset` by a TCP reset."""
        with suppress(OSError):
            if reset:
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.shutdown(socket.SHUT_RD if reset else socket.SHUT_RDWR)

    def wait(self, event: threading.Event) -> None:
        """Wait for an event, as long as the client is connected."""
        while not event.wait(0.01):
            if self.closed.is_set() or self._ending.is_set():
                raise ClientGoneError

    def wait_closed(self) -> None:
        """Wait until the client has disconnected."""
        while not self.closed.wait(0.05):
            if self._ending.is_set():
                raise ClientGoneError

    def receive(self) -> list[Request | Frame]:
        """Return the received frames, or an empty list at the end of the connection."""
        try:
            data = self.connection.recv(65536)
        except OSError:
            data = b""
        with self._lock:
            if data:
                self._protocol.receive_data(data)
            else:
                self._protocol.receive_eof()
            events = [event for event in self._protocol.events_received() if isinstance(event, Request | Frame)]
            with suppress(ClientGoneError):
                self._flush()
        if not data:
            raise ClientGoneError
        return events

    def _flush(self) -> None:
        for data in self._protocol.data_to_send():
            try:
                if data:
                    self.connection.sendall(data)
                else:
                    self.connection.shutdown(socket.SHUT_WR)
            except OSError:
                raise ClientGoneError from None


class SocketServer:
    """Server that passes each message of each client to `handler`, in a separate thread.

    Args:
        handler: called with the session and the message.
        handshake: answers the handshake; `None` accepts it.
        reads: whether messages are read at all.

    Attributes:
        host: host and port of the server, as in a `Request`.
        sessions: connections of clients, oldest first.
    """

    def __init__(
        self,
        handler: Callable[[Session, bytes], object],
        *,
        handshake: Callable[[Session, Request], Response | None] = lambda _session, _request: None,
        subprotocols: tuple[str, ...] = (),
        tls: ssl.SSLContext | None = None,
        reads: bool = True,
    ) -> None:
        self._handler = handler
        self._handshake = handshake
        self._subprotocols = [Subprotocol(name) for name in subprotocols]
        self._tls = tls
        self._reads = reads
        self._ending = threading.Event()
        self._threads: list[threading.Thread] = []
        self.sessions: list[Session] = []
        self.errors: list[BaseException] = []
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=1000)
        self.host = f"127.0.0.1:{self._listening.getsockname()[1]}"

    @property
    def connections(self) -> int:
        """Number of accepted connections."""
        return len(self.sessions)

    def __enter__(self) -> Self:
        self._run(self._accept)
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._ending.set()
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        for session in self.sessions:
            session.abort()
        for thread in self._threads:
            thread.join(SECONDS)
        assert not any(thread.is_alive() for thread in self._threads)
        if error is None and self.errors:
            raise self.errors[0]

    def _run(self, target: Callable[..., object], *args: object) -> None:
        def run() -> None:
            try:
                target(*args)
            except ClientGoneError:
                pass
            except BaseException as error:  # noqa: BLE001 - raised at the end
                self.errors.append(error)

        thread = threading.Thread(target=run)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            protocol = ServerProtocol(subprotocols=self._subprotocols or None, max_size=None)
            session = Session(len(self.sessions), connection, self._ending, protocol)
            self.sessions.append(session)
            self._run(self._serve, connection, session, protocol)

    def _serve(self, plain: socket.socket, session: Session, protocol: ServerProtocol) -> None:
        connection = plain
        try:
            if self._tls is not None:
                connection = session.connection = self._tls.wrap_socket(plain, server_side=True)
            while True:
                for event in session.receive():
                    if isinstance(event, Request):
                        self._shake_hands(session, event, protocol)
                    elif event.opcode is Opcode.CLOSE:
                        session.goodbye = int.from_bytes(bytes(event.data)[:2]) or None
                    elif event.opcode in {Opcode.TEXT, Opcode.BINARY}:
                        self._run(self._handler, session, bytes(event.data))
        except OSError:
            pass
        finally:
            session.closed.set()
            connection.close()

    def _shake_hands(self, session: Session, request: Request, protocol: ServerProtocol) -> None:
        session.asked = request
        response = self._handshake(session, request)
        session.accept(response if response is not None else protocol.accept(request))
        if not self._reads:
            self._ending.wait()


def refusal(status: int, body: bytes, **headers: str) -> Response:
    """Return a response that refuses a handshake."""
    fields = Headers([(name.replace("_", "-"), value) for name, value in headers.items()])
    fields["content-length"] = str(len(body))
    return Response(status, "Whatever", fields, body)
