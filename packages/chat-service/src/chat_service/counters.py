"""`Counters`, the counters of one process, which the metrics report."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import final


@final
@dataclass(slots=True)
class Counters:
    """Counters of one process since its start.

    Attributes:
        running: number of runs that workers are executing.
        ended: number of executed parts of runs, by final state.
        model_calls: number of model responses.
        input_tokens: input tokens that models have reported.
        output_tokens: output tokens that models have reported.
        sockets: number of open WebSocket connections.
    """

    running: int = 0
    ended: Counter[str] = field(default_factory=Counter[str])
    model_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    sockets: int = 0
