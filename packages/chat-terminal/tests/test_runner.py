"""Running a session."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import anyio
import pytest
from chat_core import (
    ChatError,
    ChatOptions,
    ChatResponse,
    FunctionCall,
    Messages,
    NetworkError,
    Paused,
    RequireApproval,
    ScopedCollection,
    ToolCollection,
    UsageError,
    Wait,
)
from chat_core.approvals import Principal
from chat_core.testing import ScriptedProvider
from chat_store import UnknownConversationError
from chat_terminal.approval_prompt import Decision
from chat_terminal.runner import Runner, format_outcome, user_may_decide
from chat_terminal.screen import Screen
from chat_terminal.sessions import Sessions


def runner(folder: Path, *script: str | ChatError) -> Runner:
    model = ScriptedProvider(*script, by_history=True)
    return Runner(model, ChatOptions(), (), Sessions(folder / "chats.db"), Screen(quiet=True), user_may_decide)


def stored(sessions: Sessions, session: str) -> Messages:
    async def load() -> Messages:
        async with sessions.store() as store:
            return (await store.load(session)).messages

    return anyio.run(load)


def test_ask_stores_the_question_and_the_response(tmp_path: Path) -> None:
    user_dir = runner(tmp_path, "The Loire.")
    outcome = user_dir.ask("a", ["Name a river."], "Be brief.")

    assert isinstance(outcome, ChatResponse)
    assert [content.text for content in stored(user_dir.sessions, "a")] == ["Be brief.", "Name a river.", "The Loire."]


def test_failed_run_keeps_the_question(tmp_path: Path) -> None:
    failing = runner(tmp_path, *[NetworkError("gone")] * 9)
    with pytest.raises(NetworkError):
        failing.ask("a", ["Name a river."], None)

    assert isinstance(runner(tmp_path, "The Loire.").resume("a"), ChatResponse)
    assert [content.text for content in stored(failing.sessions, "a")] == ["Name a river.", "The Loire."]


def test_format_outcome_returns_one_line_of_json(tmp_path: Path) -> None:
    outcome = runner(tmp_path, "The\nLoire.").ask("a", ["Name a river."], None)

    line = format_outcome("a", outcome)
    assert "\n" not in line
    assert json.loads(line)["text"] == "The\nLoire."
    assert not isinstance(outcome, Paused)


def test_resume_of_a_deleted_session_raises(tmp_path: Path) -> None:
    user_dir = runner(tmp_path, "The Loire.")

    with pytest.raises(UsageError, match="the session 'a' is empty"):
        user_dir.resume("a")
    with pytest.raises(UnknownConversationError):
        stored(user_dir.sessions, "a")


def test_user_is_prompted_only_for_calls_that_they_may_decide(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    prompted: list[tuple[str, str | None]] = []

    def prompt(
        waiting: Sequence[Wait], _screen: Screen, _person: str, schemas: Mapping[str, Mapping[str, object]]
    ) -> list[Decision]:
        assert schemas["pay"]["required"] == ["to"]
        prompted.extend([(wait.tool_id, wait.owner) for wait in waiting])
        return []

    monkeypatch.setattr("chat_terminal.runner.prompt_decisions", prompt)
    tools = ToolCollection()

    @tools.tool
    def pay(to: str) -> str:
        return f"paid {to}"

    def policy(call: FunctionCall, _meta: object) -> RequireApproval:
        return RequireApproval(of="cfo" if call.id == "b" else None)

    calls = [FunctionCall("pay", {"to": name}, id=name) for name in ("a", "b")]
    sessions, scope = Sessions(tmp_path / "chats.db"), ScopedCollection(tools, policy)
    told: list[list[str]] = []
    for person in ("ana", "ben"):
        model = ScriptedProvider(calls, by_history=True)
        runner = Runner(model, ChatOptions(), [scope], sessions, Screen(), user_may_decide, person)
        assert isinstance(runner.ask("one", ["Pay."], None) if person == "ana" else runner.resume("one"), Paused)
        told.append([line for line in capfd.readouterr().err.splitlines() if "may decide" in line])
    assert prompted == [("a", "ana")], "b is reserved, and ben does not own the session"
    assert told == [
        ['⏸ pay(to="b"): only cfo may decide'],
        ['⏸ pay(to="a"): only ana may decide', '⏸ pay(to="b"): only ana may decide'],
    ]


@pytest.mark.parametrize(("owner", "allowed"), [(None, True), ("ana", True), ("ben", False)])
def test_user_may_decide_in_their_own_sessions_and_in_sessions_without_owner(
    owner: str | None, *, allowed: bool
) -> None:
    wait = Wait("approval", "a", ("a",), "pay", {}, owner=owner)
    assert user_may_decide(Principal("ana"), wait) is allowed
