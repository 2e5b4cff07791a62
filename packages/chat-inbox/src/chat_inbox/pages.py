"""The pages: HTML that works without a script, and comes alive with one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias, cast, final
from urllib.parse import parse_qsl

from chat_core.messages import Messages, Tool
from chat_store import Snapshot
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from chat_inbox.api import WhoAsks
from chat_inbox.approval_service import Action, ApprovalService, Choice
from chat_inbox.conversation_view import SHOWN, View, anchor_of
from chat_inbox.event_streams import Streams
from chat_inbox.forms import Field, blame, build, errors_of, line_text, read, same
from chat_inbox.http_errors import ProblemError
from chat_inbox.render import render
from chat_inbox.security import Tokens, body_of, cookie_of, keep_cookie, require_same_origin
from chat_inbox.tool_calls import Path, is_expired, remaining, waits_for
from chat_inbox.url_keys import ids_of, quote_key

Posted: TypeAlias = Mapping[str, str]

ACTIONS: Final[tuple[Action, ...]] = ("approve", "reject", "retry", "fail", "complete")
DONE: Final = {
    "approve": "Approved.",
    "reject": "Rejected.",
    "retry": "It may run again.",
    "fail": "Recorded as failed.",
    "complete": "Recorded with your result.",
    "resume": "The conversation goes on.",
}
_MOST_LISTED: Final = 200
_MOST_FIELDS: Final = 20_000


@final
@dataclass(slots=True)
class Draft:
    """What somebody wrote into the form of a call, and what is wrong with it."""

    path: Path
    form: Field | None
    posted: Posted
    problem: str
    errors: dict[str, str]


@final
class Pages:
    """The routes of the pages."""

    def __init__(self, desk: ApprovalService, streams: Streams, who: WhoAsks, tokens: Tokens) -> None:
        self._desk = desk
        self._streams = streams
        self._who = who
        self._tokens = tokens

    def routes(self) -> list[Route]:
        """All of them."""
        one = "/conversations/{conversation}"
        return [
            Route("/", self.list, methods=["GET"]),
            Route(one, self.show, methods=["GET"]),
            Route(f"{one}/decide", self.decide, methods=["POST"]),
            Route(f"{one}/resume", self.resume, methods=["POST"]),
        ]

    async def list(self, request: Request) -> Response:
        """All that waits."""
        person = await self._who(request)
        cursor, place = await self._desk.cursor(), self._streams.place(self._desk.runs.front)
        found = await self._desk.waiting(person)
        now = self._desk.now()
        rows: list[dict[str, object]] = []
        for item in found[:_MOST_LISTED]:
            wait, moment = item.wait, item.wait.at or item.wait.expires_at
            rows.append(
                {
                    "anchor": anchor_of(wait.path),
                    "url": f"conversations/{quote_key((item.conversation,))}",
                    "conversation": item.conversation,
                    "person": item.person,
                    "kind": wait.kind,
                    "name": wait.name,
                    "arguments": _summary(dict(wait.arguments)),
                    "terms": remaining(moment, now) if moment else "",
                    "moment": moment.isoformat() if moment else "",
                    "late": moment is not None and moment <= now,
                    "error": wait.error,
                }
            )
        for row in rows:
            row["version"] = json.dumps([row["kind"], row["arguments"], row["person"], row["error"], row["late"]])
        more = max(len(found) - _MOST_LISTED, 0)
        stream = f"api/waiting/stream?after={place}&cursor={cursor}"
        return self._page(request, person, "list.html", rows=rows, more=more, count=len(found), stream=stream)

    async def show(self, request: Request) -> Response:
        """A conversation, with a form for each call that waits."""
        person = await self._who(request)
        return await self._conversation(request, person)

    # --- Deciding -------------------------------------------------------------------------------------------------

    async def decide(self, request: Request) -> Response:
        """Take the form of a call."""
        require_same_origin(request)
        person = await self._who(request)
        posted = await posted_form(request)
        self._tokens.require(request, person, posted.get("token", ""))
        conversation, path = _conversation(request), ids_of(posted.get("call", ""))
        snapshot = await self._desk.snapshot(person, conversation)
        draft = Draft(path, None, posted, "", {})
        try:
            choice = self._choice(snapshot, draft)
            if choice is not None:
                version = posted.get("version", "")
                await self._desk.decide(person, conversation, path, version, choice)
                done = f"{_url(request, conversation)}?done={choice.action}#{anchor_of(path)}"
                return RedirectResponse(done, status_code=303)
            status = 422 if draft.errors or (draft.form and errors_of(draft.form)) else 200
        except ProblemError as problem:
            draft.problem, status = problem.detail, problem.status
            if draft.form is not None and problem.errors:
                blame(draft.form, problem.errors)
        if status == 422 and not draft.problem:  # noqa: PLR2004 - unprocessable
            draft.problem = "Nothing was decided yet: something in the form will not do."
        return await self._conversation(request, person, draft, status)

    async def resume(self, request: Request) -> Response:
        """Go on with a conversation."""
        require_same_origin(request)
        person = await self._who(request)
        posted = await posted_form(request)
        self._tokens.require(request, person, posted.get("token", ""))
        conversation = _conversation(request)
        await self._desk.resume(person, conversation)
        return RedirectResponse(f"{_url(request, conversation)}?done=resume", status_code=303)

    def _choice(self, snapshot: Snapshot, draft: Draft) -> Choice | None:
        """What was chosen; `None` where the page is to be shown again, with another item or with what is wrong."""
        tool = self._desk.find(snapshot, draft.path)
        # First of all: what was written about another call is not shown again as if it were about this one.
        self._desk.require_seen(tool, draft.posted.get("version", ""))
        draft.form = self._form(snapshot, draft.path, tool)
        return choice_of(tool, draft)

    def _form(self, snapshot: Snapshot, path: Path, tool: Tool) -> Field | None:
        if waits_for(tool) is None:
            return None
        definition = self._desk.definition(snapshot.id, snapshot.messages, path)
        return build(definition.declaration.parameters if definition else None, tool.effective_arguments)

    # --- Showing --------------------------------------------------------------------------------------------------

    async def _conversation(
        self, request: Request, person: str, draft: Draft | None = None, status: int = 200
    ) -> Response:
        conversation = _conversation(request)
        cursor = await self._desk.cursor()
        snapshot = await self._desk.snapshot(person, conversation)
        due = await self._desk.is_due(snapshot)
        channel = self._desk.runs.channel(conversation)
        # From here on nothing is awaited: the place in the stream, the text so far, and the turns are of one moment.
        messages: Messages = channel.messages if channel.messages is not None else snapshot.messages
        current = Snapshot(snapshot.id, messages, snapshot.revision, snapshot.person)

        def form_of(path: Path, tool: Tool) -> Field | None:
            if draft is not None and draft.form is not None and draft.path == path:
                return draft.form
            return self._form(current, path, tool)

        now = self._desk.now()
        shown = None if "all" in request.query_params else SHOWN
        items, before = View(now, form_of).items(messages, shown)
        place = self._streams.place(channel)
        waiting = [item.call for item in items if item.call is not None and item.call.form is not None]
        open_calls = [tool for tool in messages.pending() if is_expired(tool, now)]
        context: dict[str, object] = {
            "conversation": conversation,
            "key": quote_key((conversation,)),
            "in_charge": snapshot.person,
            "items": items,
            "before": before,
            "waiting": waiting,
            "running": channel.running,
            "live": channel.live,
            "place": place.rpartition("-")[2],
            "outcome": channel.outcome,
            "detail": channel.detail,
            "can_resume": not channel.running
            and self._desk.runs.can_run(conversation)
            and (due or bool(open_calls) or channel.outcome == "failed"),
            "done": DONE.get(request.query_params.get("done", "")),
            "draft": draft,
            "draft_anchor": anchor_of(draft.path) if draft is not None else None,
            "stream": f"api/conversations/{quote_key((conversation,))}/stream?after={place}&cursor={cursor}",
        }
        return self._page(request, person, "conversation.html", status, **context)

    def _page(self, request: Request, person: str, template: str, status: int = 200, **context: object) -> Response:
        cookie = cookie_of(request)
        token = self._tokens.of(cookie, person)
        answer = render(request, template, status, person=person, token=token, **context)
        keep_cookie(request, answer, cookie)
        return answer


def choice_of(tool: Tool, draft: Draft) -> Choice | None:
    """What was chosen in a form; `None` where it is to be shown again, with another item or with what is wrong.

    Raises:
        ProblemError: nothing was chosen that there is.
    """
    posted, form = draft.posted, draft.form
    action, note = posted.get("action", ""), posted.get("note", "").strip() or None
    text = posted.get("text", "").strip()
    match action:
        case "approve":
            return _approved(tool, draft, note)
        case "reject":
            return Choice("reject", text=text or None, note=note)
        case "retry":
            return Choice("retry", note=note)
        case "fail" if text:
            return Choice("fail", text=text, note=note)
        case "fail":
            draft.errors["text"] = "say what went wrong: the model is told"
        case "complete":
            return _completed(draft, note)
        case _:
            if form is None or "add" not in posted:
                raise ProblemError(400, "Choose one of the buttons of the form: nothing was decided.")
            read(form, posted)
    return None


def _approved(tool: Tool, draft: Draft, note: str | None) -> Choice | None:
    if draft.form is None:
        return Choice("approve", note=note)
    arguments = read(draft.form, draft.posted)
    if errors_of(draft.form):
        return None
    edited = not same(arguments, dict(tool.effective_arguments))
    return Choice("approve", arguments if edited else None, note=note)


def _completed(draft: Draft, note: str | None) -> Choice | None:
    text = draft.posted.get("result", "")
    if draft.posted.get("as") == "json":
        try:
            result: object = json.loads(text)
            json.dumps(result, allow_nan=False)
        except (ValueError, RecursionError) as error:
            draft.errors["result"] = f"this is not JSON: {error}"
            return None
        return Choice("complete", result=result, note=note)
    return Choice("complete", result=text.replace("\r\n", "\n"), note=note)


async def posted_form(request: Request) -> Posted:
    """The fields of a form; of two with one name the last one counts.

    Raises:
        ProblemError: it is no form, not in UTF-8, or of more fields than a form of ours has.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise ProblemError(415, "This takes a form of a page; programs use the API.")
    body = await body_of(request)
    if body.count(b"&") >= _MOST_FIELDS:  # they are counted before each of them costs an object
        raise ProblemError(413, f"A form may have {_MOST_FIELDS} fields at most.")
    try:
        pairs = parse_qsl(body.decode("ascii"), keep_blank_values=True, errors="strict")
    except ValueError as error:
        raise ProblemError(400, "The form is not in UTF-8; load the page again.") from error
    return dict(pairs)


def _summary(arguments: dict[str, object]) -> list[tuple[str, str]]:
    """The first few arguments, each in one line."""
    found: list[tuple[str, str]] = []
    for name, value in list(arguments.items())[:4]:
        line = line_text(value)
        found.append((name, line if len(line) <= 80 else f"{line[:79]}…"))  # noqa: PLR2004 - a line of a list
    return found


def _conversation(request: Request) -> str:
    return ids_of(cast("str", request.path_params["conversation"]))[0]


def _url(request: Request, conversation: str) -> str:
    return f"{request.scope.get('root_path', '')}/conversations/{quote_key((conversation,))}"
