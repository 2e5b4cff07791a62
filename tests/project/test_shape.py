"""The limits on the lengths of files and functions, and the rule that each module has a test file."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TypeAlias

import pytest

from .workspace import MODULES, ROOT, Package, kept_files, module_id, tree_of

LONGEST_FILE = 500
LONGEST_FUNCTION = 60
TESTED_WITH = {
    "chat_core/approvals/keys.py": "test_approvals.py",
    "chat_core/approvals/tokens.py": "test_approvals.py",
    "chat_core/transport/json_array.py": "test_transport_framing.py",
    "chat_core/transport/json_lines.py": "test_transport_framing.py",
}
"""What is one thing to a reader, in two files or three."""
PYTHON = [file for file in kept_files() if file.suffix == ".py"]
SOURCES = [file for file in PYTHON if "tests" not in file.relative_to(ROOT).parts]

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef


def functions(file: Path) -> list[Function]:
    return [node for node in ast.walk(tree_of(file)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def does_something(function: Function) -> bool:
    """Return whether a body contains more than a docstring and an ellipsis."""
    return not all(isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) for node in function.body)


def names_of_tests(package: Package, module: Path) -> set[str]:
    """`messages/codec.py` of the core: `test_codec.py`, `test_messages_codec.py` or `test_core_messages_codec.py`."""
    if together := TESTED_WITH.get(str(module.relative_to(package.source.parent))):
        return {together}
    parts = [package.name.removeprefix("chat-"), *module.relative_to(package.source).with_suffix("").parts]
    return {f"test_{'_'.join(parts[start:])}.py" for start in range(len(parts))}


def is_public(package: Package, module: Path) -> bool:
    return not any(part.startswith("_") for part in module.relative_to(package.source).parts)


def test_a_source_file_has_at_most_500_lines() -> None:
    lengths = {module_id(file): file.read_text(encoding="utf-8").count("\n") for file in SOURCES}

    assert {file: length for file, length in lengths.items() if length > LONGEST_FILE} == {}


def test_a_function_has_at_most_60_lines() -> None:
    lengths = {
        f"{module_id(file)}:{function.lineno} {function.name}": (function.end_lineno or 0) - function.lineno + 1
        for file in SOURCES
        for function in functions(file)
    }

    assert {function: length for function, length in lengths.items() if length > LONGEST_FUNCTION} == {}


@pytest.mark.parametrize(("package", "module"), [m for m in MODULES if is_public(*m)], ids=module_id)
def test_every_public_module_with_code_has_a_test_file(package: Package, module: Path) -> None:
    if not any(does_something(function) for function in functions(module)):
        return  # values and protocols: there is nothing to run

    found = {file.name for folder in (package.folder / "tests", ROOT / "tests") for file in folder.rglob("test_*.py")}

    assert names_of_tests(package, module) & found
