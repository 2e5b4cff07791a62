"""Names of models that the packages of this workspace register."""

from __future__ import annotations

from importlib.metadata import entry_points

from chat_core import embedder, model
from chat_core.models import EMBEDDERS, MODELS, PACKAGES, installed


def test_models_are_built_by_name() -> None:
    claude = model("claude:claude-sonnet-4-5", api_key="k")
    local = model("completions:llama-3:8b", base_url="http://localhost:8000/v1")

    assert (claude.metadata.name, claude.metadata.model) == ("claude", "claude-sonnet-4-5")
    assert local.metadata.model == "llama-3:8b"


def test_embedders_are_built_by_name() -> None:
    assert embedder("openai:text-embedding-3-small", api_key="k", dimensions=5).metadata.model.startswith("text-emb")
    assert embedder("gemini:gemini-embedding-001", api_key="k").metadata.model == "gemini-embedding-001"


def test_entry_points_match_the_documented_model_names() -> None:
    names = {item.name: item for item in entry_points(group=MODELS)}

    assert {name for group in PACKAGES.values() for name in group} == set(names) == set(installed())
    for package, registered in PACKAGES.items():
        for name in registered:
            assert names[name].value.startswith(package.replace("-", "_"))
    assert all(callable(item.load()) for group in (MODELS, EMBEDDERS) for item in entry_points(group=group))
