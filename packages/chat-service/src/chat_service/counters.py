"""`Counters`, the numbers of one process that its metrics report."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import final


@final
@dataclass(slots=True)
class Counters:
    """Numbers of one process since its start.

    Attributes:
        running: runs that workers execute now.
        ended: parts of runs that workers have ended, by final state.
        model_calls: responses of models.
        input_tokens: input tokens that models have reported.
        output_tokens: output tokens that models have reported.
        sockets: open WebSocket connections.
    """

    running: int = 0
    ended: Counter[str] = field(default_factory=Counter[str])
    model_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    sockets: int = 0
