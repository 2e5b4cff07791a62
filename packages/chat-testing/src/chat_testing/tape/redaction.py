"""Redaction of secrets in exchanges before they are written to a tape. Only values known to be harmless are kept."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Final, final
from urllib.parse import unquote_plus

from chat_core.json import dump_bytes, loads
from chat_core.transport import Request
from chat_core.wire.shapes import is_list, is_object

HIDDEN: Final = "…"
"""Replacement for a secret on a tape."""

_HEADERS: Final = frozenset(
    {
        "accept",
        "accept-encoding",
        "accept-language",
        "anthropic-beta",
        "anthropic-version",
        "api-version",
        "cache-control",
        "connection",
        "content-encoding",
        "content-length",
        "content-type",
        "date",
        "host",
        "idempotency-key",
        "openai-beta",
        "request-id",
        "retry-after",
        "retry-after-ms",
        "user-agent",
        "x-request-id",
        "x-should-retry",
    }
)
_LIMITS: Final = "x-ratelimit-"
_SAFE_PARAMETERS: Final = frozenset({"alt", "api-version", "after", "before", "beta", "limit", "model", "order"})
_ACCOUNT_IDS: Final = re.compile(r"\b(org|proj|acct)[-_][A-Za-z0-9]{8,}")
_API_KEYS: Final = re.compile(
    r"(?i:\bbearer )[\w.~+/=-]{8,}|\b(?:sk|pk|rk|xai|gsk|hf|key)[-_][\w-]{8,}|\bAIza[\w-]{20,}"
)
_MIN_SECRET_LENGTH: Final = 8  # shorter values would match unrelated text
_DECODE_ERRORS: Final = "surrogateescape"  # keeps bytes that are not valid UTF-8 unchanged


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Secrets:
    """Rules that decide which values are hidden on a tape.

    During replay, each request is redacted with the same rules before it is compared with the tape.

    By default these are hidden: the values of all headers except a few harmless ones, even where these values appear
    elsewhere; the values of all query parameters except a few; user names and passwords in URLs; ids of organizations,
    projects and accounts.

    Attributes:
        headers: additional headers whose values may be written.
        query: additional query parameters whose values may be written.
        words: texts to hide everywhere.
        keys: whether to hide texts in bodies that look like API keys or bearer tokens.
        hook: function that is called last with each text (body, event data or error message) and returns the text to
            write.
    """

    headers: Collection[str] = ()
    query: Collection[str] = ()
    words: Collection[str] = ()
    keys: bool = False
    hook: Callable[[str], str] | None = None

    def redactor(self, request: Request) -> Redactor:
        """Return an object that removes the secrets from one exchange."""
        return Redactor(self, request)

    def may_show(self, header: str) -> bool:
        """Return whether the value of a header may be written to a tape."""
        name = header.lower()
        return name in _HEADERS or name.startswith(_LIMITS) or name in {item.lower() for item in self.headers}

    def may_show_parameter(self, parameter: str) -> bool:
        """Return whether the value of a query parameter may be written to a tape."""
        return parameter in _SAFE_PARAMETERS or parameter in self.query


@final
class Redactor:
    """Redactor for one exchange. It hides secret values of the request, and the texts that `Secrets` lists."""

    __slots__ = ("_secrets", "_words")

    def __init__(self, secrets: Secrets, request: Request) -> None:
        self._secrets = secrets
        values = [value for name, value in request.headers if not secrets.may_show(name)]
        # In `Bearer sk-…` only the second word is the secret.
        values += [value.rpartition(" ")[2] for value in values]
        values += [value for name, value in _query_parameters(request) if not secrets.may_show_parameter(name)]
        words = {word for word in values if len(word) >= _MIN_SECRET_LENGTH} | set(secrets.words)
        words.add(request.host.rpartition("@")[0])
        self._words = sorted(words - {""}, key=len, reverse=True)

    def redact_text(self, text: str) -> str:
        """Return `text` with its secrets replaced by a placeholder."""
        text = self._redact_words(text)
        return self._secrets.hook(text) if self._secrets.hook is not None else text

    def redact_data(self, data: bytes) -> bytes:
        """Return `data` with its secrets replaced by a placeholder, including secrets that are escaped in JSON."""
        try:
            text = data.decode()
        except UnicodeDecodeError:
            return self._redact_words(data.decode(errors=_DECODE_ERRORS)).encode(errors=_DECODE_ERRORS)
        if "\\" in text:
            # JSON may escape any character, so that a text search would miss the secret.
            try:
                value = loads(text)
            except ValueError:
                return self.redact_text(text).encode()
            redacted = self._redact_value(value)
            if redacted != value:
                text = dump_bytes(redacted).decode()
        return self.redact_text(text).encode()

    def _redact_value(self, value: object) -> object:
        """Return a JSON value with the secrets in its strings and names replaced by a placeholder."""
        if isinstance(value, str):
            return self._redact_words(value)
        if is_list(value):
            return [self._redact_value(item) for item in value]
        if is_object(value):
            return {self._redact_words(name): self._redact_value(item) for name, item in value.items()}
        return value

    def _redact_words(self, text: str) -> str:
        for word in self._words:
            text = text.replace(word, HIDDEN)
        text = _ACCOUNT_IDS.sub(rf"\1-{HIDDEN}", text)
        return _API_KEYS.sub(HIDDEN, text) if self._secrets.keys else text

    def redact_headers(self, headers: Mapping[str, str]) -> dict[str, str]:
        """Return the headers with lowercase names, and with a placeholder for values that may not be written."""
        may_show = self._secrets.may_show
        return {name.lower(): self.redact_text(value) if may_show(name) else HIDDEN for name, value in headers.items()}

    def redact_url(self, request: Request) -> str:
        """Return the URL of a request without user information, and with a placeholder for secret values."""
        path, separator, query = request.path.partition("?")
        if separator:
            may_show = self._secrets.may_show_parameter
            pairs = [item.partition("=") for item in query.split("&")]
            path += "?" + "&".join(
                [f"{name}{sign}{value if not sign or may_show(name) else HIDDEN}" for name, sign, value in pairs]
            )
        return self.redact_text(f"{request.scheme}://{request.host.rpartition('@')[2]}{path}")


def _query_parameters(request: Request) -> list[tuple[str, str]]:
    """Return the query parameters of a request. Each appears twice: with its value as written, and decoded."""
    pairs = [item.partition("=") for item in request.path.partition("?")[2].split("&")]
    return [(name, text) for name, _, value in pairs for text in (value, unquote_plus(value))]
