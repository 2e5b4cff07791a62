"""The HTML pages of the inbox. They work without JavaScript, which is only used to keep open pages up to date."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias, cast, final
from urllib.parse import parse_qsl, urlencode

from chat_core.approvals import Principal
from chat_core.messages import Messages, Tool
from chat_store import Snapshot
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from chat_inbox.api import PersonResolver
from chat_inbox.approval_service import ApprovalService, Choice
from chat_inbox.conversation_facts import Describe, load_facts
from chat_inbox.conversation_view import DEFAULT_TURNS, ConversationView, call_anchor
from chat_inbox.event_streams import EventStreams
from chat_inbox.forms import Field, attach_errors, build_form, format_edits, invalid_fields, is_same_json, read_form
from chat_inbox.http_errors import HTTPError
from chat_inbox.render import render_signed
from chat_inbox.security import MAX_FORM_BYTES, FormTokens, read_body, require_same_origin
from chat_inbox.tool_calls import Path, is_expired, own_decision, waits_for
from chat_inbox.url_keys import decode_key, quote_key

Posted: TypeAlias = Mapping[str, str]

DONE: Final = {
    "approve": "Approved.",
    "reject": "Rejected.",
    "retry": "The call runs again.",
    "fail": "Recorded as failed.",
    "complete": "Recorded with your result.",
}
"""Messages about the latest decision of the user, by action."""
_UNUSED: Final[Mapping[str, tuple[str, ...]]] = {
    "approve": ("text",),
    "retry": ("text", "result"),
    "complete": ("text",),
    "fail": ("result",),
}
"""Fields of the form that a decision does not use, by action. A text in one of them contradicts the decision."""
_MAX_FIELDS: Final = 20_000


@final
@dataclass(slots=True)
class Draft:
    """A submitted form with a decision on a call, and its validation errors.

    Attributes:
        path: path of the call.
        form: form of the arguments, if there is one.
        posted: submitted fields by name.
        problem: message about the form as a whole.
        errors: messages about fields other than the arguments, by field name.
        edits: edits of the arguments, as lines of text, if the call has changed.
    """

    path: Path
    form: Field | None
    posted: Posted
    problem: str
    errors: dict[str, str]
    edits: list[str] = field(default_factory=list[str])


class InboxPages:
    """Base class of the endpoints of HTML pages.

    Args:
        service: decides about calls.
        streams: sends changes of the list to open pages.
        require_person: function that returns the user who sent a request, or raises an `HTTPError`.
        tokens: tokens that protect forms against forged requests.
        describe: function that returns facts about a conversation, as pairs of a label and a text.
    """

    def __init__(
        self,
        service: ApprovalService,
        streams: EventStreams,
        require_person: PersonResolver,
        tokens: FormTokens,
        describe: Describe,
    ) -> None:
        self._service = service
        self._streams = streams
        self._require_person = require_person
        self._tokens = tokens
        self._describe = describe


@final
class Pages(InboxPages):
    """Routes and endpoints of the HTML pages."""

    def routes(self) -> list[Route]:
        """Return all routes of the pages."""
        page = "/conversations/{conversation}"
        return [
            Route(page, self.show, methods=["GET"]),
            Route(f"{page}/decide", self.decide, methods=["POST"]),
            Route(f"{page}/resume", self.resume, methods=["POST"]),
        ]

    async def show(self, request: Request) -> Response:
        """Render the page of a conversation, with a form for each waiting call that the person may decide."""
        person = await self._require_person(request)
        return await self._render_conversation(request, person)

    # --- Deciding -------------------------------------------------------------------------------------------------

    async def decide(self, request: Request) -> Response:
        """Store a submitted decision and redirect to the conversation. If the form has errors, render it again."""
        require_same_origin(request)
        person = await self._require_person(request)
        posted = await read_posted_form(request)
        conversation, call = _conversation_id(request), posted.get("call", "")
        path = decode_key(call)
        snapshot = await self._service.snapshot(person, conversation)
        draft = Draft(path, None, posted, "", {})
        try:
            self._service.require_allowed(person, snapshot, path)
            choice = self._read_choice(snapshot, draft)
            # After the fields were read: what the user wrote is kept if the token is of an earlier run of the server.
            self._tokens.verify(request, person, posted.get("token", ""))
            if choice is not None:
                version = posted.get("version", "")
                await self._service.decide(person, conversation, path, version, choice)
                done = f"{_conversation_url(request, conversation)}?{urlencode({'done': call})}#{call_anchor(path)}"
                return RedirectResponse(done, status_code=303)
            status = 422 if draft.errors or (draft.form and invalid_fields(draft.form)) else 200
        except HTTPError as error:
            draft.problem, status = error.detail, error.status
            draft.edits = self._read_edits(snapshot, draft)
            if draft.form is not None and error.errors:
                attach_errors(draft.form, error.errors)
        if status == 422 and not draft.problem:  # noqa: PLR2004 - unprocessable content
            draft.problem = "Nothing was decided yet: correct the errors in the form."
        return await self._render_conversation(request, person, draft, status)

    async def resume(self, request: Request) -> Response:
        """Start a run that continues the conversation, and redirect to its page."""
        require_same_origin(request)
        person = await self._require_person(request)
        posted = await read_posted_form(request)
        self._tokens.verify(request, person, posted.get("token", ""))
        conversation = _conversation_id(request)
        await self._service.resume(person, conversation)
        return RedirectResponse(_conversation_url(request, conversation), status_code=303)

    def _read_choice(self, snapshot: Snapshot, draft: Draft) -> Choice | None:
        """Return the submitted decision, or None if the form has errors or the user added a list item."""
        tool = self._service.find_call(snapshot, draft.path)
        # This check comes first: edits of an earlier state must not be shown again as edits of the current one.
        self._service.require_current(tool, draft.posted.get("version", ""))
        draft.form = self._build_form(snapshot, draft.path, tool)
        return read_choice(tool, draft)

    def _read_edits(self, snapshot: Snapshot, draft: Draft) -> list[str]:
        """Return the edits of a form that cannot be shown again, because the call has changed."""
        form = draft.form
        if form is None and "schema" in draft.posted:
            try:
                tool = self._service.find_call(snapshot, draft.path)
            except HTTPError:
                return []
            definition = self._service.tool_definition(snapshot.id, snapshot.messages, draft.path)
            # Another user may have approved other arguments, so the edits are compared with those of the model.
            form = build_form(definition.declaration.parameters if definition else None, dict(tool.call.arguments))
            if draft.posted["schema"] == form.schema_version:
                read_form(form, draft.posted)
        return [] if form is None else format_edits(form)

    def _build_form(self, snapshot: Snapshot, path: Path, tool: Tool) -> Field | None:
        """Build a form to edit the arguments of a call. Return None if the call does not wait for a decision."""
        if waits_for(tool) is None:
            return None
        definition = self._service.tool_definition(snapshot.id, snapshot.messages, path)
        return build_form(definition.declaration.parameters if definition else None, tool.effective_arguments)

    # --- Rendering ------------------------------------------------------------------------------------------------

    async def _render_conversation(
        self, request: Request, person: Principal, draft: Draft | None = None, status: int = 200
    ) -> Response:
        conversation = _conversation_id(request)
        cursor = await self._service.store_cursor()
        snapshot = await self._service.snapshot(person, conversation)
        due = await self._service.is_due(snapshot)
        facts = await load_facts(self._describe, conversation)
        channel = self._service.runs.channel(conversation)
        # No await below this line, so that the stream position, the streamed text and the turns are consistent.
        messages: Messages = channel.messages if channel.messages is not None else snapshot.messages
        current = replace(snapshot, messages=messages)

        def find_form(path: Path, tool: Tool) -> Field | None:
            if not self._service.may_decide(person, current, path, tool):
                return None
            if draft is not None and draft.form is not None and draft.path == path:
                return draft.form
            return self._build_form(current, path, tool)

        now = self._service.now()
        shown = None if "all" in request.query_params else DEFAULT_TURNS
        view = ConversationView(
            now, find_form, lambda path: self._service.tool_definition(conversation, messages, path)
        )
        items, before = view.build_items(messages, shown)
        place = self._streams.format_position(channel)
        # Anybody can write the address of a page, so only the history is believed.
        done = own_decision(messages, decode_key(request.query_params.get("done", "")), person.name)
        waiting = [item.call for item in items if item.call is not None and item.call.form is not None]
        expired_calls = [tool for tool in messages.pending() if is_expired(tool, now)]
        context: dict[str, object] = {
            "conversation": conversation,
            "facts": facts,
            "key": quote_key((conversation,)),
            "in_charge": snapshot.person,
            "items": items,
            "before": before,
            "waiting": waiting,
            "running": channel.running,
            "live": channel.live_text,
            "place": place.rpartition("-")[2],
            "outcome": channel.outcome,
            "detail": channel.detail,
            "can_resume": not channel.running
            and self._service.runs.can_run(conversation)
            and (due or bool(expired_calls) or channel.outcome == "failed"),
            "done_action": done,
            "done": DONE.get(done or ""),
            "draft": draft,
            "draft_anchor": call_anchor(draft.path) if draft is not None else None,
            "stream": f"api/conversations/{quote_key((conversation,))}/stream?after={place}&cursor={cursor}",
        }
        return render_signed(request, self._tokens, person, "conversation.html", status, **context)


def read_choice(tool: Tool, draft: Draft) -> Choice | None:
    """Parse the submitted decision on a call.

    Args:
        tool: call to decide.
        draft: submitted form. Errors are stored in it.

    Returns:
        The decision, or None if the form has errors or the user added a list item.

    Raises:
        HTTPError: the form does not contain a known action, or the schema of the tool has changed since it was made.
    """
    choice = _read_action(tool, draft)
    action = draft.posted.get("action", "")
    for name in _UNUSED.get(action, ()):
        if draft.posted.get(name, "").strip():
            draft.errors[name] = (
                "the model receives a reason only if you reject: to approve, clear it"
                if action == "approve"
                else "this does not belong to the button that you pressed: clear it, or press its own button"
            )
    return None if draft.errors else choice


def _read_action(tool: Tool, draft: Draft) -> Choice | None:
    """Parse the decision of the button that was pressed, without a check for contradictions."""
    posted, form = draft.posted, draft.form
    action, note = posted.get("action", ""), posted.get("note", "").strip() or None
    text = posted.get("text", "").strip()
    match action:
        case "approve":
            return _read_approval(tool, draft, note)
        case "reject":
            return Choice("reject", text=text or None, note=note)
        case "retry":
            return Choice("retry", note=note)
        case "fail" if text:
            return Choice("fail", text=text, note=note)
        case "fail":
            draft.errors["text"] = "describe the error: the model receives the text"
        case "complete":
            return _read_result(draft, note)
        case _:
            if form is None or "add" not in posted:
                raise HTTPError(400, "Choose one of the buttons of the form: nothing was decided.")
            _read_arguments(tool, form, posted)
    return None


def _read_approval(tool: Tool, draft: Draft, note: str | None) -> Choice | None:
    """Parse an approval, with the arguments if the user edited them. Return None if the form is invalid."""
    if draft.form is None:
        return Choice("approve", note=note)
    arguments = _read_arguments(tool, draft.form, draft.posted)
    if invalid_fields(draft.form):
        return None
    edited = not is_same_json(arguments, dict(tool.effective_arguments))
    return Choice("approve", arguments if edited else None, note=note)


def _read_arguments(tool: Tool, form: Field, posted: Posted) -> dict[str, object]:
    """Return the arguments of a submitted form, or raise an `HTTPError` if it was made from another schema."""
    if posted.get("schema", form.schema_version) != form.schema_version:
        # The names of the fields are numbers, which may now mean other arguments.
        msg = f"The arguments of {tool.name} have changed since this page was made; review the call again, then decide."
        raise HTTPError(409, msg)
    return read_form(form, posted)


def _read_result(draft: Draft, note: str | None) -> Choice | None:
    """Parse a decision that submits the result of a call. Return None if the result must be JSON and is not."""
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


async def read_posted_form(request: Request, limit: int = MAX_FORM_BYTES) -> Posted:
    """Read the fields of a URL-encoded form and return them by name. If a name is repeated, the last value is used.

    Args:
        request: the request to read from.
        limit: maximum size in bytes. Parsing needs up to 80 times the memory.

    Raises:
        HTTPError: the body is too large, is not a form, is not UTF-8, or has too many fields.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise HTTPError(415, "This address accepts only forms of the inbox's pages. Programs use the JSON API.")
    body = await read_body(request, limit)
    if body.count(b"&") >= _MAX_FIELDS:  # checked before the fields are parsed, to bound the memory
        raise HTTPError(413, f"The form has more than {_MAX_FIELDS} fields: submit fewer fields.")
    try:
        # In a thread, because a large form would block the event loop.
        pairs = await run_in_threadpool(parse_qsl, body.decode("ascii"), keep_blank_values=True, errors="strict")
    except ValueError as error:
        raise HTTPError(400, "The form is not encoded in UTF-8: load the page again.") from error
    return dict(pairs)


def _conversation_id(request: Request) -> str:
    return decode_key(cast("str", request.path_params["conversation"]))[0]


def _conversation_url(request: Request, conversation: str) -> str:
    return f"{request.scope.get('root_path', '')}/conversations/{quote_key((conversation,))}"
