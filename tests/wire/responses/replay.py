"""Recorded conversations of several requests: each response is part of the next request."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import cast

from chat_core.errors import ChatError, PendingToolsError
from chat_core.messages import Messages, Role, Turn
from chat_core.transport.sse import SseParser
from chat_responses.codec import StreamDecoder, decode

from ..normalise import Json, Object
from ..recordings import Recorded, conversations
from .canonical import differences, fingerprint
from .encoding import sent, speaks
from .rebuild import list_of, object_of, rebuild


@dataclass(frozen=True)
class Continuation:
    """An exchange whose response is part of a later request: the items after `place` in the canonical form."""

    before: Recorded
    after: Recorded
    place: int

    @property
    def id(self) -> str:
        """The id of the later request, with the position of the response in it."""
        return f"{self.after.id}<{self.before.index}"


def continuations() -> Iterator[tuple[Continuation, list[str]]]:
    """Return each recorded request that continues an earlier one, with the differences of our request.

    If the same request was recorded several times, the response that is most like the sent one is used.
    """
    for group in conversations("responses"):
        for position, after in enumerate(group):
            found = list[tuple[Continuation, list[str]]]()
            for before in reversed(group[:position]):
                if (place := _place(before, after)) is not None:
                    continuation = Continuation(before, after, place)
                    found.append((continuation, unlike(continuation)))
            if found:
                yield min(found, key=lambda item: len(item[1]))


def _place(before: Recorded, after: Recorded) -> int | None:
    """Return the position of the response to one request in the other request, or None if that does not continue it."""
    if not speaks(before) or not speaks(after):
        return None
    first, second = fingerprint(_items(before)), fingerprint(_items(after))
    place = len(first)
    if len(second) <= place or second[:place] != first:
        return None
    following = object_of(_items(after)[place])
    said = following.get("role") == "assistant" or ("role" not in following and not _is_output(following))
    return place if said else None


def _items(exchange: Recorded) -> list[Json]:
    given = (exchange.asked or {}).get("input")
    return [{"role": "user", "content": given}] if isinstance(given, str) else list_of(given)


def _is_output(item: Object) -> bool:
    return str(item.get("type")).endswith("_call_output")


def answer(exchange: Recorded) -> Turn:
    """Return the turn in a recorded response, streamed or complete."""
    if not exchange.stream:
        return decode(exchange.body, exchange.provider)
    decoder, parser = StreamDecoder(exchange.provider), SseParser()
    decoder.feed(parser.feed(exchange.body))
    return decoder.close()


def replayed(continuation: Continuation) -> Object:
    """Return the later request with our decoded response in place of the one that its client sent back."""
    asked = cast("Object", continuation.after.asked)
    said = rebuild(asked, continuation.after.provider)
    place = sum(len(content.turns) for content in rebuild(*_asked(continuation.before)).messages)
    turns: list[tuple[Role, Turn]] = [(content.role, turn) for content in said.messages for turn in content.turns]
    turn = answer(continuation.before)
    recorded = turns[place][1]
    for tool in turn.tools:
        for known in recorded.tools:
            if known.call_id == tool.call_id:
                tool.adopt(tool.with_status(known.status))
    turns[place] = ("model", turn)
    messages = Messages()
    for role, each in turns:
        messages.append(role, each)
    back = [object_of(item) for item in _items(continuation.after)[continuation.place :]]
    thinks = any(object_of(item).get("type") == "reasoning" for item in _items(continuation.after))
    named = any("id" in item for item in back)
    dialect = replace(said.dialect, reasoning_replay="as-received" if thinks else "never", item_ids=named)
    return cast("Object", json.loads(sent(replace(said, messages=messages, dialect=dialect))))


def _asked(exchange: Recorded) -> tuple[Object, str]:
    return cast("Object", exchange.asked), exchange.provider


def unlike(continuation: Continuation) -> list[str]:
    """Return the differences between the response as we send it back and as the recorded client sent it."""
    own = f"input[{continuation.place}]"
    try:
        found = differences(cast("Object", continuation.after.asked), replayed(continuation))
    except PendingToolsError as error:
        return [f"{own}: the recorded client answers other calls than {', '.join(error.tool_ids)}"]
    except ChatError as error:
        return [f"{own}: {error}"]
    return [str(difference) for difference in found if difference.path.startswith("input")]
