"""The differences between a request and a recorded request."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from typing import Final

from chat_core.wire.shapes import Json, is_list, is_object

from chat_testing.tape._entry import TapedRequest

_MAX_LENGTH: Final = 80
_MAX_LINES: Final = 12


def list_differences(recorded: TapedRequest, actual: TapedRequest, headers: Collection[str]) -> list[str]:
    """Return the differences between a recorded and an actual request, one line each.

    Args:
        recorded: the request on the tape.
        actual: the request to replay.
        headers: names of the headers to compare.
    """
    differences = list_streaming_difference(recorded, actual)
    pairs: list[tuple[str, object, object]] = [("method", recorded.method, actual.method)]
    pairs += [("url", recorded.url, actual.url)]
    if recorded.streamed and actual.streamed:
        pairs.append(("framing", recorded.framing, actual.framing))
    pairs += [
        (f"headers.{name.lower()}", recorded.headers.get(name.lower()), actual.headers.get(name.lower()))
        for name in headers
    ]
    for path, one, other in pairs:
        differences += _compare_values(one, other, path, allow_more=False)
    return differences + list(_compare_bodies(recorded.body, actual.body, allow_more=False))


def list_missing(recorded: TapedRequest, actual: TapedRequest) -> list[str]:
    """Return differences in method or path, and recorded body values that `actual` lacks, one line each."""
    differences = list_streaming_difference(recorded, actual)
    differences += _compare_values(recorded.method, actual.method, "method", allow_more=True)
    differences += _compare_values(_path_of(recorded.url), _path_of(actual.url), "path", allow_more=True)
    return differences + list(_compare_bodies(recorded.body, actual.body, allow_more=True))


def list_streaming_difference(recorded: TapedRequest, actual: TapedRequest) -> list[str]:
    """Return one line if only one of the two requests was made with `stream()`, otherwise an empty list."""
    if recorded.streamed == actual.streamed:
        return []
    return [f"transport method: recorded {_method_of(recorded)}, received {_method_of(actual)}"]


def format_differences(lines: list[str]) -> str:
    """Format differences as indented lines for an error message. Long lists are truncated."""
    rest = [f"… and {len(lines) - _MAX_LINES} more"] if len(lines) > _MAX_LINES else []
    return "\n".join([f"    {line}" for line in [*lines[:_MAX_LINES], *rest]])


def _method_of(request: TapedRequest) -> str:
    return "stream()" if request.streamed else "send()"


def _path_of(url: str) -> str:
    return "/" + url.partition("://")[2].partition("/")[2].partition("?")[0]


def _compare_bodies(recorded: Json, actual: Json, *, allow_more: bool) -> Iterator[str]:
    if "json" in recorded and "json" in actual:
        yield from _compare_values(recorded["json"], actual["json"], "body", allow_more=allow_more)
    elif recorded and recorded != actual:
        yield f"body: recorded {_shorten_json(recorded)}, received {_shorten_json(actual) if actual else 'none'}"
    elif actual and not recorded and not allow_more:
        yield f"body: recorded none, received {_shorten_json(actual)}"


def _compare_values(recorded: object, actual: object, path: str, *, allow_more: bool) -> Iterator[str]:
    """Yield the differences between two JSON values. With `allow_more`, objects in `actual` may have more members."""
    if is_object(recorded) and is_object(actual):
        for name in recorded:
            if name not in actual:
                yield f"{path}.{name}: recorded {_shorten_json(recorded[name])}, not received"
            else:
                yield from _compare_values(recorded[name], actual[name], f"{path}.{name}", allow_more=allow_more)
        if not allow_more:
            yield from (
                f"{path}.{name}: not recorded, received {_shorten_json(actual[name])}"
                for name in actual
                if name not in recorded
            )
    elif is_list(recorded) and is_list(actual):
        for index, (one, other) in enumerate(zip(recorded, actual, strict=False)):
            yield from _compare_values(one, other, f"{path}[{index}]", allow_more=allow_more)
        if len(recorded) != len(actual):
            yield f"{path}: recorded {len(recorded)} items, received {len(actual)}"
    elif recorded != actual or isinstance(recorded, bool) != isinstance(actual, bool):
        yield f"{path}: recorded {_shorten_json(recorded)}, received {_shorten_json(actual)}"


def _shorten_json(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _MAX_LENGTH else f"{text[: _MAX_LENGTH - 1]}…"
