"""Injections that a memory recalled: none is indexed with the conversation, recalled from it, or sent twice."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from chat_core import ChatBuilder
from chat_core.messages import Messages
from chat_core.testing import ScriptedProvider
from chat_memory import SqliteMemory, Statement
from chat_memory.extraction import Extraction
from chat_memory.indexing import Indexer
from chat_memory.recall import Recall
from chat_memory.transcript import TranscriptTurn, write_transcript

from .injections import INJECTIONS

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    """Return one event loop, because the corpus is large."""
    return "asyncio"


class Reader:
    """An extractor that keeps the transcripts that a model would receive."""

    version = "reader"

    def __init__(self) -> None:
        self.transcripts: list[str] = []

    async def extract(self, turns: Sequence[TranscriptTurn], _known: Sequence[str], /) -> Extraction:
        self.transcripts.append(write_transcript(turns))
        return Extraction()

    async def summarize(self, turns: Sequence[TranscriptTurn], _summary: str, /) -> str:
        self.transcripts.append(write_transcript(turns))
        return "A conversation about topics."


def storable(text: str) -> str:
    """Return a text without the characters that no database stores."""
    return text.replace("\0", "").encode("utf-8", "ignore").decode()


async def test_a_recalled_injection_is_not_indexed_and_not_recalled_again(tmp_path: Path) -> None:
    async with SqliteMemory(tmp_path / "memory.db") as memory:
        ana, recall, reader = memory.scope("ana"), Recall(memory), Reader()
        indexer = Indexer(memory, reader, scope=lambda meta: meta.owner)
        for number, (name, attack) in enumerate(INJECTIONS.items()):
            topic = f"topic{number}"
            marked = storable(f"{topic}: {attack} EVIL-{topic}")
            await ana.add(Statement(topic, "is", "explained", marked))
            model = ScriptedProvider("I cannot tell.", "I still cannot tell.")
            chat = ChatBuilder().with_model(model).with_memory(recall, scope=lambda context: context.owner).build()
            messages = Messages.from_user(f"What is {topic}?")
            await chat.complete(messages, owner="ana")
            assert [note.text for part in messages.recalled for note in part.notes] == [marked], name
            messages.user(f"Again, what is {topic}?")
            await chat.complete(messages, owner="ana")
            notes = [note.text for part in messages.recalled for note in part.notes]
            assert [text for text in notes if "EVIL-" in text] == [marked], f"{name}: the model has the note already"
            await indexer.index("ana", f"chat {name}", Messages.from_json(messages.to_json()))
            found = await recall.search("ana", f"What is {topic}?", limit=50)
            assert [match.document.kind for match in found.matches if "EVIL-" in match.document.text] == ["fact"], name
        passages = [item.text for item in await ana.documents() if item.kind != "fact"]
    assert len(passages) == 5 * len(INJECTIONS)
    assert [text for text in passages + reader.transcripts if "EVIL-" in text] == [], f"0 of {len(INJECTIONS)}"
