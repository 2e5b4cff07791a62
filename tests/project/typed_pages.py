"""Checks the Python code of the pages with pyright in strict mode, so that copied code type-checks.

The session `types` runs `python -m tests.project.typed_pages`. pyright must report each line that ends in the comment
below, and no other line.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from .snippets import snippets
from .workspace import ROOT, kept_files

REFUSED: Final = "# a type checker refuses this"
# A page is run as a notebook is, and pyright knows no such thing.
TOP_LEVEL: Final = (
    '"await" allowed only within async function',
    'Use of "async" not allowed outside of async function',
)
# A page is one program of several blocks, so names are assigned again, and examples omit annotations.
SETTINGS: Final = {
    "typeCheckingMode": "strict",
    "pythonVersion": "3.11",
    "reportDuplicateImport": False,
    "reportRedeclaration": False,
    "reportUnusedImport": False,
    "reportWildcardImportFromLibrary": False,
}


def program(text: str) -> list[str]:
    """Return the code of a page with unchanged line numbers, or an empty string if the page has no code."""
    lines = [""] * (text.count("\n") + 1)
    for snippet in snippets(text):
        for number, line in enumerate(snippet.code.splitlines(), snippet.line - 1):
            lines[number] = line
    return lines if any(lines) else []


def check(programs: dict[str, list[str]]) -> list[str]:
    """Return the lines that are reported unexpectedly, and those that are unexpectedly not reported."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        names = {str(place.resolve() / f"page_{number}.py"): page for number, page in enumerate(programs)}
        for name, page in names.items():
            Path(name).write_text("\n".join([*programs[page], ""]), encoding="utf-8")
        (place / "pyrightconfig.json").write_text(json.dumps(SETTINGS), encoding="utf-8")
        command = ["pyright", "--project", folder, "--pythonpath", sys.executable, "--outputjson"]
        answer = subprocess.run(command, check=False, capture_output=True, text=True)
    found: list[dict[str, Any]] = json.loads(answer.stdout)["generalDiagnostics"]
    refused = {
        (names[item["file"]], item["range"]["start"]["line"] + 1): f"{item['message']}"
        for item in found
        if not item["message"].startswith(TOP_LEVEL)
    }
    promised = {
        (page, number)
        for page, lines in programs.items()
        for number, line in enumerate(lines, 1)
        if line.endswith(REFUSED)
    }
    wrong = [f"{page}:{number}: {text}" for (page, number), text in refused.items() if (page, number) not in promised]
    return wrong + [f"{page}:{number}: nothing refuses this" for page, number in sorted(promised - refused.keys())]


def main() -> None:
    """Check every page that has code."""
    pages = [file for file in kept_files() if file.suffix == ".md"]
    programs = {str(page.relative_to(ROOT)): program(page.read_text(encoding="utf-8")) for page in pages}
    wrong = check({page: lines for page, lines in programs.items() if lines})
    print("\n".join([*wrong, f"{len(wrong)} lines of the pages are not typed as they say"]))
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
