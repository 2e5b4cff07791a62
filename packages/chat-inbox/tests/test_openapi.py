"""OpenAPI description: complete and valid."""

from __future__ import annotations

import json
import re
from typing import Any, cast

import pytest
from chat_core.approvals import Principal
from chat_core.tools import SchemaChecker
from chat_inbox.api import Api
from chat_inbox.approval_service import ApprovalService
from chat_inbox.background_runs import BackgroundRuns
from chat_inbox.event_response import OpenStreams
from chat_inbox.event_streams import EventStreams
from chat_inbox.inbox import allow_everyone
from chat_inbox.openapi import build_document
from chat_inbox.store_watcher import StoreWatcher
from chat_store import MemoryStore
from inbox_helpers import anyone, later
from starlette.requests import Request

DOCUMENT: Any = build_document()
OPERATIONS = [
    (path, method, operation) for path, item in DOCUMENT["paths"].items() for method, operation in item.items()
]


def api() -> Api:
    store = MemoryStore()

    async def who(_request: Request) -> Principal:
        return Principal("ana")

    runs = BackgroundRuns(store, lambda _: None)
    return Api(
        ApprovalService(store, lambda _: None, allow_everyone, anyone, later),
        EventStreams(StoreWatcher(store, runs), "boot", OpenStreams()),
        who,
    )


def test_document_describes_exactly_the_routes() -> None:
    served = {(route.path, method) for route in api().routes() for method in route.methods or () if method != "HEAD"}

    assert {(path, method.upper()) for path, method, _ in OPERATIONS} == served


def test_document_is_openapi_3_1() -> None:
    assert re.fullmatch(r"3\.1\.\d+", DOCUMENT["openapi"])
    assert DOCUMENT["info"]["title"] == "chat-inbox"
    assert DOCUMENT["info"]["version"]
    assert set(DOCUMENT) <= {"openapi", "info", "servers", "paths", "components"}
    assert build_document("/inbox")["servers"] == [{"url": "/inbox"}]


@pytest.mark.parametrize(("path", "method", "operation"), OPERATIONS)
def test_every_operation_has_a_summary_parameters_and_response_schemas(
    path: str, method: str, operation: dict[str, Any]
) -> None:
    known = {"operationId", "summary", "parameters", "requestBody", "responses"}
    assert set(operation) <= known
    assert operation["summary"]
    assert ("requestBody" in operation) == (method == "post")
    in_path = {item["name"] for item in operation.get("parameters", []) if item["in"] == "path"}
    assert in_path == set(re.findall(r"{(\w+)}", path))
    assert all(item["required"] for item in operation.get("parameters", []) if item["in"] == "path")
    assert all(set(item) >= {"name", "in", "schema"} for item in operation.get("parameters", []))
    assert set(operation["responses"]) - {"default"} <= {"200", "202"}
    for response in operation["responses"].values():
        assert response["description"]
        assert all("schema" in content for content in response["content"].values())


def test_operation_ids_are_unique() -> None:
    names = [operation["operationId"] for _, _, operation in OPERATIONS]

    assert len(set(names)) == len(names)


def schemas(node: object) -> list[dict[str, object]]:
    if isinstance(node, list):
        return [found for value in cast("list[object]", node) for found in schemas(value)]
    if not isinstance(node, dict):
        return []
    told = cast("dict[str, object]", node)
    schema = told.get("schema")
    own = [cast("dict[str, object]", schema)] if isinstance(schema, dict) else []
    return own + [found for value in told.values() for found in schemas(value)]


def test_schemas_are_valid_and_references_resolve() -> None:
    found = [*schemas(DOCUMENT["paths"]), *DOCUMENT["components"]["schemas"].values()]

    assert len(found) > 20
    for schema in found:
        SchemaChecker({**schema, "components": DOCUMENT["components"]})


def test_document_can_be_encoded_as_json() -> None:
    assert json.loads(json.dumps(DOCUMENT)) == DOCUMENT
