"""The trace id of a request appears in its log records and in those of its run."""

from __future__ import annotations

import logging

import pytest
from chat_core.testing import Answer
from chat_service import RequestIdFilter, ServiceSettings
from chat_service.traces import HeaderTraces, trace_id_of
from chat_store import MemoryStore
from service_helpers import build_service, scripted, serving

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
VALID = f"00-{TRACE}-{PARENT}-01"


@pytest.mark.parametrize(
    "value",
    [
        pytest.param("", id="empty"),
        pytest.param(f"01-{TRACE}-{PARENT}-01", id="version"),
        pytest.param(f"00-{TRACE.upper()}-{PARENT}-01", id="upper-case"),
        pytest.param(f"00-{'0' * 32}-{PARENT}-01", id="no-trace"),
        pytest.param(f"00-{TRACE}-{'0' * 16}-01", id="no-parent"),
        pytest.param(f"{VALID}\n", id="line-end"),
        pytest.param(f"{VALID}-more", id="longer"),
    ],
)
def test_an_invalid_header_is_no_trace(value: str) -> None:
    assert HeaderTraces().capture({"traceparent": value}) == {}
    assert trace_id_of({"traceparent": value}) is None


def test_a_valid_header_has_a_trace_id() -> None:
    trace = HeaderTraces().capture({"traceparent": VALID, "tracestate": "vendor=1"})

    assert (trace, trace_id_of(trace)) == ({"traceparent": VALID}, TRACE)


@pytest.mark.anyio
async def test_records_of_a_request_and_of_its_run_have_the_trace_id(
    store: MemoryStore, caplog: pytest.LogCaptureFixture
) -> None:
    async def log() -> None:
        logging.getLogger("model").warning("asked")

    caplog.handler.addFilter(RequestIdFilter())
    model = scripted(Answer(["Hi."], before=log), Answer(["Hi."], before=log))
    with caplog.at_level("INFO", "chat_service"):
        async with serving(build_service(store, model, settings=ServiceSettings(poll_seconds=0.2))) as client:
            await client.post("/api/v1/chat", {"message": "Hello."}, traceparent=VALID, x_request_id="r-1")
            await client.post("/api/v1/chat", {"message": "Hello."}, x_request_id="r-2")
    found = {(record.name, getattr(record, "request_id"), getattr(record, "trace_id")) for record in caplog.records}  # noqa: B009 - a field of the log

    requests = {("chat_service", "r-1", TRACE), ("chat_service", "r-2", "-")}
    assert found == {("model", "-", TRACE), ("model", "-", "-"), *requests}
