"""Clients that control the servers of these tests."""

from __future__ import annotations

import itertools
import json
import threading
import time
from collections.abc import Mapping
from http.client import HTTPConnection
from typing import Any, ClassVar, Final, TypeAlias, final
from urllib.parse import urlsplit

from chat_completions import CompletionsBuilder, ReadyCompletionsBuilder
from chat_core.transport.protocol import Transport

Json: TypeAlias = dict[str, Any]

IDLE_SECONDS: Final = 30.0
_numbers: Final = itertools.count(1)


class Peer:
    """A server that listens on `url`."""

    KEY: ClassVar[str] = "key-of-the-tests"

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")

    def model(self, transport: Transport, name: str = "m", *, path: str = "/v1") -> ReadyCompletionsBuilder:
        """Return a builder of a provider for the model `name` at `path`."""
        builder = CompletionsBuilder().with_base_url(f"{self.url}{path}").with_api_key(self.KEY)
        return builder.with_transport(transport).with_model(name)

    def fresh_key(self) -> str:
        """Return a new key, which has a quota of its own."""
        return f"{self.KEY}-{next(_numbers)}"

    def control(self, method: str, path: str, body: object = None) -> Any:
        """Send a control request, and return the response of the server."""
        connection = HTTPConnection(urlsplit(self.url).netloc, timeout=30)
        headers = {"authorization": f"Bearer {self.KEY}", "content-type": "application/json"}
        try:
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            answer = connection.getresponse()
            said = answer.read()
        finally:
            connection.close()
        assert answer.status < 300, f"{method} {path}: {answer.status} {said!r}"
        return json.loads(said)


@final
class Aimock(Peer):
    """The npm package @copilotkit/aimock. It returns scripted responses."""

    def script(self, *fixtures: Json) -> str:
        """Create a model that answers with the first matching fixture, and return its name."""
        model = f"model-{next(_numbers)}"
        scripted = [{**item, "match": {"model": model, **item.get("match", {})}} for item in fixtures]
        assert self.control("POST", "/__aimock/fixtures", {"fixtures": scripted}) == {"added": len(fixtures)}
        return model

    def says(self, **response: object) -> str:
        """Create a model that always returns this answer, and return its name."""
        return self.script({"response": response})

    def asked(self, model: str) -> list[Json]:
        """Return the bodies of the requests for a model, oldest first."""
        entries: list[Json] = self.control("GET", "/__aimock/journal?path=/v1/chat/completions")
        bodies: list[Json] = [entry["body"] for entry in entries]
        return [body for body in bodies if body["model"] == model]


@final
class Llmock(Peer):
    """The PyPI package llmock. It fails on request, records the requests of the client, and reports faults in them."""

    def reset(self) -> None:
        """Delete the recorded requests and the ordered faults."""
        self.control("POST", "/_llmock/reset")

    def order(self, *behaviors: Mapping[str, object]) -> None:
        """Set how the server treats the next requests."""
        answer = self.control("POST", "/_llmock/scenario", {"behaviors": list(behaviors)})
        assert answer["queued"] == len(behaviors)

    def requests(self) -> list[Json]:
        """Return all requests, oldest first, with their results."""
        found: list[Json] = self.control("GET", "/_llmock/requests")["requests"]
        return found

    def findings(self) -> list[str]:
        """Return the faults that llmock found in requests."""
        return [finding["code"] for finding in self.control("GET", "/_llmock/verdict")["findings"]]


@final
class LlamaCpp(Peer):
    """llama.cpp's own HTTP server."""

    def tokens_when_idle(self) -> int:
        """Wait until the server decodes nothing, and return the length of its last conversation in tokens."""
        deadline = time.monotonic() + IDLE_SECONDS
        while True:
            (slot,) = self.control("GET", "/slots")
            if not slot["is_processing"]:
                return int(slot["n_prompt_tokens"])
            assert time.monotonic() < deadline, slot
            # Each answer puts off by a second when it looks whether the other clients are still there.
            threading.Event().wait(1.5)
