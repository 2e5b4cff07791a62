"""Bound approvals: one call, decided by whoever has the link to it.

The token is the permission, and so no other site can forge the request. A GET shows the call and changes nothing: mail
programs and chats look at links by themselves.
"""

from __future__ import annotations

from typing import Final, final

from chat_core.approvals import ApprovalChoice, ApprovalKeys, ApprovalRefusedError, BoundApproval
from chat_core.errors import ChatError, ConflictError
from chat_core.messages import Messages, Tool
from chat_store import UnknownConversationError
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from chat_inbox.approval_service import ApprovalService, Choice
from chat_inbox.conversation_view import View
from chat_inbox.forms import Field, blame, build, errors_of
from chat_inbox.http_errors import ProblemError
from chat_inbox.pages import Draft, choice_of, posted_form
from chat_inbox.render import render
from chat_inbox.security import Authenticate, require_same_origin
from chat_inbox.tool_definitions import problems_of

_DONE: Final = {"approve": "Approved. It runs, once.", "reject": "Rejected. The model is told so."}


@final
class Links:
    """The route of bound approvals."""

    def __init__(self, desk: ApprovalService, keys: ApprovalKeys, authenticate: Authenticate) -> None:
        self._desk = desk
        self._keys = keys
        self._authenticate = authenticate

    def routes(self) -> list[Route]:
        """The one route, to look and to decide."""
        return [
            Route("/link", self.show, methods=["GET"]),
            Route("/link", self.decide, methods=["POST"], name="decide_link"),
        ]

    async def show(self, request: Request) -> Response:
        """The call that a token is about."""
        token = request.query_params.get("token", "")
        person = await self._authenticate(request)
        try:
            approval = self._keys.read(token)
            snapshot = await self._desk.store.load(approval.conversation)
            tool = self._keys.show(token, snapshot.id, snapshot.messages, by=person)
        except (ApprovalRefusedError, UnknownConversationError) as error:
            raise _refused(error) from error
        form = self._form(approval, tool, snapshot.id, snapshot.messages)
        return self._page(request, approval, tool, Draft(approval.path, form, {}, "", {}), token=token)

    async def decide(self, request: Request) -> Response:
        """Decide about it."""
        require_same_origin(request)
        posted = await posted_form(request)
        token, person = posted.get("token", ""), await self._authenticate(request)
        try:
            approval = self._keys.read(token)
            await self._desk.store.load(approval.conversation)
            async with self._desk.store.open(approval.conversation) as conversation:
                tool = self._keys.show(token, conversation.id, conversation.messages, by=person)
                messages = conversation.messages
                draft = Draft(approval.path, self._form(approval, tool, conversation.id, messages), posted, "", {})
                choice = choice_of(tool, draft)
                if choice is not None and choice.action not in _DONE:
                    raise ProblemError(400, "A link approves or rejects: nothing was decided.")
                if choice is None or not self._will_do(choice, draft, conversation.id, messages):
                    status = 200 if "add" in posted else 422
                    return self._page(request, approval, tool, draft, token=token, status=status)
                action: ApprovalChoice = "reject" if choice.action == "reject" else "approve"
                self._desk.runs.require_open(approval.conversation)
                arguments = choice.arguments if action == "approve" else None
                await self._keys.redeem(
                    token,
                    conversation,
                    action,
                    arguments=arguments,
                    reason=choice.text,
                    by=person,
                    note=choice.note,
                )
        except (ApprovalRefusedError, UnknownConversationError, ConflictError) as error:
            raise _refused(error) from error
        self._desk.runs.front.tell("changed")
        self._desk.runs.channel(approval.conversation).tell("changed")
        self._desk.runs.start(approval.conversation)
        return render(request, "decided.html", person=None, done=_DONE[action], name=tool.name)

    def _form(self, approval: BoundApproval, tool: Tool, conversation: str, messages: Messages) -> Field | None:
        if not approval.edits:
            return None
        definition = self._desk.definition(conversation, messages, approval.path)
        return build(definition.declaration.parameters if definition else None, tool.effective_arguments)

    def _will_do(self, choice: Choice, draft: Draft, conversation: str, messages: Messages) -> bool:
        """Whether the tool takes the arguments."""
        definition = self._desk.definition(conversation, messages, draft.path)
        if choice.arguments is None or definition is None or draft.form is None:
            return True
        blame(draft.form, problems_of(definition, choice.arguments))
        return not errors_of(draft.form)

    def _page(
        self, request: Request, approval: BoundApproval, tool: Tool, draft: Draft, *, token: str, status: int = 200
    ) -> Response:
        view = View(self._desk.now(), lambda _path, _tool: draft.form).call(approval.path, tool)
        return render(
            request,
            "link.html",
            status,
            person=None,
            token=token,
            call=view,
            draft=draft,
            allow=sorted(approval.allow),
            until=f"{approval.expires_at:%Y-%m-%d %H:%M} UTC",
        )


def _refused(error: ChatError) -> ProblemError:
    if isinstance(error, ApprovalRefusedError):
        decision = error.decision
        who = f" It was {decision.by or 'somebody'} who decided." if decision is not None else ""
        return ProblemError(410 if decision is not None else 403, f"This link decides nothing: {error}.{who}")
    if isinstance(error, UnknownConversationError):
        return ProblemError(404, "The conversation that this link is about is not there any more.")
    return ProblemError(409, f"Nothing was decided: {error}.")
