"""Imports for type checkers or in functions that close an import cycle between parts of a package have a reason.

The contracts of the linter check imports at run time. A cycle that `if TYPE_CHECKING` or an import in a function hides
still couples its modules: none can be understood or moved without the others. The modules of one folder are one part.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import pytest

from .workspace import MODULES, tree_of

MARK: Final = "# circular: "
"""Begins the comment behind an import that closes a circle; the reason follows."""


def module_name(source: Path, file: Path) -> str:
    return ".".join(file.relative_to(source.parent).with_suffix("").parts).removesuffix(".__init__")


FILES: Final = {module_name(package.source, file): file for package, file in MODULES}


def imports(tree: ast.Module, known: Mapping[str, object]) -> Iterator[tuple[ast.stmt, str]]:
    """Yield every import of a known module, with the module's name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                yield from ((node, name) for name in [full if full in known else node.module] if name in known)
        elif isinstance(node, ast.Import):
            yield from ((node, alias.name) for alias in node.names if alias.name in known)


def part(name: str) -> str:
    """Return the part of a package that a module belongs to: `chat_core.messages` for `chat_core.messages.tool`."""
    return ".".join(name.split(".")[:2])


def reachable(start: str, graph: Mapping[str, set[str]]) -> set[str]:
    found: set[str] = set()
    waiting = [start]
    while waiting:
        for name in graph[waiting.pop()] - found:
            found.add(name)
            waiting.append(name)
    return found


def unmarked(trees: Mapping[str, ast.Module], texts: Mapping[str, str]) -> list[str]:
    """Return the hidden imports that close a cycle and have no comment that begins with `MARK`."""
    graph = {name: {target for _, target in imports(tree, trees)} - {name} for name, tree in trees.items()}
    circular = {name: reachable(name, graph) for name in trees}
    found: list[str] = []
    for name, tree in trees.items():
        at_run_time = {id(node) for node in tree.body}
        lines = texts[name].splitlines()
        found += [
            f"{name}:{node.lineno} imports {target}"
            for node, target in imports(tree, trees)
            if id(node) not in at_run_time and part(name) != part(target)
            if name in circular[target] and MARK not in lines[node.lineno - 1]
        ]
    return sorted(set(found))


def test_every_deferred_import_in_a_cycle_has_a_reason() -> None:
    fronts = {"chat_core"}  # it imports its names when they are used, and is imported by none of its modules
    texts = {name: file.read_text(encoding="utf-8") for name, file in FILES.items() if name not in fronts}

    assert unmarked({name: tree_of(FILES[name]) for name in texts}, texts) == []


@pytest.mark.parametrize(
    ("comment", "found"),
    [("", ["a:3 imports b"]), ("  # circular: a value of b is in a", [])],
)
def test_an_unmarked_import_cycle_is_found(comment: str, found: list[str]) -> None:
    texts = {
        "a": f"from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import b{comment}\n",
        "b": "import a\n",
        "c": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import a\n",
    }

    assert unmarked({name: ast.parse(text) for name, text in texts.items()}, texts) == found
