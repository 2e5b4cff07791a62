"""The site documents every public name, and includes the files next to its pages."""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from .workspace import PACKAGES, ROOT, Package, loaded, module_id

PAGES = [*ROOT.glob("docs/**/*.md"), *ROOT.glob("*/*/README.md")]
BLOCK = re.compile(r"^( *)```python\n(.*?)^ *```", re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def site() -> ModuleType:
    return loaded(ROOT / "docs" / "assets" / "site.py")


@pytest.fixture(scope="module")
def directives(site: ModuleType) -> list[str]:
    return re.findall(r"^::: (\S+)$", "\n".join(site.reference().values()), re.MULTILINE)


@pytest.mark.parametrize("package", PACKAGES, ids=module_id)
def test_every_public_name_is_on_an_api_page(package: Package, site: ModuleType, directives: list[str]) -> None:
    places = site.places()
    modules = {
        name: names for name, names in site.public_modules().items() if name.split(".")[0] == package.import_name
    }
    absent = [(m, n) for m, names in modules.items() for n in names if places[site.home(m, n)] not in directives]

    assert set(importlib.import_module(package.import_name).__all__) == set(modules[package.import_name])
    assert absent == []


def test_no_name_is_documented_twice(directives: list[str]) -> None:
    assert len(directives) == len(set(directives))


def test_names_imported_on_a_page_are_public(site: ModuleType) -> None:
    """A name is public if the module that it is imported from, or another module, exports it."""
    modules, places = site.public_modules(), site.places()
    imported = {(n.module or "", a.name) for page in PAGES for n in imports(page) for a in n.names if a.name != "*"}
    ours = {(m, name) for m, name in imported if m.split(".")[0] in {package.import_name for package in PACKAGES}}

    assert len(ours) > 100
    assert {(m, n) for m, n in ours if n not in modules.get(m, ()) and site.home(m, n) not in places} == set()


def imports(page: Path) -> list[ast.ImportFrom]:
    found: list[ast.ImportFrom] = []
    for indent, block in BLOCK.findall(page.read_text(encoding="utf-8")):
        code = "\n".join(line.removeprefix(indent) for line in block.splitlines())
        tree = ast.parse("async def page():\n" + "".join(f"    {line}\n" for line in code.splitlines()) + "    ...")
        found += [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    return found


def test_a_name_missing_from_the_inventory_is_found(site: ModuleType) -> None:
    whole = "".join(f"{place} py:class 1 api/x.html#$ -\n" for place in site.places().values())

    assert site.unlisted(whole) == []
    assert site.unlisted(re.sub(r"^chat_core\.Chat .*\n", "", whole, flags=re.MULTILINE)) == ["chat_core.Chat"]


def test_an_api_page_begins_with_its_main_class(site: ModuleType) -> None:
    pages = site.reference()
    first = {
        name: re.findall(r"^::: (\S+)$", text, re.MULTILINE)[0] for name, text in pages.items() if "/chat_core/" in name
    }

    assert first["api/chat_core/chats.md"] == "chat_core.ChatBuilder"
    assert first["api/chat_core/messages.md"] == "chat_core.Messages"
    assert first["api/chat_core/tools.md"] == "chat_core.ToolCollection"
    assert set(first) == {f"api/chat_core/{page}.md" for page in ("index", *site.CORE)}


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("| `name: str \\| None` | `a` |", "| `name: str | None` | `a` |"),
        ("| `a \\| b`, or x \\| y | `c \\| d` |", "| `a | b`, or x \\| y | `c | d` |"),
        ("`a \\| b` in a sentence", "`a \\| b` in a sentence"),
        ("```text\n| `a \\| b` |\n```", "```text\n| `a \\| b` |\n```"),
    ],
)
def test_an_escaped_bar_in_table_code_is_shown_without_a_backslash(site: ModuleType, written: str, read: str) -> None:
    page = SimpleNamespace(file=SimpleNamespace(src_uri="index.md"))
    config = SimpleNamespace(docs_dir=str(ROOT / "docs"))

    assert site.on_page_markdown(written, page=page, config=config, files=None) == read


def contrast(first: str, second: str) -> float:
    """Return the contrast of two colors (WCAG 2.1, definition of contrast ratio)."""

    def luminance(color: str) -> float:
        parts = [int(color[place : place + 2], 16) / 255 for place in (1, 3, 5)]
        red, green, blue = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    low, high = sorted([luminance(first), luminance(second)])
    return (high + 0.05) / (low + 0.05)


def test_the_colors_of_links_have_enough_contrast() -> None:
    style = (ROOT / "docs" / "assets" / "site.css").read_text(encoding="utf-8")
    primary = re.findall(r"--md-primary-fg-color: (#\w{6});", style)
    light, dark = re.findall(r"--md-typeset-a-color: (#\w{6});", style)

    assert min(contrast(color, "#ffffff") for color in (*primary, light)) >= 4.5
    assert contrast(dark, "#1e2129") >= 4.5  # the background of the dark scheme of Material for MkDocs


def test_the_first_page_shows_code_before_its_first_heading() -> None:
    text = re.sub(r"<!--.*?-->", "", (ROOT / "docs" / "index.md").read_text(encoding="utf-8"), flags=re.DOTALL)

    assert "```python" in text.partition("\n## ")[0]
    assert len(text.partition("```python")[0].split()) < 100
