"""Contents and turns: who said what at once.

A `Turn` is what was said at once, and is closed when it is made: its parts never change, but for the status of its
tools, which only moves forward. A `Content` is the run of turns of one role; it never forgets where one ended.

A turn whose tools are all resolved can never change again, so a codec's encoding of it is kept with it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import Literal, Self, TypeAlias, final

from chat_core.errors import UsageError
from chat_core.messages.parts import Extra, Part, Text
from chat_core.messages.tool import Tool
from chat_core.usage import Metadata, Usage

Role: TypeAlias = Literal["system", "user", "model"]
FinishReason: TypeAlias = Literal["stop", "length", "tool_calls", "content_filter", "refusal", "pause", "other"]
"""Why a model stopped, in our words; the provider's own word is in the turn's metadata."""

ROLES: tuple[Role, ...] = ("system", "user", "model")


@final
class Turn:
    """What was said at once: parts, and for a model's turn why it ended and what the provider reported.

    Attributes:
        parts: in the order in which they came.
        finish_reason: `None` for what no model said.
        by: `"engine"` for a turn that the library wrote itself (a correction of a structured answer), else `None`.
        created_at: when it was closed.
        encodings: the cache of `encoded()`, by its keys; `None` while it is empty.
    """

    __slots__ = ("by", "created_at", "encodings", "extra", "finish_reason", "metadata", "parts")

    def __init__(
        self,
        parts: Iterable[Part],
        *,
        finish_reason: FinishReason | None = None,
        metadata: Metadata | None = None,
        created_at: datetime | None = None,
        by: str | None = None,
        extra: Extra = None,
    ) -> None:
        if created_at is not None and created_at.utcoffset() is None:
            msg = f"a time needs a zone, and {created_at!r} has none: pass datetime(…, tzinfo=timezone.utc)"
            raise UsageError(msg)
        self.parts: tuple[Part, ...] = tuple(parts)
        self.finish_reason: FinishReason | None = finish_reason
        self.metadata = metadata
        self.created_at = created_at or datetime.now(UTC)
        self.by = by
        self.extra = extra
        self.encodings: dict[Hashable, bytes] | None = None

    def __repr__(self) -> str:
        return f"Turn({list(self.parts)!r}, finish_reason={self.finish_reason!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Turn) and all(
            getattr(self, name) == getattr(other, name) for name in self.__slots__ if name != "encodings"
        )

    __hash__ = object.__hash__

    @property
    def text(self) -> str:
        """Its text parts, joined."""
        return "".join([part.text for part in self.parts if isinstance(part, Text)])

    @property
    def tools(self) -> list[Tool]:
        """Its tools, in the order of emission."""
        return [part for part in self.parts if isinstance(part, Tool)]

    @property
    def usage(self) -> Usage:
        """What it cost."""
        return self.metadata.usage if self.metadata is not None else Usage()

    @property
    def settled(self) -> bool:
        """Whether nothing in it can change any more: all its tools are resolved."""
        return all(part.resolved for part in self.parts if isinstance(part, Tool))

    def encoded(self, key: Hashable, encode: Callable[[Turn], bytes]) -> bytes:
        """`encode(self)`, remembered under `key` once all its tools are resolved.

        `key` stands for everything the encoding depends on besides the turn: the codec and its configuration.
        """
        cache = self.encodings
        if cache is not None and (data := cache.get(key)) is not None:
            return data
        data = encode(self)
        if self.settled:
            if cache is None:
                cache = self.encodings = {}
            cache[key] = data
        return data

    @staticmethod
    def settled_from(
        turns: Sequence[tuple[Role, Turn]],
        first: int,
        key: Hashable,
        encoders: Mapping[Role, Callable[[Turn], bytes]],
    ) -> list[bytes]:
        """The encodings of the turns from `first` on, up to the first turn that can still change."""
        # A history of thousands of turns passes here: one that has been encoded costs two look-ups.
        found: list[bytes] = []
        for role, turn in islice(turns, first, None):
            cache = turn.encodings
            data = cache.get(key) if cache is not None else None
            if data is None:
                if not turn.settled:
                    break
                data = turn.encoded(key, encoders[role])
            found.append(data)
        return found


@final
class Content:
    """The consecutive turns of one role."""

    __slots__ = ("extra", "role", "turns")

    def __init__(self, role: Role, turns: Iterable[Turn] = (), *, extra: Extra = None) -> None:
        if role not in ROLES:
            msg = f"a role is one of {', '.join(ROLES)}, not {role!r}"
            raise UsageError(msg)
        self.role: Role = role
        self.turns: list[Turn] = list(turns)
        self.extra = extra

    @classmethod
    def of(cls, role: Role, *parts: Part | str) -> Self:
        """A content of one turn; a string is a `Text`."""
        return cls(role, [Turn([Text(part) if isinstance(part, str) else part for part in parts])])

    def __repr__(self) -> str:
        return f"Content({self.role!r}, {self.turns!r})"

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Content)
            and self.role == other.role
            and self.turns == other.turns
            and self.extra == other.extra
        )

    __hash__ = object.__hash__

    @property
    def parts(self) -> list[Part]:
        """The parts of all its turns, in order."""
        return [part for turn in self.turns for part in turn.parts]

    @property
    def text(self) -> str:
        """The text of all its turns, joined."""
        return "".join([turn.text for turn in self.turns])

    @property
    def tools(self) -> list[Tool]:
        """The tools of all its turns."""
        return [tool for turn in self.turns for tool in turn.tools]
