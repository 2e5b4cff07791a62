"""The context of a run and its values, as passed to policies, instructions and tools."""

from __future__ import annotations

from typing import Protocol

import pytest
from chat_core import RunContext, UsageError, Values
from chat_core.run_context import type_name


class _User:
    def __repr__(self) -> str:
        return "the secret user"


class _Mailer(Protocol):
    def send(self, text: str) -> None: ...


def test_values_are_found_by_type() -> None:
    user = _User()
    values = Values({_User: user})

    assert values[_User] is user
    assert _User in values
    assert _Mailer not in values
    assert values.items() == {_User: user}


def test_missing_value_raises_with_its_type_and_how_to_provide_it() -> None:
    with pytest.raises(UsageError, match=r"no value of the type _User: call with_values\(_User, factory\) .*inject=\{"):
        RunContext().values[_User]


def test_repr_of_values_shows_types_and_no_values() -> None:
    context = RunContext("chat-1", "ana", "run-1", Values({_User: _User(), list[int]: [7]}))

    assert repr(context.values) == "Values(_User, list[int])"
    assert repr(context) == "RunContext(conversation_id='chat-1', owner='ana', run_id='run-1')"


def test_run_context_without_arguments_is_empty() -> None:
    context = RunContext()

    assert (context.conversation_id, context.owner, context.run_id, dict(context.values.items())) == (
        None,
        None,
        "",
        {},
    )


def test_type_name_returns_the_type_as_written_in_code() -> None:
    assert [type_name(kind) for kind in (_User, list[int], _User | None)] == [
        "_User",
        "list[int]",
        f"{__name__}._User | None",
    ]
