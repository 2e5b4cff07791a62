"""The page of public names lists the current names, and explains each earlier name that is gone.

`python -m tests.project.public_names` prints the tables of the page.
"""

from __future__ import annotations

import re
from typing import Final

from .public_names import count_rows, current_names, gone_names, new_rows, summary
from .workspace import ROOT

PAGE: Final = ROOT / "docs" / "maintainers" / "public-names.md"
SECTIONS: Final = {"Removed": (0, 0), "Renamed": (0, 1), "Moved": (1, 0)}
"""For each section, the columns with the package and with the earlier names. In `Removed`, one column has both."""


def table(heading: str) -> list[str]:
    """Return the rows of the table after a line of the page."""
    lines = [*PAGE.read_text(encoding="utf-8").splitlines(), ""]
    start = next(index for index in range(lines.index(heading), len(lines)) if lines[index].startswith("|"))
    end = next(index for index in range(start, len(lines)) if not lines[index].startswith("|"))
    return lines[start + 2 : end]


def code(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def explained(section: str) -> list[tuple[str, str]]:
    """Return the package and the name of each earlier name in a section."""
    package_column, name_column = SECTIONS[section]
    found: list[tuple[str, str]] = []
    for row in table(f"## {section}"):
        cells = row.strip("|").split("|")
        names = code(cells[name_column])
        package = names.pop() if package_column == name_column else code(cells[package_column])[0]
        found += [(package, name) for name in names]
    return found


def test_the_page_counts_the_names_of_every_package() -> None:
    now = current_names()

    assert len(now) > 40
    assert summary(now) in PAGE.read_text(encoding="utf-8").replace("\n", " ")
    assert table("# Public names before and after the redesign") == count_rows(now), "\n".join(count_rows(now))


def test_the_page_lists_every_new_name() -> None:
    rows = new_rows(current_names())

    assert table("## New") == rows, "\n".join(rows)


def test_every_missing_name_was_removed_renamed_or_moved() -> None:
    places = [place for section in SECTIONS for place in explained(section)]

    assert len(places) == len(set(places))
    assert set(places) == gone_names(current_names())


def test_every_replacement_of_a_removed_or_renamed_name_exists() -> None:
    now = {name for names in current_names().values() for name in names}
    rows = [row.strip("|").split("|") for section in ("Removed", "Renamed") for row in table(f"## {section}")]
    replacements = [
        f"{name}Error" if "the same with" in row[-1] else replacement.rpartition(".")[2]
        for row in rows
        for name in (code(row[-2]) if "the same with" in row[-1] else [""])
        for replacement in code(row[-1])
        if replacement.replace(".", "").isidentifier()
    ]

    assert len(replacements) > 40
    assert [name for name in replacements if name not in now] == []
