"""Detection of file types from the content or, if that fails, from the name."""

from __future__ import annotations

from pathlib import Path

import pytest
from chat_core.errors import UsageError
from chat_core.messages import File
from chat_core.messages.file_types import detect_mime

PNG = b"\x89PNG\r\n\x1a\n\x00\x00"
MP4 = b"\x00\x00\x00\x18ftypisom"


@pytest.mark.parametrize(
    ("data", "name", "mime"),
    [
        (PNG, "photo.txt", "image/png"),
        (PNG, "photo", "image/png"),
        (PNG, None, "image/png"),
        (b"\xff\xd8\xff\xe0", "photo.png", "image/jpeg"),
        (b"GIF89a", None, "image/gif"),
        (b"RIFF\x00\x00\x00\x00WEBPVP8 ", "a.png", "image/webp"),
        (b"RIFF\x00\x00\x00\x00WAVEfmt ", None, "audio/wav"),
        (b"\x00\x00\x00\x18ftypheic", None, "image/heic"),
        (b"\x00\x00\x00\x18ftypM4A ", None, "audio/mp4"),
        (MP4, None, "video/mp4"),
        (MP4, "film.mov", "video/quicktime"),
        (b"%PDF-1.7", "report.doc", "application/pdf"),
        (b"ID3\x04", None, "audio/mpeg"),
        (b"<svg/>", "drawing.svg", "image/svg+xml"),
        (b"a,b\n1,2\n", "table.csv", "text/csv"),
        (b"plain words", "README", None),
        (b"PK\x03\x04\x00", "report.docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
        (b"\x00\x01\x02", "unknown", None),
        (b"\xff\xfe\xfd", None, None),
        (b"ID3,name\n1,Ana\n", "table.csv", "text/csv"),
        (b"The ftyp box begins a video.", "notes.txt", "text/plain"),
        (b"", None, None),
    ],
)
def test_detect_mime_prefers_the_content_over_the_name(data: bytes, name: str | None, mime: str | None) -> None:
    assert detect_mime(data, name) == mime


def test_from_bytes_detects_the_mime_type_of_the_content() -> None:
    assert File.from_bytes(PNG, name="photo.txt") == File("image/png", data=PNG, name="photo.txt")
    assert File.from_bytes(PNG) == File("image/png", data=PNG)
    assert File.from_bytes(PNG, mime="image/x-mine").mime == "image/x-mine"
    with pytest.raises(UsageError, match=r"cannot determine the MIME type of 'blob': pass mime='…'"):
        File.from_bytes(b"\x00", name="blob")


def test_from_path_detects_the_mime_type_of_the_content(tmp_path: Path) -> None:
    for name in ("photo.txt", "photo"):
        path = tmp_path / name
        path.write_bytes(PNG)
        assert File.from_path(path) == File("image/png", data=PNG, name=name)
