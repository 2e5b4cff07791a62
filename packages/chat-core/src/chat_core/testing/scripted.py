"""Fake model provider that returns scripted answers."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TypeAlias, final

from chat_core.arguments import argument_error, require_items, require_type
from chat_core.errors import ChatError, StreamTruncatedError, UsageError
from chat_core.events import FilePart, ReasoningDelta, StructuredPart, TextDelta, ToolCallDelta
from chat_core.messages import (
    File,
    FinishReason,
    FunctionCall,
    Messages,
    Part,
    Reasoning,
    Role,
    Structured,
    Text,
    Tool,
    Turn,
)
from chat_core.options import ChatOptions
from chat_core.provider import Delta, EmbeddingsResponse, OutputSchema, ProviderMeta, ToolDeclarations
from chat_core.usage import Metadata, Usage


@final
@dataclass(frozen=True, slots=True)
class Answer:
    """Scripted answer of a `ScriptedProvider`.

    Attributes:
        parts: texts, calls and other parts, in order. Texts are streamed word by word.
        finish_reason: finish reason; by default `tool_calls` if there is a call, otherwise `stop`.
        usage: usage of the answer.
        fail_after: number of deltas after which the stream raises `error` or, if there is no error, is truncated.
        error: error to raise, immediately or after `fail_after` deltas.
        before: function that is called and awaited before the answer starts, such as `event.wait`.

    Raises:
        UsageError: `parts` is not a list of strings, calls and parts.
    """

    parts: Sequence[Part | FunctionCall | str] = ()
    finish_reason: FinishReason | None = None
    usage: Usage = field(default_factory=lambda: Usage(10, 5))
    fail_after: int | None = None
    error: ChatError | None = None
    before: Callable[[], Awaitable[object]] | None = None

    def __post_init__(self) -> None:
        if isinstance(self.parts, str) or not isinstance(self.parts, Sequence):
            raise argument_error("parts", "a list of strings, calls and parts, such as ['Hello.']", self.parts)
        for part in self.parts:
            if not isinstance(part, (str, FunctionCall, Part)):
                name, expected = "a part of an answer", "a string, a call or a part"
                raise argument_error(name, expected, part)


Scripted: TypeAlias = Answer | str | FunctionCall | ChatError | Sequence[Part | FunctionCall | str]


@final
@dataclass(frozen=True, slots=True)
class Asked:
    """Record of a request that a `ScriptedProvider` received, with the conversation at that time.

    Attributes:
        document: the conversation as a JSON document.
        tools: declared tools.
        options: settings of the request, such as `temperature`.
        structured_output: schema of the answer, or `None` for text.
        turns: turns that a model would receive, each with its role: the view of the conversation.
    """

    document: str
    tools: ToolDeclarations
    options: ChatOptions
    structured_output: OutputSchema | None
    turns: tuple[tuple[Role, Turn], ...] = ()

    @property
    def messages(self) -> Messages:
        """Copy of the conversation at the time of the request."""
        return Messages.from_json(self.document)


@final
class ScriptedProvider:
    """Fake provider that returns scripted answers. `asked` contains the received requests.

    Each answer is a text, a call, a list of parts, an error to raise, or an `Answer`. The n-th request gets the n-th
    answer. With `by_history=True`, n is one more than the number of model turns in the conversation. Another process
    with the same script then continues at the same place. A request after the last answer raises `UsageError`.
    """

    def __init__(
        self,
        *script: Scripted,
        by_history: bool = False,
        vectors: Callable[[str], Sequence[float]] | None = None,
        meta: ProviderMeta | None = None,
    ) -> None:
        """Create the provider.

        Args:
            script: the answers, in order.
            by_history: whether the number of model turns selects the answer, instead of the number of requests.
            vectors: function that returns the embedding of a text; by default, a vector of its length.
            meta: metadata of the provider.

        Raises:
            UsageError: an answer is neither a text, a call, an error, a list of parts nor an `Answer`.
        """
        self._script = [_to_answer(item) for item in script]
        self._by_history = by_history
        self._vectors = vectors or _length_vector
        self._meta = meta or ProviderMeta("scripted", "script")
        self.asked: list[Asked] = []
        self.open_streams: int = 0

    @property
    def metadata(self) -> ProviderMeta:
        """Metadata of this provider."""
        return self._meta

    async def complete(
        self,
        messages: Messages,
        tools: ToolDeclarations,
        options: ChatOptions,
        structured_output: OutputSchema | None,
    ) -> Turn:
        """Implement `CompletionProvider.complete`: return the next scripted answer."""
        answer = self._next_answer(messages, tools, options, structured_output)
        if answer.before is not None:
            await answer.before()
        if answer.error is not None:
            raise answer.error
        if answer.fail_after is not None:
            msg = "the scripted answer is truncated"
            raise StreamTruncatedError(msg)
        return self._create_turn(answer)

    @asynccontextmanager
    async def stream(
        self,
        messages: Messages,
        tools: ToolDeclarations,
        options: ChatOptions,
        structured_output: OutputSchema | None,
    ) -> AsyncGenerator[_ScriptedStream, None]:
        """Implement `StreamProvider.stream`: stream the next scripted answer."""
        answer = self._next_answer(messages, tools, options, structured_output)
        if answer.before is not None:
            await answer.before()
        if answer.error is not None and answer.fail_after is None:
            raise answer.error
        self.open_streams += 1
        try:
            yield _ScriptedStream(answer, self._create_turn(answer))
        finally:
            self.open_streams -= 1

    async def embed(self, texts: Sequence[str], options: ChatOptions) -> EmbeddingsResponse:
        """Implement `EmbeddingsProvider.embed`: return a vector from the function `vectors` for each text."""
        del options
        require_items("texts", texts, str, "a sequence of strings")
        if len(texts) > self._meta.max_embedding_batch:
            msg = f"{len(texts)} texts in one batch; at most {self._meta.max_embedding_batch} are allowed"
            raise UsageError(msg)
        return EmbeddingsResponse(tuple([tuple(self._vectors(text)) for text in texts]), Usage(len(texts)))

    def _next_answer(
        self,
        messages: Messages,
        tools: ToolDeclarations,
        options: ChatOptions,
        structured_output: OutputSchema | None,
    ) -> Answer:
        require_type("messages", messages, Messages, "a Messages object")
        if unresolved := messages.pending():
            msg = f"a request was sent while calls are unresolved: {unresolved!r}"
            raise AssertionError(msg)
        index = len(self.asked)
        if self._by_history:
            index = sum(len(content.turns) for content in messages if content.role == "model")
        turns = tuple(messages.view().turns)
        self.asked.append(Asked(messages.to_json(), tools, options, structured_output, turns))
        if index >= len(self._script):
            msg = f"the script has {len(self._script)} answer(s), but this is request {index + 1}"
            raise UsageError(msg)
        return self._script[index]

    def _create_turn(self, answer: Answer) -> Turn:
        parts: list[Part] = []
        for part in answer.parts:
            if isinstance(part, str):
                parts.append(Text(part))
            elif isinstance(part, FunctionCall):
                parts.append(Tool(part, call_id=part.id or None))
            else:
                parts.append(part)
        called = any(isinstance(part, Tool) for part in parts)
        reason = answer.finish_reason or ("tool_calls" if called else "stop")
        return Turn(
            parts, finish_reason=reason, metadata=Metadata(self._meta.name, self._meta.model, usage=answer.usage)
        )


@final
@dataclass(slots=True)
class _ScriptedStream:
    answer: Answer
    turn: Turn
    sent: list[Delta] = field(default_factory=list[Delta])
    ended: bool = False

    async def __aiter__(self) -> AsyncIterator[Sequence[Delta]]:
        for index, delta in enumerate(_list_deltas(self.turn)):
            if index == self.answer.fail_after:
                break
            self.sent.append(delta)
            yield (delta,)
        if self.answer.fail_after is None:
            self.ended = True
        elif self.answer.error is not None:
            raise self.answer.error

    def close(self) -> Turn:
        if not self.ended:
            msg = f"the scripted stream was truncated after {len(self.sent)} delta(s)"
            raise StreamTruncatedError(msg, partial=self.partial())
        return self.turn

    def partial(self) -> Turn:
        text = "".join([delta.text for delta in self.sent if isinstance(delta, TextDelta)])
        return Turn([Text(text)] if text else [], metadata=Metadata("scripted", usage=self.answer.usage))


def _length_vector(text: str) -> Sequence[float]:
    return (float(len(text)),)


def _to_answer(item: Scripted) -> Answer:
    if isinstance(item, Answer):
        return item
    if isinstance(item, ChatError):
        return Answer(error=item)
    if isinstance(item, (str, FunctionCall)):
        return Answer((item,))
    if not isinstance(item, Sequence):
        name, expected = "an answer", "a string, a FunctionCall, a ChatError, an Answer or a list of parts"
        raise argument_error(name, expected, item)
    return Answer(item)


def _list_deltas(turn: Turn) -> list[Delta]:
    deltas: list[Delta] = []
    calls = 0
    for part in turn.parts:
        if isinstance(part, Text):
            deltas += [TextDelta(piece) for piece in _split_words(part.text)]
        elif isinstance(part, Reasoning):
            deltas += [ReasoningDelta(piece) for piece in _split_words(part.text)]
        elif isinstance(part, Tool):
            deltas.append(ToolCallDelta(part.call.text, calls, part.name, part.call_id))
            calls += 1
        elif isinstance(part, File):
            deltas.append(FilePart(part))
        elif isinstance(part, Structured):
            deltas.append(StructuredPart(part.value))
    return deltas


def _split_words(text: str) -> list[str]:
    return [word + " " for word in text.split(" ")[:-1]] + text.split(" ")[-1:] if text else []
