"""Server-side tools, and tools whose schema is built into the API.

The default `version` of each tool is the version that most models accept. A tool without a class in this module is
declared as a mapping in the API's format.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, final

from chat_core.errors import UsageError


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class UserLocation:
    """Approximate location of the user. `country` has two letters, `timezone` is a name such as `Europe/Paris`."""

    city: str | None = None
    region: str | None = None
    country: str | None = None
    timezone: str | None = None

    def to_wire(self) -> dict[str, object]:
        """Return the location as a JSON object in the API's format."""
        fields = {"city": self.city, "region": self.region, "country": self.country, "timezone": self.timezone}
        return {"type": "approximate", **{name: value for name, value in fields.items() if value is not None}}


def _native_declaration(kind: str, name: str, **fields: object) -> dict[str, object]:
    return {"type": kind, "name": name, **{key: value for key, value in fields.items() if value is not None}}


def _list_or_none(domains: tuple[str, ...] | None) -> list[str] | None:
    return None if domains is None else list(domains)


def _require_one_list(name: str, allowed: object, blocked: object) -> None:
    if allowed is not None and blocked is not None:
        msg = f"{name} accepts allowed_domains or blocked_domains, not both: remove one of them"
        raise UsageError(msg)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class WebSearch:
    """A web search tool that the API runs.

    Attributes:
        max_uses: maximum number of searches per response.
        allowed_domains: domains to search. Cannot be combined with `blocked_domains`.
        blocked_domains: domains to leave out. Cannot be combined with `allowed_domains`.
        user_location: location for local results.
        version: date in the type of the tool.
    """

    max_uses: int | None = None
    allowed_domains: tuple[str, ...] | None = None
    blocked_domains: tuple[str, ...] | None = None
    user_location: UserLocation | None = None
    version: str = "20250305"

    def __post_init__(self) -> None:
        _require_one_list("WebSearch", self.allowed_domains, self.blocked_domains)

    @property
    def beta(self) -> str | None:
        """Always `None`, because the tool requires no beta feature."""
        return None

    def to_wire(self) -> dict[str, object]:
        """Return the tool declaration in the API's format."""
        return _native_declaration(
            f"web_search_{self.version}",
            "web_search",
            max_uses=self.max_uses,
            allowed_domains=_list_or_none(self.allowed_domains),
            blocked_domains=_list_or_none(self.blocked_domains),
            user_location=None if self.user_location is None else self.user_location.to_wire(),
        )


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class WebFetch:
    """A tool, run by the API, that fetches web pages and PDFs whose URLs are in the conversation.

    Attributes:
        max_uses: maximum number of fetches per response.
        allowed_domains: domains to fetch from. Cannot be combined with `blocked_domains`.
        blocked_domains: domains to leave out. Cannot be combined with `allowed_domains`.
        citations: whether the model may cite the fetched documents.
        max_content_tokens: limit of the tokens of a document.
        version: date in the type of the tool.
    """

    max_uses: int | None = None
    allowed_domains: tuple[str, ...] | None = None
    blocked_domains: tuple[str, ...] | None = None
    citations: bool | None = None
    max_content_tokens: int | None = None
    version: str = "20250910"

    def __post_init__(self) -> None:
        _require_one_list("WebFetch", self.allowed_domains, self.blocked_domains)

    @property
    def beta(self) -> str | None:
        """The beta feature that the first version requires, or `None` for later versions."""
        return "web-fetch-2025-09-10" if self.version == "20250910" else None

    def to_wire(self) -> dict[str, object]:
        """Return the tool declaration in the API's format."""
        return _native_declaration(
            f"web_fetch_{self.version}",
            "web_fetch",
            max_uses=self.max_uses,
            allowed_domains=_list_or_none(self.allowed_domains),
            blocked_domains=_list_or_none(self.blocked_domains),
            citations=None if self.citations is None else {"enabled": self.citations},
            max_content_tokens=self.max_content_tokens,
        )


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class CodeExecution:
    """A tool that runs code in a container of the API. Files that are sent by id are available in the container."""

    version: str = "20250825"

    @property
    def beta(self) -> str | None:
        """The beta feature that the first two versions require, or `None` for later versions."""
        betas = {"20250522": "code-execution-2025-05-22", "20250825": "code-execution-2025-08-25"}
        return betas.get(self.version)

    def to_wire(self) -> dict[str, object]:
        """Return the tool declaration in the API's format."""
        return _native_declaration(f"code_execution_{self.version}", "code_execution")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSearch:
    """A tool with which the model finds tools that are declared with `defer_loading`.

    The API runs the search. `by` is the search method.
    """

    by: Literal["bm25", "regex"] = "bm25"
    version: str = "20251119"

    @property
    def beta(self) -> str | None:
        """Always `None`, because the tool requires no beta feature."""
        return None

    def to_wire(self) -> dict[str, object]:
        """Return the tool declaration in the API's format."""
        return _native_declaration(f"tool_search_tool_{self.by}_{self.version}", f"tool_search_tool_{self.by}")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Advisor:
    """A tool, run by the API, with which the model consults a stronger model.

    Attributes:
        model: name of the consulted model.
        max_uses: maximum number of consultations per response.
        max_tokens: limit of the output tokens of a consultation.
        version: date in the type of the tool.
    """

    model: str
    max_uses: int | None = None
    max_tokens: int | None = None
    version: str = "20260301"

    @property
    def beta(self) -> str | None:
        """The beta feature that this tool requires."""
        return "advisor-tool-2026-03-01"

    def to_wire(self) -> dict[str, object]:
        """Return the tool declaration in the API's format."""
        return _native_declaration(
            f"advisor_{self.version}",
            "advisor",
            model=self.model,
            max_uses=self.max_uses,
            max_tokens=self.max_tokens,
        )


@final
@dataclass(frozen=True, slots=True)
class KnownTool:
    """Declaration of a tool whose schema is built into the API: `memory`, `bash`, `computer` or the text editor.

    The application runs the tool. The chat needs a tool of the same name, and this declaration replaces its schema in
    requests.

    Attributes:
        type: type of the tool in the API, such as `memory_20250818`.
        name: name of the tool in the chat.
        fields: further fields of the declaration.
        beta: beta feature that the tool requires.
    """

    type: str
    name: str
    fields: Mapping[str, object] | None = None
    beta: str | None = None

    def to_wire(self) -> dict[str, object]:
        """Return the tool declaration in the API's format."""
        return {"type": self.type, "name": self.name, **(self.fields or {})}
