"""Removal of a request's credentials from the errors that its server reports.

A server may quote a credential in an error response. The patterns in `errors.py` recognize keys of known vendors. This
module recognizes the credentials that were sent, in the forms in which servers quote them: raw, escaped for JSON, HTML
or a URL, in base64, or truncated.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Final, TypeVar, final
from urllib.parse import unquote, unquote_plus

from chat_core.errors import ChatError, TransportError
from chat_core.transport.values import Headers, Request

ErrorT = TypeVar("ErrorT", bound=ChatError | TransportError)

REDACTED: Final = "[redacted]"
_CREDENTIAL_NAME: Final = re.compile(
    r"auth|(?<!port)(?<!idempotency-)key|token|secret|cookie|passw|credential|signature|jwt|session|assertion|^sig$|^code$",
    re.IGNORECASE,
)
_CREDENTIAL_IN_BODY: Final = re.compile(
    rb'"(?:authorization(?:_token)?|(?:[\w-]+[-_])?api[-_]?key|(?:access|bearer|auth)[-_]token|client_secret|password)"'
    rb'\s*:\s*("(?:[^"\\]|\\.)*")',
    re.IGNORECASE,
)
"""Credentials for other servers in a request body, such as the token of an MCP server."""
_AWS_PARAMETER: Final = re.compile(r"(?:Credential|Signature)=([^,\s]+)")
_SCHEMES: Final = frozenset({"basic", "bearer", "digest", "token"})
_SHORTEST: Final = 6
"""Minimum length of redacted values. Shorter values may also occur in unrelated text."""
_PLAIN_WORD: Final = re.compile(r"[a-z]{1,11}")
"""Pattern for values that are plain words and may occur in unrelated text, such as the placeholder key `ollama`."""
_PREFIX: Final = 10
"""Number of characters after which a truncated credential is recognized."""
MAX_DATA: Final = 1024 * 1024
"""Maximum length of received data in a redacted error. Searching longer data would block the event loop."""


def credentials_of(request: Request) -> tuple[str, ...]:
    """Return the credentials in the headers, the query and the body of a request, longest first."""
    fields = [*request.headers]
    for item in request.path.partition("?")[2].split("&"):
        name, _, value = item.partition("=")
        # A server may show the query as it was sent, or decode it with or without the meaning of "+".
        fields += [(unquote(name), form) for form in (value, unquote(value), unquote_plus(value))]
    fields += [("authorization", _parse_text(found[1])) for found in _CREDENTIAL_IN_BODY.finditer(request.body)]
    named = [(name, value) for name, value in fields if _CREDENTIAL_NAME.search(name)]
    values = {form for name, value in named for secret in _secrets_in(name, value) for form in _encoded_forms(secret)}
    # A value that contains another value is replaced first.
    return tuple(sorted([value for value in values if len(value) >= _SHORTEST], key=lambda item: (-len(item), item)))


def _secrets_in(name: str, value: str) -> Iterator[str]:
    """Yield the parts of a header or query parameter that may be credentials."""
    scheme, _, secret = value.strip().partition(" ")
    has_scheme = scheme.lower() in _SCHEMES
    if not has_scheme or not secret:
        yield value.strip()
    if has_scheme or name.lower().endswith("authorization"):
        yield secret.strip()
    yield from _AWS_PARAMETER.findall(value)
    if name.lower() == "cookie":
        yield from (cookie.partition("=")[2].strip() for cookie in value.split(";"))


def _parse_text(text: bytes) -> str:
    try:
        value: object = json.loads(text)
    except ValueError:
        return ""
    return value if isinstance(value, str) else ""


def _encoded_forms(secret: str) -> set[str]:
    """Return a credential, its base64 forms, and the user and password that it contains in base64."""
    if len(secret) < _SHORTEST or _PLAIN_WORD.fullmatch(secret):
        return set()
    data = secret.encode(errors="replace")
    found = {secret, base64.b64encode(data).decode().rstrip("="), base64.urlsafe_b64encode(data).decode().rstrip("=")}
    try:
        user = base64.b64decode(secret, validate=True).decode()
    except (binascii.Error, ValueError):
        return found
    return found | {user, user.partition(":")[2]} if user.isprintable() and ":" in user else found


@final
class Redactor:
    """Object that redacts the credentials of one request in responses and errors. They are looked up on first use.

    Args:
        request: the request as it was sent.
    """

    __slots__ = ("_request", "_values")

    def __init__(self, request: Request) -> None:
        self._request = request
        self._values: tuple[str, ...] | None = None

    def redact_bytes(self, data: bytes) -> bytes:
        """Return a response body without the credentials."""
        # In Latin-1, each byte is one character.
        return self._redact_text(data.decode("latin-1")).encode("latin-1")

    def redact_headers(self, headers: Mapping[str, str]) -> Headers:
        """Return response headers without the credentials."""
        return Headers([(name, self._redact_text(value)) for name, value in headers.items()])

    def redact_error(self, error: ErrorT, received: bytes = b"") -> ErrorT:
        """Remove the credentials from an error, in place, and return the error.

        The message and the attributes are redacted. Received data in an attribute is limited to `MAX_DATA` bytes. If
        the error, its causes or the received data quote a credential, the causes and the stack frames are removed,
        because their variables contain the data. The partial response is not changed.

        Args:
            error: error raised by a transport or a stream decoder.
            received: the data in which the error was found.
        """
        for name, value in vars(error).items():
            if isinstance(value, (str, bytes)):
                setattr(error, name, value[:MAX_DATA])
        texts = {
            text: self._redact_text(text) for text in {*_exposed_texts(error), received[:MAX_DATA].decode("latin-1")}
        }
        error.args = tuple([self._redact_text(item) if isinstance(item, str) else item for item in error.args])
        for name, value in vars(error).items():
            if isinstance(value, str):
                setattr(error, name, texts[value])
            elif isinstance(value, bytes):
                setattr(error, name, texts[value.decode("latin-1")].encode("latin-1"))
        if isinstance(error, TransportError):
            error.headers = self.redact_headers(error.headers)
        # Data beyond the limit was not searched, so it may quote a credential.
        if len(received) > MAX_DATA or any(text != redacted for text, redacted in texts.items()):
            error.__cause__ = error.__context__ = error.__traceback__ = None
        return error

    def _redact_text(self, text: str) -> str:
        if self._values is None:
            self._values = credentials_of(self._request)
        for value in self._values:
            text = _redact_value(text, value)
        return text


def _exposed_texts(error: BaseException) -> list[str]:
    """Return the texts that an error and its causes expose: messages, reprs, and attributes with text or bytes."""
    texts: list[str] = []
    current: BaseException | None = error
    while current is not None:
        texts += [str(current)[:MAX_DATA], repr(current)[:MAX_DATA]]
        texts += [value[:MAX_DATA] for value in vars(current).values() if isinstance(value, str)]
        texts += [value[:MAX_DATA].decode("latin-1") for value in vars(current).values() if isinstance(value, bytes)]
        current = current.__cause__ or current.__context__
    return texts


def _redact_value(text: str, value: str) -> str:
    """Replace a credential in all its forms. A longer text is also recognized if it is truncated."""
    start = _pattern_with_lookahead(value[:_PREFIX])
    pieces: list[str] = []
    position = 0
    while (found := start.search(text, position)) is not None:
        end = found.end()
        for character in value[_PREFIX:]:
            following = _pattern(character).match(text, end)
            if following is None:
                break
            end = following.end()
        pieces += [text[position : found.start()], REDACTED]
        position = end
    return "".join([*pieces, text[position:]]) if pieces else text


@lru_cache(maxsize=64)
def _pattern_with_lookahead(text: str) -> re.Pattern[str]:
    """Return the pattern of `_pattern()`, preceded by a fast lookahead for its first character."""
    starts = {text[0], text[0].encode(errors="replace").decode("latin-1")[0], "\\", "%", "&"}
    return re.compile(f"(?=[{''.join([re.escape(start) for start in sorted(starts)])}]){_pattern(text).pattern}")


@lru_cache(maxsize=512)
def _pattern(text: str) -> re.Pattern[str]:
    """Return a pattern for a text whose characters may be escaped for JSON, HTML or a URL.

    The text is matched in a string and in bytes that are decoded as Latin-1.
    """
    return re.compile("".join([_escaped_forms_pattern(character) for character in text]))


def _escaped_forms_pattern(character: str) -> str:
    from html.entities import codepoint2name  # noqa: PLC0415 - its tables are built by the import

    code, encoded = ord(character), character.encode(errors="replace")
    utf16 = character.encode("utf-16-be", errors="surrogatepass").hex()
    # Limits on repeated characters keep the search linear in the length of the text.
    forms = [
        rf"\\{{0,8}}{re.escape(character)}",
        "".join([f"%{byte:02x}" for byte in encoded]),
        r"\\{1,8}u" + r"\\{1,8}u".join([utf16[index : index + 4] for index in range(0, len(utf16), 4)]),
        f"&#0{{0,8}}{code};",
        f"&#x0{{0,8}}{code:x};",
    ]
    if name := codepoint2name.get(code):
        forms.append(f"&{name};")
    if code > 0x7F:  # noqa: PLR2004 - beyond ASCII
        forms.append(re.escape(encoded.decode("latin-1")))
    # Only the hexadecimal digits of an escape are case-insensitive.
    return rf"(?:{forms[0]}|(?i:{'|'.join(forms[1:])}))"
