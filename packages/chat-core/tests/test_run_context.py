"""The circumstances of a run and its values, as policies, instructions and tools receive them."""

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


def test_a_value_is_found_by_its_type() -> None:
    user = _User()
    values = Values({_User: user})

    assert values[_User] is user
    assert _User in values
    assert _Mailer not in values
    assert values.items() == {_User: user}


def test_a_missing_value_names_its_type_and_both_ways_to_pass_it() -> None:
    with pytest.raises(UsageError, match=r"no value of the type _User: call with_values\(_User, factory\) .*inject=\{"):
        RunContext().values[_User]


def test_repr_shows_the_types_and_no_value() -> None:
    context = RunContext("chat-1", "ana", "run-1", Values({_User: _User(), list[int]: [7]}))

    assert repr(context.values) == "Values(_User, list[int])"
    assert repr(context) == "RunContext(conversation_id='chat-1', owner='ana', run_id='run-1')"


def test_a_context_without_arguments_has_no_conversation_owner_or_values() -> None:
    context = RunContext()

    assert (context.conversation_id, context.owner, context.run_id, dict(context.values.items())) == (
        None,
        None,
        "",
        {},
    )


def test_types_are_named_as_they_are_written() -> None:
    assert [type_name(kind) for kind in (_User, list[int], _User | None)] == [
        "_User",
        "list[int]",
        f"{__name__}._User | None",
    ]
