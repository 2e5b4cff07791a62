"""Pages for approval links. The signed token in a link, not a login, grants permission to decide one call.

`may_decide` still applies. If the token names an approver, a request of another signed-in user is refused. The forms
need no CSRF token. A GET request only shows the call, because mail programs and chat applications fetch links for
previews.
"""

from __future__ import annotations

from typing import Final, final

from chat_core.approvals import ApprovalChoice, ApprovalKeys, ApprovalRefusedError, BoundApproval, Principal
from chat_core.errors import ChatError, ConflictError
from chat_core.messages import Messages, Tool
from chat_core.tools import ToolDefinition
from chat_store import UnknownConversationError
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from chat_inbox.approval_service import ApprovalService, Choice
from chat_inbox.conversation_view import ConversationView
from chat_inbox.forms import Field, attach_errors, build_form, invalid_fields
from chat_inbox.http_errors import HTTPError
from chat_inbox.pages import Draft, read_choice, read_posted_form
from chat_inbox.render import render
from chat_inbox.security import MAX_BODY_BYTES, Authenticate, find_principal, require_same_origin
from chat_inbox.tool_calls import Path, format_utc
from chat_inbox.tool_definitions import find_argument_errors

_DONE: Final = {"approve": "Approved. The call runs once.", "reject": "Rejected. The model is informed."}


@final
class ApprovalLinks:
    """Routes and endpoints of approval links."""

    def __init__(self, service: ApprovalService, keys: ApprovalKeys, authenticate: Authenticate) -> None:
        self._service = service
        self._keys = keys
        self._authenticate = authenticate

    def routes(self) -> list[Route]:
        """Return the routes that show and decide a call."""
        return [
            Route("/link", self.show, methods=["GET"]),
            Route("/link", self.decide, methods=["POST"], name="decide_link"),
        ]

    async def show(self, request: Request) -> Response:
        """Render a page with the call that the token in the link is bound to, and a form to decide it."""
        token = request.query_params.get("token", "")
        signed_in = await find_principal(self._authenticate, request)
        try:
            approval = self._keys.read(token)
            snapshot = await self._service.store.load(approval.conversation)
            tool = self._keys.show(token, snapshot.id, snapshot.messages, by=signed_in, owner=snapshot.owner)
            self._service.require_allowed(_link_user(signed_in, approval), snapshot, approval.path)
        except (ApprovalRefusedError, UnknownConversationError) as error:
            raise _to_http_error(error) from error
        form = self._build_form(approval, tool, snapshot.id, snapshot.messages)
        draft = Draft(approval.path, form, {}, "", {})
        return self._render_page(request, approval, tool, draft, snapshot.messages, token=token)

    async def decide(self, request: Request) -> Response:
        """Store the submitted decision, resume the conversation, and render a confirmation.

        If the form has errors, nothing is stored, and the form is rendered again.
        """
        require_same_origin(request)
        posted = await read_posted_form(request, MAX_BODY_BYTES)
        token, signed_in = posted.get("token", ""), await find_principal(self._authenticate, request)
        try:
            approval = self._keys.read(token)
            snapshot = await self._service.store.load(approval.conversation)
            self._service.require_allowed(_link_user(signed_in, approval), snapshot, approval.path)
            async with self._service.store.open(approval.conversation) as conversation:
                tool = self._keys.show(
                    token, conversation.id, conversation.messages, by=signed_in, owner=snapshot.owner
                )
                messages = conversation.messages
                draft = Draft(
                    approval.path, self._build_form(approval, tool, conversation.id, messages), posted, "", {}
                )
                choice = read_choice(tool, draft)
                if choice is not None and choice.action not in _DONE:
                    raise HTTPError(400, "A link can only approve or reject; nothing was decided.")
                if choice is None or not self._check_edits(choice, draft, conversation.id, messages):
                    status = 200 if "add" in posted else 422
                    return self._render_page(request, approval, tool, draft, messages, token=token, status=status)
                action: ApprovalChoice = "reject" if choice.action == "reject" else "approve"
                self._service.runs.require_open(approval.conversation)
                arguments = choice.arguments if action == "approve" else None
                await self._keys.redeem(
                    token,
                    conversation,
                    action,
                    arguments=arguments,
                    reason=choice.text,
                    by=signed_in,
                    note=choice.note,
                )
        except (ApprovalRefusedError, UnknownConversationError, ConflictError) as error:
            raise _to_http_error(error) from error
        self._service.runs.list_channel.publish("changed")
        self._service.runs.channel(approval.conversation).publish("changed")
        self._service.runs.start(approval.conversation)
        return render(request, "decided.html", person=None, action=action, done=_DONE[action], name=tool.name)

    def _build_form(self, approval: BoundApproval, tool: Tool, conversation: str, messages: Messages) -> Field | None:
        """Return a form to edit the arguments of the call, or None if the token does not allow edits."""
        if not approval.edits:
            return None
        definition = self._service.tool_definition(conversation, messages, approval.path)
        return build_form(definition.declaration.parameters if definition else None, tool.effective_arguments)

    def _check_edits(self, choice: Choice, draft: Draft, conversation: str, messages: Messages) -> bool:
        """Validate the edited arguments, attach errors to the form, and return whether the arguments are valid."""
        definition = self._service.tool_definition(conversation, messages, draft.path)
        if choice.arguments is None or definition is None or draft.form is None:
            return True
        attach_errors(draft.form, find_argument_errors(definition, choice.arguments))
        return not invalid_fields(draft.form)

    def _render_page(
        self,
        request: Request,
        approval: BoundApproval,
        tool: Tool,
        draft: Draft,
        messages: Messages,
        *,
        token: str,
        status: int = 200,
    ) -> Response:
        def find_definition(path: Path) -> ToolDefinition | None:
            return self._service.tool_definition(approval.conversation, messages, path)

        view = ConversationView(self._service.now(), lambda _path, _tool: draft.form, find_definition)
        call = view.build_call(approval.path, tool)  # without the request: the link shows nothing else of its messages
        return render(
            request,
            "link.html",
            status,
            person=None,
            token=token,
            call=call,
            draft=draft,
            allow=sorted(approval.allow),
            until=approval.expires_at.isoformat(),
            until_when=format_utc(approval.expires_at),
        )


def _to_http_error(error: ChatError) -> HTTPError:
    """Convert the error that a refused approval link caused to an HTTP error."""
    if isinstance(error, ApprovalRefusedError):
        decision = error.decision
        who_decided = f" {decision.by or 'Somebody'} has decided." if decision is not None else ""
        return HTTPError(
            410 if decision is not None else 403, f"Nothing was decided by this link: {error}.{who_decided}"
        )
    if isinstance(error, UnknownConversationError):
        return HTTPError(404, "The conversation of this link no longer exists.")
    return HTTPError(409, f"Nothing was decided: {error}.")


def _link_user(signed_in: Principal | None, approval: BoundApproval) -> Principal | None:
    """Return the user of a link: the signed-in user, otherwise the user named in the token, or None."""
    return signed_in or (None if approval.person is None else Principal(approval.person))
