"""`SharedRenewals`, which renews leases that are due at the same time in one transaction."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Generic, TypeAlias, TypeVar, final
from weakref import WeakKeyDictionary

from anyio import Lock
from anyio.lowlevel import current_token
from chat_core.concurrency import finish
from chat_core.errors import ChatError

T = TypeVar("T")

MAX_LEASES: Final = 50
"""Maximum number of leases that share a transaction, because their rows stay locked until it ends."""
Renew: TypeAlias = Callable[[Sequence[T]], Awaitable[Sequence[ChatError | None]]]
"""A function that renews leases in one transaction, and returns the error of each lease or `None`.

It raises `OSError` if the transaction fails.
"""


@final
@dataclass(slots=True, eq=False)
class _Request(Generic[T]):
    """A request to renew a lease.

    Attributes:
        item: the job or conversation that has the lease.
        is_running: whether a transaction that uses the item has begun and not ended.
        is_done: whether the transaction of the renewal has ended.
        is_shared: whether other leases were renewed in the same transaction.
        error: the error of the renewal.
    """

    item: T
    is_running: bool = False
    is_done: bool = False
    is_shared: bool = False
    error: ChatError | OSError | None = None


@final
@dataclass(frozen=True, slots=True)
class _Requests(Generic[T]):
    """The requests of one event loop.

    Attributes:
        items: the requests that wait for a transaction.
        renewing: held during a transaction.
    """

    items: list[_Request[T]] = field(default_factory=list[_Request[T]])
    renewing: Lock = field(default_factory=Lock)

    async def wait(self) -> None:
        """Wait until the current transaction has ended."""
        async with self.renewing:
            pass


@final
class SharedRenewals(Generic[T]):
    """Renewals of leases. Renewals that are requested until a transaction begins share it, up to `MAX_LEASES`.

    Several event loops may use one object. They do not share transactions.

    Args:
        renew: renews several leases in one transaction.
    """

    def __init__(self, renew: Renew[T]) -> None:
        self._renew = renew
        self._requests: WeakKeyDictionary[object, _Requests[T]] = WeakKeyDictionary()

    async def renew(self, item: T) -> None:
        """Renew a lease. If the shared transaction fails, renew it alone, because the row of another may be locked.

        Args:
            item: the job or conversation that has the lease.

        Raises:
            ChatError: the error of this lease, such as `LeaseLostError`.
            OSError: the storage cannot be reached.
        """
        requests = self._requests.setdefault(current_token().native_token, _Requests())
        request = _Request(item)
        requests.items.append(request)
        try:
            await self._renew_together(request, requests)
        except BaseException:
            requests.items.remove(request)  # the next transaction must not use the item
            if request.is_running:  # the transaction of another task uses the item until it ends
                await finish(requests.wait)
            raise
        requests.items.remove(request)
        error: ChatError | OSError | None = request.error
        if isinstance(error, OSError) and request.is_shared:
            (error,) = await self._renew([item])
        if error is not None:
            raise error

    async def _renew_together(self, own: _Request[T], requests: _Requests[T]) -> None:
        async with requests.renewing:
            if own.is_done:
                return
            others = [request for request in requests.items if request is not own and not request.is_done]
            shared = [own, *others[: MAX_LEASES - 1]]
            errors: Sequence[ChatError | OSError | None]
            for request in shared:
                request.is_running = True
            try:
                errors = await self._renew([request.item for request in shared])
            except OSError as error:
                errors = [error] * len(shared)
            finally:
                for request in shared:
                    request.is_running = False
            for request, failure in zip(shared, errors, strict=True):
                request.error, request.is_done, request.is_shared = failure, True, len(shared) > 1
