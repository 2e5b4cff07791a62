"""The conformance suite for models with a native realtime API. Needs `chat-realtime[testing]`.

    class TestMyRealtime(RealtimeConformance):
        dialect = MyDialect()

        def model(self, base_url, /, *, manual=False, written=False):
            return MyRealtime(base_url=base_url, manual=manual, written=written)

A scenario is an async function. Its docstring describes a requirement, and the message of its `AssertionError` a
violation. Without pytest, call `await run_realtime_scenario(scenario, Subject(model, dialect))` for each value of
`SCENARIOS`.
"""

from chat_realtime.testing._conformance import SCENARIOS, RealtimeConformance, Scenario, run_realtime_scenario
from chat_realtime.testing._gemini_dialect import GeminiDialect
from chat_realtime.testing._loopback import Script, ServerPeer, loopback_server
from chat_realtime.testing._openai_dialect import OpenAIDialect
from chat_realtime.testing._subject import ModelFactory, Subject
from chat_realtime.testing.dialect import Dialect

__all__ = [
    "SCENARIOS",
    "Dialect",
    "GeminiDialect",
    "ModelFactory",
    "OpenAIDialect",
    "RealtimeConformance",
    "Scenario",
    "Script",
    "ServerPeer",
    "Subject",
    "loopback_server",
    "run_realtime_scenario",
]
