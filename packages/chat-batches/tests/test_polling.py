from __future__ import annotations

from chat_batches.polling import FIRST_DELAY, next_delay


def test_delays_double_from_30_to_300_seconds() -> None:
    delays = [FIRST_DELAY]
    for _ in range(5):
        delays.append(next_delay(delays[-1]))
    assert delays == [30, 60, 120, 240, 300, 300]
