"""`Dialect`, the protocol for the messages that the scripted server of a realtime API sends and receives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from chat_core import UsageError

from chat_realtime.sessions._usage import ModalityUsage
from chat_realtime.testing._loopback import Json, ServerPeer


class Dialect(Protocol):
    """Protocol for the server's messages of one realtime API. Methods return messages of the server.

    The attributes `has_…` state which messages the API has. Scenarios that need other messages do nothing. The methods
    for messages that the API lacks raise a `UsageError`, see `missing_message_error()`.
    """

    has_truncation: bool
    """Whether the client reports to the server which audio was not heard."""
    has_cancellation: bool
    """Whether the server can cancel tool calls."""
    has_resumption: bool
    """Whether a session can continue on another connection."""
    has_warnings: bool
    """Whether the server reports errors and keeps the session open."""
    usage: ModalityUsage
    """The usage that `end()` reports."""

    async def start(self, peer: ServerPeer, *, handle: str | None = None) -> Json:
        """Receive the settings, check the handle, accept the session, and return the settings.

        Args:
            peer: the server's side of the connection.
            handle: the handle of the resumed session, or `None` for a new session.
        """
        ...

    def instructions(self, setup: Json) -> str:
        """Return the instructions in the settings."""
        ...

    def tools(self, setup: Json) -> Sequence[str]:
        """Return the names of the tools in the settings."""
        ...

    def is_manual(self, setup: Json) -> bool:
        """Return whether the settings leave the end of the user's speech to the client."""
        ...

    def history(self, received: Sequence[Json]) -> Sequence[tuple[str, str]]:
        """Return role and text of the earlier messages in the received messages."""
        ...

    def audio(self, message: Json) -> bytes | None:
        """Return the audio of a message of the client, or `None`."""
        ...

    def text(self, message: Json) -> str | None:
        """Return the text of a user message or a note of the client, or `None`."""
        ...

    def is_commit(self, message: Json) -> bool:
        """Return whether a message of the client ends the user's speech."""
        ...

    def output(self, message: Json) -> Mapping[str, str]:
        """Return the results of tool calls in a message of the client, by the ID of the call."""
        ...

    def truncated_at(self, message: Json) -> int | None:
        """Return the heard milliseconds of a message of the client, or `None`."""
        ...

    async def requested(self, peer: ServerPeer) -> None:
        """Wait until the client requests a response, if the API needs such a request."""
        ...

    def heard(self, item: str, text: str) -> Sequence[Json]:
        """Send the events for a spoken message of the user.

        Args:
            item: ID of the message.
            text: transcript of the message.
        """
        ...

    def begin(self, response: str) -> Sequence[Json]:
        """Start a response."""
        ...

    def speak(self, response: str, audio: bytes, transcript: str) -> Sequence[Json]:
        """Send a piece of speech with its transcript.

        Args:
            response: ID of the response.
            audio: audio bytes of the speech.
            transcript: transcript of the speech.
        """
        ...

    def write(self, response: str, text: str) -> Sequence[Json]:
        """Send written text.

        Args:
            response: ID of the response.
            text: text to send.
        """
        ...

    def end(self, response: str, calls: Mapping[str, tuple[str, str]] | None = None) -> Sequence[Json]:
        """End a response.

        Args:
            response: ID of the response.
            calls: name and arguments of its tool calls, by the ID of the call.
        """
        ...

    def interrupt(self, response: str, calls: Mapping[str, tuple[str, str]] | None = None) -> Sequence[Json]:
        """Send the events for an interruption by the user, and end the response.

        Args:
            response: ID of the response.
            calls: name and arguments of its incomplete tool calls, by the ID of the call.
        """
        ...

    def cancel_calls(self, *ids: str) -> Sequence[Json]:
        """Cancel tool calls.

        Raises:
            UsageError: `has_cancellation` is false.
        """
        ...

    def resumable(self, handle: str) -> Sequence[Json]:
        """Send a handle that resumes the session.

        Raises:
            UsageError: `has_resumption` is false.
        """
        ...

    def go_away(self) -> Sequence[Json]:
        """Announce that the connection will be closed.

        Raises:
            UsageError: `has_resumption` is false.
        """
        ...

    def warning(self, text: str) -> Sequence[Json]:
        """Send an error that does not end the session.

        Raises:
            UsageError: `has_warnings` is false.
        """
        ...


def missing_message_error(api: str, message: str, attribute: str) -> UsageError:
    """Return the error for a message that an API does not have.

    Args:
        api: name of the API.
        message: what the message does, such as `"cancels tool calls"`.
        attribute: attribute of `Dialect` that states whether the API has the message.
    """
    msg = f"{api} has no message that {message}: check {attribute} of the dialect first"
    return UsageError(msg)
