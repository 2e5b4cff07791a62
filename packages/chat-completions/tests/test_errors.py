from __future__ import annotations

import pytest
from chat_completions.errors import error_from_finish_reason, find_error
from chat_core.errors import ServerError


def test_only_failure_finish_reasons_become_errors() -> None:
    assert error_from_finish_reason("stop", "p") is None
    assert error_from_finish_reason(None, "p") is None
    assert isinstance(error_from_finish_reason("error", "p"), ServerError)


@pytest.mark.parametrize(
    "answer",
    [
        {"error": {"message": "no"}},
        [{"error": {"message": "no"}}],
        {"object": "error", "message": "no"},
        {"code": 500, "message": "no"},
        {"detail": "no"},
        {"base_resp": {"status_code": 1004, "status_msg": "no"}, "choices": []},
    ],
)
def test_find_error_recognizes_every_shape_of_an_error_body(answer: object) -> None:
    assert find_error(answer) is not None


@pytest.mark.parametrize(
    "answer", [{"choices": []}, {"choices": [], "error": None}, {"message": "hi"}, {"code": 0}, "hi"]
)
def test_find_error_returns_none_for_a_response(answer: object) -> None:
    assert find_error(answer) is None
