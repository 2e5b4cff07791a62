"""Protocols for stored conversations, as the engine uses them."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol, runtime_checkable

from chat_core.messages import Messages, Role, Tool, Turn


@runtime_checkable
class PostReceiver(Protocol):
    """Protocol for a stored conversation to which other processes can post input during a run or a pause."""

    async def apply_posts(self) -> int:
        """Append each posted turn to `messages` once, in order, and store the changes before returning.

        Returns:
            The number of appended turns.

        Raises:
            LeaseLostError: another run took over the conversation.
        """
        ...


@runtime_checkable
class Conversation(Protocol):
    """Protocol for messages in a store, with an ID, a revision and a lease. Chats accept it instead of `Messages`.

    A run claims the conversation, stores each change before its effect, and renews the lease while it runs. At the end,
    the run releases the conversation. Each write stores one tool call or one turn. Decisions that other processes made
    in the meantime are merged into `messages`, never overwritten.

    If its store supports owners, the conversation also has an attribute `owner`, the user who owns the conversation.
    Runs copy it to `RunContext.owner`.

    `messages` changes only while one of these methods is awaited. After each such await, a run checks a tool call again
    before it starts the tool.
    """

    @property
    def id(self) -> str:
        """ID of the conversation in its store."""
        ...

    @property
    def revision(self) -> int:
        """Number of stored changes."""
        ...

    @property
    def messages(self) -> Messages:
        """The messages in the state that this process has loaded."""
        ...

    @property
    def renew_every(self) -> float | None:
        """Seconds between calls of `renew()` during a run, or `None` if the lease does not expire.

        The interval is at most a third of the lease duration.
        """
        ...

    async def claim(self) -> None:
        """Acquire the lease for one run, and synchronize `messages` with the stored conversation.

        Changes in the store are merged into `messages`, and decisions made on `messages` are stored. Afterwards,
        `messages` equals the stored conversation. A tool call that is still `Running` was started by a run whose
        process died. A run that is cancelled during `claim()` must call `release()`, because it may have the lease.

        Raises:
            ConflictError: another run holds the lease, or a call that was decided on `messages` was also decided or
                started by another process. Nothing was stored.
        """
        ...

    async def renew(self) -> None:
        """Extend the lease. A run calls this before a delayed tool, to check that it still has the lease.

        Raises:
            LeaseLostError: another run took over the conversation.
            TimeoutError: the lease was not extended, because another process blocks the store.
        """
        ...

    async def write_tool(self, path: tuple[str, ...], tool: Tool, /) -> None:
        """Store the state of one tool call before returning.

        Args:
            path: path of the tool call in `messages`: the IDs of the outer tool calls, outermost first, followed by
                the ID of the call. `messages.tool(*path)` returns the tool call.
            tool: the tool call at this path.

        Raises:
            LeaseLostError: another run took over the conversation. The store recorded the state as
                late, and `tool` now has the stored state.
            ConflictError: another process decided the same call. Nothing was stored, and `tool` now has the stored
                state. If the call was about to start, it must not start: the run asks the policy about it again.
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
        """Store the fields `delivered` and `failed_usage` of `messages.last_turn` before returning.

        If `delivered` is True, the conversation needs no run, so the store must not offer it to workers. If `delivered`
        is False, the after-hooks of the turn have not been called, so the store must offer it to workers again.

        Raises:
            LeaseLostError: another run took over the conversation.
        """
        ...

    async def release(self, *, looked_at: datetime | None = None) -> None:
        """Release the lease. Do not raise if the lease was lost or never acquired.

        Args:
            looked_at: time at which the run last examined the waiting calls. Pass it only if the run has nothing left
                to do. The store then offers the conversation to workers only after a later change or deadline. Default:
                the run ended early, so another run may continue.
        """
        ...
