"""Outcomes of a run, which are a response or a pause."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Generic, Literal, Self, TypeAlias, cast, final

from typing_extensions import TypeVar

from chat_core.arguments import argument_error, require_type
from chat_core.event_json import JsonEvent, JsonRecord
from chat_core.messages import (
    Approved,
    File,
    FinishReason,
    Interrupted,
    Part,
    Pending,
    ProviderPart,
    Reasoning,
    Running,
    Suspended,
    Tool,
    Turn,
)
from chat_core.usage import NO_USAGE, Metadata, Usage

ValueT_co = TypeVar("ValueT_co", covariant=True)
PauseT = TypeVar("PauseT", bound="Paused")

WaitKind: TypeAlias = Literal["approval", "schedule", "result", "interrupted"]
PauseReason: TypeAlias = Literal["AwaitingApproval", "Scheduled", "AwaitingResult", "Interrupted", "Mixed"]


@final
@dataclass(frozen=True, slots=True)
class ChatResponse(JsonRecord):
    """The response of a chat without structured output.

    Attributes:
        turn: last turn of the run, which is also in the history.
        usage: usage of the whole run.
    """

    turn: Turn
    usage: Usage = NO_USAGE

    @property
    def text(self) -> str:
        """Text of the response."""
        return self.turn.text

    @property
    def parts(self) -> tuple[Part, ...]:
        """All parts of the response, in order."""
        return self.turn.parts

    @property
    def reasoning(self) -> str:
        """The reasoning of the response, concatenated from all its reasoning parts."""
        return "".join([part.text for part in self.turn.parts if isinstance(part, Reasoning)])

    @property
    def files(self) -> list[File]:
        """Files in the response."""
        return [part for part in self.turn.parts if isinstance(part, File)]

    @property
    def refusal(self) -> str | None:
        """The text of the model's refusal, or `None`. Only some providers mark refusals."""
        return refusal_of(self.turn)

    @property
    def finish_reason(self) -> FinishReason | None:
        """The normalized reason why the model stopped, or `None` if unknown."""
        return self.turn.finish_reason

    @property
    def metadata(self) -> Metadata:
        """Metadata of the last model call."""
        return self.turn.metadata or Metadata()


def refusal_of(turn: Turn) -> str | None:
    """Return the text of the provider part with the kind `refusal` in `turn`, or None if it has no such part."""
    for part in turn.parts:
        if isinstance(part, ProviderPart) and part.kind == "refusal":
            return str(part.data.get("refusal", ""))
    return None


@final
@dataclass(frozen=True, slots=True)
class StructuredResponse(JsonRecord, Generic[ValueT_co]):
    """The structured response of a chat, with its validated value.

    Attributes:
        value: validated value.
        raw: JSON text from which the value was read.
        turn: last turn of the run, which is also in the history.
        usage: usage of the whole run.
    """

    value: ValueT_co
    raw: str
    turn: Turn
    usage: Usage = NO_USAGE

    @property
    def metadata(self) -> Metadata:
        """Metadata of the last model call."""
        return self.turn.metadata or Metadata()


@final
@dataclass(frozen=True, slots=True)
class Delivery:
    """The final response of a run, as passed to after-hooks.

    Attributes:
        key: unique key of the response. If another run repeats the hooks after a crash, the key is the same.
        outcome: the return value of `complete()`, a `ChatResponse` or a `StructuredResponse`.
        usage: usage of this run. Earlier runs that paused or crashed are not included. `messages.usage` is the total of
            the conversation.
    """

    key: str
    outcome: object
    usage: Usage = NO_USAGE


@final
@dataclass(frozen=True, slots=True)
class Wait(JsonRecord):
    """A tool call that a paused run waits for.

    Attributes:
        kind: kind of wait: for an approval, a scheduled time, an external result, or, if the call was interrupted, a
            record of its outcome.
        tool_id: id of the tool call, in the conversation that `path` leads to.
        path: ids from the outermost tool call to this one; `(tool_id,)` if no chat is nested.
        name: name of the tool.
        arguments: validated arguments with which the tool would run.
        expires_at: deadline after which the call cannot be approved. A call that waits for its result or was
            interrupted fails at this time.
        at: time from which a scheduled call may run, or from which an interrupted call fails.
        error: reason for which an approval was revoked or the call was interrupted.
        of: role or name of the principal that must decide, from `RequireApproval(of=...)`.
        conversation: id of the conversation. `None` for plain messages, unless `Paused.of_conversation()` set it.
        owner: user who owns the conversation, or `None` if it has no owner.
        revision: number of status changes of the call. A front end sends it back with a decision, so that the decision
            does not apply to a later wait of the same call. `None` if unknown. Comparisons ignore it.
    """

    kind: WaitKind
    tool_id: str
    path: tuple[str, ...]
    name: str
    arguments: Mapping[str, object] = field(hash=False)
    expires_at: datetime | None = None
    at: datetime | None = None
    error: str | None = None
    of: str | None = None
    conversation: str | None = None
    owner: str | None = None
    revision: int | None = field(default=None, compare=False)

    @classmethod
    def from_tool(
        cls,
        tool: Tool,
        path: tuple[str, ...],
        *,
        conversation: str | None,
        owner: str | None,
        arguments: Mapping[str, object] | None = None,
    ) -> Self:
        """Create the `Wait` of a tool call that waits, or that an approver wants to decide.

        Args:
            tool: the call. If it does not wait, `kind` is `"approval"`.
            path: ids from the outermost tool call to this one.
            conversation: id of the stored conversation, or `None` for plain messages.
            owner: user who owns the conversation, or `None`.
            arguments: validated arguments. Default: the effective arguments of the call.

        Raises:
            UsageError: `tool` is not a `Tool`.
        """
        if not isinstance(tool, Tool):
            raise argument_error("tool", "a Tool, such as messages.pending()[0]", cast("object", tool))
        status = tool.status
        kind: WaitKind | None = "interrupted" if isinstance(status, Interrupted) else None
        if isinstance(status, Pending):
            kind = status.kind
        return cls(
            kind or "approval",
            tool.id,
            path,
            tool.name,
            tool.effective_arguments if arguments is None else arguments,
            status.expires_at if isinstance(status, (Pending, Approved, Interrupted)) else None,
            status.at if isinstance(status, (Pending, Interrupted)) else None,
            status.error if isinstance(status, Pending) else status.reason if isinstance(status, Interrupted) else None,
            status.of if isinstance(status, (Pending, Approved, Interrupted)) else None,
            conversation,
            owner,
            tool.revision,
        )


def iter_waits(
    tool: Tool, *, conversation: str | None, owner: str | None, above: tuple[str, ...] = ()
) -> Iterator[Wait]:
    """Yield the wait of a tool call, or the waits of the calls in its inner conversation.

    Args:
        tool: the call, such as one of `messages.pending()`.
        conversation: id of the stored conversation, or `None` if the caller does not need it.
        owner: user who owns the conversation, or `None`.
        above: ids of the outer calls, outermost first.
    """
    path, status = (*above, tool.id), tool.status
    if isinstance(status, (Running, Suspended)):
        # The waiting calls of an inner chat can be decided while the inner chat runs.
        for item in status.inner.pending() if status.inner is not None else ():
            yield from iter_waits(item, conversation=conversation, owner=owner, above=path)
    elif isinstance(status, Interrupted) or (isinstance(status, Pending) and status.kind is not None):
        yield Wait.from_tool(tool, path, conversation=conversation, owner=owner)


_REASONS: dict[WaitKind, PauseReason] = {
    "approval": "AwaitingApproval",
    "schedule": "Scheduled",
    "result": "AwaitingResult",
    "interrupted": "Interrupted",
}


@final
@dataclass(frozen=True, slots=True)
class Paused(JsonEvent):
    """Result of a run that paused to wait for decisions or for a time. The history contains everything that happened.

    Attributes:
        waiting: the waiting tool calls.
        usage: usage of the run.
    """

    waiting: tuple[Wait, ...]
    usage: Usage = NO_USAGE

    @property
    def reason(self) -> PauseReason:
        """The reason that all waits share, or `"Mixed"`."""
        kinds: set[WaitKind] = {wait.kind for wait in self.waiting}
        return _REASONS[kinds.pop()] if len(kinds) == 1 else "Mixed"

    def join(self: PauseT, other: Paused, /) -> PauseT:  # noqa: PYI019 - mypy reads Self in a final class as the class
        """Combine two pauses into one with all waits of both and the sum of their usage.

        Raises:
            UsageError: `other` is not a `Paused`.
        """
        require_type("other", other, Paused, "a Paused")
        return replace(self, waiting=(*self.waiting, *other.waiting), usage=self.usage + other.usage)

    def prefixed(self: PauseT, tool_id: str, /) -> PauseT:  # noqa: PYI019 - as above
        """Return this pause of an inner chat as a pause of the outer chat.

        The paths of the waits are prefixed with `tool_id`, the ID of the tool call that runs the inner chat.
        """
        return replace(self, waiting=tuple([replace(wait, path=(tool_id, *wait.path)) for wait in self.waiting]))

    def of_conversation(self: PauseT, id: str, owner: str | None = None, /) -> PauseT:  # noqa: PYI019 - as above
        """Return a copy of this pause whose waits contain the given conversation and owner.

        Front ends that show several conversations need them.

        Args:
            id: id of the conversation.
            owner: user who owns the conversation.
        """
        return replace(self, waiting=tuple([replace(wait, conversation=id, owner=owner) for wait in self.waiting]))

    def with_usage(self: PauseT, usage: Usage, /) -> PauseT:  # noqa: PYI019 - as above
        """Return a copy of this pause with the given usage."""
        return replace(self, usage=usage)
