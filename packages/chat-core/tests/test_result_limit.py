"""The limit of the results of tools, which `with_max_result_bytes()` sets."""

from __future__ import annotations

import random
import re

import pytest
from chat_core import ChatBuilder, Completed, Failed, FunctionCall, Messages, ToolCollection, ToolOutput, UsageError
from chat_core.json import dumps
from chat_core.testing import ScriptedProvider
from chat_core.tools.result import limit_result

pytestmark = pytest.mark.anyio

LIMIT = 1_000
OMITTED = re.compile(r"\A(.*)\n\n\[\.\.\. (\d+) characters omitted \.\.\.\]\n\n(.*)\Z", re.DOTALL)


def nested(depth: int) -> object:
    value: object = "x"
    for _ in range(depth):
        value = [value]
    return value


async def status_after(value: object, limit: int | None = LIMIT) -> Completed | Failed:
    tools = ToolCollection()

    @tools.tool
    async def run() -> object:
        if isinstance(value, Exception):
            raise value
        return value

    builder = ChatBuilder().with_model(ScriptedProvider([FunctionCall("run", {}, id="a")], "done")).with_tools(tools)
    messages = Messages.from_user("go")
    await (builder if limit is None else builder.with_max_result_bytes(limit)).build().complete(messages)
    status = messages.tool("a").status
    assert isinstance(status, (Completed, Failed))
    return status


async def test_results_are_not_limited_by_default() -> None:
    for value in ("x" * 1_000_000, "a\0b", nested(60)):
        status = await status_after(value, limit=None)
        assert isinstance(status, Completed)
        assert status.result == value


async def test_a_large_result_is_shortened_to_its_beginning_and_its_end() -> None:
    for value in ("x" * 5_000, ToolOutput("x" * 5_000), ["x" * 5_000], LookupError("x" * 5_000)):
        status = await status_after(value)
        text = status.error if isinstance(status, Failed) else status.result
        assert isinstance(text, str)
        assert len(text) <= LIMIT
        assert OMITTED.match(text)


def test_the_number_of_omitted_characters_is_exact_and_no_character_is_cut() -> None:
    draw = random.Random(7)
    for _ in range(300):
        text = "".join(draw.choices("aé€😀\ud800\n", k=draw.randint(200, 3_000)))
        limited = limit_result(text, LIMIT)
        assert isinstance(limited, str)
        assert len(limited.encode("utf-8", "surrogatepass")) <= LIMIT
        if limited != text:
            found = OMITTED.match(limited)
            assert found
            head, omitted, tail = found.groups()
            assert text.startswith(head)
            assert text.endswith(tail)
            assert len(head) + int(omitted) + len(tail) == len(text)
            assert len(limited.encode("utf-8", "surrogatepass")) > LIMIT - 10


def test_a_result_of_the_maximum_size_is_unchanged() -> None:
    assert limit_result("é" * 500, LIMIT) == "é" * 500
    assert limit_result("é" * 501, LIMIT) != "é" * 501
    value = {"text": "é" * 400, "numbers": [1, 2.5, None, True]}
    assert limit_result(value, LIMIT) == value


def test_control_characters_are_removed_everywhere_in_a_limited_result() -> None:
    assert limit_result("a\0b\x1b[31m\x85\x7f\tc\r\nd", LIMIT) == "ab[31m\tc\r\nd"
    assert limit_result({"k\0": ["a\0", {"b": "c\x07"}]}, LIMIT) == {"k": ["a", {"b": "c"}]}


async def test_control_characters_are_removed_from_errors() -> None:
    status = await status_after(LookupError("no \0row"))
    assert isinstance(status, Failed)
    assert status.error == "LookupError: no row"


async def test_a_deep_limited_result_becomes_the_text_of_its_json() -> None:
    for depth, expected in ((50, nested(50)), (60, dumps(nested(60)))):
        status = await status_after(nested(depth))
        assert isinstance(status, Completed)
        assert status.result == expected


@pytest.mark.parametrize("size", [0, 999, -1, 5.5, None, True])
def test_the_limit_of_results_is_at_least_1000_bytes(size: int) -> None:
    with pytest.raises(UsageError, match=r"with_max_result_bytes\(\)"):
        ChatBuilder().with_max_result_bytes(size)
