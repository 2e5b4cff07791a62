from __future__ import annotations

import pytest
from chat_claude import Advisor, CodeExecution, KnownTool, ToolSearch, UserLocation, WebFetch, WebSearch
from chat_claude.options import NativeTool
from chat_core.errors import UsageError


@pytest.mark.parametrize(
    ("tool", "wire", "beta"),
    [
        (WebSearch(), {"type": "web_search_20250305", "name": "web_search"}, None),
        (
            WebSearch(max_uses=2, allowed_domains=("a.b",), user_location=UserLocation(city="Rome", country="IT")),
            {
                "type": "web_search_20250305",
                "name": "web_search",
                "max_uses": 2,
                "allowed_domains": ["a.b"],
                "user_location": {"type": "approximate", "city": "Rome", "country": "IT"},
            },
            None,
        ),
        (
            WebFetch(blocked_domains=("a.b",), citations=True, max_content_tokens=5000),
            {
                "type": "web_fetch_20250910",
                "name": "web_fetch",
                "blocked_domains": ["a.b"],
                "citations": {"enabled": True},
                "max_content_tokens": 5000,
            },
            "web-fetch-2025-09-10",
        ),
        (WebFetch(version="20260209"), {"type": "web_fetch_20260209", "name": "web_fetch"}, None),
        (
            CodeExecution(),
            {"type": "code_execution_20250825", "name": "code_execution"},
            "code-execution-2025-08-25",
        ),
        (CodeExecution(version="20260120"), {"type": "code_execution_20260120", "name": "code_execution"}, None),
        (ToolSearch(), {"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"}, None),
        (ToolSearch(by="regex"), {"type": "tool_search_tool_regex_20251119", "name": "tool_search_tool_regex"}, None),
        (
            Advisor(model="claude-opus-5", max_uses=1, max_tokens=500),
            {
                "type": "advisor_20260301",
                "name": "advisor",
                "model": "claude-opus-5",
                "max_uses": 1,
                "max_tokens": 500,
            },
            "advisor-tool-2026-03-01",
        ),
        (KnownTool("memory_20250818", "memory"), {"type": "memory_20250818", "name": "memory"}, None),
        (
            KnownTool("computer_20251124", "computer", {"display_width_px": 800}, "computer-use-2025-11-24"),
            {"type": "computer_20251124", "name": "computer", "display_width_px": 800},
            "computer-use-2025-11-24",
        ),
    ],
)
def test_a_native_tool_is_encoded_with_its_type_and_beta(
    tool: NativeTool, wire: dict[str, object], beta: str | None
) -> None:
    assert isinstance(tool, NativeTool)
    assert tool.to_wire() == wire
    assert tool.beta == beta


@pytest.mark.parametrize("kind", [WebSearch, WebFetch])
def test_allowed_and_blocked_domains_cannot_be_combined(kind: type[WebSearch | WebFetch]) -> None:
    with pytest.raises(UsageError, match="not both"):
        kind(allowed_domains=("a.b",), blocked_domains=("c.d",))
