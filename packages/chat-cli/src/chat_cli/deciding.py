"""What a person says to a call that waits, asked in a terminal."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Final, cast

import click
from chat_core import IllegalTransition, Messages, UsageError, Wait

from chat_cli.screen import Screen, call

Decision = Callable[[Messages], None]
"""Makes a decision on a conversation."""

_VERBS: Final = {
    "approval": ("approve", "edit", "reject", "later"),
    "interrupted": ("complete", "retry", "fail", "later"),
}

_QUESTIONS: Final = {"reject": "  why", "fail": "  why", "complete": "  what came of it"}


def ask(waiting: Sequence[Wait], screen: Screen, person: str) -> list[Decision]:
    """Ask about each call that waits for a person. None where everything is left for later.

    Raises:
        click.Abort: ctrl-C, or the end of the input: nothing is decided.
    """
    decisions: list[Decision] = []
    for wait in waiting:
        decision = _ask(wait, screen, person)
        if decision is not None:
            decisions.append(decision)
    return decisions


def _ask(wait: Wait, screen: Screen, person: str) -> Decision | None:
    screen.note(f"⏸ {call(wait.name, wait.arguments)}", "bold yellow")
    if wait.kind == "schedule":
        screen.note(f"  waits until {wait.at:%Y-%m-%d %H:%M:%S %Z}", "dim")
        return None
    if wait.error:
        screen.note(f"  {wait.error}", "red")
    if wait.expires_at is not None:
        screen.note(f"  can be approved until {wait.expires_at.astimezone():%Y-%m-%d %H:%M:%S}", "dim")
    verbs = _VERBS[wait.kind]
    verb: str = click.prompt(f"  decide ({'/'.join(verbs)})", type=_Verb(verbs), err=True)
    return _decision(verb, wait, person)


def _decision(verb: str, wait: Wait, person: str) -> Decision | None:
    if verb == "later":
        return None
    words: dict[str, object] = {"by": person}
    if verb == "edit":
        verb, words["arguments"] = "approve", _edited(wait)
    text = [_line(_QUESTIONS[verb])] if verb in _QUESTIONS else []

    def decide(messages: Messages) -> None:
        getattr(messages.tool(*wait.path), verb)(*text, **words)

    return decide


def apply(decisions: Sequence[Decision], messages: Messages, screen: Screen) -> None:
    """Make decisions. One that comes too late is told of, and makes nothing else fail."""
    for decision in decisions:
        try:
            decision(messages)
        except (IllegalTransition, UsageError) as error:
            screen.note(f"  {error}", "red")


def _edited(wait: Wait) -> dict[str, object]:
    arguments = dict(wait.arguments)
    for name, value in wait.arguments.items():
        shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        said: str = click.prompt(f"  {name}", default=shown, err=True)
        if said != shown:
            arguments[name] = said if isinstance(value, str) else _value(said)
    return arguments


def _value(text: str) -> object:
    try:
        return cast("object", json.loads(text))
    except ValueError:
        return text


def _line(question: str) -> str:
    answer: str = click.prompt(question, default="", show_default=False, err=True)
    return answer


class _Verb(click.ParamType[str]):
    """One of some words, or as much of it as tells it from the others."""

    name = "verb"

    def __init__(self, verbs: Sequence[str]) -> None:
        self.verbs = verbs

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        found = [verb for verb in self.verbs if value and verb.startswith(value.strip().lower())]
        if len(found) != 1:
            self.fail(f"say one of {', '.join(self.verbs)}", param, ctx)
        return found[0]
