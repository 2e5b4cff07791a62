"""Scores of documents by words, neighbors, speakers and dates."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from chat_memory._text_index import TextIndex, normalize_rows
from chat_memory._words import stems
from chat_memory.passages import Document
from hypothesis import given
from hypothesis import strategies as st


def index_of(documents: Sequence[Document]) -> TextIndex:
    return TextIndex(documents, {document.id: Counter(stems(document.text)) for document in documents})


def talk(*texts: str, conversation: str = "a", first: int = 1) -> list[Document]:
    return [
        Document(first + position, "turn", text, conversation=conversation, position=position)
        for position, text in enumerate(texts)
    ]


def test_a_rare_word_scores_higher_than_a_frequent_word() -> None:
    documents = [
        d
        for n, text in enumerate(["tea pot", "tea cup", "tea", "kayak"])
        for d in talk(text, conversation=str(n), first=n + 1)
    ]
    scores = index_of(documents).score("tea kayak").text
    assert int(np.argmax(scores)) == 3


def test_neighbors_of_a_matching_turn_also_match() -> None:
    scores = (
        index_of(talk("hello", "which instrument do you play", "the violin", "nice", "bye")).score("instrument?").text
    )
    assert scores[1] > scores[2] > scores[0] > scores[4] == 0 or scores[4] == 0
    assert scores[2] > scores[0] > 0


def test_a_turn_of_another_conversation_is_not_a_neighbor() -> None:
    documents = [*talk("I play the violin"), *talk("good morning", conversation="b", first=2)]
    scores = index_of(documents).score("violin").text
    assert scores[0] > 0
    assert scores[1] == 0


def test_facts_have_no_neighbors() -> None:
    documents = [Document(1, "fact", "Ben plays the violin", fact="f"), Document(2, "fact", "Ana rows", fact="g")]
    assert list(index_of(documents).score("violin").text > 0) == [True, False]


def test_turns_of_a_speaker_named_in_the_question_are_preferred() -> None:
    documents = [
        Document(n, "turn", "I moved", conversation=str(n), speaker=speaker)
        for n, speaker in enumerate(["Ana", "Ben", None], 1)
    ]
    assert list(index_of(documents).score("Why did Ben move?").speaker) == [0, 1, 0]


def test_the_roles_of_a_chat_are_not_names_of_speakers() -> None:
    documents = [
        Document(n, "turn", "I moved", conversation=str(n), speaker=speaker)
        for n, speaker in enumerate(["user", "model"], 1)
    ]
    index = index_of(documents)
    assert list(index.score("Which model of car did the user buy?").speaker) == [0, 0]
    assert index.without_speakers("Model of the User?") == "Model of the User?"


def test_a_number_that_is_no_date_does_not_match_a_date() -> None:
    document = Document(1, "turn", "we met", conversation="a", said_at=datetime(2023, 5, 3, tzinfo=UTC))
    scores = index_of([document]).score("Where are my 3 pets?")
    assert (scores.text[0], scores.date[0]) == (0, 0)


def test_only_the_rarest_words_of_a_long_question_are_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    words = [f"word{n}" for n in range(200)]
    index = index_of([*talk(*[" ".join(words)] * 2), *talk("violin", conversation="b", first=3)])
    searched: list[object] = []
    add = TextIndex._add_to_neighbors  # pyright: ignore[reportPrivateUsage] - the work for each word

    def count(*arguments: Any) -> npt.NDArray[np.float64]:
        searched.append(arguments)
        return add(*arguments)

    monkeypatch.setattr(TextIndex, "_add_to_neighbors", count)
    scores = index.score(" ".join([*words, "violin", *(f"unknown{n}" for n in range(100))]))
    assert len(searched) == 64
    assert scores.text[2] > 0


def test_turns_of_a_date_named_in_the_question_are_preferred() -> None:
    times = [datetime(2023, 5, 8, tzinfo=UTC), datetime(2022, 5, 9, tzinfo=UTC), None]
    documents = [Document(n, "turn", "we met", conversation=str(n), said_at=time) for n, time in enumerate(times, 1)]
    assert list(index_of(documents).score("Who did we meet on 8 May 2023?").date) == [1, 1 / 3, 0]


def test_turns_that_mention_a_time_are_preferred_by_a_question_about_time() -> None:
    index = index_of(talk("I ran a race last Saturday", "I ran a race"))
    assert list(index.score("When did she run?").time) == [1, 0]
    assert list(index.score("Where did she run?").time) == [0, 0]


def test_turns_of_the_best_matching_conversation_are_preferred() -> None:
    documents = [*talk("violin", "tea", "violin"), *talk("violin", "tea", "tea", conversation="b", first=4)]
    conversation = index_of(documents).score("violin").conversation
    assert conversation[0] == conversation[1] == 1
    assert 0 < conversation[3] < 1


def test_an_empty_index_or_question_has_no_scores() -> None:
    assert len(index_of([]).score("violin").text) == 0
    assert not index_of(talk("violin")).score("who is it?").text.any()


@given(st.lists(st.sampled_from(["tea", "violin", "kayak", "pot", "race"]), min_size=1, max_size=12), st.integers())
def test_scores_do_not_depend_on_the_order_of_documents(words: list[str], seed: int) -> None:
    documents = [*talk(*words), *talk(*reversed(words), conversation="b", first=100)]
    shuffled = sorted(documents, key=lambda document: hash((document.id, seed)))
    one, other = index_of(documents), index_of(shuffled)
    question = "tea violin race"
    assert [d.id for d in one.documents] == [d.id for d in other.documents]
    assert np.array_equal(one.score(question).text, other.score(question).text)


@given(st.lists(st.sampled_from(["tea", "violin", "kayak"]), min_size=1, max_size=8))
def test_text_scores_are_between_0_and_1(words: list[str]) -> None:
    scores = index_of(talk(*words)).score("tea violin kayak").text
    assert (scores >= 0).all()
    assert (scores <= 1).all()


def test_scores_are_equal_in_every_process() -> None:
    program = (
        "from collections import Counter; from chat_memory._text_index import TextIndex; "
        "from chat_memory._words import stems; from chat_memory.passages import Document; "
        "texts = ['tea violin kayak harp drum race', 'tea harp pot lemon zebra', 'violin kayak orange'] * 3; "
        "documents = [Document(n, 'turn', text, conversation=str(n)) for n, text in enumerate(texts, 1)]; "
        "index = TextIndex(documents, {d.id: Counter(stems(d.text)) for d in documents}); "
        "print(index.score('tea violin kayak pot race harp lemon orange drum zebra').text.tolist())"
    )
    printed = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": str(seed)},
            check=True,
            capture_output=True,
        ).stdout
        for seed in (1, 6)
    }
    assert len(printed) == 1


def test_vectors_are_averaged_with_their_neighbors() -> None:
    vectors = np.array([[1, 0], [0, 1], [0, 0]], dtype=np.float32)
    averaged = index_of([*talk("a", "b"), *talk("c", conversation="b", first=3)]).average_neighbors(vectors)
    assert np.allclose(averaged[0], normalize_rows(np.array([[1, 0.4]], dtype=np.float32))[0])
    assert np.allclose(averaged[1], normalize_rows(np.array([[0.6, 1]], dtype=np.float32))[0])
    assert not averaged[2].any()
