"""Decisions about several calls at once: the calls that a submitted form selects, and the outcome for each call."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, final

from chat_core.approvals import Principal
from chat_core.messages import Tool
from chat_store import Snapshot

from chat_inbox.approval_service import Action, ApprovalService, Choice
from chat_inbox.http_errors import HTTPError
from chat_inbox.pending_list import field_name
from chat_inbox.tool_calls import Path, compute_version, is_expired, own_decision, waits_for
from chat_inbox.url_keys import decode_key, quote_key

MAX_SELECTED: Final = 100
"""Maximum number of calls that one form can decide."""


@final
@dataclass(frozen=True, slots=True)
class Selection:
    """A call that the user selected.

    Attributes:
        conversation: id of the conversation.
        path: call ids, from the outermost call to this one.
        version: version of the call on the page of the user.
    """

    conversation: str
    path: Path
    version: str


@final
@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one selected call.

    Attributes:
        selection: the selected call.
        name: name of the tool, or an empty string if the user may not see the call.
        problem: reason why the call was not decided; None if it was decided.
        open_version: version of a call that was not decided and can be decided now; otherwise None.
    """

    selection: Selection
    name: str
    problem: str | None
    open_version: str | None = None

    @property
    def field(self) -> str:
        """The name of the form field that selects the call."""
        return field_name(self.selection.conversation, self.selection.path)

    @property
    def url_key(self) -> str:
        """The id of the conversation as a segment of a URL path."""
        return quote_key((self.selection.conversation,))


def read_selections(posted: Mapping[str, str]) -> list[Selection]:
    """Return the selected calls of a submitted form.

    Args:
        posted: submitted fields by name.

    Raises:
        HTTPError: 422 if no call or too many calls are selected.
    """
    found: list[Selection] = []
    for name, version in posted.items():
        kind, _, place = name.partition(":")
        if kind == "call":
            conversation, _, call = place.partition("/")
            found.append(Selection(decode_key(conversation)[0], decode_key(call), version))
    if not found:
        raise HTTPError(422, "Select at least one call. Nothing was decided.")
    if len(found) > MAX_SELECTED:
        raise HTTPError(
            422, f"Select {MAX_SELECTED} calls at most: {len(found)} calls are selected. Nothing was decided."
        )
    return found


async def find_selected(
    service: ApprovalService, person: Principal, selection: Selection, action: Action
) -> tuple[Snapshot, Tool]:
    """Return a selected call and its conversation.

    Args:
        service: service that reads the conversation.
        person: the approver.
        selection: the selected call.
        action: the decision.

    Raises:
        HTTPError: the person may not see or decide the call, it has changed since it was selected, it must be decided
            on its own page, because it needs a result or was interrupted, or it has expired and cannot be approved.
    """
    snapshot = await service.snapshot(person, selection.conversation)
    tool = service.find_call(snapshot, selection.path)
    service.require_allowed(person, snapshot, selection.path)
    service.require_current(tool, selection.version)
    if waits_for(tool) not in ("approval", "schedule"):
        raise HTTPError(409, f"{tool.name} can be decided only on the page of its conversation.")
    if action == "approve" and is_expired(tool, service.now()):
        raise HTTPError(409, f"{tool.name} has expired: it can be rejected, but not approved.")
    return snapshot, tool


async def decide_selected(
    service: ApprovalService, person: Principal, selections: Sequence[Selection], choice: Choice
) -> list[Selection]:
    """Store the same decision about several calls, one after the other, then resume their conversations.

    A call that cannot be decided does not stop the others. These calls are returned, and `find_outcomes()` returns the
    reasons.

    Args:
        service: service that stores the decisions.
        person: the approver.
        selections: the selected calls.
        choice: decision, without arguments.

    Raises:
        UsageError: the inbox is not open. Nothing is stored.
    """
    for selection in selections:
        service.runs.require_open(selection.conversation)
    decided: dict[str, None] = {}
    refused: list[Selection] = []
    try:
        for selection in selections:
            try:
                await find_selected(service, person, selection, choice.action)
                # A run between two decisions about one conversation would change it.
                await service.decide(
                    person, selection.conversation, selection.path, selection.version, choice, resume=False
                )
                decided[selection.conversation] = None
            except HTTPError:
                refused.append(selection)
    finally:  # even if the request is cancelled
        for conversation in decided:
            service.runs.start(conversation)
    return refused


async def find_outcomes(
    service: ApprovalService,
    person: Principal,
    selections: Sequence[Selection],
    action: Action,
    refused: Collection[Selection] = (),
) -> list[Outcome]:
    """Return what became of selected calls, as it is stored: a page with the outcomes can be loaded again.

    Args:
        service: service that reads the conversations.
        person: the approver.
        selections: the selected calls.
        action: the decision.
        refused: calls about which the decision was refused.
    """
    outcomes: list[Outcome] = []
    for selection in selections:
        name, problem, version = "", None, None
        try:
            snapshot = await service.snapshot(person, selection.conversation)
            name = service.find_call(snapshot, selection.path).name
            # The user may have decided a refused call in another tab.
            if selection in refused or own_decision(snapshot.messages, selection.path, person.name) != action:
                await find_selected(service, person, selection, action)
                problem = f"{name} was not decided: select it again."
        except HTTPError as error:
            problem = error.detail
        if problem is not None:
            version = await _find_open_version(service, person, selection, action)
        outcomes.append(Outcome(selection, name, problem, version))
    return outcomes


async def _find_open_version(
    service: ApprovalService, person: Principal, selection: Selection, action: Action
) -> str | None:
    """Return the current version of a call, or None if the person cannot decide it now."""
    try:
        snapshot = await service.snapshot(person, selection.conversation)
        version = compute_version(service.find_call(snapshot, selection.path))
        await find_selected(service, person, replace(selection, version=version), action)
    except HTTPError:
        return None
    return version
