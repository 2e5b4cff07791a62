"""Number, date and time controls: used only for values that they keep exactly."""

from __future__ import annotations

import pytest
from chat_inbox.form_inputs import DateKind, describe_zone, is_exact_number, read_date, write_date
from chat_inbox.forms import build_form, read_form


@pytest.mark.parametrize(
    ("schema_format", "value", "control"),
    [
        pytest.param("date", "2030-01-31", ("date", "2030-01-31", ""), id="date"),
        pytest.param("date", "", ("date", "", ""), id="empty-date"),
        pytest.param("date", "2030-02-31", None, id="no-such-date"),
        pytest.param("date", "tomorrow", None, id="words"),
        pytest.param("time", "09:30:00", ("time", "09:30", ""), id="time"),
        pytest.param("time", "09:30:00Z", None, id="time-with-zone"),
        pytest.param("date-time", "", ("datetime", "", "Z"), id="empty-date-time"),
        pytest.param("date-time", "2030-01-31T09:30:00Z", ("datetime", "2030-01-31T09:30", "Z"), id="utc"),
        pytest.param(
            "date-time", "2030-01-31 09:30:05+02:00", ("datetime", "2030-01-31T09:30:05", "+02:00"), id="zone"
        ),
        pytest.param("date-time", "2030-01-31T09:30:00.123Z", None, id="fraction"),
        pytest.param("date-time", "2030-01-31", None, id="date-only"),
        pytest.param("email", "a@example.com", None, id="other-format"),
    ],
)
def test_control_for_a_string(schema_format: str, value: str, control: object) -> None:
    assert read_date(schema_format, value) == control


@pytest.mark.parametrize(
    ("kind", "text", "zone", "value"),
    [
        pytest.param("date", "2030-01-31", "", "2030-01-31", id="date"),
        pytest.param("time", "09:30", "", "09:30:00", id="time"),
        pytest.param("datetime", "2030-01-31T09:30", "+02:00", "2030-01-31T09:30:00+02:00", id="zone-is-kept"),
        pytest.param("time", "09:30:15.5", "", "09:30:15.500000", id="fraction"),
        pytest.param("datetime", "2030-01-31T09:30+01:00", "Z", "2030-01-31T09:30:00+01:00", id="typed-zone"),
    ],
)
def test_submitted_text_becomes_a_json_string(kind: DateKind, text: str, zone: str, value: str) -> None:
    assert write_date(kind, text, zone) == value


@pytest.mark.parametrize("kind", ["date", "time", "datetime"])
def test_invalid_text_raises_with_an_example(kind: DateKind) -> None:
    with pytest.raises(ValueError, match=r"'soon' is not a (date|time).*, such as"):
        write_date(kind, "soon", "")
    with pytest.raises(ValueError, match=r"missing or incomplete: write a (date|time)"):
        write_date(kind, "", "")


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("date", "2030-01"),
        ("date", "20300131"),
        ("time", "09"),
        ("time", "0930"),
        ("time", "2030-01"),
        ("time", "09:30:"),
        ("datetime", "2030-01-31T"),
        ("datetime", "2030-01-31T09"),
    ],
)
def test_half_a_date_or_time_is_an_error(kind: DateKind, text: str) -> None:
    with pytest.raises(ValueError, match="is not a"):
        write_date(kind, text, "")


def test_numbers_beyond_the_exact_range_use_a_text_control() -> None:
    assert [is_exact_number(text) for text in ("", "12", "-0.5", "1e3", "9007199254740993", "many", "1e999")] == [
        True, True, True, True, False, False, False,
    ]  # fmt: skip


def test_zone_is_described_for_a_date_and_time_only() -> None:
    assert [describe_zone("datetime", zone) for zone in ("Z", "", "+02:00")] == [
        "in UTC", "without a time zone", "in UTC+02:00",
    ]  # fmt: skip
    assert describe_zone("date", "") == ""


def test_form_uses_the_controls_and_keeps_untouched_values() -> None:
    schema = {
        "type": "object",
        "properties": {
            "day": {"type": "string", "format": "date"},
            "at": {"type": "string", "format": "date-time"},
            "cents": {"type": "integer", "minimum": 1},
        },
    }
    arguments = {"day": "2030-01-31", "at": "2030-01-31T09:30:00+02:00", "cents": 5}
    form = build_form(schema, arguments)
    day, at, cents = form.children

    assert [field.input_type for field in form.children] == ["date", "datetime-local", "number"]
    assert cents.input_attributes == {"inputmode": "numeric", "step": 1, "min": 1, "max": None}
    assert at.input_attributes == {"step": 1}
    assert read_form(form, {field.name: field.text for field in form.children}) == arguments
    edited = read_form(form, {day.name: "2030-02-01", at.name: "2030-02-01T08:00", cents.name: "6"})
    assert edited == {"day": "2030-02-01", "at": "2030-02-01T08:00:00+02:00", "cents": 6}
    read_form(form, {day.name: "soon"})
    assert (day.input_type, day.error) == ("text", "'soon' is not a date, such as 2030-01-31")
