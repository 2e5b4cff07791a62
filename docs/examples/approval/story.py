"""The complete demo, in two independent processes that share only a stored conversation."""

from __future__ import annotations

import shlex
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import anyio
from chat import Ledger
from chat_store import FileConversation
from desk import Place, unfinished
from screen import DIM, Screen

QUESTION = "Pay 500 cents to Bo."
UNATTENDED = ["--edit", "cents=300", "--by", "the demo"]


def tell(place: Place, flags: Sequence[str], *, unattended: bool) -> int:
    """Run process one, unless a call is pending from an earlier run, then process two. Return the exit code."""
    screen = Screen()
    if anyio.run(_waits, place):
        screen.line("", "a call is still waiting: the demo continues with its decision")
    else:
        place.conversation.unlink(missing_ok=True)
        place.ledger.unlink(missing_ok=True)
        code = _process(screen, [*flags, "ask", QUESTION])
        if code != 0:
            return code
    code = _process(screen, [*flags, "decide", *(UNATTENDED if unattended else [])])
    for payment in Ledger(place.ledger).payments():
        screen.line("$", f"{payment}  (in {place.ledger})")
    return code


async def _waits(place: Place) -> bool:
    if not place.conversation.exists():
        return False
    async with FileConversation.open(place.conversation) as conversation:
        return unfinished(conversation.messages)


def _process(screen: Screen, words: Sequence[str]) -> int:
    """Run a command of the demo in a child process on the same terminal. The child handles Ctrl-C."""
    command = [sys.executable, str(Path(__file__).parent), *words]
    screen.line("\n", f"$ {shlex.join(['python', *command[1:]])}", style=(DIM,))
    # Use a handler without effect, because the child would inherit SIG_IGN.
    before = signal.signal(signal.SIGINT, lambda _signal, _frame: None)
    try:
        return subprocess.run(command, check=False).returncode  # noqa: S603 - a fixed command
    finally:
        signal.signal(signal.SIGINT, before)
