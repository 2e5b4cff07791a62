"""Recorded responses in the loop of a chat: executed tools, requests to the model, and received events."""

from __future__ import annotations

import fnmatch
from collections import Counter
from typing import Final

import pytest

from .exchanges import ROOT, require_wire
from .listed import read_rows
from .loop import APIS, exchanges, problems, run_recorded

require_wire()

PAGE: Final = ROOT / "docs" / "differences-loop.md"
LISTED: Final = [(recording, where) for recording, where, _ in read_rows("Differences", PAGE)]


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_recorded_calls_run_once_and_texts_are_delivered_once(anyio_backend: str) -> None:
    assert anyio_backend
    alike, of, used = Counter[str](), Counter[str](), set[tuple[str, str]]()
    wrong: list[str] = []
    for item in exchanges():
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
    score = [[api, str(alike[api]), str(of[api])] for api in APIS]
    assert read_rows("Score", PAGE) == score, "\n".join([f"| {' | '.join(row)} |" for row in score])
