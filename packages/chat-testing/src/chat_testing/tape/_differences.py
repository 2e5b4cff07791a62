"""Where two requests differ, path by path."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from typing import Final

from chat_core.wire.shapes import Json, is_list, is_object

from chat_testing.tape._entry import TapedRequest

_LONGEST: Final = 80
_MOST: Final = 12


def list_differences(recorded: TapedRequest, came: TapedRequest, headers: Collection[str]) -> list[str]:
    """Everything in which two requests differ, of their headers those that were named; empty where they are alike."""
    found = list_streaming_difference(recorded, came)
    pairs: list[tuple[str, object, object]] = [("method", recorded.method, came.method)]
    pairs += [("url", recorded.url, came.url)]
    if recorded.streamed and came.streamed:
        pairs.append(("framing", recorded.framing, came.framing))
    pairs += [
        (f"headers.{name.lower()}", recorded.headers.get(name.lower()), came.headers.get(name.lower()))
        for name in headers
    ]
    for path, one, other in pairs:
        found += _compare_values(one, other, path, more=False)
    return found + list(_compare_bodies(recorded.body, came.body, more=False))


def list_missing(recorded: TapedRequest, came: TapedRequest) -> list[str]:
    """In what a request does not even hold what was recorded: its method, its path, and all that its body said."""
    found = list_streaming_difference(recorded, came)
    found += _compare_values(recorded.method, came.method, "method", more=True)
    found += _compare_values(_path_of(recorded.url), _path_of(came.url), "path", more=True)
    return found + list(_compare_bodies(recorded.body, came.body, more=True))


def list_streaming_difference(recorded: TapedRequest, came: TapedRequest) -> list[str]:
    """Whether one is a stream and the other is not."""
    if recorded.streamed == came.streamed:
        return []
    return [f"asked by: recorded {_method_of(recorded)}, came {_method_of(came)}"]


def format_differences(lines: list[str]) -> str:
    """Differences as lines of a message."""
    rest = [f"… and {len(lines) - _MOST} more"] if len(lines) > _MOST else []
    return "\n".join([f"    {line}" for line in [*lines[:_MOST], *rest]])


def _method_of(question: TapedRequest) -> str:
    return "stream()" if question.streamed else "send()"


def _path_of(url: str) -> str:
    return "/" + url.partition("://")[2].partition("/")[2].partition("?")[0]


def _compare_bodies(recorded: Json, came: Json, *, more: bool) -> Iterator[str]:
    if "json" in recorded and "json" in came:
        yield from _compare_values(recorded["json"], came["json"], "body", more=more)
    elif recorded and recorded != came:
        yield f"body: recorded {_shorten(recorded)}, came {_shorten(came) if came else 'none'}"
    elif came and not recorded and not more:
        yield f"body: recorded none, came {_shorten(came)}"


def _compare_values(recorded: object, came: object, path: str, *, more: bool) -> Iterator[str]:
    """Differences of two values; with `more`, an object that came may have more members than the recorded one."""
    if is_object(recorded) and is_object(came):
        for name in recorded:
            if name not in came:
                yield f"{path}.{name}: recorded {_shorten(recorded[name])}, did not come"
            else:
                yield from _compare_values(recorded[name], came[name], f"{path}.{name}", more=more)
        if not more:
            yield from (
                f"{path}.{name}: not recorded, came {_shorten(came[name])}" for name in came if name not in recorded
            )
    elif is_list(recorded) and is_list(came):
        for place, (one, other) in enumerate(zip(recorded, came, strict=False)):
            yield from _compare_values(one, other, f"{path}[{place}]", more=more)
        if len(recorded) != len(came):
            yield f"{path}: recorded {len(recorded)} items, came {len(came)}"
    elif recorded != came or isinstance(recorded, bool) != isinstance(came, bool):
        yield f"{path}: recorded {_shorten(recorded)}, came {_shorten(came)}"


def _shorten(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
