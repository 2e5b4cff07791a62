"""Traces of requests (W3C Trace Context), which the runs of the requests continue in any process.

This module does not use OpenTelemetry. `chat_otel.TracePropagation` implements `Traces` with it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Final, Protocol, final, runtime_checkable

HEADER: Final = "traceparent"
_VALID: Final = re.compile(r"00-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}", re.ASCII)


@runtime_checkable
class Traces(Protocol):
    """A way to continue the trace of a request in its run, such as `chat_otel.TracePropagation`."""

    def capture(self, headers: Mapping[str, str], /) -> Mapping[str, str]:
        """Return the trace of the current request as headers, which are stored with the run, or an empty mapping.

        Args:
            headers: headers of the request, by lower-case name.
        """
        ...

    def restore(self, trace: Mapping[str, str], /) -> AbstractContextManager[object]:
        """Return a context manager in which new spans belong to a trace.

        Args:
            trace: the headers that `capture()` returned, possibly in another process.
        """
        ...


@final
class HeaderTraces:
    """Traces without spans: the trace id of the header `traceparent` appears in the logs of the request and its run."""

    def capture(self, headers: Mapping[str, str], /) -> Mapping[str, str]:
        """Return the valid header `traceparent` of a request, or no headers."""
        value = headers.get(HEADER, "")
        return {HEADER: value} if _VALID.fullmatch(value) else {}

    def restore(self, _trace: Mapping[str, str], /) -> AbstractContextManager[object]:
        """Return a context manager that does nothing."""
        return nullcontext()


def trace_id_of(trace: Mapping[str, str]) -> str | None:
    """Return the trace id, 32 hexadecimal digits, or `None` if there is no valid one.

    Args:
        trace: the headers of the trace.
    """
    found = _VALID.fullmatch(trace.get(HEADER, ""))
    return None if found is None else found[1]
