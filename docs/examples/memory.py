"""Memory example: two sessions on different days become facts, and a third session is answered from both.

    python docs/examples/memory.py                   then asks for questions in the terminal
    python docs/examples/memory.py --unattended      asks one question by itself
    python docs/examples/memory.py --script          with a scripted model, which needs no weights

The facts come from rules, not from a model, so that each run stores the same ones. The notes from the memory are
printed above each answer: the bundled model is very small, and may contradict them. The graph is written as a picture.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from chat_core import Chat, ChatBuilder, ChatOptions, ChatProvider, Text, Turn
from chat_core.testing import ScriptedProvider
from chat_memory import DocumentFilter, MemoryScope, SqliteMemory
from chat_memory.embedder import LocalEmbedder
from chat_memory.extraction import ExtractedFact, ExtractedRelation, Extraction
from chat_memory.graph_export import to_svg
from chat_memory.indexing import Indexer, index_job
from chat_memory.recall import Recall
from chat_memory.transcript import TranscriptTurn
from chat_store import SqliteStore

SESSIONS: Final = (
    (260, "I live in Berlin, in Germany. I play the violin."),
    (60, "I moved to Paris, in France."),
)
"""The age of each session in days, and what the user writes."""
QUESTION: Final = "Where do I live, and what do I play?"
INSTRUCTIONS: Final = "Answer in one short sentence. If there are notes from memory, use them to answer."
NOTE: Final = """
      The memory returned the notes above the answer. The answer is worded by a very small model, which may
      contradict the notes."""
_HOME = re.compile(r"(?:live in|moved to) (\w+), in (\w+)")
_INSTRUMENT = re.compile(r"play the (\w+)")


class Rules:
    """An extractor that finds homes and instruments in the messages of the user."""

    version = "rules 1"

    async def extract(self, turns: Sequence[TranscriptTurn], _known: Sequence[str], /) -> Extraction:
        """Return the facts and relations that match the rules."""
        facts: list[ExtractedFact] = []
        relations: list[ExtractedRelation] = []
        for turn in turns:
            if turn.speaker == "user":
                for city, country in _HOME.findall(turn.text):
                    facts.append(ExtractedFact("user", "lives in", city, "stated", turn.index))
                    relations.append(ExtractedRelation(city, "part of", country))
                facts += [
                    ExtractedFact("user", "plays", f"the {name}", "stated", turn.index)
                    for name in _INSTRUMENT.findall(turn.text)
                ]
        relations += [ExtractedRelation(fact.subject, fact.predicate, fact.object) for fact in facts]
        return Extraction(facts=facts, relations=relations)

    async def summarize(self, turns: Sequence[TranscriptTurn], _summary: str, /) -> str:
        """Return the messages of the user."""
        return " ".join(turn.text for turn in turns if turn.speaker == "user")


@asynccontextmanager
async def open_model(*, script: bool) -> AsyncGenerator[tuple[ChatProvider, ChatOptions]]:
    """Open the local model, or a scripted one."""
    if script:
        answers = ("How nice.", "Enjoy it.", "You live in Paris, and you play the violin.")
        yield ScriptedProvider(*answers), ChatOptions()
        return
    from chat_llamacpp import LlamaCppBuilder  # noqa: PLC0415 - not needed with --script

    async with LlamaCppBuilder().with_bundled_model().build() as model:
        yield model, ChatOptions(temperature=0, max_tokens=60)


async def talk(chat: Chat, store: SqliteStore, session: str, text: str, at: datetime) -> None:
    """Send a message in a stored session, and print the notes from the memory and the answer."""
    async with store.open(session, owner="ana") as conversation:
        conversation.messages.append("user", Turn([Text(text)], created_at=at))
        response = await chat.complete(conversation)
        print(f"\n{at:%Y-%m-%d}  ana: {text}")
        for note in (note for part in conversation.messages.recalled for note in part.notes):
            print(f"            memory: {note.text} ({note.said_at:%Y-%m-%d})")
        print(f"            model: {' '.join(response.text.split())}")


async def show(ana: MemoryScope, picture: Path) -> None:
    """Print the facts, and draw the graph around the user."""
    print()
    for status in ("current", "historical"):
        for fact in await ana.facts(status=status):
            until = f" until {fact.valid_to:%Y-%m-%d}" if fact.valid_to else ""
            print(f"{status:>12}: {fact.text}, since {fact.valid_from:%Y-%m-%d}{until}")
    picture.write_text(to_svg(await ana.graph("user", depth=2)), encoding="utf-8")  # noqa: ASYNC240 - a small file
    print(f"{'graph':>12}: {picture}")


async def tell(folder: Path, *, script: bool, unattended: bool) -> None:
    """Run two sessions, index them when they are closed, and answer questions from both."""
    now = datetime.now(UTC)
    async with (
        open_model(script=script) as (model, options),
        SqliteStore(folder / "sessions.db") as store,
        SqliteMemory(folder / "memory.db") as memory,
    ):
        recall = Recall(memory, LocalEmbedder(), where=DocumentFilter(kinds=["fact"]))
        builder = ChatBuilder().with_model(model).with_options(options).with_instructions(INSTRUCTIONS)
        chat = builder.with_memory(recall, scope=lambda context: context.owner).build()
        indexer = Indexer(memory, Rules(), scope=lambda meta: meta.owner, recall=recall)
        for number, (age, text) in enumerate(SESSIONS, 1):
            await talk(chat, store, f"session-{number}", text, now - timedelta(days=age))
            await store.close(f"session-{number}", jobs=[index_job(f"session-{number}")])
            report = await indexer.run_next(store)
            if report is not None:
                print(f"            indexed: {report.facts_inserted} new facts, {report.facts_superseded} superseded")
        await show(memory.scope("ana"), folder / "graph.svg")
        question = QUESTION
        while question:
            await talk(chat, store, "session-3", question, datetime.now(UTC))
            if not script:
                print(NOTE)
            question = "" if unattended else (await asyncio.to_thread(input, "\nask, or press return: ")).strip()


def main() -> None:
    """Run the example."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path("memory-demo"), help="each run creates a folder in it")
    parser.add_argument("--script", action="store_true", help="use a scripted model")
    parser.add_argument("--unattended", action="store_true", help="ask one question, and do not wait for others")
    flags = parser.parse_args()
    folder = flags.folder / f"{datetime.now(UTC):%Y%m%d-%H%M%S-%f}"
    folder.mkdir(parents=True)
    asyncio.run(tell(folder, script=flags.script, unattended=flags.unattended or not sys.stdin.isatty()))


if __name__ == "__main__":
    main()
