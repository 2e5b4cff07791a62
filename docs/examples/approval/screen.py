"""Terminal output: stream events as they arrive, and pending calls."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import final

from chat_core import (
    Approved,
    AttemptReset,
    ChatResponse,
    Completed,
    Decision,
    Done,
    Failed,
    Interrupted,
    Messages,
    Paused,
    Pending,
    Rejected,
    StreamEvent,
    TextDelta,
    Tool,
    ToolCall,
    ToolCallDelta,
    ToolProgress,
    ToolResult,
    ToolStarted,
    Wait,
)
from chat_core.approvals import escape_invisible

MARGIN = " " * 7
DIM, BOLD, RED, GREEN, YELLOW, CYAN = 2, 1, 31, 32, 33, 36


@final
class Screen:
    """Writer to standard output, colored in a terminal unless `NO_COLOR` is set."""

    def __init__(self) -> None:
        plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
        self._coloured = sys.stdout.isatty() and not plain
        self._streaming = False
        reconfigure = getattr(sys.stdout, "reconfigure", None)
        if reconfigure is not None:
            # Print a question mark for characters that the terminal's encoding lacks.
            reconfigure(errors="replace")

    def paint(self, text: str, *codes: int) -> str:
        """Wrap the text in ANSI codes if colors are enabled."""
        return f"\x1b[{';'.join(map(str, codes))}m{text}\x1b[0m" if self._coloured and codes else text

    def line(self, label: str, text: str, *codes: int, style: tuple[int, ...] = ()) -> None:
        """Print a line with a label in the margin. Invisible characters of the text are shown as escapes.

        Args:
            label: text of the margin.
            text: text of the line, which may be from the model or a tool.
            *codes: ANSI codes of the label.
            style: ANSI codes of the text.
        """
        self._end_stream()
        label = label.ljust(len(MARGIN) + label.count("\n"))
        print(
            (self.paint(label, *codes) if label.strip() else label) + self.paint(escape_invisible(text), *style),
            flush=True,
        )

    def note(self, text: str) -> None:
        """Print dimmed text that belongs to the line above."""
        for line in text.splitlines():
            self.line("", line, style=(DIM,))

    def show(self, event: StreamEvent[ChatResponse, Paused]) -> None:
        """Print a stream event."""
        match event:
            case TextDelta(text):
                self._stream(text)
            case ToolCallDelta(arguments, _, name):
                # The name arrives once. The arguments arrive in pieces while the model writes them.
                if name and self._streaming:
                    self._stream(f"\n{MARGIN}")
                self._stream(f"calls {name} {arguments}" if name else arguments)
            case ToolCall():
                self._end_stream()
            case ToolStarted(tool):
                self.line("▶", f"{shown(tool.name, tool.effective_arguments)} runs", CYAN)
            case ToolProgress(_, value):
                self.note(str(value))
            case ToolResult(tool):
                self._result(tool)
            case AttemptReset(_, reason):
                self.line("↺", f"once more: {reason}", YELLOW)
            case Paused() | Done():
                self._end_stream()
            case _:
                pass

    def _result(self, tool: Tool) -> None:
        match tool.status:
            case Completed(result):
                self.line("✔", f"{tool.name}: {result}", GREEN)
            case Failed(error):
                self.line("✖", f"{tool.name} failed: {error}", RED)
            case Rejected(reason, source):
                self.line("✖", f"{tool.name} was refused ({source}): {reason}", RED)
            case _:
                pass

    def call(self, name: str, arguments: Mapping[str, object]) -> None:
        """Print a pending call with the exact arguments that would run."""
        self.line("⏸", shown(name, arguments), YELLOW, style=(BOLD,))

    def wait(self, wait: Wait) -> None:
        """Print a pending call of a pause, with its error if it has one."""
        self.call(wait.name, wait.arguments)
        if wait.kind == "interrupted":
            self.note(f"interrupted: {wait.error}")
        elif wait.error:
            self.note(f"this cannot run: {wait.error}")

    def _stream(self, text: str) -> None:
        if not self._streaming:
            self._streaming = True
            sys.stdout.write(self.paint("model".ljust(len(MARGIN)), CYAN))
        sys.stdout.write(escape_invisible(text))
        sys.stdout.flush()

    def _end_stream(self) -> None:
        if self._streaming:
            self._streaming = False
            print(flush=True)


# --- Formatting -------------------------------------------------------------------------------------------------------


def shown(name: str, arguments: Mapping[str, object]) -> str:
    """Format a call as a line of code."""
    return f"{name}({', '.join(f'{key}={json.dumps(value)}' for key, value in arguments.items())})"


def status(tool: Tool) -> str:
    """Describe the status of an unresolved call."""
    match tool.status:
        case Pending(kind):
            return {"approval": "waits for approval", "schedule": "waits for its time", None: "was asked for"}[kind]
        case Approved():
            return "is approved and has not run"
        case Interrupted():
            return "was interrupted, and may have taken effect"
        case _:
            return "runs, or its process has died"


def asked_at(tool: Tool, messages: Messages) -> str:
    """Describe when the model requested a call."""
    turns = (turn for content in messages for turn in content.turns)
    return next(f"asked for at {clock(turn.created_at)}" for turn in turns if tool in turn.tools)


def terms(tool: Tool) -> list[str]:
    """Describe the decisions on a call and its approval deadline, one sentence each."""
    sentences = [told(decision) for decision in tool.decisions]
    match tool.status:
        case Pending("approval", datetime() as expires_at):
            sentences.append(f"can be approved until {clock(expires_at)}, for another {left(expires_at)}")
        case _:
            pass
    return sentences


def told(decision: Decision) -> str:
    """Describe a decision: the action, its author and its time."""
    edit = f" with {json.dumps(dict(decision.arguments))}" if decision.arguments is not None else ""
    when = f" at {clock(decision.at)}" if decision.at is not None else ""
    return f"{decision.action}{edit}, by {decision.by or 'somebody'}{when}"


def clock(moment: datetime) -> str:
    """Format a time in the local time zone."""
    return f"{moment.astimezone():%Y-%m-%d %H:%M:%S}"


def left(until: datetime) -> str:
    """Format the time left until a moment, in hours and minutes."""
    minutes = max(0, round((until - datetime.now(UTC)) / timedelta(minutes=1)))
    return f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min"  # noqa: PLR2004 - an hour
