"""The description of the routes for front ends and clients of other protocols."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest
from chat_service.openapi_clients import SCHEMAS, client_paths

PATHS = cast("dict[str, Any]", client_paths())


def test_every_referenced_schema_exists() -> None:
    names = {part.split('"')[0] for part in json.dumps(PATHS).split("#/components/schemas/")[1:]}

    assert names == {*SCHEMAS, "Problem"}


@pytest.mark.parametrize("path", [path for path in PATHS if path.startswith("/v1/")])
def test_errors_of_openai_have_their_own_form(path: str) -> None:
    responses = PATHS[path]["post"]["responses"]

    assert {*responses["400"]["content"]} == {"application/json", "application/problem+json"}


@pytest.mark.parametrize("path", ["/agui", "/vercel"])
def test_refused_requests_of_front_ends_are_problems(path: str) -> None:
    responses = PATHS[path]["post"]["responses"]

    assert {*responses["409"]["content"]} == {"application/problem+json"}
    assert {*responses["200"]["content"]} == {"text/event-stream"}
