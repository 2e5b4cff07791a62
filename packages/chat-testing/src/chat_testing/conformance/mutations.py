"""Random mutations of recorded responses: wrong types, extreme numbers, deep nesting and missing fields.

For each mutated response, a provider must raise an error of `chat_core.errors`, or return a turn that can be stored,
loaded again and sent in the next request.
"""

from __future__ import annotations

import json
import re
from copy import deepcopy
from random import Random
from typing import Any, Final, TypeAlias

Json: TypeAlias = dict[str, "Json"] | list["Json"] | str | int | float | bool | None
Place: TypeAlias = tuple[Any, Any]
"""A container and one of its keys or indices."""

DEPTHS: Final = ((100, 180), (180, 260), (260, 900), (900, 1_000), (20_000, 20_000))
"""Ranges of nesting depths. Parsers and serializers have different depth limits."""

_DEEP: Final = re.compile(r'"\\u0000deep (array|object) (\d+)"')
"""The placeholder of a deeply nested value, which the standard library could not serialize."""

REPLACEMENTS: Final[tuple[Json, ...]] = (
    None,
    True,
    False,
    0,
    -1,
    1,
    2**63,
    10**400,
    -(10**400),
    0.5,
    1e300,
    float("nan"),
    float("inf"),
    "",
    "text",
    "null",
    "{",
    "\ud83d",
    "\x00",
    [],
    {},
    [None],
    [[]],
    ["text"],
    [{}],
    {"type": ["text"]},
    {"type": "text", "text": "text"},
    {"": None},
)
"""Values that replace another value."""

WORDS: Final = (
    "error",
    "text",
    "tool_use",
    "function_call",
    "message",
    "stop",
    "tool_calls",
    "length",
    "other",
    "STOP",
)
"""Texts that replace another text. They occur as types, roles and finish reasons in several APIs."""


def mutate_response(body: bytes, random: Random) -> bytes:
    """Return a randomly mutated copy of a response body.

    Args:
        body: a JSON document, a stream of server-sent events whose data is JSON, or JSON lines.
        random: random number generator. The same seed produces the same mutations.
    """
    lines = body.split(b"\n")
    data = [index for index, line in enumerate(lines) if line.startswith(b"data:") and b"{" in line]
    if not data and len(lines) > 1 and lines[0].endswith(b"}"):
        index = random.choice([index for index, line in enumerate(lines) if line])
        lines[index] = _mutate_document(lines[index], random)
        return b"\n".join(lines)
    if not data:
        return _mutate_document(body, random)
    for index in random.sample(data, min(len(data), random.choice((1, 1, 2)))):
        end = b"\r" if lines[index].endswith(b"\r") else b""
        lines[index] = b"data: " + _mutate_document(lines[index][5:], random) + end
    return b"\n".join(lines)


def _mutate_document(text: bytes, random: Random) -> bytes:
    try:
        root: list[Json] = [json.loads(text)]
    except ValueError:
        return text
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        _mutate_one_place(_list_places(root), random)
    return _dump_document(root[0])


def _list_places(root: list[Json]) -> list[Place]:
    places: list[Place] = []
    pending: list[Json] = [root]
    while pending:
        value = pending.pop()
        if isinstance(value, dict):
            places += [(value, key) for key in value]
            pending += value.values()
        elif isinstance(value, list):
            places += [(value, index) for index in range(len(value))]
            pending += value
    return places


def _mutate_one_place(places: list[Place], random: Random) -> None:
    container, key = random.choice(places)
    value: Json = container[key]
    action = random.choice(("remove", "repeat", "copy", "word", "add", "inside", *["replace"] * 6))
    if action == "remove" and isinstance(container, dict):
        del container[key]
    elif action == "repeat":
        container[key] = [value, deepcopy(value)]
    elif action == "copy":
        other, place = random.choice(places)
        container[key] = deepcopy(other[place])
    elif action == "word" and isinstance(value, str):
        container[key] = random.choice(WORDS)
    elif action == "add" and isinstance(value, dict):
        value["unexpected"] = _random_replacement(random)
    elif action == "inside" and isinstance(value, str):
        container[key] = _mutate_document(value.encode("utf-8", "surrogatepass"), random).decode(
            "utf-8", "surrogatepass"
        )
    else:
        container[key] = _random_replacement(random)


def _random_replacement(random: Random) -> Json:
    if random.randrange(4):
        return deepcopy(random.choice(REPLACEMENTS))
    return f"\x00deep {random.choice(('array', 'object'))} {random.randint(*random.choice(DEPTHS))}"


def _dump_document(value: Json) -> bytes:
    return _DEEP.sub(_nested_value, json.dumps(value, separators=(",", ":"))).encode()


def _nested_value(match: re.Match[str]) -> str:
    opening, closing = ("[", "]") if match[1] == "array" else ('{"a":', "}")
    depth = int(match[2])
    return opening * depth + "1" + closing * depth
