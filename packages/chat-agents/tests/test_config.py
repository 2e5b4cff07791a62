"""Settings of an engine."""

from __future__ import annotations

from typing import Any, cast

import pytest
from chat_agents import AgentConfig
from chat_core import Retry, UsageError


def test_five_rounds_and_a_closing_answer_are_the_defaults() -> None:
    config = AgentConfig()

    assert (config.max_tool_rounds, config.closing_answer, config.context) == (5, True, None)


@pytest.mark.parametrize("rounds", [-1, 1.5, "5", True])
def test_a_limit_that_is_no_whole_number_is_refused(rounds: object) -> None:
    with pytest.raises(UsageError, match="max_tool_rounds must be a whole number of at least 0"):
        AgentConfig(max_tool_rounds=cast("Any", rounds))


def test_retries_after_delivery_are_refused() -> None:
    with pytest.raises(UsageError, match="after_delivery=True"):
        AgentConfig(retry=Retry(after_delivery=True))
