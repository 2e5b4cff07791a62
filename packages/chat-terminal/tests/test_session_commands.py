"""Commands about sessions."""

from __future__ import annotations

import json
from typing import Any

import anyio
from chat_core import Messages
from chat_terminal.sessions import Sessions


def test_forget_deletes_the_session(chat: Any, user_dir: Any) -> None:
    chat("Name a river.", "--session", "rivers", *user_dir.talker)

    assert chat("forget", "rivers").code == 0
    assert chat("sessions").out == ""
    assert chat("show", "rivers").code == 2


def test_sessions_json_prints_one_line_per_session(chat: Any, user_dir: Any) -> None:
    chat("Name a river.", "--session", "rivers", *user_dir.talker)

    (line,) = chat("sessions", "--json").out.splitlines()
    assert json.loads(line)["title"] == "Name a river."


def test_sessions_marks_a_session_that_can_be_resumed(chat: Any, user_dir: Any) -> None:
    sessions = Sessions(user_dir.folder / "state" / "chats.db")
    for name in ("crashed", "answered"):
        sessions.record_use(name, "rivers", {})

    async def store_unanswered_question() -> None:
        async with sessions.store() as store:
            await store.create(Messages.from_user("Name a river."), id="crashed")

    anyio.run(store_unanswered_question)

    assert [line.endswith("rivers  ↻") for line in chat("sessions").out.splitlines()] == [False, True]
    rows = [json.loads(line) for line in chat("sessions", "--json").out.splitlines()]
    assert [row["unfinished"] for row in rows] == [False, True]


def test_session_without_a_stored_conversation_can_be_forgotten(chat: Any, user_dir: Any) -> None:
    Sessions(user_dir.folder / "state" / "chats.db").record_use("ghost", "nothing", {})

    assert chat("show", "ghost").code == 1
    assert chat("forget", "ghost").code == 0
    assert chat("sessions").out == ""


def test_store_option_is_accepted_before_or_after_the_command(chat: Any, user_dir: Any) -> None:
    other = str(user_dir.folder / "other.db")
    chat("--store", other, "Name a river.", *user_dir.talker)
    chat("Name a hill.", "--store", other, *user_dir.talker)

    for words in (("--store", other, "sessions"), (f"--store={other}", "sessions"), ("sessions", "--store", other)):
        assert len(chat(*words).out.splitlines()) == 2
    assert chat("sessions").out == ""
