"""Decisions that the API and WebSocket clients send."""

from __future__ import annotations

from typing import Any

import pytest
from chat_core.approvals import Principal
from chat_inbox.http_errors import HTTPError
from chat_service import ServiceSettings
from chat_service.decisions import apply_decisions
from chat_service.runs import MessageRequest, Runs
from chat_store import MemoryStore
from service_helpers import CALL, build_context

pytestmark = pytest.mark.anyio
ANA = Principal("ana")


@pytest.mark.parametrize(
    ("decisions", "status"),
    [
        (None, 400),
        ([], 400),
        ("approve", 400),
        ([{"id": CALL.id, "action": "dance"}], 400),
        ([{"id": "unknown", "action": "reject"}], 409),
    ],
)
async def test_malformed_decisions_and_unknown_calls_are_refused(
    store: MemoryStore, decisions: Any, status: int
) -> None:
    context = build_context(store, ServiceSettings())
    runs = Runs(context)
    run = await runs.start(MessageRequest(ANA, None, "Pay Bo.", "hash"))
    with pytest.raises(HTTPError) as refused:
        await apply_decisions(context, runs, ANA, run.session_id, decisions)

    assert refused.value.status == status
