"""Checkpoints, which store the progress of a run in its conversation. A run on plain `Messages` stores nothing."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any, ClassVar, final
from uuid import uuid4

import anyio
from anyio.lowlevel import EventLoopToken, current_token

from chat_core.concurrency import aligned_pause, finish
from chat_core.conversation import Conversation, PostReceiver
from chat_core.errors import ChatError, ConflictError, LeaseLostError, UsageError
from chat_core.messages import WITHDRAWN_REASONS, Approved, Grant, Grants, Messages, Pending, Role, Tool, Turn
from chat_core.run_context import RunContext
from chat_core.usage import Usage

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from chat_core.engine.values import RunValues
    from chat_core.response import Paused, Wait
    from chat_core.tools.chat_tools import ChatTools, GrantRule

_LOG = logging.getLogger("chat_core")

_BOOT_CLOCK: int | None = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", None))
"""The clock that also counts while the machine is suspended. On macOS, that is `CLOCK_MONOTONIC`."""


def _rule_allows(rule: GrantRule, grant: Grant, wait: Wait) -> bool:
    allowed = rule(grant, wait)
    if not isinstance(allowed, bool):
        msg = f"the rule of with_grant_rule() must return True or False without await, not a {type(allowed).__name__}"
        raise UsageError(msg)
    return allowed


class LeaseClocks:
    """The two clocks that measure the age of a lease. Tests replace `Checkpoint.clocks` with fakes."""

    def read(self) -> tuple[float, float]:
        """Return the wall clock and the time since the machine was booted, in seconds.

        Neither clock is sufficient: the wall clock may be set back, and on some platforms the other clock stops while
        the machine is suspended.
        """
        return time.time(), time.monotonic() if _BOOT_CLOCK is None else time.clock_gettime(_BOOT_CLOCK)


@final
class _Lease:
    """The lease state that a run shares with its inner chats: the last extension and the failed writes."""

    __slots__ = ("extended_at", "failures")

    def __init__(self) -> None:
        self.extended_at: tuple[float, float] | None = None
        self.failures: list[BaseException] = []


@final
class Checkpoint:
    """The messages of a run and the stored conversation, if any, to which their changes are written.

    A write that has started is completed even if the run is cancelled during the write. A chat used as a tool has a
    separate checkpoint, created by `inner()`. That checkpoint writes to the same conversation, at the path of the tool
    call.

    Attributes:
        grant_rules: grant rules of the outer chats. A grant must satisfy these rules for each call.
        refused_calls: IDs of calls that were not started because another process decided them or their inner calls.
        looked_at: time at which the run last examined the conversation. None unless the run has nothing left to do.
    """

    __slots__ = (
        "_grants",
        "_lease",
        "_loop_and_thread",
        "_names",
        "_owner",
        "_path",
        "_run",
        "_values",
        "conversation",
        "grant_rules",
        "looked_at",
        "messages",
        "refused_calls",
    )

    clocks: ClassVar[LeaseClocks] = LeaseClocks()

    def __init__(self, target: Messages | Conversation, owner: str | None = None) -> None:
        self._lease = _Lease()
        self._path: tuple[str, ...] = ()
        self.refused_calls: set[str] = set()
        self.looked_at: datetime | None = None
        self._owner = owner
        self._run: RunContext | None = None
        self._values: RunValues | None = None
        self._loop_and_thread: tuple[EventLoopToken, int] | None = None
        if isinstance(target, Messages):
            self.conversation: Conversation | None = None
            self.messages: Messages = target
        else:
            self.conversation = target
            self.messages = target.messages
        self._grants: Grants | None = None
        self._names: tuple[str, ...] = ()
        self.grant_rules: tuple[GrantRule, ...] = ()

    @property
    def loop_and_thread(self) -> tuple[EventLoopToken, int]:
        """The event loop token and the thread ID of the run.

        The first access must be made in the thread of the run. Later accesses may be made in any thread.
        """
        if self._loop_and_thread is None:
            self._loop_and_thread = current_token(), threading.get_ident()
        return self._loop_and_thread

    @property
    def id(self) -> str | None:
        """ID of the conversation, or `None` for plain messages."""
        return None if self.conversation is None else self.conversation.id

    @property
    def run(self) -> RunContext:
        """The context of the run, passed to instructions, policies and tools. Created on first access."""
        if self._run is None:
            owner = self._owner
            if self.conversation is not None:
                # Conversations of stores without owners lack the attribute.
                owner = getattr(self.conversation, "owner", None)
            self._run = RunContext(self.id, owner, uuid4().hex)
        return self._run

    async def inner(self, tool: Tool, tools: ChatTools[Paused], rule: GrantRule | None) -> Checkpoint:
        """Create the checkpoint for a chat that runs as the tool of a call.

        Args:
            tool: a tool call in `messages` that has an inner conversation.
            tools: tools and value factories of the inner chat.
            rule: rule of the outer chat that grants must satisfy.
        """
        assert tool.inner is not None  # noqa: S101 - the caller has checked it
        inner = Checkpoint(tool.inner)
        inner.conversation = self.conversation
        inner._path = (*self._path, tool.id)
        inner._names = (*self._names, tool.name)
        inner._grants = self.grants
        inner.grant_rules = self.grant_rules if rule is None else (*self.grant_rules, rule)
        inner._lease = self._lease
        inner._run = self.run
        if self._values is not None:
            inner._run = await self._values.inner(tool.id, tools, self.run)
            inner._values = self._values.inner_values(tool.id)
        return inner

    def begin_as(self, run: RunContext, grants: Grants, names: tuple[str, ...] = ()) -> Checkpoint:
        """Set the context of the run that uses this checkpoint, and return the checkpoint.

        Args:
            run: the context.
            grants: grants that cover calls of this run.
            names: names of the tools that lead to the inner chat. Empty for the outermost conversation.
        """
        self._run, self._grants, self._names = run, grants, names
        return self

    @property
    def grants(self) -> Grants:
        """The grants of the outermost conversation."""
        return self.messages.grants if self._grants is None else self._grants

    def find_grant(self, tool: Tool, wait: Wait, now: datetime, rule: GrantRule | None) -> Grant | None:
        """Return a grant that replaces the approval of a waiting call, or None.

        Args:
            tool: a tool call in `messages`.
            wait: the call. `wait.of` is the principal that the policy requires now. When the wait began, the policy may
                have required another principal.
            now: the current time.
            rule: rule of the chat that the grant must satisfy, in addition to `grant_rules`.

        Raises:
            UsageError: a rule did not return a bool.
        """
        waits_for = tool.status.of if isinstance(tool.status, Pending) else None
        names = (*self._names, tool.name)
        covering = [grant for grant in self.grants if grant.covers(names, now, wait.of, waits_for)]
        if not covering:
            return None
        outer, rules = replace(wait, path=(*self._path, *wait.path)), (*self.grant_rules, *([rule] if rule else []))
        return next((grant for grant in covering if all(_rule_allows(item, grant, outer) for item in rules)), None)

    def has_lost_grant(self, tool: Tool, now: Callable[[], datetime]) -> bool:
        """Return whether a call was approved under a grant that no longer covers it.

        Args:
            tool: a tool call in `messages`.
            now: function that returns the current time.
        """
        id = tool.decisions[-1].grant if tool.decisions else None
        if id is None or not isinstance(tool.status, Approved):
            return False
        return id not in self.grants or not self.grants[id].covers((*self._names, tool.name), now(), tool.status.of)

    @property
    def has_values(self) -> bool:
        """Whether the run has created the values for injected parameters."""
        return self._values is not None

    async def open_values(
        self, tools: ChatTools[Paused], injected: Mapping[Any, object], group: TaskGroup | None
    ) -> None:
        """Call the value factories of a chat. Afterwards, `run` includes the created values.

        Args:
            tools: tools and factories of the chat.
            injected: values passed to the run, by type.
            group: task group of the run.
        """
        from chat_core.engine.values import RunValues  # noqa: PLC0415 - most chats have no values

        self._values = RunValues(tools, injected, self.run.values)
        self._run = await self._values.open(self.run, group)

    async def close_values(self, error: BaseException | None) -> None:
        """Close the values that the factories of the chat created for this run.

        Args:
            error: exception that ended the run, or `None`.
        """
        if self._values is not None:
            await finish(partial(self._values.aclose, error))

    async def close_inner(self, tool: Tool, error: BaseException | None) -> None:
        """Close the values that the factories of an inner chat created.

        Args:
            tool: the tool call whose inner chat has ended.
            error: exception that ended the inner chat, or `None`.
        """
        if self._values is not None:
            await finish(partial(self._values.close_inner, tool.id, error))

    @property
    def owns_lease(self) -> bool:
        """Whether this run claims, renews and releases the lease. For an inner chat, the outer run does this."""
        return self.conversation is not None and not self._path

    @property
    def keeps_answer(self) -> bool:
        """Whether `messages` may end with a final response that an earlier run could not deliver."""
        return self.conversation is not None or bool(self._path)

    def is_failed_write(self, error: BaseException) -> bool:
        """Return whether `error` was raised by a store write of this run or of an inner chat."""
        return any(failure is error for failure in self._lease.failures)

    def stored_answer(self) -> Turn | None:
        """Return the last turn if it is a final response from an earlier run, otherwise `None`.

        The earlier run stored the turn, but may have ended before it delivered the turn.
        """
        role, turn = self.messages.last_turn or (None, None)
        return turn if self.keeps_answer and turn is not None and role == "model" and is_final(turn) else None

    async def claim(self) -> None:
        """Acquire the lease and update `messages` to the stored state."""
        if self.conversation is None or not self.owns_lease:
            return
        before = self.clocks.read()
        try:
            await self.conversation.claim()
            self._lease.extended_at = before
        except BaseException as error:
            if not isinstance(error, Exception):
                # The lease may have been taken before the cancellation.
                await self.release()
            raise

    async def apply_posts(self) -> int:
        """Append the turns that other processes posted to the conversation, and return their number."""
        conversation = self.conversation
        if not self._stores_messages or not isinstance(conversation, PostReceiver):
            return 0
        applied: list[int] = []

        async def apply() -> None:
            applied.append(await conversation.apply_posts())

        try:
            await finish(apply)
        except Exception as error:
            self._lease.failures.append(error)
            raise
        return applied[0]

    async def write_tool(self, tool: Tool) -> None:
        """Store the current state of a tool call in `messages`."""
        if self.conversation is not None:
            await self._extend_lease(partial(self.conversation.write_tool, (*self._path, tool.id), tool))

    async def append_turn(self, role: Role, turn: Turn) -> None:
        """Append `turn` to `messages` with the role `role`, and store the change."""
        self.messages.append(role, turn, checked=role == "model" and turn.by is None)
        if self.conversation is not None:
            await self._extend_lease(partial(self.conversation.write_turn, self._path, role, turn))

    def may_start(self) -> bool:
        """Return whether the lease is recent enough to call a tool function. Callable from any thread.

        Return False if half of the lease has passed since the last extension, for example because this process was
        suspended. Another run may then have taken over: call `renew()` to find out.
        """
        conversation = self.conversation
        if conversation is None or (renew_every := conversation.renew_every) is None:
            return True
        if self._lease.extended_at is None:
            return False
        # `renew_every` is at most a third of the lease.
        return max([now - then for now, then in zip(self.clocks.read(), self._lease.extended_at, strict=True)]) < (
            1.5 * renew_every
        )

    async def renew(self) -> None:
        """Extend the lease of the conversation.

        Raises:
            LeaseLostError: another run took over.
        """
        if self.conversation is not None:
            await self._extend_lease(self.conversation.renew)

    def start_renewal(self, group: TaskGroup | None) -> None:
        """Start a task that renews the lease, if this run holds a lease that expires.

        Args:
            group: task group of the run.
        """
        conversation = self.conversation if self.owns_lease else None
        if group is not None and conversation is not None and conversation.renew_every is not None:
            group.start_soon(self.keep_lease)

    async def keep_lease(self) -> None:
        """Renew the lease regularly until this task is cancelled or the lease is lost.

        After a lost lease, the next write raises the error that ends the run.
        """
        conversation = self.conversation
        assert conversation is not None  # noqa: S101 - the run has a lease
        assert conversation.renew_every is not None  # noqa: S101 - the lease expires
        while True:
            # Leases that are renewed at the same time can share a transaction.
            await anyio.sleep(aligned_pause(conversation.renew_every, anyio.current_time()))
            before = self.clocks.read()
            try:
                await conversation.renew()
                self._lease.extended_at = before
            except TimeoutError:
                # Another process blocks the store. The next write or renewal extends the lease.
                continue
            except ChatError:
                # The lease is lost or released. The next write raises the error.
                return
            except Exception:  # noqa: BLE001 - a store may raise anything
                # The next renewal may succeed. If the lease expires first, the next write raises the error.
                _LOG.warning("failed to renew the lease of conversation %r", conversation.id, exc_info=True)

    async def _extend_lease(self, write: Callable[[], Awaitable[None]]) -> None:
        # The lease period begins with the write, so a time before the write never overestimates the lease.
        before = self.clocks.read()
        try:
            await finish(write)
        except Exception as error:
            self._lease.failures.append(error)
            raise
        self._lease.extended_at = before

    @property
    def _stores_messages(self) -> bool:
        """Whether `messages` belongs directly to the stored conversation and not to an inner chat."""
        return self.conversation is not None and self.conversation.messages is self.messages

    def answer_key(self, turn: Turn) -> str:
        """Return the delivery key of the final response. Every run that delivers the response computes the same key.

        Without a store, only one run can deliver the response, so the key is random.

        Args:
            turn: the final response, which is the last turn of the messages.
        """
        index = self.messages.last_turn_index
        if self.conversation is None or index is None:
            return uuid4().hex
        position = index + 1
        created_at = turn.created_at.astimezone(UTC).isoformat()
        name = "/".join((self.conversation.id, *self._path))
        return sha256(f"{position} {created_at} {name}".encode()).hexdigest()[:32]

    def mark_undelivered(self, turn: Turn) -> None:
        """Mark a final response as undelivered, so that a later run calls its after-hooks if this run dies.

        Does nothing without a store or in an inner chat: in these cases, only this run can call the hooks.

        Args:
            turn: the response, before it is appended to `messages`.
        """
        if self._stores_messages:
            turn.delivered = False

    async def mark_delivered(self, turn: Turn) -> None:
        """Mark `messages.last_turn` as delivered, and store the mark. Call this after the after-hooks."""
        turn.delivered = True
        if self.conversation is not None and self._stores_messages:
            await finish(self.conversation.write_marks)

    async def record_failed_usage(self, usage: Usage, requests: int | None = None) -> None:
        """Add failed requests and their tokens to `messages.last_turn`, and store them. Write errors are logged.

        Args:
            usage: tokens of the requests.
            requests: number of the requests. Default: 1 if `usage` has tokens, otherwise 0.
        """
        _, turn = self.messages.last_turn or (None, None)
        count = int(bool(usage)) if requests is None else requests
        if turn is None or not (usage or count):
            return
        if usage:
            turn.failed_usage = usage if turn.failed_usage is None else turn.failed_usage + usage
        turn.failed_requests += count
        if self.conversation is not None and self._stores_messages:
            try:
                await finish(self.conversation.write_marks)
            except Exception:  # noqa: BLE001 - the run is failing with another error
                _LOG.warning("failed to store the usage of a failed request of %r", self.id, exc_info=True)

    def rest_after(self, error: BaseException, now: Callable[[], datetime]) -> None:
        """Withhold the conversation from workers until it changes, if a new run would fail with the same error.

        Args:
            error: error of the request to the model, or of its preparation.
            now: function that returns the current time.
        """
        if isinstance(error, ChatError) and not isinstance(error, (ConflictError, LeaseLostError)):
            self.looked_at = now()

    async def release(self) -> None:
        """Release the lease. Errors are logged and not raised, because the lease expires on its own."""
        if self.conversation is None or not self.owns_lease:
            return
        try:
            await finish(partial(self.conversation.release, looked_at=self.looked_at))
        except Exception:  # noqa: BLE001 - a store may raise anything
            _LOG.warning("failed to release the lease of conversation %r", self.conversation.id, exc_info=True)


def is_final(turn: Turn) -> bool:
    """Return whether a run ends after this model turn."""
    return turn.finish_reason in WITHDRAWN_REASONS or (not turn.tools and turn.finish_reason != "pause")
