"""Illegal: calls without a model, middlewares and single questions. See `illegal_builder.py` for the marks."""

from __future__ import annotations

from chat_core import Abilities, ChatBuilder, Middleware, ScopedCollection, ask

from fakes import FakeFull
from world import City, ask_if_high, city, hi, pays, risky

waits = ChatBuilder().with_model(pays).with_scoped_tools(ScopedCollection(risky, ask_if_high)).build()


async def x301_a_pause_of_a_call_is_forgotten() -> None:
    outcome = await waits.call("pay", {"amount": 5}, hi())
    print(outcome.status)  # E: status


def x302_a_class_for_a_middleware() -> None:  # R: UsageError: with_middleware\(\) needs a Middleware
    ChatBuilder().with_middleware(Middleware)  # E: Middleware


async def x303_a_field_of_another_answer() -> None:
    answer = await ask(city, "Where?", output=City)
    print(answer.value.country)  # E: country


async def x304_arguments_that_are_no_object() -> None:
    await waits.call("pay", [5], hi())  # E: list|Mapping


async def x305_a_chat_for_a_model() -> None:  # R: UsageError: with_model\(\) needs a model
    await ask(ChatBuilder().with_model(FakeFull()).build(), "Where?")  # E: Chat|overload


def x306_an_ability_that_does_not_exist() -> None:  # R: TypeError: .*vision
    Abilities(vision=True)  # E: vision


def x307_a_context_window_that_may_be_unknown(abilities: Abilities) -> int:
    return abilities.context_window // 2  # E: None


def x308_an_ability_that_is_read_under_another_name(abilities: Abilities) -> bool:
    return abilities.vision is True  # E: vision


def x309_an_ability_that_is_changed(abilities: Abilities) -> None:
    abilities.images = True  # E: images|read-only|frozen
