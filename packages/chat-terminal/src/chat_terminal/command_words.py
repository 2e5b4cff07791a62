"""Detection of misspelled commands, which would otherwise be sent to the model as questions."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Final

import click

_SIMILARITY: Final = 0.75


def require_question(words: Sequence[str], commands: Mapping[str, click.Command]) -> None:
    """Raise an error if the words look like a misspelled command and not like a question.

    A single word that is similar to a command is refused. So is a word that is similar to a command group and is
    followed by one of the group's commands.

    Args:
        words: arguments of the command line, none of which is a known command.
        commands: commands by name.

    Raises:
        click.UsageError: the first word is probably a misspelled command.
    """
    plain = [word for word in words if not word.startswith("-")]
    if not plain or plain[0] != words[0]:
        return
    found = get_close_matches(plain[0].lower(), commands, 1, _SIMILARITY)
    if not found:
        return
    command = commands[found[0]]
    names_subcommand = isinstance(command, click.Group) and len(plain) > 1 and plain[1] in command.commands
    if len(words) == 1 or names_subcommand:
        msg = (
            f"there is no command {plain[0]!r}: did you mean {found[0]!r}? "
            f"To ask it as a question: chat ask {shlex.join(words)}"
        )
        raise click.UsageError(msg)
