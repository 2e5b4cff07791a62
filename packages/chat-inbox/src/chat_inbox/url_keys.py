"""How conversations and calls are named in an address, whatever their ids are made of."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote, unquote


def key_of(*ids: str) -> str:
    """Ids as one word of an address: of a conversation, or of a call by its path.

    Ids of letters, digits, `-`, `_`, `.` and `~` stand as they are. A server decodes an address once, before anybody
    sees it; the word survives that where it is quoted once more, as `quote_key` does.
    """
    words = [_word(name) for name in ids]
    return ",".join(words)


def ids_of(key: str) -> tuple[str, ...]:
    """The ids that `key_of` was given."""
    return tuple(["" if word == "%" else _name(word) for word in key.split(",")])


def quote_key(ids: Sequence[str]) -> str:
    """The word of these ids, as it stands in an address."""
    return quote(key_of(*ids), safe=",")


def _word(name: str) -> str:
    if not name:
        return "%"
    # Half of a character, which a model may put into the id of a call, has an address, too.
    word = quote(name, safe="", errors="surrogatepass")
    # A browser takes `.` and `..` for steps in an address.
    return word.replace(".", "%2E") if set(word) == {"."} else word


def _name(word: str) -> str:
    try:
        return unquote(word, errors="surrogatepass")
    except UnicodeDecodeError:  # no id has these bytes
        return unquote(word)
