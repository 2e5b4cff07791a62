"""Grants of a conversation: coverage, serialization and merging by stores."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import jsonschema
import pytest
from chat_core.errors import InvalidDocumentError
from chat_core.messages import Grant, Grants, Messages, schema
from hypothesis import given
from hypothesis import strategies as st

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
GRANT = Grant("g", ("clerk", "pay"), NOON, "ana", NOON - timedelta(hours=1), "cfo")
REVOKED = replace(GRANT, revoked_at=NOON, revoked_by="ben")


@pytest.mark.parametrize(
    ("grant", "tools", "now", "of", "covered"),
    [
        (GRANT, ("clerk", "pay"), NOON - timedelta(microseconds=1), (), True),
        (GRANT, ("clerk", "pay"), NOON, (), False),
        (GRANT, ("pay",), NOON - timedelta(hours=1), (), False),
        (GRANT, ("clerk", "pay"), NOON - timedelta(hours=1), ("cfo", None), True),
        (GRANT, ("clerk", "pay"), NOON - timedelta(hours=1), ("cfo", "ceo"), False),
        (REVOKED, ("clerk", "pay"), NOON - timedelta(hours=1), (), False),
    ],
)
def test_grant_covers_calls_of_its_tool_until_it_ends(
    grant: Grant, tools: tuple[str, ...], now: datetime, of: tuple[str | None, ...], *, covered: bool
) -> None:
    assert grant.covers(tools, now, *of) is covered
    assert grant.covers(tools, now, *of) == covered


def test_revoking_an_unknown_grant_raises_key_error() -> None:
    with pytest.raises(KeyError, match="the conversation has: g"):
        Grants([GRANT]).revoke("other")


def test_document_with_grants_matches_the_schema_and_keeps_unknown_fields() -> None:
    messages = Messages.from_user("hi")
    messages.grants.merge(replace(REVOKED, extra={"scope": "later"}))
    document = messages.to_json()
    jsonschema.validate(json.loads(document), schema())
    again = Messages.from_json(document)
    assert [*again.grants] == [*messages.grants]
    assert again.to_json() == document


def test_document_without_grants_has_no_grants_field() -> None:
    assert "grants" not in Messages.from_user("hi").to_json()


@pytest.mark.parametrize("broken", [{"tools": [1]}, {"until": "soon"}, {"by": None}])
def test_malformed_grant_in_a_document_raises_with_its_path(broken: dict[str, object]) -> None:
    document = json.dumps({"version": 1, "contents": [], "grants": [{**GRANT.to_dict(), **broken}]})
    with pytest.raises(InvalidDocumentError) as caught:
        Messages.from_json(document)
    assert caught.value.path.startswith(f"grants[0].{next(iter(broken))}")


@given(st.permutations([GRANT, REVOKED, GRANT, REVOKED]))
def test_merging_grants_in_any_order_keeps_a_revoked_grant_revoked(order: list[Grant]) -> None:
    grants = Grants()
    for grant in order:
        grants.merge(grant)
    assert [*grants] == [REVOKED]
