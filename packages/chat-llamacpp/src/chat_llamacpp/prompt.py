"""Prompt that describes tools to a model in text and with example messages.

The text and the order of the examples were found by experiment with a model of 135 million parameters. With another
order of the examples, the model repeats the last call of the prompt.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from chat_core.wire.shapes import Json, is_list, is_mapping, mapping

from chat_llamacpp.schema import resolved

TEXT: Final[Json] = {"type": "string"}
"""Schema of a text response without structured output."""

_TEXT_EXAMPLE = (
    {"role": "user", "content": "What is the capital of Italy?"},
    {"role": "assistant", "content": json.dumps({"say": "The capital of Italy is Rome."})},
)
_RESULT_EXAMPLE = (
    {"role": "user", "content": "The result is: done, number 7"},
    {"role": "assistant", "content": json.dumps({"say": "It is done, and the number is 7."})},
)
_MAX_EXAMPLES = 3
"""Maximum number of tools with an example. Prompts are processed at about fifty tokens per second."""


def with_prompt(messages: Sequence[Json], functions: Sequence[Json], text_schema: Json | None) -> list[Json]:
    """Return the messages, preceded by a description of the functions and by example messages.

    Args:
        messages: messages with the roles system, user and assistant. The system messages are merged into one.
        functions: function definitions of the Chat Completions API.
        text_schema: schema of a response without a call. None: the model must call a function.
    """
    lines = ["You can call these functions:", *[_describe_function(function) for function in functions]]
    lines.append("Answer with one JSON object: a call if a function fits, else what you say.")
    system_texts = [message["content"] for message in messages if message["role"] == "system"]
    system = {"role": "system", "content": "\n".join([*system_texts, *lines])}
    examples: list[Json] = []
    if text_schema is not None:
        examples += _TEXT_EXAMPLE if text_schema == TEXT else _output_example(text_schema)
    for function in functions[:_MAX_EXAMPLES]:
        examples += _call_example(function)
        if text_schema == TEXT:
            examples += _RESULT_EXAMPLE
    return [system, *examples, *[message for message in messages if message["role"] != "system"]]


def _describe_function(function: Json) -> str:
    parameters = mapping(function.get("parameters"))
    properties = mapping(parameters.get("properties"))
    signature = ", ".join([f"{name}: {_type_name(schema, parameters)}" for name, schema in properties.items()])
    return f"- {function['name']}({signature}): {function.get('description') or ''}".rstrip(": ")


def _type_name(schema: object, root: Mapping[str, Any]) -> str:
    name = resolved(schema, root).get("type") if is_mapping(schema) else None
    return name if isinstance(name, str) else "any"


def _call_example(function: Json) -> list[Json]:
    arguments = example(mapping(function.get("parameters")))
    named = mapping(arguments)
    shown = ", ".join([f"{name} is {value}" for name, value in named.items()])
    request = f"{function.get('description') or function['name']} ({function['name']}{': ' if shown else ''}{shown})"
    called = json.dumps({"call": function["name"], "arguments": named})
    return [{"role": "user", "content": request}, {"role": "assistant", "content": called}]


def _output_example(schema: Json) -> list[Json]:
    value = example(schema)
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
_SAMPLES_BY_NAME: Final = (
    ("city", "London"),
    ("place", "London"),
    ("location", "London"),
    ("mail", "ann@example.com"),
    ("date", "2030-01-31"),
)
_MAX_DEPTH: Final = 4


def example(schema: Mapping[str, Any]) -> object:
    """Return a sample value for a JSON Schema. Of several alternatives, the first one is used."""
    return _sample_value(schema, schema, 0)


def _sample_value(schema: object, root: Mapping[str, Any], depth: int) -> object:
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
    if depth > _MAX_DEPTH:
        return _SAMPLES.get(kind if isinstance(kind, str) else None)
    for keyword in ("anyOf", "oneOf", "allOf"):
        if rules.get(keyword):
            return _sample_value(rules[keyword][0], root, depth + 1)
    return _sample_of_type(kind[0] if is_list(kind) and kind else kind, rules, root, depth)


def _sample_of_type(kind: object, rules: Mapping[str, Any], root: Mapping[str, Any], depth: int) -> object:
    if kind == "object" or "properties" in rules:
        properties = mapping(rules.get("properties"))
        return {name: _sample_property(name, rule, root, depth + 1) for name, rule in properties.items()}
    if kind == "array":
        items = rules.get("prefixItems")
        return [_sample_value(item, root, depth + 1) for item in (items if is_list(items) else [rules.get("items")])]
    if kind == "string" and rules.get("format") in _FORMATS:
        return _FORMATS[rules["format"]]
    return _SAMPLES.get(kind, _SAMPLES["string"])


def _sample_property(name: str, rule: object, root: Mapping[str, Any], depth: int) -> object:
    """Return a sample value for a property. Strings depend on the property's name: small models copy the examples."""
    value = _sample_value(rule, root, depth)
    if value != _SAMPLES["string"]:
        return value
    return next((sample for word, sample in _SAMPLES_BY_NAME if word in name.lower()), value)
