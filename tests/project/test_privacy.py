"""Private names stay in their distribution, and private attributes in their class."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from .workspace import MODULES, PACKAGES, ROOT, kept_files, module_id, tree_of

IMPORT_NAMES: Final = {package.import_name for package in PACKAGES}
SOURCES: Final = [module for _, module in MODULES]
PYTHON: Final = [
    file for file in kept_files() if file.suffix == ".py" and not file.is_relative_to(ROOT / "tests" / "stored")
]
IGNORES: Final = ("SLF001", "reportPrivateUsage")
"""Ignores of the private-access rules of the linter and of the type checker."""
DEPENDENCY_PRIVATES: Final = {
    "chat_transport_aiohttp/_connections.py": "aiohttp does not tell whether bytes have arrived on an idle connection",
    "chat_transport_aiohttp/_response.py": "aiohttp hides what it has buffered behind an exception",
    "chat_transport_httpx/_anyio_stream.py": "anyio does not tell whether TLS has received bytes that were not read",
    "chat_transport_httpx/_asyncio_socket.py": "anyio has no public access to the transport of a socket",
    "chat_transport_httpx/_client.py": "httpx has no public access to the connection pool for a URL",
    "chat_transport_httpx/_given_client.py": "httpx has no public setting for the sockets of a client",
    "chat_transport_httpx/_response.py": "httpx does not tell whether the stream of a response was wrapped",
    "chat_transport_httpx/_http2_reset.py": "httpcore cannot reset a stream of HTTP/2 by its public names",
}
"""Modules that use private parts of a dependency, and why."""
FAULT_INJECTION: Final = {
    "conformance/right_transport.py",
    "conformance/test_transport_wrong.py",
    "conformance/wrong_transport_parsers.py",
    "crash/jobs_worker.py",
    "crash/nested_worker.py",
    "crash/store_worker.py",
    "crash/worker.py",
}
"""Tests that break the inside of a transport or of a store, to see that a suite notices."""
NAMED_TUPLE: Final = {"_asdict", "_field_defaults", "_fields", "_make", "_replace"}
"""Public in spite of the underscore: fields have the other names."""


def own_name(file: Path) -> str | None:
    """Return the import name of the distribution that a file belongs to."""
    return next((package.import_name for package in PACKAGES if file.is_relative_to(package.folder)), None)


def is_private(name: str) -> bool:
    return name.startswith("_") and not (name.startswith("__") and name.endswith("__"))


def imported(tree: ast.Module) -> Iterator[str]:
    """Yield the full name of everything that a file imports by an absolute name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def foreign_private_imports(tree: ast.Module, own: str | None, *, dependencies: bool) -> list[str]:
    """Return the private names that a file imports from other distributions of the workspace, or from anywhere else."""
    return [
        name
        for name in imported(tree)
        if (root := name.split(".")[0]) != own
        and (dependencies or root in IMPORT_NAMES)
        and any(map(is_private, name.split(".")))
    ]


def private_strings(tree: ast.Module) -> list[str]:
    """Return the private names that are read by `getattr()` or written by `setattr()`, past the linter's rule."""
    return [
        str(node.args[1].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("getattr", "setattr", "hasattr", "delattr")
        and len(node.args) > 1
        and isinstance(node.args[1], ast.Constant)
        and isinstance(node.args[1].value, str)
        and is_private(node.args[1].value)
        and node.args[1].value not in NAMED_TUPLE
    ]


def private_accesses(*paths: Path) -> list[str]:
    """Return every access to a private attribute of something else than self or cls, ignored or not."""
    command = [sys.executable, "-m", "ruff", "check", "--isolated", "--select", "SLF001", "--ignore-noqa", "--no-cache"]
    answer = subprocess.run(
        [*command, "--output-format", "json", *map(str, paths)], cwd=ROOT, check=False, capture_output=True, text=True
    )
    return [f"{found['filename']}:{found['location']['row']}" for found in json.loads(answer.stdout)]


def uses_dependency_privates(file: Path) -> bool:
    return any(file.as_posix().endswith(f"/{known}") for known in DEPENDENCY_PRIVATES)


def has_strict_imports(file: Path) -> bool:
    """Whether a file may not even import private names of dependencies."""
    return file in SOURCES and not uses_dependency_privates(file)


def test_no_file_imports_private_names_of_another_distribution() -> None:
    found = {
        module_id(file): names
        for file in PYTHON
        if (names := foreign_private_imports(tree_of(file), own_name(file), dependencies=has_strict_imports(file)))
    }

    assert {file: names for file, names in found.items() if file.removeprefix("tests/") not in FAULT_INJECTION} == {}


def test_no_module_reads_private_attributes_of_other_objects() -> None:
    found = private_accesses(*[package.source for package in PACKAGES])

    assert [place for place in found if not uses_dependency_privates(Path(place.rpartition(":")[0]))] == []


def test_no_module_circumvents_the_privacy_rule() -> None:
    files = [file for file in SOURCES if not uses_dependency_privates(file)]
    ignores = [module_id(file) for file in files if re.search("|".join(IGNORES), file.read_text(encoding="utf-8"))]
    strings = {module_id(file): names for file in files if (names := private_strings(tree_of(file)))}

    assert ignores == []
    assert strings == {}


def test_each_privacy_exception_is_still_needed() -> None:
    for file in filter(uses_dependency_privates, SOURCES):
        tree = tree_of(file)
        assert foreign_private_imports(tree, own_name(file), dependencies=True) or private_strings(tree)
        assert foreign_private_imports(tree, own_name(file), dependencies=False) == []
    assert len(list(filter(uses_dependency_privates, SOURCES))) == len(DEPENDENCY_PRIVATES)


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("from chat_core._loop import Task", ["chat_core._loop.Task"]),
        ("from chat_core.chat import _close", ["chat_core.chat._close"]),
        ("import chat_core.messages._fields", ["chat_core.messages._fields"]),
        ("from chat_store._journal import Journal", []),
        ("from chat_core.chat import Chat", []),
        ("from __future__ import annotations", []),
        ("from hashlib import _Hash", ["hashlib._Hash"]),
    ],
)
def test_a_private_import_is_found(source: str, found: list[str]) -> None:
    assert foreign_private_imports(ast.parse(source), "chat_store", dependencies=True) == found


def test_private_names_of_dependencies_are_allowed_in_tests() -> None:
    assert foreign_private_imports(ast.parse("from hashlib import _Hash"), None, dependencies=False) == []


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("def plan(chat: object) -> object:\n    return chat._plan\n", [2]),
        ("def plan(chat: object) -> object:\n    return chat._plan  # noqa: SLF001\n", [2]),
        ("class A:\n    def a(self) -> object:\n        return self._a\n", []),
    ],
)
def test_a_private_access_is_found(source: str, lines: list[int], tmp_path: Path) -> None:
    file = tmp_path / "example.py"
    file.write_text(source, encoding="utf-8")

    assert private_accesses(file) == [f"{file}:{line}" for line in lines]


def test_a_private_name_in_a_string_is_found() -> None:
    source = "getattr(chat, '_plan', None); setattr(chat, '_plan', 1); getattr(chat, 'plan'); getattr(chat, name)"

    assert private_strings(ast.parse(source)) == ["_plan", "_plan"]
