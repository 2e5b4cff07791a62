from __future__ import annotations

import json

import pytest
from chat_core import (
    ChatOptions,
    File,
    FunctionCall,
    Messages,
    NetworkError,
    Text,
    TextDelta,
)
from chat_core.testing import Answer, ScriptedProvider
from chat_testing import Capabilities, NonconformingError, ProviderTapes, Reply, Subject, Tape
from chat_testing.conformance.subject import (
    AnyProvider,
    ProviderInput,
    SentBody,
    call_provider,
    conversation_after,
    declare_tools,
    make_turn_with_calls,
    require_completion,
    require_embeddings,
    require_streaming,
    schema_of,
)
from jsonschema import ValidationError, validate

pytestmark = pytest.mark.anyio
NO = NetworkError("no")


class Mute:
    """Provider without any provider methods."""

    metadata = ScriptedProvider().metadata


def mute() -> AnyProvider:
    provider: object = Mute()
    return provider  # type: ignore[return-value]  # pyright: ignore[reportReturnType] - wrong on purpose


async def test_call_provider_completes_or_streams_and_captures_errors() -> None:
    provider = ScriptedProvider("Yes.", "Yes.", Answer(error=NO))

    whole = await call_provider(provider, "complete")
    outcome = await call_provider(provider, "stream")
    failed = await call_provider(provider, "complete")

    assert (whole.result.text, outcome.result.text, outcome.deltas) == ("Yes.", "Yes.", [TextDelta("Yes.")])
    assert failed.turn is None
    assert str(failed.error) == "no"
    with pytest.raises(NetworkError):
        failed.result  # noqa: B018 - it raises


async def test_call_provider_returns_embeddings_as_parts() -> None:
    outcome = await call_provider(ScriptedProvider(), "embed")

    assert len(outcome.result.parts) == 1


def test_provider_without_a_claimed_method_is_nonconforming() -> None:
    for look, word in ((require_completion, "complete"), (require_streaming, "stream"), (require_embeddings, "embed")):
        with pytest.raises(NonconformingError, match=rf"Mute has no {word}\(\)"):
            look(mute())


def test_sent_body_finds_text_in_json_keys_values_and_nested_json() -> None:
    sent = SentBody('{"a": [{"text": "Où est Lyon?"}, {"Lyon": 1}], "raw": "{\\"x\\": 2}"}'.encode())

    assert sent.contains("Où est")
    assert sent.count("Lyon") == 2
    assert sent.index_of("Lyon") < sent.index_of('"x"')
    assert not sent.contains("Paris")
    assert SentBody(b"--part\nno JSON").contains("no JSON")


def test_sent_body_finds_a_file_by_its_url_bytes_or_text() -> None:
    picture, page = File("image/png", data=b"\x89PNG"), File("text/plain", data="Où?".encode())

    assert SentBody(b'{"u": "data:image/png;base64,iVBORw=="}').contains_file(picture)
    assert SentBody('{"u": "Où?"}'.encode()).contains_file(page)
    assert SentBody(b'{"u": "https://a.example/b"}').contains_file(File("image/png", url="https://a.example/b"))
    assert not SentBody(b"{}").contains_file(picture)


def test_schema_of_a_value_accepts_the_value_and_rejects_another() -> None:
    value: dict[str, object] = {"city": "Lyon", "rivers": 2, "names": ["Rhône"], "at": {"north": 45.7, "old": True}}
    schema = schema_of(value)

    validate(value, schema)
    for wrong in ({**value, "rivers": "two"}, {"city": "Lyon"}):
        with pytest.raises(ValidationError):
            validate(wrong, schema)


def test_declare_tools_declares_each_tool_once_for_all_tapes() -> None:
    lyon, paris = FunctionCall("weather", {"city": "Lyon"}), FunctionCall("weather", {"city": "Paris"})
    tools = declare_tools(Tape(calls=(lyon, paris)), None, Tape(calls=(FunctionCall("clock"),)))

    assert [tool.name for tool in tools] == ["weather", "clock"]


def test_conversation_after_resolves_the_calls_and_adds_a_question() -> None:
    turn = make_turn_with_calls("somebody", [FunctionCall("weather", {"city": "Lyon"}, "call_1")], lambda _: None)
    messages = conversation_after(turn, "Go on.")

    assert [content.role for content in messages] == ["user", "model", "user"]
    assert messages.pending() == []
    assert turn.tools[0].call_id == "call_1"


async def test_subject_methods_are_the_claimed_methods() -> None:
    def methods(capabilities: Capabilities) -> tuple[str, ...]:
        return Subject(lambda _: ScriptedProvider(), capabilities, ProviderTapes()).methods

    assert methods(Capabilities()) == ("complete",)
    assert methods(Capabilities(stream=True, embeddings=True)) == ("complete", "stream", "embed")
    assert methods(Capabilities(text=False, embeddings=True)) == ("embed",)


async def test_replies_of_returns_one_reply_per_recorded_method() -> None:
    whole, streamed = Reply(body=b"whole"), Reply(body=b"streamed")
    subject = Subject(lambda _: ScriptedProvider("a"), Capabilities(stream=True), ProviderTapes())
    tapes = (Tape(whole=whole, stream=streamed), None, Tape(stream=streamed))

    assert [(method, reply) for method, _, reply in subject.replies_of(*tapes)] == [
        ("complete", whole),
        ("stream", streamed),
        ("stream", streamed),
    ]


async def test_call_provider_sends_the_messages_and_options() -> None:
    provider = ScriptedProvider("Yes.")
    await call_provider(
        provider, "complete", ProviderInput(Messages.from_user(Text("Ready?")), options=ChatOptions(seed=7))
    )

    assert provider.asked[0].options.seed == 7
    assert provider.asked[0].messages[0].text == "Ready?"


def test_words_near_returns_the_words_in_the_smallest_part_around_a_text() -> None:
    sent = SentBody(b'{"turns": [{"id": "a", "text": "first"}, {"id": "b", "parts": ["second"]}], "b": "third"}')

    assert sent.words_near("first", ("a", "b")) == {"a"}
    assert sent.words_near("second", ("a", "b")) == {"b"}
    assert sent.words_near("third", ("a", "b")) == {"b"}
    assert sent.words_near("fourth", ("a", "b")) == set()


def test_words_near_skips_parts_that_contain_an_excluded_text() -> None:
    sent = SentBody(b'[{"role": "user", "text": "question"}, {"role": "narrator", "text": "response"}]')

    assert sent.words_near("response", ("user", "assistant")) == {"user"}
    assert sent.words_near("response", ("user", "assistant"), apart_from="question") == set()


def test_a_text_is_found_in_arguments_that_are_written_with_escapes() -> None:
    arguments = json.dumps({"city": "N\u00eemes", "words": 'a "quoted"\nline'})
    sent = SentBody(json.dumps({"arguments": arguments}).encode())

    assert "\\u00ee" in arguments
    assert sent.contains("N\u00eemes")
    assert sent.contains('a "quoted"\nline')
    assert sent.count("N\u00eemes") == 1
    assert not sent.contains("Lyon")
