"""The dialog of `chat talk`: the user can type messages even while the model responds."""

from __future__ import annotations

import asyncio
import os
import select
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, final

import anyio
import click
from chat_core import ChatError, Done, Paused, StreamingChat
from chat_realtime import ResponseInterrupted, Talk, TalkCancelled, TalkEndedError, converse
from chat_store import UnknownConversationError

from chat_terminal.approval_prompt import Decision, apply_decisions
from chat_terminal.command_words import require_no_key
from chat_terminal.line_editing import enable_line_editing, read_line, remember_line, remove_key_sequences
from chat_terminal.runner import Runner
from chat_terminal.screen import Answer

_READ_SIZE: Final = 65536
_LINE_LIMIT: Final = 4095 if sys.platform == "linux" else 1023
"""Number of bytes after which a terminal drops the rest of a line. A line of this length may be incomplete."""
_MAX_QUEUED: Final = sys.maxsize
"""Maximum number of queued lines.

The queue never fills, so a cancelled `send()` leaves its message in the queue or in `_messages`.
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
        self._messages: list[str] = []
        self._input_ended = False
        self.has_answered: bool = False

    def run(self) -> Paused | None:
        """Run the dialog until the input ends. Return the pause if the user has postponed the waiting calls.

        During a prompt, the event loop does not run, so that ctrl-C ends the program.
        """
        chat = self._runner.build_chat()
        decisions: Sequence[Decision] = ()
        with asyncio.Runner() as loop:
            try:
                loop.run(self._load_history())
                while True:
                    paused = loop.run(self._respond(chat, decisions))
                    decisions = () if paused is None else self._runner.prompt(paused)
                    if paused is not None and not decisions:
                        return paused
                    if paused is None and not self._read_message():
                        return None
            finally:
                for line in [*self._messages, *self._typed.decode(errors="replace").splitlines()]:
                    self._runner.screen.print_line(f"✖ not sent: {line}", "red")
                loop.run(chat.aclose())

    async def _load_history(self) -> None:
        """Let the arrow keys find the messages that the user has typed in this session before."""
        async with self._runner.sessions.store() as store:
            with suppress(UnknownConversationError):
                for content in (await store.load(self._session)).messages:
                    for turn in content.turns if content.role == "user" else ():
                        remember_line(turn.text)

    async def _respond(self, chat: StreamingChat[Answer, Paused], decisions: Sequence[Decision]) -> Paused | None:
        """Let the model answer the messages, and show the response. Return the pause if a call waits."""
        runner = self._runner
        paused: Paused | None = None
        async with runner.sessions.store() as store, store.open(self._session, owner=runner.person) as conversation:
            messages = conversation.messages
            if self._system is not None and not messages.contents:
                messages.system(self._system)
            apply_decisions(decisions, messages, runner.screen)
            role, _ = messages.last_turn or (None, None)
            if not (self._messages or messages.pending() or role == "user"):
                return None
            talk = converse(chat, conversation, max_queued=_MAX_QUEUED)
            try:
                async with talk, anyio.create_task_group() as tasks:
                    tasks.start_soon(self._send_messages, talk)
                    try:
                        paused = await self._show_events(talk)
                    finally:
                        runner.screen.finish_text()
                        tasks.cancel_scope.cancel()
            finally:
                # The next talk sends the messages that no request contained.
                self._messages[:0] = [turn.text for turn in talk.queued]
        return paused

    async def _show_events(self, talk: Talk[Answer, Paused]) -> Paused | None:
        """Show the events of the talk until all messages are answered, a call waits, or a run fails."""
        screen = self._runner.screen
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
                if isinstance(event, Done) and not talk.queued:
                    talk.end()
        except ChatError as error:
            screen.print_line(f"✖ {error}", "red")
        return None

    async def _send_messages(self, talk: Talk[Answer, Paused]) -> None:
        """Send the messages, and those that the user types during the response."""
        with suppress(TalkEndedError):  # the next talk sends the others
            while True:
                while self._messages:
                    await talk.send(self._messages[0])
                    del self._messages[0]
                if self._input_ended:
                    talk.end()
                    return
                await anyio.wait_readable(sys.stdin)
                self._read_input()

    def _read_message(self) -> bool:
        """Prompt until the user has typed a message. Return False if the input has ended."""
        screen = self._runner.screen
        while not self._messages and not self._input_ended:
            edits_lines = enable_line_editing()
            if edits_lines and not select.select([sys.stdin], [], [], 0)[0]:
                try:
                    self._add_message(self._typed.decode(errors="replace") + read_line("> "))
                except EOFError:
                    self._input_ended = True
                self._typed = b""
            else:
                if not edits_lines:
                    screen.show_input_prompt()
                self._read_input()  # whole lines, such as those typed during the response, which may be truncated
            if self._input_ended:
                screen.print_line("")  # ends the line of the prompt
        return bool(self._messages)

    def _read_input(self) -> None:
        """Read what the user has typed, and add the complete lines to the messages."""
        data = os.read(sys.stdin.fileno(), _READ_SIZE)
        self._input_ended = not data
        # The lines of a text that is pasted at the prompt end in carriage returns, see `ICRNL` in termios(3).
        *lines, self._typed = (self._typed + data).replace(b"\r", b"\n").split(b"\n")
        for line in lines:
            if len(line) >= _LINE_LIMIT:
                self._refuse_long_line()
            else:
                self._add_message(remove_key_sequences(line.decode(errors="replace")))

    def _add_message(self, line: str) -> None:
        """Add a line to the messages, unless it is blank or seems to contain an API key."""
        try:
            require_no_key([line])
        except click.UsageError as error:
            self._runner.screen.print_line(f"✖ not sent: {error.message}", "red")
            return
        if text := line.strip():
            self._messages.append(text)
            remember_line(text)

    def _refuse_long_line(self) -> None:
        screen = self._runner.screen
        screen.print_line(f"✖ not sent: the terminal cuts lines at {_LINE_LIMIT} bytes", "red")
        screen.print_line("  Send a long text from a file, after the dialog: chat ask -c < FILE", "red")
