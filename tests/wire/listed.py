"""The page of accepted differences: it is parsed, compared with the differences that are found, and scored."""

from __future__ import annotations

import fnmatch
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from .exchanges import ROOT

PAGE: Final = ROOT / "docs" / "differences-encode.md"
INDEX: Final = re.compile(r"\[\d+\]")


@dataclass(frozen=True)
class Listed:
    """A row: the exchanges, the place and the number of the differences, and the reason why they are accepted."""

    exchanges: str
    path: str
    places: int
    reason: str

    def covers(self, exchange: str, path: str) -> bool:
        """Return whether a row covers a difference."""
        return fnmatch.fnmatchcase(exchange, self.exchanges) and fnmatch.fnmatchcase(path, self.path)


def read_rows(heading: str, page: Path = PAGE) -> list[list[str]]:
    """Return the cells of the table under a heading."""
    section = page.read_text().partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[_cell(text) for text in line.strip("|").split(" | ")] for line in lines[2:]]


def _cell(text: str) -> str:
    """Return the text of a table cell. If the whole cell is code, the backticks are removed."""
    text = text.strip()
    return text[1:-1] if text.count("`") == 2 and text[0] == text[-1] == "`" else text


def read_listed(heading: str, page: Path = PAGE) -> list[Listed]:
    """Return the listed differences under a heading."""
    return [
        Listed(exchanges, path.replace("[]", "[[]]"), int(places), reason)
        for exchanges, path, places, reason in read_rows(heading, page)
    ]


def judge(found: Mapping[str, Sequence[str]], listed: Sequence[Listed]) -> list[str]:
    """Return the disagreements between the found differences, by exchange, and the listed ones.

    A difference belongs to the first row that covers it. The count of a row must equal the number of its differences.
    """
    wrong = list[str]()
    counts = Counter[int]()
    for exchange, differences in found.items():
        for difference in differences:
            path = INDEX.sub("[]", difference.partition(": ")[0])
            place = next((index for index, row in enumerate(listed) if row.covers(exchange, path)), None)
            if place is None:
                wrong.append(f"not listed: {exchange} | {difference}")
            else:
                counts[place] += 1
    for index, row in enumerate(listed):
        if counts[index] != row.places:
            wrong.append(f"listed {row.places} times, found {counts[index]}: {row.exchanges} | {row.path}")
        if not row.reason:
            wrong.append(f"no reason: {row.exchanges} | {row.path}")
    return wrong


def score(judged: Iterable[tuple[Iterable[str], Sequence[str]]], *first: str) -> list[list[str]]:
    """Return the number of exchanges without differences and the number of all exchanges, by feature.

    Args:
        judged: the features and the differences of each exchange.
        first: the features of the rows after the first, which counts all exchanges.
    """
    whole, good = Counter[str](), Counter[str]()
    for features, differences in judged:
        for feature in {"all", *features}:
            whole[feature] += 1
            good[feature] += not differences
    names = ["all", *first, *sorted(whole.keys() - {"all", *first})]
    return [[name, str(good[name]), str(whole[name])] for name in names if whole[name]]
