"""An AG-UI client for tests: it posts requests, and checks each event with the official package `ag-ui-protocol`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ag_ui.core import Event, RunAgentInput
from chat_core.approvals import owner_may_decide
from chat_streams import AGUI
from pydantic import TypeAdapter
from stream_world import ANA

if TYPE_CHECKING:
    from chat_core.approvals import MayDecide, Principal
    from chat_core.testing import MemoryConversation
    from stream_world import PausingChat

_EVENTS: TypeAdapter[Any] = TypeAdapter(Event)

Fields = dict[str, Any]


def parse(data: bytes) -> list[Fields]:
    """Return the events of a response, each of which the official package accepts."""
    blocks = data.decode().split("\n\n")
    assert blocks.pop() == ""
    events: list[Fields] = []
    for block in blocks:
        assert block.startswith("data: ")
        assert "\n" not in block
        event = json.loads(block.removeprefix("data: "))
        written = _EVENTS.validate_python(event).model_dump(mode="json", by_alias=True, exclude_unset=True)
        assert written == event
        events.append(event)
    return events


def types(events: list[Fields]) -> list[str]:
    return [event["type"] for event in events]


class FrontEnd:
    """A front end of one person that keeps the messages as the official client does, apart from text it receives."""

    def __init__(
        self,
        target: MemoryConversation,
        chat: PausingChat,
        *,
        principal: Principal = ANA,
        may_decide: MayDecide = owner_may_decide,
        shared: str | None = None,
    ) -> None:
        self.target = target
        self.chat = chat
        self.principal = principal
        self.agent = AGUI(may_decide=may_decide, shared=shared)
        self.interrupts: list[Fields] = []

    def body(self, *messages: Fields, **fields: Any) -> bytes:
        given: Fields = {
            "threadId": "t-1",
            "runId": "r-1",
            "messages": [*messages],
            "state": {},
            "tools": [],
            "context": [],
        }
        request: Fields = {**given, "forwardedProps": {}, **fields}
        RunAgentInput.model_validate(request)
        return json.dumps(request).encode()

    async def post(self, *messages: Fields, **fields: Any) -> list[Fields]:
        """Post messages and return the events. The interrupts of the last event are kept."""
        chunks: list[bytes] = []

        async def send(data: bytes) -> None:
            chunks.append(data)

        request = self.agent.read(self.body(*messages, **fields))
        await self.agent.run(request, self.target, chat=self.chat, principal=self.principal, send=send)
        events = parse(b"".join(chunks))
        assert types(events)[-1] in {"RUN_FINISHED", "RUN_ERROR"}
        assert sum(kind in {"RUN_FINISHED", "RUN_ERROR"} for kind in types(events)) == 1
        self.interrupts = events[-1].get("outcome", {}).get("interrupts", [])
        return events

    async def resume(self, *payloads: object, **fields: Any) -> list[Fields]:
        """Answer the kept interrupts. None cancels one."""
        entries = [
            {"interruptId": interrupt["id"], "status": "cancelled"}
            if payload is None
            else {"interruptId": interrupt["id"], "status": "resolved", "payload": payload}
            for interrupt, payload in zip(self.interrupts, payloads, strict=False)
        ]
        return await self.post(*fields.pop("messages", ()), resume=entries, **fields)


def user(id: str, text: str = "hi") -> Fields:
    return {"id": id, "role": "user", "content": text}


def text_of(events: list[Fields], kind: str = "TEXT_MESSAGE_CONTENT") -> str:
    return "".join([event["delta"] for event in events if event["type"] == kind])


def only(events: list[Fields], kind: str) -> Fields:
    (event,) = [event for event in events if event["type"] == kind]
    return event
