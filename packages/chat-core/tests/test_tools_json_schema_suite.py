"""The JSON Schema Test Suite, drafts 2020-12 and 7, run against the argument checker of raw tools.

`NOT_CLAIMED` lists the groups in which we differ from the suite, with the reason, and no others may differ; a group
that starts to agree must leave the list. Two folders' worth have a rule instead: `format` and `content…` are
annotations, as the drafts have it, so that no document fails for them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from chat_core.errors import UsageError
from chat_core.tools import SchemaChecker

WIRE = Path(os.environ.get("CHAT_WIRE_DIR") or Path(__file__).resolve().parents[4] / "shared" / "wire")
SUITE = WIRE / "suites" / "json-schema-test-suite"
DIALECTS = {
    "draft2020-12": "https://json-schema.org/draft/2020-12/schema",
    "draft7": "http://json-schema.org/draft-07/schema#",
}

if not SUITE.is_dir():
    pytest.skip(f"the JSON Schema Test Suite is not at {SUITE}: set CHAT_WIRE_DIR", allow_module_level=True)

ECMA = "patterns are Python's: no \\p and no \\c, and \\d, \\w and \\s are those of Unicode"
VOCABULARY = "a schema names one of the drafts in $schema; meta-schemas of one's own are refused"
DEPENDENCIES = "`dependencies` left the standard with draft 2019-09 and is optional since"

_ECMA_GROUPS = (
    "ECMA 262 regex escapes control codes with \\c and upper letter",
    "ECMA 262 regex escapes control codes with \\c and lower letter",
    "ECMA 262 \\d matches ascii digits only",
    "ECMA 262 \\D matches everything but ascii digits",
    "ECMA 262 \\w matches ascii letters only",
    "ECMA 262 \\W matches everything but ascii letters",
    "ECMA 262 \\s matches whitespace",
    "ECMA 262 \\S matches everything but whitespace",
    "patterns always use unicode semantics with pattern",
    "\\w in patterns matches [A-Za-z0-9_], not unicode letters",
    "\\d in pattern matches [0-9], not unicode digits",
    "pattern with non-ASCII digits",
    "patterns always use unicode semantics with patternProperties",
    "\\w in patternProperties matches [A-Za-z0-9_], not unicode letters",
    "\\d in patternProperties matches [0-9], not unicode digits",
    "patternProperties with non-ASCII digits",
)
NOT_CLAIMED: dict[tuple[str, str], str] = {
    **{(f"{draft}/optional/ecmascript-regex.json", group): ECMA for draft in DIALECTS for group in _ECMA_GROUPS},
    ("draft2020-12/pattern.json", "pattern with Unicode property escape requires unicode mode"): ECMA,
    ("draft2020-12/patternProperties.json", "patternProperties with Unicode property escape"): ECMA,
    (
        "draft2020-12/vocabulary.json",
        "schema that uses custom metaschema with with no validation vocabulary",
    ): VOCABULARY,
    ("draft2020-12/vocabulary.json", "ignore unrecognized optional vocabulary"): VOCABULARY,
    **{
        (
            "draft2020-12/optional/format-assertion.json",
            f"schema that uses custom metaschema with format-assertion: {way}",
        ): (VOCABULARY)
        for way in ("false", "true")
    },
    **{
        ("draft2020-12/optional/dependencies-compatibility.json", group): DEPENDENCIES
        for group in (
            "single dependency",
            "multiple dependents required",
            "dependencies with escaped characters",
            "single schema dependency",
            "boolean subschemas",
            "schema dependencies with escaped characters",
        )
    },
}

FILES = [path.relative_to(SUITE).as_posix() for draft in DIALECTS for path in sorted((SUITE / draft).rglob("*.json"))]
ANNOTATIONS = [name for name in FILES if "/optional/format/" in name or name == "draft7/optional/content.json"]
ASSERTIONS = [name for name in FILES if name not in ANNOTATIONS]


@cache
def remotes() -> dict[str, Any]:
    """Return the schemas that references of the suite name, which a server on a local port would return."""
    folder = SUITE / "remotes"
    return {
        f"http://localhost:1234/{path.relative_to(folder).as_posix()}": json.loads(path.read_text("utf-8"))
        for path in folder.rglob("*.json")
    }


def groups(name: str) -> Iterator[tuple[str, Any, list[dict[str, Any]]]]:
    dialect = DIALECTS[name.partition("/")[0]]
    for group in json.loads((SUITE / name).read_text("utf-8")):
        schema: Any = group["schema"]
        if not isinstance(schema, bool):
            schema = {"$schema": dialect, **schema}
        yield group["description"], schema, group["tests"]


def differences(schema: Any, tests: list[dict[str, Any]]) -> list[str]:
    try:
        checker = SchemaChecker(schema, resources=remotes())
    except UsageError as error:
        return [f"refused: {error}"]
    return [test["description"] for test in tests if (not checker.problems(test["data"])) != test["valid"]]


def test_json_schema_test_suite_is_complete() -> None:
    assert len(ASSERTIONS) > 85
    assert len(ANNOTATIONS) > 35


@pytest.mark.parametrize("name", ASSERTIONS)
def test_schema_checker_agrees_with_the_suite_except_for_listed_groups(name: str) -> None:
    different = {group: found for group, schema, tests in groups(name) if (found := differences(schema, tests))}
    listed = {group for file, group in NOT_CLAIMED if file == name}
    assert {group: found for group, found in different.items() if group not in listed} == {}
    assert listed - set(different) == set(), "these agree now: take them off the list"


def test_listed_exceptions_name_existing_files() -> None:
    assert {file for file, _ in NOT_CLAIMED} <= set(ASSERTIONS)


@pytest.mark.parametrize("name", ANNOTATIONS)
def test_annotations_never_make_a_document_invalid(name: str) -> None:
    for group, schema, tests in groups(name):
        checker = SchemaChecker(schema, resources=remotes())
        assert [test["description"] for test in tests if checker.problems(test["data"])] == [], group
