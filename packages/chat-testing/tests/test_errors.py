from __future__ import annotations

import pytest
from chat_testing import NonconformingError
from chat_testing.errors import fail


def test_a_broken_promise_is_a_failed_assertion_with_a_sentence() -> None:
    with pytest.raises(AssertionError, match=r"^the provider dropped a call$") as caught:
        fail("the provider dropped a call")

    assert type(caught.value) is NonconformingError
