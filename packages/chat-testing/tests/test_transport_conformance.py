"""The transport suite: clauses, capabilities and report, and a short transport that passes it."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import textwrap
from collections.abc import AsyncGenerator, Generator
from contextlib import aclosing, asynccontextmanager, contextmanager
from pathlib import Path

import anyio
import pytest
from anyio.abc import SocketStream
from chat_core.errors import TransportError, UsageError
from chat_core.transport import (
    EventStream,
    Headers,
    Request,
    Response,
    Transport,
    framed,
    framing,
    protocol,
    values,
)
from chat_testing.transport_conformance import (
    CLAUSES,
    TRANSPORT_SCENARIOS,
    Peer,
    TransportCapabilities,
    TransportConformance,
    transport_report,
)

MODULES = (protocol, values, framing)
ADVICE = (
    "Implementations decorate this method with `@asynccontextmanager` and",
    "The protocol that transports implement.",
    "Raises:",
)
"""Sentences of the protocol documentation that are advice and not requirements."""


# A transport in a few lines: HTTP/1.0, whose answers end where their connections do


@contextmanager
def translated(kind: str) -> Generator[None]:
    try:
        yield
    except TimeoutError as error:
        raise TransportError("timeout", "nothing came in time") from error
    except (OSError, anyio.BrokenResourceError) as error:
        raise TransportError(kind, f"{type(error).__name__}: {error}") from error


class PlainTransport:
    def __init__(self, path: str = "") -> None:
        self._path = path

    async def _connect(self, host: str) -> SocketStream:
        if self._path:
            return await anyio.connect_unix(self._path)
        name, _, port = host.partition(":")
        return await anyio.connect_tcp(name, int(port))

    async def send(self, request: Request, /) -> Response:
        async with self._exchange(request) as (status, headers, chunks):
            return Response(status, headers, b"".join([chunk async for chunk in chunks]))

    @asynccontextmanager
    async def stream(self, request: Request, /) -> AsyncGenerator[EventStream]:
        async with self._exchange(request) as (status, headers, chunks):
            if status // 100 != 2:
                body = b"".join([chunk async for chunk in chunks])
                raise TransportError("status", f"refused with {status}", status=status, headers=headers, body=body)
            async with aclosing(framed(chunks, request.framing, is_last=request.is_last)) as batches:
                yield EventStream(status, headers, batches)

    async def aclose(self) -> None:
        """Do nothing, because no connection is open between exchanges."""

    @asynccontextmanager
    async def _exchange(self, request: Request) -> AsyncGenerator[tuple[int, Headers, AsyncGenerator[bytes]]]:
        with translated("connect"), anyio.fail_after(request.timeouts.connect):
            socket = await self._connect(request.host)
        async with socket, aclosing(received(socket, request.timeouts.idle)) as chunks:
            fields = [*request.headers, ("host", request.host), ("content-length", str(len(request.body)))]
            lines = [
                f"{request.method} {request.path} HTTP/1.0",
                *[f"{name}: {value}" for name, value in fields],
                "",
                "",
            ]
            with translated("stream"), anyio.fail_after(request.timeouts.idle):
                await socket.send("\r\n".join(lines).encode() + request.body)
            head = await anext(chunks, b"")
            status, *rest = head.decode("latin-1").split("\r\n")
            if not status.startswith("HTTP/"):
                raise TransportError("protocol" if head else "stream", f"the answer begins with {status!r}")
            headers = Headers([(name, value.strip()) for name, _, value in [line.partition(":") for line in rest]])
            yield int(status.split()[1]), headers, chunks


async def received(socket: SocketStream, idle: float | None) -> AsyncGenerator[bytes]:
    """Return the head of a response, then the chunks of its body."""
    data, head = b"", True
    while True:
        with translated("stream"), anyio.fail_after(idle):
            try:
                data += await socket.receive()
            except anyio.EndOfStream:
                return
        if head and b"\r\n\r\n" in data:
            first, _, data = data.partition(b"\r\n\r\n")
            head = False
            yield first
        if not head and data:
            yield data
            data = b""


class TestPlainTransport(TransportConformance):
    capabilities = TransportCapabilities(chunked=False)

    def make_transport(self, _peer: Peer, /) -> Transport:
        return PlainTransport()


class TestPlainTransportAtAUnixSocket(TransportConformance):
    capabilities = TransportCapabilities(chunked=False)
    address = "unix"

    def make_transport(self, peer: Peer, /) -> Transport:
        return PlainTransport(peer.path)


# The clauses


def said(module: object) -> str:
    """Return every docstring of a module with normalized white space."""
    source = Path(str(getattr(module, "__file__", ""))).read_text(encoding="utf-8")
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    texts = [ast.get_docstring(node) or "" for node in ast.walk(ast.parse(source)) if isinstance(node, kinds)]
    return " ".join(" ".join(texts).split())


def test_every_clause_is_quoted_from_the_documentation() -> None:
    documentation = " ".join(said(module) for module in MODULES)

    assert [clause for clause in CLAUSES.values() if clause not in documentation] == []


def test_every_sentence_of_the_protocol_documentation_is_a_clause_or_advice() -> None:
    rest = said(protocol)
    for text in (*CLAUSES.values(), *ADVICE):
        rest = rest.replace(text, " ")

    assert re.findall(r"\w+", rest) == []


def test_every_clause_has_a_scenario() -> None:
    looked_at = {clause for scenario in TRANSPORT_SCENARIOS for clause in scenario.clauses}

    assert looked_at == set(CLAUSES)


def test_scenarios_have_unique_names_and_a_promise() -> None:
    names = [scenario.name for scenario in TRANSPORT_SCENARIOS]

    assert len(set(names)) == len(names)
    assert [scenario.name for scenario in TRANSPORT_SCENARIOS if len(scenario.promise) < 40] == []


# Claims, and what becomes of them


def test_capability_that_requires_another_raises_without_it() -> None:
    with pytest.raises(UsageError, match="pooling=True requires chunked=True"):
        TransportCapabilities(chunked=False, pooling=True)


def test_unclaimed_scenarios_have_no_test_and_are_reported() -> None:
    tests = {name for name in dir(TestPlainTransport) if name.startswith("test_") and getattr(TestPlainTransport, name)}

    assert "test_any_status_on_trio" in tests
    assert "test_last_event_on_trio" not in tests
    head, *rest = TestPlainTransport.report().splitlines()
    count = len(TRANSPORT_SCENARIOS)
    assert head == f"TestPlainTransport: {count - len(rest)} of {count} scenarios apply to the declared capabilities"
    assert "not claimed: last_event (pooling)" in rest


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_transport_report_runs_without_a_test_framework(backend: str) -> None:
    class Refusing(PlainTransport):
        async def send(self, request: Request, /) -> Response:
            response = await super().send(request)
            if response.status == 404:
                raise TransportError("status", "not found", status=404)
            return response

    class Bench(TransportConformance):
        def make_transport(self, _peer: Peer, /) -> Transport:
            return Refusing()

    Bench.capabilities = TransportCapabilities(network=False, chunked=False, timeouts=False, concurrent=False)
    report = anyio.run(transport_report, Bench().subject(backend), backend=backend)

    assert list(report.broken) == ["any_status"]
    assert "not found" in str(report)
    assert set(report.kept) | set(report.broken) | set(report.not_claimed) == {s.name for s in TRANSPORT_SCENARIOS}
    assert report.not_claimed["at_once"] == ("concurrent",)


async def test_missing_factory_method_or_hook_of_a_kit_raises_usage_error(anyio_backend_name: str) -> None:
    class Empty(TransportConformance):
        capabilities = TransportCapabilities()

    subject = Empty().subject(anyio_backend_name)
    with pytest.raises(UsageError, match="Empty needs a method make_transport"):
        async with subject.with_peer(subject.play()):
            pass
    with subject.serve(lambda _: subject.play()) as peer, pytest.raises(UsageError, match="Empty declares passed_in"):
        subject.passed_in(peer)


def test_kit_without_capabilities_raises_usage_error(request: pytest.FixtureRequest) -> None:
    with pytest.raises(UsageError, match="'capabilities'"):
        TransportConformance().test_claims(request, lambda _name, _value: None)


async def test_transport_that_never_responds_fails_its_scenario(anyio_backend_name: str) -> None:
    class Waiting(PlainTransport):
        async def send(self, _request: Request, /) -> Response:
            await anyio.sleep_forever()
            raise AssertionError

    class Bench(TransportConformance):
        capabilities = TransportCapabilities()
        patience = 0.2

        def make_transport(self, _peer: Peer, /) -> Transport:
            return Waiting()

    [scenario] = [scenario for scenario in TRANSPORT_SCENARIOS if scenario.name == "any_status"]
    with pytest.raises(AssertionError, match=r"any_status: .* did not end within 0.2 seconds"):
        await scenario(Bench().subject(anyio_backend_name))


def test_importing_the_kit_does_not_import_pytest() -> None:
    program = "import sys, chat_testing, chat_testing.transport_conformance; print('pytest' in sys.modules)"
    answer = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)

    assert answer.stdout.strip() == "False"


def test_pytest_summary_lists_unclaimed_scenarios(tmp_path: Path) -> None:
    test = tmp_path / "test_mine.py"
    test.write_text(
        textwrap.dedent("""
            from chat_testing.transport_conformance import TransportCapabilities, TransportConformance

            class TestMine(TransportConformance):
                capabilities = TransportCapabilities()
        """)
    )
    command = [sys.executable, "-m", "pytest", "-q", "-k", "claims", "-p", "no:cacheprovider", str(test)]
    answer = subprocess.run(command, check=False, capture_output=True, text=True, cwd=tmp_path)

    assert answer.returncode == 0, answer.stdout
    assert "not claimed: last_event (pooling)" in answer.stdout
    assert "1 passed" in answer.stdout
