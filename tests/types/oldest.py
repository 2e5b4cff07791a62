"""The corpora with the oldest supported version of each checker, which docs/concepts/types.md names.

The versions are installed into a temporary folder, from the package index.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

OLDEST = ("basedpyright==1.40.0", "mypy==2.2.0", "pyrefly==1.2.1", "pyright==1.1.412", "ty==0.0.100")


def main() -> int:
    """Install the versions, run `check.py` with them, and return its exit status."""
    with tempfile.TemporaryDirectory() as folder:
        install = ["uv", "pip", "install", "--quiet", "--python", sys.executable, "--target", folder, *OLDEST]
        subprocess.run(install, check=True)
        environment = {**os.environ, "PYTHONPATH": folder, "CHAT_CHECKERS": str(Path(folder) / "bin")}
        program = [sys.executable, str(Path(__file__).with_name("check.py")), "--without-messages"]
        return subprocess.run(program, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
