"""Helpers that remove the credentials of a request from the errors that its server reports.

A server may quote a credential in an error response. The patterns in `errors.py` recognize keys of known vendors. This
module recognizes the credentials that were sent, in any format.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Final, TypeVar
from urllib.parse import parse_qsl, quote, quote_plus

from chat_core.errors import ChatError, TransportError
from chat_core.transport.values import Headers, Request

ErrorT = TypeVar("ErrorT", bound=ChatError | TransportError)

REDACTED: Final = "[redacted]"
_CREDENTIAL_NAME: Final = re.compile(r"auth|key|token|secret|cookie|passw|credential|signature", re.IGNORECASE)
_SHORTEST: Final = 6
"""Minimum length of redacted values. Shorter values may also occur in unrelated text."""


def credentials_of(request: Request) -> tuple[str, ...]:
    """Return the credentials in the headers and the query of a request, in every form that a server may quote."""
    fields = [*request.headers, *parse_qsl(request.path.partition("?")[2])]
    values: set[str] = set()
    for name, value in fields:
        if _CREDENTIAL_NAME.search(name):
            # `Bearer KEY` and `Basic KEY` may be quoted with or without the scheme.
            values |= {value.strip(), value.strip().rpartition(" ")[2]}
    forms: set[str] = set()
    for value in values:
        if len(value) >= _SHORTEST:
            escaped = [json.dumps(value, ensure_ascii=ascii_only)[1:-1] for ascii_only in (False, True)]
            forms |= {value, *escaped, *[text.replace("/", "\\/") for text in escaped]}
            forms |= {quote(value), quote(value, safe=""), quote_plus(value)}
    # A form that contains another one is replaced first.
    return tuple(sorted(forms, key=len, reverse=True))


def redact_bytes(data: bytes, request: Request) -> bytes:
    """Return a response body with the credentials of its request redacted.

    Args:
        data: body of a response.
        request: request to which the server responded.
    """
    for form in credentials_of(request):
        data = data.replace(form.encode(errors="replace"), REDACTED.encode())
    return data


def redact_headers(headers: Mapping[str, str], request: Request) -> Mapping[str, str]:
    """Return response headers with the credentials of the request redacted.

    Args:
        headers: headers of a response.
        request: request to which the server responded.
    """
    forms = credentials_of(request)
    return Headers([(name, _redact_forms(value, forms)) for name, value in headers.items()])


def redact_error(error: ErrorT, request: Request) -> ErrorT:
    """Remove the credentials of `request` from an error, in place, and return the error.

    The message and the attributes are redacted. The causes are removed if one of them quotes a credential. The partial
    response remains unchanged.

    Args:
        error: error raised by a transport or a stream decoder.
        request: the request that failed.
    """
    forms = credentials_of(request)
    error.args = tuple([_redact_forms(item, forms) if isinstance(item, str) else item for item in error.args])
    for name, value in vars(error).items():
        if isinstance(value, str):
            setattr(error, name, _redact_forms(value, forms))
        elif isinstance(value, bytes):
            setattr(error, name, redact_bytes(value, request))
    if isinstance(error, TransportError):
        error.headers = redact_headers(error.headers, request)
    _hide_causes_with_secrets(error, forms)
    return error


def _redact_forms(text: str, forms: tuple[str, ...]) -> str:
    for form in forms:
        text = text.replace(form, REDACTED)
    return text


def _hide_causes_with_secrets(error: BaseException, forms: tuple[str, ...]) -> None:
    """Remove the cause and context of `error` if any exception in its chain quotes a credential."""
    cause = error.__cause__ or error.__context__
    while cause is not None:
        text = f"{cause!r} {cause}"
        if any(form in text for form in forms):
            error.__cause__ = error.__context__ = None
            return
        cause = cause.__cause__ or cause.__context__
