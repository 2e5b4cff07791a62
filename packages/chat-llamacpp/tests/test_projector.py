"""Images and audio, read by llama.cpp with a tiny projector. All tests share one loaded model."""

from __future__ import annotations

import io
import struct
import wave
import zlib
from collections.abc import Generator
from pathlib import Path

import anyio
import pytest
from chat_completions import CompletionsProvider
from chat_core import ChatBuilder, ChatOptions, Messages, Paused, RequireApproval, ScopedCollection, ToolCollection
from chat_core.errors import InvalidRequestError
from chat_core.messages import File
from chat_llamacpp import LlamaCppBuilder
from tiny_projector import AUDIO_TOKENS, IMAGE_TOKENS, write_projector

pytestmark = pytest.mark.anyio
SHORT = ChatOptions(temperature=0, max_tokens=2)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Generator[CompletionsProvider]:
    path = tmp_path_factory.mktemp("weights") / "mmproj.gguf"
    write_projector(path, 576)
    builder = LlamaCppBuilder().with_bundled_model().with_context(1024)
    model = builder.with_projector(path, "image", "audio").build()
    yield model
    anyio.run(model.aclose)


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def picture() -> File:
    """Return a red picture of 28 x 28 pixels."""
    rows = (b"\0" + b"\xff\0\0" * 28) * 28
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", 28, 28, 8, 2, 0, 0, 0))
    data = b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return File.from_bytes(data)


def silence() -> File:
    """Return a second of silence."""
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(16_000)
        sound.writeframes(bytes(32_000))
    return File.from_bytes(buffer.getvalue())


def input_tokens(model: CompletionsProvider, *files: File) -> int:
    chat = ChatBuilder().with_model(model).with_options(SHORT).build()
    return chat.blocking.complete(Messages.from_user("What is this?", *files)).usage.input_tokens


def test_the_model_reads_each_image_and_sound(model: CompletionsProvider) -> None:
    tokens = input_tokens(model)

    assert input_tokens(model, picture()) - tokens == IMAGE_TOKENS
    assert input_tokens(model, picture(), silence()) - tokens == IMAGE_TOKENS + AUDIO_TOKENS


async def test_a_response_to_an_image_can_be_streamed_and_the_conversation_continues(
    model: CompletionsProvider,
) -> None:
    chat = ChatBuilder().with_model(model).with_options(SHORT).build()
    messages = Messages.from_user("What is this?").file(picture())
    async with chat.stream(messages) as stream:
        text = "".join([piece async for piece in stream.text()])

    again = await chat.complete(messages.user("Are you sure?"))
    assert (text, again.text) == (stream.response.text, messages.contents[-1].text)
    assert again.usage.input_tokens > stream.response.usage.input_tokens


async def test_a_tool_is_called_for_an_image(model: CompletionsProvider) -> None:
    tools = ToolCollection()

    @tools.tool
    async def store(red: bool) -> str:
        """Store whether a picture is red."""
        return str(red)

    options = ChatOptions(temperature=0, max_tokens=40, tool_choice="required")
    scope = ScopedCollection(tools, lambda _call, _meta: RequireApproval())
    chat = ChatBuilder().with_model(model).with_options(options).with_scoped_tools(scope).build()

    paused = await chat.complete(Messages.from_user("Store this.").file(picture()))
    assert isinstance(paused, Paused)
    assert isinstance(paused.waiting[0].arguments["red"], bool)


async def test_an_image_that_cannot_be_read_raises_invalid_request_error(model: CompletionsProvider) -> None:
    chat = ChatBuilder().with_model(model).with_options(SHORT).build()

    with pytest.raises(InvalidRequestError, match="Failed to load image or audio file"):
        await chat.complete(Messages.from_user("What is this?").file(File("image/png", data=b"no picture")))


def test_a_projector_of_another_model_raises_invalid_request_error(tmp_path: Path) -> None:
    write_projector(tmp_path / "other.gguf", 64)
    model = LlamaCppBuilder().with_bundled_model().with_projector(tmp_path / "other.gguf").build()

    with pytest.raises(InvalidRequestError, match=r"could not load '.*' with the projector 'other\.gguf'"):
        input_tokens(model)
