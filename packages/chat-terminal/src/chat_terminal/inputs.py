"""Construction of the model's input from command line arguments, piped input and files."""

from __future__ import annotations

import os
from collections.abc import Iterable
from io import TextIOWrapper
from pathlib import Path
from typing import TextIO

import click
from chat_core import File, UsageError


def build_parts(words: Iterable[str], piped: str | None, files: Iterable[Path]) -> list[str | File]:
    """Build the parts of a user turn: piped input first, then files, then the question.

    Text files are quoted as text, which every model can read. Other files are attached.

    Args:
        words: words of the question.
        piped: piped input, if there is any.
        files: paths of the files.

    Raises:
        click.UsageError: there is nothing to ask, or a file cannot be read or attached.
    """
    question = decode_question(" ".join(words)).strip()
    given: list[str | File] = [piped] if piped and piped.strip() else []
    given += [_attach_file(path) for path in files]
    if question:
        given.append(question)
    if not given:
        msg = 'there is nothing to ask: chat "a question", or pipe something in'
        raise click.UsageError(msg)
    return given


def decode_question(question: str) -> str:
    """Return a question from the command line, decoded as UTF-8 if the encoding of the locale was not enough.

    Args:
        question: the question. Surrogates stand for the bytes that were not decoded.

    Raises:
        click.UsageError: the question is not valid UTF-8.
    """
    if question.isascii() or not any("\ud800" <= char <= "\udfff" for char in question):
        return question
    try:
        return os.fsencode(question).decode("utf-8")
    except UnicodeDecodeError as error:
        msg = f"the question is not valid UTF-8: {question!r}"
        raise click.UsageError(msg) from error


def read_piped_input(stdin: TextIO) -> str | None:
    """Read the piped input, or return None if the input is a terminal.

    Raises:
        click.UsageError: the input is not valid UTF-8.
    """
    if stdin.isatty():
        return None
    if isinstance(stdin, TextIOWrapper):
        stdin.reconfigure(encoding="utf-8", errors="strict")
    try:
        return stdin.read()
    except UnicodeDecodeError as error:
        msg = "the piped input is not valid UTF-8: attach other kinds of files with --file"
        raise click.UsageError(msg) from error


def _attach_file(path: Path) -> str | File:
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
    fence = "`" * (max(_longest_backtick_run(text), 2) + 1)
    return f"{path.name}:\n{fence}\n{text.rstrip()}\n{fence}"


def _longest_backtick_run(text: str) -> int:
    """Return the length of the longest run of backticks in a text, so that a code fence can be longer."""
    longest = run = 0
    for char in text:
        run = run + 1 if char == "`" else 0
        longest = max(longest, run)
    return longest
