"""Signatures of JSON Web Tokens, verified by another library."""

from __future__ import annotations

import jwt
import pytest
from chat_core.errors import UsageError
from chat_vertex.signing import signer_for
from vertex_world import key_pair


def test_another_library_verifies_the_signature() -> None:
    private, public = key_pair()
    token = signer_for(private).sign_jwt({"iss": "a", "aud": "b"}, key_id="k")

    assert jwt.decode(token, public, algorithms=["RS256"], audience="b") == {"iss": "a", "aud": "b"}
    assert jwt.get_unverified_header(token) == {"typ": "JWT", "alg": "RS256", "kid": "k"}


def test_the_repr_of_a_signer_does_not_show_its_key() -> None:
    private, _ = key_pair()

    assert "PRIVATE" not in repr(signer_for(private))
    assert private[40:80] not in repr(signer_for(private))


@pytest.mark.parametrize(
    "key", ["", "no-key-but-secret", "-----BEGIN PRIVATE KEY-----\nsecret\n-----END PRIVATE KEY-----"]
)
def test_an_invalid_key_is_rejected_without_showing_it(key: str) -> None:
    with pytest.raises(UsageError, match="not an RSA key in PEM format") as caught:
        signer_for(key)

    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is None
