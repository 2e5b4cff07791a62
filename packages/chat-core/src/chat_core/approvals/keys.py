"""Approval tokens for links and chat messages.

A token decides one tool call once, and only if the call has not changed since the token was signed.

    # Create the token.
    token = keys.bind(conversation.id, conversation.messages, wait.path, person="ana@example.com")

    # Handle the decision.
    approval = keys.read(token)
    async with store.open(approval.conversation) as conversation:
        await keys.redeem(token, conversation, "approve")

A token contains the conversation ID, the path of the call, the allowed decisions, the approver, and its expiry time. It
also contains keyed digests of the call and of its arguments, and the revision of the call. Any status change of the
call invalidates the token. An HMAC-SHA-256 covers all of it.

A token works once because a decision changes the revision. The stored decision also records which token made it, so no
list of used tokens is needed.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from secrets import token_urlsafe
from typing import Final, Protocol, final

from chat_core.approvals.expiry import is_overdue
from chat_core.approvals.permissions import MayDecide, Principal, is_allowed
from chat_core.approvals.tokens import (
    ApprovalChoice,
    ApprovalRefusedError,
    BoundApproval,
    Signed,
    create_seal,
    equal_as_json,
    find_call,
    read_token,
    require_allow,
    require_key,
    require_names,
    require_retired,
    write_token,
)
from chat_core.arguments import argument_error
from chat_core.clock import isoformat, utc_clock, utc_now
from chat_core.errors import ConflictError, UsageError
from chat_core.messages import Decision, Messages, Pending, Rejected, Tool
from chat_core.response import Wait


class SavedConversation(Protocol):
    """An open conversation of a store, or a `FileConversation`, in which decisions can be saved."""

    @property
    def id(self) -> str:
        """ID of the conversation."""
        ...

    @property
    def messages(self) -> Messages:
        """The conversation as known to this process."""
        ...

    async def save(self) -> None:
        """Store the decisions.

        Raises:
            ConflictError: another process decided a call first. `messages` now contains the stored state of that call.
        """
        ...


_LATEST_EXPIRY: Final = datetime(9999, 1, 1, tzinfo=UTC)


@final
class ApprovalKeys:
    """Signing and verification keys for approval tokens. Immutable, and safe to share between threads.

    To rotate keys, add a key and sign with it. After the last token of the old key has expired, remove the secret of
    the old key and add its ID to `retired`.
    """

    __slots__ = ("_may_decide", "_now", "_retired", "_secrets", "_signing", "_skew")

    def __init__(
        self,
        signing: str,
        secrets: Mapping[str, bytes],
        *,
        may_decide: MayDecide | None,
        retired: Collection[str] = (),
        skew: timedelta = timedelta(minutes=1),
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        """Initialize the keys. Tokens contain the ID of the key that signed them.

        Args:
            signing: ID of the key that signs new tokens.
            secrets: secrets by key ID, for verification. Must include the signing key. Create a secret with
                `secrets.token_bytes(32)`.
            may_decide: rule that determines who may decide a waiting call with a token, such as `owner_may_decide`. The
                rule receives the signed-in user of the page or, if no user is known, the `person` of the token. `None`
                lets everyone who has a token decide, except for calls that `RequireApproval(of=...)` reserves for
                others. There is no default.
            retired: IDs of former keys, so that their tokens are reported as retired and not as unknown.
            skew: maximum time by which the clock of the signing machine may be ahead of this clock.
            now: function that returns the current time, timezone-aware.

        Raises:
            UsageError: a secret is shorter than 32 bytes, a key ID is invalid or unknown, a retired key has a secret,
                or `may_decide` is not a function.
        """
        if not isinstance(secrets, Mapping):
            raise argument_error("secrets", "a dict from key IDs to secrets in bytes", type(secrets))
        for key, secret in secrets.items():
            require_key(key, secret)
        if not isinstance(signing, str) or signing not in secrets:
            msg = f"signing must be a key ID in secrets ({', '.join(secrets) or 'secrets is empty'}), not {signing!r}"
            raise UsageError(msg)
        require_retired(retired, secrets)
        if not isinstance(skew, timedelta):
            raise argument_error("skew", "a timedelta", skew)
        if skew < timedelta(0):
            msg = f"skew must be at least zero, not {skew!r}"
            raise UsageError(msg)
        if may_decide is not None and not callable(may_decide):
            msg = (
                f"may_decide must be a function of a principal and a wait, such as owner_may_decide, not {may_decide!r}"
            )
            raise UsageError(msg)
        self._may_decide = may_decide
        self._signing = signing
        self._secrets = dict(secrets)
        self._retired = frozenset(retired)
        self._skew = skew
        self._now = utc_clock(now)

    def __repr__(self) -> str:
        return f"ApprovalKeys(signing={self._signing!r}, verifying={sorted(self._secrets)!r})"

    # --- Creating tokens ---------------------------------------------------------------------------------------

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
        """Return a token that decides a waiting call in its current state.

        Anyone who has the token can decide, so send it to one approver over a private channel. The token is signed but
        not encrypted: its IDs and the approver are readable, and the arguments are not included. The token expires no
        later than the call. If the page that accepts the token knows its user, it accepts the token only from `person`.

        Args:
            conversation: ID under which the conversation is stored.
            messages: the conversation; for a store, `(await store.load(id)).messages`.
            path: path of the call, as in `wait.path`.
            allow: allowed decisions.
            edits: whether an approval may change the arguments.
            person: the approver, recorded with the decision.
            expires_in: lifetime of the token.

        Raises:
            KeyError: there is no such call.
            UsageError: the call is not waiting, an argument is invalid, or the token would exceed 4,096 characters.
        """
        require_names(conversation, person)
        require_allow(allow, edits=edits)
        if not isinstance(expires_in, timedelta):
            raise argument_error("expires_in", "a timedelta, such as timedelta(hours=1)", expires_in)
        tool, now = find_call(messages, path), self._now()
        if not timedelta(0) < expires_in <= _LATEST_EXPIRY - now:
            msg = f"expires_in must be positive and end before the year 9999, not {expires_in!r}"
            raise UsageError(msg)
        status = tool.status
        if not isinstance(status, Pending) or status.kind is None:
            name = type(status).__name__
            msg = f"bind() needs a call that waits for an approval or a scheduled time, but {tool.id!r} is {name}"
            raise UsageError(msg)
        until = now + expires_in
        if status.expires_at is not None:
            until = min(until, status.expires_at)
        nonce, secret = token_urlsafe(12), self._secrets[self._signing]
        approval = BoundApproval(conversation, tuple(path), frozenset(allow), edits, person, now, until, nonce)
        return write_token(approval, create_seal(messages, path, tool, nonce, secret), self._signing, secret)

    # --- Using tokens ------------------------------------------------------------------------------------------

    def read(self, token: str, *, conversation: str | None = None, path: Sequence[str] | None = None) -> BoundApproval:
        """Verify a token and return its contents, including the conversation ID. Does not decide anything.

        Args:
            token: the received token.
            conversation: expected conversation ID, if known. Tokens for other conversations are refused.
            path: expected path of the call, if known. Tokens for other calls are refused.

        Raises:
            ApprovalRefusedError: the token is damaged, forged, expired, not yet valid, or for another conversation or
                call.
        """
        approval = self._read_valid_token(token).approval
        if conversation is not None:
            _require_conversation(approval, conversation)
        if path is not None and approval.path != tuple(path):
            msg = f"the token is for another call, not {'/'.join(path)!r}"
            raise ApprovalRefusedError(msg, "call")
        return approval

    def show(
        self,
        token: str,
        conversation: str,
        messages: Messages,
        *,
        by: str | Principal | None = None,
        owner: str | None = None,
    ) -> Tool:
        """Return the call that a token was created for, if it can be decided now. Does not decide anything.

        Args:
            token: the received token.
            conversation: ID of the conversation.
            messages: the conversation.
            by: the current user, if known.
            owner: the user who owns the conversation, for the rule `may_decide`.

        Raises:
            ApprovalRefusedError: for the same reasons as in `approve()`.
        """
        return self._require_decidable_call(self._read_valid_token(token), conversation, messages, by, owner)

    def approve(
        self,
        token: str,
        conversation: str,
        messages: Messages,
        *,
        arguments: Mapping[str, object] | None = None,
        by: str | Principal | None = None,
        note: str | None = None,
        owner: str | None = None,
    ) -> Tool:
        """Approve the call that a token was created for, and return the call. The caller must store `messages`.

        Args:
            token: the received token.
            conversation: ID of the conversation.
            messages: the conversation. The decision is recorded in it.
            arguments: edited arguments. Arguments equal to the current arguments do not count as an edit.
            by: the approver, if the page knows its user. Default: the `person` of the token.
            note: comment to store with the decision.
            owner: the user who owns the conversation, for the rule `may_decide`.

        Raises:
            ApprovalRefusedError: the decision is refused for the reason in its attribute `reason`. Nothing was changed.
            UsageError: `arguments` is not a JSON object.
        """
        signed = self._read_valid_token(token)
        tool = self._require_decidable_call(signed, conversation, messages, by, owner)
        _require_allowed(signed.approval, "approve")
        edited = None if arguments is None or equal_as_json(arguments, tool.effective_arguments) else arguments
        if edited is not None and not signed.approval.edits:
            msg = "the token allows approval of the current arguments only, without edits"
            raise ApprovalRefusedError(msg, "edit")
        tool.approve(arguments=edited, by=_approver_name(signed.approval, by), note=note, at=self._now())
        return _record_use(tool, signed.approval)

    def reject(
        self,
        token: str,
        conversation: str,
        messages: Messages,
        reason: str | None = None,
        *,
        by: str | Principal | None = None,
        note: str | None = None,
        owner: str | None = None,
    ) -> Tool:
        """Reject the call that a token was created for, and return the call. The caller must store `messages`.

        Args:
            token: the received token.
            conversation: ID of the conversation.
            messages: the conversation. The decision is recorded in it.
            reason: reason sent to the model.
            by: the approver, if the page knows its user. Default: the `person` of the token.
            note: comment to store with the decision.
            owner: the user who owns the conversation, for the rule `may_decide`.

        Raises:
            ApprovalRefusedError: the decision is refused for the reason in its attribute `reason`. Nothing was changed.
        """
        signed = self._read_valid_token(token)
        tool = self._require_decidable_call(signed, conversation, messages, by, owner)
        _require_allowed(signed.approval, "reject")
        tool.reject(reason, by=_approver_name(signed.approval, by), note=note, at=self._now())
        return _record_use(tool, signed.approval)

    async def redeem(
        self,
        token: str,
        conversation: SavedConversation,
        choice: ApprovalChoice,
        *,
        arguments: Mapping[str, object] | None = None,
        reason: str | None = None,
        by: str | Principal | None = None,
        note: str | None = None,
    ) -> Tool:
        """Approve or reject the call that a token was created for, and store the decision.

        When this method returns, the decision is stored, and no other decision about the call can be stored.

        Args:
            token: the received token.
            conversation: the open conversation, from a store or a file.
            choice: the decision.
            arguments: edited arguments of an approval, see `approve()`.
            reason: reason of a rejection, sent to the model.
            by: the approver, see `approve()`.
            note: comment to store with the decision.

        Returns:
            The decided call.

        Raises:
            ApprovalRefusedError: the decision is refused, or another decision was stored first.
            ConflictError: another change in the conversation could not be stored. Nothing was stored.
        """
        if not isinstance(messages := getattr(conversation, "messages", None), Messages):
            raise argument_error(
                "conversation", "an open conversation, such as the one of store.open(id)", conversation
            )
        # Conversations of stores without owners lack the attribute.
        owner = getattr(conversation, "owner", None)
        if choice == "approve":
            tool = self.approve(token, conversation.id, messages, arguments=arguments, by=by, note=note, owner=owner)
        elif choice == "reject":
            tool = self.reject(token, conversation.id, messages, reason, by=by, note=note, owner=owner)
        else:
            msg = f"redeem() needs 'approve' or 'reject', not {choice!r}"
            raise UsageError(msg)
        decision = tool.decisions[-1]
        try:
            await conversation.save()
        except ConflictError:
            stored = _find_tool(messages, self._read_valid_token(token).approval.path)
            if stored is None or decision not in stored.decisions:
                self.show(token, conversation.id, messages, by=by, owner=owner)
            raise
        return tool

    # --- Checks --------------------------------------------------------------------------------------------------

    def _read_valid_token(self, token: str) -> Signed:
        signed = read_token(token, self._secrets, self._retired)
        approval, now = signed.approval, self._now()
        if approval.issued_at > now + self._skew:
            msg = f"the token is valid from {approval.issued_at.isoformat()} on; the current time is {now.isoformat()}"
            raise ApprovalRefusedError(msg, "not_yet_valid")
        if now >= approval.expires_at:
            msg = f"the token expired at {approval.expires_at.isoformat()}"
            raise ApprovalRefusedError(msg, "expired")
        return signed

    def _require_decidable_call(
        self, signed: Signed, conversation: str, messages: Messages, by: str | Principal | None, owner: str | None
    ) -> Tool:
        """Return the call that a token was created for.

        Raises:
            ApprovalRefusedError: the token is for another conversation or approver, the approver may not decide the
                call, or the call is missing, decided, expired or changed.
        """
        approval, seal = signed.approval, signed.seal
        _require_conversation(approval, conversation)
        if by is not None and approval.person is not None and str(by) != approval.person:
            msg = "the token is for another approver"
            raise ApprovalRefusedError(msg, "person")
        tool = _find_tool(messages, approval.path)
        current_seal = (
            None if tool is None else create_seal(messages, approval.path, tool, approval.nonce, signed.secret)
        )
        if tool is None or current_seal is None or not hmac.compare_digest(current_seal.call, seal.call):
            call = "/".join(approval.path)
            msg = f"the token is for the call {call!r}, which is not in this conversation: create a new token"
            raise ApprovalRefusedError(msg, "call")
        _require_unused(tool, approval)
        _require_waiting(tool, self._now())
        if not hmac.compare_digest(current_seal.arguments, seal.arguments):
            msg = "the arguments have changed since the token was created: review the call again"
            raise ApprovalRefusedError(msg, "arguments", _last_decision(tool))
        if current_seal.revision != seal.revision:
            msg = "the call was decided after the token was created, and waits again: review it again"
            raise ApprovalRefusedError(msg, "reconsidered", _last_decision(tool))
        wait = Wait.from_tool(tool, approval.path, conversation=conversation, owner=owner)
        if not self._is_allowed(_find_principal(approval, by), wait):
            msg = f"the rules about who may decide do not allow a decision about the call {tool.id!r} with this token"
            raise ApprovalRefusedError(msg, "permission")
        return tool

    def _is_allowed(self, principal: Principal | None, wait: Wait) -> bool:
        if principal is None:
            return self._may_decide is None and wait.of is None
        return is_allowed(self._may_decide or _allow_anybody, principal, wait)


# --- Refusals ------------------------------------------------------------------------------------------------------


def _require_conversation(approval: BoundApproval, conversation: str) -> None:
    if approval.conversation != conversation:
        msg = "the token is for another conversation"
        raise ApprovalRefusedError(msg, "conversation")


def _require_unused(tool: Tool, approval: BoundApproval) -> None:
    for decision in tool.decisions:
        if decision.extra and decision.extra.get("token") == approval.nonce:
            msg = f"the token was already used: {_describe_decision(decision)}"
            raise ApprovalRefusedError(msg, "used", decision)


def _require_waiting(tool: Tool, now: datetime) -> None:
    status = tool.status
    if isinstance(status, Pending) and is_overdue(status.expires_at, now):
        msg = f"the call {tool.id!r} expired at {isoformat(status.expires_at)}"
        raise ApprovalRefusedError(msg, "call_expired")
    if isinstance(status, Rejected) and status.source == "expiry":
        msg = f"the call {tool.id!r} has expired: {status.reason}"
        raise ApprovalRefusedError(msg, "call_expired")
    if not isinstance(status, Pending):
        decision = _last_decision(tool)
        state = _describe_decision(decision) if decision else f"its status is {type(status).__name__}"
        msg = f"the call {tool.id!r} is no longer waiting: {state}"
        raise ApprovalRefusedError(msg, "decided", decision)


def _require_allowed(approval: BoundApproval, choice: ApprovalChoice) -> None:
    if choice not in approval.allow:
        msg = f"the token does not allow {choice!r}; it allows {' and '.join(map(repr, sorted(approval.allow)))}"
        raise ApprovalRefusedError(msg, "decision")


# --- Helpers ---------------------------------------------------------------------------------------------------------


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


def _approver_name(approval: BoundApproval, by: str | Principal | None) -> str | None:
    return approval.person if by is None else str(by)


def _find_principal(approval: BoundApproval, by: str | Principal | None) -> Principal | None:
    """Return the principal that uses a token: the user of the page or, if unknown, the approver named in the token."""
    if isinstance(by, Principal):
        return by
    name = _approver_name(approval, by)
    return Principal(name) if name else None


def _allow_anybody(_principal: Principal, _wait: Wait, /) -> bool:
    return True


def _record_use(tool: Tool, approval: BoundApproval) -> Tool:
    """Record the token's nonce in the last decision of a call, and return the call.

    A random `use` value distinguishes concurrent uses of the same token.
    """
    *before, last = tool.decisions
    tool.decisions = (*before, replace(last, extra={"token": approval.nonce, "use": token_urlsafe(6)}))
    return tool
