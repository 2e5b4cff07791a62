"""Each accepted exchange is rebuilt, encoded, and compared with the recorded request."""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from typing import cast

from chat_core.errors import ChatError
from chat_responses.codec import encode, encode_count

from ..normalise import Object
from ..recordings import Recorded, recorded, sessions
from .canonical import differences
from .rebuild import Rebuilt, rebuild


def sent(said: Rebuilt) -> bytes:
    """Return the body that the library sends for rebuilt values."""
    return encode(said.messages, said.tools, said.options, said.output, dialect=said.dialect, stream=said.stream)


def counted(said: Rebuilt) -> bytes:
    """Return the body of the library's request for a token count."""
    return encode_count(said.messages, said.tools, said.options, said.output, dialect=said.dialect)


def asked() -> tuple[Recorded, ...]:
    """Return the accepted exchanges whose request is known and asks a model for a response or a count."""
    return tuple(
        [
            item
            for item in (*recorded("responses"), *recorded("count-tokens"))
            if item.accepted and item.asked is not None and speaks(item)
        ]
    )


def speaks(item: Recorded) -> bool:
    """Return whether a request belongs to this API. Requests that compact a conversation do not."""
    if item.api == "count-tokens":
        return item.path.endswith("/responses/input_tokens")
    return "input" in (item.asked or {}) and not item.path.endswith("/compact")


def questions() -> dict[str, tuple[str, Object]]:
    """Return each request body with its vendor, by name, including those that were sent over a WebSocket."""
    found = {item.id: (item.provider, item.asked or {}) for item in asked()}
    for session in sessions("responses-ws"):
        for index, (direction, frame) in enumerate(session.frames):
            if direction == "client" and frame.get("type") == "response.create":
                body = {key: value for key, value in frame.items() if key not in {"type", "generate"}}
                found[f"{session.id}.{index}"] = ("openai", body)
    return found


@functools.cache
def found() -> dict[str, Sequence[str]]:
    """Return the differences between the requests of the library and the recorded requests, by exchange."""
    counts = {item.id for item in asked() if item.api == "count-tokens"}
    result = dict[str, Sequence[str]]()
    for name, (provider, body) in questions().items():
        try:
            said = rebuild(body, provider)
            ours = cast("Object", json.loads(counted(said) if name in counts else sent(said)))
            result[name] = [str(difference) for difference in differences(body, ours)]
        except ChatError as error:
            result[name] = [f"refused: {error}"]
    return result
