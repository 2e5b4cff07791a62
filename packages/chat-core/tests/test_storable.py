from __future__ import annotations

from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

import pytest
from chat_core.errors import InvalidResponseError
from chat_core.json import find_fault
from chat_core.messages import (
    Completed,
    Embedding,
    File,
    FunctionCall,
    Messages,
    Opaque,
    Part,
    Pending,
    ProviderPart,
    Reasoning,
    Structured,
    Text,
    Tool,
    Turn,
)
from chat_core.messages.storable import MOST_LEVELS, require_storable
from chat_core.usage import Metadata, Usage


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def parts(value: Any) -> list[tuple[str, Part]]:
    data = {"value": value}
    opaque = Opaque("p", data)
    return [
        ("parts[0].opaque.data", Text("a", opaque)),
        ("parts[0].opaque.data", Reasoning("a", None, opaque)),
        ("parts[0].opaque.data", File("image/png", data=b"png", opaque=opaque)),
        ("parts[0].call.opaque.data", Tool(FunctionCall("f", {}, raw="{}", opaque=opaque))),
        ("parts[0].call.arguments", Tool(FunctionCall("f", data))),
        ("parts[0].data", ProviderPart("p", "kind", data)),
        *([("parts[0].value", Structured(data))] if find_fault(data) is None else []),
    ]


@pytest.mark.parametrize("value", [nested(MOST_LEVELS), nested(5000), object()], ids=["deep", "deeper", "object"])
def test_require_storable_refuses_data_that_cannot_be_stored_or_read(value: Any) -> None:
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
def test_require_storable_accepts_json_of_limited_depth_that_can_be_read_again(value: Any) -> None:
    turn = Turn([part for _, part in parts(value)], metadata=Metadata(extra={"value": value}))
    assert require_storable(turn) is turn
    messages = Messages()
    messages.append("model", turn)
    assert Messages.from_json(messages.to_json()).to_json() == messages.to_json()


def test_require_storable_refuses_circular_data() -> None:
    circular: list[Any] = []
    circular.append(circular)
    with pytest.raises(InvalidResponseError):
        require_storable(Turn([ProviderPart("p", "kind", {"value": circular})]))


NOW = datetime(2026, 11, 23, tzinfo=UTC)
NONE: Any = None
NUMBER: Any = 5
WRONG_FIELDS: list[tuple[str, Any]] = [
    ("parts[0]", "hello"),
    ("parts[0].text", Text(NONE)),
    ("parts[0].opaque", Text("a", NUMBER)),
    ("parts[0].opaque.provider", Text("a", Opaque(NONE, {}))),
    ("parts[0].opaque.data", Text("a", Opaque("p", NONE))),
    ("parts[0].extra", Text("a", extra=NUMBER)),
    ("parts[0].text", Reasoning(NONE)),
    ("parts[0].signature", Reasoning("a", NUMBER)),
    ("parts[0].mime", File(NONE, data=b"")),
    ("parts[0].data", File("a/b", data=NUMBER)),
    ("parts[0].url", File("a/b", url=NUMBER)),
    ("parts[0].name", File("a/b", data=b"", name=NUMBER)),
    ("parts[0].vector", Embedding(NUMBER)),
    ("parts[0].vector", Embedding((float("inf"),))),
    ("parts[0].provider", ProviderPart(NONE, "kind", {})),
    ("parts[0].provider", ProviderPart("", "text", {})),
    ("parts[0].kind", ProviderPart("p", NUMBER, {})),
    ("parts[0].data", ProviderPart("p", "kind", NUMBER)),
    ("parts[0].call_id", Tool(FunctionCall("f"), call_id=NUMBER)),
    ("parts[0].id", Tool(FunctionCall("f"), id=NUMBER)),
    ("parts[0].call", Tool(NUMBER)),
    ("parts[0].call.name", Tool(FunctionCall(NONE))),
    ("parts[0].call.id", Tool(FunctionCall("f", id=NUMBER))),
    ("parts[0].call.raw", Tool(FunctionCall("f", raw=NUMBER))),
    ("parts[0].call.problem", Tool(FunctionCall("f", problem=NUMBER))),
    ("parts[0]", Tool(FunctionCall("f"), status=Pending("approval", expires_at=NUMBER))),
    ("parts[0]", Tool(FunctionCall("f"), status=NUMBER)),
    ("parts[0]", Tool(FunctionCall("f"), status=Completed(NOW))),
]


@pytest.mark.parametrize(
    ("path", "part"), WRONG_FIELDS, ids=[f"{type(part).__name__}-{path}" for path, part in WRONG_FIELDS]
)
def test_require_storable_names_the_path_of_a_field_of_the_wrong_type(path: str, part: Any) -> None:
    with pytest.raises(InvalidResponseError, match="the provider returned a turn that cannot be stored: ") as error:
        require_storable(Turn([Text("before"), part][1:]))
    assert error.value.path == path
    assert path in str(error.value)


@pytest.mark.parametrize(
    ("fault", "value"),
    [
        (".when is datetime.date", {"when": NOW}),
        (".scores[1] is nan", {"scores": [0.5, float("nan")]}),
        (".a.b[0] is inf", {"a": {"b": (float("inf"),)}}),
        (".names is {'ana'}", {"names": {"ana"}}),
        (" has the key 1", {1: "a"}),
        ("[0] is b'x'", [b"x"]),
        (".n has more than 4300 digits", {"n": 10**4300}),
    ],
    ids=["date", "nan", "infinity", "set", "key", "bytes", "integer"],
)
def test_require_storable_refuses_a_value_that_json_would_change(fault: str, value: Any) -> None:
    for path, part in parts(value):
        with pytest.raises(InvalidResponseError) as error:
            require_storable(Turn([part]))
        assert f"{path}.value{fault}" in str(error.value)
    with pytest.raises(InvalidResponseError, match=r"metadata\.extra\.value"):
        require_storable(Turn([], metadata=Metadata(extra={"value": value})))


def test_require_storable_checks_the_types_of_metadata_author_and_extra() -> None:
    for path, turn in (
        ("metadata", Turn([], metadata=NUMBER)),
        ("metadata.usage", Turn([], metadata=Metadata(usage=NUMBER))),
        ("metadata.extra", Turn([], metadata=Metadata(extra=NUMBER))),
        ("by", Turn([], by=NUMBER)),
        ("extra", Turn([], extra={"when": NOW})),
    ):
        with pytest.raises(InvalidResponseError) as error:
            require_storable(turn)
        assert error.value.path == path
        assert error.value.partial is not None
        assert error.value.partial.usage == Usage()


@pytest.mark.parametrize(
    "part",
    [
        Text("a", Opaque("p", MappingProxyType({"a": 1}))),
        Tool(FunctionCall("f", {"n": 10**4300 - 1}), call_id="call_1", status=Completed({"a": 1})),
        Embedding((1.0, 2.5)),
    ],
    ids=["mapping", "completed", "vector"],
)
def test_require_storable_accepts_unusual_values_that_can_be_read_again(part: Part) -> None:
    turn = require_storable(Turn([part], by="engine", extra={"later": [1]}))
    messages = Messages()
    messages.append("model", turn)
    assert Messages.from_json(messages.to_json()).to_json() == messages.to_json()


def test_require_storable_checks_shared_and_circular_arrays_quickly() -> None:
    shared: list[Any] = []
    for _ in range(100):
        shared = [shared, shared]
    doubled: list[Any] = []
    doubled += [doubled, doubled]
    require_storable(Turn([ProviderPart("p", "kind", {"value": shared})]))
    with pytest.raises(InvalidResponseError, match="nested more than 254 levels"):
        require_storable(Turn([ProviderPart("p", "kind", {"value": doubled})]))
