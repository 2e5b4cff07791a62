"""Providers that send requests, read errors or use their transport wrong, in one way each."""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import anyio
from chat_core import (
    AuthenticationError,
    ChatError,
    ChatOptions,
    EmbeddingsResponse,
    File,
    Messages,
    NetworkError,
    OutputSchema,
    ProviderError,
    Tool,
    ToolDeclarations,
    Turn,
)
from chat_core.provider import Delta
from chat_core.transport import Request, Transport
from chat_core.wire.shapes import is_object

from .toy import Decoder, Encoder, Toy, ToyStream
from .wrong_answers import EMPTY
from .wrong_providers import fails_at

LOGGER = logging.getLogger("toy")

# --- The transport --------------------------------------------------------------------------------------------------


@fails_at("caller_transport")
class ClosesTheTransportOfItsCaller(Toy):
    """Closing the provider closes a transport that other providers use as well."""

    async def aclose(self) -> None:
        await self.transport.aclose()


@fails_at("caller_transport")
class ClosesTheTransportAfterARequest(Toy):
    """Each request closes the transport."""

    async def send(self, request: Request) -> Any:
        try:
            return await super().send(request)
        finally:
            await self.transport.aclose()


@fails_at(
    "one_request",
    "connection",
    "error_class",
    "error_of_a_gateway",
    "error_request_id",
    "error_retryable",
    "error_wait",
)
class RetriesItself(Toy):
    """A request that failed is sent again, although the engine retries."""

    async def send(self, request: Request) -> Any:
        try:
            return await super().send(request)
        except (ProviderError, NetworkError) as error:
            if not error.retryable:
                raise
        return await super().send(request)


@fails_at("state")
class CachesAnswers(Toy):
    """A question that was asked before is answered without a request."""

    def __init__(self, transport: Transport) -> None:
        super().__init__(transport)
        self._answers: dict[bytes, Turn] = {}

    async def complete(
        self, messages: Messages, tools: ToolDeclarations, options: ChatOptions, structured_output: OutputSchema | None
    ) -> Turn:
        body = self.body(messages, tools, options, structured_output)
        if body not in self._answers:
            self._answers[body] = await super().complete(messages, tools, options, structured_output)
        return self._answers[body]


@fails_at("cancelled_request")
class TurnsCancellationIntoAnError(Toy):
    """A request that is canceled fails with an error that may be retried."""

    async def send(self, request: Request) -> Any:
        try:
            return await super().send(request)
        except anyio.get_cancelled_exc_class() as error:
            raise NetworkError(repr(error)) from None


@fails_at("embeddings_timeout")
class IgnoresTheTimeoutOfEmbeddings(Toy):
    """The option `timeout` has no effect on embeddings."""

    async def embed(self, texts: Sequence[str], options: ChatOptions) -> EmbeddingsResponse:
        del options
        return await super().embed(texts, ChatOptions())


@fails_at("secrets")
class LogsItsKey(Toy):
    """The headers of each request are logged, with the API key."""

    def request(self, path: str, body: bytes) -> Request:
        request = super().request(path, body)
        LOGGER.debug("sending %s with %s", request, request.headers)
        return request


# --- Errors ---------------------------------------------------------------------------------------------------------


@fails_at("nonsense_body")
class ReadsAnErrorAsAnAnswer(Toy):
    """An error with status 200 is an empty answer."""

    async def send(self, request: Request) -> Any:
        answer = await super().send(request)
        return EMPTY if is_object(answer) and "error" in answer else answer


@fails_at("error_of_a_gateway")
class FailsAtADate(Toy):
    """A wait that is a date, and no number, raises `ValueError`."""

    def refusal(self, status: int, headers: Mapping[str, str], body: bytes) -> ProviderError:
        error = super().refusal(status, headers, body)
        if "retry-after" in headers:
            error.retry_after = float(headers["retry-after"])
        return error


@fails_at("error_of_a_gateway")
class QuotesTheWholePage(Toy):
    """The message of an error contains the body of the response, however long it is."""

    def refusal(self, status: int, headers: Mapping[str, str], body: bytes) -> ProviderError:
        error = super().refusal(status, headers, body)
        error.args = (f"{error}: {body.decode(errors='replace')}",)
        return error


@fails_at("error_class")
class LosesTheStatus(Toy):
    """An error does not have the status of its response."""

    def refusal(self, status: int, headers: Mapping[str, str], body: bytes) -> ProviderError:
        error = super().refusal(status, headers, body)
        error.status = None
        return error


class _RefusedStream(ToyStream):
    """A stream whose iteration raises the error of its response."""

    refused: ProviderError

    async def __aiter__(self) -> AsyncIterator[Sequence[Delta]]:
        raise self.refused
        yield


@fails_at("error_on_entry")
class RefusesWhenRead(Toy):
    """An error response raises when the stream is read, and not when it is opened."""

    @asynccontextmanager
    async def stream(
        self, messages: Messages, tools: ToolDeclarations, options: ChatOptions, structured_output: OutputSchema | None
    ) -> AsyncGenerator[ToyStream]:
        async with AsyncExitStack() as stack:
            try:
                opened = super().stream(messages, tools, options, structured_output)
                stream = await stack.enter_async_context(opened)
            except ProviderError as error:
                stream = _RefusedStream.__new__(_RefusedStream)
                stream.refused = error
            yield stream


@fails_at("partial")
class ForgetsTheTextOfABrokenStream(Toy):
    """Begins again with an empty response if the connection of a stream breaks."""

    class Streaming(ToyStream):
        async def __aiter__(self) -> AsyncIterator[Sequence[Delta]]:
            try:
                async for batch in super().__aiter__():
                    yield batch
            except ChatError:
                self.decoder = Decoder()
                raise


@fails_at("error_of_a_gateway")
class TakesForbiddenForAWrongKey(Toy):
    """Raises `AuthenticationError` for the status 403 as well as for 401."""

    def kind(self, status: int) -> type[ProviderError]:
        return AuthenticationError if status == 403 else super().kind(status)


@fails_at("files")
class SendsUrlSafeBase64(Toy):
    """Encodes files with the alphabet for URLs."""

    class Encoding(Encoder):
        def file(self, file: File) -> list[dict[str, Any]]:
            found = super().file(file)
            return found if file.data is None else [{"look": base64.urlsafe_b64encode(file.data).decode()}]


@fails_at("json_results")
class SendsObjectsAsPython(Toy):
    """Sends results that are objects with `str()`."""

    class Encoding(Encoder):
        def result(self, tool: Tool) -> list[dict[str, Any]]:
            found = super().result(tool)
            for item in found:
                if item["result"].startswith("{"):
                    item["result"] = str(json.loads(item["result"]))
            return found
