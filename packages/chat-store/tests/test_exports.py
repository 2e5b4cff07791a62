"""The public names of chat_store: where each is defined, and what importing one loads."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import chat_store
import pytest

SOURCE = ast.parse(Path(chat_store.__file__).read_text(encoding="utf-8"))


def imported_for_checkers() -> dict[str, str]:
    """Return the imports under `if TYPE_CHECKING`, which type checkers take for the public names."""
    block = next(node for node in SOURCE.body if isinstance(node, ast.If))
    return {
        alias.name: str(node.module) for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names
    }


def modules_after(statement: str) -> set[str]:
    script = f"{statement}\nimport sys\nprint(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(run.stdout.split())


def test_all_lists_the_names_that_type_checkers_see() -> None:
    assert sorted(imported_for_checkers()) == chat_store.__all__
    assert set(chat_store.__all__) <= set(dir(chat_store))


@pytest.mark.parametrize(("name", "module"), imported_for_checkers().items())
def test_a_lazily_exported_name_is_the_object_of_its_module(name: str, module: str) -> None:
    assert getattr(chat_store, name) is getattr(sys.modules[module], name)


def test_an_unknown_attribute_raises_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'chat_store' has no attribute 'FileConversion'"):
        getattr(chat_store, "File" + "Conversion")


def test_importing_chat_store_loads_no_other_package() -> None:
    assert modules_after("import chat_store").isdisjoint({"chat_core", "anyio", "sqlite3", "psycopg"})


def test_importing_file_conversation_loads_no_database_driver() -> None:
    loaded = modules_after("from chat_store import FileConversation")
    assert loaded.isdisjoint(
        {"sqlite3", "psycopg", "chat_store.store", "chat_store._store_log", "chat_core.engine.run"}
    )


def test_importing_sqlite_store_does_not_load_psycopg() -> None:
    assert "psycopg" not in modules_after("from chat_store import SqliteStore")
