"""Rules about who may decide a waiting call. The application gives one rule to each place that accepts decisions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias, final

from chat_core.errors import UsageError
from chat_core.response import Wait


@final
@dataclass(frozen=True, slots=True)
class Principal:
    """Authenticated user or program that makes a decision. `str()` of it is the name.

    Attributes:
        name: name that decisions are recorded under.
        roles: roles that the application gives the principal, such as `"approver"`.
    """

    name: str
    roles: frozenset[str] = field(default=frozenset())

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:  # pyright: ignore[reportUnnecessaryIsInstance] - callers without a checker
            msg = f"the name of a principal must be a string that is not empty, not {self.name!r}"
            raise UsageError(msg)

    def __str__(self) -> str:
        return self.name


MayDecide: TypeAlias = Callable[[Principal, Wait], bool]
"""Function that returns whether a principal may decide a waiting call, in any way.

`wait.conversation` and `wait.owner` tell whose conversation it is. If the function raises, nothing is decided.
"""


def owner_may_decide(principal: Principal, wait: Wait, /) -> bool:
    """Let the user decide whose conversation it is. Nobody decides in a conversation without an owner.

    Args:
        principal: who wants to decide.
        wait: the waiting call.
    """
    return wait.owner is not None and principal.name == wait.owner


def only_role(role: str, /) -> MayDecide:
    """Return a rule that lets every principal with a role decide.

    Args:
        role: the role, such as `"approver"`.
    """

    def may_decide(principal: Principal, _wait: Wait, /) -> bool:
        return role in principal.roles

    return may_decide


def is_allowed(may_decide: MayDecide, principal: Principal, wait: Wait, /) -> bool:
    """Return whether a principal may decide a call by the rule of the application and by `RequireApproval(of=...)`.

    Args:
        may_decide: the rule of the application.
        principal: who wants to decide.
        wait: the waiting call. Its `of` narrows the rule.
    """
    named = wait.of is None or wait.of == principal.name or wait.of in principal.roles
    return named and may_decide(principal, wait)
