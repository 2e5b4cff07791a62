"""Events of a session. Codecs create most of them from the messages of a server."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, Never, TypeAlias, final

from chat_core import FunctionCall, Paused, ProviderError, Role, TextDelta, ToolResult, Turn, Usage
from typing_extensions import TypeVar

from chat_realtime.events import ResponseInterrupted
from chat_realtime.sessions._usage import ModalityUsage

PauseT_co = TypeVar("PauseT_co", bound=Paused, covariant=True, default=Never)

ResponseStatus: TypeAlias = Literal["completed", "interrupted", "incomplete", "filtered", "failed"]


@final
@dataclass(frozen=True, slots=True)
class AudioDelta:
    """A piece of the model's speech, in the output format of the session.

    Attributes:
        data: the audio.
        item: the server's ID of the message that the audio belongs to.
    """

    data: bytes = field(repr=False)
    item: str = ""


@final
@dataclass(frozen=True, slots=True)
class TranscriptDelta:
    """A piece of the transcript of the model's speech. It may arrive before or after the audio."""

    text: str
    item: str = ""


@final
@dataclass(frozen=True, slots=True)
class SpeechStarted:
    """The server detected that the user started to speak.

    Attributes:
        interrupts: whether the server stops its response. The session then drops the audio that was not delivered.
            The application must stop its playback.
    """

    interrupts: bool = True


@final
@dataclass(frozen=True, slots=True)
class SpeechStopped:
    """The server detected that the user stopped speaking."""


@final
@dataclass(frozen=True, slots=True)
class InputTranscript:
    """The transcript of a user message that was spoken.

    Attributes:
        item: the server's ID of the message.
        text: the transcript, or `None` if there is none.
    """

    item: str
    text: str | None


@final
@dataclass(frozen=True, slots=True)
class ResponseEnded:
    """The server has sent a response. The application may still be playing its audio.

    Attributes:
        id: the server's ID of the response.
        status: how the response ended. Tool calls run only if it is `"completed"`.
        calls: the tool calls of the response, each with the server's ID of the call.
        usage: token usage of the response.
        modalities: token usage of the response by modality.
        error: the reported error, if the status is `"failed"`.
        model: the model that responded, if the server reports it.
        reason: the status or reason as the server reported it.
    """

    id: str
    status: ResponseStatus
    calls: tuple[tuple[str, FunctionCall], ...] = ()
    usage: Usage = field(default_factory=Usage)
    modalities: ModalityUsage = field(default_factory=ModalityUsage)
    error: ProviderError | None = None
    model: str | None = None
    reason: str | None = None


@final
@dataclass(frozen=True, slots=True)
class TurnAdded:
    """A turn was appended to the conversation, and stored if the conversation has a store.

    Attributes:
        role: role of the turn.
        turn: the turn. A turn of the model contains the part of its speech that the user heard.
    """

    role: Role
    turn: Turn


@final
@dataclass(frozen=True, slots=True)
class ServerWarning:
    """The server reported an error and keeps the session open.

    Attributes:
        error: the error, as a request would raise it.
    """

    error: ProviderError


@final
@dataclass(frozen=True, slots=True)
class GoAway:
    """The server will close the connection soon. A session that can be resumed then reconnects.

    Attributes:
        seconds: remaining time, or `None` if the server does not report it.
    """

    seconds: float | None


@final
@dataclass(frozen=True, slots=True)
class SessionResumed:
    """The session continues on a new connection. Audio that was sent while there was no connection is lost."""


SessionEvent: TypeAlias = (
    AudioDelta
    | TranscriptDelta
    | TextDelta
    | SpeechStarted
    | SpeechStopped
    | InputTranscript
    | ResponseInterrupted
    | ResponseEnded
    | ToolResult
    | TurnAdded
    | ServerWarning
    | GoAway
    | SessionResumed
    | PauseT_co
)
"""Any event of a session. `SessionEvent[Never]` excludes `Paused`."""


# --- Events that only codecs create ---------------------------------------------------------------------------


@final
@dataclass(frozen=True, slots=True)
class SessionReady:
    """The server accepted the settings of the session."""


@final
@dataclass(frozen=True, slots=True)
class InputStarted:
    """A spoken user message was added to the conversation of the server. Its transcript follows.

    Attributes:
        item: the server's ID of the message.
    """

    item: str


@final
@dataclass(frozen=True, slots=True)
class ResponseStarted:
    """The server started a response.

    Attributes:
        id: the server's ID of the response.
    """

    id: str


@final
@dataclass(frozen=True, slots=True)
class ServerInterrupted:
    """The server stopped its response because the user started to speak."""


@final
@dataclass(frozen=True, slots=True)
class CallsCancelled:
    """The server no longer needs the results of tool calls.

    Attributes:
        call_ids: the server's IDs of the calls.
    """

    call_ids: tuple[str, ...]


@final
@dataclass(frozen=True, slots=True)
class ResumptionHandle:
    """A handle that resumes the session on another connection.

    Attributes:
        handle: the handle, or `None` if the session cannot be resumed at this point.
    """

    handle: str | None = field(repr=False)


ReceivedEvent: TypeAlias = (
    AudioDelta
    | TranscriptDelta
    | TextDelta
    | SpeechStarted
    | SpeechStopped
    | InputTranscript
    | ResponseEnded
    | ServerWarning
    | GoAway
    | SessionReady
    | InputStarted
    | ResponseStarted
    | ServerInterrupted
    | CallsCancelled
    | ResumptionHandle
)
"""Any event that a codec creates."""
