"""Parts of a question."""

from __future__ import annotations

import io
from pathlib import Path

import click
import pytest
from chat_core import File
from chat_terminal.inputs import build_parts, read_piped_input


def test_piped_input_and_files_precede_the_question(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("one\ntwo\n")

    assert build_parts(["What", "is it?"], "piped", [tmp_path / "notes.txt"]) == [
        "piped",
        "notes.txt:\n```\none\ntwo\n```",
        "What is it?",
    ]


def test_fence_is_longer_than_backticks_in_the_file(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text("````\ncode\n````\n")

    (part,) = build_parts([], None, [tmp_path / "page.md"])
    assert isinstance(part, str)
    assert part.splitlines()[1] == "`````"


def test_binary_file_is_attached(tmp_path: Path) -> None:
    (tmp_path / "dot.png").write_bytes(b"\x89PNG\xff\xfe")

    assert build_parts(["What is it?"], "  \n", [tmp_path / "dot.png"]) == [
        File("image/png", data=b"\x89PNG\xff\xfe", name="dot.png"),
        "What is it?",
    ]


def test_unreadable_file_raises_usage_error(tmp_path: Path) -> None:
    (tmp_path / "thing.qqq").write_bytes(b"\xff\xfe\xfd")

    with pytest.raises(click.UsageError, match=r"thing\.qqq cannot be attached"):
        build_parts(["What?"], None, [tmp_path / "thing.qqq"])
    with pytest.raises(click.UsageError, match=r"missing\.txt cannot be read"):
        build_parts(["What?"], None, [tmp_path / "missing.txt"])


def test_invalid_utf8_raises_usage_error() -> None:
    with pytest.raises(click.UsageError, match="not valid UTF-8"):
        build_parts([b"caf\xe9".decode("utf-8", "surrogateescape")], None, [])
    assert build_parts(["café".encode().decode("ascii", "surrogateescape")], None, []) == ["café"]
    with pytest.raises(click.UsageError, match="attach other kinds of files with --file"):
        read_piped_input(io.TextIOWrapper(io.BytesIO(b"caf\xe9"), encoding="ascii", errors="surrogateescape"))
    assert read_piped_input(io.TextIOWrapper(io.BytesIO("café".encode()), encoding="ascii")) == "café"


def test_terminal_input_is_not_read() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    assert read_piped_input(Terminal("not for us")) is None
    assert read_piped_input(io.StringIO("for us")) == "for us"
