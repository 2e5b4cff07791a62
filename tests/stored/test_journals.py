"""Journals that version 57cd8b0 wrote open, have their history, and resume."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from chat_core.errors import ChatError
from chat_store import FileConversation

from .shop import EXPECTED, KEYS, KILLED, LATER, NOON, STORED, TOKENS, Shop, history_of, require_finished

pytestmark = pytest.mark.anyio

FOLDER = STORED / "journals"
EXPECTED_READING: dict[str, Any] = json.loads((STORED / "journals.expected.json").read_bytes())
JOURNALS = sorted([path.stem for path in FOLDER.glob("*.jsonl")])


def copied(name: str, folder: Path) -> Path:
    """Copy a journal and the lock file of its killed run."""
    for path in FOLDER.glob(f"{name}.jsonl*"):
        shutil.copy(path, folder)
    return folder / f"{name}.jsonl"


def test_there_is_a_journal_of_each_situation() -> None:
    assert set(JOURNALS) == set(EXPECTED) == set(EXPECTED_READING)


@pytest.mark.parametrize("name", JOURNALS)
async def test_a_journal_has_the_recorded_contents(name: str, tmp_path: Path) -> None:
    path = copied(name, tmp_path)
    data = path.read_bytes()

    async with FileConversation.open(path, now=lambda: LATER) as conversation:
        expected = EXPECTED_READING[name]
        assert json.loads(conversation.messages.to_json()) == expected["document"]
        assert conversation.revision == expected["revision"]
        assert history_of(await conversation.history()) == expected["history"]

    assert path.read_bytes() == data


@pytest.mark.parametrize("name", JOURNALS)
async def test_a_journal_resumes_and_each_tool_runs_once(name: str, tmp_path: Path) -> None:
    path, shop = copied(name, tmp_path), Shop()

    async with FileConversation.open(path, now=lambda: LATER) as conversation:
        await shop.finish(conversation)

    shop.require(name)
    async with FileConversation.open(path, now=lambda: LATER) as conversation:
        require_finished(conversation.messages)


@pytest.mark.parametrize("name", KILLED)
async def test_the_lease_of_a_killed_process_blocks_no_other_run(name: str, tmp_path: Path) -> None:
    async with FileConversation.open(copied(name, tmp_path), now=lambda: NOON) as conversation:
        await conversation.claim()
        await conversation.release()


async def test_what_an_overtaken_run_wrote_late_is_in_the_history(tmp_path: Path) -> None:
    async with FileConversation.open(copied("overtaken", tmp_path)) as conversation:
        late = [entry for entry in await conversation.history() if entry.event == "late"]

    assert [entry.path for entry in late] == [("ship_1",)]


async def test_a_token_is_redeemed_once(tmp_path: Path) -> None:
    token = TOKENS["journals/token"]
    path = copied("token", tmp_path)
    async with FileConversation.open(path) as conversation:
        await KEYS.redeem(token, conversation, "approve")

    async with FileConversation.open(path) as conversation:
        assert conversation.messages.tool("pay_1").decisions[-1].by == "ana"
        with pytest.raises(ChatError) as refused:
            await KEYS.redeem(token, conversation, "approve")
    assert getattr(refused.value, "reason", None) == "used"
