"""A client that resets its connection at any event of a run: what is stored stays valid, and effects happen once.

A sample of the events by default, and every event with CHAT_THOROUGH.
"""

from __future__ import annotations

import json
import os
import random
import socket
import struct
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

import httpx
import openai
import pytest
from openai import OpenAI

from .processes import Child

SAMPLE: Final = 6
PATIENCE: Final = 20.0
"""Seconds until a cancelled run must have released its conversation."""


@pytest.fixture(scope="module")
def responses_address() -> Iterator[str]:
    """Return the address of a server that cancels a run when its client disconnects."""
    with Child([sys.executable, "-m", "tests.servers.openai_server"]) as child:
        yield child.until(r"serving (http://\S+)")


@pytest.fixture(scope="module")
def agui_address() -> Iterator[str]:
    """Return the address of a server that continues a run without its client."""
    with Child([sys.executable, "-m", "tests.servers.agui_server"]) as child:
        yield child.until(r"serving (http://\S+)")


def post(address: str, path: str, body: object, *, reset_after: int | None = None) -> int:
    """Post a request and reset the connection after some server-sent events. Return the number of received events."""
    url, content = urlsplit(address), json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nhost: {url.netloc}\r\nauthorization: Bearer ana\r\nconnection: close\r\n"
    events = 0
    with socket.create_connection((url.hostname, url.port), timeout=PATIENCE) as connection:
        # With a linger time of zero, close() sends RST instead of FIN.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.sendall(f"{head}content-length: {len(content)}\r\n\r\n".encode() + content)
        received = b""
        while events != reset_after and (data := connection.recv(1)):
            received += data
            events += received.endswith(b"\n\n")
    return events


def chosen(events: int) -> Sequence[int]:
    """Return after how many events the connection is reset."""
    every = range(events + 1)
    if os.environ.get("CHAT_THOROUGH"):
        return every
    return sorted(random.Random(53).sample(every, SAMPLE))


def request(session: str) -> dict[str, Any]:
    return {"model": "paced", "input": "Charge it.", "conversation": session, "stream": True}


def effects(address: str) -> int:
    done: list[str] = httpx.get(f"{address}/effects").json()
    return done.count("charged 3")


def continue_to_the_end(client: OpenAI, address: str, session: str, before: int) -> str:
    """Continue a conversation as a client would, and return its last text."""
    given: Any = []
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        try:
            answer = client.responses.create(model="paced", input=given, conversation=session)
        except openai.BadRequestError as error:
            assert "has no messages yet" in str(error)  # noqa: PT017 - the message was not stored
            given = "Charge it."
        except openai.ConflictError as error:
            assert "Another run" in str(error)  # noqa: PT017 - the cancelled run still has the conversation
            time.sleep(0.02)
        else:
            asked = [item for item in answer.output if item.type == "mcp_approval_request"]
            if not asked:
                return answer.output_text
            repeat = effects(address) == before
            given = [
                {"type": "mcp_approval_response", "approval_request_id": item.id, "approve": repeat} for item in asked
            ]
    raise AssertionError


def test_a_run_cancelled_after_any_event_is_resumed_without_repeated_effects(responses_address: str) -> None:
    total = post(responses_address, "/v1/responses", request("whole"))
    assert total > SAMPLE
    with OpenAI(base_url=f"{responses_address}/v1", api_key="ana", max_retries=0, timeout=PATIENCE) as client:
        for count in chosen(total):
            session, before = f"reset-{count}", effects(responses_address)
            post(responses_address, "/v1/responses", request(session), reset_after=count)
            text = continue_to_the_end(client, responses_address, session, before)
            stored = httpx.get(f"{responses_address}/stored/{session}").json()

            assert text.endswith("It is charged."), count
            assert effects(responses_address) == before + 1, count
            assert json.dumps(stored).count("Charge it.") == 1, count


def test_a_run_continues_after_its_client_disconnects_at_any_event(agui_address: str) -> None:
    def body(thread: str, *messages: object) -> dict[str, Any]:
        fields: dict[str, Any] = {"state": {}, "tools": [], "context": [], "forwardedProps": {}}
        return {"threadId": thread, "runId": "r-1", "messages": [*messages], **fields}

    question = {"id": "m-1", "role": "user", "content": "How is it?"}
    total = post(agui_address, "/paced/agui", body("whole", question))
    assert total > SAMPLE
    for count in chosen(total):
        post(agui_address, "/paced/agui", body(f"t-{count}", question), reset_after=count)
        deadline = time.monotonic() + PATIENCE
        events: list[Any] = []
        while not events or events[-1]["type"] == "RUN_ERROR":
            assert time.monotonic() < deadline, (count, events)
            data = httpx.post(f"{agui_address}/paced/agui", json=body(f"t-{count}", question)).text
            events = [json.loads(block.removeprefix("data: ")) for block in data.split("\n\n")[:-1]]
        data = httpx.post(f"{agui_address}/paced/agui", json=body(f"t-{count}")).text
        (shown,) = [event for event in map(_parse, data.split("\n\n")[:-1]) if event["type"] == "MESSAGES_SNAPSHOT"]

        assert [item["role"] for item in shown["messages"]] == ["user", "assistant", "tool", "assistant"], count
        assert shown["messages"][-1]["content"] == "It rains.", count


def _parse(block: str) -> Any:
    return json.loads(block.removeprefix("data: "))
