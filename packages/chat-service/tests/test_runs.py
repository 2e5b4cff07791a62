"""Ids of sessions, messages counted in their descriptions, and requests that wait."""

from __future__ import annotations

from dataclasses import replace

import anyio
import anyio.lowlevel
import pytest
from chat_core import ConflictError, Messages
from chat_core.approvals import Principal
from chat_inbox.http_errors import HTTPError
from chat_service import ServiceSettings
from chat_service.runs import MessageRequest, Runs, is_session_id, turn_count
from chat_store import MemoryStore
from service_helpers import UNKNOWN_ID, WAIT, build_context


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (UNKNOWN_ID, True),
        (UNKNOWN_ID.replace("-", ""), False),
        (UNKNOWN_ID.upper(), False),
        ("", False),
        ("../x", False),
    ],
)
def test_only_a_uuid_in_its_usual_form_is_a_session_id(text: str, expected: bool) -> None:
    assert is_session_id(text) is expected


def test_messages_of_the_user_are_counted() -> None:
    messages = Messages()
    messages.user("One.")
    messages.user("Two.")

    assert turn_count(messages) == {"turn_count": 2}


@pytest.mark.anyio
async def test_a_request_waits_for_a_change_after_a_conflict(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = build_context(store, ServiceSettings(poll_seconds=WAIT))
    runs, calls = Runs(context), list[object]()
    session_id = await store.create(Messages(), id=UNKNOWN_ID, owner="ana", meta={"flow": "clerk"})

    async def failing(id: str, *_: object, **__: object) -> None:
        calls.append(id)
        assert len(calls) < WAIT
        await anyio.lowlevel.checkpoint()
        raise ConflictError

    monkeypatch.setattr(store, "apply", failing)
    async with anyio.create_task_group() as group:
        group.start_soon(runs.start, MessageRequest(Principal("ana"), session_id, "Hello.", ""))
        await anyio.wait_all_tasks_blocked()
        group.cancel_scope.cancel()

    assert calls == [session_id]


@pytest.mark.anyio
async def test_only_requests_that_wait_are_queued(store: MemoryStore) -> None:
    runs = Runs(build_context(store, ServiceSettings(poll_seconds=WAIT)))
    session_id = await store.create(Messages(), id=UNKNOWN_ID, owner="ana", meta={"flow": "clerk"})
    first = MessageRequest(Principal("ana"), session_id, "Hello.", "", "k1")
    run = await runs.start(first)
    async with anyio.create_task_group() as group:
        group.start_soon(runs.start, replace(first, message="And now?", key=None))
        await anyio.wait_all_tasks_blocked()
        with anyio.fail_after(5):
            assert await runs.start(first) == run
            with pytest.raises(HTTPError, match="is active"):
                await runs.start(replace(first, message="Or now?", key=None, waits=False))
        group.cancel_scope.cancel()
