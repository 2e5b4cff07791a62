from __future__ import annotations

from chat_claude import AdaptiveThinking, BudgetThinking, ClaudeOptions, Dialect, McpServer, NoThinking
from chat_claude.options import NativeTool
from chat_core.options import ProviderOptions


def test_thinking_is_said_in_the_words_of_the_api() -> None:
    assert BudgetThinking(2048).to_wire() == {"type": "enabled", "budget_tokens": 2048}
    assert BudgetThinking(2048, "omitted").to_wire()["display"] == "omitted"
    assert AdaptiveThinking().to_wire() == {"type": "adaptive"}
    assert AdaptiveThinking("summarized").to_wire() == {"type": "adaptive", "display": "summarized"}
    assert NoThinking().to_wire() == {"type": "disabled"}


def test_the_options_are_for_claude_alone_and_can_be_hashed() -> None:
    options = ClaudeOptions(extra_body={"a": 1})
    assert isinstance(options, ProviderOptions)
    assert options.provider == "claude"
    assert hash(options) == hash(ClaudeOptions(extra_body={"a": 1}))


def test_a_token_is_in_no_repr() -> None:
    assert "hunter2" not in repr(McpServer(name="n", url="https://h", authorization_token="hunter2"))  # noqa: S106


def test_a_dialect_knows_its_model() -> None:
    old, new = Dialect.of("claude-3-haiku-20240307"), Dialect.of("claude-opus-5", provider="p")
    assert (old.max_tokens, old.budget, old.adaptive, old.schemas) == (4096, False, False, False)
    assert (new.max_tokens, new.budget, new.adaptive, new.schemas, new.provider) == (16_000, False, True, True, "p")


def test_what_an_encoding_depends_on_is_in_its_key() -> None:
    assert Dialect(model="a").turn_key == Dialect(model="b").turn_key
    assert Dialect(model="a").turn_key != Dialect(model="a", provider="p").turn_key
    assert Dialect(model="a").tools_key != Dialect(model="a", strict_tools=True).tools_key


def test_anything_that_declares_itself_is_a_native_tool() -> None:
    class Own:
        beta = None

        def to_wire(self) -> dict[str, object]:
            return {"type": "own", "name": "own"}

    assert isinstance(Own(), NativeTool)
    assert not isinstance({"type": "own"}, NativeTool)
