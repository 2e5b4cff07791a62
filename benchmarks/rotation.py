"""Choose weights and a gate with all conversations but one, and measure them with that one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import InitVar, dataclass, field

import numpy as np
import numpy.typing as npt
from chat_memory.recall import Match

PARTS = ("text", "speaker", "date", "time", "conversation", "question", "embedding")
FACTORS = (0.0, 0.5, 0.75, 1.0, 1.33, 1.75)
"""The weights that are tried, relative to those of `Weights`."""
RANK_CONSTANT = 60
ROUNDS = 2
GATES = [0.2 + 0.01 * number for number in range(21)]
RELATIVE_GATE = 0.45
MAX_DROPPED = 0.11

Numbers = npt.NDArray[np.float64]


@dataclass
class Scored:
    """All matches of a question, with the parts of their scores.

    Attributes:
        names: the names of the turns, best first.
        evidence: the names of the turns that answer the question.
        parts: a row for each turn and a column for each of `PARTS`.
        answers: whether each turn is evidence.
    """

    matches: InitVar[Sequence[Match]]
    names: list[str]
    evidence: set[str]
    parts: Numbers = field(init=False)
    answers: npt.NDArray[np.bool_] = field(init=False)

    def __post_init__(self, matches: Sequence[Match]) -> None:
        rows = [[match.reasons.get(part, 0) for part in PARTS] for match in matches]
        self.parts = np.array(rows, dtype=np.float64).reshape(len(rows), len(PARTS))
        self.answers = np.array([name in self.evidence for name in self.names], dtype=bool)

    def best_by(self, part: str, limit: int) -> list[str]:
        """Return the names of the turns with the greatest value of one part."""
        order = np.argsort(-self.parts[:, PARTS.index(part)], kind="stable")
        return [self.names[row] for row in order[:limit]]

    def best_by_rank(self, limit: int) -> list[str]:
        """Return the names of the turns by reciprocal rank fusion of words and vectors (Cormack et al. 2009)."""
        orders = [np.argsort(-self.parts[:, PARTS.index(part)], kind="stable") for part in ("text", "embedding")]
        scores = sum(1 / (RANK_CONSTANT + np.argsort(order)) for order in orders)
        return [self.names[row] for row in np.argsort(-scores, kind="stable")[:limit]]

    def at_10(self, factors: Numbers) -> tuple[bool, float]:
        """Return whether evidence is among the first 10, and which share of it."""
        scores = self.parts @ factors
        found = int(self.answers[np.argsort(-scores, kind="stable")[:10]].sum())
        return found > 0, found / len(self.evidence)


def means(questions: Sequence[Scored], factors: Numbers) -> tuple[float, float]:
    """Return any@10 and recall@10."""
    found = np.array([question.at_10(factors) for question in questions], dtype=np.float64)
    return float(found[:, 0].mean()), float(found[:, 1].mean())


def choose_factors(questions: Sequence[Scored]) -> Numbers:
    """Return the factors with the greatest sum of any@10 and recall@10, changing one at a time."""
    best = np.ones(len(PARTS))
    for _ in range(ROUNDS):
        for column in range(1, len(PARTS)):
            tried: list[tuple[float, Numbers]] = []
            for factor in FACTORS:
                changed = best.copy()
                changed[column] = factor
                tried.append((sum(means(questions, changed)), changed))
            best = max(tried, key=lambda item: item[0])[1]
    return best


def gate_rates(
    questions: Sequence[Scored], foreign: Sequence[float], gate: float, size: int
) -> tuple[float, float, float]:
    """Return the rates of a gate: evidence dropped, other turns passed, and foreign questions without a match."""
    dropped, passed, others = 0.0, 0, 0
    for question in questions:
        scores = question.parts.sum(axis=1)
        kept = scores >= max(gate, RELATIVE_GATE * scores.max(initial=0))
        dropped += 1 - int((kept & question.answers).sum()) / len(question.evidence)
        passed += int((kept & ~question.answers).sum())
        others += size - len(question.evidence)
    silent = float(np.mean(np.array(foreign) < gate))
    return dropped / len(questions), passed / others, silent


def rotate(scored: Sequence[Sequence[Scored]], foreign: Sequence[Sequence[float]]) -> None:
    """Print the results of each conversation, with the weights and the gate that the others chose."""
    sizes = [max(len(question.names) for question in questions) for questions in scored]
    rows: list[tuple[tuple[float, float], float, float, float]] = []
    print("\n| held out | any@10 | recall@10 | gate | dropped | passed | silent | factors |\n|" + "---|" * 8)
    for held, questions in enumerate(scored):
        others = [question for number, each in enumerate(scored) if number != held for question in each]
        abroad = [value for number, each in enumerate(foreign) if number != held for value in each]
        factors = choose_factors(others)
        fitting = [g for g in GATES if gate_rates(others, abroad, g, max(sizes))[0] <= MAX_DROPPED]
        gate = max(fitting, default=GATES[0])
        rates = gate_rates(questions, foreign[held], gate, sizes[held])
        found = means(questions, factors)
        rows.append((found, *rates))
        chosen = " ".join(f"{part} {factor:g}" for part, factor in zip(PARTS, factors, strict=True))
        print(
            f"| {held} | {found[0]:.3f} | {found[1]:.3f} | {gate:.2f} | {rates[0]:.1%} | "
            f"{rates[1]:.1%} | {rates[2]:.1%} | {chosen} |"
        )
    weights = np.array([len(questions) for questions in scored]) / sum(map(len, scored))
    mean, dropped, passed, silent = (np.average(column, axis=0, weights=weights) for column in zip(*rows, strict=True))
    print(f"| all | {mean[0]:.3f} | {mean[1]:.3f} | | {dropped:.1%} | {passed:.1%} | {silent:.1%} | |")
