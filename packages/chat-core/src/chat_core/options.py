"""What a caller may ask of a model beside the conversation."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Literal, Protocol, TypeAlias, TypeVar, final, runtime_checkable

from chat_core.errors import UnsupportedOptionError, UsageError

ReasoningEffort: TypeAlias = Literal["none", "minimal", "low", "medium", "high", "xhigh"]
ExtrasT = TypeVar("ExtrasT")


@final
@dataclass(frozen=True, slots=True)
class NamedTool:
    """A tool choice: this tool, and no other."""

    name: str


ToolChoice: TypeAlias = Literal["auto", "none", "required"] | NamedTool


@runtime_checkable
class ProviderOptions(Protocol):
    """Typed options of one provider. `provider` is its name; every other provider refuses them."""

    @property
    def provider(self) -> str:
        """The name of the provider that knows these options."""
        ...


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ChatOptions:
    """Options that several providers know. `None` leaves the choice to the provider.

    An option that a provider does not know is refused with `UnsupportedOptionError`, never dropped.

    Attributes:
        temperature: how freely the model chooses its words; 0 is the least free.
        top_p: choose among the likeliest words that have this probability together.
        max_tokens: at most so many tokens in one answer, reasoning included where the provider counts it so.
        stop: texts that end the answer.
        seed: ask for the same answer to the same question, as far as the provider can give it.
        tool_choice: whether a tool must be called: `"auto"`, `"none"`, `"required"`, or `NamedTool("…")`.
        parallel_tool_calls: whether one answer may hold several calls.
        reasoning: an effort by name, or a budget in tokens.
        timeout: seconds without a byte from the provider after which a call fails with `RequestTimeoutError`.
        extras: options that one provider alone knows, by its own typed class.
    """

    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    stop: tuple[str, ...] | None = None
    seed: int | None = None
    tool_choice: ToolChoice | None = None
    parallel_tool_calls: bool | None = None
    reasoning: ReasoningEffort | int | None = None
    timeout: float | None = None
    extras: tuple[ProviderOptions, ...] = ()

    def __post_init__(self) -> None:
        if isinstance(self.stop, str):
            msg = f"stop is a tuple of texts, not one text: stop=({self.stop!r},)"
            raise UsageError(msg)
        if self.max_tokens is not None and self.max_tokens < 1:
            msg = f"max_tokens must be at least 1, not {self.max_tokens!r}"
            raise UsageError(msg)
        if self.timeout is not None and self.timeout <= 0:
            msg = f"timeout is in seconds and must be more than 0, not {self.timeout!r}"
            raise UsageError(msg)

    def over(self, defaults: ChatOptions, /) -> ChatOptions:
        """These options where they are set, else `defaults`.

        Of the extras, one here replaces the one of the same class there.
        """
        if defaults == _UNSET:
            return self
        mine = {item.name: value for item in _FIELDS if (value := getattr(self, item.name)) is not None}
        kept = [extra for extra in defaults.extras if type(extra) not in {type(own) for own in self.extras}]
        mine["extras"] = (*kept, *self.extras)
        return replace(defaults, **mine)

    def extra(self, kind: type[ExtrasT], provider: str, /) -> ExtrasT | None:
        """The extras of one class, for the provider of that name.

        Raises:
            UnsupportedOptionError: there are extras that are another provider's.
        """
        found: ExtrasT | None = None
        for extra in self.extras:
            if isinstance(extra, kind):
                found = extra
            else:
                msg = f"{provider} does not know {type(extra).__name__}, which is for {extra.provider}: leave it out"
                raise UnsupportedOptionError(msg)
        return found

    def refuse(self, provider: str, *names: str) -> None:
        """Refuse options that `provider` does not know.

        Raises:
            UnsupportedOptionError: one of `names` is set.
        """
        for name in names:
            value: object = getattr(self, name)
            if value is not None:
                msg = f"{provider} does not know the option {name}={value!r}: leave it out, or choose another provider"
                raise UnsupportedOptionError(msg)


_FIELDS = fields(ChatOptions)
_UNSET = ChatOptions()
