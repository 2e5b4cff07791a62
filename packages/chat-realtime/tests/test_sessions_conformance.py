"""The conformance suite for the native realtime APIs."""

from __future__ import annotations

from chat_realtime.sessions import GeminiLive, OpenAIRealtime, RealtimeModel
from chat_realtime.testing import GeminiDialect, OpenAIDialect, RealtimeConformance


class TestOpenAIRealtime(RealtimeConformance):
    dialect = OpenAIDialect()

    def model(self, base_url: str, /, *, manual: bool = False, written: bool = False) -> RealtimeModel:
        return OpenAIRealtime(
            "gpt-realtime",
            api_key="sk-test-1234567890",
            base_url=f"{base_url}/v1",
            turn_detection="manual" if manual else "server",
            output="text" if written else "audio",
        )


class TestGeminiLive(RealtimeConformance):
    dialect = GeminiDialect()

    def model(self, base_url: str, /, *, manual: bool = False, written: bool = False) -> RealtimeModel:
        return GeminiLive(
            "gemini-live",
            api_key="AIza-test-1234567890",
            base_url=base_url,
            turn_detection="manual" if manual else "server",
            output="text" if written else "audio",
        )
