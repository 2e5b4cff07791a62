"""Launching DBOS as the workflows of this package need it."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import sys
from collections.abc import AsyncGenerator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

from chat_core.concurrency import finish
from chat_core.errors import UsageError
from dbos import DBOS, DBOSConfig

from chat_dbos._leaving import TASKS

WORKFLOW_VERSION = "chat-dbos-1"
"""Names how the workflows of this package take their steps. It changes only when an older one could not go on."""

_ASKS_FOR_MILLISECONDS: Final = sys.version_info >= (3, 12)
_HAS_MILLISECONDS: Final = sqlite3.sqlite_version_info >= (3, 42)
"""On newer Pythons DBOS takes the time from SQLite in a way that older ones do not know, and fails at its first row."""


@asynccontextmanager
async def launched(config: DBOSConfig, *, grace_seconds: float = 30.0) -> AsyncGenerator[None]:
    """Launch DBOS in this event loop, and end it with the block; what is under way then goes on at the next launch.

    Every `DurableChats` is made before. DBOS is one for a process: so is this block.

    Args:
        config: of DBOS. `executor_id`, or the variable `DBOS__VMID`, must name this worker: no other live one has the
            name, and after a restart it has it again, and takes up what it was at. `application_version` is
            `WORKFLOW_VERSION` unless given: the one that DBOS makes up changes with any workflow of the program, and
            then nobody takes up the older ones.
        grace_seconds: what a run that is under way may take to end, when the block is left. What it leaves in the
            middle of a tool then is an interruption, as if the process had died.

    Raises:
        UsageError: the worker has no name; or DBOS cannot use the SQLite of this Python.
    """
    _require_a_database_that_serves(config)
    if not (config.get("executor_id") or os.environ.get("DBOS__VMID")):
        msg = (
            "launched() needs executor_id in its config: a name that no other live worker has, the same after a "
            "restart; DBOS would call every worker 'local', and each would take up what the others are at"
        )
        raise UsageError(msg)
    version = config.get("application_version") or os.environ.get("DBOS__APPVERSION") or WORKFLOW_VERSION
    DBOS(config={**config, "application_version": version})
    try:
        DBOS.launch()
        yield
    finally:
        await finish(partial(_leave, grace_seconds))


async def _leave(grace_seconds: float) -> None:
    async with TASKS.left(grace_seconds):
        loop = asyncio.get_running_loop()
        # DBOS puts its threads in the place of those of this loop, and ends them: `to_thread()` is to go on working.
        loop.set_default_executor(ThreadPoolExecutor())
        await loop.run_in_executor(None, DBOS.destroy)


def _require_a_database_that_serves(config: DBOSConfig) -> None:
    url = config.get("system_database_url") or "sqlite"
    if url.startswith("sqlite") and _ASKS_FOR_MILLISECONDS and not _HAS_MILLISECONDS:
        msg = (
            f"DBOS needs SQLite 3.42 or newer on this Python, which has {sqlite3.sqlite_version}: set "
            "system_database_url to a PostgreSQL, or use a Python that was built with a newer SQLite"
        )
        raise UsageError(msg)
