"""The values of a run: when factories are called and closed, and who receives the values."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any, Protocol, Self

import anyio
import anyio.lowlevel
import pytest
from chat_core import (
    ChatBuilder,
    ChatResponse,
    Execute,
    FunctionCall,
    Injected,
    Messages,
    Paused,
    RequireApproval,
    RunContext,
    ScopedCollection,
    StreamingChat,
    ToolCollection,
    ToolContext,
    UsageError,
    dry_run,
)
from chat_core.errors import ServerError
from chat_core.messages import Failed, Interrupted
from chat_core.testing import MemoryConversation, ScriptedProvider

pytestmark = pytest.mark.anyio

READ = FunctionCall("read", {"key": "k"})


class Database:
    """A resource that must be closed."""

    def __init__(self, name: str = "db") -> None:
        self.name = name
        self.open = True
        self.closed_with: BaseException | None = None

    def __repr__(self) -> str:
        return "Database(password=s3cret)"


class User:
    def __init__(self, name: str | None) -> None:
        self.name = name


class Mailer(Protocol):
    def send(self, text: str) -> str: ...


class Desk:
    """A factory of databases, and tools that use them."""

    def __init__(self) -> None:
        self.opened: list[Database] = []
        self.contexts: list[RunContext] = []
        self.used: list[tuple[str, str | None]] = []
        self.tools = ToolCollection()

        @self.tools.tool
        async def read(key: str, db: Injected[Database], user: Injected[User]) -> str:
            assert db.open
            self.used.append((db.name, user.name))
            await anyio.lowlevel.checkpoint()
            return f"{key} of {user.name}"

        @self.tools.tool
        def read_in_thread(db: Injected[Database], /) -> str:
            assert db.open
            return db.name

    @asynccontextmanager
    async def database(self, context: RunContext) -> AsyncGenerator[Database, None]:
        db = Database(f"db{len(self.opened)}")
        self.opened.append(db)
        self.contexts.append(context)
        try:
            # A context manager with a cancel scope must be exited in the task that entered it.
            with anyio.CancelScope():
                await anyio.lowlevel.checkpoint()
                yield db
        except BaseException as error:
            db.closed_with = error
            raise
        finally:
            await anyio.lowlevel.checkpoint()
            db.open = False

    def chat(self, *script: Any) -> StreamingChat[ChatResponse]:
        return (
            ChatBuilder()
            .with_model(ScriptedProvider(*script, by_history=True))
            .with_tools(self.tools)
            .with_values(Database, self.database)
            .with_values(User, lambda context: User(context.owner))
            .build()
        )

    @property
    def all_closed(self) -> bool:
        return not any(db.open for db in self.opened)


async def run(chat: StreamingChat[Any, Any], messages: Messages, *, stream: bool, **arguments: Any) -> None:
    if not stream:
        await chat.complete(messages, **arguments)
        return
    async with chat.stream(messages, **arguments) as events:
        async for _ in events:
            pass


@pytest.mark.parametrize("stream", [False, True])
async def test_a_factory_is_called_once_for_all_tools_of_a_run(stream: bool) -> None:
    desk = Desk()
    messages = Messages.from_user("hi")
    chat = desk.chat([READ, READ, FunctionCall("read_in_thread")], READ, "done")

    await run(chat, messages, stream=stream, owner="ana")

    assert desk.used == [("db0", "ana")] * 3
    assert len(desk.opened) == 1
    assert desk.all_closed
    assert desk.opened[0].closed_with is None
    assert "read_in_thread({}) → Completed: db0" in str(messages)


async def test_each_run_calls_its_factories_with_its_own_context() -> None:
    desk = Desk()
    conversation = MemoryConversation(Messages.from_user("hi"), id="chat-7", owner="bo")
    chat = desk.chat(READ, "done", READ, "done")

    await chat.complete(conversation)
    conversation.messages.user("again")
    await chat.complete(conversation)

    assert [(item.conversation_id, item.owner) for item in desk.contexts] == [("chat-7", "bo")] * 2
    first, second = [item.run_id for item in desk.contexts]
    assert first
    assert first != second
    assert desk.used == [("db0", "bo"), ("db1", "bo")]


async def test_plain_messages_have_no_owner_unless_it_is_passed() -> None:
    desk = Desk()
    chat = desk.chat(READ, "done")

    await chat.complete(Messages.from_user("hi"))

    assert desk.contexts[0].owner is None
    assert desk.contexts[0].conversation_id is None


async def test_the_model_receives_neither_injected_parameters_nor_their_values() -> None:
    desk = Desk()
    model = ScriptedProvider(READ, "done")
    chat = ChatBuilder().with_model(model).with_tools(desk.tools).build()
    messages = Messages.from_user("hi")

    await chat.complete(messages, inject={Database: Database("s3cret"), User: User("ana")})

    (declaration, other) = model.asked[0].tools
    assert list(declaration.parameters["properties"]) == ["key"]  # type: ignore[call-overload]  # JSON
    assert other.parameters == {"type": "object", "properties": {}, "additionalProperties": False}
    assert "s3cret" not in messages.to_json()


async def test_a_model_cannot_set_an_injected_parameter() -> None:
    desk = Desk()
    messages = Messages.from_user("hi")

    await desk.chat(FunctionCall("read", {"key": "k", "user": {"name": "root"}}), "done").complete(messages)

    assert desk.used == []
    assert isinstance(messages[1].turns[0].tools[0].status, Failed)


async def test_injected_values_replace_factories() -> None:
    desk = Desk()

    await desk.chat(READ, "done").complete(
        Messages.from_user("hi"), inject={Database: Database("mine"), User: User("cy")}, owner="ana"
    )

    assert desk.opened == []
    assert desk.used == [("mine", "cy")]


@pytest.mark.parametrize("stream", [False, True])
async def test_a_missing_value_is_refused_before_any_request(stream: bool) -> None:
    desk = Desk()
    model = ScriptedProvider("never")
    chat = ChatBuilder().with_model(model).with_tools(desk.tools).with_values(Database, desk.database).build()
    messages = Messages.from_user("hi")

    with pytest.raises(UsageError, match=r"the tool 'read' needs a value of the type User: call with_values\(User, "):
        await run(chat, messages, stream=stream)

    assert (model.asked, desk.opened, len(messages)) == ([], [], 1)


async def test_a_value_of_another_type_is_refused_without_showing_it() -> None:
    desk = Desk()
    chat = desk.chat(READ, "done")

    with pytest.raises(UsageError, match=r"^inject\[User\] must provide a value of the type User, not Database$"):
        await chat.complete(Messages.from_user("hi"), inject={User: Database()})

    bad: Any = chat_with_factory(desk, lambda _: 7)
    with pytest.raises(UsageError, match=r"^the factory of User must provide a value of the type User, not int$"):
        await bad.complete(Messages.from_user("hi"))
    assert desk.all_closed


def chat_with_factory(desk: Desk, factory: Callable[[RunContext], Any]) -> StreamingChat[ChatResponse]:
    return (
        ChatBuilder()
        .with_model(ScriptedProvider(READ, "done"))
        .with_tools(desk.tools)
        .with_values(Database, desk.database)
        .with_values(User, factory)
        .build()
    )


async def test_value_factories_can_be_async_and_use_earlier_values() -> None:
    desk = Desk()

    async def user(context: RunContext) -> User:
        await anyio.lowlevel.checkpoint()
        return User(context.values[Database].name)

    await chat_with_factory(desk, user).complete(Messages.from_user("hi"))

    assert desk.used == [("db0", "db0")]


async def test_a_value_that_is_itself_a_context_manager_is_not_entered() -> None:
    class Session(User):
        async def __aenter__(self) -> Self:
            raise AssertionError

        async def __aexit__(self, *_: object) -> None:
            raise AssertionError

    desk = Desk()

    await chat_with_factory(desk, lambda _: Session("kept open")).complete(Messages.from_user("hi"))

    assert desk.used == [("db0", "kept open")]


async def test_a_value_can_be_injected_by_its_protocol() -> None:
    class Recorder:
        def send(self, text: str) -> str:
            return f"sent {text}"

    tools = ToolCollection()

    @tools.tool
    async def mail(text: str, mailer: Injected[Mailer]) -> str:
        return mailer.send(text)

    model = ScriptedProvider(FunctionCall("mail", {"text": "hi"}), "done")
    chat = ChatBuilder().with_model(model).with_tools(tools).with_values(Mailer, lambda _: Recorder()).build()
    messages = Messages.from_user("hi")

    await chat.complete(messages)

    assert "Completed: sent hi" in str(messages)


async def test_a_failing_factory_ends_the_run_and_closes_earlier_values() -> None:
    desk = Desk()

    def broken(_: RunContext) -> User:
        msg = "no such user"
        raise LookupError(msg)

    messages = Messages.from_user("hi")
    with pytest.raises(LookupError, match="no such user"):
        await chat_with_factory(desk, broken).complete(messages)

    assert len(messages) == 1
    assert desk.all_closed
    assert len(desk.opened) == 1
    assert isinstance(desk.opened[0].closed_with, LookupError)


@pytest.mark.parametrize("stream", [False, True])
async def test_values_are_closed_with_the_error_of_the_run(stream: bool) -> None:
    desk = Desk()
    failure = ServerError("down", status=500)
    chat = desk.chat(READ, failure, failure, failure)

    with pytest.raises(ServerError):
        await run(chat, Messages.from_user("hi"), stream=stream)

    assert desk.all_closed
    assert desk.opened[0].closed_with is failure


async def test_values_are_closed_when_a_stream_is_closed_early() -> None:
    desk = Desk()

    async with desk.chat(READ, "done").stream(Messages.from_user("hi")) as events:
        async for _ in events:
            assert len(desk.opened) == 1
            break

    assert desk.all_closed


async def test_values_are_closed_when_the_run_is_cancelled() -> None:
    desk = Desk()

    @desk.tools.tool
    async def hang(db: Injected[Database]) -> None:
        assert db.open
        scope.cancel()
        await anyio.sleep_forever()

    messages = Messages.from_user("hi")
    with anyio.CancelScope() as scope:
        await desk.chat(FunctionCall("hang"), "done").complete(messages)

    assert scope.cancelled_caught
    assert desk.all_closed
    assert isinstance(messages[1].turns[0].tools[0].status, Interrupted)


async def test_a_run_can_be_cancelled_while_a_factory_waits() -> None:
    desk = Desk()

    async def never(_: RunContext) -> User:
        scope.cancel()
        await anyio.sleep_forever()
        raise AssertionError

    with anyio.fail_after(20), anyio.CancelScope() as scope:
        await chat_with_factory(desk, never).complete(Messages.from_user("hi"))

    assert scope.cancelled_caught
    assert desk.all_closed


async def test_an_error_while_closing_a_value_is_raised_after_a_successful_run() -> None:
    @asynccontextmanager
    async def user(_: RunContext) -> AsyncGenerator[User, None]:
        yield User("ana")
        msg = "commit failed"
        raise RuntimeError(msg)

    desk = Desk()
    messages = Messages.from_user("hi")
    with pytest.raises(RuntimeError, match="commit failed"):
        await chat_with_factory(desk, user).complete(messages)

    assert messages[-1].text == "done"
    assert desk.all_closed


async def test_an_error_while_closing_a_value_does_not_hide_the_error_of_the_run(
    caplog: pytest.LogCaptureFixture,
) -> None:
    @asynccontextmanager
    async def user(_: RunContext) -> AsyncGenerator[User, None]:
        try:
            yield User("ana")
        finally:
            msg = "rollback failed"
            raise RuntimeError(msg)

    desk = Desk()
    failure = ServerError("down", status=500)
    chat = (
        ChatBuilder()
        .with_model(ScriptedProvider(failure))
        .with_tools(desk.tools)
        .with_retry(0)
        .with_values(Database, desk.database)
        .with_values(User, user)
        .build()
    )

    with caplog.at_level(logging.WARNING, "chat_core"), pytest.raises(ServerError):
        await chat.complete(Messages.from_user("hi"))

    assert "failed to close the values of a run" in caplog.text
    assert desk.all_closed


async def test_a_policy_can_read_the_values_of_the_run() -> None:
    desk = Desk()
    seen: list[tuple[str | None, str]] = []

    def policy(call: FunctionCall, _: None) -> Execute:
        assert call.context is not None
        context = call.context.run
        seen.append((context.values[User].name, context.run_id))
        return Execute()

    chat = (
        ChatBuilder()
        .with_model(ScriptedProvider(READ, "done"))
        .with_scoped_tools(ScopedCollection(desk.tools, policy))
        .with_values(Database, desk.database)
        .with_values(User, lambda context: User(context.owner))
        .build()
    )
    await chat.complete(Messages.from_user("hi"), owner="ana")
    assert seen == [("ana", desk.contexts[0].run_id)]

    report = await dry_run(chat, READ, owner="bo")
    assert [call.outcome for call in report] == ["run"]
    assert seen[1][0] == "bo"
    assert desk.all_closed

    await dry_run(chat, READ, inject={User: User("cy")})
    assert seen[2][0] == "cy"


async def test_a_resumed_run_creates_new_values() -> None:
    desk = Desk()
    chat = (
        ChatBuilder()
        .with_model(ScriptedProvider(READ, "done"))
        .with_scoped_tools(ScopedCollection(desk.tools, lambda _call, _meta: RequireApproval()))
        .with_values(Database, desk.database)
        .with_values(User, lambda context: User(context.owner))
        .build()
    )
    messages = Messages.from_user("hi")
    paused = await chat.complete(messages, owner="ana")
    assert isinstance(paused, Paused)
    assert desk.all_closed

    stored = Messages.from_json(messages.to_json())
    stored.tool(paused.waiting[0].tool_id).approve(by="the approver")
    await chat.complete(stored, owner="ana")

    assert desk.used == [("db1", "ana")]
    assert desk.all_closed


async def test_values_are_in_no_repr_log_or_document(caplog: pytest.LogCaptureFixture) -> None:
    tools = ToolCollection()
    shown: list[str] = []

    @tools.tool
    def peek(context: ToolContext, db: Injected[Database]) -> None:
        shown.extend([repr(context), repr(context.run), repr(context.run.values)])
        raise ValueError(db.name)

    model = ScriptedProvider(FunctionCall("peek"), "done")
    chat = ChatBuilder().with_model(model).with_tools(tools).with_values(Database, lambda _: Database()).build()
    messages = Messages.from_user("hi")

    with caplog.at_level(logging.DEBUG):
        await chat.complete(messages)

    for text in (*shown, caplog.text, messages.to_json(), repr(chat), repr(messages)):
        assert "s3cret" not in text


async def test_a_direct_call_receives_values_and_evaluates_no_instructions() -> None:
    desk = Desk()

    def never(_: RunContext) -> str:
        raise AssertionError

    chat = (
        ChatBuilder()
        .with_model(ScriptedProvider())
        .with_tools(desk.tools)
        .with_values(Database, desk.database)
        .with_instructions(never)
        .build()
    )
    tool = await chat.call("read", {"key": "k"}, Messages(), inject={User: User("ana")}, owner="bo")

    assert tool.resolved
    assert desk.used == [("db0", "ana")]
    assert desk.contexts[0].owner == "bo"
    assert desk.all_closed


# --- Chats inside chats -----------------------------------------------------------------------------------------


def nested(inner_builder: Any, *, calls: int = 1) -> Any:
    inner = inner_builder.build().as_tool(name="ask", description="Ask.")
    asks = [FunctionCall("ask", {"request": "read"}) for _ in range(calls)]
    return (
        ChatBuilder()
        .with_model(ScriptedProvider(asks, "done", by_history=True))
        .with_scoped_tools(inner)
        .with_values(User, lambda context: User(context.owner))
    )


def inner_builder(desk: Desk, policy: Any = None) -> Any:
    model = ScriptedProvider(READ, "read", by_history=True)
    scope = ScopedCollection(desk.tools, policy or (lambda _call, _meta: Execute()))
    return ChatBuilder().with_model(model).with_scoped_tools(scope)


async def test_an_inner_chat_uses_its_factories_and_the_values_of_the_outer_run() -> None:
    desk = Desk()
    chat = nested(inner_builder(desk).with_values(Database, desk.database), calls=2).build()

    await chat.complete(Messages.from_user("hi"), owner="ana")

    assert sorted(desk.used) == [("db0", "ana"), ("db1", "ana")]
    assert desk.all_closed
    assert len({context.run_id for context in desk.contexts}) == 1


async def test_injected_values_are_passed_to_inner_chats() -> None:
    desk = Desk()
    chat = nested(inner_builder(desk).with_values(Database, desk.database)).build()

    await chat.complete(Messages.from_user("hi"), inject={Database: Database("given"), User: User("bo")})

    assert desk.used == [("given", "bo")]
    assert desk.opened == []


async def test_a_missing_value_of_an_inner_chat_is_reported_with_the_tool_path() -> None:
    desk = Desk()
    chat = nested(inner_builder(desk)).build()

    with pytest.raises(UsageError, match=r"^the tool 'ask/read' needs a value of the type Database"):
        await chat.complete(Messages.from_user("hi"))


async def test_a_resumed_inner_chat_has_values_for_its_policy_and_its_tools() -> None:
    desk = Desk()
    asked: list[str | None] = []

    def policy(call: FunctionCall, _: None) -> RequireApproval:
        assert call.context is not None
        asked.append(call.context.run.values[User].name)
        assert call.context.run.values[Database].open
        return RequireApproval()

    builder = inner_builder(desk, policy).with_values(Database, desk.database)
    chat = nested(builder).build()
    messages = Messages.from_user("hi")

    paused = await chat.complete(messages, owner="ana")
    again = await chat.complete(messages, owner="ana")
    assert isinstance(again, Paused)
    assert desk.all_closed
    calls = len(desk.opened)

    messages = Messages.from_json(messages.to_json())
    messages.tool(*paused.waiting[0].path).approve()
    await chat.complete(messages, owner="ana")

    assert asked == ["ana", "ana"]
    assert len(desk.used) == 1
    assert desk.used[0][1] == "ana"
    assert (calls, len(desk.opened)) == (2, 3)
    assert desk.all_closed
