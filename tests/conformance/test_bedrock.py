"""Claude on Amazon Bedrock passes every scenario that Claude passes, with streams in AWS event streams."""

from __future__ import annotations

import base64
from dataclasses import fields, replace
from typing import Any

from chat_claude import ClaudeBuilder
from chat_claude.decode import StreamDecoder
from chat_core import CompletionProvider, OverloadedError, Turn
from chat_core.json import dump_bytes, loads
from chat_core.transport import AwsEvents, Transport
from chat_testing import Reply, StreamFailure, Tape
from chat_testing.conformance.aws_frames import encode_message
from chat_testing.conformance.replaced_texts import replace_call, replace_text

from . import test_claude
from .claude_tapes import TAPES


def chunk(event: object) -> tuple[str, dict[str, object]]:
    """Return the message of Bedrock that contains an event of Claude."""
    return "chunk", {"bytes": base64.b64encode(dump_bytes(event)).decode(), "p": "abcd"}


def on_bedrock(tape: Tape) -> Tape:
    """Return a tape whose stream is an AWS event stream."""
    assert tape.stream is not None
    events = [loads(event.partition(b"data: ")[2]) for event in tape.stream.chunks]
    return replace(tape, stream=Reply.aws_events(*map(chunk, events)))


def message(event: object) -> bytes:
    kind, payload = chunk(event)
    return encode_message(dump_bytes(payload), kind)


NAMES = [item.name for item in fields(TAPES) if isinstance(getattr(TAPES, item.name), Tape)]
ON_BEDROCK: dict[str, Any] = {name: on_bedrock(getattr(TAPES, name)) for name in NAMES}


class TestClaudeOnBedrock(test_claude.TestClaude):
    backends = ("asyncio",)
    tapes = replace(
        TAPES,
        **ON_BEDROCK,
        files=TAPES.files[:1],  # Bedrock downloads no files
        finishes=tuple(map(on_bedrock, TAPES.finishes)),
        noise=(message({"type": "ping"}), message({"type": "news_of_the_day", "text": "none"})),
        failure=StreamFailure(
            frame=encode_message(b'{"message": "Busy."}', "serviceUnavailableException", "exception"),
            error=OverloadedError,
            retryable=True,
        ),
    )

    def make_provider(self, transport: Transport, /) -> CompletionProvider:
        builder = ClaudeBuilder().with_bedrock("eu-west-1").with_model("eu.anthropic.claude-sonnet-4-5-v1:0")
        return builder.with_bearer_token("token-conformance").with_transport(transport).build()


def decoded(reply: Reply) -> Turn:
    """Return the turn of a recorded stream."""
    decoder = StreamDecoder("claude")
    decoder.feed(AwsEvents().feed(reply.data))
    return decoder.close()


def test_the_text_of_an_event_stream_is_replaced() -> None:
    assert TAPES.text is not None
    found = replace_text(ON_BEDROCK["text"].stream, TAPES.text.text, "ha ")
    assert found is not None
    reply, text = found
    assert text == "ha " * 4
    assert decoded(reply).text == text


def test_the_call_of_an_event_stream_is_replaced() -> None:
    assert TAPES.call is not None
    reply = replace_call(ON_BEDROCK["call"].stream, TAPES.call.calls[0], "look_up", {"n": 2**53 + 1})
    assert reply is not None
    (tool,) = decoded(reply).tools
    assert (tool.name, dict(tool.call.arguments)) == ("look_up", {"n": 2**53 + 1})
