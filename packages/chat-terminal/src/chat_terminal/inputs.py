"""What is asked: the words of the command line, what is piped in, and files."""

from __future__ import annotations

from collections.abc import Iterable
from io import TextIOWrapper
from pathlib import Path
from typing import TextIO

import click
from chat_core import File, UsageError


def parts(words: Iterable[str], piped: str | None, files: Iterable[Path]) -> list[str | File]:
    """The parts of one turn: what was piped in and the files come first, the question last.

    A file of text is quoted in words, which every model can read; any other goes as it is.

    Raises:
        click.UsageError: there is nothing to ask, or a file cannot be sent.
    """
    question = " ".join(words).strip()
    given: list[str | File] = [piped] if piped and piped.strip() else []
    given += [_attached(path) for path in files]
    if question:
        given.append(question)
    if not given:
        msg = 'there is nothing to ask: chat "a question", or pipe something in'
        raise click.UsageError(msg)
    if not question.isascii() and any("\ud800" <= sign <= "\udfff" for sign in question):
        msg = f"the question is no text in UTF-8: {question!r}"
        raise click.UsageError(msg)
    return given


def piped_in(stdin: TextIO) -> str | None:
    """What came through a pipe; nothing where a person sits.

    Raises:
        click.UsageError: it is no text in UTF-8.
    """
    if stdin.isatty():
        return None
    if isinstance(stdin, TextIOWrapper):
        stdin.reconfigure(encoding="utf-8", errors="strict")
    try:
        return stdin.read()
    except UnicodeDecodeError as error:
        msg = "what is piped in is no text in UTF-8; a file of another kind is attached with --file"
        raise click.UsageError(msg) from error


def _attached(path: Path) -> str | File:
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        try:
            return File.from_path(path)
        except UsageError as error:
            msg = f"{path} cannot be attached: {error}"
            raise click.UsageError(msg) from error
    except OSError as error:
        msg = f"{path} cannot be read: {error.strerror}"
        raise click.UsageError(msg) from error
    fence = "`" * (max(_longest_run(text), 2) + 1)
    return f"{path.name}:\n{fence}\n{text.rstrip()}\n{fence}"


def _longest_run(text: str) -> int:
    """The longest run of backticks: a fence must be longer than any inside it."""
    longest = run = 0
    for sign in text:
        run = run + 1 if sign == "`" else 0
        longest = max(longest, run)
    return longest
