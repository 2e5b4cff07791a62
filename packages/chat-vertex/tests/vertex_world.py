"""A loopback server for token requests and Vertex AI, and generated credentials."""

from __future__ import annotations

import functools
import json
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qsl

from chat_testing import Exchange, LoopbackServer
from chat_vertex.credentials import TOKEN_URI
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

EMAIL = "robot@my-project.iam.gserviceaccount.com"
VARIABLES = (
    "VERTEX_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY", "ANTHROPIC_API_KEY", "VERTEX_PROJECT_ID", "VERTEX_REGION",
    "GOOGLE_APPLICATION_CREDENTIALS", "GCE_METADATA_HOST", "GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_LOCATION",
    "GOOGLE_VERTEX_BASE_URL", "ANTHROPIC_VERTEX_PROJECT_ID", "CLOUD_ML_REGION", "ANTHROPIC_VERTEX_BASE_URL",
)  # fmt: skip
GEMINI_ANSWER = {
    "candidates": [{"content": {"role": "model", "parts": [{"text": "Hi"}]}, "finishReason": "STOP"}],
    "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 2, "totalTokenCount": 3},
}
CLAUDE_ANSWER = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "content": [{"type": "text", "text": "Hi"}],
    "stop_reason": "end_turn",
    "usage": {"input_tokens": 1, "output_tokens": 2},
}
JSON = {"content-type": "application/json"}


@functools.cache
def key_pair() -> tuple[str, str]:
    """Return the private and the public key of the service account, in PEM format."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    return private.decode(), public.decode()


def account_json(token_uri: str = TOKEN_URI) -> dict[str, object]:
    """Return the content of a service account's key file."""
    return {
        "type": "service_account",
        "project_id": "file-project",
        "private_key_id": "key-id-1",
        "private_key": key_pair()[0],
        "client_email": EMAIL,
        "token_uri": token_uri,
    }


def user_json(token_uri: str = TOKEN_URI) -> dict[str, object]:
    """Return the content of the file that `gcloud auth application-default login` writes."""
    return {
        "type": "authorized_user",
        "client_id": "client-1.apps.googleusercontent.com",
        "client_secret": "client-secret-1",
        "refresh_token": "refresh-secret-1",
        "quota_project_id": "billed-project",
        "token_uri": token_uri,
    }


class Clock:
    """Clock that only a test advances."""

    def __init__(self) -> None:
        self.now = datetime(2026, 11, 23, 12, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def move(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


class Google:
    """Token server, metadata server and Vertex AI in one loopback server.

    Attributes:
        tokens: forms or paths of the token requests, in order.
        calls: all other requests, in order.
        lifetime: lifetime of the next tokens in seconds.
        rejected: tokens that Vertex AI answers with status 401.
        answer_token: replaces the answer of the token server.
        answer_call: replaces the answer of Vertex AI.
    """

    def __init__(self) -> None:
        self.tokens: list[dict[str, str]] = []
        self.calls: list[Exchange] = []
        self.lifetime: object = 3600
        self.rejected: set[str] = set()
        self.answer_token: Callable[[Exchange], None] | None = None
        self.answer_call: Callable[[Exchange], None] | None = None
        self._lock = threading.Lock()
        self._server = LoopbackServer(self._handle)

    def __enter__(self) -> Self:
        self._server.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.__exit__(kind, error, trace)

    @property
    def host(self) -> str:
        return self._server.host

    @property
    def url(self) -> str:
        return f"http://{self.host}"

    @property
    def token_uri(self) -> str:
        return f"{self.url}/token"

    def _handle(self, exchange: Exchange) -> None:
        if exchange.path == "/token" or exchange.path.startswith("/computeMetadata/"):
            self._token(exchange)
        else:
            self._call(exchange)

    def _token(self, exchange: Exchange) -> None:
        with self._lock:
            form = dict(parse_qsl(exchange.body.decode()))
            self.tokens.append(form | {"path": exchange.path, "flavor": exchange.headers.get("metadata-flavor", "")})
            token = f"secret-token-{len(self.tokens)}"
        if self.answer_token is not None:
            self.answer_token(exchange)
        else:
            body = {"access_token": token, "expires_in": self.lifetime, "token_type": "Bearer"}
            exchange.answer(200, JSON, json.dumps(body).encode())

    def _call(self, exchange: Exchange) -> None:
        with self._lock:
            self.calls.append(exchange)
        token = exchange.headers.get("authorization", "").removeprefix("Bearer ")
        if token in self.rejected:
            error = {"error": {"code": 401, "message": f"the token {token} is invalid", "status": "UNAUTHENTICATED"}}
            exchange.answer(401, JSON, json.dumps(error).encode())
        elif self.answer_call is not None:
            self.answer_call(exchange)
        else:
            answer = CLAUDE_ANSWER if "/publishers/anthropic/" in exchange.path else GEMINI_ANSWER
            exchange.answer(200, JSON, json.dumps(answer).encode())


def sent(exchange: Exchange) -> Any:
    """Return the body of a request as JSON."""
    return json.loads(exchange.body)
