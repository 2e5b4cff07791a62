"""Approvals that travel: a token in a link or in a chat message, which decides one call, as it was shown, once.

    token = keys.bind(conversation.id, conversation.messages, wait.path, person="ana@example.com")    # who asks

    approval = keys.read(token)                                                                       # who is answered
    async with store.open(approval.conversation) as conversation:
        await keys.redeem(token, conversation, "approve")

A token says which call of which conversation it is about, what may be decided, by whom, and until when. It holds the
call to what it was: two keyed digests, of the call and of the arguments that will run, and its revision; one
transition, and the token is about something that is not there any more. All of it is under an HMAC with SHA-256. That
is what makes it work once, too: a decision moves the call on, durably and for everybody, and is itself the record that
the token was used. There is no list of used tokens to keep.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from secrets import token_urlsafe
from typing import Final, Protocol, final

from chat_core.approvals.expiry import is_overdue, isoformat
from chat_core.approvals.tokens import (
    ApprovalChoice,
    ApprovalRefusedError,
    BoundApproval,
    Signed,
    create_seal,
    equal_as_json,
    read_token,
    require_allow,
    require_key,
    require_names,
    write_token,
)
from chat_core.errors import ConflictError, UsageError
from chat_core.messages import Decision, Messages, Pending, Rejected, Tool


class SavedConversation(Protocol):
    """An open conversation that can write what was decided: of a store, or a `FileConversation`."""

    @property
    def id(self) -> str:
        """Names the conversation."""
        ...

    @property
    def messages(self) -> Messages:
        """The conversation, as this process knows it."""
        ...

    async def save(self) -> None:
        """Write what was decided.

        Raises:
            ConflictError: a call was decided elsewhere, and is in `messages` as it stands there.
        """
        ...


_LATEST_EXPIRY: Final = datetime(9999, 1, 1, tzinfo=UTC)


def _utc_now() -> datetime:
    return datetime.now(UTC)


@final
class ApprovalKeys:
    """The keys that sign tokens, and all that is done with tokens. Immutable, and safe to share between threads.

    To rotate: add a key, sign with it, and when the last token of the old one has expired, move that to the `retired`.
    """

    __slots__ = ("_now", "_retired", "_secrets", "_signing", "_skew")

    def __init__(
        self,
        signing: str,
        secrets: Mapping[str, bytes],
        *,
        retired: Collection[str] = (),
        skew: timedelta = timedelta(minutes=1),
        now: Callable[[], datetime] = _utc_now,
    ) -> None:
        """Keys by their ids, which stand in the tokens.

        Args:
            signing: the id of the key that signs new tokens.
            secrets: every key that is good for verifying, the signing one too; `secrets.token_bytes(32)` makes one.
            retired: ids of keys that were good once, so that their tokens are told from forged ones.
            skew: how far the clock of the machine that signs may be ahead of this one's.
            now: the clock, with a zone.

        Raises:
            UsageError: a secret has less than 32 bytes, or an id is none, not there, or retired and there.
        """
        for key, secret in secrets.items():
            require_key(key, secret)
        if signing not in secrets:
            msg = f"the signing key {signing!r} is not among the secrets: {', '.join(secrets) or 'there are none'}"
            raise UsageError(msg)
        if isinstance(retired, str) or not secrets.keys().isdisjoint(retired):
            msg = f"retired has the ids of keys that have no secret any more, not {retired!r}"
            raise UsageError(msg)
        if skew < timedelta(0):
            msg = f"skew is how far a clock may be ahead, not {skew!r}"
            raise UsageError(msg)
        self._signing = signing
        self._secrets = dict(secrets)
        self._retired = frozenset(retired)
        self._skew = skew
        self._now = now

    def __repr__(self) -> str:
        return f"ApprovalKeys(signing={self._signing!r}, verifying={sorted(self._secrets)!r})"

    # --- Who asks ----------------------------------------------------------------------------------------------

    def bind(
        self,
        conversation: str,
        messages: Messages,
        path: Sequence[str],
        *,
        allow: Collection[ApprovalChoice] = ("approve", "reject"),
        edits: bool = False,
        person: str | None = None,
        expires_in: timedelta = timedelta(days=1),
    ) -> str:
        """A token that decides about a call that waits, as it stands now. It never outlives the call's own terms.

        Whoever holds it may decide, so it goes to one person, on a way that others do not see. It can be read: the ids
        and the person are in it, the arguments are not. Where the page that takes it knows who is there, `person` holds
        it to them.

        Args:
            conversation: the id under which the conversation is stored.
            messages: the conversation; of a store, `(await store.load(id)).messages`.
            path: leads to the call, as `wait.path` does.
            allow: what may be decided.
            edits: whether an approval may change the arguments.
            person: who decides; their name is recorded with the decision.
            expires_in: how long the token is good for.

        Raises:
            KeyError: there is no such call.
            UsageError: the call does not wait, nothing is allowed, the conversation has no id, or the token would have
                more than 4,096 characters.
        """
        require_names(conversation, person)
        if isinstance(path, str) or not path:
            msg = f"a path is a tuple of ids, as wait.path is, not {path!r}"
            raise UsageError(msg)
        require_allow(allow, edits=edits)
        tool, now = messages.tool(*path), self._now()
        if not timedelta(0) < expires_in <= _LATEST_EXPIRY - now:
            msg = f"expires_in must be more than nothing and end before the year 9999, not {expires_in!r}"
            raise UsageError(msg)
        status = tool.status
        if not isinstance(status, Pending) or status.kind is None:
            msg = f"bind() needs a call that waits for an approval or a time; {tool.id!r} is {type(status).__name__}"
            raise UsageError(msg)
        until = now + expires_in
        if status.expires_at is not None:
            until = min(until, status.expires_at)
        nonce, secret = token_urlsafe(12), self._secrets[self._signing]
        approval = BoundApproval(conversation, tuple(path), frozenset(allow), edits, person, now, until, nonce)
        return write_token(approval, create_seal(messages, path, tool, nonce, secret), self._signing, secret)

    # --- Who is answered ---------------------------------------------------------------------------------------

    def read(self, token: str, *, conversation: str | None = None, path: Sequence[str] | None = None) -> BoundApproval:
        """What a token says, and so where its conversation is. Nothing is decided.

        Args:
            token: what came back.
            conversation: what the page is about that it came back to, where the page knows without it.
            path: the call that the page is about, likewise.

        Raises:
            ApprovalRefusedError: it is damaged, forged, out of its time, or about something else.
        """
        approval = self._read(token).approval
        if conversation is not None:
            _require_conversation(approval, conversation)
        if path is not None and approval.path != tuple(path):
            msg = f"the token is about another call, not {'/'.join(path)!r}"
            raise ApprovalRefusedError(msg, "call")
        return approval

    def show(self, token: str, conversation: str, messages: Messages, *, by: str | None = None) -> Tool:
        """The call that a token is about, if it can be decided now: what a page shows. Nothing is decided.

        Raises:
            ApprovalRefusedError: as `approve()` raises it.
        """
        return self._require_call(self._read(token), conversation, messages, by)

    def approve(
        self,
        token: str,
        conversation: str,
        messages: Messages,
        *,
        arguments: Mapping[str, object] | None = None,
        by: str | None = None,
        note: str | None = None,
    ) -> Tool:
        """Approve the call that a token is about, and return it. It is durable when `messages` are.

        Args:
            token: what came back.
            conversation: the id of the conversation that `messages` are.
            messages: where the decision is recorded.
            arguments: others than those that wait. The same ones are no edit.
            by: who decides, as the page knows them; `None`: whoever the token was made for.
            note: is kept with the decision.

        Raises:
            ApprovalRefusedError: with the reason. Nothing was changed.
            UsageError: `arguments` are not a JSON object.
        """
        signed = self._read(token)
        tool = self._require_call(signed, conversation, messages, by)
        _require_allowed(signed.approval, "approve")
        edited = None if arguments is None or equal_as_json(arguments, tool.effective_arguments) else arguments
        if edited is not None and not signed.approval.edits:
            msg = "the token approves the arguments as they are, and no others"
            raise ApprovalRefusedError(msg, "edit")
        tool.approve(arguments=edited, by=_decider(signed.approval, by), note=note, at=self._now())
        return _record_use(tool, signed.approval)

    def reject(
        self,
        token: str,
        conversation: str,
        messages: Messages,
        reason: str | None = None,
        *,
        by: str | None = None,
        note: str | None = None,
    ) -> Tool:
        """Reject the call that a token is about, and return it; the model is told `reason`. Else as `approve()`.

        Raises:
            ApprovalRefusedError: with the reason. Nothing was changed.
        """
        signed = self._read(token)
        tool = self._require_call(signed, conversation, messages, by)
        _require_allowed(signed.approval, "reject")
        tool.reject(reason, by=_decider(signed.approval, by), note=note, at=self._now())
        return _record_use(tool, signed.approval)

    async def redeem(
        self,
        token: str,
        conversation: SavedConversation,
        choice: ApprovalChoice,
        *,
        arguments: Mapping[str, object] | None = None,
        reason: str | None = None,
        by: str | None = None,
        note: str | None = None,
    ) -> Tool:
        """Decide, durably: when this returns, the decision is stored, and no other one of the call will be.

        Args:
            token: what came back.
            conversation: the one that it is about, open: of a store, or in a file.
            choice: what was decided.
            arguments: with an approval, as of `approve()`.
            reason: with a rejection, what the model is told.
            by: as of `approve()`.
            note: as of `approve()`.

        Raises:
            ApprovalRefusedError: with the reason; also where somebody else decided in the same moment, and was faster.
            ConflictError: something else could not be written, as the conversation's `save()` says. Nothing was.
        """
        messages = conversation.messages
        if choice == "approve":
            tool = self.approve(token, conversation.id, messages, arguments=arguments, by=by, note=note)
        elif choice == "reject":
            tool = self.reject(token, conversation.id, messages, reason, by=by, note=note)
        else:
            msg = f"redeem() needs 'approve' or 'reject', not {choice!r}"
            raise UsageError(msg)
        mine = tool.decisions[-1]
        try:
            await conversation.save()
        except ConflictError:
            stored = _find_tool(messages, self._read(token).approval.path)
            if stored is None or mine not in stored.decisions:
                self.show(token, conversation.id, messages, by=by)
            raise
        return tool

    # --- Below ---------------------------------------------------------------------------------------------------

    def _read(self, token: str) -> Signed:
        signed = read_token(token, self._secrets, self._retired)
        approval, now = signed.approval, self._now()
        if approval.issued_at > now + self._skew:
            msg = f"the token is good from {approval.issued_at.isoformat()} on, and here it is {now.isoformat()}"
            raise ApprovalRefusedError(msg, "not_yet_valid")
        if now >= approval.expires_at:
            msg = f"the token expired at {approval.expires_at.isoformat()}"
            raise ApprovalRefusedError(msg, "expired")
        return signed

    def _require_call(self, signed: Signed, conversation: str, messages: Messages, by: str | None) -> Tool:
        """The call that a token is about: waiting, and as it was when the token was made."""
        approval, seal = signed.approval, signed.seal
        _require_conversation(approval, conversation)
        if by is not None and approval.person is not None and by != approval.person:
            msg = "the token was made for somebody else"
            raise ApprovalRefusedError(msg, "person")
        tool = _find_tool(messages, approval.path)
        now = None if tool is None else create_seal(messages, approval.path, tool, approval.nonce, signed.secret)
        if tool is None or now is None or not hmac.compare_digest(now.call, seal.call):
            msg = f"the call {'/'.join(approval.path)!r} that the token is about is not in this conversation"
            raise ApprovalRefusedError(msg, "call")
        _require_unused(tool, approval)
        _require_waiting(tool, self._now())
        if not hmac.compare_digest(now.arguments, seal.arguments):
            msg = "the arguments have changed since the token was made; look at the call again"
            raise ApprovalRefusedError(msg, "arguments", _last_decision(tool))
        if now.revision != seal.revision:
            msg = "the call was decided since the token was made, and waits again; look at it again"
            raise ApprovalRefusedError(msg, "reconsidered", _last_decision(tool))
        return tool


# --- What is refused -----------------------------------------------------------------------------------------------


def _require_conversation(approval: BoundApproval, conversation: str) -> None:
    if approval.conversation != conversation:
        msg = "the token is about another conversation"
        raise ApprovalRefusedError(msg, "conversation")


def _require_unused(tool: Tool, approval: BoundApproval) -> None:
    for decision in tool.decisions:
        if decision.extra and decision.extra.get("token") == approval.nonce:
            msg = f"the token was used: {_describe_decision(decision)}"
            raise ApprovalRefusedError(msg, "used", decision)


def _require_waiting(tool: Tool, now: datetime) -> None:
    status = tool.status
    if isinstance(status, Pending) and is_overdue(status.expires_at, now):
        msg = f"the call {tool.id!r} had to be decided before {isoformat(status.expires_at)}"
        raise ApprovalRefusedError(msg, "call_expired")
    if isinstance(status, Rejected) and status.source == "expiry":
        msg = f"the call {tool.id!r} was not decided in time: {status.reason}"
        raise ApprovalRefusedError(msg, "call_expired")
    if not isinstance(status, Pending):
        decision = _last_decision(tool)
        how = _describe_decision(decision) if decision else f"it is {type(status).__name__}"
        msg = f"the call {tool.id!r} does not wait any more: {how}"
        raise ApprovalRefusedError(msg, "decided", decision)


def _require_allowed(approval: BoundApproval, choice: ApprovalChoice) -> None:
    if choice not in approval.allow:
        msg = f"the token does not {choice}; it can {' or '.join(sorted(approval.allow))}"
        raise ApprovalRefusedError(msg, "decision")


# --- Below -----------------------------------------------------------------------------------------------------------


def _describe_decision(decision: Decision) -> str:
    by = "" if decision.by is None else f" by {decision.by}"
    at = "" if decision.at is None else f" at {decision.at.isoformat(timespec='seconds')}"
    return f"{decision.action}{by}{at}"


def _last_decision(tool: Tool) -> Decision | None:
    return tool.decisions[-1] if tool.decisions else None


def _find_tool(messages: Messages, path: tuple[str, ...]) -> Tool | None:
    try:
        return messages.tool(*path)
    except KeyError:
        return None


def _decider(approval: BoundApproval, by: str | None) -> str | None:
    return approval.person if by is None else by


def _record_use(tool: Tool, approval: BoundApproval) -> Tool:
    """Write into the decision which token made it. The second word tells two uses in one moment apart."""
    *before, last = tool.decisions
    tool.decisions = (*before, replace(last, extra={"token": approval.nonce, "use": token_urlsafe(6)}))
    return tool
