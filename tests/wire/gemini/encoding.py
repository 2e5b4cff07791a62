"""Each accepted exchange is rebuilt, encoded, and compared with the recorded request."""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from typing import cast

from chat_core.errors import ChatError
from chat_core.provider import ToolDeclarations
from chat_gemini.codec import encode, encode_count, encode_embeddings

from ..normalise import Object
from ..recordings import Recorded, recorded
from .decoding import VENDORS
from .normalise import differences
from .rebuild import Rebuilt, rebuild, rebuild_embeddings


@functools.cache
def accepted() -> tuple[Recorded, ...]:
    """Return every accepted request of this API that is known."""
    found = [*recorded("generate-content"), *recorded("embeddings", "count-tokens")]
    return tuple([item for item in found if item.accepted and item.asked is not None and item.provider in VENDORS])


def encoded(exchange: Recorded) -> Object:
    """Return the request that the library sends for the conversation of a recorded request.

    Raises:
        ChatError: the library refuses to send it.
    """
    asked = exchange.asked or {}
    if exchange.api == "embeddings":
        method = exchange.path.rpartition(":")[2]
        wanted = rebuild_embeddings(asked, exchange.provider, method)
        return _json(encode_embeddings(wanted.texts, wanted.options, dialect=wanted.dialect))
    said = rebuild(asked, exchange.provider)
    if exchange.api == "count-tokens":
        flat = exchange.provider == "vertex"
        return _json(encode_count(said.messages, ToolDeclarations(said.tools), dialect=said.dialect, flat=flat))
    return _json(sent(said))


def sent(said: Rebuilt) -> bytes:
    """Return the body that the library sends for rebuilt values."""
    return encode(said.messages, said.tools, said.options, said.output, dialect=said.dialect)


def _json(body: bytes) -> Object:
    return cast("Object", json.loads(body))


@functools.cache
def found() -> dict[str, Sequence[str]]:
    """Return the differences between the requests of the library and the recorded requests, by exchange."""
    result = dict[str, Sequence[str]]()
    for exchange in accepted():
        try:
            unlike = differences(exchange.asked or {}, encoded(exchange))
            result[exchange.id] = [str(difference) for difference in unlike]
        except ChatError as error:
            result[exchange.id] = [f"refused: {error}"]
    return result
