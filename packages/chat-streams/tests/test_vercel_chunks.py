"""Single chunks of the UI message stream."""

from __future__ import annotations

from chat_core import Data, File, FunctionCall, Tool
from chat_streams.vercel import HEADERS
from chat_streams.vercel.chunks import DONE, call_id, chunk, data_chunk, file_url, outcome_chunks
from vercel_world import chunks


def test_a_chunk_is_one_server_sent_event() -> None:
    assert chunk("text-delta", id="1", delta="a\nb") == b'data: {"type":"text-delta","id":"1","delta":"a\\nb"}\n\n'
    assert DONE == b"data: [DONE]\n\n"
    assert HEADERS["x-vercel-ai-ui-message-stream"] == "v1"


def test_the_id_of_an_inner_call_contains_the_outer_call_id() -> None:
    assert call_id(("call_1",)) == "call_1"
    assert call_id(("outer", "call_1")) == "outer/call_1"


def test_data_without_keep_is_transient() -> None:
    assert chunks(data_chunk(Data("chart", [1], keep=True))) == [{"type": "data-chart", "data": [1]}]
    assert chunks(data_chunk(Data("toast", "hi"))) == [{"type": "data-toast", "data": "hi", "transient": True}]


def test_a_file_is_sent_by_its_url_or_as_a_data_url() -> None:
    assert file_url(File("image/png", url="https://example.org/a.png")) == "https://example.org/a.png"
    assert file_url(File("image/png", data=b"png")) == "data:image/png;base64,cG5n"


def test_files_of_a_tool_result_follow_its_output() -> None:
    tool = Tool(FunctionCall("draw", {}), id="call_1")
    tool.start()
    tool.complete(None, files=(File("image/png", data=b"png"),))

    assert [item["type"] for item in chunks(outcome_chunks("call_1", tool))] == ["tool-output-available", "file"]
    assert chunks(outcome_chunks("call_1", tool))[0]["output"] is None
