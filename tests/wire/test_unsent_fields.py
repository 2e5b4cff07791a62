"""No request contains the state of a conversation, data for the application, or what the engine records about turns."""

from __future__ import annotations

from base64 import b64encode
from datetime import UTC, datetime

import pytest
from chat_core.messages import (
    APPLICATION,
    Completed,
    Content,
    Data,
    Decision,
    Failed,
    File,
    FunctionCall,
    Messages,
    Rejected,
    Role,
    Suspended,
    Text,
    Tool,
    ToolStatus,
    Turn,
    View,
)
from chat_core.usage import Metadata, Usage
from hypothesis import given, settings
from hypothesis import strategies as st

from .test_views import WIRES

UNSENT = "unsent-7f3a9c"
"""Text in every field that no request may contain."""
COUNT = 7_130_917
"""Number in every count that no request may contain."""
AT = datetime(1987, 6, 5, 4, 3, 21, tzinfo=UTC)
"""Time in every field that no request may contain."""
STATE = {UNSENT: [UNSENT]}
EXTRA = {"later": UNSENT}
DATA = (
    Data(UNSENT, {UNSENT: UNSENT}, keep=True),
    Data("file", File("text/plain", UNSENT.encode(), name=UNSENT), keep=True),
)
TRACES = [
    UNSENT.encode(),
    b64encode(UNSENT.encode()).rstrip(b"="),
    str(COUNT).encode(),
    b"1987-06-05",
    b"application",
    b"client_tools",
]
KINDS = ["state", "answer", "completed", "failed", "cancelled", "direct", "summary", "system"]


def inner() -> Messages:
    """Return the conversation of a chat used as a tool, in which one call has changed the state."""
    messages = Messages(state=STATE).user("inside", state=STATE)
    messages.append("model", Turn([tool(Completed("ok", extra=EXTRA, data=DATA, state=STATE), "inner")]))
    return messages


def tool(status: ToolStatus, tool_id: str) -> Tool:
    """Return a call with records of the engine in each field that has them."""
    decisions = (Decision("approve", UNSENT, AT, UNSENT, extra=EXTRA),)
    usage = Usage(COUNT, COUNT)
    return Tool(
        FunctionCall("look", {"at": 1}, extra=EXTRA),
        id=tool_id,
        status=status,
        decisions=decisions,
        idempotency_key=UNSENT,
        attempts=COUNT,
        revision=COUNT,
        inner_usage=usage,
        extra=EXTRA,
    )


def turn(parts: list[Text | Tool], provider: str, by: str | None = None, *, client: bool = False) -> Turn:
    """Return a turn with a state and with records of the engine in each field that has them."""
    metadata = Metadata(provider, UNSENT, None, UNSENT, Usage(COUNT, COUNT), EXTRA, EXTRA, float(COUNT))
    declared = [{"name": UNSENT, "description": UNSENT}] if client else []
    made = Turn(
        parts,
        finish_reason="tool_calls" if any(isinstance(part, Tool) for part in parts) else "stop",
        metadata=metadata,
        created_at=AT,
        by=by,
        state=STATE,
        client_tools=declared,
        client_id=UNSENT,
        extra=EXTRA,
    )
    made.failed_usage = Usage(COUNT, COUNT)
    made.delivered = True
    return made


def add_step(messages: Messages, kind: str, number: int, provider: str) -> None:
    tool_id = f"t{number}"
    statuses: dict[str, ToolStatus] = {
        "completed": Completed("x" * 3_000, extra=EXTRA, data=DATA, state=STATE),
        "failed": Failed("no", extra=EXTRA, inner=inner()),
        "cancelled": Rejected("stop", "cancelled", extra=EXTRA, started=Suspended(inner(), UNSENT, 1, extra=EXTRA)),
        "direct": Completed("ok", extra=EXTRA, data=DATA, state=STATE),
    }
    if kind in statuses:
        by = APPLICATION if kind == "direct" else None
        messages.append("model", turn([tool(statuses[kind], tool_id)], provider, by))
    elif kind == "summary":
        if offsets := messages.view().boundaries(summarized=True):
            messages.summarize(f"summary {number}", offsets[-1])
    else:
        roles: dict[str, Role] = {"state": "user", "answer": "model", "system": "system"}
        messages.append(roles[kind], turn([Text(f"text {number}")], provider, client=kind == "state"))


@pytest.mark.parametrize("wire", WIRES)
@given(
    kinds=st.lists(st.sampled_from(KINDS), max_size=12),
    provider=st.sampled_from(["anthropic", "openai", "google", "other"]),
    elide=st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_requests_contain_no_state_data_or_engine_records(
    wire: str, kinds: list[str], provider: str, elide: bool
) -> None:
    first = Content("user", [turn([Text("text 0")], provider, client=True)], extra=EXTRA)
    messages = Messages([first], state=STATE, extra=EXTRA)
    for number, kind in enumerate(kinds, 1):
        add_step(messages, kind, number, provider)
    if elide:
        calls = [item.id for _, live in messages.live_turns for item in live.tools]
        messages.choose_view(View(messages.view().offset, elided=calls))
    encode = WIRES[wire]

    for body in (encode(messages), encode(messages), encode(Messages.from_json(messages.to_json()))):
        assert b"text " in body
        assert [trace for trace in TRACES if trace in body] == []


def test_the_test_history_contains_everything_that_must_not_be_sent() -> None:
    messages = Messages(state=STATE)
    for number, kind in enumerate(KINDS):
        add_step(messages, kind, number, "openai")
    stored = messages.to_json().encode()

    assert [trace for trace in TRACES if trace not in stored] == []
