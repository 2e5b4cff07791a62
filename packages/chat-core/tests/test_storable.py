from __future__ import annotations

from typing import Any

import pytest
from chat_core.errors import InvalidResponseError
from chat_core.messages import (
    File,
    FunctionCall,
    Messages,
    Opaque,
    Part,
    ProviderPart,
    Reasoning,
    Structured,
    Text,
    Tool,
    Turn,
)
from chat_core.messages.storable import MOST_LEVELS, require_storable
from chat_core.usage import Metadata


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def parts(value: Any) -> list[tuple[str, Part]]:
    data = {"value": value}
    opaque = Opaque("p", data)
    return [
        ("parts[0].opaque", Text("a", opaque)),
        ("parts[0].opaque", Reasoning("a", None, opaque)),
        ("parts[0].opaque", File("image/png", data=b"png", opaque=opaque)),
        ("parts[0].opaque", Tool(FunctionCall("f", {}, raw="{}", opaque=opaque))),
        ("parts[0].arguments", Tool(FunctionCall("f", data))),
        ("parts[0].data", ProviderPart("p", "kind", data)),
        *([("parts[0].value", Structured(data))] if type(value) is not object else []),
    ]


@pytest.mark.parametrize("value", [nested(MOST_LEVELS), nested(5000), object()], ids=["deep", "deeper", "object"])
def test_data_that_could_not_be_stored_or_read_is_refused(value: Any) -> None:
    for path, part in parts(value):
        if isinstance(part, Tool) and part.call.problem:
            continue  # the call itself has refused the arguments
        with pytest.raises(InvalidResponseError) as error:
            require_storable(Turn([part]))
        assert error.value.path == path
    with pytest.raises(InvalidResponseError, match=r"metadata\.extra"):
        require_storable(Turn([], metadata=Metadata(extra={"value": value})))


@pytest.mark.parametrize(
    "value", [nested(MOST_LEVELS - 1), "\ud83d", None, {"a": [1.5]}], ids=["deep", "surrogate", "null", "json"]
)
def test_json_of_a_limited_depth_is_accepted_and_can_be_read_again(value: Any) -> None:
    turn = Turn([part for _, part in parts(value)], metadata=Metadata(extra={"value": value}))
    assert require_storable(turn) is turn
    messages = Messages()
    messages.append("model", turn)
    assert Messages.from_json(messages.to_json()).to_json() == messages.to_json()


def test_circular_data_is_refused() -> None:
    circular: list[Any] = []
    circular.append(circular)
    with pytest.raises(InvalidResponseError):
        require_storable(Turn([ProviderPart("p", "kind", {"value": circular})]))
