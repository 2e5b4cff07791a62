"""MkDocs hooks that add generated pages to the site: the package READMEs, the changelog and the API reference.

Readers also view the pages in the repository, where a link may point to any file. On the site, a link to a file that is
not a page becomes plain text. Hidden code blocks are removed.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import zlib
from collections.abc import Iterator, Mapping
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT: Final = Path(__file__).resolve().parents[2]
PACKAGES: Final = [file.parent for file in sorted(ROOT.glob("*/*/pyproject.toml"))]
OUTSIDE: Final = {
    ROOT / "CHANGELOG.md": "changelog.md",
    **{folder / "README.md": f"packages/{folder.name}.md" for folder in PACKAGES},
}
"""Pages from outside the docs folder, and their paths on the site."""
HIDDEN: Final = re.compile(r"^<!-- python\n.*?^-->\n?", re.MULTILINE | re.DOTALL)
LINK: Final = re.compile(r"(?P<image>!?)\[(?P<words>(?:[^\[\]]|\[[^\]]*\])*)\]\((?P<target>[^)\s]+)\)")
ROW: Final = re.compile(r"^ *\|.*\|$", re.MULTILINE)
INLINE: Final = re.compile(r"`[^`\n]+`")
CODE: Final = re.compile(r"(^ *```.*?^ *```|`[^`\n]+`)", re.MULTILINE | re.DOTALL)


ALSO: Final = (
    "chat_core.blocking",
    "chat_core.errors",
    "chat_core.notebook",
    "chat_core.transport.content_encoding",
    "chat_core.transport.content_type",
    "chat_core.transport.duplex",
    "chat_core.transport.event_loops",
    "chat_core.transport.framing",
    "chat_core.transport.http",
    "chat_core.transport.json_array",
    "chat_core.transport.json_lines",
    "chat_core.transport.logging",
    "chat_core.transport.middleware",
    "chat_core.transport.protocol",
    "chat_core.transport.provider_errors",
    "chat_core.transport.sse",
    "chat_core.transport.tls",
    "chat_core.transport.values",
    "chat_core.wire.connection",
    "chat_core.wire.decoded",
    "chat_core.wire.endpoint",
    "chat_core.wire.error_names",
    "chat_core.wire.errors",
    "chat_core.wire.event_decoder",
    "chat_core.wire.instructions",
    "chat_core.wire.parts",
    "chat_core.wire.provider",
    "chat_core.wire.shapes",
    "chat_core.wire.strict",
    "chat_core.wire.surrogates",
    "chat_memory.cached_embedder",
    "chat_memory.core_blocks",
    "chat_memory.embedder",
    "chat_memory.extraction",
    "chat_memory.forgetting",
    "chat_memory.graph_export",
    "chat_memory.indexing",
    "chat_memory.model_extractor",
    "chat_memory.owner_memory",
    "chat_memory.postgres",
    "chat_memory.recall",
    "chat_memory.seed_score",
    "chat_memory.spacy_recognizer",
    "chat_memory.tools",
    "chat_memory.transcript",
    "chat_memory.weights",
    "chat_service.workflows",
    "chat_store.watcher",
    "chat_store.postgres",
    "chat_store.sql.notify",
    "chat_store.sql.pool",
    "chat_store.sql.postgres_migrations",
    "chat_store.sql.sqlite_migrations",
    "chat_store.sql.values",
    "chat_store.sweep",
    "chat_store.testing.postgres_server",
)
"""Public modules without `__all__`. Their public names are their classes, functions and documented constants."""
CORE: Final[Mapping[str, tuple[str, str, str]]] = {
    "chats": (
        "Chats and their builders",
        (
            "builder chat ask models context recall middleware run_context live_input engine.stream options output "
            "engine.retry engine.plan engine.subchat engine.subchat_report"
        ),
        "blocking",
    ),
    "messages": ("Messages, turns and calls", "messages messages.function_call", "messages"),
    "answers": ("Answers, pauses and events", "response events usage", "notebook"),
    "tools": (
        "Tools, policies and approvals",
        (
            "tools.collection tools.action tools.scope tools.context tools.definition tools.result "
            "tools.client_tools approvals"
        ),
        "tools approvals",
    ),
    "conversations": ("Conversations that are kept", "conversation", ""),
    "errors": ("Errors", "errors", "errors"),
    "observer": ("Watching runs", "", "observer"),
    "providers": ("For authors of providers", "provider batches", "wire"),
    "transport": ("For authors of transports", "", "transport"),
    "testing": ("For tests", "", "testing"),
}
"""Pages of `chat_core`: title, modules whose re-exported names are listed, and submodules listed in full."""


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Fill the navigation menus that have one page per package."""
    core = {"chat_core": ["api/chat_core/index.md", *(f"api/chat_core/{page}.md" for page in CORE)]}
    names = [core if name == "api/chat_core.md" else name for name in _fronts()]
    menus = {"Names": names, "Packages": [OUTSIDE[folder / "README.md"] for folder in PACKAGES]}
    for entry in cast("list[str | dict[str, object]]", config["nav"]):
        for title, pages in menus.items():
            if not isinstance(entry, str) and title in entry:
                entry[title] = pages
    return config


def _fronts() -> list[str]:
    return [f"api/{folder.name.replace('-', '_')}.md" for folder in PACKAGES]


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the pages from outside the docs folder and the API reference."""
    from mkdocs.structure.files import File  # noqa: PLC0415 - tests import this module without mkdocs

    for file, name in OUTSIDE.items():
        files.append(File.generated(config, name, content=file.read_text(encoding="utf-8")))
    for name, text in reference().items():
        files.append(File.generated(config, name, content=text))
    return files


# --- Every public name ------------------------------------------------------------------------------------------------


@cache
def public_modules() -> dict[str, list[str]]:
    """Return the public names of each public module. A package precedes its submodules."""
    found: dict[str, list[str]] = {}
    for folder in PACKAGES:
        for file in sorted((folder / "src").rglob("*.py"), key=lambda file: (len(file.parts), file)):
            module = ".".join(file.relative_to(folder / "src").with_suffix("").parts).removesuffix(".__init__")
            if module in ALSO:
                found[module] = list(dict.fromkeys(_defined(file)))  # lists an overloaded function once
            elif not re.search(r"\._", module) and "__all__ = " in file.read_text(encoding="utf-8"):
                found[module] = list(importlib.import_module(module).__all__)
    return dict(sorted(found.items(), key=lambda item: (item[0].split(".")[0], item[0].count("."), item[0])))


def _defined(file: Path) -> Iterator[str]:
    body = ast.parse(file.read_text(encoding="utf-8")).body
    for node, following in zip(body, [*body[1:], None], strict=True):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            names = [node.name]
        elif isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(following, ast.Expr):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = [target.id for target in targets if isinstance(target, ast.Name)]
        else:
            continue
        yield from (name for name in names if not name.startswith("_"))


def home(module: str, name: str) -> str:
    """Return an identifier of the object behind a name, equal for all modules that export the object."""
    value = getattr(importlib.import_module(module), name)
    if isinstance(value, type) or inspect.isfunction(value):
        return f"{value.__module__}.{value.__qualname__}"
    return f"{name} {id(value)}"  # aliases and constants do not record their module


@cache
def places() -> dict[str, str]:
    """Return the documented location of each public object.

    An object exported by several modules is documented in the outermost one.
    """
    shown: dict[str, str] = {}
    for module, names in public_modules().items():
        for name in names:
            shown.setdefault(home(module, name), f"{module}.{name}")
    return shown


def reference() -> dict[str, str]:
    """Return the pages of the API reference as Markdown, by path."""
    here = set(places().values())
    told = {
        module: [name for name in names if f"{module}.{name}" in here] for module, names in public_modules().items()
    }
    pages = _core(told)
    for front in (Path(page).stem for page in _fronts() if page != "api/chat_core.md"):
        beneath = [_section(module, told[module]) for module in told if module.startswith(f"{front}.")]
        own = [f"::: {front}.{name}\n" for name in sorted(told[front], key=partial(_rank, front))]
        pages[f"api/{front}.md"] = "\n".join([f"# {front}\n", _words(front), *own, *beneath])
    return pages


def _core(told: Mapping[str, list[str]]) -> dict[str, str]:
    lives: Mapping[str, str] = vars(importlib.import_module("chat_core"))["_HOMES"]
    pages: dict[str, str] = {}
    index = ["# chat_core\n", _words("chat_core")]
    for page, (title, homes, beneath) in CORE.items():
        own = [
            name
            for place in homes.split()
            for name in sorted(lives[place].split(), key=partial(_rank, f"chat_core.{place}"))
        ]
        roots = tuple(f"chat_core.{module}" for module in beneath.split())
        modules = [module for module in told if module in roots or module.startswith(tuple(f"{r}." for r in roots))]
        sections = [_section(module, told[module]) for module in modules]
        names = [f"::: chat_core.{name}\n" for name in own]
        pages[f"api/chat_core/{page}.md"] = "\n".join([f"# {title}\n", *names, *sections])
        every = [f"chat_core.{name}" for name in own] + [
            f"{module}.{name}" for module in modules for name in told[module]
        ]
        links = ", ".join(f"[`{name.rpartition('.')[2]}`][{name}]" for name in every)
        index.append(f"## [{title}]({page}.md)\n\n{links}\n")
    return {"api/chat_core/index.md": "\n".join(index), **pages}


def _words(module: str) -> str:
    """Return the directive that renders a module's docstring."""
    return f"::: {module}\n    options: {{ members: false, show_root_heading: false }}\n"


def _section(module: str, names: list[str]) -> str:
    """Return the section of a submodule: its docstring and the given names."""
    head = f"::: {module}\n    options: {{ members: false, show_root_full_path: true }}\n"
    each = [f"::: {module}.{name}\n    options: {{ heading_level: 3 }}\n" for name in names]
    return "\n".join([head, *sorted(each, key=lambda text: _rank(module, text.split()[1].rpartition(".")[2]))])


def _rank(module: str, name: str) -> tuple[int, int, bool, str]:
    """Return a sort key: the module's namesake, then builders, other classes, functions, and other names."""
    value = getattr(importlib.import_module(module), name)
    kind = 0 if isinstance(value, type) else 1 if inspect.isfunction(value) else 2
    if module.rpartition(".")[2].replace("_", "") == name.lower():
        kind = -1
    depth = len(value.__mro__) if isinstance(value, type) and issubclass(value, Exception) else 0
    return kind, depth, not name.endswith("Builder"), name


def on_post_build(*, config: MkDocsConfig) -> None:
    """Check that the inventory, which other sites use for links, contains every public name.

    Raises:
        ValueError: a public name is missing.
    """
    *_, packed = (Path(config.site_dir) / "objects.inv").read_bytes().split(b"\n", 4)
    absent = unlisted(zlib.decompress(packed).decode())
    if absent:
        msg = f"objects.inv lacks {', '.join(absent)}"
        raise ValueError(msg)


def unlisted(inventory: str) -> list[str]:
    """Return the public names that are missing from an inventory."""
    return sorted(set(places().values()) - {line.partition(" ")[0] for line in inventory.splitlines()})


# --- The text of a page -----------------------------------------------------------------------------------------------


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Remove hidden code blocks and rewrite links between files as links between pages."""
    outside = next((file for file, name in OUTSIDE.items() if name == page.file.src_uri), None)
    source = outside or Path(config.docs_dir) / page.file.src_uri
    pieces = CODE.split(HIDDEN.sub("", markdown))
    # Link text may contain inline code, so `_relinked` joins such pieces again.
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
    text = ROW.sub(_unescaped, text)
    text = LINK.sub(lambda link: _link(link, source, here, files), text)
    for mark, block in kept.items():
        text = text.replace(mark, block)
    return text


def _unescaped(row: re.Match[str]) -> str:
    """Unescape vertical bars in inline code. GitHub needs the escape in tables; this site does not."""
    return INLINE.sub(lambda code: code[0].replace("\\|", "|"), row[0])


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
