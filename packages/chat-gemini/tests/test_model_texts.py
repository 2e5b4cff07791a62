"""The exact texts that a model receives, or that enter a stored conversation."""

from __future__ import annotations

from chat_gemini import model_texts


def test_the_texts_sent_to_models_are_unchanged() -> None:
    assert (
        model_texts.OUTPUT_TOOL
        == "Gives the final answer. Call it once, when the answer is known, and say nothing beside."
    )
    assert model_texts.ARGUMENTS_TRUNCATED == "the arguments were cut: the server said that more of them would follow"
