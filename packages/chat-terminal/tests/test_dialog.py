"""A dialog on a pseudo terminal: what is typed while the model responds interrupts the response."""

from __future__ import annotations

import io
import os
import select
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Sequence
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any, final

import anyio
import click
import pytest
from chat_core import (
    ChatOptions,
    Delta,
    Execute,
    FunctionCall,
    Messages,
    NetworkError,
    OutputSchema,
    Paused,
    ProviderMeta,
    ProviderStream,
    RequireApproval,
    ScopedCollection,
    ToolCollection,
    ToolDeclarations,
    Turn,
)
from chat_core.testing import ScriptedProvider
from chat_core.tools import ToolScope
from chat_terminal.commands import chat as command
from chat_terminal.dialog import Dialog
from chat_terminal.runner import Runner, user_may_decide
from chat_terminal.screen import Screen
from chat_terminal.sessions import Sessions

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no pseudo terminals")
END = "\x04"
"""Ctrl-D, which ends the input of a terminal."""


@final
class TypingModel:
    """A model with scripted answers. The user types during the answers.

    Args:
        type_text: function that types a text.
        steps: for each answer, the answer and the text that the user types after its first word. If that text is not
            empty, the answer stays open.
    """

    def __init__(self, type_text: Callable[[str], None], *steps: tuple[str, str]) -> None:
        self._type = type_text
        self._typed = [text for _, text in steps]
        self._answers = ScriptedProvider(*[answer for answer, _ in steps])

    @property
    def metadata(self) -> ProviderMeta:
        return ProviderMeta("scripted", "typing")

    async def complete(
        self, messages: Messages, tools: ToolDeclarations, options: ChatOptions, structured_output: OutputSchema | None
    ) -> Turn:
        return await self._answers.complete(messages, tools, options, structured_output)

    @asynccontextmanager
    async def stream(
        self, messages: Messages, tools: ToolDeclarations, options: ChatOptions, structured_output: OutputSchema | None
    ) -> AsyncGenerator[ProviderStream, None]:
        typed = self._typed[len(self._answers.asked)]
        async with self._answers.stream(messages, tools, options, structured_output) as stream:
            yield _TypingStream(stream, lambda: self._type(typed), stays_open=bool(typed))


@final
class _TypingStream:
    def __init__(self, stream: ProviderStream, type_text: Callable[[], None], *, stays_open: bool) -> None:
        self._stream = stream
        self._type = type_text
        self._stays_open = stays_open
        self.close = stream.close
        self.partial = stream.partial

    async def __aiter__(self) -> AsyncIterator[Sequence[Delta]]:
        first = True
        async for batch in self._stream:
            yield batch
            if first and self._stays_open:
                self._type()
                await anyio.sleep_forever()
            first = False


@pytest.fixture
def type_text(monkeypatch: pytest.MonkeyPatch) -> Generator[Callable[[str], None]]:
    """A function that types a text on the pseudo terminal that is the standard input."""
    master, slave = os.openpty()
    with closing(os.fdopen(master, "rb+", buffering=0)), closing(os.fdopen(slave, "r")) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)

        def write(text: str) -> None:
            os.write(master, text.encode())

        yield write


def runner(folder: Path, model: Any, *scopes: ToolScope[Paused]) -> Runner:
    sessions = Sessions(folder / "chats.db")
    return Runner(model, ChatOptions(), scopes, sessions, Screen(plain=True), user_may_decide, "ana")


def said(sessions: Sessions) -> list[str]:
    async def load() -> Messages:
        async with sessions.store() as store:
            return (await store.load("a")).messages

    return [f"{item.role}: {turn.text}" for item in anyio.run(load) for turn in item.turns]


def answer_prompts(monkeypatch: pytest.MonkeyPatch, verb: str) -> None:
    def prompt(*_words: str, **_options: object) -> str:
        return verb

    monkeypatch.setattr(click, "prompt", prompt)


def test_a_line_typed_during_a_response_interrupts_it(
    tmp_path: Path, type_text: Callable[[str], None], capfd: pytest.CaptureFixture[str]
) -> None:
    model = TypingModel(type_text, ("Paris is the capital.", f"And Italy?\n{END}"), ("Rome is.", ""))
    user = runner(tmp_path, model)
    type_text("Capital of France?\n")

    paused = Dialog(user, "a", "Be brief.").run()

    out, err = capfd.readouterr()
    assert paused is None
    assert said(user.sessions) == [
        "system: Be brief.", "user: Capital of France?", "model: Paris ", "user: And Italy?", "model: Rome is.",
    ]  # fmt: skip
    assert out == "Paris \nRome is.\n"
    assert "⏹ interrupted" in err


def test_a_dialog_answers_each_line_until_the_input_ends(
    tmp_path: Path, type_text: Callable[[str], None], capfd: pytest.CaptureFixture[str]
) -> None:
    type_text(f"Hello?\n{END}")
    user = runner(tmp_path, ScriptedProvider("Hi."))
    dialog = Dialog(user, "a", None)

    assert dialog.run() is None
    assert dialog.has_answered
    assert said(user.sessions) == ["user: Hello?", "model: Hi."]
    assert capfd.readouterr().out == "Hi.\n"


@pytest.mark.skipif(sys.platform != "linux", reason="the limit is that of Linux")
def test_a_line_that_the_terminal_may_have_cut_is_not_sent(
    tmp_path: Path, type_text: Callable[[str], None], capfd: pytest.CaptureFixture[str]
) -> None:
    type_text("b" * 4095 + f"\nHello?\n{END}")
    user = runner(tmp_path, ScriptedProvider("Hi."))

    assert Dialog(user, "a", None).run() is None
    assert said(user.sessions) == ["user: Hello?", "model: Hi."]
    told = capfd.readouterr().err
    assert "✖ not sent: the terminal cuts lines at 4095 bytes" in told
    assert "chat ask -c < FILE" in told


@pytest.mark.parametrize("keys", ["\x1b[D", "\x1b[1;5C", "\x1bOA", "\x1b[3~", "\x1b"])
def test_escape_sequences_of_keys_are_not_sent(tmp_path: Path, type_text: Callable[[str], None], keys: str) -> None:
    type_text(f"He{keys}llo?\n{END}")
    user = runner(tmp_path, ScriptedProvider("Hi."))

    assert Dialog(user, "a", None).run() is None
    assert said(user.sessions)[0] == "user: Hello?"


def test_the_end_of_the_input_ends_the_line_of_the_prompt(
    tmp_path: Path, type_text: Callable[[str], None], capfd: pytest.CaptureFixture[str]
) -> None:
    type_text(END)

    assert Dialog(runner(tmp_path, ScriptedProvider("Hi.")), "a", None).run() is None
    assert capfd.readouterr().err == "> \n"


def test_a_failed_run_does_not_end_the_dialog(
    tmp_path: Path, type_text: Callable[[str], None], capfd: pytest.CaptureFixture[str]
) -> None:
    type_text(f"Hello?\n{END}")
    user = runner(tmp_path, ScriptedProvider(*[NetworkError("gone")] * 3))
    dialog = Dialog(user, "a", None)

    assert dialog.run() is None
    assert said(user.sessions) == ["user: Hello?"]
    assert not dialog.has_answered
    assert "✖ gone" in capfd.readouterr().err


def test_a_call_is_approved_in_the_middle_of_a_dialog(
    tmp_path: Path, type_text: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    paid: list[int] = []
    tools = ToolCollection()

    @tools.tool
    def pay(cents: int) -> str:
        """Pay."""
        paid.append(cents)
        type_text(END)
        return "paid"

    scope = ScopedCollection(tools, lambda _call, _meta: RequireApproval())
    model = ScriptedProvider(FunctionCall("pay", {"cents": 5}, id="1"), "Done.")
    user = runner(tmp_path, model, scope)
    type_text("Pay.\n")

    answer_prompts(monkeypatch, "approve")

    assert Dialog(user, "a", None).run() is None
    assert paid == [5]
    assert said(user.sessions)[-1] == "model: Done."


def correcting_runner(folder: Path, type_text: Callable[[str], None], paid: list[int]) -> Runner:
    """Return a runner of a model that makes two calls. While the first runs, the user types; the second must wait."""
    tools = ToolCollection()

    @tools.tool
    async def look() -> str:
        """Look."""
        type_text("Use account 7!\n")
        while select.select([sys.stdin], [], [], 0)[0]:  # until the dialog has read the line
            await anyio.lowlevel.checkpoint()
        return "5"

    @tools.tool
    def pay(account: int) -> str:
        """Pay."""
        paid.append(account)
        type_text(END)
        return "paid"

    scope = ScopedCollection(tools, lambda call, _meta: RequireApproval() if call.name == "pay" else Execute())
    calls = [FunctionCall("look", {}, id="1"), FunctionCall("pay", {"account": 5}, id="2")]
    type_text("Pay.\n")
    return runner(folder, ScriptedProvider(calls, "Done."), scope)


def test_a_line_typed_before_a_prompt_for_approval_is_sent_after_it(
    tmp_path: Path, type_text: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    paid: list[int] = []
    user = correcting_runner(tmp_path, type_text, paid)
    answer_prompts(monkeypatch, "approve")

    assert Dialog(user, "a", None).run() is None
    assert paid == [5]
    assert said(user.sessions)[-2:] == ["user: Use account 7!", "model: Done."]


def test_a_dialog_that_ends_shows_the_lines_that_were_not_sent(
    tmp_path: Path,
    type_text: Callable[[str], None],
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    user = correcting_runner(tmp_path, type_text, [])
    answer_prompts(monkeypatch, "later")

    assert isinstance(Dialog(user, "a", None).run(), Paused)
    assert capfd.readouterr().err.count("✖ not sent: Use account 7!") == 1


def test_a_dialog_without_a_terminal_is_a_usage_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO())

    with pytest.raises(click.UsageError, match="a dialog needs a terminal"):
        command.main(["--store", str(tmp_path / "a.db"), "talk"], standalone_mode=False)


def test_talk_changes_the_model_of_a_session_only_after_an_answer(
    user_dir: Any, type_text: Callable[[str], None], capfd: pytest.CaptureFixture[str]
) -> None:
    file = user_dir.folder / "a.db"
    sessions = Sessions(file)
    sessions.record_use("a", "rivers", {"model": "nobody:x"})
    words = ["--store", str(file), "talk", "--session", "a", *user_dir.talker]
    type_text(END)
    command.main(words, standalone_mode=False)
    assert sessions.get("a").settings["model"] == "nobody:x"

    type_text(f"Name a river.\n{END}")
    command.main(words, standalone_mode=False)
    assert sessions.get("a").settings["model"] == user_dir.talker[1]
    assert capfd.readouterr().out == "The Loire.\n"
