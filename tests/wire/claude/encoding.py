"""Each accepted request of the Messages API is rebuilt, encoded, and compared with the recorded request."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import cast

from chat_claude.codec import encode, encode_count
from chat_core.errors import ChatError
from chat_core.messages import Messages, Role, Turn

from ..normalise import Object
from ..recordings import Recorded, conversations
from .answers import answers, counts, object_of, read
from .forms import differences, form
from .rebuild import Rebuilt, rebuild


@functools.cache
def accepted() -> tuple[Recorded, ...]:
    """Return the known requests that the API accepted."""
    return tuple([item for item in (*answers(), *counts()) if item.accepted and item.asked is not None])


def encoded(item: Recorded) -> Object:
    """Return the request that the library sends for the conversation of a recorded request.

    Raises:
        ChatError: the library refuses to send it.
    """
    assert item.asked is not None
    said = rebuild(item.asked)
    return cast("Object", json.loads(counted(said) if item.api == "count-tokens" else sent(said)))


def sent(said: Rebuilt) -> bytes:
    """Return the body that the library sends for rebuilt values."""
    return encode(said.messages, said.tools, said.options, said.output, dialect=said.dialect, stream=said.stream).body


def counted(said: Rebuilt) -> bytes:
    """Return the body of the library's request for a token count."""
    return encode_count(said.messages, said.tools, said.options, said.output, dialect=said.dialect).body


@functools.cache
def found() -> dict[str, Sequence[str]]:
    """Return the differences between the requests of the library and the recorded requests, by exchange."""
    result = dict[str, Sequence[str]]()
    for item in accepted():
        assert item.asked is not None
        try:
            result[item.id] = [str(difference) for difference in differences(item.asked, encoded(item))]
        except ChatError as error:
            result[item.id] = [f"refused: {error}"]
    return result


# --- Responses sent back -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Continuation:
    """An exchange whose response is part of a later request: the message at `place` in the canonical form."""

    before: Recorded
    after: Recorded
    place: int

    @property
    def id(self) -> str:
        """The id of the later request, with the position of the response in it."""
        return f"{self.after.id}<{self.before.index}"


def continuations() -> Iterator[tuple[Continuation, list[str]]]:
    """Return each recorded request that continues an earlier one, with the differences of our request."""
    for group in conversations("messages"):
        for position, after in enumerate(group):
            pairs = list[tuple[Continuation, list[str]]]()
            for before in reversed(group[:position]):
                if (place := _place(before, after)) is not None:
                    continuation = Continuation(before, after, place)
                    pairs.append((continuation, unlike(continuation)))
            if pairs:
                yield min(pairs, key=lambda item: len(item[1]))


def _said(item: Recorded) -> list[Object]:
    return [object_of(message) for message in cast("list[Object]", form(item.asked or {})["messages"])]


def _place(before: Recorded, after: Recorded) -> int | None:
    """Return the position of the response to one request in the other request, or None if that does not continue it."""
    first, second = [_bare(message) for message in _said(before)], [_bare(message) for message in _said(after)]
    place = len(first)
    if len(second) <= place or second[place].get("role") != "assistant" or first != second[:place]:
        return None
    return place


def _bare(message: Object) -> Object:
    """Return a message without cache points, whose positions change between requests."""
    return cast("Object", json.loads(json.dumps(message), object_hook=_unmarked))


def _unmarked(value: Object) -> Object:
    return {key: item for key, item in value.items() if key != "cache_control"}


def unlike(continuation: Continuation) -> list[str]:
    """Return the differences between the response as we send it back and as the recorded client sent it."""
    own = f"messages[{continuation.place}]"
    after = continuation.after
    assert after.asked is not None
    try:
        got = differences(after.asked, _replayed(continuation))
    except (ChatError, IndexError) as error:
        return [f"{own}: {error}"]
    return [str(item) for item in got if item.path.startswith(own) or item.path == "messages"]


def _replayed(continuation: Continuation) -> Object:
    """Return the later request with our decoded response in place of the one that its client sent back."""
    assert continuation.after.asked is not None
    said = rebuild(continuation.after.asked)
    turn = read(continuation.before)
    assert isinstance(turn, Turn)
    turns: list[tuple[Role, Turn]] = [(content.role, turn) for content in said.messages for turn in content.turns]
    models = [index for index, (role, _) in enumerate(turns) if role == "model"]
    place = sum(message["role"] == "assistant" for message in _said(continuation.after)[: continuation.place])
    recorded = turns[models[place]][1]
    for tool in turn.tools:
        for known in recorded.tools:
            if known.call_id == tool.call_id:
                tool.adopt(tool.with_status(known.status))
    turns[models[place]] = ("model", turn)
    messages = Messages()
    for role, each in turns:
        messages.append(role, each)
    body = encode(messages, said.tools, said.options, said.output, dialect=said.dialect, stream=said.stream).body
    return cast("Object", json.loads(body))
