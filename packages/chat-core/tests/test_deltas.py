"""The events that a provider decodes."""

from __future__ import annotations

from typing import get_args

from chat_core import deltas, events
from chat_core.provider import Delta


def test_every_delta_is_a_progress_event_and_defined_in_one_module() -> None:
    kinds = get_args(Delta)

    assert [kind.__module__ for kind in kinds] == [deltas.__name__] * 5
    assert set(kinds) < set(get_args(events.ProgressEvent))
    assert all(getattr(events, kind.__name__) is kind for kind in kinds)
