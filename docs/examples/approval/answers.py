"""User decisions on pending calls, read from a terminal or from command-line flags."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, cast, final

import anyio
from chat_core import Tool, Wait
from chat_core.approvals import escape_invisible
from screen import MARGIN, YELLOW, Screen

Verb: TypeAlias = Literal["approve", "edit", "reject", "retry", "complete", "fail"]

APPROVAL: tuple[Verb, ...] = ("approve", "edit", "reject")
INTERRUPTED: tuple[Verb, ...] = ("complete", "retry", "fail")


@final
@dataclass(frozen=True)
class Answer:
    """Decision to apply to a pending call. `text` is a reason or a result; `changes` are replacement arguments."""

    verb: Verb
    by: str
    text: str = ""
    changes: Mapping[str, object] | None = None

    def apply(self, tool: Tool, wait: Wait) -> None:
        """Apply the decision to `tool`. It becomes durable when the conversation is saved or run.

        Raises:
            IllegalTransitionError: the status of the call does not allow this decision.
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
"""Function that returns the decision on a pending call, or `None` to leave it pending."""


def verbs_for(wait: Wait) -> tuple[Verb, ...]:
    """Return the decisions allowed for a pending call. A scheduled call allows none."""
    return {"approval": APPROVAL, "interrupted": INTERRUPTED, "schedule": ()}[wait.kind]


# --- On the command line ----------------------------------------------------------------------------------------------


def from_flags(flags: Namespace) -> Answer | None:
    """Return the decision given by the command-line flags, or `None`."""
    if flags.edit:
        return Answer("edit", flags.by, changes=dict(flags.edit))
    for verb in ("reject", "complete", "fail"):
        if (text := getattr(flags, verb)) is not None:
            return Answer(verb, flags.by, text)
    if flags.retry:
        return Answer("retry", flags.by)
    return Answer("approve", flags.by) if flags.approve else None


def given(answer: Answer | None) -> Answers:
    """Return a function that gives the same answer to every call that allows it."""

    async def give(wait: Wait) -> Answer | None:
        return answer if answer is not None and answer.verb in verbs_for(wait) else None

    return give


def changed(text: str) -> tuple[str, object]:
    """Parse an edit such as `cents=300` into a name and a value. The value is JSON if it parses, else text."""
    name, sign, value = text.partition("=")
    if not name or not sign:
        msg = f"an edit looks like cents=300, not like {text!r}"
        raise ValueError(msg)
    return name, value_of(value)


def value_of(text: str) -> object:
    """Parse the text as JSON. Return it unchanged if it is not JSON."""
    try:
        return cast("object", json.loads(text))
    except ValueError:
        return text


# --- In a terminal ----------------------------------------------------------------------------------------------------


def asked(screen: Screen, by: str) -> Answers:
    """Return a function that prompts the user. Ctrl-C at a prompt ends the program and leaves that call undecided."""

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
    """Prompt for a line and read it from the terminal.

    The event loop waits for the input, so Ctrl-C always interrupts the wait. `input()` would notice a Ctrl-C that
    arrives just before the read only afterwards. Windows does not support waiting for a terminal.
    """
    print(screen.paint(MARGIN + escape_invisible(question), YELLOW), end="", flush=True)
    if sys.platform != "win32":
        await anyio.wait_readable(sys.stdin)
    line = sys.stdin.readline()
    if not line:
        raise EOFError
    return line.strip()
