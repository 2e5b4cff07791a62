"""What programs try to reach from a sandbox: a server, a process, and a folder with files."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path
from typing import final


@final
class Targets:
    """A listening socket, a waiting process, and a folder with a file of the name of CPython's library."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        (folder / "python315.zip").write_bytes(b"abcd")
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)

    def close(self) -> None:
        self.listener.close()
        self.process.kill()
        self.process.communicate()

    def insert_addresses(self, program: str) -> str:
        """Return a program with the port of the server, the id of the process and the path of the folder."""
        port = self.listener.getsockname()[1]
        for name, value in (("PORT", port), ("PID", self.process.pid), ("FOLDER", self._folder)):
            program = program.replace(name, str(value))
        return program

    def reached(self) -> list[str]:
        """Return which of the server, the process and the folder a program has reached."""
        found = [] if self.process.poll() is None else ["process"]
        if sorted(path.name for path in self._folder.iterdir()) != ["python315.zip"]:
            found.append("folder")
        self.listener.setblocking(False)
        try:
            self.listener.accept()[0].close()
        except BlockingIOError:
            return found
        return [*found, "server"]
