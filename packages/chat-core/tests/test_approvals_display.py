from __future__ import annotations

import json
import sys
import unicodedata

from chat_core.approvals import escape_invisible, has_invisible

# Default_Ignorable_Code_Point in DerivedCoreProperties.txt of Unicode 16, which is unchanged since Unicode 9.
IGNORABLE = """
00AD 034F 061C 115F..1160 17B4..17B5 180B..180D 180E 180F 200B..200F 202A..202E 2060..2064 2065 2066..206F 3164
FE00..FE0F FEFF FFA0 FFF0..FFF8 1BCA0..1BCA3 1D173..1D17A E0000 E0001 E0002..E001F E0020..E007F E0080..E00FF
E0100..E01EF E01F0..E0FFF
"""
BIDIRECTIONAL = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI", "BN"}


def ignorable() -> set[int]:
    found: set[int] = set()
    for part in IGNORABLE.split():
        first, _, last = part.partition("..")
        found |= set(range(int(first, 16), int(last or first, 16) + 1))
    return found


def must_be_escaped(code: int) -> bool:
    """Return whether a character is a control, a line separator or a bidirectional control in `unicodedata`."""
    char = chr(code)
    if char in "\t\n":
        return False
    return unicodedata.category(char) in {"Cc", "Cs", "Zl", "Zp"} or unicodedata.bidirectional(char) in BIDIRECTIONAL


def test_every_control_bidirectional_and_default_ignorable_character_is_escaped() -> None:
    hidden = ignorable()
    assert len(hidden) == 4174

    for code in range(sys.maxunicode + 1):
        char = chr(code)
        shown = escape_invisible(f"a{char}b")
        if code in hidden or must_be_escaped(code):
            assert shown == f"a{json.dumps(char)[1:-1]}b", hex(code)
            assert has_invisible(char), hex(code)
        elif char.isprintable() or char in "\t\n":
            assert shown == f"a{char}b", hex(code)
            assert not has_invisible(char), hex(code)


def test_escaped_json_parses_to_the_same_value() -> None:
    value = {"to\u3164": "Bo\u202egnp\U000e0100"}
    shown = escape_invisible(json.dumps(value, ensure_ascii=False))

    assert shown == r'{"to\u3164": "Bo\u202egnp\udb40\udd00"}'
    assert json.loads(shown) == value
