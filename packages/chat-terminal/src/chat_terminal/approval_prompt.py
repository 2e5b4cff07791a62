"""Terminal prompts that ask the user to decide about waiting tool calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final, cast

import click
from chat_core import IllegalTransitionError, Messages, UsageError, Wait
from chat_core.approvals import has_invisible
from chat_core.json import is_finite, loads
from chat_core.tools import SchemaChecker

from chat_terminal.controlling_terminal import discard_pending_input
from chat_terminal.line_editing import prompt_value, remove_key_sequences
from chat_terminal.screen import Screen, format_call, format_value

Decision = Callable[[Messages], None]
"""Function that applies one of the user's decisions to a conversation."""

_VERBS: Final = {
    "approval": ("yes", "edit", "no", "later"),
    "result": ("complete", "fail", "later"),
    "interrupted": ("complete", "retry", "fail", "later"),
}

_ALIASES: Final = {"approval": {"approve": "yes", "reject": "no"}}
"""Synonyms of the answers to each kind of wait. An unambiguous prefix of a synonym is accepted, too."""

_METHODS: Final = {"yes": "approve", "no": "reject"}
"""Method of `Tool` for each answer whose name differs from the method's name."""

_QUESTIONS: Final = {"reject": "  why", "fail": "  why", "complete": "  what came of it"}


def prompt_decisions(
    waiting: Sequence[Wait], screen: Screen, person: str, schemas: Mapping[str, Mapping[str, object]]
) -> list[Decision]:
    """Prompt the user to decide about each waiting tool call.

    Args:
        waiting: waiting calls. Scheduled calls are shown without a prompt.
        screen: screen that shows the calls.
        person: name under which decisions are recorded.
        schemas: JSON Schemas of the arguments by tool name. An edited argument is checked against its schema.

    Returns:
        The decisions. The list is empty if the user postponed every call.

    Raises:
        click.Abort: the user pressed ctrl-C, or the input ended. Nothing is decided.
    """
    decisions: list[Decision] = []
    for wait in waiting:
        decision = _prompt_decision(wait, screen, person, schemas)
        if decision is not None:
            decisions.append(decision)
    return decisions


def _prompt_decision(
    wait: Wait, screen: Screen, person: str, schemas: Mapping[str, Mapping[str, object]]
) -> Decision | None:
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
    choices = ", ".join([f"[{verb[0]}]{verb[1:]}" for verb in verbs])
    kind = _VerbType(verbs, _ALIASES.get(wait.kind, {}))
    discard_pending_input()  # what was typed before the call was shown cannot be a decision about it
    verb = cast("str", prompt_value(f"  decide ({choices})", type=kind))
    # A call of an inner chat has a longer path. Its tool is not one of the tools with these names.
    schema = schemas.get(wait.name) if len(wait.path) == 1 else None
    return _build_decision(_METHODS.get(verb, verb), wait, person, schema or {})


def _build_decision(verb: str, wait: Wait, person: str, schema: Mapping[str, object]) -> Decision | None:
    if verb == "later":
        return None
    options: dict[str, object] = {"by": person}
    if verb == "edit":
        verb, options["arguments"] = "approve", _prompt_arguments(wait, schema)
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


def _prompt_arguments(wait: Wait, schema: Mapping[str, object]) -> dict[str, object]:
    arguments = dict(wait.arguments)
    for name, value in wait.arguments.items():
        # Printable text is edited unchanged. Text with line breaks or invisible characters is edited as JSON.
        is_plain = isinstance(value, str) and value.isprintable() and not has_invisible(value)
        shown = str(value) if is_plain else format_value(value)
        kind = _ValueType(name, value, shown, _build_checker(schema, name), is_plain=is_plain)
        arguments[name] = prompt_value(f"  {format_value(name)[1:-1]}", default=shown, type=kind)
    return arguments


def _build_checker(schema: Mapping[str, object], name: str) -> SchemaChecker | None:
    """Return a checker for one argument, or None if the schema has references that another part of it defines."""
    properties = cast("Mapping[str, object]", schema.get("properties", {}))
    with suppress(UsageError):
        return SchemaChecker({"properties": {name: properties.get(name, True)}, "$defs": schema.get("$defs", {})})
    return None


def _prompt_line(question: str) -> str:
    return remove_key_sequences(cast("str", prompt_value(question, default="", show_default=False)))


class _VerbType(click.ParamType[str]):
    """Click parameter type that accepts one of several verbs, or an unambiguous prefix of one of them."""

    name = "verb"

    def __init__(self, verbs: Sequence[str], aliases: Mapping[str, str]) -> None:
        self.verbs = verbs
        self.aliases = aliases

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        words = {**{verb: verb for verb in self.verbs}, **self.aliases}
        found = {verb for word, verb in words.items() if value.strip() and word.startswith(value.strip().lower())}
        if len(found) != 1:
            self.fail(f"choose one of {', '.join(self.verbs)}", param, ctx)
        return found.pop()


class _ValueType(click.ParamType[object]):
    """Click parameter type for a new value of a call argument. The value must have the same JSON type as the original.

    Args:
        argument: name of the argument.
        original: current value, which is returned if the user does not change the shown text.
        shown: the shown text.
        checker: checker of the argument's JSON Schema, or None.
        is_plain: whether the user types plain text, because `original` is text; otherwise the user types JSON.
    """

    name = "value"

    def __init__(
        self, argument: str, original: object, shown: str, checker: SchemaChecker | None, *, is_plain: bool
    ) -> None:
        self.argument = argument
        self.original = original
        self.shown = shown
        self.checker = checker
        self.is_plain = is_plain

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> object:
        if value == self.shown:
            return self.original
        value = remove_key_sequences(value)
        parsed = self._parse(value)
        if self.original is not None and _json_type(parsed) != _json_type(self.original):
            self.fail(f"this must be {_json_type(self.original)}, such as {self.shown[:60]}, not {value!r}", param, ctx)
        problems = self._find_problems(parsed)
        if problems and self.original is None and not self._find_problems(value):
            return value  # a text without quotation marks
        if problems:
            self.fail(f"the tool does not accept this: {'; '.join(problems)}", param, ctx)
        return parsed

    def _parse(self, value: str) -> object:
        if self.is_plain:
            return "" if value == '""' else value  # click reads an empty line as the unchanged value
        try:
            parsed = loads(value)
        except (ValueError, RecursionError):
            return value
        is_other_type = isinstance(self.original, str) and not isinstance(parsed, str)
        return value if is_other_type or not is_finite(parsed) else parsed

    def _find_problems(self, value: object) -> list[str]:
        return [] if self.checker is None else self.checker.problems({self.argument: value})


def _json_type(value: object) -> str:
    """Return the name of a value's JSON type, with an article. Integers and other numbers have the same name."""
    if isinstance(value, bool):
        return "true or false"
    names: dict[type | tuple[type, ...], str] = {
        (int, float): "a number",
        list: "a JSON list",
        dict: "a JSON object",
        str: "a string",
    }
    return next((name for types, name in names.items() if isinstance(value, types)), "null")
