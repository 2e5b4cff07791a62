"""The tools that OpenAI runs itself, with their settings: what a request declares, and no more.

Each says its declaration in the words of the API, and which further parts of its items an answer is asked for.
`None` and an empty tuple leave a choice to the server. The searches are in `search.py`, remote servers in `mcp.py`.
"""

from __future__ import annotations

import base64
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, final

from chat_core.errors import UsageError
from chat_core.messages import File

_MOST_PARTIAL_IMAGES = 3
_PERCENT = 100
_OF_ONE_FORMAT = {"frame_count": "gif", "frame_duration_ms": "gif", "svg_model": "svg", "svg_reasoning": "svg"}
_NOT_OF_GIF = ("partial_images", "mask", "mask_file_id", "output_compression")


class NativeTool(ABC):
    """A tool that the server runs. Closed: the five of this package are all there are."""

    __slots__ = ()

    @abstractmethod
    def declaration(self) -> dict[str, object]:
        """What a request says of it."""

    def includes(self) -> tuple[str, ...]:
        """Which parts of its items the answer holds besides, by the API's names for them."""
        return ()


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class CodeInterpreter(NativeTool):
    """Runs Python code in a container, one of yours or a new one.

    Attributes:
        container: the id of a container of yours; without one, the server makes one.
        file_ids: files that a new container holds, by their ids.
        memory_limit: how much memory a new container has.
        allowed_domains: the hosts that code in a new container may reach; without any, the server decides.
        offline: whether it may reach none at all, whatever the server would decide.
        with_outputs: whether answers hold what the code has printed, and the images that it drew.

    Raises:
        UsageError: settings of a new container stand beside a container of yours, or hosts beside `offline`.
    """

    container: str | None = None
    file_ids: tuple[str, ...] = ()
    memory_limit: Literal["1g", "4g", "16g", "64g"] | None = None
    allowed_domains: tuple[str, ...] = ()
    offline: bool = False
    with_outputs: bool = False

    def __post_init__(self) -> None:
        require_texts("CodeInterpreter", "file_ids", self.file_ids)
        require_texts("CodeInterpreter", "allowed_domains", self.allowed_domains)
        if self.offline and self.allowed_domains:
            msg = f"code that is offline reaches no host, not even {self.allowed_domains[0]!r}: drop either"
            raise UsageError(msg)
        if self.container is None:
            return
        if not self.container:
            msg = "CodeInterpreter(container=…) needs the id of a container; leave it out to have a new one"
            raise UsageError(msg)
        if self.file_ids or self.memory_limit or self.allowed_domains or self.offline:
            msg = (
                "file_ids, memory_limit, allowed_domains and offline are of a new container, and "
                f"CodeInterpreter(container={self.container!r}) has one: drop either"
            )
            raise UsageError(msg)

    def declaration(self) -> dict[str, object]:
        """What a request says of it."""
        return {"type": "code_interpreter", "container": self.container or self._new()}

    def _new(self) -> dict[str, object]:
        reach: dict[str, object] | None = {"type": "disabled"} if self.offline else None
        if self.allowed_domains:
            reach = {"type": "allowlist", "allowed_domains": list(self.allowed_domains)}
        settings = {
            "file_ids": list(self.file_ids) or None,
            "memory_limit": self.memory_limit,
            "network_policy": reach,
        }
        return {"type": "auto", **without_none(settings)}

    def includes(self) -> tuple[str, ...]:
        """What the code printed and drew, where it is wanted."""
        return ("code_interpreter_call.outputs",) if self.with_outputs else ()


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ImageGeneration(NativeTool):
    """Makes and edits images, which come as `File` parts of the answer.

    Attributes:
        size: like `"1024x1536"`, or `"auto"`.
        quality, background, moderation: as the API names them.
        output_format: what the images are encoded as; `png` where nothing is said.
        output_compression: 0 to 100, for formats that compress.
        partial_images: how many unfinished images a stream shows of each, 0 to 3; each is a `FilePart` event.
        model: the model that makes the images.
        action: whether an image is made, edited, or whichever fits.
        input_fidelity: how closely faces and styles of given images are kept.
        mask: where an image may be edited: its bytes or a URL.
        mask_file_id: the same, as a file of yours.
        complexity: how much is thought about an image before it is made.
        frame_count, frame_duration_ms: of a GIF: how many frames it has, and how long each is shown.
        svg_model, svg_reasoning: of an SVG: the model that writes it, and how hard it thinks.

    Raises:
        UsageError: a number is out of its range, there are two masks, or the format does not have what is asked for.
    """

    size: str | None = None
    quality: Literal["low", "medium", "high", "xhigh", "max", "auto"] | None = None
    background: Literal["transparent", "opaque", "auto"] | None = None
    output_format: Literal["png", "webp", "jpeg", "gif", "svg"] | None = None
    output_compression: int | None = None
    partial_images: int | None = None
    moderation: Literal["auto", "low"] | None = None
    model: str | None = None
    action: Literal["generate", "edit", "auto"] | None = None
    input_fidelity: Literal["high", "low"] | None = None
    mask: File | None = None
    mask_file_id: str | None = None
    complexity: Literal["low", "medium", "high"] | None = None
    frame_count: int | None = None
    frame_duration_ms: int | None = None
    svg_model: str | None = None
    svg_reasoning: Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"] | None = None

    def __post_init__(self) -> None:
        require_range("partial_images", self.partial_images, 0, _MOST_PARTIAL_IMAGES)
        require_range("output_compression", self.output_compression, 0, _PERCENT)
        require_range("frame_count", self.frame_count, 1, float("inf"))
        require_range("frame_duration_ms", self.frame_duration_ms, 1, float("inf"))
        self._require_format()
        if self.mask is not None and self.mask_file_id is not None:
            msg = "ImageGeneration() takes a mask or a mask_file_id, not both: drop one of them"
            raise UsageError(msg)
        if self.mask is not None and self.mask.data is None and self.mask.url is None:
            msg = "ImageGeneration(mask=…) needs its bytes or a URL; pass the id of a file as mask_file_id"
            raise UsageError(msg)

    def _require_format(self) -> None:
        """Check that the format has what is asked for."""
        for name, only in _OF_ONE_FORMAT.items():
            if getattr(self, name) is not None and self.output_format != only:
                msg = f"{name} needs output_format={only!r}, not {self.output_format!r}"
                raise UsageError(msg)
        if self.output_format == "gif":
            lacks = next((name for name in _NOT_OF_GIF if getattr(self, name)), None)
            if lacks is not None:
                msg = f"output_format='gif' has no {lacks}: leave it out, or choose another format"
                raise UsageError(msg)
        if self.output_format == "jpeg" and self.background == "transparent":
            msg = "jpeg has no transparent background: choose output_format='png' or 'webp'"
            raise UsageError(msg)

    def declaration(self) -> dict[str, object]:
        """What a request says of it."""
        names = (
            "size",
            "quality",
            "background",
            "output_format",
            "output_compression",
            "partial_images",
            "moderation",
            "model",
            "action",
            "input_fidelity",
            "complexity",
            "frame_count",
            "frame_duration_ms",
        )
        settings: dict[str, object] = {name: getattr(self, name) for name in names}
        effort = None if self.svg_reasoning is None else {"effort": self.svg_reasoning}
        svg = without_none({"model": self.svg_model, "reasoning": effort})
        settings |= {"input_image_mask": self._mask(), "svg": svg or None}
        return {"type": "image_generation", **without_none(settings)}

    def _mask(self) -> dict[str, object] | None:
        if self.mask_file_id is not None:
            return {"file_id": self.mask_file_id}
        mask = self.mask
        if mask is None:
            return None
        if mask.data is not None:
            return {"image_url": f"data:{mask.mime};base64,{base64.b64encode(mask.data).decode()}"}
        return {"image_url": mask.url}


def without_none(settings: Mapping[str, object]) -> dict[str, object]:
    """Return `settings` without those that are None."""
    return {name: value for name, value in settings.items() if value is not None}


def require_texts(tool: str, name: str, texts: object) -> None:
    """Check that `texts` are several, and not one by mistake.

    Raises:
        UsageError: they are one text, or hold what is none.
    """
    if isinstance(texts, str) or not isinstance(texts, Iterable):
        msg = f"{tool}({name}=…) is a tuple of texts, not {texts!r}: {name}=({texts!r},)"
        raise UsageError(msg)
    for text in texts:  # pyright: ignore[reportUnknownVariableType] - it is looked at
        if not isinstance(text, str) or not text:
            msg = f"{tool}({name}=…) holds texts, not {text!r}"
            raise UsageError(msg)


def require_range(name: str, value: float | None, least: float, most: float) -> None:
    """Check that a number is in its range.

    Raises:
        UsageError: it is not.
    """
    if value is not None and not least <= value <= most:
        msg = f"{name} is from {least:g} to {most:g}, not {value!r}"
        raise UsageError(msg)
