"""Options of a model request: sampling, limits, tool choice, reasoning, and provider-specific extras."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any, Final, Literal, Protocol, TypeAlias, TypeVar, cast, final, get_args, runtime_checkable

from chat_core.arguments import argument_error, require_text
from chat_core.errors import UnsupportedOptionError, UsageError

ReasoningEffort: TypeAlias = Literal["none", "minimal", "low", "medium", "high", "xhigh"]
ExtrasT = TypeVar("ExtrasT")


@final
@dataclass(frozen=True, slots=True)
class NamedTool:
    """A tool choice that requires the model to call the tool `name`."""

    name: str

    def __post_init__(self) -> None:
        require_text(name=self.name)


_ToolChoiceName: TypeAlias = Literal["auto", "none", "required"]
ToolChoice: TypeAlias = _ToolChoiceName | NamedTool


@runtime_checkable
class ProviderOptions(Protocol):
    """Protocol for the typed options of one provider. All other providers reject them."""

    @property
    def provider(self) -> str:
        """Name of the provider that supports these options."""
        ...


@final
@dataclass(frozen=True, slots=True)
class Instructions:
    """System text for a request that is not part of the conversation and is never stored.

    Attributes:
        fixed: text that is sent before the system turns of the conversation.
        changing: text that is sent after the system turns. Use it for text that differs from run to run: the beginning
            of the requests then stays equal, and providers can cache it.
    """

    fixed: str = ""
    changing: str = ""

    def __post_init__(self) -> None:
        require_text(fixed=self.fixed, changing=self.changing)

    @classmethod
    def of(cls, instructions: str | Instructions | None, /) -> Instructions:
        """Convert a value of the option `instructions` to `Instructions`."""
        if isinstance(instructions, Instructions):
            return instructions
        return cls(instructions or "")


def join_instructions(texts: Iterable[str], /) -> str:
    """Join texts with blank lines between them. Empty texts are omitted."""
    return "\n\n".join([text for text in texts if text])


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ChatOptions:
    """Options that several providers support. `None` leaves the choice to the provider.

    A provider raises `UnsupportedOptionError` for an option that it does not support; options are never ignored.

    Attributes:
        temperature: sampling temperature; 0 is the least random.
        top_p: nucleus sampling: sample from the most likely tokens with this total probability.
        top_k: sample from this number of most likely tokens. Claude, Gemini and llama.cpp support it.
        max_tokens: maximum tokens of one response, including reasoning if the provider counts it.
        stop: texts at which the response ends.
        seed: seed for repeatable sampling, as far as the provider guarantees it.
        tool_choice: whether the model must call a tool: `"auto"`, `"none"`, `"required"`, or `NamedTool("…")`. The last
            two are sent until the model has made a call that can run, then `"auto"`.
        parallel_tool_calls: whether one response may contain several tool calls.
        reasoning: reasoning effort by name, or a budget in tokens.
        timeout: seconds without data from the provider after which a request fails with `RequestTimeoutError`.
        instructions: system text that is not stored. It follows the texts of `with_instructions()` and precedes the
            system turns of the conversation. See `Instructions` for text that follows them.
        extras: options of single providers, each an instance of the provider's own class.

    Raises:
        UsageError: a value is not of the type of its option, or out of its range.
    """

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    max_tokens: int | None = None
    stop: tuple[str, ...] | None = None
    seed: int | None = None
    tool_choice: ToolChoice | None = None
    parallel_tool_calls: bool | None = None
    reasoning: ReasoningEffort | int | None = None
    timeout: float | None = None
    instructions: str | Instructions | None = field(default=None, repr=False)
    extras: tuple[ProviderOptions, ...] = ()

    def __post_init__(self) -> None:
        for item in _FIELDS:
            if (value := getattr(self, item.name)) is not item.default:
                allowed, accepts = _ALLOWED[item.name]
                if not accepts(value):
                    msg = f"{item.name} must be {allowed}, not {value!r}"
                    raise UsageError(msg)

    def over(self, defaults: ChatOptions, /) -> ChatOptions:
        """Return these options merged over `defaults`, which provide the values that these options do not set.

        An extra replaces the extra of the same class in `defaults`.

        Raises:
            UsageError: `defaults` is not a `ChatOptions`.
        """
        if not isinstance(defaults, ChatOptions):
            raise argument_error("defaults", "ChatOptions", defaults)
        if defaults == _UNSET:
            return self
        mine = {item.name: value for item in _FIELDS if (value := getattr(self, item.name)) is not None}
        kept = [extra for extra in defaults.extras if type(extra) not in {type(own) for own in self.extras}]
        mine["extras"] = (*kept, *self.extras)
        return replace(defaults, **mine)

    def extra(self, kind: type[ExtrasT], provider: str, /) -> ExtrasT | None:
        """Return the extra of the class `kind`, or `None` if it is not set.

        Args:
            kind: class of the extra.
            provider: name of the calling provider, for the error message.

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
        """Raise `UnsupportedOptionError` if any of the options `names` is set.

        Args:
            provider: name of the calling provider, for the error message.
            names: names of the unsupported options.

        Raises:
            UnsupportedOptionError: one of `names` is set.
        """
        require_text(provider=provider)
        for name in names:
            if not isinstance(name, str) or name not in _ALLOWED:
                raise argument_error("names", "names of options, such as 'seed'", name)
            value: object = getattr(self, name)
            if value is not None:
                msg = f"{provider} does not support the option {name}={value!r}: remove it or use another provider"
                raise UnsupportedOptionError(msg)


def _is_whole(value: object, least: float = -math.inf) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _is_finite(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def _is_tuple(value: object, kind: type) -> bool:
    return isinstance(value, tuple) and all(isinstance(item, kind) for item in cast("tuple[object, ...]", value))


_ALLOWED: Final[Mapping[str, tuple[str, Callable[[Any], bool]]]] = {
    "temperature": ("a finite number, such as 0.7", _is_finite),
    "top_p": ("a finite number, such as 0.9", _is_finite),
    "top_k": ("a whole number that is at least 1", partial(_is_whole, least=1)),
    "max_tokens": ("a whole number that is at least 1", partial(_is_whole, least=1)),
    "stop": ("a tuple of texts, such as stop=('END',)", partial(_is_tuple, kind=str)),
    "seed": ("a whole number, such as 7", _is_whole),
    "tool_choice": (
        "'auto', 'none', 'required' or NamedTool('…')",
        lambda value: isinstance(value, NamedTool) or value in get_args(_ToolChoiceName),
    ),
    "parallel_tool_calls": ("True or False", lambda value: isinstance(value, bool)),
    "reasoning": (
        f"one of {', '.join(map(repr, get_args(ReasoningEffort)))}, or a whole number of tokens",
        lambda value: value in get_args(ReasoningEffort) if isinstance(value, str) else _is_whole(value),
    ),
    "timeout": (
        "in seconds and more than 0, such as 30.0",
        lambda value: isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0,
    ),
    "instructions": ("a string or Instructions(...)", lambda value: isinstance(value, (str, Instructions))),
    "extras": ("a tuple of provider options, such as (ClaudeOptions(),)", partial(_is_tuple, kind=ProviderOptions)),
}
"""Description of the allowed values of each option, with a function that checks a value."""
_FIELDS = fields(ChatOptions)
_UNSET = ChatOptions()
