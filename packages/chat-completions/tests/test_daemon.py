from __future__ import annotations

import json
from typing import Any, cast

import anyio
import pytest
from chat_completions import OllamaBuilder, Pull, PullProgress
from chat_completions.daemon import host_url
from chat_core.errors import (
    InvalidResponseError,
    NetworkError,
    NotFoundError,
    RequestTimeoutError,
    ServerError,
    StreamTruncatedError,
    TransportError,
    UsageError,
)
from chat_core.messages import Messages
from chat_core.options import ChatOptions
from chat_core.provider import NO_TOOLS
from chat_core.testing import MockTransport
from chat_testing import Exchange, LoopbackServer
from chat_transport_httpx import HttpxTransport

pytestmark = pytest.mark.anyio

NOBODY = "http://127.0.0.1:9"
STEPS: tuple[dict[str, object], ...] = (
    {"status": "pulling manifest"},
    {"status": "pulling 8c2e", "digest": "sha256:8c2e", "total": 200},
    {"status": "pulling 8c2e", "digest": "sha256:8c2e", "total": 200, "completed": 50},
    {"status": "verifying sha256 digest"},
    {"status": "success"},
)


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OLLAMA_HOST", raising=False)


def lines(*steps: object) -> bytes:
    return "".join([json.dumps(step) + "\n" for step in steps]).encode()


def pulling(*chunks: bytes, end: bool = True) -> LoopbackServer:
    def serve(exchange: Exchange) -> None:
        exchange.head(200, {"content-type": "application/x-ndjson"})
        for chunk in chunks:
            exchange.chunk(chunk)
        if end:
            exchange.end()

    return LoopbackServer(serve)


def at(server: LoopbackServer) -> OllamaBuilder:
    return OllamaBuilder().with_host(server.host)


# --- Addresses -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("", "http://127.0.0.1:11434"),
        ("gpu", "http://gpu:11434"),
        ("gpu:80", "http://gpu:80"),
        (":8080", "http://127.0.0.1:8080"),
        ("0.0.0.0", "http://127.0.0.1:11434"),  # noqa: S104 - what is listened on is not what is asked
        ("0.0.0.0:8080", "http://127.0.0.1:8080"),
        ("[::]:8080", "http://127.0.0.1:8080"),
        ("::1", "http://[::1]:11434"),
        ("[::1]:8080", "http://[::1]:8080"),
        ("http://gpu", "http://gpu"),
        ("https://gpu/", "https://gpu"),
        ("https://gpu:8443/ollama/", "https://gpu:8443/ollama"),
        (' "gpu:11434" ', "http://gpu:11434"),
        ("http://gpu:11434/v1/", "http://gpu:11434"),
        ("::1/v1", "http://[::1]:11434"),
    ],
)
def test_host_url_accepts_every_format_of_the_ollama_host_variable(host: str, url: str) -> None:
    if host:
        assert host_url(host) == url
    else:
        with pytest.raises(UsageError):
            host_url(host)


@pytest.mark.parametrize(
    "host",
    [
        "gpu:port",
        "gpu:99999",
        "ftp://gpu",
        "http://",
        "https://user:secret@gpu",
        "user:secret@gpu:11434",
        "user:secret@gpu",
        "a:b:c",
        "http://[::1",
    ],
)
def test_an_invalid_host_is_rejected_without_showing_credentials(host: str) -> None:
    with pytest.raises(UsageError, match="expected a host such as") as error:
        OllamaBuilder().with_host(host)
    assert "secret" not in str(error.value)


async def test_the_host_is_read_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OLLAMA_HOST", "0.0.0.0:8080")
    transport = MockTransport()
    builder = OllamaBuilder().with_transport(transport).with_model("m")
    assert "http://127.0.0.1:8080/v1" in repr(builder.build())
    transport.answer(body={"version": "0.12.3"})
    await builder.ping()
    assert transport.last.url == "http://127.0.0.1:8080/api/version"
    assert transport.last.request.timeouts.idle == 10, "a ping waits for no model"
    assert "http://gpu:11434/v1" in repr(builder.with_host("gpu").build())


def test_an_invalid_host_in_the_environment_is_reported_with_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OLLAMA_HOST", "ftp://gpu")
    with pytest.raises(UsageError, match="OLLAMA_HOST: expected a host such as"):
        OllamaBuilder().with_transport(MockTransport()).with_model("m").build()


# --- Health checks -------------------------------------------------------------------------------------


async def test_ping_returns_the_version_of_the_daemon() -> None:
    def serve(exchange: Exchange) -> None:
        exchange.answer(200, {"content-type": "application/json"}, b'{"version": "0.12.3"}')

    with LoopbackServer(serve) as server:
        assert await at(server).ping() == "0.12.3"
        assert await at(server).with_model("m").ping() == "0.12.3"
    assert {(exchange.method, exchange.path) for exchange in server.exchanges} == {("GET", "/api/version")}


async def test_an_unreachable_daemon_is_reported_with_the_command_to_start_it() -> None:
    builder = OllamaBuilder().with_host(NOBODY).with_model("m")
    with pytest.raises(NetworkError, match="ollama serve"):
        await builder.ping()
    with pytest.raises(NetworkError, match="OLLAMA_HOST"):
        await builder.pull()
    async with builder.build() as provider:
        with pytest.raises(NetworkError, match="ollama serve"):
            await provider.complete(Messages.from_user("Hi"), NO_TOOLS, ChatOptions(), None)
        with pytest.raises(NetworkError, match="ollama serve"):
            await provider.embed(["a"], ChatOptions())


async def test_timeouts_advise_nothing_that_a_pull_or_a_ping_does_not_take() -> None:
    transport = MockTransport()
    transport.fail(TransportError("timeout", "no data"))
    transport.fail(TransportError("timeout", "no data"))
    builder = OllamaBuilder().with_transport(transport)
    with pytest.raises(RequestTimeoutError, match=r"no data \(next step: start Ollama with `ollama serve`"):
        await builder.ping()
    with pytest.raises(RequestTimeoutError, match=r"no data \(next step: call \.pull\(\) again to resume"):
        await builder.with_model("m").pull()


@pytest.mark.parametrize("body", [b"<html>", b"[]", b"{}", b'{"version": 1}'])
async def test_ping_rejects_a_response_without_a_version(body: bytes) -> None:
    transport = MockTransport()
    transport.answer(body=body)
    with pytest.raises(InvalidResponseError, match="check that the host is an Ollama daemon"):
        await OllamaBuilder().with_transport(transport).ping()


async def test_a_refused_ping_raises_with_its_status() -> None:
    transport = MockTransport()
    transport.answer(502, {}, b"bad gateway")
    with pytest.raises(ServerError) as error:
        await OllamaBuilder().with_transport(transport).ping()
    assert error.value.status == 502


# --- Downloading models --------------------------------------------------------------------------------


async def test_iterating_over_a_pull_yields_its_progress() -> None:
    with pulling(lines(*STEPS)[:30], lines(*STEPS)[30:]) as server:
        steps = [step async for step in at(server).with_model("m").pull()]
    assert [step.status for step in steps] == [step["status"] for step in STEPS]
    assert steps[2] == PullProgress("pulling 8c2e", "sha256:8c2e", 200, 50)
    assert [step.fraction for step in steps] == [None, 0.0, 0.25, None, None]
    (exchange,) = server.exchanges
    assert (exchange.method, exchange.path) == ("POST", "/api/pull")
    assert json.loads(exchange.body) == {"model": "m", "stream": True}


async def test_awaiting_a_pull_returns_when_the_download_is_complete() -> None:
    with pulling(lines(*STEPS)) as server:
        await at(server).with_model("m").pull()
    assert len(server.exchanges) == 1


async def test_leaving_a_pull_early_closes_its_connection() -> None:
    left: list[bool] = []

    def serve(exchange: Exchange) -> None:
        exchange.head(200, {"content-type": "application/x-ndjson"})
        exchange.chunk(lines(*STEPS[:2]))
        left.append(exchange.wait_closed())

    with LoopbackServer(serve) as server:
        async with at(server).with_model("m").pull() as pull:
            assert (await anext(pull)).status == "pulling manifest"
        with pytest.raises(StopAsyncIteration):
            await anext(pull)
    assert left == [True]


async def test_pulls_use_the_transport_of_the_caller_and_leave_it_open() -> None:
    with pulling(lines(*STEPS)) as server:
        transport = HttpxTransport()
        builder = at(server).with_transport(transport).with_model("m")
        await builder.pull()
        await builder.pull()
        await transport.aclose()
    assert server.connections == 1, "the body was read to its end"


async def test_pulling_an_unknown_model_raises_not_found() -> None:
    failure = {"error": "pull model manifest: file does not exist"}
    with pulling(lines(STEPS[0], failure)) as server:
        pull = at(server).with_model("nothing").pull()
        assert (await anext(pull)).status == "pulling manifest"
        with pytest.raises(NotFoundError, match="has no model 'nothing'"):
            await anext(pull)
        with pytest.raises(StopAsyncIteration):
            await anext(pull)


async def test_a_failed_download_raises_server_error() -> None:
    failure = lines({"error": "max retries exceeded: EOF"})
    with pulling(failure) as server, pytest.raises(ServerError, match="max retries exceeded"):
        await at(server).with_model("m").pull()


async def test_a_refused_pull_raises_with_its_status() -> None:
    def serve(exchange: Exchange) -> None:
        exchange.answer(400, {"content-type": "application/json"}, b'{"error": "invalid model name"}')

    with LoopbackServer(serve) as server, pytest.raises(Exception, match="invalid model name") as error:
        await at(server).with_model("m").pull()
    assert getattr(error.value, "status", None) == 400


async def test_a_pull_that_ends_without_success_raises_stream_truncated() -> None:
    with pulling(lines(*STEPS[:3])) as server, pytest.raises(StreamTruncatedError, match="again to resume it"):
        await at(server).with_model("m").pull()


async def test_a_broken_connection_during_a_pull_raises_network_error() -> None:
    with pulling(lines(*STEPS[:3]), end=False) as server, pytest.raises(NetworkError):
        await at(server).with_model("m").pull()


@pytest.mark.parametrize("body", [b"oops\n", b"[]\n"])
async def test_a_malformed_line_in_a_pull_raises_invalid_response(body: bytes) -> None:
    with pulling(body) as server, pytest.raises(InvalidResponseError):
        await at(server).with_model("m").pull()


async def test_progress_fields_of_unexpected_types_are_ignored() -> None:
    strange = {"status": None, "digest": 1, "total": "x", "completed": 1e400}
    with pulling(lines(strange, {"status": "success", "further": {}})) as server:
        steps = [step async for step in at(server).with_model("m").pull()]
    assert steps == [PullProgress(""), PullProgress("success")]


async def test_awaiting_a_failed_pull_raises_usage_error() -> None:
    with pulling(lines(*STEPS[:3])) as server:
        pull = at(server).with_model("m").pull()
        with pytest.raises(StreamTruncatedError):
            await pull
        with pytest.raises(UsageError, match=r"call \.pull\(\) again"):
            await pull


async def test_a_completed_pull_can_be_awaited_again() -> None:
    with pulling(lines(*STEPS)) as server:
        pull = at(server).with_model("m").pull()
        assert (await anext(pull)).status == "pulling manifest"
        await pull
        await pull
    assert len(server.exchanges) == 1


async def test_cancelling_a_pull_closes_its_connection() -> None:
    left: list[bool] = []

    def serve(exchange: Exchange) -> None:
        exchange.head(200, {"content-type": "application/x-ndjson"})
        exchange.chunk(lines(STEPS[0]))
        left.append(exchange.wait_closed())

    with LoopbackServer(serve) as server:
        pull = at(server).with_model("m").pull()
        await anext(pull)
        with anyio.move_on_after(0.05) as scope:
            await anext(pull)
        assert scope.cancelled_caught
    assert left == [True]


def test_pull_needs_a_model() -> None:
    with pytest.raises(AttributeError, match=r"pull\(\) needs a model"):
        cast("Any", OllamaBuilder()).pull()
    with pytest.raises(AttributeError, match="no attribute 'with_base_url'"):
        cast("Any", OllamaBuilder()).with_base_url("http://h")
    assert isinstance(OllamaBuilder().with_model("m").pull(), Pull)


async def test_a_transport_error_during_a_pull_is_raised_as_a_network_error() -> None:
    transport = MockTransport()
    transport.fail(TransportError("connect", "no route"))
    with pytest.raises(NetworkError, match="ollama serve"):
        await OllamaBuilder().with_transport(transport).with_model("m").pull()
