"""The connection settings that the builders of all providers share."""

from __future__ import annotations

import sys
import traceback
from dataclasses import dataclass
from typing import cast

import pytest
from chat_core.errors import UsageError
from chat_core.testing import MockTransport
from chat_core.transport import Transport
from chat_core.wire.connection import (
    AddressBuilder,
    Connection,
    KeySource,
    default_transport,
    naming_variable,
    read_environment,
    require_model,
    require_provider_name,
    require_secret,
    require_url,
    without_frames,
)
from chat_core.wire.endpoint import Endpoint


@dataclass(frozen=True, slots=True)
class KeySettings(Connection):
    """Settings of a server that expects the key in a separate header."""

    @property
    def key_header(self) -> str:
        return "x-key"


class Builder(AddressBuilder[Connection]):
    __slots__ = ()

    @property
    def settings(self) -> Connection:
        return self._settings

    def _missing_method_hint(self, name: str) -> str | None:
        return "build() needs a model" if name == "build" else None


def test_api_key_replaces_every_credential_set_before() -> None:
    settings = KeySettings().with_headers({"X-Key": "1", "Authorization": "2", "X-Title": "t"})
    assert dict(settings.with_credentials("x-key", "3").headers) == {"x-key": "3", "x-title": "t"}
    assert dict(settings.with_credentials("authorization", "4").headers) == {
        "authorization": "Bearer 4",
        "x-title": "t",
    }


def test_header_replaces_the_header_of_the_same_name_in_any_case() -> None:
    settings = KeySettings().with_credentials("x-key", "1").with_headers({"X-KEY": "2", "Authorization": "3"})
    assert dict(settings.headers) == {"x-key": "2", "authorization": "3"}


@pytest.mark.parametrize("name", ["X-Key", "authorization"])
def test_has_credentials_finds_a_key_in_either_header(name: str) -> None:
    assert not KeySettings().with_headers({"x-title": "t"}).has_credentials
    assert KeySettings().with_headers({name: "1"}).has_credentials


def test_repr_of_connection_settings_shows_no_secret() -> None:
    settings = KeySettings().with_credentials("x-key", "s3cret").with_headers({"x-other": "s3cret"})
    assert "s3cret" not in repr(settings)


def test_builder_methods_return_a_new_builder_of_the_same_class() -> None:
    first, transport = Builder(Connection()), MockTransport()
    second = first.with_api_key(" k\n").with_headers({"A": "1"}).with_transport(transport).with_base_url("http://h")
    assert first.settings == Connection()
    assert isinstance(second, Builder)
    assert dict(second.settings.headers) == {"authorization": "Bearer k", "a": "1"}
    assert second.settings.transport_or_default() is transport
    assert second.settings.base_url == "http://h"


def test_method_missing_in_a_builder_state_raises_with_an_explanation() -> None:
    builder = Builder(Connection())
    with pytest.raises(AttributeError, match="needs a model"):
        getattr(builder, "build")  # noqa: B009 - no checker lets it pass
    with pytest.raises(AttributeError, match="'Builder' object has no attribute 'fly'"):
        getattr(builder, "fly")  # noqa: B009 - not declared


def test_with_transport_raises_if_the_value_is_not_a_transport() -> None:
    with pytest.raises(UsageError, match="needs a Transport"):
        Builder(Connection()).with_transport(cast("Transport", object()))


@pytest.mark.parametrize("value", ["", " \n", None])
def test_empty_api_key_raises(value: str | None) -> None:
    with pytest.raises(UsageError, match=r"with_api_key\(\) needs a key, but got an empty value"):
        require_secret("with_api_key", cast("str", value), "a key")


def test_api_key_of_another_type_raises_without_showing_it() -> None:
    with pytest.raises(UsageError, match=r"with_api_key\(\) needs a key, not a value of type bytes$"):
        require_secret("with_api_key", cast("str", b"s3cret"), "a key")


def test_empty_model_or_provider_name_raises() -> None:
    assert require_model("with_model", "m") == "m"
    assert require_provider_name("p") == "p"
    with pytest.raises(UsageError, match=r"with_model\(\) needs the name of a model, not ''"):
        require_model("with_model", "")
    with pytest.raises(UsageError, match="needs a name"):
        require_provider_name("")


def test_invalid_base_url_raises_without_showing_its_password() -> None:
    assert require_url("with_base_url", "http://h") == "http://h"
    with pytest.raises(UsageError, match="not 'host/v1'"):
        require_url("with_base_url", "me:s3cret@host/v1")
    with pytest.raises(UsageError, match="not None"):
        require_url("with_base_url", cast("str", None))


def test_read_environment_returns_the_first_variable_that_is_not_blank(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIRST_KEY", " ")
    monkeypatch.setenv("SECOND_KEY", " b ")
    assert read_environment("NO_SUCH_KEY", "FIRST_KEY", "SECOND_KEY") == "b"
    assert read_environment("NO_SUCH_KEY") is None
    with pytest.raises(UsageError, match=r"^FIRST_KEY: with_base_url\(\) needs"), naming_variable("FIRST_KEY"):
        require_url("with_base_url", "x")


def test_missing_default_transport_raises_and_names_the_package_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "chat_transport_httpx", None)
    with pytest.raises(UsageError, match="install chat-transport-httpx"):
        default_transport()
    with pytest.raises(UsageError, match="install chat-transport-httpx"):
        Connection().transport_or_default()


def test_with_transport_raises_for_a_class() -> None:
    with pytest.raises(UsageError, match=r"with_transport\(\) needs a Transport .* create an instance of that class"):
        Builder(Connection()).with_transport(cast("Transport", MockTransport))


def test_white_space_around_a_url_is_removed() -> None:
    assert require_url("with_base_url", " http://h/v1\n") == "http://h/v1"


def variables_of(error: BaseException) -> str:
    """Return the variables in the frames of an error, except those of this module."""
    frames: list[str] = []
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename != __file__:
            frames.append(repr(trace.tb_frame.f_locals))
        trace = trace.tb_next
    return "".join(frames)


async def secret_with_a_quotation_mark() -> str:
    return "secret-key-”abc"


@pytest.mark.anyio
async def test_a_key_that_http_does_not_allow_is_not_in_the_frames_of_the_error() -> None:
    with pytest.raises(UsageError, match="U\\+201D") as caught:
        Builder(Connection()).with_api_key("secret-key-”abc")
    assert "secret-key" not in variables_of(caught.value)

    endpoint = Endpoint("http://host", {}, KeySource("authorization", secret_with_a_quotation_mark))
    with pytest.raises(UsageError, match="U\\+201D") as caught:
        await endpoint.authorize(endpoint.request("/", b"", None, stream=False))
    assert "secret-key" not in variables_of(caught.value)


def test_other_errors_keep_their_frames() -> None:
    @without_frames
    def fail() -> None:
        raise ValueError

    with pytest.raises(ValueError) as caught:
        fail()
    assert "fail" in [entry.name for entry in traceback.extract_tb(caught.value.__traceback__)]
