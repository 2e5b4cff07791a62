"""The exact texts that a model receives, or that enter a stored conversation."""

from __future__ import annotations

import pytest
from chat_responses import model_texts

TEXTS = {
    model_texts.CALL_TRUNCATED: "the answer was cut before this call was whole",
    model_texts.rejected_edit({"cents": 300, "to": "Zoë"}): 'Ask for this instead: {"cents":300,"to":"Zoë"}',
    model_texts.rejected_edit({}): "Ask for this instead: {}",
}


@pytest.mark.parametrize("text", TEXTS)
def test_the_texts_sent_to_models_are_unchanged(text: str) -> None:
    assert text.encode() == TEXTS[text].encode()
