"""Line numbers of the keys and values of a TOML document.

`tomllib` returns no positions. This scanner reads a document that `tomllib` has accepted, and therefore needs to
recognize only the ends of values, not errors.
"""

from __future__ import annotations

import re
import tomllib
from bisect import bisect_right
from collections.abc import Mapping
from typing import Final, TypeAlias, final

Path: TypeAlias = tuple[str | int, ...]

_BLANK: Final = re.compile(r"(?:[ \t\r\n]+|#[^\n]*)*")
_KEY: Final = re.compile(r"""\s*("(?:[^"\\\n]|\\.)*"|'[^'\n]*'|[A-Za-z0-9_-]+)\s*""")
_STRING: Final = re.compile(
    r'''"""(?:[^\\]|\\.)*?"{3,5}(?!")|\'\'\'.*?'{3,5}(?!')|"(?:[^"\\\n]|\\.)*"|'[^'\n]*\'''', re.DOTALL
)
_SCALAR: Final = re.compile(r"[^,\]}#\n]+")


def find_lines(text: str) -> dict[Path, int]:
    """Return the line of each table, key and array element of a valid TOML document, counted from 1.

    Args:
        text: the document. `tomllib.loads()` must accept it.
    """
    return _Scanner(text).scan()


def line_of(lines: Mapping[Path, int], path: Path) -> int:
    """Return the line of a path, or of its nearest parent that the document contains."""
    while path and path not in lines:
        path = path[:-1]
    return lines.get(path, 1)


@final
class _Scanner:
    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0
        self._lines: dict[Path, int] = {}
        self._array_lengths: dict[Path, int] = {}
        self._starts = [0, *(found.end() for found in re.finditer("\n", text))]

    def scan(self) -> dict[Path, int]:
        table: Path = ()
        while self._skip_blank() < len(self._text):
            if self._text[self._position] == "[":
                table = self._read_header()
            else:
                self._read_pair(table)
        return self._lines

    def _skip_blank(self) -> int:
        found = _BLANK.match(self._text, self._position)
        self._position = found.end() if found else self._position
        return self._position

    def _record_line(self, path: Path) -> None:
        self._lines.setdefault(path, bisect_right(self._starts, self._position))

    def _read_header(self) -> Path:
        is_array = self._text.startswith("[[", self._position)
        start = self._position
        self._position += 2 if is_array else 1
        *parents, last = self._read_key()
        self._position, end = start, self._position + (2 if is_array else 1)
        path: Path = ()
        for key in parents:
            path = self._current((*path, key))
        path = (*path, last)
        if is_array:
            self._array_lengths[path] = self._array_lengths.get(path, 0) + 1
            self._record_line(path)
        path = self._current(path)
        self._record_line(path)
        self._position = end
        return path

    def _current(self, path: Path) -> Path:
        """If `path` is an array of tables, return the path of its last element. Return any other path unchanged."""
        length = self._array_lengths.get(path)
        return path if length is None else (*path, length - 1)

    def _read_key(self) -> list[str]:
        keys: list[str] = []
        while found := _KEY.match(self._text, self._position):
            keys.append(next(iter(tomllib.loads(f"{found[1]} = 0"))))
            self._position = found.end()
            if not self._text.startswith(".", self._position):
                break
            self._position += 1
        return keys

    def _read_pair(self, table: Path) -> None:
        start = self._position
        keys = self._read_key()
        end = self._position + 1  # the equals sign
        self._position = start
        for length in range(1, len(keys) + 1):
            self._record_line((*table, *keys[:length]))
        self._position = end
        self._read_value((*table, *keys))

    def _read_value(self, path: Path) -> None:
        self._skip_blank()
        self._record_line(path)
        if found := _STRING.match(self._text, self._position):
            self._position = found.end()
        elif self._text[self._position] == "[":
            self._read_items(path, "]")
        elif self._text[self._position] == "{":
            self._read_items(path, "}")
        else:
            scalar = _SCALAR.match(self._text, self._position)
            self._position = scalar.end() if scalar else self._position + 1

    def _read_items(self, path: Path, closing: str) -> None:
        """Read the elements of an array, or the pairs of an inline table."""
        self._position += 1
        index = 0
        while self._skip_blank() < len(self._text) and self._text[self._position] != closing:
            if self._text[self._position] == ",":
                self._position += 1
            elif closing == "}":
                self._read_pair(path)
            else:
                self._read_value((*path, index))
                index += 1
        self._position += 1
