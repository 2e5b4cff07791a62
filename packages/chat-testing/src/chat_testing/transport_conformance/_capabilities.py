"""What a transport claims."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final, final

from chat_core.errors import UsageError


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class TransportCapabilities:
    """What a transport claims. A scenario of what is not claimed is not run, and is reported as such.

    Attributes:
        network: it opens connections, and tells what becomes of them.
        chunked: it reads bodies whose end is told, and so knows one that was cut. Without this claim the peer ends each
            answer with its connection, as HTTP/1.0 does.
        timeouts: it heeds the timeouts of a request.
        concurrent: it serves many requests at once, each with its own answer.
        pooling: a connection serves one request after another.
        compression: it undoes `gzip` and `deflate`.
        checks_headers: it refuses a header that would break out of its line.
        back_pressure: it does not read faster than it is read.
        passed_in: something that it works with may be passed in, and is not its own to close.

    Raises:
        UsageError: a claim makes no sense without another one.
    """

    network: bool = True
    chunked: bool = True
    timeouts: bool = True
    concurrent: bool = True
    pooling: bool = False
    compression: bool = False
    checks_headers: bool = False
    back_pressure: bool = False
    passed_in: bool = False

    def __post_init__(self) -> None:
        for claim, base in BUILT_ON.items():
            if getattr(self, claim) and not getattr(self, base):
                msg = f"{claim}=True needs {base}=True: one is nothing without the other"
                raise UsageError(msg)

    @property
    def claimed(self) -> frozenset[str]:
        """The names of the claims that are made."""
        return frozenset([name for name in CLAIMS if getattr(self, name)])


CLAIMS: Final = tuple([item.name for item in fields(TransportCapabilities)])
"""Everything that can be claimed."""

BUILT_ON: Final = {"chunked": "network", "timeouts": "network", "pooling": "chunked", "back_pressure": "network"}
"""Claims that make no sense without another one."""
