"""Running a session."""

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


def test_session_stores_question_and_response(tmp_path: Path) -> None:
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


def test_outcome_is_one_line_of_json(tmp_path: Path) -> None:
    outcome = runner(tmp_path, "The\nLoire.").ask("a", ["Name a river."], None)

    line = format_outcome("a", outcome)
    assert "\n" not in line
    assert json.loads(line)["text"] == "The\nLoire."
    assert not isinstance(outcome, Paused)


def test_resume_of_a_deleted_session_raises(tmp_path: Path) -> None:
    user_dir = runner(tmp_path, "The Loire.")

    with pytest.raises(UsageError, match="there is nothing in the session 'a'"):
        user_dir.resume("a")
    with pytest.raises(UnknownConversationError):
        stored(user_dir.sessions, "a")
