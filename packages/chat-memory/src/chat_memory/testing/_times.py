"""Conformance scenarios for the times at which facts are true and at which they were known."""

from __future__ import annotations

from datetime import timedelta
from itertools import permutations

from chat_memory.facts import Statement
from chat_memory.testing._fixtures import Memories, home, objects, require_equal, year


async def a_fact_is_current_from_its_beginning(memories: Memories) -> None:
    """A fact that begins in the future becomes current at its beginning, and then replaces the current fact."""
    async with memories.open() as memory:
        ana = memory.scope("ana")
        await ana.add(home("Berlin", 2020))
        await ana.add(home("Paris", 2031, stated_in=2029))
        require_equal(objects(await ana.facts()), ["Berlin"], "a fact of the future is not current")
        memories.clock.advance(days=400)
        require_equal(objects(await ana.facts()), ["Paris"], "a fact is current when it begins")
        require_equal(objects(await ana.facts(status="historical")), ["Berlin"], "and replaces the one before")


async def a_fact_ends(memories: Memories) -> None:
    """A fact is current from the beginning of its validity, inclusive, to the end of its validity, exclusive."""
    async with memories.open() as memory:
        ana = memory.scope("ana")
        await ana.add(home("Berlin", 2020, until=2025))
        moment = timedelta(microseconds=1)
        times = [year(2020) - moment, year(2020), year(2025) - moment, year(2025)]
        found = [objects(await ana.as_of(valid=time)) for time in times]
        require_equal(found, [[], ["Berlin"], ["Berlin"], []], "a validity includes its beginning, not its end")


async def a_later_statement_ends_the_earlier_one(memories: Memories) -> None:
    """An earlier fact does not become current again when the fact that replaced it ends."""
    async with memories.open() as memory:
        ana = memory.scope("ana")
        await ana.add(home("Berlin", 2020))
        await ana.add(home("Paris", 2022, until=2024))
        found = [objects(await ana.as_of(valid=year(number))) for number in (2021, 2023, 2025)]
        require_equal(found, [["Berlin"], ["Paris"], []], "a replaced fact has ended")


async def the_same_fact_can_be_given_an_end(memories: Memories) -> None:
    """A later statement of the same fact with an end ends the fact."""
    async with memories.open() as memory:
        ana = memory.scope("ana")
        await ana.add(home("Berlin", 2020))
        await ana.add(home("Berlin", 2020, until=2024, stated_in=2025))
        found = [objects(await ana.as_of(valid=year(number))) for number in (2021, 2025)]
        require_equal(found, [["Berlin"], []], "a fact ends when its latest statement ends")


async def a_weaker_fact_fills_a_gap(memories: Memories) -> None:
    """A fact of a weaker source is current as soon as no fact of a stronger source is valid."""
    async with memories.open() as memory:
        ana = memory.scope("ana")
        await ana.add(home("Paris", 2022, until=2024))
        await ana.add(home("Rome", 2023, "inferred"))
        found = [objects(await ana.as_of(valid=year(number))) for number in (2022, 2023, 2024, 2025)]
        require_equal(found, [["Paris"], ["Paris"], ["Rome"], ["Rome"]], "the strongest fact in force is current")


async def a_weaker_statement_ends_nothing(memories: Memories) -> None:
    """The end in a statement of a weaker source does not end a fact of a stronger source."""
    async with memories.open() as memory:
        ana = memory.scope("ana")
        await ana.add(home("Berlin", 2020))
        await ana.add(home("Berlin", 2020, "inferred", until=2024, stated_in=2025))
        require_equal(objects(await ana.facts()), ["Berlin"], "a weaker source does not end a fact")


async def a_past_state_is_found_by_its_time(memories: Memories) -> None:
    """`as_of(valid=…)` returns the facts that were true at a time, for every predicate, each with its period."""
    async with memories.open() as memory:
        ana = memory.scope("ana")
        for city, since in (("Berlin", 2020), ("Paris", 2022), ("Rome", 2024)):
            await ana.add(home(city, since))
        await ana.add(Statement("user", "works at", "Acme", valid_from=year(2023)))
        (fact,) = await ana.as_of(valid=year(2022, 6))
        found = (fact.object, fact.valid_from, fact.valid_to, fact.status)
        require_equal(found, ("Paris", year(2022), year(2024), "current"), "a past state has its period")
        require_equal(objects(await ana.as_of(valid=year(2025))), ["Acme", "Rome"], "all predicates are returned")
        require_equal(objects(await ana.as_of(predicate="works at")), ["Acme"], "one predicate can be asked for")


async def past_knowledge_is_found_by_its_time(memories: Memories) -> None:
    """`as_of(recorded=…)` ignores statements that were stored later."""
    async with memories.open() as memory:
        ana = memory.scope("ana")
        await ana.add(home("Berlin", 2020))
        before = memories.clock()
        memories.clock.advance(days=1)
        await ana.add(home("Paris", 2024))
        await ana.add(home("Berlin", 2025, "inferred"))
        require_equal(objects(await ana.as_of(recorded=before)), ["Berlin"], "later statements were not known")
        (fact,) = await ana.as_of(recorded=before)
        require_equal((fact.reinforcements, fact.valid_to), (0, None), "nor their effect on other facts")
        now = await ana.as_of(recorded=memories.clock())
        require_equal(objects(now), ["Paris"], "the latest knowledge contains all statements")
        both = await ana.as_of(valid=year(2022), recorded=memories.clock())
        require_equal(objects(both), ["Berlin"], "both times can be asked for at once")


async def a_retraction_does_not_change_past_knowledge(memories: Memories) -> None:
    """`as_of(recorded=…)` returns facts that were retracted after that time."""
    async with memories.open() as memory:
        ana = memory.scope("ana")
        fact = (await ana.add(home("Paris", 2024))).fact
        before = memories.clock()
        memories.clock.advance(days=1)
        await ana.retract(fact.id)
        require_equal(objects(await ana.as_of(recorded=before)), ["Paris"], "the retraction was not known")
        require_equal(await ana.as_of(recorded=memories.clock()), [], "the retraction is known now")


async def the_order_of_arrival_does_not_matter(memories: Memories) -> None:
    """The same statements give the same facts at all times, in any order of arrival."""
    statements = [
        home("Berlin", 2020),
        home("Paris", 2022, until=2026),
        home("Berlin", 2024, "observed"),
        home("Rome", 2023, "inferred"),
    ]
    async with memories.open() as memory:
        results: set[str] = set()
        for number, order in enumerate(permutations(statements)):
            scope = memory.scope(f"order {number}")
            for statement in order:
                await scope.add(statement)
            times = [year(number) for number in range(2019, 2030)]
            found = [[(fact.object, fact.source, fact.text) for fact in await scope.as_of(valid=at)] for at in times]
            results.add(str([found, objects(await scope.facts(status="candidate"))]))
        require_equal(len(results), 1, "every order has the same result")


SCENARIOS = (
    a_fact_is_current_from_its_beginning,
    a_fact_ends,
    a_later_statement_ends_the_earlier_one,
    the_same_fact_can_be_given_an_end,
    a_weaker_fact_fills_a_gap,
    a_weaker_statement_ends_nothing,
    a_past_state_is_found_by_its_time,
    past_knowledge_is_found_by_its_time,
    a_retraction_does_not_change_past_knowledge,
    the_order_of_arrival_does_not_matter,
)
