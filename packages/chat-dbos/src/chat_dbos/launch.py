"""A context manager that launches and destroys DBOS with the settings that the workflows of this package need."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import sys
from collections.abc import AsyncGenerator, Generator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import Final

from chat_core.arguments import require_type
from chat_core.concurrency import finish
from chat_core.errors import UsageError
from dbos import DBOS, DBOSConfig
from dbos import error as dbos_errors

from chat_dbos._shutdown import WORKFLOW_TASKS

WORKFLOW_VERSION = "chat-dbos-1"
"""The application version for DBOS. It changes only if workflows of the previous version can no longer be recovered."""

_NEEDS_SUBSECOND_TIMES: Final = sys.version_info >= (3, 12)
_HAS_SUBSECOND_TIMES: Final = sqlite3.sqlite_version_info >= (3, 42)
"""Whether SQLite has the time function that DBOS requires from Python 3.12 on. SQLite 3.42 introduced it."""
_NOT_RUNNING: Final = ("No DBOS was created", "before DBOS was launched", "before DBOS initialized")
"""Parts of the messages of DBOS in a process that does not run it."""


@asynccontextmanager
async def launched(config: DBOSConfig, *, grace_seconds: float = 30.0) -> AsyncGenerator[None]:
    """Return a context manager that launches DBOS in this event loop on entry, and destroys DBOS on exit.

    Workflows that have not ended by then resume at the next launch.

    Create every `DurableChats` before entering the block. A process has only one DBOS, and can therefore enter only one
    such block.

    Args:
        config: settings of DBOS. `executor_id`, or the environment variable `DBOS__VMID`, must be a name that no other
            running worker has and that is the same after a restart, because a worker recovers the workflows of its
            name. `application_version` defaults to `WORKFLOW_VERSION`. DBOS's own default changes with any workflow of
            the program, and workflows of another version are not recovered.
        grace_seconds: seconds that a run may take to finish after the block is exited. Then it is cancelled; a tool
            call that is running at that moment is recorded as interrupted.

    Raises:
        UsageError: `executor_id` is missing, DBOS refuses the config, or it cannot use this Python's version of SQLite.
    """
    require_type("config", config, Mapping, "a DBOSConfig")
    _require_usable_database(config)
    if not (config.get("executor_id") or os.environ.get("DBOS__VMID")):
        msg = (
            "launched() needs executor_id in its config: a name that no other running worker has and that is the same "
            "after a restart. Otherwise DBOS names every worker 'local', and each recovers the workflows of the others"
        )
        raise UsageError(msg)
    version = config.get("application_version") or os.environ.get("DBOS__APPVERSION") or WORKFLOW_VERSION
    try:
        DBOS(config={**config, "application_version": version})
    except (dbos_errors.DBOSInitializationError, TypeError) as error:
        msg = f"DBOS cannot use this config: {error}"
        raise UsageError(msg) from error
    try:
        DBOS.launch()
        yield
    finally:
        await finish(partial(_shut_down, grace_seconds))


@contextmanager
def require_dbos() -> Generator[None]:
    """Return a context manager that raises `UsageError` if its block needs DBOS and this process does not run DBOS."""
    try:
        yield
    except dbos_errors.DBOSException as error:
        # DBOS has no error class for this case. Other failures raise the same class with other messages.
        if not any(text in error.message for text in _NOT_RUNNING):
            raise
        msg = (
            f"DBOS does not run in this process ({error.message}): call this inside `async with launched(config)`, or, "
            "to wake a workflow of another process, pass a DBOSClient"
        )
        raise UsageError(msg) from error


@contextmanager
def require_free_name(name: str) -> Generator[None]:
    """Return a context manager that raises `UsageError` if another module has registered a workflow of the same name.

    DBOS does not refuse a second workflow of the same module. It logs a warning, and the second one replaces the first.

    Args:
        name: name of the workflow in DBOS.
    """
    try:
        yield
    except dbos_errors.DBOSException as error:
        msg = f"another kind of workflow has the name {name!r}: pass another name=..."
        raise UsageError(msg) from error


async def _shut_down(grace_seconds: float) -> None:
    async with WORKFLOW_TASKS.shut_down(grace_seconds):
        loop = asyncio.get_running_loop()
        # DBOS replaces the default executor of the loop and shuts it down; `to_thread()` must keep working.
        loop.set_default_executor(ThreadPoolExecutor())
        await loop.run_in_executor(None, DBOS.destroy)


def _require_usable_database(config: DBOSConfig) -> None:
    url = config.get("system_database_url") or "sqlite"
    if url.startswith("sqlite") and _NEEDS_SUBSECOND_TIMES and not _HAS_SUBSECOND_TIMES:
        msg = (
            f"DBOS needs SQLite 3.42 or newer on this Python, which has {sqlite3.sqlite_version}: set "
            "system_database_url to a PostgreSQL, or use a Python that was built with a newer SQLite"
        )
        raise UsageError(msg)
