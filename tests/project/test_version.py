"""All packages have the version in the file `VERSION`."""

from __future__ import annotations

import re
from importlib.metadata import metadata, version

import pytest

from .workspace import PACKAGES, ROOT, VERSION, Package, module_id


def test_the_version_file_contains_only_a_version() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+((a|b|rc)\d+)?", VERSION)


@pytest.mark.parametrize("package", PACKAGES, ids=module_id)
def test_a_package_reads_its_version_from_the_version_file(package: Package) -> None:
    project = package.pyproject["project"]

    assert "version" in project["dynamic"]
    assert "version" not in project
    assert version(package.name) == VERSION, "the environment is older than VERSION: install the workspace again"


@pytest.mark.parametrize("package", PACKAGES, ids=module_id)
def test_no_other_file_of_a_package_repeats_the_version(package: Package) -> None:
    texts = {file: file.read_text(encoding="utf-8") for file in [*package.modules, package.folder / "pyproject.toml"]}

    assert [module_id(file) for file, text in texts.items() if f'"{VERSION}"' in text] == []


@pytest.mark.parametrize("package", PACKAGES, ids=module_id)
def test_a_package_is_typed_licensed_and_described(package: Package) -> None:
    about = metadata(package.name)

    assert (package.source / "py.typed").is_file()
    assert (package.folder / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()
    assert about["License-Expression"] == "MIT"
    assert about["Requires-Python"] == ">=3.11"
    assert about["Summary"]


def test_the_changelog_has_a_section_for_this_version() -> None:
    assert f"## {VERSION}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
