"""Values in a notebook: HTML that shows a conversation, a response, a pause and usage, and runs nothing of theirs."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from chat_core import (
    ChatBuilder,
    FunctionCall,
    Messages,
    Paused,
    RequireApproval,
    ScopedCollection,
    ToolCollection,
    Usage,
)
from chat_core.messages import File, Part, Reasoning, Structured, Text, Turn
from chat_core.notebook import load_ipython_extension, to_html
from chat_core.testing import ScriptedProvider
from IPython.core.formatters import DisplayFormatter


class Shell:
    """A shell with the formatters of IPython. A whole one would write a history to the home directory."""

    display_formatter: Any = DisplayFormatter()


@pytest.fixture
def displayed() -> Callable[[object], str | None]:
    """Return a function that returns the HTML of a value in a notebook, or `None`."""
    load_ipython_extension(Shell())
    return lambda value: Shell.display_formatter.format(value)[0].get("text/html")


def test_the_extension_displays_conversations_responses_and_usage(displayed: Callable[[object], str | None]) -> None:
    messages = Messages.from_system("Be brief.").user("Name a river.")
    chat = ChatBuilder().with_model(ScriptedProvider("The Loire.")).build()
    response = chat.blocking.complete(messages)

    html = displayed(messages) or ""
    assert html.count("<section>") == 3
    assert "<b>user</b>" in html
    assert displayed(messages[2]) == '<section><b>model</b><p style="white-space: pre-wrap">The Loire.</p></section>'
    assert "The Loire." in (displayed(response) or "")
    assert displayed(response.usage) == "<p><small>10 in, 5 out</small></p>"
    assert displayed("The Loire.") is None


def test_the_html_of_a_pause_has_a_row_for_each_wait() -> None:
    tools = ToolCollection()

    @tools.tool
    def pay(to: str) -> str:
        """Pay a person."""
        return to

    def policy(call: FunctionCall, meta: None) -> RequireApproval:
        return RequireApproval(timedelta(days=1))

    model = ScriptedProvider([FunctionCall("pay", {"to": "Bo"}), FunctionCall("pay", {"to": "<b>\u202eAna"})])
    chat = ChatBuilder().with_model(model).with_scoped_tools(ScopedCollection(tools, policy)).build()
    messages = Messages.from_user("Pay both.")
    paused = chat.blocking.complete(messages)

    assert isinstance(paused, Paused)
    html = to_html(paused)
    assert html.count("<tr>") == 3
    assert "AwaitingApproval" in html
    assert html.count("+00:00") == 2  # the deadlines
    assert "&lt;b&gt;\\u202eAna" in html
    assert "\u202e" not in html
    assert "pending" in to_html(messages)


def test_each_part_is_displayed() -> None:
    picture = File("image/png", b"1", name="a<b.png")
    parts: list[Part] = [Text("a <script>"), Reasoning("why"), Structured({"a": 1}), picture]
    messages = Messages.from_user("Look.")
    messages.append("model", Turn(parts))
    html = to_html(messages)

    assert "a &lt;script&gt;" in html
    assert "<summary>reasoning</summary>" in html
    assert "{&quot;a&quot;:1}" in html
    assert "a&lt;b.png" in html


def test_an_empty_conversation_is_empty() -> None:
    assert to_html(Messages()) == ""
    assert to_html(Usage()) == "<p><small>0 in, 0 out</small></p>"
