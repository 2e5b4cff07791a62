"""The protocol of a stored conversation that a chat can run on."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from chat_core.messages import Messages, Role, Tool, Turn


@runtime_checkable
class Conversation(Protocol):
    """Messages with an id, a revision, a lease and a journal: what a chat takes in the place of plain messages.

    A run claims the conversation, writes ahead of every effect, renews its lease while it lasts, and releases it at its
    end. Writes are per tool and per turn; what a person decided elsewhere meanwhile is merged into `messages`, never
    overwritten.

    What others decided enters `messages` while one of these methods is awaited, and at no other time. A run that has
    awaited one looks at a call again before it starts it.
    """

    @property
    def id(self) -> str:
        """Names the conversation in its store."""
        ...

    @property
    def revision(self) -> int:
        """Counts the durable changes."""
        ...

    @property
    def messages(self) -> Messages:
        """The conversation, as this process knows it."""
        ...

    @property
    def renew_every(self) -> float | None:
        """Seconds after which a live run must call `renew()` again; `None` where the lease does not run out."""
        ...

    async def claim(self) -> None:
        """Take the lease for one run, merge what others wrote, and write the decisions made on `messages` here.

        When it returns, `messages` is the truth, everything in it is durable, and a tool that is `Running` was left by
        a run that is gone. A run that is cancelled meanwhile calls `release()`, whether the lease was taken or not.

        Raises:
            ConflictError: a live run holds the lease, or a call decided here was decided or run elsewhere. Nothing was
                written.
        """
        ...

    async def renew(self) -> None:
        """Prolong the lease.

        Raises:
            LeaseLostError: another run took over.
        """
        ...

    async def write_tool(self, path: tuple[str, ...], tool: Tool, /) -> None:
        """Make the state of one tool durable before returning.

        Args:
            path: the path of the tool in `messages`, as `Wait.path` has it: the ids of the outer tools whose inner
                conversations hold it, outermost first, and its own id. It is `(tool.id,)` for an outermost tool, and
                `messages.tool(*path)` is the tool.
            tool: the tool at this path.

        Raises:
            LeaseLostError: another run took over; the state was recorded as late, not as truth, and the tool is as it
                is stored.
            ConflictError: somebody decided this very call meanwhile; nothing was written, and the tool is as it is
                stored. Where it was to start, it must not; the run looks at it again.
        """
        ...

    async def write_turn(self, path: tuple[str, ...], role: Role, turn: Turn, /) -> None:
        """Make a turn durable that was just appended to a conversation.

        Args:
            path: the path of that conversation: empty for `messages` themselves, else the path of the tool whose inner
                conversation has the turn.
            role: the role of the turn.
            turn: the turn, which has been appended.

        Raises:
            LeaseLostError: another run took over.
        """
        ...

    async def release(self) -> None:
        """Give the lease back. Never raises for a lease that was lost, or never taken."""
        ...
