"""Recorded requests are rebuilt and encoded, and the result has the meaning of the recorded request."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from typing import cast

from chat_core.messages import Messages
from chat_gemini.codec import encode_conversation

from ..exchanges import ROOT, require_wire
from ..listed import judge, read_listed, read_rows, score
from ..normalise import Json, Object
from .encoding import accepted, found, sent
from .normalise import EQUIVALENCES, differences
from .rebuild import rebuild
from .replay import continuations

require_wire()

PAGE = ROOT / "docs" / "differences-gemini.md"
CHATS = [exchange for exchange in accepted() if exchange.api == "generate-content"]


def test_accepted_requests_are_encoded_equivalently_except_listed_differences() -> None:
    wrong = judge(found(), read_listed("Requests", PAGE))
    assert not wrong, "\n".join(wrong[:60])


def test_recorded_responses_are_sent_back_as_their_vendor_requires() -> None:
    unlike = {continuation.id: differences for continuation, differences in continuations()}
    wrong = judge(unlike, read_listed("Responses sent back", PAGE))
    assert not wrong, "\n".join(wrong[:60])
    assert len(unlike) >= 36


def test_the_documentation_page_states_the_current_score() -> None:
    judged = [((item.api, *item.features), found().get(item.id, ())) for item in accepted()]
    table = score(judged, "generate-content", "embeddings", "count-tokens")
    lines = "\n".join([f"| {' | '.join(row)} |" for row in table])
    assert read_rows("Score of requests", PAGE) == table, f"the score is now:\n{lines}"


def test_the_documentation_page_lists_the_equivalences() -> None:
    table = [[item.name, item.same, item.reason] for item in EQUIVALENCES]
    rows = [[cell.replace("`", "") for cell in row] for row in read_rows("Equivalent requests", PAGE)]
    lines = "\n".join([f"| {' | '.join(row)} |" for row in table])
    assert rows == [[cell.replace("`", "") for cell in row] for row in table], lines


def test_repeated_and_reloaded_requests_have_identical_bytes() -> None:
    for exchange in CHATS:
        said = rebuild(exchange.asked or {}, exchange.provider)
        first = sent(said)
        assert first == sent(said), exchange.id
        stored = Messages.from_json(said.messages.to_json())
        assert first == sent(replace(said, messages=stored)), exchange.id


def test_an_appended_turn_does_not_change_the_encoding_of_earlier_turns() -> None:
    """The vendor caches prompts by prefix."""
    for exchange in CHATS:
        said = rebuild(exchange.asked or {}, exchange.provider)
        before = encode_conversation(said.messages.view(), said.dialect)
        said.messages.user("And now?")
        assert encode_conversation(said.messages.view(), said.dialect).startswith(before[:-1]), exchange.id


def test_signatures_are_sent_back_unchanged() -> None:
    signed = 0
    for exchange in CHATS:
        text = json.dumps(exchange.asked)
        body = sent(rebuild(exchange.asked or {}, exchange.provider)).decode()
        for part in text.split('"thoughtSignature": "')[1:] + text.split('"thought_signature": "')[1:]:
            assert f'"thoughtSignature":"{part.partition(chr(34))[0]}"' in body, exchange.id
            signed += 1
    assert signed > 20


def _mutations(value: Json, path: str) -> list[tuple[str, Json]]:
    """Yield the value with one change, for every kind of change and every place."""
    if isinstance(value, dict):
        changed: list[tuple[str, Json]] = [(f"{path}+", {**value, "another": "field"})]
        for key, item in value.items():
            changed += [(where, {**value, key: new}) for where, new in _mutations(item, f"{path}.{key}")]
        return changed
    if isinstance(value, list):
        found: list[tuple[str, Json]] = [(f"{path}+", [*value, "another"])]
        for index, item in enumerate(value):
            rest = [copy.copy(one) for one in value]
            for where, new in _mutations(item, f"{path}[{index}]"):
                found.append((where, [*rest[:index], new, *rest[index + 1 :]]))
        return found
    if isinstance(value, str):
        return [(path, f"{value}x")]
    return (
        [(path, not value)] if isinstance(value, bool) else [(path, 7 if value is None else cast("float", value) + 1)]
    )


FREE = (".role", "$schema", ".systemInstruction.parts+", ".thinkingLevel")
"""What may change without a change of meaning, or cannot be told from what may."""


def test_any_other_change_of_a_request_is_a_difference() -> None:
    for exchange in [item for item in CHATS if len(json.dumps(item.asked)) < 3000][::12]:
        asked = cast("Object", exchange.asked)
        for where, mutant in _mutations(asked, ""):
            if not any(free in where for free in FREE):
                assert differences(asked, cast("Object", mutant)), f"{exchange.id}: {where}"
