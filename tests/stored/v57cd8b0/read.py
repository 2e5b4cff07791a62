"""Show what chat_core of commit 57cd8b0 makes of newer documents. `chat_core.zip` beside this file is that package.

Standard input is a JSON array of documents. Standard output is a JSON array with an object for each document:

- `document`: the document as this version writes it again.
- `expired`: paths of the calls that `expire()` rejects in a hundred years.
- `approvals`: for each call that waits, the name of what `approve()` raises, or `NoneType`.
- `runs`: for each policy, the name of the outcome or the error of a run in a hundred years.
- `ran`: arguments of the tool `measure`, each time that its body ran.
"""

from __future__ import annotations

import asyncio
import json
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "chat_core.zip"))

from chat_core import (  # noqa: E402
    ChatBuilder, Execute, Messages, RequireApproval, Schedule, ScopedCollection, ToolCollection,
)
from chat_core.approvals import expire  # noqa: E402
from chat_core.errors import ChatError  # noqa: E402
from chat_core.messages import Text, Turn  # noqa: E402
from chat_core.provider import ProviderMeta  # noqa: E402

LATER = datetime.now(UTC) + timedelta(days=36500)
POLICIES = {"execute": Execute(), "approve": RequireApproval(), "schedule": Schedule(LATER)}


class Provider:
    metadata = ProviderMeta("none", "none")

    async def complete(self, messages, tools, options, structured_output):
        return Turn([Text("Done.")], finish_reason="stop")


def chat(policy, ran):
    tools = ToolCollection()

    @tools.tool
    async def measure(room: str) -> str:
        ran.append(room)
        return "12"

    scope = ScopedCollection(tools, lambda call, meta: policy)
    return ChatBuilder().with_model(Provider()).with_scoped_tools(scope).with_clock(lambda: LATER).build()


def outcome(action):
    try:
        return type(action()).__name__
    except ChatError as error:
        return type(error).__name__


def examine(text):
    messages, ran = Messages.from_json(text), []
    found = {"document": messages.to_json(), "expired": [list(path) for path in expire(messages, now=LATER)]}
    found["approvals"] = [outcome(tool.approve) for tool in messages.pending()]
    found["runs"] = {
        name: outcome(lambda policy=policy: asyncio.run(chat(policy, ran).complete(Messages.from_json(text))))
        for name, policy in POLICIES.items()
    }
    return found | {"ran": ran}


print(json.dumps([examine(text) for text in json.load(sys.stdin)]))
