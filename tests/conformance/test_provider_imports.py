"""The modules that a program loads before its first request."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import sys
from chat_core import ChatBuilder
from {package} import {builder}
ChatBuilder().with_model({builder}().with_model("m").with_api_key("k").build()).build()
print(*sys.modules)
"""

NOT_NEEDED = {
    "pydantic",
    "jsonschema",
    "docstring_parser",
    "opentelemetry",
    "chat_core.engine.dry_run",
    "chat_core.engine.observation",
    "chat_core.testing",
    "chat_core.tools.schema",
}
"""Modules that only tools, structured output, observers or tests need."""


@pytest.mark.parametrize(
    ("package", "builder"),
    [
        ("chat_completions", "CompletionsBuilder"),
        ("chat_openai", "OpenAIBuilder"),
        ("chat_claude", "ClaudeBuilder"),
        ("chat_gemini", "GeminiBuilder"),
    ],
)
def test_building_a_chat_without_tools_does_not_load_pydantic(package: str, builder: str) -> None:
    program = PROGRAM.format(package=package, builder=builder)
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    loaded = set(run.stdout.split())

    assert "chat_core.engine.run" in loaded
    assert loaded.isdisjoint(NOT_NEEDED), loaded & NOT_NEEDED
