"""Legal: files from their content."""

from __future__ import annotations

from typing import assert_type

from chat_core import File

from world import true


def l974_the_content_of_a_file() -> None:
    content = b"%PDF-1.7"
    assert_type(File.from_bytes(content), File)
    true(File.from_bytes(content).mime == "application/pdf")
    true(File.from_bytes(bytearray(content)) == File.from_bytes(content))
    true(File.from_bytes(memoryview(content), name="a.pdf").name == "a.pdf")
