"""The blocking interface: the same runs for callers without an event loop."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import anyio
import pytest
from chat_core import (
    ChatBuilder,
    Done,
    EmbeddingsChat,
    FunctionCall,
    Messages,
    StreamingChat,
    TextDelta,
    ToolCall,
    ToolCollection,
    UsageError,
)
from chat_core.blocking import BlockingChat, BlockingEmbeddingsChat, BlockingStreamingChat
from chat_core.errors import NetworkError, StreamTruncatedError
from chat_core.testing import Answer, ScriptedProvider

PATIENCE = 60.0


def chat_of(*script: Any) -> StreamingChat:
    return ChatBuilder().with_model(ScriptedProvider(*script)).with_retry(0).build()


def looping(*script: Any, ran: list[str]) -> StreamingChat:
    tools = ToolCollection()

    @tools.tool
    async def note(word: str) -> str:
        """Note a word."""
        ran.append(word)
        return "noted"

    return ChatBuilder().with_model(ScriptedProvider(*script)).with_tools(tools).with_retry(0).build()


CALL = FunctionCall("note", {"word": "yes"})


def test_blocking_complete_works_without_an_event_loop() -> None:
    messages = Messages.from_user("hi")
    response = chat_of("hello").blocking.complete(messages)
    assert response.text == "hello"
    assert len(messages) == 2


def test_blocking_complete_raises_provider_errors_unchanged() -> None:
    with pytest.raises(NetworkError, match="gone"):
        chat_of(NetworkError("gone")).blocking.complete(Messages.from_user("hi"))


def test_the_blocking_interface_matches_the_kind_of_chat() -> None:
    chat = chat_of("hello")
    assert type(chat.blocking) is BlockingStreamingChat
    assert isinstance(chat.blocking, BlockingChat)
    vectors = ChatBuilder().with_model(ScriptedProvider()).with_embeddings().build()
    assert type(vectors) is EmbeddingsChat
    assert type(vectors.blocking) is BlockingEmbeddingsChat
    assert len(vectors.blocking.embed(["a", "b"]).vectors) == 2


def test_a_blocking_stream_yields_deltas_and_then_done() -> None:
    events = list(chat_of("hello there").blocking.stream(Messages.from_user("hi")))
    assert "".join([event.text for event in events if isinstance(event, TextDelta)]) == "hello there"
    assert isinstance(events[-1], Done)


def test_a_blocking_stream_has_response_and_usage_after_its_block() -> None:
    with chat_of("hello there").blocking.stream(Messages.from_user("hi")) as stream:
        assert "".join(stream.text()) == "hello there"
    assert stream.response.text == "hello there"
    assert stream.usage.output_tokens == 5
    assert not stream.cancelled


def test_a_blocking_run_advances_only_while_its_reader_requests_events() -> None:
    ran: list[str] = []
    chat = looping(CALL, "done", ran=ran)
    messages = Messages.from_user("hi")
    with chat.blocking.stream(messages) as stream:
        for event in stream:
            if isinstance(event, ToolCall):
                break
    assert ran == []
    with chat.blocking.stream(messages) as stream:
        assert isinstance(list(stream)[-1], Done)
    assert ran == ["yes"]


def test_breaking_out_of_a_blocking_stream_without_a_block_ends_its_run() -> None:
    ran: list[str] = []
    messages = Messages.from_user("hi")
    for event in looping(CALL, "done", ran=ran).blocking.stream(messages):
        if isinstance(event, ToolCall):
            break
    assert ran == []
    messages.cancel_pending("the messages are nobody's any more")


def test_an_error_in_mid_stream_is_raised_to_the_reader() -> None:
    chat = chat_of(Answer(["one two three"], fail_after=2))
    seen: list[object] = []
    with pytest.raises(StreamTruncatedError), chat.blocking.stream(Messages.from_user("hi")) as stream:
        for event in stream:
            seen.append(event)  # noqa: PERF402 - values before the error count
    assert seen == [TextDelta("one "), TextDelta("two ")]


def test_an_exception_of_the_reader_closes_the_blocking_stream() -> None:
    with pytest.raises(ZeroDivisionError), chat_of("a b c").blocking.stream(Messages.from_user("hi")) as stream:
        for _ in stream:
            raise ZeroDivisionError
    assert list(stream) == []


def test_a_blocking_stream_can_be_entered_only_once() -> None:
    stream = chat_of("a").blocking.stream(Messages.from_user("hi"))
    with stream, pytest.raises(UsageError, match="entered only once"), stream:
        pass


def test_messages_of_an_open_blocking_stream_are_refused_by_another_run() -> None:
    messages = Messages.from_user("hi")
    chat = chat_of("a", "b")
    with chat.blocking.stream(messages) as stream:
        next(iter(stream))
        with pytest.raises(UsageError):
            chat.blocking.complete(messages)


def test_cancel_from_another_thread_ends_the_iteration_without_an_error() -> None:
    begun = threading.Event()

    async def never() -> None:
        begun.set()
        await anyio.sleep_forever()

    stream = chat_of(Answer(["a"], before=never)).blocking.stream(Messages.from_user("hi"))

    def stop() -> None:
        begun.wait(PATIENCE)
        stream.cancel()

    thread = threading.Thread(target=stop)
    thread.start()
    with stream:
        assert list(stream) == []
    thread.join(PATIENCE)
    assert stream.cancelled


def test_cancel_before_a_blocking_stream_is_entered_raises_usage_error() -> None:
    stream = chat_of("a b c").blocking.stream(Messages.from_user("hi"))
    with pytest.raises(UsageError, match="with `with`"):
        stream.cancel()
    with stream:
        for _ in stream:
            stream.cancel()
            assert stream.cancelled
    stream.cancel()


def test_blocking_calls_of_several_threads_run_concurrently() -> None:
    everybody = threading.Barrier(8)

    async def meet() -> None:
        await anyio.to_thread.run_sync(everybody.wait, PATIENCE)

    chats = [chat_of(Answer(["done"], before=meet)) for _ in range(8)]

    def ask(chat: StreamingChat) -> str:
        return chat.blocking.complete(Messages.from_user("hi")).text

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(ask, chats))
    assert answers == ["done"] * 8


def test_tools_of_a_blocking_run_see_the_context_variables_of_the_caller() -> None:
    who: ContextVar[str] = ContextVar("who", default="nobody")
    seen: list[str] = []
    tools = ToolCollection()

    @tools.tool
    async def look() -> str:
        """Look."""
        seen.append(who.get())
        return "seen"

    chat = ChatBuilder().with_model(ScriptedProvider(FunctionCall("look", {}), "done")).with_tools(tools).build()
    token = who.set("me")
    try:
        chat.blocking.complete(Messages.from_user("hi"))
    finally:
        who.reset(token)
    assert seen == ["me"]


def test_blocking_calls_work_inside_a_running_event_loop() -> None:
    async def main() -> str:
        with chat_of("a b").blocking.stream(Messages.from_user("hi")) as stream:
            streamed = "".join(stream.text())
        return streamed + chat_of("c").blocking.complete(Messages.from_user("hi")).text

    assert asyncio.run(main()) == "a bc"


def test_a_blocking_call_in_an_async_tool_raises_usage_error() -> None:
    tools = ToolCollection()

    @tools.tool
    async def ask() -> str:
        """Ask another chat, with a call that is not allowed here."""
        try:
            return chat_of("no").blocking.complete(Messages.from_user("hi")).text
        except UsageError as error:
            return str(error)

    chat = ChatBuilder().with_model(ScriptedProvider(FunctionCall("ask", {}), "done")).with_tools(tools).build()
    messages = Messages.from_user("hi")
    chat.blocking.complete(messages)
    assert "await the chat" in messages.to_json()


def test_a_blocking_call_in_a_synchronous_tool_works() -> None:
    tools = ToolCollection()

    @tools.tool
    def ask() -> str:
        """Ask another chat."""
        return chat_of("an answer").blocking.complete(Messages.from_user("hi")).text

    chat = ChatBuilder().with_model(ScriptedProvider(FunctionCall("ask", {}), "done")).with_tools(tools).build()
    messages = Messages.from_user("hi")
    chat.blocking.complete(messages)
    assert "an answer" in messages.to_json()


class Closable:
    """Model that records whether it was closed."""

    def __init__(self) -> None:
        self._model = ScriptedProvider("a")
        self.metadata = self._model.metadata
        self.complete = self._model.complete
        self.embed = self._model.embed
        self.closed = 0

    async def aclose(self) -> None:
        self.closed += 1


def test_closing_a_blocking_chat_closes_its_model() -> None:
    model = Closable()
    with ChatBuilder().with_model(model).build().blocking as chat:
        assert chat.complete(Messages.from_user("hi")).text == "a"
    with ChatBuilder().with_model(model).with_embeddings().build().blocking as vectors:
        assert len(vectors.embed(["a"]).vectors) == 1
    assert model.closed == 2


def test_system_exit_in_a_run_is_raised_in_the_caller_and_the_loop_continues() -> None:
    async def leave() -> None:
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        chat_of(Answer(["a"], before=leave)).blocking.complete(Messages.from_user("hi"))
    with pytest.raises(SystemExit):
        list(chat_of(Answer(["a"], before=leave)).blocking.stream(Messages.from_user("hi")))
    assert chat_of("still here").blocking.complete(Messages.from_user("hi")).text == "still here"


def test_an_open_stream_can_be_garbage_collected_in_the_loop_thread() -> None:
    forgotten: list[object] = []
    events = iter(chat_of("a b c").blocking.stream(Messages.from_user("hi")))
    next(events)
    forgotten += [forgotten, events]  # a cycle, which the collector finds where it happens to run
    del events, forgotten

    async def collect() -> None:
        gc.collect()

    asked = ThreadPoolExecutor(1).submit(
        chat_of(Answer(["done"], before=collect)).blocking.complete, Messages.from_user("hi")
    )
    assert asked.result(PATIENCE).text == "done"


# --- In a process of its own --------------------------------------------------------------------------------

PRELUDE = """
import anyio, os, signal, sys, threading
signal.signal(signal.SIGINT, signal.default_int_handler)  # background processes of a shell ignore SIGINT
from chat_core import ChatBuilder, FunctionCall, Messages, ToolCollection
from chat_core.testing import Answer, ScriptedProvider

def say(word):
    print(word, flush=True)
"""


@contextmanager
def start(program: str) -> Generator[subprocess.Popen[str]]:
    """Start another process and end it when the block exits."""
    words = [sys.executable, "-c", PRELUDE + textwrap.dedent(program)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


INTERRUPTED = """
async def hang():
    say("begun")
    try:
        await anyio.sleep_forever()
    finally:
        say("cancelled")

chat = ChatBuilder().with_model(ScriptedProvider(Answer(["a"], before=hang))).build()
messages = Messages.from_user("hi")
try:
    RUN
except KeyboardInterrupt:
    say("interrupted")
messages.user("still good")
say("over")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="a console's ctrl-C goes to all its processes")
@pytest.mark.parametrize("run", ["chat.blocking.complete(messages)", "list(chat.blocking.stream(messages))"])
def test_ctrl_c_cancels_the_run_and_then_raises_keyboard_interrupt(run: str) -> None:
    with start(INTERRUPTED.replace("RUN", run)) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        process.send_signal(signal.SIGINT)
        out, error = process.communicate(timeout=PATIENCE)
    assert out.splitlines() == ["cancelled", "interrupted", "over"], error
    assert process.returncode == 0


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="there are no such timers")
def test_an_interrupt_at_any_moment_leaves_no_run_and_no_lock_behind() -> None:
    program = """
    import signal, time
    from chat_core._loop import loop_holder

    def interrupt(*_):
        raise KeyboardInterrupt

    def fresh():
        return ChatBuilder().with_model(ScriptedProvider("a b c d")).build().blocking

    signal.signal(signal.SIGALRM, interrupt)
    list(fresh().stream(Messages.from_user("hi")))
    began = time.perf_counter()
    for _ in range(10):
        list(fresh().stream(Messages.from_user("hi")))
    usual = (time.perf_counter() - began) / 10
    hits = 0
    for count in range(5000):
        if hits == 60:
            break
        chat = fresh()
        messages = Messages.from_user("hi")
        try:
            try:
                signal.setitimer(signal.ITIMER_REAL, usual * (1 + count % 120) / 100)
                if count % 2:
                    chat.complete(messages)
                else:
                    list(chat.stream(messages))
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
        except KeyboardInterrupt:
            hits += 1
        messages.user("still good")
    say(hits)
    fresh().complete(Messages.from_user("hi"))
    say(len(loop_holder.loop().tasks))
    """
    with start(program) as process:
        out, error = process.communicate(timeout=PATIENCE)
    assert out.splitlines() == ["60", "0"], error


def test_a_program_with_an_open_stream_exits() -> None:
    program = """
    stream = ChatBuilder().with_model(ScriptedProvider("a b c")).build().blocking.stream(Messages.from_user("hi"))
    stream.__enter__()
    next(iter(stream))
    say("over")
    """
    with start(program) as process:
        out, error = process.communicate(timeout=PATIENCE)
    assert (out, error, process.returncode) == ("over\n", "", 0)


def test_a_program_exits_while_its_loop_thread_is_blocked() -> None:
    program = """
    import chat_core._loop
    chat_core._loop.SHUTDOWN_SECONDS = 0.1
    begun = threading.Event()

    async def hold_up():
        begun.set()
        threading.Event().wait()

    chat = ChatBuilder().with_model(ScriptedProvider("a b", Answer(["c"], before=hold_up))).build()
    events = iter(chat.blocking.stream(Messages.from_user("hi")))
    next(events)
    threading.Thread(target=chat.blocking.complete, args=(Messages.from_user("hi"),), daemon=True).start()
    begun.wait()
    say("over")
    """
    with start(program) as process:
        out, error = process.communicate(timeout=PATIENCE)
    assert (out, error, process.returncode) == ("over\n", "", 0)


@pytest.mark.skipif(sys.platform == "win32", reason="a thread cannot be interrupted there")
def test_a_call_interrupted_while_the_loop_is_blocked_does_not_start_later() -> None:
    program = """
    import signal
    busy, gate = threading.Event(), threading.Event()

    async def hold_up():
        busy.set()
        gate.wait()

    async def tell():
        say("begun")
        await anyio.sleep_forever()

    def interrupt(*_):
        gate.set()
        raise KeyboardInterrupt

    def ask(before):
        chat = ChatBuilder().with_model(ScriptedProvider(Answer(["a"], before=before))).build()
        return chat.blocking.complete(messages) if before is tell else chat.blocking.complete(Messages.from_user("hi"))

    signal.signal(signal.SIGINT, interrupt)
    messages = Messages.from_user("hi")
    threading.Thread(target=ask, args=(hold_up,)).start()
    busy.wait()
    try:
        say("ready")
        ask(tell)
    except KeyboardInterrupt:
        say("interrupted")
    messages.user("still good")
    ask(anyio.lowlevel.checkpoint)
    say("over")
    """
    with start(program) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        out, error = process.communicate(timeout=PATIENCE)
    # The loop may run it before it receives the interrupt, but not afterwards.
    assert out.splitlines()[-2:] == ["interrupted", "over"], error
    assert process.returncode == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks here")
def test_a_forked_child_cannot_read_the_stream_of_its_parent_and_can_exit() -> None:
    program = """
    from chat_core import UsageError
    stream = ChatBuilder().with_model(ScriptedProvider("a b c")).build().blocking.stream(Messages.from_user("hi"))
    with stream:
        next(iter(stream))
        child = os.fork()
        if child == 0:
            try:
                list(stream)
            except UsageError as error:
                say(str(error))
            stream.cancel()
            sys.exit(7)
        say(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        list(stream)
    say(stream.response.text)
    """
    with start("import warnings\nwarnings.simplefilter('ignore')\n" + textwrap.dedent(program)) as process:
        out, error = process.communicate(timeout=PATIENCE)
    forked, status, text = out.splitlines()
    assert "read a stream in the process that started it" in forked
    assert (status, text, error) == ("7", "a b c", "")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks here")
def test_a_forked_child_starts_its_own_event_loop() -> None:
    program = """
    def ask():
        return ChatBuilder().with_model(ScriptedProvider("hello")).build().blocking.complete(Messages.from_user("hi"))

    ask()
    child = os.fork()
    if child == 0:
        say(ask().text)
        os._exit(0)
    os.waitpid(child, 0)
    say(ask().text)
    """
    with start("import warnings\nwarnings.simplefilter('ignore')\n" + textwrap.dedent(program)) as process:
        out, error = process.communicate(timeout=PATIENCE)
    assert out == "hello\nhello\n", error
