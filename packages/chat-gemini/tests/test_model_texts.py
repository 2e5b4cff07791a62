"""The exact texts that a model receives, or that enter a stored conversation."""

from __future__ import annotations

from chat_gemini import model_texts


def test_a_text_that_a_model_receives_is_unchanged() -> None:
    assert model_texts.ARGUMENTS_TRUNCATED == "the arguments were cut: the server said that more of them would follow"
