"""The items of a response as a listener hears of them: what each event adds.

A delta is given once. Where an item says again, at its end, what came in pieces, only what the pieces left out is
given; a server that sends no pieces gives it all at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias, final

from chat_core.events import FilePart, ReasoningDelta, TextDelta, ToolCallDelta
from chat_core.json import dumps
from chat_core.messages import Opaque
from chat_core.provider import Delta
from chat_core.wire.shapes import Json, WrongShapeError, mapping, require_object, require_text

from chat_responses.accumulate import CALLS, Growing, Items, Place
from chat_responses.items import (
    TEXTS,
    approval_arguments,
    arguments_of,
    call_id_of,
    content_of,
    image_of,
    is_answer,
    kept_image,
    thoughts_of,
)
from chat_responses.parts import MCP_APPROVAL


@final
class Answer:
    """What a response says. Each method takes one event, and adds what a listener is told of it."""

    __slots__ = ("_calls", "_items", "_place", "_provider", "_texts")

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._items = Items()
        self._calls = 0
        self._place: tuple[object, object] = (self, self)  # of the text that grows, where events say it
        self._texts: list[str] = []

    def so_far(self) -> list[Json]:
        """The items as far as they have come."""
        return [growing.built() for growing in self._items.in_order()]

    def ended(self, output: Sequence[Json], out: list[Delta]) -> list[Json]:
        """All items at the end, where the response lists those in `output`."""
        listed = self._items.listed(output)
        for growing in listed:
            self._show(growing, growing.item, out)
        return [growing.built() for growing in listed]

    # --- Items -----------------------------------------------------------------------------------------

    def item_added(self, event: Json, out: list[Delta]) -> None:
        """An item begins."""
        item = require_object(event.get("item"), "item")
        growing = self._items.begun(event, item)
        self._place = self, self
        if item.get("type") in CALLS and item.get("type") != "mcp_approval_request":
            text = arguments_of(item, "item")
            self._name(growing, item, "" if text == "{}" else text, out)  # where nothing has come, some say so in JSON

    def item_done(self, event: Json, out: list[Delta]) -> None:
        """An item is whole."""
        item = require_object(event.get("item"), "item")
        self._show(self._items.ended(event, item), item, out)

    def _name(self, growing: Growing, item: Json, text: str, out: list[Delta]) -> None:
        """Tell of a call that begins."""
        growing.call = self._calls
        self._calls += 1
        name = require_text(item.get("name") or "", "item.name")
        if text:
            growing.pieces.setdefault(("arguments", 0), []).append(text)
        out.append(ToolCallDelta(text, growing.call, name or None, call_id_of(item)))

    def _show(self, growing: Growing, item: Json, out: list[Delta]) -> None:
        """Give the listener what an item says beyond what came of it in pieces."""
        kind = item.get("type")
        if kind == "message" and is_answer(item):
            for index, piece in enumerate(content_of(item, "item")):
                if piece.get("type") in TEXTS:
                    self._catch_up(growing, ("text", index), require_text(piece.get("text") or "", "item.text"), out)
        elif kind == "reasoning":
            for place, text in thoughts_of(item, "item"):
                self._catch_up(growing, place, text, out)
        elif kind in ("function_call", "custom_tool_call"):
            text = arguments_of(item, "item")
            if growing.call is None:
                self._name(growing, item, text, out)
            else:
                self._catch_up(growing, ("arguments", 0), text, out)
        elif not growing.shown:
            growing.shown = self._show_whole(growing, item, out)

    def _show_whole(self, growing: Growing, item: Json, out: list[Delta]) -> bool:
        """Give what comes in one piece; whether it was there."""
        kind = item.get("type")
        if kind == "image_generation_call":
            file = image_of(item.get("result"), item, Opaque(self._provider, {"item": kept_image(item)}))
            if file is None:
                return False
            out.append(FilePart(file))
        elif kind == "mcp_approval_request":
            text = dumps(approval_arguments(item))
            self._name(growing, {"name": MCP_APPROVAL, "call_id": item.get("id")}, text, out)
        return True

    def _catch_up(self, growing: Growing, place: Place, text: str, out: list[Delta]) -> None:
        """Show the end of a text whose beginning came in pieces."""
        came = "".join(growing.pieces.get(place, ()))
        if text == came or not text.startswith(came):
            return
        rest = text[len(came) :]
        if place[0] in {"summary", "content"}:
            self._think(growing, place, rest, out)
            return
        growing.pieces.setdefault(place, []).append(rest)
        if place[0] == "text":
            out.append(TextDelta(rest))
        elif place[0] == "arguments":
            out.append(ToolCallDelta(rest, growing.call or 0))

    # --- Pieces ------------------------------------------------------------------------------------------

    def text_delta(self, event: Json, out: list[Delta]) -> None:
        """More text."""
        text = event.get("delta")
        if text.__class__ is not str and text is not None:
            raise WrongShapeError("delta", "a text")
        if text:
            place = event.get("output_index"), event.get("content_index")
            if place != self._place or place[0] is None:
                self._texts = self._items.at(event).pieces.setdefault(("text", place[1] or 0), [])
                self._place = place
            self._texts.append(text)
            out.append(TextDelta(text))

    def text_done(self, event: Json, out: list[Delta]) -> None:
        """A text is whole."""
        text = require_text(event.get("text") or "", "text")
        self._catch_up(self._items.at(event), ("text", event.get("content_index") or 0), text, out)

    def part_done(self, event: Json, out: list[Delta]) -> None:
        """A part of a message or of reasoning is whole, which a few servers say of no text by itself."""
        part = mapping(event.get("part"))
        name = PARTS.get(str(part.get("type")))
        if name is None:
            return
        text = require_text(part.get("text") or part.get("refusal") or "", "part.text")
        index = event.get("summary_index" if name == "summary" else "content_index") or 0
        self._catch_up(self._items.at(event), (name, index), text, out)

    def annotation_added(self, event: Json, _out: list[Delta]) -> None:
        """A text cites something."""
        notes = self._items.at(event).annotations.setdefault(event.get("content_index") or 0, [])
        notes.append(event.get("annotation"))

    def refusal_delta(self, event: Json, _out: list[Delta]) -> None:
        """More words of a refusal."""
        place = "refusal", event.get("content_index") or 0
        self._items.at(event).pieces.setdefault(place, []).append(require_text(event.get("delta") or "", "delta"))

    def refusal_done(self, event: Json, _out: list[Delta]) -> None:
        """A refusal is whole."""
        place = "refusal", event.get("content_index") or 0
        self._items.at(event).pieces[place] = [require_text(event.get("refusal") or "", "refusal")]

    def summary_delta(self, event: Json, out: list[Delta]) -> None:
        """More of what the model tells of its reasoning."""
        text = require_text(event.get("delta") or "", "delta")
        self._think(self._items.at(event), ("summary", event.get("summary_index") or 0), text, out)

    def summary_done(self, event: Json, out: list[Delta]) -> None:
        """A piece of the summary is whole."""
        text = require_text(event.get("text") or "", "text")
        self._catch_up(self._items.at(event), ("summary", event.get("summary_index") or 0), text, out)

    def thought_delta(self, event: Json, out: list[Delta]) -> None:
        """More of the reasoning itself."""
        text = require_text(event.get("delta") or "", "delta")
        self._think(self._items.at(event), ("content", event.get("content_index") or 0), text, out)

    def thought_done(self, event: Json, out: list[Delta]) -> None:
        """A piece of the reasoning is whole."""
        text = require_text(event.get("text") or "", "text")
        self._catch_up(self._items.at(event), ("content", event.get("content_index") or 0), text, out)

    def _think(self, growing: Growing, place: Place, text: str, out: list[Delta]) -> None:
        if not text:
            return
        growing.pieces.setdefault(place, []).append(text)
        out.append(ReasoningDelta(text))

    def arguments_delta(self, event: Json, out: list[Delta]) -> None:
        """More of a call's arguments."""
        text = require_text(event.get("delta") or "", "delta")
        if text:
            growing = self._items.at(event)
            growing.pieces.setdefault(("arguments", 0), []).append(text)
            out.append(ToolCallDelta(text, growing.call or 0))

    def arguments_done(self, event: Json, out: list[Delta]) -> None:
        """The arguments of a call are whole."""
        kind = "custom_tool_call" if "input" in event else "function_call"
        text = arguments_of({**event, "type": kind}, "")
        growing = self._items.at(event)
        if not growing.item.get("name") and event.get("name"):
            growing.item = {**growing.item, "name": event["name"]}
        self._catch_up(growing, ("arguments", 0), text, out)

    def partial_image(self, event: Json, out: list[Delta]) -> None:
        """An image as far as it has come."""
        data: Json = {name: event[name] for name in ("item_id", "partial_image_index") if event.get(name) is not None}
        file = image_of(event.get("partial_image_b64"), event, Opaque(self._provider, {"partial": data}))
        if file is not None:
            out.append(FilePart(file))


PARTS: Final[Mapping[str, str]] = {
    "output_text": "text",
    "text": "text",
    "refusal": "refusal",
    "summary_text": "summary",
    "reasoning_text": "content",
}
"""Which list of pieces a part belongs to."""

Handler: TypeAlias = Callable[[Answer, Any, list[Delta]], None]

EVENTS: Final[Mapping[str, Handler]] = {
    "response.output_item.added": Answer.item_added,
    "response.output_item.done": Answer.item_done,
    "response.output_text.delta": Answer.text_delta,
    "response.output_text.done": Answer.text_done,
    "response.output_text.annotation.added": Answer.annotation_added,
    "response.content_part.done": Answer.part_done,
    "response.reasoning_part.done": Answer.part_done,
    "response.reasoning_summary_part.done": Answer.part_done,
    "response.refusal.delta": Answer.refusal_delta,
    "response.refusal.done": Answer.refusal_done,
    "response.reasoning_summary_text.delta": Answer.summary_delta,
    "response.reasoning_summary_text.done": Answer.summary_done,
    "response.reasoning_text.delta": Answer.thought_delta,
    "response.reasoning_text.done": Answer.thought_done,
    "response.function_call_arguments.delta": Answer.arguments_delta,
    "response.function_call_arguments.done": Answer.arguments_done,
    "response.custom_tool_call_input.delta": Answer.arguments_delta,
    "response.custom_tool_call_input.done": Answer.arguments_done,
    "response.image_generation_call.partial_image": Answer.partial_image,
}
"""The events that say something of an item."""
