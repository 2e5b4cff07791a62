"""A process that is killed inside an agent at depth 2."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import anyio
import pytest
from chat_core import ConflictError
from delegate_world import run
from test_delegate_tool import result_of

HERE = Path(__file__).parent


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_killed_delegation_repeats_no_effect(tmp_path: Path) -> None:
    command = [sys.executable, str(HERE / "delegate_world.py"), str(tmp_path)]
    died = await anyio.run_process(command, check=False)
    assert died.returncode == -signal.SIGKILL, died.stderr
    session = None
    with anyio.fail_after(20):
        while session is None:
            try:
                session = await run(tmp_path, None, deadly=False)
            except ConflictError:  # the lease of the dead process has not expired
                await anyio.sleep(0.2)
    assert (tmp_path / "words").read_text() == "one\ntwo\n"
    assert result_of(session) == "## Result from 'manager'\n\nIt is written."
