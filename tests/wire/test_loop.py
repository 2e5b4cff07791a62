"""Recorded responses in the loop of a chat: what runs, how often the model is asked, and what the listener hears."""

from __future__ import annotations

import fnmatch
import os
from collections import Counter
from random import Random
from typing import Final

import pytest

from .exchanges import ROOT, require_wire
from .listed import read_rows
from .loop import APIS, exchanges, problems, run_recorded
from .recordings import Recorded

require_wire()

PAGE: Final = ROOT / "docs" / "differences-loop.md"
THOROUGH: Final = bool(os.environ.get("CHAT_THOROUGH"))
OF_EACH_FEATURE: Final = 2
LISTED: Final = [(recording, where) for recording, where, _ in read_rows("Differences", PAGE)]


def sample(items: list[Recorded]) -> list[Recorded]:
    """Choose the listed recordings, and a few at random of each feature of each API."""
    count = Counter[tuple[str, bool, str]]()
    chosen: list[Recorded] = []
    for item in Random(20261123).sample(items, len(items)):  # noqa: S311 - reproducible
        features = [(item.api, item.streamed, feature) for feature in item.features]
        listed = any(fnmatch.fnmatchcase(item.id, name) for name, _ in LISTED)
        if listed or any(count[feature] < OF_EACH_FEATURE for feature in features):
            chosen.append(item)
            count.update(features)
    return chosen


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_recorded_calls_run_once_and_texts_are_delivered_once(anyio_backend: str) -> None:
    assert anyio_backend
    items = list(exchanges())
    every = len(items)
    if not THOROUGH:
        items = sample(items)
    alike, of, used = Counter[str](), Counter[str](), set[tuple[str, str]]()
    wrong: list[str] = []
    for item in items:
        found = problems(item, await run_recorded(item))
        alike[item.api] += not found
        of[item.api] += 1
        for problem in found:
            where = problem.partition(":")[0]
            row = next((row for row in LISTED if fnmatch.fnmatchcase(item.id, row[0]) and row[1] == where), None)
            if row is None:
                wrong.append(f"not listed: {item.id}: {problem}")
            else:
                used.add(row)
    wrong += [f"listed, but not found: {name}, {where}" for name, where in LISTED if (name, where) not in used]
    assert not wrong, "\n".join(wrong)
    if THOROUGH:
        assert every == len(items)
        score = [[api, str(alike[api]), str(of[api])] for api in APIS]
        assert read_rows("Score", PAGE) == score, "\n".join([f"| {' | '.join(row)} |" for row in score])
