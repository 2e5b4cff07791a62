"""The routes that export, import and reopen sessions."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping
from datetime import UTC, datetime
from hashlib import sha256
from typing import Final, final
from uuid import uuid4

from chat_core import Messages, PendingToolsError, UsageError
from chat_core.errors import InvalidDocumentError, NewerVersionError
from chat_inbox.api import json_response
from chat_inbox.http_errors import HTTPError
from chat_store import MetaChanges
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from chat_service.chat_routes import PrincipalResolver
from chat_service.context import ServiceContext
from chat_service.request_values import read_metadata, read_object, read_title
from chat_service.runs import Runs, turn_count
from chat_service.session_documents import session_detail

FORMAT: Final = "chat-service/session"
VERSION: Final = 1


@final
class ExportSignatures:
    """A signer of exported sessions. The signature prevents a client from importing a history that it wrote itself.

    Args:
        secret: secret of the service. With `None`, a random secret is used, and only this process accepts its exports.
    """

    def __init__(self, secret: bytes | None) -> None:
        self._key = hmac.digest(secret or secrets.token_bytes(32), FORMAT.encode(), "sha256")

    def sign(self, owner: str, document: str) -> str:
        """Return the signature of a document.

        Args:
            owner: name of the user who owns the session.
            document: the stored conversation.
        """
        parts = [sha256(text.encode(errors="surrogatepass")).digest() for text in (owner, document)]
        return hmac.new(self._key, b"".join(parts), "sha256").hexdigest()

    def verify(self, owner: str, document: str, signature: str) -> bool:
        """Return whether a signature is valid for a user's document.

        Args:
            owner: name of the user.
            document: the stored conversation.
            signature: the signature to check.
        """
        return hmac.compare_digest(self.sign(owner, document), signature if signature.isascii() else "")


@final
class SessionArchive:
    """Routes and endpoints that export, import and reopen sessions.

    Args:
        context: objects shared by the parts of the service.
        runs: starts, finds and cancels the runs of the service.
        authenticate: function that returns the user who sent a request.
        signatures: signer of the exported documents.
    """

    def __init__(
        self, context: ServiceContext, runs: Runs, authenticate: PrincipalResolver, signatures: ExportSignatures
    ) -> None:
        self._flow = context.flow
        self._store = context.store
        self._settings = context.settings
        self._runs = runs
        self._authenticate = authenticate
        self._signatures = signatures

    def routes(self) -> list[Route]:
        """Return the routes."""
        return [
            Route("/api/v1/sessions/{session}/export", self.export, methods=["GET"]),
            Route("/api/v1/sessions/{session}/reopen", self.reopen, methods=["POST"]),
            Route("/api/v1/import", self.load, methods=["POST"]),
        ]

    async def export(self, request: Request) -> Response:
        """Return a session, open or closed, as a document that `POST /api/v1/import` accepts."""
        principal = await self._authenticate(request)
        meta = await self._runs.require_own_session(principal, request.path_params["session"], closed=True)
        document = (await self._store.load(meta.id)).messages.to_json()
        content = {
            "format": FORMAT,
            "version": VERSION,
            "exported_at": datetime.now(UTC).isoformat(),
            "title": meta.title,
            "metadata": meta.data.get("metadata"),
            "document": document,
            "signature": self._signatures.sign(principal.name, document),
        }
        response = json_response(content)
        response.headers["content-disposition"] = f'attachment; filename="session-{meta.id}.json"'
        return response

    async def reopen(self, request: Request) -> Response:
        """Open a closed session again, and return the session. An open session is not changed."""
        principal = await self._authenticate(request)
        meta = await self._runs.require_own_session(principal, request.path_params["session"], closed=True)
        await self._store.reopen(meta.id)
        return json_response(await self._load_detail(meta.id))

    async def load(self, request: Request) -> Response:
        """Create a session from an exported document, and return the new session. No session is overwritten."""
        principal = await self._authenticate(request)
        _, fields = await read_object(request, self._settings)
        messages = self._read_messages(fields, principal.name)
        meta: MetaChanges = {
            "flow": self._flow.name,
            "title": read_title(fields),
            "data": {"metadata": read_metadata(fields), **turn_count(messages)},
        }
        try:
            session_id = await self._store.create(messages, id=str(uuid4()), owner=principal.name, meta=meta)
        except UsageError as error:
            raise HTTPError(400, f"The session cannot be stored: {error}.") from error
        return json_response(await self._load_detail(session_id), 201)

    def _read_messages(self, fields: Mapping[str, object], owner: str) -> Messages:
        """Return the conversation of an exported document. Its grants are removed, and all of its calls have ended.

        Raises:
            HTTPError: 400 if the document is not an unchanged export of this user, 409 if one of its calls waits.
        """
        if fields.get("format") != FORMAT or fields.get("version") != VERSION:
            raise HTTPError(400, f'The fields format and version must be "{FORMAT}" and {VERSION}, as exported.')
        document, signature = fields.get("document"), fields.get("signature")
        if not isinstance(document, str) or not isinstance(signature, str):
            raise HTTPError(400, "The fields document and signature must be strings, as exported.")
        if not self._signatures.verify(owner, document, signature):
            text = "it was changed, or exported by another user or by a service with another secret"
            raise HTTPError(400, f"The signature does not belong to this document: {text}.")
        try:
            return Messages.from_json(document).fork()
        except NewerVersionError:
            raise HTTPError(400, "The document was exported by a newer version of the service.") from None
        except InvalidDocumentError as error:
            raise HTTPError(400, f"The document is damaged: {error}.") from error
        except PendingToolsError:
            text = "Calls of this document have not ended, so they could run in both sessions:"
            raise HTTPError(409, f"{text} decide them in the first session, and export it again.") from None

    async def _load_detail(self, session_id: str) -> dict[str, object]:
        return session_detail(await self._store.meta(session_id), (await self._store.load(session_id)).messages)
