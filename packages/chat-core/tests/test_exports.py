"""The public names of chat_core: what `import *` brings, where each lives, and what importing it costs."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import chat_core
import pytest

SOURCE = ast.parse(Path(chat_core.__file__).read_text(encoding="utf-8"))


def imported_for_checkers() -> dict[str, str]:
    """Return the imports under `if TYPE_CHECKING`, which type checkers take for the public names."""
    block = next(node for node in SOURCE.body if isinstance(node, ast.If))
    return {
        alias.name: str(node.module) for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names
    }


def test_public_names_are_sorted_and_unique() -> None:
    assert chat_core.__all__ == sorted(set(chat_core.__all__))


def test_type_checkers_see_the_same_public_names_as_the_runtime() -> None:
    assert sorted(imported_for_checkers()) == chat_core.__all__


@pytest.mark.parametrize(("name", "module"), imported_for_checkers().items())
def test_public_name_is_the_same_object_as_in_its_module(name: str, module: str) -> None:
    found = getattr(chat_core, name)
    assert found is getattr(sys.modules[module], name)
    assert found is getattr(chat_core, name)


def test_importing_an_unknown_name_raises_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'chat_core' has no attribute 'ChatBilder'"):
        getattr(chat_core, "Chat" + "Bilder")


def test_dir_lists_the_public_names() -> None:
    assert set(chat_core.__all__) <= set(dir(chat_core))


def modules_after(statement: str) -> set[str]:
    script = f"{statement}\nimport sys\nprint(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(run.stdout.split())


def test_importing_the_package_does_not_load_heavy_dependencies() -> None:
    assert modules_after("import chat_core").isdisjoint({"pydantic", "pydantic_core", "anyio", "jsonschema"})


def test_reading_a_stored_conversation_does_not_load_the_engine() -> None:
    loaded = modules_after("from chat_core import Messages\nMessages.from_json(Messages.from_user('hi').to_json())")
    assert loaded.isdisjoint({"pydantic.main", "anyio", "jsonschema", "chat_core.engine.run", "chat_core.builder"})


def test_importing_the_builder_does_not_load_jsonschema() -> None:
    assert "jsonschema" not in modules_after("from chat_core import ChatBuilder")
