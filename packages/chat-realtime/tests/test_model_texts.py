"""The texts that models receive do not change unnoticed."""

from __future__ import annotations

from chat_realtime import model_texts


def test_the_texts_about_interrupted_calls_stay_the_same() -> None:
    assert model_texts.INTERRUPTED_WHILE_RUNNING == (
        "The user interrupted this call while it was running. It may have taken effect."
    )
    assert model_texts.INTERRUPTED_BEFORE_START == (
        "The user interrupted this call before it started. It had no effect."
    )
    assert model_texts.INTERRUPTED_CHAT == (
        "The user interrupted this call while it was running. Parts of it may have taken effect."
    )
