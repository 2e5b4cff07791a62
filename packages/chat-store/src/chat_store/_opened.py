"""A conversation of a store, in use."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import final

from anyio import CancelScope
from chat_core.concurrency import finish_in_thread
from chat_core.errors import ConflictError, ConversationBusyError, UsageError
from chat_core.messages import Messages, Role, Tool, Turn

from chat_store._entries import Batch, NewTurn, ToolRevision, changes, tools_of
from chat_store._file_log import StaleToolError
from chat_store._ledger import ConversationLog
from chat_store.file_conversation import FileConversation
from chat_store.history import HistoryEntry


@final
class Opened:
    """An `OpenConversation`.

    How messages and what is durable are kept in step is no business of a database: it is done as it is for a file, over
    another ledger.
    """

    def __init__(self, ledger: ConversationLog, messages: Messages, lease_seconds: float) -> None:
        self._kept = FileConversation(ledger, messages, lease_seconds)

    @property
    def id(self) -> str:
        """Names the conversation in its store."""
        return self._kept.id

    @property
    def revision(self) -> int:
        """Counts the durable changes, as far as they are known here: each turn, and each state of a tool."""
        return self._kept.revision

    @property
    def messages(self) -> Messages:
        """The conversation, as this process knows it."""
        return self._kept.messages

    @property
    def renew_every(self) -> float | None:
        """A third of the lease, in seconds. Every write prolongs it, too."""
        return self._kept.renew_every

    async def claim(self) -> None:
        """Take the lease for one run, merge what others wrote, and write the decisions made here."""
        await self._kept.claim()

    async def renew(self) -> None:
        """Prolong the lease."""
        await self._kept.renew()

    async def write_tool(self, tool: Tool, /) -> None:
        """Make the state of one tool durable before returning."""
        await self._kept.write_tool(tool)

    async def write_turn(self, role: Role, turn: Turn, /) -> None:
        """Make a turn durable that was just appended to `messages`."""
        await self._kept.write_turn(role, turn)

    async def release(self) -> None:
        """Give the lease back."""
        await self._kept.release()

    async def save(self) -> None:
        """Write what was decided, or pushed, on `messages` here, and merge what others wrote."""
        await self._kept.save()

    async def history(self) -> list[HistoryEntry]:
        """Everything that ever happened to the conversation, oldest first."""
        return await self._kept.history()


@asynccontextmanager
async def opened(ledger: ConversationLog, lease_seconds: float) -> AsyncGenerator[Opened]:
    """Open a conversation; leaving the block saves, and ends a run that has not ended."""
    conversation = Opened(ledger, await finish_in_thread(ledger.open), lease_seconds)
    try:
        yield conversation
        await conversation.save()
    finally:
        if ledger.holds_lease:
            with CancelScope(shield=True):
                await conversation.release()


def read(ledger: ConversationLog, revision: int | None = None) -> Messages:
    """A stored conversation, as it was at a revision, or is now."""
    messages = ledger.open_stored(revision)
    return FileConversation(ledger, messages, 1).messages


def write(ledger: ConversationLog, messages: Messages, revision: int) -> None:
    """Write what was done to `messages` since a revision.

    Raises:
        ConflictError: others did something to the same calls since, or added turns. Nothing was written.
        UsageError: the messages do not follow from the revision.
    """
    if messages.busy:
        msg = "save() came while a run on these messages is live; give the chat a conversation that open() opened"
        raise ConversationBusyError(msg)
    batch = _since(read(ledger, revision), messages)
    try:
        ledger.save(batch)
    except StaleToolError as moved:
        ids = ", ".join(["/".join(path) for path, _ in moved.tools])
        msg = f"{ids} was decided or run elsewhere since revision {revision}; nothing was written, load it again"
        raise ConflictError(msg) from None


def _since(base: Messages, messages: Messages) -> Batch:
    known, turns = sum(len(content.turns) for content in base), _turns(messages)
    marks = {tool.id: ToolRevision.of(tool) for tool in tools_of(base)}
    added = turns[known:]
    before = [tool for _, turn in turns[:known] for tool in turn.tools]
    if len(turns) < known or [tool.id for tool in before] != list(marks):
        msg = "these messages do not follow from that revision: save() takes those of a snapshot, changed or longer"
        raise UsageError(msg)
    moved = [change for tool in before for change in changes(tool, marks[tool.id], (tool.id,))]
    return Batch(known, tuple([NewTurn.of(role, turn) for role, turn in added]), tuple(moved))


def _turns(messages: Messages) -> list[tuple[Role, Turn]]:
    return [(content.role, turn) for content in messages for turn in content.turns]
