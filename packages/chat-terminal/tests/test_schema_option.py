"""The option `--schema`: its forms, its output and its errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

SCHEMA = {
    "type": "object",
    "properties": {"name": {"$ref": "#/$defs/Name"}, "tags": {"type": "array", "items": {"$ref": "#/$defs/Name"}}},
    "required": ["name"],
    "$defs": {"Name": {"type": "string", "minLength": 2}},
}

MODULE = """
from dataclasses import dataclass

from chat_core.testing import ScriptedProvider


@dataclass
class Person:
    name: str
    age: int


good = ScriptedProvider('{"name": "Ana", "age": 41}')
corrected = ScriptedProvider('{"name": "Ana", "age": "old"}', '{"name": "Ana", "age": 41}')
bad = ScriptedProvider(*['{"name": "A"}'] * 3)
named = ScriptedProvider('{"name": "Ana"}')
"""


@pytest.fixture
def ask(chat: Any, user_dir: Any) -> Any:
    (user_dir.folder / "people.py").write_text(MODULE)

    def run(model: str, schema: str, *words: str) -> Any:
        return chat(
            "Describe Ana.", "--model", f"python:{user_dir.folder}/people.py:{model}", "--schema", schema, *words
        )

    return run


FORMS = {
    "fields": "name, age int",
    "fields on lines": "name: the first name\nage int: in years\n",
    "a JSON Schema": json.dumps({"type": "object", "properties": {"name": {"type": "string"}}, "required": ["age"]}),
}


@pytest.mark.parametrize("schema", FORMS.values(), ids=list(FORMS))
def test_the_validated_value_is_printed_as_json(ask: Any, schema: str) -> None:
    ended = ask("good", schema)

    assert (ended.code, ended.out) == (0, '{\n  "name": "Ana",\n  "age": 41\n}\n')


def test_a_python_type_is_a_schema(ask: Any, user_dir: Any) -> None:
    assert json.loads(ask("good", f"python:{user_dir.folder}/people.py:Person").out) == {"name": "Ana", "age": 41}


def test_a_file_contains_the_schema(ask: Any, tmp_path: Path) -> None:
    (tmp_path / "person.json").write_text(json.dumps(SCHEMA))

    assert json.loads(ask("named", str(tmp_path / "person.json")).out) == {"name": "Ana"}


def test_an_invalid_response_is_corrected_and_only_the_correct_one_is_printed(ask: Any) -> None:
    assert json.loads(ask("corrected", "name, age int").out) == {"name": "Ana", "age": 41}


def test_a_response_that_stays_invalid_is_an_error(ask: Any) -> None:
    ended = ask("bad", json.dumps(SCHEMA))

    assert (ended.code, ended.out) == (1, "")
    assert "InvalidResponseError" in ended.err
    assert "'A' is too short" in ended.err


def test_json_output_contains_the_value(ask: Any) -> None:
    document = json.loads(ask("good", "name, age int", "--json").out)

    assert (document["status"], document["value"]) == ("answered", {"name": "Ana", "age": 41})


ERRORS = {
    "a field with an unknown type": ("name, age number", "does not accept the field 'age number'"),
    "no fields": (" , ", "needs at least one field"),
    "text that is not JSON": ("{name}", "--schema is not JSON"),
    "a JSON Schema of a list": ('{"type": "array"}', '"type": "object"'),
    "an invalid JSON Schema": ('{"type": "object", "required": 3}', "--schema: the schema is not valid at"),
    "a recursive JSON Schema": (
        json.dumps(
            {"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": {"$ref": "#/$defs/A"}}}
        ),
        "not recursively; it refers to '#/$defs/A'",
    ),
    "a reference to the root": (
        json.dumps({"type": "object", "properties": {"next": {"$ref": "#"}}}),
        "may refer only to $defs",
    ),
    "a file that does not exist": ("missing.json", "--schema missing.json cannot be read"),
    "a module that does not exist": ("python:nowhere:Person", "nowhere cannot be imported"),
    "a name that is not in the module": ("python:json:Person", "there is no type 'Person'"),
}


@pytest.mark.parametrize(("schema", "words"), ERRORS.values(), ids=list(ERRORS))
def test_an_unusable_schema_is_a_usage_error(ask: Any, schema: str, words: str) -> None:
    ended = ask("good", schema)

    assert (ended.code, ended.out) == (2, "")
    assert words in ended.err
