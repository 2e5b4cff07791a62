"""Each package declares exactly what it imports. Lock files contain hashes and no URLs."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from .workspace import PACKAGES, ROOT, VERSION, Package, module_id, tree_of

LOCKS = sorted((ROOT / "requirements").glob("*.txt"))
DECLARING = [ROOT / "pyproject.toml", *(package.folder / "pyproject.toml" for package in PACKAGES)]
PART_OF = {"pydantic-core": "pydantic", "referencing": "jsonschema", "jsonschema-specifications": "jsonschema"}
"""What a declared package brings, and tells its users to import."""
IMPORTED_BY_OTHERS = {
    "chat-service": {"websockets"},
    "chat-transport-httpx": {"sniffio"},
    "chat-terminal": {"chat-claude", "chat-completions", "chat-gemini", "chat-llamacpp", "chat-openai"},
}
"""Packages that only a dependency imports: httpcore declares sniffio only for trio, but imports it at each lock, and
`chat_core.model()` imports the vendors of the terminal."""
NOT_BUILDERS = {"MissingKeyError", "without_secrets"}
"""Names of `chat_core.wire.connection` that build no model."""
WITHOUT_HTTP = {"chat-core", "chat-realtime"}
"""Packages whose models need no HTTP transport: the sessions of chat-realtime use WebSocket connections."""
PRIVATE_PARTS = {"chat-core": {"anyio"}, "chat-mcp-tools": {"mcp"}, "chat-transport-httpx": {"httpcore", "httpx"}}
"""Dependencies that a package uses private parts of."""
CORE_DEPENDENCIES = {"anyio", "docstring-parser", "jsonschema", "pydantic", "typing-extensions"}


def declared(package: Package) -> dict[str, Requirement]:
    """Return the dependencies of a package, without extras."""
    texts = [text for table in dependency_tables(package) for text in table.get("dependencies", [])]
    requirements = [Requirement(text.replace("{{ version }}", VERSION)) for text in texts]
    return {canonicalize_name(r.name): r for r in requirements}


def dependency_tables(package: Package) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the tables with the dependencies of a package.

    They are read from the source, because an editable install lacks what was added later.
    """
    document = tomllib.loads((package.folder / "pyproject.toml").read_text(encoding="utf-8"))
    hooks = document["tool"]["hatch"].get("metadata", {}).get("hooks", {})
    return document["project"], hooks.get("uv-dynamic-versioning", {})


def optional(package: Package) -> set[str]:
    """Return the dependencies in the extras of a package, which its source may import on demand."""
    tables = dependency_tables(package)
    extras = {name: texts for table in tables for name, texts in table.get("optional-dependencies", {}).items()}
    texts = [text.replace("{{ version }}", VERSION) for texts in extras.values() for text in texts]
    return {canonicalize_name(Requirement(text).name) for text in texts}


def imported(package: Package) -> set[str]:
    """Return the distributions that a package imports, anywhere in its source."""
    names: set[str] = set()
    for module in package.modules:
        for node in ast.walk(tree_of(module)):
            if isinstance(node, ast.Import):
                names |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names.add(node.module.split(".")[0])
                # Its builders load the default transport by name; a wheel that offers one brings the transport.
                builds = node.module == "chat_core.wire.connection" and {a.name for a in node.names} - NOT_BUILDERS
                names |= {"chat_transport_httpx"} if builds and package.name not in WITHOUT_HTTP else set()
    names -= {package.import_name, *sys.stdlib_module_names}
    own = {other.import_name: other.name for other in PACKAGES}
    found = packages_distributions()
    known = set(declared(package))
    distributions: set[str] = set()
    for name in names:
        # Several distributions may have their modules in one name: then it is the declared one that is meant.
        owners = [canonicalize_name(owner) for owner in ([own[name]] if name in own else found.get(name, [name]))]
        distributions.add(next((owner for owner in owners if owner in known), owners[0]))
    return {PART_OF.get(name, name) for name in distributions}


def pins(lock: Path) -> dict[str, list[str]]:
    lines = [line for line in lock.read_text(encoding="utf-8").splitlines() if "==" in line]
    found: dict[str, list[str]] = {}
    for name, version in (re.split(r"==|[ ;\\]", line, maxsplit=2)[:2] for line in lines):
        found.setdefault(canonicalize_name(name), []).append(version)
    return found


def met(requirement: Requirement, locked: dict[str, list[str]]) -> bool:
    versions = locked.get(canonicalize_name(requirement.name), [])
    return bool(versions) and all(version in requirement.specifier for version in versions)


@pytest.mark.parametrize("package", PACKAGES, ids=module_id)
def test_a_package_declares_exactly_what_it_imports(package: Package) -> None:
    used = imported(package) - (optional(package) - set(declared(package)))

    assert used | IMPORTED_BY_OTHERS.get(package.name, set()) == set(declared(package))


def test_the_core_depends_on_five_packages() -> None:
    assert set(declared(PACKAGES[[p.name for p in PACKAGES].index("chat-core")])) == CORE_DEPENDENCIES


@pytest.mark.parametrize("package", PACKAGES, ids=module_id)
def test_packages_of_one_release_are_pinned_to_each_other(package: Package) -> None:
    siblings = {name: r for name, r in declared(package).items() if name in {p.name for p in PACKAGES}}

    assert {str(r.specifier) for r in siblings.values()} <= {f"=={VERSION}"}


@pytest.mark.parametrize("package", PACKAGES, ids=module_id)
def test_every_other_dependency_has_a_lower_bound(package: Package) -> None:
    others = [r for name, r in declared(package).items() if name not in {p.name for p in PACKAGES}]

    assert [str(r) for r in others if ">=" not in {one.operator for one in r.specifier}] == []


@pytest.mark.parametrize("package", [package for package in PACKAGES if package.name in PRIVATE_PARTS], ids=module_id)
def test_a_dependency_whose_private_parts_are_used_has_an_upper_bound(package: Package) -> None:
    found = declared(package)
    bounded = {name for name, one in found.items() if "<" in {specifier.operator for specifier in one.specifier}}

    assert bounded >= PRIVATE_PARTS[package.name]


def test_the_benchmark_runs_with_the_packages_that_a_user_installs() -> None:
    functions = {node.name: node for node in tree_of(ROOT / "noxfile.py").body if isinstance(node, ast.FunctionDef)}
    calls = [ast.unparse(node) for node in ast.walk(functions["bench"]) if isinstance(node, ast.Call)]

    # Without a group, `_install()` installs the runtime and the tools that build the packages.
    assert [call for call in calls if call.startswith("_install(")] == ["_install(session)"]


def test_the_documented_versions_of_type_checkers_are_those_that_are_run() -> None:
    page = (ROOT / "docs" / "concepts" / "types.md").read_text(encoding="utf-8")
    documented = re.findall(r"^\| (\w+)[^|]* \| ([\d.]+) or newer \|", page, re.MULTILINE)
    program = (ROOT / "tests" / "types" / "oldest.py").read_text(encoding="utf-8")
    installed = dict(re.findall(r'"(\w+)==([\d.]+)"', program))

    assert {name for name, _ in documented} == set(installed)
    assert [name for name, version in documented if not f"{installed[name]}.".startswith(f"{version}.")] == []


@pytest.mark.parametrize("file", DECLARING, ids=module_id)
def test_every_dependency_has_a_comment_with_its_reason(file: Path) -> None:
    lines = [line.strip() for line in file.read_text(encoding="utf-8").splitlines()]
    dependencies = [line for line in lines if re.match(r'"[a-z][\w.\[\]-]*(>=|==)', line)]

    assert dependencies
    assert [line for line in dependencies if "# " not in line] == []


@pytest.mark.parametrize("lock", LOCKS, ids=module_id)
def test_a_lock_file_has_a_hash_for_every_line_and_no_url(lock: Path) -> None:
    text = lock.read_text(encoding="utf-8")
    requirements = text.replace("\\\n", " ").strip().splitlines()

    assert [line for line in requirements if "--hash=sha256:" not in line] == []
    assert "://" not in text
    assert "--index" not in text
    assert not re.search(r"\.(org|com|net|io)\b", text)


@pytest.mark.parametrize("package", PACKAGES, ids=module_id)
def test_the_runtime_lock_satisfies_the_dependencies_of_a_package(package: Package) -> None:
    locked = pins(ROOT / "requirements" / "runtime.txt")
    others = {name: r for name, r in declared(package).items() if name not in {p.name for p in PACKAGES}}

    assert [str(r) for r in others.values() if not met(r, locked)] == []


def test_each_dependency_group_is_satisfied_by_its_lock_file() -> None:
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["dependency-groups"]
    unmet: list[str] = []
    for group, lines in groups.items():
        locked = pins(ROOT / "requirements" / f"{group}.txt")
        unmet += [line for line in lines if not met(Requirement(line), locked)]

    assert unmet == []
