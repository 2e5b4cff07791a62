"""The OpenAPI document describes the routes of workflows, if the service has workflows."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest
from chat_service import ServiceSettings
from chat_service.openapi import build_document
from chat_service.openapi_workflows import add_workflows
from chat_store import MemoryStore
from test_security_sweep import HOSTILE, is_problem, operations_of
from workflow_helpers import Office, waiting_run

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


async def test_hostile_path_parameters_name_no_workflow_and_no_run(tmp_path: Path, store: MemoryStore) -> None:
    async with Office(tmp_path, store).serving() as client:
        operations = operations_of((await client.get("/openapi.json")).json)
        checked = [operation for operation in operations if "/workflow" in operation.path and operation.names]
        run = (await waiting_run(client))["id"]
        for operation, value in itertools.product(checked, HOSTILE):
            ids = {"workflow": "pay", "run": run}
            hostile = {name: value.replace("ID", ids[name]) for name in operation.names}
            body: dict[str, object] | None = None if operation.method == "GET" else {}
            reply = await client.request(operation.method, operation.url(hostile), body)
            case = f"{operation.method} {operation.path} with {value[:60]}: {reply.status} {reply.body[:200]!r}"

            assert reply.status in {400, 404, 405, 422}, case
            assert is_problem(reply), case
            assert "x-injected" not in reply.headers, case

    assert len(checked) == 6
