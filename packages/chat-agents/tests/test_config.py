"""Settings of an engine."""

from __future__ import annotations

from typing import Any, cast

import pytest
from chat_agents import AgentConfig
from chat_core import Retry, UsageError


def test_the_default_limit_is_five_tool_rounds_with_a_closing_answer() -> None:
    config = AgentConfig()

    assert (config.max_tool_rounds, config.closing_answer, config.context) == (5, True, None)


@pytest.mark.parametrize(
    ("rounds", "message"),
    [
        (-1, "max_tool_rounds must be at least 0, not -1"),
        *[(wrong, "max_tool_rounds must be a whole number") for wrong in (1.5, "5", True)],
    ],
)
def test_max_tool_rounds_must_be_a_whole_number(rounds: object, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        AgentConfig(max_tool_rounds=cast("Any", rounds))


def test_retries_after_delivery_are_refused() -> None:
    with pytest.raises(UsageError, match="after_delivery=True"):
        AgentConfig(retry=Retry(after_delivery=True))


def test_a_memory_needs_a_scope() -> None:
    with pytest.raises(UsageError, match="memory and memory_scope belong together"):
        AgentConfig(memory_scope=lambda context: context.owner)


@pytest.mark.parametrize("size", [999, -1, 5.5, "5", True])
def test_the_limit_of_results_must_be_a_whole_number(size: object) -> None:
    with pytest.raises(UsageError, match="max_result_bytes must be"):
        AgentConfig(max_result_bytes=cast("Any", size))
