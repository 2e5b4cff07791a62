"""`ServiceSettings` refuses values that cannot work."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Any

import pytest
from chat_core import UsageError
from chat_service import ServiceSettings


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        pytest.param("hosts", "chat.example.org", "a tuple of host names", id="one-host"),
        pytest.param("socket_origins", (5,), "a tuple of host names", id="no-host"),
        pytest.param("metrics_role", None, "a string", id="no-role"),
        pytest.param("workers", -1, "at least 0", id="negative"),
        pytest.param("workers", 1.5, "a whole number", id="fraction"),
        pytest.param("max_body_bytes", 0, "at least 1", id="no-body"),
        pytest.param("run_seconds", "5", "a number", id="text"),
        pytest.param("run_seconds", 0, "at least 0.001", id="no-time"),
        pytest.param("run_seconds", math.nan, "at least 0.001", id="nan"),
        pytest.param("idempotency_seconds", math.inf, "at most 100000000", id="infinite"),
    ],
)
def test_a_setting_that_cannot_work_is_refused(name: str, value: Any, problem: str) -> None:
    with pytest.raises(UsageError, match=f"^{name} must be .*{problem}"):
        ServiceSettings(**{name: value})


def test_every_setting_accepts_its_limits() -> None:
    zero = {
        "requests_per_minute",
        "address_requests_per_minute",
        "socket_connects_per_minute",
        "ping_seconds",
        "workers",
    }
    settings: dict[str, Any] = {
        field.name: 100_000_000 if isinstance(field.default, float) else field.default
        for field in fields(ServiceSettings)
    }
    settings |= dict.fromkeys(zero, 0)
    found = ServiceSettings(**settings)

    assert (found.run_seconds, found.workers, found.socket_connects_per_minute) == (100_000_000, 0, 0)
