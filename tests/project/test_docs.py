"""The code of each page runs, its links have targets, and its commands exist."""

from __future__ import annotations

import ast
import asyncio
import gc
import re
from pathlib import Path

import pytest

from .snippets import Snippet, run, snippets
from .workspace import PACKAGES, ROOT, Package, kept_files, module_id, tree_of

PAGES = [file for file in kept_files() if file.suffix == ".md"]
RUNNING = [page for page in PAGES if any(snippets(page.read_text(encoding="utf-8")))]
HOSTS = re.compile(r"pypi[.]org|pythonhosted[.]org|npmjs[.]\w|yarnpkg[.]|crates[.]io|anaconda[.]org", re.IGNORECASE)
MACHINE = re.compile(r"(?<![\w.~/])/(?:home|root|Users|mnt|srv|work)/\w")
TALK = re.compile(r"\b(?:prototypes?|TODO|FIXME|XXX|HACK|issue #?\d+|(?:semantics|style|api)[.]md)\b")
PIP = re.compile(r"(?P<pip>\S*\bpip) install (?P<words>(?:\\\n|[^\n`])*)")
THIS = Path(__file__)


def sessions() -> set[str]:
    functions = [node for node in tree_of(ROOT / "noxfile.py").body if isinstance(node, ast.FunctionDef)]
    return {function.name for function in functions if function.decorator_list}


def headings(page: Path) -> set[str]:
    lines = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", line.lower()).replace(" ", "-") for line in lines}


@pytest.mark.parametrize("page", RUNNING, ids=module_id)
def test_the_code_of_a_docs_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    asyncio.run(run(page, page.read_text(encoding="utf-8")))
    gc.collect()  # Python 3.13 warns of a connection left open when it is collected: here, not in another test


@pytest.mark.parametrize("page", PAGES, ids=module_id)
def test_the_links_of_a_page_resolve(page: Path) -> None:
    text = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    links = [link for link in re.findall(r"\]\(([^)\s]+)\)", text) if not re.match(r"[a-z]+:", link)]
    lost: list[str] = []
    for link in links:
        path, _, heading = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (heading and target.suffix == ".md" and heading not in headings(target)):
            lost.append(link)

    assert lost == []


@pytest.mark.parametrize("page", PAGES, ids=module_id)
def test_the_examples_of_a_page_import_names_explicitly(page: Path) -> None:
    # `from chat_core import *` would replace names of other libraries, such as `fastapi.File`.
    shown = re.sub(r"<!--.*?-->", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)

    assert re.findall(r"^\s*from \S+ import \*", shown, re.MULTILINE) == []


def names(blocks: list[Snippet], kind: type[ast.expr_context]) -> set[str]:
    """Return the names that the code of blocks assigns, imports or defines (`ast.Store`), or reads (`ast.Load`)."""
    found: set[str] = set()
    for block in blocks:
        flags = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        for node in ast.walk(compile(block.code, "page", "exec", flags=flags)):
            if isinstance(node, ast.Name) and isinstance(node.ctx, kind):
                found.add(node.id)
            elif kind is ast.Store and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                found.add(node.name)
            elif kind is ast.Store and isinstance(node, ast.Import | ast.ImportFrom):
                found |= {(alias.asname or alias.name).split(".")[0] for alias in node.names}
            elif kind is ast.Store and isinstance(node, ast.arg | ast.MatchAs | ast.ExceptHandler):
                found |= {getattr(node, "arg", None) or getattr(node, "name", None) or ""}
    return found


@pytest.mark.parametrize("page", RUNNING, ids=module_id)
def test_the_visible_code_of_a_page_defines_its_names_or_the_text_explains_them(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    hidden = [block for block in snippets(text) if block.hidden]
    visible = [block for block in snippets(text) if not block.hidden]
    prose = re.sub(r"<!--.*?-->|```.*?```", "", text, flags=re.DOTALL)

    missing = (names(visible, ast.Load) & names(hidden, ast.Store)) - names(visible, ast.Store)

    assert {name for name in missing if not re.search(rf"`{name}\b", prose)} == set()


@pytest.mark.parametrize("page", PAGES, ids=module_id)
def test_the_commands_of_a_page_are_existing_sessions(page: Path) -> None:
    named = set(re.findall(r"python3? run\.py ([a-z]\w*)", page.read_text(encoding="utf-8")))

    assert named <= sessions()


def installed_folders(text: str) -> list[tuple[str, list[str]]]:
    """Return the command and the folders of each `pip install` that names folders of the workspace."""
    found: list[tuple[str, list[str]]] = []
    for command in PIP.finditer(text):
        folders = re.findall(r"(?:packages|transports)/[\w-]+(?:\[[\w,]+\])?", command["words"])
        found += [(command["pip"], folders)] if folders else []
    return found


def needed_packages(folder: str) -> set[str]:
    """Return the packages of the workspace that a folder depends on, with its extras in brackets."""
    path, _, extras = folder.rstrip("]").partition("[")
    package = next(package for package in PACKAGES if package.folder == ROOT / path)
    hook = package.pyproject["tool"]["hatch"].get("metadata", {}).get("hooks", {}).get("uv-dynamic-versioning", {})
    words = [
        *hook.get("dependencies", []),
        *[word for name in extras.split(",") if name for word in hook.get("optional-dependencies", {}).get(name, [])],
    ]
    return {re.split(r"[=\[]", word)[0] for word in words if "{{ version }}" in word}


@pytest.mark.parametrize(
    "page", [page for page in PAGES if installed_folders(page.read_text(encoding="utf-8"))], ids=module_id
)
def test_the_install_commands_of_a_page_name_every_needed_package_of_the_workspace(page: Path) -> None:
    # pip would look for a package that is not named in the index, where it does not exist.
    _, start = installed_folders((ROOT / "docs" / "start.md").read_text(encoding="utf-8"))[0]
    before: set[str] = set()
    lost: list[str] = []
    for pip, folders in installed_folders(page.read_text(encoding="utf-8")):
        given = {Path(folder.partition("[")[0]).name for folder in folders}
        before |= given
        if pip == ".venv/bin/pip":
            before |= {Path(folder).name for folder in start}
        lost += [f"{name} for {folder}" for folder in folders for name in sorted(needed_packages(folder) - before)]

    assert lost == []


def test_the_readme_contains_the_demo_and_tests_commands() -> None:
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()

    assert lines.count("python3 run.py demo") == 1
    assert lines.count("python3 run.py tests") == 1


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.name)
def test_the_readme_names_every_package(package: Package) -> None:
    assert f"`{package.name}`" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_no_file_names_a_package_registry_a_machine_or_its_author() -> None:
    found: list[str] = []
    for file in kept_files():
        if file in (THIS, ROOT / "uv.lock"):
            continue
        for number, line in enumerate(file.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
            if HOSTS.search(line) or MACHINE.search(line) or TALK.search(line):
                found.append(f"{module_id(file)}:{number}: {line.strip()[:100]}")

    assert found == []


PAGE = """<!-- python
seen = []
-->

```python
async def see():
    seen.append(1)
```

```python
await see()
assert seen == [1]
1 / 0
```
"""


def test_the_code_of_a_page_is_one_program_with_correct_line_numbers() -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        asyncio.run(run(Path("page.md"), PAGE))

    last = caught.traceback[-1]
    assert (str(last.path), last.lineno + 1) == ("page.md", PAGE.splitlines().index("1 / 0") + 1)
