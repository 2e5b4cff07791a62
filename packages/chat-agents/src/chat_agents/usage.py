"""`SessionUsage`, the tokens that a session has used, by model. It is computed from the history of the conversation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Final, cast, final

from chat_core import InvalidDocumentError, Messages, Role, Summary, Turn, Usage
from chat_core.arguments import require_type, require_whole
from chat_core.messages import APPLICATION, Tool

RESULT: Final = "delegation"
"""Type of the data about a finished delegation, and name of the field with this data in a posted turn."""
UNKNOWN: Final = "unknown"
"""Name in `SessionUsage.by_model` for requests whose model is not recorded, such as those of chats used as tools."""


@final
@dataclass(frozen=True, slots=True)
class TokenUsage:
    """Counts of requests and of the tokens that they used. Two counts can be added with `+`.

    Attributes:
        calls: model responses, and failed requests.
        compactions: how many of the calls wrote summaries.
        unmetered_calls: how many of the calls had no reported tokens. If one of several failed requests for the same
            response had tokens, none of them is counted.
        input_tokens: input tokens, including cached tokens.
        cached_input_tokens: part of `input_tokens` that was read from a cache.
        output_tokens: output tokens, including reasoning.
        reasoning_tokens: part of `output_tokens` that was reasoning.
        total_tokens: sum of input and output tokens.
    """

    calls: int = 0
    compactions: int = 0
    unmetered_calls: int = 0
    input_tokens: int = 0
    cached_input_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0
    total_tokens: int = 0

    def __add__(self, other: TokenUsage, /) -> TokenUsage:
        return TokenUsage(*[getattr(self, name) + getattr(other, name) for name in _COUNTS])


_COUNTS: Final = tuple(item.name for item in fields(TokenUsage))


@final
@dataclass(frozen=True, slots=True)
class SessionUsage:
    """Tokens that a session has used, including failed requests and summaries.

    Attributes:
        turns: user messages.
        totals: sum over all models.
        by_model: usage by model, sorted by name. Models are named as the provider names them in its responses.
    """

    turns: int = 0
    totals: TokenUsage = field(default_factory=TokenUsage)
    by_model: Mapping[str, TokenUsage] = field(default_factory=dict[str, TokenUsage])

    def __add__(self, other: SessionUsage, /) -> SessionUsage:
        names = sorted({*self.by_model, *other.by_model})
        by_model = {
            name: self.by_model.get(name, TokenUsage()) + other.by_model.get(name, TokenUsage()) for name in names
        }
        return SessionUsage(self.turns + other.turns, self.totals + other.totals, by_model)

    @classmethod
    def of(cls, messages: Messages, after: int = 0) -> SessionUsage:
        """Return the usage of a conversation, including the conversations of chats used as tools.

        Args:
            messages: the conversation.
            after: number of turns at the beginning that are not counted.
        """
        found: dict[str, TokenUsage] = {}
        for model, usage in _iterate_requests(messages, after):
            found[model] = found.get(model, TokenUsage()) + usage
        by_model = {name: found[name] for name in sorted(found)}
        turns = sum([role == "user" and turn.by is None for role, turn in _turns_after(messages, after)])
        return cls(turns, sum(by_model.values(), TokenUsage()), by_model)

    @classmethod
    def of_request(cls, usage: Usage) -> SessionUsage:
        """Return the usage of one request whose model is not recorded.

        Args:
            usage: tokens of the request.
        """
        require_type("usage", usage, Usage, "a Usage")
        tokens = _request_tokens(usage)
        return cls(0, tokens, {UNKNOWN: tokens})

    def to_dict(self) -> dict[str, object]:
        """Return the usage as a JSON object."""
        return asdict(self)

    @classmethod
    def from_dict(cls, value: object) -> SessionUsage:
        """Read the usage from a JSON object written by `to_dict()`. Missing counts are 0.

        Raises:
            InvalidDocumentError: the value is malformed.
        """
        data = _read_object(value, "usage")
        by_model = _read_object(data.get("by_model", {}), "usage.by_model")
        return cls(
            _read_count(data, "turns", "usage"),
            _read_tokens(data.get("totals", {}), "usage.totals"),
            {name: _read_tokens(by_model[name], f"usage.by_model.{name}") for name in sorted(by_model)},
        )


@final
@dataclass(frozen=True, slots=True)
class Imported:
    """Usage of the first turns of a session, as recorded by another library.

    Attributes:
        usage: the recorded usage.
        turns: number of turns that this usage covers.
    """

    usage: SessionUsage = field(default_factory=SessionUsage)
    turns: int = 0

    def to_dict(self) -> dict[str, object]:
        """Return the fields as a JSON object."""
        return {"usage": self.usage.to_dict(), "turns": self.turns}

    @classmethod
    def from_dict(cls, value: object) -> Imported:
        """Read the fields from a JSON object written by `to_dict()`.

        Raises:
            InvalidDocumentError: the value is malformed.
        """
        data = _read_object(value, "imported")
        return cls(SessionUsage.from_dict(data.get("usage", {})), _read_count(data, "turns", "imported"))


def _turns_after(messages: Messages, after: int) -> Sequence[tuple[Role, Turn]]:
    require_type("messages", messages, Messages, "a Messages object")
    require_whole("after", after, 0)
    return messages.turns[after:]


def _iterate_requests(messages: Messages, after: int = 0) -> Iterator[tuple[str, TokenUsage]]:
    """Yield the model name and the token usage of each request in a conversation."""
    turns = _turns_after(messages, after)
    model = next((name for _, turn in turns if (name := _model_name(turn))), UNKNOWN)
    for role, turn in turns:
        name = _model_name(turn) or model
        if role == "model":
            model = name
        if any(isinstance(part, Summary) for part in turn.parts):
            yield name, _request_tokens(turn.usage, compactions=1)
        elif role == "model" and turn.by != APPLICATION:
            yield name, _request_tokens(turn.usage)
        if turn.by == "engine" and turn.extra and RESULT in turn.extra:
            yield from _iterate_posted(turn.extra[RESULT])
        if turn.failed_usage or turn.failed_requests:
            yield name, _request_tokens(turn.failed_usage or Usage(), calls=turn.failed_requests or 1)
        for tool in turn.tools:
            yield from _iterate_inner(tool)


def _model_name(turn: Turn) -> str | None:
    return None if turn.metadata is None else turn.metadata.model


def _iterate_inner(tool: Tool) -> Iterator[tuple[str, TokenUsage]]:
    """Yield the usage of the inner conversation of a call, or the total usage if only that was stored."""
    if tool.inner is not None:
        yield from _iterate_requests(tool.inner)
    elif tool.inner_usage:
        yield UNKNOWN, _request_tokens(tool.inner_usage)


def _iterate_posted(payload: object) -> Iterator[tuple[str, TokenUsage]]:
    """Yield the usage of a background agent whose outcome was posted to the conversation."""
    usage = _read_object(_read_object(payload, RESULT).get("usage", {}), "usage")
    for name, counts in usage.items():
        yield name, _read_tokens(counts, f"usage.{name}")


def _request_tokens(usage: Usage, *, calls: int = 1, compactions: int = 0) -> TokenUsage:
    return TokenUsage(
        calls=calls,
        compactions=compactions,
        unmetered_calls=0 if usage else calls,
        input_tokens=usage.input_tokens,
        cached_input_tokens=usage.cache_read_tokens,
        output_tokens=usage.output_tokens,
        reasoning_tokens=usage.reasoning_tokens,
        total_tokens=usage.total_tokens,
    )


def _read_object(value: object, path: str) -> Mapping[str, object]:
    if not isinstance(value, dict):
        msg = f"expected a JSON object, not {value!r}"
        raise InvalidDocumentError(msg, path=path)
    return cast("dict[str, object]", value)


def _read_tokens(value: object, path: str) -> TokenUsage:
    data = _read_object(value, path)
    return TokenUsage(*[_read_count(data, name, path) for name in _COUNTS])


def _read_count(data: Mapping[str, object], name: str, path: str) -> int:
    value = data.get(name, 0)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        msg = f"expected a whole number of at least 0, not {value!r}"
        raise InvalidDocumentError(msg, path=f"{path}.{name}")
    return value
