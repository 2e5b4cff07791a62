"""Illegal: contents without a scope, unknown sources, and outcomes of a wrong type."""

from __future__ import annotations

from chat_memory import Citation, MemoryScope, Outcome, Passage, Relation, SqliteMemory, Statement, UserCitation

from chat_core import ChatBuilder, RecallSource

memory = SqliteMemory("never-opened.db")
statement = Statement("user", "likes", "tea")


async def x320_a_statement_without_a_scope() -> None:  # R: AttributeError: 'SqliteMemory' object has no attribute 'add'
    await memory.add(statement)  # E: add


async def x321_facts_without_a_scope() -> None:  # R: AttributeError: 'SqliteMemory' object has no attribute 'facts'
    await memory.facts()  # E: facts


def x322_a_scope_without_a_name() -> None:  # R: TypeError: .*missing 1 required positional argument
    memory.scope()  # E: name


def x323_an_owner_that_may_be_missing(owner: str | None) -> MemoryScope:
    return memory.scope(owner)  # E: None


def x324_an_unknown_source() -> None:  # R: UsageError: source must be one of stated
    Statement("user", "likes", "tea", source="guessed")  # E: guessed|Source|Literal


def x325_an_unknown_type_of_relation() -> None:  # R: UsageError: the type of a relation must be one of
    Relation("a", "owns", "b", "OWNS")  # E: OWNS|RelationType|Literal


def x326_replaced_facts_of_any_outcome(outcome: Outcome) -> tuple[str, ...]:
    return outcome.replaced  # E: replaced


async def x327_a_decision_without_its_author(scope: MemoryScope) -> None:
    await scope.promote("0" * 32)  # E: citation


async def x328_a_passage_instead_of_a_statement(scope: MemoryScope) -> None:
    await scope.add(Passage("I like tea.", "chat-17"))  # E: Passage


async def x329_an_unknown_status(scope: MemoryScope) -> None:
    await scope.facts(status="old")  # E: old|FactStatus|Literal


def x330_a_changed_statement() -> None:  # R: FrozenInstanceError: cannot assign to field 'source'
    statement.source = "inferred"  # E: source|frozen|read-only


def x331_a_text_for_a_citation() -> Citation:
    return "chat-17"  # E: chat-17|SessionCitation


def x332_a_user_without_a_name() -> None:  # R: TypeError: .*missing 1 required positional argument
    UserCitation()  # E: by


def x333_a_chat_without_a_scope(source: RecallSource) -> None:
    ChatBuilder().with_memory(source)  # E: scope


def x334_a_database_for_its_recall() -> None:  # R: UsageError: .*needs a memory with a method recall
    ChatBuilder().with_memory(memory, scope=lambda context: context.owner)  # E: SqliteMemory


def x335_a_scope_that_is_a_name(source: RecallSource) -> None:
    ChatBuilder().with_memory(source, scope="ana")  # E: ana|str|Literal
