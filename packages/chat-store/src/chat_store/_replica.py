"""The messages of one process, synchronized with a conversation log."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import TypeVar, final

from anyio import CancelScope, Lock
from chat_core.arguments import require_items
from chat_core.concurrency import finish_in_thread
from chat_core.errors import ConflictError, ConversationBusyError, LeaseLostError, UsageError
from chat_core.messages import Messages, Role, Tool, Turn, codec

from chat_store._entries import (
    Batch,
    InnerTurns,
    NewTurn,
    ToolChange,
    ToolPath,
    ToolRevision,
    ToolUpdated,
    TurnAdded,
    TurnMarked,
    changed_grants,
    collect_changes,
    collect_inner_turns,
    copy_tool,
    outermost_tools,
    revisions_of,
)
from chat_store._log import ConversationLog, StaleToolError
from chat_store.history import HistoryEntry, parse_history

T = TypeVar("T")


@final
class _DurablePrefix:
    """A marker of the last durable turn in a conversation. Later turns are found without a full scan.

    Attributes:
        turns: the number of durable turns.
    """

    __slots__ = ("_content", "_messages", "_within", "turns")

    def __init__(self, messages: Messages) -> None:
        self._messages = messages
        self._content = self._within = self.turns = 0
        self.extend(sum([len(content.turns) for content in messages]))

    def later_turns(self) -> list[tuple[Role, Turn]]:
        """Return the turns that are not durable yet with their roles, oldest first."""
        found: list[tuple[Role, Turn]] = []
        within = self._within
        for index in range(self._content, len(self._messages)):
            content = self._messages[index]
            role: Role = content.role
            found.extend([(role, turn) for turn in content.turns[within:]])
            within = 0
        return found

    def last_turn(self) -> Turn:
        """Return the last durable turn."""
        if self._within:
            return self._messages[self._content].turns[self._within - 1]
        return self._messages[self._content - 1].turns[-1]

    def extend(self, turns: int) -> None:
        """Mark the next turns as durable.

        Args:
            turns: the number of these turns.
        """
        self.turns += turns
        # The position stays within the last content, which may still grow.
        self._within += turns
        while self._content < len(self._messages) and self._within > (size := len(self._messages[self._content].turns)):
            self._within -= size
            self._content += 1


class Replica:
    """An open conversation: messages and the log that stores their changes.

    An object may be used by any number of tasks of one event loop. Writes are serialized. Each write first applies the
    changes of other processes to `messages`, in the order of the log.

    Args:
        log: the log, which has been opened.
        messages: the messages returned by opening the log. The object changes them in place.
        lease_seconds: seconds for which a run may stall before another run can take over.
        renew: renews the lease of the log. Cancellation does not interrupt it. Default: `log.renew()` in a thread.
    """

    def __init__(
        self,
        log: ConversationLog,
        messages: Messages,
        lease_seconds: float,
        renew: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._log = log
        self._renew = renew or partial(finish_in_thread, log.renew)
        self._messages = messages
        self._renew_every = lease_seconds / 3
        self._write_lock = Lock()
        self._durable = _DurablePrefix(messages)
        self._revisions = {tool.id: ToolRevision.from_tool(tool) for tool in outermost_tools(messages)}
        # A call that is not in this dict has ended, and its end is in the log: it cannot change any more.
        self._changeable = dict.fromkeys(self._revisions)
        self._diverged = False
        self._overtaken = False
        self._apply_updates()

    @property
    def id(self) -> str:
        """The id of the conversation."""
        return self._log.state.id

    @property
    def owner(self) -> str | None:
        """The user who owns the conversation, if any. The owner never changes."""
        return self._log.owner

    @property
    def revision(self) -> int:
        """The number of durable changes that this object has read or written."""
        return self._log.state.revision

    @property
    def messages(self) -> Messages:
        """The messages of the conversation, as of the last read or write of this object."""
        return self._messages

    @property
    def renew_every(self) -> float | None:
        """The interval in seconds at which a run should renew the lease, a third of the lease duration."""
        return self._renew_every

    # --- A run -----------------------------------------------------------------------------------------------

    async def claim(self) -> None:
        """Take the lease for a run, merge the writes of other processes, and write the decisions made on `messages`.

        Raises:
            ConflictError: an active run holds the lease, another process decided or started a call that was decided on
                `messages`, or both `messages` and the log have new turns. Nothing was written. Calls that the other
                process decided have their stored state in `messages`.
        """
        try:
            await self._commit_batch(self._collect_all, self._log.claim)
        except TimeoutError as error:
            raise ConflictError(str(error)) from error
        self._overtaken = False

    async def renew(self) -> None:
        """Renew the lease of the run.

        Raises:
            LeaseLostError: another run took over.
            TimeoutError: another process blocks the log. The next write or renewal extends the lease.
        """
        async with self._write_lock:
            try:
                await self._renew()
            finally:
                self._apply_updates()

    async def apply_posts(self) -> int:
        """Append the posted turns to `messages`, each once and in order, and store them before returning.

        Returns:
            The number of appended turns.

        Raises:
            LeaseLostError: another run took over.
        """
        async with self._write_lock:
            return await self._run_in_thread(self._log.apply_posts)

    async def write_tool(self, path: tuple[str, ...], tool: Tool, /) -> None:
        """Store the state of one tool before returning.

        Turns that are not stored yet are written with the tool. If the inner conversation that contains the tool is not
        stored yet, the whole outer tool is written. Otherwise, only the changes are written.

        Args:
            path: the path of the tool in `messages`, including its own id: `messages.tool(*path)`.
            tool: the tool at this path.

        Raises:
            LeaseLostError: another run took over. The state was recorded as late. `messages` has the stored state.
            ConflictError: another process decided the call. Nothing was written. `messages` has the stored state.
            UsageError: the tool is not at this path.
        """
        require_items("path", path, str, "a sequence of ids of tool calls")
        await self._commit_batch(partial(self._collect_tool, path, tool), self._log.write)

    async def write_turn(self, path: tuple[str, ...], role: Role, turn: Turn, /) -> None:
        """Store an appended turn, and all earlier turns that are not stored yet, before returning.

        If the inner conversation of the turn is not stored yet, the tool that contains it is written.

        Args:
            path: the path of the tool whose inner conversation has the turn. Empty for a turn of `messages`.
            role: the role of the turn.
            turn: the turn, already appended.

        Raises:
            LeaseLostError: another run took over. The turn was recorded as late.
            UsageError: the turn is not in the conversation at this path.
        """
        require_items("path", path, str, "a sequence of ids of tool calls")
        outer = self._find_tool(path) if path else None
        chat = (None if outer is None else outer.inner) if path else self._messages
        if chat is None or not _has_turn(chat, turn):
            msg = f"the {role!r} turn is not in `messages`: append it before write_turn()"
            raise UsageError(msg)
        collect = self._collect_turns if outer is None else partial(self._collect_inner, path, outer)
        await self._commit_batch(collect, self._log.write)

    async def write_marks(self) -> None:
        """Store the marks of `messages.last_turn`, such as whether this answer was delivered, before returning.

        Raises:
            LeaseLostError: another run took over. The marks were recorded as late.
        """
        await self._commit_batch(self._collect_marks, self._log.write)

    async def release(self, *, looked_at: datetime | None = None) -> None:
        """Release the lease of the run. Does nothing if the lease was lost.

        Args:
            looked_at: time at which the run last examined the waiting calls. Pass it if the run has nothing left to do.
                The conversation is then due again after a stored change, or at a deadline after this time.
        """
        async with self._write_lock:
            await self._run_in_thread(partial(self._log.release, looked_at=looked_at))

    # --- Outside of a run ------------------------------------------------------------------------------------

    async def save(self) -> None:
        """Write the decisions and turns added to `messages`, and merge the writes of other processes.

        Waiting calls may be decided while a run of another process is active. The run reads the decision with its next
        write.

        Raises:
            ConflictError: another process decided or started a call that was decided on `messages`, or both `messages`
                and the log have new turns, or turns were added during an active run. Nothing was written. Calls that
                the other process decided have their stored state in `messages`.
            LeaseLostError: the unsaved changes come from a run that lost its lease. Open the conversation again.
            ConversationBusyError: a run of this process uses these messages. The run saves decisions itself.
        """
        await self._save_with(self._log.save)

    async def _save_with(self, write: Callable[[Batch], None]) -> None:
        if self._messages.busy:
            msg = "save() was called while a run uses these messages; the run saves decisions itself"
            raise ConversationBusyError(msg)
        await self._commit_batch(self._collect_all, write)

    async def history(self) -> list[HistoryEntry]:
        """Return every event of the conversation, oldest first."""
        async with self._write_lock:
            entries = await self._run_in_thread(self._log.read_entries)
        return parse_history(entries, self.id)

    # --- Collecting changes that are not durable -------------------------------------------------------------

    def _collect_all(self) -> Batch:
        new = self._collect_turns()
        changes: list[ToolChange | InnerTurns] = []
        for tool_id in [*self._changeable]:
            tool = self._find_tool((tool_id,))
            if tool is None:
                continue
            found = [*collect_changes(tool, self._revisions[tool_id], (tool_id,))]
            if tool.resolved and not found:
                del self._changeable[tool_id]
            changes += found
        return Batch.of(new.known_turns, new.turns, changes)

    def _collect_marks(self) -> Batch:
        index, (_, turn) = self._messages.last_turn_index, self._messages.last_turn or (None, None)
        if index is None or turn is None:
            return Batch(self._durable.turns)
        # Earlier versions read no index, and mark the last turn.
        marked = index if index < self._durable.turns - 1 else None
        return Batch(self._durable.turns, marks=codec.turn_marks(turn), marked_turn=marked)

    def _collect_turns(self) -> Batch:
        later = self._durable.later_turns()
        return Batch(self._durable.turns, tuple([NewTurn.from_turn(role, turn) for role, turn in later]))

    def _collect_tool(self, path: ToolPath, tool: Tool) -> Batch:
        """Return the unsaved changes of a tool, or the unsaved turns up to its turn if the log lacks the tool."""
        if not path or self._find_tool(path) is not tool:
            msg = f"write_tool() requires a tool of these messages at its path, not {tool!r}"
            raise UsageError(msg)
        base = self._revision_at(path)
        if base is None:
            above = path[:-1]
            return self._collect_inner(above, self._messages.tool(*above)) if above else self._collect_turns()
        return Batch.of(self._durable.turns, (), [*collect_changes(tool, base, path)])

    def _collect_inner(self, path: ToolPath, tool: Tool) -> Batch:
        """Return the new turns of a tool's inner conversation, or the whole tool if the log lacks the conversation."""
        base, inner = self._revision_at(path), tool.inner
        if base is None or not base.turns or inner is None:
            return self._collect_tool(path, tool)
        new = collect_inner_turns(inner, base, path)
        return Batch.of(self._durable.turns, (), (new,) if new.turns else ())

    # --- Writing, and applying updates -----------------------------------------------------------------------

    async def _commit_batch(self, collect: Callable[[], Batch], write: Callable[[Batch], None]) -> None:
        async with self._write_lock:
            self._apply_updates()
            batch = collect()
            if grants := changed_grants(self._messages.grants, self._log.state.grants):
                batch = replace(batch, grants=grants)
            if batch and (self._diverged or (self._overtaken and batch.adds_turns)):
                self._raise_diverged()
            try:
                await self._run_in_thread(partial(write, batch))
            except StaleToolError as stale:
                self._restore_tools(stale)
                self._drop_grants(batch)
                ids = ", ".join(["/".join(path) for path, _ in stale.tools])
                msg = (
                    f"another process decided or executed {ids}; nothing was written, and messages has the stored state"
                )
                raise ConflictError(msg) from None
            except LeaseLostError:
                self._overtaken = True
                for change in batch.tools:
                    self._restore_stored_tool(change.path)
                raise

    def _drop_grants(self, batch: Batch) -> None:
        """Remove the grants that a rejected batch contained. Revocations are kept for the next write."""
        stored, refused = self._log.state.grants, {grant.id for grant in batch.grants if grant.revoked_at is None}
        self._messages.grants.reset(
            [grant for grant in self._messages.grants if grant.id in stored or grant.id not in refused]
        )

    def _raise_diverged(self) -> None:
        if self._overtaken:
            msg = "another run took over the conversation; the turns added to this object are not stored: open it again"
            raise LeaseLostError(msg)
        msg = "this object and another process added turns, so their order is undefined; open the conversation again"
        raise ConflictError(msg)

    async def _run_in_thread(self, work: Callable[[], T]) -> T:
        try:
            return await finish_in_thread(work)
        finally:
            self._apply_updates()

    def _apply_updates(self) -> None:
        """Apply the durable changes in `self._log.updates` to the messages, in order."""
        updates = self._log.updates
        while updates:
            match updates.popleft():
                case Batch() as own:
                    self._confirm_batch(own)
                case TurnAdded(role, turn, ()):
                    self._append_turn(role, turn)
                case TurnAdded(role, turn, path):
                    self._append_inner_turn(path, role, turn)
                case ToolUpdated() as update:
                    self._update_tool(update)
                case TurnMarked() as marked:
                    if not self._diverged:
                        last = self._durable.last_turn() if marked.turn is None else None
                        marked.apply_to(last or marked.find_turn(self._messages))
        for grant in self._log.state.grants:
            self._messages.grants.merge(grant)

    def _confirm_batch(self, own: Batch) -> None:
        """Mark the changes in a batch as durable after this object has written them to the log."""
        self._durable.extend(len(own.turns))
        for turn in own.turns:
            self._add_revisions(turn.revisions)
        for change in own.tools:
            self._set_revision(change.path, change.revision, keeps_inner=change.keeps_inner)
        for item in own.inner:
            for turn in item.turns:
                self._extend_inner(item.path, turn.revisions)

    def _add_revisions(self, revisions: Mapping[str, ToolRevision]) -> None:
        self._revisions.update(revisions)
        self._changeable.update(dict.fromkeys(revisions))

    def _append_turn(self, role: Role, turn: Turn) -> None:
        if self._diverged or self._durable.later_turns():
            self._diverged = True
            return
        self._messages.append(role, turn, checked=True)
        self._durable.extend(1)
        self._add_revisions(revisions_of(turn))

    def _append_inner_turn(self, path: ToolPath, role: Role, turn: Turn) -> None:
        """Append a turn from the log to an inner conversation.

        A turn that cannot be applied is skipped, for example because this replica has unsaved turns in the same
        conversation. If the replica has the inner conversation, it is then marked as diverged.
        """
        base, mine = self._revision_at(path), self._find_tool(path)
        inner = None if mine is None else mine.inner
        if base is None or inner is None or collect_inner_turns(inner, base, path).turns:
            self._diverged = self._diverged or inner is not None
            return
        inner.append(role, turn, checked=True)
        self._extend_inner(path, revisions_of(turn))

    def _extend_inner(self, path: ToolPath, revisions: dict[str, ToolRevision]) -> None:
        """Mark the next turn of an inner conversation and its tool calls as durable.

        Args:
            path: the path of the tool that contains the conversation.
            revisions: the version stamps of the tool calls in the turn, by call id.
        """
        base = self._revision_at(path)
        if base is not None:
            base.turns += 1
            base.inner.update(revisions)

    def _update_tool(self, update: ToolUpdated) -> None:
        """Apply a tool state from the log. If this replica also changed the tool, the next write raises an error."""
        mine, base = self._find_tool(update.path), self._revision_at(update.path)
        if mine is None:
            return
        if update.keeps_inner and mine.inner is not None and base is not None:
            if mine.revision == base.revision:
                self._messages.adopt(update.path, update.merged_into(mine))
                self._set_revision(update.path, ToolRevision(update.tool.revision), keeps_inner=True)
        elif ToolRevision.from_tool(mine) == base or mine == update.tool:
            self._adopt_tool(update.path, update.tool)

    def _restore_tools(self, stale: StaleToolError) -> None:
        for path, tool in stale.tools:
            mine = self._find_tool(path)
            if mine is not None:
                self._adopt_tool(path, tool)

    def _restore_stored_tool(self, path: ToolPath) -> None:
        stored, mine = self._log.state.find(path), self._find_tool(path)
        if stored is not None and mine is not None:
            self._adopt_tool(path, copy_tool(stored))

    def _adopt_tool(self, path: ToolPath, tool: Tool) -> None:
        self._messages.adopt(path, tool)
        self._set_revision(path, ToolRevision.from_tool(tool))

    def _find_tool(self, path: ToolPath) -> Tool | None:
        try:
            return self._messages.tool(*path)
        except KeyError:
            return None

    def _revision_at(self, path: ToolPath) -> ToolRevision | None:
        revision = self._revisions.get(path[0])
        for step in path[1:]:
            revision = None if revision is None else revision.inner.get(step)
        return revision

    def _set_revision(self, path: ToolPath, revision: ToolRevision, *, keeps_inner: bool = False) -> None:
        *above, last = path
        if keeps_inner and (known := self._revision_at(path)) is not None:
            known.revision = revision.revision
            return
        if not above:
            self._revisions[last] = revision
        elif (outer := self._revision_at(tuple(above))) is not None:
            outer.inner[last] = revision


def _has_turn(messages: Messages, turn: Turn) -> bool:
    """Return whether messages contain a turn, compared by identity. Searches from the end."""
    return any(item is turn for index in range(len(messages) - 1, -1, -1) for item in reversed(messages[index].turns))


@asynccontextmanager
async def save_on_exit(replica: Replica, log: ConversationLog) -> AsyncGenerator[None]:
    """Return a context manager that saves the conversation if its block succeeds, and always releases the lease."""
    try:
        yield
        await replica.save()
    finally:
        if log.holds_lease:
            with CancelScope(shield=True):
                await replica.release()
