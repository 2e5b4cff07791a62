"""A run over a file is cancelled at each of its awaits: the file contains everything that the run completed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from cancel_world import WAYS, Story, interrupted, interrupted_natively
from chat_store import FileConversation

pytestmark = pytest.mark.anyio


@WAYS
@pytest.mark.parametrize("by", [interrupted, interrupted_natively])
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_run_cancelled_at_any_suspension_has_stored_its_progress(
    *, streaming: bool, by: Callable[..., Awaitable[bool]], tmp_path: Path
) -> None:
    suspension = 0
    reached = True
    while reached:
        suspension += 1
        path = tmp_path / f"{suspension}.jsonl"
        story = Story(durable=False)
        async with FileConversation.create(path, story.messages) as story.target:
            async with asyncio.timeout(30):
                reached = await by(story, streaming=streaming, suspension=suspension)
            story.require_order()
            async with FileConversation.open(path) as elsewhere:
                await elsewhere.claim()
                assert elsewhere.messages == story.messages
                await elsewhere.release()
            await story.finish(streaming=streaming)
    assert suspension > 4
