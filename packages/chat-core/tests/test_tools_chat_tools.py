"""The tools of a chat as read by applications and routers."""

from __future__ import annotations

from chat_core import ChatBuilder, Execute, Reject, RequireApproval, ScopedCollection, ToolCollection
from chat_core.testing import ScriptedProvider
from chat_core.tools import ChatTools

bank = ToolCollection()


@bank.tool
def balance() -> int:
    return 7


@bank.tool
def transfer(cents: int) -> str:
    return f"sent {cents}"


SCOPE = ScopedCollection(bank, lambda call, meta: RequireApproval() if call.name == "transfer" else Execute())
BANKER = ChatBuilder().with_model(ScriptedProvider()).with_scoped_tools(SCOPE).build()
CHAT = (
    ChatBuilder()
    .with_model(ScriptedProvider())
    .with_scoped_tools(BANKER.as_tool(name="ask_bank", description="Asks the bank."))
    .with_interrupted(Reject("look it up"))
    .build()
)


def test_chat_tools_show_names_scopes_and_the_rule_for_interrupted_calls() -> None:
    assert isinstance(BANKER.tools, ChatTools)
    assert BANKER.tools.names() == ("balance", "transfer")
    assert BANKER.tools.scopes == (SCOPE,)
    assert BANKER.tools.interrupted is None
    assert CHAT.tools.interrupted == Reject("look it up")
    assert repr(BANKER.tools) == "ChatTools(balance, transfer)"


def test_definition_is_found_by_the_path_of_tool_names() -> None:
    found = CHAT.tools.definition("ask_bank", "transfer")
    assert found is BANKER.tools.definition("transfer")
    assert found is not None
    assert found.validate({"cents": 5}) == {"cents": 5}


def test_definition_is_none_for_an_unknown_path() -> None:
    assert CHAT.tools.definition("transfer") is None
    assert CHAT.tools.definition("ask_bank", "withdraw") is None
    assert CHAT.tools.definition("no_such", "transfer") is None
    assert BANKER.tools.definition("transfer", "cents") is None
