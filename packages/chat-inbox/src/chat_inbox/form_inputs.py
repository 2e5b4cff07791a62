"""Text formats of the number, date and time controls of a browser, and their conversion to values of JSON Schema.

A control is used only for a value that it represents exactly. Every other value keeps a plain text control.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date, datetime, time
from typing import Final, Literal, TypeAlias

DateKind: TypeAlias = Literal["date", "time", "datetime"]

INPUT_TYPES: Final[Mapping[str, str]] = {"date": "date", "time": "time", "datetime": "datetime-local"}
"""HTML input type for each kind of control."""
_FORMATS: Final[Mapping[object, DateKind]] = {"date": "date", "time": "time", "date-time": "datetime"}
_EXAMPLES: Final[Mapping[DateKind, str]] = {
    "date": "a date, such as 2030-01-31",
    "time": "a time, such as 09:30",
    "datetime": "a date and a time, such as 2030-01-31T09:30",
}
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_PATTERN: Final = re.compile(
    r"(?P<date>\d{4}-\d\d-\d\d)?[Tt ]?((?P<minutes>\d\d:\d\d)((?P<seconds>:\d\d)(?P<fraction>\.\d+)?)?)?"
    r"(?P<zone>[Zz]|[+-]\d\d:\d\d)?",
    re.ASCII,
)
_EXACT_BELOW: Final = 2**53
"""Bound below which browsers represent every integer exactly."""


def is_exact_number(text: str) -> bool:
    """Return whether the number control of a browser shows a text unchanged, or the text is empty."""
    return not text or (_NUMBER.fullmatch(text) is not None and abs(float(text)) < _EXACT_BELOW)


def read_date(schema_format: object, value: str) -> tuple[DateKind, str, str] | None:
    """Return the date or time control that represents a string exactly, or None if no control does.

    Args:
        schema_format: `format` of the JSON Schema: `date`, `time` or `date-time` (RFC 3339).
        value: the string; may be empty.

    Returns:
        The kind and the text of the control, and the time zone that `write_date()` must append.
    """
    kind = _FORMATS.get(schema_format) if isinstance(schema_format, str) else None
    if kind is None:
        return None
    if not value:
        return kind, "", "Z" if kind == "datetime" else ""
    found = _PATTERN.fullmatch(value)
    if found is None or found["fraction"] or _parse_moment(kind, value.replace(" ", "T")) is None:
        return None
    day, minutes, seconds, zone = found.group("date", "minutes", "seconds", "zone")
    if zone and kind != "datetime":
        return None
    # A browser leaves out seconds that are zero.
    clock = f"{minutes}{'' if seconds in (None, ':00') else seconds}"
    text = {"date": day, "time": clock, "datetime": f"{day}T{clock}"}[kind]
    return kind, text, (zone or "").upper()


def write_date(kind: DateKind, text: str, zone: str) -> str:
    """Return the JSON string for the submitted text of a date or time control.

    Args:
        kind: kind of the control.
        text: submitted text.
        zone: time zone to append, such as `Z` or `+02:00`.

    Raises:
        ValueError: the text is not a valid date or time. The message describes the expected format.
    """
    # Python also reads parts and compact forms: `09` as a time, and even `2030-01`, as 20:30 in the zone -01:00.
    parsed = _parse_moment(kind, text) if _PATTERN.fullmatch(text) else None
    if parsed is None:
        # A browser submits no text for a control with half a date.
        msg = (
            f"missing or incomplete: write {_EXAMPLES[kind]}" if not text else f"{text[:60]!r} is not {_EXAMPLES[kind]}"
        )
        raise ValueError(msg)
    has_zone = isinstance(parsed, (time, datetime)) and parsed.tzinfo is not None  # typed without the control
    return parsed.isoformat() + ("" if has_zone else zone)


def describe_zone(kind: str, zone: str) -> str:
    """Return the help text for the time zone of a control, which is empty for a date or a time.

    Args:
        kind: kind of the control.
        zone: time zone of the value.
    """
    if kind != "datetime":
        return ""
    return {"Z": "in UTC", "": "without a time zone"}.get(zone, f"in UTC{zone}")


def _parse_moment(kind: DateKind, text: str) -> date | time | datetime | None:
    """Return the date or time that a text represents, or None if the text is invalid."""
    try:
        match kind:
            case "date":
                return date.fromisoformat(text)
            case "time":
                return time.fromisoformat(text)
            case "datetime":
                return datetime.fromisoformat(text) if "T" in text.upper() else None
    except ValueError:
        return None
