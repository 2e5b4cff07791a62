"""Models by name."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import entry_points

import pytest
from chat_core import UnknownModelError, UsageError, embedder, model
from chat_core.models import EMBEDDERS, MODELS, PACKAGES, installed


def no_entry_points(**_selection: str) -> tuple[()]:
    return ()


def load_number(_group: str, _vendor: str) -> Callable[[str], int]:
    return len


def test_a_model_is_built_by_its_name_and_settings() -> None:
    claude = model("claude:claude-sonnet-4-5", api_key="k")
    local = model("completions:llama-3:8b", base_url="http://localhost:8000/v1")

    assert (claude.metadata.name, claude.metadata.model) == ("claude", "claude-sonnet-4-5")
    assert local.metadata.model == "llama-3:8b"


def test_an_embedder_is_built_by_its_name_and_settings() -> None:
    assert embedder("openai:text-embedding-3-small", api_key="k", dimensions=5).metadata.model.startswith("text-emb")
    assert embedder("gemini:gemini-embedding-001", api_key="k").metadata.model == "gemini-embedding-001"


def test_an_unknown_name_says_what_is_installed_and_what_would_bring_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnknownModelError, match=r"no provider 'nobody'.*installed are azure, cerebras, claude, "):
        model("nobody:x")
    with pytest.raises(UnknownModelError, match=r"no provider 'claude'.*installed are gemini, openai"):
        embedder("claude:x")
    monkeypatch.setattr("importlib.metadata.entry_points", no_entry_points)
    with pytest.raises(UnknownModelError, match="no provider 'claude': install chat-claude; installed are none"):
        model("claude:x")


@pytest.mark.parametrize("name", ["claude", "claude:", "openai"])
def test_a_name_without_a_model_is_incomplete(name: str) -> None:
    with pytest.raises(UnknownModelError, match="needs the name of a model: "):
        model(name)


def test_an_unknown_setting_names_the_known_ones() -> None:
    with pytest.raises(UsageError, match="'claude' has no setting temperature; its settings are api_key"):
        model("claude:x", temperature=1)


def test_the_packages_of_this_project_register_what_the_error_says() -> None:
    names = {item.name: item for item in entry_points(group=MODELS)}

    assert {name for group in PACKAGES.values() for name in group} == set(names) == set(installed())
    for package, registered in PACKAGES.items():
        for name in registered:
            assert names[name].value.startswith(package.replace("-", "_"))
    assert all(callable(item.load()) for group in (MODELS, EMBEDDERS) for item in entry_points(group=group))


def test_a_factory_that_returns_something_else_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chat_core.models._load", load_number)

    with pytest.raises(UsageError, match="returned a int, which is no model"):
        model("x:y")
    with pytest.raises(UsageError, match="returned a int, which cannot embed"):
        embedder("x:y")
