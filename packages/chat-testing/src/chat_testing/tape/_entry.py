"""Recorded exchange of a tape, and its JSON form."""

from __future__ import annotations

from base64 import b64decode, b64encode
from dataclasses import dataclass, field
from typing import Any, final

from chat_core.errors import TransportError
from chat_core.json import dump_bytes, loads
from chat_core.transport import Event, Headers, Request
from chat_core.wire.shapes import Json

from chat_testing.tape.redaction import HIDDEN, Redactor

_DIGITS = 4


@final
@dataclass(frozen=True, slots=True)
class TapedRequest:
    """A request without its secrets, in the form that is stored on a tape and compared."""

    method: str
    url: str
    streamed: bool
    framing: str
    headers: dict[str, str]
    body: Json

    @classmethod
    def redacted(cls, request: Request, redactor: Redactor, *, streamed: bool) -> TapedRequest:
        """Return a comparable copy of a request without its secrets.

        Args:
            request: the request that was sent.
            redactor: hides the secrets.
            streamed: whether the request was made with `stream()`.
        """
        body = encode_comparable(redactor.redact_data(request.body))
        framing = request.framing if streamed else ""
        headers = redactor.redact_headers(Headers(request.headers))
        return cls(request.method, redactor.redact_url(request), streamed, framing, headers, body)

    def to_json(self) -> Json:
        """Return the request as JSON data for a tape."""
        return {
            "method": self.method,
            "url": self.url,
            **({"stream": self.framing} if self.streamed else {}),
            "headers": self.headers,
            **self.body,
        }

    @classmethod
    def from_json(cls, value: Json) -> TapedRequest:
        """Parse a request from the JSON data of a tape."""
        framing = value.get("stream", "")
        return cls(value["method"], value["url"], "stream" in value, framing, value["headers"], body_fields(value))


@final
@dataclass(slots=True)
class Entry:
    """One recorded exchange.

    Attributes:
        recorded: time of the request, in ISO 8601.
        request: the redacted request.
        status, headers: status and headers of the response. `status` is `None` if there was no response.
        after: seconds until the complete response or the first events arrived.
        body: body of a complete response, or of an error response.
        batches: batches of a stream: seconds until the batch arrived, and its events.
        error: kind and message of the error that the transport raised.
        failed: seconds until the transport raised the error.
        ended: outcome of the exchange, as in `TransportExchange.outcome`.
    """

    recorded: str
    request: TapedRequest
    ended: str = "open"
    status: int | None = None
    headers: dict[str, str] = field(default_factory=dict[str, str])
    after: float = 0.0
    body: bytes = b""
    batches: list[tuple[float, list[Event]]] = field(default_factory=list[tuple[float, list[Event]]])
    error: tuple[str, str] | None = None
    failed: float = 0.0

    def transport_error(self) -> TransportError | None:
        """Return the recorded transport error as an exception, or None if the exchange had no error."""
        if self.error is None:
            return None
        kind, message = self.error
        if kind != "status":
            return TransportError(kind, message, body=self.body)
        return TransportError(kind, message, status=self.status, headers=self.visible_headers(), body=self.body)

    def visible_headers(self) -> Headers:
        """Return the response headers whose values were recorded. Redacted headers are left out."""
        return Headers([(name, value) for name, value in self.headers.items() if value != HIDDEN])

    def to_json(self) -> Json:
        """Return the exchange as JSON data for a tape."""
        response: Json = {}
        if self.status is not None:
            response = {"status": self.status, "after": round(self.after, _DIGITS), "headers": self.headers}
            response |= encode_exact(self.body)
        if self.request.streamed and self.batches:
            response["batches"] = [
                {"at": round(at, _DIGITS), "events": [_encode_event(event) for event in batch]}
                for at, batch in self.batches
            ]
        if self.error is not None:
            kind, message = self.error
            response["error"] = {"kind": kind, "message": message, "after": round(self.failed, _DIGITS)}
        return {"recorded": self.recorded, "request": self.request.to_json(), "answer": response, "ended": self.ended}

    @classmethod
    def from_json(cls, value: Json) -> Entry:
        """Parse an exchange from the JSON data of a tape."""
        response = value["answer"]
        entry = cls(value["recorded"], TapedRequest.from_json(value["request"]), value["ended"])
        entry.status = response.get("status")
        entry.after = response.get("after", 0.0)
        entry.headers = response.get("headers", {})
        entry.body = decode_body(response)
        entry.batches = [
            (batch["at"], [_decode_event(event) for event in batch["events"]]) for batch in response.get("batches", ())
        ]
        if (error := response.get("error")) is not None:
            entry.error = (error["kind"], error["message"])
            entry.failed = error.get("after", 0.0)
        return entry


def _encode_event(event: Event) -> Json:
    data = encode_exact(event.data)
    written: Json = {"type": event.type} if event.type != "message" else {}
    if event.id:
        written["id"] = event.id
    return written | (data or {"text": ""})


def _decode_event(value: Json) -> Event:
    return Event(value.get("type", "message"), decode_body(value), value.get("id", ""))


def encode_comparable(data: bytes) -> Json:
    """Encode a body for comparison, as parsed JSON if possible, so that whitespace is ignored."""
    if not data:
        return {}
    try:
        return {"json": loads(data)}
    except ValueError:
        return encode_exact(data)


def encode_exact(data: bytes) -> Json:
    """Encode a body without loss, as JSON or lines of text if possible, so that file diffs are readable."""
    if not data:
        return {}
    try:
        value = loads(data) if data[:1] in b"{[" else None
        if value is not None and dump_bytes(value) == data:
            return {"json": value}
    except ValueError:
        pass
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return {"base64": b64encode(data).decode()}
    return {"lines": text.split("\n")} if "\n" in text else {"text": text}


def body_fields(value: Json) -> Json:
    """Return the members of a JSON object that encode a body, such as `json` or `text`."""
    return {name: value[name] for name in ("json", "text", "lines", "base64") if name in value}


def decode_body(value: Json) -> bytes:
    """Return the body, as bytes, that a recorded request, response or event contains."""
    found: dict[str, Any] = body_fields(value)
    if "json" in found:
        return dump_bytes(found["json"])
    if "lines" in found:
        return "\n".join(found["lines"]).encode()
    return b64decode(found["base64"]) if "base64" in found else str(found.get("text", "")).encode()
