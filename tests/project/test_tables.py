"""The tables for maintainers contain all tests and mutants, and only those that exist."""

from __future__ import annotations

import ast
import re
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from .workspace import ROOT, tree_of

PAGES: Final = {name: ROOT / "docs" / "maintainers" / f"{name}.md" for name in ("bugs", "promises", "faults")}
MUTANTS: Final = {
    entry["name"]: entry
    for file in sorted((ROOT / "tests" / "mutants").glob("*.toml"))
    for entry in tomllib.loads(file.read_text(encoding="utf-8"))["mutant"]
}
NUMBERS: Final = [str(number) for number in range(1, 43)]
FAULTS: Final = {
    f"{group}{number}"
    for group, count in {"E": 12, "W": 12, "U": 8, "P": 7, "T": 7, "D": 10, "S": 12}.items()
    for number in range(1, count + 1)
}


@dataclass(frozen=True)
class Row:
    """A row of a table: its first cells, its tests and its mutants."""

    words: tuple[str, ...]
    tests: tuple[str, ...]
    mutants: tuple[str, ...]


def rows(page: Path) -> list[Row]:
    """Return the rows of the tables of a page. The last two cells contain tests and mutants, or a dash."""
    found: list[Row] = []
    for line in page.read_text(encoding="utf-8").splitlines():
        if line.startswith("| "):
            *words, tests, mutants = [cell.strip() for cell in line.strip("|").split("|")]
            if tests == "-" or "`" in tests:
                found.append(Row(tuple(words), tuple(names(tests)), tuple(names(mutants))))
    return found


def names(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


ROWS: Final = {name: rows(page) for name, page in PAGES.items()}
ALL: Final = [row for table in ROWS.values() for row in table]


@cache
def functions_of(file: Path) -> frozenset[str]:
    nodes = ast.walk(tree_of(file)) if file.is_file() else ()
    return frozenset(node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


@cache
def classes_of(file: Path) -> frozenset[str]:
    nodes = ast.walk(tree_of(file)) if file.is_file() else ()
    return frozenset(node.name for node in nodes if isinstance(node, ast.ClassDef))


@cache
def scenarios() -> frozenset[str]:
    """Return the scenarios of the suites, from which their classes create tests."""
    kits = [*ROOT.glob("packages/*/src/*/testing/**/*.py"), *ROOT.glob("packages/*/src/*/*_conformance/*.py")]
    return frozenset(f"test_{name}" for file in kits for name in functions_of(file))


def is_there(test: str) -> bool:
    path, *name = test.split("::")
    file = ROOT / path
    if len(name) == 1:
        return name[0] in functions_of(file)
    return len(name) == 2 and name[0] in classes_of(file) and name[1] in functions_of(file) | scenarios()


def missing(tests: tuple[str, ...]) -> list[str]:
    return [test for test in tests if not is_there(test)]


def test_every_test_named_by_a_table_exists() -> None:
    assert {row.words: lost for row in ALL if (lost := missing(row.tests))} == {}


def test_every_bug_has_a_row_with_a_test_and_a_mutant() -> None:
    table = ROWS["bugs"]

    assert [row.words[0] for row in table] == NUMBERS
    assert [row.words[0] for row in table if not (row.tests and row.mutants)] == []


def test_every_promise_has_a_test_or_is_marked_as_not_built() -> None:
    table = ROWS["promises"]

    assert len(table) > 150
    assert [row.words for row in table if not row.tests and "not built yet" not in row.words[0]] == []


def test_every_fault_has_one_number_and_a_test() -> None:
    table = ROWS["faults"]
    numbers = [row.words[0] for row in table]

    assert {number.rstrip("abcdefghijk") for number in numbers} == FAULTS
    assert len(set(numbers)) == len(numbers)
    assert [row.words[0] for row in table if not row.tests] == []


def test_every_fault_has_a_mutant_or_the_reason_why_it_has_none() -> None:
    lines = PAGES["faults"].read_text(encoding="utf-8").splitlines()

    assert [line.split("|")[1].strip() for line in lines if line.endswith("| - |")] == []


def test_the_tables_name_all_existing_mutants() -> None:
    # Each mutant breaks a promise or introduces a defect. The page of faults names some of these mutants again.
    assert {name for page in ("bugs", "promises") for row in ROWS[page] for name in row.mutants} == set(MUTANTS)
    assert {name for row in ROWS["faults"] for name in row.mutants} <= set(MUTANTS)


def test_a_row_names_the_tests_of_its_mutants() -> None:
    left_out = {
        (*row.words, name): lost
        for row in ALL
        for name in row.mutants
        if (lost := {test.partition("[")[0] for test in MUTANTS[name]["tests"]} - set(row.tests))
    }

    assert left_out == {}


@pytest.mark.parametrize("mutant", MUTANTS.values(), ids=lambda mutant: mutant["name"])
def test_a_mutant_applies_to_the_current_source(mutant: dict[str, str]) -> None:
    source = (ROOT / mutant["file"]).read_text(encoding="utf-8")

    assert source.count(mutant["find"]) == 1
    if mutant["file"].endswith(".py"):
        compile(source.replace(mutant["find"], mutant["put"]), mutant["file"], "exec", dont_inherit=True)
