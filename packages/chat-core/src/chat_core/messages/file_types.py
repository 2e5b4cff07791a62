"""Detection of a file's MIME type from its first bytes and its name.

The tables contain only types that models can read. A library for hundreds of types would be one more dependency.
"""

from __future__ import annotations

import mimetypes
from typing import Final

_PREFIXES: Final[tuple[tuple[bytes, str], ...]] = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"II*\x00", "image/tiff"),
    (b"MM\x00*", "image/tiff"),
    (b"%PDF-", "application/pdf"),
    (b"ID3\x02", "audio/mpeg"),
    (b"ID3\x03", "audio/mpeg"),
    (b"ID3\x04", "audio/mpeg"),
    (b"\xff\xfb", "audio/mpeg"),
    (b"\xff\xf3", "audio/mpeg"),
    (b"fLaC", "audio/flac"),
    (b"OggS", "audio/ogg"),
    (b"\x1aE\xdf\xa3", "video/webm"),
)
_RIFF: Final = {b"WAVE": "audio/wav", b"WEBP": "image/webp", b"AVI ": "video/x-msvideo"}
_BRANDS: Final = {
    b"avif": "image/avif",
    b"heic": "image/heic",
    b"heix": "image/heic",
    b"mif1": "image/heif",
    b"M4A ": "audio/mp4",
    b"qt  ": "video/quicktime",
}


def detect_mime(data: bytes, name: str | None = None, /) -> str | None:
    """Return the MIME type of a file, or None if neither its content nor its name indicates a type.

    The content takes precedence over the name. If both indicate audio, or both indicate video, the name decides,
    because one container format has several MIME types.

    Args:
        data: content of the file.
        name: name of the file.
    """
    found = _detect_content(data)
    named = None if name is None else mimetypes.guess_type(name)[0]
    if found is None:
        return named
    kind = found.partition("/")[0]
    return named if named is not None and kind in {"audio", "video"} and named.startswith(f"{kind}/") else found


def _detect_content(data: bytes) -> str | None:
    if data[:4] == b"RIFF":
        return _RIFF.get(data[8:12])
    if data[:3] == b"\0\0\0" and data[4:8] == b"ftyp":
        return _BRANDS.get(data[8:12], "video/mp4")
    return next((mime for prefix, mime in _PREFIXES if data.startswith(prefix)), None)
