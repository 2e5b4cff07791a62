"""Protocol of a stored conversation, as the engine uses it."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol, runtime_checkable

from chat_core.messages import Messages, Role, Tool, Turn


@runtime_checkable
class PostReceiver(Protocol):
    """A stored conversation to which other processes can post input while a run or a pause is active."""

    async def apply_posts(self) -> int:
        """Append the posted turns to `messages`, each once and in order, and store that before returning.

        Returns:
            How many turns were appended.

        Raises:
            LeaseLostError: another run took over the conversation.
        """
        ...


@runtime_checkable
class Conversation(Protocol):
    """Messages in a store, with an id, a revision and a lease. Chats accept one instead of plain messages.

    A run claims the conversation, stores each change before its effect, and renews the lease while it runs. At the end
    it releases the conversation. Each write stores one tool call or one turn. Decisions made elsewhere meanwhile are
    merged into `messages`, never overwritten.

    A conversation of a store that knows owners also has an attribute `owner`: the user whose conversation it is. Runs
    pass it on in `RunContext.owner`.

    `messages` changes only while one of these methods is awaited. After awaiting one, a run checks a tool call again
    before it starts it.
    """

    @property
    def id(self) -> str:
        """Id of the conversation in its store."""
        ...

    @property
    def revision(self) -> int:
        """Number of stored changes."""
        ...

    @property
    def messages(self) -> Messages:
        """Messages as this process knows them."""
        ...

    @property
    def renew_every(self) -> float | None:
        """Seconds between calls of `renew()` during a run: at most a third of the lease; `None` without expiry."""
        ...

    async def claim(self) -> None:
        """Acquire the lease for one run, merge stored changes into `messages`, and store decisions made on `messages`.

        Afterwards `messages` equals the stored conversation. A tool call that is `Running` was left by a run whose
        process died. A run that is cancelled during `claim()` must call `release()`, even without the lease.

        Raises:
            ConflictError: another run holds the lease, or a call decided here was decided or started elsewhere. Nothing
                was stored.
        """
        ...

    async def renew(self) -> None:
        """Extend the lease. A run that starts a tool late calls this first, to find out whether it still has the lease.

        Raises:
            LeaseLostError: another run took over the conversation.
            TimeoutError: the lease was not extended, because another process blocks the store.
        """
        ...

    async def write_tool(self, path: tuple[str, ...], tool: Tool, /) -> None:
        """Store the state of one tool call before returning.

        Args:
            path: path of the tool call in `messages`, as in `Wait.path`: the ids of the outer tool calls, outermost
                first, and its own id. `messages.tool(*path)` returns the tool call.
            tool: the tool call at this path.

        Raises:
            LeaseLostError: another run took over the conversation. The state was recorded as late, and `tool` has the
                stored state.
            ConflictError: the same call was decided elsewhere. Nothing was stored, and `tool` has the stored state. A
                call that was to start must not start; the run decides about it again.
        """
        ...

    async def write_turn(self, path: tuple[str, ...], role: Role, turn: Turn, /) -> None:
        """Store a turn that was just appended to a conversation.

        Args:
            path: path of that conversation: empty for `messages`, otherwise the path of the tool call whose inner
                conversation has the turn.
            role: role of the turn.
            turn: the appended turn.

        Raises:
            LeaseLostError: another run took over the conversation.
        """
        ...

    async def write_marks(self) -> None:
        """Store `delivered` and `failed_usage` of the last turn of `messages` before returning.

        A conversation whose last turn is marked as delivered needs no run. Workers must not be offered it. If
        `delivered` is False, the hooks of the turn have not run: workers must be offered the conversation again.

        Raises:
            LeaseLostError: another run took over the conversation.
        """
        ...

    async def release(self, *, looked_at: datetime | None = None) -> None:
        """Release the lease. Does not raise if the lease was lost or never acquired.

        Args:
            looked_at: when the run last examined the waiting calls, if it has done all that it can do. Workers must not
                be offered the conversation before a stored change or a deadline of a wait that is after this time.
                Default: the run ended early, so another run may continue.
        """
        ...
