"""One question, from its words to its answer."""

from __future__ import annotations

import json
from pathlib import Path

import anyio
import pytest
from chat_core import ChatError, ChatOptions, ChatResponse, Messages, NetworkError, Paused, UsageError
from chat_core.testing import ScriptedProvider
from chat_store import UnknownConversationError
from chat_terminal.runner import Runner, format_outcome
from chat_terminal.screen import Screen
from chat_terminal.sessions import Sessions


def runner(folder: Path, *script: str | ChatError) -> Runner:
    model = ScriptedProvider(*script, by_history=True)
    return Runner(model, ChatOptions(), (), Sessions(folder / "chats.db"), Screen(quiet=True))


def stored(sessions: Sessions, session: str) -> Messages:
    async def load() -> Messages:
        async with sessions.store() as store:
            return (await store.load(session)).messages

    return anyio.run(load)


def test_a_session_holds_the_question_and_the_answer(tmp_path: Path) -> None:
    desk = runner(tmp_path, "The Loire.")
    outcome = desk.ask("a", ["Name a river."], "Be brief.")

    assert isinstance(outcome, ChatResponse)
    assert [content.text for content in stored(desk.sessions, "a")] == ["Be brief.", "Name a river.", "The Loire."]


def test_a_run_that_fails_leaves_the_question_to_be_answered(tmp_path: Path) -> None:
    failing = runner(tmp_path, *[NetworkError("gone")] * 9)
    with pytest.raises(NetworkError):
        failing.ask("a", ["Name a river."], None)

    assert isinstance(runner(tmp_path, "The Loire.").resume("a"), ChatResponse)
    assert [content.text for content in stored(failing.sessions, "a")] == ["Name a river.", "The Loire."]


def test_a_report_is_one_line_of_json(tmp_path: Path) -> None:
    outcome = runner(tmp_path, "The\nLoire.").ask("a", ["Name a river."], None)

    line = format_outcome("a", outcome)
    assert "\n" not in line
    assert json.loads(line)["text"] == "The\nLoire."
    assert not isinstance(outcome, Paused)


def test_a_session_that_is_gone_is_not_begun_again(tmp_path: Path) -> None:
    desk = runner(tmp_path, "The Loire.")

    with pytest.raises(UsageError, match="there is nothing in the session 'a'"):
        desk.resume("a")
    with pytest.raises(UnknownConversationError):
        stored(desk.sessions, "a")
