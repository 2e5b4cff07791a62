"""One question, from its words to its answer: streamed, decided about in between, and stored all along."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import final

import anyio
import click
from chat_core import (
    ChatBuilder,
    ChatOptions,
    ChatProvider,
    ChatResponse,
    File,
    Messages,
    Paused,
    RequireApproval,
    StreamingChat,
    UsageError,
    Wait,
)
from chat_core.tools import ToolScope

from chat_terminal.approval_prompt import Decision, apply, ask
from chat_terminal.controlling_terminal import facing
from chat_terminal.screen import Screen
from chat_terminal.sessions import Sessions

Outcome = ChatResponse | Paused


@final
@dataclass(frozen=True)
class Runner:
    """What a question is asked with.

    Attributes:
        person: who decides at this terminal; `None` where nobody is asked, and what waits goes on waiting.
    """

    model: ChatProvider
    options: ChatOptions
    scopes: Sequence[ToolScope[Paused]]
    sessions: Sessions
    screen: Screen
    person: str | None = None

    def ask(self, session: str, parts: Sequence[str | File], system: str | None) -> Outcome:
        """Push a turn to a session, and run it until there is an answer, or nobody decides what waits.

        An event loop runs for each part of it, and none while a person is asked: ctrl-C at a question ends the program.

        Raises:
            ChatError: the run failed; the session is as it was after its last whole step.
            PendingToolsError: something waits in this session.
        """

        def push(messages: Messages) -> None:
            if system is not None and not list(messages):
                messages.system(system)
            messages.user(*parts)

        return self.go_on(session, push)

    def go_on(self, session: str, first: Callable[[Messages], object] | None = None) -> Outcome:
        """Run what is in a session, until there is an answer, or nobody decides what waits."""
        chat = self._chat()
        changes: Sequence[Decision] = ()
        try:
            while True:
                outcome = anyio.run(self._run, chat, session, changes, first)
                first = None
                if not isinstance(outcome, Paused) or self.person is None:
                    return outcome
                with facing():
                    changes = ask(outcome.waiting, self.screen, self.person)
                if not changes:
                    return outcome
        finally:
            anyio.run(chat.aclose)

    def _chat(self) -> StreamingChat[ChatResponse, Paused]:
        builder = ChatBuilder().with_model(self.model).with_options(self.options).with_interrupted(RequireApproval())
        for scope in self.scopes:
            builder = builder.with_scoped_tools(scope)
        return builder.build()

    async def _run(
        self,
        chat: StreamingChat[ChatResponse, Paused],
        session: str,
        changes: Sequence[Decision],
        first: Callable[[Messages], object] | None,
    ) -> Outcome:
        async with self.sessions.store() as store, store.open(session) as conversation:
            if first is not None:
                first(conversation.messages)
            elif not conversation.messages.contents:
                msg = f"there is nothing in the session {session!r}"
                raise UsageError(msg)
            apply(changes, conversation.messages, self.screen)
            try:
                async with chat.stream(conversation) as stream:
                    async for event in stream:
                        self.screen.show(event)
            finally:
                self.screen.end()
            return stream.response


def report(session: str, outcome: Outcome) -> str:
    """An outcome as one JSON object, for another program."""
    usage = outcome.usage
    told: dict[str, object] = {
        "session": session,
        "status": "paused" if isinstance(outcome, Paused) else "answered",
        "usage": {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens},
    }
    if isinstance(outcome, Paused):
        told["waiting"] = [_waiting(wait) for wait in outcome.waiting]
    else:
        told |= {"text": outcome.text, "finish_reason": outcome.finish_reason}
    return json.dumps(told, ensure_ascii=False)


def failure(session: str | None, error: Exception) -> str:
    """An error as one JSON object. Its session is the one that holds the question, where it came so far."""
    kind, message = type(error).__name__, str(error)
    if isinstance(error, click.UsageError):
        kind, message = "UsageError", error.format_message()
    elif isinstance(error, click.ClickException):
        kind, message = type(error.__cause__ or error).__name__, error.format_message()
    told = {"session": session, "status": "failed", "error": {"type": kind, "message": message}}
    return json.dumps(told, ensure_ascii=False)


def _waiting(wait: Wait) -> dict[str, object]:
    return {
        "kind": wait.kind,
        "path": list(wait.path),
        "name": wait.name,
        "arguments": dict(wait.arguments),
        "expires_at": wait.expires_at and wait.expires_at.isoformat(),
        "at": wait.at and wait.at.isoformat(),
        "error": wait.error,
    }
