from __future__ import annotations

import pytest
from chat_completions.errors import error_from_finish_reason, find_error
from chat_core.errors import ServerError


def test_only_some_finish_reasons_are_failures() -> None:
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
def test_an_error_may_stand_in_the_place_of_an_answer(answer: object) -> None:
    assert find_error(answer) is not None


@pytest.mark.parametrize(
    "answer", [{"choices": []}, {"choices": [], "error": None}, {"message": "hi"}, {"code": 0}, "hi"]
)
def test_an_answer_is_no_error(answer: object) -> None:
    assert find_error(answer) is None
