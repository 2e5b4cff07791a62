from __future__ import annotations

import pytest
from chat_core.transport.tracebacks import drop_frames


def refuse() -> None:
    raise OSError("refused")


def fail() -> None:
    try:
        refuse()
    except OSError as error:
        raise ExceptionGroup("several", [ValueError("in a group")]) from error


def test_drop_frames_removes_tracebacks_and_keeps_the_exception_chain() -> None:
    with pytest.raises(ExceptionGroup) as caught:
        fail()
    group = caught.value
    member, cause = group.exceptions[0], group.__cause__
    assert cause is not None
    assert cause.__traceback__ is not None
    member.__context__ = group  # a circle

    drop_frames(group)

    assert [error.__traceback__ for error in (group, cause, member)] == [None, None, None]
    assert group.__cause__ is cause
