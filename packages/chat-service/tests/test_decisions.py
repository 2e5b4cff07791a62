"""Decisions that the API and WebSocket clients send."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from chat_core import ConflictError
from chat_core.approvals import Principal
from chat_inbox.http_errors import HTTPError
from chat_service import ServiceSettings
from chat_service.decisions import apply_decisions
from chat_service.runs import MessageRequest, Runs
from chat_store import MemoryStore, OpenConversation
from service_helpers import CALL, UNKNOWN_ID, build_context

pytestmark = pytest.mark.anyio
ANA = Principal("ana")
APPROVAL = {"id": CALL.id, "action": "approve", "arguments": {**CALL.arguments}}


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


@pytest.mark.parametrize(
    ("earlier", "refused"),
    [
        (APPROVAL, None),
        ({"id": CALL.id, "action": "reject"}, 409),
    ],
)
async def test_a_decision_that_arrives_at_the_same_time_as_another_is_accepted_if_they_are_equal(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch, earlier: dict[str, Any], refused: int | None
) -> None:
    context = build_context(store, ServiceSettings())
    async with store.open(UNKNOWN_ID, owner="ana") as conversation:
        conversation.messages.user("Pay Bo.")
        await context.engine.chat(context.flow).complete(conversation)
    read, requests = store.open, [earlier]

    @asynccontextmanager
    async def opened(id: str) -> AsyncGenerator[OpenConversation]:
        async with read(id) as conversation:
            if requests:
                await apply_decisions(context, Runs(context), ANA, id, [requests.pop()])
            yield conversation

    monkeypatch.setattr(store, "open", opened)
    status = None
    try:
        await apply_decisions(context, Runs(context), ANA, UNKNOWN_ID, [APPROVAL])
    except HTTPError as error:
        status = error.status

    (decision,) = (await store.load(UNKNOWN_ID)).messages.tool("call_1").decisions
    assert (status, decision.action) == (refused, earlier["action"])


async def test_a_decision_is_refused_if_the_session_changes_again_and_again(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = build_context(store, ServiceSettings())

    def opened(id: str) -> None:
        raise ConflictError(id)

    monkeypatch.setattr(store, "open", opened)
    with pytest.raises(HTTPError, match="at the same time") as refused:
        await apply_decisions(context, Runs(context), ANA, UNKNOWN_ID, [APPROVAL])

    assert refused.value.status == 409
