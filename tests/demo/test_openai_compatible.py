"""The approval demo with a model on a server: a loopback server with the Chat Completions API."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from chat_core import Completed, Rejected
from chat_testing import Exchange, LoopbackServer

from .programs import EXAMPLES, Program, held_at, payments, run, the_answer, the_tool

PROGRAM = EXAMPLES / "openai_compatible"
INTERRUPTED = 4
Json = dict[str, Any]


def chunk(delta: Json, finish_reason: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    document = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "example", "choices": [choice]}
    return f"data: {json.dumps(document)}\n\n".encode()


def calling(name: str, arguments: Json) -> list[bytes]:
    text = json.dumps(arguments)
    call = {"index": 0, "id": "call_1", "type": "function", "function": {"name": name, "arguments": ""}}
    return [
        chunk({"role": "assistant", "tool_calls": [call]}),
        *(chunk({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]}) for piece in (text[:7], text[7:])),
        chunk({}, "tool_calls"),
        b"data: [DONE]\n\n",
    ]


def saying(text: str) -> list[bytes]:
    return [*(chunk({"content": f"{word} "}) for word in text.split()), chunk({}, "stop"), b"data: [DONE]\n\n"]


@pytest.fixture
def serve() -> Generator[Callable[..., LoopbackServer]]:
    """Serve a model that calls a tool and repeats its result."""
    with ExitStack() as stack:

        def start(name: str, arguments: Json) -> LoopbackServer:
            def answer(exchange: Exchange) -> None:
                last = json.loads(exchange.body)["messages"][-1]
                exchange.events(*(saying(last["content"]) if last["role"] == "tool" else calling(name, arguments)))

            return stack.enter_context(LoopbackServer(answer))

        yield start


def flags(folder: Path, server: LoopbackServer, *more: str | Path) -> list[str | Path]:
    return ["--folder", folder, "--url", f"http://{server.host}/v1", "--model", "example", *more]


def test_a_remote_model_pauses_in_one_process_and_answers_in_another(
    tmp_path: Path, serve: Callable[..., LoopbackServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHAT_API_KEY", "sesame")
    server = serve("pay", {"to": "Bo", "cents": 500})
    code, output = run(*flags(tmp_path, server, "ask", "Pay 500 cents to Bo."), program=PROGRAM)
    assert (code, payments(tmp_path)) == (0, []), output

    code, output = run(*flags(tmp_path, server, "decide", "--edit", "cents=300"), program=PROGRAM)

    assert code == 0, output
    assert payments(tmp_path) == ["300 cents to Bo"]
    assert the_tool(tmp_path).decisions[0].by == "ana"
    assert the_answer(tmp_path).endswith("Paid 300 cents to Bo. The payment is done. ")
    first, second = server.exchanges
    assert {exchange.headers["authorization"] for exchange in (first, second)} == {"Bearer sesame"}
    assert [tool["function"]["name"] for tool in json.loads(first.body)["tools"]] == ["pay", "budget"]
    # The model's own words go back to it as they were; that they were changed is in the result.
    asked, called, told = json.loads(second.body)["messages"]
    assert asked == json.loads(first.body)["messages"][0]
    assert json.loads(called["tool_calls"][0]["function"]["arguments"]) == {"to": "Bo", "cents": 500}
    assert (called["tool_calls"][0]["id"], told["tool_call_id"]) == ("call_1", "call_1")
    assert '"cents":300' in told["content"]
    assert "sesame" not in output + (tmp_path / "chat.jsonl").read_text()


def test_the_demo_runs_with_a_remote_model(tmp_path: Path, serve: Callable[..., LoopbackServer]) -> None:
    server = serve("pay", {"to": "Bo", "cents": 500})

    code, output = run(*flags(tmp_path, server), program=PROGRAM)

    assert code == 0, output
    assert payments(tmp_path) == ["300 cents to Bo"]
    assert len(server.exchanges) == 2


def test_a_killed_call_is_reported_without_a_model_request(
    tmp_path: Path, gate: Path, serve: Callable[..., LoopbackServer]
) -> None:
    server = serve("pay", {"to": "Bo", "cents": 500})
    run(*flags(tmp_path, server, "ask"), program=PROGRAM)
    held = flags(tmp_path, server, "decide", "--approve", "--hold", gate)
    with Program(*held, program=PROGRAM) as process, held_at(gate):
        process.kill()

    assert run(*flags(tmp_path, server, "decide", "--approve"), program=PROGRAM)[0] == INTERRUPTED
    assert len(server.exchanges) == 1
    code, _ = run(*flags(tmp_path, server, "decide", "--complete", "It was paid."), program=PROGRAM)

    assert code == 0
    assert payments(tmp_path) == ["500 cents to Bo"]
    assert the_tool(tmp_path).status == Completed("It was paid.")
    assert the_answer(tmp_path) == "It was paid. "


def test_allowed_calls_run_immediately_and_forbidden_calls_never(
    tmp_path: Path, serve: Callable[..., LoopbackServer]
) -> None:
    code, output = run(*flags(tmp_path / "1", serve("budget", {}), "ask", "How much is left?"))
    assert code == 0
    assert the_answer(tmp_path / "1") == "1000000 cents are left "
    assert "⏸" not in output

    code, output = run(*flags(tmp_path / "2", serve("pay", {"to": "Bo", "cents": 100_001}), "ask", "Pay Bo."))
    assert code == 0
    status = the_tool(tmp_path / "2").status
    assert isinstance(status, Rejected)
    assert (status.source, "at the counter" in (status.reason or "")) == ("policy", True)
    assert payments(tmp_path / "2") == []
    assert "⏸" not in output


def test_an_authentication_error_is_printed_without_a_traceback(tmp_path: Path) -> None:
    refusal = json.dumps({"error": {"message": "no such key", "code": "invalid_api_key"}}).encode()
    with LoopbackServer(lambda exchange: exchange.answer(401, {"content-type": "application/json"}, refusal)) as server:
        code, output = run(*flags(tmp_path, server, "ask"), program=PROGRAM)

    assert code == 1
    assert "Authentication" in output
    assert "no such key" in output
    assert "Traceback" not in output
