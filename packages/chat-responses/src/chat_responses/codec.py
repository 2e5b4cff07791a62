"""Encoder and decoder for the Responses API, without I/O.

`encode.py`, `parts.py`, `files.py`, `declare.py` and `chain.py` build requests. `decode.py`, `answer.py`,
`accumulate.py`, `items.py` and `usage.py` decode responses. This module decodes token counts.
"""

from __future__ import annotations

from chat_core.errors import InvalidResponseError
from chat_core.wire.shapes import mapping, parse_body
from chat_core.wire.strict import strict_schema

from chat_responses.chain import sealed
from chat_responses.decode import StreamDecoder, decode, is_last
from chat_responses.encode import Composed, compose, encode, encode_count, encode_turn
from chat_responses.errors import error_from_object, find_error

__all__ = [
    "Composed",
    "StreamDecoder",
    "compose",
    "decode",
    "decode_count",
    "encode",
    "encode_count",
    "encode_turn",
    "is_last",
    "sealed",
    "strict_schema",
]


def decode_count(body: bytes, provider: str) -> int:
    """Decode the response to a token count request and return the number of input tokens.

    Args:
        body: the response body as received.
        provider: name of the provider, for error messages.

    Raises:
        InvalidResponseError: the body is not JSON or has no count.
        ProviderError: the body reports an error.
    """
    response = parse_body(body, provider)
    count = mapping(response).get("input_tokens")
    if isinstance(count, int) and count >= 0:
        return count
    if (reported := find_error(response)) is not None:
        raise error_from_object(reported, provider)
    msg = f"{provider}: `input_tokens` must be a non-negative integer, not {count!r}"
    raise InvalidResponseError(msg, path="input_tokens", raw=body)
