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
Place: TypeAlias = tuple[Any, Any, str]
"""A container, one of its keys or indices, and the path of that value in the document."""

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


def mutate_response(body: bytes, random: Random, fields: list[str] | None = None) -> bytes:
    """Return a randomly mutated copy of a response body.

    Args:
        body: a JSON document, a stream of server-sent events whose data is JSON, or JSON lines.
        random: random number generator. The same seed produces the same mutations.
        fields: list to which the path of each mutated field is appended, such as `choices[0].message`.
    """
    fields = [] if fields is None else fields
    lines = body.split(b"\n")
    data = [index for index, line in enumerate(lines) if line.startswith(b"data:") and b"{" in line]
    if not data and len(lines) > 1 and lines[0].endswith(b"}"):
        index = random.choice([index for index, line in enumerate(lines) if line])
        lines[index] = _mutate_document(lines[index], random, fields)
        return b"\n".join(lines)
    if not data:
        return _mutate_document(body, random, fields)
    for index in random.sample(data, min(len(data), random.choice((1, 1, 2)))):
        end = b"\r" if lines[index].endswith(b"\r") else b""
        lines[index] = b"data: " + _mutate_document(lines[index][5:], random, fields) + end
    return b"\n".join(lines)


def _mutate_document(text: bytes, random: Random, fields: list[str]) -> bytes:
    try:
        root: list[Json] = [json.loads(text)]
    except ValueError:
        return text
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        _mutate_one_place(_list_places(root), random, fields)
    return _dump_document(root[0])


def _list_places(root: list[Json]) -> list[Place]:
    places: list[Place] = []
    pending: list[tuple[Json, str]] = [(root[0], "")]
    places.append((root, 0, "the whole document"))
    while pending:
        value, path = pending.pop()
        found: list[Place] = []
        if isinstance(value, dict):
            found = [(value, key, f"{path}.{key}" if path else key) for key in value]
        elif isinstance(value, list):
            found = [(value, index, f"{path}[{index}]") for index in range(len(value))]
        places += found
        pending += [(container[key], inner) for container, key, inner in found]
    return places


def _mutate_one_place(places: list[Place], random: Random, fields: list[str]) -> None:
    container, key, path = random.choice(places)
    fields.append(path)
    value: Json = container[key]
    action = random.choice(("remove", "repeat", "copy", "word", "add", "inside", *["replace"] * 6))
    if action == "remove" and isinstance(container, dict):
        del container[key]
    elif action == "repeat":
        container[key] = [value, deepcopy(value)]
    elif action == "copy":
        other, place, _ = random.choice(places)
        container[key] = deepcopy(other[place])
    elif action == "word" and isinstance(value, str):
        container[key] = random.choice(WORDS)
    elif action == "add" and isinstance(value, dict):
        value["unexpected"] = _random_replacement(random)
    elif action == "inside" and isinstance(value, str):
        container[key] = _mutate_document(value.encode("utf-8", "surrogatepass"), random, []).decode(
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
