"""Request ids and structured logs: each log record of a request or of a run can be found by its id or its trace."""

from __future__ import annotations

import json
import logging
import re
import time
from collections.abc import Awaitable, Mapping
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Final, Literal, TypeAlias, final
from uuid import uuid4

from chat_core.arguments import argument_error
from chat_inbox.event_response import BODY_SEND
from starlette.datastructures import MutableHeaders
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from chat_service.traces import HeaderTraces, Traces, trace_id_of

HEADER: Final = "x-request-id"
LogFormat: TypeAlias = Literal["text", "json"]
_LOG = logging.getLogger("chat_service")
_VALID_ID: Final = re.compile(r"[A-Za-z0-9._:-]{1,64}", re.ASCII)
_TEXT: Final = "%(asctime)s %(levelname)s %(name)s [%(request_id)s %(run_id)s]: %(message)s"
# A driver can quote its connection string in an error: a URL with user and password, or `password=…`.
_PASSWORD: Final = re.compile(
    r"""(?P<before>://[^\s:/@'"]*:)[^\s'"/]+(?=@)|(?P<name>password["']?\s*[=:]\s*)('(\\.|[^'\n])*'?|"[^"\n]*"?|[^\s'"&,;)]+)""",
    re.IGNORECASE,
)
_FIELDS: Final = ("request_id", "run_id", "trace_id", "method", "path", "status", "duration_ms")
_request_id: ContextVar[str | None] = ContextVar("request_id", default=None)
_run_id: ContextVar[str | None] = ContextVar("run_id", default=None)
_trace: ContextVar[Mapping[str, str] | None] = ContextVar("trace", default=None)


@final
class RequestLog:
    """A middleware that gives each request an id, returns it in `X-Request-ID`, and logs the end of each request.

    A client or a proxy can send an id of 1 to 64 letters, digits and `._:-`. Any other id is replaced by a random one.

    Args:
        app: the application.
        traces: continues the trace of a request. Default: the trace id of `traceparent` appears in the log.
    """

    def __init__(self, app: ASGIApp, traces: Traces | None = None) -> None:
        self._app = app
        self._traces = traces or HeaderTraces()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle an ASGI connection."""
        if scope["type"] not in {"http", "websocket"}:
            await self._app(scope, receive, send)
            return
        received = HTTPConnection(scope).headers
        sent = received.get(HEADER, "")
        request_id = sent if _VALID_ID.fullmatch(sent) else uuid4().hex
        # The id is not reset: servers log exceptions of the application after it has returned, in the same task.
        _request_id.set(request_id)
        trace = self._traces.capture(received)
        _trace.set(trace)
        started, status, run_id = time.monotonic(), 0, None

        def send_with_id(message: Message) -> Awaitable[None]:  # not a coroutine: it is called for each event
            nonlocal status, run_id
            if message["type"] in {"http.response.start", "websocket.accept", "websocket.http.response.start"}:
                message.setdefault("headers", [])
                headers = MutableHeaders(scope=message)
                headers[HEADER] = request_id
                status, run_id = message.get("status", 101), headers.get("x-run-id")
            return send(message)

        scope[BODY_SEND] = send
        try:
            with self._traces.restore(trace):
                await self._app(scope, receive, send_with_id)
        finally:
            scope.pop(BODY_SEND, None)  # `send` may refer to the scope: without a cycle, a request is freed at once
            fields: dict[str, object] = {
                "method": scope.get("method", "WEBSOCKET"),
                "path": scope["path"],
                "status": status or 500,
                "duration_ms": round(1000 * (time.monotonic() - started)),
            }
            if run_id is not None:
                fields["run_id"] = run_id
            _LOG.info("%(method)s %(path)r %(status)s in %(duration_ms)s ms", fields, extra=fields)


def set_logged_run(run_id: str | None, trace: Mapping[str, str] | None = None) -> None:
    """Set the run whose ids the log records of this task have from now on.

    Args:
        run_id: id of the run, or `None` for no run.
        trace: headers of the trace of the request that started the run.
    """
    _run_id.set(run_id)
    _trace.set(trace)


def logged_trace() -> Mapping[str, str]:
    """Return the trace headers of the current request or run, or an empty mapping if there is no trace."""
    return _trace.get() or {}


@final
class RequestIdFilter(logging.Filter):
    """A filter that adds `request_id`, `run_id` and `trace_id` to each log record. An id that is not known is `-`.

    Attach the filter to a handler, so that it also sees the records of other loggers.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Add the ids to a record, and accept the record.

        Args:
            record: the record.
        """
        ids = {"request_id": _request_id.get(), "run_id": _run_id.get(), "trace_id": trace_id_of(logged_trace())}
        for name, value in ids.items():
            if not hasattr(record, name):
                setattr(record, name, value or "-")
        return True


@final
class TextFormatter(logging.Formatter):
    """A formatter that writes log records as text. Passwords in connection strings are replaced by `***`."""

    def __init__(self) -> None:
        super().__init__(_TEXT)

    def format(self, record: logging.LogRecord) -> str:
        """Return a record as text.

        Args:
            record: the record.
        """
        return _hide_passwords(super().format(record))


@final
class JsonFormatter(logging.Formatter):
    """A formatter that writes each log record as a JSON object in one line.

    Passwords in connection strings are replaced by `***`.

    The members are `time`, `level`, `logger` and `message`, and `request_id`, `run_id`, `trace_id`, `method`, `path`,
    `status`, `duration_ms` and `exception` if the record has them.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return a record as one line.

        Args:
            record: the record.
        """
        found: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _hide_passwords(record.getMessage()),
        }
        values = {name: getattr(record, name, "-") for name in _FIELDS}
        found |= {name: value for name, value in values.items() if value != "-"}
        if record.exc_info:
            found["exception"] = _hide_passwords(self.formatException(record.exc_info))
        return json.dumps(found, default=str)  # escapes line ends and control characters


def configure_logging(form: LogFormat, level: str) -> None:
    """Write the log records of the process to the standard error stream, with the ids of requests and runs.

    Handlers that the root logger had before are removed.

    Args:
        form: `"text"`, or `"json"` for one JSON object in each line.
        level: least level, such as `"info"`.

    Raises:
        UsageError: the form or the level is unknown.
    """
    if form not in ("text", "json"):
        raise argument_error("form", "'text' or 'json'", form)
    if not isinstance(level, str) or level.upper() not in logging.getLevelNamesMapping():
        raise argument_error("level", "the name of a level, such as 'info'", level)
    handler = logging.StreamHandler()
    handler.addFilter(RequestIdFilter())
    handler.setFormatter(JsonFormatter() if form == "json" else TextFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)


def _hide_passwords(text: str) -> str:
    return _PASSWORD.sub(lambda found: f"{found['before'] or found['name']}***", text)
