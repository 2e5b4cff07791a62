"""The files of `docs/examples/deploy`: what they start serves requests, and every name in them exists."""

from __future__ import annotations

import configparser
import os
import re
import runpy
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tomllib
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import httpx
import pytest
import yaml
from chat_service import ServiceSettings, hash_token
from chat_service.config import Config
from chat_store.testing.postgres_server import shared_server

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "docs" / "examples" / "deploy"
TOKEN = "the token of ana"
SECONDS = 60.0


@dataclass(frozen=True)
class Setup:
    """The command and the environment variables with which a file starts the service."""

    command: Sequence[str]
    variables: dict[str, str] = field(default_factory=dict[str, str])


def lines_of_container_file() -> list[str]:
    text = (DEPLOY / "Containerfile").read_text(encoding="utf-8")
    lines = re.sub(r"\\\n\s*", "", text).splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def instruction(name: str) -> str:
    """The argument of the last instruction with a name."""
    return [line.removeprefix(f"{name} ") for line in lines_of_container_file() if line.startswith(f"{name} ")][-1]


def json_words(text: str) -> list[str]:
    return cast("list[str]", yaml.safe_load(text[text.index("[") :]))


def container() -> Setup:
    variables = dict([word.split("=", 1) for word in shlex.split(instruction("ENV"))])
    return Setup(json_words(instruction("CMD")), variables)


def composition() -> dict[str, Any]:
    return cast("dict[str, Any]", yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8")))


def compose() -> Setup:
    setup = container()
    variables: dict[str, str] = composition()["services"]["chat"]["environment"]
    return Setup(setup.command, setup.variables | variables)


def unit() -> configparser.RawConfigParser:
    parser = configparser.RawConfigParser(strict=True)
    parser.optionxform = str  # type: ignore[assignment,method-assign] # names are case-sensitive
    parser.read_string((DEPLOY / "chat-service.service").read_text(encoding="utf-8"))
    return parser


def systemd() -> Setup:
    service = unit()["Service"]
    variables = dict([word.split("=", 1) for word in shlex.split(service["Environment"])])
    return Setup(shlex.split(service["ExecStart"]), variables)


SETUPS = {"container": container, "compose": compose, "systemd": systemd}


def test_the_container_file_installs_every_package_of_the_workspace_that_it_needs() -> None:
    install = instruction("RUN python -m venv /opt/chat-service &&").partition("pip install ")[2]
    folders = [word.partition("[")[0] for word in install.split() if not word.startswith("--")]
    names = {Path(folder).name for folder in folders}
    needed: set[str] = set()
    for folder in folders:
        project = tomllib.loads((ROOT / folder / "pyproject.toml").read_text(encoding="utf-8"))
        metadata = project["tool"]["hatch"].get("metadata", {"hooks": {"uv-dynamic-versioning": {"dependencies": []}}})
        words = metadata["hooks"]["uv-dynamic-versioning"]["dependencies"]
        needed |= {word.partition("==")[0] for word in words if "{{ version }}" in word}

    assert needed <= names
    assert {"chat-service", "chat-store"} <= names


def test_every_copied_file_exists() -> None:
    copied = [
        line.split()[1:-1] for line in lines_of_container_file() if line.startswith("COPY") and "--from" not in line
    ]

    assert copied
    assert [name for names in copied for name in names if not (ROOT / name).exists()] == []
    assert (DEPLOY / composition()["services"]["chat"]["build"]["context"]).resolve() == ROOT
    assert (ROOT / composition()["services"]["chat"]["build"]["dockerfile"]).is_file()


@pytest.mark.parametrize("name", [*SETUPS])
def test_every_variable_sets_a_key_of_the_configuration_or_is_read_by_the_program(name: str, tmp_path: Path) -> None:
    others = {"DATABASE_URL", "PGPASSWORD", "FORWARDED_ALLOW_IPS", "PYTHONUNBUFFERED", "CHAT_SERVICE_CONFIG_DIR"}
    variables = SETUPS[name]().variables
    found = {name: value for name, value in variables.items() if name not in others}

    assert all(name.startswith("CHAT_SERVICE_") for name in found)
    assert Config.load(environment=found, directory=tmp_path).problems == ()


@contextmanager
def started(setup: Setup, folder: Path, **variables: str) -> Generator[tuple[subprocess.Popen[str], int]]:
    """Start the service of a setup with this Python and a free port, until it is ready."""
    (folder / "tokens.toml").write_text(f'{hash_token(TOKEN)} = "ana"\n')
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    replaced = {
        "/opt/chat-service/bin/python": sys.executable,
        "/opt/chat-service/serve.py": str(DEPLOY / "serve.py"),
        "/run/secrets/tokens": str(folder / "tokens.toml"),
        "${CREDENTIALS_DIRECTORY}/tokens": str(folder / "tokens.toml"),
    }
    environment = {name: value for name, value in os.environ.items() if not name.startswith("CHAT_SERVICE_")}
    environment |= setup.variables | variables
    environment |= {
        "CHAT_SERVICE_CONFIG_DIR": str(folder),
        "CHAT_SERVICE_SERVER_PORT": str(port),
        "CHAT_SERVICE_LLM_MODEL": "claude:claude-haiku-4-5",
        "CHAT_SERVICE_LLM_API_KEY": "a key that is never sent",
        "CHAT_SERVICE_LOG_LEVEL": "info",
    }
    command = [replaced.get(word, word) for word in setup.command]
    with subprocess.Popen(command, cwd=folder, env=environment, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        log: list[str] = []
        for line in process.stderr:
            log.append(line)
            if "Uvicorn running" in line:
                break
        try:
            assert process.poll() is None, "".join(log)
            yield process, port
        finally:
            process.send_signal(signal.SIGTERM)
            process.stderr.read()
            process.wait(SECONDS)


def check(process: subprocess.Popen[str], port: int, host: str) -> None:
    """Check that the service is healthy, and serves users of its token file at its host name only."""
    health = json_words(instruction("HEALTHCHECK"))
    health = [sys.executable, *health[1:-1], health[-1].replace(":8080/", f":{port}/")]
    assert subprocess.run(health, timeout=SECONDS, check=False).returncode == 0
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False, headers={"host": host}) as client:
        headers = {"authorization": f"Bearer {TOKEN}"}
        assert client.get("/api/v1/sessions").status_code == 401
        assert client.post("/api/v1/sessions", headers=headers, json={"title": "Tea"}).status_code == 201
        assert client.get("/api/v1/sessions", headers=headers).json()["total"] == 1
        assert client.get("/health/ready", headers={"host": "other.example.org"}).status_code == 403
    assert process.poll() is None


@pytest.mark.parametrize("name", ["container", "systemd"])
def test_the_command_serves_and_ends_at_the_signal_to_stop(name: str, tmp_path: Path) -> None:
    with started(SETUPS[name](), tmp_path) as (process, port):
        check(process, port, "localhost")

    assert process.returncode == -signal.SIGTERM
    assert (tmp_path / "sessions.db").is_file()


def test_compose_serves_from_its_database(tmp_path: Path) -> None:
    setup = compose()
    with shared_server() as database:
        variables = {"DATABASE_URL": database.dsn, "CHAT_SERVICE_SERVER_SECRET": "0123456789" * 4}
        with started(setup, tmp_path, **variables) as (process, port):
            check(process, port, setup.variables["CHAT_SERVICE_SERVER_HOSTS"])

    assert not (tmp_path / "sessions.db").exists()


@pytest.mark.parametrize(
    ("tokens", "text"),
    [
        pytest.param("", "the file names no user", id="no-users"),
        pytest.param('a-token = "ana"\n', "the keys must be token hashes", id="no-hashes"),
        pytest.param(None, "No such file", id="no-file"),
    ],
)
def test_the_service_does_not_start_without_tokens(
    tokens: str | None, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if tokens is not None:
        (tmp_path / "tokens.toml").write_text(tokens)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CHAT_SERVICE_LLM_MODEL", "claude:claude-haiku-4-5")
    monkeypatch.setenv("CHAT_SERVICE_LLM_API_KEY", "a key that is never sent")
    monkeypatch.setattr(sys, "argv", ["serve.py", "--host", "0.0.0.0", "--tokens", "tokens.toml"])  # noqa: S104 - an argument of the example
    with pytest.raises(SystemExit, match=text):
        runpy.run_path(str(DEPLOY / "serve.py"), run_name="__main__")


def test_the_service_has_time_to_end_its_runs() -> None:
    grace = ServiceSettings().grace_seconds + 5

    assert float(unit()["Service"]["TimeoutStopSec"]) >= grace
    assert float(composition()["services"]["chat"]["stop_grace_period"].rstrip("s")) >= grace


def test_services_of_compose_refer_to_existing_parts() -> None:
    found = composition()
    chat, database = found["services"]["chat"], found["services"]["database"]

    assert set(chat["secrets"]) == set(found["secrets"])
    assert [volume.partition(":")[0] for volume in database["volumes"]] == [*found["volumes"]]
    assert f"@{[*found['services']][1]}/{database['environment']['POSTGRES_DB']}" in chat["environment"]["DATABASE_URL"]
    assert chat["depends_on"]["database"]["condition"] == "service_healthy"
    assert "healthcheck" in database
    assert chat["environment"]["PGPASSWORD"] == database["environment"]["POSTGRES_PASSWORD"]


def test_the_steps_of_the_guide_create_the_files_of_the_unit_with_the_packages_of_the_container() -> None:
    guide = (ROOT / "docs" / "guides" / "deployment.md").read_text(encoding="utf-8")
    steps = guide.partition("### Set up systemd")[2].partition("\n## ")[0]
    service = unit()["Service"]
    words = " ".join([service["ExecStart"], service["EnvironmentFile"], service["LoadCredential"]])
    install = instruction("RUN python -m venv /opt/chat-service &&")
    folders = r"(?:packages|transports)/[\w-]+(?:\[\w+\])?"

    assert [path for path in re.findall(r"/(?:opt|etc)/[\w./-]+", words) if path not in steps] == []
    assert set(re.findall(folders, steps)) == set(re.findall(folders, install))


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    text = (DEPLOY / "chat-service.service").read_text(encoding="utf-8")
    (tmp_path / "chat-service.service").write_text(text.replace("/opt/chat-service/bin/python", sys.executable))
    command = ["systemd-analyze", "verify", "--man=no", str(tmp_path / "chat-service.service")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)

    assert (done.returncode, done.stderr) == (0, "")
