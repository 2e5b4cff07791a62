"""The Chat Completions wire, without input or output: bodies to send, answers to read.

What a request says is in `encode.py`, `parts.py` and `schema.py`; what an answer says in `decode.py`, `answer.py` and
`usage.py`; embeddings are short enough to be here.
"""

from __future__ import annotations

import base64
import binascii
import struct
from collections.abc import Sequence
from dataclasses import replace

from chat_core.errors import InvalidResponseError, UnsupportedOptionError
from chat_core.json import dump_bytes, loads
from chat_core.options import ChatOptions
from chat_core.provider import EmbeddingsResponse
from chat_core.usage import Usage
from chat_core.wire.shapes import is_list, is_object, mapping
from chat_core.wire.strict import strict_schema

from chat_completions.decode import DONE, StreamDecoder, decode, is_last
from chat_completions.encode import encode, encode_turns
from chat_completions.errors import error_from_object, find_error
from chat_completions.options import CompletionsOptions, Dialect
from chat_completions.usage import read_usage

__all__ = [
    "DONE",
    "StreamDecoder",
    "decode",
    "decode_embeddings",
    "encode",
    "encode_embeddings",
    "encode_turns",
    "is_last",
    "strict_schema",
]

_CHAT_ONLY = (
    "temperature",
    "top_p",
    "max_tokens",
    "stop",
    "seed",
    "tool_choice",
    "parallel_tool_calls",
    "reasoning",
)

_KINDS_OF_NUMBERS = frozenset({"encoding_format", "output_dtype", "embedding_type", "embedding_types"})
"""What vendors call the choice between floats and fewer bits, which cannot be told apart in every answer."""

_NUMBERS = ("float", "base64", ["float"], ["base64"])


def encode_embeddings(texts: Sequence[str], options: ChatOptions, *, dialect: Dialect) -> bytes:
    """The body of a request for embeddings.

    Raises:
        UnsupportedOptionError: an option is about answers, and vectors are none.
    """
    options.refuse(f"{dialect.provider} (embeddings)", *_CHAT_ONLY)
    extras = options.extra(CompletionsOptions, dialect.provider)  # noqa: S610 - not Django
    body: dict[str, object] = {"model": dialect.model, "input": list(texts)}
    if dialect.dimensions is not None:
        body[dialect.dimensions_field] = dialect.dimensions
    if extras is not None:
        body |= _embedding_extras(extras, body, dialect)
    return dump_bytes(body)


def _embedding_extras(extras: CompletionsOptions, body: dict[str, object], dialect: Dialect) -> dict[str, object]:
    further = dict(extras.extra_body or {})
    if replace(extras, user=None, extra_body=None) != CompletionsOptions(provider=extras.provider):
        msg = f"{dialect.provider} (embeddings) knows the extras `user` and `extra_body` alone: leave the others out"
        raise UnsupportedOptionError(msg)
    if taken := sorted(further.keys() & (body.keys() | {"user"})):
        msg = f"extra_body cannot hold {', '.join(taken)}, which the request has by an option of its own"
        raise UnsupportedOptionError(msg)
    for name in _KINDS_OF_NUMBERS & further.keys():
        if further[name] not in _NUMBERS:
            msg = f"vectors are made of floats: {name}={further[name]!r} asks for numbers that stand for something else"
            raise UnsupportedOptionError(msg)
    return further if extras.user is None else {"user": extras.user, **further}


def decode_embeddings(body: bytes, count: int, provider: str) -> EmbeddingsResponse:
    """The vectors in an answer, in the order of the texts.

    Raises:
        InvalidResponseError: it does not hold `count` vectors.
        ProviderError: the body says that the server failed.
    """
    try:
        answer = loads(body)
    except ValueError as error:
        msg = f"{provider}: the server's words are not JSON"
        raise InvalidResponseError(msg, raw=body) from error
    if (said := find_error(answer, kind="embeddings")) is not None:
        raise error_from_object(said, provider)
    if not is_object(answer):
        msg = f"{provider}: an answer is an object"
        raise InvalidResponseError(msg, raw=body)
    items = answer.get("data")
    if not is_list(items) or len(items) != count:
        found = f"{len(items)} items" if is_list(items) else "no list"
        msg = f"{provider}: `data` must hold {count} embeddings, not {found}"
        raise InvalidResponseError(msg, path="data", raw=body)
    vectors: dict[int, tuple[float, ...]] = {}
    for position, item in enumerate(items):
        vector = _vector(item)
        index = item.get("index") if is_object(item) else None
        place = index if isinstance(index, int) else position
        if vector is None or place in vectors or not 0 <= place < count:
            msg = f"{provider}: data[{position}] is not an embedding of one of the texts"
            raise InvalidResponseError(msg, path=f"data[{position}]", raw=body)
        vectors[place] = vector
    model = answer.get("model")
    ordered = tuple([vectors[place] for place in range(count)])
    return EmbeddingsResponse(ordered, _spent(answer.get("usage")), model if isinstance(model, str) else None)


def _spent(usage: object) -> Usage:
    """The cost of embeddings: some servers give the total alone, and all of it was input."""
    spent = read_usage(usage)
    total = mapping(usage).get("total_tokens")
    return spent if spent.input_tokens or not isinstance(total, int) else Usage(total)


def _vector(item: object) -> tuple[float, ...] | None:
    """The numbers of one embedding: a list, or 32-bit floats, little end first, in base64."""
    value = item.get("embedding") if is_object(item) else None
    if not value:
        return None
    if isinstance(value, str):
        try:
            data = base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError):
            return None
        return struct.unpack(f"<{len(data) // 4}f", data) if len(data) % 4 == 0 else None
    if is_list(value) and all(number.__class__ in (float, int) for number in value):
        return tuple([float(number) for number in value])
    return None
