"""What a person sees: the answer on the standard output, everything about it on the standard error.

In a terminal an answer is Markdown that grows: paragraphs that are finished are written once, and only the last one is
drawn again while it comes. Through a pipe it is the text as it is.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Mapping
from typing import Final, final

from chat_core import (
    AttemptReset,
    ChatResponse,
    Completed,
    Failed,
    Paused,
    Rejected,
    StreamEvent,
    TextDelta,
    Tool,
    ToolProgress,
    ToolResult,
    ToolStarted,
)
from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.markdown import Markdown
from rich.segment import Segment
from rich.text import Text

_REDRAW_SECONDS: Final = 0.06
_FENCE: Final = re.compile(r"\s*(`{3,}|~{3,})")
_OBEYED: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


@final
class Screen:
    """Where a run is shown.

    Args:
        quiet: show nothing while it runs: what is printed at the end is all.
    """

    def __init__(self, *, quiet: bool = False) -> None:
        self._out = Console(highlight=False, soft_wrap=not sys.stdout.isatty())
        self._notes = Console(stderr=True, highlight=False, soft_wrap=not sys.stderr.isatty())
        self._quiet = quiet
        self._text: list[str] = []
        self._live: Live | None = None
        self._first = True
        self._drawn = 0.0

    def show(self, event: StreamEvent[ChatResponse, Paused]) -> None:
        """An event of a stream."""
        match event:
            case TextDelta(text):
                self._grow(text)
            case ToolStarted(tool):
                self.note(f"▶ {call(tool.name, tool.effective_arguments)}", "cyan")
            case ToolProgress(_, value):
                self.note(f"  {value}", "dim")
            case ToolResult(tool):
                self._result(tool)
            case AttemptReset(_, reason):
                self.end()
                self.note(f"↺ once more: {reason}", "yellow")
            case _:
                pass

    def note(self, text: str, style: str = "") -> None:
        """A line beside the answer."""
        if not self._quiet:
            self.tell(text, style)

    def tell(self, text: str, style: str = "") -> None:
        """A line beside the answer, also where the screen is quiet."""
        self.end()
        self._notes.print(Text(plain(text), style=style))

    def end(self) -> None:
        """The text so far is all of it."""
        if self._live is not None:
            self._live.update(_Block("".join(self._text), first=self._first), refresh=True)
            self._live.stop()
            self._live, self._first = None, True
        elif self._text and not self._out.is_terminal and not self._quiet:
            sys.stdout.write("\n")
            sys.stdout.flush()
        self._text.clear()

    def _grow(self, text: str) -> None:
        if self._quiet:
            return
        if not self._out.is_terminal:
            self._text.append(text)
            sys.stdout.write(text)
            sys.stdout.flush()
            return
        self._text.append(plain(text))
        if self._live is None:
            self._live = Live(console=self._out, auto_refresh=False, vertical_overflow="visible")
            self._live.start()
        now = time.monotonic()
        if now - self._drawn >= _REDRAW_SECONDS or "\n" in text:
            self._drawn = now
            self._draw(self._live)

    def _draw(self, live: Live) -> None:
        done, rest = finished("".join(self._text))
        if done:
            # What stands above the live part is not drawn again, however long the answer grows.
            live.update(Text(""), refresh=True)
            self._out.print(_Block(done, first=self._first), end="")
            self._text[:] = [rest]
            self._first = self._first and not done.strip()
        live.update(_Block(rest, first=self._first), refresh=True)

    def _result(self, tool: Tool) -> None:
        match tool.status:
            case Completed():
                self.note(f"✔ {tool.name}", "green")
            case Failed(error):
                self.note(f"✖ {tool.name} failed: {error}", "red")
            case Rejected(reason, source):
                self.note(f"✖ {tool.name} was refused ({source}): {reason}", "red")
            case _:
                pass


@final
class _Block:
    """A part of a page of Markdown, one empty line below the part before it."""

    def __init__(self, markdown: str, *, first: bool) -> None:
        self._markdown = markdown
        self._first = first

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        lines = console.render_lines(Markdown(self._markdown), options)
        while lines and _empty(lines[0]):
            del lines[0]
        while lines and _empty(lines[-1]):
            del lines[-1]
        if lines and not self._first:
            yield Segment.line()
        for line in lines:
            yield from line
            yield Segment.line()


def _empty(line: list[Segment]) -> bool:
    """Whether nothing stands in a line; the edge of a block of code is a colour."""
    return all(not part.text.strip() and (part.style is None or part.style.bgcolor is None) for part in line)


def finished(markdown: str) -> tuple[str, str]:
    """Cut Markdown behind its last whole paragraph: what will not change any more, and the rest."""
    fence, cut, position = "", 0, 0
    for line in markdown.splitlines(keepends=True):
        marked = _FENCE.match(line)
        if not fence and marked:
            fence = marked[1]
        elif marked and marked[1].startswith(fence) and not line[marked.end() :].strip():
            fence = ""  # as long as the one that began it, and with nothing behind it
        position += len(line)
        if not line.strip() and not fence and line.endswith("\n"):
            cut = position
    return markdown[:cut], markdown[cut:]


def call(name: str, arguments: Mapping[str, object]) -> str:
    """A call as a line of code, with nothing in it that cannot be seen."""
    words = ", ".join([f"{seen(key)[1:-1]}={seen(value)}" for key, value in arguments.items()])
    return f"{seen(name)[1:-1]}({words})"


def seen(value: object) -> str:
    """A value as JSON, in which whatever has no shape of its own, or turns others round, is escaped."""
    text = json.dumps(value, ensure_ascii=False)
    return text if text.isprintable() else "".join([sign if sign.isprintable() else _escaped(sign) for sign in text])


def _escaped(sign: str) -> str:
    return json.dumps(sign)[1:-1]


def plain(text: str) -> str:
    """A text in which nothing is left that a terminal would obey, line ends and tabs aside."""
    return _OBEYED.sub("\N{REPLACEMENT CHARACTER}", text.replace("\r", ""))
