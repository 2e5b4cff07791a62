"""What a model is told of its tools, in words and by example, since a small one does as it sees.

The words, and the order of the examples, were found by trying: another order, and a model of 135 million parameters
calls whatever it has seen last.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from chat_core.wire.shapes import Json, is_list, is_mapping, mapping

from chat_llamacpp.schema import resolved

TEXT: Final[Json] = {"type": "string"}
"""The schema of a saying that is not structured."""

_GREETING = (
    {"role": "user", "content": "What is the capital of Italy?"},
    {"role": "assistant", "content": json.dumps({"say": "The capital of Italy is Rome."})},
)
_AFTERWARDS = (
    {"role": "user", "content": "The result is: done, number 7"},
    {"role": "assistant", "content": json.dumps({"say": "It is done, and the number is 7."})},
)
_SHOWN = 3
"""How many tools are shown by example: a prompt is read at some fifty tokens a second."""


def with_prompt(messages: Sequence[Json], functions: Sequence[Json], saying: Json | None) -> list[Json]:
    """The messages behind what a model is to know of these functions. `saying` is the schema of what it may say."""
    lines = ["You can call these functions:", *[_described(function) for function in functions]]
    lines.append("Answer with one JSON object: a call if a function fits, else what you say.")
    said = [message["content"] for message in messages if message["role"] == "system"]
    system = {"role": "system", "content": "\n".join([*said, *lines])}
    examples: list[Json] = []
    if saying is not None:
        examples += _GREETING if saying == TEXT else _structured(saying)
    for function in functions[:_SHOWN]:
        examples += _shown(function)
        if saying == TEXT:
            examples += _AFTERWARDS
    return [system, *examples, *[message for message in messages if message["role"] != "system"]]


def _described(function: Json) -> str:
    parameters = mapping(function.get("parameters"))
    properties = mapping(parameters.get("properties"))
    signature = ", ".join([f"{name}: {_type(schema, parameters)}" for name, schema in properties.items()])
    return f"- {function['name']}({signature}): {function.get('description') or ''}".rstrip(": ")


def _type(schema: object, root: Mapping[str, Any]) -> str:
    said = resolved(schema, root).get("type") if is_mapping(schema) else None
    return said if isinstance(said, str) else "any"


def _shown(function: Json) -> list[Json]:
    arguments = example(mapping(function.get("parameters")))
    named = mapping(arguments)
    shown = ", ".join([f"{name} is {value}" for name, value in named.items()])
    asked = f"{function.get('description') or function['name']} ({function['name']}{': ' if shown else ''}{shown})"
    called = json.dumps({"call": function["name"], "arguments": named})
    return [{"role": "user", "content": asked}, {"role": "assistant", "content": called}]


def _structured(saying: Json) -> list[Json]:
    value = example(saying)
    named: Mapping[str, object] = value if is_mapping(value) else {"answer": value}
    shown = ", ".join([f"{name} is {item}" for name, item in named.items()])
    called = json.dumps({"say": value})
    return [{"role": "user", "content": f"The result is: {shown}"}, {"role": "assistant", "content": called}]


# --- Examples of what a schema allows ------------------------------------------------------------------------------

_SAMPLES: Final[Mapping[object, object]] = {
    "string": "Ann",
    "integer": 12,
    "number": 1.5,
    "boolean": True,
    "null": None,
    "array": [],
    "object": {},
}
_FORMATS: Final[Mapping[object, str]] = {
    "date": "2030-01-31",
    "date-time": "2030-01-31T12:00:00Z",
    "time": "12:00:00",
    "duration": "PT1H",
    "email": "ann@example.com",
    "uuid": "6f1c1ea5-6f4c-4e0e-9d0e-0a1b2c3d4e5f",
}
_BY_NAME: Final = (
    ("city", "London"),
    ("place", "London"),
    ("location", "London"),
    ("mail", "ann@example.com"),
    ("date", "2030-01-31"),
)
_LEVELS: Final = 4


def example(schema: Mapping[str, Any]) -> object:
    """A value of the shape of `schema`: the first of what it allows, never more than a few levels of it."""
    return _example(schema, schema, 0)


def _example(schema: object, root: Mapping[str, Any], depth: int) -> object:
    if not is_mapping(schema):
        return _SAMPLES["string"]
    rules = resolved(schema, root)
    for keyword in ("const", "default"):
        if keyword in rules:
            return rules[keyword]
    for keyword in ("enum", "examples"):
        if rules.get(keyword):
            return rules[keyword][0]
    kind = rules.get("type")
    if depth > _LEVELS:
        return _SAMPLES.get(kind if isinstance(kind, str) else None)
    for keyword in ("anyOf", "oneOf", "allOf"):
        if rules.get(keyword):
            return _example(rules[keyword][0], root, depth + 1)
    return _typed(kind[0] if is_list(kind) and kind else kind, rules, root, depth)


def _typed(kind: object, rules: Mapping[str, Any], root: Mapping[str, Any], depth: int) -> object:
    if kind == "object" or "properties" in rules:
        properties = mapping(rules.get("properties"))
        return {name: _named(name, rule, root, depth + 1) for name, rule in properties.items()}
    if kind == "array":
        places = rules.get("prefixItems")
        return [_example(place, root, depth + 1) for place in (places if is_list(places) else [rules.get("items")])]
    if kind == "string" and rules.get("format") in _FORMATS:
        return _FORMATS[rules["format"]]
    return _SAMPLES.get(kind, _SAMPLES["string"])


def _named(name: str, rule: object, root: Mapping[str, Any], depth: int) -> object:
    """An example of a property; a text is chosen by its name, since a small model copies what it is shown."""
    value = _example(rule, root, depth)
    if value != _SAMPLES["string"]:
        return value
    return next((sample for word, sample in _BY_NAME if word in name.lower()), value)
