"""Decoder for item events, which collects the items of a response and creates the deltas of a stream.

Each text is delivered once. If an event repeats a text that was received in deltas, only the missing end is delivered.
If a server sends no deltas, the whole text is delivered when its item ends.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias, final

from chat_core.events import FilePart, ReasoningDelta, TextDelta, ToolCallDelta
from chat_core.json import dumps
from chat_core.messages import Opaque
from chat_core.provider import Delta
from chat_core.wire.shapes import Json, WrongShapeError, mapping, require_object, require_text

from chat_responses.accumulate import CALLS, PartialItem, PartialItems, TextKey, list_index, received_length
from chat_responses.actions import (
    ACTION_TYPES,
    ACTIONS,
    action_arguments,
    answered_calls,
    is_action,
    is_answered,
    may_have_run_on_server,
)
from chat_responses.items import (
    TEXTS,
    DeclaredTools,
    approval_arguments,
    arguments_of,
    call_id_of,
    content_of,
    image_fields,
    image_of,
    is_from_model,
    reasoning_texts,
)
from chat_responses.parts import MCP_APPROVAL


@final
class Answer:
    """Decoder for the item events of one response.

    Each event method handles one type of event and appends the resulting deltas to `out`.

    Attributes:
        tools: the tools of the request, as repeated in the response.

    Args:
        provider: provider name, the owner of opaque data.
        resumed: whether another decoder received the first events. Their texts are not delivered again.
    """

    __slots__ = (
        "_audio",
        "_calls",
        "_items",
        "_provider",
        "_resumed",
        "_text_pieces",
        "_text_place",
        "_transcript",
        "tools",
    )

    def __init__(self, provider: str, *, resumed: bool = False) -> None:
        self._provider = provider
        self._resumed = resumed
        self._items = PartialItems()
        self._calls = 0
        self.tools: DeclaredTools = DeclaredTools()
        self._text_place: tuple[object, object] = (self, self)  # output index and content index of the current text
        self._text_pieces: list[str] = []
        self._audio: list[str] = []
        self._transcript: list[str] = []

    def received_items(self) -> list[Json]:
        """Return the items received so far as JSON objects. Items may be incomplete."""
        return [growing.to_dict() for growing in self._items.in_order()]

    def finish(self, output: Sequence[Json], out: list[Delta]) -> list[Json]:
        """Return all items at the end of the response, and append deltas for undelivered texts to `out`.

        Args:
            output: the items that the response lists, which may be empty.
            out: list to which deltas are appended for texts that were not delivered before.
        """
        listed = self._items.final_items(output)
        answered = answered_calls([growing.item for growing in listed])
        for growing in listed:
            # The server ran a call whose output it sent.
            if not is_answered(growing.item, answered):
                self._emit_missing_texts(growing, growing.item, out)
        return [growing.to_dict() for growing in listed]

    # --- Items -----------------------------------------------------------------------------------------

    def item_added(self, event: Json, out: list[Delta]) -> None:
        """Handle `output_item.added`: add the item in `event`, and append the first delta of a tool call to `out`."""
        item = require_object(event.get("item"), "item")
        growing = self._items.begin(event, item)
        self._text_place = self, self
        if item.get("type") in CALLS and not self.tools.ran_on_server(item):
            text = arguments_of(item, "item")
            self._start_call(
                growing, item, "" if text == "{}" else text, out
            )  # some servers send {} for arguments that follow

    def item_done(self, event: Json, out: list[Delta]) -> None:
        """Handle `output_item.done`: finish the item in `event`, and append texts not yet delivered to `out`."""
        item = require_object(event.get("item"), "item")
        growing = self._items.finish(event, item)
        if not may_have_run_on_server(item):
            self._emit_missing_texts(growing, item, out)

    def _start_call(self, growing: PartialItem, item: Json, text: str, out: list[Delta]) -> None:
        """Assign the next call index to the tool call `growing`, and append its first delta to `out`."""
        growing.call = self._calls
        self._calls += 1
        name = require_text(item.get("name") or "", "item.name")
        if text:
            growing.pieces_of(("arguments", 0)).append(text)
        out.append(ToolCallDelta(text, growing.call, name or None, call_id_of(item)))

    def _emit_missing_texts(self, growing: PartialItem, item: Json, out: list[Delta]) -> None:
        """Append deltas to `out` for the texts of `item` that were not received as deltas."""
        if self._resumed:
            return
        kind = item.get("type")
        if kind == "message" and is_from_model(item):
            pieces = [piece for piece in content_of(item, "item") if piece.get("type") in TEXTS]
            texts = [require_text(piece.get("text") or "", "item.text") for piece in pieces]
            self._emit_missing_end_of_list(growing, "text", texts, out)
        elif kind == "reasoning":
            listed = reasoning_texts(item, "item")
            for name in ("summary", "content"):
                texts = [text for (list_name, _), text in listed if list_name == name]
                self._emit_missing_end_of_list(growing, name, texts, out)
        elif kind in ("function_call", "custom_tool_call"):
            if self.tools.ran_on_server(item):
                return
            text = arguments_of(item, "item")
            if growing.call is None:
                self._start_call(growing, item, text, out)
            else:
                self._emit_missing_text_end(growing, ("arguments", 0), text, out)
        elif not growing.shown:
            growing.shown = self._emit_whole_item(growing, item, out)

    def _emit_whole_item(self, growing: PartialItem, item: Json, out: list[Delta]) -> bool:
        """Append the delta for an image, an approval request or a client action, which are not sent in pieces.

        Returns:
            `False` if the image has no data yet, otherwise `True`.
        """
        kind = item.get("type")
        if kind == "image_generation_call":
            file = image_of(item.get("result"), item, Opaque(self._provider, {"item": image_fields(item)}))
            if file is None:
                return False
            out.append(FilePart(file))
        elif kind == "mcp_approval_request":
            text = dumps(approval_arguments(item))
            self._start_call(growing, {"name": MCP_APPROVAL, "call_id": item.get("id")}, text, out)
        elif kind in ACTION_TYPES and is_action(item):
            call: Json = {**item, "name": ACTIONS[str(kind)]}
            self._start_call(growing, call, dumps(action_arguments(item, "item")), out)
        return True

    def _emit_missing_text_end(self, growing: PartialItem, place: TextKey, text: str, out: list[Delta]) -> None:
        """Append a delta for the rest of `text` if the deltas received so far are the beginning of `text`."""
        place = growing.end_text(place, text)
        known = received_length(growing.pieces.get(place, ()), text)
        if known is not None and known < len(text):
            self._emit_text(growing, place, text[known:], out)

    def _emit_missing_end_of_list(
        self, growing: PartialItem, name: str, texts: Sequence[str], out: list[Delta]
    ) -> None:
        """Append deltas for the rest of a list of texts if the deltas received so far are the beginning of the list.

        The joined texts are compared. Some servers (vLLM, Bedrock) continue to count `content_index` from one item to
        the next, so the index of a delta may not be the position of its text in the item.
        """
        places = growing.places(name)
        known = received_length([piece for place in places for piece in growing.pieces[place]], "".join(texts))
        if known is None:
            return
        first = places[0][1] if places else 0
        for index, text in enumerate(texts):
            if known < len(text):
                self._emit_text(growing, (name, first + index), text[known:], out)
            known = max(0, known - len(text))

    def _emit_text(self, growing: PartialItem, place: TextKey, text: str, out: list[Delta]) -> None:
        """Store a piece of text at `place` and append its delta to `out`. Refusals have no deltas."""
        growing.pieces_of(place).append(text)
        if place[0] in {"summary", "content"}:
            out.append(ReasoningDelta(text))
        elif place[0] == "text":
            out.append(TextDelta(text))
        elif place[0] == "arguments" and not self.tools.ran_on_server(growing.item):
            out.append(ToolCallDelta(text, growing.call or 0))

    # --- Pieces ------------------------------------------------------------------------------------------

    def text_delta(self, event: Json, out: list[Delta]) -> None:
        """Handle `output_text.delta`: append the text of `event` to its item and to `out`."""
        text = event.get("delta")
        if text.__class__ is not str and text is not None:
            raise WrongShapeError("delta", "a string")
        if text:
            place = event.get("output_index"), event.get("content_index")
            if place != self._text_place or place[0] is None:
                key = "text", list_index(event, "content_index")
                self._text_pieces = self._items.at(event).pieces_of(key)
                self._text_place = place
            self._text_pieces.append(text)
            out.append(TextDelta(text))

    def text_done(self, event: Json, out: list[Delta]) -> None:
        """Handle `output_text.done`: append the text of `event` to `out`, except what arrived as deltas."""
        text = require_text(event.get("text") or "", "text")
        self._emit_missing_text_end(self._items.at(event), ("text", list_index(event, "content_index")), text, out)

    def part_done(self, event: Json, out: list[Delta]) -> None:
        """Handle the event at the end of a content part, and append the missing end of its text to `out`.

        Some servers send this event instead of the event at the end of the text.

        Args:
            event: the event with the finished part.
            out: list to which the missing text is appended.
        """
        part = mapping(event.get("part"))
        name = PARTS.get(str(part.get("type")))
        if name is None:
            return
        text = require_text(part.get("text") or part.get("refusal") or "", "part.text")
        index = list_index(event, "summary_index" if name == "summary" else "content_index")
        self._emit_missing_text_end(self._items.at(event), (name, index), text, out)

    def annotation_added(self, event: Json, _out: list[Delta]) -> None:
        """Handle `output_text.annotation.added`: store the citation in `event` with its item."""
        notes = self._items.at(event).annotations.setdefault(list_index(event, "content_index"), [])
        notes.append(event.get("annotation"))

    def refusal_delta(self, event: Json, _out: list[Delta]) -> None:
        """Handle `refusal.delta`: store the piece of refusal text. No delta is created for the caller."""
        place = "refusal", list_index(event, "content_index")
        if text := require_text(event.get("delta") or "", "delta"):
            self._items.at(event).pieces_of(place).append(text)

    def refusal_done(self, event: Json, _out: list[Delta]) -> None:
        """Handle `refusal.done`: replace the stored refusal text with the complete text in `event`."""
        place = "refusal", list_index(event, "content_index")
        self._items.at(event).pieces_of(place)[:] = [require_text(event.get("refusal") or "", "refusal")]

    def summary_delta(self, event: Json, out: list[Delta]) -> None:
        """Handle `reasoning_summary_text.delta`: append the text of `event` to its item and to `out`."""
        text = require_text(event.get("delta") or "", "delta")
        if text:
            self._emit_text(self._items.at(event), ("summary", list_index(event, "summary_index")), text, out)

    def summary_done(self, event: Json, out: list[Delta]) -> None:
        """Handle `reasoning_summary_text.done`: append the text of `event` to `out`, except what arrived as deltas."""
        text = require_text(event.get("text") or "", "text")
        self._emit_missing_text_end(self._items.at(event), ("summary", list_index(event, "summary_index")), text, out)

    def reasoning_delta(self, event: Json, out: list[Delta]) -> None:
        """Handle `reasoning_text.delta`: append the text of `event` to its item and to `out`."""
        text = require_text(event.get("delta") or "", "delta")
        if text:
            self._emit_text(self._items.at(event), ("content", list_index(event, "content_index")), text, out)

    def reasoning_done(self, event: Json, out: list[Delta]) -> None:
        """Handle `reasoning_text.done`: append the text of `event` to `out`, except what arrived as deltas."""
        text = require_text(event.get("text") or "", "text")
        self._emit_missing_text_end(self._items.at(event), ("content", list_index(event, "content_index")), text, out)

    def arguments_delta(self, event: Json, out: list[Delta]) -> None:
        """Handle a delta of call arguments: append the text of `event` to its call and to `out`."""
        text = require_text(event.get("delta") or "", "delta")
        if text:
            self._emit_text(self._items.at(event), ("arguments", 0), text, out)

    def arguments_done(self, event: Json, out: list[Delta]) -> None:
        """Handle the end of call arguments: append the text of `event` to `out`, except what arrived as deltas."""
        kind = "custom_tool_call" if "input" in event else "function_call"
        text = arguments_of({**event, "type": kind}, "")
        growing = self._items.at(event)
        if not growing.item.get("name") and event.get("name"):
            growing.item = {**growing.item, "name": event["name"]}
        self._emit_missing_text_end(growing, ("arguments", 0), text, out)

    def partial_image(self, event: Json, out: list[Delta]) -> None:
        """Handle `image_generation_call.partial_image`: append the preview image of `event` to `out`."""
        data: Json = {name: event[name] for name in ("item_id", "partial_image_index") if event.get(name) is not None}
        file = image_of(event.get("partial_image_b64"), event, Opaque(self._provider, {"partial": data}))
        if file is not None:
            out.append(FilePart(file))

    def audio_delta(self, event: Json, _out: list[Delta]) -> None:
        """Handle `audio.delta`: store the piece of base64 data in `event`. No delta is created for the caller."""
        self._audio.append(require_text(event.get("delta") or "", "delta"))

    def audio_transcript_delta(self, event: Json, _out: list[Delta]) -> None:
        """Handle `audio.transcript.delta`: store the text of `event`. No delta is created for the caller."""
        self._transcript.append(require_text(event.get("delta") or "", "delta"))

    def audio(self) -> Json | None:
        """Return the audio received in events, which belongs to no item: its base64 pieces and its transcript."""
        if not self._audio and not self._transcript:
            return None
        return {"data": list(self._audio), "transcript": "".join(self._transcript)}


PARTS: Final[Mapping[str, str]] = {
    "output_text": "text",
    "text": "text",
    "refusal": "refusal",
    "summary_text": "summary",
    "reasoning_text": "content",
}
"""The name of the list of texts for each type of content part."""

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
    "response.reasoning_text.delta": Answer.reasoning_delta,
    "response.reasoning_text.done": Answer.reasoning_done,
    "response.function_call_arguments.delta": Answer.arguments_delta,
    "response.function_call_arguments.done": Answer.arguments_done,
    "response.custom_tool_call_input.delta": Answer.arguments_delta,
    "response.custom_tool_call_input.done": Answer.arguments_done,
    "response.image_generation_call.partial_image": Answer.partial_image,
    "response.audio.delta": Answer.audio_delta,
    "response.audio.transcript.delta": Answer.audio_transcript_delta,
}
"""The handler for each type of event that belongs to an item."""
