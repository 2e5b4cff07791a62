"""Tools that let a model read and change a memory. The scope comes from the run, never from arguments."""

# ruff: noqa: D417 - the parameters are named for models, which do not see the context

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, cast, final

from chat_core import Recalled, RecalledNote, ToolCollection, ToolContext
from chat_core.arguments import argument_error, require_callable, require_type
from chat_core.errors import UsageError
from chat_core.recall import ScopeFunction

from chat_memory.errors import UnknownFactError
from chat_memory.facts import SOURCE_CONFIDENCE, Candidate, Fact, Historical, Inserted, Outcome, Source, Statement
from chat_memory.memory import Memory, MemoryScope, require_memory
from chat_memory.recall import Recall

LISTED_FACTS: Final = 50
"""The maximum number of facts that the tool `list` returns."""


def memory_tools(
    memory: Memory, recall: Recall, *, scope: ScopeFunction, source: Source = "inferred"
) -> ToolCollection[None]:
    """Return the tools `remember`, `recall`, `update`, `forget` and `list`, to be added with a policy.

    Args:
        memory: the memory that the tools read and change.
        recall: search engine for that memory.
        scope: function that returns the scope of a run. If it returns None, the calls fail.
        source: the source of the facts that the model stores. A fact of a weaker source never replaces one of a
            stronger source, so by default a model cannot overwrite what a user stated. Pass "stated" if a user approves
            each call.
    """
    require_memory(memory)
    require_type("recall", recall, Recall, "a Recall, such as Recall(memory)")
    require_callable("scope", scope, "a function of the run's context, such as lambda context: context.owner")
    if not isinstance(cast("object", source), str) or source not in SOURCE_CONFIDENCE:
        raise argument_error("source", f"one of {', '.join(SOURCE_CONFIDENCE)}", source)
    tools = ToolCollection()
    calls = _MemoryCalls(memory, recall, scope, source)
    tools.tool(idempotent=True)(calls.remember)
    tools.tool(idempotent=True)(calls.recall)
    tools.tool(idempotent=True)(calls.update)
    tools.tool(idempotent=True)(calls.forget)
    tools.tool(idempotent=True)(calls.list)
    return tools


@final
class _MemoryCalls:
    """The functions of the tools, whose docstrings models receive."""

    def __init__(self, memory: Memory, recall: Recall, scope: ScopeFunction, source: Source) -> None:
        self._memory = memory
        self._recall = recall
        self._scope = scope
        self._source: Source = source

    def _find_scope(self, context: ToolContext) -> MemoryScope:
        name = self._scope(context.run)
        if name is None:
            msg = "this run has no memory, because its conversation has no owner"
            raise UsageError(msg)
        return self._memory.scope(name)

    async def remember(self, context: ToolContext, subject: str, predicate: str, object: str) -> str:
        """Remember a fact for later conversations.

        Args:
            subject: the subject, such as "user".
            predicate: the property, such as "lives in".
            object: the value, such as "Berlin".
        """
        return _describe_outcome(await self._add_statement(context, subject, predicate, object))

    async def recall(self, context: ToolContext, question: str) -> str:
        """Search the memory of earlier conversations.

        Args:
            question: a question, or words to search for.
        """
        scope = self._find_scope(context).name
        notes = await self._recall.recall(scope, question)
        await self._recall.received(scope, notes)
        return _quote_notes(notes)

    async def update(self, context: ToolContext, id: str, object: str) -> str:
        """Change the value of a remembered fact.

        Args:
            id: the id of the fact, from the tool `list`.
            object: the new value.
        """
        rows = self._find_scope(context)
        fact = await rows.get(id)
        if fact is None:
            raise _unknown_fact_error(id)
        outcome = await self._add_statement(context, fact.subject, fact.predicate, object)
        is_weaker = SOURCE_CONFIDENCE[self._source] < SOURCE_CONFIDENCE[fact.source]
        if isinstance(outcome, Inserted) and outcome.fact.id != id and not is_weaker:
            # The predicate may have several objects at a time, so the new fact replaced nothing.
            await rows.retract(id)
        return _describe_outcome(outcome)

    async def forget(self, context: ToolContext, id: str) -> str:
        """Delete a remembered fact, and the remembered texts that it comes from.

        Args:
            id: the id of the fact, from the tool `list`.
        """
        if not await self._find_scope(context).forget(id):
            raise _unknown_fact_error(id)
        return "The fact was deleted from the memory. Stored conversations were not changed."

    async def list(self, context: ToolContext, subject: str | None = None) -> str:
        """List the remembered facts with their ids.

        Args:
            subject: only facts about this subject.
        """
        facts = await self._find_scope(context).facts(subject=subject)
        return _quote_notes([_create_note(fact) for fact in facts[:LISTED_FACTS]])

    async def _add_statement(self, context: ToolContext, subject: str, predicate: str, object: str) -> Outcome:
        key = f"call {context.idempotency_key}"
        return await self._find_scope(context).add(Statement(subject, predicate, object, source=self._source, key=key))


def _create_note(fact: Fact) -> RecalledNote:
    return RecalledNote(fact.text, f"{fact.source}, id {fact.id}", fact.said_at, fact.confidence, fact.id)


def _quote_notes(notes: Iterable[RecalledNote]) -> str:
    """Return notes in the format that a chat with memory sends to a model, or "Nothing was found." without notes."""
    found = tuple(notes)
    return Recalled(found).text if found else "Nothing was found."


def _unknown_fact_error(id: str) -> UnknownFactError:
    return UnknownFactError(f"there is no fact with the id {id!r}: take an id from the tool list")


def _describe_outcome(outcome: Outcome) -> str:
    match outcome:
        case Candidate():
            return "Kept as a candidate, because it contradicts a fact of a stronger source. A user has to confirm it."
        case Historical():
            return "Kept as history, because a later fact is known."
        case _:
            return f"Remembered, with the id {outcome.fact.id}."
