"""Error responses."""

from __future__ import annotations

import json

from chat_inbox.http_errors import HTTPError
from chat_service.problems import CODES, problem_response


def test_a_problem_has_the_members_of_the_standard_and_a_code() -> None:
    response = problem_response(HTTPError(404, "There is no such session."))

    assert response.media_type == "application/problem+json"
    assert json.loads(bytes(response.body)) == {
        "type": "about:blank",
        "title": "Not Found",
        "status": 404,
        "detail": "There is no such session.",
        "code": "not_found",
        "message": "There is no such session.",
    }


def test_every_code_is_used_for_one_status() -> None:
    assert len(set(CODES.values())) == len(CODES)
