"""`ServiceSettings`: limits, timeouts and intervals of a service."""

from __future__ import annotations

from dataclasses import Field, dataclass, fields
from typing import Any, Final, final

from chat_core.arguments import argument_error, require_items, require_number, require_text, require_whole

MAX_SECONDS: Final = 100_000_000
"""Maximum number of seconds of a setting, about three years."""
_MAY_BE_ZERO: Final = frozenset(
    {
        "requests_per_minute",
        "request_burst",
        "address_requests_per_minute",
        "workers",
        "ping_seconds",
        "retry_seconds",
        "grace_seconds",
        "idempotency_seconds",
        "socket_grace_seconds",
        "socket_connects_per_minute",
    }
)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceSettings:
    """Limits, timeouts and intervals of a service.

    Attributes:
        hosts: accepted names in the `Host` header, in addition to the names of this machine.
        max_body_bytes: maximum size of a request body.
        max_message_bytes: maximum size of a user message, in bytes of UTF-8.
        page_size: number of items in a list response, unless the request specifies `limit`.
        max_page_size: maximum value of `limit`.
        requests_per_minute: number of requests and WebSocket messages that a user may send to one process in a
            minute. Further requests receive status 429 with `Retry-After`, and further messages an error. With 0, there
            is no limit.
        request_burst: number of these requests and messages that a user may send at once. The chat page sends eight
            requests to open a session. With 0, a user may send all of a minute at once.
        address_requests_per_minute: number of requests that one address may send to one process in a minute, with or
            without a token. IPv6 addresses with the same first 64 bits count as one address. Health checks and messages
            of open WebSockets are not counted. With 0, there is no limit.
        run_seconds: maximum duration of a run. After this time, the run fails.
        max_attempts: maximum number of attempts of a run whose worker dies.
        retry_seconds: time between the first two attempts. It doubles with each attempt.
        workers: number of runs that this process executes at the same time. With 0, other processes execute all runs.
        poll_seconds: maximum time until a worker detects a run whose worker has died.
        ping_seconds: time without an event after which a comment keeps an event stream open. With 0, there are none.
        stream_send_seconds: time that the client of an event stream has to receive an event or a comment. A slower
            client is disconnected, and can continue after the last event that it has received.
        grace_seconds: time that active runs have to end when the service stops. Afterwards, other workers take over
            these runs.
        idempotency_seconds: time in which a request with a repeated `Idempotency-Key` returns the first run.
        socket_origins: hosts of other sites whose pages may open a WebSocket, such as `app.example.org` or
            `*.example.org`.
        socket_max_bytes: maximum size of a WebSocket client's message. A larger message closes the connection.
        socket_idle_seconds: time without a client message after which a WebSocket is closed.
        socket_grace_seconds: time during which a client can take over a lost WebSocket with its reconnect token.
        socket_connects_per_minute: number of WebSockets that one address may open in a minute. With 0, there is no
            limit.
        metrics_role: role of the users who may read `/metrics`. By default, no user may read it.
        socket_send_seconds: time that a WebSocket client has to receive a message. A slower client is disconnected.

    Raises:
        UsageError: a value has a wrong type, such as a string for `hosts`, or a number is too small or too large. A
            number of seconds is at most `MAX_SECONDS`.
    """

    hosts: tuple[str, ...] = ()
    max_body_bytes: int = 10_000_000
    max_message_bytes: int = 102_400
    page_size: int = 50
    max_page_size: int = 100
    requests_per_minute: int = 120
    request_burst: int = 40
    address_requests_per_minute: int = 600
    run_seconds: float = 300.0
    max_attempts: int = 10
    retry_seconds: float = 1.0
    workers: int = 8
    poll_seconds: float = 1.0
    ping_seconds: int = 15
    stream_send_seconds: float = 30.0
    grace_seconds: float = 10.0
    idempotency_seconds: float = 86_400.0
    socket_origins: tuple[str, ...] = ()
    socket_max_bytes: int = 1_048_576
    socket_idle_seconds: float = 300.0
    socket_grace_seconds: float = 30.0
    socket_connects_per_minute: int = 30
    socket_send_seconds: float = 10.0
    metrics_role: str = ""

    def __post_init__(self) -> None:
        for field in fields(self):
            name, value = field.name, getattr(self, field.name)
            if isinstance(field.default, tuple):
                require_items(name, value, str, "a tuple of host names, such as ('chat.example.org',)")
            elif isinstance(field.default, str):
                require_text(**{name: value})
            elif isinstance(field.default, int):
                require_whole(name, value, int(least_number(field)))
            else:
                require_number(name, value)
                if not least_number(field) <= value <= MAX_SECONDS:
                    raise argument_error(name, f"at least {least_number(field):g} and at most {MAX_SECONDS}", value)


def least_number(field: Field[Any]) -> float:
    """Return the smallest valid value of a setting that is a number.

    Args:
        field: field of `ServiceSettings`.
    """
    if field.name in _MAY_BE_ZERO:
        return 0
    return 1 if isinstance(field.default, int) else 0.001
