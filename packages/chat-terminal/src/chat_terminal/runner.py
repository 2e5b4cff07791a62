"""Runner for sessions, which streams responses, prompts for decisions and stores every step."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, final

import anyio
import click
from chat_core import (
    ChatBuilder,
    ChatOptions,
    ChatProvider,
    File,
    Messages,
    Paused,
    RequireApproval,
    StreamingChat,
    StructuredResponse,
    UsageError,
    Wait,
)
from chat_core.approvals import MayDecide, Principal, is_allowed
from chat_core.tools import ToolScope

from chat_terminal.approval_prompt import Decision, apply_decisions, prompt_decisions
from chat_terminal.controlling_terminal import redirect_to_terminal
from chat_terminal.screen import Answer, Screen, format_call
from chat_terminal.sessions import Sessions

Outcome: TypeAlias = Answer | Paused


@final
@dataclass(frozen=True)
class Runner:
    """A runner that continues stored sessions with one model and one set of tools.

    Attributes:
        model: provider of the model.
        options: options of every model call.
        scopes: tools with their policies.
        sessions: session file.
        screen: screen that shows the run.
        may_decide: rule that determines which calls the user is prompted for.
        person: name of the user who decides at this terminal; None if there is no prompt and calls keep waiting.
        output: type of the structured output, or None for text.
    """

    model: ChatProvider
    options: ChatOptions
    scopes: Sequence[ToolScope[Paused]]
    sessions: Sessions
    screen: Screen
    may_decide: MayDecide
    person: str | None = None
    output: Any = None

    def ask(self, session: str, parts: Sequence[str | File], system: str | None) -> Outcome:
        """Append a user turn to a session, run it until the model has answered or a call waits, and return the outcome.

        Each run has its own event loop, and no loop is active during a prompt. Ctrl-C at a prompt ends the program.

        Args:
            session: name of the session.
            parts: parts of the user turn.
            system: system prompt of a new session.

        Raises:
            ChatError: the run failed. The session has everything up to its last completed step.
            PendingToolsError: a call of this session already waits for a decision.
        """

        def push(messages: Messages) -> None:
            if system is not None and not list(messages):
                messages.system(system)
            messages.user(*parts)

        return self.resume(session, push)

    def resume(self, session: str, prepare: Callable[[Messages], object] | None = None) -> Outcome:
        """Run a session until the model has answered or a tool call waits, and return the outcome.

        Args:
            session: name of the session.
            prepare: modifies the history before the first run.
        """
        chat = self.build_chat()
        decisions: Sequence[Decision] = ()
        try:
            while True:
                outcome = anyio.run(self._run_chat, chat, session, decisions, prepare)
                prepare = None
                if not isinstance(outcome, Paused):
                    return outcome
                decisions = self.prompt(outcome)
                if not decisions:
                    return outcome
        finally:
            anyio.run(chat.aclose)

    def prompt(self, paused: Paused) -> Sequence[Decision]:
        """Prompt the user to decide about the waiting calls. Without a user, return no decisions.

        No event loop may run in this thread, because ctrl-C must end the prompt.

        Args:
            paused: the pause with the waiting calls.
        """
        if self.person is None:
            return ()
        principal = Principal(self.person)
        allowed = [wait for wait in paused.waiting if is_allowed(self.may_decide, principal, wait)]
        for wait in paused.waiting:
            if wait not in allowed:
                decider = wait.of if self.may_decide(principal, wait) else wait.owner
                self.screen.print_progress(f"⏸ {format_call(wait.name, wait.arguments)}: only {decider} may decide")
        declared = [definition.declaration for scope in self.scopes for definition in scope.definitions()]
        schemas = {declaration.name: declaration.parameters for declaration in declared}
        with redirect_to_terminal():
            return prompt_decisions(allowed, self.screen, self.person, schemas)

    def build_chat(self) -> StreamingChat[Answer, Paused]:
        """Return a chat with the model, the options and the tools of this runner."""
        builder = ChatBuilder().with_model(self.model).with_options(self.options).with_interrupted(RequireApproval())
        for scope in self.scopes:
            builder = builder.with_scoped_tools(scope)
        return builder.build() if self.output is None else builder.with_structured_output(self.output).build()

    async def _run_chat(
        self,
        chat: StreamingChat[Answer, Paused],
        session: str,
        decisions: Sequence[Decision],
        prepare: Callable[[Messages], object] | None,
    ) -> Outcome:
        async with self.sessions.store() as store, store.open(session, owner=self.person) as conversation:
            if prepare is not None:
                prepare(conversation.messages)
            elif not conversation.messages.contents:
                msg = f"the session {session!r} is empty: ask a question first"
                raise UsageError(msg)
            apply_decisions(decisions, conversation.messages, self.screen)
            try:
                async with chat.stream(conversation) as stream:
                    async for event in stream:
                        self.screen.show_event(event)
            finally:
                self.screen.finish_text()
            return stream.response


def user_may_decide(principal: Principal, wait: Wait, /) -> bool:
    """Return whether a terminal user may decide a call: if the user owns the session, or if nobody owns it.

    Args:
        principal: user of the terminal.
        wait: waiting call. Sessions of earlier versions, and sessions begun without a terminal, have no owner.
    """
    return wait.owner in {None, principal.name}


def format_outcome(session: str, outcome: Outcome) -> str:
    """Format the outcome of a run as one line of JSON.

    Args:
        session: name of the session.
        outcome: result of the run.
    """
    usage = outcome.usage
    document: dict[str, object] = {
        "session": session,
        "status": "paused" if isinstance(outcome, Paused) else "answered",
        "usage": {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens},
    }
    if isinstance(outcome, Paused):
        document["waiting"] = [_build_wait_document(wait) for wait in outcome.waiting]
    elif isinstance(outcome, StructuredResponse):
        document |= {"value": json.loads(outcome.raw), "finish_reason": outcome.turn.finish_reason}
    else:
        document |= {"text": outcome.text, "finish_reason": outcome.finish_reason}
    return json.dumps(document, ensure_ascii=False)


def format_failure(session: str | None, error: Exception) -> str:
    """Format an error as one line of JSON.

    Args:
        session: name of the session, or None if the error occurred before a session was chosen.
        error: the error that ended the run.
    """
    kind, message = type(error).__name__, str(error)
    if isinstance(error, click.UsageError):
        kind, message = "UsageError", error.format_message()
    elif isinstance(error, click.ClickException):
        kind, message = type(error.__cause__ or error).__name__, error.format_message()
    document = {"session": session, "status": "failed", "error": {"type": kind, "message": message}}
    return json.dumps(document, ensure_ascii=False)


def _build_wait_document(wait: Wait) -> dict[str, object]:
    return {
        "kind": wait.kind,
        "path": list(wait.path),
        "name": wait.name,
        "arguments": dict(wait.arguments),
        "expires_at": wait.expires_at and wait.expires_at.isoformat(),
        "at": wait.at and wait.at.isoformat(),
        "error": wait.error,
    }
