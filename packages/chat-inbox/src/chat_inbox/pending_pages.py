"""The page that lists the pending approvals, and the page that confirms decisions about several calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, final
from urllib.parse import urlencode

from chat_core import Wait
from chat_core.approvals import Principal
from chat_store import Snapshot, Waiting
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from chat_inbox.approval_service import Action, Choice
from chat_inbox.bulk_decisions import Outcome, decide_selected, find_outcomes, find_selected, read_selections
from chat_inbox.conversation_facts import load_facts
from chat_inbox.http_errors import HTTPError
from chat_inbox.pages import InboxPages, Posted, read_posted_form
from chat_inbox.pending_list import AGES, PAGE_SIZE, SORTS, PendingQuery, PendingRow, build_row, field_name, order_calls
from chat_inbox.render import render, render_signed
from chat_inbox.security import require_same_origin

_MAX_QUERY: Final = 4000
"""Maximum length of a query string with selected calls. Many proxies refuse an address of more than 8 kB."""
_ACTIONS: Final[Mapping[str, Action]] = {"approve": "approve", "reject": "reject"}


@final
class PendingPages(InboxPages):
    """Routes and endpoints of the list, and of decisions about several calls."""

    def routes(self) -> list[Route]:
        """Return all routes of the list."""
        return [
            Route("/", self.list, methods=["GET"]),
            Route("/decide", self.confirm, methods=["GET"]),
            Route("/decide", self.decide, methods=["POST"]),
            Route("/decided", self.show_outcomes, methods=["GET"]),
        ]

    async def list(self, request: Request) -> Response:
        """Render the list of pending approvals."""
        person = await self._require_person(request)
        return await self._render_list(request, person)

    async def confirm(self, request: Request) -> Response:
        """Ask for a confirmation of a decision about the selected calls."""
        person = await self._require_person(request)
        # A link must not fill in the reason and the note, which are recorded as words of the user.
        chosen = {name: value for name, value in request.query_params.items() if _is_choice(name)}
        return await self._confirm(request, person, chosen)

    async def _confirm(self, request: Request, person: Principal, form: Posted) -> Response:
        try:
            return await self._render_confirmation(request, person, form)
        except HTTPError as error:
            return await self._render_list(request, person, error)

    async def decide(self, request: Request) -> Response:
        """Store a confirmed decision about the selected calls, and redirect to its outcomes.

        If a call was not decided, the response shows the outcomes and what the user wrote, which no address contains.
        """
        require_same_origin(request)
        person = await self._require_person(request)
        posted = await read_posted_form(request)
        if posted.get("confirmed") != "yes":  # the selection was too long for an address, or its calls were refused
            return await self._confirm(request, person, posted)
        action, selections = _read_action(posted), read_selections(posted)
        try:
            self._tokens.verify(request, person, posted.get("token", ""))
        except HTTPError as error:  # such as after a restart of the server: what the user wrote is kept
            return await self._render_confirmation(request, person, posted, error)
        reason = posted.get("text", "").strip() or None
        choice = Choice(
            action, text=reason if action == "reject" else None, note=posted.get("note", "").strip() or None
        )
        refused = await decide_selected(self._service, person, selections, choice)
        fields = {field_name(item.conversation, item.path): item.version for item in selections}
        filters = PendingQuery.parse(request.query_params).parameters
        query = urlencode({"action": action, **fields, **filters}, errors="replace")
        if refused or len(query) > _MAX_QUERY:
            outcomes = await find_outcomes(self._service, person, selections, action, refused)
            return self._render_outcomes(request, person, action, outcomes, posted if refused else {})
        return RedirectResponse(f"{request.scope.get('root_path', '')}/decided?{query}", status_code=303)

    async def show_outcomes(self, request: Request) -> Response:
        """Render the outcomes of a decision about selected calls."""
        person = await self._require_person(request)
        action = _read_action(request.query_params)
        outcomes = await find_outcomes(self._service, person, read_selections(request.query_params), action)
        return self._render_outcomes(request, person, action, outcomes, {})

    def _render_outcomes(
        self, request: Request, person: Principal, action: Action, outcomes: Sequence[Outcome], form: Posted
    ) -> Response:
        query = PendingQuery.parse(request.query_params)
        back = query.encode(query.page)
        context = {"person": person, "action": action, "outcomes": outcomes, "form": form, "back": back}
        is_refused = all(outcome.problem for outcome in outcomes)
        return render(request, "bulk_done.html", 409 if form and is_refused else 200, **context)

    async def _render_list(self, request: Request, person: Principal, problem: HTTPError | None = None) -> Response:
        query = PendingQuery.parse(request.query_params)
        cursor = await self._service.store_cursor()
        place = self._streams.format_position(self._service.runs.list_channel)
        waiting = await self._service.waiting(person)
        now = self._service.now()
        matching = [item for item in waiting if query.matches(item)]
        snapshots = await self._load_conversations(person, matching) if query.needs_age else {}
        found = order_calls(matching, query, snapshots, now)
        pages = max(-(-len(found) // PAGE_SIZE), 1)
        page = min(query.page, pages)
        shown = found[(page - 1) * PAGE_SIZE : page * PAGE_SIZE]
        snapshots = {
            **await self._load_conversations(person, [item for item in shown if item.conversation not in snapshots]),
            **snapshots,
        }
        rows = [await self._build_row(item, snapshots.get(item.conversation)) for item in shown]
        return render(
            request,
            "list.html",
            problem.status if problem else 200,
            person=person,
            rows=rows,
            post=len(urlencode({row.field: row.version for row in rows if row.field}, errors="replace")) > _MAX_QUERY,
            query=query,
            here=query.encode(page),
            page=page,
            pages=pages,
            first=(page - 1) * PAGE_SIZE + 1,
            previous=query.encode(page - 1) if page > 1 else None,
            following=query.encode(page + 1) if page < pages else None,
            total=len(waiting),
            count=len(found),
            tools=_filter_options("all tools", [item.wait.name for item in waiting], query.tool),
            people=_filter_options("everybody", [item.person for item in waiting if item.person], query.person),
            ages=[(key, label) for key, (label, _) in AGES.items()],
            sorts=list(SORTS.items()),
            problem=problem.detail if problem else "",
            stream=f"api/waiting/stream?after={place}&cursor={cursor}",
        )

    async def _render_confirmation(
        self, request: Request, person: Principal, form: Posted, problem: HTTPError | None = None
    ) -> Response:
        """Render the page that shows the selected calls of a form in full, with one button that decides them."""
        action, query = _read_action(form), PendingQuery.parse(request.query_params)
        rows: list[PendingRow] = []
        problems: list[str] = []
        for selection in read_selections(form):
            try:
                snapshot, tool = await find_selected(self._service, person, selection, action)
            except HTTPError as error:
                problems.append(f"{selection.conversation}: {error.detail}")
                continue
            wait = Wait.from_tool(tool, selection.path, conversation=snapshot.id, owner=snapshot.owner)
            rows.append(await self._build_row(Waiting(snapshot.id, snapshot.person, wait), snapshot))
        context = {
            "action": action,
            "rows": rows,
            "problem": problem.detail if problem else "",
            "problems": problems,
            "form": form,
            "back": query.encode(query.page),
        }
        status = problem.status if problem else 200 if rows else 409
        return render_signed(request, self._tokens, person, "bulk_confirm.html", status, **context)

    async def _load_conversations(self, person: Principal, items: Sequence[Waiting]) -> dict[str, Snapshot | None]:
        """Load the conversations of some calls, with None for each conversation that the person may not see."""
        snapshots: dict[str, Snapshot | None] = {}
        for conversation in dict.fromkeys([item.conversation for item in items]):
            try:
                snapshots[conversation] = await self._service.snapshot(person, conversation)
            except HTTPError:
                snapshots[conversation] = None
        return snapshots

    async def _build_row(self, item: Waiting, snapshot: Snapshot | None) -> PendingRow:
        definition = None
        if snapshot is not None:
            try:
                definition = self._service.tool_definition(item.conversation, snapshot.messages, item.wait.path)
            except KeyError:  # the call was removed after the list was read
                definition = None
        facts = await load_facts(self._describe, item.conversation)
        return build_row(item, snapshot, definition, self._service.now(), facts.title)


def _is_choice(field: str) -> bool:
    return field == "action" or field.startswith("call:")


def _read_action(posted: Posted) -> Action:
    """Return the decision in a submitted form, or raise an error with status 400."""
    action = _ACTIONS.get(posted.get("action", ""))
    if action is None:
        raise HTTPError(400, "Choose one of the buttons of the form: nothing was decided.")
    return action


def _filter_options(every: str, names: Sequence[str], chosen: str) -> Sequence[tuple[str, str]]:
    """Return the values and labels of a filter: an empty value, then each name once.

    The selected name is always included.
    """
    return [("", every), *[(name, name) for name in sorted({*names, chosen} - {""})]]
