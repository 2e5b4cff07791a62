"""The layers of the configuration, the origin of each value, and the reports about wrong files and variables."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from chat_service.config import Config, ConfigError, find_lines, user_file


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """Return the paths of the file of the user and of the file of the project."""
    (tmp_path / "user").mkdir()
    (tmp_path / "project").mkdir()
    return tmp_path / "user" / "config.toml", tmp_path / "project" / "chat-service.toml"


def load(files: tuple[Path, Path], variables: dict[str, str] | None = None, **options: object) -> Config:
    environment = {"CHAT_SERVICE_CONFIG_DIR": str(files[0].parent), **(variables or {})}
    named = {name.replace("__", "."): value for name, value in options.items()}
    return Config.load(named, environment=environment, directory=files[1].parent)


def origin(config: Config, name: str) -> tuple[object, str, tuple[str, ...]]:
    (found,) = [item for item in config.values() if item.name == name]
    return found.value, found.origin, found.shadowed


def test_a_later_layer_overrides_an_earlier_one_and_names_it(files: tuple[Path, Path]) -> None:
    user, project = files
    user.write_text("[server]\nport = 1\nworkers = 3\n")
    project.write_text("[server]\n\nport = 2\n")
    layers = {
        "option": load(files, {"CHAT_SERVICE_SERVER_PORT": "3"}, server__port=4),
        "variable": load(files, {"CHAT_SERVICE_SERVER_PORT": "3"}),
        "project": load(files),
    }
    project.unlink()
    layers["user"] = load(files)
    user.unlink()
    layers["default"] = load(files)

    here, there, variable = f"{user}:2", f"{project}:3", "CHAT_SERVICE_SERVER_PORT"
    assert {name: origin(config, "server.port") for name, config in layers.items()} == {
        "option": (4, "--port", ("default", here, there, variable)),
        "variable": (3, variable, ("default", here, there)),
        "project": (2, there, ("default", here)),
        "user": (1, here, ("default",)),
        "default": (8080, "default", ()),
    }
    assert origin(layers["project"], "server.workers")[0] == 3  # the tables are merged key by key


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param("[server]\nprot = 1\n", ":2: unknown key server.prot: did you mean server.port?", id="typo"),
        pytest.param(
            "[server]\nping = 1\nzzzzzz = 2\n", ":3: unknown key server.zzzzzz: `config show` lists", id="no-suggestion"
        ),
        pytest.param('[llm.fast]\nmodle = "x"\n', "llm.fast.modle: did you mean llm.fast.model?", id="profile"),
        pytest.param('[server]\nport = "8080"\n', ":2: server.port must be a whole number, not '8080'", id="type"),
        pytest.param("[server]\nport = true\n", ":2: server.port must be a whole number, not True", id="boolean"),
        pytest.param("server.port = 65536\n", ":1: server.port must be at least 0 and at most 65535", id="range"),
        pytest.param("[server]\nworkers = -1\n", ":2: server.workers must be at least 0, not -1", id="negative"),
        pytest.param("server.run_seconds = inf", "must be at least 0.001 and at most 100000000", id="infinite"),
        pytest.param('[server]\nperson = " "\n', ":2: server.person must not be empty", id="blank"),
        pytest.param('[server]\nhosts = "a"\n', ":2: server.hosts must be an array of strings, not 'a'", id="array"),
        pytest.param("[server\n", "the file is not TOML: ", id="not-toml"),
        pytest.param("[llm]\napi_key = 17\n", "llm.api_key", id="secret-type"),
        pytest.param('[agent]\nllm = "slow"\n', ":2: agent.llm is 'slow', but no table [llm.slow]", id="no-profile"),
    ],
)  # fmt: skip
def test_a_wrong_file_is_reported_with_its_place(files: tuple[Path, Path], text: str, problem: str) -> None:
    files[1].write_text(text)
    files[1].chmod(0o600)
    config = load(files)

    assert any(str(files[1]) in found and problem in found for found in config.problems)
    assert "17" not in "".join(config.problems).replace(str(files[1]), "")
    with pytest.raises(ConfigError, match=files[1].name):
        config.require_valid()


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        pytest.param("CHAT_SERVICE_SERVER_PROT", "1", "did you mean server.port?", id="unknown"),
        pytest.param("CHAT_SERVICE_SERVER_PORT", "x", "SERVER_PORT: server.port must be", id="not-a-number"),
    ],
)  # fmt: skip
def test_a_wrong_variable_is_reported(files: tuple[Path, Path], name: str, value: str, problem: str) -> None:
    (found,) = load(files, {name: value}).problems

    assert problem in found


def test_variables_have_the_type_of_their_key(files: tuple[Path, Path]) -> None:
    files[1].write_text('[llm.fast]\nmodel = "a"\n')
    config = load(
        files,
        {
            "CHAT_SERVICE_SERVER_HOSTS": "a.example, b.example",
            "CHAT_SERVICE_SERVER_RUN_SECONDS": "0.5",
            "CHAT_SERVICE_LLM_FAST_MODEL": "b",
            "CHAT_SERVICE_AGENT_LLM": "fast",
            "CHAT_SERVICE_LLM_API_KEY": "hidden",
        },
    ).require_valid()

    settings = config.service_settings()
    assert (settings.hosts, settings.run_seconds) == (("a.example", "b.example"), 0.5)
    assert (config.profile(), config.get("llm.fast.model"), config.get("llm.api_key")) == ("llm.fast", "b", None)


@pytest.mark.skipif(os.name != "posix", reason="file modes")
def test_a_file_with_a_secret_must_not_be_readable_by_others(files: tuple[Path, Path]) -> None:
    files[1].write_text('[llm]\nmodel = "a"\napi_key = "hidden"\n')
    files[1].chmod(0o640)
    (found,) = load(files).problems
    files[1].chmod(0o600)
    config = load(files).require_valid()

    assert found.startswith(f"{files[1]}:3: llm.api_key is a secret")
    assert "hidden" not in found
    assert config.get("llm.api_key") == "hidden"


def test_the_user_file_follows_the_environment() -> None:
    assert user_file({"CHAT_SERVICE_CONFIG_DIR": "/a"}) == Path("/a/config.toml")
    assert user_file({"XDG_CONFIG_HOME": "/b"}) == Path("/b/chat-service/config.toml")
    assert user_file({}).parts[-3:] == (".config", "chat-service", "config.toml")


def test_lines_are_found_behind_multi_line_texts() -> None:
    text = 'a.b = """\n[x]\nc = 1\n"""\n"d" = 1\n[e."f"]\ng = 2 # [h]\n'

    assert find_lines(text) == {"a.b": 1, "d": 5, "e.f": 6, "e.f.g": 7}
