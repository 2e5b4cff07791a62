"""Measure retrieval on LoCoMo: `python benchmarks/locomo.py FILE`.

FILE is a list of conversations with questions and the turns that answer them (Maharana et al. 2024, the repository
snap-research/LoCoMo). Questions without evidence are left out. k counts turns. No language model is used.

`--leave-one-out` chooses the weights and the gate with all conversations but one, and measures them with that one.
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
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from chat_core import ChatOptions
from chat_core.provider import EmbeddingsProvider, EmbeddingsResponse
from chat_memory import SOURCE_CONFIDENCE, Passage, SqliteMemory
from chat_memory.embedder import LocalEmbedder
from chat_memory.memory import MemoryScope
from chat_memory.recall import Recall, RecallResult
from chat_memory.seed_score import SeedScore
from chat_memory.weights import Weights
from local_models import make_embedder
from rotation import Scored, rotate

CUTS = (5, 10, 20)
WITHOUT_EVIDENCE = 5
"""The category of questions that the conversation does not answer."""
WORDS_ALONE = Weights(speaker=0, date=0, time=0, conversation=0, question=0, embedding=0)
WITH_VECTORS = Weights(speaker=0, date=0, time=0, conversation=0, question=0)

Sums = defaultdict[str, float]


class TimedEmbedder:
    """Measures the CPU time of another embedder."""

    def __init__(self, embedder: EmbeddingsProvider) -> None:
        self._embedder = embedder
        self.metadata = embedder.metadata
        self.seconds = 0.0
        if isinstance(embedder, LocalEmbedder):
            self.embed_words = embedder.embed_words

    async def embed(self, texts: Sequence[str], options: ChatOptions) -> EmbeddingsResponse:
        """Implement `EmbeddingsProvider.embed()`."""
        begin = time.process_time()
        response = await self._embedder.embed(texts, options)
        self.seconds += time.process_time() - begin
        return response


@dataclass
class Sample:
    """A conversation with its questions, and questions about another conversation."""

    passages: dict[str, Passage]
    questions: list[tuple[str, set[str]]]
    foreign: list[str]

    def __post_init__(self) -> None:
        self._names = {(passage.conversation, passage.position): name for name, passage in self.passages.items()}

    def found(self, answer: RecallResult) -> list[str]:
        """Return the names of the turns that were found, best first."""
        documents = [match.document for match in answer.matches]
        return [self._names[document.conversation or "", document.position or 0] for document in documents]


@dataclass
class Result:
    """The sums of one conversation for each method, and the parts of the scores of its questions."""

    methods: dict[str, Sums] = field(default_factory=lambda: defaultdict(lambda: defaultdict(float)))
    gates: dict[str, Sums] = field(default_factory=lambda: defaultdict(lambda: defaultdict(float)))
    scored: list[Scored] = field(default_factory=list[Scored])
    foreign: list[float] = field(default_factory=list[float])
    embedding: float = 0.0


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


def read_samples(entries: Sequence[Mapping[str, Any]], step: int) -> list[Sample]:
    """Return all conversations, with every question or one of `step`."""
    turns = [read_turns(entry["conversation"]) for entry in entries]
    questions: list[list[tuple[str, set[str]]]] = []
    for entry, passages in zip(entries, turns, strict=True):
        asked = [item for item in entry["qa"] if item["category"] != WITHOUT_EVIDENCE]
        named = [(item["question"], set(re.split(r"[;,\s]+", " ".join(item["evidence"])))) for item in asked]
        known = [(question, evidence & passages.keys()) for question, evidence in named]
        questions.append([item for item in known if item[1]][::step])
    following = [*questions[1:], questions[0]]
    return [Sample(t, q, [item[0] for item in f]) for t, q, f in zip(turns, questions, following, strict=True)]


async def measure(sample: Sample, embedder: TimedEmbedder | None, folder: str) -> Result:
    """Return the measurements of one conversation."""
    result = Result()
    async with SqliteMemory(Path(folder) / f"{time.monotonic_ns()}.db") as memory:
        await memory.scope("all").add_passages(list(sample.passages.values()))
        methods = {
            "text": Recall(memory, gate=0, relative_gate=0, weights=WORDS_ALONE),
            "whole, words only": Recall(memory, gate=0, relative_gate=0),
        }
        gates = {"ours, words only": Recall(memory)}
        if embedder is not None:
            methods["fused"] = Recall(memory, embedder, gate=0, relative_gate=0, weights=WITH_VECTORS)
            words = LocalEmbedder()
            methods["whole, similar words"] = Recall(memory, gate=0, relative_gate=0, words=words)
            methods["whole"] = Recall(memory, embedder, gate=0, relative_gate=0, words=words)
            gates["ours"] = Recall(memory, embedder, words=words)
            seconds = embedder.seconds
            await methods["whole"].embed("all")
            result.embedding = embedder.seconds - seconds
        for recall in (*methods.values(), *gates.values()):
            await recall.search("all", "read the index")
        for number, (question, evidence) in enumerate(sample.questions):
            for name, recall in methods.items():
                await measure_method(result.methods[name], recall, embedder, sample, number)
            best = list(methods.values())[-1]
            every = await best.search("all", question, limit=10**6, max_tokens=10**9)
            scored = Scored(every.matches, sample.found(every), evidence)
            result.scored.append(scored)
            if embedder is not None:
                count_found(result.methods["vectors"], scored.best_by("embedding", max(CUTS)), evidence)
                count_found(result.methods["fused by rank"], scored.best_by_rank(max(CUTS)), evidence)
        await measure_gates(result, gates, list(methods.values())[-1], sample)
        if embedder is not None:
            await measure_seed_score(sample, embedder, memory.scope("all"), result)
    return result


async def measure_method(
    sums: Sums, recall: Recall, embedder: TimedEmbedder | None, sample: Sample, number: int
) -> None:
    """Ask one question with one method."""
    question, evidence = sample.questions[number]
    seconds, begin = embedder.seconds if embedder else 0.0, time.process_time()
    answer = await recall.search("all", question, limit=max(CUTS))
    sums["ms"] += 1000 * (time.process_time() - begin)
    sums["question ms"] += 1000 * ((embedder.seconds if embedder else 0.0) - seconds)
    count_found(sums, sample.found(answer), evidence)


async def measure_gates(result: Result, gates: Mapping[str, Recall], ranked: Recall, sample: Sample) -> None:
    """Count what each gate lets pass, for the questions of the conversation and for foreign ones."""
    for name, recall in gates.items():
        sums = result.gates[name]
        for question, evidence in sample.questions:
            answer = await recall.search("all", question, limit=10**6, max_tokens=10**9)
            count_passed(sums, set(sample.found(answer)), evidence, len(sample.passages))
        for question in sample.foreign:
            sums["foreign"] += 1
            sums["silent"] += not (await recall.search("all", question)).matches
    for question in sample.foreign:
        best = (await ranked.search("all", question, limit=1)).matches
        result.foreign.append(best[0].relevance if best else 0.0)


async def measure_seed_score(sample: Sample, embedder: TimedEmbedder, scope: MemoryScope, result: Result) -> None:
    """Compare the rule of `SeedScore` with the same questions, for memories of two confidences."""
    ids, data = await scope.vectors(f"{embedder.metadata.name}/{embedder.metadata.model}")
    stored = np.frombuffer(data, dtype="<f4").reshape(len(ids), -1)
    stored = stored / np.maximum(np.linalg.norm(stored, axis=1, keepdims=True), 1e-9)
    names = list(sample.passages)
    rule = SeedScore()
    for question, evidence in [*sample.questions, *((text, None) for text in sample.foreign)]:
        vector = np.array((await embedder.embed([question], ChatOptions())).vectors[0])
        cosines = stored @ (vector / (np.linalg.norm(vector) or 1))
        for source in ("stated", "inferred"):
            sums, confidence = result.gates[f"SeedScore, {source}"], SOURCE_CONFIDENCE[source]
            passed = {name for name, cosine in zip(names, cosines, strict=True) if rule.passes(cosine, confidence)}
            if evidence is None:
                sums["foreign"] += 1
                sums["silent"] += not passed
            else:
                count_passed(sums, passed, evidence, len(names))


def count_found(sums: Sums, best: Sequence[str], evidence: set[str]) -> None:
    """Add one question to the sums of a method."""
    sums["questions"] += 1
    for cut in CUTS:
        sums[f"any@{cut}"] += not evidence.isdisjoint(best[:cut])
    sums["recall@10"] += len(evidence.intersection(best[:10])) / len(evidence)


def count_passed(sums: Sums, passed: set[str], evidence: set[str], size: int) -> None:
    """Add one question to the sums of a gate."""
    sums["questions"] += 1
    sums["dropped"] += len(evidence - passed) / len(evidence)
    sums["passed"] += len(passed - evidence)
    sums["others"] += size - len(evidence)


def print_tables(samples: Sequence[Sample], results: Sequence[Result]) -> None:
    """Print the tables of the methods and of the gates."""
    print("| method | any@5 | any@10 | any@20 | recall@10 | any@10 of each conversation | ms | without embedding |")
    print("|---|---|---|---|---|---|---|---|")
    for name in sorted({name for result in results for name in result.methods}):
        total = add([result.methods[name] for result in results])
        means = " | ".join(
            f"{total[key] / total['questions']:.3f}" for key in ("any@5", "any@10", "any@20", "recall@10")
        )
        each = " ".join(f"{r.methods[name]['any@10'] / r.methods[name]['questions']:.3f}" for r in results)
        whole, embedding = total["ms"] / total["questions"], total["question ms"] / total["questions"]
        times = f"{whole:.1f} | {whole - embedding:.1f}" if whole else "— | —"
        print(f"| {name} | {means} | {each} | {times} |")
    if seconds := sum(result.embedding for result in results):
        print(f"\nembedding: {1000 * seconds / sum(len(sample.passages) for sample in samples):.2f} ms for a turn")
    print("\n| gate | evidence dropped | other turns passed | foreign questions without a match |")
    print("|---|---|---|---|")
    for name in results[0].gates:
        total = add([result.gates[name] for result in results])
        rates = (total["dropped"] / total["questions"], total["passed"] / total["others"])
        print(f"| {name} | {rates[0]:.1%} | {rates[1]:.1%} | {total['silent'] / total['foreign']:.1%} |")


def add(sums: Sequence[Mapping[str, float]]) -> Sums:
    """Return the sums of all conversations."""
    total: Sums = defaultdict(float)
    for one in sums:
        for name, value in one.items():
            total[name] += value
    return total


async def run(text: str, embedder: EmbeddingsProvider | None, *, step: int = 1, leave_one_out: bool = False) -> None:
    """Print the measurements of each conversation and of all together."""
    timed = None if embedder is None else TimedEmbedder(embedder)
    with tempfile.TemporaryDirectory() as folder:
        samples = read_samples(json.loads(text), step)
        results = [await measure(sample, timed, folder) for sample in samples]
    print_tables(samples, results)
    if leave_one_out:
        rotate([result.scored for result in results], [result.foreign for result in results])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--embedder", choices=("none", "local", "minilm"), default="local")
    parser.add_argument("--tokenizer", type=Path, help="the tokenizer.json of all-MiniLM-L6-v2")
    parser.add_argument("--step", type=int, default=1, help="ask one of so many questions")
    parser.add_argument("--leave-one-out", action="store_true")
    words = parser.parse_args()
    asyncio.run(
        run(
            words.file.read_text(encoding="utf-8"),
            make_embedder(words.embedder, words.tokenizer),
            step=words.step,
            leave_one_out=words.leave_one_out,
        )
    )
