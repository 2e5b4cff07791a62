from __future__ import annotations

import pytest
from chat_batches.models import CapturedRequestError, CapturingModel, count_inputs, count_responses, ends_with_answer
from chat_claude import ClaudeProvider
from chat_core import ChatOptions, Messages, Text, ToolDeclarations, Turn

pytestmark = pytest.mark.anyio


async def test_a_captured_request_is_encoded_and_not_sent(claude: ClaudeProvider) -> None:
    messages = Messages.from_user("Hello")
    with pytest.raises(CapturedRequestError) as caught:
        await CapturingModel(claude).complete(messages, ToolDeclarations(), ChatOptions(), None)
    encoded = claude.encode_batch_request(messages, ToolDeclarations(), ChatOptions(), None)
    assert caught.value.request == encoded
    assert (caught.value.inputs, caught.value.responses) == (1, 0)


def test_turns_of_the_engine_do_not_count_as_input() -> None:
    messages = Messages.from_user("Hello")
    messages.append("user", Turn([Text("Correct this.")], by="engine"))
    assert count_inputs(messages) == 1
    messages.append("user", Turn([Text("Are you there?")]))
    assert count_inputs(messages) == 2


def test_the_responses_to_the_last_message_are_counted() -> None:
    messages = Messages.from_user("Hello")
    assert (count_responses(messages), ends_with_answer(messages)) == (0, False)
    messages.append("model", Turn([Text("Hi")]))
    assert (count_responses(messages), ends_with_answer(messages)) == (1, True)
    messages.append("user", Turn([Text("Correct this.")], by="engine"))
    messages.append("model", Turn([Text("Hello")]))
    assert count_responses(messages) == 2
    messages.append("user", Turn([Text("Are you there?")]))
    assert count_responses(messages) == 0
