"""The recorded exchanges of the Chat Completions API: requests and responses."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, cast

import pytest

from .normalise import Json, Object

ROOT: Final = Path(__file__).resolve().parents[2]
WIRE: Final = Path(os.environ.get("CHAT_WIRE_DIR") or ROOT.parent / "shared" / "wire")
APIS: Final = ("chat-completions", "embeddings")


@dataclass(frozen=True, kw_only=True)
class Exchange:
    """A recorded request of this API, with its response.

    Attributes:
        id: id of the recording, with the number of this exchange if it has several.
        recording: the path of the recording.
    """

    id: str
    recording: str
    index: int
    provider: str
    api: str
    features: tuple[str, ...]
    path: str
    stream: bool
    body: Object = field(repr=False)
    status: int
    answer: Object = field(repr=False)

    @property
    def accepted(self) -> bool:
        """Whether the vendor accepted the request."""
        return 200 <= self.status < 300

    @property
    def answer_body(self) -> bytes:
        """Return the recorded body of the response."""
        if isinstance(text := self.answer.get("text_body"), str):
            return text.encode("utf-8", "surrogatepass")
        return json.dumps(self.answer.get("json_body")).encode()


def require_wire() -> None:
    """Skip the calling module if the recordings are missing. `conftest.py` decides whether this is a failure."""
    if not WIRE.is_dir():
        pytest.skip(f"the recordings are not at {WIRE}: set CHAT_WIRE_DIR to where they are", allow_module_level=True)


def rows(name: str) -> list[Object]:
    """Return the rows of a suite that belong to this API."""
    text = (WIRE / "suites" / name).read_text()
    found = [cast("Object", json.loads(line)) for line in text.splitlines()]
    return [row for row in found if row["api"] in APIS]


@functools.cache
def exchanges() -> tuple[Exchange, ...]:
    """Return every exchange of this API whose request is known, in the order of the index."""
    found = list[Exchange]()
    for line in (WIRE / "index.jsonl").read_text().splitlines():
        row = cast("Object", json.loads(line))
        if row["api"] in APIS:
            found += _exchanges_of(row)
    return tuple(found)


def accepted() -> tuple[Exchange, ...]:
    """Return the exchanges with a 2xx status."""
    return tuple([exchange for exchange in exchanges() if exchange.accepted])


def conversations() -> Iterator[tuple[Exchange, ...]]:
    """Yield the accepted exchanges of each recording with several exchanges."""
    groups = dict[str, list[Exchange]]()
    for exchange in accepted():
        groups.setdefault(exchange.recording, []).append(exchange)
    for group in groups.values():
        if len(group) > 1:
            yield tuple(group)


def _exchanges_of(row: Object) -> Iterator[Exchange]:
    path = cast("str", row["path"])
    recording = cast("Object", json.loads((WIRE / path).read_text()))
    name = path.removeprefix("recordings/").removesuffix(".json")
    for index, item in enumerate(cast("list[Object]", recording.get("interactions", []))):
        request, response = item["request"], item["response"]
        if not isinstance(request, dict) or not isinstance(response, dict):
            continue
        body = request.get("json_body")
        if not isinstance(body, dict) or not _speaks(str(request["url_path"]), body):
            continue
        yield Exchange(
            id=f"{name}#{index}",
            recording=path,
            index=index,
            provider=cast("str", row["provider"]),
            api="embeddings" if "messages" not in body else "chat-completions",
            features=tuple(cast("list[str]", row["features"])),
            path=str(request["url_path"]),
            stream=bool(item.get("stream")),
            body=body,
            status=cast("int", response["status"]),
            answer=response,
        )


def _speaks(path: str, body: dict[str, Json]) -> bool:
    """Return whether a request has the format of this API. Several vendors have an embeddings API of their own."""
    if path.endswith("/chat/completions"):
        return "messages" in body
    return path.endswith("/embeddings") and "input" in body and "model" in body
