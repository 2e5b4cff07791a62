"""The OpenAPI document describes the routes of workflows, if the service has workflows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from chat_service import ServiceSettings
from chat_service.openapi import build_document
from chat_service.openapi_workflows import add_workflows
from chat_store import MemoryStore
from workflow_helpers import Office

pytestmark = pytest.mark.anyio


async def test_every_operation_exists_and_no_other(tmp_path: Path, store: MemoryStore) -> None:
    async with Office(tmp_path, store).serving() as client:
        document = (await client.get("/openapi.json")).json
        paths = {path: item for path, item in document["paths"].items() if "/workflow" in path}
        for path, operations in paths.items():
            url = path.replace("{workflow}", "x").replace("{run}", "x")
            for method in ("get", "post", "put", "patch", "delete"):
                reply = await client.request(method.upper(), url)
                assert (reply.status == 405) == (method not in operations)
                if method in operations:
                    assert str(reply.status) in operations[method]["responses"]

    assert len(paths) == 8


def test_every_reference_names_a_schema() -> None:
    document = build_document(ServiceSettings())
    assert "/api/v1/workflows" not in json.dumps(document)
    add_workflows(document, ServiceSettings(max_page_size=7))
    text = json.dumps(document)
    names = {part.split('"')[0] for part in text.split("#/components/schemas/")[1:]}
    schemas = json.loads(text)["components"]["schemas"]
    runs = json.loads(text)["paths"]["/api/v1/workflow-runs"]["get"]

    assert names == set(schemas)
    assert runs["parameters"][1]["schema"]["maximum"] == 7
