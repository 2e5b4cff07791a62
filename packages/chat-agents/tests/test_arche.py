"""Session documents of arche and senno."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from agent_helpers import Desk, call_find, call_pay, collect, new_engine, short
from chat_agents import AgentSession, export_arche, import_arche
from chat_core import File, InvalidDocumentError, Messages, Opaque, Reasoning, Text, Turn, UsageError
from chat_store import MemoryStore

pytestmark = pytest.mark.anyio

TOKENS = {
    "calls": 2, "compactions": 0, "unmetered_calls": 0, "input_tokens": 300, "cached_input_tokens": 0,
    "output_tokens": 60, "reasoning_tokens": 40, "total_tokens": 400,
}  # fmt: skip
NO_TOKENS = dict.fromkeys(TOKENS, 0)


def document(*messages: dict[str, object], **changes: object) -> dict[str, Any]:
    return {
        "id": "s-1",
        "flow": "desk",
        "messages": list(messages),
        "metadata": {},
        "usage": {"turns": 0, "totals": NO_TOKENS, "by_model": {}},
        "created_at": "2026-01-02T03:04:05.678901+00:00",
        "last_active": "2026-01-02T03:05:00+00:00",
        **changes,
    }


USER: dict[str, object] = {"kind": "user", "content": "Where is P1?"}
ASSISTANT: dict[str, object] = {"kind": "assistant", "content": "In Utrecht."}


def call(id: str = "c1", args: object = None, **more: object) -> dict[str, object]:
    return {"kind": "tool_call", "id": id, "name": "find", "args": {"parcel": "P1"} if args is None else args, **more}


def result(id: str = "c1", content: str = "P1 is in Utrecht") -> dict[str, object]:
    return {"kind": "tool_result", "tool_call_id": id, "name": "find", "content": content}


DOCUMENTS = {
    "empty": document(),
    "one message": document(USER),
    "an answer": document(USER, ASSISTANT, USER, ASSISTANT),
    "a call": document(USER, call(), result(), ASSISTANT),
    "text stored after its calls": document(USER, call("a"), result("a"), call("b"), result("b"), ASSISTANT),
    "a failed call": document(USER, call(), result(content="Error executing find: not found"), ASSISTANT),
    "a repeated id": document(USER, call(), result(), call(), result(content="again"), ASSISTANT),
    "a history that begins with a call": document(call(), result(), ASSISTANT),
    "a summary": document({"kind": "assistant", "content": "[Prior conversation summary]\nThey talked."}, USER),
    "a signature": document(USER, call(thought_signature="c2ln"), result()),
    "odd ids and arguments": document(USER, call("ü/'\"", [1, 2]), result("ü/'\"", ""), call("n", "text"), result("n")),
    "metadata and usage": document(
        USER, ASSISTANT, metadata={"cart": {"items": [1]}},
        usage={"turns": 2, "totals": TOKENS, "by_model": {"m": TOKENS}},
    ),
    "unknown fields": document(USER, theme="dark"),
    "unknown fields of messages": document(
        {**USER, "lang": "en", "text": None, "type": 5}, call(title="Find"),
        {**result(), "ms": 3}, {**ASSISTANT, "model": {"name": "m"}}, call(thought_signature=None), result(),
    ),
    "a result of another name": document(USER, call(), {**result(), "name": "find_v2"}, ASSISTANT),
    "results in another order": document(USER, call("a"), call("b"), result("b"), result("a"), ASSISTANT),
    "a result after a message": document(USER, call("a"), USER, call("b"), result("b"), ASSISTANT, result("a")),
}  # fmt: skip


@pytest.mark.parametrize("name", DOCUMENTS)
def test_an_arche_document_is_imported_and_exported_without_loss(name: str) -> None:
    session = import_arche(json.dumps(DOCUMENTS[name]))

    assert json.loads(export_arche(session)) == DOCUMENTS[name]
    assert json.loads(export_arche(AgentSession.from_json(session.to_json()))) == DOCUMENTS[name]


@pytest.mark.parametrize("name", [name for name in DOCUMENTS if name != "empty"])
async def test_an_imported_session_runs(name: str) -> None:
    session = import_arche(json.dumps(DOCUMENTS[name]))
    engine, provider = new_engine(call_find("P9"), "found")

    events = short(await collect(engine, Desk(), session, "And P9?"))

    assert events[-2:] == ["text found", "done answered"]
    assert len(provider.asked[0].turns) == len(session.messages.live_turns) - 2


def test_results_in_any_order_are_exported_in_the_same_order() -> None:
    draw = random.Random(3)
    for _ in range(200):
        names = [f"c{number}" for number in range(draw.randint(1, 6))]
        later = draw.sample(names, len(names))
        items: list[dict[str, object]] = [USER, *map(call, names)]
        for name in later:
            items.insert(draw.randint(items.index(call(name)) + 1, len(items)), result(name))
        given = document(*items)

        session = import_arche(json.dumps(given))

        assert json.loads(export_arche(session)) == given
        assert [tool.id for content in session.messages for tool in content.tools] == names


async def test_messages_after_an_import_are_exported_after_its_results() -> None:
    given = document(USER, call("a"), call("b"), result("b"), result("a"))
    session = import_arche(json.dumps(given))
    session.messages.rewind(2)  # the second call and its result
    engine, _ = new_engine(call_find("P9"), "found")
    await collect(engine, Desk(), session, "And P9?")

    exported = json.loads(export_arche(session))["messages"]

    ids = [item.get("id") or item.get("tool_call_id") for item in exported if item["kind"].startswith("tool")]
    assert sorted(ids) == ["a", "a", "find_P9", "find_P9"]


async def test_an_imported_session_can_be_stored() -> None:
    session = import_arche(json.dumps(DOCUMENTS["metadata and usage"]))
    async with MemoryStore() as store:
        stored = await session.copy_to(store)
        engine, _ = new_engine("ok")
        await collect(engine, Desk(), stored, "More?")
        again = await AgentSession.open(store, "s-1", flow="desk")

    assert again.usage == stored.usage
    assert (again.usage.turns, again.usage.totals.calls, again.usage.totals.total_tokens) == (3, 3, 415)
    assert dict(again.state) == {"cart": {"items": [1]}}


@pytest.mark.parametrize("name", DOCUMENTS)
async def test_a_stored_copy_of_an_import_is_exported_without_loss(name: str) -> None:
    given = {**DOCUMENTS[name], "tenant": {"id": 7}}
    async with MemoryStore() as store:
        stored = await import_arche(json.dumps(given)).copy_to(store)
        exported = json.loads(export_arche(stored))
        again = await AgentSession.open(store, stored.id, flow=stored.flow)
        assert json.loads(export_arche(again)) == exported

    exported["last_active"] = given["last_active"]  # a stored session has the time of the last write
    assert exported == given


def test_an_arche_document_without_usage_has_no_usage() -> None:
    fields = document(USER, ASSISTANT)
    del fields["usage"]

    session = import_arche(json.dumps(fields))

    assert (session.usage.turns, session.usage.totals.calls) == (0, 0)


def test_times_with_offsets_and_nanoseconds_are_imported() -> None:
    session = import_arche(
        json.dumps(document(created_at="2026-01-02T08:34:05.123456789+05:30", last_active="2026-01-02T03:04:06Z"))
    )

    assert session.created_at.isoformat() == "2026-01-02T03:04:05.123456+00:00"
    assert session.last_active.isoformat() == "2026-01-02T03:04:06+00:00"


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        (document({"kind": "system", "content": "x"}), r"messages\[0\]\.kind"),
        (document({"content": "x"}), r"messages\[0\]\.kind"),
        (document(USER, call()), r"messages\[1\]"),
        (document(USER, result()), r"messages\[1\]"),
        (document(USER, result(), call()), r"messages\[1\]"),
        (document({"kind": "user"}), r"messages\[0\]\.content"),
        (document(metadata=[]), "metadata"),
        (document(messages={}), "messages"),
        (document(messages=[5]), r"messages\[0\]\.kind"),
        (document(usage=5), "usage"),
        (document(created_at="today"), "created_at"),
        (document(id=""), "id"),
    ],
)
def test_a_malformed_arche_document_is_refused_with_the_path(fields: dict[str, object], path: str) -> None:
    with pytest.raises(InvalidDocumentError, match=path):
        import_arche(json.dumps(fields))


async def test_text_and_calls_are_exported_in_the_order_of_the_model() -> None:
    engine, _ = new_engine(["Let me see. ", call_find("A"), call_find("B")], [Reasoning("hm"), "Found."])
    session = AgentSession("s", flow="desk")
    await collect(engine, Desk(), session, "go")

    exported = json.loads(export_arche(session))

    kinds = [item["kind"] for item in exported["messages"]]
    assert kinds == ["user", "assistant", "tool_call", "tool_result", "tool_call", "tool_result", "assistant"]
    assert exported["metadata"] == {"last": "B"}
    assert exported["usage"]["totals"]["calls"] == 2


def test_a_thought_signature_is_imported_for_gemini() -> None:
    session = import_arche(json.dumps(DOCUMENTS["a signature"]))

    tool = session.messages[1].tools[0]
    assert tool.call.opaque == Opaque("gemini", {"thoughtSignature": "c2ln"})


async def test_exporting_what_arche_cannot_express_is_refused() -> None:
    with pytest.raises(UsageError, match="File parts of user turns cannot be exported"):
        export_arche(AgentSession(flow="desk", messages=Messages.from_user(File("image/png", b"x"))))
    with pytest.raises(UsageError, match="Text parts of system turns cannot be exported"):
        export_arche(AgentSession(flow="desk", messages=Messages.from_system("be nice")))

    engine, _ = new_engine(call_pay())
    session = AgentSession(flow="desk")
    await collect(engine, Desk(), session, "go")
    with pytest.raises(UsageError, match="cannot export calls without results: pay_5"):
        export_arche(session)

    messages = Messages.from_user("go")
    messages.append("user", Turn([Text("[The agent has finished.]")], by="engine", extra={"delegation": {}}))
    with pytest.raises(UsageError, match="cannot express the result of a background agent"):
        export_arche(AgentSession(flow="desk", messages=messages))

    messages = Messages.from_user("go")
    messages.append("model", Turn([Text("hi")]))
    assert json.loads(export_arche(AgentSession(flow="desk", messages=messages)))["messages"][1]["content"] == "hi"
