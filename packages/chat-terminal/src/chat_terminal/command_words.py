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
    "the other commands are chat keys list, chat keys remove VENDOR and chat keys path. "
    'A question about keys must be in quotes: chat "…"'
)
"""Error message about keys. It repeats no argument, because an argument may be a key."""

_KEY_IN_QUESTION: Final = (
    "the text seems to contain an API key, so it was not sent. Type or pipe a key only for chat keys set VENDOR; "
    "to send this text nevertheless, pipe it"
)
_SIMILARITY: Final = 0.75
_SUBCOMMAND_SIMILARITY: Final = 0.82
"""Minimum similarity of a misspelled subcommand. Words of sentences, such as "listed" and "lost", are less similar."""
_SENTENCE_LENGTH: Final = 4
"""Number of words from which a text that begins with the name of a command is a sentence."""
_VENDOR_KEY: Final = re.compile(
    r"""
    (?<![\w-])(?:
        (?:  # and a run of characters with digits and letters
            sk-(?:\w*+-)*?
            | (?:csk|pplx|xai)-
            | (?:fw|gh[oprsu]|github_pat|gsk|hf|npm|r8|[rs]k_(?:live|test)|tgp)_
        )
        (?=\w*\d)(?=\w*[A-Za-z])\w{16,}
        | hf_[A-Za-z]{34}(?!\w)  # these keys often have no digits
        # These keys contain hyphens.
        | (?:AIza|AQ\.Ab|glpat-|nvapi-|pypi-AgE|sk-ant-|tgp_v1_|xox[abeprs]-|ya29\.)
        (?=[\w-]*\d)(?=[\w-]*[A-Za-z])[\w-]{20,}
        | A[KS]IA[2-7A-Z]{16}(?![\w-])
    )
    """,
    re.ASCII | re.VERBOSE,
)
"""API key that begins like the keys of a vendor.

These are the vendors of the providers, GitHub, GitLab, AWS, Google Cloud, Slack, Stripe, npm and PyPI. The pattern
reads a text once, because it begins only where a word begins, and no two repetitions share a character.
"""
_KEY: Final = re.compile(
    r"(?=.*\d)(?:(?=.*?[a-z0-9]{16})[\w+.-]+|sk-[\w-]{13,})|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII
)
"""Text that may be an API key if the words before it are about keys."""
_SEPARATORS: Final = re.compile(r"[\s=:;,?!\"'`()]+|(?<=api)[_-](?=key)")
_SESSION_NAME: Final = re.compile(r"(?=.*\d)(?=.*[a-f])[\da-f]{8}", re.ASCII)
"""Name of a session that `chat` has generated. Any other name may be a word of a sentence."""
_KEY_COMMANDS: Final = frozenset({"set", "list", "remove", "path"})
_OPTIONS: Final = {"help": "--help", "version": "--version"}


def require_no_key(words: Sequence[str]) -> None:
    """Raise an error if a text for a model seems to contain an API key, or looks like a command that stores one.

    Args:
        words: arguments of the command line, without options.

    Raises:
        click.UsageError: the text must not be sent. The error does not repeat it.
    """
    if _VENDOR_KEY.search(" ".join(words)):
        raise click.UsageError(_KEY_IN_QUESTION)
    parts = list(filter(None, _SEPARATORS.split(" ".join(words).lower())))
    names = {part for part in {*parts} if get_close_matches(part, ["keys", "key"], 1, _SIMILARITY)}
    places = [place for place, part in enumerate(parts) if part in names]
    if any(_KEY.fullmatch(part) for place in places for part in parts[place + 1 : place + 4]):
        raise click.UsageError(KEY_USAGE if len(words) > 1 else _KEY_IN_QUESTION)
    place = next(iter(places), len(parts))
    if place > 1 or len(words) == 1:  # one argument is a question in quotes
        return
    before, after = set(parts[:place]), set(parts[place + 1 : place + 2])
    is_short = len(parts) < _SENTENCE_LENGTH and (before | after) & _KEY_COMMANDS
    if (before | after) & ({*installed()} - {LOCAL, COMPLETIONS}) or "set" in after or is_short:
        raise click.UsageError(KEY_USAGE)


def is_sentence(words: Sequence[str], command: click.Command) -> bool:
    """Return whether a text that begins with the name of a command is a question and does not call the command.

    Args:
        words: arguments of the command line. The first one is the name of the command.
        command: the command.
    """
    plain = _words_before_options(words)
    if len(plain) < _SENTENCE_LENGTH or _is_argument(plain[1], command):
        return False
    return not accepts_arguments(plain[1:], command)


def require_question(words: Sequence[str], commands: Mapping[str, click.Command]) -> None:
    """Raise an error if the words look like a misspelled command and not like a question.

    A command with a key as an argument is refused. A single word that is similar to a command is refused. So are two
    words that are similar to a command with its argument. More words are refused if the first one is similar to a
    command, and the second one is a subcommand, is similar to a subcommand, or is the generated name of a session.

    Args:
        words: arguments of the command line, the first of which is no known command.
        commands: commands by name.

    Raises:
        click.UsageError: the first word is probably a misspelled command, or an argument may be a key.
    """
    plain = _words_before_options(words)
    if not plain:
        return
    require_no_key(plain)
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


def _words_before_options(words: Sequence[str]) -> list[str]:
    return list(takewhile(lambda word: not word.startswith("-"), words))


def _is_argument(word: str, command: click.Command) -> bool:
    """Return whether a word is an argument of a command, even if it is misspelled, and no word of a sentence."""
    if isinstance(command, click.Group):
        return bool(get_close_matches(word.lower(), command.commands, 1, _SUBCOMMAND_SIMILARITY))
    return _takes_session(command) and _SESSION_NAME.fullmatch(word) is not None


def _takes_session(command: click.Command) -> bool:
    return any(param.name == "session" and isinstance(param, click.Argument) for param in command.params)


def _continues_command(words: Sequence[str], command: click.Command, commands: Mapping[str, click.Command]) -> bool:
    """Return whether the words after the first one are arguments of a command, and no rest of a sentence."""
    if len(words) == 1 or _is_argument(words[1], command):
        return True
    if words[2:] or " " in words[1]:
        return False
    groups = [group for group in commands.values() if isinstance(group, click.Group)]
    # The first letter is rarely mistyped. Without this condition, "how high" would be a misspelled "show".
    is_alike = words[0][0].lower() == (command.name or "")[:1] and bool(
        get_close_matches(words[0].lower(), [command.name or ""], 1, 0.8)
    )
    return (_takes_session(command) and is_alike) or any(words[1] in group.commands for group in groups)
