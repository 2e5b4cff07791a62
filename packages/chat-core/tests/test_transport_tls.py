from __future__ import annotations

import ssl

import pytest
from chat_core.transport.tls import TlsContext


@pytest.mark.parametrize("verify", [True, False])
def test_default_tls_context_is_created_once_on_first_use(verify: bool) -> None:
    made: list[bool] = []

    def make(checked: bool) -> ssl.SSLContext:
        made.append(checked)
        return ssl.create_default_context()

    tls = TlsContext(verify, make)
    assert made == []
    assert tls.get() is tls.get()
    assert made == [verify]


def test_tls_context_of_the_caller_is_used_unchanged() -> None:
    context = ssl.create_default_context()
    assert TlsContext(context, lambda _: pytest.fail("no default is needed")).get() is context


def test_missing_certificate_bundle_raises() -> None:
    with pytest.raises(FileNotFoundError):
        TlsContext("missing.pem", lambda _: pytest.fail("no default is needed")).get()
