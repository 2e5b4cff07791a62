"""Grants, which let later calls to a tool run without another approval."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import ClassVar, cast, final

from chat_core.arguments import argument_error, require_items, require_optional_text, require_text, require_time
from chat_core.messages._fields import (
    Fields,
    MalformedError,
    describe_mismatch,
    format_time,
    merge_unknown_fields,
    read_items,
    read_optional_string,
    read_optional_time,
    read_string,
    read_time,
    unknown_fields,
)
from chat_core.messages._tool_values import check_decision
from chat_core.messages.parts import Extra

_GRANT = frozenset({"id", "tools", "until", "by", "at", "of", "revoked_at", "revoked_by"})


@final
@dataclass(frozen=True, slots=True)
class Grant:
    """Permission to run later calls to a tool in one conversation without another approval.

    `chat_core.approvals.approve_with_grant()` creates grants. A grant replaces an approval and nothing else: the policy
    of the chat still decides about each call, and may reject or schedule it.

    Attributes:
        id: unique id of the grant.
        tools: name of the tool. For a tool of a chat that is used as a tool, the names of all tools on the path,
            outermost first.
        until: time at which the grant expires.
        by: name of the approver who created the grant. Calls that it covers are approved under this name.
        at: time at which the grant was created.
        of: role or name that `RequireApproval(of=...)` reserved the approved call for. Other reserved calls are not
            covered.
        revoked_at: time at which the grant was revoked, or `None`.
        revoked_by: name of the user who revoked the grant.

    Raises:
        UsageError: `tools` is not a tuple of strings, a name is not a string, or a time has no time zone.
    """

    id: str
    tools: tuple[str, ...]
    until: datetime
    by: str
    at: datetime
    of: str | None = None
    revoked_at: datetime | None = None
    revoked_by: str | None = None
    extra: Extra = field(default=None, repr=False)

    def __post_init__(self) -> None:
        require_text(id=self.id, by=self.by)
        require_optional_text(of=self.of, revoked_by=self.revoked_by)
        require_time("until", self.until)
        require_time("at", self.at)
        if self.revoked_at is not None:
            require_time("revoked_at", self.revoked_at)
        if type(self.tools) is not tuple or not all(type(name) is str for name in self.tools):
            raise argument_error("tools", "a tuple of names of tools, such as ('pay',)", self.tools)
        if self.extra is not None and not isinstance(self.extra, Mapping):
            raise argument_error("extra", "a JSON object or None", self.extra)

    def covers(self, tools: Sequence[str], now: datetime, *of: str | None) -> bool:
        """Return whether the grant replaces the approval of a call.

        Args:
            tools: names of the tools on the path of the call, outermost first.
            now: the current time.
            *of: roles or names that the call is reserved for.

        Raises:
            UsageError: `tools` is not a sequence of strings, or `now` has no time zone.
        """
        require_items("tools", tools, str, "a sequence of names of tools")
        require_time("now", now)
        is_valid = self.revoked_at is None and now < self.until
        return is_valid and self.tools == tuple(tools) and all(name in {None, self.of} for name in of)

    def to_dict(self) -> Fields:
        """Return the grant as a JSON object, as in a stored conversation."""
        data: Fields = {"id": self.id, "tools": list(self.tools), "until": format_time(self.until), "by": self.by}
        data["at"] = format_time(self.at)
        if self.of is not None:
            data["of"] = self.of
        if self.revoked_at is not None:
            data["revoked_at"] = format_time(self.revoked_at)
        if self.revoked_by is not None:
            data["revoked_by"] = self.revoked_by
        return merge_unknown_fields(data, self.extra, _GRANT)


def read_grant(data: Fields) -> Grant:
    """Parse a grant from a JSON object written by `Grant.to_dict()`."""
    return Grant(
        read_string(data, "id"),
        tuple(read_items(data, "tools", _read_name)),
        read_time(data, "until"),
        read_string(data, "by"),
        read_time(data, "at"),
        read_optional_string(data, "of"),
        read_optional_time(data, "revoked_at"),
        read_optional_string(data, "revoked_by"),
        unknown_fields(data, _GRANT),
    )


def _read_name(value: object) -> str:
    if isinstance(value, str):
        return value
    raise MalformedError(describe_mismatch("a string", value))


def _require_grant(grant: object) -> Grant:
    if not isinstance(grant, Grant):
        raise argument_error("grants", "a list of Grant objects", [grant])
    return grant


def _index_by_id(grants: Iterable[Grant]) -> dict[str, Grant]:
    if not isinstance(grants, (list, tuple, Iterable)):
        raise argument_error("grants", "a list of Grant objects", cast("object", grants))
    return {_require_grant(grant).id: grant for grant in grants}


@final
class Grants:
    """The grants of a conversation, including expired and revoked grants, in the order in which they were given."""

    __slots__ = ("_by_id",)

    def __init__(self, grants: Iterable[Grant] = ()) -> None:
        self._by_id = _index_by_id(grants)

    def __iter__(self) -> Iterator[Grant]:
        return iter(self._by_id.values())

    def __len__(self) -> int:
        return len(self._by_id)

    def __getitem__(self, id: str) -> Grant:
        """Return the grant with the given id. Raise `KeyError` if there is none."""
        return self._by_id[id]

    def __contains__(self, id: object) -> bool:
        return id in self._by_id

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Grants) and self._by_id == other._by_id

    __hash__: ClassVar[None] = None  # type: ignore[assignment]  # `object` has a method

    def __repr__(self) -> str:
        return f"Grants({[*self]!r})"

    def revoke(self, id: str, *, by: str | None = None, at: datetime | None = None) -> Grant:
        """Revoke a grant, and return it. Calls that it approved and that have not started need another approval.

        A grant can be revoked at any time, even during a run. Revoking it again changes nothing.

        Args:
            id: id of the grant.
            by: name of the user who revokes the grant.
            at: time of the revocation, with a time zone; now by default.

        Raises:
            KeyError: the conversation has no such grant.
            UsageError: `id` or `by` is not a string, or `at` has no time zone.
        """
        require_text(id=id)
        grant = self._by_id.get(id)
        if grant is None:
            msg = f"no grant with id {id!r}; the conversation has: {', '.join(self._by_id) or 'none'}"
            raise KeyError(msg)
        if grant.revoked_at is None:
            grant = self._by_id[id] = replace(grant, revoked_at=check_decision(at, by=by), revoked_by=by)
        return grant

    def merge(self, grant: Grant) -> None:
        """Add or replace a grant. A revoked grant stays revoked. The engine and stores call this method."""
        known = self._by_id.get(_require_grant(grant).id)
        if known is None or known.revoked_at is None or grant.revoked_at is not None:
            self._by_id[grant.id] = grant

    def reset(self, grants: Iterable[Grant]) -> None:
        """Replace all grants. Stores call this method."""
        self._by_id = _index_by_id(grants)
