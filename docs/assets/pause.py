"""Draws pause.svg: a run of the demo with the real model, in a terminal, with somebody at the question.

python docs/assets/pause.py
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from html import escape
from pathlib import Path

ASSETS = Path(__file__).parent
DEMO = ASSETS.parent / "examples" / "approval"
TYPED = (("approve, edit or reject? ", "edit"), ("to [Bo] = ", ""), ("cents [500] = ", "300"))

COLUMNS, ADVANCE, LINE, MARGIN = 90, 7.83, 19, 22
FONT = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
COLOURS = {"2": "#8b949e", "31": "#ff7b72", "32": "#7ee787", "33": "#e3b341", "36": "#79c0ff"}
SGR = re.compile(r"\x1b\[([0-9;]*)m")


def main() -> None:
    """Record a run, and draw it."""
    with tempfile.TemporaryDirectory() as folder:
        text = recorded(Path(folder) / "approval-demo")
        text = text.replace(f"{folder}/", "").replace(f"{DEMO.parents[2]}/", "")
    # What this folder was called is nobody's business, and how long a key is neither.
    text = text.replace(" --folder approval-demo", "")
    text = re.sub(r"  [0-9a-f]{32}  \(in .*?\)", "", text)
    (ASSETS / "pause.svg").write_text(drawn(text.strip().splitlines()), encoding="utf-8")


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


def drawn(lines: list[str]) -> str:
    """A picture of these lines."""
    width, height = round(COLUMNS * ADVANCE + 2 * MARGIN), len(lines) * LINE + 2 * MARGIN
    rows = [
        f'<text y="{MARGIN + number * LINE + 14}">{spans(line)}</text>'
        for number, line in enumerate(lines)
        if SGR.sub("", line).strip()
    ]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}"',
            ' role="img">',
            "<title>One process asks the model and ends at the pause; another one decides and goes on</title>",
            f"<style>text {{ font: 13px {FONT}; fill: #e6edf3; white-space: pre }}</style>",
            f'<rect width="{width}" height="{height}" rx="8" fill="#0d1117"/>',
            *rows,
            "</svg>",
            "",
        ]
    )


def spans(line: str) -> str:
    """A line with its colours. Where a piece begins is said: fonts disagree how wide a sign is that is no letter."""
    drawn: list[str] = []
    style, column = "", 0
    for number, piece in enumerate(SGR.split(line)):
        if number % 2:
            codes = piece.split(";")
            style = "".join([f' fill="{COLOURS[code]}"' for code in codes if code in COLOURS])
            style += ' font-weight="bold"' if "1" in codes else ""
            continue
        if piece.strip():
            x = MARGIN + (column + len(piece) - len(piece.lstrip())) * ADVANCE
            drawn.append(f'<tspan x="{x:g}"{style}>{escape(piece.strip(), quote=False)}</tspan>')
        column += len(piece)
    return "".join(drawn)


if __name__ == "__main__":
    main()
