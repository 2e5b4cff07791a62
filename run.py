"""Launcher for the sessions of noxfile.py that needs only Python 3.11 and pip.

`python3 run.py demo` runs the approval demo, `python3 run.py tests` runs the tests, and `python3 run.py --list` lists
all sessions. The first run installs locked versions of nox and uv under `.nox/`. Nothing outside this folder changes.
This file uses only the standard library and syntax that older Python versions can parse, so that they can report the
required version.
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
    """Install nox and uv if they are missing, and run nox with the command-line arguments."""
    if sys.version_info < OLDEST:
        _restart_with_newer_python()
    os.chdir(ROOT)
    tools = ROOT / ".nox" / "tools" / _key()
    if not tools.is_dir():
        _install(tools)
    sys.path.insert(0, str(tools))
    # Run in this process: a child would need PYTHONPATH, which the sessions inherit, and would share ctrl-C.
    nox = importlib.import_module("nox.__main__")
    sys.argv = [str(ROOT / "run.py"), *_nox_arguments(sys.argv[1:])]
    nox.main()


def _nox_arguments(words: list[str]) -> list[str]:
    """Return the nox arguments for the arguments of this script.

    `demo list --folder x` runs session `demo` with the remaining arguments. Arguments that begin with an option are
    passed to nox unchanged. Without arguments, nox lists the sessions.
    """
    if not words or words[0].startswith("-"):
        return words or ["--list"]
    return ["--sessions", words[0], "--", *(words[2:] if words[1:2] == ["--"] else words[1:])]


def _key() -> str:
    """Return a folder name derived from the lock and the Python version, so that no stale install is used."""
    return f"py{sys.version_info[0]}{sys.version_info[1]}-{hashlib.sha256(LOCK.read_bytes()).hexdigest()[:12]}"


def _install(tools: Path) -> None:
    """Install nox and uv in the folder `tools` with pip. This needs neither venv nor write access to the system."""
    sys.stderr.write("run.py: installs nox and uv under .nox/ (only once)\n")
    partial = tools.with_name(f"{tools.name}.{os.getpid()}")
    command = [sys.executable, "-m", "pip", "install", "-qq", "--root-user-action=ignore", "--require-hashes"]
    command += ["--no-deps", "--only-binary=:all:", "--target", str(partial), "--requirement", str(LOCK)]
    if subprocess.run(command, check=False).returncode:  # noqa: S603 - fixed arguments
        shutil.rmtree(partial, ignore_errors=True)
        sys.exit("run.py: pip could not install nox and uv; its message is above")
    try:
        partial.rename(tools)
    except OSError:  # another process installed first
        shutil.rmtree(partial, ignore_errors=True)


def _restart_with_newer_python() -> None:
    """Restart this script with the newest supported Python on the path, or exit with an error."""
    for name in ("python3.13", "python3.12", "python3.11"):
        path = shutil.which(name)
        if path and not subprocess.run([path, "-c", ""], check=False, capture_output=True).returncode:  # noqa: S603 - a program found by name
            os.execv(path, [path, str(Path(__file__)), *sys.argv[1:]])  # noqa: S606 - restarts this script
    sys.exit("run.py: this needs Python 3.11 or newer, not {}.{}".format(*sys.version_info[:2]))


if __name__ == "__main__":
    main()
