"""Functions that compare the abilities of models with the needs of a request, and filter a request's options."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, final

from chat_core import (
    Abilities,
    ChatOptions,
    ContextLengthError,
    File,
    Messages,
    ProviderMeta,
    ToolDeclarations,
    UnsupportedOptionError,
)

from chat_router.candidate import Candidate
from chat_router.errors import NoCapableModelError

_BY_KIND: Final = {"image": "images", "audio": "audio", "application": "documents"}
_NAMES: Final = ("tools", "images", "audio", "documents", "structured", "streaming")
_REQUIRED: Final = ("tools", "images", "audio", "documents", "streaming")
"""Abilities without which a request fails.

`structured` is not among them: without it, a provider describes the schema.
"""


def united(abilities: Iterable[Abilities]) -> Abilities:
    """Return the abilities of a router, which are all abilities that at least one of its models has.

    Args:
        abilities: abilities of the models.
    """
    known = list(abilities)
    values = {name: _unite_abilities([getattr(item, name) for item in known]) for name in _NAMES}
    windows = [item.context_window for item in known if item.context_window is not None]
    return Abilities(**values, context_window=max(windows, default=None))


def _unite_abilities(values: list[bool | None]) -> bool | None:
    if any(values):
        return True
    return None if None in values else False


def united_meta(metas: Sequence[ProviderMeta]) -> ProviderMeta:
    """Return the metadata of a router, given the metadata of its models."""
    dimensions = {meta.dimensions for meta in metas}
    characters = [meta.max_embedding_characters for meta in metas if meta.max_embedding_characters is not None]
    return ProviderMeta(
        "router",
        ", ".join(dict.fromkeys([meta.model for meta in metas])),
        "; ".join([meta.description for meta in metas if meta.description]),
        min([meta.max_embedding_batch for meta in metas]),
        united([meta.abilities for meta in metas]),
        dimensions=dimensions.pop() if len(dimensions) == 1 else None,
        max_embedding_characters=min(characters, default=None),
        embedding_concurrency=min([meta.embedding_concurrency for meta in metas]),
        extras=tuple(dict.fromkeys([kind for meta in metas for kind in meta.extras])),
    )


@final
@dataclass(frozen=True, slots=True)
class Needs:
    """Checks that exclude models that cannot serve a request.

    Only abilities that at least one model declares as missing are checked, so most requests need no check.

    Attributes:
        candidates: the models of the router.
        missing: names of the abilities that at least one model lacks.
    """

    candidates: tuple[Candidate, ...]
    missing: frozenset[str]

    @classmethod
    def of(cls, candidates: tuple[Candidate, ...]) -> Needs:
        """Return the checks for a router with the given candidates."""
        missing = [name for item in candidates for name in _REQUIRED if getattr(item.meta.abilities, name) is False]
        return cls(candidates, frozenset(missing))

    def capable(self, messages: Messages, tools: ToolDeclarations, *, streamed: bool) -> tuple[Candidate, ...]:
        """Return the models that have the abilities needed by a request, or do not declare whether they have them.

        Args:
            messages: conversation of the request.
            tools: tools of the request.
            streamed: whether the response is streamed.

        Raises:
            NoCapableModelError: there is no such model.
        """
        if not self.missing:
            return self.candidates
        needed = needed_abilities(messages, tools, streamed=streamed) & self.missing
        found = tuple([item for item in self.candidates if not lacks(item.meta, needed)])
        if not found:
            who = ", ".join([item.name for item in self.candidates])
            msg = f"the request needs {' and '.join(sorted(needed))}, and no model of the router supports this: {who}"
            raise NoCapableModelError(msg)
        return found


def needed_abilities(messages: Messages, tools: ToolDeclarations, *, streamed: bool) -> set[str]:
    """Return the names of the abilities without which a request fails.

    Args:
        messages: conversation of the request.
        tools: tools of the request.
        streamed: whether the response is streamed.
    """
    needed = {_BY_KIND[file.kind] for file in _find_files(messages) if file.kind in _BY_KIND}
    if streamed:
        needed.add("streaming")
    if any(tool.declared for tool in tools):
        needed.add("tools")
    return needed


def lacks(meta: ProviderMeta, needed: Iterable[str]) -> bool:
    """Return whether a model declares that it lacks one of the needed abilities.

    Args:
        meta: metadata of the model.
        needed: names of abilities.
    """
    return any(getattr(meta.abilities, name) is False for name in needed)


def _find_files(messages: Messages) -> list[File]:
    files: list[File] = []
    for role, turn in messages.view().turns:
        if role == "user":
            files += [part for part in turn.parts if isinstance(part, File)]
        else:
            files += [file for tool in turn.tools if tool.resolved for file in tool.result_files]
    return files


def can_be_longer(failed: ProviderMeta, other: ProviderMeta) -> bool:
    """Return whether a request that exceeds a model's context window may fit into that of another model.

    Args:
        failed: metadata of the model that refused the request.
        other: metadata of the other model.
    """
    window, larger = failed.abilities.context_window, other.abilities.context_window
    return window is None or larger is None or larger > window


def fits(error: Exception, failed: ProviderMeta, other: ProviderMeta) -> bool:
    """Return whether another model may serve a request that failed with `error`.

    Args:
        error: the error that the model raised.
        failed: metadata of the failed model.
        other: metadata of the other model.
    """
    return not isinstance(error, ContextLengthError) or can_be_longer(failed, other)


def options_for(meta: ProviderMeta, options: ChatOptions) -> ChatOptions:
    """Return the options with only the extras that the model accepts.

    Args:
        meta: metadata of the model.
        options: options of the request.
    """
    if not options.extras:
        return options
    kept = tuple([extra for extra in options.extras if _accepts(meta, extra)])
    return options if len(kept) == len(options.extras) else replace(options, extras=kept)


def require_accepted(candidates: Sequence[Candidate], options: ChatOptions) -> None:
    """Check that each of the extras belongs to at least one model.

    Args:
        candidates: the models that may serve the request.
        options: options of the request.

    Raises:
        UnsupportedOptionError: no model accepts one of the extras.
    """
    for extra in options.extras:
        if not any(_accepts(item.meta, extra) for item in candidates):
            who = ", ".join([item.name for item in candidates])
            msg = f"none of these models accepts {type(extra).__name__}: {who}"
            raise UnsupportedOptionError(msg)


def _accepts(meta: ProviderMeta, extra: object) -> bool:
    return isinstance(extra, meta.extras) or getattr(extra, "provider", None) == meta.name
