from __future__ import annotations

from dataclasses import FrozenInstanceError, fields
from datetime import date
from urllib.parse import urlsplit

import pytest
from chat_completions import PRESETS, Dialect, FixedEmbeddings, Preset, SizedEmbeddings, Source
from chat_completions.presets import ANY_SERVER, AnyPreset
from chat_completions.vendors import CHECKED, GROQ, RECHECKED, REFUSALS_CHECKED, TOGETHER


def test_presets_are_keyed_and_sorted_by_name() -> None:
    assert {name: preset.name for name, preset in PRESETS.items()} == {name: name for name in PRESETS}
    assert list(PRESETS) == sorted(PRESETS)
    with pytest.raises(TypeError):
        PRESETS["x"] = GROQ  # type: ignore[index]  # pyright: ignore[reportIndexIssue] - wrong on purpose


@pytest.mark.parametrize("preset", PRESETS.values(), ids=lambda preset: preset.name)
def test_every_preset_has_a_title_a_server_and_a_key_variable_if_needed(preset: AnyPreset) -> None:
    assert preset.dialect.model == ""
    assert preset.title
    if preset.base_url is not None:
        url = urlsplit(preset.base_url)
        assert not url.query
        assert not preset.base_url.endswith("/")
        assert url.scheme == ("http" if url.hostname == "localhost" else "https"), "a key never travels in the clear"
    else:
        assert preset.base_url_variable
    assert not preset.key_needed or preset.key_variables
    assert preset.own_server is (preset.base_url is None or "localhost" in preset.base_url)
    assert bool(preset.hint) is ("localhost" in (preset.base_url or ""))


def test_presets_are_immutable() -> None:
    with pytest.raises(FrozenInstanceError):
        GROQ.title = "x"  # type: ignore[misc]  # wrong on purpose


def test_differences_lists_only_fields_that_deviate_from_the_default() -> None:
    assert ANY_SERVER.differences == {}
    assert TOGETHER.differences == {"max_tokens_field": "max_tokens", "files": ("image", "audio", "video")}
    named = {item.name for item in fields(Dialect)}
    assert all(set(preset.differences) <= named - {"model", "provider"} for preset in PRESETS.values())


@pytest.mark.parametrize("preset", PRESETS.values(), ids=lambda preset: preset.name)
def test_every_source_cites_known_facts_and_no_fact_is_cited_twice(preset: AnyPreset) -> None:
    cited = [fact for source in preset.sources for fact in source.facts]
    assert len(cited) == len(set(cited))
    assert set(cited) <= set(preset.facts)
    assert all(source.title and source.facts for source in preset.sources)
    assert {source.checked for source in preset.sources} <= {CHECKED, RECHECKED, REFUSALS_CHECKED}
    assert all(urlsplit(source.url).scheme == "https" for source in preset.sources)


def test_source_of_returns_the_page_that_states_a_fact() -> None:
    page = Source("Reference", "https://vendor.example/reference", date(2026, 11, 22), ("base_url", "embeddings"))
    preset = Preset(
        title="Vendor",
        dialect=Dialect(model="", provider="vendor", seed_field="random_seed"),
        base_url="https://api.vendor.example/v1",
        embeddings=FixedEmbeddings(),
        sources=(page,),
    )
    assert preset.facts == ("base_url", "embeddings", "seed_field")
    assert [preset.source_of(fact) for fact in preset.facts] == [page, page, None]
    assert hash(preset) != hash(ANY_SERVER)
    assert ANY_SERVER.embeddings == SizedEmbeddings()
