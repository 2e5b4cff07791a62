"""Measure retrieval on LoCoMo: `python benchmarks/locomo.py FILE`.

FILE is a list of conversations with questions and the turns that answer them (Maharana et al. 2024, the repository
snap-research/LoCoMo). Questions without evidence are left out. k counts turns. No language model is used.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import tempfile
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from chat_memory import Passage, SqliteMemory
from chat_memory.recall import Recall, RecallResult

CUTS = (5, 10, 20)
WITHOUT_EVIDENCE = 5
"""The category of questions that the conversation does not answer."""


def read_turns(conversation: Mapping[str, Any]) -> dict[str, Passage]:
    """Return the turns of all sessions as passages, by the name that evidence uses."""
    found: dict[str, Passage] = {}
    for name, session in conversation.items():
        if not re.fullmatch(r"session_\d+", name):
            continue
        written = conversation[f"{name}_date_time"].upper()
        said_at = datetime.strptime(written, "%I:%M %p ON %d %B, %Y").replace(tzinfo=UTC)
        for position, turn in enumerate(session):
            text = " ".join(filter(None, (turn["text"], turn.get("blip_caption"))))
            found[turn["dia_id"]] = Passage(text, name, position, speaker=turn["speaker"], said_at=said_at)
    return found


def read_questions(entry: Mapping[str, Any]) -> list[tuple[str, set[str]]]:
    """Return the questions and the names of the turns that answer them."""
    return [
        (question["question"], {name for text in question["evidence"] for name in re.split(r"[;,\s]+", text)})
        for question in entry["qa"]
        if question["category"] != WITHOUT_EVIDENCE
    ]


async def measure(entry: Mapping[str, Any], foreign: Sequence[tuple[str, set[str]]], folder: str) -> dict[str, float]:
    """Return sums over the questions of one conversation."""
    passages = read_turns(entry["conversation"])
    names = {(passage.conversation, passage.position): name for name, passage in passages.items()}
    sums: defaultdict[str, float] = defaultdict(float)

    def found(result: RecallResult) -> list[str]:
        return [names[match.document.conversation or "", match.document.position or 0] for match in result.matches]

    async with SqliteMemory(Path(folder) / f"{time.monotonic_ns()}.db") as memory:
        await memory.scope("all").add_passages(list(passages.values()))
        ranked, gated = Recall(memory, gate=0, relative_gate=0), Recall(memory)
        for recall in (ranked, gated):
            await recall.search("all", "read the index")
        for question, evidence in read_questions(entry):
            if not (evidence := evidence & passages.keys()):
                continue
            begin = time.process_time()
            best = found(await ranked.search("all", question, limit=max(CUTS)))
            sums["ms"] += 1000 * (time.process_time() - begin)
            passed = set(found(await gated.search("all", question, limit=len(passages), max_characters=10**9)))
            sums["questions"] += 1
            for cut in CUTS:
                sums[f"any@{cut}"] += not evidence.isdisjoint(best[:cut])
            sums["recall@10"] += len(evidence.intersection(best[:10])) / len(evidence)
            sums["dropped"] += len(evidence - passed) / len(evidence)
            sums["passed"] += len(passed - evidence)
            sums["others"] += len(passages) - len(evidence)
        for question, _ in foreign:
            sums["foreign"] += 1
            sums["silent"] += not (await gated.search("all", question)).matches
    return sums


async def run(text: str) -> None:
    """Print the measurements of each conversation and of all together."""
    entries = json.loads(text)
    total: defaultdict[str, float] = defaultdict(float)
    with tempfile.TemporaryDirectory() as folder:
        for number, entry in enumerate(entries):
            foreign = read_questions(entries[(number + 1) % len(entries)])
            sums = await measure(entry, foreign, folder)
            print(f"conversation {number}: any@10 {sums['any@10'] / sums['questions']:.3f}")
            for name, value in sums.items():
                total[name] += value
    means = [f"{name} {total[name] / total['questions']:.3f}" for name in ("any@5", "any@10", "any@20", "recall@10")]
    print(*means, f"{total['ms'] / total['questions']:.2f} ms CPU", f"{total['questions']:.0f} questions", sep=", ")
    print(
        f"gate: {total['dropped'] / total['questions']:.3f} of the evidence dropped, "
        f"{total['passed'] / total['others']:.3f} of other turns passed, "
        f"nothing found for {total['silent'] / total['foreign']:.3f} of the questions about another conversation"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    asyncio.run(run(parser.parse_args().file.read_text(encoding="utf-8")))
