"""Measure the recall of stored facts: `python benchmarks/facts.py FILE...`.

A text file has one fact in a line, `subject | predicate | object`, and questions with the objects of the facts that
answer them, `question -> object | object`. `benchmarks/questions/` contains two such files. A JSON file is LoCoMo, see
`locomo.py`: its observations are stored as facts, and answer the questions whose evidence is the same turn.

Each method returns at most 5 facts. `cosine` compares the vectors alone. The other methods are `Recall` without and
with its gate. Foreign questions are about something else, so they should find nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from chat_core import ChatOptions
from chat_memory import SqliteMemory, Statement
from chat_memory.embedder import LocalEmbedder
from chat_memory.recall import Recall
from locomo import WITHOUT_EVIDENCE

LIMIT = 5
SIZES = (40, 200)
"""Numbers of observations of each LoCoMo conversation that are stored."""
Vectors: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]
FOREIGN = Path(__file__).parent / "questions" / "foreign.txt"


@dataclass
class Sample:
    """Facts, questions with the texts of the facts that answer them, and questions that no fact answers."""

    facts: Sequence[Statement]
    questions: Sequence[tuple[str, set[str]]]
    foreign: Sequence[str]


@dataclass
class Score:
    """Sums over the questions that a method has answered."""

    found: float = 0
    relevant: int = 0
    returned: int = 0
    silent: int = 0


def read_questions(text: str, foreign: Sequence[str]) -> Sample:
    """Return the facts and questions of a text file."""
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    rows = [line.split(" | ") for line in lines if " -> " not in line]
    asked = [line.split(" -> ") for line in lines if " -> " in line]
    by_object = {row[2]: " ".join(row) for row in rows}
    questions = [(question, {by_object[name] for name in answers.split(" | ")}) for question, answers in asked]
    facts = [Statement(row[0], row[1], row[2], text=" ".join(row)) for row in rows]
    return Sample(facts, questions, foreign)


def read_observations(entries: Sequence[Mapping[str, Any]], size: int) -> list[Sample]:
    """Return the first observations of each LoCoMo conversation as facts."""
    samples: list[Sample] = []
    asked = [[item for item in entry["qa"] if item["category"] != WITHOUT_EVIDENCE] for entry in entries]
    for number, entry in enumerate(entries):
        turns: dict[str, set[str]] = {}
        facts: list[Statement] = []
        sessions = (said.items() for said in entry["observation"].values())
        observed = [(speaker, *item) for said in sessions for speaker, items in said for item in items]
        for speaker, text, evidence in observed[:size]:
            facts.append(Statement(speaker, f"observation {len(facts)}", text, text=text))
            turns.setdefault(text, set()).update([evidence] if isinstance(evidence, str) else evidence)
        answers = [
            (item["question"], {text for text in turns if turns[text] & {*item["evidence"]}}) for item in asked[number]
        ]
        foreign = [item["question"] for item in asked[(number + 1) % len(entries)]]
        samples.append(Sample(facts, [answer for answer in answers if answer[1]], foreign[::4]))
    return samples


async def measure(sample: Sample, scores: dict[str, Score], folder: str) -> None:
    """Add the measurements of a sample to the scores of each method."""
    embedder = LocalEmbedder()
    stored = [fact.text or "" for fact in sample.facts]
    vectors = await embed(embedder, stored)
    async with SqliteMemory(Path(folder) / f"{id(sample)}.db") as memory:
        for fact in sample.facts:
            await memory.scope("all").add(fact)
        methods = {
            "words, without the gate": Recall(memory, gate=0, relative_gate=0),
            "words": Recall(memory),
            "words and vectors, without the gate": Recall(memory, embedder, gate=0, relative_gate=0),
            "words and vectors": Recall(memory, embedder),
        }
        await methods["words and vectors"].embed("all")
        for question, answers in [*sample.questions, *((text, set[str]()) for text in sample.foreign)]:
            cosines = vectors @ (await embed(embedder, [question]))[0]
            count(
                scores.setdefault("cosine", Score()),
                [stored[int(row)] for row in np.argsort(-cosines)[:LIMIT]],
                answers,
            )
            for name, recall in methods.items():
                matches = (await recall.search("all", question, limit=LIMIT)).matches
                count(scores.setdefault(name, Score()), [match.document.text for match in matches], answers)


async def embed(embedder: LocalEmbedder, texts: Sequence[str]) -> Vectors:
    """Return vectors of length 1."""
    vectors: Vectors = np.array((await embedder.embed(texts, ChatOptions())).vectors)
    lengths: Vectors = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.maximum(lengths, 1e-9)


def count(score: Score, returned: Sequence[str], answers: set[str]) -> None:
    """Add the answer of one question to a score."""
    if not answers:
        score.silent += not returned
        return
    found = answers.intersection(returned)
    score.found += len(found) / len(answers)
    score.relevant += len(found)
    score.returned += len(returned)


def print_table(title: str, samples: Sequence[Sample], scores: Mapping[str, Score]) -> None:
    """Print one row for each method."""
    questions, foreign = (
        sum(map(len, part)) for part in zip(*((s.questions, s.foreign) for s in samples), strict=True)
    )
    print(
        f"\n{title}: {sum(len(s.facts) for s in samples)} facts, {questions} questions, {foreign} foreign questions\n"
    )
    print("| method | recall@5 | precision@5 | facts returned | nothing found for a foreign question |")
    print("|---|---|---|---|---|")
    for name, score in scores.items():
        precision = score.relevant / max(score.returned, 1)
        columns = f"{score.found / questions:.3f} | {precision:.3f} | {score.returned / questions:.1f}"
        print(f"| {name} | {columns} | {score.silent / foreign:.1%} |")


def read_file(file: Path) -> dict[str, list[Sample]]:
    """Return the samples of a file, by their titles."""
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".json":
        return {f"{file.name}, {size} observations": read_observations(json.loads(text), size) for size in SIZES}
    return {file.name: [read_questions(text, FOREIGN.read_text(encoding="utf-8").splitlines())]}


async def run(title: str, samples: Sequence[Sample]) -> None:
    """Print the measurements of samples."""
    scores: dict[str, Score] = {}
    with tempfile.TemporaryDirectory() as folder:
        for sample in samples:
            await measure(sample, scores, folder)
    print_table(title, samples, scores)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=Path, nargs="+")
    for path in parser.parse_args().files:
        for name, group in read_file(path).items():
            asyncio.run(run(name, group))
