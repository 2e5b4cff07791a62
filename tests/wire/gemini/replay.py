"""Recorded conversations of several requests: each response is part of the next request."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

from chat_core.errors import ChatError, PendingToolsError
from chat_core.messages import Messages, Role, Tool, Turn
from chat_core.transport.framing import framer
from chat_gemini.codec import StreamDecoder, decode, encode

from ..normalise import Json, Object
from ..recordings import Recorded, conversations
from .decoding import framing_of
from .normalise import differences, normalise
from .rebuild import rebuild


@dataclass(frozen=True)
class Continuation:
    """An exchange whose response is part of a later request: the content of the model at `place`."""

    before: Recorded
    after: Recorded
    place: int

    @property
    def id(self) -> str:
        """The id of the later request, with the position of the response in it."""
        return f"{self.after.id}<{self.before.index}"


def continuations() -> Iterator[tuple[Continuation, list[str]]]:
    """Return each recorded request that continues an earlier one, with the differences of our request."""
    for group in conversations("generate-content"):
        for position, after in enumerate(group):
            found = list[tuple[Continuation, list[str]]]()
            for before in reversed(group[:position]):
                if (place := _place(before, after)) is not None:
                    continuation = Continuation(before, after, place)
                    found.append((continuation, unlike(continuation)))
            if found:
                yield min(found, key=lambda item: len(item[1]))


def _place(before: Recorded, after: Recorded) -> int | None:
    """Return the position of the response among the model contents of a later request, or None if that does not
    continue it.
    """
    first, second = _contents(before), _contents(after)
    place = len(first)
    if not first or len(second) <= place or cast("Object", second[place]).get("role") != "model":
        return None
    if json.dumps(first, sort_keys=True) != json.dumps(second[:place], sort_keys=True):
        return None
    return sum(cast("Object", item).get("role") == "model" for item in first)


def _contents(item: Recorded) -> list[Json]:
    return cast("list[Json]", normalise(item.asked or {}).get("contents", []))


def answer(exchange: Recorded) -> Turn:
    """Return the turn in a recorded response, streamed or complete."""
    if not exchange.stream:
        return decode(exchange.body, exchange.provider)
    decoder, cutter = StreamDecoder(exchange.provider), framer(framing_of(exchange))
    decoder.feed(cutter.feed(exchange.body))
    decoder.feed(cutter.end())
    return decoder.close()


def replayed(continuation: Continuation) -> Object:
    """Return the later request with our decoded response in place of the one that its client sent back."""
    after = continuation.after
    said = rebuild(after.asked or {}, after.provider)
    turns: list[tuple[Role, Turn]] = [(content.role, turn) for content in said.messages for turn in content.turns]
    places = [index for index, (role, _) in enumerate(turns) if role == "model"]
    place = places[continuation.place]
    turn = answer(continuation.before)
    known = turns[place][1].tools
    for tool in turn.tools:
        if (same := _same(tool, known)) is not None:
            known.remove(same)
            tool.adopt(tool.with_status(same.status))
    turns[place] = ("model", turn)
    messages = Messages()
    for role, each in turns:
        messages.append(role, each)
    body = encode(messages, said.tools, said.options, said.output, dialect=said.dialect)
    return cast("Object", json.loads(body))


def _same(tool: Tool, known: list[Tool]) -> Tool | None:
    """Return the recorded call that equals a decoded call."""
    alike = [item for item in known if item.name == tool.name]
    return next((item for item in alike if item.call.arguments == tool.call.arguments), alike[0] if alike else None)


def unlike(continuation: Continuation) -> list[str]:
    """Return the differences between the response as we send it back and as the recorded client sent it."""
    try:
        found = differences(continuation.after.asked or {}, replayed(continuation))
    except PendingToolsError as error:
        return [f"calls: the recorded client answers other calls than {', '.join(error.tool_ids)}"]
    except ChatError as error:
        return [f"refused: {error}"]
    return [str(difference) for difference in found]
