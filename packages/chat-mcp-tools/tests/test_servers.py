"""Addresses of servers, whose secrets are not shown."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
from chat_core.errors import UsageError
from chat_mcp_tools import HttpServer, StdioServer, mcp_tools

WRONG: Any = 5


def test_server_labels_and_reprs_hide_secrets() -> None:
    http = HttpServer("https://user:word@example.com/mcp?key=abc", headers={"Authorization": "Bearer xyz"})
    assert http.label == "https://example.com/mcp"
    started = StdioServer("python", ["server.py"], env={"KEY": "xyz"})
    assert started.label == "python server.py"
    for secret in ("word", "abc", "xyz"):
        assert secret not in f"{http!r} {started!r}"


def test_the_name_of_a_server_is_its_label() -> None:
    assert HttpServer("http://localhost/mcp", name="files").label == "files"
    assert StdioServer("python", name="files").label == "files"


def test_an_invalid_server_is_refused_without_leaking_secrets() -> None:
    for url in (
        "localhost:8000",
        "htps://ana:secret@host/mcp",
        "http://ana:secret@[host/mcp",
        "http://ana@host:secret",
    ):
        with pytest.raises(UsageError, match="needs the URL of an endpoint") as caught:
            HttpServer(url)
        assert "secret" not in str(caught.value)
        assert caught.value.__context__ is None
    with pytest.raises(UsageError, match="needs a list of arguments"):
        StdioServer("python", "server.py")


@pytest.mark.parametrize(
    ("create", "message"),
    [
        (lambda: StdioServer(WRONG), "command must be a string that is not empty"),
        (lambda: StdioServer(" "), "command must be a string that is not empty"),
        (lambda: StdioServer("python", WRONG), "args must be a list of strings"),
        (lambda: StdioServer("python", [WRONG]), "args must be a list of strings"),
        (lambda: StdioServer("python", env=WRONG), "env must be a mapping of strings to strings"),
        (lambda: StdioServer("python", cwd=WRONG), "cwd must be a string or a Path"),
        (lambda: StdioServer("python", name=WRONG), "name must be a string or None"),
        (lambda: HttpServer("http://localhost/mcp", headers=WRONG), "headers must be a mapping of strings to strings"),
        (lambda: HttpServer("http://localhost/mcp", name=WRONG), "name must be a string or None"),
    ],
)
def test_wrong_settings_of_a_server_are_refused(create: Callable[[], object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        create()


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"prefix": None}, "prefix must be a string, not None"),
        ({"trusted": "no"}, "trusted must be True or False"),
        ({"timeout": 0}, "timeout must be a positive number of seconds"),
        ({"timeout": math.nan}, "timeout must be a positive number of seconds"),
        ({"connect_timeout": None}, "connect_timeout must be a positive number of seconds"),
        ({"max_pages": 0}, "max_pages must be at least 1"),
        ({"max_structured_bytes": -1}, "max_structured_bytes must be at least 0"),
        ({"max_response_bytes": 5.5}, "max_response_bytes must be a whole number"),
    ],
)
async def test_wrong_settings_are_refused_before_a_server_starts(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        async with mcp_tools(StdioServer("a-program-that-does-not-exist"), **settings):
            pass
