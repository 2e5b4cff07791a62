"""The command line: questions, sessions, exit codes."""

from __future__ import annotations

import getpass
import importlib
import io
import json
import sys
from typing import Any

import pytest
from chat_core import Messages, NamedTool
from chat_terminal import commands
from chat_terminal.sessions import Sessions

ANSWERED, FAILED, MISUSED, WAITS = 0, 1, 2, 3


def test_a_question_is_answered_on_the_standard_output_and_nothing_else_is_there(chat: Any, desk: Any) -> None:
    ended = chat("Name", "a", "river.", *desk.talker)

    assert (ended.code, ended.out, ended.err) == (ANSWERED, "The Loire.\n", "")


def test_options_may_stand_before_the_question(chat: Any, desk: Any) -> None:
    assert chat(*desk.talker, "Name a river.").out == "The Loire.\n"


def test_a_question_that_is_the_name_of_a_command_is_asked_with_ask(chat: Any, desk: Any) -> None:
    assert chat("ask", "sessions", *desk.talker).out == "The Loire.\n"
    assert "sessions" in chat("sessions").out


def test_what_is_piped_in_alone_is_the_question(chat: Any, desk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHAT_MODEL", desk.talker[1])

    assert chat(piped="Name a river.").out == "The Loire.\n"
    assert "Name a river." in chat("show").out


def test_nothing_to_ask_is_said_in_words(chat: Any, desk: Any) -> None:
    ended = chat("ask", *desk.talker)

    assert ended.code == MISUSED
    assert "there is nothing to ask" in ended.err


def test_the_last_session_goes_on_and_remembers_its_model(chat: Any, desk: Any) -> None:
    chat("Name a river.", *desk.talker)

    assert chat("-c", "Another?").out == "The Seine.\n"
    assert [line.strip() for line in chat("show").out.splitlines()] == [
        "user:",
        "Name a river.",
        "model:",
        "The Loire.",
        "user:",
        "Another?",
        "model:",
        "The Seine.",
    ]


def test_a_session_can_be_named_and_gone_on_with(chat: Any, desk: Any) -> None:
    chat("Name a river.", "--session", "rivers", *desk.talker)
    chat("Something else.", *desk.talker)

    assert chat("Another?", "--session", "rivers").out == "The Seine.\n"
    assert chat("sessions").out.splitlines()[0].startswith("rivers ")


def test_a_system_text_begins_a_session_and_no_later_turn(chat: Any, desk: Any) -> None:
    chat("Name a river.", "-s", "Be brief.", *desk.talker)
    chat("-c", "Another?", "-s", "Be long.")

    messages = Messages.from_json(chat("show", "--json").out)
    assert [content.text for content in messages if content.role == "system"] == ["Be brief."]


def test_json_is_one_object(chat: Any, desk: Any) -> None:
    ended = chat("Name a river.", "--json", *desk.talker)

    told = json.loads(ended.out)
    assert told["status"] == "answered"
    assert told["text"] == "The Loire."
    assert told["usage"] == {"input_tokens": 10, "output_tokens": 5}
    assert ended.err == ""


def test_a_call_that_nobody_is_there_to_decide_waits_in_the_store(chat: Any, desk: Any) -> None:
    ended = chat("Pay Bo.", *desk.payer)

    assert (ended.code, ended.out, desk.paid) == (WAITS, "", [])
    assert 'pay(to="Bo", cents=500) waits' in ended.err
    assert "chat resume " in ended.err
    assert "⏸ 1" in chat("sessions").out
    assert 'pay(to="Bo", cents=500): pending' in chat("show").out


def test_json_tells_what_waits(chat: Any, desk: Any) -> None:
    ended = chat("Pay Bo.", "--json", *desk.payer)

    told = json.loads(ended.out)
    assert (ended.code, told["status"]) == (WAITS, "paused")
    assert [(wait["kind"], wait["name"], wait["arguments"]) for wait in told["waiting"]] == [
        ("approval", "pay", {"to": "Bo", "cents": 500})
    ]


def test_with_approve_all_nobody_is_asked(chat: Any, desk: Any) -> None:
    ended = chat("Pay Bo.", "--approve", "all", *desk.payer)

    assert (ended.code, ended.out, desk.paid) == (ANSWERED, "It is done.\n", ["500 cents to Bo"])
    assert '▶ pay(to="Bo", cents=500)' in ended.err


def test_nothing_can_be_asked_while_something_waits(chat: Any, desk: Any) -> None:
    chat("Pay Bo.", "--session", "bills", *desk.payer)
    ended = chat("-c", "And Maria?")

    assert ended.code == FAILED
    assert "something waits in this session; decide about it first: chat resume bills" in ended.err
    assert "And Maria?" not in chat("show").out


def test_a_resumed_session_that_still_waits_says_so(chat: Any, desk: Any) -> None:
    chat("Pay Bo.", *desk.payer)

    assert chat("resume").code == WAITS
    assert desk.paid == []


def test_a_session_that_is_forgotten_is_gone(chat: Any, desk: Any) -> None:
    chat("Name a river.", "--session", "rivers", *desk.talker)

    assert chat("forget", "rivers").code == ANSWERED
    assert chat("sessions").out == ""
    assert chat("show", "rivers").code == MISUSED


def test_sessions_as_json_are_a_line_each(chat: Any, desk: Any) -> None:
    chat("Name a river.", "--session", "rivers", *desk.talker)

    (line,) = chat("sessions", "--json").out.splitlines()
    assert json.loads(line)["title"] == "Name a river."


@pytest.mark.parametrize("command", ["show", "resume", "-c"])
def test_without_a_session_there_is_none_to_go_on_with(chat: Any, command: str) -> None:
    ended = chat(command, *(["hello"] if command == "-c" else []))

    assert ended.code == MISUSED
    assert "there is no session yet" in ended.err


def test_the_version_and_the_help_are_told(chat: Any) -> None:
    assert chat("--version").out.startswith("chat, version ")
    assert "Ask a model" in chat("--help").out


def test_the_file_of_the_sessions_is_said_before_or_behind_a_command(chat: Any, desk: Any) -> None:
    other = str(desk.folder / "other.db")
    chat("--store", other, "Name a river.", *desk.talker)
    chat("Name a hill.", "--store", other, *desk.talker)

    for words in (("--store", other, "sessions"), (f"--store={other}", "sessions"), ("sessions", "--store", other)):
        assert len(chat(*words).out.splitlines()) == 2
    assert chat("sessions").out == ""


def test_a_session_that_came_to_nothing_can_be_forgotten(chat: Any, desk: Any) -> None:
    Sessions(desk.folder / "state" / "chats.db").record_use("ghost", "nothing", {})

    assert chat("show", "ghost").code == FAILED
    assert chat("forget", "ghost").code == ANSWERED
    assert chat("sessions").out == ""


@pytest.mark.parametrize("name", ["", " ", "a\nb", "\x1b[2J", "caf\udce9"])
def test_a_name_that_cannot_be_typed_again_names_no_session(chat: Any, desk: Any, name: str) -> None:
    ended = chat("Name a river.", "--session", name, *desk.talker)

    assert (ended.code, ended.out) == (MISUSED, "")
    assert "a text that can be seen" in ended.err
    assert chat("sessions").out == ""


def test_the_last_session_and_a_named_one_are_not_both(chat: Any, desk: Any) -> None:
    ended = chat("-c", "--session", "rivers", "Another?", *desk.talker)

    assert ended.code == MISUSED
    assert "say one of them" in ended.err


def test_a_session_goes_on_with_its_own_model_from_any_folder_whatever_the_environment_says(
    chat: Any, desk: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(desk.folder)
    chat("Name a river.", "--model", "python:mine.py:talker", "--tools", "mine.py:tools")
    (desk.folder / "elsewhere").mkdir()
    monkeypatch.chdir(desk.folder / "elsewhere")
    monkeypatch.setenv("CHAT_MODEL", "nobody:x")

    assert chat("-c", "Another?").out == "The Seine.\n"


def test_an_address_stays_with_the_model_that_it_was_said_for(
    chat: Any, desk: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    nowhere = "http://127.0.0.1:9/v1"
    assert chat("Hello?", "--model", "completions:x", "--base-url", nowhere).code == FAILED
    assert chat("resume").err.startswith("NetworkError: ")  # it is remembered
    assert chat("resume", *desk.talker).out == "The Loire.\n"

    monkeypatch.setenv("CHAT_BASE_URL", nowhere)
    assert chat("Name a river.", *desk.talker).out == "The Loire.\n"
    assert chat("-c", "Hello?", "--model", "completions:x").err.startswith("NetworkError: ")
    assert chat("Name a river.", "--base-url", nowhere, *desk.talker).code == MISUSED


def test_the_way_on_from_a_pause_can_be_typed_as_it_is_told(chat: Any, desk: Any) -> None:
    ended = chat("Pay Bo.", "--session", "two words", *desk.payer)

    assert "chat resume 'two words'" in ended.err


def test_a_user_without_a_name_is_asked_all_the_same(chat: Any, desk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody() -> str:
        raise KeyError("getpwuid(): uid not found: 1234")

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(getpass, "getuser", nobody)
    monkeypatch.setattr(io, "StringIO", Terminal)
    assert chat("ask", "Pay Bo.", *desk.payer, piped="approve\n").code == ANSWERED
    assert '"by":"somebody at a terminal"' in chat("show", "--json").out


# --- What a model is asked with ---------------------------------------------------------------------------------------

WATCHED = """
from chat_core.testing import ScriptedProvider
from mine import call, tools

asked = []


class Watched:
    def __init__(self, *script):
        self.script = ScriptedProvider(*script, by_history=True)
        self.metadata = self.script.metadata

    async def complete(self, *words):
        return await self.script.complete(*words)

    def stream(self, messages, tools, options, output):
        asked.append((options.temperature, options.tool_choice))
        return self.script.stream(messages, tools, options, output)


model = Watched(call, "It is done.", call, "Again.")
"""


@pytest.fixture
def watched(desk: Any, monkeypatch: pytest.MonkeyPatch) -> list[tuple[float | None, object]]:
    """What the model `watched:model` was asked with: temperature and tool choice, one pair for each time."""
    (desk.folder / "watched.py").write_text(WATCHED)
    monkeypatch.setattr(sys, "path", [str(desk.folder), *sys.path])
    for name in ("watched", "mine"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    asked: list[tuple[float | None, object]] = importlib.import_module("watched").asked
    return asked


@pytest.mark.parametrize("choice", ["required", "pay"])
def test_a_model_that_must_call_a_tool_is_free_once_it_has(chat: Any, desk: Any, watched: Any, choice: str) -> None:
    words = ("--model", "python:watched:model", "--tools", "mine:tools", "--approve", "all", "--tool-choice", choice)
    forced = NamedTool("pay") if choice == "pay" else "required"

    assert chat("Pay Bo.", *words).out == "It is done.\n"
    assert watched == [(None, forced), (None, "auto")]
    assert chat("-c", "And again.", *words).out == "Again.\n"
    assert watched[2:] == [(None, forced), (None, "auto")]


def test_a_choice_of_no_tool_holds_for_the_whole_answer(chat: Any, desk: Any, watched: Any) -> None:
    chat(
        "Pay Bo.",
        "--model",
        "python:watched:model",
        "--tools",
        "mine:tools",
        "--approve",
        "all",
        "--tool-choice",
        "none",
    )

    assert {choice for _, choice in watched} == {"none"}


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--tool-choice", "required"), "there are none: name some with --tools"),
        (("--tools", "mine.py", "--tool-choice", "fly"), "one of pay; not 'fly'"),
    ],
)
def test_a_choice_of_a_tool_that_is_not_there_is_refused(
    chat: Any, desk: Any, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], told: str
) -> None:
    monkeypatch.chdir(desk.folder)
    ended = chat("Pay Bo.", *desk.talker, *words)

    assert ended.code == MISUSED
    assert told in ended.err


@pytest.mark.parametrize(
    ("model", "temperature"),
    [("local", 0), ("local --temperature 0.7", 0.7), ("local:own.gguf", None), ("openai:x", None)],
)
def test_the_model_that_comes_with_it_chooses_its_words_no_more_freely_than_it_is_told(
    chat: Any, watched: Any, monkeypatch: pytest.MonkeyPatch, model: str, temperature: float | None
) -> None:
    def chosen(_name: str, _base_url: str | None) -> object:
        return importlib.import_module("watched").model

    monkeypatch.setattr(commands, "build_model", chosen)
    chat("Pay Bo.", "--tools", "mine:tools", "--model", *model.split())

    assert [asked for asked, _ in watched] == [temperature]


# --- What is told of mistakes -----------------------------------------------------------------------------------------


def test_the_help_has_the_options_of_a_question(chat: Any) -> None:
    told = chat("--help").out

    assert "Options of a question" in told
    for option in ("--file", "--model", "--tools", "--tool-choice", "--approve", "--temperature", "--json"):
        assert f"{option} " in told
    assert told.count("--store ") == 1


def test_a_question_that_begins_with_a_command_is_shown_how_to_be_asked(chat: Any) -> None:
    ended = chat("show", "me", "a", "river's", "bed")

    assert ended.code == MISUSED
    assert """If it was a question: chat ask show me a 'river'"'"'s' bed""" in ended.err
    assert "chat ask" not in chat("show", "--bogus", "x").err


def test_json_tells_of_a_failure_too(chat: Any, desk: Any) -> None:
    failed = chat(
        "Hello?", "--session", "a", "--json", "--model", "completions:x", "--base-url", "http://127.0.0.1:9/v1"
    )
    told = json.loads(failed.out)
    assert (failed.code, told["session"], told["status"]) == (FAILED, "a", "failed")
    assert told["error"]["type"] == "NetworkError"
    assert failed.err == f"NetworkError: {told['error']['message']}\n"

    misused = chat("Hello?", "--json", "--model", "nobody:x")
    told = json.loads(misused.out)
    assert (misused.code, told["session"], told["error"]["type"]) == (MISUSED, None, "UsageError")
    assert "there is no provider 'nobody'" in told["error"]["message"]


def test_json_tells_of_words_that_make_no_command(chat: Any, desk: Any) -> None:
    for words in (("Hello?", "--bogus", "--json"), ("--store", str(desk.folder), "Hello?", "--json")):
        ended = chat(*words)
        assert (ended.code, json.loads(ended.out)["error"]["type"]) == (MISUSED, "UsageError")
    assert chat("--model", "nobody:x", "--", "--json").out == ""


def test_json_tells_that_something_waits_already(chat: Any, desk: Any) -> None:
    chat("Pay Bo.", "--session", "bills", *desk.payer)
    told = json.loads(chat("-c", "And Maria?", "--json").out)

    assert (told["session"], told["error"]["type"]) == ("bills", "PendingToolsError")
    assert "chat resume bills" in told["error"]["message"]
