from __future__ import annotations

import ssl

import pytest
from chat_core.transport.tls import TlsContext


@pytest.mark.parametrize("verify", [True, False])
def test_the_default_context_is_made_once(verify: bool) -> None:
    made: list[bool] = []

    def make(checked: bool) -> ssl.SSLContext:
        made.append(checked)
        return ssl.create_default_context()

    tls = TlsContext(verify, make)
    assert made == []
    assert tls.get() is tls.get()
    assert made == [verify]


def test_a_context_of_the_caller_is_used_as_it_is() -> None:
    context = ssl.create_default_context()
    assert TlsContext(context, lambda _: pytest.fail("no default is needed")).get() is context


def test_a_bundle_that_is_missing_is_an_error() -> None:
    with pytest.raises(FileNotFoundError):
        TlsContext("missing.pem", lambda _: pytest.fail("no default is needed")).get()
