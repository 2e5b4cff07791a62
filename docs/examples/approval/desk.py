"""The two processes: one asks the model and exits at the pause; the other takes a decision and resumes the run."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import final

from answers import Answers
from anyio import to_thread
from chat import Ledger, make_chat
from chat_core import (
    ChatOptions,
    ChatProvider,
    ChatResponse,
    IllegalTransitionError,
    Messages,
    Paused,
    StreamingChat,
)
from chat_store import FileConversation
from screen import CYAN, YELLOW, Screen, asked_at, shown, status, terms, told

ANSWERED, WAITS, INTERRUPTED = 0, 3, 4
"""Exit codes: the model has answered, a call is pending, a call was interrupted with unknown outcome."""


@final
@dataclass(frozen=True)
class Place:
    """Folder with the stored conversation and the ledger of the bank."""

    folder: Path

    @property
    def conversation(self) -> Path:
        """Path of the stored conversation."""
        return self.folder / "chat.jsonl"

    @property
    def ledger(self) -> Path:
        """Path of the ledger."""
        return self.folder / "payments.txt"


@final
@dataclass(frozen=True)
class Desk:
    """Commands of the demo and the objects they need.

    `hold` is a FIFO at which the process waits, so that you can kill it at a critical moment.
    """

    place: Place
    model: ChatProvider
    options: ChatOptions
    screen: Screen
    hold: Path | None = None

    async def ask(self, question: str) -> int:
        """Ask the model, stream the response, and return when a decision is required. This is process one.

        Raises:
            PendingToolsError: the conversation already has a pending call.
        """
        async with self._chat() as chat, FileConversation.open(self.place.conversation) as conversation:
            conversation.messages.user(question)
            self.screen.line("you", question, CYAN)
            outcome = await self._run(chat, conversation)
            if isinstance(outcome, Paused):
                self.screen.line("", f"stored in {self.place.conversation}; process {os.getpid()} ends here", YELLOW)
                if self.hold is not None:
                    await to_thread.run_sync(self.hold.read_bytes, abandon_on_cancel=True)
        return ANSWERED

    async def decide(self, rounds: Iterable[Answers]) -> int:
        """Show pending calls, take decisions, resume the run and stream the response. This is process two.

        It starts with a run. While calls are pending, that run sends no request to the model. It reports the pending
        calls and detects calls interrupted by a crash. Each item of `rounds` then takes one round of decisions.

        Raises:
            ConflictError: another process has the conversation open or has changed it.
        """
        async with self._chat(self.hold) as chat, FileConversation.open(self.place.conversation) as conversation:
            if not unfinished(conversation.messages):
                self.screen.line("", "nothing waits")
                return ANSWERED
            outcome = await self._run(chat, conversation)
            for answers in rounds:
                if not isinstance(outcome, Paused) or not await self._take(answers, outcome, conversation.messages):
                    break
                outcome = await self._run(chat, conversation)
        if not isinstance(outcome, Paused):
            return ANSWERED
        return INTERRUPTED if outcome.reason in ("Interrupted", "Mixed") else WAITS

    async def list_waiting(self) -> int:
        """Show the pending calls, without a model and without a run."""
        async with FileConversation.open(self.place.conversation) as conversation:
            waiting = conversation.messages.pending()
            for tool in waiting:
                self.screen.call(tool.name, tool.effective_arguments)
                self.screen.note(f"{status(tool)}; {asked_at(tool, conversation.messages)}")
                for sentence in terms(tool):
                    self.screen.note(sentence)
        if not waiting:
            self.screen.line("", "nothing waits")
        return WAITS if waiting else ANSWERED

    # --- Helpers --------------------------------------------------------------------------------------------------

    def _chat(self, hold: Path | None = None) -> StreamingChat[ChatResponse, Paused]:
        return make_chat(self.model, self.options, Ledger(self.place.ledger, hold))

    async def _run(
        self, chat: StreamingChat[ChatResponse, Paused], conversation: FileConversation
    ) -> ChatResponse | Paused:
        """Run until the model answers or a decision is required, and show every event."""
        async with chat.stream(conversation) as stream:
            async for event in stream:
                self.screen.show(event)
        outcome = stream.response
        if isinstance(outcome, Paused):
            self._show(outcome, conversation.messages)
        return outcome

    def _show(self, paused: Paused, messages: Messages) -> None:
        for wait in paused.waiting:
            tool = messages.tool(*wait.path)
            self.screen.wait(wait)
            self.screen.note(asked_at(tool, messages))
            for sentence in terms(tool):
                self.screen.note(sentence)
            if wait.kind == "interrupted":
                found = len(Ledger(self.place.ledger).payments(tool.idempotency_key))
                self.screen.note(f"{self.place.ledger} has {found} payment(s) of this call")

    async def _take(self, answers: Answers, paused: Paused, messages: Messages) -> bool:
        """Apply the user's answers to the pending calls. Return whether there was any answer."""
        decided = False
        for wait in paused.waiting:
            if len(paused.waiting) > 1:
                self.screen.line("?", shown(wait.name, wait.arguments), YELLOW)
            answer = await answers(wait)
            if answer is None:
                continue
            tool = messages.tool(*wait.path)
            try:
                answer.apply(tool, wait)
            except IllegalTransitionError as error:  # the approval expired at the prompt
                self.screen.note(str(error))
            else:
                self.screen.line("", told(tool.decisions[-1]))
            decided = True
        return decided


def unfinished(messages: Messages) -> bool:
    """Return whether a run would continue: a call is unresolved, or the last turn is not the model's answer."""
    last = messages.last
    return last is not None and (last.role != "model" or bool(last.turns[-1].tools))
