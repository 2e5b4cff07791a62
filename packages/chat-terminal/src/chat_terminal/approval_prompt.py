"""What a person says to a call that waits, asked in a terminal."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Final, cast

import click
from chat_core import IllegalTransitionError, Messages, UsageError, Wait

from chat_terminal.screen import Screen, call, seen

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
    # A screen that is quiet tells this all the same: nobody decides about what they have not seen.
    screen.tell(f"⏸ {call(wait.name, wait.arguments)}", "bold yellow")
    if wait.kind == "schedule":
        screen.tell(f"  waits until {wait.at:%Y-%m-%d %H:%M:%S %Z}", "dim")
        return None
    if wait.error:
        screen.tell(f"  {wait.error}", "red")
    if wait.expires_at is not None:
        screen.tell(f"  can be approved until {wait.expires_at.astimezone():%Y-%m-%d %H:%M:%S}", "dim")
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
        except (IllegalTransitionError, UsageError) as error:
            screen.tell(f"  {error}", "red")
        except KeyError as error:
            screen.tell(f"  {error.args[0]}", "red")  # the call is not in the session any more


def _edited(wait: Wait) -> dict[str, object]:
    arguments = dict(wait.arguments)
    for name, value in wait.arguments.items():
        # A text is typed as it is. One with line ends or signs that cannot be seen in it is shown as JSON.
        plainly = isinstance(value, str) and value.isprintable()
        shown = str(value) if plainly else seen(value)
        said: str = click.prompt(f"  {seen(name)[1:-1]}", default=shown, err=True)
        if said != shown:
            arguments[name] = said if plainly else _value(said, text=isinstance(value, str))
    return arguments


def _value(said: str, *, text: bool) -> object:
    try:
        value = cast("object", json.loads(said))
    except ValueError:
        return said
    return said if text and not isinstance(value, str) else value


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
