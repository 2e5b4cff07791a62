"""Encoder and decoder for the Chat Completions API, without I/O.

This module encodes and decodes embeddings. Chat requests are encoded in `encode.py` and `parts.py`. Chat responses are
decoded in `decode.py`, `answer.py`, `calls.py` and `usage.py`.
"""

from __future__ import annotations

import base64
import binascii
import math
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from chat_core.errors import InvalidResponseError, UnsupportedOptionError
from chat_core.json import dump_bytes
from chat_core.options import ChatOptions
from chat_core.provider import EmbeddingsResponse, require_embeddings_request
from chat_core.usage import Usage
from chat_core.wire.shapes import is_list, is_object, mapping, parse_body
from chat_core.wire.strict import strict_schema

from chat_completions.decode import DONE, StreamDecoder, decode, is_last
from chat_completions.encode import encode, encode_turns
from chat_completions.errors import error_from_object, find_error
from chat_completions.options import CompletionsOptions, Dialect, EncodingFormat
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
    "requested_encoding",
    "strict_schema",
]

_CHAT_ONLY = (
    "temperature",
    "top_p",
    "top_k",
    "max_tokens",
    "stop",
    "seed",
    "tool_choice",
    "parallel_tool_calls",
    "instructions",
    "reasoning",
)

_TYPE_FIELDS = frozenset({"output_dtype", "embedding_type", "embedding_types"})
"""Request fields of some servers that select the type of the numbers. Responses do not show the type."""

_FLOATS = ("float", "base64", ["float"], ["base64"])


def _unpack_floats(data: bytes) -> tuple[float, ...] | None:
    return struct.unpack(f"<{len(data) // 4}f", data) if len(data) % 4 == 0 else None


def _unpack_int8(data: bytes) -> tuple[float, ...] | None:
    return tuple([float(number) for number in struct.unpack(f"{len(data)}b", data)])


_UNPACK: Final[Mapping[EncodingFormat, Callable[[bytes], tuple[float, ...] | None] | None]] = {
    "float": None,
    "base64": _unpack_floats,
    "base64_int8": _unpack_int8,
}
"""The function that unpacks a vector from bytes, by encoding. `float` vectors are lists of numbers in JSON."""


def encode_embeddings(texts: Sequence[str], options: ChatOptions, *, dialect: Dialect) -> bytes:
    """Encode the body of an embeddings request.

    Args:
        texts: the texts to embed.
        options: settings of the request, such as `temperature`.
        dialect: the dialect, which names the model and the length of the vectors.

    Raises:
        UnsupportedOptionError: an option applies only to chats, or requests a number format other than floats.
    """
    require_embeddings_request(texts, options)
    options.refuse(f"{dialect.provider} (embeddings)", *_CHAT_ONLY)
    extras = options.extra(CompletionsOptions, dialect.provider)
    body: dict[str, object] = {"model": dialect.model, "input": list(texts)}
    if dialect.dimensions is not None:
        body[dialect.dimensions_field] = dialect.dimensions
    extra_fields = {} if extras is None else _encode_extras(extras, body, dialect)
    if dialect.encoding_format is not None:
        body["encoding_format"] = dialect.encoding_format
    return dump_bytes(body | extra_fields)


def requested_encoding(options: ChatOptions, dialect: Dialect) -> EncodingFormat | None:
    """Return the vector encoding that a request asks for, or None if the server may choose.

    Args:
        options: settings of the request, such as `temperature`. `encoding_format` in `extra_body` takes precedence.
        dialect: the request format of the server.
    """
    extras = options.extra(CompletionsOptions, dialect.provider)
    fields: Mapping[str, object] = (extras.extra_body if extras is not None else None) or {}
    value = fields.get("encoding_format", dialect.encoding_format)
    return next((name for name in _UNPACK if value == name), None)


def _encode_extras(extras: CompletionsOptions, body: dict[str, object], dialect: Dialect) -> dict[str, object]:
    extra_fields = dict(extras.extra_body or {})
    if replace(extras, user=None, extra_body=None) != CompletionsOptions(provider=extras.provider):
        msg = f"{dialect.provider} (embeddings) supports only the extras `user` and `extra_body`: remove the others"
        raise UnsupportedOptionError(msg)
    if conflicts := sorted(extra_fields.keys() & (body.keys() | {"user"})):
        msg = f"extra_body cannot contain {', '.join(conflicts)}: set these fields with their own options"
        raise UnsupportedOptionError(msg)
    for name in _TYPE_FIELDS & extra_fields.keys():
        if extra_fields[name] not in _FLOATS:
            msg = f"extra_body sets {name}={extra_fields[name]!r}, but only float vectors can be decoded: use 'float'"
            raise UnsupportedOptionError(msg)
    if "encoding_format" in extra_fields and extra_fields["encoding_format"] not in tuple(_UNPACK):
        value, known = extra_fields["encoding_format"], ", ".join(map(repr, _UNPACK))
        msg = f"extra_body sets encoding_format={value!r}, which cannot be decoded: use one of {known}"
        raise UnsupportedOptionError(msg)
    return extra_fields if extras.user is None else {"user": extras.user, **extra_fields}


def decode_embeddings(
    body: bytes,
    count: int,
    provider: str,
    *,
    encoding_format: EncodingFormat | None = None,
    dimensions: int | None = None,
) -> EmbeddingsResponse:
    """Decode the body of an embeddings response and return the vectors in the order of the texts.

    A list of numbers is always accepted. Base64 is accepted only if the request asked for it, because a response does
    not show the type of the numbers.

    Args:
        body: the response body as received.
        count: the number of texts in the request.
        provider: name of the provider, for error messages.
        encoding_format: the encoding that the request asked for; `None` if it asked for none.
        dimensions: the vector length that the request asked for; `None` accepts any length.

    Raises:
        InvalidResponseError: the body is not JSON, or it does not contain exactly `count` vectors that have finite
            numbers and the requested length.
        ProviderError: the body contains an error object.
    """
    answer = parse_body(body, provider)
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
        vector = _read_vector(item, encoding_format)
        index = item.get("index") if is_object(item) else None
        target = index if isinstance(index, int) else position
        if vector is None or target in vectors or not 0 <= target < count:
            expected = f"a list of finite numbers as `embedding`, and a different `index` below {count}"
            msg = f"{provider}: data[{position}] must have {expected}{_encoding_hint(item)}"
            raise InvalidResponseError(msg, path=f"data[{position}]", raw=body)
        if dimensions is not None and len(vector) != dimensions:
            msg = f"{provider}: data[{position}] has {len(vector)} dimensions, but {dimensions} were requested"
            raise InvalidResponseError(msg, path=f"data[{position}].embedding", raw=body)
        vectors[target] = vector
    model = answer.get("model")
    ordered = tuple([vectors[number] for number in range(count)])
    return EmbeddingsResponse(
        ordered, _read_embedding_usage(answer.get("usage")), model if isinstance(model, str) else None
    )


def _read_embedding_usage(usage: object) -> Usage:
    """Parse the `usage` object of an embeddings response. If only a total is reported, it counts as input."""
    counts = read_usage(usage)
    total = mapping(usage).get("total_tokens")
    return counts if counts.input_tokens or not isinstance(total, int) else Usage(total)


def _encoding_hint(item: object) -> str:
    if is_object(item) and isinstance(item.get("embedding"), str):
        return ". Its `embedding` is text: set `encoding_format` in `extra_body` to the encoding of the server"
    return ""


def _read_vector(item: object, encoding: EncodingFormat | None) -> tuple[float, ...] | None:
    """Return the vector in an item of the response, or None if its values are invalid or not in `encoding`."""
    value = item.get("embedding") if is_object(item) else None
    vector: tuple[float, ...] | None = None
    if isinstance(value, str):
        vector = _read_base64(value, encoding)
    elif is_list(value) and all(number.__class__ in (float, int) for number in value):
        try:
            vector = tuple([float(number) for number in value])
        except OverflowError:  # an integer beyond the range of floats
            return None
    return vector if vector and all(map(math.isfinite, vector)) else None


def _read_base64(text: str, encoding: EncodingFormat | None) -> tuple[float, ...] | None:
    unpack = None if encoding is None else _UNPACK[encoding]
    if unpack is None:
        return None
    try:
        return unpack(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError):
        return None
