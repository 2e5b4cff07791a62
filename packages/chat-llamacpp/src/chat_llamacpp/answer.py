"""Converters from llama.cpp chunks to Chat Completions chunks, and to a complete response."""

from __future__ import annotations

from typing import Any, final

from chat_core.errors import TransportError
from chat_core.wire.shapes import Json

from chat_llamacpp.decoder import TurnDecoder
from chat_llamacpp.decoding import Chunk
from chat_llamacpp.server import status_error


@final
class Translator:
    """Translator from llama.cpp chunks to Chat Completions chunks, for one response.

    With `calls`, the generated JSON is decoded into text and tool calls. Otherwise chunks pass unchanged.

    Attributes:
        finished: whether a chunk had a finish reason.
    """

    __slots__ = ("_decoder", "finished")

    def __init__(self, *, calls: bool) -> None:
        self._decoder = TurnDecoder() if calls else None
        self.finished: bool = False

    def translate(self, chunk: Chunk) -> list[Chunk]:
        """Convert one llama.cpp chunk to Chat Completions chunks, and return them.

        Raises:
            TransportError: the generated text does not match the grammar.
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
            chunks = [_replace_choice_fields(chunk, delta=piece, finish_reason=None) for piece in decoder.feed(text)]
            if decoder.failed:
                msg = (
                    f"the model generated text outside its grammar, at {text!r}; "
                    "llama.cpp may have ignored a tool schema that is too complex: simplify it"
                )
                raise TransportError("protocol", msg)
            delta = {}
        if finish is not None:
            chunks.append(_replace_choice_fields(chunk, delta=delta, finish_reason=_finish_reason(finish, decoder)))
        elif not isinstance(text, str):
            chunks.append(chunk)
        return chunks


def _finish_reason(finish: str, decoder: TurnDecoder) -> str:
    if finish != "stop":
        return finish
    if decoder.called:
        return "tool_calls"
    # The model stopped inside a call or before the value began: the output was truncated.
    return "stop" if decoder.is_text else "length"


def _replace_choice_fields(chunk: Chunk, **changes: Any) -> Chunk:  # noqa: ANN401 - JSON
    return {**chunk, "choices": [{**chunk["choices"][0], **changes}]}


@final
class ResponseAssembler:
    """Assembler that builds a complete Chat Completions response from its streamed chunks."""

    __slots__ = ("_arguments", "_call", "_content", "_finish", "_first", "_usage")

    def __init__(self) -> None:
        self._first: Json = {}
        self._content: list[str] = []
        self._call: Json | None = None
        self._arguments: list[str] = []
        self._finish: object = None
        self._usage: object = None

    def add(self, chunk: Chunk) -> None:
        """Add the next chunk to the response.

        Raises:
            TransportError: the chunk is an error reported by llama.cpp.
        """
        if "error" in chunk:
            raise error_from_chunk(chunk)
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
        """Return the body of the complete response.

        Raises:
            TransportError: the decoding ended without a finish reason.
        """
        if self._finish is None:
            msg = "llama.cpp ended the response without a finish reason: send the request again"
            raise TransportError("stream", msg)
        message: Json = {"role": "assistant", "content": "".join(self._content) or None}
        if self._call is not None:
            function = {"name": self._call["function"]["name"], "arguments": "".join(self._arguments)}
            message["tool_calls"] = [{"id": self._call["id"], "type": "function", "function": function}]
        choice = {"index": 0, "message": message, "finish_reason": self._finish}
        metadata: Json = {
            name: self._first[name] for name in ("id", "created", "model", "system_fingerprint") if name in self._first
        }
        return {**metadata, "object": "chat.completion", "choices": [choice], "usage": self._usage}


def error_from_chunk(chunk: Chunk) -> TransportError:
    """Return the exception for a chunk with an `error` field. The status is 500 if the field has no status code."""
    error: Json = chunk["error"]
    code = error.get("code")
    return status_error(code if isinstance(code, int) else 500, error)
