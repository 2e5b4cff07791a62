"""The page docs/reference/tool-life.md, generated from `TRANSITIONS`: `python -m tests.project.tool_life_page`."""

from __future__ import annotations

from typing import Final

from chat_core.messages import TRANSITIONS
from chat_core.messages.status import ToolEvent

from .workspace import ROOT

PAGE: Final = ROOT / "docs" / "reference" / "tool-life.md"

MEANINGS: Final = {
    ToolEvent.APPROVE: "An approver, or a grant, approves the call.",
    ToolEvent.START: "The tool starts.",
    ToolEvent.REJECT: "An approver or the policy rejects the call.",
    ToolEvent.EXPIRE: "The time for an approval has passed.",
    ToolEvent.CANCEL: "The application cancels the call.",
    ToolEvent.FAIL: "The tool fails, or the call cannot run, for example because its arguments are invalid.",
    ToolEvent.SCHEDULE: "The policy returns `Schedule`: the call waits for a time.",
    ToolEvent.AWAIT_APPROVAL: "The policy returns `RequireApproval`: the call waits for an approver.",
    ToolEvent.AWAIT_RESULT: "The policy returns `Defer`: the call waits for a result from outside.",
    ToolEvent.AWAIT_OUTCOME: "The chat was built `with_interrupted()`: the call waits until its outcome is recorded.",
    ToolEvent.RECONSIDER: "The approved call must wait again, for example because the edited arguments are invalid.",
    ToolEvent.COMPLETE: "The tool returns, or the result of the call is recorded.",
    ToolEvent.LOST: "The process dies, or the run is cancelled, while the tool runs.",
    ToolEvent.AGAIN: "The tool is declared idempotent, so an interrupted call runs again.",
    ToolEvent.SUSPEND: "The tool is a chat, which pauses.",
    ToolEvent.RETRY: "An approver lets an interrupted call run again.",
}


def tool_life() -> str:
    """Return the page as Markdown, with a diagram and a table."""
    steps = [(start.__name__, event, end.__name__) for start, row in TRANSITIONS.items() for event, end in row.items()]
    final = [start.__name__ for start, row in TRANSITIONS.items() if not row]
    rows = [
        (event, ", ".join(f"`{start}`" for start, other, _ in steps if other is event), end)
        for event, end in {event: end for _, event, end in steps}.items()
    ]
    return "\n".join(
        [
            "# The life of a tool call",
            "",
            "Each tool call has a status. This page lists the events that change it. Any other event raises",
            "`IllegalTransitionError` and changes nothing.",
            "",
            "```mermaid",
            "stateDiagram-v2",
            "    [*] --> Pending",
            *[f"    {start} --> {end}: {event.value}" for start, event, end in steps],
            *[f"    {name} --> [*]" for name in final],
            "```",
            "",
            "| event | meaning | from | to |",
            "|---|---|---|---|",
            *[f"| {event.value} | {MEANINGS[event]} | {starts} | `{end}` |" for event, starts, end in rows],
            "",
            "- A call begins as `Pending`. If its kind is `result`, it can be completed, but not approved or started.",
            "  Other `Pending` calls cannot be completed.",
            f"- {', '.join(f'`{name}`' for name in final)} are final.",
            "- The retry of a chat used as a tool leads to `Suspended` instead of `Approved`: the next run resumes its",
            "  conversation where it stopped.",
            "",
            "The page is generated from `chat_core.messages.TRANSITIONS`.",
            "",
        ]
    )


if __name__ == "__main__":
    PAGE.write_text(tool_life(), encoding="utf-8")
