from __future__ import annotations

import pytest
from chat_core import ChatBuilder, ChatOptions, Messages, OutputSchema, ProviderMeta, ToolDeclarations
from chat_core.batches import BatchItem, request_id
from chat_core.errors import InvalidResponseError, NetworkError, NotFoundError, TransportError
from chat_core.messages import Text, Turn
from chat_core.options import Instructions
from chat_core.testing import MockTransport, ScriptedProvider
from chat_core.usage import Metadata, Usage
from chat_core.wire.decoded import Redact
from chat_core.wire.endpoint import Endpoint
from chat_core.wire.provider import TransportProvider

pytestmark = pytest.mark.anyio


class Recorder:
    """Provider that records the options of its requests."""

    def __init__(self) -> None:
        self.metadata = ProviderMeta("recorder")
        self.options: list[ChatOptions] = []

    async def complete(
        self, messages: Messages, tools: ToolDeclarations, options: ChatOptions, structured_output: OutputSchema | None
    ) -> Turn:
        del messages, tools, structured_output
        self.options.append(options)
        return Turn([Text("Recorded.")], finish_reason="stop")


def test_the_usage_of_an_item_is_that_of_its_turn_or_of_its_error() -> None:
    usage = Usage(3, 4)
    turn = Turn([Text("Hi")], metadata=Metadata("p", "m", usage=usage))
    assert BatchItem("a", turn).usage == usage
    assert BatchItem("a", error=NetworkError("broken", usage=usage)).usage == usage
    assert BatchItem("a").usage == Usage()


def test_the_id_of_a_request_has_the_name_of_its_batch() -> None:
    assert request_id("abc", 7) == "abc-7"


async def test_a_chat_with_another_model_keeps_its_instructions() -> None:
    chat = ChatBuilder().with_model(ScriptedProvider("First.")).with_instructions("Be brief.").build()
    recorder = Recorder()
    other = chat.with_model(recorder)
    assert other.model is recorder
    assert (await other.complete(Messages.from_user("Hello"))).text == "Recorded."
    assert Instructions.of(recorder.options[0].instructions).fixed == "Be brief."


async def test_lines_are_decoded_until_the_connection_breaks() -> None:
    transport = MockTransport()
    provider = TransportProvider(ProviderMeta("p"), Endpoint("http://host", {}), transport)
    transport.answer(body=[b"1\n2", b"\n", TransportError("stream", "reset")])
    request = provider.endpoint.request("/lines", b"", None, stream=True, framing="json-lines", method="GET")
    found: list[bytes] = []

    def decode(data: bytes, _redact: Redact) -> bytes:
        return data

    with pytest.raises(NetworkError):
        async with provider.open_lines(request, decode) as lines:
            async for line in lines:
                found.append(line)
    assert found == [b"1", b"2"]
    assert [sent.request.is_unlimited for sent in transport.requests] == [True]
    assert transport.open_streams == 0


async def test_an_error_in_a_line_names_the_address_of_the_file() -> None:
    transport = MockTransport()
    provider = TransportProvider(ProviderMeta("p"), Endpoint("http://host", {"x-api-key": "the-secret"}), transport)
    transport.answer(body=[b"first\n<html>the-secret\nlast\n"])
    request = provider.endpoint.request("/lines", b"", None, stream=True, framing="json-lines", method="GET")
    seen: list[str] = []

    def decode(data: bytes, redact: Redact) -> None:
        error = InvalidResponseError(f"not JSON: {data.decode()}") if data[:1] == b"<" else NotFoundError("no model")
        if data == b"last":
            raise InvalidResponseError("not JSON")
        seen.append(str(redact(error, received=data)))

    with pytest.raises(InvalidResponseError, match=r"^not JSON \(GET http://host/lines\) \(next step: "):
        async with provider.open_lines(request, decode) as lines:
            async for _ in lines:
                pass
    assert seen[0] == "no model"
    assert seen[1].startswith("not JSON: <html>[redacted] (GET http://host/lines) (next step: check ")
