"""Approval of tool calls outside the process that runs them: tokens, grants, expiry, display, and dry runs.

A dry run needs the engine, which is imported on first use. A web page that only accepts decisions does not load it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from chat_core.approvals.display import escape_invisible, has_invisible
from chat_core.approvals.expiry import expire
from chat_core.approvals.grants import approve_with_grant
from chat_core.approvals.keys import ApprovalKeys, SavedConversation
from chat_core.approvals.permissions import MayDecide, Principal, is_allowed, only_role, owner_may_decide
from chat_core.approvals.tokens import ApprovalChoice, ApprovalRefusedError, BoundApproval, RefusalReason

if TYPE_CHECKING:
    from chat_core.engine.dry_run import DryRun, DryRunCall, DryRunOutcome, dry_run

__all__ = [
    "ApprovalChoice",
    "ApprovalKeys",
    "ApprovalRefusedError",
    "BoundApproval",
    "DryRun",
    "DryRunCall",
    "DryRunOutcome",
    "MayDecide",
    "Principal",
    "RefusalReason",
    "SavedConversation",
    "approve_with_grant",
    "dry_run",
    "escape_invisible",
    "expire",
    "has_invisible",
    "is_allowed",
    "only_role",
    "owner_may_decide",
]

_DRY_RUN = ("DryRun", "DryRunCall", "DryRunOutcome", "dry_run")


def __getattr__(name: str) -> object:
    if name in _DRY_RUN:
        value: object = getattr(import_module("chat_core.engine.dry_run"), name)
        globals()[name] = value
        return value
    msg = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(msg)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
