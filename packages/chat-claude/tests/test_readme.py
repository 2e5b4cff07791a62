"""The example of the README prints the documented output."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import pytest
from chat_claude.settings import API_KEY_VARIABLE

PAGE = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


async def run(source: str, capsys: pytest.CaptureFixture[str]) -> str:
    code = compile(source, "README.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    names: dict[str, Any] = {}
    if (waiting := eval(code, names)) is not None:  # noqa: S307 - our own words
        await waiting
    return capsys.readouterr().out


@pytest.mark.anyio
async def test_the_examples_print_what_the_readme_shows(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(API_KEY_VARIABLE, "k")
    assert await run(BLOCKS[0], capsys) == ""
    shown = re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL)
    assert await run(BLOCKS[1], capsys) == shown[0]
    assert len(BLOCKS) == 2
