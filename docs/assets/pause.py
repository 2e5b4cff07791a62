"""Script that renders pause.svg: a terminal recording of the demo with the real model and a user at the prompt.

python docs/assets/pause.py

Every line is real output of the run. Only the captions and the timing are added. Viewers without animation support, or
with reduced motion enabled, show the last frame.
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
"""Steps of the animation: a pattern for the start of a line, its time, and a caption above it.

Lines that match no pattern appear together with the line before them.
"""
WAITING = ("stored in ", 5.4, "⏸  No process runs. The conversation is a file: {chat}.")
ROUND, TYPING, FADE = 16.0, 0.6, 0.25
"""Seconds: length of the animation loop, delay before a typed answer appears, and fade-in of a line."""

COLUMNS, ADVANCE, LINE, MARGIN = 90, 7.83, 19, 22
FONT = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
COLOURS = {"2": "#8b949e", "31": "#ff7b72", "32": "#7ee787", "33": "#e3b341", "36": "#79c0ff"}
SIGNS = str.maketrans({"⏸": "❚❚"})
"""Replacements for characters that many fonts lack or render as a color emoji."""
CAPTION = "#d2a8ff"
SGR = re.compile(r"\x1b\[([#0-9a-f;]*)m")
LEDGER = re.compile(r"^\$ +(?P<payment>.*?)  \(in (?P<ledger>.*)\)$", re.MULTILINE)
STORED = re.compile(r"stored in (\S+);")


def main() -> None:
    """Record a run and render it."""
    (ASSETS / "pause.svg").write_text(drawn(told()), encoding="utf-8")


def told() -> str:
    """Record the demo and remove temporary and absolute paths from its output."""
    with tempfile.TemporaryDirectory() as folder:
        text = recorded(Path(folder) / "approval-demo")
        text = text.replace(f"{folder}/", "").replace(f"{DEMO.parents[2]}/", "")
    return text.replace(" --folder approval-demo", "")


def recorded(folder: Path) -> str:
    """Run the demo in a pseudo-terminal, type the answers in `TYPED`, and return its output."""
    mine, theirs = os.openpty()
    environment = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    command = [sys.executable, str(DEMO), "--folder", str(folder)]
    with subprocess.Popen(  # noqa: S603 - a fixed command
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
        except OSError:  # the demo has closed its end of the terminal
            pass
    os.close(mine)
    return seen.decode().replace("\r", "")


# --- The picture ------------------------------------------------------------------------------------------------------


def drawn(text: str) -> str:
    """Return an animated SVG of the recorded output."""
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
    """Yield each line of the picture: its time, its distance to the line above, and its text."""
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
    """Return the CSS that hides a line until `moment` in each loop of the animation."""
    name = f"at{moment:g}".replace(".", "_")
    before, after = (100 * at / ROUND for at in (moment, moment + FADE))
    keys = f"0%, {before:.2f}% {{ fill-opacity: 0 }} {after:.2f}%, 100% {{ fill-opacity: 1 }}"
    return f".{name} {{ animation: {name} {ROUND:g}s linear infinite }} @keyframes {name} {{ {keys} }}"


def spans(line: str, moment: float) -> str:
    """Return a line as colored `tspan` elements.

    Each element has an explicit position, because fonts differ in the width of symbols.
    """
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
