"""The commands `config show`, `config check` and `secret set`."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from chat_service.__main__ import main


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CHAT_SERVICE_CONFIG_DIR", str(tmp_path / "none"))
    return tmp_path


def run(*words: str) -> object:
    with pytest.raises(SystemExit) as caught:
        main(words)
    return caught.value.code


def test_check_accepts_no_files_and_reports_every_problem(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    valid = run("config", "check")
    (folder / "chat-service.toml").write_text('[server]\nprot = 1\nport = "x"\n')
    invalid = run("config", "check")
    shown = capsys.readouterr()

    assert (valid, invalid, shown.out) == (0, 1, "The configuration is valid.\n")
    assert shown.err.splitlines() == [
        "chat-service.toml:2: unknown key server.prot: did you mean server.port?",
        "chat-service.toml:3: server.port must be a whole number, not 'x'",
    ]


def test_show_prints_the_origin_of_each_value_and_no_secret(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "chat-service.toml").write_text('[server]\nport = 9\n[llm]\napi_key = "hidden"\n')
    (folder / "chat-service.toml").chmod(0o600)
    monkeypatch.setenv("CHAT_SERVICE_SERVER_SECRET", "also hidden")
    assert run("config", "show", "--origin") == 0
    lines = capsys.readouterr().out.splitlines()
    assert run("config", "show") == 0
    short = capsys.readouterr().out.splitlines()

    assert "server.port = 9  # chat-service.toml:2, overrides default" in lines
    assert "server.secret = (set)  # CHAT_SERVICE_SERVER_SECRET" in lines
    assert "llm.api_key = (set)  # chat-service.toml:4, overrides default" in lines
    assert "llm.base_url = (not set)  # default" in lines
    assert "server.hosts = []" in short
    assert "hidden" not in "".join(lines + short)


def test_the_service_does_not_start_with_a_wrong_configuration(folder: Path) -> None:
    (folder / "chat-service.toml").write_text("[server]\nprot = 1\n")

    assert "did you mean server.port?" in str(run())


@pytest.mark.parametrize(
    ("name", "text"),
    [
        pytest.param("llm.api_kye", "did you mean llm.api_key?", id="unknown"),
        pytest.param("server.port", "server.port is not a secret", id="not-secret"),
        pytest.param("llm.api_key", "was not stored", id="no-keyring"),
    ],
)
def test_a_secret_that_cannot_be_stored_is_refused_in_words(
    name: str, text: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("hidden\n"))
    monkeypatch.setattr("chat_service.secret_values.find_keyring", lambda: (None, "none"))

    assert run("secret", "set", name) == 1
    shown = capsys.readouterr()
    assert text in shown.err
    assert "hidden" not in shown.err + shown.out
