"""Only values known to be harmless are written to a tape."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from chat_core.errors import TransportError
from chat_core.testing import MockTransport
from chat_core.transport import Request
from chat_testing import RecordingTransport, Secrets, TapeTransport

KEY = "sk-proj-0123456789abcdef"
HEADERS = (
    ("Authorization", f"Bearer {KEY}"),
    ("x-api-key", f"1-{KEY}"),
    ("api-key", f"2-{KEY}"),
    ("x-goog-api-key", f"3-{KEY}"),
    ("Cookie", "session=c00kie-value"),
    ("OpenAI-Organization", "organisation-7"),
    ("x-of-tomorrow", "tomorrows-secret"),
    ("content-type", "application/json"),
)


def asking(path: str = "/v1/chat", body: bytes = b'{"a":1}', key: str = KEY) -> Request:
    headers = tuple((name, value.replace(KEY, key)) for name, value in HEADERS)
    return Request("POST", "https", f"me:pa55word-{key}@llm.example", path, headers, body)


async def taped(folder: Path, request: Request, *answers: Any, secrets: Secrets | None = None, **head: Any) -> str:
    """Return the text of a tape with one stream, or with one complete response if the body is bytes."""
    mock = MockTransport()
    recording = RecordingTransport(mock, folder / "tape.json", secrets=secrets, overwrite=True)
    if answers and isinstance(answers[0], str):
        mock.events(*answers, **head)
        async with recording.stream(request) as stream:
            async for _ in stream:
                pass
    else:
        mock.answer(200, head.get("headers", {}), answers[0] if answers else b"")
        await recording.send(request)
    return (folder / "tape.json").read_text(encoding="utf-8")


@pytest.mark.anyio
async def test_only_harmless_request_headers_are_written(tmp_path: Path) -> None:
    text = await taped(tmp_path, asking())
    headers = json.loads(text)["exchanges"][0]["request"]["headers"]

    assert {name for name, value in headers.items() if value != "…"} == {"content-type"}
    assert set(headers) == {name.lower() for name, _ in HEADERS}  # that they were there may be known
    for secret in (KEY, "c00kie", "organisation-7", "tomorrows-secret", "pa55word", "me:"):
        assert secret not in text


@pytest.mark.anyio
async def test_only_harmless_response_headers_are_written_and_replayed(tmp_path: Path) -> None:
    fields = {
        "set-cookie": "a=b0123456",
        "openai-organization": "acme-corp",
        "x-request-id": "r1",
        "X-RateLimit-Remaining-Tokens": "7",
    }
    text = await taped(tmp_path, asking(), headers=fields)
    response = await TapeTransport(tmp_path / "tape.json").send(asking())

    assert "b0123456" not in text
    assert "acme-corp" not in text
    assert dict(response.headers) == {"x-request-id": "r1", "x-ratelimit-remaining-tokens": "7"}


@pytest.mark.anyio
async def test_query_keeps_its_names_and_hides_values_that_are_not_harmless(tmp_path: Path) -> None:
    text = await taped(tmp_path, asking(f"/v1/chat?alt=sse&key={KEY}&token=t%20k-99887766&flag"))

    assert '"url": "https://llm.example/v1/chat?alt=sse&key=…&token=…&flag"' in text


@pytest.mark.anyio
async def test_secret_of_the_request_is_hidden_everywhere_on_the_tape(tmp_path: Path) -> None:
    request = asking("/v1/chat?token=t%20k-99887766", f'{{"key": "{KEY}", "t": "t k-99887766"}}'.encode())
    text = await taped(tmp_path, request, f"your key is {KEY}", "and your cookie session=c00kie-value")

    for secret in (KEY, "c00kie", "99887766"):
        assert secret not in text
    assert "your key is …" in text


@pytest.mark.anyio
async def test_secret_in_an_error_is_hidden_on_the_tape(tmp_path: Path) -> None:
    mock = MockTransport()
    mock.answer(401, {}, f"wrong key: {KEY}")
    mock.fail(TransportError("connect", f"no route for {KEY}"))
    recording = RecordingTransport(mock, tmp_path / "tape.json")
    for _ in range(2):
        with pytest.raises(TransportError) as caught:
            async with recording.stream(asking()):
                pass
        assert KEY in f"{caught.value} {caught.value.body!r}"  # the caller receives the original error

    assert KEY not in (tmp_path / "tape.json").read_text(encoding="utf-8")


@pytest.mark.anyio
async def test_organization_and_project_ids_are_hidden(tmp_path: Path) -> None:
    text = await taped(tmp_path, asking(), "Rate limit in organization org-AbCdEfGh1234 of proj_0123456789, done")

    assert "in organization org-… of proj-…, done" in text


@pytest.mark.anyio
async def test_texts_that_look_like_keys_are_hidden_if_keys_is_true(tmp_path: Path) -> None:
    said = "use sk-ant-api03-zzzz or Bearer abcdefgh12345678 or AIzaSyA0123456789012345678901234567890 please"

    assert said in await taped(tmp_path, asking(), said)
    assert "use … or … or … please" in await taped(tmp_path, asking(), said, secrets=Secrets(keys=True))


@pytest.mark.anyio
async def test_secrets_options_show_and_hide_additional_values(tmp_path: Path) -> None:
    secrets = Secrets(
        headers=["X-Of-Tomorrow"],
        query=["region"],
        words=["Ann"],
        hook=lambda text: text.replace("Paris", "a town"),
    )
    text = await taped(tmp_path, asking("/v1?region=eu-central"), "Ann lives in Paris", secrets=secrets)

    assert '"x-of-tomorrow": "tomorrows-secret"' in text
    assert "?region=eu-central" in text
    assert '"text": "… lives in a town"' in text


@pytest.mark.anyio
async def test_request_with_another_key_matches_its_recorded_response(tmp_path: Path) -> None:
    body = '{{"user": "{}", "text": "x"}}'
    await taped(tmp_path, asking(f"/v1?key={KEY}", body.format(KEY).encode()), b"found")
    other = "none-needed-here"
    request = asking(f"/v1?key={other}", body.format(other).encode(), key=other)

    assert (await TapeTransport(tmp_path / "tape.json").send(request)).body == b"found"


@pytest.mark.anyio
async def test_hook_of_secrets_is_applied_to_replayed_requests(tmp_path: Path) -> None:
    secrets = Secrets(hook=lambda text: text.replace("today", "a day").replace("tomorrow", "a day"))
    await taped(tmp_path, asking(body=b'{"when": "today"}'), b"x", secrets=secrets)
    tape = TapeTransport(tmp_path / "tape.json", secrets=secrets)

    assert (await tape.send(asking(body=b'{"when": "tomorrow"}'))).body == b"x"


@pytest.mark.anyio
async def test_binary_bodies_are_recorded_unchanged(tmp_path: Path) -> None:
    image = bytes(range(256))
    text = await taped(tmp_path, asking(body=image), image)

    assert text.count(base64.b64encode(image).decode()) == 2
    assert (await TapeTransport(tmp_path / "tape.json").send(asking(body=image))).body == image


@pytest.mark.anyio
async def test_short_header_value_is_hidden_only_in_its_header(tmp_path: Path) -> None:
    request = Request("GET", "http", "h", "/", (("x-flag", "on"),))
    text = await taped(tmp_path, request, "go on")

    assert '"x-flag": "…"' in text
    assert "go on" in text


@pytest.mark.anyio
async def test_secret_is_hidden_in_every_json_spelling(tmp_path: Path) -> None:
    value = 'ab/cd+é"0123=='
    spelled = [r"ab\/cd+é\"0123==", r"ab/cd\u002b\u00e9\u00220123\u003d\u003d"]
    for text in spelled:
        assert json.loads(f'"{text}"') == value
        for data in (f'{{"wrong key": [1, "it is {text}."]}}', f'{{"{text}": null, "n": 1.50}}'):
            request = Request("POST", "https", "llm.example", "/", (("x-key", value),), data.encode())
            written = await taped(tmp_path, request, data)
            written += await taped(tmp_path, request, data.encode())

            assert "ab/cd" not in written.replace("\\", "")
            assert written.count("it is ….") + written.count('"…": null') == 4


@pytest.mark.anyio
async def test_json_without_a_secret_is_recorded_byte_for_byte(tmp_path: Path) -> None:
    said = b'{ "a": "\\u00e9\\/", "b": 1.50, "b": 1 }'
    await taped(tmp_path, asking(), said)

    assert (await TapeTransport(tmp_path / "tape.json").send(asking())).body == said


@pytest.mark.anyio
async def test_secret_in_a_binary_body_is_hidden(tmp_path: Path) -> None:
    form = b"--x\r\n\r\n" + KEY.encode() + b"\r\n--x\r\n\r\n\xff\xfe\x00\r\n--x--"
    await taped(tmp_path, asking(body=form), form, secrets=Secrets(hook=str.upper))
    exchange = json.loads((tmp_path / "tape.json").read_text(encoding="utf-8"))["exchanges"][0]

    for part in ("request", "answer"):
        written = base64.b64decode(exchange[part]["base64"])
        assert written == form.replace(KEY.encode(), "…".encode())  # the hook is for texts


@pytest.mark.anyio
async def test_user_info_of_a_url_in_an_error_is_hidden(tmp_path: Path) -> None:
    mock = MockTransport()
    mock.fail(TransportError("connect", "POST https://me:pa55@llm.example/: nobody listens; me:pa55 was refused"))
    with pytest.raises(TransportError):
        await RecordingTransport(mock, tmp_path / "tape.json").send(
            Request("POST", "https", "me:pa55@llm.example", "/")
        )

    assert "pa55" not in (tmp_path / "tape.json").read_text(encoding="utf-8")
