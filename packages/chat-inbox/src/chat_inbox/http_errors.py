"""What is told to somebody whose request will not do: a status, and a sentence."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import final


@final
class ProblemError(Exception):
    """A request that is refused. Nothing was changed.

    Attributes:
        status: of HTTP.
        detail: a sentence that says why, and what to do.
        errors: what is wrong with single fields, by their place in the arguments.
    """

    def __init__(self, status: int, detail: str, *, errors: Mapping[str, str] | None = None) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.errors = dict(errors or {})

    @property
    def title(self) -> str:
        """The status in words."""
        return HTTPStatus(self.status).phrase

    @property
    def document(self) -> dict[str, object]:
        """As `application/problem+json` (RFC 9457)."""
        told: dict[str, object] = {
            "type": "about:blank",
            "title": self.title,
            "status": self.status,
            "detail": self.detail,
        }
        return {**told, "errors": self.errors} if self.errors else told
