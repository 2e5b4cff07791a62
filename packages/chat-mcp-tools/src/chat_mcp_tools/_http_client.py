"""HTTP client for MCP servers, which renews lost sessions and repeats requests that failed temporarily."""

from __future__ import annotations

import json
from typing import Any, Final, final

import httpx2
from anyio import Lock, sleep

MAX_RETRIES: Final = 3
"""Default number of retries of the handshake and of the list of tools."""
_FIRST_DELAY: Final = 0.5
"""Delay in seconds before the first retry. Each further delay is twice as long."""
_SESSION: Final = "mcp-session-id"
_TIMEOUT: Final = httpx2.Timeout(30.0, read=300.0)
"""Timeouts in seconds, as the SDK recommends: a server may keep the stream of a response open."""
_NOT_FOUND: Final = 404
_TEMPORARY: Final = frozenset({408, 429, *range(500, 600)})
_HANDSHAKE: Final = "initialize"
_REPEATED: Final = frozenset({_HANDSHAKE, "tools/list"})
"""Requests that are repeated after a temporary status."""
_REPEATED_UNSENT: Final = _REPEATED | {"server/discover"}
"""Requests that are repeated after an error of the connection.

`server/discover` is not repeated after a status, because some servers answer an unknown method with status 500.
"""


@final
class SessionClient(httpx2.AsyncClient):
    """A client for one MCP server. All requests of the SDK pass `send()`.

    If the server does not know the session any more (status 404), the client makes one new handshake, and sends the
    request once more in the new session. The server has not executed a request that it answered with 404.

    Args:
        headers: sent with every request.
        max_retries: number of retries of the handshake and of the list of tools.
    """

    def __init__(self, headers: dict[str, str] | None, max_retries: int) -> None:
        super().__init__(headers=headers, timeout=_TIMEOUT)
        self._max_retries = max_retries
        self._handshake: httpx2.Request | None = None
        self._session_id: str | None = None
        self._renewal = Lock()

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:  # noqa: ANN401 - passed on
        """Send a request. Options are those of `httpx2.AsyncClient.send()`.

        Raises:
            httpx2.TransportError: the connection failed.
        """
        method = _rpc_method(request)
        if method == _HANDSHAKE:
            self._handshake = request
        delay = _FIRST_DELAY
        for _ in range(self._max_retries if method in _REPEATED_UNSENT else 0):
            try:
                response = await self._send_in_session(request, **options)
            except httpx2.TransportError:
                pass
            else:
                if response.status_code not in _TEMPORARY or method not in _REPEATED:
                    return response
                await response.aclose()
            await sleep(delay)
            delay *= 2
        return await self._send_in_session(request, **options)

    async def _send_in_session(self, request: httpx2.Request, **options: Any) -> httpx2.Response:  # noqa: ANN401 - as httpx2 declares them
        """Send a request in the current session. If the session is lost, renew it and send the request again."""
        if _SESSION not in request.headers:
            return await super().send(request, **options)
        used = request.headers[_SESSION] = self._session_id or request.headers[_SESSION]
        response = await super().send(request, **options)
        if response.status_code != _NOT_FOUND or request.method != "POST":
            return response
        session_id = await self._renew_session(used, request)
        if session_id is None:
            return response
        await response.aclose()
        request.headers[_SESSION] = session_id
        return await super().send(request, **options)

    async def _renew_session(self, lost: str, request: httpx2.Request) -> str | None:
        """Return the id of a new session, or None if the server refuses the handshake.

        If several requests notice that the session is lost, only the first makes a handshake.

        Args:
            lost: id of the lost session.
            request: a request of the lost session.
        """
        async with self._renewal:
            if self._session_id not in {None, lost}:
                return self._session_id
            if self._handshake is None:
                return None
            headers = {key: value for key, value in self._handshake.headers.items() if key != "content-length"}
            try:
                response = await self._post(self._handshake.content, headers)
                session_id: str | None = response.headers.get(_SESSION)
                if not response.is_success or session_id is None:
                    return None
                headers = {key: value for key, value in request.headers.items() if key != "content-length"}
                body = json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}).encode()
                await self._post(body, {**headers, _SESSION: session_id})
            except httpx2.HTTPError:
                return None
            self._session_id = session_id
            return session_id

    async def _post(self, body: bytes, headers: dict[str, str]) -> httpx2.Response:
        """Send a message to the endpoint of the handshake, and read the response."""
        assert self._handshake is not None  # noqa: S101 - the caller has checked this
        request = self.build_request("POST", self._handshake.url, content=body, headers=headers)
        return await super().send(request, follow_redirects=False)


def _rpc_method(request: httpx2.Request) -> object:
    """Return the JSON-RPC method of a request, or None if it has none."""
    if request.method != "POST":
        return None
    try:
        message: object = json.loads(request.content)
    except ValueError:
        return None
    return message.get("method") if isinstance(message, dict) else None  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType] - JSON
