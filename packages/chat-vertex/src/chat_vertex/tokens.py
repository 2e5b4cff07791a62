"""A cache of access tokens that renews them before they expire."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, final
from urllib.parse import parse_qsl

import anyio
from anyio.lowlevel import RunVar
from chat_core.arguments import require_number, require_whole
from chat_core.clock import add, utc_clock, utc_now
from chat_core.errors import (
    AuthenticationError,
    ChatError,
    InvalidResponseError,
    RequestTimeoutError,
    TransportError,
)
from chat_core.json import loads_limited
from chat_core.transport.protocol import Transport
from chat_core.transport.provider_errors import translate_transport_error
from chat_core.transport.values import Request, Response
from chat_core.wire.connection import default_transport
from chat_core.wire.credentials import REDACTED
from chat_core.wire.errors import error_from_response, read_error_body
from chat_core.wire.shapes import mapping

from chat_vertex.credentials import Credentials

NAME: Final = "the token server"
_TEMPORARY: Final = frozenset({408, 429})
_LONGEST_DESCRIPTION: Final = 500
_SECRETS: Final = frozenset({"assertion", "client_secret", "refresh_token"})
"""Form fields of token requests whose values are redacted if an error response quotes them."""


@final
@dataclass(frozen=True, slots=True)
class _Token:
    value: str = field(repr=False)
    expires_at: datetime


@final
class _Renewal:
    """A renewal in progress in one event loop, which other tasks wait for."""

    __slots__ = ("ended", "error", "token")

    def __init__(self) -> None:
        self.ended = anyio.Event()
        self.error: ChatError | None = None
        self.token: str | None = None


@final
class TokenSource:
    """An `ApiKey` function that returns the current access token of `credentials`.

    A token is cached and renewed before it expires. If several tasks need a new token, one of them requests it and the
    other tasks wait. Instances are safe to share between tasks, providers and event loops.

    Args:
        credentials: identity whose tokens are requested.
        transport: transport for token requests, which stays open. Default: a new one for each renewal.
        early: number of seconds before its expiry at which a token is renewed.
        timeout: maximum duration of one attempt, in seconds.
        attempts: maximum number of attempts per renewal. Only temporary failures are attempted again.
        pause: seconds between two attempts.
        clock: function that returns the current time with a time zone.
    """

    __slots__ = (
        "_attempts", "_clock", "_credentials", "_early", "_pause", "_renewal", "_timeout", "_token", "_transport",
    )  # fmt: skip

    def __init__(
        self,
        credentials: Credentials,
        transport: Transport | None = None,
        *,
        early: float = 60.0,
        timeout: float = 15.0,
        attempts: int = 2,
        pause: float = 0.2,
        clock: Callable[[], datetime] = utc_now,
    ) -> None:
        require_whole("attempts", attempts, 1)
        require_number("early", early)
        self._credentials = credentials
        self._transport = transport
        self._early = timedelta(seconds=early)
        self._timeout = timeout
        self._attempts = attempts
        self._pause = pause
        self._clock = utc_clock(clock)
        self._token: _Token | None = None
        self._renewal: RunVar[_Renewal | None] = RunVar("chat_vertex_renewal", default=None)

    def __repr__(self) -> str:
        return f"TokenSource({self._credentials!r})"

    async def __call__(self) -> str:
        """Return a token that is valid for at least `early` seconds, if the server issues such tokens.

        Raises:
            ChatError: the token server failed or rejected the credentials. The message contains no secret.
        """
        while (token := self._current_token()) is None:
            renewal = self._renewal.get()
            if renewal is None:
                return await self._renew_token()
            await renewal.ended.wait()
            if renewal.error is not None:
                raise copy(renewal.error)  # a copy, because each task adds its traceback
            if renewal.token is not None:
                return renewal.token
            # The renewal was canceled, so another waiting task has to renew the token.
        return token.value

    def reject(self, key: str, /) -> None:
        """Implement `RenewableKey.reject`: drop the token unless it has been renewed already."""
        if self._token is not None and self._token.value == key:
            self._token = None

    def _current_token(self) -> _Token | None:
        token = self._token
        return token if token is not None and self._clock() < token.expires_at - self._early else None

    async def _renew_token(self) -> str:
        renewal = _Renewal()
        self._renewal.set(renewal)
        try:
            self._token = token = await self._request_token()
            renewal.token = token.value
        except ChatError as error:
            renewal.error = error
            raise
        finally:
            self._renewal.set(None)
            renewal.ended.set()
        return token.value

    async def _request_token(self) -> _Token:
        if self._transport is not None:
            return await self._request_with_retries(self._transport)
        transport = default_transport()
        try:
            return await self._request_with_retries(transport)
        finally:
            await transport.aclose()

    async def _request_with_retries(self, transport: Transport) -> _Token:
        attempt = 1
        while True:
            # A new request for each attempt: a signed assertion is valid once on some servers.
            started_at = self._clock()
            request = self._credentials.token_request(started_at)
            try:
                return _parse_token(await self._send_request(transport, request), request, started_at)
            except ChatError as error:
                if not error.retryable or attempt >= self._attempts:
                    raise
            attempt += 1
            await anyio.sleep(self._pause)

    async def _send_request(self, transport: Transport, request: Request) -> Response:
        try:
            with anyio.fail_after(self._timeout):
                return await transport.send(request)
        except TransportError as error:
            raise translate_transport_error(error, NAME, "try again") from error
        except TimeoutError:
            msg = (
                f"{NAME}: no response from {request.host} within {self._timeout:g} seconds; TokenSource(timeout=…) "
                "sets the limit"
            )
            raise RequestTimeoutError(msg) from None


def _parse_token(response: Response, request: Request, requested_at: datetime) -> _Token:
    """Return the token of a response.

    Raises:
        ChatError: the response is an error, or contains no token.
    """
    body = _redact(response.body, request)
    if 400 <= response.status < 500 and response.status not in _TEMPORARY:  # noqa: PLR2004 - RFC 9110, section 15.5
        reported = read_error_body(body)
        msg = f"{NAME} {request.host} rejected the credentials with status {response.status}: {reported.summary}"
        if description := _error_description(body):
            msg = f"{msg}: {description}"
        raise AuthenticationError(msg, status=response.status, code=reported.code, body=body)
    if response.status != 200:  # noqa: PLR2004 - RFC 6749, section 5.1
        raise error_from_response(response.status, response.headers, body, NAME)
    try:
        fields = mapping(loads_limited(response.body))
        token, seconds = fields.get("access_token"), int(str(fields.get("expires_in")))
    except ValueError:
        token, seconds = None, 0
    expires_at = add(requested_at, timedelta(seconds=seconds)) if 0 < seconds < timedelta.max.total_seconds() else None
    if not isinstance(token, str) or not token.strip() or expires_at is None:
        msg = f"{NAME} {request.host} returned no valid access token: check that the token URI is correct"
        raise InvalidResponseError(msg)
    return _Token(token.strip(), expires_at)


def _error_description(body: bytes) -> str:
    """Return the `error_description` of RFC 6749, section 5.2, shortened, or an empty text."""
    try:
        description = mapping(loads_limited(body)).get("error_description")
    except ValueError:
        return ""
    return description[:_LONGEST_DESCRIPTION] if isinstance(description, str) else ""


def _redact(body: bytes, request: Request) -> bytes:
    """Return the body of a response without the secrets that its request sent."""
    for name, value in parse_qsl(request.body.decode()):
        if name in _SECRETS:
            body = body.replace(value.encode(), REDACTED.encode())
    return body
