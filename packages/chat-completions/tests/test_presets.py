from __future__ import annotations

from dataclasses import FrozenInstanceError, fields
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import pytest
from chat_completions import PRESETS, Dialect, Preset
from chat_completions.presets import ANY_SERVER, OPENAI

PAGE: Final = Path(__file__).resolve().parents[3] / "docs" / "reference" / "presets.md"

WORDS: Final = {
    "max_tokens_field": "the limit of an answer is `{}`",
    "seed_field": "the seed is `{}`",
    "reasoning_style": "reasoning: {}",
    "reasoning_field": "reasoning of the caller's goes into `{}`",
    "reasoning_required": "a message with calls always has reasoning",
    "structured": "structured answers: {}",
    "strict_rewrite": "schemas are sent as they are written",
    "stream_usage": "`stream_options` is not sent",
    "short_call_ids": "ids of calls have nine letters and digits",
    "tools": "no tools",
    "files": "files: {}",
    "refuses": "not known: {}",
    "dimensions_field": "the length of vectors is `{}`",
}
VALUES: Final = {
    "object": "the object `reasoning`, an effort or a budget",
    "thinking": "an effort, or the switch `thinking` for none",
    "json_object": "as JSON, the schema in words",
}
EMBEDDINGS: Final = {"none": "no", "fixed": "yes", "sized": "yes, of any length"}


def place(preset: Preset) -> str:
    named = f" or `{preset.base_url_variable}`" if preset.base_url_variable else ""
    return f"`{preset.base_url}`{named}" if preset.base_url else f"yours, `{preset.base_url_variable}`"


def key(preset: Preset) -> str:
    if not preset.key_variables:
        return "none is needed"
    header = "" if preset.key_header == "authorization" else f", in the header `{preset.key_header}`"
    return f"`{'`, `'.join(preset.key_variables)}`{header}{'' if preset.key_needed else '; not always needed'}"


def shown(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join([str(item) for item in value]) or "none"  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    return VALUES.get(str(value), str(value))


def differences(preset: Preset) -> str:
    told = [WORDS[name].format(shown(value)) for name, value in preset.differences.items()]
    return "; ".join([*told, *preset.notes])


def table() -> list[str]:
    """The rows of the page, from the presets."""
    return [
        f"| {preset.title} | `{preset.name}` | {place(preset)} | {key(preset)} | {EMBEDDINGS[preset.embeddings]} "
        f"| {differences(preset)} | {'yes' if preset.recorded else 'no recording'} |"
        for preset in PRESETS.values()
    ]


def test_the_page_is_what_the_presets_say() -> None:
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    found = [line for line in lines if line.startswith("| ") and "`" in line and line.count("|") == 8]
    assert found == table(), "the table is now:\n" + "\n".join(table())


def test_every_difference_that_a_preset_can_have_has_words() -> None:
    assert {name for preset in PRESETS.values() for name in preset.differences} == set(WORDS)


def test_a_preset_stands_under_its_own_name() -> None:
    assert {name: preset.name for name, preset in PRESETS.items()} == {name: name for name in PRESETS}
    assert list(PRESETS) == sorted(PRESETS)
    with pytest.raises(TypeError):
        PRESETS["x"] = OPENAI  # type: ignore[index]  # pyright: ignore[reportIndexIssue]


@pytest.mark.parametrize("preset", PRESETS.values(), ids=lambda preset: preset.name)
def test_a_preset_is_whole(preset: Preset) -> None:
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


def test_nothing_can_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        OPENAI.title = "x"  # type: ignore[misc]


def test_what_is_like_openai_is_no_difference() -> None:
    assert ANY_SERVER.differences == {}
    assert OPENAI.differences == {"files": ("image", "audio", "document")}
    named = {item.name for item in fields(Dialect)}
    assert all(set(preset.differences) <= named - {"model", "provider"} for preset in PRESETS.values())
