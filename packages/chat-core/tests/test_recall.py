"""The settings of a memory on the builder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from chat_core import ChatBuilder, RecalledNote, RecallSource, UsageError


class Notes:
    async def recall(self, scope: str, question: str, /) -> Sequence[RecalledNote]:
        return [RecalledNote(f"{scope}: {question}")]


def test_object_with_a_recall_method_is_a_recall_source() -> None:
    source: RecallSource = Notes()

    assert isinstance(source, RecallSource)
    assert not isinstance(object(), RecallSource)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"memory": object(), "scope": str}, r"needs a memory with a method recall\(scope, question\), not <object"),
        ({"memory": Notes(), "scope": "ana"}, "needs a function as scope, such as lambda context: context.owner"),
        ({"memory": Notes(), "scope": str, "max_notes": 0}, r"max_notes of with_memory\(\)"),
        ({"memory": Notes(), "scope": str, "max_tokens": 0}, r"max_tokens of with_memory\(\)"),
    ],
)
def test_with_memory_raises_for_wrong_arguments(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        ChatBuilder().with_memory(**arguments)
