from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from chat_claude import (
    AdaptiveThinking,
    BudgetThinking,
    Cache,
    ClaudeOptions,
    CodeExecution,
    Dialect,
    McpServer,
    NoThinking,
    WebSearch,
)
from chat_claude.codec import encode
from chat_claude.request import BUDGETS
from chat_core.errors import UnsupportedOptionError, UsageError
from chat_core.messages import Completed as Done
from chat_core.messages import FunctionCall, Messages, Opaque, Text, Tool, Turn
from chat_core.options import ChatOptions, NamedTool
from chat_core.provider import NO_TOOLS, OutputSchema, ToolDeclaration, ToolDeclarations
from chat_core.usage import Metadata

NEW, BOTH, OLD, NONE = "claude-opus-5", "claude-opus-4-6", "claude-sonnet-4-0", "claude-3-haiku-20240307"
TOOLS = ToolDeclarations([ToolDeclaration("f", "does f", {"type": "object", "properties": {}})])
OUTPUT = OutputSchema("city", {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]})


def body(
    model: str = NEW,
    *,
    tools: ToolDeclarations = NO_TOOLS,
    output: OutputSchema | None = None,
    messages: Messages | None = None,
    dialect: Dialect | None = None,
    extras: ClaudeOptions | None = None,
    **options: Any,
) -> Any:
    said = ChatOptions(**options, extras=() if extras is None else (extras,))
    sent = encode(
        messages or Messages.from_user("Hi"),
        tools,
        said,
        output,
        dialect=dialect or Dialect.of(model),
        stream=False,
    )
    return {**json.loads(sent.body), "betas": sent.betas, "output_tool": sent.output_tool}


# --- Length and sampling ------------------------------------------------------------------------------------


def test_max_tokens_defaults_to_the_limit_of_the_model() -> None:
    assert body(NEW)["max_tokens"] == 16_000
    assert body(NONE)["max_tokens"] == 4_096
    assert body(NEW, max_tokens=50)["max_tokens"] == 50


def test_a_thinking_budget_is_added_to_the_default_max_tokens() -> None:
    sent = body(OLD, reasoning=10_000)
    assert sent["thinking"] == {"type": "enabled", "budget_tokens": 10_000}
    assert sent["max_tokens"] == 26_000


@pytest.mark.parametrize("model", ["claude-opus-4-1-20250805", "claude-opus-4@20250514"])
def test_a_thinking_budget_and_the_default_max_tokens_stay_within_the_output_limit(model: str) -> None:
    sent = {effort: body(model, reasoning=effort) for effort in ("medium", "high", "xhigh")}
    assert [request["max_tokens"] for request in sent.values()] == [24_192, 32_000, 32_000]
    assert [request["thinking"]["budget_tokens"] for request in sent.values()] == [8_192, 16_384, 24_000]
    assert body(model, reasoning=31_000)["max_tokens"] == 32_000
    with pytest.raises(UsageError, match=r"\(40000\) must be below max_tokens \(32000\).*: lower the budget"):
        body(model, reasoning=40_000)
    assert body(model, reasoning=40_000, max_tokens=64_000)["max_tokens"] == 64_000
    larger = replace(Dialect.of(model), max_tokens=64_000)
    assert body(dialect=larger, reasoning="high")["max_tokens"] == 64_000


def test_chat_options_are_sent_under_the_field_names_of_the_api() -> None:
    sent = body(OLD, temperature=0.5, top_p=0.9, top_k=40, stop=("a", "b"))
    assert (sent["temperature"], sent["top_p"], sent["top_k"], sent["stop_sequences"]) == (0.5, 0.9, 40, ["a", "b"])


def test_the_top_k_of_claude_options_overrides_the_option_of_all_providers() -> None:
    assert body(BOTH, top_k=40, extras=ClaudeOptions(top_k=5))["top_k"] == 5
    assert body(BOTH, top_k=40, extras=ClaudeOptions())["top_k"] == 40


def test_options_that_claude_does_not_support_are_rejected() -> None:
    with pytest.raises(UnsupportedOptionError, match="seed"):
        body(seed=1)
    with pytest.raises(UnsupportedOptionError, match="between 0 and 1"):
        body(temperature=1.5)


@pytest.mark.parametrize("model", ["claude-opus-4-7", "claude-sonnet-5", "claude-haiku-5-5", "claude-fable-5-1"])
def test_models_without_sampling_options_accept_only_their_defaults(model: str) -> None:
    refused: list[dict[str, Any]] = [{"temperature": 0.2}, {"top_p": 0.9}, {"top_k": 5}]
    refused.append({"temperature": 0, "reasoning": "high"})
    for options in refused:
        with pytest.raises(UnsupportedOptionError, match=f"is not supported by {model}: remove it"):
            body(model, **options)
    with pytest.raises(UnsupportedOptionError, match=f"top_k=5 is not supported by {model}"):
        body(model, extras=ClaudeOptions(top_k=5))
    assert body(model, temperature=1, stop=("a",))["temperature"] == 1
    assert body(model, top_p=0.99)["top_p"] == 0.99


def test_temperature_and_top_p_are_refused_together_since_claude_4_1() -> None:
    for model in ("claude-opus-4-1-20250805", "claude-haiku-4-5", BOTH):
        with pytest.raises(UnsupportedOptionError, match=f"{model} does not support temperature and top_p together"):
            body(model, temperature=1, top_p=0.95)
        assert body(model, temperature=0.2, top_k=5)["temperature"] == 0.2
    assert body("our-own-deployment", temperature=0.2, top_p=0.5)["top_p"] == 0.5


@pytest.mark.parametrize(("model", "reasoning"), [("claude-sonnet-4-5", "low"), (BOTH, 2000), (BOTH, "high")])
def test_thinking_excludes_most_sampling_options(model: str, reasoning: str | int) -> None:
    refused: list[dict[str, Any]] = [{"temperature": 0.2}, {"top_p": 0.5}, {"top_k": 5}]
    for options in refused:
        with pytest.raises(UnsupportedOptionError, match="cannot be combined with thinking: remove it"):
            body(model, reasoning=reasoning, **options)
        assert body(BOTH, reasoning="none", **options).items() >= options.items()
    assert body(model, reasoning=reasoning, top_p=0.95)["top_p"] == 0.95
    assert body(model, reasoning=reasoning, temperature=1.0)["temperature"] == 1.0


# --- Thinking -------------------------------------------------------------------------------------------------


def test_no_thinking_is_requested_by_default() -> None:
    assert "thinking" not in body(OLD)


@pytest.mark.parametrize("effort", ["low", "medium", "high", "xhigh"])
def test_an_effort_becomes_adaptive_thinking_or_a_budget_depending_on_the_model(effort: str) -> None:
    sent = body(NEW, reasoning=effort)
    assert sent["thinking"] == {"type": "adaptive"}
    assert sent["output_config"] == {"effort": effort}
    assert body(OLD, reasoning=effort)["thinking"]["budget_tokens"] == BUDGETS[effort]


def test_effort_minimal_becomes_low_and_none_disables_thinking() -> None:
    assert body(NEW, reasoning="minimal")["output_config"] == {"effort": "low"}
    assert body(BOTH, reasoning="none")["thinking"] == {"type": "disabled"}
    assert "thinking" not in body(NONE, reasoning="none")


@pytest.mark.parametrize(
    "options", [{"reasoning": "none"}, {"extras": ClaudeOptions(thinking=NoThinking())}], ids=["reasoning", "extras"]
)
def test_models_that_always_think_cannot_turn_thinking_off(options: dict[str, Any]) -> None:
    assert body("claude-sonnet-5-5", **options)["thinking"] == {"type": "between_tools"}
    for model in ("claude-fable-5", "claude-opus-5-5"):
        with pytest.raises(UnsupportedOptionError, match=f"{model} always thinks: use reasoning='low'"):
            body(model, **options)


def test_thinking_that_the_model_does_not_support_is_rejected() -> None:
    with pytest.raises(UnsupportedOptionError, match="not support thinking"):
        body(NONE, reasoning="high")
    with pytest.raises(UnsupportedOptionError, match="use an effort"):
        body(NEW, reasoning=4096)
    with pytest.raises(UnsupportedOptionError, match="not support a thinking budget"):
        body(NEW, extras=ClaudeOptions(thinking=BudgetThinking(4096)))
    with pytest.raises(UnsupportedOptionError, match="adaptive thinking"):
        body(OLD, extras=ClaudeOptions(thinking=AdaptiveThinking()))


def test_thinking_options_of_claude_override_the_reasoning_option() -> None:
    sent = body(BOTH, extras=ClaudeOptions(thinking=AdaptiveThinking("omitted"), effort="max"), reasoning="low")
    assert sent["thinking"] == {"type": "adaptive", "display": "omitted"}
    assert sent["output_config"] == {"effort": "max"}
    assert body(NEW, extras=ClaudeOptions(thinking=NoThinking()))["thinking"] == {"type": "disabled"}


def test_a_thinking_budget_must_be_at_least_1024_and_below_max_tokens() -> None:
    with pytest.raises(UsageError, match=r"\(2000\) must be below max_tokens \(2000\)"):
        body(OLD, reasoning=2000, max_tokens=2000)
    with pytest.raises(UsageError, match="at least 1024"):
        body(OLD, reasoning=1000)


@pytest.mark.parametrize("beta", ["interleaved-thinking-2025-05-14"])
def test_a_thinking_budget_may_exceed_max_tokens_with_interleaved_thinking(beta: str) -> None:
    said = body(OLD, extras=ClaudeOptions(betas=(beta,)), max_tokens=4_096, reasoning=8_192)
    assert said["thinking"] == {"type": "enabled", "budget_tokens": 8_192}
    assert said["betas"] == (beta,)
    always = replace(Dialect.of(OLD), betas=(beta,))
    assert body(dialect=always, max_tokens=4_096, reasoning=8_192)["max_tokens"] == 4_096
    with pytest.raises(UsageError, match="must be below max_tokens"):
        body(OLD, extras=ClaudeOptions(betas=("other",)), max_tokens=4_096, reasoning=8_192)


def test_a_thinking_budget_excludes_forced_calls() -> None:
    for choice in ("required", NamedTool("f")):
        with pytest.raises(UsageError, match="with a thinking budget"):
            body(OLD, reasoning=2000, tools=TOOLS, tool_choice=choice)
    for model in (NEW, BOTH, "claude-fable-5", "claude-haiku-5-5"):
        sent = body(model, reasoning="high", tools=TOOLS, tool_choice="required")
        assert (sent["thinking"], sent["tool_choice"]) == ({"type": "adaptive"}, {"type": "any"})


@pytest.mark.parametrize("model", ["claude-opus-5-5", "anthropic.claude-sonnet-5-5", "claude-fable-5-1"])
def test_models_that_reject_forced_calls_refuse_them(model: str) -> None:
    for choice in ("required", NamedTool("f")):
        with pytest.raises(UnsupportedOptionError, match=f"{model} does not support tool_choice="):
            body(model, tools=TOOLS, tool_choice=choice)
    assert body(model, tools=TOOLS, tool_choice="auto")["tool_choice"] == {"type": "auto"}
    by_tool = replace(Dialect.of(model), schemas=False)
    assert "tool_choice" not in body(dialect=by_tool, output=OUTPUT)
    assert body(dialect=by_tool, output=OUTPUT, tools=TOOLS, tool_choice="none")["tool_choice"] == {"type": "auto"}


# --- Tools ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("choice", "parallel", "wire"),
    [
        (None, None, None),
        (None, True, None),
        (None, False, {"type": "auto", "disable_parallel_tool_use": True}),
        ("auto", None, {"type": "auto"}),
        ("required", False, {"type": "any", "disable_parallel_tool_use": True}),
        ("none", False, {"type": "none"}),
        (NamedTool("f"), True, {"type": "tool", "name": "f"}),
    ],
)
def test_tool_choice_and_parallel_tool_calls_are_sent_as_one_object(choice: Any, parallel: Any, wire: Any) -> None:
    assert body(tools=TOOLS, tool_choice=choice, parallel_tool_calls=parallel).get("tool_choice") == wire


def test_a_tool_choice_without_tools_is_omitted_or_rejected() -> None:
    assert "tool_choice" not in body(tool_choice="auto", parallel_tool_calls=False)
    with pytest.raises(UnsupportedOptionError, match="requires tools"):
        body(tool_choice="required")
    native = ClaudeOptions(tools=(WebSearch(),))
    assert body(tool_choice="required", extras=native)["tool_choice"] == {"type": "any"}


def test_a_named_tool_choice_must_be_a_declared_tool_if_no_native_tool_exists() -> None:
    with pytest.raises(UsageError, match=r"NamedTool\(name='lookup'\) names an unknown tool; the tools are: f"):
        body(tools=TOOLS, tool_choice=NamedTool("lookup"))
    native = ClaudeOptions(tools=(WebSearch(),))
    assert body(tools=TOOLS, tool_choice=NamedTool("web_search"), extras=native)["tool_choice"]["name"] == "web_search"


# --- Structured answers ---------------------------------------------------------------------------------------


def test_an_output_schema_is_sent_as_output_config() -> None:
    sent = body(output=OUTPUT, reasoning="high", tools=TOOLS)
    assert sent["output_config"]["effort"] == "high"
    schema = sent["output_config"]["format"]
    assert schema == {"type": "json_schema", "schema": {**OUTPUT.schema, "additionalProperties": False}}
    assert sent["output_tool"] is None
    assert len(sent["tools"]) == 1


def test_a_model_without_schema_support_gets_an_output_tool() -> None:
    sent = body(OLD, output=OUTPUT)
    assert sent["output_tool"] == "city"
    assert sent["tools"][0]["name"] == "city"
    assert sent["tools"][0]["input_schema"] == OUTPUT.schema
    assert sent["tool_choice"] == {"type": "tool", "name": "city"}
    strict = body(dialect=replace(Dialect.of(OLD), strict_tools=True), output=OUTPUT)
    assert strict["tools"][0]["strict"] is True


def test_an_output_schema_beyond_the_limits_of_the_api_uses_an_output_tool() -> None:
    def optional(count: int) -> OutputSchema:
        return OutputSchema("o", {"type": "object", "properties": {f"p{i}": {"type": "string"} for i in range(count)}})

    assert body(NEW, output=optional(24))["output_config"]["format"]["type"] == "json_schema"
    beyond = body(NEW, output=optional(25))
    assert beyond["output_tool"] == "o"
    assert beyond["tools"][0]["input_schema"] == optional(25).schema

    # The schemas of the output and of the tools count together.
    tool = ToolDeclaration("f", "", optional(1).schema)
    shared = body(
        dialect=replace(Dialect.of(NEW), strict_tools=True), output=optional(24), tools=ToolDeclarations([tool])
    )
    assert "strict" not in shared["tools"][0]


def test_a_schema_without_a_strict_form_uses_an_output_tool() -> None:
    free = OutputSchema("any", {"type": "object", "additionalProperties": {"type": "string"}})
    sent = body(NEW, output=free)
    assert sent["output_tool"] == "any"
    assert "output_config" not in sent


def test_the_output_tool_keeps_the_other_tools_available() -> None:
    assert body(OLD, output=OUTPUT, tools=TOOLS)["tool_choice"] == {"type": "any"}
    one = body(OLD, output=OUTPUT, tools=TOOLS, parallel_tool_calls=False)
    assert one["tool_choice"] == {"type": "any", "disable_parallel_tool_use": True}
    named = body(OLD, output=OUTPUT, tools=TOOLS, tool_choice=NamedTool("f"))
    assert named["tool_choice"] == {"type": "tool", "name": "f"}
    none = body(OLD, output=OUTPUT, tools=TOOLS, tool_choice="none")
    assert none["tool_choice"] == {"type": "tool", "name": "city"}


def test_the_output_tool_is_not_forced_with_a_thinking_budget() -> None:
    assert "tool_choice" not in body(OLD, output=OUTPUT, reasoning=2000)
    assert body(OLD, output=OUTPUT, reasoning=2000, tools=TOOLS, tool_choice="none")["tool_choice"] == {"type": "auto"}


def test_structured_output_is_forced_with_adaptive_thinking_on_newer_models() -> None:
    for model, forced in ((BOTH, False), ("claude-opus-4-7", False), ("claude-opus-4-8", True)):
        by_tool = replace(Dialect.of(model), schemas=False)
        sent = body(dialect=by_tool, output=OUTPUT, reasoning="high")
        assert sent.get("tool_choice") == ({"type": "tool", "name": "city"} if forced else None)
        assert body(dialect=by_tool, output=OUTPUT)["tool_choice"] == {"type": "tool", "name": "city"}


def test_the_output_tool_gets_a_name_that_no_tool_has() -> None:
    taken = ToolDeclarations([ToolDeclaration(name, "", {"type": "object"}) for name in ("city", "city_")])
    assert body(OLD, output=OUTPUT, tools=taken)["output_tool"] == "city__"


# --- Other fields of the request ------------------------------------------------------------------------------


def test_claude_options_are_sent_with_their_beta_features() -> None:
    extras = ClaudeOptions(
        task_budget=9000,
        top_k=5,
        user_id="u",
        service_tier="auto",
        container={"id": "c"},
        context_management={"edits": [{"type": "compact_20260112"}]},
        inference_geo="eu",
        speed="fast",
        cache=Cache(automatic="1h"),
        betas=("b",),
        extra_body={"diagnostics": {}},
    )
    sent = body(BOTH, extras=extras)
    assert sent["output_config"] == {"task_budget": {"type": "tokens", "total": 9000}}
    assert sent["metadata"] == {"user_id": "u"}
    assert sent["container"] == {"id": "c"}
    assert sent["cache_control"] == {"type": "ephemeral", "ttl": "1h"}
    assert (sent["top_k"], sent["service_tier"], sent["inference_geo"], sent["speed"]) == (5, "auto", "eu", "fast")
    assert sent["diagnostics"] == {}
    assert sent["betas"] == ("context-management-2025-06-27", "compact-2026-01-12", "task-budgets-2026-03-13", "b")


def test_context_management_requires_only_its_own_beta_feature() -> None:
    sent = body(extras=ClaudeOptions(context_management={"edits": [{"type": "clear_tool_uses_20250919"}]}))
    assert sent["betas"] == ("context-management-2025-06-27",)


def test_extra_body_cannot_replace_a_field_of_the_request() -> None:
    for name in ("model", "max_tokens", "thinking"):
        with pytest.raises(UnsupportedOptionError, match=name):
            body(OLD, reasoning=2000, extras=ClaudeOptions(extra_body={name: 1}))


def test_mcp_servers_are_declared_with_their_toolsets() -> None:
    server = McpServer(name="s", url="https://h", authorization_token="t", allowed_tools=("a",))
    sent = body(extras=ClaudeOptions(mcp_servers=(server, McpServer(name="all", url="https://i", defer_loading=True))))
    assert sent["mcp_servers"][0] == {"type": "url", "name": "s", "url": "https://h", "authorization_token": "t"}
    assert sent["tools"] == [
        {
            "type": "mcp_toolset",
            "mcp_server_name": "s",
            "default_config": {"enabled": False},
            "configs": {"a": {"enabled": True}},
        },
        {"type": "mcp_toolset", "mcp_server_name": "all", "default_config": {"defer_loading": True}},
    ]
    assert sent["betas"] == ("mcp-client-2025-11-20",)


def test_mcp_servers_may_be_declared_in_the_legacy_format() -> None:
    server = McpServer(name="s", url="https://h", allowed_tools=("a",), legacy=True)
    sent = body(dialect=replace(Dialect.of(NEW), mcp_servers=(server,), tools=(CodeExecution(),)))
    assert sent["mcp_servers"][0]["tool_configuration"] == {"enabled": True, "allowed_tools": ["a"]}
    assert [tool["name"] for tool in sent["tools"]] == ["code_execution"]
    assert sent["betas"] == ("code-execution-2025-08-25", "mcp-client-2025-04-04")
    assert "configs" not in json.dumps(body(extras=ClaudeOptions(mcp_servers=(replace(server, allowed_tools=None),))))


def went_on(finish: Any = "tool_calls", provider: str = "claude", extra: Any = None, caller: Any = None) -> Messages:
    call = FunctionCall("f", opaque=Opaque("claude", caller) if caller else None)
    messages = Messages.from_user("Hi")
    parts = [Tool(call, status=Done("ok"))] if finish == "tool_calls" else [Text("x")]
    metadata = Metadata(provider, extra={"container": {"id": "c1"}} if extra is None else extra)
    messages.append("model", Turn(parts, finish_reason=finish, metadata=metadata))
    return messages


def test_a_call_from_a_container_is_answered_to_the_same_container() -> None:
    caller = {"caller": {"type": "code_execution_20260120", "tool_id": "s"}}
    assert body(messages=went_on(caller=caller))["container"] == "c1"
    assert body(messages=went_on("pause"))["container"] == "c1"
    for other in (
        went_on(),
        went_on("stop"),
        went_on("pause", provider="gemini"),
        went_on("pause", extra={"a": 1}),
        Messages.from_user("Hi"),
    ):
        assert "container" not in body(messages=other)
    assert body(messages=went_on("pause"), extras=ClaudeOptions(container="own"))["container"] == "own"
