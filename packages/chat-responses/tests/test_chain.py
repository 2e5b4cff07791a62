from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from chat_core.errors import UnsupportedOptionError
from chat_core.messages import Completed, FunctionCall, Messages, Text, Tool, Turn
from chat_core.options import ChatOptions
from chat_core.provider import NO_TOOLS
from chat_core.usage import Metadata
from chat_responses import ResponsesDialect, ResponsesOptions
from chat_responses.chain import SEAL, sealed
from chat_responses.encode import Composed, compose, encode_count

CHAINING = ResponsesDialect(model="m", provider="p", previous_response=True)


def composed(messages: Messages, dialect: ResponsesDialect = CHAINING, options: ChatOptions | None = None) -> Composed:
    return compose(messages, NO_TOOLS, options or ChatOptions(), None, dialect=dialect, stream=False)


def answer(text: str = "Hello", *, name: str = "resp_1", **extra: object) -> Turn:
    return Turn([Text(text)], metadata=Metadata("p", "m-1", name, "completed", extra=extra))


def asked(turn: Turn, dialect: ResponsesDialect = CHAINING) -> Messages:
    """Return a conversation with a question, its answer and another question."""
    messages = Messages.from_system("Be brief.")
    messages.user("Hi")
    sent = composed(messages, dialect)
    messages.append("model", sealed(turn, sent.history, sent.dialect))
    messages.user("Really?")
    return messages


def previous(messages: Messages, dialect: ResponsesDialect = CHAINING) -> str | None:
    return composed(messages, dialect).previous


def rebuilt(messages: Messages, *, first: str | None = None, text: str | None = None) -> Messages:
    """Return the same conversation with another question or another answer."""
    copy = Messages()
    for content in messages:
        for turn in content.turns:
            said = first if content.role == "user" and turn.text == "Hi" else text if content.role == "model" else None
            parts = turn.parts if said is None else [Text(said)]
            copy.append(content.role, Turn(parts, finish_reason=turn.finish_reason, metadata=turn.metadata))
    return copy


def test_a_request_continues_the_previous_response_of_an_unchanged_history() -> None:
    body = json.loads(composed(asked(answer())).body)
    assert body["previous_response_id"] == "resp_1"
    assert body["instructions"] == "Be brief."
    assert body["input"] == [{"role": "user", "content": "Really?"}]


def test_a_history_loaded_from_json_continues_the_previous_response() -> None:
    assert previous(Messages.from_json(asked(answer()).to_json())) == "resp_1"


def test_changed_instructions_do_not_prevent_a_previous_response() -> None:
    messages = asked(answer())
    copy = Messages.from_system("Be long.")
    for content in list(messages)[1:]:
        for turn in content.turns:
            copy.append(content.role, turn)
    body = json.loads(composed(copy).body)
    assert (body["previous_response_id"], body["instructions"]) == ("resp_1", "Be long.")


def test_an_edited_user_message_prevents_a_previous_response() -> None:
    assert previous(rebuilt(asked(answer()))) == "resp_1"
    assert previous(rebuilt(asked(answer()), first="Hi!")) is None


def test_an_edited_model_turn_prevents_a_previous_response() -> None:
    assert previous(rebuilt(asked(answer()), text="Hello!")) is None


def test_a_model_turn_in_another_conversation_is_not_used_as_previous_response() -> None:
    (turn,) = asked(answer())[2].turns
    messages = Messages.from_user("Hallo")
    messages.append("model", turn)
    messages.user("Really?")
    assert previous(messages) is None


def test_a_response_of_another_provider_is_not_used_as_previous_response() -> None:
    assert previous(asked(answer()), replace(CHAINING, provider="q")) is None


def test_a_removed_earlier_turn_prevents_a_previous_response() -> None:
    messages = asked(answer())
    first = sealed(answer("Yes", name="resp_2"), composed(messages).history, CHAINING)
    shorter = Messages.from_user("Really?")
    shorter.append("model", first)
    shorter.user("Sure?")
    assert previous(shorter) is None


def test_the_latest_matching_response_is_used_as_previous_response() -> None:
    messages = asked(answer())
    messages.append("model", sealed(answer("Yes", name="resp_2"), composed(messages).history, CHAINING))
    messages.append("model", Turn([Text("by hand")]))
    body = json.loads(composed(messages).body)
    assert body["previous_response_id"] == "resp_2"
    assert body["input"] == [{"role": "assistant", "content": "by hand"}]


@pytest.mark.parametrize(
    "turn",
    [
        Turn([Text("Hello")]),
        Turn([Text("Hello")], metadata=Metadata("p", "m-1", None, "completed")),
        Turn([Text("Hello")], metadata=Metadata("p", "m-1", "resp_1", "incomplete")),
        answer(store=False),
    ],
    ids=["no metadata", "no id", "incomplete", "not stored"],
)
def test_turns_that_the_server_does_not_store_are_not_sealed(turn: Turn) -> None:
    messages = asked(turn)
    assert previous(messages) is None
    metadata = messages[2].turns[0].metadata
    assert metadata is None or SEAL not in metadata.extra


@pytest.mark.parametrize("dialect", [replace(CHAINING, previous_response=False), replace(CHAINING, store=False)])
def test_no_seal_is_written_or_used_without_storage_or_previous_response(dialect: ResponsesDialect) -> None:
    assert previous(asked(answer()), dialect) is None
    assert previous(asked(answer(), dialect)) is None


def test_a_request_with_store_false_contains_the_whole_history() -> None:
    options = ChatOptions(extras=(ResponsesOptions(provider="p", store=False),))
    sent = composed(asked(answer()), options=options)
    assert sent.previous is None
    assert json.loads(sent.body)["store"] is False


def test_a_server_side_conversation_needs_no_previous_response() -> None:
    options = ChatOptions(extras=(ResponsesOptions(provider="p", conversation="conv_1"),))
    assert composed(asked(answer()), options=options).previous is None


# --- Conversations on the server -----------------------------------------------------------------------------

IN_CONVERSATION = ChatOptions(extras=(ResponsesOptions(provider="p", conversation="conv_1"),))
PLAIN = ResponsesDialect(model="m", provider="p")


def received(*, text: str = "Hello", name: str = "resp_1", conversation: str = "conv_1") -> Turn:
    return answer(text, name=name, conversation={"id": conversation})


def new_items(messages: Messages, dialect: ResponsesDialect = PLAIN) -> list[Any]:
    body: dict[str, Any] = json.loads(composed(messages, dialect, IN_CONVERSATION).body)
    assert body["conversation"] == "conv_1"
    assert "previous_response_id" not in body
    items: list[Any] = body["input"]
    return items


@pytest.mark.parametrize("dialect", [PLAIN, CHAINING], ids=["plain", "with previous responses"])
def test_only_items_after_the_last_response_of_a_conversation_are_sent(dialect: ResponsesDialect) -> None:
    messages = Messages.from_user("Hi")
    assert new_items(messages, dialect) == [{"role": "user", "content": "Hi"}]
    calling = received()
    calling.parts = (Tool(FunctionCall("f"), call_id="a", status=Completed("ok")),)
    messages.append("model", calling)
    output = {"type": "function_call_output", "call_id": "a", "output": "ok"}
    assert new_items(messages, dialect) == [output]
    messages.append("model", received(name="resp_2"))
    messages.user("Really?")
    assert new_items(Messages.from_json(messages.to_json()), dialect) == [{"role": "user", "content": "Really?"}]


def test_turns_that_are_not_in_the_conversation_are_sent() -> None:
    messages = Messages.from_user("Hi")
    messages.append("model", received(conversation="conv_2"))
    partial = received(name="resp_2")
    partial.metadata = Metadata("p", "m-1", "resp_2", None, extra={"conversation": {"id": "conv_1"}})
    messages.append("model", partial)
    messages.append("model", Turn([Text("Hey")], metadata=replace(partial.metadata, provider="q")))
    assert [item["role"] for item in new_items(messages)] == ["user", "assistant", "assistant", "assistant"]
    messages.append("model", received(name="resp_3"))
    messages.append("model", received(name="resp_4", conversation="conv_2", text="Salut"))
    messages.user("Really?")
    assert [item["content"] for item in new_items(messages)] == ["Salut", "Really?"]


def test_system_text_is_sent_with_each_request_to_a_conversation() -> None:
    messages = Messages.from_system("Be brief.").user("Hi")
    messages.append("model", received())
    messages.user("Really?")
    body = json.loads(composed(messages, replace(PLAIN, instructions=False), IN_CONVERSATION).body)
    assert (body["instructions"], body["input"]) == ("Be brief.", [{"role": "user", "content": "Really?"}])


def in_conversation() -> Messages:
    """Return a conversation with two responses, which are also in a conversation on the server."""
    messages = Messages.from_user("Hi")
    messages.append("model", received())
    messages.user("Really?")
    messages.append("model", received(name="resp_2"))
    messages.user("Sure?")
    return messages


def test_the_server_gets_the_output_of_a_call_with_the_id_that_it_sent() -> None:
    messages = Messages.from_user("Hi")
    for name in ("resp_1", "resp_2"):
        tool = Tool(FunctionCall("f"), call_id="call_1")
        messages.append("model", Turn([tool], metadata=received(name=name).metadata))
        tool.start()
        tool.complete("ok")
    assert messages.turns[-1][1].tools[0].id != "call_1"
    items = json.loads(composed(messages, PLAIN, IN_CONVERSATION).body)["input"]
    assert items == [{"type": "function_call_output", "call_id": "call_1", "output": "ok"}]


def test_a_history_without_the_last_response_of_the_conversation_is_refused() -> None:
    rewound = in_conversation().rewind(3).user("Why?")
    summarized = in_conversation().summarize("They greeted.", 4)
    for messages in (rewound, summarized, Messages.from_json(rewound.to_json())):
        with pytest.raises(UnsupportedOptionError, match=r"'conv_1' on the server contains a response"):
            composed(messages, PLAIN, IN_CONVERSATION)
        other = ChatOptions(extras=(ResponsesOptions(provider="p", conversation="conv_3"),))
        assert json.loads(composed(messages, PLAIN, other).body)["input"], "another conversation has no items yet"


def test_a_summary_of_earlier_turns_keeps_the_conversation() -> None:
    messages = in_conversation().summarize("They greeted.", 2)
    assert new_items(messages) == [{"role": "user", "content": "Sure?"}]


def test_a_token_count_contains_only_new_items_of_a_conversation() -> None:
    body = json.loads(encode_count(in_conversation(), NO_TOOLS, IN_CONVERSATION, None, dialect=PLAIN))
    assert (body["conversation"], body["input"]) == ("conv_1", [{"role": "user", "content": "Sure?"}])


# --- Previous responses with calls, sockets and summaries ------------------------------------------------------


def test_replaced_call_ids_prevent_a_previous_response() -> None:
    def calling() -> Turn:
        tool = Tool(FunctionCall("f"), call_id="a", status=Completed("ok"))
        return Turn([tool], metadata=Metadata("p", "m-1", "resp_1", "completed"))

    assert previous(asked(calling())) == "resp_1"
    messages = Messages.from_user("Hi")
    messages.append("model", Turn([Tool(FunctionCall("f"), call_id="a", status=Completed("ok"))]))
    turn = calling()
    sent = composed(messages)
    messages.append("model", sealed(turn, sent.history, sent.dialect))
    assert turn.tools[0].id != "a"
    assert previous(messages) is None


def test_tool_outputs_of_the_previous_response_are_sent_once() -> None:
    tool = Tool(FunctionCall("f"), call_id="a", status=Completed("ok"))
    messages = asked(Turn([tool], metadata=Metadata("p", "m-1", "resp_1", "completed")))
    assert json.loads(composed(messages).body)["input"] == [
        {"type": "function_call_output", "call_id": "a", "output": "ok"},
        {"role": "user", "content": "Really?"},
    ]
    messages.append("model", sealed(answer("Yes", name="resp_2"), composed(messages).history, CHAINING))
    messages.user("Sure?")
    assert json.loads(composed(messages).body)["input"] == [{"role": "user", "content": "Sure?"}]


def test_a_seal_that_is_not_a_string_is_ignored() -> None:
    messages = asked(answer())
    turn = messages[2].turns[0]
    assert turn.metadata is not None
    turn.metadata = replace(turn.metadata, extra={SEAL: 7})
    assert previous(messages) is None


def test_a_websocket_continues_responses_that_are_not_stored() -> None:
    over_socket = replace(CHAINING, store=False, socket=True)
    assert previous(asked(answer(store=False), over_socket), over_socket) == "resp_1"
    over_http = replace(over_socket, socket=False)
    assert previous(asked(answer(store=False), over_http), over_http) is None


def summarized() -> Messages:
    """Return two answered questions, of which a summary replaces the first, and a third question."""
    messages = asked(answer())
    messages.append("model", sealed(answer("Yes", name="resp_2"), composed(messages).history, CHAINING))
    messages.user("Sure?")
    assert previous(messages) == "resp_2"
    return messages.summarize("They greeted.", 3)


def test_a_response_before_a_summary_is_not_used_as_previous_response() -> None:
    sent = composed(summarized())
    assert sent.previous is None
    assert b"resp_" not in sent.body
    assert b"They greeted." in sent.body


def test_a_response_after_a_summary_is_used_as_previous_response() -> None:
    messages = summarized()
    sent = composed(messages)
    messages.append("model", sealed(answer("Sure.", name="resp_3"), sent.history, sent.dialect))
    messages.user("Thanks")
    assert previous(Messages.from_json(messages.to_json())) == "resp_3"
