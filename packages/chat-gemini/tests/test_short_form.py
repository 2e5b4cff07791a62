from __future__ import annotations

import pytest
from chat_core.errors import UsageError
from chat_gemini import gemini


def test_the_shorthand_uses_a_given_key_or_the_one_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GEMINI_API_KEY", raising=False)
    monkeypatch.delenv("GOOGLE_API_KEY", raising=False)
    with pytest.raises(UsageError, match="the API key is missing"):
        gemini("m")
    assert gemini("m", api_key="k").metadata.model == "m"
    monkeypatch.setenv("GEMINI_API_KEY", "k")
    assert gemini("m").metadata.model == "m"
