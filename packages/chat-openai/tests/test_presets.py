"""Presets of the vendors for both APIs, and the sources of their facts."""

from __future__ import annotations

import chat_openai
import pytest
from chat_openai.presets import CHECKED, SDK_CHECKED, VENDORS, Vendor


def test_vendors_are_keyed_by_name_and_have_an_exported_builder() -> None:
    assert list(VENDORS) == ["azure", "openai", "openrouter"]
    assert {name: vendor.preset.name for name, vendor in VENDORS.items()} == {name: name for name in VENDORS}
    assert {vendor.preset.own_builder for vendor in VENDORS.values()} <= set(chat_openai.__all__)


@pytest.mark.parametrize("vendor", VENDORS.values(), ids=lambda vendor: vendor.preset.name)
def test_every_vendor_has_a_server_and_a_key_variable(vendor: Vendor) -> None:
    preset = vendor.preset
    assert (preset.dialect.model, vendor.responses.model) == ("", "")
    assert vendor.responses.provider == f"{preset.name}-responses"
    assert (preset.base_url is None) is preset.own_server
    assert preset.base_url or preset.base_url_variable
    assert preset.key_variables


@pytest.mark.parametrize("vendor", VENDORS.values(), ids=lambda vendor: vendor.preset.name)
def test_every_source_cites_known_facts_and_no_fact_is_cited_twice(vendor: Vendor) -> None:
    cited = [fact for source in vendor.preset.sources for fact in source.facts]
    assert len(cited) == len(set(cited))
    assert set(cited) <= set(vendor.preset.facts)
    assert {source.checked for source in vendor.preset.sources} <= {CHECKED, SDK_CHECKED}
