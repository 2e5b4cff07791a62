"""How the process ends."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

COMMAND = (sys.executable, "-m", "chat_cli")


def test_python_m_is_the_same_command(desk: Any) -> None:
    command = [*COMMAND, "Name a river.", *desk.talker]
    ended = subprocess.run(command, check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL)

    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "The Loire.\n", "")


def test_a_failure_of_the_library_is_one_line_and_code_one(chat: Any, desk: Any) -> None:
    (desk.folder / "broken.py").write_text(
        "from chat_core import Network\n"
        "from chat_core.testing import ScriptedProvider\n"
        "model = ScriptedProvider(*[Network('the line is dead')] * 9)\n"
    )

    ended = chat("Hello?", "--model", f"python:{desk.folder / 'broken.py'}:model")
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.strip().splitlines()[-1] == "Network: the line is dead"


def test_a_reader_that_leaves_is_not_complained_about(desk: Any) -> None:
    with subprocess.Popen(
        [*COMMAND, "sessions"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL
    ) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        error = process.stderr.read()

    assert b"Traceback" not in error
    assert desk.folder.is_dir()
