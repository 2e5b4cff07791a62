"""List of sessions."""

from __future__ import annotations

import stat
import sys
from pathlib import Path

import anyio
import click
import pytest
from chat_core import Messages
from chat_terminal.sessions import Sessions


def test_last_used_session_is_first_and_keeps_its_title(tmp_path: Path) -> None:
    sessions = Sessions(tmp_path / "chats.db")
    sessions.record_use("a", "about rivers", {"model": "local"})
    sessions.record_use("b", "about hills", {})
    sessions.record_use("a", "another question", {"model": "openai:x"})

    assert [(one.id, one.title, one.settings) for one in sessions.list_all()] == [
        ("a", "about rivers", {"model": "openai:x"}),
        ("b", "about hills", {}),
    ]
    assert sessions.last().id == "a"


def test_unnamed_session_gets_a_unique_name(tmp_path: Path) -> None:
    sessions = Sessions(tmp_path / "chats.db")

    assert len({sessions.record_use(None, "x", {}) for _ in range(20)}) == 20


def test_long_title_is_truncated_to_one_line(tmp_path: Path) -> None:
    sessions = Sessions(tmp_path / "chats.db")
    sessions.record_use("a", "word\n" * 100, {})

    (session,) = sessions.list_all()
    assert len(session.title) == 60
    assert "\n" not in session.title


def test_session_list_and_conversations_share_one_file(tmp_path: Path) -> None:
    sessions = Sessions(tmp_path / "state" / "chats.db")
    sessions.record_use("a", "x", {})

    async def stored() -> int:
        async with sessions.store() as store:
            await store.create(Messages.from_user("hi"), id="a")
            return len(await store.due())

    assert anyio.run(stored) == 1
    assert [one.id for one in sessions.list_all()] == ["a"]


@pytest.mark.skipif(sys.platform == "win32", reason="folders have no such modes there")
def test_session_directory_is_private(tmp_path: Path) -> None:
    sessions = Sessions(tmp_path / "state" / "chats.db")
    assert not (tmp_path / "state").exists()
    sessions.record_use("a", "x", {})

    assert stat.S_IMODE((tmp_path / "state").stat().st_mode) == 0o700


@pytest.mark.skipif(sys.platform == "win32", reason="files have no such modes there")
def test_session_file_in_an_existing_directory_is_private(tmp_path: Path) -> None:
    Sessions(tmp_path / "chats.db").record_use("a", "x", {})

    assert stat.S_IMODE((tmp_path / "chats.db").stat().st_mode) == 0o600


def test_unknown_session_raises_usage_error(tmp_path: Path) -> None:
    sessions = Sessions(tmp_path / "chats.db")
    with pytest.raises(click.UsageError, match="there is no session yet"):
        sessions.last()
    sessions.record_use("a", "x", {})
    with pytest.raises(click.UsageError, match="there is no session 'b'"):
        sessions.get("b")
    sessions.remove("a")
    assert sessions.list_all() == []


def test_a_file_that_is_not_a_database_is_named(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("Buy bread. " * 100)
    sessions = Sessions(path)

    for use in (sessions.list_all, lambda: sessions.record_use("a", "title", {})):
        with pytest.raises(OSError, match=r"the sessions in .*notes\.txt cannot be read or written: file is not"):
            use()
    assert path.read_text().startswith("Buy bread.")


def test_a_directory_that_cannot_be_created_is_an_error_with_the_option(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("Buy bread.")
    sessions = Sessions(tmp_path / "notes.txt" / "chats.db")

    for use in (sessions.list_all, sessions.store):
        with pytest.raises(OSError, match=r"the sessions in .*chats\.db cannot be read or written.*--store"):
            use()
