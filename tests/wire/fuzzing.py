"""The APIs as the fuzz test uses them: recorded responses, decoders, and the encoder of the next request."""

from __future__ import annotations

import functools
import traceback
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from random import Random
from typing import Final

import chat_claude.codec
import chat_claude.encode
import chat_claude.options
import chat_completions.codec
import chat_completions.options
import chat_gemini.codec
import chat_gemini.options
import chat_responses.codec
import chat_responses.options
from chat_core.errors import ChatError
from chat_core.messages import Messages, Turn
from chat_core.options import ChatOptions
from chat_core.provider import NO_TOOLS
from chat_core.transport.framing import framer
from chat_core.wire.event_decoder import EventDecoder
from chat_testing.conformance.mutations import mutate_response
from chat_testing.conformance.subject import conversation_after

from . import decoding
from .claude import answers as claude
from .gemini import decoding as gemini
from .responses import decoding as responses

LONGEST: Final = 60_000
"""Bodies that are longer are left out: they repeat the events of shorter ones."""


@dataclass(frozen=True)
class Wire:
    """One API format.

    Attributes:
        name: the name of its package, without `chat-`.
        bodies: returns the recorded answers, whole or streamed.
        decode: decodes a whole answer.
        decoder: makes the decoder of a stream.
        encode: encodes the request for a conversation.
    """

    name: str
    bodies: Callable[[bool], Iterable[tuple[str, bytes]]]
    decode: Callable[[bytes], Turn]
    decoder: Callable[[], EventDecoder]
    encode: Callable[[Messages], object]

    @functools.cache  # noqa: B019 - there are four
    def recorded(self, *, streamed: bool) -> tuple[tuple[str, bytes], ...]:
        """Return the recorded answers whose length is moderate, each with its name."""
        return tuple([(name, body) for name, body in self.bodies(streamed) if 0 < len(body) <= LONGEST])

    def read(self, body: bytes, *, streamed: bool) -> Turn:
        """Decode an answer.

        Raises:
            ChatError: the answer is not one of this API.
        """
        if not streamed:
            return self.decode(body)
        cutter = framer("json-array" if body.lstrip()[:1] == b"[" else "sse")
        decoder = self.decoder()
        decoder.feed(cutter.feed(body))
        decoder.feed(cutter.end())
        return decoder.close()


def _completions(streamed: bool) -> list[tuple[str, bytes]]:
    found = [item for item in decoding.answers() if item.api == "chat-completions" and item.status == 200]
    return [(item.id, item.body) for item in found if item.stream is streamed]


def _claude(streamed: bool) -> list[tuple[str, bytes]]:
    found = [item for item in claude.answers() if item.accepted and not item.body.startswith(claude.BINARY)]
    return [(item.id, item.body) for item in found if item.stream is streamed]


def _responses(streamed: bool) -> list[tuple[str, bytes]]:
    found = [item for item in responses.answers() if item.status == 200 and not item.frames]
    return [(item.id, item.body) for item in found if item.stream is streamed]


def _gemini(streamed: bool) -> list[tuple[str, bytes]]:
    found = [item for item in gemini.answers() if item.api == "generate-content" and item.accepted]
    return [(item.id, item.body) for item in found if item.stream is streamed]


P: Final = "recorded"
WIRES: Final = (
    Wire(
        "completions",
        _completions,
        lambda body: chat_completions.codec.decode(body, P),
        lambda: chat_completions.codec.StreamDecoder(P),
        lambda messages: chat_completions.codec.encode(
            messages, NO_TOOLS, ChatOptions(), None,
            dialect=chat_completions.options.Dialect(model="m", provider=P), stream=False,
        ),
    ),
    Wire(
        "claude",
        _claude,
        lambda body: chat_claude.codec.decode(body, P),
        lambda: chat_claude.codec.StreamDecoder(P),
        lambda messages: chat_claude.encode.encode(
            messages, NO_TOOLS, ChatOptions(), None,
            dialect=chat_claude.options.Dialect(model="m", provider=P), stream=False,
        ),
    ),
    Wire(
        "responses",
        _responses,
        lambda body: chat_responses.codec.decode(body, P),
        lambda: chat_responses.codec.StreamDecoder(P),
        lambda messages: chat_responses.codec.encode(
            messages, NO_TOOLS, ChatOptions(), None,
            dialect=chat_responses.options.ResponsesDialect(model="m", provider=P), stream=False,
        ),
    ),
    Wire(
        "gemini",
        _gemini,
        lambda body: chat_gemini.codec.decode(body, P),
        lambda: chat_gemini.codec.StreamDecoder(P),
        lambda messages: chat_gemini.codec.encode(
            messages, NO_TOOLS, ChatOptions(), None, dialect=chat_gemini.options.Dialect(model="m", provider=P)
        ),
    ),
)  # fmt: skip


def failure_of(wire: Wire, body: bytes, *, streamed: bool) -> str | None:
    """Return what went wrong with an answer, or None.

    An answer must raise an error of `chat_core.errors`, or give a turn that can be stored, read and sent back.
    """
    step = "decode"
    try:
        try:
            turn = wire.read(body, streamed=streamed)
        except ChatError:
            return None
        step = "to_json"
        messages = conversation_after(turn, "Go on.")
        document = messages.to_json()
        step = "from_json"
        again = Messages.from_json(document)
        step = "to_json again"
        if again.to_json() != document:
            return "to_json again: the document differs"
        step = "encode"
        wire.encode(messages)
        step = "encode after from_json"
        wire.encode(again)
    except Exception as error:  # noqa: BLE001 - the finding of this test
        frame = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{frame.filename.rpartition('/')[2]}:{frame.lineno}"
        return f"{step}: {type(error).__name__} at {place}: {str(error)[:120]}"
    return None


def find_failures(wire: Wire, *, streamed: bool, count: int, seed: int = 0) -> dict[str, list[str]]:
    """Mutate recorded answers and return the failures, each with the cases that show it.

    Args:
        wire: the API format.
        streamed: whether the answers are streams.
        count: the number of mutated answers.
        seed: the first seed; `replay()` takes the seed of a case.
    """
    found: dict[str, list[str]] = {}
    for number in range(seed, seed + count):
        name, body = replay(wire, streamed=streamed, seed=number)
        if (failure := failure_of(wire, body, streamed=streamed)) is not None:
            found.setdefault(failure, []).append(f"seed {number}, {name}")
    return found


def replay(wire: Wire, *, streamed: bool, seed: int) -> tuple[str, bytes]:
    """Return the name of the answer that a seed selects, and its mutated body."""
    random = Random(seed)
    name, body = random.choice(wire.recorded(streamed=streamed))
    return name, mutate_response(body, random)


def summarize(found: dict[str, list[str]]) -> str:
    """Return a table of the failures, the most frequent first."""
    counts = Counter({failure: len(cases) for failure, cases in found.items()})
    return "\n".join(f"{count:4} times {failure}; {found[failure][0]}" for failure, count in counts.most_common(20))
