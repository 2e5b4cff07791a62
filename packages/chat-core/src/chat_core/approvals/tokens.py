"""The format of approval tokens: how they are encoded, signed and verified.

A token has this format:

    ca1.<key ID>.<claims>.<HMAC-SHA-256 of everything before it>

The claims are a JSON array. Claims and signature are encoded in base64url without padding.
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

from chat_core.arguments import argument_error
from chat_core.errors import ChatError, UsageError
from chat_core.messages import Decision, Messages, Tool

ApprovalChoice: TypeAlias = Literal["approve", "reject"]
RefusalReason: TypeAlias = Literal[
    "malformed", "version", "unknown_key", "retired_key", "forged", "not_yet_valid", "expired",
    "conversation", "call", "person", "used", "decided", "call_expired", "arguments", "reconsidered",
    "permission", "decision", "edit",
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
    """Error for a decision that the token does not permit. Nothing was changed.

    Attributes:
        reason: machine-readable reason; the reference lists all values.
        decision: the earlier decision of the call, if that is the reason.
    """

    def __init__(self, message: str, reason: RefusalReason, decision: Decision | None = None) -> None:
        super().__init__(message)
        self.reason: RefusalReason = reason
        self.decision = decision


@final
@dataclass(frozen=True, slots=True)
class BoundApproval:
    """Contents of a token whose signature and validity period were checked. The call may already have been decided.

    Attributes:
        conversation: ID of the conversation.
        path: path of the call: `messages.tool(*path)`.
        allow: allowed decisions.
        edits: whether an approval may change the arguments.
        person: the approver, or `None` if anyone who has the token may decide.
        issued_at: start of the validity.
        expires_at: end of the validity.
        nonce: unique ID of the token, stored as `extra["token"]` of the decision made with the token.
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
    """State of a tool call when its token was signed: digests of the call and of its arguments, and its revision."""

    call: str
    arguments: str
    revision: int


@final
@dataclass(frozen=True, slots=True)
class Signed:
    """Contents of a token with a valid signature: the approval, the signed state of its call, and the secret."""

    approval: BoundApproval
    seal: Seal
    secret: bytes


# --- Writing -------------------------------------------------------------------------------------------------------


def write_token(approval: BoundApproval, seal: Seal, key: str, secret: bytes) -> str:
    """Sign `approval` and `seal` with `secret`, and return the token as text. It names `key` as its signing key.

    Raises:
        UsageError: the token would exceed `MAX_TOKEN_LENGTH` characters.
    """
    claims: list[object] = [
        approval.conversation,
        approval.path,
        _encode_flags(approval),
        _to_milliseconds(approval.issued_at),
        _to_milliseconds(approval.expires_at),
        approval.nonce,
        seal.call,
        seal.arguments,
        seal.revision,
        *([] if approval.person is None else [approval.person]),
    ]
    signed = f"{_VERSION}.{key}.{_encode_base64(json.dumps(claims, separators=(',', ':')).encode())}"
    token = f"{signed}.{_sign(secret, signed)}"
    if len(token) > MAX_TOKEN_LENGTH:
        msg = f"the IDs are too long: the token would have {len(token)} characters, the maximum is {MAX_TOKEN_LENGTH}"
        raise UsageError(msg)
    return token


def create_seal(messages: Messages, path: Sequence[str], tool: Tool, nonce: str, secret: bytes) -> Seal:
    """Return a `Seal` with the current state of a tool call.

    The digests in the seal are keyed, so that the holder of a token cannot confirm guesses of the arguments.

    Args:
        messages: the conversation.
        path: path of `tool` in the conversation.
        tool: the call that the token decides.
        nonce: unique ID of the token, included in the digests.
        secret: secret of the signing key, with which the digests are keyed.
    """
    inner = messages if len(path) == 1 else messages.tool(*path[:-1]).inner
    # Tool name and time distinguish calls that have the same ID in different conversations of the same name.
    call = [tool.name, _created_at_milliseconds(inner or messages, tool)]
    arguments = _keyed_digest(secret, nonce, "arguments", tool.effective_arguments)
    return Seal(_keyed_digest(secret, nonce, "call", call), arguments, tool.revision)


def _created_at_milliseconds(messages: Messages, tool: Tool) -> int:
    # Search from the end, where waiting calls usually are.
    turns = (turn for content in reversed(messages) for turn in reversed(content.turns))
    return next(_to_milliseconds(turn.created_at) for turn in turns if any(item is tool for item in turn.tools))


def equal_as_json(left: Mapping[str, object], right: Mapping[str, object]) -> bool:
    """Return whether two objects have the same JSON text. Unlike in Python, 1, 1.0 and True are not equal.

    Args:
        left: a JSON object. Values that JSON cannot represent make the result False.
        right: the object to compare with.
    """
    try:
        return _canonical_json(dict(left)) == _canonical_json(dict(right))
    except (TypeError, ValueError):
        return False  # tool.approve() reports the invalid value


def _canonical_json(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def _sign(secret: bytes, signed: str) -> str:
    return _encode_base64(hmac.digest(secret, b"chat approval\0" + signed.encode(), sha256))


def _keyed_digest(secret: bytes, nonce: str, purpose: str, value: object) -> str:
    data = b"\0".join([f"chat approval {purpose}".encode(), nonce.encode(), _canonical_json(value)])
    return _encode_base64(hmac.digest(secret, data, sha256)[:16])


def _encode_base64(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def _to_milliseconds(at: datetime) -> int:
    return int(at.timestamp() * 1000)


def _from_milliseconds(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


def _encode_flags(approval: BoundApproval) -> int:
    allowed = sum([1 << bit for bit, choice in enumerate(_CHOICES) if choice in approval.allow])
    return allowed | approval.edits << len(_CHOICES)


# --- Reading -------------------------------------------------------------------------------------------------------


def read_token(token: str, secrets: Mapping[str, bytes], retired: Collection[str]) -> Signed:
    """Verify the signature of a token and return its contents. Does not check the validity period.

    Args:
        token: the received token.
        secrets: secrets by key ID.
        retired: IDs of retired keys.

    Raises:
        ApprovalRefusedError: the token is malformed, or no known key signed it.
        UsageError: `token` is not a string.
    """
    if not isinstance(token, str):
        msg = f"a token must be a string, not {token!r}"
        raise UsageError(msg)
    match = _SHAPE.fullmatch(token) if len(token) <= MAX_TOKEN_LENGTH else None
    if match is None:
        raise _malformed_error(token)
    key, claims, signature = match.groups()
    if key in retired:
        msg = f"the key {key!r} that signed the token is retired: request a new token"
        raise ApprovalRefusedError(msg, "retired_key")
    if key not in secrets:
        msg = f"the token names the unknown signing key {key!r}"
        raise ApprovalRefusedError(msg, "unknown_key")
    # Compare the encoded signatures: several base64 texts decode to the same bytes.
    expected = _sign(secrets[key], token[: match.end(2)])
    if not hmac.compare_digest(signature.encode(), expected.encode()):
        msg = "the signature of the token is invalid"
        raise ApprovalRefusedError(msg, "forged")
    try:
        return _read_claims(claims, secrets[key])
    except (TypeError, ValueError, OverflowError) as error:
        msg = "the signature is valid, but this version cannot read the token: upgrade the library"
        raise ApprovalRefusedError(msg, "malformed") from error


def _malformed_error(token: str) -> ApprovalRefusedError:
    if _ANY_VERSION.match(token) and not token.startswith(f"{_VERSION}."):
        return ApprovalRefusedError(
            "the token was created by a later version of this library: upgrade the library", "version"
        )
    return ApprovalRefusedError("not a complete token; the link may have been truncated", "malformed")


def _read_claims(claims: str, secret: bytes) -> Signed:
    data = cast("list[object]", json.loads(urlsafe_b64decode(claims + "=" * (-len(claims) % 4))))
    conversation, path, flags, issued, expires, nonce, call, arguments, revision, *person = data
    number = cast("int", flags)
    if number >= 1 << len(_CHOICES) + 1 or len(person) > 1:
        msg = "it has claims that this version does not know"  # possibly restrictions added by a later version
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
    """Raise `UsageError` unless `key` is a valid key ID and `secret` has at least `MIN_SECRET_BYTES` bytes."""
    if _KEY_ID.fullmatch(key) is None:
        msg = f"a key ID has 1 to 32 letters, digits, - or _, not {key!r}"
        raise UsageError(msg)
    if not isinstance(secret, bytes):
        msg = f"the secret of key {key!r} must be bytes, not {type(secret).__name__}: use secrets.token_bytes(32)"
        raise UsageError(msg)
    if len(secret) < MIN_SECRET_BYTES:
        msg = f"the secret of key {key!r} has {len(secret)} bytes; at least {MIN_SECRET_BYTES} are required"
        raise UsageError(msg)


def require_retired(retired: object, secrets: Mapping[str, bytes]) -> None:
    """Raise `UsageError` unless `retired` is a collection of IDs of keys that have no secret.

    Args:
        retired: IDs of former keys.
        secrets: secrets by key ID.
    """
    if isinstance(retired, Collection) and not isinstance(retired, str):
        keys = [*cast("Collection[object]", retired)]
        if all(isinstance(key, str) for key in keys) and secrets.keys().isdisjoint(keys):
            return
    msg = f"retired must be a collection of key IDs that are not in secrets, not {retired!r}"
    raise UsageError(msg)


def require_names(conversation: object, person: object) -> None:
    """Raise `UsageError` unless `conversation` is a string and `person` is a string or `None`."""
    if not isinstance(conversation, str):
        msg = f"conversation must be the ID of the stored conversation, a string, not {conversation!r}"
        raise UsageError(msg)
    if person is not None and not isinstance(person, str):
        msg = f"person must be a string, or None to accept anyone who has the token, not {person!r}"
        raise UsageError(msg)


def find_call(messages: object, path: object) -> Tool:
    """Return the call of a conversation at a path.

    Args:
        messages: the outermost conversation.
        path: path of the call, as in `wait.path`.

    Raises:
        KeyError: there is no such call.
        UsageError: `messages` is not a `Messages` object, or `path` is not a tuple of IDs.
    """
    if not isinstance(messages, Messages):
        raise argument_error("messages", "the Messages of a conversation", messages)
    if isinstance(path, str) or not isinstance(path, Sequence) or not path:
        msg = f"path must be a tuple of IDs, such as wait.path, not {path!r}"
        raise UsageError(msg)
    return messages.tool(*cast("Sequence[str]", path))


def require_allow(allow: Collection[ApprovalChoice], *, edits: bool) -> None:
    """Raise `UsageError` if `allow` is empty, contains an invalid decision, or lacks `approve` while edits are allowed.

    Args:
        allow: the allowed decisions.
        edits: whether an approval may change the arguments.
    """
    choices: object = allow
    if isinstance(choices, str) or not isinstance(choices, Collection) or not _are_choices(choices):
        msg = f"allow must contain {' or '.join(map(repr, _CHOICES))}, or both, not {allow!r}"
        raise UsageError(msg)
    if not isinstance(edits, bool):
        raise argument_error("edits", "True or False", edits)
    if edits and "approve" not in allow:
        msg = "edits=True requires 'approve' in allow"
        raise UsageError(msg)


def _are_choices(values: Collection[object]) -> bool:
    return len(values) > 0 and all(value in _CHOICES for value in values)
