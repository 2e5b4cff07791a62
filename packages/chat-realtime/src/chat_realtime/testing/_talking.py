"""Conformance scenarios for messages that are spoken or written, in both directions."""

from __future__ import annotations

import anyio
from chat_core import InvalidResponseError, Messages, NetworkError, TextDelta, Usage, UsageError

from chat_realtime.events import ResponseInterrupted
from chat_realtime.sessions import (
    AudioDelta,
    InputTranscript,
    ResponseEnded,
    ServerWarning,
    TranscriptDelta,
    TurnAdded,
    connect,
)
from chat_realtime.testing._loopback import ServerPeer, loopback_server
from chat_realtime.testing._subject import Bank, Subject, read_until, require, texts

_SPEECH = bytes(range(240)) * 20


async def a_session_starts_with_instructions_tools_and_history(subject: Subject) -> None:
    """The server receives the instructions, the tools, and the texts of the earlier conversation."""
    dialect, done = subject.dialect, anyio.Event()
    setups: list[str] = []

    async def script(peer: ServerPeer) -> None:
        setup = await dialect.start(peer)
        setups.extend([dialect.instructions(setup), *dialect.tools(setup)])
        await peer.expect(lambda message: dialect.text(message) == "And now?", "the new message")
        setups.extend(f"{role}: {text}" for role, text in dialect.history(peer.received)[:2])
        done.set()

    messages = Messages.from_user("Who are you?")
    messages.push(Messages.from_dicts([{"role": "assistant", "content": "A bank."}])[0])
    async with loopback_server(script) as url, connect(subject.model(url), Bank().chat, messages) as session:
        await session.send_text("And now?")
        await done.wait()
    require(setups[:2] == ["Be brief.", "pay"], f"the settings are wrong: {setups}")
    require([entry.partition(": ")[2] for entry in setups[2:]] == ["Who are you?", "A bank."], f"history: {setups[2:]}")
    require([entry.partition(":")[0] for entry in setups[2:]] != ["user", "user"], "the roles of the history are lost")


async def speech_is_sent_and_received_as_bytes(subject: Subject) -> None:
    """Audio is not changed on the way, transcripts become the history, and usage is counted by modality."""
    dialect = subject.dialect
    sent: list[bytes] = []

    async def script(peer: ServerPeer) -> None:
        await dialect.start(peer)
        message = await peer.expect(dialect.audio, "audio")
        sent.append(dialect.audio(message) or b"")
        await peer.send(*dialect.heard("item_1", "Hello?"), *dialect.begin("resp_1"))
        await peer.send(
            *dialect.speak("resp_1", _SPEECH[:2400], "Good "), *dialect.speak("resp_1", _SPEECH[2400:], "day.")
        )
        await peer.send(*dialect.end("resp_1"))

    async with loopback_server(script) as url, connect(subject.model(url), Bank().chat, Messages()) as session:
        await session.send_audio(b"\1\2\3\4")
        ended, seen = await read_until(session, ResponseEnded)
        session.report_played(session.output_format.seconds(len(_SPEECH)))
        _, more = await read_until(session, TurnAdded, lambda event: event.role == "model")
        seen += more
    audio = b"".join([event.data for event in seen if isinstance(event, AudioDelta)])
    require(sent == [b"\1\2\3\4"], f"the server received other audio: {sent}")
    require(audio == _SPEECH, f"{len(audio)} bytes of audio arrived instead of {len(_SPEECH)}, or other bytes")
    require("".join([event.text for event in seen if isinstance(event, TranscriptDelta)]) == "Good day.", "transcript")
    require([event.text for event in seen if isinstance(event, InputTranscript)] == ["Hello?"], "input transcript")
    expected = [("user", "Hello?", None), ("model", "Good day.", "stop")]
    require(texts(session) == expected, f"the history is {texts(session)}")
    require(ended.modalities == dialect.usage, f"usage by modality: {ended.modalities}")
    require(session.usage == session.messages.usage != Usage(), f"usage: {session.usage}, {session.messages.usage}")


async def text_is_answered_with_text(subject: Subject) -> None:
    """A written message is sent, a written response is delivered in pieces, and both are in the history."""
    dialect = subject.dialect

    async def script(peer: ServerPeer) -> None:
        await dialect.start(peer)
        await peer.expect(lambda message: dialect.text(message) == "Hello?", "the message")
        await dialect.requested(peer)
        await peer.send(*dialect.begin("resp_1"), *dialect.write("resp_1", "Good "), *dialect.write("resp_1", "day."))
        await peer.send(*dialect.end("resp_1"))

    model_of = subject.model
    async with loopback_server(script) as url, connect(model_of(url, written=True), Bank().chat, Messages()) as session:
        await session.send_text("Hello?")
        _, seen = await read_until(session, TurnAdded, lambda event: event.role == "model")
    require([event.text for event in seen if isinstance(event, TextDelta)] == ["Good ", "day."], f"events: {seen}")
    expected = [("user", "Hello?", None), ("model", "Good day.", "stop")]
    require(texts(session) == expected, f"the history is {texts(session)}")


async def the_application_ends_the_users_speech(subject: Subject) -> None:
    """Without turn detection, `commit()` ends the speech, and the model responds."""
    dialect = subject.dialect

    async def script(peer: ServerPeer) -> None:
        await dialect.start(peer)
        await peer.expect(dialect.audio, "audio")
        await peer.expect(dialect.is_commit, "the end of the speech")
        await dialect.requested(peer)
        await peer.send(*dialect.heard("item_1", "Hello?"), *dialect.begin("resp_1"))
        await peer.send(*dialect.write("resp_1", "Good day."), *dialect.end("resp_1"))

    model_of = subject.model
    async with (
        loopback_server(script) as url,
        connect(model_of(url, manual=True, written=True), Bank().chat, Messages()) as session,
    ):
        await session.send_audio(bytes(480))
        await session.commit()
        await read_until(session, TurnAdded, lambda event: event.role == "model")
    require([text for _, text, _ in texts(session)] == ["Hello?", "Good day."], f"the history is {texts(session)}")


async def the_settings_say_who_ends_the_users_speech(subject: Subject) -> None:
    """The settings and `is_manual` of the model agree with the application on who ends the user's speech."""
    for manual in (False, True):
        sent: list[bool] = []
        done = anyio.Event()

        async def script(peer: ServerPeer, sent: list[bool] = sent, done: anyio.Event = done) -> None:
            sent.append(subject.dialect.is_manual(await subject.dialect.start(peer)))
            done.set()

        async with loopback_server(script) as url:
            model = subject.model(url, manual=manual)
            async with connect(model, Bank().chat, Messages()):
                await done.wait()
        who = "the application" if manual else "the server"
        require(sent == [manual], f"the settings of a model for which {who} ends the user's speech say something else")
        require(model.is_manual is manual, f"is_manual is {model.is_manual}, but {who} ends the user's speech")


async def the_server_ends_the_users_speech(subject: Subject) -> None:
    """With turn detection, no message of the client ends the speech, and `commit()` raises `UsageError`."""
    dialect, done = subject.dialect, anyio.Event()
    ends: list[bool] = []

    async def script(peer: ServerPeer) -> None:
        await dialect.start(peer)
        await peer.expect(dialect.audio, "audio")
        await peer.send(*dialect.heard("item_1", "Hello?"), *dialect.begin("resp_1"))
        await peer.send(*dialect.speak("resp_1", _SPEECH, "Good day."), *dialect.end("resp_1"))
        first = next(index for index, message in enumerate(peer.received) if dialect.audio(message))
        await peer.expect(lambda message: dialect.text(message) == "And now?", "the message after the speech")
        ends.extend(dialect.is_commit(message) for message in peer.received[first:])
        done.set()

    async with loopback_server(script) as url, connect(subject.model(url), Bank().chat, Messages()) as session:
        await session.send_audio(bytes(480))
        await read_until(session, ResponseEnded)
        await session.send_text("And now?")
        await done.wait()
        try:
            await session.commit()
        except UsageError:
            pass
        else:
            require(condition=False, message="commit() was accepted, although the server ends the user's speech")
    require(not any(ends), "the client ended the speech, although the server detects its end")


async def speech_that_was_not_heard_is_truncated(subject: Subject) -> None:
    """After an interruption, the history and the server keep only the part of the speech that the user heard."""
    dialect = subject.dialect
    truncated: list[int | None] = []

    async def script(peer: ServerPeer) -> None:
        await dialect.start(peer)
        await peer.expect(dialect.audio, "audio")
        await peer.send(*dialect.begin("resp_1"))
        await peer.send(*dialect.speak("resp_1", _SPEECH, "one two three four"))
        await peer.expect(dialect.audio, "audio that interrupts")
        await peer.send(*dialect.interrupt("resp_1"))
        if dialect.has_truncation:
            message = await peer.expect(lambda item: dialect.truncated_at(item) is not None, "a truncation")
            truncated.append(dialect.truncated_at(message))

    async with loopback_server(script) as url, connect(subject.model(url), Bank().chat, Messages()) as session:
        session.report_played(0)
        await session.send_audio(bytes(480))
        await read_until(session, AudioDelta)
        session.report_played(session.output_format.seconds(len(_SPEECH) // 2))
        await session.send_audio(bytes(480))
        event, _ = await read_until(session, ResponseInterrupted)
        milliseconds = int(session.output_format.seconds(len(_SPEECH) // 2) * 1000)
    require(event.text == "one two", f"the delivered part of the text is {event.text!r}")
    require(texts(session) == [("model", "one two", "interrupted")], f"the history is {texts(session)}")
    if dialect.has_truncation:
        require(truncated == [milliseconds], f"the server was told {truncated} instead of {milliseconds} ms")


async def speech_that_was_not_delivered_is_dropped(subject: Subject) -> None:
    """After an interruption, audio that the application has not read is not delivered any more."""
    dialect, arrived = subject.dialect, anyio.Event()

    async def script(peer: ServerPeer) -> None:
        await dialect.start(peer)
        await peer.expect(dialect.audio, "audio")
        await peer.send(*dialect.begin("resp_1"), *dialect.speak("resp_1", _SPEECH, "one two"))
        await peer.send(*dialect.interrupt("resp_1"), *dialect.begin("resp_2"), *dialect.write("resp_2", "Yes?"))
        await peer.send(*dialect.end("resp_2"))
        arrived.set()

    async with loopback_server(script) as url, connect(subject.model(url), Bank().chat, Messages()) as session:
        await session.send_audio(bytes(480))
        await arrived.wait()
        await session.send_audio(bytes(480))
        # The reader starts when everything has arrived.
        while len(session.messages) == 0:
            await anyio.lowlevel.checkpoint()
        _, seen = await read_until(session, TurnAdded, lambda event: event.turn.text == "Yes?")
    require(not [event for event in seen if isinstance(event, AudioDelta)], "dropped audio was delivered")
    require(texts(session) == [("model", "Yes?", "stop")], f"the history is {texts(session)}")


async def a_warning_does_not_end_the_session(subject: Subject) -> None:
    """An error that the server reports in an open session is an event, and the session continues."""
    dialect = subject.dialect

    async def script(peer: ServerPeer) -> None:
        await dialect.start(peer)
        await peer.send(*dialect.warning("There is no such item."))
        await peer.expect(lambda message: dialect.text(message) == "Hello?", "the message")

    if not dialect.has_warnings:
        return
    async with loopback_server(script) as url, connect(subject.model(url), Bank().chat, Messages()) as session:
        event, _ = await read_until(session, ServerWarning)
        await session.send_text("Hello?")
        await read_until(session, TurnAdded)
    require("There is no such item." in str(event.error), f"the error is {event.error}")


async def a_closed_connection_raises_an_error(subject: Subject) -> None:
    """If the server closes the connection, the iteration raises an error of this library, and input is refused."""
    dialect = subject.dialect

    async def script(peer: ServerPeer) -> None:
        await dialect.start(peer)
        await peer.close(1011)

    async with loopback_server(script) as url, connect(subject.model(url), Bank().chat, Messages()) as session:
        try:
            await read_until(session, TurnAdded)
        except NetworkError as error:
            require("1011" in str(error), f"the error does not name the close code: {error}")
        else:
            require(condition=False, message="no error was raised")


async def an_invalid_message_raises_an_error(subject: Subject) -> None:
    """A message that is not JSON ends the session with an `InvalidResponseError`."""
    dialect = subject.dialect

    async def script(peer: ServerPeer) -> None:
        await dialect.start(peer)
        await peer.send('{"type": "unknown.kind", "unknownField": {}}', "{no json")

    async with loopback_server(script) as url, connect(subject.model(url), Bank().chat, Messages()) as session:
        try:
            await read_until(session, TurnAdded)
        except InvalidResponseError:
            return
    require(condition=False, message="no InvalidResponseError was raised")


SCENARIOS = (
    a_session_starts_with_instructions_tools_and_history,
    speech_is_sent_and_received_as_bytes,
    text_is_answered_with_text,
    the_application_ends_the_users_speech,
    the_settings_say_who_ends_the_users_speech,
    the_server_ends_the_users_speech,
    speech_that_was_not_heard_is_truncated,
    speech_that_was_not_delivered_is_dropped,
    a_warning_does_not_end_the_session,
    a_closed_connection_raises_an_error,
    an_invalid_message_raises_an_error,
)
