from __future__ import annotations

from chat_claude import AdaptiveThinking, BudgetThinking, ClaudeOptions, Dialect, McpServer, NoThinking
from chat_claude.options import NativeTool
from chat_core.options import ProviderOptions


def test_thinking_options_are_encoded_in_the_format_of_the_api() -> None:
    assert BudgetThinking(2048).to_wire() == {"type": "enabled", "budget_tokens": 2048}
    assert BudgetThinking(2048, "omitted").to_wire()["display"] == "omitted"
    assert AdaptiveThinking().to_wire() == {"type": "adaptive"}
    assert AdaptiveThinking("summarized").to_wire() == {"type": "adaptive", "display": "summarized"}
    assert NoThinking().to_wire() == {"type": "disabled"}


def test_claude_options_belong_to_claude_and_are_hashable() -> None:
    options = ClaudeOptions(extra_body={"a": 1})
    assert isinstance(options, ProviderOptions)
    assert options.provider == "claude"
    assert hash(options) == hash(ClaudeOptions(extra_body={"a": 1}))


def test_the_token_of_an_mcp_server_does_not_appear_in_its_repr() -> None:
    assert "hunter2" not in repr(McpServer(name="n", url="https://h", authorization_token="hunter2"))


def test_a_dialect_takes_its_abilities_from_the_model_name() -> None:
    old, new = Dialect.of("claude-3-haiku-20240307"), Dialect.of("claude-opus-5", provider="p")
    assert (old.max_tokens, old.budget, old.adaptive, old.schemas) == (4096, False, False, False)
    assert (new.max_tokens, new.budget, new.adaptive, new.schemas, new.provider) == (16_000, False, True, True, "p")


def test_cache_keys_depend_on_the_settings_that_change_an_encoding() -> None:
    assert Dialect(model="a").turn_key == Dialect(model="b").turn_key
    assert Dialect(model="a").turn_key != Dialect(model="a", provider="p").turn_key
    assert Dialect(model="a").tools_key != Dialect(model="a", strict_tools=True).tools_key


def test_any_class_with_to_wire_and_beta_is_a_native_tool() -> None:
    class Own:
        beta = None

        def to_wire(self) -> dict[str, object]:
            return {"type": "own", "name": "own"}

    assert isinstance(Own(), NativeTool)
    assert not isinstance({"type": "own"}, NativeTool)
