"""What a run ends in: an answer, or a pause."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Generic, Literal, TypeAlias, final

from typing_extensions import TypeVar

from chat_core.messages import File, ProviderPart, Reasoning, Turn
from chat_core.usage import NO_USAGE, Metadata, Usage

if TYPE_CHECKING:
    from chat_core.messages import FinishReason, Part

ValueT_co = TypeVar("ValueT_co", covariant=True)
PauseT = TypeVar("PauseT", bound="Paused")

WaitKind: TypeAlias = Literal["approval", "schedule", "interrupted"]
PauseReason: TypeAlias = Literal["AwaitingApproval", "Scheduled", "Interrupted", "Mixed"]


@final
@dataclass(frozen=True, slots=True)
class ChatResponse:
    """An answer. `turn` is the last turn of the run, as it stands in the history; `usage` is the whole run's."""

    turn: Turn
    usage: Usage = NO_USAGE

    @property
    def text(self) -> str:
        """The text of the answer."""
        return self.turn.text

    @property
    def parts(self) -> tuple[Part, ...]:
        """Everything in the answer, in order."""
        return self.turn.parts

    @property
    def reasoning(self) -> str:
        """What the model thought before it answered."""
        return "".join([part.text for part in self.turn.parts if isinstance(part, Reasoning)])

    @property
    def files(self) -> list[File]:
        """The files in the answer."""
        return [part for part in self.turn.parts if isinstance(part, File)]

    @property
    def refusal(self) -> str | None:
        """The model's words where it refused, for providers that tell a refusal from an answer."""
        return refusal_of(self.turn)

    @property
    def finish_reason(self) -> FinishReason | None:
        """Why the model stopped."""
        return self.turn.finish_reason

    @property
    def metadata(self) -> Metadata:
        """What the provider reported with the last call."""
        return self.turn.metadata or Metadata()


def refusal_of(turn: Turn) -> str | None:
    """The words of a refusal in `turn`: a provider part of kind `refusal`, `None` where there is none."""
    for part in turn.parts:
        if isinstance(part, ProviderPart) and part.kind == "refusal":
            return str(part.data.get("refusal", ""))
    return None


@final
@dataclass(frozen=True, slots=True)
class StructuredResponse(Generic[ValueT_co]):
    """A structured answer: the validated value, and the text that it was read from."""

    value: ValueT_co
    raw: str
    turn: Turn
    usage: Usage = NO_USAGE

    @property
    def metadata(self) -> Metadata:
        """What the provider reported with the last call."""
        return self.turn.metadata or Metadata()


@final
@dataclass(frozen=True, slots=True)
class Wait:
    """One call that a pause is about.

    Attributes:
        kind: what it waits for: a person's approval, a time, or a person's word on what became of it.
        tool_id: our id of the call, in the conversation that `path` leads to.
        path: ids from the outermost tool to this one; just `(tool_id,)` where no chat is nested.
        name: of the tool.
        arguments: what would run, validated; the approver is shown these.
        expires_at: when an approval comes too late, where it ever does.
        at: when a scheduled call is due.
        error: why an approval was taken back, or what is known of the interruption.
    """

    kind: WaitKind
    tool_id: str
    path: tuple[str, ...]
    name: str
    arguments: Mapping[str, object] = field(hash=False)
    expires_at: datetime | None = None
    at: datetime | None = None
    error: str | None = None


_REASONS: dict[WaitKind, PauseReason] = {
    "approval": "AwaitingApproval",
    "schedule": "Scheduled",
    "interrupted": "Interrupted",
}


@final
@dataclass(frozen=True, slots=True)
class Paused:
    """A run halted: somebody, or the clock, must speak first. The history holds everything that has happened."""

    waiting: tuple[Wait, ...]
    usage: Usage = NO_USAGE

    @property
    def reason(self) -> PauseReason:
        """What is waited for, in one word."""
        kinds: set[WaitKind] = {wait.kind for wait in self.waiting}
        return _REASONS[kinds.pop()] if len(kinds) == 1 else "Mixed"

    def join(self: PauseT, other: Paused, /) -> PauseT:  # noqa: PYI019 - mypy reads Self in a final class as the class
        """This pause and another one, as one."""
        return replace(self, waiting=(*self.waiting, *other.waiting), usage=self.usage + other.usage)

    def prefixed(self: PauseT, tool_id: str, /) -> PauseT:  # noqa: PYI019 - as above
        """This pause as the chat outside sees it, whose tool `tool_id` paused."""
        return replace(self, waiting=tuple([replace(wait, path=(tool_id, *wait.path)) for wait in self.waiting]))

    def with_usage(self: PauseT, usage: Usage, /) -> PauseT:  # noqa: PYI019 - as above
        """This pause with the usage of its run."""
        return replace(self, usage=usage)
