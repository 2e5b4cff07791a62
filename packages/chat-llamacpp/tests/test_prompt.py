from __future__ import annotations

import json
from typing import Any

import pytest
from chat_llamacpp.prompt import TEXT, example, with_prompt

PAY: dict[str, Any] = {
    "name": "pay",
    "description": "Pay somebody money.",
    "parameters": {"type": "object", "properties": {"to": {"type": "string"}, "cents": {"type": "integer"}}},
}


def said(messages: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(message["role"], message["content"]) for message in messages]


def test_functions_are_described_after_the_system_message() -> None:
    conversation = [{"role": "user", "content": "Hi."}, {"role": "system", "content": "Be brief."}]

    messages = with_prompt([{"role": "system", "content": "Be kind."}, *conversation], [PAY], None)

    role, content = said(messages)[0]
    assert role == "system"
    assert content.split("\n") == [
        "Be kind.",
        "Be brief.",
        "You can call these functions:",
        "- pay(to: string, cents: integer): Pay somebody money.",
        "Answer with one JSON object: a call if a function fits, else what you say.",
    ]
    assert said(messages)[-1] == ("user", "Hi.")
    assert [role for role, _ in said(messages)].count("system") == 1


def test_examples_show_text_first_and_after_each_call_if_text_is_allowed() -> None:
    shown = [content for role, content in said(with_prompt([], [PAY], TEXT)) if role == "assistant"]

    assert [list(json.loads(content)) for content in shown] == [["say"], ["call", "arguments"], ["say"]]
    assert json.loads(shown[1]) == {"call": "pay", "arguments": {"to": "Ann", "cents": 12}}


def test_examples_show_only_calls_if_text_is_not_allowed() -> None:
    shown = [content for role, content in said(with_prompt([], [PAY], None)) if role == "assistant"]

    assert [list(json.loads(content)) for content in shown] == [["call", "arguments"]]


def test_the_text_example_follows_the_output_schema() -> None:
    saying = {"type": "object", "properties": {"city": {"type": "string"}}}
    shown = [content for role, content in said(with_prompt([], [PAY], saying)) if role == "assistant"]

    assert json.loads(shown[0]) == {"say": {"city": "London"}}
    assert json.loads(said(with_prompt([], [PAY], {"type": "integer"}))[2][1]) == {"say": 12}


def test_only_three_functions_have_examples_but_all_are_described() -> None:
    functions = [{"name": f"f{n}"} for n in range(5)]
    messages = said(with_prompt([], functions, None))

    assert [json.loads(content)["call"] for role, content in messages if role == "assistant"] == ["f0", "f1", "f2"]
    assert "- f4()\n" in messages[0][1]
    assert messages[1] == ("user", "f0 (f0)")


def test_the_type_of_a_parameter_is_resolved_from_its_schema() -> None:
    parameters = {
        "properties": {"a": {"$ref": "#/$defs/A"}, "b": {"type": ["string", "null"]}, "c": True},
        "$defs": {"A": {"type": "object"}},
    }
    messages = with_prompt([], [{"name": "f", "parameters": parameters}], None)

    assert "- f(a: object, b: any, c: any)\n" in messages[0]["content"]


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"const": 5}, 5),
        ({"type": "integer", "default": 7}, 7),
        ({"enum": ["a", "b"]}, "a"),
        ({"type": "string", "examples": ["Bo"]}, "Bo"),
        ({"anyOf": [{"type": "number"}, {"type": "null"}]}, 1.5),
        ({"type": ["boolean", "null"]}, True),
        ({"type": "array", "items": {"type": "integer"}}, [12]),
        ({"type": "array"}, ["Ann"]),
        ({"type": "array", "prefixItems": [{"type": "integer"}, {"type": "null"}]}, [12, None]),
        ({"type": "string", "format": "date"}, "2030-01-31"),
        ({}, "Ann"),
        ({"properties": {"mail": {"type": "string"}, "born": {"$ref": "#/$defs/D"}}, "$defs": {"D": {"const": 1}}},
         {"mail": "ann@example.com", "born": 1}),
    ],
)  # fmt: skip
def test_an_example_value_is_the_first_value_that_a_schema_allows(schema: dict[str, Any], value: object) -> None:
    assert example(schema) == value


def test_an_example_of_a_recursive_schema_is_finite() -> None:
    node = {"type": "object", "properties": {"next": {"$ref": "#"}}}
    shown = json.dumps(example(node))

    assert 0 < shown.count("next") < 10
