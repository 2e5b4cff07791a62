"""Check that no model of a router receives data that another account signed or encrypted.

Providers recognize their own signatures, encrypted reasoning and ids of stored responses by the name of the provider in
the history. Two accounts therefore need two names.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from chat_core import UsageError
from chat_core.wire.endpoint import Endpoint

from chat_router.candidate import Candidate

_ACCOUNT_HEADER: Final = re.compile(r"auth|key|token|secret|cookie|organization|project|account", re.IGNORECASE)
"""Pattern for the names of headers that identify the account of a request."""

_DEPLOYMENT: Final = re.compile(r"/deployments/[^/]+$")
"""Pattern for the end of an Azure path, which names a deployment. All deployments of a resource share an account."""


def require_distinct_accounts(candidates: Sequence[Candidate]) -> None:
    """Check that models with the same provider name use the same address and the same key.

    Args:
        candidates: models of a router.

    Raises:
        UsageError: two models have the same provider name, and different addresses or keys.
    """
    known: dict[str, tuple[Candidate, tuple[object, ...]]] = {}
    for candidate in candidates:
        endpoint = getattr(candidate.model, "endpoint", None)
        if not isinstance(endpoint, Endpoint):
            continue
        account = _account_of(endpoint)
        other, first = known.setdefault(candidate.meta.name, (candidate, account))
        if account != first:
            msg = (
                f"the models {other.name} and {candidate.name} have the same provider name, and different addresses or "
                "keys, so that one model would receive data that was signed or encrypted for the other: call "
                "with_provider_name('…') on one of the models"
            )
            raise UsageError(msg)


def _account_of(endpoint: Endpoint) -> tuple[object, ...]:
    headers = [(name, value) for name, value in endpoint.headers if _ACCOUNT_HEADER.search(name)]
    # The path names the account too, such as the project on Vertex AI.
    path = _DEPLOYMENT.sub("", endpoint.path)
    return endpoint.scheme, endpoint.host, path, endpoint.query, sorted(headers), endpoint.key
