"""Which WebSocket connection owns a session."""

from __future__ import annotations

from dataclasses import dataclass, field

from chat_service.socket_owners import SocketOwners

FIRST, SECOND, THIRD = "first", "second", "third"


@dataclass
class Clock:
    now: float = 100.0
    owners: SocketOwners = field(init=False)

    def __post_init__(self) -> None:
        self.owners = SocketOwners(30, lambda: self.now)


def test_the_first_connection_owns_the_session_and_others_read() -> None:
    owners = Clock().owners

    assert owners.claim("s", FIRST)
    assert owners.claim("s", SECOND) is None
    assert (owners.owns("s", FIRST), owners.owns("s", SECOND)) == (True, False)


def test_a_reconnect_token_is_valid_once_and_renewed_at_each_use() -> None:
    owners = Clock().owners
    first = owners.claim("s", FIRST)
    owners.lose(FIRST)
    second = owners.claim("s", SECOND, first)
    owners.lose(SECOND)

    assert second is not None
    assert owners.claim("s", THIRD, first) is None
    assert owners.claim("s", THIRD, second)
    assert owners.owns("s", THIRD)


def test_a_lost_session_needs_its_token_until_the_grace_time_ends() -> None:
    clock = Clock()
    clock.owners.claim("s", FIRST)
    clock.owners.lose(FIRST)
    clock.now += 30
    early = [clock.owners.claim("s", SECOND, token) for token in ("wrong", "", " ")]
    clock.now += 0.1

    assert early == [None] * 3
    assert clock.owners.claim("s", SECOND)


def test_a_released_session_is_free_at_once() -> None:
    owners = Clock().owners
    owners.claim("s", FIRST)
    owners.release("s", SECOND)
    is_still_owned = owners.owns("s", FIRST)
    owners.release("s", FIRST)

    assert is_still_owned
    assert owners.claim("s", SECOND)


def test_the_owner_takes_a_session_over_from_a_connection_that_is_not_closed_yet() -> None:
    owners = Clock().owners
    token = owners.claim("s", FIRST)

    assert owners.claim("s", SECOND, token)
    assert not owners.owns("s", FIRST)
