"""Requests and responses of OpenAI's Chat Completions API, without stored state, for chats that never pause."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Never, TypeAlias, cast, final

from chat_core import (
    AttemptReset,
    Chat,
    ChatOptions,
    ChatResponse,
    Defer,
    Done,
    FinishReason,
    Messages,
    Paused,
    RequireApproval,
    Schedule,
    StreamTruncatedError,
    StructuredDelta,
    StructuredPart,
    TextDelta,
    Usage,
)
from chat_core.arguments import require_callable, require_type
from chat_core.errors import UsageError
from chat_core.json import dump_bytes, dumps

from chat_streams.errors import ClientInputError
from chat_streams.json_fields import read_body, require_list, require_object, require_text
from chat_streams.json_strings import quote
from chat_streams.openai.errors import error_body
from chat_streams.openai.fields import read_flag, read_options, refuse_other_fields
from chat_streams.openai.stored_events import stored_events

Json: TypeAlias = dict[str, object]
NO_PAUSES: Final = (
    "This model may wait for approvals or for results of functions, which Chat Completions cannot express. "
    "Use /v1/responses."
)
"""Error message for a request that only the Responses API can express."""
DONE: Final = b"data: [DONE]\n\n"
_FIELDS: Final = frozenset(
    {"max_completion_tokens", "max_tokens", "messages", "model", "stream", "stream_options", "temperature", "top_p"}
)
_WAITING_FIELDS: Final = ("tools", "functions")
_FINISH: Final[Mapping[FinishReason, str]] = {
    "length": "length",
    "content_filter": "content_filter",
    "refusal": "content_filter",
}


@final
@dataclass(frozen=True, slots=True)
class CompletionsRequest:
    """Request of the Chat Completions API.

    Attributes:
        model: name of the model. Look it up among the models that the application has configured.
        messages: the whole conversation, which the client keeps.
        stream: whether the response is streamed.
        include_usage: whether a streamed response ends with its usage.
        options: options of the run.
    """

    model: str
    messages: Messages
    stream: bool = False
    include_usage: bool = False
    options: ChatOptions = ChatOptions()  # noqa: RUF009 - options are immutable


def read_completions_request(body: bytes, /) -> CompletionsRequest:
    """Read the body of a request to `/v1/chat/completions`.

    Messages with tool calls are refused: the calls of the chat's tools are never sent to clients, so a client cannot
    know them.

    Args:
        body: the body, JSON in UTF-8.

    Raises:
        ClientInputError: the body is malformed, or requests an unsupported feature.
    """
    fields = read_body(body)
    if any(fields.get(name) for name in _WAITING_FIELDS):
        raise ClientInputError("invalid_request", NO_PAUSES)
    refuse_other_fields(fields, {*_FIELDS, *_WAITING_FIELDS})
    posted = [require_object(item, "a message") for item in require_list(fields.get("messages"), "messages")]
    try:
        messages = Messages.from_dicts(posted)
    except UsageError as error:
        raise ClientInputError("invalid_request", f"The request is invalid: {error}") from error
    if not messages or messages[-1].role != "user":
        raise ClientInputError("invalid_request", "The last message must have the role 'user'.")
    if any(content.tools for content in messages):
        raise ClientInputError("invalid_request", f"The messages must not contain tool calls. {NO_PAUSES}")
    stream_options = require_object(fields.get("stream_options") or {}, "stream_options")
    limit = "max_tokens" if fields.get("max_completion_tokens") is None else "max_completion_tokens"
    return CompletionsRequest(
        require_text(fields, "model"),
        messages,
        read_flag(fields, "stream"),
        read_flag(stream_options, "include_usage"),
        read_options(fields, limit),
    )


@final
class CompletionsEncoder:
    """Encoder of one run as a chat completion.

    `send_run()` streams the completion, and `whole()` returns it as one body.

    The message consists of the texts of all model calls of the run. Tool calls and their results are not sent.
    """

    __slots__ = ("_encoders", "_head", "_include_usage", "_messages", "_prefix", "_start", "_texts", "_usage")

    def __init__(
        self, chat: Chat[Any, Never], request: CompletionsRequest, /, *, clock: Callable[[], float] = time.time
    ) -> None:
        """Create an encoder for one run, before the run begins.

        Args:
            chat: the chat of the run. Type checkers reject a chat that can pause.
            request: the parsed request that the run answers.
            clock: clock for the time of the completion, in seconds since 1970.

        Raises:
            ClientInputError: the chat has tools whose calls always wait.
        """
        require_type("chat", chat, Chat, "a chat")
        require_type("request", request, CompletionsRequest, "a CompletionsRequest")
        require_callable("clock", clock, "a function that returns seconds")
        always: list[object] = [scope.always for scope in chat.tools.scopes]
        if any(isinstance(action, (Defer, RequireApproval, Schedule)) for action in always):
            raise ClientInputError("invalid_request", NO_PAUSES)
        self._messages = request.messages
        self._start = sum([len(content.turns) for content in request.messages])
        self._include_usage = request.include_usage
        self._texts: list[str] = []
        self._usage = Usage()
        self._head: Json = {
            "id": f"chatcmpl-{secrets.token_hex(12)}",
            "object": "chat.completion.chunk",
            "created": int(clock()),
            "model": request.model,
        }
        self._prefix = b"data: " + dump_bytes(self._head)[:-1] + b',"choices":[{"index":0,"finish_reason":null,"delta":'
        self._encoders: Mapping[type, Callable[[Any], bytes]] = {
            TextDelta: self._encode_text,
            StructuredDelta: self._encode_text,
            StructuredPart: self._encode_value,
            AttemptReset: self._refuse_reset,
            Paused: self._refuse_pause,
            Done: self._encode_done,
        }

    def start(self) -> bytes:
        """Return the chunk with the role of the message."""
        return self._prefix + b'{"role":"assistant","content":""}}]}\n\n'

    def encode(self, event: object, /) -> bytes:
        """Encode an event of the engine as chunks. Return empty bytes for events that the API cannot express.

        Raises:
            StreamTruncatedError: a retry would replace text that was already sent, which the API cannot express.
            ClientInputError: the run has paused.
        """
        encode = self._encoders.get(type(event))
        return b"" if encode is None else encode(event)

    def fail(self, error: BaseException, /) -> bytes:
        """Return the error that ends the stream of a failed run. Its text is fixed for each kind of error."""
        return b"data: " + error_body(error) + b"\n\n"

    def whole(self, outcome: ChatResponse | Paused, /) -> bytes:
        """Return the body of a completion that is not streamed.

        Args:
            outcome: result of `chat.complete()` for the messages of the request.

        Raises:
            ClientInputError: the run has paused.
        """
        require_type("outcome", outcome, (ChatResponse, Paused), "the result of complete()")
        for event in stored_events(self._messages, outcome, start=self._start):
            self.encode(event)
        reason = _finish_reason(cast("ChatResponse", outcome))
        message = {"role": "assistant", "content": "".join(self._texts), "refusal": None}
        choice = {"index": 0, "message": message, "finish_reason": reason, "logprobs": None}
        body = {**self._head, "object": "chat.completion", "choices": [choice], "usage": _usage_fields(self._usage)}
        return dump_bytes(body)

    def _encode_text(self, event: TextDelta | StructuredDelta) -> bytes:
        self._texts.append(event.text)
        return self._prefix + b'{"content":' + quote(event.text) + b"}}]}\n\n"

    def _encode_value(self, event: StructuredPart) -> bytes:
        return self._encode_text(TextDelta(dumps(event.value)))

    def _refuse_reset(self, event: AttemptReset) -> bytes:
        raise StreamTruncatedError(event.reason)

    def _refuse_pause(self, _event: Paused) -> bytes:
        raise ClientInputError("invalid_request", NO_PAUSES)

    def _encode_done(self, event: Done[object]) -> bytes:
        response = cast("ChatResponse", event.response)
        self._usage = response.usage
        choice: Json = {"index": 0, "delta": {}, "finish_reason": _finish_reason(response)}
        last = b"data: " + dump_bytes({**self._head, "choices": [choice]}) + b"\n\n"
        if self._include_usage:
            last += (
                b"data: " + dump_bytes({**self._head, "choices": [], "usage": _usage_fields(response.usage)}) + b"\n\n"
            )
        return last + DONE


def _finish_reason(response: ChatResponse) -> str:
    reason = response.turn.finish_reason
    return "stop" if reason is None else _FINISH.get(reason, "stop")


def _usage_fields(usage: Usage) -> Json:
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.total_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cache_read_tokens},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }
