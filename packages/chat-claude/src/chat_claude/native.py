"""Tools that the API runs itself, or whose form it knows, with their settings.

Each has the version of its type that most models take; another one is chosen with `version`. A tool that is not here is
passed in the API's own words, as a mapping.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, final

from chat_core.errors import UsageError


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class UserLocation:
    """About where the user is. `country` has two letters, `timezone` is like `Europe/Paris`."""

    city: str | None = None
    region: str | None = None
    country: str | None = None
    timezone: str | None = None

    def to_wire(self) -> dict[str, object]:
        """As the API says it."""
        fields = {"city": self.city, "region": self.region, "country": self.country, "timezone": self.timezone}
        return {"type": "approximate", **{name: value for name, value in fields.items() if value is not None}}


def _declared(kind: str, name: str, **fields: object) -> dict[str, object]:
    return {"type": kind, "name": name, **{key: value for key, value in fields.items() if value is not None}}


def _listed(domains: tuple[str, ...] | None) -> list[str] | None:
    return None if domains is None else list(domains)


def _one_list(name: str, allowed: object, blocked: object) -> None:
    if allowed is not None and blocked is not None:
        msg = f"{name} takes allowed_domains or blocked_domains, not both: drop one of them"
        raise UsageError(msg)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class WebSearch:
    """Search the web. At most `max_uses` times in one answer, in or outside of some domains."""

    max_uses: int | None = None
    allowed_domains: tuple[str, ...] | None = None
    blocked_domains: tuple[str, ...] | None = None
    user_location: UserLocation | None = None
    version: str = "20250305"

    def __post_init__(self) -> None:
        _one_list("WebSearch", self.allowed_domains, self.blocked_domains)

    @property
    def beta(self) -> str | None:
        """It needs none."""
        return None

    def to_wire(self) -> dict[str, object]:
        """Its declaration."""
        return _declared(
            f"web_search_{self.version}",
            "web_search",
            max_uses=self.max_uses,
            allowed_domains=_listed(self.allowed_domains),
            blocked_domains=_listed(self.blocked_domains),
            user_location=None if self.user_location is None else self.user_location.to_wire(),
        )


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class WebFetch:
    """Fetch pages and PDFs that the conversation names. `citations` lets the answer say where each claim stands."""

    max_uses: int | None = None
    allowed_domains: tuple[str, ...] | None = None
    blocked_domains: tuple[str, ...] | None = None
    citations: bool | None = None
    max_content_tokens: int | None = None
    version: str = "20250910"

    def __post_init__(self) -> None:
        _one_list("WebFetch", self.allowed_domains, self.blocked_domains)

    @property
    def beta(self) -> str | None:
        """The header that the first version needs."""
        return "web-fetch-2025-09-10" if self.version == "20250910" else None

    def to_wire(self) -> dict[str, object]:
        """Its declaration."""
        return _declared(
            f"web_fetch_{self.version}",
            "web_fetch",
            max_uses=self.max_uses,
            allowed_domains=_listed(self.allowed_domains),
            blocked_domains=_listed(self.blocked_domains),
            citations=None if self.citations is None else {"enabled": self.citations},
            max_content_tokens=self.max_content_tokens,
        )


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class CodeExecution:
    """Run code in a container of the API's. Files of the conversation are there where they were sent by id."""

    version: str = "20250825"

    @property
    def beta(self) -> str | None:
        """The header that the first versions need."""
        known = {"20250522": "code-execution-2025-05-22", "20250825": "code-execution-2025-08-25"}
        return known.get(self.version)

    def to_wire(self) -> dict[str, object]:
        """Its declaration."""
        return _declared(f"code_execution_{self.version}", "code_execution")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSearch:
    """Let the model look for tools that were declared with `defer_loading`."""

    by: Literal["bm25", "regex"] = "bm25"
    version: str = "20251119"

    @property
    def beta(self) -> str | None:
        """It needs none."""
        return None

    def to_wire(self) -> dict[str, object]:
        """Its declaration."""
        return _declared(f"tool_search_tool_{self.by}_{self.version}", f"tool_search_tool_{self.by}")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Advisor:
    """Let the model ask a stronger one."""

    model: str
    max_uses: int | None = None
    max_tokens: int | None = None
    version: str = "20260301"

    @property
    def beta(self) -> str | None:
        """The header that it needs."""
        return "advisor-tool-2026-03-01"

    def to_wire(self) -> dict[str, object]:
        """Its declaration."""
        return _declared(
            f"advisor_{self.version}",
            "advisor",
            model=self.model,
            max_uses=self.max_uses,
            max_tokens=self.max_tokens,
        )


@final
@dataclass(frozen=True, slots=True)
class KnownTool:
    """A tool whose form the API knows and which the caller runs: `memory`, `bash`, `computer`, the text editor.

    A tool of the same name must be in the chat; it is declared in this form and not by its schema.
    """

    type: str
    name: str
    fields: Mapping[str, object] | None = None
    beta: str | None = None

    def to_wire(self) -> dict[str, object]:
        """Its declaration."""
        return {"type": self.type, "name": self.name, **(self.fields or {})}
