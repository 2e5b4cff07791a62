"""The provider under test, and helpers that call it with recorded responses and inspect its requests."""

from __future__ import annotations

import base64
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias, cast, final

from chat_core.errors import ChatError
from chat_core.json import loads
from chat_core.messages import Embedding, File, FunctionCall, Messages, Tool, Turn
from chat_core.options import ChatOptions
from chat_core.provider import (
    NO_TOOLS,
    CompletionProvider,
    Delta,
    EmbeddingsProvider,
    OutputSchema,
    ProviderStream,
    StreamProvider,
    ToolDeclaration,
    ToolDeclarations,
)
from chat_core.testing.mock_transport import MockTransport, Step
from chat_core.transport import Transport
from chat_core.usage import Metadata

from chat_testing.conformance.capabilities import Capabilities
from chat_testing.conformance.tapes import ProviderTapes, Reply, Tape
from chat_testing.errors import fail

Method: TypeAlias = Literal["complete", "stream", "embed"]
AnyProvider: TypeAlias = CompletionProvider | EmbeddingsProvider

QUESTION: Final = "What is there to say?"
EXACT: Final = '  two\n\n\tlines: "é" e\u0301 ﬁ {{x}} \\ <&> \u2028 🏞\r\n  '
"""Text whose white space and characters a provider may change by mistake."""
ABSENT: Final = object()
"""Result of `SentBody.value_at()` for a path that a body does not have."""
RESULT: Final = "a result of 17 degrees"


@final
@dataclass(frozen=True, slots=True)
class ProviderInput:
    """Arguments for a call to a provider."""

    messages: Messages = field(default_factory=lambda: Messages.from_user(QUESTION))
    tools: ToolDeclarations = NO_TOOLS
    options: ChatOptions = field(default_factory=ChatOptions)
    output: OutputSchema | None = None


@final
@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of a call to a provider: the deltas of a stream, and the turn or the error."""

    deltas: list[Delta]
    turn: Turn | None = None
    error: ChatError | None = None

    @property
    def result(self) -> Turn:
        """The turn of a successful call. Raises the error of a failed call."""
        if self.turn is None:
            raise self.error or AssertionError
        return self.turn


@final
@dataclass(frozen=True, slots=True)
class Subject:
    """The provider under test: its factory, its claimed capabilities and its recorded responses.

    Attributes:
        make_provider: function that creates the provider with a transport.
        capabilities: claimed capabilities.
        tapes: recorded responses.
        owner: name of the provider in its turns and opaque data, if it differs from the name in its metadata. For a
            router, this is the name of the model that it chooses.
    """

    make_provider: Callable[[Transport], AnyProvider]
    capabilities: Capabilities
    tapes: ProviderTapes
    owner: str | None = None

    @property
    def owner_name(self) -> str:
        """The name of the provider in its turns and opaque data."""
        return self.owner or self.make_provider(MockTransport()).metadata.name

    @property
    def answer_methods(self) -> tuple[Method, ...]:
        """Names of the methods that return a model response."""
        return ("complete", "stream") if self.capabilities.stream else ("complete",)

    @property
    def methods(self) -> tuple[Method, ...]:
        """Names of all supported methods."""
        methods = self.answer_methods if self.capabilities.text else ()
        return (*methods, "embed") if self.capabilities.embeddings else methods

    def replies_of(self, *tapes: Tape | None) -> list[tuple[Method, Tape, Reply]]:
        """Return a method, a tape and its reply for each reply in the given tapes. Missing tapes (None) are skipped."""
        return [
            (method, tape, reply)
            for tape in tapes
            if tape is not None
            for method in self.answer_methods
            if (reply := reply_of(tape, method)) is not None
        ]

    @property
    def text(self) -> Tape:
        """The recorded text response, or an empty tape."""
        return self.tapes.text or Tape()

    def serve(self, *replies: Reply) -> tuple[AnyProvider, MockTransport]:
        """Return a new provider and its mock transport, which responds with `replies` in order."""
        transport = MockTransport()
        for reply in replies:
            transport.answer(reply.status, reply.headers, reply.chunks)
        return self.make_provider(transport), transport

    async def run(self, method: Method, reply: Reply, question: ProviderInput | None = None) -> Outcome:
        """Call a method of a new provider and return the outcome. A `ChatError` is part of the outcome, not raised.

        Args:
            method: the method to call.
            reply: the server's response.
            question: the arguments of the call. Default: `ProviderInput()`, a short question without tools.
        """
        provider, _ = self.serve(reply)
        return await call_provider(provider, method, question)

    async def run_steps(self, method: Method, steps: Sequence[Step], question: ProviderInput | None = None) -> Outcome:
        """Call a method of a new provider whose transport plays `steps`, and return the outcome.

        A `ChatError` is part of the outcome and is not raised.

        Args:
            method: the method to call.
            steps: chunks, errors and functions, as in `MockTransport.answer()`.
            question: the arguments of the call. Default: `ProviderInput()`, a short question without tools.
        """
        transport = MockTransport()
        transport.answer(200, self.text.stream.headers if self.text.stream else (), steps)
        return await call_provider(self.make_provider(transport), method, question)

    async def capture_request(
        self, messages: Messages, tools: ToolDeclarations = NO_TOOLS, method: Method = "complete"
    ) -> SentBody:
        """Return the request body that a new provider sends for a conversation.

        Args:
            messages: the conversation.
            tools: the declared tools.
            method: the method to call.
        """
        reply = reply_of(self.text, method) or Reply()
        provider, transport = self.serve(reply)
        (await call_provider(provider, method, ProviderInput(messages, tools))).result  # noqa: B018 - an error is raised
        return SentBody(transport.last.body)


def reply_of(tape: Tape, method: Method) -> Reply | None:
    """Return the recorded reply of `tape` for `method`, or None if the tape has no such reply."""
    return tape.whole if method == "complete" else tape.stream


async def call_provider(provider: AnyProvider, method: Method, question: ProviderInput | None = None) -> Outcome:
    """Call a method of a provider and return the outcome.

    A `ChatError` is not raised. It is part of the outcome, with the deltas that were received before it.

    Args:
        provider: the provider to call.
        method: the method to call.
        question: the arguments of the call. Default: `ProviderInput()`, a short question without tools.
    """
    arguments = question or ProviderInput()
    deltas: list[Delta] = []
    try:
        if method == "embed":
            response = await require_embeddings(provider).embed([QUESTION], arguments.options)
            return Outcome(deltas, Turn([Embedding(vector) for vector in response.vectors]))
        if method == "complete":
            model = require_completion(provider)
            return Outcome(
                deltas, await model.complete(arguments.messages, arguments.tools, arguments.options, arguments.output)
            )
        async with open_stream(provider, arguments) as (stream, batches):
            async for batch in batches:
                deltas += batch
            turn = stream.close()
        return Outcome(deltas, turn)
    except ChatError as error:
        return Outcome(deltas, error=error)


@asynccontextmanager
async def open_stream(
    provider: AnyProvider, arguments: ProviderInput
) -> AsyncGenerator[tuple[ProviderStream, AsyncIterator[Sequence[Delta]]]]:
    """Open a stream in the same way as the chat engine. Exiting the context closes the iterator, then the stream.

    Args:
        provider: the provider that opens the stream.
        arguments: the arguments of the call.
    """
    source = require_streaming(provider).stream(
        arguments.messages, arguments.tools, arguments.options, arguments.output
    )
    async with source as stream:
        batches = aiter(stream)
        try:
            yield stream, batches
        finally:
            aclose = getattr(batches, "aclose", None)
            if aclose is not None:
                await aclose()


def require_completion(provider: AnyProvider) -> CompletionProvider:
    """Return the provider unchanged, or fail the scenario if the provider has no `complete()` method."""
    if not isinstance(provider, CompletionProvider):
        fail(f"the capability to complete is declared, but {type(provider).__name__} has no complete()")
    return provider


def require_streaming(provider: AnyProvider) -> StreamProvider:
    """Return the provider unchanged, or fail the scenario if the provider has no `stream()` method."""
    if not isinstance(provider, StreamProvider):
        fail(f"streaming is declared, but {type(provider).__name__} has no stream()")
    return provider


def require_embeddings(provider: AnyProvider) -> EmbeddingsProvider:
    """Return the provider unchanged, or fail the scenario if the provider has no `embed()` method."""
    if not isinstance(provider, EmbeddingsProvider):
        fail(f"embeddings are declared, but {type(provider).__name__} has no embed()")
    return provider


# --- Sent requests --------------------------------------------------------------------------------------------------


@final
class SentBody:
    """A request body as a flat list of its texts (names, strings and numbers), independent of the API."""

    def __init__(self, body: bytes) -> None:
        self.body = body
        try:
            self.value: object = loads(body)
        except ValueError:
            self.value = body.decode(errors="replace")
        self._texts = list_texts(self.value)

    def index_of(self, words: str) -> int:
        """Return the index of the first text that contains `words`, or -1."""
        return next((place for place, text in enumerate(self._texts) if _has_words(text, words)), -1)

    def position_of(self, words: str) -> tuple[int, int]:
        """Return the index of the first text that contains `words`, and the position of `words` in it."""
        index = self.index_of(words)
        return index, self._texts[index].find(words)

    def contains(self, words: str) -> bool:
        """Return whether any text of the body contains `words`."""
        return self.index_of(words) >= 0

    def count(self, words: str) -> int:
        """Return the number of texts that contain `words`."""
        return sum(_has_words(text, words) for text in self._texts)

    def paths_of(self, words: str) -> list[tuple[str | int, ...]]:
        """Return the path of each text that is `words`."""
        return [path for path, value in _list_values(self.value) if value == words]

    def value_at(self, path: tuple[str | int, ...]) -> object:
        """Return the text, number or null at a path, or `ABSENT`."""
        return dict(_list_values(self.value)).get(path, ABSENT)

    def words_near(self, anchor: str, words: Collection[str], *, apart_from: str | None = None) -> set[str]:
        """Return those of `words` that are names or texts in the same part of the body as `anchor`.

        The part is the smallest JSON value that contains a text with `anchor` and any of the words.

        Args:
            anchor: text to find.
            words: complete names and texts.
            apart_from: text that the part must not contain. Default: any part is searched, up to the whole body.
        """
        for part in _enclosing_values(self.value, anchor):
            texts = list_texts(part)
            if apart_from is not None and any(apart_from in text for text in texts):
                break
            if found := {text for text in texts if text in words}:
                return found
        return set()

    def contains_file(self, file: File) -> bool:
        """Return whether the body contains a file, as its URL, its data in base64 or its text."""
        return self.index_of_file(file) >= 0

    def index_of_file(self, file: File) -> int:
        """Return the index of the first text that contains the file's URL or data, or -1."""
        if file.data is None:
            return self.index_of(file.url or "\0")
        place = self.index_of(base64.b64encode(file.data).decode())
        return self.index_of(file.data.decode(errors="replace")) if place < 0 and file.kind == "text" else place


def _has_words(text: str, words: str) -> bool:
    """Return whether a text, or a text in the JSON document that it is, contains `words`.

    The arguments of a call may be such a document, in which a server or provider may write any character as an escape.
    """
    if words in text:
        return True
    if "\\" not in text or text[:1] not in {"{", "["}:
        return False
    try:
        return any(words in inner for inner in list_texts(loads(text)))
    except ValueError:
        return False


def list_texts(value: object) -> list[str]:
    """Return all keys, strings and numbers of a JSON value as strings, in document order."""
    if isinstance(value, (str, int, float)):
        return [str(value)]
    if isinstance(value, dict):
        members = cast("dict[str, object]", value)
        return [text for name, item in members.items() for text in (name, *list_texts(item))]
    if isinstance(value, list):
        return [text for item in cast("list[object]", value) for text in list_texts(item)]
    return []


def _list_values(value: object, path: tuple[str | int, ...] = ()) -> list[tuple[tuple[str | int, ...], object]]:
    """Return the texts, numbers and nulls in a JSON value, each with its path."""
    if isinstance(value, dict):
        items: list[tuple[str | int, object]] = list(cast("dict[str | int, object]", value).items())
    elif isinstance(value, list):
        items = list(enumerate(cast("list[object]", value)))
    else:
        return [(path, value)]
    return [found for name, item in items for found in _list_values(item, (*path, name))]


def _enclosing_values(value: object, words: str) -> list[object]:
    """Return the JSON values around the first text that contains `words`, from the innermost to the outermost."""
    if isinstance(value, (str, int, float)):
        return [value] if words in str(value) else []
    items: list[object] = []
    if isinstance(value, dict):
        # The name of a member is a part of the body, too.
        items = [[name, item] for name, item in cast("dict[str, object]", value).items()]
    elif isinstance(value, list):
        items = cast("list[object]", value)
    for item in items:
        if found := _enclosing_values(item, words):
            return [*found, value]
    return []


# --- Inputs -----------------------------------------------------------------------------------------------------------


def schema_of(value: object) -> dict[str, object]:
    """Return a JSON Schema that the given JSON value satisfies."""
    match value:
        case bool():
            return {"type": "boolean"}
        case int():
            return {"type": "integer"}
        case float():
            return {"type": "number"}
        case list():
            items = cast("list[object]", value)
            return {"type": "array", "items": schema_of(items[0] if items else "")}
        case dict():
            members = cast("dict[str, object]", value)
            return {
                "type": "object",
                "properties": {name: schema_of(item) for name, item in members.items()},
                "required": list(members),
                "additionalProperties": False,
            }
        case _:
            return {"type": "string"}


def tool_description(name: str) -> str:
    """Return the description with which the scenarios declare a tool. It does not contain the name."""
    return f"A tool whose name has {len(name)} letters."


def declare_tools(*tapes: Tape | None) -> ToolDeclarations:
    """Return declarations of the tools that the given recorded responses call."""
    calls = {call.name: call for tape in tapes if tape is not None for call in tape.calls}
    return ToolDeclarations(
        [ToolDeclaration(name, tool_description(name), schema_of(dict(call.arguments))) for name, call in calls.items()]
    )


def make_turn_with_calls(
    name: str, calls: Sequence[FunctionCall], resolve: Callable[[Tool], object] | None = None, id_: str = "answer_1"
) -> Turn:
    """Return a model turn with tool calls and their results.

    Args:
        name: name of the provider.
        calls: the tool calls.
        resolve: function that resolves a call. Default: each call is completed with a numbered result.
        id_: id of the response.
    """
    tools = [Tool(FunctionCall(call.name, call.arguments), call_id=call.id or None) for call in calls]
    for place, tool in enumerate(tools):
        if resolve is not None:
            resolve(tool)
        else:
            tool.start()
            tool.complete(f"{RESULT}, {place}")
    return Turn(tools, finish_reason="tool_calls", metadata=Metadata(name, id=id_))


def conversation_after(turn: Turn, words: str | None = None) -> Messages:
    """Return a conversation with a question, the given turn and, optionally, another user message.

    Unresolved calls of the turn are completed with a result.

    Args:
        turn: the model's turn.
        words: text of the next user message. Default: no message.
    """
    messages = Messages.from_user(QUESTION)
    for tool in turn.tools:
        if not tool.resolved:
            tool.start()
            tool.complete(RESULT)
    messages.append("model", turn)
    if words is not None:
        messages.user(words)
    return messages
