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


def test_scenario_has_the_name_and_docstring_of_its_function() -> None:
    @scenario("text", "tools")
    async def polite(subject: Subject) -> None:
        """A provider
        says please."""

    assert (polite.name, polite.promise) == ("polite", "A provider says please")
    assert polite.needs == {"text", "tools"}


def test_scenario_that_needs_an_unknown_capability_raises() -> None:
    with pytest.raises(UsageError, match="unknown capabilities manners"):
        scenario("manners")


def test_scenario_is_claimed_if_all_its_capabilities_are_claimed() -> None:
    needing = Scenario("polite", "", frozenset({"text", "tools"}), of(_keeps).run)

    assert needing.is_claimed(Capabilities(tools=True))
    assert not needing.is_claimed(Capabilities())


async def test_scenario_returns_without_an_error_if_the_provider_conforms() -> None:
    seen: list[Subject] = []

    async def polite(subject: Subject) -> None:
        seen.append(subject)

    await of(polite)(SUBJECT)

    assert seen == [SUBJECT]


async def test_nonconforming_error_begins_with_the_name_of_the_scenario() -> None:
    with pytest.raises(NonconformingError, match=r"^polite: it never said please$"):
        await of(_breaks)(SUBJECT)


async def test_provider_error_in_a_scenario_raises_nonconforming_error_with_the_promise() -> None:
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
