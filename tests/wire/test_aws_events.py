"""The test vectors of smithy-typescript for AWS event streams."""

from __future__ import annotations

import base64
import json

import pytest
from chat_core.errors import TransportError
from chat_core.transport import AwsEvents

from .exchanges import WIRE, require_wire

require_wire()

VECTORS = WIRE / "suites" / "aws-eventstream-vectors"


def names(kind: str) -> list[str]:
    return sorted([path.name for path in (VECTORS / "encoded" / kind).iterdir()])


@pytest.mark.parametrize("name", names("positive"))
def test_a_valid_message_is_an_event(name: str) -> None:
    expected = json.loads((VECTORS / "decoded" / "positive" / name).read_text())
    (event,) = AwsEvents().feed((VECTORS / "encoded" / "positive" / name).read_bytes())
    assert event.data == base64.b64decode(expected["payload"])


@pytest.mark.parametrize("name", names("negative"))
def test_a_damaged_message_is_an_error(name: str) -> None:
    parser = AwsEvents()
    with pytest.raises(TransportError):
        assert parser.feed((VECTORS / "encoded" / "negative" / name).read_bytes()) + parser.end() == []
