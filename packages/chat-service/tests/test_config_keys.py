"""Every key of the configuration changes what the service does.

Each key is in `PROBES`, with values and what the service then does, or in `SHOWN`, with the test that shows its effect.
"""

from __future__ import annotations

import ast
import json
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from dataclasses import fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import parse_qs, urlsplit

import anyio
import pytest
from chat_core.approvals import Principal
from chat_core.testing import ScriptedProvider
from chat_service import Service, ServiceSettings
from chat_service import __main__ as command
from chat_service.config import Config, ConfigError
from chat_service.config_keys import KEYS
from chat_service.run_records import first_part
from chat_service.runs import MessageRequest, Runs
from chat_service.secret_values import Secrets
from chat_store import MemoryStore, SqliteStore
from service_helpers import PROMETHEUS, WAIT, Client, SteppedModel, build_context, build_service, scripted, serving
from socket_helpers import open_socket

pytestmark = pytest.mark.anyio
TESTS = Path(__file__).parent
PROGRAM = """
import chat_service.__main__ as command
from chat_core.testing import ScriptedProvider

provider = ScriptedProvider("Good morning.")
command.model = lambda name: provider
try:
    command.main([])
finally:
    print(provider.asked[0].options.instructions, flush=True)
"""
Probe: TypeAlias = Callable[[ServiceSettings], Awaitable[object]]
SHOWN = {
    "server.hosts": "test_hosts.py",
    "server.metrics_role": "test_metrics.py",
    "server.ping_seconds": "test_following.py",
    "server.poll_seconds": "test_runs.py",
    "server.socket_connects_per_minute": "test_socket_routes.py",
    "server.socket_idle_seconds": "test_socket_connection.py",
    "server.socket_max_bytes": "test_socket_connection.py",
    "server.socket_origins": "test_socket_routes.py",
    "server.socket_send_seconds": "test_socket_connection.py",
    "server.stream_send_seconds": "test_event_streams.py",
    "server.workers": "test_chat_routes.py",
}
"""Test files whose tests pass the setting and check its effect, by key."""


def open_service(settings: ServiceSettings, *answers: Any) -> Service:
    return build_service(MemoryStore(), scripted(*(answers or ("Good morning.",))), settings=settings)


async def post_large_body(settings: ServiceSettings) -> object:
    async with serving(open_service(settings)) as client:
        return (await client.post("/api/v1/sessions", {"title": "x" * 100})).status


async def post_long_message(settings: ServiceSettings) -> object:
    async with serving(open_service(settings)) as client:
        return (await client.post("/api/v1/chat", {"message": "Hello."})).status


async def list_sessions(settings: ServiceSettings) -> object:
    async with serving(open_service(settings)) as client:
        default = (await client.get("/api/v1/sessions")).json["limit"]
        return default, (await client.get("/api/v1/sessions?limit=100")).status


async def repeat_request(settings: ServiceSettings) -> object:
    async with serving(open_service(settings)) as client:
        replies = [await client.post("/api/v1/chat", {"message": "Hello."}, idempotency_key="k") for _ in range(2)]
        return len({reply.json["session_id"] for reply in replies})


async def answer_slowly(settings: ServiceSettings) -> object:
    model = SteppedModel(scripted("One moment please."), 1)
    async with serving(build_service(MemoryStore(), model, settings=settings)) as client:
        events = await client.events("POST", "/api/v1/chat/stream", {"message": "Hello."})
        return events[-1].data["code"]


async def take_over_a_socket(settings: ServiceSettings) -> object:
    settings = replace(settings, metrics_role="metrics")
    async with serving(open_service(settings)) as client:
        session_id = (await client.post("/api/v1/sessions", {})).json["id"]
        async with open_socket(client) as first:
            await first.ask("subscribe", session_id=session_id)
        with anyio.fail_after(WAIT):
            while b"open_sockets 0\n" not in (await client.as_user(PROMETHEUS).get("/metrics")).body:
                pass  # the service still handles the end of the first connection
        async with open_socket(client) as second:
            return (await second.ask("subscribe", session_id=session_id))["owner"]


async def send_requests(settings: ServiceSettings) -> object:
    async with serving(open_service(settings)) as client:
        return [(await client.get("/api/v1/sessions")).status for _ in range(3)]


async def send_burst(settings: ServiceSettings) -> object:
    return await send_requests(replace(settings, requests_per_minute=3))  # a further one in 20 seconds


async def store_job(settings: ServiceSettings) -> object:
    job = first_part("a.1", datetime.now(UTC), "", None, settings)
    return job.max_attempts, job.backoff_seconds


PROBES: dict[str, tuple[Probe, Any, object, object]] = {
    "server.max_body_bytes": (post_large_body, 100, 413, 201),
    "server.max_message_bytes": (post_long_message, 5, 400, 200),
    "server.page_size": (list_sessions, 7, (7, 200), (50, 200)),
    "server.max_page_size": (list_sessions, 60, (50, 400), (50, 200)),
    "server.idempotency_seconds": (repeat_request, 0.0, 2, 1),
    "server.requests_per_minute": (send_requests, 2, [200, 200, 429], [200, 200, 200]),
    "server.request_burst": (send_burst, 1, [200, 429, 429], [200, 200, 200]),
    "server.address_requests_per_minute": (send_requests, 2, [200, 200, 429], [200, 200, 200]),
    "server.run_seconds": (answer_slowly, 0.05, "timeout", None),
    "server.socket_grace_seconds": (take_over_a_socket, 0.0, True, False),
    "server.max_attempts": (store_job, 3, (3, 1.0), (10, 1.0)),
    "server.retry_seconds": (store_job, 5.0, (10, 5.0), (10, 1.0)),
}
"""A probe, another value, the result with this value, and the result with the default (`None`: it takes too long)."""
COMMAND_KEYS = {
    "llm.model", "llm.base_url", "llm.api_key", "llm.*.model", "llm.*.base_url", "llm.*.api_key", "agent.llm",
    "agent.system_prompt", "agent.max_iterations", "agent.max_tokens", "server.port", "server.person", "server.store",
    "server.secret", "server.grace_seconds", "log.format", "log.level",
}  # fmt: skip
"""Keys with a test of their own in this file."""


def test_every_key_has_a_test() -> None:
    assert {key.name for key in KEYS} == {*PROBES, *SHOWN, *COMMAND_KEYS}, "add each new key to one of the tables"
    assert len(PROBES) + len(SHOWN) + len(COMMAND_KEYS) == len(KEYS)


@pytest.mark.parametrize("name", [*SHOWN])
def test_a_test_of_another_file_uses_the_setting(name: str) -> None:
    tree = ast.parse((TESTS / SHOWN[name]).read_text(encoding="utf-8"))
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
    passed = {word.arg for node in calls if ast.unparse(node.func) == "ServiceSettings" for word in node.keywords}

    assert name.removeprefix("server.") in passed


def test_each_server_key_reaches_its_setting(tmp_path: Path) -> None:
    changed: dict[str, Any] = {}
    for field in fields(ServiceSettings):
        default: Any = field.default
        changed[field.name] = ("a",) if isinstance(default, tuple) else type(default)(3)
    variables = {
        f"CHAT_SERVICE_SERVER_{name.upper()}": "a" if value == ("a",) else str(value) for name, value in changed.items()
    }
    config = Config.load(environment=variables, directory=tmp_path).require_valid()

    assert config.service_settings() == ServiceSettings(**changed)
    assert Config.load(environment={}, directory=tmp_path).service_settings() == ServiceSettings()


@pytest.mark.parametrize("name", [*PROBES])
async def test_a_setting_changes_what_the_service_does(name: str) -> None:
    probe, value, changed, default = PROBES[name]
    settings = ServiceSettings(poll_seconds=0.2)

    assert await probe(replace(settings, **{name.removeprefix("server."): value})) == changed
    if default is not None:
        assert await probe(settings) == default
    assert changed != default


@pytest.mark.parametrize(
    ("grace", "ends"), [pytest.param(30.0, True, id="waits"), pytest.param(0.0, False, id="stops")]
)
async def test_the_grace_lets_active_runs_end(grace: float, ends: bool) -> None:
    store, model = MemoryStore(), SteppedModel(scripted("One moment please."), 1)
    settings = ServiceSettings(poll_seconds=0.2, grace_seconds=grace)
    runs = Runs(build_context(store, settings))
    async with anyio.create_task_group() as group, build_service(store, model, settings=settings):
        await runs.start(MessageRequest(Principal("ana"), None, "Hello.", "hash"))
        await model.reached.wait()
        if ends:
            group.start_soon(let_go_on, model)  # starts when the service is stopping
    (session,) = await store.conversations()
    state = (await runs.of_session(session.id))[0].state

    assert state == ("answered" if ends else "queued")


async def let_go_on(model: SteppedModel) -> None:
    model.go_on.set()


# --- Keys of the command ----------------------------------------------------------------------------------------------


def load(folder: Path, text: str, **variables: str) -> Config:
    (folder / "chat-service.toml").write_text(text)
    (folder / "chat-service.toml").chmod(0o600)
    return Config.load(environment=variables, directory=folder).require_valid()


class Factory:
    """A replacement of `model()` that records its arguments."""

    def __init__(self) -> None:
        self.name = ""
        self.settings: dict[str, Any] = {}

    def __call__(self, name: str, **settings: Any) -> ScriptedProvider:
        self.name, self.settings = name, settings
        return ScriptedProvider("Hello.")


@pytest.mark.parametrize("table", ["llm", "llm.fast"])
async def test_the_model_is_created_from_its_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table: str) -> None:
    factory = Factory()
    monkeypatch.setattr(command, "model", factory)
    agent = '[agent]\nllm = "fast"\n' if table == "llm.fast" else ""
    config = load(tmp_path, f'[{table}]\nmodel = "x:y"\nbase_url = "http://a"\napi_key = "key"\n{agent}')
    command.create_engine(config, Secrets(lambda: config, environment={}, find=lambda: (None, "")))

    assert (factory.name, factory.settings["base_url"]) == ("x:y", "http://a")
    assert await factory.settings["api_key"]() == "key"


def test_the_agent_table_sets_the_limits_of_the_agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "model", Factory())
    config = load(tmp_path, "[agent]\nmax_iterations = 3\nmax_tokens = 17\n")
    engine = command.create_engine(config, Secrets(lambda: config, environment={}, find=lambda: (None, "")))

    assert (engine.config.max_tool_rounds, engine.config.options.max_tokens) == (3, 17)


async def test_the_server_table_sets_the_store_the_user_and_the_port(tmp_path: Path) -> None:
    text = '[server]\nport = 0\nstore = "other.db"\nperson = "eve"\n[agent]\nsystem_prompt = "Answer in rhymes."\n'
    (tmp_path / "chat-service.toml").write_text(text)
    async with await anyio.open_process([sys.executable, "-c", PROGRAM], cwd=tmp_path, stderr=None) as process:
        assert process.stdout is not None
        url = urlsplit((await process.stdout.receive()).decode().splitlines()[0].split()[-1])
        (token,) = parse_qs(url.query)["startup_token"]
        reply = await Client(url.port or 0, token).post("/api/v1/chat", {"message": "Hello."})
        process.send_signal(signal.SIGINT)
        output = "".join([chunk.decode() async for chunk in process.stdout])
        await process.wait()
    async with SqliteStore(tmp_path / "other.db") as store:
        meta = await store.meta(reply.json["session_id"])

    assert (url.port != 8080, meta.owner) == (True, "eve")
    assert "Answer in rhymes." in output


@pytest.mark.parametrize(
    ("form", "level", "lines"),
    [
        pytest.param("text", "info", 1, id="text"),
        pytest.param("json", "info", 1, id="json"),
        pytest.param("json", "error", 0, id="errors-only"),
    ],
)
async def test_the_log_table_sets_the_form_and_the_level(tmp_path: Path, form: str, level: str, lines: int) -> None:
    (tmp_path / "chat-service.toml").write_text(f'[log]\nformat = "{form}"\nlevel = "{level}"\n[server]\nport = 0\n')
    command_line = [sys.executable, "-c", PROGRAM.replace("provider.asked[0].options.instructions", "''")]
    async with await anyio.open_process(command_line, cwd=tmp_path) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        url = urlsplit((await process.stdout.receive()).decode().splitlines()[0].split()[-1])
        (token,) = parse_qs(url.query)["startup_token"]
        await Client(url.port or 0, token).get("/api/v1/sessions", x_request_id="r-1")
        process.send_signal(signal.SIGINT)
        log = "".join([chunk.decode() async for chunk in process.stderr])
        await process.wait()
    found = [line for line in log.splitlines() if "r-1" in line]

    assert len(found) == lines
    assert token not in log
    if form == "json" and lines:
        assert [json.loads(line)["path"] for line in found] == ["/api/v1/sessions"]
    elif lines:
        assert "INFO chat_service [r-1 -]: GET '/api/v1/sessions' 200 in" in found[0]


def test_a_choice_has_one_of_its_values(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"log\.format must be text or json, not 'yaml'"):
        load(tmp_path, '[log]\nformat = "yaml"\n')


def test_the_secret_of_the_service_may_contain_any_bytes() -> None:
    variables = {"CHAT_SERVICE_SERVER_SECRET": os.fsdecode(b"\xff" * 32)}

    assert (
        command.read_service_secret(Secrets(Config.load, environment=variables, find=lambda: (None, "")))
        == b"\xff" * 32
    )


def test_the_secret_of_the_service_must_be_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(command, "model", Factory())
    monkeypatch.setenv("CHAT_SERVICE_SERVER_SECRET", "too short")
    with pytest.raises(SystemExit) as caught:
        command.main([])

    assert caught.value.code == "CHAT_SERVICE_SERVER_SECRET: server.secret has 9 bytes, but needs 32"


def test_the_default_of_each_key_is_valid() -> None:
    for key in KEYS:
        default: Any = key.default
        if default is not None:
            assert key.problem(list(default) if key.kind == "texts" else default) is None, key.name
