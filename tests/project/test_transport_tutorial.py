"""The transport of the tutorial has the stated length, and passes the transport suite on both event loops.

The tests of all pages check that its code runs and prints what the page shows.
"""

from __future__ import annotations

import ast
import re
from contextlib import suppress
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any, Final

import pytest
from anyio import BrokenResourceError, create_task_group, create_unix_listener
from anyio.abc import SocketStream
from chat_core.errors import TransportError
from chat_core.transport import Request, Transport
from chat_testing.transport_conformance import Peer, TransportCapabilities, TransportConformance

from .snippets import snippets
from .workspace import ROOT

PAGE: Final = ROOT / "docs" / "guides" / "transport-tutorial.md"
TEXT: Final = PAGE.read_text(encoding="utf-8")
PARTS: Final = ("translated_errors", "chunks", "request_sent", "UnixSocketTransport")


def final() -> dict[str, str]:
    """Return the parts of the transport, each in its last version on the page."""
    found: dict[str, str] = {}
    for snippet in snippets(TEXT):
        lines = snippet.code.splitlines()
        for node in ast.parse(snippet.code).body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and node.name in PARTS:
                begin = min([node.lineno, *[decorator.lineno for decorator in node.decorator_list]])
                found[node.name] = "\n".join(lines[begin - 1 : node.end_lineno])
    return found


def imports() -> str:
    """Return the imports of the page before its first run of the whole suite."""
    nodes = [
        node for snippet in snippets(TEXT.partition("Now the whole kit")[0]) for node in ast.parse(snippet.code).body
    ]
    return "\n".join([ast.unparse(node) for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)])


def made() -> Any:
    """Return the class of the transport, created from the page alone."""
    module = ModuleType("tutorial")
    parts = final()
    code = "\n\n".join([imports(), *[parts[name] for name in PARTS]])
    exec(compile(code, str(PAGE), "exec", dont_inherit=True), vars(module))  # noqa: S102 - our page
    return vars(module)["UnixSocketTransport"]


class TestTutorialTransport(TransportConformance):
    capabilities = TransportCapabilities(chunked=False)
    address = "unix"

    def make_transport(self, peer: Peer, /) -> Transport:
        transport: Transport = made()(peer.path)
        return transport


@pytest.mark.anyio
@pytest.mark.parametrize("head", [b"HTTP/1.0\r\n\r\n", b"HTTP/1.0 fine\r\n\r\n", b"HTTP/1.0 200 Fine\r\n" * 10_000])
async def test_an_invalid_response_head_raises_a_protocol_error(head: bytes) -> None:
    async def answers(socket: SocketStream) -> None:
        async with socket:
            await socket.receive()
            with suppress(BrokenResourceError):  # the reader leaves the stream early
                await socket.send(head)

    kinds: list[str] = []
    # The path of a Unix socket may be no longer than about a hundred bytes.
    with TemporaryDirectory(prefix="chat") as folder:
        async with await create_unix_listener(f"{folder}/s") as listener, create_task_group() as tasks:
            tasks.start_soon(listener.serve, answers)
            with pytest.raises(TransportError) as caught:
                await made()(f"{folder}/s").send(Request("GET", "http", "llm", "/"))
            kinds.append(caught.value.kind)
            tasks.cancel_scope.cancel()

    assert kinds == ["protocol"]


def test_the_transport_has_the_documented_number_of_lines() -> None:
    promised = re.search(r"Without docstrings, the transport is (\d+) lines long", TEXT)
    lines = [line.strip() for part in final().values() for line in part.splitlines()]
    lines = [line for line in lines if line and not line.startswith('"""')]

    assert promised is not None
    assert len(lines) == int(promised[1])


@pytest.mark.parametrize("name", PARTS)
def test_the_last_version_of_each_part_is_in_the_documented_step(name: str) -> None:
    steps = re.split(r"^## ", TEXT, flags=re.MULTILINE)
    last = max(
        number
        for number, step in enumerate(steps)
        if re.search(rf"^(?:async )?(?:def|class) {name}\b", step, re.MULTILINE)
    )

    assert steps[last].startswith("5." if name == "UnixSocketTransport" else "3.")
