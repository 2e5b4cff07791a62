"""Public names of the workspace now, and at commit 57cd8b0, for the maintainers' page about them."""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping
from typing import Final

from .workspace import MODULES, ROOT, tree_of

BEFORE: Final[Mapping[str, list[str]]] = json.loads(
    (ROOT / "tests" / "project" / "names_57cd8b0.json").read_text(encoding="utf-8")
)
"""Names in `__all__` of each package at commit 57cd8b0."""


def current_names() -> dict[str, list[str]]:
    """Return the names in `__all__` of each package that has it, without names that begin with an underscore."""
    found: dict[str, list[str]] = {}
    for package, module in MODULES:
        if module.name == "__init__.py":
            for node in tree_of(module).body:
                if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
                    names: list[str] = ast.literal_eval(node.value)
                    name = ".".join(module.parent.relative_to(package.source.parent).parts)
                    found[name] = sorted([item for item in names if not item.startswith("_")])
    return found


def summary(now: Mapping[str, list[str]]) -> str:
    """Return the sentence with the total numbers of names.

    Args:
        now: the current names of each package.
    """
    (names, packages), (before, earlier) = ((sum(map(len, page.values())), len(page)) for page in (now, BEFORE))
    return f"Before, {before} names in {earlier} packages; now, {names} in {packages}."


def count_rows(now: Mapping[str, list[str]]) -> list[str]:
    """Return the row of each package: names before, names now, names that are gone, and names that are new.

    Args:
        now: the current names of each package.
    """
    rows: list[str] = []
    for package in sorted({*BEFORE, *now}):
        before, after = set(BEFORE.get(package, ())), set(now.get(package, ()))
        numbers = (len(before) or "-", len(after) or "-", len(before - after) or "", len(after - before) or "")
        rows.append(f"| `{package}` | {' | '.join(map(str, numbers))} |")
    return rows


def new_rows(now: Mapping[str, list[str]]) -> list[str]:
    """Return the row of each package with its new names.

    Args:
        now: the current names of each package.
    """
    new = {package: sorted({*names} - {*BEFORE.get(package, ())}) for package, names in sorted(now.items())}
    return [
        f"| `{package}` | {', '.join([f'`{name}`' for name in names])} |" for package, names in new.items() if names
    ]


def gone_names(now: Mapping[str, list[str]]) -> set[tuple[str, str]]:
    """Return the package and the name of each earlier name that its package no longer has.

    Args:
        now: the current names of each package.
    """
    return {(package, name) for package, names in BEFORE.items() for name in names if name not in now.get(package, ())}


if __name__ == "__main__":
    NAMES = current_names()
    print(summary(NAMES), "", *count_rows(NAMES), "", *new_rows(NAMES), sep="\n")
