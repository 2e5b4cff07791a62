"""The Responses wire, without input or output: bodies to send, answers to read.

What a request says is in `encode.py`, `parts.py`, `files.py`, `declare.py` and `chain.py`; what an answer says in
`decode.py`, `growing.py`, `items.py` and `usage.py`; token counting is short enough to be here.
"""

from __future__ import annotations

from chat_core.errors import InvalidResponseError
from chat_core.json import loads
from chat_core.wire.shapes import mapping
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
    """The number of tokens in the answer to a question for it.

    Raises:
        InvalidResponseError: there is none in it.
        ProviderError: the body says that the server failed.
    """
    try:
        answer = loads(body)
    except ValueError as error:
        msg = f"{provider}: the server's words are not JSON"
        raise InvalidResponseError(msg, raw=body) from error
    count = mapping(answer).get("input_tokens")
    if isinstance(count, int) and count >= 0:
        return count
    if (said := find_error(answer)) is not None:
        raise error_from_object(said, provider)
    msg = f"{provider}: `input_tokens` must be a count, not {count!r}"
    raise InvalidResponseError(msg, path="input_tokens", raw=body)
