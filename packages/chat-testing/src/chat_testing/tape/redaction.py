"""What of an exchange may be written to a tape. What is not known to be harmless is hidden."""

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
"""What stands on a tape in the place of a secret."""

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
_QUERY: Final = frozenset({"alt", "api-version", "after", "before", "beta", "limit", "model", "order"})
_ORGANISATIONS: Final = re.compile(r"\b(org|proj|acct)[-_][A-Za-z0-9]{8,}")
_KEYS: Final = re.compile(r"(?i:\bbearer )[\w.~+/=-]{8,}|\b(?:sk|pk|rk|xai|gsk|hf|key)[-_][\w-]{8,}|\bAIza[\w-]{20,}")
_SHORTEST: Final = 8  # a shorter value of a header is found in every text
_NO_TEXT: Final = "surrogateescape"  # bytes that are no text come out as they went in


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Secrets:
    """What is removed from an exchange before it is written; a replayed request is read with the same eyes.

    Without being asked it hides: the values of all headers but a few that are known to be harmless, and those values
    wherever else they stand; the values of all parameters of a query but a few; names and passwords before a host; ids
    of organisations, projects and accounts.

    Attributes:
        headers: more headers whose values may be written.
        query: more parameters of a query whose values may be written.
        words: texts to hide wherever they stand.
        keys: whether to hide what looks like a key or a bearer token in bodies, too.
        hook: a function of your own, through which every text goes last: bodies, the data of events, messages of
            errors.
    """

    headers: Collection[str] = ()
    query: Collection[str] = ()
    words: Collection[str] = ()
    keys: bool = False
    hook: Callable[[str], str] | None = None

    def redactor(self, request: Request) -> Redactor:
        """What hides the secrets of one exchange."""
        return Redactor(self, request)

    def may_show(self, header: str) -> bool:
        """Whether a header's value may be written."""
        name = header.lower()
        return name in _HEADERS or name.startswith(_LIMITS) or name in {item.lower() for item in self.headers}

    def may_show_parameter(self, parameter: str) -> bool:
        """Whether the value of a query's parameter may be written."""
        return parameter in _QUERY or parameter in self.query


@final
class Redactor:
    """Hides the secrets of one exchange: those that the request itself tells, and those that were named."""

    __slots__ = ("_secrets", "_words")

    def __init__(self, secrets: Secrets, request: Request) -> None:
        self._secrets = secrets
        told = [value for name, value in request.headers if not secrets.may_show(name)]
        # `Bearer sk-…` is two words, and the second one is the secret.
        told += [value.rpartition(" ")[2] for value in told]
        told += [value for name, value in _query_parameters(request) if not secrets.may_show_parameter(name)]
        words = {word for word in told if len(word) >= _SHORTEST} | set(secrets.words)
        words.add(request.host.rpartition("@")[0])
        self._words = sorted(words - {""}, key=len, reverse=True)

    def redact_text(self, text: str) -> str:
        """The text without its secrets."""
        text = self._redact_words(text)
        return self._secrets.hook(text) if self._secrets.hook is not None else text

    def redact_data(self, data: bytes) -> bytes:
        """The bytes without secrets, in JSON however they are spelled there."""
        try:
            text = data.decode()
        except UnicodeDecodeError:
            return self._redact_words(data.decode(errors=_NO_TEXT)).encode(errors=_NO_TEXT)
        if "\\" in text:
            # JSON may write any character as an escape, and what is read again would have its secrets back.
            try:
                value = loads(text)
            except ValueError:
                return self.redact_text(text).encode()
            shown = self._redact_value(value)
            if shown != value:
                text = dump_bytes(shown).decode()
        return self.redact_text(text).encode()

    def _redact_value(self, value: object) -> object:
        """What JSON says, without its secrets."""
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
        text = _ORGANISATIONS.sub(rf"\1-{HIDDEN}", text)
        return _KEYS.sub(HIDDEN, text) if self._secrets.keys else text

    def redact_headers(self, headers: Mapping[str, str]) -> dict[str, str]:
        """The headers by name, in lower case; of most of them the name alone."""
        shown = self._secrets.may_show
        return {name.lower(): self.redact_text(value) if shown(name) else HIDDEN for name, value in headers.items()}

    def redact_url(self, request: Request) -> str:
        """The URL without its secrets."""
        path, asked, query = request.path.partition("?")
        if asked:
            shown = self._secrets.may_show_parameter
            pairs = [item.partition("=") for item in query.split("&")]
            path += "?" + "&".join(
                [f"{name}{sign}{value if not sign or shown(name) else HIDDEN}" for name, sign, value in pairs]
            )
        return self.redact_text(f"{request.scheme}://{request.host.rpartition('@')[2]}{path}")


def _query_parameters(request: Request) -> list[tuple[str, str]]:
    """The query's parameters, each value as it is written and as it is meant."""
    pairs = [item.partition("=") for item in request.path.partition("?")[2].split("&")]
    return [(name, text) for name, _, value in pairs for text in (value, unquote_plus(value))]
