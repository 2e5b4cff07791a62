"""Recorded conversations of several requests: each response is part of the next request."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import cast

from chat_completions.codec import StreamDecoder, decode, encode
from chat_core.errors import ChatError, PendingToolsError
from chat_core.messages import Messages, Role, Turn
from chat_core.transport.sse import SseParser

from .exchanges import Exchange, conversations
from .normalise import Json, Object, differences, fingerprint
from .rebuild import rebuild

REASONING = ("reasoning", "reasoning_content", "reasoning_details")


@dataclass(frozen=True)
class Continuation:
    """An exchange whose response is part of a later request: the message at `place` in the canonical form."""

    before: Exchange
    after: Exchange
    place: int

    @property
    def id(self) -> str:
        """The id of the later request, with the position of the response in it."""
        return f"{self.after.id}<{self.before.index}"


def continuations() -> Iterator[tuple[Continuation, list[str]]]:
    """Return each recorded request that continues an earlier one, with the differences of our request.

    If the same request was recorded several times, the response that is most like the sent one is used.
    """
    for group in conversations():
        for position, after in enumerate(group):
            found = list[tuple[Continuation, list[str]]]()
            for before in reversed(group[:position]):
                if (place := _place(before.body, after.body)) is not None:
                    continuation = Continuation(before, after, place)
                    found.append((continuation, unlike(continuation)))
            if found:
                yield min(found, key=lambda item: len(item[1]))


def _place(before: Object, after: Object) -> int | None:
    """Return the position of the response to one request in the other request, or None if that does not continue it."""
    first, second = _messages(before), _messages(after)
    place = len(first)
    if not first or len(second) <= place or cast("Object", second[place]).get("role") != "assistant":
        return None
    same = fingerprint({"messages": first}) == fingerprint({"messages": second[:place]})
    return place if same else None


def _messages(body: Object) -> list[Json]:
    return cast("list[Json]", body.get("messages", []))


def answer(exchange: Exchange) -> Turn:
    """Return the turn in a recorded response, streamed or complete."""
    if not exchange.stream:
        return decode(exchange.answer_body, exchange.provider)
    decoder, parser = StreamDecoder(exchange.provider), SseParser()
    decoder.feed(parser.feed(exchange.answer_body))
    decoder.feed(parser.end())
    return decoder.close()


def replayed(continuation: Continuation) -> Object:
    """Return the later request with our decoded response in place of the one that its client sent back."""
    after = continuation.after
    said = rebuild(after.body, after.provider)
    message = cast("Object", _messages(after.body)[continuation.place])
    place = sum(cast("Object", item).get("role") != "tool" for item in _messages(after.body)[: continuation.place])
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
    keeps = any(message.get(field) for field in REASONING) or "thinking" in json.dumps(message.get("content"))
    dialect = replace(said.dialect, reasoning_replay="as-received" if keeps else "never")
    body = encode(messages, said.tools, said.options, said.output, dialect=dialect, stream=said.stream)
    return cast("Object", json.loads(body))


def unlike(continuation: Continuation) -> list[str]:
    """Return the differences between the response as we send it back and as the recorded client sent it."""
    own = f"messages[{continuation.place}]"
    try:
        found = differences(continuation.after.body, replayed(continuation))
    except PendingToolsError as error:
        return [f"{own}.tool_calls: the recorded client answers other calls than {', '.join(error.tool_ids)}"]
    except ChatError as error:
        return [f"{own}: {error}"]
    return [str(difference) for difference in found if difference.path.startswith((own, "messages"))]
