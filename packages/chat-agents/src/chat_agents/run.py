"""`AgentRun`, one run of a flow on a session, as a stream of events.

A run translates the events of a `ChatStream` of the flow's chat. Entering the run opens the session, adds the user's
message and enters the chat's stream, in this order. The chat's engine does everything else: it claims the stored
conversation, stores each step, calls the model and runs tools.

Errors have two kinds. A run that must not start is refused: entering the block, or the first read, raises, and the
session is unchanged. Any later failure becomes an `Error` event, and `Done` follows.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Generic, Never, cast, final

from anyio import get_cancelled_exc_class
from chat_core import (
    Approved,
    ChatResponse,
    ChatStream,
    ConflictError,
    Instructions,
    Interrupted,
    Messages,
    Paused,
    Pending,
    PendingToolsError,
    ProgressEvent,
    Reject,
    RunContext,
    Running,
    StepFinished,
    StreamingChat,
    Suspended,
    TextDelta,
    Tool,
    Usage,
    UsageError,
    Values,
    Withhold,
)
from chat_core import Done as ChatDone
from chat_core.arguments import require_type
from chat_core.messages import Content
from chat_core.options import ChatOptions, join_instructions
from chat_store import ConversationClosedError, OpenConversation, UnknownConversationError
from typing_extensions import TypeVar

from chat_agents.config import AgentConfig
from chat_agents.events import AgentEvent, Data, Done, Error, Outcome, Text, error_event
from chat_agents.flow import AgentFlow
from chat_agents.handoff import flow_after_handoffs
from chat_agents.limits import is_answered
from chat_agents.rounds import RoundLimit
from chat_agents.session import AgentSession
from chat_agents.translation import Translation

PauseT_co = TypeVar("PauseT_co", bound=Paused, covariant=True, default=Never)

_LOG = logging.getLogger("chat_agents")
_REFUSALS = (UsageError, ConflictError, ConversationClosedError, UnknownConversationError)
"""Errors that `AgentRun` raises, without a change to the session, instead of reporting an `Error` event."""
_RUN_ENDED_EARLY = "the run of the call ended early"
_CANCELLED = "The user sent another message before the call was complete."


@final
@dataclass(frozen=True, slots=True)
class RunSettings(Generic[PauseT_co]):
    """Settings and objects that an `AgentEngine` passes to a run.

    Attributes:
        flow: the flow whose instructions and tools the run uses.
        chat: the chat of the flow.
        config: the settings of the engine.
        limit: the limit on rounds of tool calls.
        find: function that returns the settings of a flow to which this flow can hand over, by name.
    """

    flow: AgentFlow[PauseT_co]
    chat: StreamingChat[ChatResponse, PauseT_co]
    config: AgentConfig
    limit: RoundLimit
    find: Callable[[str], RunSettings[PauseT_co]]


@final
class AgentRun(Generic[PauseT_co]):
    """The events of one run. Iterate with `async for` inside an `async with` block.

    The last event is always `Done`. If a tool raises an exception that is meant to end the program, such as
    `KeyboardInterrupt`, the exit of the block raises it after `Done`.

    Exiting the block earlier closes the connection, cancels running tools and leaves the session valid: everything that
    was completed is recorded, and the next run continues from there. Cancelling a read, for example with a timeout,
    also ends the run, without `Done`.
    """

    def __init__(
        self,
        settings: RunSettings[PauseT_co],
        session: AgentSession,
        message: Content | None,
        inject: Mapping[Any, object] | None,
    ) -> None:
        """Prepare the run. The arguments are internal: call `AgentEngine.run()` instead."""
        require_type("session", session, AgentSession, "an AgentSession")
        self._settings = settings
        self._session = session
        self._message = message
        self._inject = inject
        self._translation = Translation(session.id)
        self._stack = AsyncExitStack()
        self._stream: ChatStream[ChatResponse, PauseT_co] | None = None
        self._events: AsyncGenerator[AgentEvent[PauseT_co], None] | None = None
        self._failure: BaseException | None = None
        self._is_entered = False

    # --- The block -----------------------------------------------------------------------------------------------

    async def __aenter__(self) -> AgentRun[PauseT_co]:
        if self._is_entered:
            msg = "a run can be entered only once; call engine.run(...) again for another run"
            raise UsageError(msg)
        self._is_entered = True
        self._stack.enter_context(self._session.reserve())
        try:
            await self._open()
        except BaseException as error:
            if not isinstance(error, Exception) or isinstance(error, _REFUSALS):
                await self._stack.__aexit__(type(error), error, error.__traceback__)
                raise
            self._failure = error
        self._events = self._iterate_events()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> bool | None:
        events, self._events = self._events, None
        if events is not None and not getattr(events, "ag_running", False):
            await events.aclose()
        if error is None and self._failure is not None:
            # The session must not store contents that the failed run could not store.
            failure = self._failure
            await self._stack.__aexit__(type(failure), failure, failure.__traceback__)
            if not isinstance(failure, Exception):
                raise failure  # such as KeyboardInterrupt
            return None
        return await self._stack.__aexit__(kind, error, trace)

    async def _open(self) -> None:
        """Open the session, add the message, and enter the stream of the chat."""
        session, settings = self._session, self._settings
        target = await self._stack.enter_async_context(session.conversation())
        messages = target if isinstance(target, Messages) else target.messages
        current = flow_after_handoffs(messages, is_next=self._message is not None) or session.flow
        if settings.flow.name not in {session.flow, current}:
            msg = f"the session {session.id!r} belongs to the flow {current!r}, not to {settings.flow.name!r}"
            raise UsageError(msg)
        if settings.flow.name != current:
            settings = self._settings = settings.find(current)
        if self._message is None and target is messages and is_answered(messages):
            # A store would deliver the answer again. Without a store, the model would be asked for a second answer.
            msg = "the model has already answered the last message: pass a new message to run()"
            raise UsageError(msg)
        require_message(messages, self._message, settings.flow.interrupted())
        options = await self._evaluate_options()
        owner = None if isinstance(target, OpenConversation) else session.owner
        stream = settings.chat.stream(target, options=options, inject=self._inject, owner=owner)
        if self._message is not None:
            append_message(messages, self._message)
        self._translation.posted(messages)  # skips results that earlier runs have reported
        self._stream = await self._stack.enter_async_context(stream)

    async def _evaluate_options(self) -> ChatOptions:
        session, defaults = self._session, self._settings.config.options
        text = self._settings.flow.instructions(RunContext(session.id, session.owner, values=Values(self._inject)))
        if inspect.isawaitable(text):
            text = await text
        if not isinstance(cast("object", text), str):
            msg = f"instructions() of {type(self._settings.flow).__name__} must return a string, not {text!r}"
            raise UsageError(msg)
        if not text:
            return defaults
        own = Instructions.of(defaults.instructions)
        return replace(defaults, instructions=replace(own, changing=join_instructions([own.changing, text])))

    # --- Events --------------------------------------------------------------------------------------------------

    def __aiter__(self) -> AsyncIterator[AgentEvent[PauseT_co]]:
        return self._require_events()

    def __anext__(self) -> Awaitable[AgentEvent[PauseT_co]]:
        """Return the next event.

        Raises:
            ConflictError: another run of the session is active. The session is unchanged.
        """
        return anext(self._require_events())

    def _require_events(self) -> AsyncGenerator[AgentEvent[PauseT_co], None]:
        if self._events is None:
            msg = "read a run inside its block: `async with engine.run(...) as run: async for event in run`"
            raise UsageError(msg)
        return self._events

    async def _iterate_events(self) -> AsyncGenerator[AgentEvent[PauseT_co], None]:
        """Yield the translated events of the chat, then the last events of this run."""
        stream, translation, has_started = self._stream, self._translation, False
        last: Sequence[AgentEvent[PauseT_co]]
        if stream is None:
            assert self._failure is not None  # noqa: S101 - the run failed before it entered the stream
            last = self._events_after_error(self._failure)
        else:
            try:
                async for event in stream:
                    has_started = True
                    if type(event) is TextDelta and translation.has_output:
                        # Not in `translation`, for speed: most events are pieces of text.
                        if text := event.text:
                            yield Text(text)
                    elif not isinstance(event, (ChatDone, Paused)):
                        for translated in self._translate(event):
                            yield translated
                last = self._events_after_response(stream.response)
            except (GeneratorExit, get_cancelled_exc_class()):
                raise  # the reader left
            except BaseException as error:  # noqa: BLE001 - a tool, a store or a provider may raise anything
                last = self._events_after_error(error, is_refused=not has_started and isinstance(error, ConflictError))
        for ending in last:
            yield ending

    def _translate(self, event: ProgressEvent) -> Sequence[AgentEvent[PauseT_co]]:
        events = self._translation.events(event)
        return (*self._translation.posted(self._session.messages), *events) if type(event) is StepFinished else events

    def _events_after_response(self, response: ChatResponse | PauseT_co) -> Sequence[AgentEvent[PauseT_co]]:
        """Return the final events of the run."""
        session = self._session
        if isinstance(response, ChatResponse):
            is_limited = self._settings.limit.is_reached(session.messages)
            return (*([error_event("max_tool_rounds")] if is_limited else ()), self._create_done("answered"))
        statuses = self._translation.pause(response, session.messages)
        return (*statuses, response.of_conversation(session.id, session.owner), self._create_done("paused"))

    def _events_after_error(self, error: BaseException, *, is_refused: bool = False) -> Sequence[Data | Error | Done]:
        """Log an error, and return the events that report it. Raise the error if the run is refused."""
        self._failure = error
        if is_refused:
            raise error  # another run is active
        _LOG.error("a run of the session %s failed", self._session.id, exc_info=error)
        # The next run does not report results of background agents that this run has added to the conversation.
        posted = () if self._stream is None else self._translation.posted(self._session.messages)
        return (*posted, error_event(self._translation.error_code(error)), self._create_done("failed"))

    def _create_done(self, outcome: Outcome) -> Done:
        self._session.touch()
        usage = Usage() if self._stream is None else self._stream.usage
        return Done(self._session.id, outcome, usage)


def require_message(messages: Messages, message: object, interrupted: Withhold[Paused]) -> None:
    """Check that the conversation can continue with or without a message.

    Args:
        messages: the conversation.
        message: user message, or `None`.
        interrupted: the rule of the flow for interrupted calls.

    Raises:
        PendingToolsError: a message was given although calls wait, or were decided and have not run.
        UsageError: no message was given, and the conversation is empty.
    """
    if message is None:
        if messages.last_turn is None:
            msg = "the session is empty: pass a message to run()"
            raise UsageError(msg)
        return
    if waiting := [tool.id for tool in messages.pending() if _blocks_new_message(tool, interrupted)]:
        msg = (
            f"{len(waiting)} tool call(s) are waiting or were decided ({', '.join(waiting)}): decide or cancel them "
            "inside `async with session.edit() as messages`, and call run() without a message first"
        )
        raise PendingToolsError(msg, waiting)


def _blocks_new_message(tool: Tool, interrupted: Withhold[Paused]) -> bool:
    status = tool.status
    if isinstance(status, (Interrupted, Running)):
        return not isinstance(interrupted, Reject)
    return isinstance(status, (Approved, Suspended)) or (isinstance(status, Pending) and status.kind is not None)


def append_message(messages: Messages, message: Content) -> Sequence[Tool]:
    """Append a user message, after cancelling the unresolved calls of a run that ended early.

    The model receives a text about the possible effects of these calls.

    Args:
        messages: the conversation.
        message: the user's message.

    Returns:
        The cancelled calls.
    """
    cancelled = messages.pending()
    for tool in cancelled:
        if isinstance(tool.status, Running):
            tool.lost(_RUN_ENDED_EARLY)
        tool.cancel(_CANCELLED)
    messages.push(message)
    return cancelled
