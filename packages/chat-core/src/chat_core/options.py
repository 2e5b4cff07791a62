"""Options of a model request: sampling, limits, tool choice, reasoning, and provider-specific extras."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Literal, Protocol, TypeAlias, TypeVar, final, runtime_checkable

from chat_core.errors import UnsupportedOptionError, UsageError

ReasoningEffort: TypeAlias = Literal["none", "minimal", "low", "medium", "high", "xhigh"]
ExtrasT = TypeVar("ExtrasT")


@final
@dataclass(frozen=True, slots=True)
class NamedTool:
    """Tool choice that makes the model call this tool."""

    name: str


ToolChoice: TypeAlias = Literal["auto", "none", "required"] | NamedTool


@runtime_checkable
class ProviderOptions(Protocol):
    """Typed options of one provider. All other providers reject them."""

    @property
    def provider(self) -> str:
        """Name of the provider that supports these options."""
        ...


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ChatOptions:
    """Options that several providers support. `None` leaves the choice to the provider.

    A provider raises `UnsupportedOptionError` for an option that it does not support; options are never ignored.

    Attributes:
        temperature: sampling temperature; 0 is the least random.
        top_p: nucleus sampling: sample from the most likely tokens with this total probability.
        max_tokens: maximum tokens of one response, including reasoning if the provider counts it.
        stop: texts at which the response ends.
        seed: seed for repeatable sampling, as far as the provider guarantees it.
        tool_choice: whether the model must call a tool: `"auto"`, `"none"`, `"required"`, or `NamedTool("…")`. The last
            two are sent until the model has made a call that can run, then `"auto"`.
        parallel_tool_calls: whether one response may contain several tool calls.
        reasoning: reasoning effort by name, or a budget in tokens.
        timeout: seconds without data from the provider after which a request fails with `RequestTimeoutError`.
        extras: options of single providers, each an instance of the provider's own class.
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
            msg = f"stop must be a tuple of texts, not one text: pass stop=({self.stop!r},)"
            raise UsageError(msg)
        if self.max_tokens is not None and self.max_tokens < 1:
            msg = f"max_tokens must be at least 1, not {self.max_tokens!r}"
            raise UsageError(msg)
        if self.timeout is not None and self.timeout <= 0:
            msg = f"timeout is in seconds and must be more than 0, not {self.timeout!r}"
            raise UsageError(msg)

    def over(self, defaults: ChatOptions, /) -> ChatOptions:
        """Return these options, completed by `defaults` where they are not set.

        An extra replaces the extra of the same class in `defaults`.
        """
        if defaults == _UNSET:
            return self
        mine = {item.name: value for item in _FIELDS if (value := getattr(self, item.name)) is not None}
        kept = [extra for extra in defaults.extras if type(extra) not in {type(own) for own in self.extras}]
        mine["extras"] = (*kept, *self.extras)
        return replace(defaults, **mine)

    def extra(self, kind: type[ExtrasT], provider: str, /) -> ExtrasT | None:
        """Return the extra of one class, or `None` if there is none.

        Args:
            kind: class of the extra.
            provider: name of the calling provider, for the error.

        Raises:
            UnsupportedOptionError: an extra of another class is set.
        """
        found: ExtrasT | None = None
        for extra in self.extras:
            if isinstance(extra, kind):
                found = extra
            else:
                msg = f"{provider} does not support {type(extra).__name__}, an option of {extra.provider}: remove it"
                raise UnsupportedOptionError(msg)
        return found

    def refuse(self, provider: str, *names: str) -> None:
        """Check that none of the options `names` is set, on behalf of a provider that does not support them.

        Args:
            provider: name of the calling provider, for the error.
            names: names of the unsupported options.

        Raises:
            UnsupportedOptionError: one of `names` is set.
        """
        for name in names:
            value: object = getattr(self, name)
            if value is not None:
                msg = f"{provider} does not support the option {name}={value!r}: remove it or use another provider"
                raise UnsupportedOptionError(msg)


_FIELDS = fields(ChatOptions)
_UNSET = ChatOptions()
