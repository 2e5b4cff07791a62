from __future__ import annotations

import json

from chat_core.messages import Completed, Messages
from chat_core.options import ChatOptions
from chat_core.provider import NO_TOOLS
from chat_gemini import codec
from chat_gemini.options import Dialect

DIALECT = Dialect(model="m", provider="p")

PARTS: list[object] = [
    {"text": "Let me think.", "thought": True, "thoughtSignature": "AAA="},
    {"text": "I will compute."},
    {"executableCode": {"language": "PYTHON", "code": "print(2)", "id": "x1"}, "thoughtSignature": "BBB="},
    {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "2\n", "id": "x1"}},
    {"toolCall": {"id": "t1", "toolType": "GOOGLE_SEARCH_WEB", "args": {"q": "x"}}},
    {"inlineData": {"mimeType": "image/png", "data": "iVBORw=="}, "thoughtSignature": "CCC="},
    {"functionCall": {"name": "f", "args": {"a": 1.5}, "id": "c1"}, "thoughtSignature": "DDD_-A=="},
    {"functionCall": {"name": "f", "args": {}, "id": "c2"}},
    {"text": "", "thoughtSignature": "EEE="},
]
ANSWER: dict[str, object] = {"role": "model", "parts": PARTS}


def test_all_exported_names_exist_in_sorted_order() -> None:
    assert sorted(codec.__all__) == codec.__all__
    assert all(hasattr(codec, name) for name in codec.__all__)


def test_a_response_is_sent_back_unchanged_even_after_storage() -> None:
    body = {"candidates": [{"content": ANSWER, "finishReason": "STOP", "index": 0}]}
    turn = codec.decode(json.dumps(body).encode(), "p")
    for tool in turn.tools:
        tool.adopt(tool.with_status(Completed({"done": True})))
    messages = Messages.from_user("Hi")
    messages.append("model", turn)
    for history in (messages, Messages.from_json(messages.to_json())):
        sent = json.loads(codec.encode(history, NO_TOOLS, ChatOptions(), None, dialect=DIALECT))
        assert sent["contents"][1] == ANSWER
        assert [item["functionResponse"]["id"] for item in sent["contents"][2]["parts"]] == ["c1", "c2"]


def test_a_streamed_response_is_sent_back_with_every_signature() -> None:
    decoder = codec.StreamDecoder("p")
    from chat_core.transport import Event  # noqa: PLC0415 - used once

    for part in PARTS:
        chunk = {"candidates": [{"content": {"parts": [part]}}]}
        decoder.feed([Event("message", json.dumps(chunk).encode())])
    decoder.feed([Event("message", b'{"candidates":[{"finishReason":"STOP"}]}')])
    turn = decoder.close()
    for tool in turn.tools:
        tool.adopt(tool.with_status(Completed(None)))
    messages = Messages.from_user("Hi")
    messages.append("model", turn)
    sent = json.loads(codec.encode(messages, NO_TOOLS, ChatOptions(), None, dialect=DIALECT))
    assert sent["contents"][1] == ANSWER


def test_another_provider_receives_no_parts_specific_to_gemini() -> None:
    body = {"candidates": [{"content": ANSWER, "finishReason": "STOP"}]}
    turn = codec.decode(json.dumps(body).encode(), "p")
    for tool in turn.tools:
        tool.adopt(tool.with_status(Completed(None)))
    messages = Messages.from_user("Hi")
    messages.append("model", turn)
    other = Dialect(model="m", provider="q")
    sent = json.loads(codec.encode(messages, NO_TOOLS, ChatOptions(), None, dialect=other))
    assert "ignature" not in json.dumps(sent)
    assert "executableCode" not in json.dumps(sent)
    assert [next(iter(part)) for part in sent["contents"][1]["parts"]] == [
        "text",
        "inlineData",
        "functionCall",
        "functionCall",
    ]
