"""Recorded responses, changed in ways that vendors vary and that mean the same: a run must do the same with them."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import islice
from random import Random
from typing import Any, Final, TypeAlias, cast

import pytest

from .exchanges import require_wire

require_wire()

from .loop import AWS_FRAMES, exchanges, run_recorded  # noqa: E402 - it reads the recordings
from .recordings import Recorded  # noqa: E402 - the same

SAMPLE: Final = None if os.environ.get("CHAT_THOROUGH") else 12
MINIMUM: Final = 10
"""Each change must apply to at least so many recordings."""
LONGEST: Final = 200_000
DONE: Final = "[DONE]"

Fields: TypeAlias = dict[str, Any]
Sent: TypeAlias = tuple[str, str]
"""The name of an event, which may be empty, and its data."""
Vary: TypeAlias = Callable[[Fields, str], Fields]
"""Changes the fields of an event or of a response of an API."""

UNKNOWN: Final[Mapping[str, Fields]] = {
    "chat-completions": {"object": "chat.completion.later", "later": 1},
    "messages": {"type": "later_event", "index": 0, "delta": {"type": "later_delta", "text": "NO"}},
    "responses": {"type": "response.later.delta", "output_index": 0, "delta": "NO"},
    "generate-content": {"laterField": {"text": "NO"}},
}
"""An event that no decoder knows."""
PING: Final = ("ping", '{"type": "ping"}')
KEPT: Final = frozenset({"input", "args", "parameters", "action"})
"""Fields with arguments, whose order and whose nulls are data."""


def _each_object(value: Any, change: Callable[[Fields], Fields]) -> Any:
    """Apply a function to every object in a JSON value, except in arguments."""
    if isinstance(value, dict):
        fields = cast("Fields", value)
        return change({key: item if key in KEPT else _each_object(item, change) for key, item in fields.items()})
    if isinstance(value, list):
        return [_each_object(item, change) for item in cast("list[object]", value)]
    return value


def unknown_fields(fields: Fields, _api: str) -> Fields:
    return {"x_later": {"a": [1]}, **fields, "z_later": "b"}


def reversed_fields(fields: Fields, _api: str) -> Fields:
    return cast("Fields", _each_object(fields, lambda item: dict(reversed(item.items()))))


def no_nulls(fields: Fields, _api: str) -> Fields:
    return cast("Fields", _each_object(fields, _without_nulls))


def _without_nulls(fields: Fields) -> Fields:
    return {key: value for key, value in fields.items() if value is not None}


def no_ids(fields: Fields, api: str) -> Fields:
    names = {"chat-completions": ("id", "object", "created"), "generate-content": ("responseId", "modelVersion")}
    return {key: value for key, value in fields.items() if key not in names.get(api, ())}


def another_choice(fields: Fields, api: str) -> Fields:
    """Add a second choice before the first."""
    name = {"chat-completions": "choices", "generate-content": "candidates"}.get(api, "")
    choices = cast("list[Fields]", fields.get(name) or [])
    if len(choices) != 1 or choices[0].get("index"):
        return fields
    return {**fields, name: [{**choices[0], "index": 1}, *choices]}


FIELDS: Final[Mapping[str, Vary]] = {
    "unknown fields": unknown_fields,
    "reversed fields": reversed_fields,
    "no nulls": no_nulls,
    "no ids": no_ids,
    "another choice": another_choice,
}


def split_events(body: bytes) -> list[Sent]:
    events = list[Sent]()
    for block in re.split(r"(?:\r\n|\n|\r){2,}", body.decode("utf-8", "surrogatepass")):
        lines = re.split(r"\r\n|\n|\r", block)
        data = [line[5:].removeprefix(" ") for line in lines if line.startswith("data:")]
        name = next((line[6:].strip() for line in lines if line.startswith("event:")), "")
        if data:
            events.append((name, "\n".join(data)))
    return events


def write_events(events: list[Sent], *, end: str = "\n", between: str = "") -> bytes:
    out = list[str]()
    for name, data in events:
        out += [between, *([f"event: {name}{end}"] if name else [])]
        out += [*[f"data: {line}{end}" for line in data.split("\n")], end]
    return "".join(out).encode("utf-8", "surrogatepass")


def _add_unknown(events: list[Sent], api: str) -> bytes:
    unknown = ("later_event" if api == "messages" else "", json.dumps(UNKNOWN[api]))
    return write_events([sent for event in events for sent in (unknown, event)])


def _indent(events: list[Sent], _api: str) -> bytes:
    return write_events(
        [(name, data if data == DONE else json.dumps(json.loads(data), indent=1)) for name, data in events]
    )


STREAMS: Final[Mapping[str, Callable[[list[Sent], str], bytes]]] = {
    "CRLF": lambda events, _: write_events(events, end="\r\n"),
    "CR": lambda events, _: write_events(events, end="\r"),
    "comments": lambda events, _: write_events(events, between=": keep-alive\n\n:\n"),
    "ids and retries": lambda events, _: write_events(events, between="id: 7\nretry: 100\nother: x\n"),
    "pings": lambda events, _: write_events([sent for event in events for sent in (PING, event)]),
    "no names": lambda events, _: write_events([("", data) for _, data in events]),
    "unknown events": _add_unknown,
    "indented data": _indent,
    "event after the end": lambda events, api: write_events([*events, ("", json.dumps(UNKNOWN[api]))]),
}


def varied(item: Recorded, name: str) -> bytes | None:
    """Return the changed body of a recorded response, or None if the change does not apply to it."""
    if item.body.startswith(AWS_FRAMES) or len(item.body) > LONGEST:
        return None
    is_stream = item.streamed and not item.body.lstrip().startswith(b"[")
    try:
        if is_stream and name in STREAMS:
            return STREAMS[name](split_events(item.body), item.api)
        if name in STREAMS:
            return None
        vary = FIELDS[name]
        if is_stream:
            return write_events([(type_, _vary_data(data, vary, item.api)) for type_, data in split_events(item.body)])
        value = json.loads(item.body)
        items = cast("list[Fields]", value) if isinstance(value, list) else [cast("Fields", value)]
        changed = [vary(fields, item.api) for fields in items]
        return json.dumps(changed if isinstance(value, list) else changed[0]).encode()
    except (ValueError, AttributeError):
        return None  # not an object of the API, such as the page of a gateway


def _vary_data(data: str, vary: Vary, api: str) -> str:
    return data if data == DONE else json.dumps(vary(json.loads(data), api))


async def outcome_of(item: Recorded) -> Fields:
    """Return what a run did with a response. Local ids of calls are numbered, because they are random."""
    observed = await run_recorded(item)
    ids = dict[str, str]()
    text = json.dumps({**vars(observed), "error": type(observed.error).__name__}, sort_keys=True)
    numbered = re.sub(r"tool_[0-9a-f]{16}", lambda id_: ids.setdefault(id_[0], f"call {len(ids)}"), text)
    return cast("Fields", json.loads(numbered))


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("name", [*FIELDS, *STREAMS])
async def test_a_response_that_is_written_in_another_way_has_the_same_outcome(anyio_backend: str, name: str) -> None:
    assert anyio_backend
    items = list(exchanges())
    if SAMPLE is not None:
        Random(name).shuffle(items)
    changed = ((item, body) for item in items if (body := varied(item, name)) is not None and body != item.body)
    compared = 0
    for item, body in islice(changed, SAMPLE):
        is_stream = item.streamed and not item.body.lstrip().startswith(b"[")
        # Some recordings lack the empty line after their last event, which the changed body has.
        same = replace(item, body=write_events(split_events(item.body))) if is_stream else item
        assert await outcome_of(replace(item, body=body)) == await outcome_of(same), item.id
        compared += 1
    assert compared >= MINIMUM
