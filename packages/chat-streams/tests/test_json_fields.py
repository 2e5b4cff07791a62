"""Fields of a JSON request."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from chat_streams import ClientInputError
from chat_streams.json_fields import read_body, require_list, require_object, require_text

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b"\xff", b"[" * 100_000, '{"a":' * 300 + "1" + "}" * 300])
def test_a_body_is_an_object(body: bytes | str) -> None:
    with pytest.raises(ClientInputError) as refused:
        read_body(body)
    assert refused.value.status == 400


def test_fields_of_the_right_type_are_returned() -> None:
    fields = read_body('{"list": [1], "object": {}, "text": ""}')
    assert require_list(fields["list"], "list") == [1]
    assert require_object(fields["object"], "object") == {}
    assert require_text(fields, "text") == ""


@pytest.mark.parametrize(
    "read",
    [
        lambda: require_list({}, "x"),
        lambda: require_list(None, "x"),
        lambda: require_object([], "x"),
        lambda: require_text({"x": 1}, "x"),
        lambda: require_text({}, "x"),
    ],
)
def test_a_field_of_another_type_is_named(read: Callable[[], object]) -> None:
    with pytest.raises(ClientInputError, match=r"malformed: x must be"):
        read()
