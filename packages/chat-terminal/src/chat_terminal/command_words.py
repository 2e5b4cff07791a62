"""Detection of misspelled commands, which would otherwise be sent to the model as questions."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from itertools import takewhile
from typing import Final

import click
from chat_core.models import installed

from chat_terminal.models import COMPLETIONS, LOCAL

KEY_USAGE: Final = (
    "a key is never an argument. Type or pipe it: chat keys set VENDOR; "
    "the other commands are chat keys list, chat keys remove VENDOR and chat keys path"
)
"""Error message about keys. It repeats no argument, because an argument may be a key."""

_SIMILARITY: Final = 0.75
_KEY: Final = re.compile(r"(?=.*\d)[!-~]{16,}")
"""Text that may be an API key."""
_OPTIONS: Final = {"help": "--help", "version": "--version"}


def require_question(words: Sequence[str], commands: Mapping[str, click.Command]) -> None:
    """Raise an error if the words look like a misspelled command and not like a question.

    A command with a key as an argument is refused, so that the key is neither sent nor stored. A single word that is
    similar to a command is refused. So are two words that are similar to a command with its argument, and a word that
    is similar to a command group and is followed by one of the group's commands.

    Args:
        words: arguments of the command line, the first of which is no known command.
        commands: commands by name.

    Raises:
        click.UsageError: the first word is probably a misspelled command.
    """
    plain = list(takewhile(lambda word: not word.startswith("-"), words))
    if not plain:
        return
    if _contains_key(plain, commands.get("keys")):
        raise click.UsageError(KEY_USAGE)
    found = _OPTIONS.get(plain[0].lower()) if len(plain) == 1 else None
    if found is None:
        found = next(iter(get_close_matches(plain[0].lower(), commands, 1, _SIMILARITY)), None)
        if found is None or not _continues_command(plain, commands[found], commands):
            return
    msg = (
        f"there is no command {plain[0]!r}: did you mean {found!r}? "
        f"To ask it as a question: chat ask {shlex.join(words)}"
    )
    raise click.UsageError(msg)


def accepts_arguments(words: Sequence[str], command: click.Command) -> bool:
    """Return whether the number and the subcommands of arguments are those of a command.

    Args:
        words: arguments after the command's name, without options.
        command: the command.
    """
    if isinstance(command, click.Group) and words:
        return words[0] in command.commands and accepts_arguments(words[1:], command.commands[words[0]])
    counts = [param.nargs for param in command.params if isinstance(param, click.Argument)]
    return -1 in counts or len(words) <= sum(counts)


def _contains_key(words: Sequence[str], keys: click.Command | None) -> bool:
    """Return whether the words look like a command that stores an API key."""
    lower = [word.lower() for word in words[:4]]
    similar = [bool(get_close_matches(word, ["keys", "key"], 1, _SIMILARITY)) for word in lower[:2]]
    place = similar.index(True) if True in similar else None
    if place is None or not isinstance(keys, click.Group):
        return False
    vendors = {*installed()} - {LOCAL, COMPLETIONS}
    before, after = lower[:place], lower[place + 1 :]
    return (
        not vendors.isdisjoint(before + after)
        or not keys.commands.keys().isdisjoint(before + after[:1])
        or any(_KEY.fullmatch(word) for word in words[place + 1 :])
    )


def _continues_command(words: Sequence[str], command: click.Command, commands: Mapping[str, click.Command]) -> bool:
    """Return whether the words after the first one are arguments of a command, and no rest of a sentence."""
    if len(words) == 1 or (isinstance(command, click.Group) and words[1] in command.commands):
        return True
    if words[2:] or " " in words[1]:
        return False
    groups = [group for group in commands.values() if isinstance(group, click.Group)]
    # The first letter is rarely mistyped. Without this condition, "how high" would be a misspelled "show".
    takes_name = any(param.name == "session" and isinstance(param, click.Argument) for param in command.params)
    is_alike = words[0][0].lower() == (command.name or "")[:1] and bool(
        get_close_matches(words[0].lower(), [command.name or ""], 1, 0.8)
    )
    return (takes_name and is_alike) or any(words[1] in group.commands for group in groups)
