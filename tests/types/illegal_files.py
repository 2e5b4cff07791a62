"""Illegal: texts as the content of files, and bytes as paths."""

from __future__ import annotations

from chat_core import File


def x970_a_text_as_the_content_of_a_file() -> None:  # R: UsageError: data must be bytes, such as text.encode\(\)
    File.from_bytes("%PDF-1.7")  # E: from_bytes


def x971_a_path_as_the_content_of_a_file() -> None:  # R: UsageError: path must be a string or a Path
    File.from_path(b"a.pdf")  # E: from_path
