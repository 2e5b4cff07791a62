"""Capabilities that a transport declares to the conformance suite."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final, final

from chat_core.errors import UsageError


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class TransportCapabilities:
    """Declared capabilities of a transport. Scenarios that need an undeclared capability are skipped and reported.

    Attributes:
        network: opens network connections and reports connection errors.
        chunked: reads chunked bodies and bodies with a length, and detects truncation. Without this capability the peer
            ends each response by closing the connection, as HTTP/1.0 does.
        timeouts: applies the timeouts of a request.
        concurrent: sends several requests concurrently.
        pooling: reuses a connection for later requests.
        compression: decodes `gzip` and `deflate` bodies.
        checks_headers: rejects header values with a line break and addresses with control characters.
        limits: limits the bodies and streams that it receives, after decompression.
        back_pressure: stops reading from the connection while the consumer does not read.
        passed_in: accepts an object such as a client, which the caller owns and closes.

    Raises:
        UsageError: a declared capability depends on one that is not declared.
    """

    network: bool = True
    chunked: bool = True
    timeouts: bool = True
    concurrent: bool = True
    pooling: bool = False
    compression: bool = False
    checks_headers: bool = False
    limits: bool = False
    back_pressure: bool = False
    passed_in: bool = False

    def __post_init__(self) -> None:
        for claim, base in BUILT_ON.items():
            if getattr(self, claim) and not getattr(self, base):
                msg = f"{claim}=True requires {base}=True"
                raise UsageError(msg)

    @property
    def claimed(self) -> frozenset[str]:
        """Names of the declared capabilities."""
        return frozenset([name for name in CLAIMS if getattr(self, name)])


CLAIMS: Final = tuple([item.name for item in fields(TransportCapabilities)])
"""Names of all capabilities."""

BUILT_ON: Final = {"chunked": "network", "timeouts": "network", "pooling": "chunked", "back_pressure": "network"}
"""Capabilities that depend on another one, mapped to that capability."""
