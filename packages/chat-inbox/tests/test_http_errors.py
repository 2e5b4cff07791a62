"""HTTP errors as problem details."""

from __future__ import annotations

from chat_inbox.http_errors import HTTPError


def test_http_error_has_a_problem_document() -> None:
    assert HTTPError(409, "ana was faster.").document == {
        "type": "about:blank",
        "title": "Conflict",
        "status": 409,
        "detail": "ana was faster.",
    }
    assert HTTPError(422, "no.", errors={"cents": "too few"}).document["errors"] == {"cents": "too few"}
