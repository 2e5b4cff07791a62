"""IPython extension that displays conversations, responses, pauses and usage in a notebook.

Run `%load_ext chat_core.notebook` in a notebook. From then on, a cell that ends with one of these values displays it as
HTML. Text from users, models and tools is escaped, and invisible characters are visible as their JSON escapes.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import Any, Final

from chat_core.approvals import escape_invisible
from chat_core.json import dumps
from chat_core.messages import Content, File, Messages, Part, Reasoning, Structured, Text, Tool
from chat_core.response import ChatResponse, Paused, StructuredResponse
from chat_core.usage import Usage

_WAIT_COLUMNS: Final = ("tool", "arguments", "waits for", "until", "conversation")


def load_ipython_extension(shell: Any) -> None:  # noqa: ANN401 - IPython is not a dependency
    """Register the HTML of each displayed type. IPython calls this function for `%load_ext chat_core.notebook`.

    Args:
        shell: the running `InteractiveShell` of IPython.
    """
    formatter = shell.display_formatter.formatters["text/html"]
    for displayed in (Messages, Content, ChatResponse, StructuredResponse, Paused, Usage):
        formatter.for_type(displayed, to_html)


def to_html(value: Messages | Content | ChatResponse | StructuredResponse[Any] | Paused | Usage) -> str:
    """Return a value as an HTML fragment.

    Args:
        value: conversation, message, response, pause or usage.
    """
    if isinstance(value, Messages):
        return "".join(map(_render_message, value))
    if isinstance(value, Content):
        return _render_message(value)
    if isinstance(value, (ChatResponse, StructuredResponse)):
        return "".join(map(_render_part, value.turn.parts)) + to_html(value.usage)
    if isinstance(value, Paused):
        return _render_pause(value)
    return f"<p><small>{_render_text(str(value))}</small></p>"


def _render_message(content: Content) -> str:
    parts = "".join(_render_part(part) for turn in content.turns for part in turn.parts)
    return f"<section><b>{content.role}</b>{parts}</section>"


def _render_part(part: Part | Tool) -> str:
    match part:
        case Text(text=text):
            return f'<p style="white-space: pre-wrap">{_render_text(text)}</p>'
        case Reasoning(text=text):
            body = f'<p style="white-space: pre-wrap">{_render_text(text)}</p>'
            return f"<details><summary>reasoning</summary>{body}</details>"
        case Tool():
            status = type(part.status).__name__.lower()
            result = f"<pre>{_render_text(part.result_text())}</pre>" if part.resolved else ""
            call = f"{part.name} {dumps(part.effective_arguments)}"
            return f"<div><code>{_render_text(call)}</code> <small>{status}</small>{result}</div>"
        case File():
            return f"<p><small>file {_render_text(part.name or part.mime)}</small></p>"
        case Structured():
            return f"<pre>{_render_text(dumps(part.value))}</pre>"
        case _:
            return f"<p><small>{type(part).__name__.lower()}</small></p>"


def _render_pause(paused: Paused) -> str:
    rows = [
        (
            wait.name,
            dumps(wait.arguments),
            wait.kind,
            "" if wait.expires_at is None else wait.expires_at.isoformat(),
            wait.conversation or "",
        )
        for wait in paused.waiting
    ]
    body = "".join(f"<tr>{_render_cells(row, 'td')}</tr>" for row in rows)
    head = f"<thead><tr>{_render_cells(_WAIT_COLUMNS, 'th')}</tr></thead>"
    return f"<p><b>{paused.reason}</b></p><table>{head}<tbody>{body}</tbody></table>{to_html(paused.usage)}"


def _render_cells(texts: Iterable[str], tag: str) -> str:
    return "".join(f"<{tag}>{_render_text(text)}</{tag}>" for text in texts)


def _render_text(text: str) -> str:
    return escape(escape_invisible(text))
