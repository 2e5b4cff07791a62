from __future__ import annotations

import pytest
from chat_core import ChatError, UsageError
from chat_core.testing import ScriptedProvider
from chat_testing import Capabilities, NonconformingError, ProviderTapes, Subject
from chat_testing.conformance.scenario import Run, Scenario, scenario
from chat_testing.errors import fail

pytestmark = pytest.mark.anyio
SUBJECT = Subject(lambda _: ScriptedProvider(), Capabilities(), ProviderTapes())


def of(run: Run) -> Scenario:
    return Scenario("polite", "A provider says please", frozenset(), run)


def test_a_scenario_is_named_and_promises_what_its_function_does() -> None:
    @scenario("text", "tools")
    async def polite(subject: Subject) -> None:
        """A provider
        says please."""

    assert (polite.name, polite.promise) == ("polite", "A provider says please")
    assert polite.needs == {"text", "tools"}


def test_what_a_scenario_needs_can_be_claimed() -> None:
    with pytest.raises(UsageError, match="unknown capabilities manners"):
        scenario("manners")


def test_a_scenario_is_claimed_where_all_that_it_needs_is() -> None:
    needing = Scenario("polite", "", frozenset({"text", "tools"}), of(_keeps).run)

    assert needing.is_claimed(Capabilities(tools=True))
    assert not needing.is_claimed(Capabilities())


async def test_a_promise_that_is_kept_says_nothing() -> None:
    seen: list[Subject] = []

    async def polite(subject: Subject) -> None:
        seen.append(subject)

    await of(polite)(SUBJECT)

    assert seen == [SUBJECT]


async def test_a_fault_is_told_with_the_name_of_its_scenario() -> None:
    with pytest.raises(NonconformingError, match=r"^polite: it never said please$"):
        await of(_breaks)(SUBJECT)


async def test_an_error_of_the_provider_is_a_fault_that_names_the_promise() -> None:
    with pytest.raises(
        NonconformingError, match=r"polite: the requirement is “A provider says please”; .* ChatError: rude"
    ) as e:
        await of(_raises)(SUBJECT)

    assert isinstance(e.value.__cause__, ChatError)
    assert isinstance(e.value, AssertionError)


async def _keeps(_subject: Subject) -> None:
    pass


async def _breaks(_subject: Subject) -> None:
    fail("it never said please")


async def _raises(_subject: Subject) -> None:
    raise ChatError("rude")
