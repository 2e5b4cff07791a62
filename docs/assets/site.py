"""What the site has beside the pages of this folder: the packages' READMEs, the changelog, and every public name.

The same pages are read in the repository, where a link may lead to any file; on the site a link to a file that is no
page becomes the plain words. What runs unseen in a page stays unseen.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

from mkdocs.structure.files import File, Files

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.pages import Page

ROOT: Final = Path(__file__).resolve().parents[2]
PACKAGES: Final = [file.parent for file in sorted(ROOT.glob("*/*/pyproject.toml"))]
OUTSIDE: Final = {
    ROOT / "CHANGELOG.md": "changelog.md",
    **{folder / "README.md": f"packages/{folder.name}.md" for folder in PACKAGES},
}
"""Pages that lie elsewhere, and where the site has them."""
HIDDEN: Final = re.compile(r"^<!-- python\n.*?^-->\n?", re.MULTILINE | re.DOTALL)
LINK: Final = re.compile(r"(?P<image>!?)\[(?P<words>(?:[^\[\]]|\[[^\]]*\])*)\]\((?P<target>[^)\s]+)\)")
CODE: Final = re.compile(r"(^ *```.*?^ *```|`[^`\n]+`)", re.MULTILINE | re.DOTALL)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Fill the menus that have a page for each package."""
    menus = {"Names": _names(), "Packages": [OUTSIDE[folder / "README.md"] for folder in PACKAGES]}
    for entry in cast("list[str | dict[str, object]]", config["nav"]):
        for title, pages in menus.items():
            if not isinstance(entry, str) and title in entry:
                entry[title] = pages
    return config


def _names() -> list[str]:
    return [f"api/{folder.name.replace('-', '_')}.md" for folder in PACKAGES]


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add what does not lie in this folder."""
    for file, name in OUTSIDE.items():
        files.append(File.generated(config, name, content=file.read_text(encoding="utf-8")))
    for name in _names():
        module = Path(name).stem
        files.append(File.generated(config, name, content=f"# {module}\n\n::: {module}\n"))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Take out what runs unseen, and turn links between files into links between pages."""
    home = next((file for file, name in OUTSIDE.items() if name == page.file.src_uri), None)
    source = home or Path(config.docs_dir) / page.file.src_uri
    pieces = CODE.split(HIDDEN.sub("", markdown))
    # A link's words may hold code, so that the split is undone where there is a link around it.
    return _relinked(pieces, source, page.file.src_uri, files)


def _relinked(pieces: list[str], source: Path, here: str, files: Files) -> str:
    kept: dict[str, str] = {}
    text = ""
    for number, piece in enumerate(pieces):
        if number % 2 and "\n" in piece:
            kept[f"\0{number}\0"] = piece
            text += f"\0{number}\0"
        else:
            text += piece
    text = LINK.sub(lambda link: _link(link, source, here, files), text)
    for mark, block in kept.items():
        text = text.replace(mark, block)
    return text


def _link(link: re.Match[str], source: Path, here: str, files: Files) -> str:
    path, hash_, heading = link["target"].partition("#")
    if not path or re.match(r"[a-z]+:", path):
        return link[0]
    target = (source.parent / path).resolve()
    docs = ROOT / "docs"
    name = OUTSIDE.get(target) or (target.relative_to(docs).as_posix() if target.is_relative_to(docs) else "")
    if name == "" and target == ROOT / "README.md":
        name = "index.md"
    if files.get_file_from_path(name) is None:
        return link["words"]
    up = "../" * here.count("/")
    return f"{link['image']}[{link['words']}]({up}{name}{hash_}{heading})"
