"""A conversation in one file, which survives its process.

    async with FileConversation.open("chats/17.jsonl") as conversation:
        conversation.messages.tool(tool_id).approve(by="ana@example.com")
        async with chat.stream(conversation) as stream: ...

The file is a journal (`_journal.py` has its form): it can be read with the eyes, it only grows, and whatever was told
to be durable has reached the disk. Any number of processes may have it open. One of them may run it at a time; the
others may decide what waits, and every decision reaches the run with its next write.

A run is live as long as its process is, and is known to be dead as soon as that has ended, however it ended. One that
stands still is overtaken when its lease runs out: what it does after that raises `LeaseLostError`, and is in the
journal as late. Leases are compared by the wall clocks of the processes involved.

One object serves one event loop at a time, of asyncio or trio, and any number of its tasks. Another thread, another
loop and another process open the file once more; so does a child made by `os.fork()`, which is refused the object of
its parent. (Such a child also keeps its parent's run alive, until its lease runs out.) The file system must know
locks: local ones do, and those of a network where they are configured to.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Self, TypeVar, final
from uuid import uuid4

from anyio import CancelScope, Lock
from chat_core.concurrency import finish_in_thread
from chat_core.errors import ConflictError, ConversationBusyError, LeaseLostError, UsageError
from chat_core.messages import Messages, Role, Tool, Turn, codec

from chat_store._entries import Batch, NewTurn, ToolChange, ToolMoved, ToolRevision, TurnAdded, changes, tools_of
from chat_store._entries import Path as ToolPath
from chat_store._file_log import ConversationLog, LogStorage, StaleToolError
from chat_store.history import HistoryEntry, history_of

T = TypeVar("T")


def _now() -> datetime:
    return datetime.now(UTC)


@final
class _Durable:
    """Up to where messages are durable: a place in them, so that what is behind it is found without counting them.

    Attributes:
        turns: how many are.
    """

    __slots__ = ("_content", "_messages", "_within", "turns")

    def __init__(self, messages: Messages) -> None:
        self._messages = messages
        self._content = self._within = self.turns = 0
        self.grow(sum([len(content.turns) for content in messages]))

    def behind(self) -> list[tuple[Role, Turn]]:
        """The turns that are not durable, oldest first."""
        found: list[tuple[Role, Turn]] = []
        within = self._within
        for index in range(self._content, len(self._messages)):
            content = self._messages[index]
            role: Role = content.role
            found.extend([(role, turn) for turn in content.turns[within:]])
            within = 0
        return found

    def grow(self, turns: int) -> None:
        """So many more are durable."""
        self.turns += turns
        # The place stays within the last content: that one may still grow.
        self._within += turns
        while self._content < len(self._messages) and self._within > (size := len(self._messages[self._content].turns)):
            self._within -= size
            self._content += 1

    def has(self, turn: Turn) -> bool:
        """Whether a turn is in the messages: looked for from their end, where it is."""
        for index in range(len(self._messages) - 1, -1, -1):
            if any(item is turn for item in reversed(self._messages[index].turns)):
                return True
        return False


@final
class FileConversation:
    """A `Conversation` in one file. Made by `open()` and `create()`, and used inside their block.

    Leaving the block without an error saves the decisions that were made on `messages`; leaving it with one saves
    nothing that was not saved before. A run saves them when it begins, too.
    """

    def __init__(self, ledger: LogStorage, messages: Messages, lease_seconds: float) -> None:
        """Conversations are made by `open()` and `create()`."""
        self._ledger = ledger
        self._messages = messages
        self._renew_every = lease_seconds / 3
        # One write at a time: what it brings of others is told to the messages in the order in which it happened.
        self._turnstile = Lock()
        self._durable = _Durable(messages)
        self._marks = {tool.id: ToolRevision.of(tool) for tool in tools_of(messages)}
        self._diverged = False
        self._overtaken = False
        self._tell()

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        path: str | os.PathLike[str],
        *,
        id: str | None = None,  # noqa: A002 - the field's own name
        lease_seconds: float = 30.0,
        now: Callable[[], datetime] = _now,
    ) -> AsyncGenerator[Self]:
        """Open the conversation in a file; an empty one is made where there is none.

        Args:
            path: the file. Beside it, while a run is live, stands an empty one that the run holds locked.
            id: the name of a new conversation, random unless given; of an old one, what its name must be.
            lease_seconds: how long a run may stand still before it can be overtaken.
            now: the clock, with a zone.

        Raises:
            InvalidDocumentError: the file is something else, or is damaged.
            NewerVersionError: a later version of this library wrote it.
            UsageError: the conversation has another id.
            ConflictError: from leaving the block, as from `save()`.
        """
        ledger, messages = await _opened(partial(_open, path, id, _lease(lease_seconds), now))
        conversation = cls(ledger, messages, lease_seconds)
        async with _closing(conversation, ledger):
            if id is not None and ledger.stored.id != id:
                msg = f"{os.fspath(path)} has the conversation {ledger.stored.id!r}, not {id!r}"
                raise UsageError(msg)
            yield conversation

    @classmethod
    @asynccontextmanager
    async def create(
        cls,
        path: str | os.PathLike[str],
        messages: Messages,
        *,
        id: str | None = None,  # noqa: A002 - the field's own name
        lease_seconds: float = 30.0,
        now: Callable[[], datetime] = _now,
    ) -> AsyncGenerator[Self]:
        """Store `messages` in a new file; they are the conversation's `messages` from then on. Else as `open()`.

        Raises:
            FileExistsError: the file has a conversation already.
        """
        work = partial(_create, path, id or uuid4().hex, messages, _lease(lease_seconds), now)
        ledger, _ = await _opened(work)
        conversation = cls(ledger, messages, lease_seconds)
        async with _closing(conversation, ledger):
            yield conversation

    # --- What it is ------------------------------------------------------------------------------------------

    @property
    def id(self) -> str:
        """Names the conversation."""
        return self._ledger.stored.id

    @property
    def revision(self) -> int:
        """Counts the durable changes, as far as they are known here: each turn, and each state of a tool."""
        return self._ledger.stored.revision

    @property
    def messages(self) -> Messages:
        """The conversation, as this process knows it."""
        return self._messages

    @property
    def renew_every(self) -> float | None:
        """A third of the lease, in seconds. Every write prolongs it, too."""
        return self._renew_every

    # --- A run -----------------------------------------------------------------------------------------------

    async def claim(self) -> None:
        """Take the lease for one run, merge what others wrote, and write the decisions made here.

        Raises:
            ConflictError: a live run holds the lease, a call decided here was decided or run elsewhere, or turns were
                added both here and there. Nothing was written; a call that was decided elsewhere is in `messages` as it
                stands there.
        """
        try:
            await self._commit(self._changes, self._ledger.claim)
        except TimeoutError as error:
            raise ConflictError(str(error)) from error
        self._overtaken = False

    async def renew(self) -> None:
        """Prolong the lease. Where another process is stuck in a write, the next write or renewal does it.

        Raises:
            LeaseLostError: another run took over.
        """
        async with self._turnstile:
            with suppress(TimeoutError):
                await self._work(self._ledger.renew)

    async def write_tool(self, tool: Tool, /) -> None:
        """Make the state of one tool durable before returning; with it, turns that are not.

        Raises:
            LeaseLostError: another run took over; the state was recorded as late, and the tool is as it is stored.
            ConflictError: somebody decided this call meanwhile. Nothing was written, and the tool is as it is stored.
        """
        await self._commit(partial(self._changes_of, tool), self._ledger.write)

    async def write_turn(self, role: Role, turn: Turn, /) -> None:
        """Make a turn durable that was just appended to `messages`; with it, others that are not.

        Raises:
            LeaseLostError: another run took over; the turn was recorded as late.
            UsageError: the turn is not in `messages`.
        """
        if not self._durable.has(turn):
            msg = f"write_turn() writes a turn of {role!r} that is in `messages`: append it first"
            raise UsageError(msg)
        await self._commit(self._new_turns, self._ledger.write)

    async def release(self) -> None:
        """Give the lease back. Never raises for a lease that was lost."""
        async with self._turnstile:
            await self._work(self._ledger.release)

    # --- Besides a run ---------------------------------------------------------------------------------------

    async def save(self) -> None:
        """Write what was decided, or pushed, on `messages` here, and merge what others wrote.

        While a run of somebody else is live, what waits may be decided; the run sees it with its next write.

        Raises:
            ConflictError: a call decided here was decided or run elsewhere, or a run is at it; or turns were added
                both here and there, or during a live run. Nothing was written; a call that was decided elsewhere is in
                `messages` as it stands there.
            LeaseLostError: what is not written came from a run that was overtaken. Open the file again.
            ConversationBusyError: a run on these messages is live here, and writes for itself.
        """
        if self._messages.busy:
            msg = "save() came while a run on these messages is live; it saves what was decided by itself"
            raise ConversationBusyError(msg)
        await self._commit(self._changes, self._ledger.save)

    async def history(self) -> list[HistoryEntry]:
        """Everything that ever happened to the conversation, oldest first, for an audit."""
        async with self._turnstile:
            entries = await self._work(self._ledger.everything)
        return history_of(entries)

    # --- Below: what the journal does not know ---------------------------------------------------------------

    def _changes(self) -> Batch:
        """Everything."""
        new = self._new_turns()
        tools = [
            change
            for tool in tools_of(self._messages)
            if tool.id in self._marks
            for change in changes(tool, self._marks[tool.id], (tool.id,))
        ]
        return Batch(new.known, new.turns, tuple(tools))

    def _new_turns(self) -> Batch:
        added = self._durable.behind()
        return Batch(self._durable.turns, tuple([NewTurn.of(role, turn) for role, turn in added]))

    def _changes_of(self, tool: Tool) -> Batch:
        mark = self._marks.get(tool.id)
        if self._find((tool.id,)) is not tool:
            msg = f"write_tool() needs a tool of these messages, not {tool!r}"
            raise UsageError(msg)
        if mark is None:
            return self._new_turns()
        now = ToolRevision.of(tool)
        if now == mark:
            return Batch(self._durable.turns)
        return Batch(self._durable.turns, (), (ToolChange((tool.id,), mark, now, codec.tool_to_dict(tool)),))

    # --- Below: writing, and telling the messages --------------------------------------------------------------

    async def _commit(self, collect: Callable[[], Batch], write: Callable[[Batch], None]) -> None:
        async with self._turnstile:
            self._tell()
            batch = collect()
            if batch and (self._diverged or (self._overtaken and batch.turns)):
                self._refuse_for_ever()
            try:
                await self._work(partial(write, batch))
            except StaleToolError as moved:
                self._restore(moved)
                ids = ", ".join(["/".join(path) for path, _ in moved.tools])
                msg = f"{ids} was decided or run elsewhere meanwhile; nothing was written, look at it again"
                raise ConflictError(msg) from None
            except LeaseLostError:
                self._overtaken = True
                for change in batch.tools:
                    self._take_back(change.path)
                raise

    def _refuse_for_ever(self) -> None:
        if self._overtaken:
            msg = "another run took the conversation over, and what this one added is not part of it; open it again"
            raise LeaseLostError(msg)
        msg = "turns were added both here and elsewhere, and nobody can say in which order they belong; open it again"
        raise ConflictError(msg)

    async def _work(self, work: Callable[[], T]) -> T:
        try:
            return await finish_in_thread(work)
        finally:
            self._tell()

    def _tell(self) -> None:
        """Tell the messages what has become durable, in order."""
        news = self._ledger.news
        while news:
            match news.popleft():
                case Batch() as own:
                    self._durable.grow(len(own.turns))
                    for turn in own.turns:
                        self._marks.update(turn.marks)
                    for change in own.tools:
                        self._mark(change.path, change.mark)
                case TurnAdded(role, turn):
                    self._add(role, turn)
                case ToolMoved(path, tool):
                    self._take_over(path, tool)

    def _add(self, role: Role, turn: Turn) -> None:
        if self._diverged or self._durable.behind():
            self._diverged = True
            return
        self._messages.append(role, turn)
        self._durable.grow(1)
        self._marks.update({tool.id: ToolRevision.of(tool) for tool in turn.tools})

    def _take_over(self, path: ToolPath, tool: Tool) -> None:
        """What others did with a tool holds, unless something was done with it here: then the next write says so."""
        mine = self._find(path)
        if mine is not None and (ToolRevision.of(mine) == self._mark_at(path) or mine == tool):
            mine.adopt(tool)
            self._mark(path, ToolRevision.of(tool))

    def _restore(self, moved: StaleToolError) -> None:
        for path, tool in moved.tools:
            mine = self._find(path)
            if mine is not None:
                mine.adopt(tool)
                self._mark(path, ToolRevision.of(tool))

    def _take_back(self, path: ToolPath) -> None:
        stored, mine = self._ledger.stored.find(path), self._find(path)
        if stored is not None and mine is not None:
            copy = codec.tool_from_dict(codec.tool_to_dict(stored), Messages)
            mine.adopt(copy)
            self._mark(path, ToolRevision.of(copy))

    def _find(self, path: ToolPath) -> Tool | None:
        try:
            return self._messages.tool(*path)
        except KeyError:
            return None

    def _mark_at(self, path: ToolPath) -> ToolRevision | None:
        mark = self._marks.get(path[0])
        for step in path[1:]:
            mark = None if mark is None else mark.inner.get(step)
        return mark

    def _mark(self, path: ToolPath, mark: ToolRevision) -> None:
        *above, last = path
        if not above:
            self._marks[last] = mark
        elif (outer := self._mark_at(tuple(above))) is not None:
            outer.inner[last] = mark


# --- Opening and closing ----------------------------------------------------------------------------------------


async def _opened(work: Callable[[], tuple[ConversationLog, Messages]]) -> tuple[ConversationLog, Messages]:
    """Open a file, and close it again where nobody is there any more to do so."""
    opened: list[ConversationLog] = []

    def open_it() -> tuple[ConversationLog, Messages]:
        ledger, messages = work()
        opened.append(ledger)
        return ledger, messages

    try:
        return await finish_in_thread(open_it)
    except BaseException:
        for ledger in opened:
            ledger.close()
        raise


@asynccontextmanager
async def _closing(conversation: FileConversation, ledger: ConversationLog) -> AsyncGenerator[None]:
    try:
        yield
        await conversation.save()
    finally:
        with CancelScope(shield=True):
            try:
                if ledger.holds_lease:
                    await conversation.release()
            finally:
                await finish_in_thread(ledger.close)


def _open(
    path: str | os.PathLike[str],
    id: str | None,  # noqa: A002 - the field's own name
    lease: timedelta,
    now: Callable[[], datetime],
) -> tuple[ConversationLog, Messages]:
    ledger = ConversationLog(Path(path).resolve(), lease, now)
    try:
        return ledger, ledger.open(id or uuid4().hex)
    except BaseException:
        ledger.close()
        raise


def _create(
    path: str | os.PathLike[str],
    id: str,  # noqa: A002 - the field's own name
    messages: Messages,
    lease: timedelta,
    now: Callable[[], datetime],
) -> tuple[ConversationLog, Messages]:
    ledger = ConversationLog(Path(path).resolve(), lease, now)
    try:
        ledger.create(id, messages)
    except BaseException:
        ledger.close()
        raise
    return ledger, messages


def _lease(seconds: float) -> timedelta:
    if seconds <= 0:
        msg = f"a lease needs a length in seconds, not {seconds!r}"
        raise UsageError(msg)
    return timedelta(seconds=seconds)
