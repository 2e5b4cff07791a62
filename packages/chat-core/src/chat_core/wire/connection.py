"""Connection settings that the builders of all providers share: base URL, credentials, headers and transport."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Awaitable, Callable, Collection, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import wraps
from importlib import import_module
from typing import (
    TYPE_CHECKING,
    Final,
    Generic,
    NoReturn,
    ParamSpec,
    Protocol,
    Self,
    TypeAlias,
    TypeVar,
    cast,
    final,
    get_args,
    runtime_checkable,
)

from chat_core.arguments import require_text_fields
from chat_core.errors import UsageError
from chat_core.messages.content import FinishReason
from chat_core.transport.protocol import Transport
from chat_core.transport.tracebacks import drop_frames
from chat_core.transport.values import Request

P = ParamSpec("P")
ResultT = TypeVar("ResultT")

AUTHORIZATION: Final = "authorization"


def without_frames(function: Callable[P, ResultT]) -> Callable[P, ResultT]:
    """Decorate a function so that a `UsageError` that it raises has no stack frames with its arguments and variables.

    Error trackers record the variables of each frame, which may contain a secret.
    """

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> ResultT:
        try:
            return function(*args, **kwargs)
        except UsageError as error:
            drop_frames(error)
            failure = error
        del args, kwargs
        raise failure

    return call


ApiKey: TypeAlias = str | Callable[[], Awaitable[str]]
"""A key or token, or an async function that returns the current one and is called for each request."""


@runtime_checkable
class RenewableKey(Protocol):
    """An `ApiKey` function that caches its key and can drop it.

    If a server rejects the key with status 401, the provider calls `reject()` and sends the request once more with the
    next key.
    """

    async def __call__(self) -> str:
        """Return the current key."""
        ...

    def reject(self, key: str, /) -> None:
        """Drop `key` from the cache. Do nothing if the cache holds another key by now."""
        ...


class Authorizer(Protocol):
    """Source of the credentials of each request: a `KeySource`, or a function of the platform that signs requests."""

    async def authorize(self, request: Request, /) -> Request:
        """Return a copy of the request with credentials."""
        ...

    def reject(self, request: Request, /) -> bool:
        """Drop the credentials of a request that the server rejected.

        Return whether the next credentials may differ.
        """
        ...


@final
@dataclass(frozen=True, slots=True)
class KeySource:
    """An async function that returns the current key, and the header that carries the key.

    Attributes:
        header: name of the header, in lowercase.
        function: async function that returns the key.
    """

    header: str
    function: Callable[[], Awaitable[str]] = field(repr=False)

    async def authorize(self, request: Request) -> Request:
        """Return a copy of the request with the current key in its headers.

        Exceptions raised by the key function propagate.

        Raises:
            UsageError: the function is not async, or returned no key. The message omits the returned value.
        """
        result: object = self.function()
        if not inspect.isawaitable(result):
            msg = f"the function that returns the key must be async, but it returned a {_type_name(result)}"
            raise UsageError(msg)
        # The result may be anything: not every caller uses a type checker.
        value = self._header_value(cast("object", await result))
        return replace(request, headers=(*request.headers, (self.header, value)))

    @without_frames
    def _header_value(self, secret: object) -> str:
        if not isinstance(secret, str) or not secret.strip():
            shown = "an empty string" if isinstance(secret, str) else f"a {_type_name(secret)}"
            msg = f"the function that returns the key returned {shown}: return the key"
            raise UsageError(msg)
        return credentials_for(self.header, secret.strip())

    def reject(self, request: Request) -> bool:
        """Drop the key of a request that the server rejected. Return whether the next key may differ.

        Args:
            request: request from `authorize()`.
        """
        if not isinstance(self.function, RenewableKey):
            return False
        value = next(value for name, value in reversed(request.headers) if name == self.header)
        self.function.reject(value.removeprefix("Bearer ") if self.header == AUTHORIZATION else value)
        return True


def _type_name(value: object) -> str:
    return type(value).__name__


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """The connection settings of a builder. Provider packages derive their settings classes from it.

    Attributes:
        base_url: base URL chosen by the caller, or `None` for the default URL of the server.
        headers: headers sent with every request, including credentials. Names are lowercase and unique.
        transport: transport of the caller, or `None` for a transport that the provider creates and closes.
        key: source that returns the key for each request, or `None` if the key is in `headers`.
    """

    base_url: str | None = field(default=None, repr=False)  # its query may contain a key
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    transport: Transport | None = None
    key: KeySource | None = field(default=None, repr=False)

    @property
    def key_header(self) -> str:
        """The name of the header that contains the API key. In `authorization`, the key is a bearer token."""
        return AUTHORIZATION

    @property
    def has_credentials(self) -> bool:
        """Whether requests contain a key or a token."""
        return self.key is not None or any(name in (AUTHORIZATION, self.key_header) for name, _ in self.headers)

    def with_credentials(self, header: str, secret: ApiKey) -> Self:
        """Return the settings with `secret` in `header` and without any earlier credentials."""
        others = [item for item in self.headers if item[0] not in (AUTHORIZATION, self.key_header)]
        if not isinstance(secret, str):
            return replace(self, headers=tuple(others), key=KeySource(header, secret))
        credentials = (header, credentials_for(header, secret))
        return replace(self, headers=(credentials, *others), key=None)

    def with_headers(self, headers: Mapping[str, str]) -> Self:
        """Return the settings with additional headers. Names are case-insensitive, and the last value wins.

        Raises:
            UsageError: `headers` is not a mapping of strings to strings, or HTTP does not allow a character of it.
        """
        require_headers(headers)
        merged = {name.lower(): value for name, value in (*self.headers, *headers.items())}
        return replace(self, headers=tuple(merged.items()), key=self.key_unless({name.lower() for name in headers}))

    def key_unless(self, names: Collection[str]) -> KeySource | None:
        """Return the key source, or None if one of the headers `names` replaces the key."""
        return None if {AUTHORIZATION, self.key_header} & {*names} else self.key

    def transport_or_default(self) -> Transport:
        """Return the caller's transport, or a new default transport that the provider owns.

        Raises:
            UsageError: the caller chose no transport, and the default transport is not installed.
        """
        return default_transport() if self.transport is None else self.transport


SettingsT = TypeVar("SettingsT", bound=Connection)


class ConnectionBuilder(Generic[SettingsT]):
    """Base class for provider builders. A builder is immutable: each `with_…` method returns a new builder.

    `with_api_key()` and `with_headers()` set credentials and headers. The last call that sets a header wins.
    """

    __slots__ = ("_settings",)

    def __init__(self, settings: SettingsT) -> None:
        self._settings = settings

    def _with(self, settings: SettingsT) -> Self:
        return type(self)(settings)

    @without_frames
    def with_api_key(self, key: ApiKey) -> Self:
        """Send `key` with every request. It replaces a key, a token or a header with credentials that was set before.

        An async function is called for each request, including retries, so that keys rotate and tokens are renewed.
        Without this call, requests to a vendor's own server contain the key in the vendor's environment variable.
        """
        secret = require_key("with_api_key", key, "a key")
        return self._with(self._settings.with_credentials(self._settings.key_header, secret))

    @without_frames
    def with_headers(self, headers: Mapping[str, str]) -> Self:
        """Add headers to every request. A header replaces an earlier header of the same name, even the API key."""
        return self._with(self._settings.with_headers(headers))

    def with_transport(self, transport: Transport) -> Self:
        """Send requests over `transport`. The caller owns it: closing the provider leaves it open.

        By default, requests are sent over an `HttpxTransport` that the provider owns.
        """
        is_class = isinstance(transport, type)
        if is_class or not isinstance(transport, Transport):
            hint = ": create an instance of that class" if is_class else ""
            msg = f"with_transport() needs a Transport (send, stream, aclose), not {transport!r}{hint}"
            raise UsageError(msg)
        return self._with(replace(self._settings, transport=transport))

    def _missing_method_hint(self, name: str) -> str | None:  # noqa: ARG002 - for states that lack a method
        """Return a hint for the missing method `name`, or None if no state of the builder has this method."""
        return None

    if not TYPE_CHECKING:  # a type checker reports the missing method itself

        def __getattr__(self, name: str) -> NoReturn:
            hint = None if name.startswith("_") else self._missing_method_hint(name)
            raise AttributeError(hint or f"{type(self).__name__!r} object has no attribute {name!r}")


class AddressBuilder(ConnectionBuilder[SettingsT]):
    """A `ConnectionBuilder` for servers at any base URL."""

    __slots__ = ()

    @without_frames
    def with_base_url(self, url: str) -> Self:
        """Send requests to the server at the base URL `url`, such as `https://host/v1`.

        If the URL has a query, the query is sent with every request.
        """
        return self._with(replace(self._settings, base_url=require_url("with_base_url", url)))


@final
class MissingKeyError(UsageError):
    """No API key was set for a server that needs a key.

    Attributes:
        variables: names of the environment variables that the key is read from, in the order in which they are read.
    """

    def __init__(self, message: str, variables: Collection[str] = ()) -> None:
        super().__init__(message)
        self.variables: tuple[str, ...] = tuple(variables)


# --- Checks of builders --------------------------------------------------------------------------------------


def require_secret(method: str, value: str, what: str) -> str:
    """Return a secret without surrounding spaces. Error messages never contain the secret.

    Args:
        method: name of the builder method, for the error message.
        value: the secret to check.
        what: description of the secret, for the error message.

    Raises:
        UsageError: the secret is empty or not text.
    """
    if value is None or (isinstance(value, str) and not value.strip()):  # pyright: ignore[reportUnnecessaryComparison] - callers without a checker
        msg = f"{method}() needs {what}, but got an empty value: check that the environment variable is set"
        raise UsageError(msg)
    if not isinstance(value, str):
        msg = f"{method}() needs {what}, not a value of type {type(value).__name__}"
        raise UsageError(msg)
    return value.strip()


def require_key(method: str, value: ApiKey, what: str) -> ApiKey:
    """Return a key function unchanged, or a secret without surrounding spaces.

    Error messages never contain the secret.

    Args:
        method: name of the builder method, for the error message.
        value: the secret, or an async function that returns the secret.
        what: description of the secret, for the error message.

    Raises:
        UsageError: the secret is empty, or neither text nor a function.
    """
    if callable(value) and not isinstance(value, type):
        return value
    return require_secret(method, cast("str", value), what)


def require_model(method: str, model: str) -> str:
    """Check the name of a model, and return it.

    Args:
        method: name of the builder method, for the error.
        model: name of the model.

    Raises:
        UsageError: the name is blank or not a string.
    """
    if not isinstance(model, str) or not model.strip():
        msg = f"{method}() needs the name of a model, not {model!r}"
        raise UsageError(msg)
    return model


def require_url(method: str, url: str, example: str = "http://localhost:8080/v1") -> str:
    """Return the URL that was passed to a builder method, without surrounding spaces.

    Args:
        method: name of the builder method, for the error message.
        url: the URL to check.
        example: a valid URL, for the error message.

    Raises:
        UsageError: the URL has no scheme or is not text. The message omits user, password and query.
    """
    if not isinstance(url, str) or "://" not in url:
        shown = without_secrets(url) if isinstance(url, str) else url
        msg = f"{method}() needs a URL like {example!r}, not {shown!r}"
        raise UsageError(msg)
    return url.strip()


def without_secrets(url: str) -> str:
    """Return a URL for an error message, without the parts that may contain a password or a key.

    Args:
        url: the URL, which may be malformed.
    """
    # Everything before the last `@` may be a password that contains `?` or `#`.
    return re.split(r"[?#]", url.rpartition("@")[2])[0]


def require_provider_name(name: str) -> str:
    """Return `name` if it is a valid provider name.

    Raises:
        UsageError: the name is empty.
    """
    if not name:
        msg = "with_provider_name() needs a name, not an empty string"
        raise UsageError(msg)
    return name


# --- Defaults ------------------------------------------------------------------------------------------------


def credentials_for(header: str, secret: str) -> str:
    """Return the value of `header` for `secret`: a bearer token in `authorization`, otherwise the secret itself.

    Raises:
        UsageError: HTTP does not allow a character of the secret, such as a typographic quotation mark.
    """
    _require_header_text(secret, f"the key for the header {header!r}", "the key")
    return f"Bearer {secret}" if header == AUTHORIZATION else secret


def require_headers(headers: Mapping[str, str]) -> None:
    """Check that HTTP allows each character of headers. Error messages never contain the values.

    Args:
        headers: the headers that were passed to a builder method.

    Raises:
        UsageError: `headers` is not a mapping of strings to strings, or HTTP does not allow a character of it.
    """
    require_text_fields("headers", headers)
    for name, value in headers.items():
        _require_header_text(name, "the name of a header", "the name")
        _require_header_text(value.replace("\t", " "), f"the value of the header {name!r}", "the value")


def _require_header_text(text: str, what: str, which: str) -> None:
    """Raise `UsageError` if HTTP does not allow a character of a header, such as a typographic quotation mark."""
    if (wrong := next((character for character in text if not " " <= character <= "~"), None)) is not None:
        msg = (
            f"{what} contains {wrong!r} (U+{ord(wrong):04X}), which HTTP does not allow: "
            f"copy {which} again, without quotation marks and line breaks"
        )
        raise UsageError(msg)


def read_environment(*names: str) -> str | None:
    """Return the value of the first environment variable in `names` that is set and not blank, or None."""
    return next((value for name in names if name.isascii() and (value := os.environ.get(name, "").strip())), None)


@contextmanager
def naming_variable(name: str) -> Generator[None, None, None]:
    """Prefix the message of a `UsageError` raised in the block with the environment variable `name`."""
    try:
        yield
    except UsageError as error:
        msg = f"{name}: {error}"
        raise UsageError(msg) from None


def default_transport() -> Transport:
    """Return a new `HttpxTransport`.

    Raises:
        UsageError: the package chat-transport-httpx is not installed.
    """
    # By name: chat-core depends on no transport, and only a program that uses the default transport loads its package.
    try:
        module = import_module("chat_transport_httpx")
    except ImportError as error:
        msg = "no transport is installed: pip install chat-transport-httpx, or pass one with .with_transport(…)"
        raise UsageError(msg) from error
    transport: Transport = module.HttpxTransport()
    return transport


def require_finish_reasons(method: str, reasons: Mapping[str, FinishReason]) -> tuple[tuple[str, FinishReason], ...]:
    """Return pairs of a server's finish reason, in lowercase, and its meaning.

    Args:
        method: name of the builder method, for the error message.
        reasons: meaning of each finish reason that the server may send.

    Raises:
        UsageError: `reasons` is not a mapping of strings, or a meaning is not a value of `FinishReason`.
    """
    require_text_fields(f"reasons of {method}()", reasons)
    known: tuple[str, ...] = get_args(FinishReason)
    for reason, meaning in reasons.items():
        if meaning not in known:
            msg = f"{method}(): the meaning of {reason!r} must be one of {', '.join(known)}, not {meaning!r}"
            raise UsageError(msg)
    return tuple([(reason.lower(), meaning) for reason, meaning in reasons.items()])
