"""llama.cpp in this process, as a transport under the Completions wire: no socket, no second codec."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING, Final, final

from chat_core.errors import TransportError
from chat_core.json import dump_bytes, loads
from chat_core.transport import Event, EventStream, Headers, Request, Response
from chat_core.wire.shapes import Json, is_object

from chat_llamacpp.answer import Translator, Whole, refusal
from chat_llamacpp.constrained import Constrained, constrain
from chat_llamacpp.decoding import Chunk, Decoding
from chat_llamacpp.schema import UnconstrainableError
from chat_llamacpp.server import JSON, Load, Server, Settings, load, refused

if TYPE_CHECKING:
    from chat_core.transport import Transport

_DONE: Final = Event("message", b"[DONE]")
_SSE: Final = Headers({"content-type": "text/event-stream"})
_NONE: Final[list[Chunk]] = []
_CHAT, _EMBEDDINGS = "/chat/completions", "/embeddings"


@final
class LlamaCppTransport:
    """Carries requests of the Completions wire to a model in this process. Made by `LlamaCppBuilder`.

    The model is loaded by the first request, one copy for answers and one for embeddings. Requests take turns; one that
    is given up while it waits is never decoded. One that is left stops at the next token, or, while its prompt is read,
    at the end of the piece at hand. Several event loops may use one transport, also at the same time.
    """

    __slots__ = ("_chat", "_embeddings", "_settings")

    def __init__(self, settings: Settings, *, load: Load = load) -> None:
        self._settings = settings
        self._chat = Server(settings, load, embedding=False)
        self._embeddings = Server(settings, load, embedding=True)

    def __repr__(self) -> str:
        return f"LlamaCppTransport({self._settings.path.name!r})"

    async def send(self, request: Request, /) -> Response:
        """Deliver a request and return the whole answer. It is streamed underneath, since only that can be stopped.

        Raises:
            TransportError: the decoding broke off, or was silent for too long.
        """
        try:
            answer = await (self._embedded if request.path.endswith(_EMBEDDINGS) else self._answered)(request)
        except TransportError as error:
            if error.status is None:
                raise
            return Response(error.status, JSON, error.body)
        return Response(200, JSON, dump_bytes(answer))

    @asynccontextmanager
    async def stream(self, request: Request, /) -> AsyncGenerator[EventStream]:
        """Deliver a request and listen to the answer. Leaving the block stops the decoding, and waits until it has.

        Raises:
            TransportError: the model cannot be loaded, or llama.cpp refuses the request.
        """
        constrained = _constrained(request)
        async with aclosing(self._decoding(constrained, request)) as decoding:
            chunks = await anext(decoding, _NONE)
            if chunks and "error" in chunks[0]:
                raise refusal(chunks[0])
            yield EventStream(200, _SSE, _Events(chunks, decoding, constrained))

    async def aclose(self) -> None:
        """Free the models, behind the requests that are under way. A request after this loads them again."""
        for server in (self._chat, self._embeddings):
            if server.loaded:
                async with aclosing(Decoding(server.worker, server.free)) as freeing:
                    await anext(freeing, _NONE)

    def _decoding(self, constrained: Constrained, request: Request) -> Decoding:
        return Decoding(
            self._chat.worker,
            lambda take, stopped: self._chat.chat(constrained, take, stopped),
            idle=request.timeouts.idle,
        )

    async def _answered(self, request: Request) -> Json:
        constrained = _constrained(request)
        translator, answer = Translator(calls=constrained.calls), Whole()
        async with aclosing(self._decoding(constrained, request)) as decoding:
            async for batch in decoding:
                for chunk in batch:
                    for translated in translator.translate(chunk):
                        answer.add(translated)
        return answer.body()

    async def _embedded(self, request: Request) -> Json:
        body = _read(request)
        work = Decoding(
            self._embeddings.worker,
            lambda take, stopped: self._embeddings.embed(body, take, stopped),
            idle=request.timeouts.idle,
        )
        async with aclosing(work) as embedding:
            async for batch in embedding:
                if "error" in batch[0]:
                    raise refusal(batch[0])
                return batch[0]
        msg = "the embedding was broken off"
        raise TransportError("stream", msg)


@final
class _Events:
    """The events of an answer. An object, not a generator: left early, it leaves nothing to be closed."""

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
            chunks = self._chunks or await anext(self._decoding, _NONE)
            self._chunks = _NONE
            if not chunks:
                self._ended = True
                if self._translator.finished:
                    return [_DONE]
            elif events := [Event("message", dump_bytes(item)) for chunk in chunks for item in translate(chunk)]:
                return events
        raise StopAsyncIteration


def _constrained(request: Request) -> Constrained:
    if not request.path.endswith(_CHAT):
        raise refused(404, {"message": f"there is nothing at {request.path!r}", "type": "not_found_error"})
    body = {**_read(request), "stream": True, "stream_options": {"include_usage": True}}
    try:
        return constrain(body)
    except UnconstrainableError as error:
        raise refused(400, {"message": str(error), "type": "invalid_request_error"}) from error


def _read(request: Request) -> Json:
    try:
        body = loads(request.body)
    except ValueError:
        body = None
    if not is_object(body):
        raise refused(400, {"message": "the body is not a JSON object", "type": "invalid_request_error"})
    return body


if TYPE_CHECKING:
    _is_a_transport: type[Transport] = LlamaCppTransport
