"""Draws pause.svg: a run of the demo with the real model, in a terminal, with somebody at the question.

python docs/assets/pause.py

Every line is what the run printed; what is added are the captions, and when a line comes into sight. Whoever wants no
motion, or whose viewer knows none, sees the last frame.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from html import escape
from pathlib import Path

ASSETS = Path(__file__).parent
DEMO = ASSETS.parent / "examples" / "approval"
TYPED = (("approve, edit or reject? ", "edit"), ("to [Bo] = ", ""), ("cents [500] = ", "300"))

STORY = (
    (r"\$ python \S+ ask ", 0.0, "1  A process asks a model. The policy wants a person, so the process ends."),
    (r"you ", 0.7, ""),
    (r"model +calls ", 2.0, ""),
    (r"⏸ ", 3.2, ""),
    (r"stored in ", 4.6, ""),
    (r"\$ python \S+ decide$", 7.2, "2  At any time in the next 24 hours, another process: a person decides."),
    (r"⏸ ", 7.8, ""),
    (r"approve, edit or reject\? ", 8.7, ""),
    (r"to \[", 9.7, ""),
    (r"cents \[", 10.0, ""),
    (r"approve with ", 11.1, ""),
    (r"▶ ", 11.6, ""),
    (r"✔ ", 12.1, ""),
    (r"model ", 12.7, ""),
    (r"\S+ \S+ +\d+ cents to ", 13.4, "3  What the tool wrote to {ledger}: one payment."),
)
"""How the lines begin that come one after the other, when, and what is said above them; others come with them."""
WAITING = ("stored in ", 5.4, "⏸  No process runs. The conversation is a file: {chat}.")
ROUND, TYPING, FADE = 16.0, 0.6, 0.25
"""Seconds: of a round, until somebody has typed an answer, and until a line is there."""

COLUMNS, ADVANCE, LINE, MARGIN = 90, 7.83, 19, 22
FONT = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
COLOURS = {"2": "#8b949e", "31": "#ff7b72", "32": "#7ee787", "33": "#e3b341", "36": "#79c0ff"}
SIGNS = str.maketrans({"⏸": "❚❚"})
"""What many a font lacks, or has only as a little coloured picture."""
CAPTION = "#d2a8ff"
SGR = re.compile(r"\x1b\[([#0-9a-f;]*)m")
LEDGER = re.compile(r"^\$ +(?P<payment>.*?)  \(in (?P<ledger>.*)\)$", re.MULTILINE)
STORED = re.compile(r"stored in (\S+);")


def main() -> None:
    """Record a run, and draw it."""
    (ASSETS / "pause.svg").write_text(drawn(told()), encoding="utf-8")


def told() -> str:
    """What the demo says, without the folder that it was given and where this one lies: nobody types that."""
    with tempfile.TemporaryDirectory() as folder:
        text = recorded(Path(folder) / "approval-demo")
        text = text.replace(f"{folder}/", "").replace(f"{DEMO.parents[2]}/", "")
    return text.replace(" --folder approval-demo", "")


def recorded(folder: Path) -> str:
    """What a terminal shows of the demo."""
    mine, theirs = os.openpty()
    environment = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    command = [sys.executable, str(DEMO), "--folder", str(folder)]
    with subprocess.Popen(  # noqa: S603 - our own words
        command,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**environment, "TERM": "xterm", "USER": "ana", "PYTHONUTF8": "1"},
    ):
        os.close(theirs)
        seen = b""
        for question, answer in TYPED:
            while not seen.decode(errors="replace").replace("\x1b[0m", "").endswith(question):
                seen += os.read(mine, 65536)
            os.write(mine, f"{answer}\n".encode())
        try:
            while data := os.read(mine, 65536):
                seen += data
        except OSError:  # nobody has the terminal open any more
            pass
    os.close(mine)
    return seen.decode().replace("\r", "")


# --- The picture ------------------------------------------------------------------------------------------------------


def drawn(text: str) -> str:
    """A picture of this run, in motion."""
    rows = list(frames(text))
    height = sum(gap for _, gap, _ in rows) + 2 * MARGIN
    width = round(COLUMNS * ADVANCE + 2 * MARGIN)
    body: list[str] = []
    y = MARGIN - 5.0
    for moment, gap, line in rows:
        y += gap
        body.append(f'<text y="{y:g}"{_class(moment)}>{spans(line, moment)}</text>')
    moments = sorted({float(at) for at in re.findall(r'class="at([\d.]+)"', "".join(body).replace("_", "."))})
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}"',
            ' role="img">',
            "<title>One process asks the model and ends at the pause; another one decides and goes on</title>",
            f"<style>\ntext {{ font: 13px {FONT}; fill: #e6edf3; white-space: pre }}",
            "@media (prefers-reduced-motion: no-preference) {",
            *(motion(moment) for moment in moments),
            "}\n</style>",
            f'<rect x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="8" fill="#0d1117" stroke="#30363d"/>',
            *body,
            "</svg>",
            "",
        ]
    )


def frames(text: str) -> Iterator[tuple[float, float, str]]:
    """Each line of the picture: when it comes, how far below the line before it, and what it says."""
    names = {"chat": STORED.findall(text)[0]}
    found = LEDGER.search(text)
    if found is None:
        msg = f"the demo ends with its payment, not so: {text!r}"
        raise ValueError(msg)
    names["ledger"] = found["ledger"]
    steps, moment = iter(STORY), 0.0
    pattern, at, caption = next(steps)
    for line in LEDGER.sub(r"       \g<payment>", text).splitlines():
        plain = SGR.sub("", line).strip()
        if not plain:
            continue
        if re.match(pattern, plain):
            moment = at
            if caption:
                yield moment, LINE * (1.5 if moment else 1), _coloured(caption.format_map(names), CAPTION)
            pattern, at, caption = next(steps, ("$^", moment, ""))
        yield moment, LINE * 1.0, line
        if plain.startswith(WAITING[0]):
            yield WAITING[1], LINE * 1.5, _coloured(WAITING[2].format_map(names), COLOURS["33"])
    if pattern != "$^":
        msg = f"the run has no line that begins with {pattern}"
        raise ValueError(msg)


def _coloured(text: str, colour: str) -> str:
    return f"\x1b[1;{colour}m{text}\x1b[0m"


def _class(moment: float) -> str:
    return f' class="at{moment:g}"'.replace(".", "_") if moment else ""


def motion(moment: float) -> str:
    """Out of sight until then, in every round."""
    name = f"at{moment:g}".replace(".", "_")
    before, after = (100 * at / ROUND for at in (moment, moment + FADE))
    keys = f"0%, {before:.2f}% {{ fill-opacity: 0 }} {after:.2f}%, 100% {{ fill-opacity: 1 }}"
    return f".{name} {{ animation: {name} {ROUND:g}s linear infinite }} @keyframes {name} {{ {keys} }}"


def spans(line: str, moment: float) -> str:
    """A line with its colours. Where a piece begins is said: fonts disagree how wide a sign is that is no letter."""
    drawn: list[str] = []
    style, column = "", 0
    questions = {question.strip() for question, _ in TYPED}
    for number, piece in enumerate(SGR.split(line)):
        if number % 2:
            style = _style(piece.split(";"))
            continue
        if piece.strip():
            x = MARGIN + (column + len(piece) - len(piece.lstrip())) * ADVANCE
            shown = escape(piece.strip(), quote=False).translate(SIGNS)
            drawn.append(f'<tspan x="{x:g}"{style}>{shown}</tspan>')
        column += len(piece)
    if SGR.sub("", line).strip() not in questions and any(question in line for question in questions):
        drawn[-1] = drawn[-1].replace("<tspan", f"<tspan{_class(round(moment + TYPING, 2))}", 1)
    return "".join(drawn)


def _style(codes: Iterable[str]) -> str:
    codes = list(codes)
    colours = [COLOURS.get(code, code) for code in codes if code in COLOURS or code.startswith("#")]
    return "".join(f' fill="{colour}"' for colour in colours) + (' font-weight="bold"' if "1" in codes else "")


if __name__ == "__main__":
    main()
