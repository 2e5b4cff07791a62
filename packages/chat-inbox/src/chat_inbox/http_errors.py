"""HTTP errors of the inbox, which are rendered as a page or as `application/problem+json`."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import final


@final
class HTTPError(Exception):
    """An error response to a request. The request has changed nothing.

    Attributes:
        status: HTTP status code.
        detail: message for the user, with the reason and a suggestion.
        errors: messages about individual fields, by the field's path in the arguments.
    """

    def __init__(self, status: int, detail: str, *, errors: Mapping[str, str] | None = None) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.errors: dict[str, str] = dict(errors or {})

    @property
    def title(self) -> str:
        """The standard phrase for the status code, such as `Not Found`."""
        return HTTPStatus(self.status).phrase

    @property
    def document(self) -> dict[str, object]:
        """The error as the JSON body of a problem details response (RFC 9457)."""
        content: dict[str, object] = {
            "type": "about:blank",
            "title": self.title,
            "status": self.status,
            "detail": self.detail,
        }
        return {**content, "errors": self.errors} if self.errors else content
