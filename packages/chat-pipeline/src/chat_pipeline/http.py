"""The runtime `http`, which sends requests to allowed hosts only.

The host name is resolved once, each of its addresses is checked, and the connection uses a checked address. Therefore,
a host name whose address changes after the check cannot lead to another server. Redirects are not followed, and proxy
settings of the environment are not used.
"""

from __future__ import annotations

import asyncio
import http.client
import ipaddress
import re
import socket
import ssl
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import closing, suppress
from threading import Timer
from typing import ClassVar, Final, cast, final
from urllib.parse import SplitResult, urlsplit

from chat_core import json
from chat_core.arguments import argument_error, require_type
from chat_core.json import JsonValue

from chat_pipeline.errors import TaskError
from chat_pipeline.runtime import ANY, TABLE, ConfigField, ConfigProblem, Runtime, TaskCall
from chat_pipeline.templates import has_expression

MAX_RESPONSE_BYTES: Final = 1024 * 1024
"""Default maximum size of a response."""
METHODS: Final = ("DELETE", "GET", "HEAD", "PATCH", "POST", "PUT")
_HOSTS: Final = "a collection of names of hosts, such as ['api.example.org']"
_PORTS: Final = {"http": 80, "https": 443}
_FORBIDDEN_HEADERS: Final = frozenset({"host", "content-length", "transfer-encoding", "connection", "idempotency-key"})
_RETRYABLE: Final = frozenset({408, 425, 429, 500, 502, 503, 504})
_CHUNK: Final = 65_536
_USER: Final = re.compile(r"^((?:https?:)?/*).*@", re.DOTALL)
"""Pattern for the user and the password in a URL, which are removed from error messages."""


@final
class Http(Runtime):
    """The runtime `http`, which sends requests to allowed hosts.

    Requests other than `GET` and `HEAD` have the header `Idempotency-Key`, with the same value in each attempt.

    Args:
        hosts: allowed hosts, such as `api.example.com`, `localhost:8080` or `https://api.example.com`. An entry without
            a scheme allows both schemes. An entry without a port allows only the default port.
        private: whether addresses of the local machine or of private networks are allowed.
        timeout: time limit of a request and its response, in seconds.
        max_bytes: maximum size of a response.
    """

    name = "http"
    uses_network = True
    fields: ClassVar[Mapping[str, ConfigField]] = {
        "url": ConfigField(),
        "method": ConfigField(required=False, choices=METHODS),
        "headers": ConfigField(TABLE, required=False),
        "body": ConfigField(ANY, required=False),
    }

    def __init__(
        self,
        hosts: Collection[str],
        *,
        private: bool = False,
        timeout: float = 30.0,
        max_bytes: int = MAX_RESPONSE_BYTES,
    ) -> None:
        require_type("hosts", hosts, Iterable, _HOSTS)
        names = list[object](hosts)
        if isinstance(hosts, str) or not all(isinstance(name, str) for name in names):
            raise argument_error("hosts", _HOSTS, hosts)
        try:
            self._allowed = {_origin_of_host(scheme, host) for host in map(str, names) for scheme in _schemes_of(host)}
        except ValueError:
            raise argument_error("hosts", _HOSTS, hosts) from None
        self._private = private
        self._timeout = timeout
        self._max_bytes = max_bytes

    def check(self, config: Mapping[str, JsonValue]) -> Iterator[ConfigProblem]:
        """Yield a problem if the URL is not allowed or a header is wrong."""
        require_type("config", config, Mapping, "a mapping of keys to values")
        url, headers = config.get("url"), config.get("headers")
        if isinstance(url, str) and not has_expression(url):
            try:
                self._parse(url)
            except TaskError as error:
                yield ("url",), str(error)
        if isinstance(headers, dict):
            for name, value in headers.items():
                if message := _header_fault(name, value):
                    yield ("headers", name), message

    async def run(self, call: TaskCall) -> JsonValue:
        """Send the request, and return status, headers and body of the response.

        A body with the content type `application/json` is returned as JSON. A status of 400 or more is an error.
        """
        parts = self._parse(call.text("url"))
        method = call.text("method") or "GET"
        headers, body = _encode(call)
        if method not in {"GET", "HEAD"}:
            headers["Idempotency-Key"] = call.key
        addresses = await self._resolve(parts)
        connection = _Connection(parts, addresses[0], self._timeout)
        try:
            return await asyncio.to_thread(self._send, connection, (method, _request_target(parts), body, headers))
        finally:
            connection.stop()  # ends the thread if this call was cancelled

    def _parse(self, url: str) -> SplitResult:
        parts = _split(url)
        if parts is None or _origin_of(parts) not in self._allowed:
            hosts = ", ".join(sorted({f"{scheme}://{host}:{port}" for scheme, host, port in self._allowed})) or "none"
            shown = _USER.sub(r"\1…@", url)
            msg = f"the URL {shown!r} is not allowed; allowed: {hosts}"
            raise TaskError(msg)
        if not _request_target(parts).isascii():
            msg = f"the URL {url!r} has a character that cannot be sent; write it as %XX"
            raise TaskError(msg)
        return parts

    async def _resolve(self, parts: SplitResult) -> list[str]:
        """Return the addresses of the host.

        Raises:
            TaskError: the host has no address, or one of its addresses is private.
        """
        _, host, port = _origin_of(parts)
        loop = asyncio.get_running_loop()
        try:
            found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:  # `UnicodeError`: a part of the name is too long
            msg = f"the host {host!r} cannot be resolved"
            raise TaskError(msg, retryable=isinstance(error, OSError)) from error
        addresses = [str(item[4][0]) for item in found]
        for address in addresses:
            if not self._private and not is_public(address):
                msg = f"the host {host!r} has the private address {address}"
                raise TaskError(msg)
        return addresses

    def _send(self, connection: _Connection, request: tuple[str, str, bytes | None, dict[str, str]]) -> JsonValue:
        with closing(connection):
            client = connection.open()
            try:
                client.request(*request)
                with closing(client.getresponse()) as response:
                    data = self._read(response)
                connection.require_time()
            except (OSError, http.client.HTTPException) as error:
                msg = f"the request to {client.host} failed: {connection.error_name(error)}"
                raise TaskError(msg, retryable=True) from error
        return _decode(response, data)

    def _read(self, response: http.client.HTTPResponse) -> bytes:
        data = bytearray()
        while chunk := response.read1(_CHUNK):
            data += chunk
            if len(data) > self._max_bytes:
                msg = f"the response has more than {self._max_bytes} bytes"
                raise TaskError(msg)
        return bytes(data)


@final
class _Connection:
    """A connection for one request, with a time limit for the request and its whole response.

    The time limit of a socket applies only to each read, and starts again when a byte arrives. Therefore, a timer shuts
    down the socket. The thread that reads then receives the end of the stream or an error.

    Args:
        parts: the URL.
        address: the checked address of the host.
        timeout: the time limit, in seconds.
    """

    def __init__(self, parts: SplitResult, address: str, timeout: float) -> None:
        self._parts = parts
        self._address = address
        self._timeout = timeout
        self._timer = Timer(timeout, self.stop)
        self._timer.daemon = True
        self._socket: socket.socket | None = None
        self._stopped = False

    def open(self) -> http.client.HTTPConnection:
        """Start the timer, and connect to the address. The certificate must be valid for the host name."""
        scheme, host, port = _origin_of(self._parts)
        self._timer.start()
        try:
            plain = self._set_socket(socket.create_connection((self._address, port), self._timeout))
            if scheme == "http":
                client = http.client.HTTPConnection(host, port)
                client.sock = plain
                return client
            context = ssl.create_default_context()
            encrypted = context.wrap_socket(plain, server_hostname=host, do_handshake_on_connect=False)
            self._set_socket(encrypted)
            encrypted.do_handshake()
            client = http.client.HTTPSConnection(host, port, context=context)
            client.sock = encrypted
        except OSError as error:
            msg = f"no connection to {host}: {self.error_name(error)}"
            raise TaskError(msg, retryable=True) from error
        return client

    def stop(self) -> None:
        """Shut down the socket. Another thread may call this method at any time."""
        self._stopped = True
        if self._socket is not None:
            with suppress(OSError):  # the socket is already closed
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)  # without the end of TLS, which would wait

    def require_time(self) -> None:
        """Raise `TimeoutError` if the connection was stopped, because the received data may be incomplete."""
        if self._stopped:
            raise TimeoutError

    def error_name(self, error: Exception) -> str:
        """Return the class name of an error, or `TimeoutError` for any error after the time limit."""
        return TimeoutError.__name__ if self._stopped else type(error).__name__

    def close(self) -> None:
        """Close the socket and stop the timer."""
        self._timer.cancel()
        if self._socket is not None:
            self._socket.close()

    def _set_socket(self, used: socket.socket) -> socket.socket:
        self._socket = used
        self.require_time()  # `stop()` may have found no socket
        return used


def is_public(address: str) -> bool:
    """Return whether an IP address belongs to the public internet. Embedded IPv4 addresses are also checked."""
    found = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(found, ipaddress.IPv6Address):
        embedded = found.ipv4_mapped or found.sixtofour or (found.teredo[1] if found.teredo else None)
        if embedded is None and found in _NAT64:
            embedded = ipaddress.IPv4Address(int(found) & 0xFFFFFFFF)
        if embedded is not None:
            found = embedded
    return found.is_global and not found.is_multicast and not found.is_reserved


_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")


def _split(url: str) -> SplitResult | None:
    """Return the parts of a URL, or None for an invalid URL or one with credentials, spaces or control characters."""
    try:
        parts = urlsplit(url)
        _origin_of(parts)
    except ValueError:
        return None
    return None if "@" in parts.netloc or any(ord(char) <= ord(" ") for char in url) else parts


def _schemes_of(host: str) -> tuple[str, ...]:
    return (host.partition("://")[0],) if "://" in host else tuple(_PORTS)


def _origin_of_host(scheme: str, host: str) -> tuple[str, str, int]:
    return _origin_of(urlsplit(host if "://" in host else f"{scheme}://{host}"))


def _origin_of(parts: SplitResult) -> tuple[str, str, int]:
    return parts.scheme, (parts.hostname or "").rstrip("."), parts.port or _PORTS.get(parts.scheme, 0)


def _request_target(parts: SplitResult) -> str:
    return (parts.path or "/") + (f"?{parts.query}" if parts.query else "")


def _header_fault(name: str, value: JsonValue) -> str | None:
    if not isinstance(value, str):
        return f"the header {name!r} must be a string"
    if not name.replace("-", "").isalnum() or not name.isascii():
        return f"{name!r} is not the name of a header"
    if name.lower() in _FORBIDDEN_HEADERS:
        return f"the header {name!r} is set by the runtime"
    if not value.isprintable() or not value.isascii():
        return f"the header {name!r} has a value that cannot be sent"
    return None


def _encode(call: TaskCall) -> tuple[dict[str, str], bytes | None]:
    headers: dict[str, str] = {}
    given = call.config.get("headers", {})
    for name, value in given.items() if isinstance(given, dict) else ():
        if message := _header_fault(name, value):
            raise TaskError(message)
        headers[name] = str(value)
    if "body" not in call.config:
        return headers, None
    body = call.config["body"]
    if isinstance(body, str):
        return headers, body.encode(errors="replace")
    headers.setdefault("Content-Type", "application/json")
    return headers, json.dump_bytes(body)


def _decode(response: http.client.HTTPResponse, data: bytes) -> JsonValue:
    if response.status in {301, 302, 303, 307, 308}:
        msg = f"the server redirects with status {response.status}; redirects are not followed"
        raise TaskError(msg)
    if response.status >= 400:  # noqa: PLR2004 - HTTP
        msg = f"the server answered with status {response.status}"
        raise TaskError(msg, retryable=response.status in _RETRYABLE)
    body: object = data.decode(errors="replace")
    if response.headers.get_content_type() == "application/json" and data:
        try:
            body = json.loads_limited(data)
        except ValueError as error:
            msg = "the body of the response is not JSON"
            raise TaskError(msg) from error
    headers: dict[str, JsonValue] = {name.lower(): value for name, value in response.getheaders()}
    return {"status": response.status, "headers": headers, "body": cast("JsonValue", body)}
