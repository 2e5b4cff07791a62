"""The base class for providers that send requests over a `Transport`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from copy import copy
from dataclasses import replace
from types import TracebackType
from typing import Final, Generic, Self, TypeVar, final

from chat_core.arguments import require_type
from chat_core.errors import ChatError, InvalidResponseError, ProviderError, TransportError
from chat_core.json import loads_limited
from chat_core.messages import Turn
from chat_core.provider import Abilities, ProviderMeta
from chat_core.transport.protocol import Transport
from chat_core.transport.provider_errors import add_address, translate_transport_error, with_details
from chat_core.transport.values import Event, EventStream, Request, Response
from chat_core.wire import errors
from chat_core.wire.connection import require_provider_name
from chat_core.wire.credentials import Redactor
from chat_core.wire.decoded import DecodedStream, Decoder, Redact
from chat_core.wire.endpoint import Endpoint

ResultT = TypeVar("ResultT")
ErrorT = TypeVar("ErrorT", bound=ChatError | TransportError)

_UNAUTHORIZED: Final = 401
_SHOWN_BYTES: Final = 80
_SEARCHED_BYTES: Final = 64 * 1024


class TransportProvider:
    """Base class for providers, which sends requests, checks statuses, translates errors and closes its transport.

    A subclass adds the parts that are specific to a server. It encodes a body, creates a request with
    `endpoint.request(…)`, and passes the request to `fetch_decoded()` or `open_stream()` with a decoder:

        class EchoProvider(TransportProvider):
            async def complete(self, messages, tools, options, structured_output):
                request = self.endpoint.request("/echo", encode(messages), options.timeout, stream=False)
                return await self.fetch_decoded(request, decode)

    Override `response_error()` for servers with a special error format, and `transport_error()` for failures of the
    connection. Both methods are also called for errors inside a stream, with any transport (HTTP, WebSocket or
    in-process). The credentials of the request are removed from their arguments and from the errors of decoders,
    because a server may quote credentials.

    If the key comes from a `RenewableKey` and the server rejects it with status 401, the key is dropped and the request
    is sent once more with the next key.

    An instance is immutable and safe to share between tasks. As an async context manager it closes a transport that it
    owns; a transport that the caller passed to a builder stays open.

    Args:
        metadata: name, model and limits of the provider.
        endpoint: base URL and headers of every request.
        transport: transport that sends the requests.
        owns_transport: whether `aclose()` closes the transport.
    """

    __slots__ = ("_endpoint", "_metadata", "_owns_transport", "_transport")

    def __init__(
        self, metadata: ProviderMeta, endpoint: Endpoint, transport: Transport, *, owns_transport: bool = False
    ) -> None:
        self._metadata = metadata
        self._endpoint = endpoint
        self._transport = transport
        self._owns_transport = owns_transport

    def __repr__(self) -> str:
        return f"{type(self).__name__}(model={self._metadata.model!r}, at {self._endpoint!r})"

    @property
    def metadata(self) -> ProviderMeta:
        """The provider's name, model and limits."""
        return self._metadata

    def with_metadata(self, *, abilities: Abilities | None = None, data: Mapping[str, object] | None = None) -> Self:
        """Return a copy of this provider with other metadata.

        Both providers share one transport, so close only one of them.

        Args:
            abilities: abilities of the model. Default: unchanged.
            data: application data for `ProviderMeta.data`. Default: unchanged.
        """
        if data is not None:
            require_type("data", data, Mapping, "a mapping of names to values")
        meta, clone = self._metadata, copy(self)
        described = replace(
            meta,
            abilities=meta.abilities if abilities is None else abilities,
            data=meta.data if data is None else dict(data),
        )
        object.__setattr__(clone, "_metadata", described)
        return clone

    def with_provider_name(self, name: str) -> Self:
        """Return a copy of this provider with another name, such as one that includes an account: `"claude-eu"`.

        Signatures, encrypted reasoning and ids of stored responses in a conversation belong to the provider with this
        name, and are not sent to other providers. Both providers share one transport, so close only one of them.

        A subclass that also stores the name in another object, such as a dialect, overrides this method.

        Args:
            name: the new name, also used in errors and metadata.

        Raises:
            UsageError: `name` is empty.
        """
        clone = copy(self)
        object.__setattr__(clone, "_metadata", replace(self._metadata, name=require_provider_name(name)))
        return clone

    @property
    def endpoint(self) -> Endpoint:
        """The base URL and headers of every request."""
        return self._endpoint

    async def fetch(self, request: Request) -> bytes:
        """Send a request and return the response body.

        Raises:
            ChatError: the transport failed, or the status is not 2xx.
        """
        return (await self.fetch_response(request)).body

    async def fetch_response(self, request: Request) -> Response:
        """Send a request and return the response with its headers.

        Raises:
            ChatError: the transport failed, or the status is not 2xx.
        """
        _, response = await self._send_authorized(request)
        return response

    async def _send_authorized(self, request: Request) -> tuple[Request, Response]:
        """Send a request with the current key. Return the request as sent, and its response."""
        sent = await self._endpoint.authorize(request)
        response = await self._send(sent)
        if response.status == _UNAUTHORIZED and self._endpoint.reject_key(sent):
            sent = await self._endpoint.authorize(request)
            response = await self._send(sent)
        if not 200 <= response.status < 300:  # noqa: PLR2004 - RFC 9110, section 15.3
            redactor = Redactor(sent)
            headers, body = redactor.redact_headers(response.headers), redactor.redact_bytes(response.body)
            raise add_address(
                self.response_error(response.status, headers, body), _describe(sent), _describe_page(headers, body)
            )
        return sent, response

    async def _send(self, request: Request) -> Response:
        try:
            return await self._transport.send(request)
        except TransportError as error:
            raise self.transport_error(
                add_address(Redactor(request).redact_error(error), _describe(request))
            ) from error

    async def fetch_decoded(self, request: Request, decode: Callable[[bytes], ResultT]) -> ResultT:
        """Send a request and return its decoded response.

        Args:
            request: request created with `stream=False`.
            decode: function that decodes the body of a response with status 2xx. The body may report an error.

        Raises:
            ChatError: the transport failed, the status is not 2xx, or `decode` raised a `ChatError`.
        """
        sent, response = await self._send_authorized(request)
        try:
            return decode(response.body)
        except ChatError as error:
            redactor = Redactor(sent)
            if isinstance(error, InvalidResponseError) and not _is_json(response.body):
                error.args = (with_details(str(error), _describe_response(sent, response, redactor)),)
            add_address(redactor.redact_error(error, response.body), _describe(sent))
            raise

    @asynccontextmanager
    async def open_stream(
        self, request: Request, decoder: Decoder, seal: Callable[[Turn], Turn] | None = None
    ) -> AsyncGenerator[DecodedStream, None]:
        """Send a request and decode the response as it arrives. Exiting the block closes the connection.

        Args:
            request: request created with `stream=True`.
            decoder: a new decoder, used only for this response.
            seal: function applied to the complete turn at the end.

        Raises:
            ChatError: on entering, the transport failed or the status is not 2xx.
        """
        async with self._open_events(request) as (sent, events):
            redactor = Redactor(sent)

            def complete(error: ErrorT, /, *, received: bytes = b"") -> ErrorT:
                return add_address(redactor.redact_error(error, received), _describe(sent))

            yield DecodedStream(events, decoder, self.transport_error, seal, complete)

    @asynccontextmanager
    async def open_lines(
        self, request: Request, decode: Callable[[bytes, Redact], ResultT]
    ) -> AsyncGenerator[AsyncIterator[ResultT], None]:
        """Send a request and decode the lines of the response as they arrive. Exiting the block closes the connection.

        The length of the response is not limited. The limit on events applies to each line.

        Args:
            request: request created with `stream=True` and the framing `json-lines`.
            decode: function that decodes a line. Its second argument is a function for the errors that it returns as
                values. It removes the credentials of the request, and adds the address to an `InvalidResponseError`.

        Raises:
            ChatError: on entering, the transport failed or the status is not 2xx. On exit, the body is truncated.
        """
        async with self._open_events(replace(request, is_unlimited=True)) as (sent, events):
            yield _DecodedLines(events, decode, sent)

    @asynccontextmanager
    async def _open_events(self, request: Request) -> AsyncGenerator[tuple[Request, EventStream], None]:
        """Open a response stream with the current key. Yield the request as sent, and the events."""
        sent = await self._endpoint.authorize(request)
        try:
            async with AsyncExitStack() as stack:
                try:
                    events = await stack.enter_async_context(self._transport.stream(sent))
                except TransportError as error:
                    if error.status != _UNAUTHORIZED or not self._endpoint.reject_key(sent):
                        raise
                    sent = await self._endpoint.authorize(request)
                    events = await stack.enter_async_context(self._transport.stream(sent))
                yield sent, events
        except TransportError as error:
            translated = self.transport_error(add_address(Redactor(sent).redact_error(error), _describe(sent)))
            if error.status is not None:
                add_address(translated, _describe(sent), _describe_page(error.headers, error.body))
            raise translated from error

    def response_error(self, status: int, headers: Mapping[str, str], body: bytes) -> ProviderError:
        """Return the error for a response with a status other than 2xx.

        The default implementation parses the error formats that most servers share (`chat_core.wire.errors`).

        Args:
            status: status of the response.
            headers: the response headers, which may contain a retry delay.
            body: body of the response, possibly truncated.
        """
        return errors.error_from_response(status, headers, body, self._metadata.name)

    def transport_error(self, error: TransportError) -> ChatError:
        """Convert an error of the transport to a `ChatError`.

        By default, an error with a status is passed to `response_error()`. Other errors become a `NetworkError`, a
        `RequestTimeoutError` or an `InvalidResponseError`.
        """
        require_type("error", error, TransportError, "a TransportError")
        if error.kind == "status" and error.status is not None:
            return self.response_error(error.status, error.headers, error.body)
        return translate_transport_error(error, self._metadata.name)

    async def aclose(self) -> None:
        """Close the transport if this provider owns it. Closing twice is allowed."""
        if self._owns_transport:
            await self._transport.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


@final
class _DecodedLines(Generic[ResultT]):
    """Iterator over the decoded lines of a response."""

    __slots__ = ("_decode", "_events", "_redactor", "_request")

    def __init__(self, events: EventStream, decode: Callable[[bytes, Redact], ResultT], request: Request) -> None:
        self._events: AsyncIterator[Event] = aiter(events)
        self._decode = decode
        self._request = request
        self._redactor = Redactor(request)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ResultT:
        event = await anext(self._events)
        try:
            return self._decode(event.data, self._redact)
        except ChatError as error:
            self._redact(error, received=event.data)
            raise

    def _redact(self, error: ErrorT, /, *, received: bytes = b"") -> ErrorT:
        self._redactor.redact_error(error, received)
        # The other errors are about a request of the batch, and not about this one.
        return add_address(error, _describe(self._request)) if isinstance(error, InvalidResponseError) else error


def _describe(request: Request) -> str:
    from chat_core.transport.http import describe  # noqa: PLC0415 - only errors need it

    return describe(request)


def _describe_page(headers: Mapping[str, str], body: bytes) -> str:
    """Return the content type of an error response that is not JSON, such as the page of a proxy; else nothing."""
    return f"the response has {_describe_content_type(headers)}" if body and not _is_json(body) else ""


def _is_json(body: bytes) -> bool:
    try:
        loads_limited(body)
    except ValueError:
        return False
    return True


def _describe_content_type(headers: Mapping[str, str]) -> str:
    content_type = headers.get("content-type")
    return f"the content type {content_type!r}" if content_type else "no content type"


def _describe_response(request: Request, response: Response, redactor: Redactor) -> str:
    """Return the address, the content type and the beginning of a response that is not JSON, as text."""
    kind = _describe_content_type(response.headers)
    # A credential that begins within the shown bytes may end after them.
    shown = redactor.redact_bytes(response.body[:_SEARCHED_BYTES])[:_SHOWN_BYTES]
    begins = f"begins with {shown!r}" if response.body else "is empty"
    return f"{_describe(request)} returned status {response.status} with {kind}, and the body {begins}"
