"""Each accepted exchange is rebuilt, encoded, and compared with the recorded request."""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from typing import cast

from chat_completions.codec import encode, encode_embeddings
from chat_core.errors import ChatError

from .exchanges import Exchange, accepted
from .normalise import Object, differences
from .rebuild import Rebuilt, rebuild, rebuild_embeddings


def encoded(exchange: Exchange) -> Object:
    """Return the request that the library sends for the conversation of a recorded request.

    Raises:
        ChatError: the library refuses to send it.
    """
    if exchange.api == "embeddings":
        asked = rebuild_embeddings(exchange.body, exchange.provider)
        return cast("Object", json.loads(encode_embeddings(asked.texts, asked.options, dialect=asked.dialect)))
    return cast("Object", json.loads(sent(rebuild(exchange.body, exchange.provider))))


def sent(said: Rebuilt) -> bytes:
    """Return the body that the library sends for rebuilt values."""
    return encode(said.messages, said.tools, said.options, said.output, dialect=said.dialect, stream=said.stream)


@functools.cache
def found() -> dict[str, Sequence[str]]:
    """Return the differences between the requests of the library and the recorded requests, by exchange."""
    result = dict[str, Sequence[str]]()
    for exchange in accepted():
        try:
            result[exchange.id] = [str(difference) for difference in differences(exchange.body, encoded(exchange))]
        except ChatError as error:
            result[exchange.id] = [f"refused: {error}"]
    return result
