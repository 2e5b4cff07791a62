"""The operations on a memory in the OpenAPI document."""

from __future__ import annotations

import json
from typing import Any, cast

from chat_service import ServiceSettings
from chat_service.memory_routes import MAX_QUESTION
from chat_service.openapi import build_document
from chat_service.openapi_memory import MEMORY_SCHEMAS


def document(settings: ServiceSettings) -> dict[str, Any]:
    return cast("dict[str, Any]", build_document(settings, has_memory=True))


def test_every_schema_of_a_memory_is_used() -> None:
    found = document(ServiceSettings())
    names = {part.split('"')[0] for part in json.dumps(found).split("#/components/schemas/")[1:]}

    assert names == set(found["components"]["schemas"])
    assert set(MEMORY_SCHEMAS) <= names


def test_the_limits_are_those_of_the_service() -> None:
    question, limit = document(ServiceSettings(max_page_size=3))["paths"]["/api/v1/memory/search"]["get"]["parameters"]

    assert (question["name"], question["schema"]["maxLength"]) == ("q", MAX_QUESTION)
    assert (limit["name"], limit["schema"]["maximum"]) == ("limit", 3)
