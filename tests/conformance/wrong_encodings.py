"""Providers that send a conversation, its tools or its options wrong, in one way each."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any

from chat_core import (
    ChatOptions,
    Completed,
    Messages,
    OutputSchema,
    Part,
    Text,
    Tool,
    ToolDeclarations,
    Turn,
)
from chat_core.messages import Role

from .toy import Encoder, Toy
from .wrong_providers import fails_at

Items = list[dict[str, Any]]
EXCHANGED = {"user": "model", "model": "user"}
LATEST = 20
"""Turns that `SendsTheLatestTurns` sends."""


class _NewIds(Encoder, ABC):
    """Results with ids that a subclass chooses."""

    @abstractmethod
    def ids(self, ids: list[str]) -> list[str]: ...

    def turn(self, role: str, turn: Turn) -> Items:
        super().turn(role, turn)  # finds repeated ids
        said = [item for part in turn.parts for item in self.part(role, part)]
        ids = self.ids([self.id_of(tool) for tool in turn.tools])
        results: Items = []
        for tool, id_ in zip(turn.tools, ids, strict=True):
            results += [*({**item, "of": id_} for item in self.result(tool)), *self.beside(tool)]
        return [*said, *results]


# --- Calls and results ----------------------------------------------------------------------------------------------


@fails_at("result_ids")
class ExchangesResults(Toy):
    """Each result of two parallel calls has the id of the other call."""

    class Encoding(_NewIds):
        def ids(self, ids: list[str]) -> list[str]:
            return ids[::-1]


@fails_at("result_ids")
class SendsOneIdForAllResults(Toy):
    """All results have the id of the last call."""

    class Encoding(_NewIds):
        def ids(self, ids: list[str]) -> list[str]:
            return ids[-1:] * len(ids)


@fails_at("call_names")
class SendsCallsUnderAnotherName(Toy):
    """All calls are sent under the name of one tool."""

    class Encoding(Encoder):
        def call(self, tool: Tool) -> Items:
            return [{**item, "call": "weather"} for item in super().call(tool)]


@fails_at("call_names")
class ExchangesNames(Toy):
    """Each of two parallel calls has the name of the other one."""

    class Encoding(Encoder):
        def turn(self, role: str, turn: Turn) -> Items:
            names = iter([tool.name for tool in reversed(turn.tools)])
            return [{**item, "call": next(names)} if "call" in item else item for item in super().turn(role, turn)]


@fails_at("failure_marks")
class SendsFailuresAsResults(Toy):
    """The result of a failed call does not show that the call failed."""

    class Encoding(Encoder):
        def result(self, tool: Tool) -> Items:
            return [{**item, "ok": True} for item in super().result(tool)]


@fails_at("json_results")
class SendsFalsyResultsAsNothing(Toy):
    """A result that is false in Python is sent as an empty text."""

    class Encoding(Encoder):
        def result(self, tool: Tool) -> Items:
            empty = isinstance(tool.status, Completed) and not tool.status.result
            return [{**item, "result": "" if empty else item["result"]} for item in super().result(tool)]


@fails_at("result_ids")
class OmitsEmptyResults(Toy):
    """An empty text is no result, so that the call has none."""

    class Encoding(Encoder):
        def result(self, tool: Tool) -> Items:
            return [item for item in super().result(tool) if item["result"]]


class _Declaring(Toy, ABC):
    """Tools with declarations that a subclass changes."""

    @abstractmethod
    def declared(self, number: int, tool: Any) -> Any: ...

    def body(
        self, messages: Messages, tools: ToolDeclarations, options: ChatOptions, output: OutputSchema | None
    ) -> bytes:
        changed = ToolDeclarations([self.declared(number, tool) for number, tool in enumerate(tools)])
        return super().body(messages, changed, options, output)


@fails_at("declarations")
class DeclaresNumberedTools(_Declaring):
    """Tools are declared under a number, and their names are missing."""

    def declared(self, number: int, tool: Any) -> Any:
        return replace(tool, name=f"tool_{number}")


@fails_at("declarations")
class DeclaresUntypedParameters(_Declaring):
    """Of the parameters of a tool only the names are declared."""

    def declared(self, number: int, tool: Any) -> Any:
        del number
        return replace(tool, parameters={**tool.parameters, "properties": dict.fromkeys(tool.parameters["properties"])})


@fails_at("declarations")
class DeclaresOptionalParameters(_Declaring):
    """The declaration of a tool omits which parameters are required."""

    def declared(self, number: int, tool: Any) -> Any:
        del number
        return replace(tool, parameters={name: tool.parameters[name] for name in ("type", "properties")})


# --- Messages -------------------------------------------------------------------------------------------------------


@fails_at("roles")
class ExchangesRoles(Toy):
    """The texts of the user are sent as those of the model, and those of the model as the user's."""

    class Encoding(Encoder):
        def turn(self, role: str, turn: Turn) -> Items:
            return super().turn(EXCHANGED.get(role, role), turn)


@fails_at("roles")
class SendsEverythingAsTheUser(Toy):
    """The texts of the model are sent as those of the user."""

    class Encoding(Encoder):
        def turn(self, role: str, turn: Turn) -> Items:
            return super().turn("user" if role == "model" else role, turn)


@fails_at("exact_text")
class StripsTexts(Toy):
    """White space at the beginning and at the end of a text is removed."""

    class Encoding(Encoder):
        def part(self, role: str, part: Part) -> Items:
            return super().part(role, Text(part.text.strip()) if isinstance(part, Text) else part)


@fails_at("exact_text")
class DropsWhatIsNotAscii(Toy):
    """Characters outside ASCII are left out."""

    class Encoding(Encoder):
        def part(self, role: str, part: Part) -> Items:
            text = part.text.encode("ascii", "ignore").decode() if isinstance(part, Text) else ""
            return super().part(role, Text(text) if isinstance(part, Text) else part)


@fails_at("words_in_order")
class SendsTheLatestTurns(Toy):
    """The beginning of a long conversation is left out."""

    class Encoding(Encoder):
        def items(self, messages: Messages) -> Items:
            turns: list[tuple[Role, Turn]] = list(messages.view().turns)
            return [item for role, turn in turns[-LATEST:] for item in self.turn(role, turn)]


@fails_at("files")
class SendsTheLastFile(Toy):
    """Of the files of a message only the last one is sent."""

    class Encoding(Encoder):
        def turn(self, role: str, turn: Turn) -> Items:
            items = super().turn(role, turn)
            last = max([place for place, item in enumerate(items) if "look" in item], default=0)
            return [item for place, item in enumerate(items) if "look" not in item or place == last]


@fails_at("files")
class ForgetsEarlierFiles(Toy):
    """Only the files of the latest message are sent."""

    class Encoding(Encoder):
        def items(self, messages: Messages) -> Items:
            *earlier, (role, turn) = messages.view().turns
            before = [item for old, said in earlier for item in self.turn(old, said)]
            kept = [item for item in before if "look" not in item or not earlier or len(earlier) == 1]
            return [*kept, *self.turn(role, turn)]


# --- Options --------------------------------------------------------------------------------------------------------


@fails_at("options")
class DropsZeros(Toy):
    """An option whose value is zero is not sent."""

    def body(
        self, messages: Messages, tools: ToolDeclarations, options: ChatOptions, output: OutputSchema | None
    ) -> bytes:
        return super().body(messages, tools, replace(options, temperature=options.temperature or None), output)


@fails_at("schema_sent")
class SendsPropertyNames(Toy):
    """Of the schema of a structured output only the names of its properties are sent."""

    def body(
        self, messages: Messages, tools: ToolDeclarations, options: ChatOptions, output: OutputSchema | None
    ) -> bytes:
        body = json.loads(super().body(messages, tools, options, output))
        if "schema" in body:
            body["schema"] = list(body["schema"]["properties"])
        return json.dumps(body).encode()
