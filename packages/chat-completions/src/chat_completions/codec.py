"""The codec of the Chat Completions API: encode request bodies and decode response bodies, without I/O.

This module contains the codec of embeddings. Requests of chats are encoded in `encode.py` and `parts.py`, and responses
are decoded in `decode.py`, `answer.py`, `calls.py` and `usage.py`.
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

_ENCODING_FIELDS = frozenset({"encoding_format", "output_dtype", "embedding_type", "embedding_types"})
"""Request fields that select the number format of vectors. Responses do not reliably show the format."""

_FLOAT_ENCODINGS = ("float", "base64", ["float"], ["base64"])


def encode_embeddings(texts: Sequence[str], options: ChatOptions, *, dialect: Dialect) -> bytes:
    """Encode the body of an embedding request.

    Args:
        texts: The texts to embed.
        options: The options of the request.
        dialect: The dialect, which names the model and the length of the vectors.

    Raises:
        UnsupportedOptionError: An option applies only to chats, or requests a number format other than floats.
    """
    options.refuse(f"{dialect.provider} (embeddings)", *_CHAT_ONLY)
    extras = options.extra(CompletionsOptions, dialect.provider)  # noqa: S610 - not Django
    body: dict[str, object] = {"model": dialect.model, "input": list(texts)}
    if dialect.dimensions is not None:
        body[dialect.dimensions_field] = dialect.dimensions
    if extras is not None:
        body |= _encode_extras(extras, body, dialect)
    return dump_bytes(body)


def _encode_extras(extras: CompletionsOptions, body: dict[str, object], dialect: Dialect) -> dict[str, object]:
    extra_fields = dict(extras.extra_body or {})
    if replace(extras, user=None, extra_body=None) != CompletionsOptions(provider=extras.provider):
        msg = f"{dialect.provider} (embeddings) supports only the extras `user` and `extra_body`: remove the others"
        raise UnsupportedOptionError(msg)
    if conflicts := sorted(extra_fields.keys() & (body.keys() | {"user"})):
        msg = f"extra_body cannot contain {', '.join(conflicts)}: set these fields with their own options"
        raise UnsupportedOptionError(msg)
    for name in _ENCODING_FIELDS & extra_fields.keys():
        if extra_fields[name] not in _FLOAT_ENCODINGS:
            msg = f"vectors must be floats: {name}={extra_fields[name]!r} is not supported; use 'float' or 'base64'"
            raise UnsupportedOptionError(msg)
    return extra_fields if extras.user is None else {"user": extras.user, **extra_fields}


def decode_embeddings(body: bytes, count: int, provider: str) -> EmbeddingsResponse:
    """Decode the body of an embedding response. The vectors are in the order of the texts.

    Args:
        body: The body of the response.
        count: The number of texts in the request.
        provider: The provider name, for error messages.

    Raises:
        InvalidResponseError: The body is not JSON, or it does not contain exactly `count` vectors.
        ProviderError: The body contains an error object.
    """
    try:
        answer = loads(body)
    except ValueError as error:
        msg = f"{provider}: the response is not JSON"
        raise InvalidResponseError(msg, raw=body) from error
    if (error_object := find_error(answer, kind="embeddings")) is not None:
        raise error_from_object(error_object, provider)
    if not is_object(answer):
        msg = f"{provider}: the response must be a JSON object"
        raise InvalidResponseError(msg, raw=body)
    items = answer.get("data")
    if not is_list(items) or len(items) != count:
        found = f"{len(items)} items" if is_list(items) else "another type"
        msg = f"{provider}: `data` must be a list of {count} embeddings, not {found}"
        raise InvalidResponseError(msg, path="data", raw=body)
    vectors: dict[int, tuple[float, ...]] = {}
    for position, item in enumerate(items):
        vector = _read_vector(item)
        index = item.get("index") if is_object(item) else None
        target = index if isinstance(index, int) else position
        if vector is None or target in vectors or not 0 <= target < count:
            msg = f"{provider}: data[{position}] is not an embedding of one of the texts"
            raise InvalidResponseError(msg, path=f"data[{position}]", raw=body)
        vectors[target] = vector
    model = answer.get("model")
    ordered = tuple([vectors[number] for number in range(count)])
    return EmbeddingsResponse(
        ordered, _read_embedding_usage(answer.get("usage")), model if isinstance(model, str) else None
    )


def _read_embedding_usage(usage: object) -> Usage:
    """Return the usage of embeddings. If a server reports only the total, all of it is input."""
    counts = read_usage(usage)
    total = mapping(usage).get("total_tokens")
    return counts if counts.input_tokens or not isinstance(total, int) else Usage(total)


def _read_vector(item: object) -> tuple[float, ...] | None:
    """Return the numbers of an embedding, or None. It is a list, or base64 of little-endian 32-bit floats."""
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
