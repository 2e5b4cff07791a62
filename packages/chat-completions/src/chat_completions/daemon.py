"""Ollama: the builder, and what its daemon does beside answering: `ping` and `pull`."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Generator, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Final, Self, final
from urllib.parse import urlsplit

from chat_core.errors import InvalidResponseError, NotFoundError, StreamTruncatedError, TransportError, UsageError
from chat_core.json import dump_bytes, loads
from chat_core.transport.protocol import Transport
from chat_core.transport.values import Event, Request
from chat_core.wire.connection import default_transport, naming_variable, read_environment
from chat_core.wire.endpoint import Endpoint
from chat_core.wire.shapes import is_object

from chat_completions.client import CompletionsProvider
from chat_completions.errors import error_from_object, error_from_response, error_without_response
from chat_completions.settings import Settings, endpoint_for, provider_arguments
from chat_completions.vendor_builders import WithSizedEmbeddings
from chat_completions.vendors import OLLAMA

PORT: Final = 11434
WILDCARD_ADDRESSES: Final = frozenset({"0.0.0.0", "::", "[::]"})  # noqa: S104 - what a daemon listens on, and nobody can ask
PING_TIMEOUT: Final = 10.0
"""Seconds that a ping waits: a daemon that runs answers at once."""
SUCCESS_STATUS: Final = "success"
"""The status of a pull that is over."""


def host_url(host: str) -> str:
    """The URL of a daemon, from what `OLLAMA_HOST` may say: a name, a port behind it, or a whole URL.

    Raises:
        UsageError: it is no host.
    """
    given = host.strip().strip("\"'").strip()
    scheme, found, rest = given.rpartition("://")
    name = port = url = None
    with suppress(ValueError):
        url = urlsplit(f"{scheme or 'http'}://{_bracket_ipv6(rest)}")
        name, port = url.hostname, url.port
    if url is None or scheme not in {"", "http", "https"} or (not name and port is None) or "@" in given:
        shown = given.rpartition("@")[2]  # what stands before it is a secret
        msg = f"a host is like 'localhost', 'gpu:11434' or 'https://host/path', not {shown!r}"
        raise UsageError(msg)
    if not name or name in WILDCARD_ADDRESSES:
        name = "127.0.0.1"
    name = f"[{name}]" if ":" in name else name
    # Behind a scheme the port is the one of the scheme, as Ollama's own clients have it.
    place = name if port is None and found else f"{name}:{PORT if port is None else port}"
    # The part of it that speaks this wire is not the daemon, though it is often what one has at hand.
    return f"{url.scheme}://{place}{url.path.rstrip('/').removesuffix('/v1')}"


def _bracket_ipv6(rest: str) -> str:
    """An address of IPv6 alone, as a URL wants it."""
    place, slash, path = rest.partition("/")
    return f"[{place}]{slash}{path}" if place.count(":") > 1 and not place.startswith("[") else rest


# --- Pulling -------------------------------------------------------------------------------------------


@final
@dataclass(frozen=True, slots=True)
class PullProgress:
    """How far a pull has come.

    Attributes:
        status: what is being done, in Ollama's words; the last one is `success`.
        digest: the layer that is being downloaded.
        total: its size in bytes; `None` where nothing is being downloaded.
        completed: how many of them are here.
    """

    status: str
    digest: str | None = None
    total: int | None = None
    completed: int | None = None

    @property
    def fraction(self) -> float | None:
        """How much of the layer is here, from 0 to 1; `None` where nothing is being downloaded."""
        return (self.completed or 0) / self.total if self.total else None


@final
class Pull:
    """A model on its way. It begins when it is awaited or iterated over.

    `await pull` waits until the model is here. `async for step in pull` tells how far it has come; within `async with`
    the connection is closed on leaving, and Ollama stops downloading. What has been downloaded is kept.
    """

    __slots__ = ("_batches", "_ended", "_endpoint", "_model", "_pending_events", "_pulled", "_stack", "_transport")

    def __init__(self, model: str, endpoint: Endpoint, transport: Transport | None) -> None:
        self._model = model
        self._endpoint = endpoint
        self._transport = transport
        self._stack = AsyncExitStack()
        self._batches: AsyncIterator[Sequence[Event]] | None = None
        self._pending_events: list[Event] = []
        self._ended = False
        self._pulled = False

    def __await__(self) -> Generator[Any, None, None]:
        return self._finish().__await__()

    async def _finish(self) -> None:
        if self._ended and not self._pulled:
            msg = "this pull was left or has failed, and the model is not here: call .pull() again, and it goes on"
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
        """Close the connection. Closing twice is allowed."""
        self._ended = True
        await self._stack.aclose()

    def __aiter__(self) -> AsyncIterator[PullProgress]:
        """Iterate over the steps."""
        return self

    async def __anext__(self) -> PullProgress:
        """The next step.

        Raises:
            ChatError: nobody answers, there is no such model, or the download failed.
        """
        if self._ended:
            raise StopAsyncIteration
        try:
            while not self._pending_events:
                self._pending_events = list(reversed(await self._next()))
            step = self._step(self._pending_events.pop())
        except BaseException:
            await self.aclose()
            raise
        if step.status == SUCCESS_STATUS:
            self._pulled = True
            await self.aclose()
        return step

    async def _next(self) -> Sequence[Event]:
        try:
            batches = self._batches
            if batches is None:
                batches = self._batches = await self._open()
            batch = await anext(batches, None)
        except TransportError as error:
            raise error_without_response(error, OLLAMA.name, OLLAMA.hint) from error
        if batch is None:
            msg = f"{OLLAMA.name}: the stream ended before {self._model!r} was here; pull again, and it goes on"
            raise StreamTruncatedError(msg)
        return batch

    async def _open(self) -> AsyncIterator[Sequence[Event]]:
        body = dump_bytes({"model": self._model, "stream": True})
        request = self._endpoint.request("/api/pull", body, None, stream=True, is_last=_is_last, framing="json-lines")
        transport = self._transport
        if transport is None:
            transport = default_transport()
            self._stack.push_async_callback(transport.aclose)
        return (await self._stack.enter_async_context(transport.stream(request))).batches()

    def _step(self, event: Event) -> PullProgress:
        said = _parse_object(event.data)
        if said.get("error"):
            failure = error_from_object(said, OLLAMA.name)
            if "file does not exist" in str(failure):
                msg = f"{OLLAMA.name} knows no model {self._model!r}: {failure}"
                raise NotFoundError(msg, body=event.data)
            raise failure
        status, digest = said.get("status"), said.get("digest")
        return PullProgress(
            status if isinstance(status, str) else "",
            digest if isinstance(digest, str) else None,
            _byte_count(said.get("total")),
            _byte_count(said.get("completed")),
        )


def _is_last(event: Event) -> bool:
    # A download has thousands of steps, and this tells most of them from the last one without parsing.
    return SUCCESS_STATUS.encode() in event.data and _parse_object(event.data).get("status") == SUCCESS_STATUS


def _byte_count(value: object) -> int | None:
    return int(value) if isinstance(value, (int, float)) and math.isfinite(value) else None


def _parse_object(data: bytes) -> dict[str, object]:
    """A JSON object.

    Raises:
        InvalidResponseError: it is none.
    """
    try:
        value = loads(data)
    except ValueError:
        value = None
    if not is_object(value):
        msg = f"{OLLAMA.name}: the daemon's words are not JSON; does Ollama listen there?"
        raise InvalidResponseError(msg, raw=data)
    return value


# --- The builder ---------------------------------------------------------------------------------------


class _Daemon(WithSizedEmbeddings):
    """What can be said in either state."""

    __slots__ = ()

    def with_host(self, host: str) -> Self:
        """Ask the daemon at `host`: a name, a port behind it, or a URL. Without it, the one in `OLLAMA_HOST`."""
        return self._with(replace(self._settings, base_url=f"{host_url(host)}/v1"))

    async def ping(self) -> str:
        """The version of the daemon, which shows that it runs.

        Raises:
            NetworkError: nobody answers; the message says how Ollama is started.
            InvalidResponseError: something else answers.
        """
        request = _daemon_endpoint(self._settings).request(
            "/api/version", b"", PING_TIMEOUT, stream=False, method="GET"
        )
        transport = self._settings.transport
        if transport is not None:
            return await _version(transport, request)
        transport = default_transport()
        try:
            return await _version(transport, request)
        finally:
            await transport.aclose()


async def _version(transport: Transport, request: Request) -> str:
    try:
        response = await transport.send(request)
    except TransportError as error:
        raise error_without_response(error, OLLAMA.name, OLLAMA.hint) from error
    if not 200 <= response.status < 300:  # noqa: PLR2004 - RFC 9110, section 15.3
        raise error_from_response(response.status, response.headers, response.body, OLLAMA.name)
    version = _parse_object(response.body).get("version")
    if not isinstance(version, str):
        msg = f"{OLLAMA.name}: what answers tells no version; does Ollama listen there?"
        raise InvalidResponseError(msg, path="version", raw=response.body)
    return version


def _with_host_from_environment(settings: Settings) -> Settings:
    """The settings with their host, which `OLLAMA_HOST` says in its own way."""
    if settings.base_url is not None:
        return settings
    variable = OLLAMA.base_url_variable or ""
    host = read_environment(variable)
    if host is None:
        return replace(settings, base_url=OLLAMA.base_url)
    with naming_variable(variable):
        return replace(settings, base_url=f"{host_url(host)}/v1")


def _daemon_endpoint(settings: Settings) -> Endpoint:
    """Where the daemon itself is, above the part that speaks this wire."""
    addressed = _with_host_from_environment(settings)
    return endpoint_for(replace(addressed, base_url=(addressed.base_url or "").removesuffix("/v1")))


@final
class OllamaBuilder(_Daemon):
    """Builds models of an Ollama daemon: at `OLLAMA_HOST`, or on this machine. It needs a model."""

    __slots__ = ()

    def __init__(self, settings: Settings | None = None) -> None:
        super().__init__(settings or Settings.of(OLLAMA))

    def with_model(self, model: str) -> ReadyOllamaBuilder:
        """Ask for `model`, such as `llama3.2` or `qwen3:0.6b`. One that is not there yet is pulled by `.pull()`."""
        return ReadyOllamaBuilder(self._settings.for_model(model))

    def _missing_method_hint(self, name: str) -> str | None:
        if name == "pull":
            return "pull() needs a model: call .with_model('…') first"
        return super()._missing_method_hint(name)


@final
class ReadyOllamaBuilder(_Daemon):
    """An `OllamaBuilder` with a model."""

    __slots__ = ()

    def pull(self) -> Pull:
        """Download the model, where it is not there yet: `await builder.pull()`, or iterate to see how far it is."""
        settings = self._settings
        return Pull(settings.dialect.model, _daemon_endpoint(settings), settings.transport)

    def build(self) -> CompletionsProvider:
        """The provider. Nothing is asked of the daemon yet.

        Raises:
            UsageError: the host is none, or there is no transport.
        """
        return CompletionsProvider(**provider_arguments(_with_host_from_environment(self._settings)))
