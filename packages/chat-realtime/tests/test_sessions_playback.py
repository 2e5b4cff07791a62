"""What the user has heard, by a fake clock and by reports, and the text that is kept."""

from __future__ import annotations

from chat_core import TextDelta
from chat_realtime.sessions import AudioDelta, AudioFormat, ResponseEnded, TranscriptDelta
from chat_realtime.sessions._speech import Speech
from chat_realtime.sessions.playback import Playback

FORMAT = AudioFormat("pcm16", 1000)
"""One second has 2000 bytes."""


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_audio_counts_as_heard_at_most_in_real_time() -> None:
    clock = Clock()
    playback = Playback(FORMAT, clock)
    playback.deliver(4000)
    assert playback.heard == 0
    assert playback.seconds_until(4000) == 2.0
    clock.now += 0.5
    assert playback.heard == 1000
    assert playback.seconds_until(2000) == 0.5
    playback.deliver(2000)
    clock.now += 1.5
    assert playback.heard == 4000
    clock.now += 10
    assert playback.heard == 6000
    playback.deliver(2000)
    assert playback.heard == 6000


def test_reports_replace_the_estimate_and_never_go_back() -> None:
    clock = Clock()
    playback = Playback(FORMAT, clock)
    playback.deliver(4000)
    playback.report(0.25)
    clock.now += 10
    assert playback.heard == 500
    assert playback.seconds_until(4000) is None
    playback.report(0.1)
    assert playback.heard == 500
    playback.report(60)
    assert playback.heard == 4000


def test_stopped_audio_is_never_heard() -> None:
    clock = Clock()
    playback = Playback(FORMAT, clock)
    playback.deliver(4000)
    clock.now += 0.5
    assert playback.stop() == 1000
    clock.now += 10
    assert playback.heard == 1000
    playback.deliver(2000)
    clock.now += 0.5
    assert playback.heard == 2000


def _spoken(playback: Playback, text: str, size: int) -> Speech:
    speech = Speech(playback)
    for event in (TranscriptDelta(text, "item_1"), AudioDelta(bytes(size), "item_1")):
        speech.receive(event)
        speech.take(event)
    return speech


def test_speech_is_truncated_between_words_in_proportion_to_the_heard_audio() -> None:
    playback = Playback(FORMAT, Clock())
    speech = _spoken(playback, "one two three four", 4000)
    speech.ended = ResponseEnded("resp_1", "completed")
    assert not speech.is_settled
    playback.report(1.0)
    assert speech.cut() == {"item_1": 2000}
    assert speech.is_settled
    assert speech.text() == "one two"
    playback.report(2.0)
    assert speech.text() == "one two"


def test_speech_that_was_not_heard_has_no_text() -> None:
    playback = Playback(FORMAT, Clock())
    speech = _spoken(playback, "one two", 4000)
    assert speech.cut() == {"item_1": 0}
    assert not speech.is_settled
    speech.ended = ResponseEnded("resp_1", "interrupted")
    assert speech.is_settled
    assert speech.text() == ""


def test_speech_that_was_heard_to_its_end_has_its_whole_text() -> None:
    playback = Playback(FORMAT, Clock())
    speech = _spoken(playback, "one two", 4000)
    playback.report(2.0)
    assert not speech.is_settled
    speech.ended = ResponseEnded("resp_1", "completed")
    assert speech.is_settled
    assert speech.text() == "one two"


def test_written_text_is_kept_up_to_the_point_that_the_application_has_read() -> None:
    speech = Speech(Playback(FORMAT, Clock()))
    first, second = TextDelta("one "), TextDelta("two")
    speech.receive(first)
    speech.receive(second)
    speech.take(first)
    assert speech.cut() == {}
    assert speech.text() == "one "
    assert speech.full_text() == "one two"
