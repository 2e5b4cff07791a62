"""`Turn`, one contribution to a conversation, and `Content`, which groups consecutive turns of one role.

The parts of a `Turn` never change after construction. Only the status of its tool calls changes. As soon as all calls
are resolved, the turn cannot change any more, so it caches the encodings that codecs produce.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import ClassVar, Final, Literal, Self, TypeAlias, cast, final, get_args

from chat_core.arguments import argument_error, require_time
from chat_core.errors import UsageError
from chat_core.frozen import FrozenList
from chat_core.json import dumps
from chat_core.messages._tool_values import json_object
from chat_core.messages.parts import (
    Embedding,
    Extra,
    File,
    ProviderPart,
    Reasoning,
    Recalled,
    Rewind,
    Structured,
    Summary,
    Text,
)
from chat_core.messages.tool import Tool
from chat_core.usage import NO_USAGE, Metadata, Usage

Part: TypeAlias = Text | Reasoning | Tool | Structured | File | Embedding | ProviderPart | Summary | Rewind | Recalled
"""Any part of a turn."""

ClientToolObjects: TypeAlias = Iterable[Mapping[str, object]]
"""JSON objects with the `name`, the `description` and the `parameters` of tools that a client runs itself."""
Role: TypeAlias = Literal["system", "user", "model"]
FinishReason: TypeAlias = Literal[
    "stop", "length", "tool_calls", "content_filter", "refusal", "pause", "interrupted", "other"
]
"""Normalized reason why a model stopped. The provider's own value is in the turn's metadata.

`"interrupted"` is set by the engine: the user interrupted the response, and the turn has the delivered text. Decoders
report unknown values as `"other"`. The engine runs calls only after `"stop"`, `"tool_calls"` and `"pause"`. With
`"other"` or without a reason, a response that contains calls raises `InvalidResponseError`, and a response without
calls is final.
"""

WITHDRAWN_REASONS: Final[frozenset[FinishReason]] = frozenset({"content_filter", "refusal"})
"""Finish reasons of responses that the provider withdrew. A run ends with such a response."""

FINISH_REASONS: tuple[FinishReason, ...] = get_args(FinishReason)
ROLES: tuple[Role, ...] = ("system", "user", "model")


APPLICATION: Final = "application"
"""Value of `Turn.by` for a turn with a call that the application made."""


@final
class Encodings:
    """Encodings of one turn, each with the cache key of its codec. Copies of the turn share this object.

    Nearly all turns are encoded by one codec. A dict for one encoding would need more memory than the encoding.
    """

    __slots__ = ("_first", "_others")

    def __init__(self) -> None:
        # The key and its encoding are set in one step, because several threads may encode a turn at the same time.
        self._first: tuple[Hashable, bytes] | None = None
        self._others: Mapping[Hashable, bytes] | None = None

    def get(self, key: Hashable) -> bytes | None:
        """Return the encoding for a cache key, or None."""
        first = self._first
        if first is not None and first[0] == key:
            return first[1]
        return None if self._others is None else self._others.get(key)

    def put(self, key: Hashable, data: bytes) -> None:
        """Store an encoding.

        Args:
            key: cache key, as for `Turn.encoded()`.
            data: the encoding. It replaces an earlier encoding for the key.
        """
        first = self._first
        if first is None or first[0] == key:
            self._first = key, data
        else:
            self._others = {**(self._others or {}), key: data}


@final
class Turn:
    """Contribution of one role to a conversation: its parts and, from a model, the finish reason and metadata.

    Consecutive turns of the same role form one `Content`.

    Attributes:
        parts: the parts, in order.
        finish_reason: reason why the model stopped; `None` for turns of other roles. An unknown value becomes
            `"other"`.
        metadata: data that the provider reported, such as model and usage; `None` for turns of other roles.
        created_at: time at which the turn was completed, with a time zone; now by default.
        by: `"engine"` for a turn written by this library, such as a request to correct an answer; `"application"` for a
            call made by `chat.call()`; otherwise `None`.
        delivered: whether the after-hooks were called for this turn, if it is a final model response. While it is
            `False`, the store offers the conversation to workers, so that a run calls the hooks. `None` if the turn has
            no hooks.
        failed_usage: tokens of failed requests: failed attempts before this turn, and later requests that returned no
            turn. `None` if no such request had tokens.
        failed_requests: number of these requests, including those without reported tokens.
        state: object that is merged into the state of the conversation; `None` for model turns.
        client_tools: tools that the client declares with this user turn, as JSON objects, see `ClientTools`.
        client_id: id that a client gave this user message, so that a message sent twice is stored once; otherwise
            `None`.
        view_offset: for a model turn, `View.offset` of the view that the request contained; otherwise 0.
        extra: unknown fields of the stored turn.
        encodings: cache of `encoded()`; `None` while it is empty.
        owned: whether a `Messages` object contains the turn. If it has tool calls, other `Messages` objects copy it.
    """

    __slots__ = (
        "by", "client_id", "client_tools", "created_at", "delivered", "encodings", "extra",
        "failed_requests", "failed_usage", "finish_reason", "metadata", "owned", "parts", "state", "view_offset",
    )  # fmt: skip

    def __init__(
        self,
        parts: Iterable[Part],
        *,
        finish_reason: FinishReason | None = None,
        metadata: Metadata | None = None,
        created_at: datetime | None = None,
        by: str | None = None,
        state: Mapping[str, object] | None = None,
        client_tools: ClientToolObjects = (),
        client_id: str | None = None,
        extra: Extra = None,
    ) -> None:
        if created_at is not None:
            require_time("created_at", created_at)
        try:
            self.parts: tuple[Part, ...] = tuple(parts)
        except TypeError as error:
            raise argument_error("parts", "a list of parts, such as [Text('…')]", parts) from error
        # A value that the document format does not allow would make the stored conversation unreadable.
        known = finish_reason is None or finish_reason in FINISH_REASONS
        self.finish_reason: FinishReason | None = finish_reason if known else "other"
        self.metadata: Metadata | None = metadata
        self.created_at: datetime = created_at or datetime.now(UTC)
        self.by: str | None = by
        self.delivered: bool | None = None
        self.failed_usage: Usage | None = None
        self.failed_requests: int = 0
        self.state: Mapping[str, object] | None = None if state is None else json_object(state, "state")
        self.view_offset: int = 0
        self.client_tools: tuple[Mapping[str, object], ...] = ()
        if client_tools != ():
            self.client_tools = _read_client_tools(client_tools)
        self.client_id: str | None = client_id
        self.extra: Extra = extra
        self.encodings: Encodings | None = None
        self.owned: bool = False

    def __repr__(self) -> str:
        return f"Turn({list(self.parts)!r}, finish_reason={self.finish_reason!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Turn) and all(
            getattr(self, name) == getattr(other, name) for name in self.__slots__ if name not in {"encodings", "owned"}
        )

    __hash__: ClassVar[Callable[[object], int]] = object.__hash__

    @property
    def text(self) -> str:
        """Concatenated text of the text parts; empty if the turn has no text."""
        return "".join([part.text for part in self.parts if isinstance(part, Text)])

    @property
    def tools(self) -> list[Tool]:
        """Tool calls, in the order in which the model made them."""
        return [part for part in self.parts if isinstance(part, Tool)]

    @property
    def usage(self) -> Usage:
        """Tokens used by the request that produced this turn; zero if the provider reported none."""
        return self.metadata.usage if self.metadata is not None else NO_USAGE

    @property
    def settled(self) -> bool:
        """Whether all tool calls are resolved. Such a turn cannot change any more."""
        if self.encodings is not None:
            return True
        for part in self.parts:  # noqa: SIM110 - a loop is faster, and a history has thousands of turns
            if isinstance(part, Tool) and not part.resolved:
                return False
        return True

    def encoded(self, key: Hashable, encode: Callable[[Turn], bytes]) -> bytes:
        """Return `encode(self)`. The result is cached under `key` if all tool calls of the turn are resolved.

        The arguments are not checked, because providers call this method for each turn of each request.

        Args:
            key: cache key. It identifies the codec and the part of its configuration that affects the encoding.
            encode: encoder of one turn, called on a cache miss.
        """
        cache = self.encodings
        if cache is not None and (data := cache.get(key)) is not None:
            return data
        data = encode(self)
        if self.settled:
            if cache is None:
                cache = self.encodings = Encodings()
            cache.put(key, data)
        return data

    @staticmethod
    def settled_from(
        turns: Sequence[tuple[Role, Turn]],
        first: int,
        key: Hashable,
        encoders: Mapping[Role, Callable[[Turn], bytes]],
    ) -> list[bytes]:
        """Return the encodings of the turns from index `first` on. Stop at the first turn that is not settled.

        The arguments are not checked, as in `encoded()`.

        Args:
            turns: turns of a conversation, each with its role.
            first: index of the first turn to encode.
            key: cache key, as for `encoded()`.
            encoders: encoder for each role.
        """
        # Histories have thousands of turns, so a cache hit is looked up here without calling `encoded()`.
        encodings: list[bytes] = []
        for role, turn in islice(turns, first, None):
            cache = turn.encodings
            data = cache.get(key) if cache is not None else None
            if data is None:
                if not turn.settled:
                    break
                data = encoders[role](turn)
                if cache is None:
                    cache = turn.encodings = Encodings()
                cache.put(key, data)
            encodings.append(data)
        return encodings


@final
class Content:
    """Consecutive turns of a conversation that have the same role.

    Attributes:
        role: `"system"`, `"user"` or `"model"`.
        extra: unknown fields of the stored content.
    """

    __slots__ = ("_turns", "extra", "role")

    def __init__(self, role: Role, turns: Iterable[Turn] = (), *, extra: Extra = None) -> None:
        if role not in ROLES:
            msg = f"role must be one of {', '.join(ROLES)}, not {role!r}"
            raise UsageError(msg)
        self.role: Role = role
        try:
            self._turns: FrozenList[Turn] = FrozenList(turns)
        except TypeError as error:
            raise argument_error("turns", "a list of turns, such as [Turn([Text('…')])]", turns) from error
        self.extra: Extra = extra

    @property
    def turns(self) -> Sequence[Turn]:
        """The turns, oldest first; read-only."""
        return self._turns

    def append(self, turn: Turn, /) -> None:
        """Append a turn. Call `Messages.append()` instead, which also registers the tool calls of the turn."""
        list[Turn].append(self._turns, turn)

    @classmethod
    def of(cls, role: Role, *parts: Part | str) -> Self:
        """Create a content that consists of a single turn.

        Args:
            role: role of the content.
            parts: parts of the turn; a string becomes a `Text`.

        Raises:
            UsageError: `role` is not one of the three roles, or a value is neither a string nor a part.
        """
        return cls(role, [Turn([Text(part) if isinstance(part, str) else _require_part(part) for part in parts])])

    def __repr__(self) -> str:
        return f"Content({self.role!r}, {self.turns!r})"

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Content)
            and self.role == other.role
            and self.turns == other.turns
            and self.extra == other.extra
        )

    __hash__: ClassVar[Callable[[object], int]] = object.__hash__

    @property
    def parts(self) -> list[Part]:
        """Parts of all turns, in order."""
        return [part for turn in self.turns for part in turn.parts]

    @property
    def text(self) -> str:
        """Concatenated text of all turns."""
        return "".join([turn.text for turn in self.turns])

    @property
    def tools(self) -> list[Tool]:
        """Tool calls of all turns, in order."""
        return [tool for turn in self.turns for tool in turn.tools]


def _read_client_tools(items: ClientToolObjects) -> tuple[Mapping[str, object], ...]:
    if not isinstance(items, Iterable) or isinstance(items, Mapping):
        raise argument_error("client_tools", "a list of JSON objects", cast("object", items))
    return tuple([json_object(item, "a client tool") for item in items])


def describe_part(part: Part) -> str:
    """Return a readable text for a part, such as its text or the name, arguments and result of a tool call."""
    if isinstance(part, Text):
        return part.text
    if isinstance(part, Tool):
        arguments = part.call.text if part.edited is None else f"{dumps(dict(part.edited))}, edited"
        result = f": {part.result_text()}" if part.resolved else ""
        return f"{part.name}({arguments}) → {type(part.status).__name__}{result}"
    return repr(part)


def _require_part(part: Part) -> Part:
    """Return `part`, or raise `UsageError` if it is not a message part."""
    if not isinstance(cast("object", part), Part):
        msg = f"the message must consist of texts and parts, such as File.from_path('…'), not {part!r}"
        raise UsageError(msg)
    return part
