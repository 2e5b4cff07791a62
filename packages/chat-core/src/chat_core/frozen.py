"""Read-only JSON objects and arrays, and a fast way to create frozen dataclasses.

`FrozenDict` and `FrozenList` are subclasses of dict and list, so that JSON encoders, pydantic and comparisons accept
them. Every method that would change an instance raises `TypeError`. Shallow and deep copies are ordinary dicts and
lists.
"""

# JSON is untyped, and `cast()` is a function call, which would cost one call per value.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar

KeyT = TypeVar("KeyT")
ItemT = TypeVar("ItemT")

MAX_DEPTH = 200
"""Maximum nesting depth of arrays and objects that `freeze()` accepts."""


def _refuse_change(self: object, *_args: object, **_kwargs: object) -> NoReturn:
    msg = f"this {'object' if isinstance(self, dict) else 'array'} is read-only: change a copy.deepcopy() of it"
    raise TypeError(msg)


class FrozenDict(dict[KeyT, ItemT], Generic[KeyT, ItemT]):
    """A read-only JSON object, implemented as a dict."""

    __slots__ = ()

    if not TYPE_CHECKING:  # for checkers, these keep the signatures of the base class
        __setitem__ = __delitem__ = __ior__ = _refuse_change
        clear = pop = popitem = setdefault = update = _refuse_change

    def __reduce__(self) -> tuple[type[dict[KeyT, ItemT]], tuple[dict[KeyT, ItemT]]]:
        """Make copies and pickles of this object ordinary dicts."""
        return dict, (dict(self),)


class FrozenList(list[ItemT], Generic[ItemT]):
    """A read-only JSON array, implemented as a list."""

    __slots__ = ()

    if not TYPE_CHECKING:  # for checkers, these keep the signatures of the base class
        __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse_change
        append = clear = extend = insert = pop = remove = reverse = sort = _refuse_change

    def __reduce__(self) -> tuple[type[list[ItemT]], tuple[list[ItemT]]]:
        """Make copies and pickles of this array ordinary lists."""
        return list, (list(self),)


_FINAL = frozenset({str, int, float, bool, type(None), FrozenDict, FrozenList})
"""Types of values that are immutable or already frozen."""


def mutable_twin(frozen: type) -> Any:  # noqa: ANN401 - instances are given the class `frozen`
    """Return a class with the slots of a frozen dataclass, whose instances are mutable.

    The `__init__` of a frozen dataclass calls `object.__setattr__` for each field, which takes five times as long as
    filling a mutable object. Python allows the assignment of `__class__` between classes with the same slots:

        instance = twin()
        instance.name = name
        instance.__class__ = frozen

    Args:
        frozen: a dataclass with `frozen=True` and `slots=True`. Its `__post_init__` is not called.
    """
    slots: object = getattr(frozen, "__slots__")  # noqa: B009 - type checkers do not know the attribute
    return type(frozen.__name__, (), {"__slots__": slots})


_put_item: Any = list.__setitem__
_put_member: Any = dict.__setitem__


def freeze(value: Mapping[str, object], /, max_depth: int = MAX_DEPTH) -> FrozenDict[str, object]:
    """Return a deep, read-only copy of a JSON object. Return the object itself if it is already frozen.

    Args:
        value: the object to copy. Values that are not JSON are not copied.
        max_depth: maximum nesting depth of objects and arrays.

    Raises:
        ValueError: the object is nested deeper than `max_depth`, or contains itself.
    """
    if type(value) is FrozenDict or isinstance(value, FrozenDict):
        return value
    root: FrozenDict[str, object] = FrozenDict(value)
    if _FINAL.issuperset(map(type, root.values())):
        return root
    # A loop and not a recursion, because the depth of the call stack is limited.
    level: list[Any] = [root]
    for _ in range(1, max_depth):
        inner: list[Any] = []
        for frozen in level:
            _freeze_members(frozen, inner)
        if not inner:
            return root
        level = inner
    msg = f"nested deeper than {max_depth} levels"
    raise ValueError(msg)


def _freeze_members(frozen: Any, replaced: list[Any]) -> None:  # noqa: ANN401 - JSON has any type
    """Replace the mutable members of a copied array or object by frozen copies.

    Copies that have mutable members themselves are appended to `replaced`.
    """
    is_array = isinstance(frozen, list)
    put: Any = _put_item if is_array else _put_member
    members: Any = enumerate(frozen) if is_array else frozen.items()
    item: Any
    for key, item in members:
        kind: Any = type(item)
        if kind in _FINAL:
            continue
        inner: Any
        if kind is list or kind is tuple:
            inner = FrozenList(item)
            values: Any = inner
        elif kind is dict or isinstance(item, Mapping):
            inner = FrozenDict(item)
            values = inner.values()
        else:
            continue
        put(frozen, key, inner)
        if not _FINAL.issuperset(map(type, values)):
            replaced.append(inner)
