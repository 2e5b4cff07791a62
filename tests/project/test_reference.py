"""The reference pages are complete and agree with the code."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest
from chat_core import errors

from .capabilities import PROVIDERS, TRANSPORTS
from .reference import PAGES, PART, PARTS, error_classes, written
from .workspace import PACKAGES, ROOT, module_id

REFERENCE = sorted(PAGES.glob("*.md"))
ERRORS = (PAGES / "errors.md").read_text(encoding="utf-8")


def section(name: str) -> str:
    found = re.search(rf"^### `{name}`\n(.*?)(?=^###? |\Z)", ERRORS, re.MULTILINE | re.DOTALL)
    return found[1] if found else ""


@pytest.mark.parametrize("page", REFERENCE, ids=module_id)
def test_the_reference_tables_match_the_code(page: Path) -> None:
    text = page.read_text(encoding="utf-8")

    assert text == written(text), "write it anew: python -m tests.project.reference"


def test_every_generated_table_is_on_one_page() -> None:
    found = [match["name"] for page in REFERENCE for match in PART.finditer(page.read_text(encoding="utf-8"))]

    assert sorted(found) == sorted(PARTS)


@pytest.mark.parametrize("part", PARTS)
def test_every_row_of_a_generated_table_has_a_description(part: str) -> None:
    silent = [row for row in PARTS[part]().splitlines() if row.endswith("|  |")]

    assert silent == []


@pytest.mark.parametrize("kind", error_classes(), ids=lambda kind: kind.__name__)
def test_every_error_has_a_section_with_an_example_and_a_remedy(kind: type[Exception]) -> None:
    text = section(kind.__name__)

    assert re.search(rf"^ *except \(?{kind.__name__}\b.* as error:$", text, re.MULTILINE)
    assert "```text\n" in text
    assert "**What to do.**" in text


@pytest.mark.parametrize("kind", error_classes(), ids=lambda kind: kind.__name__)
def test_an_error_is_documented_as_retryable_if_it_is(kind: type[Exception]) -> None:
    says = "*Retryable.*" in section(kind.__name__)

    assert says == bool(getattr(kind, "retryable", False))


def test_the_module_docstring_names_every_error() -> None:
    drawn = set(re.findall(r"\b[A-Z]\w+", errors.__doc__ or ""))

    assert {kind.__name__ for kind in error_classes()} <= drawn


def test_every_provider_package_has_a_column_of_capabilities() -> None:
    read = [(ROOT / file).read_text(encoding="utf-8") for files in PROVIDERS.values() for file in files]
    packages = [package.import_name for package in PACKAGES if package.name != "chat-core"]
    building = {
        name
        for name in packages
        if any(word.endswith("Builder") for word in getattr(importlib.import_module(name), "__all__", ()))
    }

    assert {"chat_claude", "chat_llamacpp"} <= building
    assert {name for name in building if not any(f"from {name} import " in text for text in read)} == set()


def test_every_transport_has_a_column_of_capabilities() -> None:
    transports = [package.name for package in PACKAGES if package.folder.parent.name == "transports"]

    assert sorted(transports) == sorted(f"chat-transport-{name}" for name in TRANSPORTS)
