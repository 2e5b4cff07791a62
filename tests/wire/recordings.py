"""The recorded exchanges of all APIs: requests, responses and the result of the official client."""

from __future__ import annotations

import base64
import functools
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from random import Random
from typing import cast

from .exchanges import WIRE
from .normalise import Object


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """A recorded exchange.

    Attributes:
        id: id of the recording, with the number of this exchange in it.
        recording: id of the recording.
        provider, api: the vendor and the API, as in the exchange. The file may name others.
        host, path, query: parts of the URL, or empty texts if the request is not known.
        asked: the body of the request, if it is a JSON object.
        stream: whether the request asked for a stream.
        body: the recorded body of the response, or its value as JSON.
        expected: the result of the official client, or `None` if it is not known.
    """

    id: str
    recording: str
    index: int
    provider: str
    api: str
    features: tuple[str, ...]
    host: str
    path: str
    query: str
    asked_headers: dict[str, str] = field(repr=False)
    asked: Object | None = field(repr=False)
    stream: bool
    status: int
    headers: dict[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    expected: Object | None = field(repr=False)

    @property
    def accepted(self) -> bool:
        """Whether the vendor accepted the request."""
        return 200 <= self.status < 300

    @property
    def streamed(self) -> bool:
        """Whether the response is a stream that began."""
        return self.stream and self.accepted


@functools.cache
def recorded(*apis: str) -> tuple[Recorded, ...]:
    """Return every HTTP exchange of these APIs, in the order of the index."""
    found = list[Recorded]()
    for line in (WIRE / "index.jsonl").read_text().splitlines():
        row = cast("Object", json.loads(line))
        found += [item for item in _exchanges_of(row) if item.api in apis]
    return tuple(found)


def conversations(*apis: str) -> Iterator[tuple[Recorded, ...]]:
    """Yield the accepted exchanges of each recording with several known requests."""
    groups = dict[str, list[Recorded]]()
    for item in recorded(*apis):
        if item.accepted and item.asked is not None:
            groups.setdefault(item.recording, []).append(item)
    for group in groups.values():
        if len(group) > 1:
            yield tuple(group)


def suite(name: str, *apis: str) -> list[Object]:
    """Return the rows of a suite that belong to these APIs."""
    text = (WIRE / "suites" / name).read_text()
    return [row for row in map(_row, text.splitlines()) if row["api"] in apis]


def _row(line: str) -> Object:
    return cast("Object", json.loads(line))


def _exchanges_of(row: Object) -> Iterator[Recorded]:
    path = cast("str", row["path"])
    recording = _file(path)
    page = path.replace("recordings/", "expected/", 1)
    told = cast("list[Object | None]", _file(page)["interactions"]) if (WIRE / page).exists() else []
    name = path.removeprefix("recordings/").removesuffix(".json")
    for index, item in enumerate(cast("list[Object]", recording.get("interactions", []))):
        response = item.get("response")
        if not isinstance(response, dict):
            continue
        request = cast("Object", item.get("request") or {})
        asked = request.get("json_body")
        yield Recorded(
            id=f"{name}#{index}",
            recording=name,
            index=index,
            provider=str(item.get("provider") or row["provider"]),
            api=str(item.get("api") or row["api"]),
            features=tuple(cast("list[str]", row["features"])),
            host=str(request.get("host") or ""),
            path=str(request.get("url_path") or ""),
            query=str(request.get("query") or ""),
            asked_headers=cast("dict[str, str]", request.get("headers") or {}),
            asked=asked if isinstance(asked, dict) else None,
            stream=bool(item.get("stream")),
            status=cast("int", response.get("status") or 200),
            headers=cast("dict[str, str]", response.get("headers") or {}),
            body=body_of(response),
            expected=told[index] if index < len(told) else None,
        )


@functools.cache
def _file(path: str) -> Object:
    return cast("Object", json.loads((WIRE / path).read_text()))


def body_of(response: Object) -> bytes:
    """Return the recorded body. If only its value was recorded, return this value as JSON."""
    if isinstance(text := response.get("text_body"), str):
        return text.encode("utf-8", "surrogatepass")
    if isinstance(text := response.get("base64_body"), str):
        return base64.b64decode(text)
    return json.dumps(response.get("json_body")).encode()


@dataclass(frozen=True, kw_only=True)
class Session:
    """A recorded connection that serves several responses, with the sent and received frames in order."""

    id: str
    features: tuple[str, ...]
    frames: tuple[tuple[str, Object], ...] = field(repr=False)
    expected: Object | None = field(repr=False)


def sessions(*apis: str) -> Iterator[Session]:
    """Yield every recorded WebSocket session of these APIs."""
    for line in (WIRE / "index.jsonl").read_text().splitlines():
        row = _row(line)
        if row["api"] not in apis:
            continue
        path = cast("str", row["path"])
        page = path.replace("recordings/", "expected/", 1)
        told = cast("list[Object | None]", _file(page)["interactions"]) if (WIRE / page).exists() else []
        for index, item in enumerate(cast("list[Object]", _file(path).get("interactions", []))):
            if isinstance(frames := item.get("frames"), list):
                yield Session(
                    id=f"{path.removeprefix('recordings/').removesuffix('.json')}#{index}",
                    features=tuple(cast("list[str]", row["features"])),
                    frames=tuple(
                        [(str(frame["dir"]), cast("Object", frame["json"])) for frame in cast("list[Object]", frames)]
                    ),
                    expected=told[index] if index < len(told) else None,
                )


def cuts(body: bytes, random: Random) -> Iterator[bytes]:
    """Return the body in pieces of random sizes, most of them small."""
    start = 0
    while start < len(body):
        end = start + random.choice((1, 2, 3, 7, 40, 300, 4000))
        yield body[start:end]
        start = end


def chunks(body: bytes, seed: str) -> Iterator[bytes]:
    """Yield the body, split at a few random points."""
    random = Random(seed)
    points = sorted(random.sample(range(1, len(body)), min(8, len(body) - 1))) if len(body) > 1 else []
    for start, end in pairwise([0, *points, len(body)]):
        if start < end:
            yield body[start:end]
