"""From the chunks of llama.cpp to those of the Completions wire, and to an answer that comes at once."""

from __future__ import annotations

from typing import Any, final

from chat_core.errors import TransportError
from chat_core.wire.shapes import Json

from chat_llamacpp.decoder import TurnDecoder
from chat_llamacpp.decoding import Chunk
from chat_llamacpp.server import refused


@final
class Translator:
    """Turns the text of the grammar into text and calls, where there is a grammar for them.

    Attributes:
        finished: whether a finish reason has come.
    """

    __slots__ = ("_decoder", "finished")

    def __init__(self, *, calls: bool) -> None:
        self._decoder = TurnDecoder() if calls else None
        self.finished = False

    def translate(self, chunk: Chunk) -> list[Chunk]:
        """What a chunk is on the wire.

        Raises:
            TransportError: the text is not what the grammar allows.
        """
        if not chunk.get("choices"):
            return [chunk]
        choice: Json = chunk["choices"][0]
        finish = choice.get("finish_reason")
        self.finished = self.finished or finish is not None
        decoder = self._decoder
        if decoder is None:
            return [chunk]
        delta: Json = choice.get("delta") or {}
        text = delta.get("content")
        chunks: list[Chunk] = []
        if isinstance(text, str):
            chunks = [_with(chunk, delta=piece, finish_reason=None) for piece in decoder.feed(text)]
            if decoder.failed:
                msg = (
                    f"the answer is none that was allowed; is the schema of a tool too much for it? It began: {text!r}"
                )
                raise TransportError("protocol", msg)
            delta = {}
        if finish is not None:
            chunks.append(_with(chunk, delta=delta, finish_reason=_finish(finish, decoder)))
        elif not isinstance(text, str):
            chunks.append(chunk)
        return chunks


def _finish(finish: str, decoder: TurnDecoder) -> str:
    if finish != "stop":
        return finish
    if decoder.called:
        return "tool_calls"
    # What was to end the text has ended a call, or what comes before it: it was cut.
    return "stop" if decoder.saying else "length"


def _with(chunk: Chunk, **changes: Any) -> Chunk:  # noqa: ANN401 - JSON
    return {**chunk, "choices": [{**chunk["choices"][0], **changes}]}


@final
class Whole:
    """Puts the chunks of one answer together as the answer that would have come at once."""

    __slots__ = ("_arguments", "_call", "_content", "_finish", "_first", "_usage")

    def __init__(self) -> None:
        self._first: Json = {}
        self._content: list[str] = []
        self._call: Json | None = None
        self._arguments: list[str] = []
        self._finish: object = None
        self._usage: object = None

    def add(self, chunk: Chunk) -> None:
        """Take the next chunk.

        Raises:
            TransportError: it says that llama.cpp failed.
        """
        if "error" in chunk:
            raise refusal(chunk)
        self._first = self._first or chunk
        self._usage = chunk.get("usage") or self._usage
        choices: list[Json] = chunk.get("choices") or []
        for choice in choices:
            self._finish = choice.get("finish_reason") or self._finish
            delta: Json = choice.get("delta") or {}
            self._content.append(delta.get("content") or "")
            calls: list[Json] = delta.get("tool_calls") or []
            for call in calls:
                self._call = self._call or call
                self._arguments.append(call["function"]["arguments"])

    def body(self) -> Json:
        """The answer.

        Raises:
            TransportError: the decoding ended without saying why.
        """
        if self._finish is None:
            msg = "the decoding ended without a finish reason"
            raise TransportError("stream", msg)
        message: Json = {"role": "assistant", "content": "".join(self._content) or None}
        if self._call is not None:
            function = {"name": self._call["function"]["name"], "arguments": "".join(self._arguments)}
            message["tool_calls"] = [{"id": self._call["id"], "type": "function", "function": function}]
        choice = {"index": 0, "message": message, "finish_reason": self._finish}
        kept: Json = {
            name: self._first[name] for name in ("id", "created", "model", "system_fingerprint") if name in self._first
        }
        return {**kept, "object": "chat.completion", "choices": [choice], "usage": self._usage}


def refusal(chunk: Chunk) -> TransportError:
    """The error for a chunk that says that llama.cpp refuses, or fails."""
    error: Json = chunk["error"]
    code = error.get("code")
    return refused(code if isinstance(code, int) else 500, error)
