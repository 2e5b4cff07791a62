"""What an approval's token is made of: how it is written, signed, and read again.

    ca1.<id of the key>.<claims>.<HMAC-SHA-256 of all before it>

The claims are a JSON array, and they and the signature are in base64url, without padding.
"""

from __future__ import annotations

import hmac
import json
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from typing import Final, Literal, TypeAlias, cast, final, get_args

from chat_core.errors import ChatError, UsageError
from chat_core.messages import Decision, Messages, Tool

ApprovalChoice: TypeAlias = Literal["approve", "reject"]
RefusalReason: TypeAlias = Literal[
    "malformed", "version", "unknown_key", "retired_key", "forged", "not_yet_valid", "expired",
    "conversation", "call", "person", "used", "decided", "call_expired", "arguments", "reconsidered",
    "decision", "edit",
]  # fmt: skip

MAX_TOKEN_LENGTH: Final = 4096
MIN_SECRET_BYTES: Final = 32
_VERSION: Final = "ca1"
_ANY_VERSION: Final = re.compile(r"ca[1-9][0-9]{0,5}\.", re.ASCII)
_SHAPE: Final = re.compile(r"ca1\.([A-Za-z0-9_-]{1,32})\.([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]{43})", re.ASCII)
_KEY_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,32}", re.ASCII)
_CHOICES: Final[tuple[ApprovalChoice, ...]] = get_args(ApprovalChoice)


@final
class ApprovalRefusedError(ChatError):
    """A token decides nothing, and nothing was changed. `reason` says why in one word, the message in a sentence.

    Attributes:
        reason: for code to act on; the reference lists them all.
        decision: what was decided about the call, where that is why.
    """

    def __init__(self, message: str, reason: RefusalReason, decision: Decision | None = None) -> None:
        super().__init__(message)
        self.reason: RefusalReason = reason
        self.decision = decision


@final
@dataclass(frozen=True, slots=True)
class BoundApproval:
    """What a token says. Its signature and its times are good; whether the call still waits is another question.

    Attributes:
        conversation: the id of the conversation.
        path: leads to the call: `messages.tool(*path)`.
        allow: what may be decided.
        edits: whether an approval may change the arguments.
        person: whom it was made for, `None` where it is for whoever holds it.
        issued_at: from when it is good.
        expires_at: until when.
        nonce: tells it from every other token; the decision that it makes has it as `decision.extra["token"]`.
    """

    conversation: str
    path: tuple[str, ...]
    allow: frozenset[ApprovalChoice]
    edits: bool
    person: str | None
    issued_at: datetime
    expires_at: datetime
    nonce: str


@final
@dataclass(frozen=True, slots=True)
class Seal:
    """What a token holds a call to: which it is, what would run, and how often it has moved."""

    call: str
    arguments: str
    revision: int


@final
@dataclass(frozen=True, slots=True)
class Signed:
    """A token that was read: what it says, what it holds the call to, and the secret that has signed it."""

    approval: BoundApproval
    seal: Seal
    secret: bytes


# --- Writing -------------------------------------------------------------------------------------------------------


def write_token(approval: BoundApproval, seal: Seal, key: str, secret: bytes) -> str:
    """The token.

    Raises:
        UsageError: it would be too long.
    """
    claims: list[object] = [
        approval.conversation,
        approval.path,
        _flags(approval),
        _milliseconds(approval.issued_at),
        _milliseconds(approval.expires_at),
        approval.nonce,
        seal.call,
        seal.arguments,
        seal.revision,
        *([] if approval.person is None else [approval.person]),
    ]
    signed = f"{_VERSION}.{key}.{_encode_base64(json.dumps(claims, separators=(',', ':')).encode())}"
    token = f"{signed}.{_signature(secret, signed)}"
    if len(token) > MAX_TOKEN_LENGTH:
        msg = (
            f"the ids are too long for a token: it would have {len(token)} characters, and may have {MAX_TOKEN_LENGTH}"
        )
        raise UsageError(msg)
    return token


def create_seal(messages: Messages, path: Sequence[str], tool: Tool, nonce: str, secret: bytes) -> Seal:
    """What a token made now would hold the call to.

    The digests are keyed: who has the token, and guesses at a value, cannot see that it was right.
    """
    holder = messages if len(path) == 1 else messages.tool(*path[:-1]).inner
    # What tells it from another call that has its id, in another conversation of this name: what was asked, and when.
    call = [tool.name, _created_at_milliseconds(holder or messages, tool)]
    arguments = _digest(secret, nonce, "arguments", tool.effective_arguments)
    return Seal(_digest(secret, nonce, "call", call), arguments, tool.revision)


def _created_at_milliseconds(messages: Messages, tool: Tool) -> int:
    # A call that waits stands near the end.
    turns = (turn for content in reversed(messages) for turn in reversed(content.turns))
    return next(_milliseconds(turn.created_at) for turn in turns if any(item is tool for item in turn.tools))


def equal_as_json(one: Mapping[str, object], other: Mapping[str, object]) -> bool:
    """Whether two are equal as JSON, where 1, 1.0 and true are three things."""
    try:
        return _canonical(dict(one)) == _canonical(dict(other))
    except (TypeError, ValueError):
        return False  # whoever takes it says what is wrong with it


def _canonical(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def _signature(secret: bytes, signed: str) -> str:
    return _encode_base64(hmac.digest(secret, b"chat approval\0" + signed.encode(), sha256))


def _digest(secret: bytes, nonce: str, what: str, value: object) -> str:
    data = b"\0".join([f"chat approval {what}".encode(), nonce.encode(), _canonical(value)])
    return _encode_base64(hmac.digest(secret, data, sha256)[:16])


def _encode_base64(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def _milliseconds(at: datetime) -> int:
    return int(at.timestamp() * 1000)


def _from_milliseconds(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


def _flags(approval: BoundApproval) -> int:
    allowed = sum([1 << bit for bit, choice in enumerate(_CHOICES) if choice in approval.allow])
    return allowed | approval.edits << len(_CHOICES)


# --- Reading -------------------------------------------------------------------------------------------------------


def read_token(token: str, secrets: Mapping[str, bytes], retired: Collection[str]) -> Signed:
    """What a token says that one of the keys has signed. Its times are not looked at.

    Raises:
        ApprovalRefusedError: none has.
        UsageError: it is no text.
    """
    if not isinstance(token, str):  # pyright: ignore[reportUnnecessaryIsInstance] - a form may have had none
        msg = f"a token is a text, not {token!r}"
        raise UsageError(msg)
    found = _SHAPE.fullmatch(token) if len(token) <= MAX_TOKEN_LENGTH else None
    if found is None:
        raise _malformed_error(token)
    key, claims, signature = found.groups()
    if key in retired:
        msg = f"the key {key!r} that signed this token is retired; ask for a new one"
        raise ApprovalRefusedError(msg, "retired_key")
    if key not in secrets:
        msg = f"nobody here has the key {key!r} that is said to have signed this token"
        raise ApprovalRefusedError(msg, "unknown_key")
    # The texts are compared, not what they stand for: base64 has several of them for the same bytes.
    expected = _signature(secrets[key], token[: found.end(2)])
    if not hmac.compare_digest(signature.encode(), expected.encode()):
        msg = "the token is not as it was signed"
        raise ApprovalRefusedError(msg, "forged")
    try:
        return _read_claims(claims, secrets[key])
    except (TypeError, ValueError, OverflowError) as error:
        msg = "the token was signed by a key of ours, and says something that this version does not"
        raise ApprovalRefusedError(msg, "malformed") from error


def _malformed_error(token: str) -> ApprovalRefusedError:
    if _ANY_VERSION.match(token) and not token.startswith(f"{_VERSION}."):
        return ApprovalRefusedError("the token is of a later version of this library: upgrade it here, too", "version")
    return ApprovalRefusedError("this is no token, or not a whole one; was the link cut?", "malformed")


def _read_claims(claims: str, secret: bytes) -> Signed:
    data = cast("list[object]", json.loads(urlsafe_b64decode(claims + "=" * (-len(claims) % 4))))
    conversation, path, flags, issued, expires, nonce, call, arguments, revision, *person = data
    number = cast("int", flags)
    if number >= 1 << len(_CHOICES) + 1 or len(person) > 1:
        msg = "there is more in it"  # a restriction, perhaps, that this version does not know
        raise ValueError(msg)
    approval = BoundApproval(
        cast("str", conversation),
        tuple(cast("list[str]", path)),
        frozenset([choice for bit, choice in enumerate(_CHOICES) if number & 1 << bit]),
        bool(number & 1 << len(_CHOICES)),
        cast("str", person[0]) if person else None,
        _from_milliseconds(cast("int", issued)),
        _from_milliseconds(cast("int", expires)),
        cast("str", nonce),
    )
    return Signed(approval, Seal(cast("str", call), cast("str", arguments), cast("int", revision)), secret)


# --- Keys ----------------------------------------------------------------------------------------------------------


def require_key(key: str, secret: object) -> None:
    """Check that a key can be one.

    Raises:
        UsageError: its id is none, or its secret is too short.
    """
    if _KEY_ID.fullmatch(key) is None:
        msg = f"the id of a key has 1 to 32 letters, digits, - and _, not {key!r}"
        raise UsageError(msg)
    if not isinstance(secret, bytes):
        msg = f"the key {key!r} must be bytes, not {type(secret).__name__}: secrets.token_bytes(32) makes some"
        raise UsageError(msg)
    if len(secret) < MIN_SECRET_BYTES:
        msg = f"the key {key!r} has {len(secret)} bytes; a key has at least {MIN_SECRET_BYTES}"
        raise UsageError(msg)


def require_names(conversation: object, person: object) -> None:
    """Check that a token can say whose and about what it is.

    Raises:
        UsageError: the conversation has no id, or one of the two is no text.
    """
    if not isinstance(conversation, str):
        msg = f"a token needs the id under which the conversation is stored, a text, not {conversation!r}"
        raise UsageError(msg)
    if person is not None and not isinstance(person, str):
        msg = f"person is a text, or None for whoever holds the token, not {person!r}"
        raise UsageError(msg)


def require_allow(allow: Collection[ApprovalChoice], *, edits: bool) -> None:
    """Check what a token shall allow.

    Raises:
        UsageError: nothing, something else, or edits of what may not be approved.
    """
    if not allow or isinstance(allow, str) or not set(allow) <= set(_CHOICES):
        msg = f"allow has {' or '.join(map(repr, _CHOICES))} in it, or both, and nothing else; not {allow!r}"
        raise UsageError(msg)
    if edits and "approve" not in allow:
        msg = "edits are made with an approval: allow 'approve', too"
        raise UsageError(msg)
