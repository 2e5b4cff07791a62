"""The public names of a package are those in `__all__`, and each has a docstring."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path
from types import ModuleType

import pytest

from .workspace import MODULES, PACKAGES, Package, module_id

PUBLIC = [
    (package, module)
    for package, module in MODULES
    if module.name == "__init__.py" and "__all__" in module.read_text(encoding="utf-8")
]


def dotted(package: Package, module: Path) -> str:
    return ".".join(module.relative_to(package.source.parent).parent.parts)


def public(front: ModuleType) -> set[str]:
    """Return the names without an underscore, except modules and helpers of lazy imports."""
    helpers = {"TYPE_CHECKING", "annotations", "import_module"}
    return {
        name for name in dir(front) if not name.startswith("_") and not inspect.ismodule(getattr(front, name))
    } - helpers


@pytest.mark.parametrize("package", PACKAGES, ids=module_id)
def test_a_distribution_has_one_public_package(package: Package) -> None:
    assert (package, package.source / "__init__.py") in PUBLIC


@pytest.mark.parametrize(("package", "module"), PUBLIC, ids=module_id)
def test_all_lists_the_public_names_of_a_package(package: Package, module: Path) -> None:
    front = importlib.import_module(dotted(package, module))
    names = list(front.__all__)  # sorted: a rule of the linter

    assert len(names) == len(set(names))
    assert set(names) == public(front)


@pytest.mark.parametrize(("package", "module"), PUBLIC, ids=module_id)
def test_every_public_name_has_a_docstring(package: Package, module: Path) -> None:
    front = importlib.import_module(dotted(package, module))
    promising = {name: getattr(front, name) for name in front.__all__}
    own = {name: value for name, value in promising.items() if inspect.isclass(value) or inspect.isfunction(value)}

    assert [name for name, value in own.items() if not (value.__doc__ or "").strip()] == []
    # A dataclass without a docstring is given its signature for one.
    assert [name for name, value in own.items() if (value.__doc__ or "").startswith(f"{name}(")] == []


def test_builders_and_functions_are_exported_as_one_object() -> None:
    """Two objects with one name would be confused, and their behavior could diverge."""
    homes: dict[str, set[int]] = {}
    for package, module in PUBLIC:
        front = importlib.import_module(dotted(package, module))
        for name in front.__all__:
            value = getattr(front, name)
            if name.endswith("Builder") or inspect.isfunction(value):
                homes.setdefault(name, set()).add(id(value))

    assert [name for name, values in homes.items() if len(values) > 1] == []
