"""Response formats of vendors, complete and streamed, for any split of the bytes."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, cast

import pytest
from chat_completions import Dialect
from chat_completions.codec import StreamDecoder, decode
from chat_completions.parts import model_messages
from chat_core import errors
from chat_core.errors import ChatError
from chat_core.events import ReasoningDelta, TextDelta, ToolCallDelta
from chat_core.messages import File, ProviderPart, Reasoning, Turn
from chat_core.provider import Delta
from chat_core.transport import SseParser
from chat_core.usage import Usage
from hypothesis import given, settings
from hypothesis import strategies as st


@dataclass(frozen=True)
class Case:
    """A response and its expected result, as documented in the pages of `vendors/`."""

    name: str
    body: bytes
    says: Mapping[str, Any]

    @property
    def streamed(self) -> bool:
        """Whether the body is a stream. Complete responses begin with a bracket."""
        return self.body[:1] not in {b"{", b"[", b"<"}


def case_of(row: Mapping[str, Any]) -> Case:
    body = str(row["body"]).encode()
    return Case(row["name"], body.replace(b"\n", b"\r\n") if row.get("crlf") else body, row)


CASES = [
    case_of(row)
    for page in sorted((Path(__file__).parent / "vendors").glob("*.toml"))
    for row in tomllib.loads(page.read_text(encoding="utf-8"))["case"]
]
ANSWERS = [case for case in CASES if "error" not in case.says]
FAILURES = [case for case in CASES if "error" in case.says]
STREAMS = [case for case in CASES if case.streamed]

DIALECT = Dialect(model="m", provider="p")


def read_stream(chunks: Sequence[bytes]) -> tuple[list[Delta], Turn]:
    parser, decoder = SseParser(), StreamDecoder("p")
    deltas = [delta for piece in chunks for delta in decoder.feed(parser.feed(piece))]
    return deltas, decoder.close()


def read(body: bytes) -> Turn:
    return read_stream([body])[1] if Case("", body, {}).streamed else decode(body, "p")


def cut(body: bytes, random: Random) -> Iterator[bytes]:
    start = 0
    while start < len(body):
        end = start + random.choice((1, 2, 3, 7, 40, 300))
        yield body[start:end]
        start = end


def thoughts(turn: Turn) -> str:
    return "".join([part.text for part in turn.parts if isinstance(part, Reasoning)])


def summary(turn: Turn) -> dict[str, object]:
    assert turn.metadata is not None
    return {
        "text": turn.text,
        "reasoning": thoughts(turn),
        "calls": [[tool.call_id or "", tool.name, value(tool.call.text)] for tool in turn.tools],
        "finish": turn.finish_reason,
        "raw": turn.metadata.finish_reason or "",
        "usage": turn.usage,
    }


def value(text: str) -> object:
    try:
        return cast("object", json.loads(text))
    except ValueError:
        return text


def expected(case: Case) -> dict[str, object]:
    says = case.says
    return {
        "text": says.get("text", ""),
        "reasoning": says.get("reasoning", ""),
        "calls": [[id_, name, value(arguments)] for id_, name, arguments in says.get("calls", [])],
        "finish": says.get("finish", "stop"),
        "raw": says.get("raw", "stop"),
        "usage": Usage(**says.get("usage", {})),
    }


def name_of(case: Case) -> str:
    return case.name


@pytest.mark.parametrize("case", ANSWERS, ids=name_of)
def test_a_vendor_response_is_decoded_as_documented(case: Case) -> None:
    turn = read(case.body)
    assert summary(turn) == expected(case)
    assert turn.metadata is not None
    kept = case.says.get("kept", {})
    assert {name: turn.metadata.extra.get(name) for name in kept} == kept
    if "parts" in case.says:
        kinds = [part.kind if isinstance(part, ProviderPart) else type(part).__name__ for part in turn.parts]
        assert kinds == case.says["parts"]


@pytest.mark.parametrize("case", FAILURES, ids=name_of)
def test_a_vendor_failure_raises_its_documented_error(case: Case) -> None:
    with pytest.raises(getattr(errors, case.says["error"])):
        read(case.body)


def outcome(chunks: Sequence[bytes]) -> object:
    try:
        return summary(read_stream(chunks)[1])
    except ChatError as error:
        return type(error), str(error)


@pytest.mark.parametrize("case", STREAMS, ids=name_of)
def test_the_result_of_a_stream_does_not_depend_on_chunk_boundaries(case: Case) -> None:
    once = outcome([case.body])
    assert outcome([case.body[at : at + 1] for at in range(len(case.body))]) == once
    random = Random(case.name)
    for _ in range(3):
        assert outcome([*cut(case.body, random)]) == once


@pytest.mark.parametrize("case", [case for case in ANSWERS if case.streamed], ids=name_of)
def test_the_joined_deltas_equal_the_turn(case: Case) -> None:
    deltas, turn = read_stream([case.body])
    assert "".join([delta.text for delta in deltas if isinstance(delta, TextDelta)]) == turn.text
    assert "".join([delta.text for delta in deltas if isinstance(delta, ReasoningDelta)]) == thoughts(turn)
    for index, tool in enumerate(turn.tools):
        mine = [delta for delta in deltas if isinstance(delta, ToolCallDelta) and delta.index == index]
        assert "".join([delta.arguments for delta in mine]) == (tool.call.raw or "")


@pytest.mark.parametrize("case", [case for case in ANSWERS if case.streamed], ids=name_of)
def test_closing_a_stream_before_its_finish_reason_raises(case: Case) -> None:
    decoder = StreamDecoder("p")
    for event in SseParser().feed(case.body):
        with pytest.raises(ChatError):
            decoder.close()
        decoder.feed([event])
        if decoder.partial().finish_reason is not None:
            return


# --- Handwritten responses -----------------------------------------------------------------------------


def chunk(delta: object, finish: str | None = None, **further: object) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {"id": "c-1", "object": "chat.completion.chunk", "model": "m", "choices": [choice], **further}


def stream(*events: object) -> bytes:
    texts = [event if isinstance(event, str) else f"data: {json.dumps(event)}\n\n" for event in events]
    return "".join([*texts, "data: [DONE]\n\n"]).encode()


def whole(message: object, finish: str = "stop") -> bytes:
    choice = {"index": 0, "message": message, "finish_reason": finish}
    return json.dumps({"id": "c-1", "object": "chat.completion", "model": "m", "choices": [choice]}).encode()


def call(name: str, arguments: str, **further: object) -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    return {"tool_calls": [{"index": 0, "id": "a", "type": "function", "function": function, **further}]}


HI = chunk({"content": "Hi"})

# --- Parts that are sent back --------------------------------------------------------------------------


def sent_back(body: bytes) -> dict[str, Any]:
    turn = read(body)
    for tool in turn.tools:
        tool.start()
        tool.complete("ok")
    return model_messages(turn, DIALECT)[0]


def test_reasoning_and_its_opaque_data_are_sent_back_in_their_own_fields() -> None:
    body = stream(chunk({"reasoning_text": "Hm"}), chunk({"content": "Hi", "reasoning_opaque": "xyz"}, "stop"))
    assert sent_back(body) == {
        "role": "assistant", "content": "Hi", "reasoning_text": "Hm", "reasoning_opaque": "xyz",
    }  # fmt: skip


def test_reasoning_details_are_sent_back_with_signature_and_encrypted_data() -> None:
    first = {"type": "reasoning.text", "text": "H", "index": 0, "format": "f"}
    rest = {"type": "reasoning.text", "text": "m", "index": 0, "signature": "s"}
    secret = {"type": "reasoning.encrypted", "data": "xyz", "id": "rs_1", "index": 1}
    body = stream(*[chunk({"reasoning_details": [detail]}) for detail in (first, rest, secret)], HI, chunk({}, "stop"))
    assert sent_back(body)["reasoning_details"] == [
        {"type": "reasoning.text", "text": "Hm", "index": 0, "format": "f", "signature": "s"},
        secret,
    ]


@pytest.mark.parametrize("pieces", [("Hm",), ("H", "m")])
def test_reasoning_parts_in_a_content_list_are_sent_back_with_their_signature(pieces: tuple[str, ...]) -> None:
    def part(text: str, signature: str) -> dict[str, Any]:
        return {"type": "reasoning", "summary": [{"type": "summary_text", "text": text, "signature": signature}]}

    parts = [part(text, "s" if text == pieces[-1] else "") for text in pieces]
    body = stream(*[chunk({"content": [item]}) for item in parts], HI, chunk({}, "stop"))
    thought = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm", "signature": "s"}]}
    assert sent_back(body)["content"] == [thought, {"type": "text", "text": "Hi"}]
    if len(pieces) == 1:
        assert sent_back(whole({"content": [*parts, {"type": "text", "text": "Hi"}]}))["content"][0] == thought


def test_several_signed_summaries_of_one_reasoning_part_are_sent_back_unchanged() -> None:
    pieces = [{"type": "summary_text", "text": text, "signature": text} for text in ("H", "m")]
    body = whole({"content": [{"type": "reasoning", "summary": pieces}, {"type": "text", "text": "Hi"}]})
    assert sent_back(body)["content"][0] == {"type": "reasoning", "summary": pieces}


def test_an_unusual_call_type_is_sent_back() -> None:
    body = whole(call("$web_search", "{}", type="builtin_function"), "tool_calls")
    assert sent_back(body)["tool_calls"] == [
        {"id": "a", "type": "builtin_function", "function": {"name": "$web_search", "arguments": "{}"}}
    ]


def test_a_thought_signature_is_sent_back_with_its_call() -> None:
    signed = {"extra_content": {"google": {"thought_signature": "s"}}}
    body = stream(chunk(call("f", "{}", **signed), "stop"))
    assert sent_back(body)["tool_calls"][0]["extra_content"] == signed["extra_content"]


def test_citations_are_kept_in_the_turn_but_not_sent_back() -> None:
    body = stream(chunk({"content": "Hi", "citations": ["u"], "context": {"intent": "x"}}), chunk({}, "stop"))
    turn = read(body)
    assert [part.data for part in turn.parts if isinstance(part, ProviderPart)] == [
        {"citations": ["u"]},
        {"context": {"intent": "x"}},
    ]
    assert sent_back(body) == {"role": "assistant", "content": "Hi"}


def test_audio_split_between_chunks_is_joined_completely() -> None:
    (case,) = [case for case in CASES if "Qwen-Omni" in case.name]
    (sound,) = [part for part in read(case.body).parts if isinstance(part, File)]
    assert sound.data == bytes(range(200))


# --- Undocumented fields -------------------------------------------------------------------------------

JUNK = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.floats() | st.sampled_from(["", "x", "data:,", "\ud83d"]),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["type", "text", "url", "code"]), inner)
    ),
    max_leaves=4,
)
FIELDS = st.sampled_from(
    [
        "error", "choices", "usage", "id", "model", "base_resp", "detail", "index", "delta", "finish_reason",
        "logprobs", "content", "reasoning", "reasoning_details", "tool_calls", "function_call", "function", "name",
        "arguments", "images", "image_url", "audio", "annotations", "refusal", "executed_tools", "citations", "x_groq",
    ]
)  # fmt: skip


def spoilt(value: object, name: str, junk: object) -> object:
    """Return the value with every field of that name replaced."""
    if isinstance(value, dict):
        items = cast("dict[str, object]", value).items()
        return {key: junk if key == name else spoilt(item, name, junk) for key, item in items}
    if isinstance(value, list):
        return [spoilt(item, name, junk) for item in cast("list[object]", value)]
    return value


RICH = chunk(
    {
        "content": [{"type": "text", "text": "Hi"}, {"type": "thinking", "thinking": "Hm"}],
        "reasoning": "Hm",
        "reasoning_details": [{"type": "reasoning.text", "text": "Hm"}],
        "images": [{"image_url": {"url": "https://example.org/a.png"}}],
        "audio": {"id": "a", "data": "AAAA"},
        "annotations": [{"type": "file"}],
        "executed_tools": [{"index": 0}],
        "citations": ["u"],
        **call("f", "{}"),
    },
    usage={"prompt_tokens": 1},
    x_groq={"usage": {}},
    base_resp={"status_code": 0},
)


@settings(max_examples=150, deadline=None)
@given(FIELDS, JUNK, st.booleans())
def test_malformed_fields_give_a_turn_or_a_chat_error(name: str, junk: object, beside: bool) -> None:
    bad = {**RICH, name: junk} if beside else spoilt(RICH, name, junk)
    said = json.dumps(bad)
    for body in (stream(RICH, f"data: {said}\n\n", chunk({}, "stop")), said.replace('"delta"', '"message"').encode()):
        try:
            turn = read(body)
        except ChatError:
            continue
        assert turn.finish_reason is not None
