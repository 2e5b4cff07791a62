"""Prompts for decisions."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from types import MappingProxyType

import click
import pytest
from chat_core import (
    Approved,
    ChatBuilder,
    Completed,
    Failed,
    FunctionCall,
    Messages,
    Paused,
    Pending,
    Rejected,
    RequireApproval,
    Schedule,
    ScopedCollection,
    Tool,
    ToolCollection,
    Turn,
    Wait,
)
from chat_core.testing import ScriptedProvider
from chat_terminal.approval_prompt import apply_decisions, prompt_decisions
from chat_terminal.screen import Screen
from click.testing import CliRunner

LATER = datetime(2100, 1, 1, tzinfo=UTC)


def paused(action: RequireApproval | Schedule, to: str = "Bo") -> tuple[Messages, Paused]:
    tools = ToolCollection()

    @tools.tool
    def pay(to: str, cents: int) -> str:
        return f"paid {cents} to {to}"

    def policy(_call: FunctionCall, _meta: object) -> RequireApproval | Schedule:
        return action

    call = FunctionCall("pay", {"to": to, "cents": 500}, id="call_1")
    chat = ChatBuilder().with_model(ScriptedProvider(call)).with_scoped_tools(ScopedCollection(tools, policy)).build()
    messages = Messages.from_user("Pay Bo.")
    outcome = chat.blocking.complete(messages)
    assert isinstance(outcome, Paused)
    return messages, outcome


def said(
    typed: str,
    messages: Messages,
    waiting: tuple[Wait, ...],
    *,
    quiet: bool = False,
    schemas: Mapping[str, Mapping[str, object]] = MappingProxyType({}),
) -> str:
    """Return the output of the prompts for this input."""

    @click.command()
    def command() -> None:
        screen = Screen(quiet=quiet)
        apply_decisions(prompt_decisions(waiting, screen, "ana", schemas), messages, screen)

    ended = CliRunner().invoke(command, input=typed, catch_exceptions=False)
    return ended.output


@pytest.mark.parametrize(
    ("typed", "status", "arguments"),
    [
        ("approve\n", Approved, {"to": "Bo", "cents": 500}),
        ("a\n", Approved, {"to": "Bo", "cents": 500}),
        ("y\n", Approved, {"to": "Bo", "cents": 500}),
        ("e\n\n300\n", Approved, {"to": "Bo", "cents": 300}),
        ("n\nnot now\n", Rejected, {"to": "Bo", "cents": 500}),
        ("r\nnot now\n", Rejected, {"to": "Bo", "cents": 500}),
        ("l\n", Pending, {"to": "Bo", "cents": 500}),
        ("perhaps\na\n", Approved, {"to": "Bo", "cents": 500}),
        ("edit\n\n300\n", Approved, {"to": "Bo", "cents": 300}),
        ("edit\nMaria\n\n", Approved, {"to": "Maria", "cents": 500}),
        ("reject\nnot now\n", Rejected, {"to": "Bo", "cents": 500}),
        ("later\n", Pending, {"to": "Bo", "cents": 500}),
    ],
)
def test_prompt_accepts_every_verb_and_its_abbreviation(
    typed: str, status: type[object], arguments: dict[str, object]
) -> None:
    messages, outcome = paused(RequireApproval())
    said(typed, messages, outcome.waiting)

    tool = messages.tool("call_1")
    assert isinstance(tool.status, status)
    assert tool.effective_arguments == arguments
    assert [decision.by for decision in tool.decisions] == ([] if status is Pending else ["ana"])


@pytest.mark.parametrize(
    ("typed", "status"),
    [("complete\nit was paid\n", Completed), ("retry\n", Approved), ("fail\nthe bank is shut\n", Failed)],
)
def test_interrupted_call_is_prompted_for_its_outcome(typed: str, status: type[object]) -> None:
    messages, outcome = paused(RequireApproval())
    tool = messages.tool("call_1")
    tool.approve()
    tool.start()
    tool.lost("its process is gone")
    (wait,) = outcome.waiting
    interrupted = Wait(
        "interrupted", wait.tool_id, wait.path, wait.name, wait.arguments, None, None, "its process is gone"
    )

    assert "its process is gone" in said(typed, messages, (interrupted,))
    assert isinstance(tool.status, status)


def test_prompt_skips_a_scheduled_call() -> None:
    messages, outcome = paused(Schedule(LATER))

    assert "waits until 2100-01-01" in said("", messages, outcome.waiting)
    assert isinstance(messages.tool("call_1").status, Pending)


def test_decision_about_a_call_decided_elsewhere_prints_an_error() -> None:
    messages, outcome = paused(RequireApproval())
    decided: list[Callable[[], object]] = [lambda: messages.tool("call_1").reject("no", by="bob")]
    decided[0]()

    assert "call_1" in said("approve\n", messages, outcome.waiting)
    assert isinstance(messages.tool("call_1").status, Rejected)


def test_call_is_shown_before_the_prompt_even_when_quiet() -> None:
    messages, outcome = paused(RequireApproval())

    assert 'pay(to="Bo", cents=500)' in said("approve\n", messages, outcome.waiting, quiet=True)


@pytest.mark.parametrize(
    ("typed", "to"),
    [
        ("", "Bo\x1b[2K\u202e\nand Al"),
        (r'"Bo\nand Ed"', "Bo\nand Ed"),
        ("Maria", "Maria"),
        ("12", "12"),
    ],
)
def test_unprintable_text_is_edited_as_json(typed: str, to: str) -> None:
    messages, outcome = paused(RequireApproval(), to="Bo\x1b[2K\u202e\nand Al")
    told = said(f"edit\n{typed}\n300\n", messages, outcome.waiting)

    assert r'to ["Bo\u001b[2K\u202e\nand Al"]: ' in told
    assert messages.tool("call_1").effective_arguments == {"to": to, "cents": 300}


def test_decision_about_a_removed_call_prints_an_error() -> None:
    _, outcome = paused(RequireApproval())

    assert "no tool with id 'call_1'" in said("approve\n", Messages.from_user("Hello."), outcome.waiting)


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        pytest.param("many", "this must be a number, such as 500, not 'many'", id="text"),
        pytest.param('"300"', "this must be a number", id="quoted-number"),
        pytest.param("true", "this must be a number", id="boolean"),
        pytest.param("null", "this must be a number", id="null"),
    ],
)
def test_edited_value_keeps_its_type(typed: str, message: str) -> None:
    messages, outcome = paused(RequireApproval())
    told = said(f"e\n\n{typed}\n300\n", messages, outcome.waiting)

    assert message in told
    assert messages.tool("call_1").effective_arguments == {"to": "Bo", "cents": 300}


def test_edit_of_a_text_that_looks_like_a_number_stays_text() -> None:
    messages, outcome = paused(RequireApproval(), to="12")
    said("e\n13\n\n", messages, outcome.waiting)

    assert messages.tool("call_1").effective_arguments == {"to": "13", "cents": 500}


def test_lists_and_objects_are_edited_as_json() -> None:
    tools = ToolCollection()

    @tools.tool
    def pay(shares: list[int], notes: dict[str, int]) -> str:
        return f"paid {shares}, {notes}"

    scope = ScopedCollection(tools, lambda _call, _meta: RequireApproval())
    call = FunctionCall("pay", {"shares": [1, 2], "notes": {"a": 1}}, id="call_1")
    messages = Messages.from_user("Pay.")
    outcome = (
        ChatBuilder().with_model(ScriptedProvider(call)).with_scoped_tools(scope).build().blocking.complete(messages)
    )
    assert isinstance(outcome, Paused)
    told = said('e\n{}\n[3, 4]\n[5]\n{"b": 2}\n', messages, outcome.waiting)

    assert "this must be a JSON list, such as [1, 2], not '{}'" in told
    assert "this must be a JSON object" in told
    assert messages.tool("call_1").effective_arguments == {"shares": [3, 4], "notes": {"b": 2}}


@pytest.mark.parametrize(
    ("schema", "original", "typed", "problem", "accepted"),
    [
        pytest.param({"type": "integer"}, 5, "2.5\n3", "value: 2.5 is not of type 'integer'", 3, id="integer"),
        pytest.param({"type": "number"}, 5, "NaN\n2.5", "this must be a number", 2.5, id="not-a-number"),
        pytest.param({"enum": ["a", "b"]}, "a", "c\nb", "'c' is not one of ['a', 'b']", "b", id="choice"),
        pytest.param({"$ref": "#/$defs/Day"}, 5, "40\n30", "40 is greater than the maximum", 30, id="reference"),
        pytest.param({"type": ["string", "null"]}, None, "12", "", "12", id="text-instead-of-null"),
        pytest.param({"type": ["integer", "null"]}, None, "2.5\n2", "2.5 is not of type", 2, id="number-for-null"),
        pytest.param({"items": {"type": "integer"}}, [1], '["x"]\n[2]', "value[0]: 'x' is not of", [2], id="item"),
        pytest.param({"$ref": "#/properties/other"}, 5, "2.5", "", 2.5, id="other-reference"),
    ],
)
def test_edited_argument_must_match_its_schema(
    schema: dict[str, object], original: object, typed: str, problem: str, accepted: object
) -> None:
    tool = Tool(FunctionCall("pay", {"value": original}))
    messages = Messages.from_user("Pay.")
    messages.append("model", Turn([tool]))
    parameters = {"properties": {"value": schema}, "$defs": {"Day": {"type": "integer", "maximum": 31}}}
    wait = Wait("approval", tool.id, (tool.id,), "pay", {"value": original})

    assert problem in said(f"e\n{typed}\n", messages, (wait,), schemas={"pay": parameters})
    assert messages.tool(tool.id).effective_arguments == {"value": accepted}


def test_argument_of_an_inner_call_is_not_checked_against_the_schema_of_an_outer_tool() -> None:
    messages, outcome = paused(RequireApproval())
    inner = replace(outcome.waiting[0], path=("outer", "call_1"))

    outer = {"properties": {"cents": False}}
    assert "does not accept" not in said("e\n\n2.5\n", messages, (inner,), schemas={"pay": outer})


@pytest.mark.parametrize(
    ("typed", "to", "reason"),
    [("e\nM\x1b[Da\x1bOAx\n\n", "Max", None), ("n\nnot\x1b[3~ now\n", "Bo", "not now")],
)
def test_keys_that_the_terminal_does_not_handle_are_no_part_of_a_text(typed: str, to: str, reason: str | None) -> None:
    messages, outcome = paused(RequireApproval())
    said(typed, messages, outcome.waiting)

    tool = messages.tool("call_1")
    assert tool.effective_arguments["to"] == to
    assert (tool.status.reason if isinstance(tool.status, Rejected) else None) == reason


def test_two_quotation_marks_make_a_text_empty() -> None:
    messages, outcome = paused(RequireApproval())
    said('e\n""\n\n', messages, outcome.waiting)

    assert messages.tool("call_1").effective_arguments == {"to": "", "cents": 500}


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no pseudo terminals")
def test_keys_typed_before_a_call_is_shown_do_not_decide_it(monkeypatch: pytest.MonkeyPatch) -> None:
    messages, outcome = paused(RequireApproval())
    master, slave = os.openpty()
    with closing(os.fdopen(master, "rb+", buffering=0)), open(slave, "w") as output, open(os.dup(slave)) as stdin:  # noqa: PTH123 - these are descriptors
        for name, stream in (("stdin", stdin), ("stdout", output), ("stderr", output)):
            monkeypatch.setattr(sys, name, stream)

        def answer_each_prompt() -> None:
            shown = b""
            for _ in range(2):
                while not shown.endswith(b"[l]ater): "):
                    shown += os.read(master, 1)
                os.write(master, b"later\ny\n")  # the second line is typed before the next call is shown
                shown = b""

        os.write(master, b"y\n")
        user = threading.Thread(target=answer_each_prompt)
        user.start()
        decisions = prompt_decisions([*outcome.waiting, *outcome.waiting], Screen(), "ana", {})
        user.join()

    assert decisions == []
    assert isinstance(messages.tool("call_1").status, Pending)
