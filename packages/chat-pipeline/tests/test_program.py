"""Limits of programs are checked when they are set."""

from __future__ import annotations

import math
from typing import Any

import pytest
from chat_core.errors import UsageError
from chat_pipeline import CodeLimits


@pytest.mark.parametrize(
    ("name", "value"),
    [
        pytest.param("calls", 0, id="zero"),
        pytest.param("seconds", math.inf, id="infinite"),
        pytest.param("memory_bytes", 1.5, id="fraction"),
        pytest.param("output_bytes", True, id="bool"),
        pytest.param("program_chars", "9", id="text"),
    ],
)
def test_an_invalid_limit_is_refused(name: str, value: Any) -> None:
    with pytest.raises(UsageError, match=rf"CodeLimits\({name}=...\) needs a finite"):
        CodeLimits(**{name: value})
