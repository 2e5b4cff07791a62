"""Builder for Ollama models, with methods to check the daemon and to download models."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Generator, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Final, Self, final
from urllib.parse import urlsplit

from chat_core.arguments import require_text, require_type
from chat_core.errors import InvalidResponseError, NotFoundError, StreamTruncatedError, TransportError, UsageError
from chat_core.json import dump_bytes, loads
from chat_core.transport.protocol import Transport
from chat_core.transport.values import Event, Request
from chat_core.wire.connection import (
    default_transport,
    naming_variable,
    read_environment,
    without_frames,
    without_secrets,
)
from chat_core.wire.endpoint import Endpoint
from chat_core.wire.shapes import is_object

from chat_completions.client import CompletionsProvider
from chat_completions.errors import error_from_object, error_from_response, error_without_response
from chat_completions.settings import Settings, endpoint_for, provider_arguments
from chat_completions.vendor_builders import WithSizedEmbeddings
from chat_completions.vendors import OLLAMA

PORT: Final = 11434
WILDCARD_ADDRESSES: Final = frozenset({"0.0.0.0", "::", "[::]"})  # noqa: S104 - addresses to listen on, replaced by the loopback address
PING_TIMEOUT: Final = 10.0
"""The timeout of `ping()` in seconds."""
SUCCESS_STATUS: Final = "success"
"""The status that the daemon reports when a pull is complete."""


@without_frames
def host_url(host: str) -> str:
    """Convert a host in the format of `OLLAMA_HOST` to the daemon's URL.

    Args:
        host: a host name, a host name with a port, or a URL.

    Raises:
        UsageError: `host` is invalid.
    """
    require_text(host=host)
    text = host.strip().strip("\"'").strip()
    scheme, separator, rest = text.rpartition("://")
    name = port = url = None
    with suppress(ValueError):
        url = urlsplit(f"{scheme or 'http'}://{_bracket_ipv6(rest)}")
        name, port = url.hostname, url.port
    if url is None or scheme not in {"", "http", "https"} or (not name and port is None) or "@" in text:
        msg = f"expected a host such as 'localhost', 'gpu:11434' or 'https://host/path', not {without_secrets(text)!r}"
        raise UsageError(msg)
    if not name or name in WILDCARD_ADDRESSES:
        name = "127.0.0.1"
    name = f"[{name}]" if ":" in name else name
    # With a scheme, the default port is that of the scheme, as in Ollama's own clients.
    address = name if port is None and separator else f"{name}:{PORT if port is None else port}"
    # The base URL of the Chat Completions API ends in /v1, but the URL of the daemon does not.
    return f"{url.scheme}://{address}{url.path.rstrip('/').removesuffix('/v1')}"


def _bracket_ipv6(rest: str) -> str:
    """Return the address and path in `rest`, with brackets around a bare IPv6 address, as URLs require."""
    address, slash, path = rest.partition("/")
    return f"[{address}]{slash}{path}" if address.count(":") > 1 and not address.startswith("[") else rest


# --- Downloading models --------------------------------------------------------------------------------


@final
@dataclass(frozen=True, slots=True)
class PullProgress:
    """A progress report of a model download.

    Attributes:
        status: the current step as Ollama reports it. The last status is `success`.
        digest: the digest of the layer that is being downloaded.
        total: the size of the layer in bytes; `None` if nothing is being downloaded.
        completed: the number of bytes downloaded so far.
    """

    status: str
    digest: str | None = None
    total: int | None = None
    completed: int | None = None

    @property
    def fraction(self) -> float | None:
        """The downloaded fraction of the layer, from 0 to 1; `None` if nothing is being downloaded."""
        return (self.completed or 0) / self.total if self.total else None


@final
class Pull:
    """A model download by the Ollama daemon, which starts when the object is awaited or iterated over.

    `await pull` waits until the download is complete. `async for step in pull` yields progress reports. Exiting the
    object's async context or canceling `await pull` closes the connection, and Ollama stops an unfinished download.
    Ollama keeps the downloaded data, and the next pull resumes from it.
    """

    __slots__ = ("_batches", "_ended", "_endpoint", "_model", "_pending_events", "_pulled", "_stack", "_transport")

    def __init__(self, model: str, endpoint: Endpoint, transport: Transport | None) -> None:
        require_text(model=model)
        require_type("endpoint", endpoint, Endpoint, "an Endpoint")
        require_type("transport", transport, (Transport, type(None)), "a Transport (send, stream, aclose) or None")
        self._model = model
        self._endpoint = endpoint
        self._transport = transport
        self._stack = AsyncExitStack()
        self._batches: AsyncIterator[Sequence[Event]] | None = None
        self._pending_events: list[Event] = []
        self._ended = False
        self._pulled = False

    def __await__(self) -> Generator[Any, None, None]:
        return self._finish_download().__await__()

    async def _finish_download(self) -> None:
        if self._ended and not self._pulled:
            msg = "this pull was closed or has failed before the download was complete: call .pull() again to resume it"
            raise UsageError(msg)
        async with self:
            async for _ in self:
                pass

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connection, which stops an unfinished download. Repeated calls have no effect."""
        self._ended = True
        await self._stack.aclose()

    def __aiter__(self) -> AsyncIterator[PullProgress]:
        """Return this object, which is an iterator over progress reports."""
        return self

    async def __anext__(self) -> PullProgress:
        """Return the next progress report.

        Raises:
            ChatError: the daemon cannot be reached, the model does not exist, or the download failed.
        """
        if self._ended:
            raise StopAsyncIteration
        try:
            while not self._pending_events:
                self._pending_events = list(reversed(await self._next_batch()))
            step = self._read_progress(self._pending_events.pop())
        except BaseException:
            await self.aclose()
            raise
        if step.status == SUCCESS_STATUS:
            self._pulled = True
            await self.aclose()
        return step

    async def _next_batch(self) -> Sequence[Event]:
        try:
            batches = self._batches
            if batches is None:
                batches = self._batches = await self._open_stream()
            batch = await anext(batches, None)
        except TransportError as error:
            step = "call .pull() again to resume the download"
            raise error_without_response(error, OLLAMA.name, OLLAMA.hint, timeout_step=step) from error
        if batch is None:
            msg = (
                f"{OLLAMA.name}: the stream ended before {self._model!r} was complete; call .pull() again to resume it"
            )
            raise StreamTruncatedError(msg)
        return batch

    async def _open_stream(self) -> AsyncIterator[Sequence[Event]]:
        body = dump_bytes({"model": self._model, "stream": True})
        request = self._endpoint.request(
            "/api/pull", body, None, stream=True, is_last=_is_last_event, framing="json-lines"
        )
        request = await self._endpoint.authorize(request)
        transport = self._transport
        if transport is None:
            transport = default_transport()
            self._stack.push_async_callback(transport.aclose)
        return (await self._stack.enter_async_context(transport.stream(request))).batches()

    def _read_progress(self, event: Event) -> PullProgress:
        fields = _parse_object(event.data)
        if fields.get("error"):
            failure = error_from_object(fields, OLLAMA.name)
            if "file does not exist" in str(failure):
                msg = f"{OLLAMA.name} has no model {self._model!r}: {failure}"
                raise NotFoundError(msg, body=event.data)
            raise failure
        status, digest = fields.get("status"), fields.get("digest")
        return PullProgress(
            status if isinstance(status, str) else "",
            digest if isinstance(digest, str) else None,
            _byte_count(fields.get("total")),
            _byte_count(fields.get("completed")),
        )


def _is_last_event(event: Event) -> bool:
    # A download has thousands of events. The search excludes most of them without parsing.
    return SUCCESS_STATUS.encode() in event.data and _parse_object(event.data).get("status") == SUCCESS_STATUS


def _byte_count(value: object) -> int | None:
    return int(value) if isinstance(value, (int, float)) and math.isfinite(value) else None


def _parse_object(data: bytes) -> dict[str, object]:
    """Parse `data` as a JSON object and return its fields.

    Raises:
        InvalidResponseError: `data` is not a JSON object.
    """
    try:
        value = loads(data)
    except ValueError:
        value = None
    if not is_object(value):
        msg = f"{OLLAMA.name}: the response is not a JSON object (next step: check that the host is an Ollama daemon)"
        raise InvalidResponseError(msg, raw=data)
    return value


# --- The builder ---------------------------------------------------------------------------------------


class _DaemonBuilder(WithSizedEmbeddings):
    """Base class with the methods that are available both with and without a model."""

    __slots__ = ()

    @without_frames
    def with_host(self, host: str) -> Self:
        """Set the host of the daemon. The default is the value of `OLLAMA_HOST`, or else this machine.

        Args:
            host: a host name, a host name with a port, or a URL.

        Raises:
            UsageError: `host` is invalid.
        """
        return self._with(replace(self._settings, base_url=f"{host_url(host)}/v1"))

    async def ping(self) -> str:
        """Check that the daemon is running, and return its version.

        Raises:
            NetworkError: the daemon cannot be reached. The message explains how to start Ollama.
            InvalidResponseError: the server at this host is not Ollama.
        """
        endpoint = _daemon_endpoint(self._settings)
        request = endpoint.request("/api/version", b"", PING_TIMEOUT, stream=False, method="GET")
        request = await endpoint.authorize(request)
        transport = self._settings.transport
        if transport is not None:
            return await _fetch_version(transport, request)
        transport = default_transport()
        try:
            return await _fetch_version(transport, request)
        finally:
            await transport.aclose()


async def _fetch_version(transport: Transport, request: Request) -> str:
    try:
        response = await transport.send(request)
    except TransportError as error:
        raise error_without_response(error, OLLAMA.name, OLLAMA.hint, timeout_step=OLLAMA.hint) from error
    if not 200 <= response.status < 300:  # noqa: PLR2004 - RFC 9110, section 15.3
        raise error_from_response(response.status, response.headers, response.body, OLLAMA.name)
    version = _parse_object(response.body).get("version")
    if not isinstance(version, str):
        msg = f"{OLLAMA.name}: the response contains no version (next step: check that the host is an Ollama daemon)"
        raise InvalidResponseError(msg, path="version", raw=response.body)
    return version


@without_frames
def _with_host_from_environment(settings: Settings) -> Settings:
    """Return the settings with a base URL. If none is set, `OLLAMA_HOST` or the default host is used."""
    if settings.base_url is not None:
        return settings
    variable = OLLAMA.base_url_variable or ""
    host = read_environment(variable)
    if host is None:
        return replace(settings, base_url=OLLAMA.base_url)
    with naming_variable(variable):
        return replace(settings, base_url=f"{host_url(host)}/v1")


def _daemon_endpoint(settings: Settings) -> Endpoint:
    """Return the endpoint of the daemon's own API, whose URL lacks the `/v1` of the Chat Completions API."""
    addressed = _with_host_from_environment(settings)
    return endpoint_for(replace(addressed, base_url=(addressed.base_url or "").removesuffix("/v1")))


@final
class OllamaBuilder(_DaemonBuilder):
    """A builder for models on an Ollama daemon. Call `with_model()` before `build()`.

    The default host is the value of `OLLAMA_HOST`, or else this machine.
    """

    __slots__ = ()

    def __init__(self, settings: Settings | None = None) -> None:
        super().__init__(settings or Settings.for_preset(OLLAMA))

    def with_model(self, model: str) -> ReadyOllamaBuilder:
        """Set the model, such as `llama3.2` or `qwen3:0.6b`. Call `pull()` to download it."""
        return ReadyOllamaBuilder(self._settings.for_model(model))

    def _missing_method_hint(self, name: str) -> str | None:
        if name == "pull":
            return "pull() needs a model: call .with_model('…') first"
        return super()._missing_method_hint(name)


@final
class ReadyOllamaBuilder(_DaemonBuilder):
    """A builder for models on an Ollama daemon, after the model has been set."""

    __slots__ = ()

    def pull(self) -> Pull:
        """Return a download of the model, to be awaited or iterated over for progress reports.

        Nothing is downloaded if the daemon already has the current version of the model.
        """
        settings = self._settings
        return Pull(settings.dialect.model, _daemon_endpoint(settings), settings.transport)

    def build(self) -> CompletionsProvider:
        """Return the provider, without sending a request to the daemon.

        Raises:
            UsageError: the host is invalid, or no transport is installed.
        """
        return CompletionsProvider(**provider_arguments(_with_host_from_environment(self._settings)))
