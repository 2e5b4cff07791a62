"""Tools from the user's modules."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Literal

import click
import pytest
from chat_core import ChatBuilder, FunctionCall, Messages, Paused
from chat_core.testing import ScriptedProvider
from chat_terminal.tool_options import load_scopes

MODULE = """
from chat_core import Execute, FunctionCall, Reject, ScopedCollection, ToolCollection

bare = ToolCollection()
guarded = ToolCollection()

@bare.tool
def free() -> str:
    "Free."
    return "ran"

@guarded.tool
def ruled() -> str:
    "Ruled."
    return "ran"
"""
RULED = """
def policy(call: FunctionCall, meta: None) -> Reject:
    return Reject("never")

scope = ScopedCollection(guarded, policy)
"""


def outcome(place: str, tool: str, approve: Literal["ask", "all", "none"]) -> str:
    model = ScriptedProvider(FunctionCall(tool, {}, id="call_1"), "over")
    first, *others = load_scopes([place], approve)
    builder = ChatBuilder().with_model(model).with_scoped_tools(first)
    for scope in others:
        builder = builder.with_scoped_tools(scope)
    messages = Messages.from_user("go")
    ended = builder.build().blocking.complete(messages)
    return "paused" if isinstance(ended, Paused) else type(messages.tool("call_1").status).__name__


@pytest.mark.parametrize(("approve", "became"), [("ask", "paused"), ("none", "paused"), ("all", "Completed")])
def test_collection_without_a_policy_requires_approval_unless_approve_is_all(
    tmp_path: Path, approve: Literal["ask", "all", "none"], became: str
) -> None:
    (tmp_path / "tools.py").write_text(MODULE)

    assert outcome(f"{tmp_path / 'tools.py'}:bare", "free", approve) == became


def test_scope_of_the_module_keeps_its_policy(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(MODULE + RULED)

    assert outcome(str(tmp_path / "tools.py"), "ruled", "all") == "Rejected"


@pytest.mark.parametrize(("approve", "became"), [("ask", "paused"), ("all", "Completed")])
def test_collection_without_a_policy_requires_approval_next_to_a_scope(
    tmp_path: Path, approve: Literal["ask", "all", "none"], became: str
) -> None:
    (tmp_path / "tools.py").write_text(MODULE + RULED)

    assert outcome(str(tmp_path / "tools.py"), "free", approve) == became


def test_collection_with_two_names_is_loaded_once(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(MODULE + "alias = bare\n")

    assert outcome(str(tmp_path / "tools.py"), "free", "all") == "Completed"


def test_dotted_module_name_is_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tools_of_a_test.py").write_text(MODULE)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])

    assert len(load_scopes(["tools_of_a_test"], "ask")) == 2
    assert len(load_scopes(["tools_of_a_test:bare"], "ask")) == 1


@pytest.mark.parametrize(("place", "told"), [("json", "there are no tools in json"), ("json:nothing", "there is no")])
def test_module_without_tools_raises_usage_error(place: str, told: str) -> None:
    with pytest.raises(click.UsageError, match=told):
        load_scopes([place], "ask")
