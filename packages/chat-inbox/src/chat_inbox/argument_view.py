"""Read-only views of argument values: a one-line preview, and the full text of longer values."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, final

from chat_core.approvals import escape_invisible, has_invisible
from chat_core.messages import Messages

from chat_inbox.form_schemas import parse_schema
from chat_inbox.forms import format_json

PREVIEW_LENGTH: Final = 120
"""Maximum number of characters of a value that are visible before the user expands it."""


@final
@dataclass(frozen=True, slots=True)
class ArgumentView:
    """The template data of one value.

    Attributes:
        name: name of the argument.
        preview: the value, or its beginning, on one line.
        full: the whole value if `preview` is truncated, otherwise None.
        length: number of characters of the whole value.
        hint: description of the argument in the schema of the tool.
    """

    name: str
    preview: str
    full: str | None
    length: int
    hint: str = ""


def view_text(text: str, name: str = "", *, limit: int = PREVIEW_LENGTH) -> ArgumentView:
    """Return the view of a text.

    Args:
        text: text to show.
        name: label of the value.
        limit: maximum length of the preview in characters.
    """
    line = " ".join(text.split())
    if line == text.strip() and len(line) <= limit:
        return ArgumentView(name, line, None, len(text))
    # White space at the end would be invisible, so it is shown as escapes.
    full = text.rstrip()
    full += json.dumps(text[len(full) :])[1:-1].replace(" ", r"\u0020")
    return ArgumentView(name, _shorten(line, limit), full, len(text))


def view_arguments(
    arguments: Mapping[str, object], schema: Mapping[str, object] | None = None
) -> tuple[ArgumentView, ...]:
    """Return the views of all arguments of a call.

    Args:
        arguments: values by name.
        schema: JSON Schema of the arguments, whose descriptions become hints.
    """
    properties = parse_schema(schema or {}, schema or {}).properties
    return tuple(
        [
            _view_value(name, value, properties[name].help if name in properties else "")
            for name, value in arguments.items()
        ]
    )


def format_line(value: object) -> str:
    """Return a whole value as the page shows it, on one line.

    Args:
        value: JSON value.
    """
    if isinstance(value, str) and not _needs_quotes(value):
        return " ".join(value.split())
    return escape_invisible(json.dumps(value, ensure_ascii=False))


def _view_value(name: str, value: object, hint: str) -> ArgumentView:
    """Return the view of one value. A text with several lines is shown with its lines when it is expanded."""
    line = format_line(value)
    if isinstance(value, str) and not _needs_quotes(value):
        view = view_text(value, name)
        return replace(view, preview=_shorten(line, PREVIEW_LENGTH), hint=hint)
    if len(line) <= PREVIEW_LENGTH:
        return ArgumentView(name, line, None, len(line), hint)
    return ArgumentView(name, _shorten(line, PREVIEW_LENGTH), format_json(value), len(line), hint)


def _shorten(line: str, limit: int) -> str:
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def _has_lines(text: str) -> bool:
    return "\n" in text.strip()


def _needs_quotes(text: str) -> bool:
    """Return whether a text looks like JSON, or is one line with invisible characters or outer white space."""
    if not _has_lines(text) and (not text or text != text.strip() or has_invisible(text)):
        return True
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def find_request(messages: Messages, call_id: str) -> str:
    """Return the user's last text before a call of the outermost conversation, or an empty string if there is none.

    Args:
        messages: history that contains the call.
        call_id: id of the call in this history.
    """
    request = ""
    for content in messages:
        if any(tool.id == call_id for tool in content.tools):
            return request
        if content.role == "user":
            texts = [turn.text for turn in content.turns if turn.by is None and turn.text.strip()]
            request = texts[-1] if texts else request
    return ""
