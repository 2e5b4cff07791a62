from __future__ import annotations

import copy
import inspect
import pickle
import re

import pytest
from chat_core import errors
from chat_core.errors import (
    AuthenticationError,
    ChatError,
    ConflictError,
    ContentFilteredError,
    ContextLengthError,
    IllegalTransitionError,
    InterruptedToolsError,
    InvalidDocumentError,
    InvalidResponseError,
    LeaseLostError,
    MaxStepsExceededError,
    NetworkError,
    NewerVersionError,
    NotFoundError,
    OverloadedError,
    PendingToolsError,
    PermissionDeniedError,
    PolicyError,
    ProviderError,
    QuotaExceededError,
    RateLimitedError,
    RefusalError,
    RequestTimeoutError,
    ServerError,
    StreamTruncatedError,
    ToolMissingError,
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
    if issubclass(kind, (PendingToolsError, InterruptedToolsError, PolicyError)):
        return kind("it went wrong", ["a", "b"])
    if issubclass(kind, ToolMissingError):
        return kind("it went wrong", ["a", "b"], ["pay", "send"])
    return kind("it went wrong")


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: str(kind.__name__))
def test_every_chat_error_carries_usage_metadata_attempts_and_partial(kind: type[ChatError]) -> None:
    error = make(kind)
    assert isinstance(error, ChatError)
    assert (error.usage, error.metadata, error.attempts, error.partial) == (Usage(), None, 0, None)
    error.usage += Usage(1, 2)
    error.attempts = 3
    assert error.usage == Usage(1, 2)
    assert "it went wrong" in str(error)


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: str(kind.__name__))
def test_every_chat_error_keeps_its_attributes_when_pickled_or_copied(kind: type[ChatError]) -> None:
    error = make(kind)
    error.usage, error.partial = Usage(1, 2), Turn([Text("half")])
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):  # noqa: S301 - our own bytes
        assert type(again) is kind
        assert str(again) == str(error)
        assert vars(again) == vars(error)


def test_retryable_is_true_for_errors_that_may_succeed_later() -> None:
    retryable = {kind.__name__ for kind in CLASSES if make(kind).retryable}
    assert retryable == {
        "BatchCancelledError",
        "BatchExpiredError",
        "NetworkError",
        "OverloadedError",
        "RateLimitedError",
        "RequestTimeoutError",
        "ServerError",
        "StreamTruncatedError",
    }


def test_retryable_and_retry_after_can_be_passed_to_a_provider_error() -> None:
    assert ProviderError("odd", retryable=True).retryable
    assert not RateLimitedError("for ever", retryable=False).retryable
    assert RateLimitedError("later", retry_after=3.5).retry_after == 3.5


def test_provider_error_keeps_status_code_request_id_body_and_metadata() -> None:
    error = ProviderError("no", status=400, code="bad", request_id="req_1", body=b"{}", metadata=Metadata("openai"))
    assert (error.status, error.code, error.request_id, error.body) == (400, "bad", "req_1", b"{}")
    assert error.metadata == Metadata("openai")


def test_error_classes_share_base_classes_by_kind() -> None:
    refusals: list[type] = [
        RateLimitedError,
        OverloadedError,
        ServerError,
        QuotaExceededError,
        AuthenticationError,
        PermissionDeniedError,
        NotFoundError,
    ]
    assert all(issubclass(kind, ProviderError) for kind in refusals)
    assert issubclass(ContextLengthError, errors.InvalidRequestError)
    assert issubclass(ContentFilteredError, errors.InvalidRequestError)
    assert issubclass(RequestTimeoutError, NetworkError)
    assert issubclass(NewerVersionError, InvalidDocumentError)
    with pytest.raises(RateLimitedError) as caught:
        raise RateLimitedError(retry_after=1)
    assert caught.value.retryable


def test_usage_errors_are_type_errors_and_document_errors_are_value_errors() -> None:
    assert issubclass(UsageError, TypeError)
    assert issubclass(IllegalTransitionError, UsageError)
    assert issubclass(InvalidDocumentError, ValueError)


def test_errors_about_tool_calls_list_their_ids() -> None:
    assert PendingToolsError("wait", ["a", "b"]).tool_ids == ("a", "b")
    assert InterruptedToolsError("unknown", ["a"]).tool_ids == ("a",)


def test_error_messages_begin_with_the_path_in_the_document() -> None:
    assert str(InvalidDocumentError("missing", path="contents[0].role")) == "contents[0].role: missing"
    assert str(InvalidDocumentError("not JSON")) == "not JSON"
    partial = Turn([Text("half")])
    error = InvalidResponseError("missing", path="choices[0]", raw="{}", partial=partial)
    assert (error.path, error.raw, error.partial) == ("choices[0]", "{}", partial)


def test_transport_error_is_not_a_chat_error() -> None:
    error = TransportError("status", "refused", status=503, headers={"retry-after": "1"}, body=b"busy")
    assert not isinstance(error, ChatError)
    assert (error.kind, error.status, error.headers, error.body) == ("status", 503, {"retry-after": "1"}, b"busy")
    assert TransportError("connect", "refused").headers == {}


def test_class_tree_in_the_errors_docstring_lists_every_class() -> None:
    drawn = set(re.findall(r"[A-Z][A-Za-z]+[a-z](?=\b)", (errors.__doc__ or "").replace("TypeError", "")))
    assert {kind.__name__ for kind in CLASSES} <= drawn


@pytest.mark.parametrize(
    "kind",
    [StreamTruncatedError, RefusalError, MaxStepsExceededError, ConflictError, LeaseLostError],
    ids=lambda kind: str(kind.__name__),
)
def test_errors_of_a_run_carry_the_partial_turn_usage_and_attempts(kind: type[ChatError]) -> None:
    partial = Turn([Text("half")])
    error = kind("ended", usage=Usage(3, 4), partial=partial, attempts=2)
    assert (error.usage, error.partial, error.attempts) == (Usage(3, 4), partial, 2)
