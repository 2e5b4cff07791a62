"""The Messages wire, without input or output: bodies to send, answers to read.

What a request says is in `encode.py`, `request.py`, `parts.py` and `schema.py`; what an answer says in `decode.py`,
`answer.py` and `usage.py`. On Vertex AI and Bedrock the same bodies travel with other URLs and signatures:
`on_vertex()` and `on_bedrock()` make the dialect, and whoever sends them brings the rest.
"""

from __future__ import annotations

from dataclasses import replace

from chat_core.errors import InvalidResponseError
from chat_core.json import loads
from chat_core.wire.shapes import mapping

from chat_claude.decode import StreamDecoder, decode, is_last
from chat_claude.encode import Encoded, encode, encode_count, encode_turns
from chat_claude.errors import error_from_object, find_error
from chat_claude.options import BEDROCK_VERSION, DEFAULT_PROVIDER, VERTEX_VERSION, Dialect

__all__ = [
    "Encoded",
    "StreamDecoder",
    "decode",
    "decode_count",
    "encode",
    "encode_count",
    "encode_turns",
    "is_last",
    "on_bedrock",
    "on_vertex",
]


def on_vertex(model: str, *, provider: str = DEFAULT_PROVIDER) -> Dialect:
    """The dialect of `rawPredict` and `streamRawPredict`, whose URL names the model."""
    return replace(Dialect.of(model, provider=provider), anthropic_version=VERTEX_VERSION, model_in_body=False)


def on_bedrock(model: str, *, provider: str = DEFAULT_PROVIDER) -> Dialect:
    """The dialect of `InvokeModel`, whose URL names the model and says whether a stream is wanted."""
    return replace(
        Dialect.of(model, provider=provider),
        anthropic_version=BEDROCK_VERSION,
        model_in_body=False,
        stream_in_body=False,
        betas_in_body=True,
        urls=False,
    )


def decode_count(body: bytes, provider: str) -> int:
    """The number of tokens in an answer about them.

    Raises:
        InvalidResponseError: it tells none.
        ProviderError: the body says that the server failed.
    """
    try:
        answer = loads(body)
    except ValueError as error:
        msg = f"{provider}: the server's words are not JSON"
        raise InvalidResponseError(msg, raw=body) from error
    if (said := find_error(answer, "")) is not None:
        raise error_from_object(said, provider)
    count = mapping(answer).get("input_tokens")
    if not isinstance(count, int):
        msg = f"{provider}: `input_tokens` must be a number, not {count!r}"
        raise InvalidResponseError(msg, path="input_tokens", raw=body)
    return count
