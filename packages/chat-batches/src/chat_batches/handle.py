"""The handle of a submitted batch, which can be stored as JSON and loaded in another process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Self, cast, final

from chat_core.arguments import require_type
from chat_core.batches import Batch, request_id
from chat_core.errors import InvalidDocumentError
from chat_core.json import dumps, loads_limited

VERSION: Final = 1
"""Version of the JSON form of a handle."""


@final
@dataclass(frozen=True, slots=True)
class BatchMember:
    """A conversation of a batch.

    Attributes:
        id: id of the conversation, chosen by the application.
        inputs: number of user turns in the conversation when it was submitted. The answer is appended only if the
            conversation still has this number of user turns.
        responses: number of model turns after the last user turn when the conversation was submitted. If there are
            more, the conversation already contains the answer.
    """

    id: str
    inputs: int
    responses: int = 0

    def to_list(self) -> list[str | int]:
        """Return the member as a JSON array."""
        return [self.id, self.inputs, self.responses]


@final
@dataclass(frozen=True, slots=True)
class BatchHandle:
    """A reference to a submitted batch. Store the text of `to_json()`. Any process can load it with `from_json()`.

    Attributes:
        provider: name of the provider.
        model: name of the model.
        batch: the batch at the provider.
        members: the conversations, in the order of the requests.
    """

    provider: str
    model: str
    batch: Batch
    members: tuple[BatchMember, ...] = field(repr=False)

    @property
    def id(self) -> str:
        """The id of the batch at the provider."""
        return self.batch.id

    def to_json(self) -> str:
        """Return the handle as JSON."""
        fields: dict[str, object] = {
            "version": VERSION,
            "provider": self.provider,
            "model": self.model,
            "id": self.batch.id,
            "name": self.batch.name,
            "data": dict(self.batch.data),
            "members": [member.to_list() for member in self.members],
        }
        return dumps(fields)

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Load a handle from the text that `to_json()` returned.

        Raises:
            InvalidDocumentError: the text is not a valid handle.
            UsageError: `text` is neither a string nor bytes.
        """
        require_type("text", text, (str, bytes), "a string or bytes")
        try:
            value = loads_limited(text)
        except ValueError as error:
            msg = "the text is not a batch handle: pass the text that to_json() returned"
            raise InvalidDocumentError(msg) from error
        fields = _require_object(value, "the handle")
        if fields.get("version") != VERSION:
            msg = f"the version of a batch handle must be {VERSION}, not {fields.get('version')!r}"
            raise InvalidDocumentError(msg, path="version")
        provider, model, id_, name = [_require_text(fields, name) for name in ("provider", "model", "id", "name")]
        data = _require_object(fields.get("data"), "data")
        batch = Batch(id_, name, {key: _require_text(data, key) for key in data})
        return cls(provider, model, batch, members_from_json(fields.get("members")))


def request_index(name: str, id_: str) -> int | None:
    """Return the index of the conversation for a request id, or `None` if the id belongs to another batch.

    Args:
        name: unique name of the batch.
        id_: id of the request.
    """
    digits = id_.removeprefix(f"{name}-")
    if not digits.isdecimal() or len(digits) > len(str(1 << 31)):
        return None
    index = int(digits)
    return index if request_id(name, index) == id_ else None


def members_from_json(value: object) -> tuple[BatchMember, ...]:
    """Return the conversations of a batch from their JSON form, a list of lists.

    Raises:
        InvalidDocumentError: the value is not a list of lists of an id and two numbers.
    """
    members: list[BatchMember] = []
    for item in cast("list[object]", value) if isinstance(value, list) else [None]:
        match item:
            case [str() as id_, int() as inputs, int() as responses]:
                members.append(BatchMember(id_, inputs, responses))
            case _:
                msg = f"the members of a batch must be lists of an id and two numbers, not {item!r}"
                raise InvalidDocumentError(msg, path="members")
    return tuple(members)


def _require_object(value: object, name: str) -> Mapping[str, object]:
    if isinstance(value, dict):
        return cast("dict[str, object]", value)
    msg = f"{name} must be a JSON object, not {value!r}"
    raise InvalidDocumentError(msg)


def _require_text(fields: Mapping[str, object], name: str) -> str:
    value = fields.get(name)
    if isinstance(value, str):
        return value
    msg = f"{name} must be a string, not {value!r}"
    raise InvalidDocumentError(msg, path=name)
