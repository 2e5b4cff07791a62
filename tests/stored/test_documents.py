"""Documents that version 57cd8b0 wrote load, are written without changes, and resume."""

from __future__ import annotations

import json
from typing import cast

import pytest
from chat_core import Messages, Paused
from chat_core.approvals import expire
from chat_core.errors import ChatError
from chat_core.messages import schema
from jsonschema import Draft202012Validator

from .shop import ANSWERED, EXPECTED, KEYS, SOON, STORED, TOKENS, TOO_LATE, Shop, require_finished

pytestmark = pytest.mark.anyio

DOCUMENTS = {path.stem: path.read_bytes() for path in (STORED / "documents").glob("*.json")}
NAMES = sorted(DOCUMENTS)


def load(name: str) -> Messages:
    return Messages.from_json(DOCUMENTS[name])


def test_there_is_a_document_of_each_situation() -> None:
    assert set(DOCUMENTS) == set(EXPECTED) - {"overtaken", "torn"}


@pytest.mark.parametrize("name", NAMES)
def test_a_document_is_written_as_it_was(name: str) -> None:
    assert load(name).to_json().encode() == DOCUMENTS[name]


@pytest.mark.parametrize("name", NAMES)
def test_a_document_matches_the_schema(name: str) -> None:
    document = cast("str", json.loads(DOCUMENTS[name]))
    assert Draft202012Validator(schema()).is_valid(document)  # pyright: ignore[reportUnknownMemberType] - half typed there


@pytest.mark.parametrize("name", NAMES)
async def test_a_document_resumes_and_each_tool_runs_once(name: str) -> None:
    shop, messages = Shop(), load(name)

    await shop.finish(messages)

    shop.require(name)
    require_finished(Messages.from_json(messages.to_json()))


async def test_a_repeated_call_has_its_idempotency_key_again() -> None:
    shop, messages = Shop(), load("idempotent")
    key = messages.tool("note_1").idempotency_key

    await shop.finish(messages)

    assert shop.keys == [key]
    assert key


async def test_a_scheduled_call_waits_until_it_is_due() -> None:
    shop, messages = Shop(SOON), load("scheduled")

    outcome = await shop.chat.complete(messages)

    assert isinstance(outcome, Paused)
    assert [(wait.kind, wait.path) for wait in outcome.waiting] == [("schedule", ("remind_1",))]
    assert shop.runs == []


@pytest.mark.parametrize("name", ["approval", "nested"])
async def test_an_approval_after_its_deadline_becomes_a_rejection(name: str) -> None:
    shop, messages = Shop(TOO_LATE), load(name)
    paths = [path for _, path in EXPECTED[name].waits]
    assert expire(load(name), now=TOO_LATE) == paths

    await shop.finish(messages)

    assert shop.runs == []
    require_finished(messages)


def test_a_token_approves_once() -> None:
    messages = load("token")

    tool = KEYS.approve(TOKENS["documents/token"], "token", messages)

    assert tool.decisions[-1].by == "ana"
    with pytest.raises(ChatError) as refused:
        KEYS.approve(TOKENS["documents/token"], "token", messages)
    assert getattr(refused.value, "reason", None) == "used"


def test_a_token_that_was_used_is_refused() -> None:
    with pytest.raises(ChatError) as refused:
        KEYS.approve(TOKENS["documents/token_used"], "token_used", load("token_used"))
    assert getattr(refused.value, "reason", None) == "used"


@pytest.mark.parametrize("name", ANSWERED)
def test_nothing_waits_in_a_document_that_was_answered(name: str) -> None:
    assert load(name).pending() == []
