"""The OpenAPI document describes the routes of the service."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest
from chat_service import ServiceSettings
from chat_service.openapi import build_document
from chat_store import MemoryStore
from service_helpers import build_service, scripted, serving

pytestmark = pytest.mark.anyio


def document(settings: ServiceSettings | None = None) -> dict[str, Any]:
    return cast("dict[str, Any]", build_document(settings or ServiceSettings()))


async def test_the_document_is_served_without_a_token(store: MemoryStore) -> None:
    async with serving(build_service(store, scripted())) as client:
        reply = await client.as_user(None).get("/openapi.json")

    assert reply.json == json.loads(json.dumps(document()))
    assert reply.json["openapi"] == "3.1.0"


async def test_every_operation_exists_and_no_other(store: MemoryStore) -> None:
    methods = ("get", "post", "put", "patch", "delete")
    async with serving(build_service(store, scripted())) as client:
        for path, operations in document()["paths"].items():
            url = path.replace("{session}", "x").replace("{run}", "x").replace("{chat}", "x")
            for method in methods:
                reply = await client.request(method.upper(), url)
                assert (reply.status == 405) == (method not in operations)
                if method in operations:
                    assert str(reply.status) in operations[method]["responses"]


def test_every_reference_names_a_schema() -> None:
    found = document()
    text = json.dumps(found)
    names = {part.split('"')[0] for part in text.split("#/components/schemas/")[1:]}

    assert names == set(found["components"]["schemas"])


def test_the_limits_are_those_of_the_settings() -> None:
    found = document(ServiceSettings(max_message_bytes=17, max_page_size=3))

    body = found["paths"]["/api/v1/chat"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert body["properties"]["message"]["maxLength"] == 17
    assert found["paths"]["/api/v1/sessions"]["get"]["parameters"][0]["schema"]["maximum"] == 3
