"""Addresses of servers, whose secrets are not shown."""

from __future__ import annotations

import pytest
from chat_core.errors import UsageError
from chat_mcp_tools import HttpServer, StdioServer


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
