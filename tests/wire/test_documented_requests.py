"""Requests that the API references allow, but no recording contains, are rebuilt and encoded without differences."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Final, cast

import pytest
from chat_core.errors import PendingToolsError

from .encoding import sent
from .normalise import Json, Object, differences
from .rebuild import rebuild

PNG: Final = "data:image/png;base64,iVBORw0KGgo="
TOOLS: Final[list[Json]] = [
    {
        "type": "function",
        "function": {"name": "f", "parameters": {"type": "object", "properties": {"a": {"type": "string"}}}},
    }
]
ASK: Final[Object] = {"role": "user", "content": "Go on."}


def _call(identity: str = "c1", **more: Json) -> Object:
    return {"id": identity, "type": "function", "function": {"name": "f", "arguments": '{"a": "x"}'}, **more}


def _result(identity: str = "c1", content: Json = "done") -> Object:
    return {"role": "tool", "tool_call_id": identity, "content": content}


def _assistant(*calls: Json, **more: Json) -> Object:
    return {"role": "assistant", **more, "tool_calls": list(calls)}


def _user(*parts: Json) -> list[Json]:
    return [{"role": "user", "content": list(parts)}]


MESSAGES: Final[dict[str, list[Json]]] = {
    "instructions of two messages": [{"role": "system", "content": "A"}, {"role": "system", "content": "B"}, ASK],
    "instructions in the middle": [ASK, {"role": "assistant", "content": "x"}, {"role": "system", "content": "B"}, ASK],
    "instructions of a developer": [{"role": "developer", "content": "A"}, ASK],
    "an instruction in parts": [
        {
            "role": "system",
            "content": [
                {"type": "text", "text": "A"},
                {"type": "text", "text": "B", "cache_control": {"type": "ephemeral"}},
            ],
        },
        ASK,
    ],
    "two users one after another": [ASK, ASK],
    "two answers one after another": [
        ASK,
        {"role": "assistant", "content": "a"},
        {"role": "assistant", "content": "b"},
        ASK,
    ],
    "a name": [{"role": "user", "name": "Ana", "content": "x"}],
    "an answer to be continued": [ASK, {"role": "assistant", "content": "Once", "prefix": True}],
    "an answer in parts": [
        ASK,
        {"role": "assistant", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        ASK,
    ],
    "a refusal": [ASK, {"role": "assistant", "content": None, "refusal": "No."}, ASK],
    "a refusal as a part": [ASK, {"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]}, ASK],
    "an earlier spoken answer": [ASK, {"role": "assistant", "audio": {"id": "audio_1"}}, ASK],
    "an empty answer": [ASK, {"role": "assistant", "content": ""}, ASK],
    "blanks": [{"role": "user", "content": " "}, {"role": "assistant", "content": "\n"}, ASK],
    "no BMP": [{"role": "user", "content": "🐈 \u2028 \x00 \ud800"}],
    "an image, closely": _user({"type": "image_url", "image_url": {"url": PNG, "detail": "high"}}),
    "an image elsewhere": _user({"type": "image_url", "image_url": {"url": "https://example.org/x?y=1#z"}}),
    "an image by a data URL without base64": _user(
        {"type": "image_url", "image_url": {"url": "data:image/svg+xml,<svg/>"}}
    ),
    "an image as a text": _user({"type": "image_url", "image_url": PNG}),
    "sound": _user({"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}}),
    "sound of another format": _user({"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "flac"}}),
    "an uploaded file": _user({"type": "file", "file": {"file_id": "file-1"}}),
    "a file": _user(
        {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERi0="}}
    ),
    "a document": _user({"type": "document_url", "document_url": "https://example.org/a.pdf"}),
    "a film": _user({"type": "video_url", "video_url": {"url": "data:video/mp4;base64,AAAA"}}),
    "a cache point": _user(
        {"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}, {"type": "text", "text": "y"}
    ),
    "a call": [ASK, _assistant(_call()), _result(), ASK],
    "a call beside text": [ASK, _assistant(_call(), content="Let me see."), _result(), ASK],
    "parallel calls": [ASK, _assistant(_call(), _call("c2")), _result(), _result("c2", "2"), ASK],
    "calls one after another": [ASK, _assistant(_call()), _result(), _assistant(_call("c2")), _result("c2"), ASK],
    "ids that come again": [ASK, _assistant(_call()), _result(), _assistant(_call()), _result("c1", "again"), ASK],
    "arguments that are empty": [
        ASK,
        _assistant({"id": "c1", "type": "function", "function": {"name": "f", "arguments": ""}}),
        _result(),
        ASK,
    ],
    "a result in one part": [ASK, _assistant(_call()), _result(content=[{"type": "text", "text": "x"}]), ASK],
    "a result that is JSON": [ASK, _assistant(_call()), _result(content='{"b": [1, 2.50]}'), ASK],
    "an empty result": [ASK, _assistant(_call()), _result(content=""), ASK],
    "a signature at a call": [
        ASK,
        _assistant(_call(extra_content={"google": {"thought_signature": "s"}})),
        _result(),
        ASK,
    ],
    "a call of a custom tool": [
        ASK,
        _assistant({"id": "c1", "type": "custom", "custom": {"name": "m", "input": "1 + 1"}}),
        _result(),
        ASK,
    ],
    "reasoning": [ASK, {"role": "assistant", "content": "x", "reasoning_content": "Hm."}, ASK],
    "reasoning by another name, before a call": [ASK, _assistant(_call(), reasoning="Hm."), _result(), ASK],
    "reasoning in detail": [
        ASK,
        {
            "role": "assistant",
            "content": "x",
            "reasoning_details": [{"type": "reasoning.encrypted", "data": "e", "index": 0}],
        },
        ASK,
    ],
    "reasoning among the parts": [
        ASK,
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]},
                {"type": "text", "text": "x"},
            ],
        },
        ASK,
    ],
    "images of the model": [
        ASK,
        {"role": "assistant", "content": "x", "images": [{"type": "image_url", "image_url": {"url": PNG}}]},
        ASK,
    ],
}

OPTIONS: Final[dict[str, Object]] = {
    "sampling": {"temperature": 0, "top_p": 0.5, "seed": 7, "frequency_penalty": -0.5, "presence_penalty": 1},
    "more of sampling": {"top_k": 3, "min_p": 0.1, "repetition_penalty": 1.1, "logit_bias": {"50256": -100}},
    "a stop": {"stop": "x"},
    "stops": {"stop": ["x", "y"]},
    "the old limit": {"max_tokens": 5},
    "the new limit": {"max_completion_tokens": 5},
    "several answers": {"n": 2},
    "log probabilities": {"logprobs": True, "top_logprobs": 3},
    "who asks": {"user": "u", "safety_identifier": "s", "prompt_cache_key": "k", "service_tier": "flex"},
    "keeping": {"store": True, "metadata": {"a": "b"}},
    "speech": {"modalities": ["text", "audio"], "audio": {"voice": "alloy", "format": "wav"}},
    "a prediction": {"prediction": {"type": "content", "content": "x"}},
    "an effort": {"reasoning_effort": "minimal"},
    "an effort that nobody knows": {"reasoning_effort": "max"},
    "an effort in an object": {"reasoning": {"effort": "high"}},
    "a budget": {"reasoning": {"max_tokens": 2000}},
    "reasoning, without more": {"reasoning": {"enabled": True, "exclude": False}},
    "verbosity": {"verbosity": "low"},
    "a search": {"web_search_options": {"search_context_size": "low"}},
    "JSON": {"response_format": {"type": "json_object"}},
    "a schema": {
        "response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "object"}}}
    },
    "a grammar": {"response_format": {"type": "grammar", "grammar": {"syntax": "lark", "definition": "x"}}},
    "a stream": {"stream": True},
    "a stream with its usage": {"stream": True, "stream_options": {"include_usage": True}},
    "a stream with more": {"stream": True, "stream_options": {"include_usage": True, "include_obfuscation": False}},
    "of Mistral": {"random_seed": 1, "safe_prompt": True, "prompt_mode": "reasoning"},
    "of OpenRouter": {"models": ["a", "b"], "provider": {"order": ["x"]}, "transforms": [], "usage": {"include": True}},
    "of Groq": {"reasoning_format": "parsed", "include_reasoning": True},
    "of DeepSeek and Z.ai": {"thinking": {"type": "disabled"}},
    "of vLLM": {"chat_template_kwargs": {"enable_thinking": False}, "guided_json": {"type": "object"}},
    "of xAI": {"search_parameters": {"mode": "auto"}, "deferred": False},
    "tools": {"tools": TOOLS, "tool_choice": "required", "parallel_tool_calls": False},
    "no tools now": {"tools": TOOLS, "tool_choice": "none"},
    "this tool": {"tools": TOOLS, "tool_choice": {"type": "function", "function": {"name": "f"}}},
    "some tools": {
        "tools": TOOLS,
        "tool_choice": {
            "type": "allowed_tools",
            "allowed_tools": {"mode": "auto", "tools": [{"type": "function", "function": {"name": "f"}}]},
        },
    },
    "tools of the server": {
        "tools": [*TOOLS, {"type": "openrouter:web_search"}, {"type": "custom", "custom": {"name": "m"}}]
    },
    "tools of the server alone": {"tools": [{"type": "browser_search"}], "tool_choice": "required"},
}


def _unlike(body: Object, provider: str = "vendor") -> list[str]:
    given = json.dumps(body)
    ours = cast("Object", json.loads(sent(rebuild(body, provider))))
    assert json.dumps(body) == given, "what was given is not changed"
    return [str(difference) for difference in differences(body, ours)]


@pytest.mark.parametrize("messages", MESSAGES.values(), ids=MESSAGES)
def test_a_documented_conversation_is_sent_unchanged(messages: list[Json]) -> None:
    assert _unlike({"model": "m", "messages": messages}) == []


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_documented_options_are_sent_unchanged(options: Object) -> None:
    assert _unlike({"model": "m", "messages": [ASK], **options}) == []


def test_vendor_specific_fields_are_not_sent_to_another_vendor() -> None:
    messages: list[Json] = [
        {
            "role": "user",
            "name": "Ana",
            "content": [{"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}],
        },
        _assistant(_call(extra_content={"google": {"thought_signature": "s"}}), reasoning_content="Hm.", content="y"),
        _result(),
        ASK,
    ]
    said = rebuild({"model": "m", "messages": messages}, "one")
    other = rebuild({"model": "m", "messages": [ASK]}, "another")
    body = cast("Object", json.loads(sent(replace(said, dialect=other.dialect))))
    plain: list[Json] = [{"role": "user", "content": "x"}, _assistant(_call(), content="y"), _result(), ASK]
    assert differences(body, {"model": "m", "messages": plain}) == []


def test_a_request_with_an_unresolved_call_is_refused() -> None:
    with pytest.raises(PendingToolsError):
        _unlike({"model": "m", "messages": [ASK, _assistant(_call()), ASK]})
