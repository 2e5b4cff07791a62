"""Signatures of callables: resolved annotations, hidden parameters, threads, and unsupported callables."""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import pytest
from chat_core.errors import UsageError
from chat_core.run_context import Injected, RunContext, Values
from chat_core.tools import ToolCollection, ToolContext
from chat_core.tools.signature import EMPTY, read_signature

if TYPE_CHECKING:
    from fractions import Fraction

CONTEXT = ToolContext("call_1")


def names(function: Any) -> list[str]:
    return [parameter.name for parameter in read_signature(function).parameters]


class Desk:
    def __init__(self, city: str) -> None:
        self.city = city

    def book(self, seat: int) -> str:
        """Book a seat."""
        return f"{seat} in {self.city}"

    @classmethod
    def open(cls, city: str) -> Desk:
        return cls(city)

    @staticmethod
    def close(when: str) -> str:
        return when

    async def __call__(self, seat: int) -> str:
        """Book by calling."""
        return self.book(seat)


def test_string_annotations_are_resolved() -> None:
    def pay(cents: int, to: str = "nobody") -> None: ...

    first, second = read_signature(pay).parameters
    assert (first.name, first.hint, first.default) == ("cents", int, EMPTY)
    assert (second.name, second.hint, second.default) == ("to", str, "nobody")


def test_annotations_with_names_of_an_enclosing_function_are_resolved() -> None:
    @dataclass
    class Place:
        city: str

    def outer() -> Any:
        @dataclass
        class Inner:
            place: Place

        def travel(to: Inner, via: list[Place]) -> None: ...

        return read_signature(travel), Inner

    signature, inner = outer()
    assert [parameter.hint for parameter in signature.parameters] == [inner, list[Place]]


def test_annotation_with_a_closure_name_is_resolved_after_the_function_returned() -> None:
    def make() -> Any:
        class Place:
            pass

        def travel(to: Place) -> Any:
            return Place, to

        return travel, Place

    travel, place = make()
    assert read_signature(travel).parameters[0].hint is place


def test_unassigned_closure_name_is_ignored_if_no_annotation_uses_it() -> None:
    def later(n: int) -> int:
        return n + more

    signature = read_signature(later)
    more = 2
    assert signature.call({"n": 1}, CONTEXT) == 3


def test_local_name_of_a_caller_is_not_used_to_resolve_an_annotation() -> None:
    def caller(function: Any) -> None:
        Hidden = int  # noqa: N806 - the annotation must not find it
        read_signature(function)
        assert Hidden is int

    def make() -> Any:
        def travel(to: Any) -> None: ...

        travel.__annotations__["to"] = "Hidden"
        return travel

    with pytest.raises(UsageError, match="'Hidden' of 'to' cannot be evaluated"):
        caller(make())


def test_parameter_annotated_with_a_type_checking_import_raises() -> None:
    def half(of: Fraction) -> None: ...

    with pytest.raises(UsageError, match="half: the annotation 'Fraction' of 'of' cannot be evaluated"):
        read_signature(half)


def test_return_annotation_with_a_type_checking_import_is_ignored() -> None:
    def half(of: int, ready: list[Fraction] = []) -> Fraction:  # noqa: B006 - mutable on purpose
        return ready[of]

    half.__annotations__["ready"] = "list[int]"

    assert names(half) == ["of", "ready"]


def test_parameter_without_annotation_accepts_any_value() -> None:
    def echo(value: object, /) -> object:
        return value

    del echo.__annotations__["value"]
    assert read_signature(echo).parameters[0].hint is Any


def test_context_parameter_is_hidden_and_passed_in_every_annotation_form() -> None:
    def plain(a: int, ctx: ToolContext) -> Any:
        return a, ctx

    def optional(a: int, ctx: ToolContext | None = None) -> Any:
        return a, ctx

    def annotated(ctx: Annotated[ToolContext, "mine"], a: int) -> Any:
        return a, ctx

    def keyword(a: int, *, ctx: ToolContext) -> Any:
        return a, ctx

    def positional(ctx: ToolContext, a: int, /) -> Any:
        return a, ctx

    for function in (plain, optional, annotated, keyword, positional):
        signature = read_signature(function)
        assert [parameter.name for parameter in signature.parameters] == ["a"]
        assert signature.call({"a": 5}, CONTEXT) == (5, CONTEXT)


def test_call_passes_every_kind_of_parameter() -> None:
    def mixed(a: int, /, b: int, c: int = 3, *, d: int, e: int = 5) -> tuple[int, ...]:
        return a, b, c, d, e

    assert read_signature(mixed).call({"a": 1, "b": 2, "d": 4}, CONTEXT) == (1, 2, 3, 4, 5)


def test_methods_partials_and_callable_objects_can_be_read() -> None:
    desk = Desk("Lyon")
    assert read_signature(desk.book).call({"seat": 4}, CONTEXT) == "4 in Lyon"
    assert (read_signature(desk.book).name, read_signature(desk.book).doc) == ("book", "Book a seat.")
    assert names(Desk.open) == ["city"]
    assert names(Desk.close) == ["when"]
    assert names(desk) == ["seat"]
    assert (read_signature(desk).name, read_signature(desk).doc) == (None, "Book by calling.")
    partial = read_signature(functools.partial(Desk.close, "noon"))
    assert (partial.name, partial.parameters, partial.call({}, CONTEXT)) == ("close", (), "noon")


def test_keyword_fixed_by_a_partial_is_not_a_parameter_of_the_tool() -> None:
    def transfer(account: str, cents: int) -> str:
        return f"{cents} from {account}"

    fixed = functools.partial(transfer, account="mine")
    assert names(fixed) == ["cents"]
    assert read_signature(fixed).call({"cents": 5}, CONTEXT) == "5 from mine"


def test_wrapped_function_has_the_signature_of_the_original() -> None:
    def logged(function: Any) -> Any:
        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

        return wrapper

    @logged
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    signature = read_signature(add)
    assert ([parameter.hint for parameter in signature.parameters], signature.doc) == ([int, int], "Add.")
    assert signature.call({"a": 1, "b": 2}, CONTEXT) == 3


async def _coroutine(a: int) -> int:
    return a


def test_only_coroutine_functions_are_not_blocking() -> None:
    assert read_signature(lambda: None).blocking
    assert read_signature(Desk("Lyon").book).blocking
    assert not read_signature(_coroutine).blocking
    assert not read_signature(functools.partial(_coroutine, 1)).blocking
    assert not read_signature(Desk("Lyon")).blocking
    assert not read_signature(Desk("Lyon").__call__).blocking


def test_function_that_returns_an_awaitable_is_blocking_and_returns_it() -> None:
    def later(a: int) -> Any:
        return _coroutine(a)

    signature = read_signature(later)
    assert signature.blocking
    awaitable = signature.call({"a": 1}, CONTEXT)
    assert inspect.iscoroutine(awaitable)
    awaitable.close()


def _args(*values: int) -> None: ...


def _kwargs(**values: int) -> None: ...


def _generator(n: int) -> Iterator[int]:
    yield n


async def _async_generator(n: int) -> AsyncIterator[int]:
    yield n


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (_args, r"_args takes \*values"),
        (_kwargs, r"_kwargs takes \*\*values"),
        (_generator, "_generator is a generator"),
        (_async_generator, "_async_generator is a generator"),
        (Desk.book, r"Desk.book is an unbound method"),
        (max, "no readable signature|takes"),
    ],
)
def test_function_that_a_model_cannot_call_raises(function: Any, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        read_signature(function)


def test_unresolved_annotation_is_any_if_resolve_is_false() -> None:
    def half(of: Fraction, ctx: ToolContext) -> None: ...

    signature = read_signature(half, resolve=False)
    assert [(parameter.name, parameter.hint) for parameter in signature.parameters] == [("of", Any)]


# --- Injected parameters ------------------------------------------------------------------------------------


def test_injected_parameter_is_hidden_and_filled_from_the_run_values() -> None:
    def pay(desk: Injected[Desk], /, cents: int, *, other: Annotated[Injected[str], "more"]) -> str:
        return f"{cents} {other} {desk.city}"

    signature = read_signature(pay)
    run = RunContext(values=Values({Desk: Desk("Lyon"), str: "to"}))

    assert names(pay) == ["cents"]
    assert signature.injected == (("desk", Desk), ("other", str))
    assert signature.call({"cents": 5, "other": "from a model"}, ToolContext("call_1", run=run)) == "5 to Lyon"


def test_injected_parameter_without_a_type_or_with_a_default_raises() -> None:
    def bare(desk: Injected) -> None: ...  # type: ignore[type-arg]  # wrong on purpose

    def outside(desk: Injected[Desk] | None) -> None: ...

    def default(desk: Injected[Desk] = Desk("Lyon")) -> None: ...  # noqa: B008 - that is the mistake

    functions: list[Any] = [bare, outside]
    for function in functions:
        with pytest.raises(UsageError, match=r"annotate 'desk' as Injected\[\.\.\.\] with a type inside"):
            read_signature(function)
    with pytest.raises(UsageError, match="the injected parameter 'desk' cannot have a default"):
        read_signature(default)


def test_handler_of_a_raw_tool_can_have_injected_parameters() -> None:
    tools = ToolCollection()

    def handle(arguments: dict[str, Any], desk: Injected[Desk]) -> str:
        return f"{arguments['seat']} in {desk.city}"

    schema = {"type": "object", "properties": {"seat": {"type": "integer"}}}
    handler: Any = handle
    tools.register("book", schema, handler)
    definition, _ = tools.snapshot()["book"]

    assert (
        definition.run({"seat": 3}, ToolContext("c", run=RunContext(values=Values({Desk: Desk("Lyon")}))))
        == "3 in Lyon"
    )
