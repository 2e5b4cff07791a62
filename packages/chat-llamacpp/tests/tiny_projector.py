"""A projector with random weights, small enough to be written by a test, in the GGUF format of llama.cpp.

The format is described in https://github.com/ggml-org/ggml/blob/master/docs/gguf.md. The encoders are a vision
transformer with the projector of LLaVA, and the encoder of Whisper with the projector of Ultravox.
"""

from __future__ import annotations

import math
import random
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias

WIDTH, PATCH, STACK, MEL = 16, 14, 100, 80
IMAGE_TOKENS = 4
"""Number of tokens of any image: an image has 28 x 28 pixels, and a patch 14 x 14."""
FRAMES = 1500
"""Number of frames of Whisper's 30 seconds, which shorter sounds are filled up to."""
AUDIO_TOKENS = FRAMES // STACK
"""Number of tokens of a sound of up to 30 seconds."""
_ALIGNMENT = 32
Shapes: TypeAlias = dict[str, tuple[int, ...]]
Value: TypeAlias = bool | int | float | str | list[float]


def write_projector(path: Path, model_width: int) -> None:
    """Write a projector for images and audio.

    Args:
        path: the file to write.
        model_width: length of the token vectors of the model.
    """
    fields: dict[str, Value] = {"general.architecture": "clip", "clip.use_gelu": True}
    for kind, projector in (("vision", "mlp"), ("audio", "ultravox")):
        fields |= {f"clip.has_{kind}_encoder": True, f"clip.{kind}.projector_type": projector}
        fields |= {f"clip.{kind}.{name}": WIDTH for name in ("embedding_length", "feed_forward_length")}
        fields |= {f"clip.{kind}.block_count": 2, f"clip.{kind}.attention.head_count": 2}
        fields |= {f"clip.{kind}.projection_dim": model_width, f"clip.{kind}.attention.layer_norm_epsilon": 1e-5}
    fields |= {"clip.vision.image_size": 2 * PATCH, "clip.vision.patch_size": PATCH}
    fields |= {"clip.vision.image_mean": [0.5] * 3, "clip.vision.image_std": [0.5] * 3}
    fields |= {"clip.audio.num_mel_bins": MEL, "clip.audio.projector.stack_factor": STACK}
    path.write_bytes(_dump(fields, _vision(model_width) | _audio(model_width)))


def _vision(model_width: int) -> Shapes:
    return {
        "v.class_embd": (WIDTH,),
        "v.patch_embd.weight": (PATCH, PATCH, 3, WIDTH),
        "v.position_embd.weight": (WIDTH, IMAGE_TOKENS + 1),
        **_norm("v.pre_ln"),
        **_blocks("v", ("attn_q", "attn_k", "attn_v", "attn_out", "ffn_up", "ffn_down")),
        "mm.0.weight": (WIDTH, model_width),
        "mm.0.bias": (model_width,),
        "mm.2.weight": (model_width, model_width),
        "mm.2.bias": (model_width,),
    }


def _audio(model_width: int) -> Shapes:
    shapes: Shapes = {
        "a.conv1d.1.weight": (3, MEL, WIDTH),
        "a.conv1d.1.bias": (1, WIDTH),
        "a.conv1d.2.weight": (3, WIDTH, WIDTH),
        "a.conv1d.2.bias": (1, WIDTH),
        "a.position_embd.weight": (WIDTH, FRAMES),
        **_norm("a.post_ln"),
        **_blocks("a", ("attn_q", "attn_v", "attn_out", "ffn_up", "ffn_down")),
        "mm.a.norm_pre.weight": (WIDTH * STACK,),
        "mm.a.mlp.1.weight": (WIDTH * STACK, 2 * WIDTH),
        "mm.a.norm_mid.weight": (WIDTH,),
        "mm.a.mlp.2.weight": (WIDTH, model_width),
    }
    return shapes | {f"a.blk.{block}.attn_k.weight": (WIDTH, WIDTH) for block in range(2)}  # Whisper has no bias here


def _norm(name: str) -> Shapes:
    return {f"{name}.weight": (WIDTH,), f"{name}.bias": (WIDTH,)}


def _blocks(prefix: str, layers: tuple[str, ...]) -> Shapes:
    shapes: Shapes = {}
    for name in [f"{prefix}.blk.{block}" for block in range(2)]:
        shapes |= _norm(f"{name}.ln1") | _norm(f"{name}.ln2")
        for layer in layers:
            shapes |= {f"{name}.{layer}.weight": (WIDTH, WIDTH), f"{name}.{layer}.bias": (WIDTH,)}
    return shapes


def _dump(fields: Mapping[str, Value], shapes: Shapes) -> bytes:
    source = random.Random(1)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(shapes), len(fields))
    head += b"".join([_text(name) + _value(value) for name, value in fields.items()])
    data = b""
    for name, shape in shapes.items():
        head += _text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, 0, len(data))
        data += _pad(struct.pack(f"<{math.prod(shape)}f", *[source.random() / 25 for _ in range(math.prod(shape))]))
    return _pad(head) + data


def _pad(data: bytes) -> bytes:
    return data + bytes(-len(data) % _ALIGNMENT)


def _text(text: str) -> bytes:
    return struct.pack("<Q", len(text)) + text.encode()


def _value(value: Value) -> bytes:
    match value:
        case bool():
            return struct.pack("<IB", 7, value)
        case int():
            return struct.pack("<II", 4, value)
        case float():
            return struct.pack("<If", 6, value)
        case str():
            return struct.pack("<I", 8) + _text(value)
        case list():
            return struct.pack(f"<IIQ{len(value)}f", 9, 6, len(value), *value)
