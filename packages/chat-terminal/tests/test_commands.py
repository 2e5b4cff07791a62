"""Command line: questions, sessions, exit codes."""

from __future__ import annotations

import getpass
import importlib
import io
import json
import sys
from typing import Any

import pytest
from chat_core import Messages, NamedTool
from chat_terminal.sessions import Sessions

ANSWERED, FAILED, MISUSED, WAITS, INTERRUPTED = 0, 1, 2, 3, 130


def test_stdout_contains_only_the_response(chat: Any, user_dir: Any) -> None:
    ended = chat("Name", "a", "river.", *user_dir.talker)

    assert (ended.code, ended.out, ended.err) == (ANSWERED, "The Loire.\n", "")


def test_options_may_precede_the_question(chat: Any, user_dir: Any) -> None:
    assert chat(*user_dir.talker, "Name a river.").out == "The Loire.\n"


def test_ask_accepts_a_question_named_like_a_command(chat: Any, user_dir: Any) -> None:
    assert chat("ask", "sessions", *user_dir.talker).out == "The Loire.\n"
    assert "sessions" in chat("sessions").out


def test_piped_input_alone_is_the_question(chat: Any, user_dir: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHAT_MODEL", user_dir.talker[1])

    assert chat(piped="Name a river.").out == "The Loire.\n"
    assert "Name a river." in chat("show").out


def test_question_in_an_ascii_locale_is_decoded_as_utf8(chat: Any, user_dir: Any) -> None:
    question = "café?".encode().decode("ascii", "surrogateescape")

    assert chat(question, *user_dir.talker).out == "The Loire.\n"
    assert "café?" in chat("show").out
    assert "café?" in chat("sessions").out


def test_missing_question_is_a_usage_error(chat: Any, user_dir: Any) -> None:
    ended = chat("ask", *user_dir.talker)

    assert ended.code == MISUSED
    assert "there is nothing to ask" in ended.err


def test_continue_resumes_last_session_with_its_model(chat: Any, user_dir: Any) -> None:
    chat("Name a river.", *user_dir.talker)

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


def test_named_session_can_be_continued(chat: Any, user_dir: Any) -> None:
    chat("Name a river.", "--session", "rivers", *user_dir.talker)
    chat("Something else.", *user_dir.talker)

    assert chat("Another?", "--session", "rivers").out == "The Seine.\n"
    assert chat("sessions").out.splitlines()[0].startswith("rivers ")


def test_system_prompt_is_used_in_new_sessions_only(chat: Any, user_dir: Any) -> None:
    chat("Name a river.", "-s", "Be brief.", *user_dir.talker)
    chat("-c", "Another?", "-s", "Be long.")

    messages = Messages.from_json(chat("show", "--json").out)
    assert [content.text for content in messages if content.role == "system"] == ["Be brief."]


def test_json_output_is_one_object(chat: Any, user_dir: Any) -> None:
    ended = chat("Name a river.", "--json", *user_dir.talker)

    told = json.loads(ended.out)
    assert told["status"] == "answered"
    assert told["text"] == "The Loire."
    assert told["usage"] == {"input_tokens": 10, "output_tokens": 5}
    assert ended.err == ""


def test_undecided_call_exits_with_code_3_and_is_stored(chat: Any, user_dir: Any) -> None:
    ended = chat("Pay Bo.", *user_dir.payer)

    assert (ended.code, ended.out, user_dir.paid) == (WAITS, "", [])
    assert 'pay(to="Bo", cents=500) waits' in ended.err
    assert "chat resume " in ended.err
    assert "⏸ 1" in chat("sessions").out
    assert 'pay(to="Bo", cents=500): pending' in chat("show").out


def test_json_output_lists_waiting_calls(chat: Any, user_dir: Any) -> None:
    ended = chat("Pay Bo.", "--json", *user_dir.payer)

    told = json.loads(ended.out)
    assert (ended.code, told["status"]) == (WAITS, "paused")
    assert [(wait["kind"], wait["name"], wait["arguments"]) for wait in told["waiting"]] == [
        ("approval", "pay", {"to": "Bo", "cents": 500})
    ]


def test_approve_all_runs_calls_without_a_prompt(chat: Any, user_dir: Any) -> None:
    ended = chat("Pay Bo.", "--approve", "all", *user_dir.payer)

    assert (ended.code, ended.out, user_dir.paid) == (ANSWERED, "It is done.\n", ["500 cents to Bo"])
    assert '▶ pay(to="Bo", cents=500)' in ended.err


def test_new_question_fails_while_a_call_of_the_session_waits(chat: Any, user_dir: Any) -> None:
    chat("Pay Bo.", "--session", "bills", *user_dir.payer)
    ended = chat("-c", "And Maria?")

    assert ended.code == FAILED
    assert "a call in this session waits for a decision; decide it first: chat resume bills" in ended.err
    assert "And Maria?" not in chat("show").out


def test_resume_with_approve_all_leaves_the_waiting_calls_and_names_the_command(chat: Any, user_dir: Any) -> None:
    chat("Pay Bo.", "--session", "bills", *user_dir.payer)
    ended = chat("resume", "--approve", "all")

    assert (ended.code, user_dir.paid) == (FAILED, [])
    assert "--approve all applies to later calls only; decide them: chat resume bills" in ended.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--temperature", "NaN"), "temperature must be a finite number"),
        (("--model", "completions:m", "--base-url", "nope"), "Error: --base-url needs a URL such as http"),
        (("--schema", ""), "--schema needs at least one field"),
    ],
)
def test_a_value_that_is_not_allowed_is_a_usage_error(
    chat: Any, user_dir: Any, words: tuple[str, ...], message: str
) -> None:
    ended = chat("Hello.", *user_dir.talker, *words)

    assert (ended.code, ended.out) == (MISUSED, "")
    assert message in ended.err


def test_resume_exits_with_code_3_if_a_call_still_waits(chat: Any, user_dir: Any) -> None:
    chat("Pay Bo.", *user_dir.payer)

    assert chat("resume").code == WAITS
    assert user_dir.paid == []


@pytest.mark.parametrize("command", ["show", "resume", "-c"])
def test_command_for_the_last_session_without_sessions_is_a_usage_error(chat: Any, command: str) -> None:
    ended = chat(command, *(["hello"] if command == "-c" else []))

    assert ended.code == MISUSED
    assert "there is no session yet" in ended.err


def test_version_and_help_are_printed(chat: Any) -> None:
    assert chat("--version").out.startswith("chat, version ")
    assert "Ask a model" in chat("--help").out


@pytest.mark.parametrize("name", ["", " ", "a\nb", "\x1b[2J", "caf\udce9"])
def test_empty_or_unprintable_session_name_is_a_usage_error(chat: Any, user_dir: Any, name: str) -> None:
    ended = chat("Name a river.", "--session", name, *user_dir.talker)

    assert (ended.code, ended.out) == (MISUSED, "")
    assert "must be visible text" in ended.err
    assert chat("sessions").out == ""


def test_continue_and_session_options_are_mutually_exclusive(chat: Any, user_dir: Any) -> None:
    ended = chat("-c", "--session", "rivers", "Another?", *user_dir.talker)

    assert ended.code == MISUSED
    assert "use one of them" in ended.err


def test_session_keeps_its_model_and_tools_in_any_directory(
    chat: Any, user_dir: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(user_dir.folder)
    chat("Name a river.", "--model", "python:mine.py:talker", "--tools", "mine.py:tools")
    (user_dir.folder / "elsewhere").mkdir()
    monkeypatch.chdir(user_dir.folder / "elsewhere")
    monkeypatch.setenv("CHAT_MODEL", "nobody:x")

    assert chat("-c", "Another?").out == "The Seine.\n"


def test_base_url_is_used_only_with_its_model(chat: Any, user_dir: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    nowhere = "http://127.0.0.1:9/v1"
    assert chat("Hello?", "--model", "completions:x", "--base-url", nowhere).code == FAILED
    assert chat("resume").err.startswith("NetworkError: ")  # the base URL is remembered
    assert chat("resume", *user_dir.talker).out == "The Loire.\n"

    monkeypatch.setenv("CHAT_BASE_URL", nowhere)
    assert chat("Name a river.", *user_dir.talker).out == "The Loire.\n"
    assert chat("-c", "Hello?", "--model", "completions:x").err.startswith("NetworkError: ")
    assert chat("Name a river.", "--base-url", nowhere, *user_dir.talker).code == MISUSED


def test_failed_question_does_not_change_the_model_of_a_session(chat: Any, user_dir: Any) -> None:
    (user_dir.folder / "broken.py").write_text(
        "from chat_core import NetworkError\n"
        "from chat_core.testing import ScriptedProvider\n"
        "model = ScriptedProvider(*[NetworkError('gone')] * 9)\n"
    )
    broken = ("--model", f"python:{user_dir.folder / 'broken.py'}:model")
    chat("Name a river.", *user_dir.talker)

    assert chat("-c", "Another?", *broken).code == FAILED
    assert chat("resume", *broken).code == FAILED
    assert chat("resume").out == "The Seine.\n"


def test_paused_question_changes_the_model_of_a_session(chat: Any, user_dir: Any) -> None:
    Sessions(user_dir.folder / "state" / "chats.db").record_use("a", "rivers", {"model": "nobody:x"})

    assert chat("Pay Bo.", "--session", "a", *user_dir.payer).code == WAITS
    assert chat("resume").code == WAITS


def test_session_name_in_the_printed_resume_command_is_quoted(chat: Any, user_dir: Any) -> None:
    ended = chat("Pay Bo.", "--session", "two words", *user_dir.payer)

    assert "chat resume 'two words'" in ended.err


@pytest.mark.parametrize("command", [("ask", "Pay Bo."), ("resume",)])
def test_end_of_the_input_at_a_prompt_prints_how_to_continue(
    chat: Any, user_dir: Any, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    if command == ("resume",):
        chat("Pay Bo.", "--session", "bills", *user_dir.payer)
    monkeypatch.setattr(io, "StringIO", Terminal)
    ended = chat(*command, *(() if command == ("resume",) else ("--session", "bills", *user_dir.payer)))

    assert ended.code == INTERRUPTED
    assert "\nstored; continue with: chat resume bills\n" in ended.err


def test_user_without_a_login_name_is_prompted(chat: Any, user_dir: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody() -> str:
        raise KeyError("getpwuid(): uid not found: 1234")

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(getpass, "getuser", nobody)
    monkeypatch.setattr(io, "StringIO", Terminal)
    assert chat("ask", "Pay Bo.", *user_dir.payer, piped="approve\n").code == ANSWERED
    assert '"by":"somebody at a terminal"' in chat("show", "--json").out


# --- Options of model calls -------------------------------------------------------------------------------------------

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
def watched(user_dir: Any, monkeypatch: pytest.MonkeyPatch) -> list[tuple[float | None, object]]:
    """Return the temperature and tool choice of each call of the model `watched:model`."""
    (user_dir.folder / "watched.py").write_text(WATCHED)
    monkeypatch.setattr(sys, "path", [str(user_dir.folder), *sys.path])
    for name in ("watched", "mine"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    asked: list[tuple[float | None, object]] = importlib.import_module("watched").asked
    return asked


@pytest.mark.parametrize("choice", ["required", "pay"])
def test_required_tool_choice_applies_only_to_the_first_step(
    chat: Any, user_dir: Any, watched: Any, choice: str
) -> None:
    words = ("--model", "python:watched:model", "--tools", "mine:tools", "--approve", "all", "--tool-choice", choice)
    forced = NamedTool("pay") if choice == "pay" else "required"

    assert chat("Pay Bo.", *words).out == "It is done.\n"
    assert watched == [(None, forced), (None, "auto")]
    assert chat("-c", "And again.", *words).out == "Again.\n"
    assert watched[2:] == [(None, forced), (None, "auto")]


def test_tool_choice_none_applies_to_every_step(chat: Any, user_dir: Any, watched: Any) -> None:
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
        (("--tool-choice", "required"), "--tool-choice needs tools: name some with --tools"),
        (("--tools", "mine.py", "--tool-choice", "fly"), "one of pay; not 'fly'"),
    ],
)
def test_invalid_tool_choice_is_a_usage_error(
    chat: Any, user_dir: Any, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], told: str
) -> None:
    monkeypatch.chdir(user_dir.folder)
    ended = chat("Pay Bo.", *user_dir.talker, *words)

    assert ended.code == MISUSED
    assert told in ended.err


# --- Errors -----------------------------------------------------------------------------------------------------------


def test_help_lists_the_options_of_ask(chat: Any) -> None:
    told = chat("--help").out

    assert "Options of a question" in told
    for option in ("--file", "--model", "--tools", "--tool-choice", "--approve", "--temperature", "--json"):
        assert f"{option} " in told
    assert told.count("--store ") == 1


def test_usage_error_of_a_command_suggests_ask(chat: Any) -> None:
    ended = chat("show", "river's", "bed")

    assert ended.code == MISUSED
    assert """If it was a question: chat ask show 'river'"'"'s' bed""" in ended.err
    assert "chat ask" not in chat("show", "--bogus", "x").err


def test_json_output_reports_failures(chat: Any, user_dir: Any) -> None:
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


def test_json_output_reports_usage_errors(chat: Any, user_dir: Any) -> None:
    for words in (("Hello?", "--bogus", "--json"), ("--store", str(user_dir.folder), "Hello?", "--json")):
        ended = chat(*words)
        assert (ended.code, json.loads(ended.out)["error"]["type"]) == (MISUSED, "UsageError")
    assert chat("--model", "nobody:x", "--", "--json").out == ""


def test_json_output_reports_pending_calls(chat: Any, user_dir: Any) -> None:
    chat("Pay Bo.", "--session", "bills", *user_dir.payer)
    told = json.loads(chat("-c", "And Maria?", "--json").out)

    assert (told["session"], told["error"]["type"]) == ("bills", "PendingToolsError")
    assert "chat resume bills" in told["error"]["message"]
