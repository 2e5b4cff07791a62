"""The packages of the workspace, their modules and the committed files, for the checks of this folder."""

from __future__ import annotations

import ast
import importlib.util
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[2]
VERSION: Final = (ROOT / "VERSION").read_text(encoding="utf-8").strip()


@dataclass(frozen=True)
class Package:
    """One distribution of the workspace."""

    name: str
    folder: Path

    @property
    def import_name(self) -> str:
        return self.name.replace("-", "_")

    @property
    def source(self) -> Path:
        return self.folder / "src" / self.import_name

    @property
    def modules(self) -> list[Path]:
        return sorted(self.source.rglob("*.py"))

    @property
    def pyproject(self) -> dict[str, Any]:
        return tomllib.loads((self.folder / "pyproject.toml").read_text(encoding="utf-8"))


PACKAGES: Final = [
    Package(file.parent.name, file.parent)
    for folder in ("packages", "transports")
    for file in sorted((ROOT / folder).glob("*/pyproject.toml"))
]
MODULES: Final = [(package, module) for package in PACKAGES for module in package.modules]


def module_id(value: object) -> str:
    """Return the id of a parameter of a test: the name of a package, or the path of a file in the workspace."""
    if isinstance(value, Package):
        return value.name
    return str(value.relative_to(ROOT)) if isinstance(value, Path) else str(value)


def kept_files() -> list[Path]:
    """Return every file that is committed or not ignored."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    answer = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    files = sorted({ROOT / name for name in answer.stdout.split("\0") if name})
    return [file for file in files if file.is_file()]


def tree_of(file: Path) -> ast.Module:
    """Return the syntax tree of a Python file."""
    return ast.parse(file.read_text(encoding="utf-8"), filename=str(file))


def loaded(file: Path) -> ModuleType:
    """Import a script that belongs to no package, and return its module."""
    spec = importlib.util.spec_from_file_location(f"{file.stem}_script", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module
