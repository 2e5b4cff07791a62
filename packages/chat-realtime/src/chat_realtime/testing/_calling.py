"""Scenarios of tool calls, pauses and resumption."""

from __future__ import annotations

from collections.abc import Mapping

from chat_core import Completed, Paused, Pending, Rejected, TextDelta, ToolResult
from chat_core.testing import MemoryConversation

from chat_realtime import model_texts
from chat_realtime.sessions import GoAway, ResponseEnded, SessionResumed, TurnAdded, connect
from chat_realtime.testing._loopback import ServerPeer, loopback_server
from chat_realtime.testing._subject import Bank, Subject, read_until, require, texts
from chat_realtime.testing.dialect import Dialect


async def _outputs(peer: ServerPeer, dialect: Dialect, *ids: str) -> Mapping[str, str]:
    """Wait for the results of calls, and return them by the ID of the call."""
    found: dict[str, str] = {}
    while found.keys() < {*ids}:
        found |= dialect.output(await peer.expect(dialect.output, f"the results of {', '.join(ids)}"))
    return found


async def calls_run_under_the_policy_of_the_chat(subject: Subject) -> None:
    """A call runs under its policy, its turn is stored before the call starts, and the server receives the result."""
    dialect, bank, conversation = subject.dialect, Bank(), MemoryConversation()
    results: dict[str, str] = {}

    async def script(peer: ServerPeer) -> None:
        await dialect.start(peer)
        await peer.expect(lambda message: dialect.text(message) == "Pay.", "the message")
        await dialect.requested(peer)
        calls = {"call_1": ("pay", '{"cents": 5}'), "call_2": ("pay", '{"cents": 5000}'), "call_3": ("pay", '{"cents"')}
        await peer.send(*dialect.begin("resp_1"), *dialect.end("resp_1", calls))
        results.update(await _outputs(peer, dialect, *calls))
        await dialect.requested(peer)
        await peer.send(*dialect.begin("resp_2"), *dialect.write("resp_2", "Done."), *dialect.end("resp_2"))

    async with loopback_server(script) as url, connect(subject.model(url), bank.chat, conversation) as session:
        await session.send_text("Pay.")
        _, seen = await read_until(session, TurnAdded, lambda event: event.turn.text == "Done.")
    require(bank.paid == [5], f"the tool ran for {bank.paid}, but the policy allows [5]")
    require(results.get("call_1") == "paid 5", f"the server received {results}")
    require("too much" in results.get("call_2", ""), f"the server received {results}")
    require(results.get("call_3") not in {None, ""}, "a call with invalid arguments has no result")
    require(len([event for event in seen if isinstance(event, ToolResult)]) == len(results), "ToolResult is missing")
    written = [name for name in conversation.operations if name.startswith("write")]
    require(written[:2] == ["write_turn user", "write_turn model"], f"stored: {written}")
    require([type(tool.status) for tool in session.messages[1].turns[0].tools][:2] == [Completed, Rejected], "statuses")


async def a_waiting_call_has_an_interim_result(subject: Subject) -> None:
    """A call that needs a decision is stored and waits. The server has an interim result and later the outcome."""
    dialect, bank, conversation = subject.dialect, Bank(), MemoryConversation()
    results: dict[str, str] = {}

    async def script(peer: ServerPeer) -> None:
        await dialect.start(peer)
        await peer.expect(lambda message: dialect.text(message) == "Pay.", "the message")
        await dialect.requested(peer)
        await peer.send(*dialect.begin("resp_1"), *dialect.end("resp_1", {"call_1": ("pay", '{"cents": 500}')}))
        results.update(await _outputs(peer, dialect, "call_1"))
        await dialect.requested(peer)
        await peer.send(*dialect.begin("resp_2"), *dialect.write("resp_2", "It waits."), *dialect.end("resp_2"))
        message = await peer.expect(lambda item: "paid 500" in (dialect.text(item) or ""), "the outcome")
        results["outcome"] = dialect.text(message) or ""
        await dialect.requested(peer)
        await peer.send(*dialect.begin("resp_3"), *dialect.write("resp_3", "Paid."), *dialect.end("resp_3"))

    async with loopback_server(script) as url, connect(subject.model(url), bank.chat, conversation) as session:
        await session.send_text("Pay.")
        paused, _ = await read_until(session, Paused)
        await read_until(session, TurnAdded, lambda event: event.turn.text == "It waits.")
        require(not bank.paid, "the tool ran without its approval")
        tool = session.messages.tool(paused.waiting[0].tool_id)
        require(isinstance(tool.status, Pending), f"the status is {tool.status}")
        tool.approve(by="ana")
        session.resume()
        await read_until(session, TurnAdded, lambda event: event.turn.text == "Paid.")
    require(results["call_1"] == model_texts.WAITING, f"the interim result is {results['call_1']!r}")
    require(bank.paid == [500], f"the tool ran for {bank.paid}")
    engine = [turn.text for _, turn in session.messages.turns if turn.by == "engine"]
    require(engine == [results["outcome"]], f"the turns of the engine are {engine}")
    require("write_tool call_1 Pending" in conversation.operations, f"stored: {conversation.operations}")


async def a_call_that_waited_is_resolved_by_the_next_session(subject: Subject) -> None:
    """A decision that was made after the session is applied when the next session starts."""
    dialect, bank, conversation = subject.dialect, Bank(), MemoryConversation()

    async def first(peer: ServerPeer) -> None:
        await dialect.start(peer)
        await peer.expect(lambda message: dialect.text(message) == "Pay.", "the message")
        await peer.send(*dialect.begin("resp_1"), *dialect.end("resp_1", {"call_1": ("pay", '{"cents": 500}')}))
        await _outputs(peer, dialect, "call_1")

    async def second(peer: ServerPeer) -> None:
        await dialect.start(peer)
        await peer.expect(lambda message: dialect.text(message) == "And?", "the message")

    async with loopback_server(first, second) as url:
        async with connect(subject.model(url), bank.chat, conversation) as session:
            await session.send_text("Pay.")
            paused, _ = await read_until(session, Paused)
        conversation.messages.tool(paused.waiting[0].tool_id).approve(by="ana")
        async with connect(subject.model(url), bank.chat, conversation) as session:
            require(bank.paid == [500], f"the tool ran for {bank.paid}")
            await session.send_text("And?")
            await read_until(session, TurnAdded)


async def calls_of_an_interrupted_response_do_not_run(subject: Subject) -> None:
    """Tool calls of a response that was not completed do not run."""
    dialect, bank = subject.dialect, Bank()

    async def script(peer: ServerPeer) -> None:
        await dialect.start(peer)
        await peer.expect(lambda message: dialect.text(message) == "Pay.", "the message")
        await peer.send(*dialect.begin("resp_1"), *dialect.interrupt("resp_1", {"call_1": ("pay", '{"cents": 5}')}))
        await peer.send(*dialect.begin("resp_2"), *dialect.write("resp_2", "Yes?"), *dialect.end("resp_2"))

    async with loopback_server(script) as url, connect(subject.model(url), bank.chat, MemoryConversation()) as session:
        await session.send_text("Pay.")
        ended, _ = await read_until(session, ResponseEnded)
        await read_until(session, TurnAdded, lambda event: event.turn.text == "Yes?")
    require(ended.status == "interrupted", f"the status is {ended.status}")
    require(not bank.paid, "a call of an interrupted response ran")


async def a_cancelled_call_has_no_result(subject: Subject) -> None:
    """A running call that the server cancels is stopped and gets no result on the wire. The conversation continues."""
    dialect, bank = subject.dialect, Bank(slow=5)
    if not dialect.has_cancellation:
        return
    outputs: list[str] = []

    async def script(peer: ServerPeer) -> None:
        await dialect.start(peer)
        await peer.expect(lambda message: dialect.text(message) == "Pay.", "the message")
        await peer.send(*dialect.begin("resp_1"), *dialect.end("resp_1", {"call_1": ("pay", '{"cents": 5}')}))
        await bank.started.wait()
        await peer.send(*dialect.cancel_calls("call_1"))
        await peer.send(*dialect.begin("resp_2"), *dialect.write("resp_2", "Yes?"), *dialect.end("resp_2"))
        await peer.expect(lambda message: dialect.text(message) == "Pay less.", "the next message")
        await peer.send(*dialect.begin("resp_3"), *dialect.end("resp_3", {"call_2": ("pay", '{"cents": 4}')}))
        await _outputs(peer, dialect, "call_2")
        outputs.extend([call_id for message in peer.received for call_id in dialect.output(message)])

    async with loopback_server(script) as url, connect(subject.model(url), bank.chat, MemoryConversation()) as session:
        await session.send_text("Pay.")
        await read_until(session, TurnAdded, lambda event: event.turn.text == "Yes?")
        await session.send_text("Pay less.")
        await read_until(session, ToolResult, lambda event: event.tool.call_id == "call_2")
        tools = [tool for content in session.messages for tool in content.tools]
    require(bank.stopped == [5], f"the tool was not stopped: stopped {bank.stopped}, paid {bank.paid}")
    require(bank.paid == [4], f"the tool paid {bank.paid} instead of [4]")
    require(outputs == ["call_2"], f"the server received results of {outputs} instead of call_2 only")
    statuses = [(tool.call_id, tool.failed, tool.resolved) for tool in tools]
    require(statuses == [("call_1", True, True), ("call_2", False, True)], f"the history has the calls {statuses}")
    reason = tools[0].result_text()
    require(model_texts.INTERRUPTED_WHILE_RUNNING in reason, f"the result in the history is {reason!r}")


async def a_call_that_is_cancelled_before_it_starts_does_not_run(subject: Subject) -> None:
    """A cancelled call that has not started never runs. Other calls run, and only they have results on the wire."""
    dialect, bank = subject.dialect, Bank(slow=5)
    if not dialect.has_cancellation:
        return
    outputs: list[str] = []

    async def script(peer: ServerPeer) -> None:
        await dialect.start(peer)
        await peer.expect(lambda message: dialect.text(message) == "Pay.", "the message")
        calls = {"call_1": ("pay", '{"cents": 5}'), "call_2": ("pay", '{"cents": 6}')}
        await peer.send(*dialect.begin("resp_1"), *dialect.end("resp_1", calls))
        await bank.started.wait()
        await peer.send(*dialect.begin("resp_2"), *dialect.end("resp_2", {"call_3": ("pay", '{"cents": 7}')}))
        await peer.send(*dialect.cancel_calls("call_2", "call_3"))
        await peer.send(*dialect.begin("resp_3"), *dialect.write("resp_3", "Stopped."), *dialect.end("resp_3"))
        await _outputs(peer, dialect, "call_1")
        await peer.expect(lambda message: dialect.text(message) == "Thanks.", "the last message")
        outputs.extend([call_id for message in peer.received for call_id in dialect.output(message)])

    async with loopback_server(script) as url, connect(subject.model(url), bank.chat, MemoryConversation()) as session:
        await session.send_text("Pay.")
        # The session has read the cancellation when it delivers the text that follows.
        await read_until(session, TextDelta)
        bank.release.set()
        await read_until(session, TurnAdded, lambda event: event.turn.text == "Stopped.")
        await session.send_text("Thanks.")
        await read_until(session, TurnAdded, lambda event: event.turn.text == "Thanks.")
        tools = {tool.call_id: tool for content in session.messages for tool in content.tools}
    require(sorted(bank.paid) == [5, 6], f"the tool paid {sorted(bank.paid)} instead of [5, 6]")
    require(outputs == ["call_1"], f"the server received results of {outputs} instead of call_1 only")
    require(all(tool.resolved for tool in tools.values()), "a call of the history is unresolved")
    reason = tools["call_3"].result_text()
    require(model_texts.INTERRUPTED_BEFORE_START in reason, f"the result in the history is {reason!r}")


async def a_session_resumes_on_another_connection(subject: Subject) -> None:
    """The session continues with its handle after the server has gone away, and does not send its history again."""
    dialect = subject.dialect
    if not dialect.has_resumption:
        return
    histories: list[object] = []

    async def first(peer: ServerPeer) -> None:
        await dialect.start(peer)
        await peer.expect(lambda message: dialect.text(message) == "Hello?", "the message")
        await peer.send(*dialect.begin("resp_1"), *dialect.write("resp_1", "Good day."), *dialect.end("resp_1"))
        await peer.send(*dialect.resumable("handle-1"), *dialect.go_away())

    async def second(peer: ServerPeer) -> None:
        await dialect.start(peer, handle="handle-1")
        await peer.expect(lambda message: dialect.text(message) == "More?", "the next message")
        histories.extend(dialect.history(peer.received[:-1]))
        await peer.send(*dialect.begin("resp_2"), *dialect.write("resp_2", "Yes."), *dialect.end("resp_2"))
        await peer.send(*dialect.resumable("handle-2"))
        await peer.close(1001)

    async def third(peer: ServerPeer) -> None:
        await dialect.start(peer, handle="handle-2")

    async with (
        loopback_server(first, second, third) as url,
        connect(subject.model(url), Bank().chat, MemoryConversation()) as session,
    ):
        await session.send_text("Hello?")
        await read_until(session, GoAway)
        await read_until(session, SessionResumed)
        await session.send_text("More?")
        await read_until(session, SessionResumed)
    require([text for _, text, _ in texts(session)] == ["Hello?", "Good day.", "More?", "Yes."], str(texts(session)))
    require(not histories, f"the history was sent again: {histories}")


SCENARIOS = (
    calls_run_under_the_policy_of_the_chat,
    a_waiting_call_has_an_interim_result,
    a_call_that_waited_is_resolved_by_the_next_session,
    calls_of_an_interrupted_response_do_not_run,
    a_cancelled_call_has_no_result,
    a_call_that_is_cancelled_before_it_starts_does_not_run,
    a_session_resumes_on_another_connection,
)
