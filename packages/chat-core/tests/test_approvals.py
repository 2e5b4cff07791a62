"""Approval tokens: permitted decisions, and a refusal reason for each kind of misuse."""

from __future__ import annotations

import base64
import hmac
import json
import pickle
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import ParamSpec, cast, get_args

import pytest
from chat_core.approvals import (
    ApprovalChoice,
    ApprovalKeys,
    ApprovalRefusedError,
    BoundApproval,
    MayDecide,
    Principal,
    RefusalReason,
    expire,
    owner_may_decide,
)
from chat_core.errors import ChatError, UsageError
from chat_core.messages import (
    Approved,
    FunctionCall,
    Messages,
    Pending,
    Rejected,
    Tool,
    Turn,
    schema,
)
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
OLD, NEW = b"o" * 32, b"n" * 32
ARGUMENTS: Mapping[str, object] = {"to": "Maria", "cents": 4000}
ANA = "ana@example.com"
P = ParamSpec("P")


class Clock:
    def __init__(self) -> None:
        self.time = NOON

    def __call__(self) -> datetime:
        return self.time

    def advance(self, **by: float) -> None:
        self.time += timedelta(**by)


def call(id: str = "call_1", arguments: Mapping[str, object] = ARGUMENTS, name: str = "transfer") -> Tool:
    tool = Tool(FunctionCall(name, arguments), id=id)
    tool.await_approval(NOON + timedelta(hours=12))
    return tool


def waiting(*calls: Tool, at: datetime = NOON) -> Messages:
    messages = Messages.from_user("Please pay Maria 40 euros.")
    messages.append("model", Turn(calls or (call(),), finish_reason="tool_calls", created_at=at))
    return messages


def nested(*, outer: str = "outer", inner: str = "inner") -> Messages:
    agent = Tool(FunctionCall("ask_bank", {"request": "pay Maria"}), id=outer)
    agent.start(NOON)
    agent.suspend(waiting(call(inner)))
    return waiting(agent)


def keys(clock: Callable[[], datetime] = lambda: NOON) -> ApprovalKeys:
    return ApprovalKeys("new", {"new": NEW, "old": OLD}, may_decide=None, retired={"gone"}, now=clock)


def bound(messages: Messages, *path: str, person: str | None = None) -> str:
    return keys().bind("chat-1", messages, path or ("call_1",), person=person)


def refused(use: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> ApprovalRefusedError:
    with pytest.raises(ApprovalRefusedError) as caught:
        use(*args, **kwargs)
    return caught.value


def reason(use: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> RefusalReason:
    return refused(use, *args, **kwargs).reason


# --- Contents of a token -----------------------------------------------------------------------------------------


def test_a_token_approves_its_call_and_records_the_approver() -> None:
    messages = waiting()
    token = bound(messages, person=ANA)

    tool = keys().approve(token, "chat-1", messages, note="by mail")

    assert isinstance(tool.status, Approved)
    (decision,) = messages.tool("call_1").decisions
    assert (decision.action, decision.by, decision.note, decision.at) == ("approve", ANA, "by mail", NOON)
    assert decision.extra is not None
    assert decision.extra["token"] == keys().read(token).nonce


def test_a_token_rejects_its_call_with_a_reason() -> None:
    messages = waiting()

    tool = keys().reject(bound(messages), "chat-1", messages, "not this month", by="ben")

    assert tool.status == Rejected("not this month", "person")
    assert tool.decisions[0].by == "ben"


def test_reading_a_token_returns_its_claims_and_does_not_change_the_conversation() -> None:
    messages = waiting()
    before = messages.to_json()
    token = keys().bind("chat-1", messages, ("call_1",), allow=["approve"], edits=True, person=ANA)

    read = keys().read(token, conversation="chat-1", path=["call_1"])
    shown = keys().show(token, "chat-1", messages)

    nonce = read.nonce
    expected = BoundApproval(
        "chat-1", ("call_1",), frozenset(["approve"]), True, ANA, NOON, NOON + timedelta(hours=12), nonce
    )
    assert read == expected
    assert shown is messages.tool("call_1")
    assert messages.to_json() == before


def test_a_token_that_allows_edits_approves_changed_arguments() -> None:
    messages = waiting()
    token = keys().bind("chat-1", messages, ("call_1",), edits=True)

    tool = keys().approve(token, "chat-1", messages, arguments={"to": "Maria", "cents": 3500})

    assert tool.effective_arguments == {"to": "Maria", "cents": 3500}


def test_an_approval_with_equal_arguments_is_not_recorded_as_an_edit() -> None:
    messages = waiting()

    tool = keys().approve(bound(messages), "chat-1", messages, arguments={"cents": 4000, "to": "Maria"})

    assert tool.edited is None


def test_a_token_approves_a_call_of_an_inner_chat_by_its_path() -> None:
    messages = nested()
    token = bound(messages, "outer", "inner")

    keys().approve(token, "chat-1", messages)

    assert keys().read(token).path == ("outer", "inner")
    assert isinstance(messages.tool("outer", "inner").status, Approved)


def test_a_token_is_valid_after_its_conversation_is_stored_and_loaded() -> None:
    messages = nested()
    token = bound(messages, "outer", "inner")
    stored = Messages.from_json(Messages.from_json(messages.to_json()).to_json())

    keys().approve(token, "chat-1", stored)

    (decision,) = Messages.from_json(stored.to_json()).tool("outer", "inner").decisions
    assert decision.extra is not None
    assert decision.extra["token"] == keys().read(token).nonce


def test_a_document_with_a_used_token_conforms_to_the_schema() -> None:
    messages = waiting()
    keys().reject(bound(messages), "chat-1", messages, "no")

    assert Draft202012Validator(schema()).is_valid(json.loads(messages.to_json()))  # pyright: ignore[reportUnknownMemberType] - half typed there


def test_a_token_approves_a_scheduled_call_before_it_is_due() -> None:
    tool = Tool(FunctionCall("transfer", ARGUMENTS), id="call_1")
    tool.schedule(NOON + timedelta(days=3))
    messages = waiting(tool)

    keys().approve(bound(messages), "chat-1", messages)

    assert isinstance(tool.status, Approved)


def test_a_token_is_valid_after_its_call_is_set_to_wait_again() -> None:
    messages = waiting()
    token = bound(messages)

    messages.tool("call_1").await_approval(NOON + timedelta(days=9))  # as another run would do

    assert keys().show(token, "chat-1", messages)


def test_a_token_has_280_url_safe_characters() -> None:
    messages = waiting(call("call_V1StGXR8Z5jdHi6BmyT0sQwe"))
    token = keys().bind("0b5fb3a1f7a44cd9bd27b2f1ba6f3a5e", messages, ("call_V1StGXR8Z5jdHi6BmyT0sQwe",))

    assert re.fullmatch(r"[A-Za-z0-9._-]+", token)
    assert len(token) == 280


def test_a_token_contains_neither_arguments_nor_unkeyed_digests() -> None:
    messages = waiting()
    one, other = bound(messages), bound(messages)

    said = [json.loads(base64.urlsafe_b64decode(token.split(".")[2] + "==")) for token in (one, other)]

    assert "Maria" not in str(said)
    assert 4000 not in said[0]
    assert not {str(claim) for claim in said[0][5:8]} & {str(claim) for claim in said[1][5:8]}


# --- Keys ----------------------------------------------------------------------------------------------------------


def test_an_older_key_verifies_tokens_and_the_signing_key_signs_new_ones() -> None:
    messages = waiting()
    before = ApprovalKeys("old", {"old": OLD}, may_decide=None, now=lambda: NOON).bind("chat-1", messages, ["call_1"])

    assert keys().show(before, "chat-1", messages)
    assert bound(messages).startswith("ca1.new.")


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: ApprovalKeys("a", {"a": b"x" * 31}, may_decide=None), "31 bytes; at least 32"),
        (lambda: ApprovalKeys("a", {"a": cast("bytes", "x" * 32)}, may_decide=None), "must be bytes, not str"),
        (lambda: ApprovalKeys("b", {"a": OLD}, may_decide=None), r"signing must be a key ID in secrets \(a\), not 'b'"),
        (lambda: ApprovalKeys("b", {}, may_decide=None), "secrets is empty"),
        (lambda: ApprovalKeys("a.b", {"a.b": OLD}, may_decide=None), "letters, digits"),
        (lambda: ApprovalKeys("", {"": OLD}, may_decide=None), "letters, digits"),
        (lambda: ApprovalKeys("ä", {"ä": OLD}, may_decide=None), "letters, digits"),
        (lambda: ApprovalKeys("a", {"a": OLD}, may_decide=None, retired=["a"]), "key IDs that are not in secrets"),
        (lambda: ApprovalKeys("a", {"a": OLD}, may_decide=None, retired="a"), "key IDs that are not in secrets"),
        (lambda: ApprovalKeys("a", {"a": OLD}, may_decide=None, skew=-timedelta(seconds=1)), "at least zero"),
    ],
)
def test_invalid_approval_keys_raise_usage_error(make: Callable[[], object], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        make()


def test_secrets_are_in_no_repr_error_or_token() -> None:
    messages = waiting()
    token = bound(messages)
    error = refused(lambda: keys().read(token + "x"))

    assert repr(keys()) == "ApprovalKeys(signing='new', verifying=['new', 'old'])"
    for text in (repr(keys()), str(error), repr(error), token):
        assert "nnnn" not in text
        assert "oooo" not in text
    assert token.split(".")[2] not in str(error)


# --- Asking ----------------------------------------------------------------------------------------------------------


UNASKABLE: list[tuple[Callable[[Messages], object], str]] = [
    (lambda messages: keys().bind("c", messages, "call_1"), "path must be a tuple of IDs"),
    (lambda messages: keys().bind("c", messages, ()), "path must be a tuple of IDs"),
    (lambda messages: keys().bind("c", messages, ["call_1"], allow=()), "allow must contain"),
    (lambda messages: keys().bind("c", messages, ["call_1"], allow=cast("list[ApprovalChoice]", ["run"])), "'run'"),
    (
        lambda messages: keys().bind("c", messages, ["call_1"], allow=["reject"], edits=True),
        "requires 'approve' in allow",
    ),
    (lambda messages: keys().bind("c", messages, ["call_1"], expires_in=timedelta(0)), "must be positive"),
    (lambda messages: keys().bind("c", messages, ["call_1"], expires_in=timedelta.max), "end before the year 9999"),
    (lambda messages: keys().bind(cast("str", None), messages, ["call_1"]), "the ID of the stored conversation"),
    (lambda messages: keys().bind("c", messages, ["call_1"], person=cast("str", 7)), "person must be a string"),
    (lambda messages: keys().bind("c" * 4096, messages, ["call_1"]), "the IDs are too long"),
    (lambda messages: keys().bind("c", messages, ["done"]), "'done' is Rejected"),
    (lambda messages: keys().bind("c", messages, ["fresh"]), "'fresh' is Pending"),
]


@pytest.mark.parametrize(("bind", "says"), UNASKABLE)
def test_bind_refuses_invalid_arguments_and_calls_that_do_not_wait(
    bind: Callable[[Messages], object], says: str
) -> None:
    done = call("done")
    done.reject()
    messages = waiting(call(), done, Tool(FunctionCall("transfer", ARGUMENTS), id="fresh"))

    with pytest.raises(UsageError, match=re.escape(says)):
        bind(messages)


def test_bind_for_an_unknown_call_lists_the_known_calls() -> None:
    with pytest.raises(KeyError, match="call_1"):
        keys().bind("chat-1", waiting(), ["call_2"])


# --- Each way of misuse --------------------------------------------------------------------------------------------


def test_a_token_with_any_bit_flipped_is_refused() -> None:
    token = bound(waiting()).encode()
    for place in range(len(token)):
        for bit in range(8):
            damaged = bytearray(token)
            damaged[place] ^= 1 << bit
            why = reason(keys().read, damaged.decode("latin-1"))
            assert why in {"malformed", "version", "unknown_key", "forged"}, (place, bit)


def test_a_truncated_token_is_malformed() -> None:
    token = bound(waiting())

    found = {reason(keys().read, token[:end]) for end in range(len(token))}

    assert found == {"malformed"}


@given(st.text(max_size=300) | st.text("ca1.=-_AZ09", max_size=5000) | st.text("ca1.new", min_size=4000, max_size=6000))
def test_random_text_of_any_length_is_refused_as_a_token(garbage: str) -> None:
    for text in (garbage, f"ca1.new.{garbage}", f"ca1.new.{garbage}.{'A' * 43}"):
        assert reason(keys().read, text) in {
            "malformed", "version", "unknown_key", "retired_key", "forged"
        }  # fmt: skip


def test_a_token_with_a_line_break_or_non_ascii_characters_is_malformed() -> None:
    token = bound(waiting())

    for damaged in (
        token + "\n",
        "\ufeff" + token,
        token.replace("c", "\u0441", 1),
        token[:-1] + "\ud800",
        token + "\u0663",
    ):
        assert reason(keys().read, damaged) == "malformed"


def test_a_token_that_is_not_a_string_raises_usage_error() -> None:
    with pytest.raises(UsageError, match="a token must be a string, not None"):
        keys().read(cast("str", None))


def test_a_token_with_the_signature_of_another_token_is_forged() -> None:
    messages = waiting()
    one, other = bound(messages), bound(messages)

    assert reason(lambda: keys().read(f"{one.rpartition('.')[0]}.{other.rpartition('.')[2]}")) == "forged"


def test_a_token_with_the_id_of_another_key_is_forged() -> None:
    assert reason(lambda: keys().read(bound(waiting()).replace(".new.", ".old."))) == "forged"


def test_an_unknown_key_is_distinguished_from_a_retired_key() -> None:
    token = bound(waiting())

    assert reason(lambda: keys().read(token.replace(".new.", ".none."))) == "unknown_key"
    assert reason(lambda: keys().read(token.replace(".new.", ".gone."))) == "retired_key"


def test_the_error_for_a_token_of_a_later_version_suggests_an_upgrade() -> None:
    error = refused(lambda: keys().read(bound(waiting()).replace("ca1.", "ca2.")))

    assert error.reason == "version"
    assert "upgrade" in str(error)


WITH_MORE = ['["c",["t"],8,0,9000000000000,"n","c","a",1]', '["c",["t"],1,0,9000000000000,"n","c","a",1,"ana",1]']
"""Claims that a later version might add: a fourth flag and another claim."""


@pytest.mark.parametrize("claims", ["[]", '["a"]', "{}", "7", "null", "[1,2,3,4,5,6,7,8,9]", "no JSON", *WITH_MORE])
def test_a_correctly_signed_token_with_unexpected_claims_is_malformed(claims: str) -> None:
    signed = f"ca1.new.{unpadded(claims.encode())}"
    signature = hmac.digest(NEW, b"chat approval\0" + signed.encode(), "sha256")

    assert reason(keys().read, f"{signed}.{unpadded(signature)}") == "malformed"


def unpadded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def test_a_token_expires_after_expires_in() -> None:
    clock, messages = Clock(), waiting()
    token = keys(clock).bind("chat-1", messages, ["call_1"], expires_in=timedelta(hours=1))

    clock.advance(minutes=59, seconds=59)
    assert keys(clock).show(token, "chat-1", messages)
    clock.advance(seconds=1)
    assert reason(lambda: keys(clock).show(token, "chat-1", messages)) == "expired"
    assert reason(lambda: keys(clock).read(token)) == "expired"


def test_a_token_expires_no_later_than_the_wait_of_its_call() -> None:
    token = keys().bind("chat-1", waiting(), ["call_1"], expires_in=timedelta(days=30))

    assert keys().read(token).expires_at == NOON + timedelta(hours=12)


def test_a_token_is_valid_for_a_clock_that_is_at_most_a_minute_behind() -> None:
    clock, messages = Clock(), waiting()
    token = keys().bind("chat-1", messages, ["call_1"])

    clock.advance(seconds=-60)
    assert keys(clock).show(token, "chat-1", messages)
    clock.advance(seconds=-1)
    assert reason(lambda: keys(clock).read(token)) == "not_yet_valid"


def test_a_token_can_be_used_only_once() -> None:
    messages = waiting()
    token = bound(messages, person=ANA)
    keys().approve(token, "chat-1", messages)

    error = refused(lambda: keys().approve(token, "chat-1", messages))

    assert error.reason == "used"
    assert str(error) == "the token was already used: approve by ana@example.com at 2030-01-01T12:00:00+00:00"
    assert error.decision is messages.tool("call_1").decisions[0]
    assert reason(lambda: keys().reject(token, "chat-1", messages)) == "used"
    assert reason(lambda: keys().show(token, "chat-1", messages)) == "used"


def test_a_used_token_is_refused_after_its_call_has_completed() -> None:
    messages = waiting()
    token = bound(messages)
    tool = keys().approve(token, "chat-1", messages)
    tool.start(NOON)
    tool.complete("sent")

    stored = Messages.from_json(messages.to_json())

    assert reason(lambda: keys().approve(token, "chat-1", stored)) == "used"


def test_the_second_of_two_tokens_for_a_call_is_refused_as_decided() -> None:
    messages = waiting()
    mine, yours = bound(messages), bound(messages)
    keys().reject(mine, "chat-1", messages, by="ben")

    error = refused(lambda: keys().approve(yours, "chat-1", messages))

    assert error.reason == "decided"
    assert str(error) == "the call 'call_1' is no longer waiting: reject by ben at 2030-01-01T12:00:00+00:00"
    assert error.decision is not None


def test_a_token_cannot_reject_a_call_that_is_already_approved() -> None:
    messages = waiting()
    token = bound(messages)
    messages.tool("call_1").approve(by="ben", at=NOON)

    assert reason(lambda: keys().reject(token, "chat-1", messages)) == "decided"
    assert isinstance(messages.tool("call_1").status, Approved)


def test_a_token_is_refused_as_decided_if_its_call_started_without_approval() -> None:
    messages = waiting()
    token = bound(messages)
    messages.tool("call_1").start(NOON)

    error = refused(lambda: keys().approve(token, "chat-1", messages))

    assert (error.reason, error.decision) == ("decided", None)
    assert "its status is Running" in str(error)


def test_a_token_is_refused_in_another_conversation() -> None:
    messages = waiting()
    token = bound(messages)

    assert reason(lambda: keys().approve(token, "chat-2", messages)) == "conversation"
    assert reason(lambda: keys().read(token, conversation="chat-2")) == "conversation"
    assert isinstance(messages.tool("call_1").status, Pending)


def test_a_token_is_refused_in_a_new_conversation_with_the_same_id() -> None:
    token = bound(waiting())

    assert reason(lambda: keys().approve(token, "chat-1", waiting(at=NOON + timedelta(seconds=1)))) == "call"


def test_a_token_is_refused_for_another_call() -> None:
    messages = waiting(call("call_1"), call("call_2"))
    token = bound(messages, "call_1")

    assert reason(lambda: keys().read(token, path=["call_2"])) == "call"
    keys().approve(token, "chat-1", messages)
    assert isinstance(messages.tool("call_2").status, Pending)


def test_a_token_is_invalid_if_its_call_id_is_unknown_or_of_another_tool() -> None:
    token = bound(waiting())

    assert reason(lambda: keys().approve(token, "chat-1", waiting(call(name="delete")))) == "call"
    assert reason(lambda: keys().approve(token, "chat-1", waiting(call("call_2")))) == "call"
    assert reason(lambda: keys().approve(token, "chat-1", Messages())) == "call"


def test_a_token_is_refused_for_another_nested_path() -> None:
    token = bound(nested(), "outer", "inner")

    assert reason(lambda: keys().read(token, path=["inner"])) == "call"
    assert reason(lambda: keys().read(token, path=["other", "inner"])) == "call"
    for elsewhere in (nested(outer="other"), nested(inner="other"), waiting(call("inner")), waiting(call("outer"))):
        assert reason(keys().approve, token, "chat-1", elsewhere) == "call"


@pytest.mark.parametrize("arguments", [{"to": "Maria", "cents": 4001}, {"to": "Maria", "cents": 4000.0}, {}])
def test_a_token_is_refused_if_the_arguments_of_its_call_changed(arguments: Mapping[str, object]) -> None:
    token = bound(waiting())

    assert reason(lambda: keys().approve(token, "chat-1", waiting(call(arguments=arguments)))) == "arguments"


def test_an_edit_that_is_reconsidered_invalidates_older_tokens() -> None:
    messages = waiting()
    first, second = bound(messages), keys().bind("chat-1", messages, ["call_1"], edits=True)
    tool = keys().approve(second, "chat-1", messages, arguments={"to": "Maria", "cents": -1})
    tool.reconsider("cents must be positive")

    assert reason(lambda: keys().approve(first, "chat-1", messages)) == "arguments"
    assert reason(lambda: keys().approve(second, "chat-1", messages)) == "used"
    assert keys().approve(bound(messages), "chat-1", messages).decisions[-1].action == "approve"


def test_a_reconsidered_call_with_equal_arguments_invalidates_older_tokens() -> None:
    messages = waiting()
    token = bound(messages)
    tool = messages.tool("call_1")
    tool.approve(arguments=ARGUMENTS, by="ben", at=NOON)
    tool.reconsider()

    assert reason(lambda: keys().approve(token, "chat-1", messages)) == "reconsidered"
    tool.schedule(NOON + timedelta(days=1))
    error = refused(lambda: keys().approve(token, "chat-1", messages))
    assert error.reason == "reconsidered"
    assert error.decision is tool.decisions[0]


def test_an_expired_call_is_distinguished_from_an_expired_token() -> None:
    messages = waiting()
    token = bound(messages)
    assert expire(messages, now=NOON + timedelta(hours=12)) == [("call_1",)]

    error = refused(lambda: keys().approve(token, "chat-1", messages))

    assert error.reason == "call_expired"
    assert "nobody approved it before 2030-01-02T00:00:00+00:00" in str(error)


def test_a_token_neither_approves_nor_rejects_an_expired_call() -> None:
    tool = Tool(FunctionCall("transfer", ARGUMENTS), id="call_1")
    tool.await_approval(NOON + timedelta(microseconds=1500))
    messages, clock = waiting(tool), Clock()
    token = bound(messages)
    assert keys(clock).show(token, "chat-1", messages)
    tool.adopt(tool.with_status(Pending("approval", NOON)))  # a token of milliseconds, and a wait of less

    assert reason(lambda: keys(clock).approve(token, "chat-1", messages)) == "call_expired"
    assert reason(lambda: keys(clock).reject(token, "chat-1", messages)) == "call_expired"


def test_a_token_makes_only_the_decisions_that_it_allows() -> None:
    messages = waiting()
    yes = keys().bind("chat-1", messages, ["call_1"], allow=["approve"])
    no = keys().bind("chat-1", messages, ["call_1"], allow=["reject"])

    assert reason(lambda: keys().reject(yes, "chat-1", messages)) == "decision"
    assert reason(lambda: keys().approve(no, "chat-1", messages)) == "decision"
    assert isinstance(messages.tool("call_1").status, Pending)


@pytest.mark.parametrize("edit", [{"to": "Maria", "cents": 3500}, {"cents": 4000}, {"to": "Maria", "cents": True}])
def test_an_edit_is_refused_if_the_token_does_not_allow_edits(edit: Mapping[str, object]) -> None:
    messages = waiting()
    token = bound(messages)

    assert reason(lambda: keys().approve(token, "chat-1", messages, arguments=edit)) == "edit"
    assert keys().show(token, "chat-1", messages).edited is None


def test_arguments_that_are_not_json_raise_usage_error_and_keep_the_token_valid() -> None:
    messages = waiting()
    token = keys().bind("chat-1", messages, ["call_1"], edits=True)

    with pytest.raises(UsageError, match="arguments must be JSON"):
        keys().approve(token, "chat-1", messages, arguments={"cents": float("nan")})
    assert keys().show(token, "chat-1", messages)


def test_a_token_for_one_approver_is_refused_for_another() -> None:
    messages = waiting()
    token = bound(messages, person=ANA)

    assert reason(lambda: keys().approve(token, "chat-1", messages, by="ben@example.com")) == "person"
    assert reason(lambda: keys().show(token, "chat-1", messages, by="ANA@example.com")) == "person"
    assert keys().approve(token, "chat-1", messages, by=ANA).decisions[0].by == ANA


@given(conversation=st.text(max_size=40), id=st.text(min_size=1, max_size=40), person=st.none() | st.text(max_size=40))
def test_any_text_is_a_valid_conversation_call_or_approver_id(conversation: str, id: str, person: str | None) -> None:
    messages = waiting(call(id, {"né": "\ud83d\udca1", "∞": [id]}))
    token = keys().bind(conversation, messages, [id], person=person)

    read = keys().read(token)
    tool = keys().approve(token, conversation, messages)

    assert (read.conversation, read.path, read.person) == (conversation, (id,), person)
    assert tool.decisions[0].by == person


def test_a_lone_surrogate_is_valid_in_ids_and_arguments() -> None:
    messages = waiting(call("\ud83d", {"\udca1": "\ud83d"}))
    token = keys().bind("\udca1", messages, ["\ud83d"])

    assert keys().approve(token, "\udca1", messages)


def test_a_pickled_approval_error_keeps_its_reason_and_decision() -> None:
    messages = waiting()
    token = bound(messages)
    keys().approve(token, "chat-1", messages, by=ANA)
    error = refused(lambda: keys().read(token, path=["x"]))
    used = refused(lambda: keys().show(token, "chat-1", messages))

    again = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own
    assert isinstance(error, ChatError)
    assert (str(again), again.reason, again.decision) == (str(error), "call", None)
    assert pickle.loads(pickle.dumps(used)).decision == used.decision  # noqa: S301 - our own


def test_every_refusal_reason_is_tested_in_this_file() -> None:
    text = Path(__file__).read_text(encoding="utf-8")

    assert [why for why in get_args(RefusalReason) if text.count(f'"{why}"') < 1] == []


def ruled(may_decide: MayDecide | None) -> ApprovalKeys:
    return ApprovalKeys("new", {"new": NEW}, may_decide=may_decide, now=lambda: NOON)


def test_approval_keys_require_a_may_decide_rule() -> None:
    with pytest.raises(TypeError, match="may_decide"):
        ApprovalKeys("new", {"new": NEW})  # type: ignore[call-arg] # pyright: ignore[reportCallIssue] - wrong on purpose
    with pytest.raises(UsageError, match="may_decide must be"):
        ruled(cast("MayDecide", "owner"))


@pytest.mark.parametrize(
    ("person", "by", "owner", "allowed"),
    [
        (ANA, None, ANA, True),
        (None, ANA, ANA, True),
        (None, Principal(ANA), ANA, True),
        (None, None, ANA, False),
        ("ben", None, ANA, False),
        (ANA, None, None, False),
    ],
)
def test_the_may_decide_rule_is_checked_at_each_use_of_a_token(
    person: str | None, by: str | Principal | None, owner: str | None, *, allowed: bool
) -> None:
    keys, messages = ruled(owner_may_decide), waiting()
    token = keys.bind("chat-1", messages, ["call_1"], person=person)
    if allowed:
        assert keys.show(token, "chat-1", messages, by=by, owner=owner)
        keys.approve(token, "chat-1", messages, by=by, owner=owner)
        assert messages.tool("call_1").decisions[0].by == ANA
        return
    for use in (keys.show, keys.approve, keys.reject):
        assert reason(use, token, "chat-1", messages, by=by, owner=owner) == "permission"
    assert isinstance(messages.tool("call_1").status, Pending)


def test_a_token_decides_a_reserved_call_only_for_the_approver() -> None:
    tool = Tool(FunctionCall("transfer", ARGUMENTS), id="call_1")
    tool.await_approval(of="cfo")
    keys, messages = ruled(None), waiting(tool)
    anybody = keys.bind("chat-1", messages, ["call_1"])
    assert reason(keys.approve, anybody, "chat-1", messages) == "permission"
    assert reason(keys.approve, anybody, "chat-1", messages, by=ANA) == "permission"
    keys.approve(anybody, "chat-1", messages, by=Principal(ANA, frozenset({"cfo"})))
    assert isinstance(messages.tool("call_1").status, Approved)
