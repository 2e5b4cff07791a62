"""Terminal prompts that ask the user to decide about waiting tool calls."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Final, cast

import click
from chat_core import IllegalTransitionError, Messages, UsageError, Wait
from chat_core.approvals import has_invisible

from chat_terminal.screen import Screen, format_call, format_value

Decision = Callable[[Messages], None]
"""Applies one of the user's decisions to a conversation."""

_VERBS: Final = {
    "approval": ("approve", "edit", "reject", "later"),
    "result": ("complete", "fail", "later"),
    "interrupted": ("complete", "retry", "fail", "later"),
}

_QUESTIONS: Final = {"reject": "  why", "fail": "  why", "complete": "  what came of it"}


def prompt_decisions(waiting: Sequence[Wait], screen: Screen, person: str) -> list[Decision]:
    """Prompt the user to decide about each waiting tool call.

    Args:
        waiting: waiting calls. Scheduled calls are shown without a prompt.
        screen: screen that shows the calls.
        person: name under which decisions are recorded.

    Returns:
        The decisions. The list is empty if the user postponed every call.

    Raises:
        click.Abort: the user pressed ctrl-C, or the input ended. Nothing is decided.
    """
    decisions: list[Decision] = []
    for wait in waiting:
        decision = _prompt_decision(wait, screen, person)
        if decision is not None:
            decisions.append(decision)
    return decisions


def _prompt_decision(wait: Wait, screen: Screen, person: str) -> Decision | None:
    # This is printed even on a quiet screen: users must see what they decide.
    screen.print_line(f"⏸ {format_call(wait.name, wait.arguments)}", "bold yellow")
    if wait.kind == "schedule":
        screen.print_line(f"  waits until {wait.at:%Y-%m-%d %H:%M:%S %Z}", "dim")
        return None
    if wait.error:
        screen.print_line(f"  {wait.error}", "red")
    if wait.expires_at is not None:
        outcome = "approved" if wait.kind == "approval" else "decided"
        screen.print_line(f"  can be {outcome} until {wait.expires_at.astimezone():%Y-%m-%d %H:%M:%S}", "dim")
    verbs = _VERBS[wait.kind]
    verb: str = click.prompt(f"  decide ({'/'.join(verbs)})", type=_VerbType(verbs), err=True)
    return _build_decision(verb, wait, person)


def _build_decision(verb: str, wait: Wait, person: str) -> Decision | None:
    if verb == "later":
        return None
    options: dict[str, object] = {"by": person}
    if verb == "edit":
        verb, options["arguments"] = "approve", _prompt_arguments(wait)
    text = [_prompt_line(_QUESTIONS[verb])] if verb in _QUESTIONS else []

    def decide(messages: Messages) -> None:
        getattr(messages.tool(*wait.path), verb)(*text, **options)

    return decide


def apply_decisions(decisions: Sequence[Decision], messages: Messages, screen: Screen) -> None:
    """Apply decisions to a conversation. Report decisions that are no longer possible, and apply all others.

    Args:
        decisions: decisions to apply.
        messages: conversation to modify.
        screen: screen that shows the errors.
    """
    for decision in decisions:
        try:
            decision(messages)
        except (IllegalTransitionError, UsageError) as error:
            screen.print_line(f"  {error}", "red")
        except KeyError as error:
            screen.print_line(f"  {error.args[0]}", "red")  # the call was removed from the session


def _prompt_arguments(wait: Wait) -> dict[str, object]:
    arguments = dict(wait.arguments)
    for name, value in wait.arguments.items():
        # Printable text is edited as it is. Text with line breaks or invisible characters is edited as JSON.
        is_plain = isinstance(value, str) and value.isprintable() and not has_invisible(value)
        shown = str(value) if is_plain else format_value(value)
        typed: str = click.prompt(f"  {format_value(name)[1:-1]}", default=shown, err=True)
        if typed != shown:
            arguments[name] = typed if is_plain else _parse_value(typed, text=isinstance(value, str))
    return arguments


def _parse_value(typed: str, *, text: bool) -> object:
    try:
        value = cast("object", json.loads(typed))
    except ValueError:
        return typed
    return typed if text and not isinstance(value, str) else value


def _prompt_line(question: str) -> str:
    answer: str = click.prompt(question, default="", show_default=False, err=True)
    return answer


class _VerbType(click.ParamType[str]):
    """Click parameter type that accepts one of several verbs, or an unambiguous prefix of one of them."""

    name = "verb"

    def __init__(self, verbs: Sequence[str]) -> None:
        self.verbs = verbs

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        found = [verb for verb in self.verbs if value and verb.startswith(value.strip().lower())]
        if len(found) != 1:
            self.fail(f"choose one of {', '.join(self.verbs)}", param, ctx)
        return found[0]
