"""The servers as a test sees them: where they are, and how they are told what to do."""

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
        """A builder of a provider that asks for the model `name` below `path`."""
        builder = CompletionsBuilder().with_base_url(f"{self.url}{path}").with_api_key(self.KEY)
        return builder.with_transport(transport).with_model(name)

    def fresh_key(self) -> str:
        """A key that this server has never seen, with a quota of its own."""
        return f"{self.KEY}-{next(_numbers)}"

    def control(self, method: str, path: str, body: object = None) -> Any:
        """What the server answers to a word beside the wire."""
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
    """The npm package @copilotkit/aimock. It says what it was scripted to say."""

    def script(self, *fixtures: Json) -> str:
        """The name of a new model, which answers as these fixtures say; the first that matches wins."""
        model = f"model-{next(_numbers)}"
        scripted = [{**item, "match": {"model": model, **item.get("match", {})}} for item in fixtures]
        assert self.control("POST", "/__aimock/fixtures", {"fixtures": scripted}) == {"added": len(fixtures)}
        return model

    def says(self, **response: object) -> str:
        """The name of a new model that always answers so."""
        return self.script({"response": response})

    def asked(self, model: str) -> list[Json]:
        """The bodies of the requests for a model, oldest first."""
        entries: list[Json] = self.control("GET", "/__aimock/journal?path=/v1/chat/completions")
        bodies: list[Json] = [entry["body"] for entry in entries]
        return [body for body in bodies if body["model"] == model]


@final
class Llmock(Peer):
    """The PyPI package llmock. It fails as it is told, watches the client, and judges it."""

    def reset(self) -> None:
        """Forget what was asked and what was ordered."""
        self.control("POST", "/_llmock/reset")

    def order(self, *behaviors: Mapping[str, object]) -> None:
        """Have the next requests treated so."""
        answer = self.control("POST", "/_llmock/scenario", {"behaviors": list(behaviors)})
        assert answer["queued"] == len(behaviors)

    def requests(self) -> list[Json]:
        """Every request, oldest first, with what became of it."""
        found: list[Json] = self.control("GET", "/_llmock/requests")["requests"]
        return found

    def findings(self) -> list[str]:
        """What llmock holds against the client."""
        return [finding["code"] for finding in self.control("GET", "/_llmock/verdict")["findings"]]


@final
class LlamaCpp(Peer):
    """llama.cpp's own HTTP server."""

    def tokens_when_idle(self) -> int:
        """Waits until the server decodes nothing: how long its last conversation was by then."""
        deadline = time.monotonic() + IDLE_SECONDS
        while True:
            (slot,) = self.control("GET", "/slots")
            if not slot["is_processing"]:
                return int(slot["n_prompt_tokens"])
            assert time.monotonic() < deadline, slot
            # Each answer puts off by a second when it looks whether the other clients are still there.
            threading.Event().wait(1.5)
