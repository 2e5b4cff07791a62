"""The page of presets agrees with the presets, and each fact has a source or is marked as having none."""

from __future__ import annotations

from typing import Final

from .presets_page import ALL, DIFFERENCES, FACTS, source_rows, vendor_rows
from .workspace import ROOT

PAGE: Final = ROOT / "docs" / "reference" / "presets.md"


def found(columns: int, after: str) -> list[str]:
    """Return the rows of the table that has this heading row and number of columns."""
    lines = [*PAGE.read_text(encoding="utf-8").splitlines(), ""]
    start = lines.index(after) + 2
    assert lines[start - 1].count("|") == columns + 1
    end = next(index for index in range(start, len(lines)) if not lines[index].startswith("|"))
    return lines[start:end]


def test_the_vendor_table_matches_the_presets() -> None:
    rows = vendor_rows()
    assert found(7, "| vendor | name | base URL | key | embeddings | differences | recorded |") == rows, "\n".join(rows)


def test_the_source_table_matches_the_presets() -> None:
    rows = source_rows()
    assert found(4, "| vendor | facts | source | checked |") == rows, "\n".join(rows)


def test_every_difference_and_fact_of_a_preset_has_a_description() -> None:
    assert {name for preset in ALL for name in preset.differences} == set(DIFFERENCES)
    assert {fact for preset in ALL for fact in preset.facts} == set(FACTS)
