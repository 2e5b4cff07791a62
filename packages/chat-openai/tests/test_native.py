"""Server-side tools: declarations in requests, and refused settings."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from chat_core.errors import UsageError
from chat_core.messages import File, Opaque
from chat_openai import CodeInterpreter, ImageGeneration, NativeTool

PNG = b"\x89PNG"

DECLARATIONS: dict[str, tuple[NativeTool, dict[str, object]]] = {
    "code in a new container": (CodeInterpreter(), {"type": "code_interpreter", "container": {"type": "auto"}}),
    "code over files": (
        CodeInterpreter(file_ids=("file_1", "file_2"), memory_limit="4g"),
        {
            "type": "code_interpreter",
            "container": {"type": "auto", "file_ids": ["file_1", "file_2"], "memory_limit": "4g"},
        },
    ),
    "code that may reach a host": (
        CodeInterpreter(allowed_domains=("example.org",)),
        {
            "type": "code_interpreter",
            "container": {
                "type": "auto",
                "network_policy": {"type": "allowlist", "allowed_domains": ["example.org"]},
            },
        },
    ),
    "code that may reach nothing": (
        CodeInterpreter(offline=True),
        {"type": "code_interpreter", "container": {"type": "auto", "network_policy": {"type": "disabled"}}},
    ),
    "code in a container of one's own": (
        CodeInterpreter(container="cntr_1"),
        {"type": "code_interpreter", "container": "cntr_1"},
    ),
    "any image": (ImageGeneration(), {"type": "image_generation"}),
    "an image in every detail": (
        ImageGeneration(
            size="1024x1536",
            quality="high",
            background="transparent",
            output_format="webp",
            output_compression=0,
            partial_images=0,
            moderation="low",
            model="gpt-image-1.5",
            action="edit",
            input_fidelity="high",
            mask_file_id="file_3",
        ),
        {
            "type": "image_generation",
            "size": "1024x1536",
            "quality": "high",
            "background": "transparent",
            "output_format": "webp",
            "output_compression": 0,
            "partial_images": 0,
            "moderation": "low",
            "model": "gpt-image-1.5",
            "action": "edit",
            "input_fidelity": "high",
            "input_image_mask": {"file_id": "file_3"},
        },
    ),
    "an image that moves": (
        ImageGeneration(output_format="gif", complexity="low", frame_count=12, frame_duration_ms=100, partial_images=0),
        {
            "type": "image_generation",
            "output_format": "gif",
            "complexity": "low",
            "frame_count": 12,
            "frame_duration_ms": 100,
            "partial_images": 0,
        },
    ),
    "an image that is drawn": (
        ImageGeneration(output_format="svg", svg_model="gpt-5", svg_reasoning="low"),
        {
            "type": "image_generation",
            "output_format": "svg",
            "svg": {"model": "gpt-5", "reasoning": {"effort": "low"}},
        },
    ),
    "an image with a mask of bytes": (
        ImageGeneration(mask=File("image/png", data=PNG)),
        {"type": "image_generation", "input_image_mask": {"image_url": "data:image/png;base64,iVBORw=="}},
    ),
    "an image with a mask by URL": (
        ImageGeneration(mask=File("image/png", url="https://example.org/mask.png")),
        {"type": "image_generation", "input_image_mask": {"image_url": "https://example.org/mask.png"}},
    ),
}


@pytest.mark.parametrize("case", DECLARATIONS)
def test_a_declaration_contains_only_the_configured_fields(case: str) -> None:
    tool, said = DECLARATIONS[case]
    assert tool.declaration() == said
    assert json.loads(json.dumps(tool.declaration())) == said


MISTAKES: dict[str, tuple[Callable[[], NativeTool], str]] = {
    "one text for several": (
        lambda: CodeInterpreter(file_ids="file_1"),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType] - wrong on purpose
        r"file_ids=\('file_1',\)",
    ),
    "no text": (
        lambda: CodeInterpreter(file_ids=(7,)),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType] - wrong on purpose
        "needs non-empty strings, not 7",
    ),
    "nothing for a container": (lambda: CodeInterpreter(container=""), "needs the id of a container"),
    "a network that is none": (
        lambda: CodeInterpreter(offline=True, allowed_domains=("example.org",)),
        "conflicts with allowed_domains",
    ),
    "two containers, one of them offline": (
        lambda: CodeInterpreter(container="cntr_1", offline=True),
        "configure a new container",
    ),
    "partial images that move": (
        lambda: ImageGeneration(output_format="gif", partial_images=1),
        "gif.* partial_images",
    ),
    "a mask for what moves": (lambda: ImageGeneration(output_format="gif", mask_file_id="file_1"), "gif.* mask"),
    "compression of what moves": (
        lambda: ImageGeneration(output_format="gif", output_compression=50),
        "gif.* output_compression",
    ),
    "frames of what does not move": (lambda: ImageGeneration(frame_count=2), "frame_count .* output_format='gif'"),
    "no frames": (lambda: ImageGeneration(output_format="gif", frame_count=0), "frame_count must be at least 1"),
    "a draughtsman of what is painted": (lambda: ImageGeneration(svg_model="m"), "svg_model .* output_format='svg'"),
    "a transparent photograph": (
        lambda: ImageGeneration(output_format="jpeg", background="transparent"),
        "does not support a transparent background",
    ),
    "two containers": (lambda: CodeInterpreter(container="cntr_1", file_ids=("file_1",)), "configure a new container"),
    "too many partial images": (lambda: ImageGeneration(partial_images=4), "partial_images must be from 0 to 3, not 4"),
    "more than whole": (lambda: ImageGeneration(output_compression=101), "output_compression must be from 0 to 100"),
    "two masks": (
        lambda: ImageGeneration(mask=File("image/png", data=PNG), mask_file_id="file_1"),
        "not both",
    ),
    "a mask that is nowhere": (
        lambda: ImageGeneration(mask=File("image/png", opaque=Opaque("openai-responses", {"file_id": "file_1"}))),
        "mask_file_id",
    ),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_an_invalid_setting_raises_an_error_that_explains_it(case: str) -> None:
    make, words = MISTAKES[case]
    with pytest.raises(UsageError, match=words):
        make()


def test_code_interpreter_outputs_are_requested_only_if_enabled() -> None:
    assert CodeInterpreter(with_outputs=True).includes() == ("code_interpreter_call.outputs",)
    assert CodeInterpreter().includes() == ()
    assert ImageGeneration().includes() == ()


def test_native_tools_are_hashable_and_comparable() -> None:
    assert ImageGeneration(size="auto") == ImageGeneration(size="auto")
    assert len({CodeInterpreter(), CodeInterpreter(), CodeInterpreter(container="cntr_1")}) == 2
