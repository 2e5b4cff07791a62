"""Turns of an application that could not be read again after they were stored."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, cast

import pytest
from chat_core import ProviderMeta, UsageError
from chat_core.messages import (
    Content,
    Embedding,
    Failed,
    File,
    FunctionCall,
    Interrupted,
    Messages,
    Opaque,
    ProviderPart,
    Reasoning,
    Recalled,
    RecalledNote,
    Rejected,
    Rewind,
    Role,
    Running,
    Summary,
    Suspended,
    Text,
    Tool,
    ToolStatus,
    Turn,
)

NUMBER: Any = 5
WRONG: dict[str, Turn] = {
    "parts[0]": Turn([NUMBER]),
    "parts[0].text": Turn([Text(NUMBER)]),
    "parts[1].text": Turn([Text("a"), Reasoning(NUMBER)]),
    "parts[0].opaque.data": Turn([Text("a", Opaque("p", NUMBER))]),
    "parts[0].extra": Turn([Rewind(0, NUMBER)]),
    "parts[0].mime": Turn([File(NUMBER, data=b"")]),
    "parts[0].data": Turn([File("text/plain", data=NUMBER)]),
    "parts[0].url": Turn([File("text/plain", url=NUMBER)]),
    "parts[0].vector": Turn([Embedding(cast("Any", ("a",)))]),
    "parts[0].kind": Turn([ProviderPart("p", NUMBER, {})]),
    "parts[0].call": Turn([Tool(NUMBER)]),
    "parts[0].call.name": Turn([Tool(FunctionCall(NUMBER))]),
    "parts[1]": Turn([Text("a"), cast("Any", FunctionCall("pay"))]),
    "parts[2]": Turn([Text("a"), Text("b"), cast("Any", Opaque("p", {}))]),
    "parts[0].notes[1].extra": Turn([Recalled((RecalledNote("n"), RecalledNote("n", extra=NUMBER)))]),
    "by": Turn([Text("a")], by=NUMBER),
    "client_id": Turn([Text("a")], client_id=NUMBER),
    "metadata": Turn([Text("a")], metadata=NUMBER),
    "extra": Turn([Text("a")], extra=NUMBER),
}
"""Turns by the path of the field that a stored document cannot have."""


@pytest.mark.parametrize("path", WRONG)
def test_a_turn_that_could_not_be_read_again_is_refused_wherever_it_enters(path: str) -> None:
    turn, messages = WRONG[path], Messages.from_user("Hi.")
    before = messages.to_json()
    enter: list[Callable[[], object]] = [
        lambda: messages.push(Content("user", [Turn([Text("good")]), turn])),
        lambda: messages.append("user", turn),
        lambda: messages.user(*turn.parts) if path.startswith("parts") else messages.append("model", turn),
        lambda: Messages([Content("user", [turn])]),
    ]
    for add in enter:
        with pytest.raises(UsageError) as error:
            add()
        if not path.endswith("]"):
            assert f"the turn cannot be stored: {path} is " in str(error.value)
    assert messages.to_json() == before


def inner_status(field: str, value: Any) -> ToolStatus:
    inner = Messages.from_user("What is the budget?")
    cases: dict[str, Callable[[], ToolStatus]] = {
        "attempt_id": lambda: Suspended(inner, value),
        "of": lambda: Running("id", inner=inner, of=value),
        "expires_at": lambda: Interrupted("id", inner=inner, expires_at=value),
        "extra": lambda: Failed("f", value, inner),
        "reason": lambda: Rejected(value, started=Suspended(inner)),
        "inner": lambda: Suspended(value),
    }
    return cases[field]()


@pytest.mark.parametrize("field", ["attempt_id", "of", "expires_at", "extra", "reason", "inner"])
def test_a_call_with_an_inner_conversation_that_could_not_be_read_again_is_refused(field: str) -> None:
    tool = Tool(FunctionCall("ask", {"question": "?"}), status=inner_status(field, NUMBER))
    with pytest.raises(UsageError, match=r"parts\[0\].* cannot be written and read"):
        Messages.from_user("Hi.").append("model", Turn([tool]))


def test_a_turn_that_can_be_read_again_is_accepted() -> None:
    inner = Messages.from_user("What is the budget?")
    turn = Turn(
        [
            Text("a", Opaque("p", {"key": [1, 2.5]})),
            Embedding((math.nan, 1.0)),
            Summary("s", 0, "d"),
            Rewind(0),
            Recalled((RecalledNote("n"),)),
            Tool(FunctionCall("ask", {"question": "?"}), status=Suspended(inner)),
        ],
        by="engine",
        client_id="message-1",
        extra={"later": 1},
    )
    messages = Messages([Content("user", [turn])])
    assert Messages.from_json(messages.to_json()).to_json() == messages.to_json()


def test_contents_read_from_a_document_may_be_added_to_another_conversation() -> None:
    document = (
        '{"version":1,"contents":[{"role":"user","turns":[{"parts":[{"type":"hologram","depth":3}],'
        '"created_at":"2026-11-23T00:00:00+00:00"}]},{"role":"user","turns":[{"parts":[{"type":"embedding",'
        '"vector":[null]}],"created_at":"2026-11-23T00:00:00+00:00"}]}]}'
    )
    messages = Messages.from_json(document)
    for copy in (Messages(messages.contents), messages.fork(), Messages().push(messages[0])):
        assert [part for content in copy for part in content.parts][:1] == messages[0].parts[:1]
        assert Messages.from_json(copy.to_json()).to_json() == copy.to_json()


@pytest.mark.parametrize("role", ["assistant", 5, None], ids=str)
def test_a_turn_of_an_unknown_role_changes_nothing(role: Any) -> None:
    messages = Messages.from_user("Hi.")
    with pytest.raises(UsageError, match="role must be one of system, user, model"):
        messages.append(cast("Role", role), Turn([Text("a")]))
    assert [len(content.turns) for content in messages] == [1]
    assert len(messages.view().turns) == 1


@pytest.mark.parametrize("wrong", [5, "x", ProviderMeta("p", "m")], ids=["number", "text", "object"])
def test_messages_cannot_be_built_from_anything_but_turns(wrong: Any) -> None:
    for make in (
        lambda: Messages(wrong),
        lambda: Messages([wrong]),
        lambda: Messages([Content("user", [wrong])]),
        lambda: Messages([Content("user", [], extra=wrong)]),
        lambda: Messages().append("user", wrong),
        lambda: Messages.from_dicts(wrong),
    ):
        with pytest.raises(UsageError, match=r"must be|takes contents|consists of turns"):
            make()
