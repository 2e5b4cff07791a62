from __future__ import annotations

import copy
import inspect
import pickle
import re

import pytest
from chat_core import errors
from chat_core.errors import (
    AlreadyClaimed,
    Authentication,
    ChatError,
    ContentFiltered,
    ContextLength,
    IllegalTransition,
    InterruptedTools,
    InvalidDocument,
    InvalidResponse,
    LeaseLost,
    MaxStepsExceeded,
    Network,
    NewerVersion,
    NotFound,
    Overloaded,
    PendingTools,
    PermissionDenied,
    Provider,
    QuotaExceeded,
    RateLimited,
    Refused,
    ServerFault,
    StreamTruncated,
    Timeout,
    TransportError,
    UsageError,
)
from chat_core.messages import Text, Turn
from chat_core.usage import Metadata, Usage

CLASSES = [
    item
    for _, item in inspect.getmembers(errors, inspect.isclass)
    if issubclass(item, ChatError) and item is not ChatError
]


def make(kind: type[ChatError]) -> ChatError:
    if issubclass(kind, (PendingTools, InterruptedTools)):
        return kind("it went wrong", ["a", "b"])
    return kind("it went wrong")


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: str(kind.__name__))
def test_every_error_of_a_run_has_one_base_and_carries_what_was_paid(kind: type[ChatError]) -> None:
    error = make(kind)
    assert isinstance(error, ChatError)
    assert (error.usage, error.metadata, error.attempts, error.partial) == (Usage(), None, 0, None)
    error.usage += Usage(1, 2)
    error.attempts = 3
    assert error.usage == Usage(1, 2)
    assert "it went wrong" in str(error)


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: str(kind.__name__))
def test_an_error_crosses_processes_with_all_that_it_carries(kind: type[ChatError]) -> None:
    error = make(kind)
    error.usage, error.partial = Usage(1, 2), Turn([Text("half")])
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):  # noqa: S301 - our own bytes
        assert type(again) is kind
        assert str(again) == str(error)
        assert vars(again) == vars(error)


def test_what_may_succeed_later_says_so() -> None:
    retryable = {kind.__name__ for kind in CLASSES if make(kind).retryable}
    assert retryable == {"Network", "Timeout", "StreamTruncated", "RateLimited", "Overloaded", "ServerFault"}


def test_a_provider_may_know_better_whether_to_try_again() -> None:
    assert Provider("odd", retryable=True).retryable
    assert not RateLimited("for ever", retryable=False).retryable
    assert RateLimited("later", retry_after=3.5).retry_after == 3.5


def test_a_refused_request_says_what_the_provider_said() -> None:
    error = Provider("no", status=400, code="bad", request_id="req_1", body=b"{}", metadata=Metadata("openai"))
    assert (error.status, error.code, error.request_id, error.body) == (400, "bad", "req_1", b"{}")
    assert error.metadata == Metadata("openai")


def test_errors_of_a_kind_are_caught_together() -> None:
    refusals: list[type] = [
        RateLimited,
        Overloaded,
        ServerFault,
        QuotaExceeded,
        Authentication,
        PermissionDenied,
        NotFound,
    ]
    assert all(issubclass(kind, Provider) for kind in refusals)
    assert issubclass(ContextLength, errors.InvalidRequest)
    assert issubclass(ContentFiltered, errors.InvalidRequest)
    assert issubclass(Timeout, Network)
    assert issubclass(NewerVersion, InvalidDocument)
    with pytest.raises(RateLimited) as caught:
        raise RateLimited(retry_after=1)
    assert caught.value.retryable


def test_the_callers_own_mistakes_are_type_errors_and_bad_documents_value_errors() -> None:
    assert issubclass(UsageError, TypeError)
    assert issubclass(IllegalTransition, UsageError)
    assert issubclass(InvalidDocument, ValueError)


def test_an_error_about_calls_names_them() -> None:
    assert PendingTools("wait", ["a", "b"]).tool_ids == ("a", "b")
    assert InterruptedTools("unknown", ["a"]).tool_ids == ("a",)


def test_an_error_about_a_place_says_where() -> None:
    assert str(InvalidDocument("missing", path="contents[0].role")) == "contents[0].role: missing"
    assert str(InvalidDocument("not JSON")) == "not JSON"
    partial = Turn([Text("half")])
    error = InvalidResponse("missing", path="choices[0]", raw="{}", partial=partial)
    assert (error.path, error.raw, error.partial) == ("choices[0]", "{}", partial)


def test_a_transports_error_is_none_of_a_runs() -> None:
    error = TransportError("status", "refused", status=503, headers={"retry-after": "1"}, body=b"busy")
    assert not isinstance(error, ChatError)
    assert (error.kind, error.status, error.headers, error.body) == ("status", 503, {"retry-after": "1"}, b"busy")
    assert TransportError("connect", "refused").headers == {}


def test_the_tree_in_the_docstring_is_the_tree() -> None:
    drawn = set(re.findall(r"[A-Z][A-Za-z]+[a-z](?=\b)", (errors.__doc__ or "").replace("TypeError", "")))
    assert {kind.__name__ for kind in CLASSES} <= drawn


@pytest.mark.parametrize(
    "kind", [StreamTruncated, Refused, MaxStepsExceeded, AlreadyClaimed, LeaseLost], ids=lambda kind: str(kind.__name__)
)
def test_what_came_so_far_is_in_the_error(kind: type[ChatError]) -> None:
    partial = Turn([Text("half")])
    error = kind("ended", usage=Usage(3, 4), partial=partial, attempts=2)
    assert (error.usage, error.partial, error.attempts) == (Usage(3, 4), partial, 2)
