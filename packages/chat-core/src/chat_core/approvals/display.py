"""Detection and escaping of characters that an approver cannot see.

Approvers decide by the displayed arguments. A character that is invisible, or that reorders the text around it, would
make the displayed arguments differ from the arguments that the tool receives.
"""

from __future__ import annotations

import json
import re
from typing import Final

from chat_core.arguments import require_text

_DEFAULT_IGNORABLE: Final = (
    "\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f"
    "\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
"""The 4,174 code points with the Unicode property Default_Ignorable_Code_Point. It includes bidirectional controls."""

_INVISIBLE: Final = re.compile(
    # Also: control characters (except tab and line feed), line separators, surrogates, annotation characters and
    # noncharacters.
    f"[{_DEFAULT_IGNORABLE}\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufff9-\ufffb\ufffe\uffff]"
)


def has_invisible(text: str) -> bool:
    """Return whether the text contains characters that `escape_invisible()` replaces."""
    require_text(text=text)
    return _INVISIBLE.search(text) is not None


def escape_invisible(text: str) -> str:
    r"""Return the text with every control, bidirectional and default-ignorable character replaced by its JSON escape.

    Apply this function to all text from models and tool calls before approvers see the text. Tab and line feed are
    not replaced. The escape of U+3164 is `\u3164`; a character beyond U+FFFF becomes the escapes of its two surrogates.
    An escaped JSON document still has the same value.
    """
    require_text(text=text)
    return _INVISIBLE.sub(lambda found: json.dumps(found[0])[1:-1], text)
