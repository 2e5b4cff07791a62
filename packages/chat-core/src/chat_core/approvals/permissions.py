"""Rules that determine who may decide a waiting call. Every component that accepts decisions takes such a rule."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import TypeAlias, final

from chat_core.arguments import argument_error, require_text
from chat_core.errors import UsageError
from chat_core.response import Wait


@final
@dataclass(frozen=True, slots=True)
class Principal:
    """Authenticated user or program that makes a decision. `str(principal)` is its name.

    Attributes:
        name: name that decisions are recorded under.
        roles: roles that the application assigned to the principal, such as `"approver"`.

    Raises:
        UsageError: `name` is not a string or is empty, or `roles` is not a set of strings.
    """

    name: str
    roles: frozenset[str] = field(default=frozenset())

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            msg = f"the name of a principal must be a string that is not empty, not {self.name!r}"
            raise UsageError(msg)
        roles: object = self.roles
        if isinstance(roles, str) or not isinstance(roles, Collection) or not _are_texts(roles):
            raise argument_error("roles", "a frozenset of strings, such as frozenset({'approver'})", roles)
        object.__setattr__(self, "roles", frozenset(self.roles))

    def __str__(self) -> str:
        return self.name


def _require_request(principal: object, wait: object) -> None:
    if not isinstance(principal, Principal):
        raise argument_error("principal", "a Principal, such as Principal('ana')", principal)
    if not isinstance(wait, Wait):
        raise argument_error("wait", "a Wait, such as an item of paused.waiting", wait)


def _are_texts(values: Collection[object]) -> bool:
    return all(isinstance(value, str) for value in values)


MayDecide: TypeAlias = Callable[[Principal, Wait], bool]
"""Function that returns whether a principal may make any decision about a waiting call.

`wait.conversation` and `wait.owner` identify the conversation and its owner. If the function raises, the call is not
decided.
"""


def owner_may_decide(principal: Principal, wait: Wait, /) -> bool:
    """Return whether a principal owns the conversation of a waiting call.

    If the conversation has no owner, the rule allows nobody.

    Args:
        principal: user or program that wants to decide.
        wait: the waiting call.

    Raises:
        UsageError: `principal` is not a `Principal`, or `wait` is not a `Wait`.
    """
    _require_request(principal, wait)
    return wait.owner is not None and principal.name == wait.owner


def only_role(role: str, /) -> MayDecide:
    """Return a rule that allows every principal with a certain role to decide.

    Args:
        role: the role, such as `"approver"`.

    Raises:
        UsageError: `role` is not a string.
    """
    require_text(role=role)

    def may_decide(principal: Principal, _wait: Wait, /) -> bool:
        return role in principal.roles

    return may_decide


def is_allowed(may_decide: MayDecide, principal: Principal, wait: Wait, /) -> bool:
    """Return whether both the application's rule and `RequireApproval(of=...)` let a principal decide a waiting call.

    Args:
        may_decide: the rule of the application.
        principal: user or program that wants to decide.
        wait: the waiting call. If `wait.of` is set, only a principal with this name or role may decide.

    Raises:
        UsageError: an argument has another type, or the rule did not return a bool. For example, an async function
            returns a coroutine, which is always true.
    """
    if not callable(may_decide):
        raise argument_error("may_decide", "a function of a principal and a wait, such as owner_may_decide", may_decide)
    _require_request(principal, wait)
    try:
        allowed = may_decide(principal, wait)
    except TypeError as error:
        msg = f"may_decide must accept a principal and a wait; it raised: {error}"
        raise UsageError(msg) from error
    if not isinstance(allowed, bool):
        msg = f"may_decide must return True or False without await, not a {type(allowed).__name__}"
        raise UsageError(msg)
    return allowed and (wait.of is None or wait.of == principal.name or wait.of in principal.roles)
