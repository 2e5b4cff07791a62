"""A chat with tools, approvals and a slow store, whose run can be cancelled at any await."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator
from datetime import datetime
from typing import TypeVar, final

import anyio
import pytest
from anyio.lowlevel import checkpoint
from chat_core import (
    ChatBuilder,
    ChatResponse,
    Conversation,
    Execute,
    FunctionCall,
    Messages,
    Paused,
    RequireApproval,
    ScopedCollection,
    StreamingChat,
    ToolCollection,
)
from chat_core.messages import Approved, Completed, Interrupted, Pending, Role, Running, Tool, Turn
from chat_core.testing import Answer, MemoryConversation, ScriptedProvider

T = TypeVar("T")


@final
class Watched(Awaitable[T]):
    """Coroutine that calls a function when it is suspended for the n-th time."""

    def __init__(self, coroutine: Coroutine[object, object, T], at: int, act: Callable[[], object]) -> None:
        self._coroutine = coroutine
        self._at = at
        self._act = act
        self.suspended = 0

    def __await__(self) -> Generator[object, object, T]:
        step: Callable[[], object] = lambda: self._coroutine.send(None)  # noqa: E731 - shorter
        while True:
            try:
                waits_for = step()
            except StopIteration as stop:
                return stop.value  # type: ignore[no-any-return]  # the result of the coroutine
            self.suspended += 1
            if self.suspended == self._at:
                self._act()
            try:
                value = yield waits_for
            except BaseException as error:  # noqa: BLE001 - passed on
                step = _thrower(self._coroutine, error)
            else:
                step = _sender(self._coroutine, value)


def _thrower(coroutine: Coroutine[object, object, T], error: BaseException) -> Callable[[], object]:
    return lambda: coroutine.throw(error)


def _sender(coroutine: Coroutine[object, object, T], value: object) -> Callable[[], object]:
    return lambda: coroutine.send(value)


@final
class SlowConversation:
    """Stored conversation that waits before and after each write."""

    def __init__(self, inner: MemoryConversation, point: Callable[[], Awaitable[None]]) -> None:
        self.inner = inner
        self._point = point

    @property
    def id(self) -> str:
        return self.inner.id

    @property
    def revision(self) -> int:
        return self.inner.revision

    @property
    def messages(self) -> Messages:
        return self.inner.messages

    @property
    def renew_every(self) -> float | None:
        return None

    async def claim(self) -> None:
        await self._point()
        await self.inner.claim()
        await self._point()

    async def renew(self) -> None:
        await self.inner.renew()

    async def write_tool(self, path: tuple[str, ...], tool: Tool, /) -> None:
        await self._point()
        await self.inner.write_tool(path, tool)
        await self._point()

    async def write_turn(self, path: tuple[str, ...], role: Role, turn: Turn, /) -> None:
        await self._point()
        await self.inner.write_turn(path, role, turn)
        await self._point()

    async def write_marks(self) -> None:
        await self._point()
        await self.inner.write_marks()
        await self._point()

    async def release(self, *, looked_at: datetime | None = None) -> None:
        await self._point()
        await self.inner.release(looked_at=looked_at)


@final
class Story:
    """Chat with two concurrent calls, one of which needs approval, and a final response.

    A provider, a tool, a policy and a store await `point()` at each place where they would wait.
    """

    def __init__(self, *, durable: bool) -> None:
        self.begun: dict[str, int] = {}
        self.points = 0
        self.known = 0
        self.at = 0
        self.act: Callable[[], object] = lambda: None
        self.messages = Messages.from_user("go")
        self.target: Messages | Conversation = self.messages
        if durable:
            self.target = SlowConversation(MemoryConversation(self.messages), self.point)
        self.model = ScriptedProvider(
            Answer(
                [
                    "I go.",
                    FunctionCall("pay", {"n": 1}, id="pay"),
                    FunctionCall("look", {"n": 2}, id="look"),
                    FunctionCall("put", {"n": 3}, id="put"),
                    FunctionCall("alone", {"n": 4}, id="alone"),
                    FunctionCall("nothing", {}, id="nothing"),
                ],
                before=self.point,
            ),
            Answer(["It is done."], before=self.point),
            by_history=True,
        )

    async def point(self) -> None:
        self.points += 1
        if self.points == self.at:
            self.act()
        await checkpoint()

    async def _body(self, name: str) -> str:
        self.begun[name] = self.begun.get(name, 0) + 1
        await self.point()
        await self.point()
        return name

    def chat(self) -> StreamingChat[ChatResponse, Paused]:
        tools = ToolCollection()

        @tools.tool
        async def pay(n: int) -> str:
            return await self._body("pay")

        @tools.tool
        async def look(n: int) -> str:
            return await self._body("look")

        @tools.tool(idempotent=True)
        async def put(n: int) -> str:
            return await self._body("put")

        @tools.tool(sequential=True)
        async def alone(n: int) -> str:
            return await self._body("alone")

        async def policy(call: FunctionCall, _meta: None) -> Execute | RequireApproval:
            await self.point()
            return RequireApproval() if call.name == "pay" else Execute()

        return ChatBuilder().with_model(self.model).with_scoped_tools(ScopedCollection(tools, policy)).build()

    async def run(self, *, streaming: bool) -> ChatResponse | Paused:
        if not streaming:
            return await self.chat().complete(self.target)
        async with self.chat().stream(self.target) as stream:
            async for _ in stream:
                pass
        return stream.response

    async def resume(self, *, streaming: bool) -> None:
        """Run until the pause, and decide the waiting call."""
        await self.run(streaming=streaming)
        self.messages.tool("pay").approve()
        self.points = 0
        if isinstance(self.target, SlowConversation):
            self.known = len(self.target.inner.calls)

    def require_order(self) -> None:
        """Check that no lease is held, no call is half done, and the stored state equals the messages."""
        assert not self.messages.busy
        assert self.model.open_streams == 0
        assert Messages.from_json(self.messages.to_json()) == self.messages
        for tool in [tool for content in self.messages for tool in content.tools]:
            if tool.name in self.begun:
                assert not isinstance(tool.status, (Pending, Approved)), tool
            if isinstance(tool.status, Interrupted):
                assert tool.attempts
            assert not isinstance(tool.status, Running) or tool.name == "put"
        if isinstance(self.target, SlowConversation):
            assert not self.target.inner.claimed
            if "claim" in self.target.inner.operations[self.known :]:
                assert self.target.inner.resting() == self.messages

    async def finish(self, *, streaming: bool) -> None:
        """Decide the waiting calls and run until the final response."""
        self.at = 0
        for _ in range(3):
            if self.messages[-1].text.endswith("It is done."):
                break
            for tool in self.messages.pending():
                if isinstance(tool.status, Interrupted):
                    tool.complete("somebody looked")
                elif isinstance(tool.status, Pending) and tool.status.kind == "approval":
                    tool.approve()
            await self.run(streaming=streaming)
        assert self.messages[-1].turns[-1].text == "It is done."
        assert all(count == 1 for name, count in self.begun.items() if name != "put"), self.begun
        assert self.begun.get("put", 0) >= 1
        assert isinstance(self.messages.tool("put").status, Completed)


WAYS = pytest.mark.parametrize("streaming", [False, True], ids=["complete", "stream"])


async def interrupted(story: Story, *, streaming: bool, point: int = 0, suspension: int = 0) -> bool:
    """Run the story and cancel it at the n-th point or suspension. Return whether it got that far."""
    with anyio.CancelScope() as scope:
        story.at, story.act = point, scope.cancel
        await Watched(story.run(streaming=streaming), suspension, scope.cancel)
    return scope.cancel_called


async def interrupted_natively(
    story: Story, *, streaming: bool, point: int = 0, suspension: int = 0, times: int = 1
) -> bool:
    """Cancel the story with asyncio, and again in each of the next iterations of the event loop."""

    def cancel(left: int = times) -> None:
        if left and task.cancel():
            asyncio.get_running_loop().call_soon(cancel, left - 1)

    async def run() -> None:
        await Watched(story.run(streaming=streaming), suspension, cancel)

    task = asyncio.create_task(run())
    story.at, story.act = point, cancel
    await asyncio.wait([task])
    assert task.cancelled() == (task.cancelling() > 0)
    return task.cancelled()
