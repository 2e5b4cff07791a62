"""Illegal: values that a run passes to tools and policies, and instructions."""

from __future__ import annotations

from chat_core import (
    ChatBuilder,
    ChatOptions,
    ContextSize,
    FunctionCall,
    Injected,
    RunContext,
    ToolCollection,
    Values,
    View,
)
from legal_values import Database, Recorder, User, find, tools

from fakes import FakeFull
from world import hi

ready = ChatBuilder().with_model(FakeFull(FunctionCall("find", {"text": "abc"}), "found")).with_tools(tools)
context = RunContext(values=Values({User: User("ana")}))


def no_context() -> User:
    return User("ana")


def x160_a_body_that_uses_another_type(user: Injected[User]) -> int:
    return user.age  # E: age


def x161_a_body_that_takes_a_value_for_another(user: Injected[User]) -> Database:
    return user  # E: Database


def x162_a_direct_call_with_another_value() -> None:
    find("abc", Database(), "ana", Recorder(), None)  # E: User


def x163_a_direct_call_without_a_value() -> None:  # R: TypeError: find\(\) missing
    find("abc", Database())  # E: user|[Mm]issing|3 more


def x164_no_factory() -> None:  # R: TypeError: .*missing 1 required positional argument
    ready.with_values(User)  # E: factory


def x165_a_factory_without_a_context() -> None:
    ready.with_values(User, no_context)  # E: no_context|User|positional


def x166_a_value_for_a_factory() -> None:  # R: UsageError: with_values\(User, \.\.\.\) needs a function
    ready.with_values(User, User("ana"))  # E: User


def x167_no_type() -> None:  # R: UsageError: with_values\(\) needs a type
    ready.with_values("User()", lambda context: User("ana"))  # E: TypeForm|type|str


def x168_a_value_taken_for_another() -> None:
    user: Database = context.values[User]  # E: Database
    print(user)


def x169_an_attribute_that_values_do_not_have() -> None:
    print(context.values[User].age)  # E: age


async def x170_values_that_are_no_mapping() -> None:  # R: UsageError: inject of complete\(\) must map types
    await ready.build().complete(hi(), inject=[User("ana")])  # E: list


async def x171_an_owner_that_is_no_text() -> None:  # R: UsageError: owner of complete\(\) must be a string
    await ready.build().complete(hi(), owner=7)  # E: int|Literal


def x172_instructions_that_are_no_text() -> None:  # R: UsageError: with_instructions\(\) needs a string
    ready.with_instructions(7)  # E: int|Literal


def x173_a_function_that_returns_no_text() -> None:
    ready.with_instructions(lambda context: context.owner)  # E: None|str


def x174_an_option_that_is_no_text() -> None:  # R: UsageError: instructions must be a string
    ChatOptions(instructions=["Be kind."])  # E: list


def x175_a_context_that_changes() -> None:  # R: FrozenInstanceError
    context.owner = "bo"  # E: owner|read-only|frozen


def x176_an_injected_parameter_with_a_default() -> None:  # R: UsageError: .*cannot have a default
    collection = ToolCollection()

    @collection.tool
    def greet(user: Injected[User] = None) -> str:  # E: None
        return user.name


def x177_a_context_policy_that_takes_a_value_for_another(_view: View, size: ContextSize) -> None:
    user: Database = size.run.values[User]  # E: Database
    print(user)


def x178_a_context_policy_that_reads_what_a_run_does_not_have(_view: View, size: ContextSize) -> str | None:
    return size.run.person  # E: person


def context_policy_of_a_run(_view: View, size: RunContext) -> None:
    print(size.owner)


def x179_a_context_policy_that_takes_the_run_for_the_size() -> None:
    ready.with_context(context_policy_of_a_run)  # E: context_policy_of_a_run|ContextSize|RunContext
