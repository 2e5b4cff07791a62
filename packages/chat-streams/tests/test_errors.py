from __future__ import annotations

import pytest
from chat_core.errors import AuthenticationError, ConflictError, InterruptedToolsError, StreamTruncatedError
from chat_streams import ClientInputError, ErrorCode, RunFailedError, describe_error

DETAILS = "https://vendor.example/v1?key=s3cret returned 404 in app.py"


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (AuthenticationError(DETAILS), "llm_error"),
        (StreamTruncatedError(DETAILS), "stream_error"),
        (ConflictError(DETAILS), "conflict"),
        (ZeroDivisionError(DETAILS), "internal"),
    ],
)
def test_an_exception_is_described_by_a_fixed_text(error: Exception, code: ErrorCode) -> None:
    found, text = describe_error(error)
    assert found == code
    assert "again" in text
    assert not any(word in text for word in DETAILS.split() if len(word) > 2)


def test_interrupted_tools_are_described_as_a_conflict() -> None:
    code, text = describe_error(InterruptedToolsError(DETAILS, ["call_1"]))
    assert (code, "may have taken effect" in text, "s3cret" in text) == ("conflict", True, False)


def test_a_refused_request_is_described_by_its_message() -> None:
    error = ClientInputError("conflict", "Message 'm-1' was changed.")
    assert describe_error(error) == ("conflict", "Message 'm-1' was changed.")
    assert [ClientInputError(code, "").status for code in ("invalid_request", "forbidden", "conflict")] == [
        400,
        403,
        409,
    ]


def test_a_failed_run_of_another_process_is_described_by_its_code_and_text() -> None:
    assert describe_error(RunFailedError("cancelled", "The run was cancelled.")) == (
        "cancelled",
        "The run was cancelled.",
    )
