"""Where two requests differ, path by path."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from typing import Final

from chat_core.wire.shapes import Json, is_list, is_object

from chat_testing.tape._entry import Question

_LONGEST: Final = 80
_MOST: Final = 12


def between(recorded: Question, came: Question, headers: Collection[str]) -> list[str]:
    """Everything in which two requests differ, of their headers those that were named; empty where they are alike."""
    found = ways(recorded, came)
    pairs: list[tuple[str, object, object]] = [("method", recorded.method, came.method)]
    pairs += [("url", recorded.url, came.url)]
    if recorded.streamed and came.streamed:
        pairs.append(("framing", recorded.framing, came.framing))
    pairs += [
        (f"headers.{name.lower()}", recorded.headers.get(name.lower()), came.headers.get(name.lower()))
        for name in headers
    ]
    for path, one, other in pairs:
        found += _values(one, other, path, more=False)
    return found + list(_bodies(recorded.body, came.body, more=False))


def beyond(recorded: Question, came: Question) -> list[str]:
    """In what a request does not even hold what was recorded: its method, its path, and all that its body said."""
    found = ways(recorded, came)
    found += _values(recorded.method, came.method, "method", more=True)
    found += _values(_path(recorded.url), _path(came.url), "path", more=True)
    return found + list(_bodies(recorded.body, came.body, more=True))


def ways(recorded: Question, came: Question) -> list[str]:
    """Whether one is a stream and the other is not."""
    if recorded.streamed == came.streamed:
        return []
    return [f"asked by: recorded {_way(recorded)}, came {_way(came)}"]


def told(lines: list[str]) -> str:
    """Differences as lines of a message."""
    rest = [f"… and {len(lines) - _MOST} more"] if len(lines) > _MOST else []
    return "\n".join([f"    {line}" for line in [*lines[:_MOST], *rest]])


def _way(question: Question) -> str:
    return "stream()" if question.streamed else "send()"


def _path(url: str) -> str:
    return "/" + url.partition("://")[2].partition("/")[2].partition("?")[0]


def _bodies(recorded: Json, came: Json, *, more: bool) -> Iterator[str]:
    if "json" in recorded and "json" in came:
        yield from _values(recorded["json"], came["json"], "body", more=more)
    elif recorded and recorded != came:
        yield f"body: recorded {_short(recorded)}, came {_short(came) if came else 'none'}"
    elif came and not recorded and not more:
        yield f"body: recorded none, came {_short(came)}"


def _values(recorded: object, came: object, path: str, *, more: bool) -> Iterator[str]:
    """Differences of two values; with `more`, an object that came may have more members than the recorded one."""
    if is_object(recorded) and is_object(came):
        for name in recorded:
            if name not in came:
                yield f"{path}.{name}: recorded {_short(recorded[name])}, did not come"
            else:
                yield from _values(recorded[name], came[name], f"{path}.{name}", more=more)
        if not more:
            yield from (
                f"{path}.{name}: not recorded, came {_short(came[name])}" for name in came if name not in recorded
            )
    elif is_list(recorded) and is_list(came):
        for place, (one, other) in enumerate(zip(recorded, came, strict=False)):
            yield from _values(one, other, f"{path}[{place}]", more=more)
        if len(recorded) != len(came):
            yield f"{path}: recorded {len(recorded)} items, came {len(came)}"
    elif recorded != came or isinstance(recorded, bool) != isinstance(came, bool):
        yield f"{path}: recorded {_short(recorded)}, came {_short(came)}"


def _short(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
