"""The list of pending approvals: search, filters, sort order, pages and rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final, Self, final
from urllib.parse import urlencode

from chat_core.messages import Messages
from chat_core.tools import ToolDefinition
from chat_store import Snapshot, Waiting

from chat_inbox.argument_view import ArgumentView, find_request, format_line, view_arguments, view_text
from chat_inbox.conversation_view import REQUEST_LENGTH, call_anchor
from chat_inbox.http_errors import HTTPError
from chat_inbox.tool_calls import Path, compute_version, format_relative_time, format_terms, format_utc, waits_for
from chat_inbox.url_keys import encode_key, quote_key

PAGE_SIZE: Final = 25
"""Number of calls on one page of the list."""
AGES: Final = {
    "": ("any time", timedelta()),
    "hour": ("more than 1 hour", timedelta(hours=1)),
    "day": ("more than 1 day", timedelta(days=1)),
    "week": ("more than 7 days", timedelta(days=7)),
}
"""Labels and minimum ages of the age filter, by key."""
SORTS: Final = {
    "": "deadline, earliest first",
    "oldest": "oldest first",
    "newest": "newest first",
    "tool": "tool",
}
"""Labels of the sort orders, by key."""
_MAX_PAGE_DIGITS: Final = 6


@final
@dataclass(frozen=True, slots=True)
class PendingQuery:
    """The search text, filters, sort order and page number from the URL of the list.

    Attributes:
        text: text that a call must contain, ignoring case; empty for all calls.
        tool: name of the tool; empty for all tools.
        conversation: id of the conversation; empty for all conversations.
        person: name of the user to whom the conversation is assigned; empty for all users.
        age: key of `AGES`.
        sort: key of `SORTS`.
        page: page number, counted from 1.
    """

    text: str = ""
    tool: str = ""
    conversation: str = ""
    person: str = ""
    age: str = ""
    sort: str = ""
    page: int = 1

    @classmethod
    def parse(cls, params: Mapping[str, str]) -> Self:
        """Parse the query parameters of a URL.

        Args:
            params: parameters by name. Unknown names are ignored.

        Raises:
            HTTPError: 400 if `age`, `sort` or `page` has an unknown value.
        """
        age, sort, page = params.get("age", ""), params.get("sort", ""), params.get("page", "1")
        for name, value, known in (("age", age, AGES), ("sort", sort, SORTS)):
            if value not in known:
                expected = ", ".join([key for key in known if key])
                raise HTTPError(400, f"{name} must be one of {expected}, or be left out, not {value[:60]!r}.")
        if not (page.isascii() and page.isdigit() and len(page) <= _MAX_PAGE_DIGITS and int(page)):
            raise HTTPError(400, f"page must be a whole number of at least 1, not {page[:60]!r}: open the list again.")
        text, conversation = params.get("q", "").strip(), params.get("conversation", "").strip()
        return cls(text, params.get("tool", ""), conversation, params.get("person", ""), age, sort, int(page))

    def encode(self, page: int = 1) -> str:
        """Return the query string for a page of the same list, including the `?`.

        It is empty if all values are defaults.

        Args:
            page: number of the page, counted from 1.
        """
        values = replace(self, page=page).parameters
        return f"?{urlencode(values, errors='replace')}" if values else ""

    @property
    def parameters(self) -> dict[str, str]:
        """The query parameters that differ from their defaults, by name."""
        values = {
            "q": self.text,
            "tool": self.tool,
            "conversation": self.conversation,
            "person": self.person,
            "age": self.age,
            "sort": self.sort,
            "page": str(self.page) if self.page > 1 else "",
        }
        return {name: value for name, value in values.items() if value}

    @property
    def is_filtered(self) -> bool:
        """Whether a search text or a filter is set."""
        return replace(self, sort="", page=1) != PendingQuery()

    @property
    def needs_age(self) -> bool:
        """Whether the age filter or the sort order needs the time of each call."""
        return bool(self.age) or self.sort in ("oldest", "newest")

    def matches(self, item: Waiting) -> bool:
        """Return whether a call matches the search and all filters except the age.

        Args:
            item: call from the store.
        """
        wait = item.wait
        if self.tool not in ("", wait.name) or self.conversation not in ("", item.conversation):
            return False
        if self.person not in ("", item.person):
            return False
        if not self.text:
            return True
        fields = [wait.name, item.conversation, item.person or "", wait.error or ""]
        for name, value in wait.arguments.items():
            fields += [name, format_line(value)]  # as the page shows them
            if isinstance(value, str):
                fields.append(value)
        lines = [" ".join(field.split()).casefold() for field in fields]
        return " ".join(self.text.split()).casefold() in "\n".join(lines)


def asked_at(messages: Messages, path: Path) -> datetime | None:
    """Return the time at which the model made a call, or None if there is no such call.

    Args:
        messages: history that contains the call.
        path: call ids, from the outermost call to this one.
    """
    for content in messages:
        for turn in content.turns:
            for tool in turn.tools:
                if tool.id == path[0]:
                    if len(path) == 1:
                        return turn.created_at
                    return asked_at(tool.inner, path[1:]) if tool.inner is not None else None
    return None


def order_calls(
    items: Sequence[Waiting], query: PendingQuery, snapshots: Mapping[str, Snapshot | None], now: datetime
) -> list[Waiting]:
    """Return the calls that match the age filter of a query, in the query's sort order.

    Args:
        items: calls that match all other filters, earliest deadline first.
        query: the query with the age filter and the sort order.
        snapshots: conversations by id, if `query.needs_age`. A call whose conversation is missing counts as new.
        now: current time, as an aware datetime.
    """
    if query.sort == "tool":
        items = sorted(items, key=lambda item: item.wait.name.casefold())
    if not query.needs_age:
        return list(items)
    times: list[tuple[datetime, Waiting]] = []
    for item in items:
        snapshot = snapshots.get(item.conversation)
        times.append(((asked_at(snapshot.messages, item.wait.path) if snapshot else None) or now, item))
    times = [(asked, item) for asked, item in times if now - asked >= AGES[query.age][1]]
    if query.sort in ("oldest", "newest"):
        times.sort(key=lambda pair: pair[0], reverse=query.sort == "newest")
    return [item for _, item in times]


@final
@dataclass(frozen=True, slots=True)
class PendingRow:
    """The template data of one call, for the list and for the page that confirms a decision about several calls.

    Attributes:
        url: URL of the call, relative to the inbox.
        title: title of the conversation, or its id.
        person: user to whom the conversation is assigned.
        description: description of the tool, or an empty string.
        values: read-only views of the arguments.
        request: last message of the user before the call, if the person may see the conversation.
        field: name of the form field that selects the call, or None if it must be decided on its own page.
        version: version of the call that a decision must repeat.
        asked, moment: time of the call, and its deadline or start time, in ISO format.
        asked_text, terms: the same times relative to now.
        asked_when, moment_when: the same times in UTC.
        late: whether `moment` is in the past.
        content_version: identifier of everything that the row shows.
    """

    url: str
    anchor: str
    conversation: str
    title: str
    person: str | None
    kind: str
    name: str
    description: str
    values: tuple[ArgumentView, ...]
    request: ArgumentView | None
    error: str | None
    field: str | None
    version: str
    asked: str
    asked_text: str
    asked_when: str
    moment: str
    terms: str
    moment_when: str
    late: bool

    @property
    def content_version(self) -> str:
        """The identifier of everything that the row shows, apart from relative times."""
        return f"{self.version} {self.kind} {self.title} {self.person} {self.error} {self.late}"


def build_row(
    item: Waiting, snapshot: Snapshot | None, definition: ToolDefinition | None, now: datetime, title: str
) -> PendingRow:
    """Build the row of a call.

    Args:
        item: call from the store.
        snapshot: conversation of the call, or None if the person may not see it.
        definition: definition of the tool, or None if it is unknown.
        now: current time, as an aware datetime.
        title: title of the conversation, or its id.
    """
    wait, moment = item.wait, item.wait.at or item.wait.expires_at
    tool = None
    if snapshot is not None:
        try:
            tool = snapshot.messages.tool(*wait.path)
        except KeyError:  # it was removed after the list was read
            tool = None
    asked = asked_at(snapshot.messages, wait.path) if snapshot is not None else None
    request = find_request(snapshot.messages, wait.path[0]) if snapshot is not None else ""
    selectable = tool is not None and waits_for(tool) in ("approval", "schedule")
    declaration = definition.declaration if definition is not None else None
    return PendingRow(
        f"conversations/{quote_key((item.conversation,))}#{call_anchor(wait.path)}",
        call_anchor(wait.path),
        item.conversation,
        title,
        item.person,
        wait.kind,
        wait.name,
        declaration.description if declaration else "",
        view_arguments(dict(wait.arguments), declaration.parameters if declaration else None),
        view_text(request, limit=REQUEST_LENGTH) if request else None,
        wait.error,
        field_name(item.conversation, wait.path) if selectable else None,
        compute_version(tool) if tool is not None else "",
        asked.isoformat() if asked else "",
        f"asked {format_relative_time(asked, now)}" if asked else "",
        format_utc(asked) if asked else "",
        moment.isoformat() if moment else "",
        format_terms(wait.at, wait.expires_at, now),
        format_utc(moment) if moment else "",
        moment is not None and moment <= now,
    )


def field_name(conversation: str, path: Path) -> str:
    """Return the name of the form field that selects a call. Its value is the version of the call.

    Args:
        conversation: id of the conversation.
        path: call ids, from the outermost call to this one.
    """
    return f"call:{encode_key(conversation)}/{encode_key(*path)}"
