"""Prompts on the terminal, with line editing if Python has `readline` and both streams are the terminal."""

from __future__ import annotations

import re
import select
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Final, cast

import click

_KEY_SEQUENCE: Final = re.compile(r"\x1b(?:\[[0-9;]*[ -/]*[@-~]|O[A-Z])?")
"""Escape sequence that a terminal sends for a key such as an arrow."""


def remove_key_sequences(text: str) -> str:
    """Return a typed text without the keys that a terminal without line editing passes on, such as arrows."""
    return _KEY_SEQUENCE.sub("", text)


def enable_line_editing() -> bool:
    """Let `input()` edit lines, with arrow keys for example, and return whether it can.

    Lines are not added to the history, because they may be decisions. `remember_line()` adds one.
    """
    with suppress(ImportError, OSError, ValueError):  # a Python without readline; a stream without a descriptor
        import readline  # noqa: PLC0415 - does not exist on Windows

        readline.set_auto_history(False)
        return sys.stdin.isatty() and sys.stdout.isatty() and (sys.stdin.fileno(), sys.stdout.fileno()) == (0, 1)
    return False


def read_line(prompt: str) -> str:
    """Return the line that the user types. `enable_line_editing()` must have returned True.

    Raises:
        EOFError: the user pressed ctrl-D on an empty line.
    """
    import readline  # noqa: PLC0415 - as above

    if "libedit" in (readline.__doc__ or ""):  # such as on macOS: it never calls the hook, which may not exist
        return input(prompt)
    is_bound = False

    def bind_null() -> None:
        nonlocal is_bound
        # Linux stores a ctrl-D that was pressed just before readline took over the keyboard as a null character.
        is_bound = bool(select.select([sys.stdin], [], [], 0)[0])
        if is_bound:
            readline.parse_and_bind(r'"\C-@": "\C-d"')

    readline.set_pre_input_hook(bind_null)
    try:
        return input(prompt)
    finally:
        readline.set_pre_input_hook(None)
        if is_bound:
            readline.parse_and_bind(r'"\C-@": set-mark')


def remember_line(text: str) -> None:
    """Add a text to the history of this process, in which the arrow keys move. Texts of several lines are not added."""
    if text.isprintable() and enable_line_editing():
        import readline  # noqa: PLC0415 - as above

        readline.add_history(text)


def prompt_value(question: str, **options: object) -> object:
    """Prompt for a value with Click. The prompt is on standard error if standard output is no terminal.

    Args:
        question: text of the prompt.
        **options: other arguments of `click.prompt()`.
    """
    prompt = cast("Callable[..., object]", click.prompt)
    return prompt(question, err=not enable_line_editing(), **options)  # lines on standard error cannot be edited
