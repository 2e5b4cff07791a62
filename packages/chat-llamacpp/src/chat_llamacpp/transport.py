"""Transport that answers Chat Completions requests with llama.cpp in this process, without a socket."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING, Final, final

from chat_core.arguments import require_type
from chat_core.errors import TransportError
from chat_core.json import dump_bytes, loads
from chat_core.transport import Event, EventStream, Headers, Request, Response
from chat_core.wire.shapes import Json, is_object

from chat_llamacpp.answer import ResponseAssembler, Translator, error_from_chunk
from chat_llamacpp.constrained import Constrained, constrain
from chat_llamacpp.decoding import Chunk, Decoding
from chat_llamacpp.schema import UnconstrainableError
from chat_llamacpp.server import JSON, Load, Server, Settings, load, status_error

if TYPE_CHECKING:
    from chat_core.transport import Transport

_DONE: Final = Event("message", b"[DONE]")
_SSE: Final = Headers({"content-type": "text/event-stream"})
_NO_CHUNKS: Final[list[Chunk]] = []
_CHAT, _EMBEDDINGS = "/chat/completions", "/embeddings"


@final
class LlamaCppTransport:
    """Transport for Chat Completions and embedding requests to a model in this process. Created by `LlamaCppBuilder`.

    The first request loads the model. Chat and embedding requests use separate copies of the model, and each copy
    handles one request at a time. A request that is canceled while it waits is never started. A canceled running
    request stops after the current token or, while its prompt is processed, after the current batch. Several event
    loops may use one transport at the same time.
    """

    __slots__ = ("_chat", "_embeddings", "_settings")

    def __init__(self, settings: Settings, *, load: Load = load) -> None:
        self._settings = settings
        self._chat = Server(settings, load, embedding=False)
        self._embeddings = Server(settings, load, embedding=True)

    def __repr__(self) -> str:
        return f"LlamaCppTransport({self._settings.path.name!r})"

    async def send(self, request: Request, /) -> Response:
        """Implement `Transport.send`. The response is streamed internally, so that it can be stopped.

        Raises:
            TransportError: the decoding failed, or produced nothing within the idle timeout.
        """
        try:
            require_type("request", request, Request, "a Request")
            body = await (self._embed_texts if request.path.endswith(_EMBEDDINGS) else self._complete_chat)(request)
        except TransportError as error:
            if error.status is None:
                raise
            return Response(error.status, JSON, error.body)
        return Response(200, JSON, dump_bytes(body))

    @asynccontextmanager
    async def stream(self, request: Request, /) -> AsyncGenerator[EventStream]:
        """Implement `Transport.stream`. Exiting the context stops the decoding and waits until it has ended.

        Raises:
            TransportError: the model cannot be loaded, or llama.cpp rejects the request.
        """
        constrained = _parse_chat_request(request)
        async with aclosing(self._start_decoding(constrained, request)) as decoding:
            chunks = await anext(decoding, _NO_CHUNKS)
            if chunks and "error" in chunks[0]:
                raise error_from_chunk(chunks[0])
            yield EventStream(200, _SSE, _Events(chunks, decoding, constrained))

    async def aclose(self) -> None:
        """Free the models after all earlier requests have ended. A later request loads them again."""
        for server in (self._chat, self._embeddings):
            if server.loaded:
                async with aclosing(Decoding(server.worker, server.free)) as freeing:
                    await anext(freeing, _NO_CHUNKS)

    def _start_decoding(self, constrained: Constrained, request: Request) -> Decoding:
        return Decoding(
            self._chat.worker,
            lambda take, stopped: self._chat.chat(constrained, take, stopped),
            idle=request.timeouts.idle,
        )

    async def _complete_chat(self, request: Request) -> Json:
        constrained = _parse_chat_request(request)
        translator, assembler = Translator(calls=constrained.calls), ResponseAssembler()
        async with aclosing(self._start_decoding(constrained, request)) as decoding:
            async for batch in decoding:
                for chunk in batch:
                    for translated in translator.translate(chunk):
                        assembler.add(translated)
        return assembler.body()

    async def _embed_texts(self, request: Request) -> Json:
        body = _parse_body(request)
        work = Decoding(
            self._embeddings.worker,
            lambda take, stopped: self._embeddings.embed(body, take, stopped),
            idle=request.timeouts.idle,
        )
        async with aclosing(work) as embedding:
            async for batch in embedding:
                if "error" in batch[0]:
                    raise error_from_chunk(batch[0])
                return batch[0]
        msg = "llama.cpp returned no embedding: send the request again"
        raise TransportError("stream", msg)


@final
class _Events:
    """Iterator over the events of a response. Unlike a generator, it needs no cleanup when iteration ends early."""

    __slots__ = ("_chunks", "_decoding", "_ended", "_translator")

    def __init__(self, first: list[Chunk], rest: Decoding, constrained: Constrained) -> None:
        self._chunks = first
        self._decoding = rest
        self._translator = Translator(calls=constrained.calls)
        self._ended = False

    def __aiter__(self) -> _Events:
        return self

    async def __anext__(self) -> Sequence[Event]:
        translate = self._translator.translate
        while not self._ended:
            chunks = self._chunks or await anext(self._decoding, _NO_CHUNKS)
            self._chunks = _NO_CHUNKS
            if not chunks:
                self._ended = True
                if self._translator.finished:
                    return [_DONE]
            elif events := [Event("message", dump_bytes(item)) for chunk in chunks for item in translate(chunk)]:
                return events
        raise StopAsyncIteration


def _parse_chat_request(request: Request) -> Constrained:
    require_type("request", request, Request, "a Request")
    if not request.path.endswith(_CHAT):
        message = f"unknown path {request.path!r}; this transport serves {_CHAT!r} and {_EMBEDDINGS!r}"
        raise status_error(404, {"message": message, "type": "not_found_error"})
    body = {**_parse_body(request), "stream": True, "stream_options": {"include_usage": True}}
    try:
        return constrain(body)
    except UnconstrainableError as error:
        raise status_error(400, {"message": str(error), "type": "invalid_request_error"}) from error


def _parse_body(request: Request) -> Json:
    try:
        body = loads(request.body)
    except ValueError:
        body = None
    if not is_object(body):
        raise status_error(400, {"message": "the request body is not a JSON object", "type": "invalid_request_error"})
    return body


if TYPE_CHECKING:
    _is_a_transport: type[Transport] = LlamaCppTransport
