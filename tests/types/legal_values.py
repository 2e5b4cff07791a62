"""Legal: values that a run passes to tools and policies, and instructions."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Never, Protocol, assert_type

from chat_core import (
    ChatBuilder,
    ChatOptions,
    ChatResponse,
    ContextChoice,
    ContextSize,
    Execute,
    FunctionCall,
    Injected,
    Instructions,
    Paused,
    RequireApproval,
    RunContext,
    ScopedCollection,
    StreamingChat,
    ToolCollection,
    ToolContext,
    Values,
    View,
)

from fakes import FakeFull
from world import hi, true


@dataclass(frozen=True)
class User:
    name: str


class Database:
    def query(self, text: str) -> int:
        return len(text)


class Mailer(Protocol):
    def send(self, text: str) -> int: ...


class Recorder:
    def send(self, text: str) -> int:
        return len(text)


tools = ToolCollection()


@tools.tool
def find(
    text: str, db: Injected[Database], user: Injected[User], mailer: Injected[Mailer], team: Injected[User | None]
) -> int:
    """Find a text."""
    assert_type(db, Database)
    assert_type(user, User)
    assert_type(mailer, Mailer)
    assert_type(team, User | None)
    return db.query(text) + mailer.send(user.name)


@tools.tool
async def who(context: ToolContext) -> str:
    """Name the user."""
    assert_type(context.run, RunContext)
    assert_type(context.run.values[User], User)
    assert_type(context.run.owner, str | None)
    return context.run.values[User].name


def sync_user(context: RunContext) -> User:
    return User(context.owner or "nobody")


async def async_user(context: RunContext) -> User:
    return User(context.owner or "nobody")


@asynccontextmanager
async def database(context: RunContext) -> AsyncGenerator[Database, None]:
    assert_type(context.values[User], User)
    yield Database()


def reads_user(call: FunctionCall, meta: None) -> Execute | RequireApproval:
    user = call.context.run.values[User] if call.context is not None else User("")
    assert_type(user, User)
    return Execute() if user.name == "ana" else RequireApproval()


async def greeting(context: RunContext) -> str:
    return f"The user is {context.values[User].name}."


def calls() -> FakeFull:
    return FakeFull(FunctionCall("find", {"text": "abc"}), "found")


async def l140_factories_of_every_kind() -> None:
    ready = ChatBuilder().with_model(calls()).with_tools(tools).with_values(User, sync_user)
    chat = (
        ready.with_values(User, async_user)
        .with_values(Database, database)
        .with_values(Mailer, lambda context: Recorder())
        .with_values(User | None, lambda context: None)
        .build()
    )
    assert_type(chat, StreamingChat[ChatResponse, Never])
    assert_type(await chat.complete(hi(), owner="ana"), ChatResponse)


async def l141_values_of_one_run() -> None:
    chat = ChatBuilder().with_values(User | None, sync_user).with_model(calls()).with_tools(tools).build()
    given = {User: User("ana")}
    true((await chat.complete(hi(), inject={**given, Database: Database(), Mailer: Recorder()})).text == "found")
    async with chat.stream(hi(), inject={User: User("ana"), Database: Database(), Mailer: Recorder()}) as stream:
        async for _ in stream:
            pass
    assert_type(stream.response, ChatResponse)


async def l142_a_policy_reads_values() -> None:
    scope = ScopedCollection(tools, reads_user)
    chat = (
        ChatBuilder()
        .with_values(User, sync_user)
        .with_values(Database, database)
        .with_model(calls())
        .with_scoped_tools(scope)
        .with_values(Mailer, lambda context: Recorder())
        .with_values(User | None, sync_user)
        .build()
    )
    assert_type(await chat.complete(hi(), owner="ana"), ChatResponse | Paused)
    true(isinstance(await chat.complete(hi(), owner="bo"), Paused))


async def l143_instructions() -> None:
    chat = (
        ChatBuilder()
        .with_instructions("Be kind.")
        .with_instructions(greeting)
        .with_model(FakeFull("hello"))
        .with_instructions(lambda context: f"Run {context.run_id}.")
        .with_values(User, sync_user)
        .with_options(ChatOptions(instructions="Be brief."))
        .build()
    )
    assert_type(chat, StreamingChat[ChatResponse, Never])
    options = ChatOptions(instructions=Instructions("Be brief.", "It is Monday."))
    assert_type(await chat.complete(hi(), options=options), ChatResponse)


async def l145_a_context_policy_reads_the_run() -> None:
    def by_user(view: View, size: ContextSize) -> View | None:
        assert_type(size.run, RunContext)
        assert_type(size.run.values[User], User)
        true(size.run.owner == "ana")
        return View(view.boundaries()[-1]) if size.run.values[User].name == "bo" else None

    async def later(view: View, size: ContextSize) -> ContextChoice:
        return by_user(view, size)

    ready = ChatBuilder().with_model(FakeFull("hello", "hello")).with_values(User, sync_user)
    assert_type(await ready.with_context(by_user).build().complete(hi(), owner="ana"), ChatResponse)
    assert_type(await ready.with_context(later).build().complete(hi(), owner="ana"), ChatResponse)
    context = RunContext(owner="ana", values=Values({User: User("ana")}))
    true(by_user(hi().view(), ContextSize(9, exact=True, of_view=9, run=context)) is None)


def l144_values_in_tests_of_tools_and_policies() -> None:
    context = RunContext("chat-1", "ana", values=Values({User: User("ana")}))
    assert_type(context.values[User], User)
    true(find("abc", Database(), User("ana"), Recorder(), None) == 6)
