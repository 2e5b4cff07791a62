"""The dialog of `chat talk`: the user can type messages even while the model responds."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from typing import Final, final

import anyio
from chat_core import ChatError, Done, Paused, StreamingChat
from chat_realtime import ResponseInterrupted, Talk, TalkCancelled, TalkEndedError, converse

from chat_terminal.approval_prompt import Decision, apply_decisions
from chat_terminal.runner import Runner
from chat_terminal.screen import Answer

_READ_SIZE: Final = 65536
_LINE_LIMIT: Final = 4095 if sys.platform == "linux" else 1023
"""Number of bytes after which a terminal drops the rest of a line. A line of this length may be incomplete."""
_KEY_SEQUENCE: Final = re.compile(rb"\x1b(?:\[[0-9;]*[ -/]*[@-~]|O[A-Z])?")
"""Escape sequence that a terminal sends for a key such as an arrow."""
_MAX_QUEUED: Final = sys.maxsize
"""Maximum number of queued lines.

The queue never fills, so a cancelled `send()` leaves its line in the queue or in `_typed`.
"""


@final
class Dialog:
    """A session in which each typed line is a message. A line that is typed while the model responds interrupts it.

    Args:
        runner: runner of the session, with its model, tools and screen.
        session: name of the session.
        system: system prompt of a new session.

    Attributes:
        has_answered: whether a run succeeded or paused.
    """

    def __init__(self, runner: Runner, session: str, system: str | None) -> None:
        self._runner = runner
        self._session = session
        self._system = system
        self._typed = b""
        self.has_answered: bool = False

    def run(self) -> Paused | None:
        """Run the dialog until the input ends. Return the pause if the user has postponed the waiting calls.

        During a prompt for a decision, no event loop runs, so that ctrl-C ends the program.
        """
        chat = self._runner.build_chat()
        decisions: Sequence[Decision] = ()
        try:
            while True:
                paused = anyio.run(self._run_dialog, chat, decisions)
                if paused is None:
                    self._runner.screen.print_line("")  # ends the line of the input prompt
                    return None
                decisions = self._runner.prompt(paused)
                if not decisions:
                    return paused
        finally:
            for line in self._typed.decode(errors="replace").splitlines():
                self._runner.screen.print_line(f"✖ not sent: {line}", "red")
            anyio.run(chat.aclose)

    async def _run_dialog(self, chat: StreamingChat[Answer, Paused], decisions: Sequence[Decision]) -> Paused | None:
        runner = self._runner
        paused: Paused | None = None
        async with runner.sessions.store() as store, store.open(self._session, owner=runner.person) as conversation:
            messages = conversation.messages
            if self._system is not None and not messages.contents:
                messages.system(self._system)
            apply_decisions(decisions, messages, runner.screen)
            talk = converse(chat, conversation, max_queued=_MAX_QUEUED)
            try:
                async with talk, anyio.create_task_group() as tasks:
                    tasks.start_soon(self._read_input, talk)
                    if not messages.pending():
                        runner.screen.show_input_prompt()
                    try:
                        paused = await self._show_events(talk)
                    finally:
                        runner.screen.finish_text()
                        tasks.cancel_scope.cancel()
            finally:
                # The next talk reads the lines that no request contained, as if they were typed again.
                self._typed = b"".join(turn.text.encode() + b"\n" for turn in talk.queued) + self._typed
        return paused

    async def _show_events(self, talk: Talk[Answer, Paused]) -> Paused | None:
        """Show the events of the talk until it ends or pauses. Errors of runs are shown, and the dialog continues."""
        screen = self._runner.screen
        while True:
            try:
                async for event in talk:
                    self.has_answered = self.has_answered or isinstance(event, (Done, Paused))
                    match event:
                        case Paused():
                            return event
                        case ResponseInterrupted():
                            screen.print_progress("⏹ interrupted", "yellow")
                        case TalkCancelled():
                            return None
                        case _:
                            screen.show_event(event)
                    if isinstance(event, Done):
                        screen.show_input_prompt()
            except ChatError as error:
                screen.print_line(f"✖ {error}", "red")
                screen.show_input_prompt()
            else:
                return None

    async def _read_input(self, talk: Talk[Answer, Paused]) -> None:
        """Send each typed line as a message. At the end of the input, the talk ends after its last answer."""
        try:
            while True:
                while b"\n" not in self._typed:
                    await anyio.wait_readable(sys.stdin)
                    data = os.read(sys.stdin.fileno(), _READ_SIZE)
                    if not data:
                        talk.end()
                        return
                    self._typed += data
                line, _, rest = self._typed.partition(b"\n")
                text = _KEY_SEQUENCE.sub(b"", line).decode(errors="replace").strip()
                if len(line) >= _LINE_LIMIT:
                    self._refuse_long_line()
                elif text:
                    await talk.send(text)
                else:
                    self._runner.screen.show_input_prompt()
                self._typed = rest  # a line that `send()` did not accept stays for the next talk
        except TalkEndedError:
            return

    def _refuse_long_line(self) -> None:
        screen = self._runner.screen
        screen.print_line(f"✖ not sent: the terminal cuts lines at {_LINE_LIMIT} bytes", "red")
        screen.print_line("  Send a long text from a file, after the dialog: chat ask -c < FILE", "red")
        screen.show_input_prompt()
