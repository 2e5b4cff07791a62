"""The model under test, and helper functions for the scenarios."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar, final

import anyio
from chat_core import (
    Action,
    Chat,
    ChatBuilder,
    Execute,
    FunctionCall,
    Paused,
    Reject,
    RequireApproval,
    ScopedCollection,
    ToolCollection,
)
from chat_core.testing import ScriptedProvider

from chat_realtime.sessions import RealtimeModel, RealtimeSession
from chat_realtime.testing.dialect import Dialect

EventT = TypeVar("EventT")

_SECONDS = 10.0


class ModelFactory(Protocol):
    """Protocol for the function that creates the model under test."""

    def __call__(self, base_url: str, /, *, manual: bool = False, written: bool = False) -> RealtimeModel:
        """Create a model whose server is at `base_url`.

        Args:
            base_url: base URL of the scripted server.
            manual: whether the application marks the end of the user's speech.
            written: whether the model responds with text.
        """
        ...


@final
class Subject:
    """The model under test and its dialect.

    Args:
        model: creates the model under test.
        dialect: messages of its server.
    """

    def __init__(self, model: ModelFactory, dialect: Dialect) -> None:
        self.model: ModelFactory = model
        self.dialect: Dialect = dialect


@final
class Bank:
    """A chat with a tool under a policy: above 100 an approval is required, above 1,000 a call is rejected.

    Args:
        slow: an amount whose payment waits for `release`.

    Attributes:
        paid: amounts that were paid, oldest first.
        stopped: the amounts whose payment was cancelled.
        started: set when the payment of the slow amount has started.
        release: lets the payment of the slow amount continue.
        chat: the chat with the tool `pay`.
    """

    def __init__(self, slow: int | None = None) -> None:
        self._slow = slow
        self.paid: list[int] = []
        self.stopped: list[int] = []
        self.started: anyio.Event = anyio.Event()
        self.release: anyio.Event = anyio.Event()
        tools = ToolCollection()
        tools.tool(self.pay)
        scope = ScopedCollection(tools, self._decide)
        self.chat: Chat[Any, Paused] = (
            ChatBuilder().with_model(ScriptedProvider()).with_instructions("Be brief.").with_scoped_tools(scope).build()
        )

    async def pay(self, cents: int) -> str:
        """Pay an amount."""
        if cents == self._slow:
            self.started.set()
            try:
                await self.release.wait()
            except anyio.get_cancelled_exc_class():
                self.stopped.append(cents)
                raise
        self.paid.append(cents)
        return f"paid {cents}"

    @staticmethod
    def _decide(call: FunctionCall, _meta: None) -> Action[Paused]:
        cents = call.arguments["cents"]
        assert isinstance(cents, int)  # noqa: S101 - validated by the engine
        if cents > 1000:
            return Reject("too much")
        return RequireApproval() if cents > 100 else Execute()


async def read_until(
    session: RealtimeSession[Any], kind: type[EventT], matches: Callable[[EventT], object] = lambda _: True
) -> tuple[EventT, list[object]]:
    """Read events until one of the given class matches. Return this event and the earlier ones.

    Args:
        session: the session.
        kind: class of the expected event.
        matches: returns a true value for the expected event.

    Raises:
        AssertionError: the event did not arrive.
    """
    seen: list[object] = []
    try:
        with anyio.fail_after(_SECONDS):
            async for event in session:
                if isinstance(event, kind) and matches(event):
                    return event, seen
                seen.append(event)
    except TimeoutError:
        pass
    msg = f"the session delivered no {kind.__name__}, but {', '.join(type(event).__name__ for event in seen)}"
    raise AssertionError(msg)


def require(condition: object, message: str) -> None:
    """Raise an `AssertionError` unless a condition is true.

    Args:
        condition: result of the check.
        message: description of the violation.
    """
    if not condition:
        raise AssertionError(message)


def texts(session: RealtimeSession[Any]) -> list[tuple[str, str, str | None]]:
    """Return the role, text and finish reason of each turn that contains text."""
    return [(role, turn.text, turn.finish_reason) for role, turn in session.messages.turns if turn.text]
