"""Settings of native tools, which OpenAI defines and usually runs.

A native tool provides its declaration for the request, and the names of additional output to include in the response.
If a setting is `None` or an empty tuple, the server decides. Search tools are in `search.py`, and remote MCP servers
are in `mcp.py`. Tools that the chat runs are in `actions.py`.
"""

from __future__ import annotations

import base64
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, final

from chat_core.arguments import require_number, require_type
from chat_core.errors import UsageError
from chat_core.messages import File

_MAX_PARTIAL_IMAGES = 3
_MAX_COMPRESSION = 100
_REQUIRED_FORMATS = {"frame_count": "gif", "frame_duration_ms": "gif", "svg_model": "svg", "svg_reasoning": "svg"}
_UNSUPPORTED_BY_GIF = ("partial_images", "mask", "mask_file_id", "output_compression")


class NativeTool(ABC):
    """Base class for tools that the API defines. Only this package defines subclasses."""

    __slots__ = ()

    @abstractmethod
    def declaration(self) -> dict[str, object]:
        """Return the tool's entry in the request field `tools`."""

    def includes(self) -> tuple[str, ...]:
        """Return the tool's entries in the request field `include`, which request additional output."""
        return ()


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class CodeInterpreter(NativeTool):
    """A tool that runs Python code in a container, which already exists or is created for the request.

    Attributes:
        container: the id of an existing container. `None` creates a new container.
        file_ids: the ids of uploaded files that are copied into a new container.
        memory_limit: the memory of a new container.
        allowed_domains: the hosts that code in a new container may access. If empty, the server decides.
        offline: whether network access of a new container is disabled.
        with_outputs: whether responses include the printed output and the images of the code.

    Raises:
        UsageError: settings of a new container are combined with `container`, or `allowed_domains` with `offline`.
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
            msg = f"offline=True conflicts with allowed_domains={self.allowed_domains!r}: remove one of them"
            raise UsageError(msg)
        if self.container is None:
            return
        if not self.container:
            msg = "CodeInterpreter(container=…) needs the id of a container, not ''; omit it to create a new container"
            raise UsageError(msg)
        if self.file_ids or self.memory_limit or self.allowed_domains or self.offline:
            msg = (
                "file_ids, memory_limit, allowed_domains and offline configure a new container: remove them, or remove "
                f"container={self.container!r}"
            )
            raise UsageError(msg)

    def declaration(self) -> dict[str, object]:
        """Return the tool's entry in the request field `tools`."""
        return {"type": "code_interpreter", "container": self.container or self._new_container()}

    def _new_container(self) -> dict[str, object]:
        network_policy: dict[str, object] | None = {"type": "disabled"} if self.offline else None
        if self.allowed_domains:
            network_policy = {"type": "allowlist", "allowed_domains": list(self.allowed_domains)}
        settings = {
            "file_ids": list(self.file_ids) or None,
            "memory_limit": self.memory_limit,
            "network_policy": network_policy,
        }
        return {"type": "auto", **without_none(settings)}

    def includes(self) -> tuple[str, ...]:
        """Return the `include` entry that requests the output of the code, if `with_outputs` is set."""
        return ("code_interpreter_call.outputs",) if self.with_outputs else ()


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ImageGeneration(NativeTool):
    """A tool that generates and edits images, which become `File` parts of the response.

    Attributes:
        size: the size in pixels, such as `"1024x1536"`, or `"auto"`.
        quality: the quality of the images.
        background: the kind of background.
        output_format: the file format of the images. `None` leaves the choice to the server, which uses `png`.
        output_compression: the compression level, from 0 to 100, for formats that support it.
        partial_images: the number of unfinished previews of each image in a stream, from 0 to 3. Each preview is a
            `FilePart` event.
        moderation: the strictness of content moderation.
        model: the name of the image model.
        action: whether to generate or edit an image; `"auto"` leaves the choice to the model.
        input_fidelity: degree to which the images preserve faces and styles of the input images.
        mask: an image with `data` or `url` that marks the area to edit.
        mask_file_id: the id of an uploaded mask, instead of `mask`.
        complexity: the amount of planning before an image is generated.
        frame_count: the number of frames of a GIF.
        frame_duration_ms: the display time of each frame of a GIF, in milliseconds.
        svg_model: the model that writes an SVG.
        svg_reasoning: the reasoning effort of the model that writes an SVG.

    Raises:
        UsageError: a number is out of range, both masks are set, or the output format does not support a setting.
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
        require_range("partial_images", self.partial_images, 0, _MAX_PARTIAL_IMAGES)
        require_range("output_compression", self.output_compression, 0, _MAX_COMPRESSION)
        require_range("frame_count", self.frame_count, 1, float("inf"))
        require_range("frame_duration_ms", self.frame_duration_ms, 1, float("inf"))
        self._require_format()
        if self.mask is not None and self.mask_file_id is not None:
            msg = "ImageGeneration() accepts mask or mask_file_id, not both: remove one of them"
            raise UsageError(msg)
        if self.mask is not None:
            require_type("mask", self.mask, File, "a File")
        if self.mask is not None and self.mask.data is None and self.mask.url is None:
            msg = (
                "ImageGeneration(mask=…) needs a File with data or url; pass the id of an uploaded file as mask_file_id"
            )
            raise UsageError(msg)

    def _require_format(self) -> None:
        """Raise `UsageError` if a setting is not supported by the output format."""
        for name, required_format in _REQUIRED_FORMATS.items():
            if getattr(self, name) is not None and self.output_format != required_format:
                msg = f"{name} needs output_format={required_format!r}, not {self.output_format!r}"
                raise UsageError(msg)
        if self.output_format == "gif":
            unsupported = next((name for name in _UNSUPPORTED_BY_GIF if getattr(self, name)), None)
            if unsupported is not None:
                msg = f"output_format='gif' does not support {unsupported}: remove it, or choose another format"
                raise UsageError(msg)
        if self.output_format == "jpeg" and self.background == "transparent":
            msg = "output_format='jpeg' does not support a transparent background: choose 'png' or 'webp'"
            raise UsageError(msg)

    def declaration(self) -> dict[str, object]:
        """Return the tool's entry in the request field `tools`."""
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
        settings |= {"input_image_mask": self._mask_fields(), "svg": svg or None}
        return {"type": "image_generation", **without_none(settings)}

    def _mask_fields(self) -> dict[str, object] | None:
        if self.mask_file_id is not None:
            return {"file_id": self.mask_file_id}
        mask = self.mask
        if mask is None:
            return None
        if mask.data is not None:
            return {"image_url": f"data:{mask.mime};base64,{base64.b64encode(mask.data).decode()}"}
        return {"image_url": mask.url}


def without_none(settings: Mapping[str, object]) -> dict[str, object]:
    """Return a copy of `settings` without items whose value is None."""
    return {name: value for name, value in settings.items() if value is not None}


def require_texts(tool: str, name: str, texts: object) -> None:
    """Raise an error if `texts` is not an iterable of non-empty strings.

    Args:
        tool: the name of the class or method that received `texts`, for the error message.
        name: the name of the parameter, for the error message.
        texts: the argument to check. A single string is rejected.

    Raises:
        UsageError: `texts` is a string or not iterable, or an item is not a non-empty string.
    """
    if isinstance(texts, str) or not isinstance(texts, Iterable):
        msg = f"{tool}({name}=…) needs a tuple of strings, not {texts!r}: {name}=({texts!r},)"
        raise UsageError(msg)
    for text in texts:  # pyright: ignore[reportUnknownVariableType] - checked below
        if not isinstance(text, str) or not text:
            msg = f"{tool}({name}=…) needs non-empty strings, not {text!r}"
            raise UsageError(msg)


def require_range(name: str, value: float | None, minimum: float, maximum: float) -> None:
    """Raise an error if `value` is out of range.

    Args:
        name: the name of the parameter, for the error message.
        value: the argument to check. `None` is always accepted.
        minimum: the smallest accepted value.
        maximum: the largest accepted value, or infinity.

    Raises:
        UsageError: `value` is not a number, or is out of range.
    """
    if value is None:
        return
    require_number(name, value)
    if not minimum <= value <= maximum:
        allowed = f"at least {minimum:g}" if maximum == float("inf") else f"from {minimum:g} to {maximum:g}"
        msg = f"{name} must be {allowed}, not {value!r}"
        raise UsageError(msg)
