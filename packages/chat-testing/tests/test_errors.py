from __future__ import annotations

import pytest
from chat_testing import NonconformingError
from chat_testing.errors import fail


def test_fail_raises_nonconforming_error_with_its_message() -> None:
    with pytest.raises(AssertionError, match=r"^the provider dropped a call$") as caught:
        fail("the provider dropped a call")

    assert type(caught.value) is NonconformingError
