"""The protocols that a native realtime API implements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, final

from chat_core import Messages, ProviderMeta, ToolDeclaration
from chat_core.transport import DuplexTransport, Request

from chat_realtime.sessions._audio import AudioFormat
from chat_realtime.sessions.events import ReceivedEvent


@final
@dataclass(frozen=True, slots=True)
class SessionSetup:
    """Settings with which a codec starts a session.

    Attributes:
        messages: the earlier conversation.
        instructions: instructions of the chat; empty for none.
        tools: declarations of the tools of the chat.
        max_tokens: maximum number of output tokens of a response, or `None`.
        handle: handle of the session to resume. The server then has the earlier conversation.
    """

    messages: Messages
    instructions: str = ""
    tools: Sequence[ToolDeclaration] = ()
    max_tokens: int | None = None
    handle: str | None = None


@final
@dataclass(frozen=True, slots=True)
class CallOutput:
    """The result of a tool call for the server.

    Attributes:
        call_id: the server's ID of the call.
        name: name of the tool.
        text: the result as text.
        failed: whether the call failed or was rejected.
    """

    call_id: str
    name: str
    text: str
    failed: bool = False


class RealtimeCodec(Protocol):
    """Protocol for the codec of one connection. Each method returns the messages to send; the codec sends nothing."""

    def setup(self, setup: SessionSetup, /) -> Sequence[str]:
        """Return the messages that start or resume the session.

        Raises:
            UsageError: the server does not support a setting.
        """
        ...

    def ready(self, setup: SessionSetup, /) -> Sequence[str]:
        """Return the messages that follow `SessionReady`, such as the earlier conversation."""
        ...

    def read(self, message: bytes, /) -> Sequence[ReceivedEvent]:
        """Return the events of one received message. Unknown messages have no events.

        Raises:
            ChatError: the message is invalid, or the server reported an error before the session was ready.
        """
        ...

    def audio(self, data: bytes, /) -> Sequence[str]:
        """Return the messages that append audio to the user's input."""
        ...

    def commit(self) -> Sequence[str]:
        """Return the messages that end the user's spoken input, if the server does not detect the end."""
        ...

    def text(self, text: str, /) -> Sequence[str]:
        """Return the messages that add a written user message."""
        ...

    def note(self, text: str, /) -> Sequence[str]:
        """Return the messages that add a message of this library, such as the outcome of a call that waited."""
        ...

    def outputs(self, outputs: Sequence[CallOutput], /) -> Sequence[str]:
        """Return the messages with the results of tool calls."""
        ...

    def respond(self) -> Sequence[str]:
        """Return the messages that request a response, if the server does not respond by itself."""
        ...

    def cancel(self) -> Sequence[str]:
        """Return the messages that stop the current response."""
        ...

    def truncate(self, item: str, milliseconds: int, /) -> Sequence[str]:
        """Return the messages that remove audio which the user has not heard from the server's conversation.

        Args:
            item: the server's ID of the message.
            milliseconds: duration of the heard audio, from the beginning of the message.
        """
        ...


class RealtimeModel(Protocol):
    """Protocol for a model with a native realtime API. `OpenAIRealtime` and `GeminiLive` implement it."""

    @property
    def metadata(self) -> ProviderMeta:
        """The provider's name and model."""
        ...

    @property
    def input_format(self) -> AudioFormat:
        """Format of the audio that the application sends."""
        ...

    @property
    def output_format(self) -> AudioFormat:
        """Format of the audio that the application receives."""
        ...

    @property
    def is_manual(self) -> bool:
        """Whether the application marks the end of the user's speech with `commit()`."""
        ...

    def transport(self) -> DuplexTransport:
        """Return the transport of the connections.

        Raises:
            UsageError: no transport was passed, and the default transport is not installed.
        """
        ...

    async def request(self) -> Request:
        """Return the request that opens a connection, with the current credentials."""
        ...

    def codec(self) -> RealtimeCodec:
        """Return a codec for a new connection."""
        ...
