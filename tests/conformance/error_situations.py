"""Situations in which a request fails, with the response of the server and the error message for it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from chat_core import errors
from chat_core.errors import ChatError

Ending: TypeAlias = Literal["whole", "cut", "reset", "stall", "silence"]
Method: TypeAlias = Literal["complete", "stream"]

BOTH: Final[tuple[Method, ...]] = ("complete", "stream")
JSON: Final = {"content-type": "application/json"}
HTML: Final = {"content-type": "text/html; charset=utf-8"}
TEXT: Final = {"content-type": "text/plain"}
SSE: Final = {"content-type": "text/event-stream"}

KEY: Final = "check that the API key is valid and belongs to this server"
INPUT: Final = "change the input that the provider rejected"
SHORTEN: Final = "shorten the conversation, for example with with_context()"
WHOLE: Final = "send the whole conversation, without previous_response_id"
OPTIONS: Final = "check the options, tools and files against what the model supports"
NAME: Final = "check the name of the model and the base URL"
LATER: Final = "try again later, or allow more retries with with_retry()"
RIGHTS: Final = "check what the API key and its account may use"
PLAN: Final = "check the plan and the balance of the account"
FEWER: Final = "send fewer requests, or allow more retries with with_retry()"
TIMEOUT: Final = "{p}: {at}: no data within 0.5 seconds (…) (next step: ChatOptions(timeout=…) sets the limit)"
BROKEN: Final = "{p}: {at}: the connection broke (…) (next step: try again, or allow more retries with with_retry())"
AGAIN: Final = "try again, or allow more retries with with_retry()"
API: Final = "check that the base URL and the model belong to this API"
ENDED: Final = (
    f"the stream of {{p}} ended after 0 bytes without %s; usage so far: not reported ({{at}}) (next step: {AGAIN})"
)
TRUNCATED: Final = {
    "claude": f"{{p}}: the stream ended after 0 bytes without `message_stop` ({{at}}) (next step: {AGAIN})",
    "completions": ENDED % "`[DONE]` or a finish reason",
    "gemini": ENDED % "a finish reason",
    "mistral": ENDED % "`[DONE]` or a finish reason",
    "openai": ENDED % "`response.completed`",
    "responses": ENDED % "`response.completed`",
    "vertex": ENDED % "a finish reason",
}

# The names of errors as each vendor documents or sends them, by status. 400 and 500 stand for other 4xx and 5xx.
OPENAI_TYPES: Final = {400: "invalid_request_error", 429: "rate_limit_exceeded", 500: "server_error"}
CLAUDE_TYPES: Final = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    504: "timeout_error",
    529: "overloaded_error",
}
GOOGLE_STATUSES: Final = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    409: "ABORTED",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    501: "UNIMPLEMENTED",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
MISTRAL_TYPES: Final = {400: "invalid_request_error", 429: "rate_limited", 500: "internal_server_error"}


def named(names: Mapping[int, str], status: int) -> str:
    """Return the class name of the error for a status."""
    return names.get(status) or names[400 if status < 500 else 500]


def openai_format(status: int, says: str) -> object:
    # As in the recorded rejections of OpenAI.
    name = "insufficient_quota" if "current quota" in says else named(OPENAI_TYPES, status)
    return {"error": {"message": says, "type": name, "param": None, "code": name if status == 429 else None}}


def claude_format(status: int, says: str) -> object:
    error = {"type": named(CLAUDE_TYPES, status), "message": says}
    return {"type": "error", "error": error, "request_id": "req_011CVEA3SF7rnb3DuBZytqQa"}


def google_format(status: int, says: str) -> object:
    return {"error": {"code": status, "message": says, "status": named(GOOGLE_STATUSES, status)}}


def mistral_format(status: int, says: str) -> object:
    # As in the recorded rejections of Mistral; other servers wrap the fields in an object `error`.
    names = {"object": "error", "message": says, "type": named(MISTRAL_TYPES, status), "param": None, "code": "3000"}
    return {**names, "raw_status_code": status}


ERROR_FORMATS: Final[Mapping[str, Callable[[int, str], object]]] = {
    "claude": claude_format,
    "completions": lambda _, says: {"error": {"message": says}},
    "gemini": google_format,
    "mistral": mistral_format,
    "openai": openai_format,
    "responses": openai_format,
    "vertex": google_format,
}
"""Functions that build the body of an error response in the format of each vendor, from its status and message."""

REPORT: Final = "try again later; if it happens again, give the request id to the provider"


@dataclass(frozen=True, kw_only=True)
class Situation:
    """A response of the server, and the error for it.

    Attributes:
        error: the class of the error.
        message: the message, in which `…` stands for any text. `{p}` is the name of the provider, and `{at}` the method
            and the URL of the request, without the query. Or the message for each vendor.
        status, headers: of the response.
        says: the message in the body, which has the error format of the vendor.
        body: the body, if it is not in the error format of the vendor.
        ends: how the response ends. `silence` sends nothing at all.
        methods: the methods that meet this situation.
        retry_after: seconds to wait before a retry, as reported by the error.
        except_vendors: vendors that report something else in this way.
    """

    error: type[ChatError]
    message: str | Mapping[str, str]
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=lambda: JSON)
    says: str | None = None
    body: bytes = b""
    ends: Ending = "whole"
    methods: tuple[Method, ...] = BOTH
    retry_after: float | None = None
    except_vendors: tuple[str, ...] = ()

    def message_for(self, vendor: str) -> str:
        """The expected message."""
        return self.message if isinstance(self.message, str) else self.message[vendor]

    def body_for(self, vendor: str) -> bytes:
        """The body, in the error format of the vendor if `says` is given."""
        return self.body if self.says is None else json.dumps(ERROR_FORMATS[vendor](self.status, self.says)).encode()


def refused(
    error: type[ChatError],
    status: int,
    says: str,
    step: str,
    *,
    headers: Mapping[str, str] | None = None,
    wait: float | None = None,
    except_vendors: tuple[str, ...] = (),
) -> Situation:
    """A refusal in the error format of the vendor."""
    message = f"{{p}} refused the request with status {status}: {says} ({{at}}) (next step: {step})"
    fields = {**JSON, **(headers or {})}
    return Situation(
        error=error,
        message=message,
        status=status,
        headers=fields,
        says=says,
        retry_after=wait,
        except_vendors=except_vendors,
    )


def page(error: type[ChatError], status: int, body: str, step: str, headers: Mapping[str, str] = HTML) -> Situation:
    """A refusal whose body is not JSON, such as the page of a proxy."""
    kind = headers["content-type"]
    message = (
        f"{{p}} refused the request with status {status}: {body} ({{at}}; the response has the content type '{kind}')"
    )
    message += f" (next step: {step})"
    return Situation(error=error, message=message, status=status, headers=headers, body=body.encode())


def silent(error: type[ChatError], status: int, step: str, headers: Mapping[str, str] = HTML) -> Situation:
    """A refusal without a body."""
    message = f"{{p}} refused the request with status {status}: it said nothing ({{at}}) (next step: {step})"
    return Situation(error=error, message=message, status=status, headers=headers)


def redirect(status: int, location: str, shown: str) -> Situation:
    """A redirect, which is not followed."""
    message = f"{{p}} refused the request with status {status}: a redirect to {shown}; redirects are not followed"
    message += ": check the base URL ({at})"
    return Situation(error=errors.ProviderError, message=message, status=status, headers={"location": location})


def unreadable(message: str, headers: Mapping[str, str], body: bytes, *methods: Method) -> Situation:
    """A response with status 200 whose body is not a response of the API."""
    return Situation(
        error=errors.InvalidResponseError, message=message, headers=headers, body=body, methods=methods or BOTH
    )


WRONG_STRUCTURE: Final = b'{"choices": 5, "content": 5, "candidates": 5, "output": 5, "type": 5}'

RESPONSES: Final[dict[str, Situation]] = {
    # Keys, accounts and models
    "wrong key": refused(errors.AuthenticationError, 401, "Bad key.", KEY),
    "no key": silent(errors.AuthenticationError, 401, KEY),
    "key not valid, with status 400": refused(
        errors.AuthenticationError, 400, "API key not valid. Please pass a valid API key.", KEY
    ),
    "unpaid": refused(errors.QuotaExceededError, 402, "Pay.", PLAN),
    "quota": refused(
        errors.QuotaExceededError,
        429,
        "You exceeded your current quota, please check your plan and billing details.",
        PLAN,
        except_vendors=("claude", "gemini", "mistral", "vertex"),  # which report rate limits in this way
    ),
    "low balance, with status 403": refused(
        errors.QuotaExceededError,
        403,
        "Insufficient balance.",
        PLAN,
        except_vendors=("claude", "gemini", "vertex"),  # whose error names mean that access is denied
    ),
    "forbidden": refused(errors.PermissionDeniedError, 403, "No.", RIGHTS),
    "firewall": page(errors.PermissionDeniedError, 403, "<title>Attention Required!</title>", RIGHTS),
    "country": refused(errors.InvalidRequestError, 451, "Unavailable for legal reasons.", OPTIONS),
    "wrong model": refused(errors.NotFoundError, 404, "The model m does not exist.", NAME),
    "base URL without /v1": Situation(
        error=errors.NotFoundError,
        message=f"{{p}} refused the request with status 404: Not Found ({{at}}) (next step: {NAME})",
        status=404,
        body=b'{"detail": "Not Found"}',
    ),
    "base URL of a web server": page(errors.NotFoundError, 404, "<h1>404 Not Found</h1><hr>nginx", NAME),
    "base URL of another service": page(errors.NotFoundError, 404, "404 page not found", NAME, TEXT),
    "previous response not found": Situation(
        error=errors.NotFoundError,
        message=f"{{p}} refused the request with status 404: Gone. ({{at}}) (next step: {WHOLE})",
        status=404,
        body=b'{"error": {"message": "Gone.", "code": "previous_response_not_found"}}',
    ),
    "gone": refused(errors.InvalidRequestError, 410, "This model was retired.", OPTIONS),
    # The request
    "bad option": refused(errors.InvalidRequestError, 400, "Bad x.", OPTIONS),
    "invalid tool schema": refused(
        errors.InvalidRequestError, 400, "Invalid schema for function 'f': None is not of type 'object'.", OPTIONS
    ),
    "context too long": refused(
        errors.ContextLengthError,
        400,
        "This model's maximum context length is 8192 tokens, however you requested 9000 tokens.",
        SHORTEN,
    ),
    "context too long, with status 413": refused(
        errors.ContextLengthError, 413, "The prompt is too long: 210000 tokens.", SHORTEN
    ),
    "content filter": refused(
        errors.ContentFilteredError,
        400,
        "The prompt triggered the content management policy.",
        INPUT,
    ),
    "no such method": silent(errors.InvalidRequestError, 405, OPTIONS),
    "not acceptable": silent(errors.InvalidRequestError, 406, OPTIONS),
    "length required": page(errors.InvalidRequestError, 411, "Length Required", OPTIONS, TEXT),
    "body too large for a proxy": page(errors.InvalidRequestError, 413, "<h1>413 Too Large</h1>", OPTIONS),
    "address too long": page(errors.InvalidRequestError, 414, "<h1>414 URI Too Long</h1>", OPTIONS),
    "content type refused": refused(errors.InvalidRequestError, 415, "Only JSON.", OPTIONS),
    "invalid field": refused(errors.InvalidRequestError, 422, "x: a field is missing.", OPTIONS),
    "headers too large": silent(errors.InvalidRequestError, 431, OPTIONS),
    "text in place of JSON": page(errors.InvalidRequestError, 400, "Bad Request", OPTIONS, TEXT),
    "error of another format": Situation(
        error=errors.InvalidRequestError,
        message=f"{{p}} refused the request with status 400: Bad. ({{at}}) (next step: {OPTIONS})",
        status=400,
        body=b'{"message": "Bad."}',
    ),
    "truncated JSON error": page(errors.InvalidRequestError, 400, '{"error": {"message": "Ba', OPTIONS, JSON),
    # Limits
    "rate limit": refused(errors.RateLimitedError, 429, "Slow.", FEWER),
    "rate limit with seconds": refused(
        errors.RateLimitedError, 429, "Slow.", FEWER, headers={"retry-after": "7"}, wait=7.0
    ),
    "rate limit with milliseconds": refused(
        errors.RateLimitedError, 429, "Slow.", FEWER, headers={"retry-after-ms": "1500"}, wait=1.5
    ),
    "rate limit with a reset": refused(
        errors.RateLimitedError,
        429,
        "Slow.",
        FEWER,
        headers={"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "6s"},
        wait=6.0,
    ),
    "rate limit of a proxy": page(errors.RateLimitedError, 429, "<h1>Too Many Requests</h1>", FEWER),
    "no capacity": refused(errors.OverloadedError, 498, "Flex tier is full.", LATER),
    "overloaded": refused(
        errors.OverloadedError,
        529,
        "Busy.",
        LATER,
        except_vendors=("gemini", "vertex"),  # which use status 503
    ),
    "overloaded, with status 503": refused(errors.OverloadedError, 503, "Busy.", LATER),
    "maintenance, with seconds": refused(
        errors.OverloadedError, 503, "Back soon.", LATER, headers={"retry-after": "30"}, wait=30.0
    ),
    "nothing said": silent(errors.OverloadedError, 503, LATER, JSON),
    # The server and its proxies
    "request timeout": refused(errors.ServerError, 408, "Too slow.", REPORT),
    "conflict": refused(errors.ServerError, 409, "Conflict.", REPORT),
    "too early": silent(errors.ServerError, 425, REPORT),
    "server error": refused(errors.ServerError, 500, "Oops.", REPORT),
    "not implemented": refused(errors.ServerError, 501, "Not yet.", REPORT),
    "bad gateway": page(errors.ServerError, 502, "<h1>Bad gateway</h1>", REPORT),
    "gateway timeout": page(errors.ServerError, 504, "<h1>Gateway Time-out</h1>", REPORT),
    "no storage": refused(errors.ServerError, 507, "Disk full.", REPORT),
    "cloudflare 520": page(errors.ServerError, 520, "<title>Web server returned an unknown error</title>", REPORT),
    "cloudflare 522": page(errors.ServerError, 522, "<title>Connection timed out</title>", REPORT),
    "cloudflare 524": page(errors.ServerError, 524, "error code: 524", REPORT, TEXT),
    "cloudflare 530": page(errors.ServerError, 530, "error code: 1033", REPORT, TEXT),
    # Redirects
    "moved": redirect(301, "/v2/new", "/v2/new"),
    "login elsewhere": redirect(302, "https://login.example/start?next=key-1234567", "https://login.example/start"),
    "see other": redirect(303, "https://other.example/x#top", "https://other.example/x"),
    "other origin": redirect(307, "https://user@other.example/v2?key=1", "https://other.example/v2"),
    "https": redirect(308, "https://here.example/v1", "https://here.example/v1"),
    "redirect without a location": Situation(
        error=errors.ProviderError,
        message="{p} refused the request with status 300: it said nothing ({at})",
        status=300,
    ),
    # Status 200, and no response of the API
    "login page": unreadable(
        "…{at}…'text/html; charset=utf-8'…begins with b'<title>Login</title>'…check …the base URL…",
        HTML,
        b"<title>Login</title>",
    ),
    "plain text": unreadable("…{at}…'text/plain'…begins with b'ok'…check …the base URL…", TEXT, b"ok"),
    "empty body": unreadable(
        f"…({{at}} returned status 200…, and the body is empty) (next step: {API})", JSON, b"", "complete"
    ),
    "another structure": unreadable(f"{{p}}: …({{at}}) (next step: {API})", JSON, WRONG_STRUCTURE, "complete"),
    "another structure in a stream": Situation(
        error=errors.InvalidResponseError,
        message=f"{{p}}: …({{at}}) (next step: {API})",
        headers=SSE,
        body=b"data: 5\n\n",
        methods=("stream",),
        except_vendors=("claude",),  # whose unknown events are ignored
    ),
    "truncated JSON": unreadable(
        "…({at} returned status 200…begins with b'{\"id\": ') " + f"(next step: {API})", JSON, b'{"id": ', "complete"
    ),
    "JSON in place of a stream": unreadable(
        "{p}: {at}: expected a stream …, but the response has the content type 'application/json' and begins with b'{}'"
        " (next step: check the base URL)",
        JSON,
        b"{}",
        "stream",
    ),
    "stream in place of JSON": unreadable(
        f"…({{at}} returned status 200 with the content type 'text/event-stream'…) (next step: {API})",
        SSE,
        b"data: {}\n\n",
        "complete",
    ),
    "unknown compression": unreadable(
        "{p}: {at}: the response has the content-encoding 'br'; supported are deflate, gzip, identity, x-gzip "
        "(next step: check the base URL and the proxy)",
        {**JSON, "content-encoding": "br"},
        b"\x0b\x02\x80",
    ),
    # Connections that break
    "hang-up": Situation(error=errors.NetworkError, message=BROKEN, status=0, ends="cut"),
    "reset": Situation(error=errors.NetworkError, message=BROKEN, status=0, ends="reset"),
    "another protocol": Situation(
        error=errors.InvalidResponseError,
        message="{p}: {at}: the peer violated the HTTP protocol (…) (next step: check the base URL and the proxy)",
        status=0,
        body=b"SSH-2.0-OpenSSH_9.9\r\n\r\n",
        ends="cut",
    ),
    "broken body": Situation(
        error=errors.NetworkError,
        message=BROKEN,
        body=b'{"id": ',
        ends="cut",
        methods=("complete",),
    ),
    "broken stream": Situation(
        error=errors.NetworkError,
        message=BROKEN,
        headers=SSE,
        body=b": hello\n\n",
        ends="reset",
        methods=("stream",),
    ),
    "stream without an end": Situation(
        error=errors.StreamTruncatedError,
        message=TRUNCATED,
        headers=SSE,
        body=b": hello\n\n",
        methods=("stream",),
    ),
    # Timeouts
    "silence": Situation(
        error=errors.RequestTimeoutError,
        message=TIMEOUT,
        status=0,
        ends="silence",
    ),
    "silence within a body": Situation(
        error=errors.RequestTimeoutError,
        message=TIMEOUT,
        body=b'{"id": ',
        ends="stall",
        methods=("complete",),
    ),
    "silence within a stream": Situation(
        error=errors.RequestTimeoutError,
        message=TIMEOUT,
        headers=SSE,
        body=b": hello\n\n",
        ends="stall",
        methods=("stream",),
    ),
}
