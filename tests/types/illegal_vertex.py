"""Illegal: what models on Google Cloud cannot have.

Each line that ends in `# E: <regex>` must be rejected, and by a message that matches. A function that ends in
`# R: <regex>` must also fail at run time.
"""

from __future__ import annotations

from chat_vertex import ServiceAccount, TokenSource, VertexBuilder

with_key = VertexBuilder().with_api_key("k")
project = VertexBuilder().with_project("my-project").with_token("t")


def p80_claude_with_a_key() -> None:  # R: AttributeError: Claude on Google Cloud accepts no API key
    with_key.with_claude_model("m")  # E: attribute .?with_claude_model


def p81_a_key_with_a_project() -> None:  # R: AttributeError: with_project\(\) is not available with an API key
    with_key.with_project("my-project")  # E: attribute .?with_project


def p82_a_key_with_a_service_account() -> None:  # R: AttributeError: .*not available with an API key
    with_key.with_service_account_file("key.json")  # E: attribute .?with_service_account_file


def p83_build_without_a_model() -> None:  # R: AttributeError: .*build
    project.build()  # E: attribute .?build


def p84_a_token_that_is_no_text() -> None:  # R: UsageError: with_token\(\) needs a token, not a value of type int
    project.with_token(5)  # E: .


def p85_a_project_that_is_no_text() -> None:  # R: UsageError: project must be a string, not 5
    VertexBuilder().with_project(5)  # E: .


def p86_a_token_in_the_place_of_credentials() -> None:
    project.with_credentials("token")  # E: .


def p87_another_server_of_claude_has_no_native_tools() -> None:  # R: AttributeError: .*with_native_tools
    project.with_claude_model("m").with_native_tools()  # E: attribute .?with_native_tools


def p88_a_source_without_credentials() -> None:
    TokenSource("token")  # E: .


def p89_a_service_account_of_a_number() -> None:  # R: UsageError: the credentials must be a JSON object
    ServiceAccount.from_json(5)  # E: .
