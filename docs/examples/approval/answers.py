"""What a person says to a call that waits: asked in a terminal, or given beforehand on the command line."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, cast, final

import anyio
from chat_core import Tool, Wait
from screen import MARGIN, YELLOW, Screen

Verb: TypeAlias = Literal["approve", "edit", "reject", "retry", "complete", "fail"]

APPROVAL: tuple[Verb, ...] = ("approve", "edit", "reject")
INTERRUPTED: tuple[Verb, ...] = ("complete", "retry", "fail")


@final
@dataclass(frozen=True)
class Answer:
    """A decision that was not made yet. `text` is a reason or a result; `changes` are arguments in place of others."""

    verb: Verb
    by: str
    text: str = ""
    changes: Mapping[str, object] | None = None

    def apply(self, tool: Tool, wait: Wait) -> None:
        """Make the decision. It is durable when the conversation has been saved, or run.

        Raises:
            IllegalTransitionError: the call does not wait for it (any more).
        """
        match self.verb:
            case "approve":
                tool.approve(by=self.by)
            case "edit":
                tool.approve(arguments={**wait.arguments, **(self.changes or {})}, by=self.by)
            case "reject":
                tool.reject(self.text, by=self.by)
            case "retry":
                tool.retry(by=self.by)
            case "complete":
                tool.complete(self.text, by=self.by)
            case "fail":
                tool.fail(self.text, by=self.by)


Answers: TypeAlias = Callable[[Wait], Awaitable[Answer | None]]
"""Says what is decided about a wait; `None` where nothing is."""


def verbs_for(wait: Wait) -> tuple[Verb, ...]:
    """What can be said to a wait: nothing to one for a time."""
    return {"approval": APPROVAL, "interrupted": INTERRUPTED, "schedule": ()}[wait.kind]


# --- On the command line ----------------------------------------------------------------------------------------------


def from_flags(flags: Namespace) -> Answer | None:
    """The answer that the command line gives, where it gives one."""
    if flags.edit:
        return Answer("edit", flags.by, changes=dict(flags.edit))
    for verb in ("reject", "complete", "fail"):
        if (text := getattr(flags, verb)) is not None:
            return Answer(verb, flags.by, text)
    if flags.retry:
        return Answer("retry", flags.by)
    return Answer("approve", flags.by) if flags.approve else None


def given(answer: Answer | None) -> Answers:
    """Give one answer to everything that it fits."""

    async def give(wait: Wait) -> Answer | None:
        return answer if answer is not None and answer.verb in verbs_for(wait) else None

    return give


def changed(text: str) -> tuple[str, object]:
    """`cents=300` as a name and a value: JSON where it can be read as that, else text."""
    name, sign, value = text.partition("=")
    if not name or not sign:
        msg = f"an edit looks like cents=300, not like {text!r}"
        raise ValueError(msg)
    return name, value_of(value)


def value_of(text: str) -> object:
    """JSON where the text can be read as that, else the text."""
    try:
        return cast("object", json.loads(text))
    except ValueError:
        return text


# --- In a terminal ----------------------------------------------------------------------------------------------------


def asked(screen: Screen, by: str) -> Answers:
    """Ask the person at the terminal. Ctrl-C at a question ends the program, and nothing was decided."""

    async def ask(wait: Wait) -> Answer | None:
        verbs = verbs_for(wait)
        if not verbs:
            return None
        verb = await _verb(screen, verbs)
        match verb:
            case "edit":
                return Answer(verb, by, changes=await _changes(screen, wait))
            case "reject" | "fail":
                return Answer(verb, by, await _read(screen, "why? "))
            case "complete":
                return Answer(verb, by, await _read(screen, "what came of it? "))
            case _:
                return Answer(verb, by)

    return ask


async def _verb(screen: Screen, verbs: Sequence[Verb]) -> Verb:
    question = f"{', '.join(verbs[:-1])} or {verbs[-1]}? "
    while True:
        said = (await _read(screen, question)).lower()
        found: list[Verb] = [verb for verb in verbs if said and verb.startswith(said)]
        if len(found) == 1:
            return found[0]


async def _changes(screen: Screen, wait: Wait) -> dict[str, object]:
    changes: dict[str, object] = {}
    for name, value in wait.arguments.items():
        said = await _read(screen, f"{name} [{value}] = ")
        if said:
            changes[name] = said if isinstance(value, str) else value_of(said)
    return changes


async def _read(screen: Screen, question: str) -> str:
    """A line from the terminal.

    It is waited for in the event loop, where ctrl-C ends the wait whenever it comes; in `input()`, one that comes just
    before the read would be noticed after it. Windows cannot wait for a terminal.
    """
    print(screen.paint(MARGIN + question, YELLOW), end="", flush=True)
    if sys.platform != "win32":
        await anyio.wait_readable(sys.stdin)
    line = sys.stdin.readline()
    if not line:
        raise EOFError
    return line.strip()
