"""Version 57cd8b0 reads documents with fields that were added later, keeps the fields, and runs no deferred call."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import timedelta
from typing import TypedDict, cast
from zipfile import ZipFile

import pytest
from chat_core import (
    ChatBuilder,
    Data,
    Defer,
    File,
    FunctionCall,
    Messages,
    ScopedCollection,
    ToolCollection,
    Usage,
)
from chat_core.messages import (
    Approved,
    Completed,
    Content,
    Decision,
    Failed,
    Grant,
    Interrupted,
    Pending,
    Recalled,
    RecalledNote,
    Rejected,
    Rewind,
    Running,
    Summary,
    Suspended,
    Text,
    Tool,
    ToolStatus,
    Turn,
    schema,
)
from chat_core.testing import ScriptedProvider
from chat_core.usage import Metadata

from .shop import NOON, SOON, STORED

Schema = dict[str, dict[str, dict[str, object]]]


class Reading(TypedDict):
    """What `v57cd8b0/read.py` reports about a document."""

    document: str
    expired: list[list[str]]
    approvals: list[str]
    runs: dict[str, str]
    ran: list[str]


def every_new_field() -> Messages:
    """Create a conversation with every field that documents did not have at 57cd8b0."""
    inner = Messages.from_user("Ask.")
    statuses: list[ToolStatus] = [
        Pending("approval", of="treasurer"),
        Pending("result", SOON, of="treasurer"),
        Approved(of="treasurer"),
        Running("a", inner=inner, write_ahead=True, of="treasurer"),
        Suspended(inner, of="treasurer"),
        Interrupted("a", expires_at=SOON, at=SOON, of="treasurer"),
        Completed(1, data=(Data("chart", [1], keep=True), Data("picture", File("image/png", b"1"), keep=True))),
        Completed(1, state={"room": "cellar"}),
        Failed("no", inner=inner),
        Rejected("no", "cancelled", started=Suspended(inner)),
    ]
    tools = [
        Tool(FunctionCall("measure"), status=status, decisions=(Decision("approve", grant="g1"),))
        for status in statuses
    ]
    tools[0].inner_usage = Usage(input_tokens=1)
    answer = Turn([Text("12"), *tools], metadata=Metadata(duration=0.5))
    answer.view_offset, answer.delivered, answer.failed_usage = 1, False, Usage(output_tokens=2)
    answer.failed_requests = 2
    notes = Recalled((RecalledNote("warm", "ana", NOON, 0.5, "n1"),))
    messages = Messages(
        [
            Content("user", [Turn([Text("How warm?")], state={"a": 1}, client_tools=[{"name": "f"}], client_id="c1")]),
            Content("model", [answer]),
            Content("user", [Turn([Summary("Warm.", 1, "d"), Rewind(1), notes], by="engine")]),
            Content("model", [Turn([Text("It is")], finish_reason="interrupted")]),
        ],
        state={"b": 2},
    )
    grant = Grant("g1", ("measure",), SOON, "ana", NOON, "treasurer", SOON, "ben")
    messages.grants.reset([grant])
    return messages


def fields_of(definitions: object) -> set[tuple[str, str]]:
    """Return the names of all fields in a JSON Schema, each with the name of its definition."""
    items = cast("Schema", definitions)
    return {(name, key) for name, item in items.items() for key in item.get("properties", {})}


def keys_of(value: object) -> set[str]:
    """Return the names of all fields in a JSON value."""
    if isinstance(value, list):
        return set[str]().union(*[keys_of(item) for item in cast("list[object]", value)])
    if not isinstance(value, dict):
        return set()
    items = cast("dict[str, object]", value)
    return set(items).union(*[keys_of(item) for item in items.values()])


def test_every_new_field_is_in_the_document_of_these_tests() -> None:
    with ZipFile(STORED / "chat_core.zip") as archive:
        earlier = json.loads(archive.read("chat_core/messages/conversation.schema.json"))
    new = fields_of(schema()["$defs"]) - fields_of(earlier["$defs"])

    keys = keys_of(json.loads(every_new_field().to_json()))

    assert len(new) > len(keys & {key for _, key in new}) > 25
    assert {field for field in new if field[1] not in keys} == set()


def deferring(expires_in: timedelta | None) -> Messages:
    """Create a conversation in which a call waits for a result."""
    tools = ToolCollection()

    @tools.tool
    async def measure(room: str) -> str:
        raise AssertionError(room)

    def policy(_call: FunctionCall, _meta: None) -> Defer:
        return Defer(expires_in=expires_in)

    script = ScriptedProvider(FunctionCall("measure", {"room": "cellar"}, id="call_1"))
    chat = ChatBuilder().with_model(script).with_scoped_tools(ScopedCollection(tools, policy)).build()
    messages = Messages.from_user("How warm is the cellar?")
    chat.blocking.complete(messages)
    return messages


CONVERSATIONS = {
    "every new field": every_new_field(),
    "deferred": deferring(None),
    "deferred for a day": deferring(timedelta(days=1)),
}


@pytest.fixture(scope="module")
def readings() -> dict[str, Reading]:
    """Read the conversations with version 57cd8b0 of this library."""
    documents = json.dumps([messages.to_json() for messages in CONVERSATIONS.values()])
    command = [sys.executable, str(STORED / "read.py")]
    done = subprocess.run(command, input=documents, stdout=subprocess.PIPE, text=True, check=True)
    return dict(zip(CONVERSATIONS, cast("list[Reading]", json.loads(done.stdout)), strict=True))


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_an_earlier_version_keeps_every_new_field(name: str, readings: dict[str, Reading]) -> None:
    messages, document = CONVERSATIONS[name], readings[name]["document"]

    assert json.loads(document) == json.loads(messages.to_json())
    assert Messages.from_json(document) == messages


@pytest.mark.parametrize("name", ["deferred", "deferred for a day"])
def test_an_earlier_version_neither_runs_nor_approves_a_deferred_call(name: str, readings: dict[str, Reading]) -> None:
    reading = readings[name]

    assert reading["approvals"] == ["IllegalTransition"]
    assert reading["runs"] == {"execute": "PendingTools", "approve": "Paused", "schedule": "Paused"}
    assert (reading["ran"], reading["expired"]) == ([], [])


@pytest.mark.parametrize("name", ["deferred", "deferred for a day"])
def test_a_deferred_call_of_the_first_form_loads_and_is_written_in_the_present_one(name: str) -> None:
    messages = CONVERSATIONS[name]
    document = json.loads(messages.to_json())
    tool = document["contents"][1]["turns"][0]["parts"][0]
    expires_at = tool["status"].get("result_expires_at")
    tool["status"] = {"type": "pending", "kind": "result", "expires_at": expires_at}

    again = Messages.from_json(json.dumps(document))

    assert again == messages
    assert again.to_json() == messages.to_json()
