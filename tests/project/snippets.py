"""Runs the Python code of a page from top to bottom. Each block continues where the previous block ended.

A page is one program. `await` is allowed at the top level, as in a notebook. Code that readers need not see is in an
HTML comment that begins with the word python, and runs at its position:

    <!-- python
    model = ScriptedProvider("Loire, Seine, Rhône")
    -->

A block of kind `text` directly after a Python block contains its expected output. `…` matches any text.
"""

from __future__ import annotations

import ast
import inspect
import io
import os
import re
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

_BLOCK = re.compile(
    r"^ *```python[^\n]*\n(?P<shown>.*?)^ *```$|^<!-- python\n(?P<hidden>.*?)^-->$", re.MULTILINE | re.DOTALL
)
_OUTPUT = re.compile(r"\n\n? *```text\n(?P<text>.*?)^ *```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Snippet:
    """A block of a page, the line on which its code begins, its expected output, and whether readers do not see it."""

    code: str
    line: int
    prints: str | None = None
    hidden: bool = False


def snippets(text: str) -> Iterator[Snippet]:
    """Return the blocks that run, visible or hidden."""
    for found in _BLOCK.finditer(text):
        name = "shown" if found["shown"] is not None else "hidden"
        output = _OUTPUT.match(text, found.end())
        prints = inspect.cleandoc(f"\n{output['text']}") if output else None
        yield Snippet(
            inspect.cleandoc(f"\n{found[name]}"), text.count("\n", 0, found.start(name)) + 1, prints, name == "hidden"
        )


async def run(page: Path, text: str) -> None:
    """Run a page. Errors contain the page and the line. Changes to environment variables are undone."""
    environment = dict(os.environ)
    module = ModuleType(f"page_{page.stem}".replace("-", "_"))
    sys.modules[module.__name__] = module  # where pydantic and dataclasses look for the names of annotations
    try:
        for snippet in snippets(text):
            # The blank lines are counted, not read: a traceback shows the line of the page.
            code = "\n" * (snippet.line - 1) + snippet.code
            flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
            with redirect_stdout(io.StringIO()) as printed:
                answer = eval(compile(code, str(page), "exec", flags=flags, dont_inherit=True), vars(module))  # noqa: S307 - our pages
                if inspect.iscoroutine(answer):
                    await answer
            if snippet.prints is not None:
                _compare(printed.getvalue().rstrip("\n"), snippet.prints, f"{page}:{snippet.line}")
    finally:
        del sys.modules[module.__name__]
        for name in os.environ.keys() - environment.keys():
            del os.environ[name]
        os.environ.update(environment)


def _compare(printed: str, promised: str, place: str) -> None:
    pattern = ".*?".join(re.escape(piece) for piece in promised.split("…"))
    if re.fullmatch(pattern, printed, re.DOTALL) is None:
        msg = f"{place} prints\n{printed}\nbut the page shows\n{promised}"
        raise AssertionError(msg)
