"""Runs a session of noxfile.py on a machine that has nothing but Python 3.11 and pip.

`python3 run.py demo` shows the pause, `python3 run.py tests` passes the tests, `python3 run.py --list` names the rest.
Nox and uv are installed once, locked, under `.nox/`, and nothing outside this folder is touched. Only the standard
library is used here, in words that an older Python can read, so that one is told what it lacks.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent
LOCK = ROOT / "requirements" / "tools.txt"
OLDEST = (3, 11)


def main() -> None:
    """Install nox and uv if they are not there yet, and hand the arguments to nox."""
    if sys.version_info < OLDEST:
        _go_on_with_a_newer_python()
    os.chdir(ROOT)
    tools = ROOT / ".nox" / "tools" / _key()
    if not tools.is_dir():
        _install(tools)
    sys.path.insert(0, str(tools))
    # Not in a child process: PYTHONPATH would reach the sessions, and a terminal belongs to the demo alone.
    nox = importlib.import_module("nox.__main__")
    sys.argv = [str(ROOT / "run.py"), *_nox_arguments(sys.argv[1:])]
    nox.main()


def _nox_arguments(words: list[str]) -> list[str]:
    """`demo list --folder x` is session `demo`, given the rest; what begins with a dash is for nox itself."""
    if not words or words[0].startswith("-"):
        return words or ["--list"]
    return ["--sessions", words[0], "--", *(words[2:] if words[1:2] == ["--"] else words[1:])]


def _key() -> str:
    """A folder name that changes with the lock and with the interpreter, so that no stale install is used."""
    return f"py{sys.version_info[0]}{sys.version_info[1]}-{hashlib.sha256(LOCK.read_bytes()).hexdigest()[:12]}"


def _install(tools: Path) -> None:
    """Install to a folder: this needs pip alone, neither the venv module nor a right to the system's packages."""
    partial = tools.with_name(f"{tools.name}.{os.getpid()}")
    command = [sys.executable, "-m", "pip", "install", "-qq", "--root-user-action=ignore", "--require-hashes"]
    command += ["--no-deps", "--only-binary=:all:", "--target", str(partial), "--requirement", str(LOCK)]
    if subprocess.run(command, check=False).returncode:  # noqa: S603 - our own words
        shutil.rmtree(partial, ignore_errors=True)
        sys.exit("run.py: pip could not install nox and uv; its message is above")
    try:
        partial.rename(tools)
    except OSError:  # another run was faster
        shutil.rmtree(partial, ignore_errors=True)


def _go_on_with_a_newer_python() -> None:
    """Start again with the newest Python on the path, or say what is missing."""
    for name in ("python3.13", "python3.12", "python3.11"):
        path = shutil.which(name)
        if path and not subprocess.run([path, "-c", ""], check=False, capture_output=True).returncode:  # noqa: S603
            os.execv(path, [path, str(Path(__file__)), *sys.argv[1:]])  # noqa: S606 - the same script, nothing else
    sys.exit("run.py: this needs Python 3.11 or newer, not {}.{}".format(*sys.version_info[:2]))


if __name__ == "__main__":
    main()
