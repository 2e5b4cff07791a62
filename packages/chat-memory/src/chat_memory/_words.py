"""Splitting of English texts into words, removal of stop words such as "the", and reduction to stems."""

from __future__ import annotations

import re
from datetime import datetime
from functools import lru_cache
from itertools import pairwise
from typing import Final, Protocol, cast
from unicodedata import normalize

import snowballstemmer  # type: ignore[import-untyped] # pyright: ignore[reportMissingTypeStubs] - no types


class _Stemmer(Protocol):
    def stemWord(self, word: str) -> str: ...  # noqa: N802 - the library's name


_WORD: Final = re.compile(r"[^\W_]+")
_DAY: Final = re.compile("0?([1-9]|[12][0-9]|3[01])(?:st|nd|rd|th)?")
_YEAR: Final = re.compile("[0-9]{4}")
_POSSESSIVE: Final = re.compile(r"(?<=\w)'s\b")
_STEMMER: Final = cast("_Stemmer", snowballstemmer.stemmer("english"))  # pyright: ignore[reportUnknownMemberType] - no types

MONTHS: Final = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november",
    "december",
)  # fmt: skip

_IRREGULAR_FORMS: Final = """
    bear bore born; become became; begin began begun; bend bent; bite bit bitten; blow blew blown; break broke broken;
    bring brought; build built; buy bought; catch caught; child children; choose chose chosen; come came coming;
    deal dealt; dig dug; do did does doing done; draw drew drawn; drink drank drunk; drive drove driven; eat ate eaten;
    fall fell fallen; feed fed; feel felt; fight fought; find found; fly flew flown; foot feet; forget forgot forgotten;
    forgive forgave forgiven; freeze froze frozen; get got gotten; give gave given; go goes gone went;
    grow grew grown; hang hung; have had has having; hear heard; hide hid hidden; hold held; keep kept;
    know knew known; lead led; leave left; lend lent; lie lay lain; light lit; lose lost;
    make made; man men; mean meant; meet met; mouse mice; pay paid; person people; ride rode ridden; rise rose risen;
    run ran; say said; see saw seen; seek sought; sell sold; send sent; shake shook shaken; shoot shot;
    show shown; sing sang sung; sit sat; sleep slept; speak spoke spoken; spend spent; stand stood; steal stole stolen;
    stick stuck; strike struck; sweep swept; swim swam swum; swing swung; take took taken; teach taught; tear tore torn;
    tell told; think thought; throw threw thrown; tooth teeth; understand understood; wake woke woken;
    wear wore worn; wife wives; win won; woman women; write wrote written
"""
_BASE_FORMS: Final = {form: line.split()[0] for line in _IRREGULAR_FORMS.split(";") for form in line.split()}

_STOP_WORDS: Final = """
    a about after also am an and are as at be been before being but by can could d did do don down each for from go had
    has have he her here hers him his how i if im in into is isn it its just let ll m me might mine must my no nor not
    of off on or our ours out over re s shall she should so t than that the their theirs them then there these they this
    those to too up us ve very was wasn we were weren what when where which while who whom whose why will with won would
    you your yours
"""
_QUESTION_WORDS: Final = "any did does ever kind kinds long many much one ones other some type types"
_TIME_WORDS: Final = """
    ago afternoon day evening first friday last later monday month morning next night recently saturday since soon
    sunday thursday today tomorrow tonight tuesday wednesday week weekend year yesterday
"""
_IGNORED_IN_TEXTS: Final = frozenset(_STOP_WORDS.split())
_IGNORED_IN_QUESTIONS: Final = _IGNORED_IN_TEXTS | frozenset(_QUESTION_WORDS.split())


def split_words(text: str) -> list[str]:
    """Return the words and numbers of a text in lower case, in order."""
    lower = normalize("NFC", text).lower().replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")
    return _WORD.findall(_POSSESSIVE.sub("", lower))


@lru_cache(maxsize=50_000)
def stem(word: str) -> str:
    """Return the stem of a word, which is the same for all inflected forms."""
    return _STEMMER.stemWord(_BASE_FORMS.get(word, word))


def stems(text: str, *, question: bool = False) -> list[str]:
    """Return the stems of a text without stop words, in order.

    Args:
        text: the text to split into words.
        question: whether to also omit words that are common in questions, such as "many" and "kind".
    """
    ignored = _IGNORED_IN_QUESTIONS if question else _IGNORED_IN_TEXTS
    return [stem(word) for word in split_words(text) if _BASE_FORMS.get(word, word) not in ignored]


def date_stems(time: datetime) -> frozenset[str]:
    """Return the day, the month and the year of a time as stems."""
    return frozenset((str(time.day), stem(MONTHS[time.month - 1]), str(time.year)))


def date_words(question: str) -> frozenset[str]:
    """Return the days, months and years in a question, in the format of `date_stems()`.

    A number is a day only next to a month, as in "8 May" and "May 8th", and a year only if it has four digits.
    """
    words = split_words(question)
    found: set[str] = set()
    for place, word in enumerate(words):
        if word in MONTHS:
            found.add(stem(word))
            beside = (words[other] for other in (place - 2, place - 1, place + 1) if 0 <= other < len(words))
            found.update(day[1] for name in beside if (day := _DAY.fullmatch(name)))
        elif _YEAR.fullmatch(word):
            found.add(word)
    return frozenset(found)


TIME_STEMS: Final = frozenset(map(stem, (*_TIME_WORDS.split(), *MONTHS)))
"""Stems of time expressions, such as "yesterday"."""


def asks_for_time(question: str) -> bool:
    """Return whether a question asks when, or for how long."""
    words = split_words(question)
    return "when" in words or ("how", "long") in pairwise(words)
