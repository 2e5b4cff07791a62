"""Models with one fault each. The conformance suite must find each fault in the scenario that names it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from chat_core.transport import DuplexTransport, Request
from chat_realtime.sessions import (
    AudioDelta,
    AudioFormat,
    CallOutput,
    GeminiLive,
    OpenAIRealtime,
    RealtimeCodec,
    RealtimeModel,
    ResponseEnded,
    ServerWarning,
    SessionSetup,
)
from chat_realtime.sessions.events import CallsCancelled, ReceivedEvent
from chat_realtime.testing import SCENARIOS, GeminiDialect, OpenAIDialect, Subject, run_realtime_scenario

pytestmark = pytest.mark.anyio

Change = Callable[[ReceivedEvent], Sequence[ReceivedEvent]]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class WrongCodec:
    """A codec whose messages or events are changed."""

    def __init__(self, codec: RealtimeCodec, silent: Sequence[str], change: Change) -> None:
        self._codec = codec
        self._silent = silent
        self._change = change

    def setup(self, setup: SessionSetup, /) -> Sequence[str]:
        without_tools = replace(setup, tools=()) if "tools" in self._silent else setup
        return self._codec.setup(replace(without_tools, handle=None) if "handle" in self._silent else without_tools)

    def ready(self, setup: SessionSetup, /) -> Sequence[str]:
        return [] if "ready" in self._silent else self._codec.ready(setup)

    def read(self, message: bytes, /) -> Sequence[ReceivedEvent]:
        return [changed for event in self._codec.read(message) for changed in self._change(event)]

    def audio(self, data: bytes, /) -> Sequence[str]:
        messages = self._codec.audio(data[:-2] if "audio" in self._silent else data)
        return [*messages, *self._codec.commit()] if "eager" in self._silent else messages

    def commit(self) -> Sequence[str]:
        return [] if "commit" in self._silent else self._codec.commit()

    def text(self, text: str, /) -> Sequence[str]:
        return self._codec.text(text)

    def note(self, text: str, /) -> Sequence[str]:
        return [] if "note" in self._silent else self._codec.note(text)

    def outputs(self, outputs: Sequence[CallOutput], /) -> Sequence[str]:
        return self._codec.outputs(outputs[:1] if "outputs" in self._silent else outputs)

    def respond(self) -> Sequence[str]:
        return [] if "respond" in self._silent else self._codec.respond()

    def cancel(self) -> Sequence[str]:
        return self._codec.cancel()

    def truncate(self, item: str, milliseconds: int, /) -> Sequence[str]:
        if "truncate" in self._silent:
            return []
        return self._codec.truncate(item, milliseconds + 1000 if "position" in self._silent else milliseconds)


class WrongModel:
    """A model with a wrong codec."""

    def __init__(self, model: RealtimeModel, silent: Sequence[str], change: Change) -> None:
        self._model = model
        self._silent = silent
        self._change = change
        self.metadata = model.metadata
        self.input_format: AudioFormat = model.input_format
        self.output_format: AudioFormat = model.output_format
        self.is_manual = model.is_manual and "manual" not in silent

    def transport(self) -> DuplexTransport:
        return self._model.transport()

    async def request(self) -> Request:
        return await self._model.request()

    def codec(self) -> RealtimeCodec:
        return WrongCodec(self._model.codec(), self._silent, self._change)


def unchanged(event: ReceivedEvent) -> Sequence[ReceivedEvent]:
    return [event]


def half_of_the_audio(event: ReceivedEvent) -> Sequence[ReceivedEvent]:
    return [AudioDelta(event.data[::2], event.item)] if isinstance(event, AudioDelta) else [event]


def always_completed(event: ReceivedEvent) -> Sequence[ReceivedEvent]:
    if isinstance(event, ResponseEnded) and event.status == "interrupted":
        return [replace(event, status="completed")]
    return [event]


def without_modalities(event: ReceivedEvent) -> Sequence[ReceivedEvent]:
    if isinstance(event, ResponseEnded):
        return [ResponseEnded(event.id, event.status, event.calls, event.usage)]
    return [event]


def without_warnings(event: ReceivedEvent) -> Sequence[ReceivedEvent]:
    return [] if isinstance(event, ServerWarning) else [event]


FAULTS: dict[str, tuple[str, Sequence[str], Change]] = {
    "tools are not declared": ("a_session_starts_with_instructions_tools_and_history", ["tools"], unchanged),
    "the history is not sent": ("a_session_starts_with_instructions_tools_and_history", ["ready"], unchanged),
    "input audio is cut": ("speech_is_sent_and_received_as_bytes", ["audio"], unchanged),
    "output audio is cut": ("speech_is_sent_and_received_as_bytes", [], half_of_the_audio),
    "modalities are not counted": ("speech_is_sent_and_received_as_bytes", [], without_modalities),
    "no response is requested": ("text_is_answered_with_text", ["respond"], unchanged),
    "speech is not committed": ("the_application_ends_the_users_speech", ["commit"], unchanged),
    "the settings forget who ends the speech": (
        "the_settings_say_who_ends_the_users_speech",
        ["detection"],
        unchanged,
    ),
    "the model forgets who ends the speech": ("the_settings_say_who_ends_the_users_speech", ["manual"], unchanged),
    "a commit follows all audio": ("the_server_ends_the_users_speech", ["eager"], unchanged),
    "the server is not told what was heard": ("speech_that_was_not_heard_is_truncated", ["truncate"], unchanged),
    "the server is told a wrong position": ("speech_that_was_not_heard_is_truncated", ["position"], unchanged),
    "warnings are dropped": ("a_warning_does_not_end_the_session", [], without_warnings),
    "results are not sent": ("calls_run_under_the_policy_of_the_chat", ["outputs"], unchanged),
    "the outcome is not sent": ("a_waiting_call_has_an_interim_result", ["note"], unchanged),
    "interruptions are not noticed": ("calls_of_an_interrupted_response_do_not_run", [], always_completed),
}
"""For each fault: the scenario that must find it, the messages that are missing, and the change of events."""


@pytest.fixture
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault is often a message that never comes. The scripts then need not wait long."""
    monkeypatch.setattr("chat_realtime.testing._loopback._SECONDS", 0.2)
    monkeypatch.setattr("chat_realtime.testing._subject._SECONDS", 0.3)


@pytest.mark.usefixtures("short_waits")
@pytest.mark.parametrize("fault", FAULTS)
async def test_a_wrong_model_fails_the_scenario_of_its_fault(fault: str) -> None:
    scenario, silent, change = FAULTS[fault]

    def model(base_url: str, /, *, manual: bool = False, written: bool = False) -> RealtimeModel:
        right = OpenAIRealtime(
            api_key="sk-test-1234567890",
            base_url=f"{base_url}/v1",
            turn_detection="manual" if manual and "detection" not in silent else "server",
            output="text" if written else "audio",
        )
        return WrongModel(right, silent, change)

    with pytest.raises(AssertionError, match=scenario):
        await run_realtime_scenario(SCENARIOS[scenario], Subject(model, OpenAIDialect()))


@pytest.mark.usefixtures("short_waits")
async def test_a_session_that_does_not_send_its_handle_fails() -> None:
    def model(base_url: str, /, *, manual: bool = False, written: bool = False) -> RealtimeModel:
        assert not manual
        right = GeminiLive("m", api_key="AIza-test-1", base_url=base_url, output="text" if written else "audio")
        return WrongModel(right, ["handle"], unchanged)

    with pytest.raises(AssertionError, match="a_session_resumes_on_another_connection: the session resumes with"):
        name = "a_session_resumes_on_another_connection"
        await run_realtime_scenario(SCENARIOS[name], Subject(model, GeminiDialect()))


def without_cancellations(event: ReceivedEvent) -> Sequence[ReceivedEvent]:
    return [] if isinstance(event, CallsCancelled) else [event]


def the_last_cancellation_only(event: ReceivedEvent) -> Sequence[ReceivedEvent]:
    return [CallsCancelled(event.call_ids[-1:])] if isinstance(event, CallsCancelled) else [event]


def every_call_is_cancelled(event: ReceivedEvent) -> Sequence[ReceivedEvent]:
    return [CallsCancelled(("call_1", *event.call_ids))] if isinstance(event, CallsCancelled) else [event]


@pytest.mark.usefixtures("short_waits")
@pytest.mark.parametrize(
    ("scenario", "change"),
    [
        pytest.param("a_cancelled_call_has_no_result", without_cancellations, id="dropped"),
        pytest.param("a_call_that_is_cancelled_before_it_starts_does_not_run", without_cancellations, id="runs"),
        pytest.param("a_call_that_is_cancelled_before_it_starts_does_not_run", the_last_cancellation_only, id="sent"),
        pytest.param("a_call_that_is_cancelled_before_it_starts_does_not_run", every_call_is_cancelled, id="too-many"),
    ],
)
async def test_a_session_that_reads_cancellations_of_calls_wrong_fails(scenario: str, change: Change) -> None:
    def model(base_url: str, /, *, manual: bool = False, written: bool = False) -> RealtimeModel:
        assert not manual
        right = GeminiLive("m", api_key="AIza-test-1", base_url=base_url, output="text" if written else "audio")
        return WrongModel(right, [], change)

    with pytest.raises(AssertionError, match=f"^{scenario}: "):
        await run_realtime_scenario(SCENARIOS[scenario], Subject(model, GeminiDialect()))
