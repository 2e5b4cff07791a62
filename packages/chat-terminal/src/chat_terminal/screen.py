"""Terminal output: responses on standard output, everything else on standard error.

On a terminal, a response is rendered as Markdown while it streams. Finished paragraphs are printed once, and only the
last paragraph is redrawn. Without a terminal, the text is written unchanged.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Mapping
from typing import Final, TypeAlias, final

from chat_core import (
    AttemptReset,
    ChatResponse,
    Completed,
    Failed,
    Paused,
    Rejected,
    StreamEvent,
    StructuredResponse,
    TextDelta,
    Tool,
    ToolData,
    ToolProgress,
    ToolResult,
    ToolStarted,
)
from chat_core.approvals import escape_invisible
from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.markdown import Markdown
from rich.segment import Segment
from rich.text import Text

Answer: TypeAlias = ChatResponse | StructuredResponse[object]
"""Return value of a run that did not pause."""

_REDRAW_SECONDS: Final = 0.06
_FENCE: Final = re.compile(r"\s*(`{3,}|~{3,})")
_CONTROL_CHARACTERS: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


@final
class Screen:
    """Terminal output for the events of a run.

    Args:
        quiet: show no events; for `--json`, which prints one object at the end.
        plain: write the text unchanged on a terminal too; for a dialog, in which the user types while text arrives.
        with_text: show the text of responses. Structured output is printed at the end, because it may be corrected.
    """

    def __init__(self, *, quiet: bool = False, plain: bool = False, with_text: bool = True) -> None:
        self._out = Console(highlight=False, soft_wrap=not sys.stdout.isatty())
        self._err = Console(stderr=True, highlight=False, soft_wrap=not sys.stderr.isatty())
        self._quiet = quiet
        self._with_text = with_text and not quiet
        self._formats = self._out.is_terminal and not plain
        self._text: list[str] = []
        self._live: Live | None = None
        self._first = True
        self._last_redraw = 0.0

    def show_event(self, event: StreamEvent[Answer, Paused]) -> None:
        """Show one event of a run, such as received text or a started tool."""
        match event:
            case TextDelta(text):
                self._append_text(text)
            case ToolStarted(tool):
                self.print_progress(f"▶ {format_call(tool.name, tool.effective_arguments)}", "cyan")
            case ToolProgress(_, value):
                self.print_progress(f"  {value}", "dim")
            case ToolData(_, data):
                self.print_progress(f"  {data.type}: {data.payload}", "dim")
            case ToolResult(tool):
                self._show_result(tool)
            case AttemptReset(_, reason):
                self.finish_text()
                self.print_progress(f"↺ once more: {reason}", "yellow")
            case _:
                pass

    def print_progress(self, text: str, style: str = "") -> None:
        """Print a status line on standard error, unless the screen is quiet.

        Args:
            text: the line.
            style: Rich style of the line.
        """
        if not self._quiet:
            self.print_line(text, style)

    def print_line(self, text: str, style: str = "") -> None:
        """Print a line on standard error, even if the screen is quiet.

        Args:
            text: the line.
            style: Rich style of the line.
        """
        self.finish_text()
        self._err.print(Text(escape_invisible(replace_control_characters(text)), style=style))

    def show_input_prompt(self) -> None:
        """Show that the user can type a message."""
        self.finish_text()
        self._err.print("> ", end="")

    def finish_text(self) -> None:
        """Finish the response text that is being streamed, so that other lines can be printed after it."""
        if self._live is not None:
            self._live.update(_MarkdownBlock("".join(self._text), first=self._first), refresh=True)
            self._live.stop()
            self._live, self._first = None, True
        elif self._text and not self._formats and not self._quiet:
            sys.stdout.write("\n")
            sys.stdout.flush()
        self._text.clear()

    def _append_text(self, text: str) -> None:
        if not self._with_text:
            return
        if not self._formats:
            self._text.append(text)
            sys.stdout.write(replace_control_characters(text) if self._out.is_terminal else text)
            sys.stdout.flush()
            return
        self._text.append(replace_control_characters(text))
        if self._live is None:
            self._live = Live(console=self._out, auto_refresh=False, vertical_overflow="visible")
            self._live.start()
        now = time.monotonic()
        if now - self._last_redraw >= _REDRAW_SECONDS or "\n" in text:
            self._last_redraw = now
            self._print_finished_blocks(self._live)

    def _print_finished_blocks(self, live: Live) -> None:
        done, rest = split_finished("".join(self._text))
        if done:
            # Text printed above the live display is never redrawn, which keeps long responses fast.
            live.update(Text(""), refresh=True)
            self._out.print(_MarkdownBlock(done, first=self._first), end="")
            self._text[:] = [rest]
            self._first = self._first and not done.strip()
        live.update(_MarkdownBlock(rest, first=self._first), refresh=True)

    def _show_result(self, tool: Tool) -> None:
        match tool.status:
            case Completed():
                self.print_progress(f"✔ {tool.name}", "green")
            case Failed(error):
                self.print_progress(f"✖ {tool.name} failed: {error}", "red")
            case Rejected(reason, source):
                self.print_progress(f"✖ {tool.name} was refused ({source}): {reason}", "red")
            case _:
                pass


@final
class _MarkdownBlock:
    """Rich renderable for a block of Markdown, with a blank line before it unless it is the first block."""

    def __init__(self, markdown: str, *, first: bool) -> None:
        self._markdown = markdown
        self._first = first

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        lines = console.render_lines(Markdown(self._markdown), options)
        while lines and _is_blank(lines[0]):
            del lines[0]
        while lines and _is_blank(lines[-1]):
            del lines[-1]
        if lines and not self._first:
            yield Segment.line()
        for line in lines:
            yield from line
            yield Segment.line()


def _is_blank(line: list[Segment]) -> bool:
    """Return whether a rendered line is blank. Padding of a code block has a background color and is not blank."""
    return all(not part.text.strip() and (part.style is None or part.style.bgcolor is None) for part in line)


def split_finished(markdown: str) -> tuple[str, str]:
    """Split Markdown after its last complete paragraph. Return the finished part and the part that may still grow."""
    fence, cut, position = "", 0, 0
    for line in markdown.splitlines(keepends=True):
        marked = _FENCE.match(line)
        if not fence and marked:
            fence = marked[1]
        elif marked and marked[1].startswith(fence) and not line[marked.end() :].strip():
            fence = ""  # a closing fence is at least as long as the opening one, with no text after it
        position += len(line)
        if not line.strip() and not fence and line.endswith("\n"):
            cut = position
    return markdown[:cut], markdown[cut:]


def format_call(name: str, arguments: Mapping[str, object]) -> str:
    """Format a tool call like a Python call, with escapes for invisible characters.

    Args:
        name: name of the tool.
        arguments: arguments of the call.
    """
    words = ", ".join([f"{format_value(key)[1:-1]}={format_value(value)}" for key, value in arguments.items()])
    return f"{format_value(name)[1:-1]}({words})"


def format_value(value: object) -> str:
    """Format a value as JSON. Characters that are invisible or that reorder text are escaped."""
    return escape_invisible(json.dumps(value, ensure_ascii=False))


def replace_control_characters(text: str) -> str:
    """Return the text with control characters replaced, except line feeds and tabs. Carriage returns are removed."""
    return _CONTROL_CHARACTERS.sub("\N{REPLACEMENT CHARACTER}", text.replace("\r", ""))
