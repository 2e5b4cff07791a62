"""Approval example: a model requests a payment, the program exits, and an approver decides in another process.

    python docs/examples/approval                       the whole example, in two processes
    python docs/examples/approval ask "Pay 500 cents to Bo."
    python docs/examples/approval list
    python docs/examples/approval decide                asks in the terminal; or with --approve, --edit cents=300, ...

Exit status: 0 after a response, 1 after an error, 3 if a call still waits, 4 if an interrupted call needs a decision,
5 if another process has claimed the conversation, and 130 after ctrl-C.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Sequence
from itertools import repeat
from pathlib import Path

import anyio
import story
from answers import Answers, asked, changed, from_flags, given
from chat_core import ChatError, ConflictError, PendingToolsError
from desk import WAITS, Desk, Place
from models import KEY_VARIABLE, choose
from screen import RED, Screen

FAILED, CLAIMED, STOPPED = 1, 5, 130


def main(words: Sequence[str] | None = None) -> int:
    """Run the command given on the command line, print errors as text, and return the exit code."""
    parser = _parser()
    flags = parser.parse_args(words)
    if flags.url is not None and flags.model is None:
        parser.error("--url needs --model: the name that the server knows its model by")
    flags.folder.mkdir(parents=True, exist_ok=True)
    screen = Screen()
    try:
        return _work(flags, Place(flags.folder), screen)
    except KeyboardInterrupt:
        screen.line("\n", "stopped; what was done is stored, and nothing else was decided")
        return STOPPED
    except EOFError:
        screen.line("\n", "no answer; nothing was decided")
        return WAITS
    except ChatError as error:
        screen.line("✖", f"{type(error).__name__}: {error}", RED)
        return (
            CLAIMED if isinstance(error, ConflictError) else WAITS if isinstance(error, PendingToolsError) else FAILED
        )


def _work(flags: argparse.Namespace, place: Place, screen: Screen) -> int:
    if flags.command is None:
        return story.tell(place, _passed_on(flags), unattended=flags.unattended or not sys.stdin.isatty())
    model, options = choose(flags)
    desk = Desk(place, model, options, screen, getattr(flags, "hold", None))
    match flags.command:
        case "ask":
            return anyio.run(desk.ask, flags.question)
        case "list":
            return anyio.run(desk.list_waiting)
        case _:
            return anyio.run(desk.decide, _rounds(flags, screen))


def _rounds(flags: argparse.Namespace, screen: Screen) -> Iterable[Answers]:
    """Return one round for an answer from the flags, or endless prompts if there is none and stdin is a terminal."""
    answer = from_flags(flags)
    if answer is None and sys.stdin.isatty():
        return repeat(asked(screen, flags.by))
    return [given(answer)]


# --- The command line -------------------------------------------------------------------------------------------------


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="approval", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path, default=Path("approval-demo"), help="where things are kept")
    parser.add_argument("--url", help=f"ask a server that speaks Chat Completions; its key is in ${KEY_VARIABLE}")
    parser.add_argument("--model", help="the name of its model")
    parser.add_argument("--script", action="store_true", help="ask no model; for trying it without weights")
    parser.add_argument("--unattended", action="store_true", help="the story with an answer given beforehand")
    commands = parser.add_subparsers(dest="command")
    hold = argparse.ArgumentParser(add_help=False)
    hold.add_argument(
        "--hold",
        type=Path,
        metavar="FIFO",
        help="wait at this fifo, for a kill -9 at a bad moment: in the payment, or after the pause was shown",
    )
    ask = commands.add_parser("ask", parents=[hold], help="ask the model, and end where somebody must decide")
    ask.add_argument("question", nargs="?", default=story.QUESTION)
    commands.add_parser("list", help="show what waits")
    decide = commands.add_parser("decide", parents=[hold], help="decide what waits, and go on")
    decide.add_argument("--by", default=os.environ.get("USER") or "somebody", help="who decides")
    answer = decide.add_mutually_exclusive_group()
    answer.add_argument("--approve", action="store_true", help="let it run")
    answer.add_argument("--edit", action="append", type=changed, metavar="NAME=VALUE", help="let it run, changed")
    answer.add_argument("--reject", metavar="REASON", help="refuse it")
    answer.add_argument("--retry", action="store_true", help="an interrupted call: run it again")
    answer.add_argument("--complete", metavar="RESULT", help="an interrupted call: it had taken effect")
    answer.add_argument("--fail", metavar="REASON", help="an interrupted call: it had not")
    return parser


def _passed_on(flags: argparse.Namespace) -> list[str]:
    """Return the flags that every process of the demo needs."""
    words = ["--folder", str(flags.folder)]
    words += ["--script"] if flags.script else []
    words += ["--url", flags.url, "--model", flags.model] if flags.url is not None else []
    return words


if __name__ == "__main__":
    sys.exit(main())
