"""Models by name, from entry points of installed packages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
from chat_core import ProviderMeta, UnknownModelError, UsageError, embedder, model
from chat_core.models import EMBEDDERS, MODELS, installed
from chat_core.testing import ScriptedProvider


@dataclass(frozen=True)
class FakeEntryPoint:
    """Entry point whose object is given instead of imported."""

    group: str
    name: str
    factory: Callable[..., object]

    def load(self) -> Callable[..., object]:
        return self.factory


def make_model(name: str, *, api_key: str = "", base_url: str = "") -> ScriptedProvider:
    return ScriptedProvider("Hi!", meta=ProviderMeta("fake", f"{name} {api_key}{base_url}"))


def make_local(*, base_url: str = "") -> ScriptedProvider:
    return ScriptedProvider("Hi!", meta=ProviderMeta("local", base_url))


ENTRY_POINTS = (
    FakeEntryPoint(MODELS, "fake", make_model),
    FakeEntryPoint(MODELS, "local", make_local),
    FakeEntryPoint(MODELS, "wrong", len),
    FakeEntryPoint(EMBEDDERS, "fake", len),
)


@pytest.fixture(autouse=True)
def fake_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    def entry_points(*, group: str, name: str | None = None) -> list[FakeEntryPoint]:
        return [item for item in ENTRY_POINTS if item.group == group and name in {None, item.name}]

    monkeypatch.setattr("importlib.metadata.entry_points", entry_points)


def test_model_is_built_from_its_name_and_settings() -> None:
    assert model("fake:llama-3:8b", api_key="k").metadata.model == "llama-3:8b k"


def test_model_name_may_be_omitted_if_the_factory_takes_none() -> None:
    assert model("local", base_url="here").metadata.model == "here"


def test_installed_lists_the_provider_names() -> None:
    assert installed() == ("fake", "local", "wrong")


def test_unknown_provider_error_names_the_installed_providers_and_a_package() -> None:
    with pytest.raises(UnknownModelError, match=r"no provider 'nobody': use NAME.*installed are fake, local, wrong$"):
        model("nobody:x")
    with pytest.raises(UnknownModelError, match=r"no provider 'claude': install chat-claude; installed are fake"):
        model("claude:x")
    with pytest.raises(UnknownModelError, match=r"no provider 'claude'.*installed are fake$"):
        embedder("claude:x")


def test_unknown_provider_error_mentions_that_no_packages_are_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_entry_points(**_selection: str) -> tuple[()]:
        return ()

    monkeypatch.setattr("importlib.metadata.entry_points", no_entry_points)
    with pytest.raises(UnknownModelError, match="no provider 'claude': install chat-claude; installed are none"):
        model("claude:x")


@pytest.mark.parametrize("name", ["fake", "fake:"])
def test_provider_name_without_a_model_name_raises(name: str) -> None:
    with pytest.raises(UnknownModelError, match=r"'fake:?' contains no model name: use fake:NAME"):
        model(name)


def test_unknown_setting_raises_and_lists_the_known_settings() -> None:
    with pytest.raises(UsageError, match="'fake' has no setting temperature; its settings are api_key, base_url"):
        model("fake:x", temperature=1)


def test_factory_that_returns_another_type_raises_usage_error() -> None:
    with pytest.raises(UsageError, match="returned a int, which is not a chat model"):
        model("wrong:y")
    with pytest.raises(UsageError, match="returned a int, which is not an embeddings provider"):
        embedder("fake:y")
