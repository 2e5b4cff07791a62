"""Random requests that an OpenAPI document describes, with checks of the responses."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import checks
from schemathesis.specs.openapi import checks as openapi_checks
from service_helpers import WAIT, Client

EXAMPLES = 300 if os.environ.get("CHAT_THOROUGH") else 8
"""Requests for each operation, for each kind of data and for each session or run."""
_GENERAL: Any = checks
_OPENAPI: Any = openapi_checks
CHECKS = [
    _GENERAL.not_a_server_error,
    _OPENAPI.status_code_conformance,
    _OPENAPI.content_type_conformance,
    _OPENAPI.response_headers_conformance,
    _OPENAPI.response_schema_conformance,
]


def send_requests(client: Client, document: Mapping[str, Any], sessions: Sequence[str], runs: Sequence[str]) -> int:
    """Send requests of each operation, check the responses, and return the number of requests."""
    schema: Any = schemathesis.openapi.from_dict(dict(document))
    sent = 0
    for result in schema.get_all_operations():
        operation = result.ok()
        ids = sessions if "{session}" in operation.path else runs if "{run}" in operation.path else ()
        name = "session" if ids is sessions else "run"
        if operation.path.endswith("{session}/events"):
            ids = ()  # this stream does not end while the session exists
        for known in [None, *({name: found} for found in ids)]:
            for mode in schemathesis.GenerationMode:
                strategy = operation.as_strategy(generation_mode=mode, path_parameters=known)

                @settings(
                    max_examples=EXAMPLES,
                    deadline=None,
                    derandomize=True,
                    database=None,
                    phases=[Phase.generate],
                    suppress_health_check=[
                        HealthCheck.too_slow,
                        HealthCheck.filter_too_much,
                        HealthCheck.data_too_large,
                    ],
                )
                @given(case=strategy)
                def send(case: Any) -> None:
                    nonlocal sent
                    headers = {"authorization": f"Bearer {client.token}"}
                    response = case.call(base_url=f"http://127.0.0.1:{client.port}", headers=headers, timeout=WAIT)
                    case.validate_response(response, checks=CHECKS)
                    sent += 1

                with suppress(Unsatisfiable):  # an operation without parameters has no invalid data
                    send()
    return sent
