"""The query for the changes of a scope since an earlier revision."""

from __future__ import annotations

from typing import cast

from chat_memory._rows import Rows
from chat_memory._scope_export import read_revision
from chat_memory.passages import ScopeChanges

_REVISION_BITS = 32
"""Number of lower bits of a revision that count changes. The upper bits contain the key of the scope's row."""
_ENTITIES = 0
"""Document key that represents the entities of a scope in the table of changes."""


def read_changes(rows: Rows, since: int, model: str | None) -> ScopeChanges:
    """Return the documents, vectors and entities of a scope that may have changed since a revision.

    Args:
        rows: the rows of the scope.
        since: an earlier revision of this scope. For any other number, everything is returned.
        model: the name of the embedder whose vectors are returned, or None for no vectors.
    """
    revision = read_revision(rows.session, rows.scope)
    changed: set[int] | None = None
    if since <= revision and since >> _REVISION_BITS == rows.scope:
        found = rows.session.execute(
            "SELECT document FROM chat_memory_changes WHERE scope = :scope AND revision > :since",
            {"scope": rows.scope, "since": since & ((1 << _REVISION_BITS) - 1)},
        )
        changed = {cast("int", row[0]) for row in found}
    entities = rows.graph.entities() if changed is None or _ENTITIES in changed else None
    if changed is not None:
        changed.discard(_ENTITIES)
    return ScopeChanges(
        revision,
        rows.documents.find(changed),
        ([], b"") if model is None else rows.documents.vectors(model, changed),
        changed,
        entities,
    )
