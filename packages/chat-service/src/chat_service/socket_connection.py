"""`SocketConnection`, which reads the messages of a WebSocket client while it streams runs to the client."""

from __future__ import annotations

import hashlib
import json
import logging
import math
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import asdict
from typing import Final, TypeAlias, cast, final

import anyio
from anyio import CancelScope
from anyio.abc import TaskGroup
from chat_core.approvals import Principal
from chat_inbox.http_errors import HTTPError
from starlette.websockets import WebSocket, WebSocketDisconnect

from chat_service.compaction import compact_session
from chat_service.context import ServiceContext
from chat_service.decisions import apply_decisions
from chat_service.following import Follower
from chat_service.request_values import read_message, read_text
from chat_service.run_events import ClientEvent, Place
from chat_service.run_records import Run
from chat_service.runs import MessageRequest, Runs
from chat_service.signals import REFRESH_SECONDS
from chat_service.socket_owners import SocketOwners

Json: TypeAlias = Mapping[str, object]
FindPrincipal: TypeAlias = Callable[[str | None], Awaitable[Principal | None]]
"""A function that returns the user of a token or, for `None`, the user of the request that opened the connection."""
CountRequest: TypeAlias = Callable[[str], int]

_LOG = logging.getLogger("chat_service")
_INTERNAL: Final = "An internal error occurred; the log of the server has the details."
_TOO_BIG: Final = 1009
_OVERLOADED: Final = 1013
_CONTEXT_STATUS: Final = ((70.0, "ok"), (90.0, "warning"), (math.inf, "critical"))
_DECISION_FIELDS: Final = ("id", "arguments", "edited_arguments", "reason", "result", "revision")


class _RefusedError(Exception):
    """A message of the client was refused. The client receives an `error` message."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


@final
class SocketConnection:
    """A connection of a WebSocket client.

    Args:
        socket: the accepted connection.
        context: objects shared by the parts of the service.
        runs: starts, finds and cancels the runs of the service.
        follower: streams the events of runs.
        owners: registry of the connections that own sessions.
        find: function that returns the user of a token or, for `None`, the user of the request that opened the
            connection.
        count: counts a message of a user, and returns 0 or the seconds that the user has to wait.
    """

    def __init__(
        self,
        socket: WebSocket,
        context: ServiceContext,
        runs: Runs,
        follower: Follower,
        owners: SocketOwners,
        *,
        find: FindPrincipal,
        count: CountRequest,
    ) -> None:
        self._count = count
        self._socket = socket
        self._context = context
        self._settings = context.settings
        self._runs = runs
        self._follower = follower
        self._owners = owners
        self._find = find
        self._principal: Principal | None = None
        self._sending = anyio.Lock()
        self._group: TaskGroup
        self._subscriptions: dict[str, CancelScope] = {}
        self._handlers: Mapping[str, Callable[[Json], Awaitable[None]]] = {
            "auth": self._authenticate,
            "chat": self._chat,
            "subscribe": self._subscribe,
            "unsubscribe": self._unsubscribe,
            "cancel": self._cancel,
            "decide": self._decide,
            "ping": self._ping,
            "command": self._command,
        }

    async def serve(self) -> None:
        """Serve the connection until it is closed. Sessions and runs continue without the connection."""
        try:
            self._principal = await self._find(None)
            async with anyio.create_task_group() as group:
                self._group = group
                await self._read()
                group.cancel_scope.cancel()
        except* WebSocketDisconnect:
            _LOG.info("a WebSocket client has disconnected, or was too slow")
        finally:
            self._owners.lose(self)

    async def _read(self) -> None:
        while True:
            message: Mapping[str, object] | None = None
            with anyio.move_on_after(self._settings.socket_idle_seconds):
                message = await self._socket.receive()
            if message is None:
                await self._send_error("idle_timeout", "No message arrived for too long.")
                await self._socket.close()
                return
            if message["type"] == "websocket.disconnect":
                return
            text, data = message.get("text"), message.get("bytes")
            size = len(data) if isinstance(data, bytes) else len(str(text).encode(errors="surrogatepass"))
            if size > self._settings.socket_max_bytes:
                await self._socket.close(_TOO_BIG)
                return
            await self._handle(text)

    async def _handle(self, text: object) -> None:
        """Handle one message of the client. If this fails, send an `error` message."""
        try:
            fields = _parse(text)
            kind = str(fields["type"])
            if self._principal is None and kind not in {"auth", "ping"}:
                await self._send_error("unauthorized", "Send auth with a valid token first.")
                return
            if self._principal is not None and kind != "ping" and (seconds := self._count(self._principal.name)):
                text = f"There were too many messages: send the next one in {seconds} seconds."
                await self._send_error("too_many_requests", text)
                return
            await self._handlers[kind](fields)
        except _RefusedError as error:
            await self._send_error(error.code, str(error))
        except HTTPError as error:
            code = "invalid_session" if error.status == 404 else "invalid_message"  # noqa: PLR2004 - not found
            await self._send_error(code, error.detail)
        except WebSocketDisconnect:
            raise
        except Exception:  # noqa: BLE001 - a store may raise anything, and the connection stays open
            _LOG.exception("a WebSocket message failed")
            await self._send_error("internal", _INTERNAL)

    # --- Messages of the client -----------------------------------------------------------------------------------

    async def _authenticate(self, fields: Json) -> None:
        token = fields.get("token")
        found = await self._find(token) if isinstance(token, str) and token.isascii() and token.isprintable() else None
        if found is None:
            await self._send("auth_result", success=False, error="This token is not valid.")
            return
        if self._principal is not None and self._principal.name != found.name:
            raise _RefusedError("unauthorized", "This connection belongs to another user: open a new one.")
        self._principal = found
        await self._send("auth_result", success=True)

    async def _ping(self, _fields: Json) -> None:
        await self._send("pong")

    async def _command(self, fields: Json) -> None:
        command = fields.get("command")
        if command != "compact":
            await self._send("command_result", command=command, success=False, result="There is no such command.")
            return
        given = fields.get("args")
        args: Json = cast("Json", given) if isinstance(given, dict) else {}
        session_id = await self._require_own_session(args)
        self._group.start_soon(self._compact, session_id, args.get("force") is True)  # reading continues

    async def _compact(self, session_id: str, force: bool) -> None:  # noqa: FBT001 - passed by the task group
        """Summarize a session. If this fails, send a `command_result` without success."""

        async def report(turns: int) -> None:
            text = f"The model summarizes a part of the {turns} turns."
            await self._send("command_progress", command="compact", message=text, percent=0)

        result: object
        success = False
        try:
            result = asdict(await compact_session(self._context, self._runs, session_id, report, force=force))
            success = True
        except HTTPError as error:
            result = error.detail
        except WebSocketDisconnect:
            raise
        except Exception:  # noqa: BLE001 - a store may raise anything, and the connection stays open
            _LOG.exception("a session could not be compacted")
            result = _INTERNAL
        await self._send("command_result", command="compact", success=success, result=result)

    async def _chat(self, fields: Json) -> None:
        if fields.get("workstream_id") is not None:
            raise _RefusedError("invalid_workstream_id", "The service has no workstreams: leave out workstream_id.")
        session_id = read_text(fields, "session_id")
        message = read_message(fields, self._settings)
        if session_id is not None:
            await self._runs.require_own_session(self._user, session_id)
            token = None if self._owners.owns(session_id, self) else self._owners.claim(session_id, self)
            if not self._owners.owns(session_id, self):
                raise _RefusedError("session_not_owned", "Another connection owns this session; this one only reads.")
            if token is not None:
                await self._acknowledge(session_id, token)
        body_hash = hashlib.sha256(message.encode()).hexdigest()
        run = await self._runs.start(MessageRequest(self._user, session_id, message, body_hash, waits=False))
        if session_id is None:
            await self._send("session_created", session_id=run.session_id)
            await self._acknowledge(run.session_id, self._owners.claim(run.session_id, self))
        if run.session_id not in self._subscriptions:
            await self._follow(run.session_id, run.id)

    async def _subscribe(self, fields: Json) -> None:
        session_id = await self._require_session(fields)
        await self._acknowledge(session_id, self._owners.claim(session_id, self, read_text(fields, "reconnect_token")))
        if session_id not in self._subscriptions:
            await self._follow(session_id, None)

    async def _unsubscribe(self, fields: Json) -> None:
        session_id = _require_text(fields, "session_id")
        self._owners.release(session_id, self)
        if scope := self._subscriptions.pop(session_id, None):
            scope.cancel()

    async def _cancel(self, fields: Json) -> None:
        session_id = await self._require_own_session(fields)
        runs = await self._runs.of_session(session_id)
        is_active = bool(runs) and (runs[-1].is_active or runs[-1].state == "paused")
        if is_active:
            await self._runs.cancel(runs[-1])
        await self._send("command_result", command="cancel", success=True, result={"cancelled": is_active})

    async def _decide(self, fields: Json) -> None:
        session_id = await self._require_session(fields)
        decision = {name: fields[name] for name in _DECISION_FIELDS if name in fields}
        decision["action"] = fields.get("decision")
        await apply_decisions(self._context, self._runs, self._user, session_id, [decision])

    async def _require_session(self, fields: Json) -> str:
        session_id = _require_text(fields, "session_id")
        await self._runs.require_own_session(self._user, session_id)
        return session_id

    async def _require_own_session(self, fields: Json) -> str:
        session_id = await self._require_session(fields)
        if not self._owners.owns(session_id, self):
            raise _RefusedError("session_not_owned", "Another connection owns this session; this one only reads.")
        return session_id

    @property
    def _user(self) -> Principal:
        assert self._principal is not None  # noqa: S101 - checked for every message that needs a user
        return self._principal

    # --- Runs -----------------------------------------------------------------------------------------------------

    async def _follow(self, session_id: str, run_id: str | None) -> None:
        """Send the events of a run and of all later runs of its session.

        Without an id, begin with the active or paused run.
        """
        runs = await self._runs.of_session(session_id)
        if run_id is None:
            is_open = bool(runs) and (runs[-1].is_active or runs[-1].state == "paused")
            first = len(runs) - is_open
        else:
            first = [run.id for run in runs].index(run_id)
        scope = self._subscriptions[session_id] = CancelScope()
        self._group.start_soon(self._follow_runs, session_id, first, scope)

    async def _follow_runs(self, session_id: str, first: int, scope: CancelScope) -> None:
        """Send the events of a session's runs. If this fails, end the subscription and send an `error` message."""
        found: tuple[str, str] | None = None
        try:
            with scope:
                await self._send_runs(session_id, first)
        except HTTPError as error:
            found = "invalid_session", error.detail
        except WebSocketDisconnect:
            raise
        except Exception:  # noqa: BLE001 - a store may raise anything, and the connection stays open
            _LOG.exception("the runs of a session could not be sent to a WebSocket client")
            found = "internal", _INTERNAL
        if self._subscriptions.get(session_id) is scope:
            del self._subscriptions[session_id]
        if found is not None:
            await self._send_error(*found, session_id=session_id)

    async def _send_runs(self, session_id: str, first: int) -> None:
        """Send the events of a session's runs, beginning with the given run, until the session is closed."""
        signal = self._context.signals.session(session_id)
        places: dict[str, tuple[int, Place | None]] = {}
        while True:
            seen = signal.reports
            await self._runs.require_own_session(self._user, session_id)
            for run in (await self._runs.of_session(session_id))[first:]:
                parts, place = places.get(run.id, (0, None))
                if len(run.parts) > parts:
                    places[run.id] = len(run.parts), await self._send_run(run, place)
            with anyio.move_on_after(self._settings.ping_seconds or REFRESH_SECONDS):
                await signal.wait_for_report(seen)

    async def _send_run(self, run: Run, after: Place | None) -> Place | None:
        """Send the events of a run after a place, and return the last place."""
        place = after
        async with aclosing(self._follower.follow(self._user, run, after)) as events:
            async for event in events:
                if event.name == "session" and place is not None:  # a redaction has replaced the history
                    await self._send("session_reset", session_id=run.session_id)
                elif after is None or event.id != str(after):  # skip the end event of the previous part
                    await self._send_event(run.session_id, event)
                place = Place.parse(event.id) if event.id else place
        return place

    async def _send_event(self, session_id: str, event: ClientEvent) -> None:
        data = event.data
        match event.name:
            case "text":
                await self._send("chat_chunk", session_id=session_id, chunk=data["content"], done=False)
            case "reset":
                await self._send("chat_reset", session_id=session_id)
            case "tool_start":
                await self._send("tool_start", session_id=session_id, tool_id=data["id"], tool_name=data["name"])
            case "tool_output":
                await self._send("tool_output", session_id=session_id, tool_id=data["id"], content=data["content"])
            case "tool_end":
                await self._send("tool_end", session_id=session_id, tool_id=data["id"], success=data["success"])
            case "paused":
                await self._send("paused", session_id=session_id, waiting=data["waiting"])
            case "error" if data["code"] != "cancelled":
                await self._send_error("agent_error", str(data["message"]), session_id=session_id)
            case "done" | "error":
                if event.name == "done":
                    await self._send_context(session_id)
                await self._send("chat_chunk", session_id=session_id, chunk="", done=True)
            case _:
                pass

    async def _send_context(self, session_id: str) -> None:
        """Send how much of the model's context window the session fills, if both numbers are known."""
        window = self._context.engine.chat(self._context.flow).model.metadata.abilities.context_window
        if window is None:
            return
        last = (await self._context.store.load(session_id)).messages.last_turn
        metadata = None if last is None else last[1].metadata
        if metadata is None or not metadata.usage:
            return
        tokens = metadata.usage.total_tokens
        percent = round(100 * tokens / window, 1)
        status = next(name for limit, name in _CONTEXT_STATUS if percent < limit)
        fields = {"current_tokens": tokens, "max_tokens": window, "percent": percent, "status": status}
        await self._send("context_info", session_id=session_id, **fields)

    # --- Sending --------------------------------------------------------------------------------------------------

    async def _acknowledge(self, session_id: str, token: str | None) -> None:
        found = {} if token is None else {"reconnect_token": token}
        await self._send("subscribe_ack", session_id=session_id, owner=token is not None, **found)

    async def _send_error(self, code: str, message: str, **fields: object) -> None:
        await self._send("error", code=code, message=message, **fields)

    async def _send(self, kind: str, **fields: object) -> None:
        """Send a message to the client. A client that reads too slowly is disconnected."""
        text = json.dumps({"type": kind, **fields})
        with anyio.move_on_after(self._settings.socket_send_seconds) as scope:
            async with self._sending:
                await self._socket.send_text(text)
        if scope.cancelled_caught:
            raise WebSocketDisconnect(_OVERLOADED)


def _parse(text: object) -> Json:
    """Parse a message of the client."""
    if not isinstance(text, str):
        raise _RefusedError("parse_error", "Messages must be text frames.")
    try:
        found: object = json.loads(text)
    except (ValueError, RecursionError):
        raise _RefusedError("parse_error", "The message is not JSON.") from None
    if not isinstance(found, dict):
        raise _RefusedError("invalid_message", "The message must be a JSON object.")
    fields = cast("dict[str, object]", found)
    kind = fields.get("type")
    if not isinstance(kind, str) or kind not in _TYPES:
        raise _RefusedError("invalid_message", f"The field 'type' must be one of {', '.join(sorted(_TYPES))}.")
    return fields


_TYPES: Final = frozenset({"auth", "cancel", "chat", "command", "decide", "ping", "subscribe", "unsubscribe"})


def _require_text(fields: Json, name: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str):
        raise _RefusedError("invalid_message", f"The field {name} must be a string.")
    return value
